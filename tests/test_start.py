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
from click import Context

import shardwright as sw
from shardwright.cli import cli
from shardwright.lazy import provide, provided
from shardwright.notation.registry import print_text

SRC = Path(sw.__file__).parent.parent
ENGINES = ("ir", "rules", "propagation.pipeline", "partition", "program.program", "runtime", "passes")
HEAVY = ("jax", "jaxlib", "numpy", "rich", *(f"shardwright.{room}" for room in ENGINES))
COMMANDS = (
    "analyze",
    "calibrate",
    "convert",
    "diff",
    "explain",
    "export",
    "hardware",
    "launch",
    "partition",
    "plan",
    "propagate",
    "run",
    "show",
    "tune",
    "verify",
)


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


def run(*arguments: str) -> set[str]:
    """The modules that a command loads."""
    return imported(
        f"import sys; sys.argv = ['shardwright', *{arguments!r}]; from shardwright.cli.command import main; main()"
    )


def is_within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def heavy(modules: set[str]) -> list[str]:
    return sorted({name for name in HEAVY for module in modules if is_within(module, name)})


def test_importing_the_package_loads_none_of_it() -> None:
    modules = imported("import shardwright")
    assert {module for module in modules if module.startswith("shardwright")} == {"shardwright", "shardwright.lazy"}
    assert heavy(modules) == []
    assert len(modules) < 20, sorted(modules)


def test_the_help_loads_no_command() -> None:
    modules = run("--help")
    assert heavy(modules) == []
    assert len({module for module in modules if module.startswith("shardwright.")}) < 10


def test_the_version_loads_no_command() -> None:
    assert heavy(run("--version")) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_loads_nothing_that_it_runs(command: str) -> None:
    modules = run(command, "--help")
    assert heavy(modules) == []
    assert len({module for module in modules if module.startswith("shardwright.")}) < 40


def test_every_command_is_listed() -> None:
    assert set(cli.list_commands(Context(cli))) == set(COMMANDS)
    for name in COMMANDS:
        command = cli.get_command(Context(cli), name)
        assert command is not None
        assert command.name == name


def test_shardings_are_converted_and_drawn_without_mlir() -> None:
    sharding = ("--sharding", '<@mesh, [{"x"}, {}]>', "--shape", "8x16", "--mesh", "x=2,y=4")
    assert heavy(run("convert", *sharding, "--to", "jax")) == []
    assert heavy(run("convert", *sharding, "--to", "mhlo")) == ["numpy"]
    assert heavy(run("show", *sharding)) == ["rich"]


@pytest.mark.parametrize("code", ["sw.Mesh(x=2)", "sw.TensorSharding.of(sw.Mesh(x=2), [['x']])"])
def test_a_public_name_loads_what_it_needs(code: str) -> None:
    modules = imported(f"import shardwright as sw; {code}")
    assert heavy(modules) == []
    assert len({module for module in modules if module.startswith("shardwright.")}) < 10


def test_partitioning_without_a_choice_of_hardware_loads_nothing_that_reads_data_sheets_of_users() -> None:
    program = SRC.parent / "examples" / "mlp.mlir"
    modules = imported(f"import shardwright as sw; sw.load({str(program)!r}).shard().partition()")
    assert "shardwright.cost.hardware.shipped" in modules
    readers = {f"shardwright.cost.hardware.{name}" for name in ("presets", "read", "sheet", "xla_files")}
    assert modules & readers == set()


def test_a_process_that_runs_programs_loads_nothing_that_makes_them() -> None:
    modules = imported("from shardwright.runtime import member, worker\nfrom shardwright.runtime.xla import run_job")
    assert heavy(modules) == ["jax", "jaxlib", "numpy", "shardwright.ir", "shardwright.runtime"]
    assert len({module for module in modules if module.startswith("shardwright.")}) < 50


@pytest.mark.parametrize(
    "name", ["shardwright", "shardwright.cost.hardware", "shardwright.program", "shardwright.propagation"]
)
def test_names_are_the_same_for_readers_and_for_python(name: str) -> None:
    package = import_module(name)
    assert package.__file__ is not None
    blocks = [node for node in ast.parse(Path(package.__file__).read_text()).body if isinstance(node, ast.If)]
    (block,) = [block for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING"]
    homes = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == package._HOMES
    assert sorted(homes) == sorted(package.__all__)
    for public, home in homes.items():
        module, _, there = home.partition(":")
        assert getattr(package, public) is getattr(import_module(module), there)


def test_public_names_behave_as_if_they_had_been_imported() -> None:
    names: dict[str, object] = {}
    exec("from shardwright import *", names)
    assert set(sw.__all__) <= set(names)
    assert set(sw.__all__) <= set(dir(sw))
    assert pickle.loads(pickle.dumps(sw.Mesh)) is sw.Mesh
    assert "class Mesh" in pydoc.plain(pydoc.render_doc(sw))
    with pytest.raises(AttributeError, match="module 'shardwright' has no attribute 'Grid'"):
        sw.Grid  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_provided_from_above_stays_where_it_is() -> None:
    with pytest.raises(ValueError, match="is provided by shardwright"):
        provide("sharding as text", "shardwright.mesh:Mesh")
    assert provided("sharding as text") is print_text


def test_a_sharding_alone_can_be_written_and_drawn() -> None:
    code = "import shardwright as sw; s = sw.TensorSharding.of(sw.Mesh(x=2), [['x']])"
    assert "shardwright.notation.sdy.sharding" in imported(f"{code}; assert s.to('sdy').startswith('#sdy')")
    assert "shardwright.report.svg" in imported(f"{code}; assert s._repr_html_().startswith('<svg')")


def test_a_rule_of_ones_own_is_given_without_mlir() -> None:
    assert heavy(imported("import shardwright as sw; sw.rule('my.op', 'i -> i')")) == [
        "shardwright.ir",
        "shardwright.rules",
    ]
    assert "jaxlib" not in heavy(imported("import shardwright.rules.families"))


def test_a_stage_loads_what_it_needs() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32>\n}"
    steps = {
        "program = sw.load(text)": ("propagation.pipeline", "propagation.explain", "partition", "analysis", "runtime"),
        "plan = program.shard('x=2', {0: 'x'})": ("propagation.explain", "partition", "analysis", "runtime"),
        "spmd = plan.partition(effort='fast')": ("analysis", "partition.search", "runtime", "report"),
        "spmd = plan.partition()": ("runtime", "report"),
    }
    code = f"import shardwright as sw; text = {text!r}"
    for step, later in steps.items():
        code = f"{code}; {step}"
        modules = imported(code)
        names = [f"shardwright.{room}" for room in later]
        assert not [
            name
            for name in (*names, "jax", "rich", "click", "highspy")
            for module in modules
            if is_within(module, name)
        ]
