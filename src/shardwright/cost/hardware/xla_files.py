"""Figures of data sheets from files of XLA: descriptions of GPUs, and tables of what collectives took.

Both are protocol buffers in their text format, told apart by their fields:

- `GpuTargetConfigProto`, as in XLA's folder `gpu/target_config/specs`: memory, and peaks of its matrix units by type. A
  rate counts multiply-adds. The matrix units' f32 is `tf32`; that of the scalar units is `f32`.
- `DeviceHloInstructionProfiles`, as `default_collective_perf_table.txtpb`: for each device collectives of several
  kinds, sizes and groups, each with its throughput: the bytes of the whole tensor by the time that it took. The start
  and the speed of a link are fitted to all of a device: see `fit`.

Source: XLA, `stream_executor/device_description.proto`, `service/gpu/model/hlo_op_profile.proto`,
`tools/collective_perf_table_gen.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardwright.cost.collectives import sent_bytes
from shardwright.cost.hardware.figures import FIGURES
from shardwright.cost.hardware.fit import Timed, fit_link
from shardwright.cost.hardware.sheet import Sheet, Sourced
from shardwright.cost.hardware.textproto import Message, parse_message
from shardwright.errors import ShardingError

__all__ = ["Figures", "completed", "figures_from", "timed_collectives"]

_PEAKS = {16: "compute", 12: "f64", 11: "tf32", 20: "f8", 2: "i8"}
"""Primitive types of XLA, bf16, f64, f32, f8e4m3fn and s8, and the figure that a matrix unit's rate of each is."""
_F32 = 11
_BITS = {"BF16": 16, "F16": 16, "F32": 32, "F64": 64, "S32": 32, "U32": 32, "S8": 8, "U8": 8, "PRED": 8}
_KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a file says of a hardware: what it calls it, and figures by name."""

    name: str
    figures: Mapping[str, Sourced]


def figures_from(text: str, location: str, device: str | None = None) -> Figures:
    """The figures that a file of XLA has.

    Arguments:
        text: A `GpuTargetConfigProto` or `DeviceHloInstructionProfiles` as text.
        location: What diagnostics and sources call it.
        device: Whose collectives, where a table has several devices.

    Raises:
        ShardingError: a file of another kind, a table without collectives, or one of several devices without a word of
            which.
    """
    message = parse_message(text, location)
    if "gpu_device_info" in message:
        return _of_description(message, location)
    if "entries" in message:
        return _of_table(message, location, device)
    raise ShardingError(
        "neither a description of a GPU nor a table of collectives",
        location=location,
        cause=f"its fields are {', '.join(message) or 'none'}"[:200],
        remedy="give a GpuTargetConfigProto or DeviceHloInstructionProfiles of XLA, in text format",
    )


def completed(base: Sheet | None, files: Sequence[Figures]) -> Sheet:
    """A data sheet with the figures of files, the later before the earlier, and all others from `base`.

    Raises:
        ShardingError: a figure that every data sheet has, and neither the files nor `base`.
    """
    figures = dict(base.figures) if base is not None else {}
    for file in files:
        figures |= file.figures
    for figure in FIGURES:
        if figure.is_needed and figure.name not in figures:
            raise ShardingError(
                f"the files do not say {figure.meaning}",
                cause=f"[{figure.table}] {figure.key} is in every data sheet",
                remedy="give another file that does, or the name of the hardware whose figures it is to have else",
            )
    return Sheet(base.name if base is not None else files[0].name, figures)


def _of_description(message: Message, location: str) -> Figures:
    info = _message(message, "gpu_device_info")
    name = str(_first(message, "device_description_str") or _first(info, "name") or "a GPU")
    cores, source = _number(info, "core_count"), f"XLA's description of {name}, {location}"
    figures: dict[str, Sourced] = {}
    for unit, keys in (("matrix_unit_description", _PEAKS), ("scalar_unit_description", {_F32: "f32"})):
        for entry in _messages(_message(info, unit), "rate_infos"):
            rate, figure = _message(entry, "value"), keys.get(int(_number(entry, "key")))
            keyed = (_number(rate, key) for key in ("clock_rate_ghz", "units_per_core", "ops_per_clock"))
            per_second = 1e9 * math.prod(keyed)
            if figure is not None and cores * per_second > 0:
                figures[figure] = Sourced(2 * cores * per_second, source)
    for figure, key in (("memory", "device_memory_size"), ("memory_traffic", "memory_bandwidth")):
        if (value := _number(info, key)) > 0:
            figures[figure] = Sourced(value, source)
    if "memory_traffic" in figures:
        figures["copies"] = Sourced(figures["memory_traffic"].value / 2, f"{source}: each byte is read and written")
    return Figures(name, figures)


def _of_table(message: Message, location: str, device: str | None) -> Figures:
    entries = [entry for entry in _messages(message, "entries") if "key" in entry]
    tables = {str(_first(entry, "key")): _message(entry, "value") for entry in entries}
    if device is None and len(tables) == 1:
        device = next(iter(tables))
    if device is None or device not in tables:
        raise ShardingError(
            f"the table has no device {device!r}" if device else "the table does not say of which device",
            location=location,
            cause=f"it has {', '.join(tables) or 'none'}",
            remedy="name one of them with --device",
        )
    times = list(timed_collectives(tables[device]))
    if not times:
        raise ShardingError(
            f"the table has no collective of {device}",
            location=location,
            remedy="give one with throughputs of collectives",
        )
    link = fit_link(times)
    source = (
        f"fitted to {len(times)} collectives of {device} that XLA has timed, {location}: off by "
        f"{link.error:.0%} in the median"
    )
    return Figures(
        device, {"link": Sourced(link.bytes_per_second, source), "start": Sourced(link.start_seconds, source)}
    )


def timed_collectives(table: Message) -> Iterator[Timed]:
    """The collectives of one device that its table has times of, each with what a device sends in it."""
    for entry in _messages(table, "entries"):
        instruction, speed = _message(entry, "instruction"), _number(entry, "network_throughput_bytes_per_sec")
        kind, shape = str(_first(instruction, "opcode")), _message(instruction, "shape")
        bits = _BITS.get(str(_first(shape, "element_type")))
        groups = _message(instruction, "iota_collective_device_list")
        devices = int(_number(groups, "num_devices_per_group")) or (2 if kind == "collective-permute" else 0)
        if kind not in _KINDS or bits is None or speed <= 0 or devices < 2:
            continue
        result = bits / 8 * math.prod(size for size in shape.get("dimensions", []) if isinstance(size, int))
        whole = result * devices if kind == "reduce-scatter" else result
        operand = result / devices if kind == "all-gather" else whole
        sent = sent_bytes(kind.replace("-", "_"), operand, result, devices)
        if whole > 0:
            yield Timed(sent, whole / speed)


def _messages(message: Message, field: str) -> list[Message]:
    return [value for value in message.get(field, []) if isinstance(value, dict)]


def _message(message: Message, field: str) -> Message:
    """A field that is a message; an empty one where it is not there."""
    return next(iter(_messages(message, field)), {})


def _first(message: Message, field: str) -> object:
    return next(iter(message.get(field, [])), None)


def _number(message: Message, field: str) -> float:
    """A number; 0 where it is not there, as protocol buffers have it."""
    value = _first(message, field)
    return value if isinstance(value, int | float) else 0
