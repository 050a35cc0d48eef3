"""Programs, plans and partitioned programs as tables in notebooks.

>>> from shardwright.ir.types import TensorType
>>> program_html("step", {"x": TensorType((4,), "f32")}, {}).count("<tr>")
2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TypeVar

from shardwright.analysis.memory import MemoryUse
from shardwright.analysis.traffic import TrafficSummary
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.words import bytes_text, counted

__all__ = ["plan_html", "program_html", "spmd_html"]

_MOST = 40
"""Rows of a table; how many more there are is said."""


def program_html(name: str, arguments: Mapping[str, TensorType], results: Mapping[str, TensorType]) -> str:
    """The arguments and results of a program, with their types."""
    rows = [(role, one, str(type)) for role, one, type in _roles(arguments, results)]
    return _table(name, ("", "name", "type"), rows)


def plan_html(
    name: str,
    mesh: Mesh,
    types: tuple[Mapping[str, TensorType], Mapping[str, TensorType]],
    shardings: tuple[Mapping[str, TensorSharding], Mapping[str, TensorSharding]],
    given: Sequence[bool],
) -> str:
    """The arguments and results of a plan, with their shardings, those that users gave in bold, and sizes on a device.

    Arguments:
        name: What the program is called.
        mesh: The devices.
        types: Types of arguments and of results by name.
        shardings: How they lie.
        given: Of each argument and then each result, whether its sharding was given.
    """
    lies = [sharding for _, _, sharding in _roles(*shardings)]
    rows = [
        (role, one, str(type), repr(sharding), _local_size(type, sharding))
        for (role, one, type), sharding in zip(_roles(*types), lies, strict=True)
    ]
    bold = {number for number, is_given in enumerate(given) if is_given}
    return _table(f"{name} on {mesh!r}", ("", "name", "type", "sharding", "on a device"), rows, bold)


def spmd_html(name: str, mesh: Mesh, traffic: TrafficSummary, memory: MemoryUse, notes: Iterable[str]) -> str:
    """What a partitioned program sends and holds on each device, and its notes."""
    every = [*traffic.kinds.items(), ("total", traffic.total)]
    rows = [(kind, f"{one.static:,}", f"{one.executed:,}", bytes_text(one.executed_bytes)) for kind, one in every]
    sent = _table(f"{name} on {mesh!r}", ("collectives", "in program", "executed", "sent per device"), rows)
    held = [
        ("arguments", bytes_text(memory.arguments)),
        ("donated of them", bytes_text(memory.donated)),
        ("results", bytes_text(memory.results)),
        (f"peak ({memory.peak_op} at {memory.peak_location})", bytes_text(memory.peak)),
        ("allocated, once compilers have fused ops", bytes_text(memory.allocated)),
    ]
    lines = list(notes)
    more = [f"… and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    told = "".join(f"<li>{escape(line)}</li>" for line in [*lines[:_MOST], *more])
    return sent + _table("Memory per device", ("", ""), held) + (f"<ul>{told}</ul>" if told else "")


_Value = TypeVar("_Value")


def _roles(arguments: Mapping[str, _Value], results: Mapping[str, _Value]) -> list[tuple[str, str, _Value]]:
    pairs = (("argument", arguments), ("result", results))
    return [(role, name, value) for role, values in pairs for name, value in values.items()]


def _local_size(type: TensorType, sharding: TensorSharding) -> str:
    return bytes_text(type.with_shape(sharding.local_shape(type.dims)).bytes) if type.is_tensor else ""


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], bold: Iterable[int] = ()) -> str:
    """A table; a page of a notebook gives it its looks."""
    strong = set(bold)
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell, number in strong)}</td>" for cell in row) + "</tr>"
        for number, row in enumerate(rows[:_MOST])
    )
    more = f"<p>… and {counted(len(rows) - _MOST, 'more row')}</p>" if len(rows) > _MOST else ""
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>{more}"


def _cell(text: str, is_strong: bool) -> str:
    return f"<b>{escape(text)}</b>" if is_strong else escape(text)
