"""Graph → MLIR text, each form of op printed by MLIR once: for large modules, which repeat themselves.

Ops of one signature, with results of the same shardings (and one location, where these are printed), look the same but
for the names of values. So MLIR prints a *reduced* graph, in which the first of them stands for all,

    %0 = "shardwright.source"() : () -> tensor<4xf32>
    %1 = stablehlo.negate %0 : tensor<4xf32>

and each op of the whole graph is written as that line with names of its own, which are given as MLIR gives them (see
`ir.names`). Whether we know how is tried on the reduced graph first: its text must come out as MLIR printed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shardwright.ir.context import module_text
from shardwright.ir.fast.chunks import Unsure, cut_at_names, op_end
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.names import ARGUMENT, NameScope, wished
from shardwright.ir.ops import RETURNS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.ir.write import Printers, write_module
from shardwright.memo import uncollected
from shardwright.sharding import TensorSharding

__all__ = ["write_text"]

_SOURCE = "shardwright.source"
_REGION = "%shardwright.region."
_FEW_FORMS, _MANY_FORMS = 64, 1024
"""A block with more forms has to have two ops to each; that is looked at at its end, and past the second at once."""


@uncollected
def write_text(graph: Graph, printers: Printers, *, shardings: bool = True, locations: bool = False) -> str | None:
    """What MLIR prints of the module that `write_module` makes; `None` where only MLIR itself knows.

    Raises:
        ShardingError: a sharding that cannot be written.
    """
    try:
        reducer = _GraphReducer(graph, locations)
        block = reducer.block(graph.main.block)
        reduced = reducer.graph_of(block)
        text = module_text(write_module(reduced, printers, shardings=shardings), locations)
        lines = text.split("\n")
        start = next((at for at, line in enumerate(lines, 1) if line.startswith("  func.func ")), len(lines))
        end = _read_block(block, lines, start)
        if _Text(reduced, is_reduced=True).body(block) != "\n".join(lines[start:end]):
            raise Unsure("names of another kind")
        return "\n".join([*lines[:start], _Text(graph, is_reduced=False).body(block), *lines[end:]])
    except (Unsure, RecursionError):
        return None


@dataclass(eq=False, slots=True)
class _Template:
    """The text of ops of one form.

    Attributes:
        format: It, with a hole for each name.
        order: Which of result, operands, inner names and regions goes into each hole; `None` where all do in order.
        wish: The name that the result wishes for.
        inner: The wishes of values inside the op: of the arguments of its regions, or of all in its bodies.
    """

    format: str
    order: list[int] | None
    wish: str
    inner: list[str]


@dataclass(eq=False, slots=True)
class _BlockForms:
    """A block: the reduced one, which op of that stands for each of its ops, their templates, the blocks of regions."""

    reduced: Block
    forms: list[int] = field(default_factory=list)
    regions: dict[int, list[_BlockForms]] = field(default_factory=dict)
    templates: list[_Template] = field(default_factory=list)


class _GraphReducer:
    """Makes the reduced graph."""

    def __init__(self, graph: Graph, locations: bool) -> None:
        self.graph = graph
        self.locations = locations
        self.types: list[TensorType] = []
        self.shardings: list[TensorSharding | None] = []

    def graph_of(self, block: _BlockForms) -> Graph:
        main = replace(self.graph.main, block=block.reduced)
        return replace(self.graph, types=self.types, shardings=self.shardings, main=main)

    def block(self, block: Block) -> _BlockForms:
        types, shardings = self.graph.types, self.graph.shardings
        arguments = tuple([self.value(types[value], shardings[value]) for value in block.arguments])
        form = _BlockForms(Block(arguments, []))
        known: dict[tuple[int, int, int], int] = {}
        firsts: dict[object, int] = {}
        sources = _Sources(self)
        for op in block.ops:
            results = op.results
            sharding_id = id(shardings[results[0]]) if len(results) == 1 else -1
            key = (id(op.signature), sharding_id, op.location if self.locations else 0)
            number = known.get(key) if sharding_id >= 0 else None
            if number is None:
                number = self._first(op, form, firsts, sources)
                if sharding_id >= 0 and not op.regions and not op.signature.name.startswith("sdy."):
                    known[key] = number
            form.forms.append(number)
            if len(form.reduced.ops) > _MANY_FORMS and 2 * len(form.reduced.ops) > len(form.forms):
                break
        if len(form.reduced.ops) > _FEW_FORMS and 2 * len(form.reduced.ops) > len(form.forms):
            raise Unsure("hardly two ops of a form")
        return sources.before(form)

    def _first(self, op: Op, form: _BlockForms, firsts: dict[object, int], sources: _Sources) -> int:
        """The op of the reduced block that stands for an op; made if there is none yet."""
        of_results = tuple([self.graph.shardings[value] for value in op.results])
        read = tuple([self.graph.shardings[value] for value in op.operands]) if op.name.startswith("sdy.") else ()
        key = (op.signature, of_results, read, op.location if self.locations else 0)
        number = None if op.regions else firsts.get(key)
        if number is None:
            number = firsts[key] = len(form.reduced.ops)
            operands = sources.of(op)
            regions = [self.block(region) for region in op.regions]
            results = tuple([self.value(self.graph.types[v], self.graph.shardings[v]) for v in op.results])
            blocks = tuple([region.reduced for region in regions])
            location = op.location if self.locations else 0
            form.reduced.ops.append(Op(op.signature, operands, results, blocks, location))
            form.regions[number] = regions
        return number

    def value(self, type: TensorType, sharding: TensorSharding | None) -> int:
        """A fresh value of the reduced graph."""
        self.types.append(type)
        self.shardings.append(sharding)
        return len(self.types) - 1


class _Sources:
    """Ops that stand before those of a reduced block and make the values that these read."""

    def __init__(self, reducer: _GraphReducer) -> None:
        self.reducer = reducer
        self.values: dict[tuple[TensorType, TensorSharding | None, int], int] = {}
        self.ops: list[Op] = []

    def of(self, op: Op) -> tuple[int, ...]:
        """Operands for an op: no two the same, except for those of a return, which are printed in order."""
        graph = self.reducer.graph
        sharded = op.name.startswith("sdy.")  # checked against the shardings of what they read
        counts: dict[tuple[TensorType, TensorSharding | None], int] = {}
        operands: list[int] = []
        for value in op.operands:
            kind = graph.types[value], graph.shardings[value] if sharded else None
            number = 0 if op.name in RETURNS else counts.get(kind, 0)
            counts[kind] = number + 1
            operands.append(self._source(*kind, number))
        return tuple(operands)

    def _source(self, type: TensorType, sharding: TensorSharding | None, number: int) -> int:
        key = (type, sharding, number)
        value = self.values.get(key)
        if value is None:
            value = self.values[key] = self.reducer.value(type, sharding)
            self.ops.append(Op(Signature(_SOURCE, (), (), (type,)), (), (value,)))
        return value

    def before(self, form: _BlockForms) -> _BlockForms:
        """The block with these in front."""
        ahead = len(self.ops)
        form.reduced.ops[:0] = self.ops
        form.forms = [number + ahead for number in form.forms]
        form.regions = {number + ahead: regions for number, regions in form.regions.items()}
        return form


def _read_block(form: _BlockForms, lines: Sequence[str], at: int) -> int:
    """Take the templates of a block from what MLIR printed of the reduced one, from a line on; the line after it."""
    names: dict[int, str] = {}
    for number, op in enumerate(form.reduced.ops):
        if at >= len(lines):
            raise Unsure("too few lines")
        end = op_end(lines, at)
        regions = form.regions.get(number, [])
        text = _read_regions(regions, lines, at, end) if regions else "\n".join(lines[at:end])
        form.templates.append(_read_template(text, op, names))
        at = end
    return at


def _read_regions(regions: list[_BlockForms], lines: Sequence[str], at: int, end: int) -> str:
    """The text of an op that has regions, with `_REGION` and their number in place of the lines inside."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    kept: list[str] = []
    for number, region in enumerate(regions):
        while at < end and not _goes_in(lines[at], indent):
            kept.append(lines[at])
            at += 1
        kept.append(f"{_REGION}{number}")
        at = _read_block(region, lines, at)
    return "\n".join([*kept, *lines[at:end]])


