"""What torch makes of the plain data of `Plan.to("dtensor")`. Runs in the environment of `peers`: JSON in, JSON out.

A question is what `to` gives; its answer is, for each argument, what each device holds, in the order in which `mesh` lists
them: `[local shape, global offset]`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from typing import Any


def answer(question: dict[str, Any], types: Any, utils: Any) -> dict[str, Any]:
    """What each device holds of each argument."""
    sizes: list[int] = []
    level = question["mesh"]["mesh"]
    while isinstance(level, list):
        sizes.append(len(level))
        level = level[0]
    held: dict[str, Any] = {}
    for name, said in question["arguments"].items():
        made = [getattr(types, one.pop("type"))(**one) for one in said["placements"]]
        local = utils._compute_local_shape_and_global_offset
        positions = itertools.product(*map(range, sizes))
        held[name] = [local(tuple(said["shape"]), tuple(sizes), list(at), made) for at in positions]
    return held


def main() -> None:
    """Answers all questions of the standard input."""
    types = importlib.import_module("torch.distributed.tensor.placement_types")
    utils = importlib.import_module("torch.distributed.tensor._utils")
    print(json.dumps([answer(question, types, utils) for question in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
