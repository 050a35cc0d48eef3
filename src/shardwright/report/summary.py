"""What is said of a run, as plain data: `report.text` prints it for people, `--json` as it is.

Made of values, each by itself; `summary` of a `Plan`, an `Spmd` or a `PerDevice` puts them together. Sizes are bytes
per device, times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardwright.analysis.memory import MemoryUse
    from shardwright.analysis.traffic import TrafficSummary
    from shardwright.cost.hardware import Hardware
    from shardwright.frontends.load import Source
    from shardwright.ir.graph import Graph
    from shardwright.optimize import Improvement
    from shardwright.partition.search.best import Searched
    from shardwright.partition.search.reasons import Layouts, Reason
    from shardwright.runtime.arrays import Array
    from shardwright.runtime.compare import OutputDifference
    from shardwright.runtime.shards import ReplicaDifference
    from shardwright.runtime.verify import Verification

__all__ = [
    "Summary",
    "describe_hardware",
    "describe_improvements",
    "describe_memory",
    "describe_program",
    "describe_reasons",
    "describe_results",
    "describe_search",
    "describe_traffic",
    "describe_verification",
    "tensor_counts",
]

_MAX_GROUPS = 12

Summary = dict[str, Any]
"""JSON values by name."""


def describe_program(source: Source) -> Summary:
    """The program as it was given."""
    return {
        "name": source.name,
        "ops": source.graph.op_count,
        "arguments": len(source.graph.main.argument_names),
        "results": len(source.graph.main.result_names),
    }


def describe_results(results: Mapping[str, Array]) -> Summary:
    """What a program of each device gave, one row a device: shapes on a device, and how many of them differ."""
    by_name = {
        name: {
            "shape": list(array.shape[1:]),
            "dtype": str(array.dtype),
            "distinct": len({row.tobytes() for row in array}),
        }
        for name, array in results.items()
    }
    return {"results": by_name}


def tensor_counts(annotated: Graph, propagated: Graph) -> dict[str, int]:
    """How many tensors users annotated (arguments, results, constraints), and how many were completed."""
    given = _sharded(annotated)
    return {"annotated": given, "completed": max(0, _sharded(propagated) - given)}


def _sharded(graph: Graph) -> int:
    return sum(1 for sharding in (*graph.shardings, *graph.main.result_shardings) if sharding is not None)


def describe_traffic(traffic: TrafficSummary) -> Summary:
    """What is sent, by kind of collective."""
    rows = {kind: asdict(use) for kind, use in traffic.kinds.items()}
    return {"kinds": rows, "total": asdict(traffic.total), "trip_counts_known": traffic.trip_counts_known}


def describe_hardware(hardware: Hardware | None) -> Summary:
    """What the program was decided for, if that was said."""
    return {} if hardware is None else {"hardware": {"name": hardware.name, "memory": hardware.memory_bytes}}


def describe_search(searched: Searched | None) -> Summary:
    """What looking for the best way to split ops came to, if it was asked for: seconds, programs, and the gap left."""
    return {} if searched is None else {"search": {**asdict(searched), "gap": searched.gap}}


def describe_reasons(reasons: Sequence[Reason] | None) -> Summary:
    """Why ops are split as they are, if it was asked for; layouts as text."""
    if reasons is None:
        return {}
    return {
        "reasons": [
            {
                "op": one.op,
                "location": one.location,
                "alike": one.alike,
                "split": _split_text(one.operands, one.results),
                "next_best": _split_text(one.next_operands, one.next_results),
                "seconds_more": one.seconds_more,
            }
            for one in reasons
        ]
    }


def _split_text(operands: Layouts, results: Layouts) -> str:
    """How an op is split: `[{x}, {}], [{}, {y}] → [{x}, {y}]`."""
    return " → ".join(", ".join(map(repr, layouts)) for layouts in (operands, results))


def describe_improvements(improvements: Sequence[Improvement] | None) -> Summary:
    """What was made better of collectives, if it was asked for: bytes and seconds saved in all, and the log."""
    if improvements is None:
        return {}
    return {
        "optimization": {
            "bytes_saved": sum(one.bytes_saved for one in improvements),
            "seconds_saved": sum(one.seconds_saved for one in improvements),
            "log": [asdict(one) for one in improvements],
        }
    }


def describe_memory(use: MemoryUse, hardware: Hardware | None = None) -> Summary:
    """What a device holds at most, where that is, and whether a device of a hardware can, where that is known."""
    most = None if hardware is None else hardware.memory_bytes
    return {
        "arguments": use.arguments,
        "donated": use.donated,
        "results": use.results,
        "peak": use.peak,
        "peak_at": f"{use.peak_op} at {use.peak_location}" if use.peak_op else "",
        "allocated": use.allocated,
        **({} if most is None else {"fits": use.allocated <= most}),
    }


def describe_verification(verification: Verification) -> Summary:
    """Whether the results agree, by group of outputs."""
    rows = [_group(name, outputs) for name, outputs in _grouped(verification.outputs).items()]
    facts = {
        "ok": verification.ok,
        "groups": rows,
        "failures": [f"{output.name}: {output.problem}" for output in verification.outputs if not output.ok],
        "replica_failures": [_replica(one, verification) for one in verification.replicas],
        "runs": verification.runs,
        "notes": list(verification.notes),
        "unsharded_seconds": verification.unsharded_seconds,
        "sharded_seconds": verification.local_seconds,
        **_in_processes(verification),
    }
    return {"verification": facts}


def _in_processes(verification: Verification) -> Summary:
    """The run in several processes, if there was one."""
    about = verification.in_processes
    return {} if about is None else {"in_processes": {**asdict(about), "difference": _finite(about.difference)}}


def _grouped(outputs: Sequence[OutputDifference]) -> dict[str, list[OutputDifference]]:
    """Outputs by the beginning of their names, as much of it as makes no more than a table one can read."""
    grouped: dict[str, list[OutputDifference]] = {}
    for depth in range(1, 6):
        deeper: dict[str, list[OutputDifference]] = {}
        for output in outputs:
            deeper.setdefault("/".join(output.name.split("/")[:depth]), []).append(output)
        if depth > 1 and len(deeper) > _MAX_GROUPS:
            break
        grouped = deeper
    return grouped


def _group(name: str, outputs: Sequence[OutputDifference]) -> Summary:
    """A group by the worst of its outputs. What is not finite has no number in JSON: `None`."""
    worst = max(outputs, key=lambda output: (output.fraction, output.element))
    norm = max(output.norm for output in outputs)
    return {
        "name": name,
        "outputs": len(outputs),
        "ok": all(output.ok for output in outputs),
        "largest_element_difference": _finite(worst.element),
        "allowed_element_difference": _finite(worst.allowed),
        "fraction_of_allowed": _finite(worst.fraction),
        "largest_norm_difference": _finite(norm),
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _replica(difference: ReplicaDifference, verification: Verification) -> str:
    name = verification.outputs[difference.output].name
    return f"{name}: the copies at positions {difference.reference} and {difference.position} of the mesh differ"
