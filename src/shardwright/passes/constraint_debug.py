"""What `sdy-apply-sharding-constraints` notes for those who ask where a sharding came from.

`sdy.propagation_edges` on a constraint tells in which step its axes went to its input. `sdy.sharding_origins` names,
for each axis of a value, the annotation that it came from: `input: 0`, `output: 0`, `constraint_0`, `mc_0_input: 0`,
`mc_0_output: 0`; `self` where it is the value's own. The op that has the annotation says its name in
`sdy.sharding_origin_name`. Shardings of other ops are no annotations here, as in Shardy.

Source: the `sdy` dialect's PropagationEdgesAttr, and the debug options of Shardy's passes.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import context, ir, parse_attribute
from shardwright.ir.ops import MANUAL
from shardwright.passes.module_ops import (
    ARGUMENTS,
    RESULTS,
    edge_of,
    first_results,
    functions,
    operations,
    returned_by,
    rows_of,
    set_rows,
)
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Option, Options
from shardwright.propagation.debug.attributes import axis_name, edges_text, origins_text
from shardwright.propagation.givers import OpTensor
from shardwright.propagation.working import CONSTRAINT, EDGE
from shardwright.sharding import TensorSharding

__all__ = ["OPTIONS", "Notes"]

_EDGES = Option("debug-propagation-edge-sharding", False, "Whether to save the edges that shardings flowed along.")
_ORIGINS = Option("debug-sharding-origins", False, "Whether to save the annotation that each axis came from.")
OPTIONS = (_EDGES, _ORIGINS)

_SAYS = "sdy.sharding_origins"
_NAME = "sdy.sharding_origin_name"


class Notes:
    """Collects what is asked for, and writes it at the end."""

    def __init__(self, module: ir.Module, options: Options) -> None:
        """Name the annotations that a module has before constraints are applied."""
        self._edges = bool(options[_EDGES.name])
        self._origins = _Origins(module) if options[_ORIGINS.name] else None
        self._step = 0

    def applied(self, constraint: Any, sharding: TensorSharding) -> None:
        """Note that a constraint's input took its sharding."""
        if self._edges and (sharding.rank or sharding.replicated or sharding.partial):  # else it says nothing new
            axes = sharding.used_axes
            if axes:
                flows = {self._step: {axis: {OpTensor(True, 0): {OpTensor(False, 0)}} for axis in axes}}
                text = edges_text(flows, dict.fromkeys((axis.name for axis in axes), sharding.mesh))
                constraint.attributes["sdy.propagation_edges"] = parse_attribute(text)
            self._step += 1
        if self._origins is not None:
            self._origins.say(constraint.operands[0], sharding, self._origins.names[constraint.results[0]])

    def write(self) -> None:
        """Write the origins."""
        if self._origins is not None:
            self._origins.write()


class _Origins:
    """Value that holds a sharding → axis → where it came from."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.shardings = Shardings(module)
        self.names: dict[Any, str] = {}  # by result of a constraint: an op's hash changes with what it says
        self.of_value: dict[Any, dict[str, str]] = {}
        self.own: dict[Any, str] = {}
        ops = operations(module, inner_first=True)
        for number, op in enumerate(op for op in ops if op.name == CONSTRAINT):
            name = self.names[op.results[0]] = f"constraint_{number}"
            _name(op, name)
            self._own(op.results[0], name)
            self.say(op.operands[0], self.shardings.of(op.operands[0]), name)
        for number, op in enumerate(op for op in ops if op.name == MANUAL):
            self._manual(op, f"mc_{number}")
        for function in functions(module):
            self._boundary(function)

    def say(self, value: Any, sharding: TensorSharding | None, name: str) -> None:
        """Note where the axes of a sharding came from, but for those that are known."""
        if sharding is not None:
            axes = self.of_value.setdefault(_holder(value), {})
            for axis in sharding.used_axes:
                axes.setdefault(axis_name(axis, sharding.mesh), name)

    def _own(self, value: Any, name: str, sharding: TensorSharding | None = None) -> None:
        self.own[_holder(value)] = name
        self.say(value, sharding or self.shardings.of(value), name)

    def _manual(self, op: Any, name: str) -> None:
        _name(op, name)
        incoming = self.shardings.read(op.attributes["in_shardings"])
        (body,) = op.regions[0].blocks
        for index, (inside, operand, sharding) in enumerate(zip(body.arguments, op.operands, incoming, strict=True)):
            self._own(inside, f"{name}_input: {index}", sharding)
            self.say(operand, self.shardings.of(operand), f"{name}_input: {index}")
        outgoing = self.shardings.read(op.attributes["out_shardings"])
        for index, (result, sharding) in enumerate(zip(op.results, outgoing, strict=True)):
            self._own(result, f"{name}_output: {index}", sharding)

    def _boundary(self, function: Any) -> None:
        for index, value in enumerate(_arguments(function)):
            self.say(value, self.shardings.of(value), f"input: {index}")
        of_results = self.shardings.of_rows(function, RESULTS)
        for index, value in enumerate(returned_by(function)):
            self.say(value, of_results[index], f"output: {index}")

    # Writing

    def write(self) -> None:
        for function in functions(self.module):
            arguments = rows_of(function, ARGUMENTS)
            for index, value in enumerate(_arguments(function)):
                self._write_row(arguments[index], value, f"input: {index}")
            set_rows(function, ARGUMENTS, arguments)
            results = rows_of(function, RESULTS)
            for index, value in first_results(function):
                self._write_row(results[index], value, f"output: {index}")
            set_rows(function, RESULTS, results)
        for op in operations(self.module):
            origins = [self.of_value.get(value) for value in op.results]
            if not any(origins):
                continue
            texts = [
                origins_text(axes or {}, self.own.get(value)) for value, axes in zip(op.results, origins, strict=True)
            ]
            text = texts[0] if op.name in (EDGE, CONSTRAINT) else f"[{', '.join(texts)}]"
            op.attributes[_SAYS] = parse_attribute(text)

    def _write_row(self, row: dict[str, Any], value: Any, own: str) -> None:
        axes = self.of_value.get(value)
        if axes:
            row[_SAYS] = parse_attribute(origins_text(axes, own))


def _name(op: Any, name: str) -> None:
    op.attributes[_NAME] = ir.StringAttr.get(name, context=context())


def _holder(value: Any) -> Any:
    """The value that holds the sharding of `value`: the result of its edge, where it has one."""
    if isinstance(value, ir.BlockArgument):
        owner = value.owner.owner.operation
        if owner.name == "stablehlo.while":
            return _holder(owner.results[value.arg_number])
    edge = edge_of(value)
    return value if edge is None else edge.results[0]


def _arguments(function: Any) -> list[Any]:
    blocks = list(function.regions[0].blocks)
    return list(blocks[0].arguments) if blocks else []
