"""The two walkthroughs of documents 002 and 003, from stage to stage: what the text shows, beside what we make.

A stage is compared op by op. A row is an op as anybody reads it, whichever way it is spelled: how it reads its operands
and how its results lie, by annotations or by types; along which axes its loops are split; and what else it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from shardwright.analysis.groups import replica_groups
from shardwright.ir.context import ir, load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.memo import Session
from shardwright.notation.conversion import convert_module
from shardwright.notation.forms.texts import to_generic
from shardwright.notation.modules import read, write
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.layouts import ENCODED, layout
from shardwright.notation.rfc.reading import ops_of
from shardwright.optimize import optimize
from shardwright.partition import localize, materialize, with_whole_arguments
from shardwright.propagation import propagate
from tests.optimize.explicit import NO_LATENCY

__all__ = ["STAGES", "Difference", "Stage", "differences", "made", "of_one_device", "rows"]


@dataclass(frozen=True)
class Difference:
    """Rows of a document's text and those that stand in their place in ours, and why."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Stage:
    """What a document says becomes of a program.

    Attributes:
        before: The number of the listing that is there first.
        after: That of what is made of it.
        how: `completed`, `materialized`, `optimized`, `partitioned`, or the last of these with arguments whole.
        differences: Where ours is not the same, in order.
    """

    before: str
    after: str
    how: str
    differences: tuple[Difference, ...] = ()


def made(text: str, how: str) -> str:
    """Our text of a stage, made of a module in the notation of the RFC."""
    graph = read(load_module(convert_module(text, "sdy")))
    if how == "completed":
        return convert_module(module_text(write(propagate(graph, strategy="rfc"))), "rfc")
    if "mesh.annotate" in text:
        graph = propagate(graph, strategy="rfc")
    graph = materialize(graph).graph
    if how.startswith("partitioned"):
        return module_text(write(localize(with_whole_arguments(graph) if how.endswith("whole") else graph)))
    if how == "optimized":
        with Session(hardware=NO_LATENCY):
            graph = optimize(graph, manual=False).graph
    return convert_module(module_text(write(graph)), "rfc")


