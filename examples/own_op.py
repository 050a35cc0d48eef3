"""An op of somebody else's dialect, made shardable by one registration of its loops.

`python examples/own_op.py` writes the explicit program of `own_op.mlir`: both products are computed in parts, and the
sum that the second one leaves is reduced, as it is for an op of StableHLO.
"""

from __future__ import annotations

from pathlib import Path

import shardwright as sw

sw.sharding_interface(
    "vendor.matmul",
    indexing_maps=["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"],
    loop_iterator_types=["parallel", "parallel", "reduction_sum"],
)


def main() -> None:
    """Partition the program and print it."""
    program = sw.load(Path(__file__).with_name("own_op.mlir"))
    print(program.plan().partition().module("explicit"))


if __name__ == "__main__":
    main()
