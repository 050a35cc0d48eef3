"""What every example program shares: its description, and lowering it to a text with shardings.

An example is a JAX function together with one `Input` per argument leaf: shape, element type, sharding
and how verification draws its values. The mesh is abstract, so no device has to exist to lower it.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

INPUT_ATTRIBUTE = "shardwright.input"
REPOSITORY = Path(__file__).resolve().parent.parent

source_info_util.register_exclusion(__file__)  # locations name the caller's line, not this file's


@dataclass(frozen=True, slots=True)
class Input:
    """One array argument of an example.

    Arguments:
        shape: the global shape, in elements.
        spec: the mesh axes that shard each dimension.
        draw: how verification draws values: `normal SCALE`, `uniform LOW HIGH`, `integers LOW HIGH`
            (half open) or `constant VALUE`.
        dtype: the element type.
    """

    shape: tuple[int, ...]
    spec: PartitionSpec
    draw: str
    dtype: Any = jnp.float32


@dataclass(frozen=True, slots=True)
class Example:
    """A program to be sharded.

    Arguments:
        fn: the function, written as if for one device.
        inputs: its positional arguments, each a pytree whose leaves are `Input`s.
        mesh: axis name -> size.
        donate_argnums: the positional arguments whose buffers the results may reuse.
    """

    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    mesh: dict[str, int]
    donate_argnums: tuple[int, ...] = ()

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments as `jax.ShapeDtypeStruct`s."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), self.inputs)

    @property
    def in_shardings(self) -> tuple[Any, ...]:
        """The arguments' `PartitionSpec`s."""
        return jax.tree.map(lambda leaf: leaf.spec, self.inputs)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh, without devices; every axis is left to the partitioner."""
        names = tuple(self.mesh)
        return AbstractMesh(tuple(self.mesh.values()), names, (AxisType.Auto,) * len(names))


def constrain(x: jax.Array, *dims: str | tuple[str, ...] | None) -> jax.Array:
    """Shards `x` as `PartitionSpec(*dims)` says; without a mesh in context it does nothing."""
    if jax.sharding.get_abstract_mesh().empty:
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*dims))


def lower(example: Example) -> str:
    """The example as StableHLO text with sdy shardings, locations and `shardwright.input` attributes."""
    mesh = example.abstract_mesh
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, leaf.spec), example.inputs)
    repository = re.escape(f"{REPOSITORY}/")
    with (
        jax.sharding.use_abstract_mesh(mesh),
        _config("jax_hlo_source_file_canonicalization_regex", repository),
        _config("jax_traceback_in_locations_limit", 1),
    ):
        jitted = jax.jit(
            example.fn,
            in_shardings=shardings,
            donate_argnums=example.donate_argnums,
            keep_unused=True,
        )
        module = jitted.trace(*example.args).lower(lowering_platforms=("cpu",)).compiler_ir()
    _declare_inputs(module, [leaf.draw for leaf in jax.tree.leaves(example.inputs)])
    return module.operation.get_asm(enable_debug_info=True)


def draw_inputs(example: Example, seed: int = 0) -> tuple[Any, ...]:
    """The arguments as NumPy arrays, drawn as each `Input` declares."""
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: _draw(leaf, generator), example.inputs)


def write_text(text: str, output: Path | None) -> None:
    """Writes to the file `output`, or prints when there is none."""
    if output is None:
        print(text, end="")
    else:
        output.write_text(text)


def argument_parser(documentation: str) -> argparse.ArgumentParser:
    """A command-line parser that has `-o` and shows a module's docstring as help."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: print)")
    return parser


def _draw(leaf: Input, generator: np.random.Generator) -> np.ndarray:
    values: Any
    kind, *numbers = leaf.draw.split()
    match kind, [float(number) for number in numbers]:
        case "normal", [scale]:
            values = generator.normal(0.0, scale, leaf.shape)
        case "uniform", [low, high]:
            values = generator.uniform(low, high, leaf.shape)
        case "integers", [low, high]:
            values = generator.integers(int(low), int(high), leaf.shape)
        case "constant", [value]:
            values = np.full(leaf.shape, value)
        case _:
            raise ValueError(f"no such way to draw inputs. Got {leaf.draw=}")
    return np.asarray(values).astype(leaf.dtype)


def _declare_inputs(module: ir.Module, draws: list[str]) -> None:
    """Sets `shardwright.input` on each argument of `@main`, in the order of the flattened arguments."""
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    main = next(function for function in functions if function.name.value == "main")
    with module.context:
        attributes = [
            ir.DictAttr.get(
                {
                    **{entry.name: entry.attr for entry in dictionary},
                    INPUT_ATTRIBUTE: ir.StringAttr.get(draw),
                }
            )
            for dictionary, draw in zip(main.arg_attrs, draws, strict=True)
        ]
        main.arg_attrs = ir.ArrayAttr.get(attributes)


@contextmanager
def _config(name: str, value: Any) -> Iterator[None]:
    """Sets a JAX option for a while."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)
