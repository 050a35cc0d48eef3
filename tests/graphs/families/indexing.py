"""Places that are known when the program runs: dynamic slices, gathers, scatters, sorts."""

from __future__ import annotations

from tests.graphs.families.moves import any_dim, is_full
from tests.graphs.families.pointwise import is_sharp
from tests.graphs.scope import Scope, step
from tests.graphs.values import Range, Value


def _index(scope: Scope) -> str:
    """A number from the program, or a constant: it may lie outside."""
    scalar = scope.pick(lambda one: one.dtype == "int32" and one.rank == 0)
    if scalar is not None and scope.rng.random() < 0.7:
        return str(scalar)
    vector = scope.pick(lambda one: one.dtype == "int32" and one.rank == 1 and one.size > 0)
    if vector is not None and scope.rng.random() < 0.6:
        return f"{vector}[{scope.rng.randrange(vector.size)}]"
    return str(scope.rng.randint(-1, 6))


def _starts(scope: Scope, v: Value) -> str:
    return f"({''.join(f'{_index(scope)}, ' for _ in v.shape)})"


@step("dynamic slice", is_full, weight=1.5)
def dynamic_slice(scope: Scope, v: Value) -> None:
    sizes = tuple(size if scope.rng.random() < 0.5 else scope.rng.randint(1, size) for size in v.shape)
    scope.emit(f"lax.dynamic_slice({v}, {_starts(scope, v)}, {sizes})", v.range)


@step("dynamic update", is_full, weight=1.5)
def dynamic_update(scope: Scope, v: Value) -> None:
    sizes = [size if scope.rng.random() < 0.5 else scope.rng.randint(1, size) for size in v.shape]
    update = scope.fitting(sizes, v.dtype)
    text = f"lax.dynamic_update_slice({v}, {update}, {_starts(scope, v)})"
    scope.emit(text, v.range.joined(update.range))


def _indices(scope: Scope, rank: int | None = None) -> Value:
    there = scope.pick(lambda one: one.dtype == "int32" and one.rank in ((1, 2) if rank is None else (rank,)))
    if there is not None and there.size and scope.rng.random() < 0.7:
        return there
    shape = [scope.rng.choice(scope.writer.sizes) for _ in range(rank or scope.rng.choice((1, 1, 2)))]
    return scope.fitting(shape, "int32")


@step("gather", lambda v: is_full(v) and v.dtype != "complex64", weight=2)
def take(scope: Scope, v: Value) -> None:
    dim, indices = any_dim(scope, v), _indices(scope)
    mode = scope.rng.choice(("mode='clip'", "mode='wrap'", "mode='fill', fill_value=2"))
    scope.emit(f"jnp.take({v}, {indices}, {dim}, {mode})", v.range.joined(Range()))


@step("gather", lambda v: is_full(v) and v.dtype != "complex64")
def take_along(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)
    shape = [scope.rng.choice(scope.writer.sizes) if at == dim else size for at, size in enumerate(v.shape)]
    indices = scope.fitting(shape, "int32")
    scope.emit(f"jnp.take_along_axis({v}, {indices}, {dim}, mode='clip')", v.range)


@step("gather", lambda v: v.rank > 1 and is_full(v))
def elements(scope: Scope, v: Value) -> None:
    """Two dimensions at once, one of them often counted through."""
    first = _indices(scope, 1)
    other = scope.like(first) if scope.rng.random() < 0.5 else None
    second = str(other) if other else f"jnp.arange({first.size})"
    scope.emit(f"{v}.at[{first}, {second}].get(mode='clip')", v.range)


@step("scatter", lambda v: is_full(v) and is_sharp(v), weight=2)
def scatter(scope: Scope, v: Value) -> None:
    """Rows that are added, or of which the largest counts: in any order the same."""
    dim, indices = any_dim(scope, v), _indices(scope, 1)
    shape = (*v.shape[:dim], indices.size, *v.shape[dim + 1 :])
    updates = scope.fitting(shape, v.dtype)
    if not updates.is_exact:
        return
    kind = scope.rng.choice(("add", "add", "max", "min"))
    at = ":, " * dim + str(indices)
    held = v.range.plus(updates.range.summed(indices.size))
    scope.emit(f"{v}.at[{at}].{kind}({updates}, mode={scope.rng.choice(('drop', 'clip'))!r})", held)


