"""The program for one device: what an annotated, propagated or explicit graph means."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.carriers import CARRIED_CONSTRAINT
from shardwright.ir.context import load_module, module_text
from shardwright.ir.copying import Copier
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import OWN_COLLECTIVES
from shardwright.ir.signature import Body, Signature
from shardwright.ir.types import TensorType
from shardwright.notation import modules
from shardwright.partition.bodies import SHARDING_NAMES, plain_bodies
from shardwright.partition.own_collectives import copies_in
from shardwright.runtime.miscomputed import miscomputed, notes_of
from shardwright.stage import Stage

__all__ = ["unsharded", "unsharded_text"]

_NO_RESULT = frozenset({"sdy.sharding_group"})
_RUNS_AS_IT_IS = frozenset({"sdy.sharding_constraint", "sdy.sharding_group"})


def unsharded(graph: Graph) -> Graph:
    """The same program without a word about shardings, written such that XLA on CPUs runs it right.

    At global shapes the ops of the `sdy` dialect move data or say where it lies, and so change nothing.

    Raises:
        ShardingError: a manual computation, which is written for many devices and has no meaning on one.
    """
    return _Unsharded(graph, graph.skeleton(Stage.ANNOTATED)).run()


def unsharded_text(graph: Graph, content: str | bytes, name: str = "-") -> str:
    """The program as it was given, untouched wherever XLA can run that on one device: what results are held against.

    A module of a later stage holds resharding, which one device has no use for: it is written anew without. So is one
    on meshes of different axes, at some of which a check in XLA's way to bring them together fails (`dedup_meshes`).

    Arguments:
        graph: The program.
        content: Text or bytecode that it was read from.
        name: What diagnostics call that.

    Raises:
        ShardingError: a manual computation, which has no meaning on one device.
    """
    carries = isinstance(content, str) and CARRIED_CONSTRAINT in content
    runs = not carries and len({mesh.axes for mesh in graph.used_meshes}) < 2 and not notes_of(graph)
    runs = runs and OWN_COLLECTIVES.isdisjoint(graph.op_names())
    if runs and all(op.name in _RUNS_AS_IT_IS for op in graph.walk() if op.name.startswith("sdy.")):
        return content if isinstance(content, str) else module_text(load_module(content, name))
    return module_text(modules.write(unsharded(graph), shardings=False))


class _Unsharded(Copier):
    def run(self) -> Graph:
        target, main = super().run(), self.target.main
        target.meshes = {}
        target.attributes = {name: text for name, text in target.attributes.items() if not name.startswith("mhlo.num_")}
        main.argument_attributes = [_plain(row) for row in main.argument_attributes]
        main.result_attributes = [_plain(row) for row in main.result_attributes]
        main.result_shardings = [None] * len(main.result_shardings)
        return target

    def value(self, value: int) -> int:
        made = self.values[value] = self.target.new_value(self.source.types[value])
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        name, signature = op.name, op.signature
        if name == "sdy.manual_computation":
            raise ShardingError(
                "a manual computation cannot run on one device",
                op=name,
                location=str(self.source.locations[op.location]),
                cause="its body is written for the devices of a mesh",
                remedy="compare with the program that it was made from: verify that one",
            )
        if name == "sdy.named_computation":
            self.inline(op, into)
        elif name == "sdy.constant":
            constant = Signature("stablehlo.constant", signature.attributes, (), signature.results)
            self.copy(op, constant, into)
        elif name.startswith("sdy.") and len(op.operands) == len(op.results) == 1:
            self.pass_on(op)
        elif name in OWN_COLLECTIVES:
            self.collective(op, into)
        elif (told := miscomputed(signature)) is not None:
            operands = [self.values[value] for value in op.operands]
            made = told.append(Builder(self.target, into, op.location), signature, operands)
            self.values.update(zip(op.results, made, strict=True))
        elif name not in _NO_RESULT:
            self.copy(op, plain_bodies(signature) if signature.bodies else signature, into)

    def collective(self, op: Op, into: list[Op]) -> None:
        """What devices that all hold the same value make of it, on one of them."""
        signature, graph = op.signature, self.source
        try:
            copies = copies_in(signature, graph.mesh, graph.meshes)
        except ShardingError as error:
            raise error.at(signature.label, str(graph.locations[op.location])) from None
        builder = Builder(self.target, into, op.location)
        for value, result in zip(op.operands, op.results, strict=True):
            one = self.values[value]
            if signature.name == "stablehlo.all_gather":
                one = _side_by_side(builder, one, copies, signature.get("all_gather_dim"), graph.types[result])
            elif copies > 1:
                one = _combined(builder, one, copies, signature.bodies)
            self.values[result] = one


def _side_by_side(builder: Builder, value: int, copies: int, dim: int, type: TensorType) -> int:
    attributes = (("dimension", f"{dim} : i64"),)
    signature = Signature("stablehlo.concatenate", attributes, (builder.type(value),) * copies, (type,))
    return builder.append(signature, (value,) * copies)[0]


def _combined(builder: Builder, value: int, copies: int, bodies: tuple[Body, ...]) -> int:
    """Copies of a value combined by a body of two scalars: those of half as many with one another."""
    if copies == 1:
        return value
    half = _combined(builder, value, copies // 2, bodies)
    type = builder.type(value)
    attributes = (("dimensions", i64_array(range(type.rank))),)
    pair = Signature("stablehlo.map", attributes, (type, type), (type,), bodies)
    (both,) = builder.append(pair, (half, half))
    return builder.append(pair, (both, value))[0] if copies % 2 else both


def _plain(attributes: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in attributes.items() if name not in SHARDING_NAMES}
