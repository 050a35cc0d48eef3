"""What `sw.jit` decides for: the hardware of the session, else what runs it, else a TPU v5p."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.cost.hardware.at_hand import hardware_of_kind
from shardwright.cost.hardware.presets import name_of

KINDS = {
    "NVIDIA A100-SXM4-80GB": "a100",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H200": "h200",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "AMD Instinct MI300X": "mi300x",
    "TPU v4": "tpu_v4",
    "TPU v5 lite": "tpu_v5e",
    "TPU v5e": "tpu_v5e",
    "TPU v5": "tpu_v5p",
    "TPU v5p": "tpu_v5p",
    "TPU v6 lite": "tpu_v6e",
    "TPU v6e": "tpu_v6e",
    "TPU7x": "tpu7x",
}


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
def test_devices_are_known_by_what_drivers_call_them(kind: str, name: str) -> None:
    found = hardware_of_kind(kind)
    assert found is not None
    assert name_of(found) == name


@pytest.mark.parametrize(
    "kind", ["cpu", "TPU v2", "TPU v4 lite", "NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB"]
)
def test_of_others_no_data_sheet_comes_along(kind: str) -> None:
    assert hardware_of_kind(kind) is None


class Card:
    """A device of JAX that says to be an H100."""

    device_kind = "NVIDIA H100 80GB HBM3"

    def __init__(self, device: Any) -> None:
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)


@pytest.fixture
def _cards(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = jax.devices
    monkeypatch.setattr(jax, "devices", lambda *args: list(map(Card, devices(*args))))


@pytest.mark.usefixtures("_cards")
def test_a_function_is_decided_for_what_runs_it() -> None:
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)

    def decided_for() -> str | None:
        hardware = sw.jit(jnp.dot, {"x": 2}, (sw.P("x"), None)).spmd(x, x).hardware
        return None if hardware is None else hardware.name

    assert decided_for() == "NVIDIA H100 SXM"
    with sw.Session(hardware=sw.hardware("tpu_v4")):
        assert decided_for() == "TPU v4p"


@pytest.mark.usefixtures("_cards")
def test_the_devices_of_a_mesh_come_before_all_others() -> None:
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    assert sw.jit(jnp.dot, mesh, (sw.P("x"), None)).spmd(x, x).hardware is None
