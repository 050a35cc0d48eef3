"""Files and functions are small: what is read at once fits on a few screens."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 50


def test_no_file_and_no_function_is_long() -> None:
    files = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    assert len(files) > 100
    long = [str(path) for path, text in files.items() if text.count("\n") > LINES_OF_A_FILE]
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno >= LINES_OF_A_FUNCTION:
                    long.append(f"{path}: {node.name}")
    assert not long
