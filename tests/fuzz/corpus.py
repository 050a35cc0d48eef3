"""Modules to begin with: what the tests, the lit files and the examples hold, and what their generators write.

Any of them may be drawn as it is, in another notation, at a later stage, or as bytecode.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import tests.rules.corpus_calls
import tests.rules.corpus_more  # noqa: F401  # both register makers
from shardwright.errors import ShardingError
from shardwright.frontends.convert import convert_content
from shardwright.frontends.load import parse_source
from shardwright.ir.context import load_module
from shardwright.notation.conversion import as_generic
from shardwright.notation.module_notations import module_notation_names
from shardwright.opt.printing import bytecode
from shardwright.program import Program
from tests.partition.processes.instances import MAKERS as PROCESS_MAKERS
from tests.partition.processes.instances import Maker
from tests.partition.processes.running import program as process_program
from tests.passes import export_modules, import_programs, reshard_programs
from tests.propagation.programs import random_program
from tests.propagation.programs_wide import wide_program
from tests.rules.corpus import MAKERS, program

__all__ = ["drawn", "literals", "sources"]

_TESTS = Path(__file__).parents[1]
_EXAMPLES = _TESTS.parent / "examples"
_WORDS = ("func.func", "func @", "sdy.mesh", "shard.grid", "mesh.cluster", "mesh.mesh")
_GRIDS = ((2,), (2, 2), (2, 4), (3, 2))


def _strings(path: Path) -> Iterator[str]:
    """The plain strings of a file that could be modules; parts of formatted ones are none."""
    source = path.read_text()
    if not any(word in source for word in _WORDS):
        return
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            text = node.value
            if (
                "func" in text
                and "dense_resource" not in text
                and "\n" in text
                and any(word in text for word in _WORDS)
            ):
                yield text.strip() + "\n"


def _of_lit(path: Path) -> Iterator[str]:
    for part in path.read_text().split("// -----\n"):
        yield "\n".join(line for line in part.split("\n") if not line.startswith("//")).strip() + "\n"


@cache
def literals() -> tuple[str, ...]:
    """The modules that stand in the tests and are read without complaint."""
    texts = [text for path in sorted(_TESTS.rglob("*.py")) if path.parent.name != "fuzz" for text in _strings(path)]
    texts += [text for path in sorted(_TESTS.rglob("*.mlir")) for text in _of_lit(path)]
    texts += [path.read_text() for path in (_EXAMPLES / "mlp.mlir",)] * 5
    return tuple(text for text in dict.fromkeys(texts) if _is_read(text))


def _is_read(text: str) -> bool:
    try:
        load_module(as_generic(text))
    except ShardingError:
        return False
    return True


def _of_literals(rng: random.Random) -> str:
    return rng.choice(literals())


def _of_rules(rng: random.Random) -> str:
    return program([MAKERS[rng.choice(sorted(MAKERS))](rng) for _ in range(rng.choice((1, 1, 2, 3)))]) + "\n"


def _of_processes(rng: random.Random) -> str:
    shape = rng.choice(_GRIDS)
    names = [rng.choice(sorted(PROCESS_MAKERS)) for _ in range(rng.choice((1, 2, 4)))]
    text = process_program(shape, [PROCESS_MAKERS[name](Maker(rng, shape)) for name in names]) + "\n"
    return text.replace(" attributes {mesh_cluster = @g}", "")


def _of_example(rng: random.Random) -> str:
    return (_EXAMPLES / rng.choice(("decode.mlir", "gpt2.mlir", "gpt32_scan.mlir"))).read_text()


def _of_seed(make: Callable[[int], str]) -> Callable[[random.Random], str]:
    return lambda rng: make(rng.randrange(1 << 30)) + "\n"


def sources() -> dict[str, tuple[float, Callable[[random.Random], str]]]:
    """How often each source is drawn from, and how."""
    return {
        "literals": (26, _of_literals),
        "random programs": (12, _of_seed(random_program)),
        "wide programs": (16, _of_seed(wide_program)),
        "reshard programs": (5, _of_seed(reshard_programs.reshard_program)),
        "imported calls": (3, _of_seed(import_programs.random_calls)),
        "imported groups": (3, _of_seed(import_programs.random_groups)),
        "imported constraints": (3, _of_seed(import_programs.random_constraints)),
        "imported meshes": (3, _of_seed(import_programs.random_meshes)),
        "exported calls": (3, _of_seed(export_modules.random_calls)),
        "exported edges": (2, _of_seed(export_modules.random_edges)),
        "ops": (9, _of_rules),
        "processes": (8.5, _of_processes),
        "examples": (0.3, _of_example),
    }


def drawn(rng: random.Random) -> tuple[str, str | bytes]:
    """Where a module is from, and the module."""
    table = sources()
    (name,) = rng.choices(list(table), [weight for weight, _ in table.values()])
    text = table[name][1](rng)
    kind = rng.random()
    if kind < 0.55 or name == "examples":
        return name, text
    try:
        if kind < 0.82:
            notation = rng.choice(module_notation_names())
            return f"{name}, {notation}", convert_content(text, notation)
        if kind < 0.94:
            stage = rng.choice(("propagated", "explicit", "local"))
            return f"{name}, {stage}", _at(text, stage)
        return f"{name}, bytecode", bytecode(load_module(as_generic(text)).operation)
    except Exception:  # a diagnostic; anything else is what the commands are tried for, with this text
        return name, text


def _at(text: str, stage: str) -> str:
    program = Program(parse_source(text))
    if program.is_per_device:
        return program.per_device().module()
    plan = program.shard()
    return plan.module() if stage == "propagated" else plan.partition().module(stage)
