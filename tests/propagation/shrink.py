"""Make a program that misbehaves smaller: ops, annotations, arguments and results are taken out while it still does.

.venv/bin/python -m tests.propagation.shrink 4711     # the program of that seed
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module

__all__ = ["shrunk"]

_NOTE = re.compile(r"sdy\.sharding = #sdy\.sharding(?:_per_value)?<")
_DEFINED = re.compile(r"^\s*(%\w+)(?::(\d+))? = ")
_AXIS = re.compile(r'(?:, )?"\w+"(?::\(\d+\)\d+)?(?=[,}])')
_TYPES = re.compile(r"(?:-> |: )\(?([^()]*?)\)?$")


def shrunk(text: str, misbehave: Callable[[Sequence[str]], list[bool]], rounds: int = 200) -> str:
    """The smallest program found from `text`; `misbehave` tells of several at once which still do."""
    for _ in range(rounds):
        several = list(dict.fromkeys(smaller for smaller in _smaller(text) if _is_valid(smaller)))
        several.sort(key=len)
        bad = [smaller for smaller, still in zip(several, misbehave(several), strict=True) if still]
        if not bad:
            return text
        text = bad[0]
    return text


def _is_valid(text: str) -> bool:
    try:
        load_module(text)
    except ShardingError:
        return False
    return True


def _smaller(text: str) -> Iterator[str]:
    lines = text.split("\n")
    for start, end in _spans(lines):
        rest = lines[:start] + lines[end:]
        yield "\n".join(rest)
        made = _DEFINED.match(lines[start])
        if made:
            yield from _as_arguments(rest, made[1], int(made[2] or 0), lines[end - 1])
            yield from _as_operand(rest, made[1], lines[start])
    for number, line in enumerate(lines):
        for other in _without_parts(line):
            yield "\n".join([*lines[:number], other, *lines[number + 1 :]])
    yield from _fewer_arguments(lines)
    yield from _fewer_results(lines)


def _spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Each op's lines, first and one after last, its regions included."""
    spans = []
    for start, line in enumerate(lines):
        if line.startswith(("sdy.mesh", "}")) or "@main" in line.split("(")[0] or not line.strip():
            continue
        depth, end = 0, start
        while end < len(lines):
            depth += lines[end].count("{") - lines[end].count("}")
            end += 1
            if depth <= 0 and not (end < len(lines) and lines[end].strip().startswith(("cond {", "} do"))):
                break
        spans.append((start, end))
    return sorted(spans, key=lambda span: span[0] - span[1])


def _main(lines: Sequence[str]) -> int:
    return next(number for number, line in enumerate(lines) if "@main(" in line)


def _as_arguments(lines: list[str], name: str, count: int, last: str) -> Iterator[str]:
    """The results of an op become arguments of `main`."""
    match = _TYPES.search(last)
    if not match:
        return
    types = match[1].split(", ")
    names = [f"{name}#{number}" for number in range(count)] if count else [name]
    if len(types) != len(names):
        return
    at = _main(lines)
    fresh = [f"%p{name[1:]}_{number}" for number in range(len(names))]
    text = "\n".join(lines)
    for old, new in zip(names, fresh, strict=True):
        text = re.sub(rf"{re.escape(old)}(?![\w#])", new, text)
    changed = text.split("\n")
    added = ", ".join(f"{new}: {type}" for new, type in zip(fresh, types, strict=True))
    changed[at] = changed[at].replace("@main(", f"@main({added}, ").replace(", )", ")")
    yield "\n".join(changed)


def _as_operand(lines: list[str], name: str, line: str) -> Iterator[str]:
    """An operand takes the place of an op's first result."""
    text = "\n".join(lines)
    for operand in dict.fromkeys(re.findall(r"%\w+(?:#\d+)?", line.split("=", 1)[1])):
        yield re.sub(rf"{re.escape(name)}(?:#0)?(?![\w#])", operand, text)


def _without_parts(line: str) -> Iterator[str]:
    """Without one of its annotations, or one axis of them."""
    for match in _NOTE.finditer(line):
        end = _closing(line, match.end() - 1)
        before, after = line[: match.start()], line[end:]
        yield (
            re.sub(r" ?\{\}", "", before + after)
            if before.endswith("{") and after.startswith("}")
            else (before.removesuffix(", ") + after)
        )
    if "sdy." in line:
        for match in _AXIS.finditer(line):
            yield (line[: match.start()] + line[match.end() :]).replace("{, ", "{")
    for word in ("in_shardings", "out_shardings"):
        at = line.find(f" {word}=[<")
        if at >= 0:
            yield line[:at] + line[line.index(">]", at) + 2 :]
    for match in re.finditer(r", (?:replicated|unreduced)=\{[^}]*\}|(?<=\})p\d+|(?:, )?\?(?=\})", line):
        yield line[: match.start()] + line[match.end() :]


def _closing(line: str, at: int) -> int:
    """Just after the bracket that closes the one at `at`."""
    depth = 0
    for number in range(at, len(line)):
        depth += (line[number] in "<") - (line[number] == ">")
        if not depth:
            return number + 1
    return len(line)


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    parts, depth, start = [], 0, 0
    for number, letter in enumerate(text):
        depth += (letter in "<[({") - (letter in ">])}")
        if letter == "," and not depth:
            parts.append(text[start:number].strip())
            start = number + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def _fewer_arguments(lines: list[str]) -> Iterator[str]:
    at = _main(lines)
    head, _, tail = lines[at].partition(") -> (")
    begin, _, arguments = head.partition("@main(")
    parts = _split(arguments)
    for number in range(len(parts)):
        left = ", ".join(parts[:number] + parts[number + 1 :])
        yield "\n".join([*lines[:at], f"{begin}@main({left}) -> ({tail}", *lines[at + 1 :]])


def _fewer_results(lines: list[str]) -> Iterator[str]:
    at = _main(lines)
    head, _, tail = lines[at].partition(") -> (")
    results = _split(tail.rstrip("{ ").removesuffix(")"))
    last = max(number for number, line in enumerate(lines) if line.startswith("  return "))
    names, _, types = lines[last].removeprefix("  return ").partition(" : ")
    returned, typed = _split(names), _split(types)
    for number in range(len(results)):
        if len(results) < 2:
            return
        fewer = [", ".join(part[:number] + part[number + 1 :]) for part in (results, returned, typed)]
        changed = [f"{head}) -> ({fewer[0]}) {{", *lines[at + 1 : last], f"  return {fewer[1]} : {fewer[2]}"]
        yield "\n".join([*lines[:at], *changed, *lines[last + 1 :]])


if __name__ == "__main__":
    from tests.propagation.programs_wide import wide_program
    from tests.propagation.wide import compared

    for seed in sys.argv[1:]:
        small = shrunk(
            wide_program(int(seed)), lambda texts: [bool(outcome.differences) for outcome in compared(texts)]
        )
        print(f"// seed {seed}\n{small}")
        print("\n".join(f"// {line}" for line in compared([small])[0].differences))
