"""One module through the passes: read, run, verify, print; everything that is said on the way, in MLIR's form."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir
from shardwright.opt.diagnostics import (
    Emitted,
    Text,
    emitted_by_mlir,
    emitted_for_error,
    emitted_warning,
    mlir_diagnostics,
    without_ops,
)
from shardwright.opt.expectations import Expectations
from shardwright.opt.flags import Settings
from shardwright.opt.printing import bytecode, text_of
from shardwright.opt.reading import Generic, decoded, read_module
from shardwright.opt.roundtrip import verify_roundtrip
from shardwright.opt.split import FilePart
from shardwright.opt.timing import Timer
from shardwright.passes.pipeline import PipelineStep, run_step
from shardwright.passes.warnings import Warnings, heard

__all__ = ["Driver", "class_name"]

_CLASSES = {
    "canonicalize": "CanonicalizerPass",
    "cse": "CSEPass",
    "inline": "InlinerPass",
    "mem2reg": "Mem2Reg",
    "print-ir": "PrintIRPass",
    "sccp": "SCCPPass",
    "sroa": "SROA",
    "strip-debuginfo": "StripDebugInfoPass",
    "symbol-dce": "SymbolDCEPass",
    "trivial-dce": "TrivialDeadCodeEliminationPass",
    "sdy-resolve-permutation-factors": "ShardyResolvePermutationFactorsPass",
    "sdy-save-module": "SaveModuleOpPass",
}
_ON_SYMBOLS = frozenset(("inline", "symbol-dce", "symbol-privatize"))
"""Passes for any op that holds symbols."""

_INITIALS = {"Qdq": "QDQ", "Cmv1": "CMV1"}


class _Failed(Exception):
    """The module is lost; all there was to say has been said."""


def class_name(name: str) -> str:
    """What MLIR calls the class of a pass: `sdy-close-shardings` → `CloseShardingsPass`."""
    if name in _CLASSES:
        return _CLASSES[name]
    words = re.sub(r"-propagate$", "-propagation", name.removeprefix("sdy-")).split("-")
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    for initials, spelt in _INITIALS.items():
        joined = joined.replace(initials, spelt)
    return joined if joined.endswith("Pass") else joined + "Pass"


@dataclass(slots=True)
class Driver:
    """Takes modules through passes.

    Attributes:
        settings: What the command was told.
        steps: The passes.
        name: What diagnostics call the file.
        timer: What its parts took.
        warned: The kinds of warnings that are said once, of those that were.
    """

    settings: Settings
    steps: Sequence[PipelineStep]
    name: str
    timer: Timer
    warned: set[str] = field(default_factory=set)

    def run(self, chunk: FilePart) -> tuple[bytes, bool]:
        """The module after the passes, printed, or nothing if it failed; and whether all went as it should.

        Where diagnostics are verified, a failure that was expected is as it should be.
        """
        with _Listener(self.settings, self.name, decoded(chunk.in_place)) as listener:
            try:
                return self._printed(listener), listener.finish(failed=False)
            except _Failed:
                return b"", listener.finish(failed=True)

    def _printed(self, listener: _Listener) -> bytes:
        with self.timer.time("Parser"):
            generic, module = self._read(listener)
        before = self._shown(module, generic) if self.settings.mlir_print_ir_after_change else ""
        for step in self.steps:
            before = self._run_step(step, module, generic, listener, before)
        with self.timer.time("Output"):
            return self._output(module, generic)

    def _output(self, module: ir.Module, generic: Generic) -> bytes:
        root = module.operation
        if generic.is_alone:
            if not len(module.body.operations):
                return b""
            root = module.body.operations[0].detach_from_parent().operation
        if not self.settings.emit_bytecode:
            return text_of(root, self.settings, generic.spelling, self.name).encode()
        try:
            return bytecode(root, self.settings.emit_bytecode_version)
        except ValueError:
            raise _Failed from None

    def _check(self, module: ir.Module, generic: Generic) -> None:
        """Refuse passes for modules where there is none, and a module that does not survive being printed."""
        refused = [step for step in self.steps if step.entry.on == "builtin.module" or step.entry.name in _ON_SYMBOLS]
        if generic.is_alone and refused:
            (op,) = module.body.operations
            raise ShardingError(
                f"can't run 'builtin.module' pass manager on '{op.operation.name}' op",
                location=str(op.location).removeprefix("loc(").removesuffix(")").replace('"', ""),
                cause=f"{refused[0].entry.name} works on a module",
                remedy="leave -no-implicit-module out",
            )
        if self.settings.verify_roundtrip:
            verify_roundtrip(module, generic, self.settings)

    def _read(self, listener: _Listener) -> tuple[Generic, ir.Module]:
        listener.drops_errors = True  # of attempts that another one follows
        try:
            generic = Generic(listener.content, self.name)
            listener.text = generic.text
            module = read_module(
                generic,
                allow_unregistered=self.settings.allow_unregistered_dialect,
                no_implicit_module=self.settings.no_implicit_module,
            )
            self._check(module, generic)
            return generic, module
        except ShardingError as error:
            listener.fail(error, error.__context__)
            raise _Failed from None
        finally:
            listener.drops_errors = False

    def _run_step(
        self, step: PipelineStep, module: ir.Module, generic: Generic, listener: _Listener, before: str
    ) -> str:
        """Run one pass with the prints around it; the module's text after it, where changes are watched."""
        name = step.entry.name
        told = self.settings
        if told.mlir_print_ir_before_all or name in told.mlir_print_ir_before.split(","):
            self._dump("Before", step, self._shown(module, generic))
        is_watched = told.mlir_print_ir_after_all or name in told.mlir_print_ir_after.split(",")
        try:
            with self.timer.time(class_name(name)), heard(Warnings(listener.warn, self.warned)):
                run_step(module, step)
            if told.verify_each:
                module.operation.verify()
        except (ShardingError, ir.MLIRError) as error:
            listener.fail(error, error.__cause__)
            if is_watched or told.mlir_print_ir_after_failure:
                self._dump("After", step, self._shown(module, generic), " Failed")
            raise _Failed from None
        if not told.mlir_print_ir_after_change:
            if is_watched:
                self._dump("After", step, self._shown(module, generic))
            return ""
        after = self._shown(module, generic)
        if after != before:
            self._dump("After", step, after)
        return after

    def _shown(self, module: ir.Module, generic: Generic) -> str:
        return text_of(module.operation, self.settings, generic.spelling, self.name)

    def _dump(self, when: str, step: PipelineStep, text: str, outcome: str = "") -> None:
        name = step.entry.name
        scope = " ('builtin.module' operation)" if self.settings.mlir_print_ir_module_scope else ""
        head = f"// -----// IR Dump {when} {class_name(name)}{outcome} ({name}){scope} //----- //"
        print(f"{head}\n{text}\n", file=sys.stderr, flush=True)


