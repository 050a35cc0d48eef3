"""The arguments of the command: a table of flags, and a loop that keeps the order of the passes.

One dash or two, `-flag=VALUE` or `-flag VALUE`, as LLVM's command lines; click cannot say in which order flags of
different names were given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from shardwright.errors import ShardingError
from shardwright.passes.registry import Pass, passes

__all__ = ["FLAGS", "MARKER", "Flag", "Settings", "parse_arguments"]

_PASSES = "PASS,…"

MARKER = "// -----"
"""What parts the modules of a file, unless another marker is given."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the command.

    Attributes:
        name: Without dashes; the field of `Settings` is called the same.
        doc: What it does.
        kind: `switch` (true, unless `=false`), `value` (needs one), or `optional` (`=VALUE` or `implied`).
        metavar: What its value is called.
        implied: The value of an `optional` flag without one.
        choices: The values allowed, where few are.
    """

    name: str
    doc: str
    kind: Literal["switch", "value", "optional"] = "switch"
    metavar: str = ""
    implied: str = ""
    choices: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """Its field in `Settings`."""
        return {"o": "output"}.get(self.name, self.name.replace("-", "_"))


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command was told; the fields are the flags, but for `input` and `passes`."""

    input: str = "-"
    passes: tuple[tuple[str, str], ...] = ()
    """Passes by flag in order, each with the text of its options."""
    pass_pipeline: str | None = None
    hardware: str | None = None
    output: str = "-"
    split_input_file: str | None = None
    output_split_marker: str = MARKER
    verify_diagnostics: str | None = None
    verify_each: bool = True
    allow_unregistered_dialect: bool = False
    no_implicit_module: bool = False
    verify_roundtrip: bool = False
    emit_bytecode: bool = False
    emit_bytecode_version: str | None = None
    mlir_print_op_generic: bool = False
    mlir_print_debuginfo: bool = False
    mlir_pretty_debuginfo: bool = False
    mlir_print_local_scope: bool = False
    mlir_use_nameloc_as_prefix: bool = False
    mlir_print_skip_regions: bool = False
    mlir_print_assume_verified: bool = False
    mlir_print_op_on_diagnostic: bool = True
    mlir_elide_elementsattrs_if_larger: str | None = None
    mlir_elide_resource_strings_if_larger: str | None = None
    mlir_print_ir_before_all: bool = False
    mlir_print_ir_after_all: bool = False
    mlir_print_ir_before: str = ""
    mlir_print_ir_after: str = ""
    mlir_print_ir_after_change: bool = False
    mlir_print_ir_after_failure: bool = False
    mlir_print_ir_module_scope: bool = False
    mlir_disable_threading: bool = False
    mlir_timing: bool = False
    mlir_timing_display: str = "tree"
    dump_pass_pipeline: bool = False
    show_dialects: bool = False
    list_passes: bool = False
    help: bool = False
    version: bool = False


FLAGS = (
    Flag("o", "write to FILE; nothing is written unless all goes well", "value", "FILE"),
    Flag("pass-pipeline", "run the passes of a textual pipeline: builtin.module(…)", "value", "PIPELINE"),
    Flag(
        "hardware",
        "make communication cheap on this: a name that `shardwright hardware` lists, or a TOML file (tpu_v5p)",
        "value",
        "NAME|FILE",
    ),
    Flag("split-input-file", f"what MARKER parts are modules of their own ({MARKER})", "optional", "MARKER", MARKER),
    Flag("output-split-marker", f"what parts the modules in the output ({MARKER})", "value", "MARKER"),
    Flag(
        "verify-diagnostics",
        "check the diagnostics against `expected-error {{…}}` and its kin in the comments",
        "optional",
        "all|only-expected",
        "all",
        ("all", "only-expected"),
    ),
    Flag("verify-each", "verify the module after each pass (true)"),
    Flag("allow-unregistered-dialect", "allow operations of dialects that are not known"),
    Flag("no-implicit-module", "the input is one operation, around which no module is put"),
    Flag("verify-roundtrip", "check that the module, printed and parsed again, is the same"),
    Flag("emit-bytecode", "write MLIR bytecode"),
    Flag("emit-bytecode-version", "of this version", "value", "NUMBER"),
    Flag("mlir-print-op-generic", "print operations in the generic form"),
    Flag("mlir-print-debuginfo", "print locations"),
    Flag("mlir-pretty-debuginfo", "print locations in a form for people"),
    Flag("mlir-print-local-scope", "print attributes, types and locations in place, without aliases"),
    Flag("mlir-use-nameloc-as-prefix", "name values as their locations are named"),
    Flag("mlir-print-skip-regions", "leave out regions"),
    Flag("mlir-print-assume-verified", "accepted: modules are verified before they are printed"),
    Flag("mlir-print-op-on-diagnostic", "show the operation that an error of MLIR is about (true)"),
    Flag("mlir-elide-elementsattrs-if-larger", "leave out the elements of constants that have more", "value", "NUMBER"),
    Flag("mlir-elide-resource-strings-if-larger", "leave out resources that are longer", "value", "NUMBER"),
    Flag("mlir-print-ir-before-all", "print the module to standard error before each pass"),
    Flag("mlir-print-ir-after-all", "print the module to standard error after each pass"),
    Flag("mlir-print-ir-before", "print it before these passes", "value", _PASSES),
    Flag("mlir-print-ir-after", "print it after these passes", "value", _PASSES),
    Flag("mlir-print-ir-after-change", "of the prints after passes, only those of a changed module"),
    Flag("mlir-print-ir-after-failure", "print it after a pass that failed"),
    Flag("mlir-print-ir-module-scope", "say that modules are printed, which is what happens in any case"),
    Flag("mlir-disable-threading", "run in one thread, which is what happens in any case"),
    Flag("mlir-timing", "print to standard error what each pass took"),
    Flag("mlir-timing-display", "in order, or longest first (tree)", "value", "tree|list", choices=("tree", "list")),
    Flag("dump-pass-pipeline", "print the textual pipeline to standard error"),
    Flag("show-dialects", "print the dialects that are known, and stop"),
    Flag("list-passes", "print the passes and pipelines, and stop"),
    Flag("help", "print this text, and stop"),
    Flag("version", "print the version, and stop"),
)

