"""What is read off a handle by itself: attributes, scalar bodies, names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from contextlib import suppress
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, is_registered, parse_attribute
from shardwright.ir.locations import pytree_path
from shardwright.ir.nesting import DEEPEST_REGIONS, too_deep
from shardwright.ir.opaque import attribute, attribute_text
from shardwright.ir.ops import BODY_OPS, INDEXING_MAPS
from shardwright.ir.signature import Body, BodyOp
from shardwright.ir.types import TensorType
from shardwright.ir.walk import walk

__all__ = [
    "attributes_of",
    "body_of",
    "dictionaries_of",
    "entries_of",
    "has_body",
    "renamed",
    "result_name",
    "unique_names",
    "visibility_of",
]

_PROPERTIES = re.compile(r'(?:[^"]* = )?"[^"]*"\([^()]*\)(?:\[[^\]]*\])? <\{')


def body_of(region: Any, parent: Any, depth: int = 1) -> Body:
    """The computation inside op `parent`, which may hold others: this is one of `depth` levels.

    Raises:
        ShardingError: it has several blocks, reads values from outside, or lies too deep.
    """
    if depth > DEEPEST_REGIONS:
        raise too_deep(parent.name, "computations", DEEPEST_REGIONS, "")
    if len(region.blocks) != 1:
        raise ShardingError(
            f"the computation inside {parent.name} has several blocks",
            op=parent.name,
            cause="it is said once for all elements, as one expression",
            remedy="write it as one block: select between values instead of branching",
        )
    block = region.blocks[0]
    numbers: dict[Any, int] = {}
    for argument in block.arguments:
        numbers[argument] = len(numbers)
    ops: list[BodyOp] = []
    for view in block.operations:
        op = view.operation
        try:
            operands = tuple(numbers[value] for value in op.operands)
        except KeyError:
            raise ShardingError(
                f"the computation inside {parent.name} reads a value from outside",
                op=parent.name,
                cause="it is said once for all elements, in terms of its own arguments",
                remedy="pass it as an operand",
            ) from None
        attributes = tuple(sorted((key, attribute_text(value)) for key, value in attributes_of(op).items()))
        for result in op.results:
            numbers[result] = len(numbers)
        types = tuple(TensorType.parse(str(result.type)) for result in op.results)
        ops.append(BodyOp(op.name, attributes, operands, types, tuple(body_of(r, op, depth + 1) for r in op.regions)))
    return Body(tuple(TensorType.parse(str(argument.type)) for argument in block.arguments), tuple(ops))


def has_body(op: Any, name: str, attributes: Container[str]) -> bool:
    """Whether the regions of an op belong to its signature: they compute on scalars, and those of an op that describes
    itself read nothing from outside.
    """
    return name in BODY_OPS or (INDEXING_MAPS in attributes and not any(map(_reads_outside, op.regions)))


def _reads_outside(region: Any) -> bool:
    own: set[Any] = set()
    read: list[Any] = []

    def visit(op: Any) -> Any:
        read.extend(op.operands)
        own.update(op.results)
        own.update(argument for inner in op.regions for block in inner.blocks for argument in block.arguments)
        return ir.WalkResult.ADVANCE

    for block in region.blocks:
        own.update(block.arguments)
        for view in block.operations:
            walk(view.operation, visit)
    return any(value not in own for value in read)


def attributes_of(op: Any, name: str = "") -> dict[str, Any]:
    """Attributes by name; the `name` of the op spares asking for it, where it is at hand.

    Taken from text is what jaxlib does not hand out: dense complex constants, and properties of unregistered ops.
    """
    try:
        attributes = dict(op.attributes.items())
    except TypeError:
        texts = [str(op.attributes[number]) for number in range(len(op.attributes))]
        pairs = [text.removeprefix("NamedAttribute(").removesuffix(")").split("=", 1) for text in texts]
        attributes = {name: text if "complex<" in text else attribute(text) for name, text in pairs}
    return attributes if is_registered(name or op.name) else {**_properties(op), **attributes}


def renamed(op: Any, name: str) -> Any:
    """An op without operands and regions under another name, put before it."""
    attributes = attributes_of(op)
    texts = {key: attributes.pop(key) for key, value in list(attributes.items()) if isinstance(value, str)}
    if texts:  # jaxlib has no handle to make it with
        properties = ", ".join(f"{key} = {text}" for key, text in texts.items())
        made = ", ".join(str(result.type) for result in op.results)
        new = ir.Operation.parse(f'"{name}"() {{{properties}}} : () -> ({made}) {op.location}', context=context())
        for key, value in attributes.items():
            new.attributes[key] = value
        ir.InsertionPoint(op).insert(new)
        return new.operation
    types = [result.type for result in op.results]
    return ir.Operation.create(name, types, attributes=attributes, loc=op.location, ip=ir.InsertionPoint(op))


def _properties(op: Any) -> dict[str, Any]:
    """What the generic form of an op has in `<{…}>`."""
    text = op.get_asm(print_generic_op_form=True, skip_regions=True)
    begin = _PROPERTIES.match(text)
    if begin is None:
        return {}
    start = begin.end() - 1
    for end in re.finditer("}>", text[start:]):
        with suppress(ir.MLIRError):
            entries: Any = ir.DictAttr(parse_attribute(text[start : start + end.end() - 1]))
            return {named.name: named.attr for named in entries}
    raise AssertionError("MLIR prints properties as a dictionary")


def visibility_of(function: Any) -> str:
    """`public` or `private`."""
    has_visibility = "sym_visibility" in function.attributes
    return ir.StringAttr(function.attributes["sym_visibility"]).value if has_visibility else "public"


def entries_of(attribute: Any) -> dict[str, str]:
    """The entries of a dictionary, as text."""
    entries: Any = ir.DictAttr(attribute)
    return {named.name: str(named.attr) for named in entries}


def dictionaries_of(op: Any, name: str) -> list[dict[str, str]]:
    """What an attribute of a function says of its arguments or results, that of equal ones read once."""
    known: dict[Any, dict[str, str]] = {}
    rows: list[dict[str, str]] = []
    for handle in op.attributes.get(name, ()):
        if handle not in known:
            known[handle] = entries_of(handle)
        rows.append(dict(known[handle]))
    return rows


def result_name(attributes: dict[str, str], number: int) -> str:
    """What a result is called by its attributes."""
    text = attributes.get("jax.result_info", "")
    match = re.match(r'"(.*)"$', text)
    if not match or not match.group(1):
        return f"result{number}"
    path = pytree_path(match.group(1))
    inner = path.removeprefix("result/")
    return path if inner[:1].isdigit() else inner  # `result` says nothing before a name, and something before a number


def unique_names(names: list[str]) -> list[str]:
    """Names with the number of their place where several are the same."""
    count = Counter(names)
    return [name if count[name] == 1 else f"{name}#{number}" for number, name in enumerate(names)]
