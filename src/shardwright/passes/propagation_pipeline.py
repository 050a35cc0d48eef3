"""`sdy-propagation-pipeline`: import, propagation, export."""

from __future__ import annotations

from shardwright.passes.registry import Options, Pipeline, register_pipeline

__all__: list[str] = []


def _passes(options: Options) -> tuple[tuple[str, Options], ...]:
    return (
        ("sdy-import-pipeline", {}),
        ("sdy-flatten-call-graph", {}),
        ("symbol-dce", {}),
        ("sdy-import-func-calls", {"add-data-flow-edges-on-named-computations": True}),
        ("symbol-dce", {}),
        ("sdy-apply-sharding-constraints", {}),
        ("sdy-sharding-group-import", {}),
        ("sdy-pre-order-funcs", {}),
        ("sdy-user-priority-propagate", {"keep-sharding-rules": True}),
        ("sdy-export-named-computations", {}),
        ("sdy-propagate-to-func-results", {}),
        ("sdy-unflatten-call-graph", {}),
        ("symbol-dce", {}),
        ("sdy-insert-func-call-reshards", {}),
        ("sdy-export-pipeline", {}),
    )


register_pipeline(
    Pipeline(
        "sdy-propagation-pipeline",
        "Runs the import passes, propagation by user priority, and the export passes.",
        _passes,
    )
)
