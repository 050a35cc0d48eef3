"""Changes that keep the grammar: of sizes, types, axes, annotations, ops, operands and lines of a module's text.

Each is a function of a text and a random generator, known by `change`; one that cannot be made leaves the text as it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from tests.fuzz.annotate import annotated, closed_bracket, dims_of, mesh_axes, sharding_of

__all__ = ["CHANGES", "changed"]

Change = Callable[[str, random.Random], str]
CHANGES: dict[str, tuple[float, Change]] = {}

_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-z]\w*(?:<\w+>)?)>")
_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 1, 2, 3, 4, 8, 1000, 65537, 1 << 31, 1 << 40)
_TYPES = (
    "f32",
    "f64",
    "bf16",
    "f16",
    "i1",
    "i8",
    "i32",
    "i64",
    "ui8",
    "ui32",
    "complex<f32>",
    "f8E4M3FN",
    "i4",
    "index",
)
_UNARY = ("negate", "abs", "exponential", "tanh", "sine", "sqrt", "floor", "logistic", "sign", "not", "log", "cbrt")
_BINARY = ("add", "multiply", "subtract", "maximum", "minimum", "divide", "and", "or", "power", "remainder", "atan2")
_COLLECTIVE = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "collective_permute", "collective_broadcast")
_SDY = ("all_gather", "all_slice", "all_to_all", "all_reduce", "reduce_scatter", "collective_permute", "sharding_constraint", "reshard")  # fmt: skip
_FAMILIES = (_UNARY, _BINARY, _COLLECTIVE, _SDY, ("send", "recv", "broadcast", "scatter", "reduce", "shift", "gather"))
_NAMES = ('"x"', '"y"', '"a b"', '"0"', '"é"', '""', '"data"', '"x\\22y"', '"' + "n" * 300 + '"')
_MESH = re.compile(r'<\["[^\]]*\]')
_SSA = re.compile(r"%[\w$.-]+(?:#\d+)?")
_DEFINED = re.compile(r"^\s*(%[\w$.-]+)(?::\d+)? = ")
_OP = re.compile(r'= "?([a-z_]+\.[a-z_]+)"?')


def change(weight: float = 1.0) -> Callable[[Change], Change]:
    """Make the decorated change known."""

    def register(function: Change) -> Change:
        CHANGES[function.__name__] = (weight, function)
        return function

    return register


def changed(text: str, rng: random.Random) -> tuple[str, str]:
    """The name of a change, and the text after it."""
    name = rng.choices(list(CHANGES), [weight for weight, _ in CHANGES.values()])[0]
    return name, CHANGES[name][1](text, rng)


def _replaced(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


def _one(pattern: str | re.Pattern[str], text: str, rng: random.Random) -> re.Match[str] | None:
    matches = list(re.finditer(pattern, text))
    return rng.choice(matches) if matches else None


def _of_line(lines: Sequence[str], rng: random.Random, pattern: re.Pattern[str] = _DEFINED) -> int | None:
    numbers = [number for number, line in enumerate(lines) if pattern.search(line) and not line.rstrip().endswith("{")]
    return rng.choice(numbers) if numbers else None


@change(3)
def size_everywhere(text: str, rng: random.Random) -> str:
    """A size of tensors is another one wherever it stands in a type."""
    sizes = sorted({size for match in _TENSOR.finditer(text) for size in match[1].split("x")[:-1]})
    if not sizes:
        return text
    old, new = rng.choice(sizes), str(rng.choice(_SIZES))

    def resized(match: re.Match[str]) -> str:
        dims = [new if size == old else size for size in match[1].split("x")[:-1]]
        return f"tensor<{''.join(f'{size}x' for size in dims)}{match[2]}>"

    return _TENSOR.sub(resized, text)


@change()
def size_somewhere(text: str, rng: random.Random) -> str:
    """One size of one type."""
    match = _one(r"(?<=[<x])\d+(?=x)", text, rng)
    return text if match is None else _replaced(text, match.span(), rng.choice((str(rng.choice(_SIZES)), "?")))


@change(2)
def type_everywhere(text: str, rng: random.Random) -> str:
    """An element type is another one wherever it stands."""
    match = _one(_TENSOR, text, rng)
    if match is None:
        return text
    return re.sub(rf"(?<=[<x ]){re.escape(match[2])}(?=[>,) ])", rng.choice(_TYPES), text)


@change(0.5)
def type_somewhere(text: str, rng: random.Random) -> str:
    """One element type."""
    match = _one(_TENSOR, text, rng)
    return text if match is None else _replaced(text, match.span(2), rng.choice(_TYPES))


@change(2)
def number(text: str, rng: random.Random) -> str:
    """A number that is no size of a type: of an attribute, an axis, a group, a constant."""
    match = _one(r"(?<![\w%#@.\"])-?\d+(?![\w.])", text, rng)
    if match is None:
        return text
    near = int(match[0])
    new = rng.choice((near + 1, near - 1, 0, 1, 2 * near, near, -near, 7, 1 << 31, 1 << 62))
    return _replaced(text, match.span(), str(new))


@change(2)
def mesh_size(text: str, rng: random.Random) -> str:
    """The size of an axis of a mesh or grid."""
    match = _one(r'(?<="=)\d+|(?<=shape = )\d+|(?<=dim_sizes = \[)\d+|(?<=<=\[)\d+', text, rng)
    sizes = (0, 1, 2, 3, 4, 5, 6, 8, 16, 64, 512, 65536, 1 << 31, 1 << 32, 1 << 62)
    weights = (1, 4, 6, 6, 6, 3, 4, 6, 3, 2, 1, 0.5, 0.3, 0.3, 0.2)
    return text if match is None else _replaced(text, match.span(), str(rng.choices(sizes, weights)[0]))


@change(2)
def mesh_more(text: str, rng: random.Random) -> str:
    """Another axis of a mesh, one less, an order of devices, or the mesh a second time by another name."""
    match = _one(_MESH, text, rng)
    if match is None:
        return text
    kind = rng.randrange(4)
    axes = match[0][2:-1].split(", ")
    if kind == 0:
        return _replaced(
            text, match.span(), f"<[{', '.join([*axes, f'{rng.choice(_NAMES)}={rng.choice((1, 2, 3))}'])}]"
        )
    if kind == 1:
        return _replaced(text, match.span(), f"<[{', '.join(rng.sample(axes, len(axes) - 1))}]")
    if kind == 2:
        ids = list(range(_size(axes)))
        rng.shuffle(ids)
        device_ids = f"device_ids=[{', '.join(map(str, ids[: rng.choice((len(ids), len(ids), 1))]))}]"
        return _replaced(text, (match.end(), match.end()), f", {device_ids}")
    line = _one(r"(?m)^\s*sdy\.mesh @(\w+) = .*$", text, rng)
    return (
        text if line is None else text[: line.start()] + line[0].replace(line[1], "again") + "\n" + text[line.start() :]
    )


def _size(axes: Sequence[str]) -> int:
    count = 1
    for axis in axes:
        count *= int(axis.rpartition("=")[2] or 1) if axis.rpartition("=")[2].isdecimal() else 1
    return min(count, 64)


@change(1)
def axis_everywhere(text: str, rng: random.Random) -> str:
    """An axis has another name, perhaps that of another one."""
    axes = mesh_axes(text)
    if not axes:
        return text
    return text.replace(f'"{rng.choice(axes)}"', rng.choice([*_NAMES, *(f'"{axis}"' for axis in axes)]))


@change(3)
def axis_somewhere(text: str, rng: random.Random) -> str:
    """One mention of an axis is of another axis, or of a part of it."""
    axes = mesh_axes(text)
    match = _one(r'(?<=[{ ])"\w+"(?=[,}])', text, rng)
    if match is None or not axes:
        return text
    part = rng.choice(("", "", "", ":(1)2", ":(2)2", ":(1)4", ":(3)2"))
    return _replaced(text, match.span(), f'"{rng.choice(axes)}"{part}')


@change(3)
def dims(text: str, rng: random.Random) -> str:
    """One dimension's sharding: opened, closed, emptied, given a priority, an axis more."""
    match = _one(r'\{(?:"\w+"(?::\(\d+\)\d+)?(?:, )?|\?)*\}(?:p\d+)?(?=[,\]])', text, rng)
    if match is None:
        return text
    axes = mesh_axes(text) or ["x"]
    new = rng.choice(("{}", "{?}", '{"A"}', '{"A", ?}', '{"A", "B"}', '{"A"}p1', "{?}p0", '{"A":(1)2}', '{"A", ?}p3'))
    first, other = rng.choice(axes), rng.choice(axes)
    return _replaced(text, match.span(), new.replace('"A"', f'"{first}"').replace('"B"', f'"{other}"'))


