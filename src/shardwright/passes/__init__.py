"""Named passes over MLIR modules, with their options, and pipelines of them: what `shardwright-opt` runs."""