_ALIASES = dict.fromkeys(("h", "help-hidden", "help-list", "help-list-hidden"), "help")
_TRUE, _FALSE = ("true", "1"), ("false", "0")
_WRITTEN = re.compile(r"--?([^=\s]+)(?:=(.*))?", re.DOTALL)


@dataclass(slots=True)
class _Given:
    values: dict[str, Any] = field(default_factory=dict)
    passes: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def take(self, flag: Flag, value: bool | str) -> None:
        """Note a value: lists of passes add up, of others the last counts."""
        if flag.metavar == _PASSES and flag.field in self.values:
            value = f"{self.values[flag.field]},{value}"
        self.values[flag.field] = value


def parse_arguments(arguments: Sequence[str]) -> Settings:
    """What the command is told by `arguments`, its own name not among them.

    Raises:
        ShardingError: an unknown flag, a value missing or not allowed, several files, or passes both as flags and as a
            pipeline.
    """
    flags = {flag.name: flag for flag in FLAGS}
    known = frozenset(entry.name for entry in passes())
    given = _Given()
    rest = iter(arguments)
    for argument in rest:
        written = _WRITTEN.fullmatch(argument)
        if argument == "--":
            given.inputs += rest
        elif written is None:
            given.inputs.append(argument)
        elif (name := _ALIASES.get(written[1], written[1])) in flags:
            given.take(flags[name], _value(flags[name], written[2], rest))
        elif name in known:
            given.passes.append((name, _unquoted(written[2] or "")))
        else:
            raise _unknown(argument, name, [*flags, *known])
    return _settings(given)


def _settings(given: _Given) -> Settings:
    if len(given.inputs) > 1:
        raise ShardingError(
            f"too many positional arguments: {' '.join(map(repr, given.inputs))[:200]}",
            remedy="give one FILE, or - for standard input",
        )
    if given.passes and "pass_pipeline" in given.values:
        raise ShardingError(
            "'-pass-pipeline' option can't be used with individual pass options",
            remedy=f"put {given.passes[0][0]} into the pipeline",
        )
    if "emit_bytecode_version" in given.values and not given.values.get("emit_bytecode"):
        raise ShardingError("bytecode version while not emitting bytecode", remedy="add -emit-bytecode")
    return Settings(input=(given.inputs or ["-"])[0], passes=tuple(given.passes), **given.values)


def _value(flag: Flag, text: str | None, rest: Iterator[str]) -> bool | str:
    if flag.kind == "switch":
        return _switch(flag, text)
    if flag.kind == "optional":
        value = text or flag.implied
    else:
        value = next(rest, "") if text is None else text
        if not value and flag.name != "output-split-marker":
            raise ShardingError(f"-{flag.name} needs a value", remedy=f"write -{flag.name}={flag.metavar}")
    if flag.choices and value not in flag.choices:
        raise ShardingError(f"-{flag.name} is {value!r}", remedy=f"one of {', '.join(flag.choices)}")
    if flag.metavar == "NUMBER" and not re.fullmatch("[0-9]{1,9}", value):
        raise ShardingError(f"-{flag.name} is {value!r}", cause="it is no number", remedy="give a whole number")
    if flag.metavar == _PASSES:
        _check_passes(flag, value.split(","))
    return value


def _check_passes(flag: Flag, names: Sequence[str]) -> None:
    known = {entry.name for entry in passes() if isinstance(entry, Pass)}
    for name in names:
        if name not in known:
            raise ShardingError(
                f"for the --{flag.name} option: Cannot find option named {name!r}!",
                remedy="give passes by name, with commas; -help lists them",
            )


def _switch(flag: Flag, text: str | None) -> bool:
    if text is None or text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ShardingError(f"-{flag.name} is {text!r}", remedy=f"write -{flag.name} or -{flag.name}=false")


def _unquoted(text: str) -> str:
    """Options as they stand in a script that quotes them once more."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _unknown(argument: str, name: str, known: Sequence[str]) -> ShardingError:
    near = difflib.get_close_matches(name, known, n=1)
    return ShardingError(
        f"unknown command line argument {argument[:100]!r}",
        remedy=f"did you mean -{near[0]}? -help lists all" if near else "-help lists what there is",
    )