def _goes_in(line: str, indent: int) -> bool:
    """Whether a line is inside a region of an op that begins so many columns in."""
    stripped = line.lstrip()
    return len(line) - len(stripped) > indent and not stripped.startswith("^")


def _read_template(text: str, op: Op, names: dict[int, str]) -> _Template:
    """The template of what MLIR printed of an op; its results are put into `names`."""
    pieces = cut_at_names(text)
    tokens = pieces[1::2]
    named = bool(op.results)
    if named:
        if not text.lstrip().startswith("%"):
            raise Unsure("results without a name")
        names.update(zip(op.results, _result_names(tokens[0], len(op.results)), strict=True))
    first = int(named)
    read = tokens[first:]
    if op.name in RETURNS:
        if read != [names[value] for value in op.operands]:
            raise Unsure("a return of another form")
        return _Template(_format(pieces), None, "", [])
    holes = {names[value]: place for place, value in enumerate(op.operands, first)}
    inner = list(dict.fromkeys(token for token in read if token not in holes and not token.startswith(_REGION)))
    inside = [*inner, *(f"{_REGION}{number}" for number in range(len(op.regions)))]
    holes.update((token, place) for place, token in enumerate(inside, first + len(holes)))
    order = [*range(first), *(holes[token] for token in read)]
    simple = not inside and order == list(range(first + len(op.operands)))
    wish = wished(tokens[0][1:]) if named else ""
    return _Template(_format(pieces), None if simple else order, wish, [wished(token[1:]) for token in inner])


