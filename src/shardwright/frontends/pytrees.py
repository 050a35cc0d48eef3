"""Shardings given as pytrees, or by a function, as shardings by name or number.

A tree is a prefix of what it is for, as `in_shardings` of `jax.jit` is one: a sharding where the other has a container
is that of all in it. `None` says nothing. Of dicts and other containers with names what is missing says nothing either.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardwright.errors import ShardingError
from shardwright.frontends.diagnose import close_names
from shardwright.frontends.selection import Key
from shardwright.frontends.specs import is_entry, is_spec
from shardwright.ir.locations import pytree_path
from shardwright.ir.types import TensorType
from shardwright.words import counted, kind_of

__all__ = ["Boundary", "spread"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The arguments or the results of a program, as shardings are given for them.

    Attributes:
        types: The type of each by name, in order.
        tree: The number of each in the containers of the function, of arguments the tuple of the positional, -1 for
            a leaf that the module does not have; `None` without a function.
        source: What diagnostics call the program.
        noun: What they are.
    """

    types: Mapping[str, TensorType]
    tree: Any
    source: str
    noun: str = "argument"


def spread(given: Any, boundary: Boundary) -> Mapping[Key, Any] | Sequence[Any]:
    """What `select_values` takes of what a user gives: by name, number or pattern, with one sharding each.

    Arguments:
        given: A mapping by such keys, whose values may be trees themselves; a function of a name and a
            `jax.ShapeDtypeStruct` that returns a sharding or `None`; or, where there is a function, one sharding for
            all, or a tree that is a prefix of its own, of arguments with an entry for each positional one.
        boundary: What it is for.

    Raises:
        ShardingError: a tree that is no prefix, at the place where it is not.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(_flat(given, boundary.types)) if _is_nested(given.values()) else given
    if boundary.tree is not None and not isinstance(given, (str, list, tuple)) and is_spec(given):
        return dict.fromkeys(range(len(boundary.types)), given)
    if callable(given):
        return _by_function(given, boundary)
    if isinstance(given, str) or boundary.tree is None:
        return given  # type: ignore[no-any-return]  # what is no sequence is refused where keys are selected
    if isinstance(given, (list, tuple)):
        is_prefix = isinstance(boundary.tree, (list, tuple)) and len(given) == len(boundary.tree)
        if not is_prefix and len(given) != len(boundary.types):
            raise _another_count(given, boundary)
        if not is_prefix:
            return given
    return dict(_prefixes(given, boundary.tree, "", boundary))


def _is_nested(values: Any) -> bool:
    return any(value is not None and not isinstance(value, (str, int)) and not is_spec(value) for value in values)


def _flat(given: Mapping[Key, Any], names: Iterable[str]) -> Iterator[tuple[Key, Any]]:
    """Keys and shardings, those of trees by the path of each."""
    for key, value in given.items():
        if not isinstance(key, str) or key in names or value is None or is_spec(value):
            yield key, value
            continue
        for path, spec in _leaves(value):
            yield "/".join(filter(None, (key, path))), spec


def _leaves(value: Any) -> list[tuple[str, Any]]:
    """The shardings of a tree by path; whatever else is in it comes along, to be refused as a sharding."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(value, is_leaf=is_spec)
    return [(pytree_path(jax.tree_util.keystr(path)), leaf) for path, leaf in leaves]


def _by_function(given: Callable[[str, Any], Any], boundary: Boundary) -> dict[Key, Any]:
    import jax

    from shardwright.runtime.arrays import numpy_dtype

    shardings: dict[Key, Any] = {}
    for number, (name, type) in enumerate(boundary.types.items()):
        spec = given(name, jax.ShapeDtypeStruct(type.dims, numpy_dtype(type.dtype)) if type.is_tensor else type)
        if spec is not None:
            shardings[number] = spec
    return shardings


def _another_count(given: Sequence[Any], boundary: Boundary) -> ShardingError:
    noun, tree = boundary.noun, boundary.tree
    count = f"{counted(len(boundary.types), noun)} in its module"
    own = f"{counted(len(tree), f'positional {noun}')}, {count}" if noun == "argument" else count
    keyword = "args" if noun == "argument" else "results"
    return ShardingError(
        f"{counted(len(given), 'sharding')} for {own}",
        location=boundary.source,
        cause=f"a {kind_of(given).split()[-1]} has one entry for each",
        remedy=f"give None where nothing is said, or name what is meant: {keyword}={{name: sharding}}",
    )


def _prefixes(given: Any, tree: Any, path: str, boundary: Boundary) -> Iterator[tuple[int, Any]]:
    """`(number, sharding)` for each leaf of `tree` that `given`, a prefix of it, says something of."""
    import jax

    if given is None:
        return
    if isinstance(tree, int):
        if not is_spec(given) and not (isinstance(given, (list, tuple)) and all(map(is_entry, given))):
            raise _no_prefix(given, tree, path, boundary)
        yield from [(tree, given)] if tree >= 0 else []
    elif is_spec(given) and not _is_like(given, tree):
        yield from ((number, given) for number in jax.tree.leaves(tree) if number >= 0)
    else:
        theirs, own = _children(given), _children(tree)
        is_sequence = isinstance(given, (list, tuple))
        if given in (theirs.get(""), own) or (is_sequence and len(theirs) != len(own)):
            raise _no_prefix(given, tree, path, boundary)
        for key, child in theirs.items():
            if key not in own:
                raise _no_such(key, own, path, boundary)
            yield from _prefixes(child, own[key], "/".join(filter(None, (path, key))), boundary)


def _is_like(given: Any, tree: Any) -> bool:
    """Whether both are sequences of one length: `("data", None)` for two arguments is no sharding of each."""
    return isinstance(given, (list, tuple)) and isinstance(tree, (list, tuple)) and len(given) == len(tree)


def _children(tree: Any) -> dict[str, Any]:
    """What a container holds, one level down, by name; a leaf holds itself, without one."""
    import jax

    pairs = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda node: node is not tree)
    return {pytree_path(jax.tree_util.keystr(key)): child for key, child in pairs}


def _no_prefix(given: Any, tree: Any, path: str, boundary: Boundary) -> ShardingError:
    own = "an array" if isinstance(tree, int) else f"{kind_of(tree)} with {', '.join(_children(tree)) or 'nothing'}"
    noun = boundary.noun
    place = path if boundary.noun == "result" else "/".join(["arguments", path]) if path else "the arguments"
    return ShardingError(
        f"the shardings of {noun}s are no prefix of the {noun}s: {given!r}"[:200],
        location=boundary.source,
        cause=f"at {place or 'the results'} there is {own}",
        remedy="give one sharding for all in it, or the same containers; None where nothing is said",
    )


def _no_such(key: str, own: Mapping[str, Any], path: str, boundary: Boundary) -> ShardingError:
    near = difflib.get_close_matches(key, list(own), n=1)
    return ShardingError(
        f"there is no {key!r} in {path or f'the {boundary.noun}s'}",
        location=boundary.source,
        cause=f"it has {close_names(key, list(own))}" if own else "there is nothing in it",
        remedy=f"did you mean {near[0]!r}?" if near else "name what is there, or leave it out",
    )
