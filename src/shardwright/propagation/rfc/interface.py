"""An op as the mesh RFC's ShardingInterface shows it: its loops, and how they and its tensors are split.

    getLoopIteratorTypes    Interface.loop_iterator_types
    getIndexingMaps         Interface.indexing_maps
    getShardingOption       Interface.sharding_option
    setShardingAnnotations  Interface.sharding_annotations
    materialize             Interface.materialize

Source: the mesh RFC on LLVM's forum, ShardingInterface.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardwright.axes import Axes, AxisRef, overlaps_any
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.propagation.rfc.derivation import OpStatement, Spoken, Statement
from shardwright.propagation.rfc.materialized import Materialized, materialized
from shardwright.propagation.rfc.op_statements import made_partial, option_of, shaped
from shardwright.rules.loops import indexing_maps, iterator_types, loops
from shardwright.rules.overrides import DEFAULTS, Overrides, overrides_of
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["FoundInterface", "Interface", "interface_of", "interfaces"]

_LONGEST, _SHOWN = 200, 12
"""Of a name that is none how many characters are shown, and how many of those that there are."""

Option = tuple[Axes, ...]
"""For each loop the mesh axes that it is split along, major to minor."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The loops of an op.

    Attributes:
        op: Its name, of a custom call with the target.
        loop_iterator_types: The type of each loop: `rules.loops` says what they mean.
        indexing_maps: For each operand, then for each result, the affine map from loops to its indices, as text.
        loop_sizes: How often each loop runs, in steps.
        signature: The op.
        rule: Its sharding rule.
        overrides: Its methods that are not the default ones.
    """

    op: str
    loop_iterator_types: tuple[str, ...]
    indexing_maps: tuple[str, ...]
    loop_sizes: tuple[int, ...]
    signature: Signature
    rule: ShardingRule
    overrides: Overrides = DEFAULTS

    def __str__(self) -> str:
        """As the RFC's authors write it."""
        types = f"loop types: [{', '.join(self.loop_iterator_types)}]"
        return "\n".join([self.op, types, "indexing maps:", *self.indexing_maps])

    def sharding_option(self, annotations: Sequence[TensorSharding | None]) -> Option:
        """The axes of each loop by what is said of some tensors; those that nothing is said of are not split.

        Arguments:
            annotations: For each operand, then for each result, how it lies, if that is said.

        Raises:
            ShardingError: as many as the op has tensors are not given, or they contradict each other: two axes for one
                loop, one axis for two, two meshes, or a partial sum of an op that makes none.
        """
        own = self.overrides.sharding_option
        if own is not None:
            return self._as_option(called(own, self, annotations))
        count = len(self.signature.operands)
        tensors = count + len(self.signature.results)
        if len(annotations) != tensors:
            remedy = "give one for each operand, then one for each result, None where nothing is said"
            raise ShardingError(f"{len(annotations)} annotations for {tensors} tensors", op=self.op, remedy=remedy)
        order = [*range(count, tensors), *range(count)]
        said = [self._said(number, one) for number in order if (one := annotations[number]) is not None]
        option = option_of(self.rule, said, self.signature, lambda: "").option
        return tuple([option.get(factor, ()) for factor in loops(self.rule)])

    def sharding_annotations(self, option: Sequence[Sequence[AxisRef | str]], mesh: Mesh) -> tuple[TensorSharding, ...]:
        """How operands, then results, lie if the loops are split so; by loops that are summed, results are partial.

        Arguments:
            option: For each loop the axes that it is split along, major to minor, or their names; loops that are left
                out at the end are not split.
            mesh: The mesh.

        Raises:
            ShardingError: more loops than there are, an axis that the mesh does not have, or one twice.
        """
        own = self.overrides.sharding_annotations
        if own is not None:
            return self._as_annotations(called(own, self, option, mesh), mesh)
        order = loops(self.rule)
        split = [tuple([mesh.axis(axis) if isinstance(axis, str) else axis for axis in axes]) for axes in option]
        used = [axis for axes in split for axis in axes]
        if len(split) > len(order) or any(overlaps_any(axis, used[:n]) for n, axis in enumerate(used)):
            cause = f"it has {len(order)} loops, each axis may split one of them"
            raise ShardingError(f"{split} is not an option of this op", op=self.op, cause=cause)
        axes = dict(zip(order, split, strict=False))
        operands = [shaped(mapping, axes, self.rule, mesh) for mapping in self.rule.operands]
        results = [shaped(mapping, axes, self.rule, mesh) for mapping in self.rule.results]
        return (*operands, *[made_partial(one, axes, self.rule, self.signature) for one in results])

    def materialize(
        self,
        annotations: Sequence[TensorSharding | None],
        option: Sequence[Sequence[AxisRef | str]] | None = None,
    ) -> Materialized:
        """What is communicated around the op: operands are brought to where it takes them, results to where they lie.

        Arguments:
            annotations: For each operand, then for each result, how it lies; of those that nothing is said of as the op
                has them.
            option: The axes of each loop; by default `sharding_option(annotations)`.

        Raises:
            ShardingError: as of `sharding_option` and `sharding_annotations`; or nothing is annotated: no mesh.
        """
        own = self.overrides.materialize
        if own is not None:
            return self._as_materialized(called(own, self, annotations, option))
        mesh = next((one.mesh for one in annotations if one is not None), None)
        if mesh is None:
            raise ShardingError("no tensor of the op is annotated", op=self.op, remedy="say of one how it lies")
        split = self.sharding_option(annotations) if option is None else option
        layouts = self.sharding_annotations(split, mesh)
        if len(annotations) != len(layouts):
            raise ShardingError(f"{len(annotations)} annotations for {len(layouts)} tensors", op=self.op)
        return materialized(self.signature.operands, self.signature.results, annotations, layouts)

    @property
    def plain(self) -> Interface:
        """The same with the default methods."""
        return replace(self, overrides=DEFAULTS)

    def _as_option(self, made: Any) -> Option:
        try:
            option = tuple([tuple(axes) for axes in made])
        except TypeError:
            raise _no_answer(self, "sharding_option", made, "the axes of each loop, as a list of lists") from None
        flat = [axis for axes in option for axis in axes]
        if len(option) > len(self.loop_iterator_types) or not all(isinstance(axis, AxisRef) for axis in flat):
            raise _no_answer(self, "sharding_option", made, "for each loop axes of the mesh: mesh.axis('x')")
        if any(overlaps_any(axis, flat[:number]) for number, axis in enumerate(flat)):
            raise _no_answer(self, "sharding_option", made, "each axis to one loop, once")
        return option + ((),) * (len(self.loop_iterator_types) - len(option))

    def _as_annotations(self, made: Any, mesh: Mesh) -> tuple[TensorSharding, ...]:
        types = (*self.signature.operands, *self.signature.results)
        layouts = tuple(made) if isinstance(made, Sequence) else ()
        fits = len(layouts) == len(types) and all(isinstance(one, TensorSharding) for one in layouts)
        if not fits or any(one.rank != type.rank or one.mesh != mesh for one, type in zip(layouts, types, strict=True)):
            raise _no_answer(self, "sharding_annotations", made, "a sharding of each operand, then of each result")
        return layouts

    def _as_materialized(self, made: Any) -> Materialized:
        if not isinstance(made, Materialized):
            raise _no_answer(self, "materialize", made, "what interface.materialize gives")
        return made

    def _said(self, number: int, sharding: TensorSharding) -> OpStatement:
        count = len(self.signature.operands)
        name = f"operand {number}" if number < count else f"result {number - count}"
        types = (*self.signature.operands, *self.signature.results)
        if sharding.rank != types[number].rank:
            cause = f"it has {types[number].rank} dimensions, the sharding {sharding.rank}"
            raise ShardingError(f"{sharding!r} does not fit {name}", op=self.op, cause=cause)
        statement = Statement(sharding, Spoken(number, sharding, is_constraint=False), required=True)
        return OpStatement(number, number, statement, name, self.op, required=True)


