"""Programs of the sizes that fill devices, eight of them, and the same small, to be run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large import convolutional, experts
from tests.models.large.convolutional import RESNET, SMALL_RESNET
from tests.models.large.experts import EXPERTS, FEW_EXPERTS
from tests.models.large.transformer import BOTH, FSDP, LLAMA, MEGATRON, SMALL, WHOLE, Table, decoding, training

__all__ = ["LARGE"]

_DATA, _BOTH, _MODEL = Mesh(data=8), Mesh(data=2, model=4), Mesh(data=1, model=8)
_WAYS: dict[str, tuple[Mesh, Table]] = {
    "data": (_DATA, WHOLE),
    "fsdp": (_DATA, FSDP),
    "tensor": (_MODEL, MEGATRON),
    "data_and_tensor": (_BOTH, MEGATRON),
    "fsdp_and_tensor": (_BOTH, BOTH),
}
_CACHES: dict[str, tuple[Mesh, tuple[str | None, ...]]] = {
    "tensor": (_MODEL, (None, None, "model", None)),
    "data_and_tensor": (_BOTH, ("data", None, "model", None)),
    "split_cache": (_BOTH, ("data", "model", None, None)),
}


def _llama(mesh: Mesh, table: Table, scan: bool, small: bool = False) -> Plan:
    full = LLAMA._replace(layers=32) if scan else LLAMA
    return training(mesh, table, SMALL if small else full, scan)


def _decode(mesh: Mesh, cache: tuple[str | None, ...], small: bool = False) -> Plan:
    return decoding(mesh, MEGATRON, cache, SMALL if small else LLAMA._replace(batch=64, length=4096))


def _experts(small: bool = False) -> Plan:
    return experts.training(_DATA, FEW_EXPERTS if small else EXPERTS)


def _resnet(mesh: Mesh, images: str, split_weights: bool, small: bool = False) -> Plan:
    return convolutional.training(mesh, SMALL_RESNET if small else RESNET, images, split_weights)


LARGE: dict[str, Callable[[bool], Plan]] = {
    **{f"llama.{name}": partial(_llama, *way, False) for name, way in _WAYS.items()},
    **{f"llama_scan.{name}": partial(_llama, *way, True) for name, way in _WAYS.items()},
    **{f"decode.{name}": partial(_decode, *cached) for name, cached in _CACHES.items()},
    "experts.data": _experts,
    "resnet.data": partial(_resnet, _DATA, "data,-,-,-", False),
    "resnet.fsdp": partial(_resnet, _DATA, "data,-,-,-", True),
    "resnet.space": partial(_resnet, Mesh(data=2, space=4), "data,space,-,-", False),
}
"""Programs by name, each made small or not: a llama of four layers, or of 32 as a scan, a cache of 4,096 tokens, …"""
