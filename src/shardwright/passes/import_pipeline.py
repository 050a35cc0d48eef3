"""`sdy-import-pipeline`: what is done to a module before its shardings are propagated."""

from __future__ import annotations

from shardwright.passes.registry import Option, Options, Pipeline, register_pipeline

__all__ = ["IMPORT_PIPELINE"]

_FULLY = "dedup-functions-fully"

_CLEANUP: tuple[tuple[str, Options], ...] = (
    ("symbol-dce", {}),
    ("sdy-lift-inlined-meshes", {}),
    ("sdy-remove-size-one-axes", {}),
    ("sdy-propagate-sharding-from-func-to-call", {}),
    ("sdy-constant-or-scalar-splitter", {}),
    ("symbol-dce", {}),
    ("sdy-manual-axes-cleanup", {}),
    ("sdy-save-module", {"file-name": "before_propagation", "dump-index": 0}),
    ("sdy-add-data-flow-edges", {}),
)
_CONSTRAINTS: tuple[tuple[str, Options], ...] = (
    ("sdy-apply-sharding-constraints", {}),
    ("sdy-sharding-group-import", {}),
)


def _expand(options: Options) -> tuple[tuple[str, Options], ...]:
    return _CLEANUP + _CONSTRAINTS if options[_FULLY] else _CLEANUP


IMPORT_PIPELINE = register_pipeline(
    Pipeline(
        "sdy-import-pipeline",
        "Run a sequence of import passes needed as a pre-processing step for Shardy propagation.",
        _expand,
        (
            Option(
                _FULLY,
                False,
                "Whether to go on with constraints and groups; without it these wait until the call graph is flat.",
            ),
        ),
    )
)
