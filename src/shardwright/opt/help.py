"""What `--help`, `--version` and `--show-dialects` print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from shardwright.ir.context import context, ir
from shardwright.opt.flags import FLAGS, Flag
from shardwright.opt.reading import OUR_DIALECTS
from shardwright.passes.registry import Option, Pass, Pipeline, passes

__all__ = ["dialects_text", "help_text", "passes_text", "version_text"]

_WIDTH = 112
_COLUMN = 46
_HEAD = """shardwright-opt runs passes over MLIR modules, as mlir-opt and sdy_opt do.

USAGE: shardwright-opt [options] [FILE]

FILE is MLIR text, in any notation of shardings, or bytecode; - or none is standard input. Passes run in the order in
which they are given; their options stand after them: -sdy-basic-propagate='keep-sharding-rules=true'.

OPTIONS:
"""
_AVAILABLE = re.compile(r"Available dialects: (.*?)(?: \(\* corresponding|;|$)")


def help_text() -> str:
    """The flags, and every pass and pipeline with its options."""
    lines = [_HEAD.rstrip("\n")]
    for flag in sorted(FLAGS, key=lambda flag: flag.name):
        lines += _entry(f"  -{flag.name}{_value(flag)}", flag.doc)
    return "\n".join([*lines, "", "PASSES AND PIPELINES:", *_entries(passes())]) + "\n"


def passes_text() -> str:
    """The passes and then the pipelines, each with its options, as mlir-opt lists them."""
    single = [entry for entry in passes() if isinstance(entry, Pass)]
    several = [entry for entry in passes() if not isinstance(entry, Pass)]
    lines = ["Registered Passes:", *_entries(single), "Registered Pass Pipelines:", *_entries(several)]
    return "\n".join(lines) + "\n"


def version_text() -> str:
    """Our version, and that of what parses and prints."""
    return f"shardwright-opt {_installed('shardwright')} (MLIR of jaxlib {_installed('jaxlib')})\n"


def dialects_text() -> str:
    """The dialects that are known, ours among them, as mlir-opt lists them."""
    return f"Available Dialects: {','.join(sorted({*_registered(), *OUR_DIALECTS}))}\n"


def _registered() -> list[str]:
    """The dialects of the context: it lists them only when it meets one that it does not know."""
    try:
        ir.Module.parse("unknown_dialect.op\n", context=context())
    except ir.MLIRError as error:
        notes = " ".join(note.message for diagnostic in error.error_diagnostics for note in diagnostic.notes)
        available = _AVAILABLE.search(notes)
        return re.findall(r"[\w.]+", available[1].replace("(*)", "")) if available else []
    return []


def _entries(entries: Iterable[Pass | Pipeline]) -> Iterator[str]:
    for entry in entries:
        yield from _entry(f"  -{entry.name}", entry.doc)
        for option in entry.options:
            yield from _entry(f"      {option.name}={_kind(option)}", _default(option))


def _entry(name: str, doc: str) -> Iterator[str]:
    lines = textwrap.wrap(doc, _WIDTH - _COLUMN) or [""]
    if len(name) > _COLUMN - 2:
        yield name
        name = ""
    yield f"{name:{_COLUMN}}{lines[0]}".rstrip()
    yield from (" " * _COLUMN + line for line in lines[1:])


def _value(flag: Flag) -> str:
    return {"switch": "", "value": f"=<{flag.metavar}>", "optional": f"[=<{flag.metavar}>]"}[flag.kind]


def _kind(option: Option) -> str:
    if option.choices:
        return f"<{'|'.join(option.choices)}>"
    return {bool: "<bool>", int: "<number>", str: "<string>"}[type(option.default)]


def _default(option: Option) -> str:
    default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
    return f"{option.doc} ({default})".strip() if default else option.doc


def _installed(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # which loads much, and only `--version` asks

    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed: run from its source)"
