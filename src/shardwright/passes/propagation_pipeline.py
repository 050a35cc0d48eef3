"""`sdy-propagation-pipeline`: import, propagation, export.

Calls become named computations for the time of propagation. With `dedup-functions-fully` functions stay as they are,
one for all of their calls, and shardings flow between calls and functions along edges.
"""

from __future__ import annotations

from shardwright.passes.registry import Option, Options, Pipeline, register_pipeline

__all__: list[str] = []

_FULLY = "dedup-functions-fully"

_Named = tuple[str, Options]

_CALLS_INTO_COMPUTATIONS: tuple[_Named, ...] = (
    ("sdy-flatten-call-graph", {}),
    ("symbol-dce", {}),
    ("sdy-import-func-calls", {"add-data-flow-edges-on-named-computations": True}),
    ("symbol-dce", {}),
    ("sdy-apply-sharding-constraints", {}),
    ("sdy-sharding-group-import", {}),
)
_PROPAGATION: tuple[_Named, ...] = (
    ("sdy-pre-order-funcs", {}),
    ("sdy-user-priority-propagate", {"keep-sharding-rules": True}),
)
_COMPUTATIONS_INTO_CALLS: tuple[_Named, ...] = (
    ("sdy-export-named-computations", {}),
    ("sdy-propagate-to-func-results", {}),
)
_EDGES_OUT: tuple[_Named, ...] = (
    ("sdy-propagate-to-func-results", {}),
    ("sdy-sink-func-data-flow-edges", {}),
)
_EXPORT: tuple[_Named, ...] = (
    ("sdy-unflatten-call-graph", {}),
    ("symbol-dce", {}),
    ("sdy-insert-func-call-reshards", {}),
    ("sdy-export-pipeline", {}),
)


def _passes(options: Options) -> tuple[_Named, ...]:
    fully = options[_FULLY]
    imported: _Named = ("sdy-import-pipeline", {_FULLY: fully})
    edges: _Named = ("sdy-add-func-data-flow-edges", {})
    if fully:
        return (imported, edges, *_PROPAGATION, *_EDGES_OUT, *_EXPORT)
    return (imported, *_CALLS_INTO_COMPUTATIONS, *_PROPAGATION, *_COMPUTATIONS_INTO_CALLS, *_EXPORT)


register_pipeline(
    Pipeline(
        "sdy-propagation-pipeline",
        "Runs the import passes, propagation by user priority, and the export passes.",
        _passes,
        (
            Option(
                _FULLY,
                False,
                "Whether a function is propagated once, for all of its calls; without it each call has its own copy.",
            ),
        ),
    )
)
