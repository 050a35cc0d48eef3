"""Broken programs: one thing changed in the program of one device, for four devices."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Body, Signature
from shardwright.ir.types import TensorType
from shardwright.runtime.variant import Variant

__all__ = ["KINDS", "mutant"]

Change = Callable[[random.Random, Graph, Block, Op], bool]
KINDS: dict[str, Change] = {}

REDUCING = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")
GROUPED = (*REDUCING, "stablehlo.all_gather", "stablehlo.all_to_all")
PAIRS = ([[0, 1], [2, 3]], [[1, 0], [3, 2]], [[0, 2], [1, 3]], [[2, 0], [3, 1]], [[0, 3], [1, 2]], [[1, 0], [2, 3]])


def mutant(local: Graph, rng: random.Random) -> tuple[str, Graph]:
    """A copy of a program with one change, and the kind of it."""
    kinds = list(KINDS)
    rng.shuffle(kinds)
    for kind in kinds:
        graph = Variant(local).run()
        sites = list(_sites(graph.main.block))
        rng.shuffle(sites)
        for block, op in sites:
            if KINDS[kind](rng, graph, block, op):
                return kind, graph
    raise AssertionError("a program in which nothing can be changed")


def _sites(block: Block) -> Iterator[tuple[Block, Op]]:
    for op in list(block.ops):
        yield block, op
        for region in op.regions:
            yield from _sites(region)


def _kind(change: Change) -> Change:
    KINDS[change.__name__] = change
    return change


@_kind
def collective_dropped(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    """Whoever read its result reads its operand."""
    names = (*GROUPED, "stablehlo.collective_permute")
    if op.name not in names or op.signature.operands[:1] != op.signature.results[:1]:
        return False
    _replaced(graph, op.results[0], op.operands[0])
    return True


@_kind
def group_permuted(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    if op.name not in GROUPED:
        return False
    text = op.signature.text("replica_groups") or ""
    if text.count("axis_ref") != 1:
        return False
    own = PAIRS[0] if '"model"' in text else PAIRS[2]
    groups = rng.choice([pairs for pairs in PAIRS if pairs != own])
    op.signature = op.signature.replace(replica_groups=f"dense<{groups}> : tensor<2x2xi64>")
    return True


@_kind
def offset_shifted(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    """The start of a slice is one further."""
    if op.name != "stablehlo.dynamic_slice":
        return False
    dims = [
        dim
        for dim, (size, part) in enumerate(
            zip(op.signature.operands[0].dims, op.signature.results[0].dims, strict=True)
        )
        if part < size
    ]
    if not dims:
        return False
    number = rng.choice(dims) + 1
    type = graph.types[op.operands[number]]
    one, moved = graph.new_value(type), graph.new_value(type)
    at = block.ops.index(op)
    block.ops[at:at] = [
        Op(Signature("stablehlo.constant", (("value", f"dense<1> : {type}"),), (), (type,)), (), (one,)),
        Op(Signature("stablehlo.add", (), (type, type), (type,)), (op.operands[number], one), (moved,)),
    ]
    op.operands = (*op.operands[:number], moved, *op.operands[number + 1 :])
    return True


@_kind
def reduction_changed(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    """Maxima where sums were, sums where maxima were."""
    if op.name not in (*REDUCING, "stablehlo.reduce") or len(op.signature.bodies) != 1:
        return False
    body = op.signature.bodies[0]
    names = {"stablehlo.add": "stablehlo.maximum", "stablehlo.maximum": "stablehlo.add"}
    other = names.get(body.kind or "")
    if other is None:
        return False
    ops = (replace(body.ops[0], name=other), *body.ops[1:])
    signature = op.signature
    bodies = (Body(body.arguments, ops),)
    op.signature = Signature(signature.name, signature.attributes, signature.operands, signature.results, bodies)
    return True


@_kind
def mask_inverted(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    if op.name != "stablehlo.select" or op.operands[1] == op.operands[2]:
        return False
    op.operands = (op.operands[0], op.operands[2], op.operands[1])
    return True


@_kind
def shard_swapped(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    """Two devices exchange what they have of a value."""
    usable = [value for value in op.results if graph.types[value].is_tensor and graph.types[value].elements > 1]
    if not usable or op.name == "stablehlo.constant" or rng.random() < 0.5:
        return False
    value = rng.choice(usable)
    type: TensorType = graph.types[value]
    one, other = rng.sample(range(4), 2)
    to = {one: other, other: one}
    pairs = [[device, to.get(device, device)] for device in range(4)]
    swapped = graph.new_value(type)
    _replaced(graph, value, swapped)
    attributes = (
        ("channel_handle", "#stablehlo.channel_handle<handle = 999, type = 1>"),
        ("source_target_pairs", f"dense<{pairs}> : tensor<4x2xi64>"),
    )
    signature = Signature("stablehlo.collective_permute", attributes, (type,), (type,))
    block.ops.insert(block.ops.index(op) + 1, Op(signature, (value,), (swapped,)))
    return True


@_kind
def operand_exchanged(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    """The terms of a difference or a quotient change places."""
    types = op.signature.operands
    if op.name not in ("stablehlo.subtract", "stablehlo.divide") or types[0] != types[1]:
        return False
    op.operands = (op.operands[1], op.operands[0])
    return True


@_kind
def device_mistaken(rng: random.Random, graph: Graph, block: Block, op: Op) -> bool:
    """Every device takes itself for the next."""
    if op.name != "stablehlo.partition_id":
        return False
    type = graph.types[op.results[0]]
    one, three, moved, kept = (graph.new_value(type) for _ in range(4))
    _replaced(graph, op.results[0], kept)
    at = block.ops.index(op) + 1

    def constant(number: int, value: int) -> Op:
        return Op(Signature("stablehlo.constant", (("value", f"dense<{number}> : {type}"),), (), (type,)), (), (value,))

    block.ops[at:at] = [
        constant(1, one),
        constant(3, three),
        Op(Signature("stablehlo.add", (), (type, type), (type,)), (op.results[0], one), (moved,)),
        Op(Signature("stablehlo.and", (), (type, type), (type,)), (moved, three), (kept,)),
    ]
    return True


def _replaced(graph: Graph, old: int, new: int) -> None:
    for op in graph.walk():
        op.operands = tuple(new if value == old else value for value in op.operands)
