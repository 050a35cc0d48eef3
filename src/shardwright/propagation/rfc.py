"""The mesh RFC's own completion: backward over all ops once, then forward once.

At every op its option is found (see `option`) and given to those of its operands and results about which nothing is
said. A value's annotation is the sharding of the value; a use's is an `sdy.sharding_constraint`, or the sharding of a
result of `main`. Annotations are required where all dimensions are closed, else hints. Between hints the earlier wins;
what nothing is said of is replicated.

No cost, no fixpoint, no priorities: the result is easily foreseen, which is the point of it.

Source: the mesh RFC on LLVM's forum, "Sharding Propagation Pass".
"""

from __future__ import annotations

from dataclasses import replace

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.propagation.boundary import outermost
from shardwright.propagation.option import OPTION, Said, option_of, preset, shaped
from shardwright.propagation.working import CONSTRAINT, GROUP, MANUAL, Working, preorder
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule, identity_rule
from shardwright.sharding import TensorSharding, replicated

__all__ = ["complete"]

_RESHARD = "sdy.reshard"
_REFUSED = frozenset({MANUAL, "sdy.named_computation", GROUP})
_TIED = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.optimization_barrier"})


def complete(graph: Graph) -> Graph:
    """Complete the shardings of a program as the RFC does.

    Returns:
        A new graph in which every tensor has a closed sharding, and an `sdy.reshard` stands where a use differs.

    Raises:
        ShardingError: required annotations that contradict each other, a malformed `shardwright.option`, no mesh, or
            what the RFC does not know: manual and named computations, sharding groups.
    """
    mesh = next((mesh for mesh in graph.meshes.values() if mesh.axes), None)
    if mesh is None:
        raise ShardingError("the program has no mesh", remedy='declare one: sdy.mesh @mesh = <["x"=8]>')
    for op in graph.walk():
        if op.name in _REFUSED:
            raise ShardingError(
                f"the strategy 'rfc' does not know {op.name}",
                op=op.signature.label,
                location=str(graph.locations[op.location]),
                cause="the RFC has annotations of values and uses only",
                remedy="use another strategy",
            )
    return _Completion(graph, mesh).run()


