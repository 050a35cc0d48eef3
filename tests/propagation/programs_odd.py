"""Ops that are out of the ordinary in random programs: custom calls, effects, tokens, what depends on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.propagation.programs import tensor_of

if TYPE_CHECKING:
    from tests.propagation.programs_wide import WideWriter

__all__ = ["odd_ops"]

_LETTERS = "ijklmnopqrstuvwxyz"


def odd_ops(writer: WideWriter) -> list[Callable[[], None]]:
    """The makers, those of what is common in programs more than once."""
    makers = (ruled, ruled, lonely, on_constants, on_constants, effect, token, replica)
    return [lambda maker=maker: maker(writer) for maker in makers]  # type: ignore[misc]


def ruled(writer: WideWriter) -> None:
    """A custom call whose rule stands in the program."""
    chosen = [writer.pick() for _ in range(writer.random.randint(1, 2))]
    factors: list[int] = []
    mapped = []
    for _, shape in chosen:
        dims: list[int] = []
        for size in shape:
            same = [f for f, its in enumerate(factors) if its == size and f not in dims]
            if not same or writer.random.random() < 0.3:
                factors.append(size)
                same = [len(factors) - 1]
            dims.append(writer.random.choice(same))
        mapped.append(dims)
    if len(factors) >= len(_LETTERS):
        return
    shown = [f for f in range(len(factors)) if writer.random.random() < 0.7][:4]
    writer.random.shuffle(shown)
    to = tuple(factors[f] for f in shown)
    rule = f"sdy.sharding_rule = {_rule(writer, factors, mapped, shown)}"
    note = writer.note([to], writer.density)
    attributes = ", ".join(part for part in (rule, note) if part)
    name = writer.name()
    types = f"({', '.join(tensor_of(shape) for _, shape in chosen)}) -> {tensor_of(to)}"
    values = ", ".join(value for value, _ in chosen)
    writer.lines.append(f"{writer.indent}{name} = stablehlo.custom_call @theirs({values}) {{{attributes}}} : {types}")
    writer.values.append((name, to))


def _rule(writer: WideWriter, factors: Sequence[int], mapped: Sequence[Sequence[int]], shown: Sequence[int]) -> str:
    chance = writer.random
    free = [f for f in range(len(factors)) if f not in shown]
    reduction = [f for f in free if chance.random() < 0.6]
    rest = [f for f in range(len(factors)) if f not in reduction]
    whole = [f for f in rest if chance.random() < 0.15]
    kinds = {
        "reduction": reduction,
        "need_replication": whole,
        "permutation": [f for f in rest if f not in whole and chance.random() < 0.15],
        "blocked_propagation": [f for f in range(len(factors)) if chance.random() < 0.1],
    }

    def listed(those: Sequence[int]) -> str:
        return ", ".join(_LETTERS[f] for f in those)

    operands = ", ".join(f"[{listed(dims)}]" for dims in mapped)
    sizes = ", ".join(f"{_LETTERS[f]}={size}" for f, size in enumerate(factors))
    tails = "".join(f" {word}={{{listed(those)}}}" for word, those in kinds.items() if those)
    braces = f" {{{sizes}}}" if factors else ""
    return f"#sdy.op_sharding_rule<({operands})->([{listed(shown)}]){braces}{tails}, custom>"


def lonely(writer: WideWriter) -> None:
    """A custom call without a rule, perhaps on one device."""
    value, shape = writer.pick()
    one = writer.annotator.maximal()
    note = f"sdy.sharding = #sdy.sharding_per_value<[{one}]>" if one else writer.note([shape], writer.density)
    types = f"({tensor_of(shape)}) -> {tensor_of(shape)}"
    name = writer.name()
    attributes = f" {{{note}}}" if note else ""
    writer.lines.append(f"{writer.indent}{name} = stablehlo.custom_call @unknown({value}){attributes} : {types}")
    writer.values.append((name, shape))


def on_constants(writer: WideWriter) -> None:
    """What is computed of constants only: it is copied for each of its users."""
    _, shape = writer.pick()
    type = tensor_of(shape)
    value, _ = writer.constant(shape)
    scalar, _ = writer.emit("stablehlo.constant dense<2.0>", (), "tensor<f32>", annotate=False)
    if writer.random.random() < 0.6:
        many, _ = writer.emit(f"stablehlo.broadcast_in_dim {scalar}, dims = []", shape, f"(tensor<f32>) -> {type}")
        value, _ = writer.emit(f"stablehlo.add {value}, {many}", shape, type)
    if writer.random.random() < 0.5:
        value, _ = writer.emit(f"stablehlo.negate {value}", shape, type)
    for _ in range(writer.random.randint(1, 2)):
        same = [name for name, its in writer.values if its == shape]
        writer.emit(f"stablehlo.multiply {value}, {writer.random.choice(same)}", shape, type)


def effect(writer: WideWriter) -> None:
    """An op that nobody uses and that stays."""
    value, shape = writer.pick()
    one = writer.annotator.maximal()
    attributes = (
        f"has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[{one}]>" if one else "has_side_effect = true"
    )
    type = tensor_of(shape)
    if writer.random.random() < 0.5 or one:
        name = writer.name()
        made = f"{name} = stablehlo.custom_call @log({value}) {{{attributes}}} : ({type}) -> tensor<f32>"
        writer.values.append((name, ()))
    else:
        made = f"stablehlo.custom_call @log({value}) {{{attributes}}} : ({type}) -> ()"
    writer.lines.append(writer.indent + made)


def token(writer: WideWriter) -> None:
    """Values ordered by a token."""
    value, shape = writer.pick()
    type = tensor_of(shape)
    start, name, out = writer.name(), writer.name(), writer.name()
    barrier = f"stablehlo.optimization_barrier {value}, {start} : {type}, !stablehlo.token"
    writer.lines += [
        f"{writer.indent}{start} = stablehlo.create_token : !stablehlo.token",
        f"{writer.indent}{name}:2 = {barrier}",
        f'{writer.indent}{out} = "stablehlo.outfeed"({name}#0, {name}#1) {{outfeed_config = ""}} : '
        f"({type}, !stablehlo.token) -> !stablehlo.token",
    ]
    writer.values.append((f"{name}#0", shape))


def replica(writer: WideWriter) -> None:
    """Values that no operand shards: the device's number, random numbers."""
    shape = writer.pick()[1]
    if not shape or 0 in shape:
        name = writer.name()
        writer.lines.append(f"{writer.indent}{name} = stablehlo.partition_id : tensor<ui32>")
        writer.others.setdefault("tensor<ui32>", []).append(name)
        return
    low, high, sizes = writer.name(), writer.name(), writer.name()
    writer.lines += [
        f"{writer.indent}{low} = stablehlo.constant dense<0.0> : tensor<f32>",
        f"{writer.indent}{high} = stablehlo.constant dense<1.0> : tensor<f32>",
        f"{writer.indent}{sizes} = stablehlo.constant dense<{list(shape)}> : tensor<{len(shape)}xi64>",
    ]
    types = f"(tensor<f32>, tensor<f32>, tensor<{len(shape)}xi64>) -> {tensor_of(shape)}"
    writer.emit(f"stablehlo.rng {low}, {high}, {sizes}, distribution = UNIFORM", shape, types, annotate=False)
