"""Per-device programs that XLA runs as they are, for what JAX has no words for between its own programs.

Values that await other reductions than sums, orders of elements, uneven ones in memories of their own, and meshes of
which each has its own order of devices: `runtime.inlined` tells where JAX can have the program itself, which then goes
before this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.experimental.layout import Format

from shardwright.ir.types import TensorType
from shardwright.runtime.contributions import Stack
from shardwright.runtime.filled import Filled

__all__ = ["Direct"]


class Direct:
    """An executable of XLA, called with whole arrays.

    Attributes:
        executable: XLA's, with the devices that it runs on.
    """

    def __init__(
        self,
        executable: Any,
        in_shardings: Sequence[jax.sharding.NamedSharding],
        out_shardings: Sequence[jax.sharding.NamedSharding],
        out_types: Sequence[TensorType],
        stacks: Sequence[Stack | None],
        fillings: Sequence[Filled | None],
    ) -> None:
        """Hold what was compiled; `fillings` are of the arguments and results, in order."""
        self.executable = executable
        self._in_shardings = tuple(in_shardings)
        self._out_shardings = tuple(out_shardings)
        self._out_types = tuple(out_types)
        self._stacks = tuple(stacks)
        self._filled_in = tuple(fillings[: len(in_shardings)])
        self._filled_out = tuple(fillings[len(in_shardings) :])
        self._makers: list[Callable[[Any], Any]] | None = None

    def run(self, arguments: Sequence[Any]) -> list[jax.Array]:
        """The results of one run."""
        with jax.enable_x64(True):  # leaves have the program's types already; without it 64 bits would become 32
            placed = [self._placed(number, argument) for number, argument in enumerate(arguments)]
            shards = self.executable.call(placed)
            if self._makers is not None:
                return [make(list(parts)) for make, parts in zip(self._makers, shards, strict=True)]
            results = [self._result(number, parts) for number, parts in enumerate(shards)]
            self._makers = [self._maker(number, array) for number, array in enumerate(results)]
            return results

    @property
    def formats(self) -> tuple[list[Format], list[Format]]:
        """In which order each argument has its elements in memory, and each result, and how they lie."""
        orders = self.executable.layouts, self.executable.result_layouts
        ins, outs = zip(orders, (self._in_shardings, self._out_shardings), strict=True)
        return list(map(Format, *ins)), list(map(Format, *outs))

    def as_text(self) -> str:
        """The HLO of one device, as XLA runs it."""
        return "\n".join(module.to_string() for module in self.executable.loaded.hlo_modules())

    def cost_analysis(self) -> Any:
        """What XLA estimates of its costs, by name."""
        return self.executable.loaded.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries on a device, as XLA has assigned them."""
        return self.executable.loaded.get_compiled_memory_stats()

    def _placed(self, number: int, argument: Any) -> Any:
        filled, sharding = self._filled_in[number], self._in_shardings[number]
        if filled is not None:
            argument, sharding = filled.fill(argument), filled.inside
        elif self.executable.is_placed(number, argument, sharding):
            return argument
        return self.executable.placed(number, argument, sharding)

    def _result(self, number: int, parts: Sequence[jax.Array]) -> jax.Array:
        """The array of one result; contributions that JAX has no sharding for are combined."""
        dims, sharding = self._out_types[number].dims, self._out_shardings[number]
        stack, filled = self._stacks[number], self._filled_out[number]
        if filled is not None:
            return filled.cut(parts)
        if stack is not None:
            return stack.complete(dims, parts, sharding)
        return jax.make_array_from_single_device_arrays(dims, sharding, parts)

    def _maker(self, number: int, array: jax.Array) -> Callable[[Any], Any]:
        """What makes a result of its shards from the second run on, by the array of the first one."""
        own = self._stacks[number] is None and self._filled_out[number] is None
        return (self.executable.maker(array) if own else None) or partial(self._result, number)
