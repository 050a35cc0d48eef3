"""What a training step is here, and the three ways in which each is sharded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from shardwright.mesh import Mesh
from shardwright.program import Plan, Program, from_jax

__all__ = ["MESH", "SHARDINGS", "STEPS", "Step", "array", "ints", "plan", "shardings", "step", "xent"]

MESH = Mesh(data=2, model=2)
SHARDINGS = ("data", "fsdp", "tensor")


@dataclass(frozen=True)
class Step:
    """A function of `params`, perhaps `state`, and `batch`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def program(self) -> Program:
        return from_jax(self.function, *self.arguments)


STEPS: dict[str, Step] = {}


def step(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        assert function.__name__ not in STEPS
        STEPS[function.__name__] = Step(function, arguments)
        return function

    return keep


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def ints(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def xent(logits: Any, labels: Any) -> Any:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1))


def shardings(program: Program, kind: str) -> dict[str | int, Any]:
    """`batch` over data; everything else whole, its first dimension over data, or its last over model."""
    given: dict[str | int, Any] = {}
    for name, type in program.arguments.items():
        dims = ["-"] * type.rank
        if name.startswith("batch"):
            if type.rank and type.dims[0] % 2 == 0:
                dims[0] = "data"
        elif kind != "data":
            at = 0 if kind == "fsdp" else type.rank - 1
            if type.rank and type.dims[at] % 2 == 0:
                dims[at] = "data" if kind == "fsdp" else "model"
        if set(dims) != {"-"}:
            given[name] = ",".join(dims)
    return given


def plan(name: str, kind: str) -> Plan:
    program = STEPS[name].program()
    return program.shard(MESH, shardings(program, kind))