@change(4)
def annotation(text: str, rng: random.Random) -> str:
    """An annotation where there was none: on an argument, an op, a result, or a constraint after a value."""
    return annotated(text, rng)


@change(2)
def sharding(text: str, rng: random.Random) -> str:
    """A whole sharding is another one of as many dimensions."""
    match = _one(r"<@[\w\"]+, \[[^\]<>]*\][^<>]*>", text, rng)
    if match is None:
        return text
    return _replaced(text, match.span(), sharding_of(text, match[0].count("{") or 1, rng))


@change(1.5)
def shardings_swapped(text: str, rng: random.Random) -> str:
    """Two annotations of a kind change places."""
    for pattern in rng.sample((r"<@\w+, \[[^\]<>]*\][^<>]*>", r'"\{[^"{}]*\}"', r"split_axes = \[\[[^=:]*\]\]"), 3):
        matches = list(re.finditer(pattern, text))
        if len(matches) > 1:
            first, second = sorted(rng.sample(matches, 2), key=lambda match: match.start())
            text = _replaced(text, second.span(), first[0])
            return _replaced(text, first.span(), second[0])
    return text


@change(2)
def op_name(text: str, rng: random.Random) -> str:
    """An op is another one of its family."""
    family = rng.choice(_FAMILIES)
    match = _one(rf"(?<=\.)(?:{'|'.join(family)})(?=[\s\"(])", text, rng)
    return text if match is None else _replaced(text, match.span(), rng.choice(family))