@step("scatter", lambda v: is_full(v))
def scatter_unique(scope: Scope, v: Value) -> None:
    """Rows that are set, each once."""
    dim = any_dim(scope, v)
    count = scope.rng.randint(1, v.shape[dim])
    updates = scope.fitting((*v.shape[:dim], count, *v.shape[dim + 1 :]), v.dtype)
    places = f"(jnp.arange({count}) + {_index(scope)}) % {v.shape[dim]}"
    text = f"{v}.at[{':, ' * dim}{places}].set({updates}, unique_indices=True)"
    scope.emit(text, v.range.joined(updates.range))


@step("scatter", lambda v: is_full(v) and v.rank > 1 and is_sharp(v))
def scatter_elements(scope: Scope, v: Value) -> None:
    first = _indices(scope, 1)
    scope.emit(
        f"{v}.at[jnp.arange({first.size}) % {v.shape[0]}, {first}].add(2, mode='drop')",
        v.range.plus(Range(2.0 * first.size)),
    )


@step("segment sum", lambda v: is_full(v) and v.dtype in ("float32", "int32"))
def segment_sum(scope: Scope, v: Value) -> None:
    ids = scope.fitting((v.shape[0],), "int32")
    text = f"jax.ops.segment_sum({v}, {ids}, num_segments={scope.rng.choice(scope.writer.sizes) or 1})"
    scope.emit(text, v.range.summed(v.shape[0]))


@step("one hot", lambda v: v.dtype == "int32" and v.rank < 3)
def one_hot(scope: Scope, v: Value) -> None:
    dtype = scope.rng.choice(("float32", "bfloat16", "int32"))
    scope.emit(f"jax.nn.one_hot({v}, {scope.rng.choice(scope.writer.sizes) or 1}, dtype={dtype!r})", Range(1.0))


@step("sort", lambda v: is_full(v) and v.dtype != "complex64", weight=1.5)
def sort(scope: Scope, v: Value) -> None:
    scope.emit(f"jnp.sort({v}, {any_dim(scope, v)}, descending={scope.rng.random() < 0.3})", v.range)


@step("sort", lambda v: is_full(v) and is_sharp(v), weight=1.5)
def sort_many(scope: Scope, v: Value) -> None:
    """Keys with others that go with them; equal keys stay in order."""
    others = [scope.pick(lambda one: one.shape == v.shape and one.dtype != "complex64") or v for _ in range(2)]
    dim, keys = any_dim(scope, v), 2 if others[0].is_exact and scope.rng.random() < 0.3 else 1
    operands = [v, *others][: scope.rng.randint(keys, 3)]
    text = f"jax.tree.leaves(lax.sort(({', '.join(map(str, operands))},), dimension={dim}, num_keys={keys}, is_stable=True))"
    scope.emit(text, Range(), ranges=[one.range for one in operands])


@step("sort", lambda v: is_full(v) and is_sharp(v))
def argsort(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)
    scope.emit(f"jnp.argsort({v}, {dim}, stable=True)", Range(float(max(1, v.shape[dim]))))


@step("top k", lambda v: is_full(v) and is_sharp(v) and v.dtype in ("float32", "int32", "bfloat16"))
def top_k(scope: Scope, v: Value) -> None:
    last = v.shape[-1]
    zeros = f"jnp.where({v} == 0, 0, {v})"  # of one sign, which top_k tells apart and sums of other parts change
    text = f"jax.tree.leaves(lax.top_k({zeros if v.is_float else v}, {scope.rng.randint(1, last)}))"
    scope.emit(text, Range(), ranges=[v.range, Range(float(max(1, last)))])