def differences(theirs: list[str], ours: list[str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The runs of rows in which two programs differ, each with what stands in its place in the other."""
    matcher = SequenceMatcher(a=theirs, b=ours, autojunk=False)
    return [(tuple(theirs[a:b]), tuple(ours[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


# Programs for all devices, by their handles: hints and uses have no place in a graph


def rows(text: str) -> list[str]:
    """A program in the notation of the RFC, op by op."""
    module = load_module(to_generic(text, [RFC], "text.mlir"), "text.mlir")
    (function,) = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
    arguments = [f"argument {_lies(value)}" for value in function.regions[0].blocks[0].arguments]
    return [*arguments, *_op_rows(ops_of(function))]


def _op_rows(ops: list[tuple[str, Any]]) -> Iterator[str]:
    for name, op in ops:
        if name == "mesh.annotate":
            continue
        reads = ", ".join(_read(value) for value in op.operands)
        lies = ", ".join(_lies(value) for value in op.results)
        said = " ".join(f"{key}={_said(value)}" for key, value in sorted(op.attributes.items()))
        yield " ".join(filter(None, (name.partition(".")[2] or name, f"({reads})", lies and f"-> {lies}", said)))


def _said(attribute: Any) -> str:
    """An attribute without what says how a tensor lies, and without the name of its dialect."""
    text = str(attribute).replace("#stablehlo", "#").replace("#mhlo", "#")
    encoded = text.find(", #mesh.shard")
    return text if encoded < 0 else text[:encoded] + ">"


def _read(value: Any) -> str:
    """How a value lies where it is read: by the last that is said of it."""
    if not isinstance(value, ir.BlockArgument) and value.owner.name == "mesh.annotate":
        return _annotated(value.owner)
    return _lies(value)


def _lies(value: Any) -> str:
    """How a value lies where it is made: by its type, by an annotation of it, or as an argument's first use does."""
    annotations = [use.owner for use in value.uses if use.owner.name == "mesh.annotate"]
    own = [
        op for op in annotations if "as_result" not in op.attributes or ir.BoolAttr(op.attributes["as_result"]).value
    ]
    if own:
        return _annotated(own[0])
    if annotations and isinstance(value, ir.BlockArgument):
        return _annotated(annotations[0])
    match = ENCODED.match(str(value.type))
    return layout(match.group(3), value.type.rank).text if match else "[]"


def _annotated(op: Any) -> str:
    return layout(str(op.attributes["sharding"]), op.operands[0].type.rank).text


# Programs of one device


_ELSEWHERE = ("channel_handle", "use_global_device_ids", "replica_groups", "shardwright.option")


def of_one_device(text: str) -> list[str]:
    """A program of one device, op by op: its types, its attributes, and which devices communicate."""
    graph = read(load_module(convert_module(text, "sdy")))
    types = ", ".join(str(graph.types[value]) for value in graph.main.block.arguments)
    return [f"arguments {types}", *(_local_row(op.signature, graph) for op in graph.main.block.ops)]


def _local_row(signature: Signature, graph: Graph) -> str:
    operands, results = (", ".join(map(str, types)) for types in (signature.operands, signature.results))
    said = [f"{key}={text.replace('#stablehlo', '#')}" for key, text in signature.attributes if key not in _ELSEWHERE]
    option = signature.text("shardwright.option")
    said += [f"sharding={option}"] if option else []
    if signature.text("replica_groups"):
        groups = replica_groups(signature, graph.meshes, 2).rows
        said.append(f"devices={[list(map(int, group)) for group in groups]}")
    name = signature.name.partition(".")[2] or signature.name
    return " ".join(filter(None, (name, f"({operands})", results and f"-> {results}", *said)))


def _scattered(axes: str, said: str) -> tuple[str, ...]:
    """What is between the products of 002.19, the dimension that is scattered split along `axes`."""
    lies = f"[[], [], {axes}]"
    return (
        f'reduce_scatter ([[], [], [1, 2], [0]]) -> {lies} mesh_axis=[0] reduction="sum" tensor_axis=2 : i64',
        f"local_split ([]) -> {lies}{said}",
        f"maximum ({lies}, {lies}) -> {lies} sharding={lies}",
        f"all_gather ({lies}) -> [[], [], [1, 2]] mesh_axis=[[], [], [0]]",
    )


_SPLIT_CONSTANT = "a constant is made as it is read: each device makes its part, and nothing is split off"
_ORDER = (
    "the text has the scattered axis first in the list, and in its collectives last, where what a device holds of the"
    " sum lies; read as it stands it takes a permute before the maximum, so it stands last here in the list too. Both"
    " compute the same"
)
_PLACE = "where a device's part begins is counted from its place among all, in StableHLO, which XLA has"
_INDEX = (
    "constant () -> tensor<i32> value=dense<0> : tensor<i32>",
    "partition_id () -> tensor<ui32>",
    "convert (tensor<ui32>) -> tensor<i32>",
    "constant () -> tensor<i32> value=dense<4> : tensor<i32>",
    "multiply (tensor<i32>, tensor<i32>) -> tensor<i32>",
    "dynamic_slice (tensor<8xf32>, tensor<i32>) -> tensor<4xf32> slice_sizes=array<i64: 4>",
)
_IDX = (
    "idx () -> i64 axis=0 : index",
    "constant () -> i64 value=4 : i64",
    "muli (i64, i64) -> i64 overflowFlags=#arith.overflow<none>",
    "from_elements (i64) -> tensor<i64>",
    "dynamic_slice (tensor<8xf32>, tensor<i64>) -> tensor<4xf32> slice_sizes=array<i64: 4>",
)
_ZERO = "value=dense<0.000000e+00> : tensor<2x4x32xf32>"
_SUM_READ = Difference(
    ("maximum ([[], [], [1, 2]], [[], [], [1, 2]]) -> [[], [], [1, 2]] sharding=[[], [], [1, 2]]",),
    ("maximum ([[], [], [1, 2], [0]], [[], [], [1, 2]]) -> [[], [], [1, 2]] sharding=[[], [], [1, 2]]",),
    "no annotation asks for a sum that every reader needs: it is reduced before the first of them",
)

STAGES = (
    Stage("003.14", "003.16", "completed"),
    Stage("003.19", "003.16", "completed"),
    Stage(
        "003.16",
        "003.17",
        "materialized",
        (
            Difference(
                (
                    f"constant () -> [] {_ZERO}",
                    "all_gather ([[], [], [0]]) -> [] mesh_axis=[[], [], [0]] tensor_axis=[2]",
                ),
                ("all_gather ([[], [], [0]]) -> [] mesh_axis=[[], [], [0]]",),
                f"{_SPLIT_CONSTANT}; `tensor_axis` repeats what `mesh_axis` says, and 003.6 is without it",
            ),
            Difference(
                ("local_split ([]) -> [[], [], [0]] sharding=[[], [], [0]]",),
                (f"constant () -> [[], [], [0]] {_ZERO}",),
                _SPLIT_CONSTANT,
            ),
        ),
    ),
    Stage("003.17", "003.18", "partitioned"),
    Stage("003.10", "003.12", "partitioned"),
    Stage("003.11", "003.13", "partitioned, arguments whole", (Difference(_IDX, _INDEX, _PLACE),)),
    Stage(
        "002.12",
        "002.13",
        "materialized",
        (
            Difference(
                ("all_gather ([[], [0, 1]]) -> [[], [0]] mesh_axis=[[], [1]]", "use ([[], [0]])"),
                (
                    "negate ([[], [0, 1]]) -> [[], [0, 1]] sharding=[[], [0, 1]]",
                    "use ([[], [0, 1]]) sharding=[[], [0, 1]]",
                ),
                "what makes the value is elided in the text; and a reader that gives no result, and takes parts of any"
                " size, takes those that are there: nothing is gathered for it",
            ),
        ),
    ),
    Stage("002.15", "002.17", "completed", (_SUM_READ,)),
    Stage("002.16", "002.17", "completed", (_SUM_READ,)),
    Stage(
        "002.17",
        "002.18",
        "materialized",
        (
            Difference((f"constant () -> [] {_ZERO}",), (), _SPLIT_CONSTANT),
            Difference(
                ("local_split ([]) -> [[], [], [1, 2]] sharding=[[], [], [1, 2]]",),
                (f"constant () -> [[], [], [1, 2]] {_ZERO}",),
                _SPLIT_CONSTANT,
            ),
        ),
    ),
    Stage(
        "002.18",
        "002.19",
        "optimized",
        (
            Difference(
                _scattered("[0, 1, 2]", ""),
                _scattered("[1, 2, 0]", " sharding=[[], [], [1, 2, 0]]"),
                _ORDER,
            ),
        ),
    ),
    Stage("002.21", "002.22", "partitioned, arguments whole", (Difference(_IDX, _INDEX, _PLACE),)),
    Stage("002.23", "002.24", "partitioned"),
)
"""Every pair of listings of which the documents say that one becomes the other."""
