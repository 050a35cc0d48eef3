"""`sw.jit`: a function, a mesh and shardings, and what runs it; the rest of the way is gone when it is called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from shardwright.cost.hardware import Hardware, chosen_hardware
from shardwright.cost.hardware.at_hand import hardware_of_kind
from shardwright.errors import ShardingError
from shardwright.frontends.static import static_arguments
from shardwright.memo import current_session
from shardwright.program.asked import jit_options
from shardwright.program.program import MeshLike, Plan, Program, Shardings, Spmd, from_jax
from shardwright.propagation import DEFAULT_STRATEGY
from shardwright.runtime.call import JaxCall
from shardwright.runtime.compiled import Compiled
from shardwright.stage import DEFAULT_EFFORT
from shardwright.words import kind_of

__all__ = ["Jitted", "jit"]


class Jitted:
    """A function that is sharded, partitioned and compiled when it is called, once for each kind of arguments.

    Made by `jit`. Like what `jax.jit` makes it can be called where JAX traces, by `jax.jit`, `jax.grad` or `jax.vmap`:
    see `Compiled` for what it is there.

    It is decided for the hardware of the session, else for that of the devices where a data sheet of these comes along,
    as of H100s and TPUs; else for a TPU v5p.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        mesh: MeshLike | None,
        shard: dict[str, Any],
        partition: dict[str, Any],
        options: dict[str, Any],
        trial: bool,
    ) -> None:
        """Hold what `jit` was given."""
        functools.update_wrapper(self, fn)
        self._fn, self._mesh = fn, mesh
        self._shard, self._partition, self._options, self._trial = shard, partition, options, trial
        self._made: dict[Hashable, Spmd] = {}
        self._compiled: dict[Hashable, Compiled] = {}
        self._last: tuple[Compiled, tuple[Any, ...]] | None = None

    def __repr__(self) -> str:
        """`Jitted(train_step, Mesh('data': 2, 'model': 4))`."""
        return f"Jitted({getattr(self._fn, '__name__', self._fn)}, {self._mesh})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns of these arguments, on the devices of the mesh.

        Raises:
            ShardingError: what `from_jax`, `Program.shard`, `Plan.partition` and `Spmd.compile` raise.
        """
        if self._last is not None:
            compiled, weak = self._last
            if _weak_types(args, kwargs) == weak:
                found, results = compiled.tried(args, kwargs)
                if found:
                    return results
        dynamic, named = self._dynamic(args, kwargs)
        compiled = self.compiled(*args, **kwargs)
        if dynamic is args and not compiled.is_traced(args, kwargs):
            self._last = compiled, _weak_types(args, kwargs)
        return compiled(*dynamic, **named)

    def spmd(self, *args: Any, **kwargs: Any) -> Spmd:
        """The partitioned program that a call with such arguments runs; they may be `jax.ShapeDtypeStruct`s."""
        key = self._key(args, kwargs)
        if key not in self._made:
            args, kwargs = jax.tree.map(_struct, (args, kwargs))
            program = from_jax(self._fn, *args, **self._options, **kwargs)
            self._check_static(program, args, kwargs)
            with current_session().on(chosen_hardware() or self._at_hand()):
                self._made[key] = program.shard(self._mesh, **self._shard).partition(**self._partition)
        return self._made[key]

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """The shardings of all tensors of a call with such arguments; they may be `jax.ShapeDtypeStruct`s."""
        return self.spmd(*args, **kwargs).plan

    def compiled(self, *args: Any, **kwargs: Any) -> Compiled:
        """What runs a call with such arguments; it takes them without the static ones."""
        key = self._key(args, kwargs)
        if key not in self._compiled:
            self._compiled[key] = self.spmd(*args, **kwargs).compile(trial=self._trial)
        return self._compiled[key]

    def _at_hand(self) -> Hardware | None:
        """What the devices are that it will run on, where a data sheet of such comes along."""
        devices = self._mesh.devices.flat if isinstance(self._mesh, jax.sharding.Mesh) else jax.devices()
        return hardware_of_kind(devices[0].device_kind)

    def _dynamic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments without static ones."""
        numbers, names = self._static(len(args))
        if not numbers and not names:
            return args, kwargs
        dynamic = tuple(value for number, value in enumerate(args) if number not in numbers)
        return dynamic, {name: value for name, value in kwargs.items() if name not in names}

    def _static(self, count: int) -> tuple[set[int], set[str]]:
        return static_arguments(self._fn, self._options, count)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """What tells calls apart that are not of one program: containers, types, static arguments, 64 bits or not."""
        numbers, names = self._static(len(args))
        static = [args[number] for number in sorted(numbers)] + [kwargs[name] for name in sorted(names & kwargs.keys())]
        leaves, tree = jax.tree.flatten(self._dynamic(args, kwargs))
        key = tree, tuple(map(_type_of, leaves)), tuple(static), _x64()
        try:
            hash(key)
        except TypeError as error:
            raise ShardingError(
                f"a static argument of {self.__name__} cannot be told from others",
                cause=str(error),
                remedy="give a value with a hash, such as a tuple in place of a list",
            ) from None
        return key

    def _check_static(self, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tree = jax.tree.structure(self._dynamic(args, kwargs))
        call = program.call
        if isinstance(call, JaxCall) and call.stage is None and call.in_tree != tree:
            raise ShardingError(
                f"{program.name} has static arguments of its own",
                cause="it is jitted already, and JAX alone knows which they are",
                remedy="give sw.jit the function itself, with static_argnums or static_argnames",
            )

    __name__: str


def _x64() -> bool:
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]  # jax adds its options when it is loaded


