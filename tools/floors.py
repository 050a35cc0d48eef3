"""Checks that imports only go downward, and that private jaxlib modules stay behind their doors.

The package is a house of rooms (a module or a package directly under `src/shardwright`), one above the
other. A room imports only from the rooms below it, and within rooms too no file needs itself: imports run
in no circle, and where a room has an order of its own (`ORDERS`), they follow it. The rooms that work on graphs
read and print nothing: of `notation` they import what `TEXTS` names and no more.

An import counts wherever in a file it stands: at the top, inside a function, under `TYPE_CHECKING`, or in a
string `module:name`, which says where something is that is loaded when it is used. Each of them is a file
that one has to know in order to understand, change or test this one; when it is loaded makes no difference.
An import counts for the file it names, `b.py` or else `a/__init__.py` for `from a import b`. That Python runs
`a/__init__.py` first for any file in `a` does not count: it is the roof of its folder, and may name all of it.
Neither does the name of a module that another process runs: that is a program of its own.

Run as `python tools/floors.py [PACKAGE_FOLDER]`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

FLOORS = (  # ground first
    "words", "errors", "toml", "scanner", "lazy", "process", "files", "memo", "clock", "stage", "axes", "mesh",
    "strides", "sharding", "extents", "routes", "steps", "boundary", "ir", "notation", "rules", "cost", "analysis",
    "reshard", "propagation", "partition", "optimize", "autoshard", "assess", "runtime", "checkpoint", "export",
    "frontends", "plans", "passes", "report", "program", "cli", "opt", "__init__", "__main__",
)  # fmt: skip
HEIGHT = {room: height for height, room in enumerate(FLOORS)}

# Within rooms, ground first: files, or folders for all of theirs. None of them leads to one that stands after it,
# through whatever files of the room; of files that are not named nothing is asked but that they are in no circle.
ORDERS = {
    "ir": ("ops", "types", "signature", "context", "graph", "write", "read"),
    "ir/fast": ("chunks", "reduced", "read"),
    "notation": (
        "names",
        "forms",
        "axis_scanner",
        "axis_positions",
        "notation",
        "registry",
        "carriers",
        "module_notations",
        "conversion",
    ),
    "notation/forms": ("form", "kinds", "assembly", "read", "texts"),
    "notation/hlo": ("tiles", "model", "text", "sharding", "mesh", "sites", "components", "importer", "modules"),
    "notation/rfc": ("sharding", "layouts", "mesh", "reading", "writing", "exporter", "modules"),
    "notation/sdy": ("parser", "sharding", "verify", "modules"),
    "notation/shard": ("dialect", "sharding", "read", "importer", "exporter", "modules"),
    "notation/shard/dialect": ("checks", "collectives", "earlier", "tables"),
    "rules": ("rule", "builder", "registry", "families", "traits"),
    "cost": ("hardware", "price"),
    "cost/hardware": (
        "model",
        "figures",
        "sheet",
        "textproto",
        "fit",
        "xla_files",
        "read",
        "shipped",
        "presets",
        "current",
    ),
    "reshard": ("atoms", "problem", "edges", "search", "plan"),
    "propagation": ("working", "recording", "pipeline", "variants", "explain"),
    "propagation/engine": ("projection", "step", "worklist", "propagator"),
    "partition": (
        "localize",
        "splits",
        "padding",
        "decisions",
        "write",
        "factors",
        "proposals",
        "edges",
        "ways",
        "assign",
        "op_split",
        "alike",
        "decide",
        "again",
        "search",
        "whole_stacks",
        "materialize",
    ),
    "optimize": (
        "improvement",
        "explicit",
        "works",
        "draft",
        "versions",
        "carrying",
        "registry",
        "passes",
        "__init__",
    ),
    "assess": ("times", "work", "assessment", "__init__"),
    "partition/localize": ("local", "registry", "indices", "program", "pieces"),
    "partition/again": ("sites", "pieces", "runs", "program"),
    "partition/processes": ("call", "registry", "program"),
    "analysis": ("groups", "scalars", "loops", "traffic"),
    "export": ("container", "write", "exported"),
    "checkpoint": ("safetensors", "index", "trees", "save", "load"),
    "runtime": ("arrays", "jobs", "xla", "execute", "inlined", "stepped", "compiled", "verify"),
    "frontends": ("meshes", "specs", "module_tensors", "load", "jax", "torch"),
    "frontends/torch": (
        "peers",
        "slots",
        "arguments",
        "watched",
        "export",
        "joint",
        "stablehlo",
        "optimizers",
        "training",
        "signature",
        "step",
        "call",
        "lower",
        "device_mesh",
        "placed",
        "boundaries",
        "mixing",
        "parallel",
    ),
    "plans": ("saved", "layouts", "text", "read", "formats", "other", "load"),
    "plans/formats": ("homes", "registry"),
    "passes": (
        "module_ops",
        "module_shardings",
        "module_graph",
        "write_back",
        "registry",
        "options",
        "pipeline",
        "__init__",
        "all",
    ),
    "program": (
        "value",
        "loaded",
        "local",
        "planned",
        "partitioned",
        "explicit",
        "fitting",
        "program",
        "jitted",
        "from_torch",
        "parallel",
        "tuning",
        "ordering",
    ),
    "report": ("layout", "grid", "show", "notebook"),
    "cli": ("given", "programs", "command"),
    "opt": ("flags", "reading", "driver", "command"),
}

# The files that may touch what jax and jaxlib do not promise to keep.
DOORS = ("ir/context.py", "runtime/xla.py", "runtime/embed.py")
PRIVATE = ("jaxlib", "jax._src", "jax.interpreters", "jax.lib", "jax.extend")

# Layouts and communication are values in a graph: text becomes them, and they become text, where modules are read and
# written. So the rooms that work on graphs import nothing of `notation` but what is named here for their file.
ENGINES = ("rules", "cost", "reshard", "propagation", "partition", "optimize", "analysis", "autoshard")
TEXTS = {
    "rules/text.py": ("sdy.factors",),  # the rule that an op of a program brings along is an attribute like any other
    "propagation/explain/find.py": ("modules",),  # the numbers that values are printed with, as users know them
    "propagation/debug/attributes.py": ("sdy.sharding",),  # attributes made for people to read
    "propagation/rfc/completion.py": ("rfc.options", "names"),  # the attribute of a function that names its mesh
    "partition/boundary.py": ("sdy.sharding",),  # which kinds of partial values the dialect has words for
    "partition/enclose.py": ("sdy.sharding",),  # the same
    "partition/localize/collectives.py": ("names",),  # replica groups: attributes of StableHLO that name axes
    "partition/localize/renumber.py": ("names",),  # the same
    "partition/processes/raised.py": ("names",),  # the same
    "analysis/groups.py": ("names",),  # the same
}

HOME = re.compile(r"[a-z_]\w*(?:\.\w+)+:\w+", re.ASCII)  # what `shardwright.lazy` loads

Import = tuple[int, str]  # line, dotted name of what is imported
Graph = dict[Path, dict[Path, int]]  # file → the files that it imports, each with the line of the first import


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


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


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
            yield f"{path}:{line}: '{name}' is private to jax; only {_listed(DOORS)} may import it"
        if not is_within(name, root.name):
            continue
        room = room_of(name.split(".")[1:], rooms)
        if room not in HEIGHT:
            yield f"{path}:{line}: room '{own_room}' imports from room '{room}', which is on no floor"
        elif room != own_room and HEIGHT[room] > HEIGHT[own_room]:
            yield f"{path}:{line}: room '{own_room}' imports from room '{room}' above it"
        elif room == "notation" and own_room in ENGINES and not is_text(name, inside, root):
            yield f"{path}:{line}: '{name}' is of notation, and room '{own_room}' works on values; see TEXTS"


def is_text(name: str, inside: Path, root: Path) -> bool:
    """Tells whether a file of an engine may import the dotted `name` of notation."""
    allowed = TEXTS.get(inside.as_posix(), ())
    return any(is_within(name, f"{root.name}.notation.{module}") for module in allowed)


def file_of(name: str, root: Path) -> Path | None:
    """The file below `root` that a dotted name of the package leads to, the innermost module in it, if it is there."""
    parts = name.split(".")[1:]
    for end in range(len(parts), 0, -1):
        module = Path(*parts[:end])
        for file in (module.with_suffix(".py"), module / "__init__.py"):
            if (root / file).is_file():
                return file
    return None if parts and parts[0] in HEIGHT else Path("__init__.py")


def graph_of(root: Path, files: Sequence[Path]) -> Graph:
    """Which file of the package imports which others."""
    graph: Graph = {}
    for path in files:
        inside = path.relative_to(root)
        graph[inside] = {}
        for line, name in sorted(set(imports_of(ast.parse(path.read_text()), [root.name, *inside.parts[:-1]]))):
            file = file_of(name, root) if is_within(name, root.name) else None
            if file not in (None, inside):
                graph[inside].setdefault(file, line)
    return graph


def told(way: Sequence[Path], graph: Graph) -> str:
    """Files of which each imports the next: `program/plan.py:30 → program/spmd.py`."""
    steps = [f"{here.as_posix()}:{graph[here][there]}" for here, there in pairwise(way)]
    return " → ".join([*steps, way[-1].as_posix()])


def check_circles(graph: Graph, root: Path) -> Iterator[str]:
    """Yields one message per circle of imports; each is then thought cut, until none is left."""
    graph = {path: dict(imported) for path, imported in graph.items()}
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle: list[Path] = error.args[1][::-1]
            yield f"{root / circle[0]}:{graph[circle[0]][circle[1]]}: imports run in a circle: {told(circle, graph)}"
            del graph[circle[0]][circle[1]]
        else:
            return


def place_of(path: Path, room: Path) -> int | None:
    """Where a file stands in the order of its room, if it has a place there; the roof of the room comes last."""
    order = (*ORDERS[room.as_posix()], "__init__")  # an earlier one counts
    name = path.relative_to(room).parts[0].removesuffix(".py")
    return order.index(name) if name in order else None


def ways_from(start: Path, graph: Graph, room: Path) -> Iterator[list[Path]]:
    """Shortest ways from a file to those files of its room that have a place, through such as have none."""
    seen, ways = {start}, [[start]]
    for way in ways:
        for there in graph[way[-1]]:
            if there in seen or not there.is_relative_to(room):
                continue
            seen.add(there)
            if place_of(there, room) is None:
                ways.append([*way, there])
            else:
                yield [*way, there]


def check_orders(graph: Graph, root: Path) -> Iterator[str]:
    """Yields one message per way upward in the order of a room."""
    for room in map(Path, ORDERS):
        for path in graph:
            place = place_of(path, room) if path.is_relative_to(room) else None
            if place is None:
                continue
            for way in ways_from(path, graph, room):
                above = place_of(way[-1], room)
                if above is not None and above > place:
                    where = f"{root / path}:{graph[path][way[1]]}"
                    yield f"{where}: leads upward in the order of '{room.as_posix()}': {told(way, graph)}"


def main(arguments: Sequence[str]) -> int:
    """Checks the package folder given (default `src/shardwright`); returns 1 after printing any findings."""
    root = Path(arguments[0]) if arguments else Path("src/shardwright")
    if not root.is_dir():
        print(f"{root}: no such folder")
        return 1
    files = sorted(root.rglob("*.py"))
    rooms = {path.relative_to(root).parts[0].removesuffix(".py") for path in files}
    graph = graph_of(root, files)
    findings = [finding for path in files for finding in check_file(path, root, rooms)]
    findings += [*check_circles(graph, root), *check_orders(graph, root)]
    print("\n".join(findings) or f"floors: {len(files)} files, every import goes down")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
