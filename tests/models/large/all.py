"""Programs of the sizes that fill devices, of many kinds, and the same small, to be run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large import (
    convolutional,
    diffusion,
    encoder_decoder,
    experts,
    graphs,
    heads,
    long_context,
    pairs,
    pipeline,
    recommender,
    recurrent,
    serving,
    simulation,
    solver,
    spectral,
    state_space,
    vision,
)
from tests.models.large.common import BIASED_MEGATRON, WHOLE, Axes, Rule, Table, split_largest
from tests.models.large.convolutional import RESNET, SMALL_RESNET
from tests.models.large.experts import EXPERTS, FEW_EXPERTS
from tests.models.large.transformer import BOTH, FSDP, LLAMA, MEGATRON, SMALL, decoding, training

__all__ = ["LARGE"]

_DATA, _BOTH, _MODEL = Mesh(data=8), Mesh(data=2, model=4), Mesh(data=1, model=8)
_SPACE = Mesh(data=2, space=4)
_WAYS: dict[str, tuple[Mesh, Table]] = {
    "data": (_DATA, WHOLE),
    "fsdp": (_DATA, FSDP),
    "tensor": (_MODEL, MEGATRON),
    "data_and_tensor": (_BOTH, MEGATRON),
    "fsdp_and_tensor": (_BOTH, BOTH),
}
_CACHES: dict[str, tuple[Mesh, Axes]] = {
    "tensor": (_MODEL, (None, None, "model", None)),
    "data_and_tensor": (_BOTH, ("data", None, "model", None)),
    "split_cache": (_BOTH, ("data", "model", None, None)),
}
_PROMPTS: dict[str, Axes] = {"tensor": (None, None), "data_and_tensor": ("data", None)}
_SPLIT: dict[str, tuple[Mesh, Table | Rule]] = {"data": (_DATA, WHOLE), "fsdp": (_DATA, split_largest)}
_BIASED: dict[str, tuple[Mesh, Table | Rule]] = {
    "tensor": (_MODEL, BIASED_MEGATRON),
    "data_and_tensor": (_BOTH, BIASED_MEGATRON),
}
_MATRIX: dict[str, tuple[Mesh, Axes]] = {
    "rows": (_DATA, ("data", None)),
    "columns": (_DATA, (None, "data")),
    "both": (_BOTH, ("data", "model")),
}


def _llama(mesh: Mesh, table: Table, scan: bool, small: bool = False) -> Plan:
    full = LLAMA._replace(layers=32) if scan else LLAMA
    return training(mesh, table, SMALL if small else full, scan)


def _decode(mesh: Mesh, cache: Axes, small: bool = False) -> Plan:
    return decoding(mesh, MEGATRON, cache, SMALL if small else LLAMA._replace(batch=64, length=4096))


def _experts(small: bool = False) -> Plan:
    return experts.training(_DATA, FEW_EXPERTS if small else EXPERTS)


def _resnet(mesh: Mesh, images: str, split_weights: bool, small: bool = False) -> Plan:
    return convolutional.training(mesh, SMALL_RESNET if small else RESNET, images, split_weights)


class _Family(NamedTuple):
    """Programs of one kind: `make` takes what a way has, beginning with a mesh, and sizes."""

    name: str
    make: Callable[..., Plan]
    full: Any
    few: Any
    ways: Mapping[str, tuple[Any, ...]]

    def program(self, way: str, small: bool = False) -> Plan:
        """Where what is large is split, so is all of what is small, none of which would be large enough."""
        split = partial(split_largest, least=1) if small else split_largest
        parts = (split if part is split_largest else part for part in self.ways[way])
        return self.make(*parts, self.few if small else self.full)


_FAMILIES = (
    _Family("vision", vision.training, vision.VIT, vision.SMALL_VIT, _SPLIT | _BIASED),
    _Family(
        "heads",
        heads.training,
        heads.ODD_HEADS,
        heads.FEW_HEADS,
        {
            "fsdp": _SPLIT["fsdp"],
            "tensor": (Mesh(data=1, model=8), heads.MEGATRON),
            "data_and_tensor": (_BOTH, heads.MEGATRON),
        },
    ),
    _Family(
        "encoder_decoder",
        encoder_decoder.training,
        encoder_decoder.TRANSLATED,
        encoder_decoder.FEW_TRANSLATED,
        {"fsdp": _SPLIT["fsdp"], "data_and_tensor": (_BOTH, encoder_decoder.MEGATRON)},
    ),
    _Family(
        "diffusion", diffusion.training, diffusion.UNET, diffusion.SMALL_UNET, {**_SPLIT, "space": (_SPACE, WHOLE)}
    ),
    _Family(
        "state_space",
        state_space.training,
        state_space.MAMBA,
        state_space.SMALL_MAMBA,
        {**_SPLIT, "tensor": (_BOTH, state_space.TENSOR)},
    ),
    _Family(
        "recurrent",
        recurrent.training,
        recurrent.LSTM,
        recurrent.SMALL_LSTM,
        {**_SPLIT, "tensor": (_BOTH, recurrent.TENSOR)},
    ),
    _Family(
        "recommender",
        recommender.training,
        recommender.DLRM,
        recommender.SMALL_DLRM,
        {way: _MATRIX[way] for way in ("rows", "columns")},
    ),
    _Family("pipeline", pipeline.training, pipeline.STAGES, pipeline.FEW_STAGES, {"stages": (Mesh(data=2, stage=4),)}),
    _Family(
        "simulation",
        simulation.running,
        simulation.GRID,
        simulation.SMALL_GRID,
        {way: _MATRIX[way] for way in ("rows", "both")},
    ),
    _Family("solver", solver.solving, solver.EQUATIONS, solver.FEW_EQUATIONS, _MATRIX),
    _Family("pairs", pairs.training, pairs.PAIRS, pairs.FEW_PAIRS, {"both": (_BOTH,)}),
    _Family(
        "spectral",
        spectral.training,
        spectral.FIELDS,
        spectral.SMALL_FIELDS,
        {"data": (_DATA,), "space": (_SPACE,)},
    ),
    _Family("graphs", graphs.training, graphs.GRAPH, graphs.SMALL_GRAPH, {"data": (_DATA,)}),
    _Family(
        "context",
        long_context.training,
        long_context.LONG,
        long_context.SHORT,
        {way: _WAYS[way] for way in ("data", "fsdp")},
    ),
    _Family(
        "context",
        long_context.training,
        long_context.PAIR,
        long_context.SHORT_PAIR,
        {"data_and_tensor": _WAYS["data_and_tensor"]},
    ),
    _Family(
        "accumulate",
        long_context.accumulating,
        long_context.BATCHES,
        long_context.FEW_BATCHES,
        {way: _WAYS[way] for way in ("fsdp", "fsdp_and_tensor")},
    ),
    _Family(
        "generate",
        serving.generating,
        serving.ANSWERS,
        serving.FEW_ANSWERS,
        {way: (*_WAYS[way], _CACHES[way][1]) for way in _PROMPTS},
    ),
    _Family(
        "prefill",
        serving.prefilling,
        serving.PROMPTS,
        SMALL,
        {way: (*_WAYS[way], prompt) for way, prompt in _PROMPTS.items()},
    ),
)

LARGE: dict[str, Callable[[bool], Plan]] = {
    **{f"llama.{name}": partial(_llama, *way, False) for name, way in _WAYS.items()},
    **{f"llama_scan.{name}": partial(_llama, *way, True) for name, way in _WAYS.items()},
    **{f"decode.{name}": partial(_decode, *cached) for name, cached in _CACHES.items()},
    "experts.data": _experts,
    "resnet.data": partial(_resnet, _DATA, "data,-,-,-", False),
    "resnet.fsdp": partial(_resnet, _DATA, "data,-,-,-", True),
    "resnet.space": partial(_resnet, _SPACE, "data,space,-,-", False),
    **{f"{family.name}.{way}": partial(family.program, way) for family in _FAMILIES for way in family.ways},
}
"""Programs by family and way, each made small or not: a llama of four layers, or of 32 as a scan, …"""