@change(2)
def operand(text: str, rng: random.Random) -> str:
    """A use is of another value of that type, where one can be seen, else of any."""
    lines = text.split("\n")
    at = _of_line(lines, rng)
    if at is None:
        return text
    uses = list(_SSA.finditer(lines[at]))[1:]
    before = list(dict.fromkeys(_SSA.findall("\n".join(lines[:at]))))
    if not uses or not before:
        return text
    use = rng.choice(uses)
    alike = [name for name in before if _type_of(name, lines[:at]) == _type_of(use[0], lines[:at])]
    new = rng.choice(alike if alike and rng.random() < 0.8 else before)
    lines[at] = _replaced(lines[at], use.span(), new)
    return "\n".join(lines)


def _type_of(name: str, lines: Sequence[str]) -> str:
    """The type of a value where a line says it plainly."""
    for line in lines:
        if f"{name}: " in line:
            return line.split(f"{name}: ", 1)[1].split(">")[0]
        if line.lstrip().startswith(f"{name} = "):
            return re.split(r"-> |: ", line)[-1].split(">")[0]
    return ""


@change(2)
def line_out(text: str, rng: random.Random) -> str:
    """An op goes; one of its operands takes the place of its result."""
    lines = text.split("\n")
    at = _of_line(lines, rng)
    if at is None:
        return text
    names = _SSA.findall(lines[at])
    rest = "\n".join(lines[:at] + lines[at + 1 :])
    if len(names) < 2 or rng.random() < 0.1:
        return rest
    alike = [name for name in names[1:] if _type_of(name, lines[:at]) == _type_of(names[0], [lines[at]])]
    return re.sub(rf"{re.escape(names[0])}(?![\w$.-])", rng.choice(alike or names[1:]), rest)


@change(1.5)
def line_doubled(text: str, rng: random.Random) -> str:
    """An op stands there twice."""
    lines = text.split("\n")
    at = _of_line(lines, rng)
    if at is None:
        return text
    match = _DEFINED.match(lines[at])
    assert match
    return "\n".join([*lines[:at], lines[at].replace(match[1], "%doubled", 1), *lines[at:]])


@change(0.7)
def line_moved(text: str, rng: random.Random) -> str:
    """A line stands elsewhere."""
    lines = text.split("\n")
    line = lines.pop(rng.randrange(len(lines)))
    lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


@change(1.5)
def attributes_swapped(text: str, rng: random.Random) -> str:
    """Two ops of a kind exchange what they say between braces or brackets."""
    lines = text.split("\n")
    by_name: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        match = _OP.search(line)
        if match and re.search(r"[\[{<][^%]*[\]}>]", line.split(" : ")[0]):
            by_name.setdefault(match[1], []).append(number)
    several = [numbers for numbers in by_name.values() if len(numbers) > 1]
    if not several:
        return text
    first, second = rng.sample(rng.choice(several), 2)
    one, other = (re.search(r"[\[{<][^%]*[\]}>]", lines[number].split(" : ")[0]) for number in (first, second))
    assert one
    assert other
    lines[first] = _replaced(lines[first], one.span(), other[0])
    lines[second] = _replaced(lines[second], other.span(), one[0])
    return "\n".join(lines)


