"""The mesh RFC's own completion: backward over all ops once, then forward once.

At every op its option is found (see `statements`) from what the program says (see `annotations`), and given to those of
its operands and results about which nothing is said. What is required wins, between hints the earlier, and a hint that
loses is dropped; what nothing is said of is replicated. Loops that are summed over make partial sums, which are reduced
where somebody reads them. Nothing passes a propagation barrier.

Control flow, of which the RFC does not speak, ties what it reads and what its regions return to its results. It is
visited where its regions are entered and where they are left, so that a loop's body hears of what the loop begins with,
and what reads the loop's results of what the body returns.

No cost, no fixpoint, no priorities: the result is easily foreseen, which is the point of it.

Source: the mesh RFC on LLVM's forum, "Sharding Propagation Pass".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import DATA_FLOW_OPS, MANUAL
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.notation.names import symbol_name
from shardwright.notation.rfc.options import FUNCTION_MESH
from shardwright.propagation.recording import Recording
from shardwright.propagation.rfc.annotations import RESHARD, Annotations
from shardwright.propagation.rfc.derivation import Completion, Decision, Dropped, OpStatement, Origin, Statement, copied
from shardwright.propagation.rfc.op_statements import option_of
from shardwright.propagation.rfc.option import OPTION, Option, option_text, preset
from shardwright.propagation.rfc.own_methods import INTERFACE, has_own_layouts, layouts_by, origin_of_own, own_option
from shardwright.propagation.steps.boundary import outermost
from shardwright.propagation.steps.collectives import reshard_where_unfit
from shardwright.propagation.steps.normalize import normalize
from shardwright.propagation.working import GROUP, NAMED, Working
from shardwright.rules.overrides import overrides_of
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule, TensorMapping, identity_rule
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage

__all__ = ["complete"]

_REFUSED = frozenset({MANUAL, NAMED, GROUP})
_LOOP, _BARRIER = "stablehlo.while", "stablehlo.optimization_barrier"
_TIED = DATA_FLOW_OPS | {"stablehlo.if"}


def complete(graph: Graph, record: Recording | None = None) -> Graph:
    """Complete the shardings of a program as the RFC does.

    Arguments:
        graph: The program; it is not changed.
        record: Where to write what every sharding follows from, and the hints that could not be followed.

    Returns:
        A new graph in which every tensor has a closed sharding, an `sdy.reshard` stands where a use differs, and ops
        say in `shardwright.option` along which axes their loops are split.

    Raises:
        ShardingError: required annotations that contradict each other, a malformed `shardwright.option`, no mesh, a
            record that is in use, or what the RFC does not know: manual and named computations, sharding groups.
    """
    meshes = [mesh for mesh in graph.meshes.values() if mesh.axes]
    meshes += [sharding.mesh for sharding in graph.shardings if sharding is not None and sharding.mesh.axes][:1]
    if not meshes:
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
    named = symbol_name(graph.main.attributes.get(FUNCTION_MESH, ""))
    completer = _Completer(graph, graph.meshes.get(named, meshes[0]))
    made = completer.run()
    if record is not None:
        record.completed(completer.working, made.main.result_shardings, completer.completion)
    return made


class _Completer:
    def __init__(self, graph: Graph, mesh: Mesh) -> None:
        self.graph = graph
        self.mesh = mesh
        self.working = Working.of(graph)
        self.block = self.working.block
        results = normalize(self.working, list(graph.main.result_shardings), graph.meshes)
        stated = Annotations(self.working, results, graph.locations)
        self.values, self.uses = stated.values, stated.uses
        self.completion = Completion()
        self.tied = self.completion.same
        self.users: dict[int, list[tuple[Op, int]]] = {}
        self.results: list[TensorSharding | None] = []
        self.options: dict[Op, str | None] = {}
        self.carried: dict[tuple[Op, int], int] = {}  # uses that control flow ties to one of its results

    def run(self) -> Graph:
        for op in self.block.walk():
            for index, value in enumerate(op.operands):
                self.users.setdefault(self._of(value), []).append((op, index))
            self._tie(op)
        ops = list(_visits(self.block))
        for op in reversed(ops):
            self._visit(op)
        for op in ops:
            self._visit(op)
        return self._finish()

    # Values that must be split alike

    def _tie(self, op: Op) -> None:
        """The arguments of a loop's regions have the sharding of its results."""
        if op.name not in _TIED:
            return
        for index, result in enumerate(op.results):
            for reader in self._carriers(op):
                self.carried[reader, index] = result
        for region in op.regions if op.name == _LOOP else ():
            for result, argument in zip(op.results, region.arguments, strict=True):
                self.tied[argument] = result

    def _carriers(self, op: Op) -> list[Op]:
        """The ops whose operands become, number by number, the results of control flow."""
        if op.name == _BARRIER:
            return [op]
        if op.name == _LOOP:
            return [op, op.regions[1].terminator]
        return [region.terminator for region in op.regions]

    def _of(self, value: int) -> int:
        return self.tied.get(value, value)

    # One op

    def _visit(self, op: Op) -> None:
        if op.name in _TIED:
            for index, result in enumerate(op.results):
                if self.working.types[result].is_tensor:
                    readers = [(reader, index) for reader in self._carriers(op)]
                    rule = identity_rule(self.working.types[result].dims, len(readers))
                    self._complete(op, rule, readers, (index,))
            return
        op_rule = rule_for(op.signature)
        if op_rule is not None and op_rule.operands + op_rule.results and op.name != RESHARD:
            self._complete(op, op_rule, [(op, index) for index in range(len(op.operands))], range(len(op.results)))

    def _complete(self, op: Op, rule: ShardingRule, reads: list[tuple[Op, int]], results: Sequence[int]) -> None:
        """Find the option of an op, and give it to what it reads and to its results."""
        mesh, option = self.mesh, None
        owners: dict[int, OpStatement] = {}
        if op.name not in _TIED:
            option = self._given_option(op, rule)
        if option is None:
            statements = self._op_statements(op, reads, results)
            if not statements:
                return
            deduced = option_of(rule, statements, op.signature, lambda: str(self.graph.locations[op.location]))
            mesh, option, owners = deduced.mesh or mesh, deduced.option, deduced.owners
            self._drop(deduced.dropped, op, reads, results)
        option = {factor: tuple(axis for axis in axes if axis.size > 1) for factor, axes in option.items()}
        if op.name not in _TIED:
            self.options[op] = self._option_text(option, rule, mesh)
        is_own = op.signature.text(OPTION) is None and not owners
        decision = Decision("step", op, option, owners, INTERFACE if is_own else OPTION)

        def origin(layout: TensorSharding, target: str, mapping: TensorMapping) -> Origin:
            own = has_own_layouts(op.signature)
            return origin_of_own(op, layout, target) if own else Origin(decision, target, mapping)

        made = layouts_by(op.signature, rule, option, mesh, lambda: str(self.graph.locations[op.location]))
        for read, mapping, layout in zip(reads, rule.operands, made[: len(reads)], strict=True):
            if read not in self.uses:
                self.uses[read] = Statement(layout, origin(layout, _operand(op, read), mapping))
        for index, mapping, layout in zip(results, rule.results, made[len(reads) :], strict=True):
            value = self._of(op.results[index])
            if value not in self.values and self.working.types[value].is_tensor:
                self.values[value] = Statement(layout, origin(layout, f"result {index}", mapping))

    def _given_option(self, op: Op, rule: ShardingRule) -> Option | None:
        """The option that the program gives an op, or a method that was registered for it."""
        if op.signature.text(OPTION) is not None:
            return preset(op, rule, self.mesh, str(self.graph.locations[op.location]))
        if overrides_of(op.signature.label).sharding_option is None:
            return None
        reads = [self.uses.get((op, index)) or self._value(value) for index, value in enumerate(op.operands)]
        makes = [self._value(value) or self._first_use(value) for value in op.results]
        said = [None if one is None else one.sharding for one in (*reads, *makes)]
        return own_option(op.signature, rule, self.mesh, said, lambda: str(self.graph.locations[op.location]))

    def _option_text(self, option: Option, rule: ShardingRule, mesh: Mesh) -> str | None:
        """What a completed program says of an op's option; positions are those of axes of the function's mesh."""
        return option_text(lambda factor: option.get(factor, ()), rule, mesh) if mesh == self.mesh else None

    def _op_statements(self, op: Op, reads: list[tuple[Op, int]], results: Sequence[int]) -> list[OpStatement]:
        """What is said about an op's tensors, results first."""
        statements: list[OpStatement] = []
        label = op.signature.label
        for tensor, index in enumerate(results, start=len(reads)):
            value = self._of(op.results[index])
            known, name = self.values.get(value), f"result {index}"
            if known is not None:
                statements.append(
                    OpStatement(tensor, value, known, name, label, known.required, known.line, decided=True)
                )
            elif (use := self._first_use(value)) is not None:
                statements.append(OpStatement(tensor, value, use, f"a use of {name}", label))
        for tensor, (reader, index) in enumerate(reads):
            known, name, label = self.uses.get((reader, index)), f"operand {index}", reader.signature.label
            value = reader.operands[index]
            if known is not None:
                statements.append(OpStatement(tensor, value, known, name, label, known.required, known.line))
            elif (known := self._value(value)) is not None:
                statements.append(OpStatement(tensor, value, known, name, label))
        return statements

    def _drop(self, dropped: list[Dropped], op: Op, reads: list[tuple[Op, int]], results: Sequence[int]) -> None:
        """Hints that lost make room for what the op's option gives."""
        self.completion.dropped += dropped
        for tensor in {one.hint.tensor for one in dropped}:
            if tensor < len(reads):
                del self.uses[reads[tensor]]
            else:
                del self.values[self._of(op.results[results[tensor - len(reads)]])]

    def _value(self, value: int) -> Statement | None:
        return self.values.get(self._of(value))

    def _first_use(self, value: int) -> Statement | None:
        for use in self.users.get(self._of(value), ()):
            if use in self.uses:
                return self.uses[use]
        return None

    # The result

    def _finish(self) -> Graph:
        working, statements = self.working, self.completion.statements
        for value in self.block.arguments:
            self._argument(value)
        for value, type in enumerate(working.types):
            known = self._value(value)
            if known is not None:
                statements.setdefault(value, known)
                working.shardings[value] = known.sharding
            else:
                working.shardings[value] = replicated(self.mesh, type.rank) if type.is_tensor else None
        made = self.graph.skeleton(Stage.PROPAGATED)
        made.main.result_shardings = self.results = self._results()
        for block in self.block.blocks():
            self._reshard(block)
        reshard_where_unfit(working)
        made.types, made.shardings, made.main.block = working.types, working.shardings, self.block
        return made

    def _argument(self, value: int) -> None:
        """An argument of `main` of which nothing is said is split as its first use is, as far as callers may see."""
        known = self.values.get(value) or self._as_used(value)
        if known is None or known.required:
            return
        self.completion.statements[value] = known
        dims = tuple(replace(dim, open=True) for dim in known.sharding.dims)
        outer = outermost(replace(known.sharding, dims=dims), self.working.types[value])
        if outer is not None:
            self.values[value] = replace(known, sharding=outer.closed())

    def _as_used(self, value: int) -> Statement | None:
        for reader, index in self.users.get(value, ()):
            use = self.uses.get((reader, index))
            if use is not None:
                statement = OpStatement(0, value, use, f"operand {index}", reader.signature.label)
                return copied("use", reader, statement, "the argument")
        return None

    def _results(self) -> list[TensorSharding | None]:
        """The shardings of the results of `main`: those of what it returns, all sums done, where nothing is said."""
        results: list[TensorSharding | None] = []
        terminator = self.block.terminator
        for index, value in enumerate(terminator.operands):
            own = self.working.shardings[value]
            sharding = None if own is None else own.with_axes(own.axes)
            known = self.uses.get((terminator, index))
            if known is not None:
                sharding = known.sharding
            elif (returned := self._value(value)) is not None:
                statement = OpStatement(0, value, returned, f"operand {index}", terminator.name)
                known = copied("return", terminator, statement, f"result {index} of main")
            if known is not None:
                self.completion.statements[~index] = known
            self.completion.same[~index] = self._of(value)
            results.append(outermost(sharding, self.working.types[value]))
        return results

    def _reshard(self, block: Block) -> None:
        """Let every use in a block read its value as its annotation says."""
        ops: list[Op] = []
        made: dict[tuple[int, TensorSharding], int] = {}
        for op in block.ops:
            option = self.options.get(op)
            if op.signature.text(OPTION) != option:
                op.signature = op.signature.replace(operands=None, results=None, **{OPTION: option})
            op.operands = tuple([self._read(op, index, value, ops, made) for index, value in enumerate(op.operands)])
            ops.append(op)
        block.ops = ops

    def _read(self, op: Op, index: int, value: int, ops: list[Op], made: dict[tuple[int, TensorSharding], int]) -> int:
        """What an op is to read instead of `value`: a reshard, one for all uses alike in a block, if it needs one."""
        now, (target, known, source) = self.working.shardings[value], self._read_as(op, index)
        if now is None or target is None or op.name == RESHARD or _serves(now, target):
            return value
        if (value, target) not in made:
            type = self.working.types[value]
            result = made[value, target] = self.working.new_value(type, target)
            self.completion.same[result] = self._of(value)
            if known is not None:
                statement = OpStatement(0, value, known, source, op.signature.label)
                self.completion.statements[result] = copied("use", op, statement, "the reshard")
            ops.append(Op(Signature(RESHARD, (), (type,), (type,)), (value,), (result,), (), op.location))
        return made[value, target]

    def _read_as(self, op: Op, index: int) -> tuple[TensorSharding | None, Statement | None, str]:
        """The sharding that an op wants of an operand, what that follows from, and what users call that."""
        if op is self.block.terminator:
            return self.results[index], self.completion.statements.get(~index), f"result {index} of main"
        result = self.carried.get((op, index))
        if result is not None:
            return self.working.shardings[result], self._value(result), "the result that it becomes"
        use = self.uses.get((op, index))
        return None if use is None else use.sharding, use, f"operand {index}"


def _visits(block: Block) -> Iterator[Op]:
    """Ops in the order in which they are visited forward: control flow before its regions and after them."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _visits(region)
        if op.regions and op.name in _TIED:
            yield op


def _operand(op: Op, read: tuple[Op, int]) -> str:
    """What users call what an op reads: an operand, or what a region of it returns."""
    reader, index = read
    return f"operand {index}" if reader is op else f"operand {index} of {reader.signature.label}"


def _serves(now: TensorSharding, target: TensorSharding) -> bool:
    """Whether a use needs no reshard; partitioning reduces partial sums that are alike else, and as late as it can."""
    if target == now:
        return True
    summed = set(target.partial) <= set(now.partial)
    return summed and target.with_axes(target.axes).equivalent(now.with_axes(now.axes))
