"""Checks that imports only go downward, and that private jaxlib modules stay behind their doors.

The package is a house of rooms (a module or a package directly under `src/shardwright`), one above the
other. A room imports only from the rooms below it, wherever in a file the import stands: at the top, inside
a function, under `TYPE_CHECKING`, or in a string `module:name`, which says where something is that is loaded
when it is used. Run as `python tools/floors.py [PACKAGE_FOLDER]`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FLOORS = (  # ground first
    "words", "errors", "scanner", "lazy", "process", "files", "memo", "clock", "stage", "mesh", "sharding", "ir",
    "notation", "rules", "cost", "reshard", "propagation", "partition", "optimize", "analysis", "autoshard",
    "runtime", "frontends", "passes", "program", "report", "cli", "opt", "__init__", "__main__",
)  # fmt: skip
HEIGHT = {room: height for height, room in enumerate(FLOORS)}

# The files that may touch what jax and jaxlib do not promise to keep.
DOORS = ("ir/context.py", "runtime/xla.py")
PRIVATE = ("jaxlib", "jax._src", "jax.interpreters", "jax.lib", "jax.extend")

HOME = re.compile(r"[a-z_]\w*(?:\.\w+)+:\w+", re.ASCII)  # what `shardwright.lazy` loads

Import = tuple[int, str]  # line, dotted name of what is imported


def is_within(name: str, module: str) -> bool:
    """Tells whether the dotted `name` is `module` or lies inside it."""
    return name == module or name.startswith(module + ".")


def absolute_base(node: ast.ImportFrom, package: Sequence[str]) -> str:
    """Resolves the `from …` of an import that stands in a file of `package`."""
    if not node.level:
        return node.module or ""
    kept = package[: len(package) - (node.level - 1)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def dotted_name(node: ast.expr) -> str:
    """Spells `a.b.c` when the expression is one, else the empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted_name(node.value)):
        return f"{base}.{node.attr}"
    return ""


def dynamic_import(node: ast.Call) -> str | None:
    """The module that `importlib.import_module("…")` or `__import__("…")` names, if any."""
    is_import = dotted_name(node.func).rpartition(".")[2] in ("import_module", "__import__")
    if is_import and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None


def imports_of(tree: ast.AST, package: Sequence[str]) -> Iterator[Import]:
    """Yields every import below `tree`; `from a import b` as `a.b`, which may be a module or a name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = absolute_base(node, package)
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call() if module := dynamic_import(node):
                yield node.lineno, module
            case ast.Constant(value=str(text)) if HOME.fullmatch(text):
                yield node.lineno, text.replace(":", ".")
            case ast.Attribute() if (name := dotted_name(node)).startswith("jax."):
                yield node.lineno, name  # `import jax` and then `jax._src.…`


def room_of(parts: Sequence[str], rooms: set[str]) -> str:
    """The room that a dotted name below the package leads to; a plain name comes from `__init__`."""
    return parts[0] if parts and (parts[0] in rooms or parts[0] in HEIGHT) else "__init__"


def check_file(path: Path, root: Path, rooms: set[str]) -> Iterator[str]:
    """Yields one message per import of `path` that goes upward or through the wrong door."""
    inside = path.relative_to(root)
    own_room = inside.parts[0].removesuffix(".py")
    if own_room not in HEIGHT:
        yield f"{path}:1: room '{own_room}' is on no floor; give it one in tools/floors.py"
        return
    package = [root.name, *inside.parts[:-1]]
    for line, name in sorted(set(imports_of(ast.parse(path.read_text(), str(path)), package))):
        if any(is_within(name, module) for module in PRIVATE) and inside.as_posix() not in DOORS:
            yield f"{path}:{line}: '{name}' is private to jax; only {' and '.join(DOORS)} may import it"
        if not is_within(name, root.name):
            continue
        room = room_of(name.split(".")[1:], rooms)
        if room not in HEIGHT:
            yield f"{path}:{line}: room '{own_room}' imports from room '{room}', which is on no floor"
        elif room != own_room and HEIGHT[room] > HEIGHT[own_room]:
            yield f"{path}:{line}: room '{own_room}' imports from room '{room}' above it"


def main(arguments: Sequence[str]) -> int:
    """Checks the package folder given (default `src/shardwright`); returns 1 after printing any findings."""
    root = Path(arguments[0]) if arguments else Path("src/shardwright")
    if not root.is_dir():
        print(f"{root}: no such folder")
        return 1
    files = sorted(root.rglob("*.py"))
    rooms = {path.relative_to(root).parts[0].removesuffix(".py") for path in files}
    findings = [finding for path in files for finding in check_file(path, root, rooms)]
    print("\n".join(findings) or f"floors: {len(files)} files, every import goes down")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
