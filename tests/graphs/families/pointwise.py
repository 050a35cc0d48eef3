"""Element by element, for every kind of numbers."""

from __future__ import annotations

from tests.graphs.scope import Scope, step
from tests.graphs.values import REALS, ROUNDED, Range, Value

_BOOLS = Range(1.0)


def is_real(value: Value) -> bool:
    return value.is_real


def is_float(value: Value) -> bool:
    return value.is_float


def is_number(value: Value) -> bool:
    return value.is_real or value.dtype == "complex64"


def is_sharp(value: Value) -> bool:
    """Of numbers whose comparisons have one outcome."""
    return value.is_real and value.is_exact


@step("pointwise", is_number, weight=2, smooth=True)
def arithmetic(scope: Scope, v: Value) -> None:
    other = scope.like(v)
    kind = scope.rng.choice(("+", "-", "*"))
    held = v.range.times(other.range) if kind == "*" else v.range.plus(other.range)
    scope.emit(f"{v} {kind} {other}", held)


@step("pointwise", is_real, smooth=True)
def bounds(scope: Scope, v: Value) -> None:
    other = scope.like(v)
    text = scope.rng.choice((f"jnp.maximum({v}, {other})", f"jnp.minimum({v}, {other})", f"jnp.clip({v}, 1, 3)"))
    scope.emit(text, v.range.joined(other.range))


@step("pointwise", is_number)
def unary(scope: Scope, v: Value) -> None:
    scope.emit(f"{scope.rng.choice(('lax.neg', 'jnp.square'))}({v})", v.range.times(v.range))


@step("pointwise", is_real)
def signs(scope: Scope, v: Value) -> None:
    if v.is_exact:
        scope.emit(f"{scope.rng.choice(('jnp.abs', 'lax.sign'))}({v})", v.range.joined(_BOOLS))


@step("pointwise", is_float, weight=2, smooth=True)
def rounding(scope: Scope, v: Value) -> None:
    kinds = ("jnp.tanh({})", "jnp.sin({})", "jax.nn.sigmoid({})", "jnp.exp(-jnp.square({}))", "jnp.arctan({})")
    scope.emit(scope.rng.choice(kinds).format(v), ROUNDED)


@step("pointwise", is_float, smooth=True)
def positive(scope: Scope, v: Value) -> None:
    kinds = ("lax.rsqrt({} * {} + 1)", "jnp.log1p({} * {})", "1 / ({} * {} + 1)", "jnp.sqrt({} * {} + 1)")
    scope.emit(scope.rng.choice(kinds).format(v, v), Range(max(4.0, v.range.bound + 1), 0.0))


@step("pointwise", is_float, weight=0.5)
def whole(scope: Scope, v: Value) -> None:
    if v.is_exact:
        kind = scope.rng.choice(("jnp.floor", "jnp.ceil", "jnp.round"))
        scope.emit(f"{kind}({v} * 0.5)", Range(v.range.bound))


@step("integer", lambda v: v.is_integer or v.dtype == "bool")
def bitwise(scope: Scope, v: Value) -> None:
    other = scope.like(v)
    kinds = ["{} & {}", "{} | {}", "{} ^ {}"]
    if v.is_integer:
        kinds += ["lax.population_count({} & {})", "lax.shift_left({}, {} & 3)", "lax.shift_right_logical({}, {} & 7)"]
    elif v.dtype == "bool":
        kinds += ["~({} & {})"]
    held = _BOOLS if v.dtype == "bool" else Range(2.0**31)
    scope.emit(scope.rng.choice(kinds).format(v, other), held)


@step("integer", lambda v: v.is_integer)
def division(scope: Scope, v: Value) -> None:
    other, kind = scope.like(v), scope.rng.choice(("lax.div", "lax.rem", "jnp.floor_divide"))
    scope.emit(f"{kind}({v}, {other} | 1)", v.range.joined(other.range))


@step("compare", is_sharp)
def compare(scope: Scope, v: Value) -> None:
    other = scope.like(v)
    if other.is_exact:
        scope.emit(f"{v} {scope.rng.choice(('<', '<=', '==', '!='))} {other}", _BOOLS)


@step("compare", is_sharp)
def select(scope: Scope, v: Value) -> None:
    one = scope.like(v)
    mask = scope.pick(lambda value: value.dtype == "bool" and value.shape == v.shape)
    chosen = mask or f"({v} > 0)"
    scope.emit(f"jnp.where({chosen}, {v}, {one})", v.range.joined(one.range))


@step("convert", lambda v: v.dtype != "complex64", weight=2)
def convert(scope: Scope, v: Value) -> None:
    dtype = scope.rng.choice([name for name in (*REALS, "float32", "int32", "bool") if name != v.dtype])
    if dtype in ("uint8", "uint32") and not v.is_integer:
        return  # of negative numbers that is undefined
    if v.is_float and not (v.is_exact or dtype in ("float32", "bfloat16", "float16")):
        return
    if dtype == "int8" and v.is_float and v.range.bound > 127:
        return
    narrow = {"int8": 128.0, "uint8": 256.0, "uint32": 2.0**32, "bool": 1.0}
    bound = narrow.get(dtype, v.range.bound) if dtype in ("uint8", "uint32", "bool") else v.range.bound
    grain = 1.0 if dtype not in ("float32", "bfloat16", "float16") else v.range.grain
    scope.emit(f"{v}.astype({dtype!r})", Range(min(bound, narrow.get(dtype, bound)), grain))


@step("convert", lambda v: v.is_float and v.is_exact, weight=0.4)
def bits(scope: Scope, v: Value) -> None:
    to = scope.rng.choice(("uint32", "uint8")) if v.dtype == "float32" else "uint8"
    # -0.0 is what sums of other parts may give for 0.0; XLA takes `+ 0` out
    scope.emit(
        f"lax.bitcast_convert_type(jnp.where({v} == 0, 0, {v}), jnp.{to})", Range(256.0 if to == "uint8" else 2.0**32)
    )


@step("complex", lambda v: v.dtype == "float32", weight=0.5)
def to_complex(scope: Scope, v: Value) -> None:
    other = scope.like(v)
    scope.emit(f"lax.complex({v}, {other})", v.range.plus(other.range))


@step("complex", lambda v: v.dtype == "complex64", weight=2)
def of_complex(scope: Scope, v: Value) -> None:
    kind = scope.rng.choice(("jnp.real", "jnp.imag", "jnp.conj", "jnp.abs"))
    scope.emit(f"{kind}({v})", v.range if kind != "jnp.abs" else Range(v.range.bound, 0.0))


@step("convert", is_float, weight=0.3)
def precision(scope: Scope, v: Value) -> None:
    scope.emit(f"lax.reduce_precision({v}, 5, 4)", v.range)


@step("barrier", is_number, weight=0.3)
def barrier(scope: Scope, v: Value) -> None:
    scope.emit(f"lax.optimization_barrier({v})", v.range)