def called(method: Callable[..., Any], interface: Interface, *arguments: Any) -> Any:
    """What a method that somebody gave for an op says of it.

    Raises:
        ShardingError: it fails, at the op.
    """
    try:
        return method(interface.plain, *arguments)
    except ShardingError:
        raise
    except Exception as error:
        raise ShardingError(
            "a method that was given for the op failed",
            op=interface.op,
            cause=f"{type(error).__name__}: {error}",
            remedy="correct it where the op is registered with sharding_interface",
        ) from error


def _no_answer(interface: Interface, method: str, made: object, wanted: str) -> ShardingError:
    what = f"the {method} that was given for the op gives {repr(made)[:_LONGEST]}"
    return ShardingError(what, op=interface.op, remedy=f"give {wanted}")


def interface_of(signature: Signature) -> Interface:
    """The interface of an op.

    Raises:
        ShardingError: it has no sharding rule.
    """
    rule = rule_for(signature)
    if rule is None:
        raise ShardingError(
            "the op has no loops that are known",
            op=signature.label,
            remedy="give it a rule: by sw.rule, the attribute sdy.sharding_rule, or indexing_maps and iterator_types",
        )
    sizes = tuple([rule.sizes[factor] for factor in loops(rule)])
    types, maps = iterator_types(signature, rule), indexing_maps(rule)
    return Interface(signature.label, types, maps, sizes, signature, rule, overrides_of(signature.label))


@dataclass(frozen=True, slots=True)
class FoundInterface:
    """An op of a program, as often as it stands there on tensors of the same types.

    Attributes:
        interface: Its loops.
        count: How often it stands there.
        location: `FILE:LINE` of the first; empty where it has none.
    """

    interface: Interface
    count: int
    location: str


def interfaces(graph: Graph, name: str) -> list[FoundInterface]:
    """The ops of a program that have a name, each once for the same types and attributes.

    Arguments:
        graph: The program.
        name: Of the op, with its dialect or without: `dot_general`; of a custom call `@target`.

    Raises:
        ShardingError: the program has no such op, or one without a rule.
    """
    named: dict[Signature, list[Op]] = {}
    known: dict[str, None] = {}
    for op in graph.walk():
        label = op.signature.label
        short = label.rpartition(" ")[2] if " " in label else label.partition(".")[2]
        known[short] = None
        if name in (label, op.name, short):
            named.setdefault(op.signature, []).append(op)
    if not named:
        close = difflib.get_close_matches(name[:_LONGEST], list(known), cutoff=0.5)
        raise ShardingError(
            f"the program has no op called {name[:_LONGEST]!r}",
            cause=f"it has {', '.join(close or list(known)[:_SHOWN])}",
            remedy="name one of its ops, with its dialect or without",
        )
    return [_found(graph, signature, ops) for signature, ops in named.items()]


def _found(graph: Graph, signature: Signature, ops: Sequence[Op]) -> FoundInterface:
    """An op with its place, which is told as well where it has no rule."""
    where = _where(graph, ops[0])
    try:
        return FoundInterface(interface_of(signature), len(ops), where)
    except ShardingError as error:
        raise error.replaced(location=where) from None


def _where(graph: Graph, op: Op) -> str:
    return str(graph.locations[op.location]) if op.location else ""
