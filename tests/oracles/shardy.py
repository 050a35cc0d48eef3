"""The C++ Shardy inside the pinned jaxlib, as an oracle, in a subprocess: its CHECK failures abort.

    run_pipeline(text, "builtin.module(sdy-propagation-pipeline)")
    run_batch([(text, pipeline), …])        # one start-up for all; what fails comes back as `ShardyFailure`
    run_warned([(text, pipeline), …])       # with what the C++ warns of, each in a process of its own

The file is also the program that runs in the subprocess.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

__all__ = ["POPULATE_RULES", "PROPAGATE", "ShardyError", "ShardyFailure", "run_batch", "run_pipeline", "run_warned"]

_APART = "apart"

POPULATE_RULES = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
"""Writes the `sdy.sharding_rule` of every op."""

PROPAGATE = "builtin.module(sdy-propagation-pipeline)"
"""Import, propagation and export."""


class ShardyError(Exception):
    """The C++ refused a module or died of it."""


@dataclass(frozen=True, slots=True)
class ShardyFailure:
    """Why a module of a batch has no output: the diagnostics, or the end of what a dying process said."""

    message: str


def run_pipeline(module_text: str, pipeline: str, *, debug_info: bool = False, timeout: float = 300.0) -> str:
    """The module after `pipeline`, as text.

    Raises:
        ShardyError: the C++ refused the module or died of it.
    """
    (answer,) = run_batch([(module_text, pipeline)], debug_info=debug_info, timeout=timeout)
    if isinstance(answer, ShardyFailure):
        raise ShardyError(answer.message)
    return answer


def run_batch(
    jobs: Sequence[tuple[str, str]], *, debug_info: bool = False, timeout: float = 300.0
) -> list[str | ShardyFailure]:
    """Each `(module text, pipeline)` run in turn; a job that kills the process fails alone."""
    answers: list[str | ShardyFailure] = []
    while len(answers) < len(jobs):
        rest = [[text, pipeline, debug_info] for text, pipeline in jobs[len(answers) :]]
        answers += _run_until_death(rest, timeout)
    return answers


def run_warned(
    jobs: Sequence[tuple[str, str]], *, timeout: float = 300.0
) -> list[list[tuple[str, str]] | ShardyFailure]:
    """What is warned of while each `(module text, pipeline)` runs: locations and messages, in order.

    The C++ warns of some things once in a process, so each job has its own.
    """
    done = subprocess.run(
        [sys.executable, __file__, _APART],
        input=json.dumps([[text, pipeline, False] for text, pipeline in jobs]),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        [(where, message) for where, message in answer["warnings"]] if answer["ok"] else ShardyFailure(answer["text"])
        for answer in answers
    ]


def _run_until_death(jobs: list[list[object]], timeout: float) -> list[str | ShardyFailure]:
    try:
        done = subprocess.run(
            [sys.executable, __file__],
            input=json.dumps(jobs),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return [ShardyFailure(f"timed out after {expired.timeout} s")] * len(jobs)
    answers: list[str | ShardyFailure] = [
        answer["text"] if answer["ok"] else ShardyFailure(answer["text"])
        for answer in map(json.loads, done.stdout.splitlines())
    ]
    if len(answers) < len(jobs):
        answers.append(ShardyFailure(f"exit {done.returncode}: {done.stderr[-2000:]}"))
    return answers


def _context() -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mosaic_gpu_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    chlo.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    _mosaic_gpu_ext.register_inliner_extensions(context)
    stablehlo.register_stablehlo_passes()
    context.allow_unregistered_dialects = True
    return context


def _answer(context: Any, text: str, pipeline: str, debug_info: bool) -> dict[str, object]:
    from jaxlib.mlir import ir, passmanager

    with context:
        try:
            module = ir.Module.parse(text)
            manager = passmanager.PassManager.parse(pipeline)
            manager.enable_verifier(False)
            manager.run(module.operation)
            return {"ok": True, "text": module.operation.get_asm(enable_debug_info=debug_info)}
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            return {"ok": False, "text": f"{type(error).__name__}: {error}"}


def _serve(source: TextIO) -> Iterator[dict[str, object]]:
    context = _context()
    for job in json.load(source):
        yield _answer(context, *job)


def _serve_apart(source: TextIO) -> Iterator[dict[str, object]]:
    """Each job in a child, which prints the answer itself unless it dies.

    In one thread: passes over functions would race for what is said once, and a context that has threads cannot be
    used in a child.
    """
    context = _context()
    context.enable_multithreading(False)
    for job in json.load(source):
        child = os.fork()
        if child == 0:
            print(json.dumps(_warned(context, job)), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            yield {"ok": False, "text": f"exit {status}"}


def _warned(context: Any, job: Sequence[Any]) -> dict[str, object]:
    heard: list[tuple[str, str]] = []

    def hear(diagnostic: Any) -> bool:
        if diagnostic.severity.name == "WARNING":
            heard.append((str(diagnostic.location), str(diagnostic.message)))
        return True

    context.attach_diagnostic_handler(hear)
    return {**_answer(context, *job), "warnings": heard}


if __name__ == "__main__":
    for answer in (_serve_apart if _APART in sys.argv else _serve)(sys.stdin):
        print(json.dumps(answer), flush=True)