def _weak_types(*trees: Any) -> tuple[Any, ...]:
    """Of each leaf whether its type gives way to others, as that of a number does; and whether there are 64 bits."""
    kinds = [getattr(leaf, "weak_type", type(leaf)) for leaf in jax.tree.leaves(trees)]
    return _x64(), *kinds


def _type_of(leaf: Any) -> Hashable:
    """Shape, element type, and whether that gives way to others; what is no array is told by itself."""
    if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex, jax.ShapeDtypeStruct)):
        return leaf  # type: ignore[no-any-return]  # if it has no hash, `_key` says so
    aval = jax.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    return aval.shape, aval.dtype, bool(aval.weak_type)


def _struct(leaf: Any) -> Any:
    """The struct of an array, with its sharding over devices if it has one; what is no array stays."""
    if not isinstance(leaf, jax.Array):
        return leaf
    sharding = getattr(leaf, "sharding", None) if not isinstance(leaf, jax.core.Tracer) else None
    is_spread = isinstance(sharding, jax.sharding.NamedSharding) and sharding.mesh.size > 1
    aval = jax.typeof(leaf)
    lies = sharding if is_spread else None
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=aval.weak_type, sharding=lies)


def jit(
    fn: Callable[..., Any],
    mesh: MeshLike | None = None,
    args: Shardings = None,
    *,
    results: Shardings = None,
    strategy: str = DEFAULT_STRATEGY,
    effort: str = DEFAULT_EFFORT,
    optimize: str = "off",
    strict: bool = False,
    trial: bool = False,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
) -> Jitted:
    """A function that runs sharded on the devices of a mesh: `from_jax`, `shard`, `partition` and `compile` in one.

    Each kind of arguments is compiled when it is called with first, as by `jax.jit`; they are brought to where they
    belong. An argument that lies over several devices then, and of which `args` say nothing, keeps its sharding.

    Arguments:
        fn: The function, jitted or not.
        mesh: The devices, as of `Program.shard`; it may be left out where the function brings its own.
        args: Shardings of arguments, as of `Program.shard`.
        results: Shardings of results.
        strategy: How to propagate, as of `Program.shard`.
        effort: How hard to look for how ops are best split, as of `Plan.partition`.
        optimize: What becomes of collectives, as of `Plan.partition`.
        strict: Whether a program that needs a fallback is refused.
        trial: Whether it is run in another process first, as of `Spmd.compile`.
        static_argnums: As of `jax.jit`, for a function that is not jitted yet.
        static_argnames: The same, by name.
        donate_argnums: Arguments whose buffers the results may take, as for `jax.jit`.
        donate_argnames: The same, by name.

    Raises:
        ShardingError: not a function; the rest when it is called.

    Example:
        >>> import jax.numpy as jnp, shardwright as sw
        >>> step = sw.jit(lambda x, w: x @ w, {"data": 1}, (sw.P("data"), None))
        >>> float(step(jnp.ones((2, 3)), jnp.ones((3, 1))).sum())
        6.0
        >>> step.plan(jnp.ones((2, 3)), jnp.ones((3, 1)))
        Plan(<lambda>, Mesh(data=1))
    """
    options = jit_options(static_argnums, static_argnames, donate_argnums, donate_argnames)
    how = {"effort": effort, "optimize": optimize, "strict": strict}
    return Jitted(_checked(fn), mesh, {"args": args, "results": results, "strategy": strategy}, how, options, trial)


def _checked(fn: Any) -> Callable[..., Any]:
    if callable(fn):
        function: Callable[..., Any] = fn
        return function
    raise ShardingError(
        f"not a function: {fn!r}"[:200].partition("\n")[0],
        cause=f"it is {kind_of(fn)}",
        remedy="give the function first, and then the mesh: sw.jit(f, mesh, args)",
    )
