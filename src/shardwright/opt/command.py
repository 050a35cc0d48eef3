"""From the arguments to the exit status: 0 when all went well, 1 otherwise, and then nothing has been written.

As in MLIR's tools, modules parted by a marker are independent: each is tried and its diagnostics are told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

import shardwright.passes.all  # noqa: F401  # makes the passes known
from shardwright.errors import ShardingError
from shardwright.files import printable
from shardwright.memo import Session
from shardwright.opt.diagnostics import Emitted, Text, emitted_for_error
from shardwright.opt.driver import Driver
from shardwright.opt.flags import Settings, parse_arguments
from shardwright.opt.help import dialects_text, help_text, passes_text, version_text
from shardwright.opt.printing import write_output
from shardwright.opt.reading import read_input
from shardwright.opt.split import near_misses, split
from shardwright.opt.timing import Timer
from shardwright.passes.pipeline import PARSER, PipelineStep, parse_pipeline, pipeline_text, steps_of
from shardwright.process import hold_output

__all__ = ["main", "run"]


def main() -> None:
    """Run the `shardwright-opt` command and end its process."""
    hold_output()
    try:
        status = run(sys.argv[1:])
    except BrokenPipeError:
        status = 141
    except Exception as error:
        sys.stderr.write(_mistake(error))
        status = 1
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say, and give the exit status."""
    text = Text("shardwright-opt")
    settings = Settings()
    try:
        settings = parse_arguments(arguments)
        answer = _asked(settings)
        if answer is not None:
            write_output("-", answer.encode())
            return 0
        with _session(settings):
            return _run_passes(settings, _steps(settings))
    except ShardingError as error:
        if error.diagnostic.location.startswith(PARSER):
            text = Text(PARSER, settings.pass_pipeline or "")
        sys.stderr.write(emitted_for_error(error, text).render(text))
        return 1


def _mistake(error: Exception) -> str:
    """What to say of an exception that no input should raise; with `SHARDWRIGHT_TRACEBACK` it is raised again."""
    if os.environ.get("SHARDWRIGHT_TRACEBACK"):
        raise error
    return (
        f"shardwright-opt: error: {type(error).__name__}: {error}\n"
        "note: this is a mistake in shardwright, not in your program\n"
        "note: please report it with what SHARDWRIGHT_TRACEBACK=1 shows\n"
    )


def _asked(settings: Settings) -> str | None:
    """The answer to a flag that asks for one."""
    if settings.help:
        return help_text()
    if settings.version:
        return version_text()
    if settings.list_passes:
        return passes_text()
    return dialects_text() if settings.show_dialects else None


def _steps(settings: Settings) -> tuple[PipelineStep, ...]:
    if settings.pass_pipeline is not None:
        return parse_pipeline(settings.pass_pipeline)
    return tuple(step for name, options in settings.passes for step in steps_of(name, options))


def _session(settings: Settings) -> AbstractContextManager[object]:
    """What passes that decide do so in: a session of the hardware asked for, or the one that there is."""
    if settings.hardware is None:
        return nullcontext()
    from shardwright.cost.hardware import hardware

    return Session(hardware=hardware(settings.hardware))


def _run_passes(settings: Settings, steps: tuple[PipelineStep, ...]) -> int:
    if settings.dump_pass_pipeline:
        print(f"Pass Manager with {_size(steps)} passes:\n{pipeline_text(steps)}\n", file=sys.stderr)
    content = read_input(settings.input)
    name = "<stdin>" if settings.input == "-" else printable(settings.input)
    _warn_of_near_misses(content, settings.split_input_file, name)
    timer = Timer()
    driver = Driver(settings, steps, name, timer)
    answers = [driver.run(chunk) for chunk in split(content, settings.split_input_file)]
    if settings.mlir_timing:
        sys.stderr.write(timer.report(settings.mlir_timing_display))
    if not all(good for _, good in answers):
        return 1
    marker = f"{settings.output_split_marker}\n" if settings.output_split_marker else ""
    write_output(settings.output, marker.encode().join(printed for printed, _ in answers))
    return 0


def _size(steps: Sequence[PipelineStep]) -> int:
    """How many passes MLIR counts: neighbours nested in the same op are one."""
    nested = groupby(steps, key=lambda step: step.anchors[1:2])
    return sum(1 if anchors else len(list(group)) for anchors, group in nested)


def _warn_of_near_misses(content: bytes, marker: str | None, name: str) -> None:
    text: Text | None = None
    for line in near_misses(content, marker):
        text = text or Text(name, content.decode(errors="replace"))
        warning = Emitted("warning", "near miss with file split marker", name, line, text.column(line, 0))
        sys.stderr.write(warning.render(text))
