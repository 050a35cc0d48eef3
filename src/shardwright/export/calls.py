"""How a JAX function is called, as values of JSON: the structure of its arguments and results, and their leaves.

Structures are those of dicts, lists, tuples and `None`. Classes of a user's own would have to be imported by name,
which is to run whatever code a file names; a function that takes or gives such is called by its arrays instead.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from shardwright.runtime.arrays import dtype_from_name, dtype_name
from shardwright.runtime.call import JaxCall

__all__ = ["call_from", "call_record"]

_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
"""How JAX prints a type of random keys, and what it calls their generator."""


class _Unknown(Exception):
    """A container, or a type of elements, that a file cannot say."""


def call_record(call: JaxCall) -> dict[str, Any] | None:
    """How a function is called as JSON has it; nothing where it takes or gives containers of other classes.

    What it was lowered with and for, values and devices, stays behind.
    """
    try:
        return {
            "name": call.name,
            "in_tree": _structure(call.in_tree),
            "out_tree": _structure(call.out_tree),
            "in_leaves": [_leaf(leaf) for leaf in call.in_leaves],
            "out_leaves": [_leaf(leaf) for leaf in call.out_leaves],
            "kept": list(call.kept),
            "names": list(call.names),
        }
    except _Unknown:
        return None


def call_from(record: dict[str, Any]) -> JaxCall:
    """The call of a record."""
    return JaxCall(
        jax.tree.structure(_tree(record["in_tree"])),
        jax.tree.structure(_tree(record["out_tree"])),
        tuple(map(_leaf_from, record["in_leaves"])),
        tuple(map(_leaf_from, record["out_leaves"])),
        tuple(map(int, record["kept"])),
        tuple(map(str, record["names"])),
        str(record["name"]),
    )


def _structure(tree: Any) -> Any:
    return _node(jax.tree.unflatten(tree, [_LEAF] * tree.num_leaves))


_LEAF = object()


def _node(value: Any) -> Any:
    if value is _LEAF:
        return "*"
    if value is None:
        return None
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": [[key, _node(inner)] for key, inner in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_node(inner) for inner in value]}
    raise _Unknown


def _tree(node: Any) -> Any:
    if node == "*":
        return 0
    if node is None:
        return None
    ((kind, inner),) = node.items()
    if kind == "dict":
        return {key: _tree(value) for key, value in inner}
    return {"list": list, "tuple": tuple}[kind](map(_tree, inner))


def _leaf(leaf: jax.ShapeDtypeStruct) -> dict[str, Any]:
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        if str(leaf.dtype) not in _KEYS:
            raise _Unknown
        return {"dtype": str(leaf.dtype), "shape": list(leaf.shape)}
    return {"dtype": dtype_name(np.dtype(leaf.dtype)), "shape": list(leaf.shape)}


def _leaf_from(record: dict[str, Any]) -> jax.ShapeDtypeStruct:
    name, shape = record["dtype"], tuple(map(int, record["shape"]))
    if name in _KEYS:
        return jax.ShapeDtypeStruct(shape, jax.eval_shape(partial(jax.random.key, impl=_KEYS[name]), 0).dtype)
    return jax.ShapeDtypeStruct(shape, dtype_from_name(name))
