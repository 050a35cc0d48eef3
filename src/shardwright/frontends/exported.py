"""Functions that JAX exported: `jax.export.Exported`, and what its `serialize` writes, as bytes or in a file."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import jax
from jax import export

from shardwright.errors import ShardingError
from shardwright.files import read_file
from shardwright.frontends.load import Source, parse_source
from shardwright.runtime.call import JaxCall

__all__ = ["EXPORTED", "Exported", "exported_program"]

EXPORTED = (export.Exported, bytes, bytearray, str, os.PathLike)
"""What a function that was exported may be given as."""

Exported: TypeAlias = export.Exported | bytes | bytearray | str | os.PathLike[str]


def exported_program(given: Exported) -> tuple[Source, JaxCall]:
    """The program of a function that was exported, and how it is called.

    Arguments:
        given: What `jax.export.export(jitted)(…)` returns, what its `serialize()` does, or the path of a file of that.

    Raises:
        ShardingError: no such file, bytes that are nothing exported, dimensions without a size, or a program that the
            graph cannot hold.
    """
    exported, name = _read(given)
    _check_sizes(exported)
    source = parse_source(exported.mlir_module(), name)
    call = JaxCall(
        exported.in_tree,
        exported.out_tree,
        tuple(map(_struct, exported.in_avals)),
        tuple(map(_struct, exported.out_avals)),
        tuple(exported.module_kept_var_idx),
        tuple(source.graph.main.argument_names),
        exported.fun_name,
        donated=(False,) * len(exported.in_avals),
        traced=exported.call,
    )
    return source, call


def _read(given: Exported) -> tuple[export.Exported, str]:
    """What was exported, and what to call it: the file, or the function's name."""
    if isinstance(given, export.Exported):
        return given, given.fun_name
    where = "" if isinstance(given, (bytes, bytearray)) else os.fspath(given)
    blob = given if isinstance(given, (bytes, bytearray)) else read_file(where)
    try:
        exported = export.deserialize(bytearray(blob))
    except ImportError as error:
        raise ShardingError(
            "what JAX has serialized cannot be read here",
            location=where or "-",
            cause=str(error),
            remedy="install flatbuffers, or give the jax.export.Exported itself",
        ) from None
    except Exception as error:  # of bytes that are something else flatbuffers raise whatever they come upon
        raise ShardingError(
            "not an exported function of JAX",
            location=where or "-",
            cause=f"{type(error).__name__}: {error}".split("\n", 1)[0],
            remedy="give what jax.export.export(jitted)(…).serialize() returns; MLIR goes to sw.load",
        ) from None
    return exported, where or exported.fun_name


def _check_sizes(exported: export.Exported) -> None:
    for number, aval in enumerate(exported.in_avals):
        if not all(isinstance(size, int) for size in aval.shape):
            raise ShardingError(
                f"argument {number} of {exported.fun_name} has dimensions without a size: {aval.str_short()}",
                cause="it was exported for shapes that are not known yet, and a sharding divides known ones",
                remedy="export it for the shapes that it is to run on",
            )


def _struct(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
