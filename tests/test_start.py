"""What is imported when: counted in modules, which does not depend on the machine."""

from __future__ import annotations

import ast
import json
import pickle
import pydoc
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import shardwright as sw

SRC = Path(sw.__file__).parent.parent
ENGINES = ("ir", "notation", "rules", "propagation", "partition", "program", "report", "runtime", "passes")
HEAVY = ("jax", "jaxlib", "numpy", "rich", *(f"shardwright.{room}" for room in ENGINES))


def imported(code: str) -> set[str]:
    """The modules that a fresh interpreter has after `code`, beyond those it begins with."""
    probe = (
        "import json, sys\nbefore = set(sys.modules)\n"
        f"try:\n    exec({code!r})\nexcept SystemExit as exit:\n    assert not exit.code, exit.code\n"
        "sys.stderr.write(json.dumps(sorted(set(sys.modules) - before)))"
    )
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


def heavy(modules: set[str]) -> list[str]:
    return sorted({name for name in HEAVY for module in modules if module == name or module.startswith(f"{name}.")})


def test_importing_the_package_loads_none_of_it() -> None:
    modules = imported("import shardwright")
    assert {module for module in modules if module.startswith("shardwright")} == {"shardwright", "shardwright.lazy"}
    assert heavy(modules) == []
    assert len(modules) < 20, sorted(modules)


def test_the_help_loads_no_command() -> None:
    modules = imported("import sys; sys.argv = ['shardwright', '--help']; from shardwright.cli import main; main()")
    ours = {module for module in modules if module.startswith("shardwright.")}
    assert ours == {f"shardwright.{name}" for name in ("cli", "cli.command", "errors", "lazy", "memo")}
    assert heavy(modules) == []


def test_the_version_loads_no_command() -> None:
    modules = imported("import sys; sys.argv = ['shardwright', '--version']; from shardwright.cli import main; main()")
    assert heavy(modules) == []


@pytest.mark.parametrize(
    ("code", "rooms"),
    [
        ("sw.Mesh(x=2)", {"errors", "lazy", "mesh"}),
        ("sw.TensorSharding.of(sw.Mesh(x=2), [['x']])", {"errors", "lazy", "memo", "mesh", "sharding"}),
    ],
)
def test_a_public_name_loads_what_it_needs(code: str, rooms: set[str]) -> None:
    modules = imported(f"import shardwright as sw; {code}")
    assert {module for module in modules if module.startswith("shardwright.")} == {f"shardwright.{r}" for r in rooms}
    assert heavy(modules) == []


def test_public_names_are_the_same_for_readers_and_for_python() -> None:
    tree = ast.parse(Path(sw.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    said = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert said == sw._HOMES
    assert sorted(said) == sorted(sw.__all__)
    for name, home in said.items():
        module, _, there = home.partition(":")
        assert getattr(sw, name) is getattr(import_module(module), there)


def test_public_names_behave_as_if_they_had_been_imported() -> None:
    names: dict[str, object] = {}
    exec("from shardwright import *", names)
    assert set(sw.__all__) <= set(names)
    assert set(sw.__all__) <= set(dir(sw))
    assert pickle.loads(pickle.dumps(sw.Mesh)) is sw.Mesh
    assert "class Mesh" in pydoc.plain(pydoc.render_doc(sw))
    with pytest.raises(AttributeError, match="module 'shardwright' has no attribute 'Grid'"):
        sw.Grid  # type: ignore[attr-defined]  # noqa: B018


def test_a_sharding_alone_can_be_written_and_drawn() -> None:
    code = "import shardwright as sw; s = sw.TensorSharding.of(sw.Mesh(x=2), [['x']])"
    assert "shardwright.notation.sdy.sharding" in imported(f"{code}; assert s.to('sdy').startswith('#sdy')")
    assert "shardwright.report.svg" in imported(f"{code}; assert s._repr_html_().startswith('<svg')")
