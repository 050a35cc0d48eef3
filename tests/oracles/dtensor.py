"""What DTensor leaves to each device, by torch itself. Runs in the environment of `peers`: JSON in, JSON out.

A question is `{"text": "[Shard(0), Replicate()]", "mesh": [2, 2], "shape": [5, 3]}`; its answer is the placements as
torch writes them, and for each device, the last mesh dimension fastest, `[local shape, global offset]`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
import sys
from typing import Any


def placement(text: str, types: Any) -> Any:
    """`Shard(0)`, `Replicate()`, `Partial(sum)` or `_StridedShard(dim=0, sf=2)` as torch's own object."""
    match = re.fullmatch(r"(\w+)\((.*)\)", text)
    if match is None:
        raise ValueError(text)
    name, inner = match.groups()
    numbers = [int(number) for number in re.findall(r"\d+", inner)]
    if name == "_StridedShard":
        return types._StridedShard(numbers[0], split_factor=numbers[1])
    arguments: list[int | str] = [*numbers] or [inner] * bool(inner)
    return getattr(types, name)(*arguments)


def answer(question: dict[str, Any], types: Any, utils: Any) -> dict[str, Any]:
    """The placements in torch's words, and what each device holds."""
    placements = [placement(text, types) for text in re.findall(r"\w+\([^)]*\)", question["text"])]
    mesh, shape = tuple(question["mesh"]), tuple(question["shape"])
    local = utils._compute_local_shape_and_global_offset
    held = [local(shape, mesh, list(at), placements) for at in itertools.product(*map(range, mesh))]
    return {"placements": [repr(one) for one in placements], "held": held}


def main() -> None:
    """Answers all questions of the standard input."""
    types = importlib.import_module("torch.distributed.tensor.placement_types")
    utils = importlib.import_module("torch.distributed.tensor._utils")
    print(json.dumps([answer(question, types, utils) for question in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
