"""The program for one device: what an annotated, propagated or explicit graph means."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.partition.bodies import SHARDING_NAMES, plain_bodies
from shardwright.stage import Stage

__all__ = ["unsharded"]

_NO_RESULT = frozenset({"sdy.sharding_group"})


def unsharded(graph: Graph) -> Graph:
    """The same program without a word about shardings.

    At global shapes the ops of the `sdy` dialect move data or say where it lies, and so change nothing.

    Raises:
        ShardingError: a manual computation, which is written for many devices and has no meaning on one.
    """
    return _Unsharded(graph).run()


class _Unsharded:
    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.target = graph.skeleton(Stage.ANNOTATED)
        self.values: dict[int, int] = {}

    def run(self) -> Graph:
        target, main = self.target, self.target.main
        target.meshes = {}
        target.attributes = {name: text for name, text in target.attributes.items() if not name.startswith("mhlo.num_")}
        main.argument_attributes = [_plain(row) for row in main.argument_attributes]
        main.result_attributes = [_plain(row) for row in main.result_attributes]
        main.result_shardings = [None] * len(main.result_shardings)
        main.block = self.block(self.source.main.block)
        return target

    def value(self, value: int) -> int:
        made = self.values[value] = self.target.new_value(self.source.types[value])
        return made

    def block(self, block: Block) -> Block:
        made = Block(tuple(map(self.value, block.arguments)), [])
        for op in block.ops:
            self.op(op, made.ops)
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        name, operands = op.name, tuple(self.values[value] for value in op.operands)
        if name in _NO_RESULT:
            return
        if name == "sdy.manual_computation":
            raise ShardingError(
                "a manual computation cannot run on one device",
                op=name,
                location=str(self.source.locations[op.location]),
                cause="its body is written for the devices of a mesh",
                remedy="compare with the program that it was made from: verify that one",
            )
        if name == "sdy.named_computation":
            self.values.update(zip(op.regions[0].arguments, operands, strict=True))
            for inner in op.regions[0].ops[:-1]:
                self.op(inner, into)
            yielded = [self.values[value] for value in op.regions[0].terminator.operands]
            self.values.update(zip(op.results, yielded, strict=True))
            return
        if name.startswith("sdy.") and len(operands) == 1 and len(op.results) == 1:
            self.values[op.results[0]] = operands[0]
            return
        signature = plain_bodies(op.signature) if op.signature.bodies else op.signature
        if name == "sdy.constant":
            signature = Signature("stablehlo.constant", signature.attributes, (), signature.results)
        regions = tuple(self.block(region) for region in op.regions)
        into.append(Op(signature, operands, tuple(map(self.value, op.results)), regions, op.location))


def _plain(attributes: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in attributes.items() if name not in SHARDING_NAMES}
