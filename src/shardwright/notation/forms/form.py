"""How the ops of a dialect are written: one declarative entry an op, in the language MLIR itself uses.

    ALL_GATHER = OpForm(
        "shard.all_gather",
        "$input `on` $grid (`grid_axes` `=` $grid_axes^)? `gather_axis` `=` $gather_axis attr-dict"
        " `:` type($input) `->` type($result)",
        doc="…",
        operands=(Operand("input"),),
        results=("result",),
        attributes=(
            Attribute("grid", SYMBOL),
            Attribute("grid_axes", I16_ARRAY, default=()),
            Attribute("gather_axis", INDEX),
        ),
        verify=verify_gather,
    )

Source: MLIR's "Operation Definition Specification", declarative assembly format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Attribute", "Dialect", "AttributeKind", "OpForm", "OpText", "Operand", "Symbols"]


@dataclass(frozen=True, slots=True)
class AttributeKind:
    """A kind of attribute: how it is spelled within custom syntax and as an attribute of the generic form.

    Attributes:
        name: What diagnostics call it: `a list of mesh axes`.
        read: Takes the value from the tokens of custom syntax. Raises `ShardingError` where it is not there.
        print: The value in custom syntax.
        generic: The value as MLIR attribute text, `array<i16: 0, 1>`.
        decode: Attribute text → value. Raises `ShardingError` for a text of another kind.
        starts: The characters one of which begins it in custom syntax, where a value may be absent.
    """

    name: str
    read: Callable[[Any], Any]
    print: Callable[[Any], str]
    generic: Callable[[Any], str]
    decode: Callable[[str], Any]
    starts: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an op. Left out where equal to `default`; one without a default is required unless optional.

    `spelled` is its name in text where that differs: an earlier generation's `mesh_axes` for `grid_axes`.
    """

    name: str
    kind: AttributeKind
    default: Any = None
    optional: bool = False
    spelled: str = ""

    @property
    def key(self) -> str:
        """Its name in the attribute dictionary of the generic form."""
        return self.spelled or self.name


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand, or a group of any number of them; several groups are told apart by `operandSegmentSizes`."""

    name: str
    count: Literal["one", "optional", "variadic"] = "one"
    type: str = ""
    """Its type, where the syntax does not spell it (`index`, `!shard.sharding`); `$result` for that of a result."""


@dataclass(frozen=True, slots=True)
class OpText:
    """One op as it stands in a text.

    Attributes:
        form: Its form.
        results: The names it defines, with their counts, as written: `("%0",)`, `("%i:2",)`; empty where none.
        operands: Names of the operands (`%a`, `%i#1`) by the form's operand names.
        attributes: Values by attribute name, defaults filled in.
        operand_types: Types of all operands in order, as text.
        result_types: Types of all results in order, as text.
        extra: Further entries of the attribute dictionary, as MLIR text by name (`None` for a unit attribute).
        location: A trailing `loc(…)`, or nothing.
        position: `FILE:LINE:COLUMN` of the op's name.
    """

    form: OpForm
    results: tuple[str, ...]
    operands: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any]
    operand_types: tuple[str, ...]
    result_types: tuple[str, ...]
    extra: Mapping[str, str | None] = field(default_factory=dict)
    location: str = ""
    position: str = ""


Symbols = Mapping[str, OpText]
"""The symbols that ops of the dialect define in the text (grids, meshes, clusters), by name without `@`."""


def _fine(op: OpText, symbols: Symbols) -> None:
    """Nothing to check."""


@dataclass(frozen=True, slots=True, eq=False)
class OpForm:
    """How one op is written, what it means and what it must obey.

    Attributes:
        name: `shard.all_gather`.
        assembly: The declarative assembly format.
        doc: What the op computes, with its source.
        operands: In order.
        results: Names of its results; a name ending in `*` stands for any number.
        attributes: Those the form knows.
        verify: Raises `ShardingError` (op, position, cause, remedy) for what the dialect forbids.
        renamed: For a name of an earlier generation: the op of today, with the same operands and attributes. An op
            with a value for an attribute that the op of today lacks keeps its earlier name.
        result_types: Type of each result where the syntax does not spell it; `$input` for that of an operand.
        synonyms: Earlier spellings of keywords and attribute names, read as those of today.
        nameless: The attribute that an entry without a name in the attribute dictionary gives.
        expand: For an earlier op that took the place of several: these, the last with its results. Also given a name
            for a value that they share.
    """

    name: str
    assembly: str
    doc: str
    operands: tuple[Operand, ...] = ()
    results: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    verify: Callable[[OpText, Symbols], None] = _fine
    renamed: str = ""
    result_types: tuple[str, ...] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)
    nameless: str = ""
    expand: Callable[[OpText, str], tuple[OpText, ...]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A dialect: its forms by op name, and which of them define a symbol (in attribute `sym_name`).

    `types` gives earlier spellings of its types with those of today: `!mesh.sharding` → `!shard.sharding`.
    """

    name: str
    title: str
    forms: Mapping[str, OpForm]
    symbols: frozenset[str] = frozenset()
    types: Mapping[str, str] = field(default_factory=dict)
