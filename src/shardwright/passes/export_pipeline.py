"""`sdy-export-pipeline`: what follows propagation, up to a module that a partitioner takes."""

from __future__ import annotations

from collections.abc import Iterator

from shardwright.passes.registry import Option, Options, Pipeline, register_pipeline

__all__ = ["EXPORT_OPTIONS", "export_passes"]

Named = tuple[str, Options]

EXPORT_OPTIONS = (
    Option("dump-directory", "", "Directory to dump intermediate modules to."),
    Option(
        "avoid-export-for-partitioning",
        False,
        "Avoid exporting the module for partitioning, so that it can be propagated once more.",
    ),
    Option(
        "enable-insert-explicit-collectives",
        False,
        "Enable inserting explicit collective ops during export.",
    ),
    Option("remove-all-gather-reduce-scatter-for-cmv1", False, "Remove all-gather and reduce-scatter ops for CMV1."),
    Option("keep-sharding-rules", False, "Keep sdy.sharding_rule attributes."),
    Option("dump-sharding-origins", False, "Sink sdy.sharding_origins attributes."),
    Option("dump-propagation-edges", False, "Sink sdy.propagation_edges attributes."),
    Option("avoid-reshards-on-calls", False, "Accepted, and changes no pass; so in jaxlib."),
    Option(
        "update-non-divisible-input-output-shardings",
        True,
        "Update the axes of input and output shardings that do not divide.",
    ),
)


def export_passes(options: Options, dump_index: int = 0) -> tuple[Named, ...]:
    """The passes for the options of the pipeline; the modules that they save are numbered from `dump_index`."""
    return tuple(_Export(options, dump_index).passes())


class _Export:
    def __init__(self, options: Options, dump_index: int) -> None:
        self.options = options
        self.dump_index = dump_index

    def passes(self) -> Iterator[Named]:
        options = self.options
        yield "sdy-constant-or-scalar-merger", {}
        yield (
            "sdy-sink-data-flow-edges",
            {
                "sink-debug-sharding-origins": options["dump-sharding-origins"],
                "sink-debug-propagation-edge-sharding": options["dump-propagation-edges"],
            },
        )
        if not options["avoid-export-for-partitioning"]:
            yield "sdy-remove-sharding-groups", {}
            yield "sdy-sharding-constraint-to-reshard", {}
        if options["update-non-divisible-input-output-shardings"]:
            yield "sdy-update-non-divisible-input-output-shardings", {}
            yield "sdy-remove-sub-axes-in-input-output-shardings", {}
        yield "sdy-close-shardings", {}
        yield self._saved("after_propagation")
        if not options["avoid-export-for-partitioning"]:
            yield from self._partitioner()
        if options["dump-propagation-edges"] or options["dump-sharding-origins"]:
            yield "sdy-remove-propagation-debug-info", {}
        if not options["keep-sharding-rules"]:
            yield "sdy-drop-sharding-rules", {}

    def _partitioner(self) -> Iterator[Named]:
        explicit = self.options["enable-insert-explicit-collectives"]
        yield "sdy-insert-explicit-reshards", {"enable-full-version": explicit}
        if explicit:
            yield self._saved("after_explicit_reshards")
            yield _canonicalize("sdy-reshard")
            yield "sdy-reshard-to-collectives", {}
        yield _canonicalize("sdy-collective")
        if explicit and self.options["remove-all-gather-reduce-scatter-for-cmv1"]:
            yield "sdy-remove-all-gather-reduce-scatter-for-cmv1", {}
        yield self._saved(f"after_{'' if explicit else 'minimal_'}partitioner_with_global_shapes")

    def _saved(self, name: str) -> Named:
        index = self.dump_index
        self.dump_index += 1
        directory = self.options["dump-directory"]
        return "sdy-save-module", {"dump-directory": directory, "file-name": name, "dump-index": index}


def _canonicalize(patterns: str) -> Named:
    return "canonicalize", {"enable-patterns": patterns, "region-simplify": "aggressive", "top-down": False}


register_pipeline(
    Pipeline(
        "sdy-export-pipeline",
        "Runs the export passes: what follows propagation.",
        export_passes,
        EXPORT_OPTIONS,
    )
)
