"""Generic passes of MLIR, and those of StableHLO, by name; jaxlib's pass manager runs them.

Their options are those that the pass manager prints, with their defaults. Shardy's passes are not among them: those
are ours.

Source: MLIR's "Passes" page; StableHLO's "StableHLO passes" page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, mhlo, passmanager
from shardwright.ir.trial import ended_by
from shardwright.passes.options import options_text
from shardwright.passes.registry import Option, Options, Pass, pass_named, register
from shardwright.passes.shard_canonical import canonicalize_shard_ops
from shardwright.passes.shard_dialect import erase_dead, is_free, shard_ops
from shardwright.passes.shard_inlining import inline_shard_ops
from shardwright.passes.shard_sharing import share_shard_ops

__all__ = ["clean", "is_upstream", "run_native"]


class _Native(NamedTuple):
    """A C++ pass: its name, what it does, and the op that it runs on; any op for MLIR's own."""

    name: str
    doc: str
    on: str = "any"
    lists: tuple[str, ...] = ()
    """Options that the pass manager leaves out where they are empty."""


_MODULE, _FUNCTION = "builtin.module", "func.func"

_NATIVE = (
    _Native("canonicalize", "Canonicalizes operations.", lists=("disable-patterns", "enable-patterns")),
    _Native("control-flow-sink", "Sinks operations into the conditional blocks that alone use them."),
    _Native("cse", "Eliminates common sub-expressions."),
    _Native("inline", "Inlines function calls.", lists=("op-pipelines",)),
    _Native("loop-invariant-code-motion", "Hoists what does not change in a loop out of it."),
    _Native("mem2reg", "Promotes memory slots into values."),
    _Native("print-ir", "Prints the module to standard error."),
    _Native("print-op-stats", "Prints how many operations of each kind there are."),
    _Native("remove-dead-values", "Removes dead values, arguments and results of functions among them."),
    _Native("sccp", "Propagates constants, across branches and calls."),
    _Native("sroa", "Replaces aggregates in memory by scalars."),
    _Native("strip-debuginfo", "Strips the locations from all operations."),
    _Native("symbol-dce", "Eliminates private symbols that nothing uses."),
    _Native("symbol-privatize", "Makes symbols private.", lists=("exclude",)),
    _Native("topological-sort", "Sorts regions without dominance topologically."),
    _Native("trivial-dce", "Eliminates operations without effects or uses."),
    _Native("chlo-legalize-to-stablehlo", "Legalizes CHLO to StableHLO.", _FUNCTION),
    _Native("hlo-legalize-to-stablehlo", "Legalizes MHLO to StableHLO.", _MODULE),
    _Native("shape-legalize-to-stablehlo", "Legalizes shape computations to StableHLO.", _FUNCTION),
    _Native("stablehlo-canonicalize-dynamism", "Makes dynamic ops static where their operands are.", _FUNCTION),
    _Native("stablehlo-check-shape-assertions", "Checks the shape assertions among the custom calls.", _FUNCTION),
    _Native("stablehlo-compatibility-expander", "Expands ops that an older version does not know.", _MODULE),
    _Native("stablehlo-complex-math-expander", "Expands complex mathematics into real.", _FUNCTION),
    _Native("stablehlo-convert-to-signless", "Makes integer types signless.", _MODULE),
    _Native("stablehlo-legalize-composite-to-call", "Replaces composites by calls.", _FUNCTION, ("except",)),
    _Native("stablehlo-legalize-deprecated-ops", "Replaces deprecated ops.", _FUNCTION),
    _Native("stablehlo-legalize-qdq-to-quantized-op", "Fuses (de)quantize into quantized ops.", _FUNCTION),
    _Native("stablehlo-legalize-quant-to-math", "Legalizes quantized ops to integer mathematics.", _FUNCTION),
    _Native("stablehlo-legalize-quantized-op-to-qdq", "Splits quantized ops into (de)quantize.", _FUNCTION),
    _Native("stablehlo-legalize-to-hlo", "Legalizes StableHLO to MHLO.", _MODULE),
    _Native("stablehlo-legalize-to-linalg", "Legalizes StableHLO to linalg.", _MODULE),
    _Native("stablehlo-legalize-to-vhlo", "Legalizes StableHLO to VHLO, its versioned form.", _MODULE),
    _Native("stablehlo-refine-arguments", "Refines the types of the main function's arguments.", _MODULE, ("types",)),
    _Native("stablehlo-refine-shapes", "Refines dynamic shapes from those of the main function.", _MODULE),
    _Native("stablehlo-wrap-in-composite", "Wraps ops in composites.", _MODULE, ("op-names",)),
    _Native("vhlo-legalize-to-stablehlo", "Legalizes VHLO to StableHLO.", _MODULE),
    _Native("vhlo-to-version", "Converts VHLO between its versions.", _MODULE),
)
_NAMES = frozenset(native.name for native in _NATIVE)
_PRINTED = re.compile(r"([\w-]+)=(\S*?)(?=[ }])")


