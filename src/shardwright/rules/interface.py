"""Registering an op by its loops, as the mesh RFC's ShardingInterface has it: types, maps, and what else is its own.

    sharding_interface(
        "my.matmul",
        indexing_maps=["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"],
        loop_iterator_types=["parallel", "parallel", "reduction_sum"],
    )

The loops give a rule (`self_described` says which); a rule gives loops (`loops`). All methods have defaults, and for
that op alone each can be another.

Source: the mesh RFC on LLVM's forum, ShardingInterface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.ops import INDEXING_MAPS
from shardwright.ir.signature import Signature
from shardwright.memo import forget_everywhere
from shardwright.rules.fit import check_fit, unfit
from shardwright.rules.loops import indexing_maps as maps_of
from shardwright.rules.overrides import DEFAULTS, Overrides, override
from shardwright.rules.registry import answer_of, give_rule, known_rule, label_of
from shardwright.rules.rule import ShardingRule
from shardwright.rules.self_described import interface_rule

__all__ = ["sharding_interface"]

Texts = Sequence[str] | Callable[[Signature], Sequence[str]]
"""Texts, or what gives them for the op's signature."""

_TYPES = frozenset({"parallel", "reduction", "reduction_sum", "window", "invalid"})
_OTHER_SUMS = "reduction_"


def sharding_interface(
    name: str,
    *,
    indexing_maps: Texts | None = None,
    loop_iterator_types: Texts | None = None,
    sharding_option: Callable[..., Any] | None = None,
    sharding_annotations: Callable[..., Any] | None = None,
    materialize: Callable[..., Any] | None = None,
) -> None:
    """Register an op by its loops, or say of one that has a rule what is not the default of it.

    Shardings of it propagate, and it is computed in parts, along its loops, as by `rule`. The last three are called
    with the op's `Interface` as it is without them, and then as its methods are; the strategy `rfc` asks the first two
    for the op's option and for how its tensors lie then. `forget_rule` takes all of it back.

    Arguments:
        name: The op's name, or `@target` for a custom call.
        indexing_maps: For each operand, then for each result, the map from loops to its indices: `(i, j) -> (j, i)`; or
            a function from the op's signature to these. Left out, they are those of the rule that it has.
        loop_iterator_types: For each loop `parallel`, `reduction_sum`, `window` or `invalid`. Left out, loops that
            results have are parallel, and others sums.
        sharding_option: `(interface, annotations)` → the axes of each loop.
        sharding_annotations: `(interface, option, mesh)` → how operands, then results, lie.
        materialize: `(interface, annotations, option)` → what `Interface.materialize` gives. Partitioning plans what is
            sent by its price in any case.

    Raises:
        ShardingError: no name of an op, nothing said of it, or a loop type that is none. Where the op is used: maps
            that do not fit it, or a function that fails.

    Example:
        >>> from shardwright.rules.registry import forget_rule
        >>> sharding_interface("my.scale", indexing_maps=["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i, j)"])
        >>> forget_rule("my.scale")
    """
    label = label_of(name)
    methods = Overrides(sharding_option, sharding_annotations, materialize)
    if indexing_maps is None and loop_iterator_types is None:
        if methods == DEFAULTS:
            raise ShardingError(f"nothing is said of {name!r}", remedy="give its indexing_maps, or another method")
        forget_everywhere()
    else:
        if loop_iterator_types is not None and not callable(loop_iterator_types):
            _check_types(loop_iterator_types, name)
        give_rule(label, lambda signature: _rule(signature, indexing_maps, loop_iterator_types))
    override(label, methods)


def _rule(signature: Signature, maps: Texts | None, types: Texts | None) -> ShardingRule:
    told_maps = maps_of(_own(signature)) if maps is None else _told(maps, signature)
    described: dict[str, str | None] = {INDEXING_MAPS: f"[{', '.join(map(_affine, told_maps))}]"}
    if types is not None:
        told_types = _told(types, signature)
        _check_types(told_types, signature.label)
        described["iterator_types"] = str([f'"{type}"' for type in told_types]).replace("'", "")
    made = interface_rule(signature.replace(operands=None, results=None, **described))
    if made is None:
        raise unfit(
            signature,
            f"its loops are {', '.join(told_maps)}",
            "give a map for each operand and result, over the same loops, with an index for each dimension; those of"
            " results are loops, each once",
        )
    check_fit(made, signature)
    return replace(made, custom=True)


def _own(signature: Signature) -> ShardingRule:
    """The rule that an op has by its meaning, whose maps are taken."""
    rule = known_rule(signature)
    if rule is None:
        raise unfit(signature, "loop_iterator_types are given without indexing_maps", "give the maps as well")
    return rule


def _told(texts: Texts, signature: Signature) -> Sequence[str]:
    told = answer_of(texts, signature) if callable(texts) else texts
    if isinstance(told, str) or not isinstance(told, Sequence) or not all(isinstance(text, str) for text in told):
        raise unfit(signature, f"{told!r} are no texts", "give a list of texts")
    return told


def _affine(text: str) -> str:
    return text if text.lstrip().startswith("affine_map") else f"affine_map<{text}>"


def _check_types(types: Sequence[str], name: str) -> None:
    wrong = next((type for type in types if type not in _TYPES and not str(type).startswith(_OTHER_SUMS)), None)
    if wrong is not None:
        raise ShardingError(
            f"{wrong!r} is no type of a loop of {name!r}",
            remedy=f"give one of {', '.join(sorted(_TYPES))}; a reduction by another kind is reduction_max, …",
        )
