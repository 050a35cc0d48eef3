"""What the peers answer otherwise in newer jaxlibs than the one that is locked, by kind, each with its reason.

With jaxlib 0.10.2 nothing of this applies: every comparison holds as it is. With a newer one the tests named here must
fail, so that a difference that has gone is noticed; `docs/differences.md` tells of the same kinds in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul

import jaxlib.version

__all__ = ["DIFFERENCES", "INSTALLED", "Difference", "applies", "expected_failure", "explains"]

INSTALLED = tuple(int(part) for part in jaxlib.version.__version__.split(".")[:2])


@dataclass(frozen=True, slots=True)
class Difference:
    """One kind of difference.

    Attributes:
        since: The jaxlib that it came with.
        document: What `docs/differences.md` says of it.
        tests: The tests that fail because of it, by the beginnings of their names.
    """

    since: tuple[int, int]
    document: str
    tests: tuple[str, ...] = ()


_PASSES = "tests/passes/"
_SAME_MODULE = "::test_module_reads_as_after_the_pass_of_the_same_name"


def _rules(*ops: str) -> tuple[str, ...]:
    """The tests that compare the rules of these ops."""
    tests = (
        "test_shardy.py::test_rules_are_those_of_shardy",
        "test_shardy_wide.py::test_rules_at_the_edges_are_those_of_shardy",
    )
    return tuple(f"tests/rules/{test}[stablehlo.{op}]" for test in tests for op in ops)


DIFFERENCES = {
    "results": Difference(
        (0, 11),
        "0.11: a result of a function gets the unreduced axes of the value that is returned, and a call those of its "
        "function's result; what we return is reduced.",
        (
            f"{_PASSES}test_export_passes.py{_SAME_MODULE}[sdy-propagate-to-func-results",
            f"{_PASSES}test_export_passes.py{_SAME_MODULE}[sdy-insert-func-call-reshards",
            "tests/propagation/test_conflicts.py::test_conflicts_end_as_in_shardy[an unreduced constraint behind a b",
        ),
    ),
    "several results": Difference(
        (0, 12),
        "0.12: a constraint that is unreduced reaches one result of an op of several also where another has a "
        "sharding already; in 0.10 it does not.",
        ("tests/propagation/test_regressions.py::test_what_was_found_once_is_as_the_cpp_has_it[a constraint on one",),
    ),
    "pipelines": Difference(
        (0, 11),
        "0.11: the pipelines have passes and options that 0.10 lacks: `sdy-verify-unreduced-axes`, "
        "`mark-partial-result-with-unreduced-axes`. Ours run the passes of 0.10.",
        (
            *(
                f"{_PASSES}test_export_pipeline.py::test_the_same_passes_run_for_the_same_options[{option}"
                for option in (
                    "none",
                    "enable-insert-explicit-collectives",
                    "remove-all-gather-reduce-scatter",
                    "keep-sharding-rules",
                    "dump-sharding-origins",
                    "avoid-reshards-on-calls",
                    "update-non-divisible",
                )
            ),
            f"{_PASSES}test_export_pipeline.py::test_the_passes_together_make_of_a_module_what_the_cpp_ones_make",
            f"{_PASSES}test_explicit_passes.py::test_the_pipeline_is_that_of_shardy",
        ),
    ),
    "dumps": Difference(
        (0, 12),
        "0.12: the pipeline saves a module after fewer of its passes, and says so in other names of files.",
        (f"{_PASSES}test_export_pipeline.py::test_the_same_files_are_dumped",),
    ),
    "debug": Difference(
        (0, 12),
        "0.12: the attributes for debugging have an entry for every result and argument, empty ones too, and none of "
        "what the shardings of a manual computation say.",
        (
            f"{_PASSES}test_export_passes.py{_SAME_MODULE}[sdy-sink-data-flow-edges-options2]",
            f"{_PASSES}test_export_passes.py{_SAME_MODULE}[sdy-sink-data-flow-edges-options3]",
            f"{_PASSES}test_export_passes.py::test_a_training_step_reads_as_after_the_passes_of_the_same_names",
            f"{_PASSES}test_import_passes.py{_SAME_MODULE}[sdy-apply-sharding-constraints-options4]",
            "tests/propagation/test_debug.py::test_random_programs_have_the_debug_attributes_that_shardy_gives_them",
            "tests/propagation/test_debug.py::test_an_example_has_the_debug_attributes_that_shardy_gives_it[gpt32_scan",
        ),
    ),
    "if": Difference(
        (0, 12),
        "0.12: `stablehlo.if` carries data along edges, as `case` does; here it has none.",
        (f"{_PASSES}test_import_passes.py{_SAME_MODULE}[sdy-add-data-flow-edges-options0]",),
    ),
    "updates": Difference(
        (0, 11),
        "0.11: the rule of a `dynamic_update_slice` says of the dimensions of the update that they are permuted; here "
        "they need replication. None of the random programs is sharded otherwise because of it.",
        (*_rules("dynamic_update_slice"), "tests/rules/test_shardy.py::test_rules_of_the_examples_are_those_of_shardy"),
    ),
    "rules": Difference(
        (0, 12),
        "0.12: the rule of a reshape says of factors of size 1 that they need replication; those of `pad` and "
        "`convolution` say of dimensions that are shifted that they are permuted. None of the random programs is "
        "sharded otherwise because of it.",
        (
            f"{_PASSES}test_propagate.py::test_modules_are_propagated_as_the_passes_of_these_names_do",
            *_rules("convolution", "pad", "reshape"),
        ),
    ),
    "reshapes": Difference(
        (0, 12),
        "0.12: dimensions of a reshape that do not line up, as 4×6 and 6×4, share a factor that is permuted, so that an "
        "axis may pass whole; here only as much of it as the dimensions have in common.",
    ),
    "open": Difference(
        (0, 12),
        "0.12: a constraint that is applied to what it constrains is so also where that has a sharding that is open and "
        "says nothing; in 0.10 where it has none.",
    ),
    "reshards": Difference(
        (0, 12),
        "0.12: what a manual computation within another one takes twice is resharded first, to the sharding that it has.",
    ),
    "assignment": Difference(
        (0, 11),
        "0.11: the parser takes `unreduced{…}` for `unreduced={…}`; ours asks for the sign.",
    ),
    "nested": Difference(
        (0, 11),
        "JAX 0.11: inside a `shard_map`, what another one gives is constrained when JAX lowers for Shardy, to a sharding "
        "that is open and says nothing, and not when it lowers for XLA's partitioner.",
    ),
}

_REDUCED = re.compile(r"result \d+: (.*), C\+\+ \1 partial=.*")
_RESHAPE = re.compile(r"stablehlo\.reshape .*: \(tensor<([^>]*)>\) -> tensor<([^>]*)>")
_OPEN = re.compile(r"#sdy\.sharding<@\w+, \[\{\?\}(?:, \{\?\})*\]>")
_OPS = re.compile(r"'([^']+)'")


def applies(kind: str) -> bool:
    """Whether the installed jaxlib has a difference."""
    return DIFFERENCES[kind].since <= INSTALLED


def expected_failure(test: str) -> str | None:
    """The kind of difference because of which a test must fail, by the name of the test."""
    kinds = (kind for kind, one in DIFFERENCES.items() if applies(kind) and test.startswith(one.tests))
    return next(kinds, None)


def explains(text: str, differences: Sequence[str]) -> bool:
    """Whether what differs of a random program is of a kind that the installed jaxlib has."""
    if applies("if") and '"stablehlo.if"' in text:
        return True
    if applies("reshapes") and any(not _line_up(*map(_sizes, pair)) for pair in _RESHAPE.findall(text)):
        return True
    if applies("open") and "sdy.sharding_constraint" in text and _OPEN.search(text):
        return True
    reduced = applies("results") and all(_REDUCED.fullmatch(line) for line in differences)
    nested = applies("reshards") and text.count("sdy.manual_computation") > 1
    return reduced or (nested and all(_is_reshard_only(line) for line in differences))


def _line_up(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the dimensions before and after a reshape are made of the same parts: 6×4 and 2×3×4, but not 4×6."""
    ends = sorted({*accumulate(one, mul), *accumulate(other, mul)})
    return all(start and end % start == 0 for start, end in pairwise(ends))


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split("x")[:-1]]


def _is_reshard_only(line: str) -> bool:
    """Whether the ops are the same but for reshards that the C++ has."""
    ours, cpp = _OPS.findall(line.partition(", C++ ")[0]), _OPS.findall(line.partition(", C++ ")[2])
    return line.startswith("ops: ") and [op for op in cpp if op != "sdy.reshard"] == ours