_WITH_SHARD_OPS: Mapping[str, tuple[Callable[[ir.Module], bool], int]] = {
    "canonicalize": (canonicalize_shard_ops, 10),
    "cse": (share_shard_ops, 1),
    "inline": (inline_shard_ops, 300),
}
"""What passes do with ops of the `shard` dialect, which jaxlib lacks, and how often, as long as it changes anything."""


def is_upstream(name: str) -> bool:
    """Whether a pass is one of these, which alone run on other ops than the module."""
    return name in _NAMES


def run_native(module: ir.Module, pipeline: str) -> None:
    """Run a textual pipeline of C++ passes on a module, in place and without verifying; no handle of its ops survives.

    Raises:
        ShardingError: options or nesting that the pass manager refuses, or the first diagnostic of a pass that failed;
            MLIR's own error is its cause.
    """
    manager = _manager(pipeline)
    manager.enable_verifier(False)

    def tried() -> None:
        manager.run(module.operation)
        module.operation.verify()  # as whoever asked for the pass will do

    ended = ended_by(tried)
    if ended:
        raise ShardingError(
            f"{pipeline} cannot be run on this module",
            cause=f"MLIR does not survive the pass, or verifying what comes out of it: {ended}",
            remedy="leave the pass out, or run others before it",
        )
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        first = next(iter(error.error_diagnostics), None)
        where = "" if first is None else str(first.location).removeprefix("loc(").removesuffix(")").replace('"', "")
        message = f"{pipeline} failed" if first is None else first.message
        raise ShardingError(message, location="" if where == "unknown" else where) from error


def clean(module: ir.Module) -> None:
    """What MLIR does beside the patterns of a pass: it folds ops, and leaves out what nothing reads."""
    for _ in range(2):  # what is folded may have read ops of the dialect, and the other way round
        erase_dead(list(shard_ops(module.operation)), is_free)
        run_native(module, f"{_MODULE}(canonicalize)")


@lru_cache(maxsize=1)
def _prepare() -> None:
    context()
    mhlo.register_mhlo_passes()


def _manager(pipeline: str) -> passmanager.PassManager:
    _prepare()
    try:
        return passmanager.PassManager.parse(pipeline, context=context())
    except ValueError as error:
        raise ShardingError(
            f"MLIR refuses the pipeline {pipeline[:200]!r}",
            cause=" ".join(str(error).split()),
            remedy="correct the options of its passes",
        ) from None


def _apply(module: ir.Module, options: Options, *, native: _Native) -> None:
    entry = pass_named(native.name)
    text = native.name + (options_text(entry, options, changed_only=True) if isinstance(entry, Pass) else "")
    run_native(module, _nested(native, text))
    ours, rounds = _WITH_SHARD_OPS.get(native.name, (None, 0))
    for _ in range(rounds):
        if ours is None or not ours(module):
            break
        run_native(module, _nested(native, text))


def _nested(native: _Native, text: str) -> str:
    return f"{_MODULE}({_FUNCTION}({text}))" if native.on == _FUNCTION else f"{_MODULE}({text})"


def _options(native: _Native) -> tuple[Option, ...]:
    """What the pass manager prints for a pass that is given no options."""
    printed = str(_manager(_nested(native, native.name)))
    options = [Option(name, _default(value), "") for name, value in _PRINTED.findall(printed)]
    options += [Option(name, "", "a list, with commas", is_list=True) for name in native.lists]
    return tuple(sorted(options, key=lambda option: option.name))


def _default(text: str) -> bool | int | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


for _native in _NATIVE:
    register(_native.name, _native.doc, options=_options(_native), on=_native.on)(partial(_apply, native=_native))
