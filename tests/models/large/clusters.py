"""Programs for many nodes: a llama of 70 billion parameters and experts, four layers or two of them, on 64 devices and
on 256, sharded along two or three axes, of which those first in a mesh go from node to node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large import experts, transformer
from tests.models.large.common import Axes, Table, Tree, adam, alike, array, sharded
from tests.models.large.transformer import BOTH, FSDP, MEGATRON, SMALL

__all__ = ["CLUSTERS"]

_LLAMA = transformer.Sizes(4, 8192, 28672, 64, 8, 128256, 64, 4096)
_LONG = _LLAMA._replace(layers=2, batch=8, length=16384)
_SERVED = _LLAMA._replace(batch=256)
_EXPERTS = experts.Sizes(2, 4096, 14336, 64, 64, 2048, 128)


@dataclass(frozen=True)
class _Training:
    """A llama being trained: its mesh, that of a small one, how parameters lie and how a batch does, and its sizes."""

    mesh: Mesh
    few: Mesh
    table: Table
    tokens: Axes
    sizes: transformer.Sizes = _LLAMA

    def __call__(self, small: bool) -> Plan:
        """The program, small or not."""
        sizes = SMALL if small else self.sizes
        return transformer.training(self.few if small else self.mesh, self.table, sizes, tokens=self.tokens)


@dataclass(frozen=True)
class _Decoding:
    """A llama that decodes: its mesh, that of a small one, and how its cache lies."""

    mesh: Mesh
    few: Mesh
    cache: Axes

    def __call__(self, small: bool) -> Plan:
        """The program, small or not."""
        return transformer.decoding(self.few if small else self.mesh, MEGATRON, self.cache, SMALL if small else _SERVED)


@dataclass(frozen=True)
class _Experts:
    """Experts being trained: their mesh, that of few, and how their two matrices and a batch lie."""

    mesh: Mesh
    few: Mesh
    up: Axes
    down: Axes
    batch: Axes

    def __call__(self, small: bool) -> Plan:
        """The program, small or not."""
        sizes, table = experts.FEW_EXPERTS if small else _EXPERTS, {"up": self.up, "down": self.down}
        params = [experts.parameters(sizes)] * sizes.layers

        def loss(params: Tree, x: jax.Array) -> jax.Array:
            layer = jax.checkpoint(lambda x, one: experts.layer(x, one, sizes.places))
            for one in params:
                x = layer(x, one)
            return jnp.mean(x.astype(jnp.float32) ** 2)

        arguments = params, alike(params), alike(params), array(sizes.batch, sizes.length, sizes.width)
        return sharded(adam(loss), arguments, self.few if small else self.mesh, table, {"batch": self.batch})


_CUBE, _FEW = Mesh(replica=2, data=4, model=8), Mesh(replica=2, data=2, model=2)
_FEW_CONTEXT, _PAIR = Mesh(data=2, context=2, model=2), Mesh(data=2, model=4)
_ROWS: Axes = ("data", None)
_FIRST: Axes = ("data", None, None)
_BATCH: Axes = ("data+expert", None, None)

CLUSTERS: dict[str, Callable[[bool], Plan]] = {
    "llama.replicas": _Training(_CUBE, _FEW, BOTH, ("replica+data", None)),
    "llama.fsdp": _Training(Mesh(data=64), Mesh(data=8), FSDP, _ROWS),
    "llama.tensor_of_two_nodes": _Training(Mesh(data=4, model=16), _PAIR, MEGATRON, _ROWS),
    "llama.fsdp_and_tensor": _Training(Mesh(data=32, model=8), _PAIR, BOTH, _ROWS, _LLAMA._replace(batch=128)),
    "llama.context": _Training(Mesh(data=4, context=2, model=8), _FEW_CONTEXT, BOTH, ("data", "context"), _LONG),
    "decode.tensor": _Decoding(Mesh(data=8, model=8), _PAIR, ("data", None, "model", None)),
    "decode.shared_heads": _Decoding(Mesh(data=4, model=16), _PAIR, ("data", None, None, None)),
    "decode.split_cache": _Decoding(Mesh(data=4, model=16), _PAIR, ("data", "model", None, None)),
    "experts.by_themselves": _Experts(Mesh(data=64), Mesh(data=8), _FIRST, _FIRST, _FIRST),
    "experts.tensor": _Experts(Mesh(data=16, model=4), _PAIR, ("data", None, "model"), ("data", "model", None), _FIRST),
    "experts.fsdp": _Experts(
        Mesh(data=4, expert=16), Mesh(data=2, expert=4), ("expert", "data", None), ("expert", None, "data"), _BATCH
    ),
}
"""By name, each made small or not; small ones are for eight devices."""
