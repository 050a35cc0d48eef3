"""Per-device programs compiled by `jax.jit`, ahead of time: calls take no longer than those of any jitted function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.layout import Format, Layout

from shardwright.ir.types import TensorType
from shardwright.runtime.arrays import numpy_dtype
from shardwright.runtime.call import JaxCall, is_key
from shardwright.runtime.function import of_arrays, transformable
from shardwright.runtime.inlined import Inlined
from shardwright.runtime.shared import put

__all__ = ["Stepped", "placed", "stepped"]


@dataclass(frozen=True, slots=True)
class Stepped:
    """A program that JAX has compiled.

    Attributes:
        step: What runs it; it takes arguments that lie as `in_shardings` say, or are on no device.
        function: The same for JAX to trace.
        in_shardings: How JAX has each argument of the module.
        out_shardings: How it has each result.
    """

    step: jax.stages.Compiled
    function: Callable[..., Any]
    in_shardings: tuple[jax.sharding.NamedSharding, ...]
    out_shardings: tuple[jax.sharding.NamedSharding, ...]

    def as_text(self) -> str:
        """The HLO of one device, as XLA runs it."""
        return self.step.as_text() or ""

    def cost_analysis(self) -> Any:
        """What XLA estimates of its costs, by name."""
        return self.step.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries on a device, as XLA has assigned them."""
        return self.step.memory_analysis()


def stepped(
    program: Inlined,
    in_shardings: Sequence[jax.sharding.NamedSharding],
    out_shardings: Sequence[jax.sharding.NamedSharding],
    donors: Sequence[bool],
    call: JaxCall | None,
    in_types: dict[str, TensorType],
) -> Stepped:
    """Compile the function of a program.

    Arguments:
        program: Of the arguments of the module its results.
        in_shardings: How JAX has each argument of the module.
        out_shardings: How it has each result.
        donors: Whether results may take the buffer of each argument, where there is no function to tell.
        call: How the function is called that it comes from.
        in_types: Global type of each argument by name.
    """
    shardings = [*in_shardings, *out_shardings]
    with jax.enable_x64(True):  # types are the program's already; without it 64 bits would become 32
        if call is None:
            function: Any = of_arrays(program)
            args: tuple[Any, ...] = tuple(map(_struct, in_types.values(), in_shardings))
            kwargs: dict[str, Any] = {}
            outs: Any = tuple(out_shardings)
            options: dict[str, Any] = {"donate_argnums": tuple(n for n, donor in enumerate(donors) if donor)}
        else:
            function = transformable(program, call, shardings)
            args, kwargs = call.structs(in_shardings)
            outs, options = call.out_shardings(out_shardings), call.donation
        with warnings.catch_warnings():  # that of some donated buffers no use is made: the function's lowering said so
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            step = jax.jit(function, out_shardings=outs, **options).lower(*args, **kwargs).compile()
    return Stepped(step, function, tuple(in_shardings), tuple(out_shardings))


def _struct(type: TensorType, sharding: jax.sharding.NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(type.dims, np.dtype(numpy_dtype(type.dtype)), sharding=sharding)


def placed(value: Any, sharding: jax.sharding.NamedSharding) -> Any:
    """An array that lies so, its elements in the order that JAX gives them; random keys lie as their integers do."""
    if is_key(getattr(value, "dtype", None)):
        return jax.random.wrap_key_data(placed(jax.random.key_data(value), sharding), impl=jax.random.key_impl(value))
    array: Any = put(value, sharding)
    order = tuple(range(array.ndim))
    layout = array.format.layout
    if layout is not None and layout.major_to_minor != order:
        array = jax.device_put(array, Format(Layout(order), sharding))
    return array
