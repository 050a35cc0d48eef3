"""Where an op of a graph stands in the user's source: the frames of torch itself are left out."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

__all__ = ["keep_own_frames", "place_of", "place_of_call", "place_of_error", "place_of_forward"]

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_TORCH = str(Path(torch.__file__).parent)
_PACKAGE = str(Path(__file__).parents[2])
_NOT_OWN = (_TORCH, _PACKAGE, "<")


def place_of(node: Any) -> str:
    """`FILE:LINE` of the innermost frame that is neither torch's nor ours; empty where none is known."""
    frames = _own_frames(node)
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""


def place_of_call() -> str:
    """`FILE:LINE` of the innermost frame that runs now and is neither torch's nor ours; empty where there is none."""
    frames = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(_NOT_OWN)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def place_of_error(error: Exception) -> str:
    """`FILE:LINE` of the innermost such frame that an error names, or else went through; empty where there is none."""
    frames = [
        *_own(_FRAME.findall("".join(traceback.format_tb(error.__traceback__)))),
        *_own(_FRAME.findall(str(error))),
    ]
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""


def place_of_forward(module: Any) -> str:
    """`FILE:LINE` where the forward of a module begins; empty where that is torch's."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return "" if code is None or code.co_filename.startswith(_NOT_OWN) else f"{code.co_filename}:{code.co_firstlineno}"


def keep_own_frames(graph: Any) -> None:
    """Leave in each node the innermost frame of the user's source, which is where torch-mlir puts its ops."""
    for node in graph.nodes:
        frames = _own_frames(node)
        if frames:
            file, line, function = frames[-1]
            node.meta["stack_trace"] = f'File "{file}", line {line}, in {function}'
        else:
            node.meta.pop("stack_trace", None)


def _own_frames(node: Any) -> list[tuple[str, str, str]]:
    return _own(_FRAME.findall(node.meta.get("stack_trace") or ""))


def _own(frames: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [frame for frame in frames if not frame[0].startswith(_NOT_OWN)]