@change(1.5)
def words(text: str, rng: random.Random) -> str:
    """A word that has a few others in its place: flags, directions, kinds, visibility."""
    for old, new in rng.sample(_WORDS, len(_WORDS)):
        match = _one(old, text, rng)
        if match:
            return _replaced(text, match.span(), rng.choice(new))
    return text


_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"\btrue\b", ("false",)),
    (r"\bfalse\b", ("true",)),
    (r"\bprivate |(?<=func\.func )(?=@)", ("private ", "public ", "nested ", "")),
    (r"\b(?:EQ|NE|LT|LE|GT|GE)\b", ("EQ", "NE", "LT", "GE", "XX")),
    (r"\b(?:sum|max|min|product)\b", ("sum", "max", "min", "product", "average")),
    (r"(?<=manual_axes=)\{[^{}]*\}", ("{}", '{"x"}', '{"a", "b"}', '{"b"}')),
    (r"(?<=unreduced=)\{[^{}]*\}|(?<=replicated=)\{[^{}]*\}", ("{}", '{"x"}', '{"a"}', '{"a":(1)2}')),
    (r"dense<[^<>]*>", ("dense<0>", "dense<1.0>", "dense<0xFFC00000>", "dense<true>", "dense<[]>", "dense<-1>")),
    (r"(?<=@)main\b", ("other", '"a b"', "f")),
    (r"(?<=group_id = )\d+|(?<=group_id=)\d+", ("0", "1", "99", "9223372036854775807")),
    (r"\{(?:devices=[^\"{}]*|replicated|maximal[^\"{}]*|manual)\}",
     ("{replicated}", "{manual}", "{maximal device=0}", "{maximal device=1}", "{devices=[2,1]<=[2]}", "{unknown}",
      "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[1,2]1,0}")),
)  # fmt: skip


@change(1.5)
def extra(text: str, rng: random.Random) -> str:
    """Something that modules say in heads: attributes of the module, locations, comments."""
    kind = rng.randrange(4)
    if kind == 0:
        attribute = rng.choice(
            (
                "mhlo.num_partitions = 8 : i32",
                "mhlo.num_replicas = 2 : i32",
                "mhlo.num_partitions = -1 : i64",
                "a.b = 1",
            )
        )
        if text.lstrip().startswith("module"):
            return text
        return f"module @m attributes {{{attribute}}} {{\n{text}\n}}\n"
    if kind == 1:
        lines = text.split("\n")
        at = _of_line(lines, rng)
        if at is None:
            return text
        lines[at] += rng.choice(
            (
                ' loc("a name")',
                ' loc("f.py":1:2)',
                " loc(unknown)",
                ' loc(callsite("a" at "b"))',
                ' loc(fused["a", "b":1:1])',
            )
        )
        return "\n".join(lines)
    if kind == 2:
        return text.replace("\n", rng.choice(("\r\n", "\n\n", " // é\n", "\n// -----\n")))
    match = _one(r"(?m)(?<=: tensor)<[^<>]*>(?=[,)])", text, rng)
    attribute = rng.choice(('jax.buffer_donor = true', 'tf.aliasing_output = 0 : i32', 'mhlo.layout_mode = "default"', 'jax.result_info = "a b"',
        'mhlo.memory_kind = "device"', "tf.aliasing_output = 9 : i32", "mhlo.is_same_data_across_replicas = true"))  # fmt: skip
    return text if match is None else _replaced(text, (match.end(), match.end()), f" {{{attribute}}}")


@change(0.7)
def nested(text: str, rng: random.Random) -> str:
    """A block in braces is doubled, or goes."""
    match = _one(r"\{", text, rng)
    if match is None:
        return text
    end = closed_bracket(text, match.start())
    block = text[match.start() : end]
    return _replaced(text, (match.start(), end), rng.choice((block + block, "", f"{{{block}}}")))


@change(0.7)
def ranks(text: str, rng: random.Random) -> str:
    """Every tensor of a type has another type of another rank."""
    match = _one(_TENSOR, text, rng)
    if match is None:
        return text
    sizes = match[1].split("x")[:-1]
    new = rng.choice((sizes[:-1], [*sizes, "2"], ["1", *sizes], sizes[::-1], []))
    assert dims_of(match[0]) == len(sizes)
    return text.replace(match[0], f"tensor<{''.join(f'{size}x' for size in new)}{match[2]}>")
