"""Shardy's debug attributes: where each axis came from, and through which ops it flowed.

`sdy.sharding_origins = {a = "input: 0"}` on an argument, a result of `main`, or an op (an array there, one entry per
result) names for each axis the annotation it came from:

| name | annotation |
| --- | --- |
| `input: 0`, `output: 0` | of an argument or a result of `main` |
| `constraint_0`, `mc_0_input: 0`, `mc_0_output: 0` | of the op whose `sdy.sharding_origin_name` says so |
| `annotation_0` | the same, of any other op with a sharding (Shardy itself ends on those) |
| `self` | its own |

`sdy.propagation_edges = #sdy.propagation_edges<[{step-2 = [{"y" = operand-1 -> [operand-0, result-0]}]}]>` tells
in which step which operand or result gave an axis to which others. Steps between results of `main` and what it
returns all stand on its first result, as in Shardy. What edges of control flow had stands on the op whose edges they
are, as `sdy.result_…` and `sdy.block_arg_…`.

Source: the `sdy` dialect's PropagationEdgesAttr, and the options `debug-sharding-origins` and
`debug-propagation-edge-sharding` of its propagation passes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shardwright.axes import AxisRef
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import DATA_FLOW_OPS
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import print_axis
from shardwright.propagation.debug.origins import Origins
from shardwright.propagation.givers import OpTensor, new_axes
from shardwright.propagation.recording import RecordedStep, Recording
from shardwright.propagation.working import CONSTRAINT, EDGE

__all__ = ["Debug", "axis_name", "edges_text", "origins_text", "write_debug"]

_ORIGINS = "sharding_origins"
_EDGES = "propagation_edges"
_STEP = re.compile(r"\{step-(\d+) = ")

Flows = dict[int, dict[AxisRef, dict[OpTensor, set[OpTensor]]]]
"""Step → axis → where it came from → where it went."""


@dataclass(frozen=True, slots=True)
class Debug:
    """Which debug attributes to write."""

    origins: bool = False
    edges: bool = False

    @property
    def any(self) -> bool:
        """Whether there is anything to write."""
        return self.origins or self.edges


def write_debug(
    debug: Debug,
    record: Recording,
    graph: Graph,
    returned: Sequence[int],
    *,
    sink: bool,
    noted_results: Sequence[int] | None = None,
) -> None:
    """Write the debug attributes of what was recorded into `graph`, whose ops are those that were propagated.

    Arguments:
        debug: Which ones.
        record: What happened.
        graph: The program as it was propagated.
        returned: What `main` returned before import.
        sink: Whether to write what edges have to say on the ops whose edges they are.
        noted_results: Of each value returned, the result that tells of it, where the order of uses is known.
    """
    writer = _DebugWriter(record, graph, returned, sink)
    writer.noted_results = noted_results
    if debug.origins:
        writer.origins()
    if debug.edges:
        writer.edges()
    writer.finish()


class _DebugWriter:
    def __init__(self, record: Recording, graph: Graph, returned: Sequence[int], sink: bool) -> None:
        self.record = record
        self.returned = returned
        self.working = record.working
        self.sink = sink
        self.attributes: dict[Op, dict[str, str]] = {}
        self.arguments: list[dict[str, str]] = [dict(entries) for entries in graph.main.argument_attributes]
        self.results: list[dict[str, str]] = [dict(entries) for entries in graph.main.result_attributes]
        self.main = graph.main
        self.noted_results: Sequence[int] | None = None
        self.first_step = _next_step(graph)
        self.makers = {op.results[0]: op for op in record.ops if op.name in (EDGE, CONSTRAINT)}
        shardings = (sharding for sharding in self.working.shardings if sharding is not None)
        meshes = (*graph.meshes.values(), *(sharding.mesh for sharding in shardings))  # or spelt out in each sharding
        self.mesh_of: dict[str, Mesh] = {}
        for mesh in dict.fromkeys(meshes):
            for axis in mesh.sizes:
                self.mesh_of.setdefault(axis, mesh)

    def finish(self) -> None:
        self.main.argument_attributes = self.arguments
        self.main.result_attributes = self.results
        for op, attributes in self.attributes.items():
            merged = {**dict(op.signature.attributes), **attributes}
            op.signature = replace(op.signature, attributes=tuple(sorted(merged.items())))

    # Origins

    def origins(self) -> None:
        origins = Origins(self.record)
        for op, name in origins.names.items():
            self._set(op, "sdy.sharding_origin_name", json.dumps(name))
        for value, index in self._noted().items():
            axes = origins.of_value.get(value)
            if axes:
                self.results[index][f"sdy.{_ORIGINS}"] = self._dictionary(axes, f"output: {index}")
        for index, value in enumerate(self.working.block.arguments):
            axes = origins.of_value.get(value)
            if axes:
                self.arguments[index][f"sdy.{_ORIGINS}"] = self._dictionary(axes, f"input: {index}")
        on_edges: dict[int, str] = {}
        for op in self.working.block.walk():
            texts = [
                self._dictionary(origins.of_value[value], origins.own(value)) if origins.of_value.get(value) else "{}"
                for value in op.results
            ]
            if all(text == "{}" for text in texts):
                continue
            if op.name == EDGE:
                on_edges[op.results[0]] = texts[0]
            single = op.name in (EDGE, CONSTRAINT)
            self._set(op, f"sdy.{_ORIGINS}", texts[0] if single else f"[{', '.join(texts)}]")
        self._sink(_ORIGINS, on_edges)

    def _noted(self) -> dict[int, int]:
        """Of each value that `main` returns, the result that tells of it."""
        operands = self.working.block.terminator.operands
        if self.noted_results is not None:
            return {operands[index]: index for index in self.noted_results}
        returned: dict[int, int] = {}
        moved: set[int] = set()
        for index, value in enumerate(operands):
            # Of a value returned twice, Shardy notes the use that it finds first: the last, but uses that import
            # steps moved come before others, and their order turns round each time.
            moves = self._moves(value, index)
            if (
                value not in returned
                or (moves and value not in moved)
                or (moves % 2 == 0 and bool(moves) == (value in moved))
            ):
                returned[value] = index
            if moves:
                moved.add(value)
        return returned

    def _moves(self, value: int, index: int) -> int:
        """How often import steps replaced what `main` returned as result `index`; it is `value` now."""
        count = 0
        while value != self.returned[index] and value in self.makers:
            value = self.makers[value].operands[0]
            count += 1
        return count

    def _dictionary(self, axes: Mapping[AxisRef, str], own: str) -> str:
        return origins_text({axis_name(axis, self.mesh_of[axis.name]): name for axis, name in axes.items()}, own)

    # Edges

    def edges(self) -> None:
        of_op: dict[int, Flows] = {}
        of_results: Flows = {}
        seen: set[tuple[int, AxisRef, OpTensor]] = set()
        for event in self.record.events:
            if not isinstance(event, RecordedStep):
                continue
            position = max(event.op, -1)
            flows = of_results if position < 0 else of_op.setdefault(position, {})
            for axis, source, target in new_axes(event):
                if (position, axis, target) in seen:
                    continue
                seen.add((position, axis, target))
                flows.setdefault(self.first_step + event.number, {}).setdefault(axis, {}).setdefault(source, set()).add(
                    target
                )
        on_edges: dict[int, str] = {}
        for position, flows in of_op.items():
            if not flows:
                continue
            op = self.record.ops[position]
            text = edges_text(flows, self.mesh_of)
            self._set(op, f"sdy.{_EDGES}", text)
            if op.name == EDGE:
                on_edges[op.results[0]] = text
        if of_results:
            self.results[0][f"sdy.{_EDGES}"] = edges_text(of_results, self.mesh_of)
        self._sink(_EDGES, on_edges)

    def _sink(self, name: str, on_edges: Mapping[int, str]) -> None:
        """Write what edges have on the ops whose edges they are."""
        if not self.sink:
            return
        holder = self.working.holder
        for op in self.working.block.walk():
            if op.name not in DATA_FLOW_OPS:
                continue
            inward = op.regions[0].arguments if op.name.startswith("sdy.") else ()
            for prefix, owners in (("block_arg", inward), ("result", op.results)):
                texts = [on_edges[holder[owner]] for owner in owners if holder.get(owner, -1) in on_edges]
                self._set(op, f"sdy.{prefix}_{name}", f"[{', '.join(texts)}]")

    def _set(self, op: Op, name: str, text: str) -> None:
        self.attributes.setdefault(op, {})[name] = text


def _next_step(graph: Graph) -> int:
    """The number of the first step that no op of a program has noted yet."""
    texts = [op.signature.text(f"sdy.{_EDGES}") for op in graph.walk()]
    return 1 + max((int(number) for text in texts if text for number in _STEP.findall(text)), default=-1)


def axis_name(axis: AxisRef, mesh: Mesh) -> str:
    """An axis as `sdy.sharding_origins` names it: `x`, `y:(1)2`."""
    return print_axis(axis, mesh).replace('"', "")


def origins_text(axes: Mapping[str, str], own: str | None) -> str:
    """`{x = "self", "y:(1)2" = "input: 0"}`: for each axis its annotation, which may be the value's own."""
    names = {axis: "self" if name == own else name for axis, name in axes.items()}
    return "{" + ", ".join(f"{json.dumps(axis)} = {json.dumps(name)}" for axis, name in names.items()) + "}"


def edges_text(flows: Flows, meshes: Mapping[str, Mesh]) -> str:
    """The attribute: steps in order, axes by name, operands before results."""
    steps = []
    for number in sorted(flows):
        axes = []
        for axis in sorted(flows[number]):
            source, targets = next(iter(flows[number][axis].items()))
            names = ", ".join(map(str, sorted(targets)))
            axes.append(f"{{{print_axis(axis, meshes[axis.name])} = {source} -> [{names}]}}")
        steps.append(f"{{step-{number} = [{', '.join(axes)}]}}")
    return f"#sdy.propagation_edges<[{', '.join(steps)}]>"
