"""The data sheet of the devices at hand: measured in a process of its own, and fitted.

calibrated(devices=8)    # of 8 virtual CPU devices
calibrated()             # of those that jax has
calibrated(like=sheet_of("h200"))    # of one that is like others: how they are joined is not measured
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from shardwright.cost.collectives import sent_bytes
from shardwright.cost.hardware.figures import PEAKS
from shardwright.cost.hardware.fit import Timed, fit_link
from shardwright.cost.hardware.sheet import Sheet, Sourced
from shardwright.errors import ShardingError
from shardwright.process import DEFAULT_TIMEOUT, python_child
from shardwright.runtime.execute import environment_of
from shardwright.runtime.gpus import GPU_PLATFORMS
from shardwright.words import counted

__all__ = ["NOT_MEASURED", "calibrated", "sheet_of_measured"]

NOT_MEASURED = "not measured"
"""How the source of a figure begins that was taken from another data sheet."""

PATIENCE = 0.1
"""Seconds that one measurement takes about."""

_DIGITS = 3
_LEAST_LOST = 1e-3
"""What part of its time a product loses in parts at least: parts that are faster are measured by chance."""
_JOINED = ("link", "start", "node")
"""The figures of how devices are joined."""


def calibrated(
    devices: int | None = None,
    *,
    name: str | None = None,
    like: Sheet | None = None,
    patience: float = PATIENCE,
    timeout: float = DEFAULT_TIMEOUT,
) -> Sheet:
    """The data sheet of the devices at hand.

    Arguments:
        devices: How many virtual CPU devices to measure; those that jax has by default.
        name: What messages shall call them.
        like: Whose links one device is given, which has none to measure.
        patience: Seconds that one measurement takes about: longer ones are less disturbed, and larger.
        timeout: Seconds for all.

    Raises:
        ShardingError: the devices cannot be measured, or there is only one, which sends nothing, and none it is like.
    """
    environment = dict(os.environ) if devices is None else environment_of(devices)
    with python_child(
        "shardwright.runtime.measure",
        str(patience),
        environment=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        try:
            output, words = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ShardingError(
                f"measuring the devices took longer than {timeout:g} seconds",
                remedy="measure when they do nothing else, or fewer of them",
            ) from None
    if child.returncode != 0:
        last = words.decode(errors="replace").strip().splitlines()[-1:]
        raise ShardingError("the devices cannot be measured", cause=last[0][:400] if last else "")
    return sheet_of_measured(json.loads(output.splitlines()[-1]), name, like)


def sheet_of_measured(measured: Mapping[str, Any], name: str | None = None, like: Sheet | None = None) -> Sheet:
    """The data sheet that measurements of `runtime.measure` come to, each number to three digits.

    Arguments:
        measured: What it prints.
        name: What messages shall call the devices.
        like: Whose links one device is given, which has none to measure.

    Raises:
        ShardingError: of one device, which sends nothing, and none that it is like; or of times that are those of no
            link.
    """
    count = int(measured["devices"])
    whose = counted(count, f"{measured['device']} device")
    by = f"measured with jax {measured['jax']} on {whose}"
    figures = (_link(measured, by) if count > 1 else _links_of(like)) | _products(measured, by)
    if memory := measured["memory"]:
        figures["memory"] = Sourced(float(memory), f"what jax {measured['jax']} says of {whose}")
    copied = measured["copy"]
    if copied["seconds"] > 0:
        speed = copied["bytes"] / copied["seconds"]
        source = f"{by}: a tensor of {copied['bytes'] / 2:,.0f} bytes on each device read and written, all at once"
        figures["memory_traffic"] = _sourced(speed, source)
        if measured["platform"] in GPU_PLATFORMS:  # what collectives and products read is laid out anew: `cost.copies`
            figures["copies"] = _sourced(speed / 2, f"{source}; half of that, since each byte is read and written")
    if (parts := measured["parts"]) is not None and parts["whole"] > 0:
        lost = max(_LEAST_LOST, parts["seconds"] / parts["whole"] - 1)
        side = f"{parts['side']:,.0f}"
        source = f"{by}: a product of {side}×{side} by {side}×{side} in {parts['parts']} parts, by the whole one"
        figures["parts"] = _sourced(lost, source)
    return Sheet(name or whose, figures)


def _link(measured: Mapping[str, Any], by: str) -> dict[str, Sourced]:
    times = [
        Timed(sent_bytes(one["kind"], one["operand"], one["result"], one["devices"]), one["seconds"])
        for one in measured["collectives"]
        if one["seconds"] > 0
    ]
    link = fit_link(times)
    source = f"{by}: fitted to {counted(len(times), 'collective')}, off by {link.error:.0%} in the median"
    return {"link": _sourced(link.bytes_per_second, source), "start": _sourced(link.start_seconds, source)}


def _links_of(like: Sheet | None) -> dict[str, Sourced]:
    """How devices like one that is alone are joined."""
    if like is None:
        raise ShardingError(
            "one device sends nothing: its links cannot be measured",
            remedy="say whose links it has (--like h200), give --devices, for virtual CPU devices, "
            "or run where jax has several",
        )
    return {
        name: Sourced(figure.value, f"{NOT_MEASURED}, that of {like.name}: {figure.source}")
        for name, figure in like.figures.items()
        if name in _JOINED
    }


def _products(measured: Mapping[str, Any], by: str) -> dict[str, Sourced]:
    """The peaks of types."""
    figures: dict[str, Sourced] = {}
    for name in ("compute", *PEAKS):
        if (product := measured["products"].get(name)) is not None and product["seconds"] > 0:
            side = f"{product['side']:,.0f}×{product['side']:,.0f}"
            source = f"{by}: a product of {side} by {side} on each device, all at once"
            figures[name] = _sourced(product["operations"] / product["seconds"], source)
    if "compute" not in figures:
        raise ShardingError("the devices cannot be measured", cause="they multiply no bf16", remedy="report this")
    return figures


def _sourced(value: float, source: str) -> Sourced:
    return Sourced(float(f"{value:.{_DIGITS}g}"), source)