class _Completion:
    def __init__(self, graph: Graph, mesh: Mesh) -> None:
        self.graph = graph
        self.mesh = mesh
        self.working = Working.of(graph)
        self.block = self.working.block
        self.values: dict[int, TensorSharding] = {}
        self.required: set[int] = set()
        self.uses: dict[tuple[Op, int], tuple[TensorSharding, bool]] = {}
        self.tied: dict[int, int] = {}
        self.users: dict[int, list[tuple[Op, int]]] = {}
        self.carried: dict[tuple[Op, int], int] = {}  # uses that control flow ties to one of its results

    def run(self) -> Graph:
        self._annotations()
        ops = [op for op in preorder(self.block) if op.name != CONSTRAINT]
        for op in ops:
            for index, value in enumerate(op.operands):
                self.users.setdefault(self._of(value), []).append((op, index))
            self._tie(op)
        for op in reversed(ops):
            self._visit(op)
        for op in ops:
            self._visit(op)
        return self._finish(ops)

    # What the program says

    def _annotations(self) -> None:
        for value, sharding in enumerate(self.graph.shardings):
            if sharding is not None:
                self._say(value, sharding)
        aliases: dict[int, tuple[int, TensorSharding | None]] = {}
        for op in preorder(self.block):
            operands = list(op.operands)
            for index, value in enumerate(operands):
                if value in aliases:
                    operands[index], said = aliases[value]
                    if said is not None:
                        self.uses[op, index] = (said.closed(), not any(dim.open for dim in said.dims))
            op.operands = tuple(operands)
            if op.name == CONSTRAINT:
                aliases[op.results[0]] = (op.operands[0], self.graph.shardings[op.results[0]])
        self._drop_constraints(self.block)
        read = {value for op in preorder(self.block) for value in op.operands}
        for op in self.graph.walk():
            dangling = op.name == CONSTRAINT and op.operands[0] not in self.values
            if dangling and not any(op.results[0] in other.operands for other in self.graph.walk()):
                said = self.graph.shardings[op.results[0]]
                if said is not None and op.operands[0] in read:
                    self._say(op.operands[0], said)
        for index, said in enumerate(self.graph.main.result_shardings):
            if said is not None:
                required = not any(dim.open for dim in said.dims)
                self.uses.setdefault((self.block.terminator, index), (said.closed(), required))

    def _say(self, value: int, sharding: TensorSharding) -> None:
        self.values[value] = sharding.closed()
        if not any(dim.open for dim in sharding.dims):
            self.required.add(value)

    def _drop_constraints(self, block: Block) -> None:
        block.ops = [op for op in block.ops if op.name != CONSTRAINT]
        for op in block.ops:
            for region in op.regions:
                self._drop_constraints(region)

    # Values that must be split alike

    def _tie(self, op: Op) -> None:
        """The arguments of a loop's regions have the sharding of its results."""
        if op.name not in _TIED:
            return
        for index, result in enumerate(op.results):
            for region in op.regions if op.name == "stablehlo.case" else op.regions[-1:]:
                self.carried[region.terminator, index] = result
            if op.name != "stablehlo.case":
                self.carried[op, index] = result
        if op.name != "stablehlo.while":
            return
        for region in op.regions:
            for result, argument in zip(op.results, region.arguments, strict=True):
                self.tied[argument] = result

    def _of(self, value: int) -> int:
        return self.tied.get(value, value)

    # One op

    def _visit(self, op: Op) -> None:
        if op.name in _TIED:
            self._visit_tied(op)
            return
        rule = rule_for(op.signature)
        if rule is None or not rule.operands + rule.results or op.name == _RESHARD:
            return
        where = str(self.graph.locations[op.location])
        option = preset(op, rule, self.mesh, where)
        if option is None:
            said = self._said(op)
            if not said:
                return
            option = option_of(rule, said, op.signature.label, where)
        for index, mapping in enumerate(rule.operands):
            self.uses.setdefault((op, index), (shaped(rule, mapping, option, self.mesh), False))
        for index, mapping in enumerate(rule.results):
            self._give(op.results[index], shaped(rule, mapping, option, self.mesh))

    def _said(self, op: Op) -> list[Said]:
        """What is said about an op's tensors, results first."""
        found: list[Said] = []
        count = len(op.operands)
        for index, value in enumerate(op.results):
            sharding = self._value(value)
            if sharding is not None:
                name = f"result {index} of {op.signature.label}"
                found.append(Said(count + index, sharding, self._of(value) in self.required, name))
                continue
            use = self._first_use(value)
            if use is not None:
                found.append(Said(count + index, use, False, f"a use of result {index}"))
        for index, value in enumerate(op.operands):
            use_said = self.uses.get((op, index))
            if use_said is not None:
                name = f"the use as operand {index} of {op.signature.label}"
                found.append(Said(index, use_said[0], use_said[1], name))
                continue
            sharding = self._value(value)
            if sharding is not None:
                found.append(Said(index, sharding.with_axes(sharding.axes), False, f"operand {index}"))
        return found

    def _visit_tied(self, op: Op) -> None:
        """Control flow: what goes in, and what its regions give, is split as the results are."""
        for index, result in enumerate(op.results):
            type = self.working.types[result]
            if not type.is_tensor:
                continue
            rule: ShardingRule = identity_rule(type.dims, 1)
            sharding = self._value(result) or self._first_use(result)
            if sharding is None:
                sharding = next((s for s in map(self._value, self._sources(op, index)) if s is not None), None)
            if sharding is not None:
                option = option_of(rule, [Said(1, sharding, False, f"result {index}")], op.name, "")
                self._give(result, shaped(rule, rule.results[0], option, self.mesh))

    def _sources(self, op: Op, index: int) -> list[int]:
        inner = [region.terminator.operands[index] for region in op.regions[-1:]]
        if op.name == "stablehlo.case":
            return [region.terminator.operands[index] for region in op.regions]
        return [op.operands[index], *inner]

    def _value(self, value: int) -> TensorSharding | None:
        return self.values.get(self._of(value))

    def _first_use(self, value: int) -> TensorSharding | None:
        for use in self.users.get(self._of(value), ()):
            if use in self.uses:
                return self.uses[use][0]
        return None

    def _give(self, value: int, sharding: TensorSharding) -> None:
        if self.working.types[value].is_tensor:
            self.values.setdefault(self._of(value), sharding)

    # The result

    def _finish(self, ops: list[Op]) -> Graph:
        working = self.working
        for value in self.block.arguments:
            said = self._value(value) or self._first_use(value)
            if said is not None and value not in self.required:
                outer = outermost(
                    replace(said, dims=tuple(replace(dim, open=True) for dim in said.dims)), working.types[value]
                )
                said = outer.closed() if outer is not None else None
            if said is not None:
                self.values[value] = said
        for value, type in enumerate(working.types):
            known = self._value(value)
            working.shardings[value] = known or (replicated(self.mesh, type.rank) if type.is_tensor else None)
        made = self.graph.skeleton()
        made.main.result_shardings = self._results()
        self._reshard(self.block)
        made.types, made.shardings, made.main.block = working.types, working.shardings, self.block
        return made

    def _results(self) -> list[TensorSharding | None]:
        results: list[TensorSharding | None] = []
        for index, value in enumerate(self.block.terminator.operands):
            said = self.uses.get((self.block.terminator, index))
            sharding = said[0] if said is not None else self.working.shardings[value]
            outer = outermost(sharding, self.working.types[value])
            if outer is not None:
                outer = outer.with_axes(outer.evenly_dividing(self.working.types[value].dims).axes)
                self.uses[self.block.terminator, index] = (outer, True)
            results.append(outer)
        return results

    def _reshard(self, block: Block) -> None:
        """Let every use read its value as its annotation says."""
        ops: list[Op] = []
        made: dict[tuple[int, TensorSharding], int] = {}
        for op in block.ops:
            if op.signature.text(OPTION) is not None:
                op.signature = op.signature.replace(**{OPTION: None})
            for region in op.regions:
                self._reshard(region)
            op.operands = tuple([self._read(op, index, value, ops, made) for index, value in enumerate(op.operands)])
            ops.append(op)
        block.ops = ops

    def _read(self, op: Op, index: int, value: int, ops: list[Op], made: dict[tuple[int, TensorSharding], int]) -> int:
        """What an op is to read instead of `value`: a reshard, one for all uses alike in a block, if it needs one."""
        now, wanted = self.working.shardings[value], self._wanted(op, index)
        if now is None or wanted is None or wanted == now:
            return value
        if (value, wanted) not in made:
            type = self.working.types[value]
            result = made[value, wanted] = self.working.new_value(type, wanted)
            ops.append(Op(Signature(_RESHARD, (), (type,), (type,)), (value,), (result,), (), op.location))
        return made[value, wanted]

    def _wanted(self, op: Op, index: int) -> TensorSharding | None:
        result = self.carried.get((op, index))
        if result is not None:
            return self.working.shardings[result]
        said = self.uses.get((op, index))
        return said[0] if said is not None else None