class _Listener:
    """Hears what is said while a module is worked on: prints it, or holds it against what is expected."""

    drops_errors = False

    def __init__(self, settings: Settings, name: str, content: str | bytes) -> None:
        self.content = content
        self.text = Text(name, content if isinstance(content, str) else "")
        self._shows_ops = settings.mlir_print_op_on_diagnostic
        self._expected: Expectations | None = None
        if settings.verify_diagnostics:
            self._expected = Expectations(self.text, settings.verify_diagnostics == "only-expected")

    def __enter__(self) -> _Listener:
        self._handler: Any = context().attach_diagnostic_handler(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        self._handler.detach()

    def _hear(self, diagnostic: Any) -> bool:
        """What MLIR says beside the errors that its bindings raise."""
        emitted = emitted_by_mlir(diagnostic, self.text)
        if emitted.severity != "error" or not self.drops_errors:
            self.say(emitted)
        return True

    def fail(self, error: ShardingError | ir.MLIRError, beneath: BaseException | None) -> None:
        """Say what went wrong: in MLIR's words, if it is MLIR's error or one lies `beneath` it."""
        diagnostics = mlir_diagnostics(error, self.text) or mlir_diagnostics(beneath, self.text)
        if not diagnostics and isinstance(error, ShardingError):
            diagnostics = [emitted_for_error(error, self.text)]
        for emitted in diagnostics or [Emitted("error", str(error), self.text.name)]:
            self.say(emitted)

    def warn(self, message: str, location: str) -> None:
        """What a pass of ours says of a module that it takes."""
        self.say(emitted_warning(message, location, self.text))

    def say(self, emitted: Emitted) -> None:
        """Print a diagnostic, or check it."""
        if not self._shows_ops:
            emitted = without_ops(emitted)
        if self._expected is not None:
            self._expected.take(emitted)
        else:
            print(emitted.render(self.text), end="", file=sys.stderr, flush=True)

    def finish(self, *, failed: bool) -> bool:
        """Whether all went as it should; what did not is printed."""
        if self._expected is None:
            return not failed
        complaints = self._expected.finish()
        print("".join(complaints), end="", file=sys.stderr, flush=True)
        return not complaints