def _format(pieces: list[str]) -> str:
    return "%s".join([piece.replace("%", "%%") for piece in pieces[::2]])


def _result_names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}#{number}" for number in range(count)]


class _Text:
    """Writes the function of a graph, reduced or whole, by the templates of a reduced block."""

    def __init__(self, graph: Graph, is_reduced: bool) -> None:
        self.graph = graph
        self.is_reduced = is_reduced
        self.names = [""] * len(graph.types)

    def body(self, form: _BlockForms) -> str:
        block, scope = self.graph.main.block, NameScope()
        for value in block.arguments:
            self.names[value] = scope.name(ARGUMENT)
        return self._block(form, block, scope)

    def _block(self, form: _BlockForms, block: Block, scope: NameScope) -> str:
        names, templates = self.names, form.templates
        out: list[str] = []
        later: list[tuple[int, int, Op, tuple[str, ...]]] = []
        for op, number in zip(block.ops, range(len(block.ops)) if self.is_reduced else form.forms, strict=True):
            template = templates[number]
            parts: tuple[str, ...] = tuple([names[value] for value in op.operands])
            if op.results:
                name = scope.name(template.wish)
                if len(op.results) == 1:
                    names[op.results[0]] = name
                else:
                    for value, result in zip(op.results, _result_names(name, len(op.results)), strict=True):
                        names[value] = result
                parts = (name, *parts)
            if template.order is None:
                out.append(template.format % parts)
            else:
                later.append((len(out), number, op, parts))
                out.append("")
        inside: dict[int, tuple[str, ...]] = {}
        for at, number, op, parts in later:
            if op.regions or number not in inside:
                inside[number] = self._inside(templates[number], op, form.regions.get(number, []), scope)
            parts += inside[number]
            out[at] = templates[number].format % tuple([parts[place] for place in templates[number].order or ()])
        return "\n".join(out)

    def _inside(self, template: _Template, op: Op, regions: list[_BlockForms], scope: NameScope) -> tuple[str, ...]:
        """What fills the holes inside an op: the names of values in its bodies, or arguments and texts of regions."""
        inner = scope.inner()
        names = tuple([inner.name(wish) for wish in template.inner])
        texts: list[str] = []
        for form, block in zip(regions, op.regions, strict=True):
            inner = scope.inner()
            for value, wish in zip(block.arguments, template.inner, strict=False):
                self.names[value] = inner.name(wish)
            if len(block.arguments) != len(template.inner):
                raise Unsure("arguments of regions that differ")
            texts.append(self._block(form, block, inner))
        return (*names, *texts)
