"""The floors check passes what goes down and, above all, can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import floors

Check = Callable[[dict[str, str]], tuple[int, list[str]]]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the check on a package made of {path: source}; gives the exit status and the lines printed."""
    root = tmp_path / "shardwright"

    def run(files: dict[str, str]) -> tuple[int, list[str]]:
        for path, source in {"__init__.py": "", **files}.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        status = floors.main([str(root)])
        printed = capsys.readouterr().out.splitlines()
        return status, [line.removeprefix(f"{root}/") for line in printed]

    return run


def test_downward_imports_pass(check: Check) -> None:
    status, lines = check(
        {
            "__init__.py": "from .program import Program\nfrom shardwright import mesh\n",
            "__main__.py": "from shardwright.cli import main\n",
            "mesh.py": "from .errors import ShardingError\n",
            "ir/graph.py": "from .. import errors\nfrom ..mesh import Mesh\nfrom . import context\n",
            "partition/localize/dot.py": "from ...rules.registry import rule\nfrom shardwright import ir\n",
            "frontends/jax.py": "import jax\nfrom jax.sharding import Mesh\n",
        }
    )
    assert (status, lines) == (0, ["floors: 6 files, every import goes down"])


@pytest.mark.parametrize(
    ("path", "source", "room", "above"),
    [
        ("mesh.py", "import shardwright.ir.graph\n", "mesh", "ir"),
        ("mesh.py", "from shardwright import sharding\n", "mesh", "sharding"),
        ("mesh.py", "from . import sharding\n", "mesh", "sharding"),
        ("ir/graph.py", "from ..rules.rule import Rule\n", "ir", "rules"),
        ("ir/__init__.py", "from .. import rules\n", "ir", "rules"),
        ("partition/localize/dot.py", "from ...runtime import execute\n", "partition", "runtime"),
        ("cost/price.py", "from .. import Program\n", "cost", "__init__"),
        ("cost/price.py", "import shardwright\n", "cost", "__init__"),
        ("mesh.py", "TEXT = 'shardwright.notation.registry:print_text'\n", "mesh", "notation"),
        ("rules/dot.py", "import importlib\nimportlib.import_module('shardwright.cli')\n", "rules", "cli"),
    ],
)
def test_an_upward_import_fails(check: Check, path: str, source: str, room: str, above: str) -> None:
    status, lines = check({path: source})
    line = source.count("\n")
    assert (status, lines) == (1, [f"{path}:{line}: room '{room}' imports from room '{above}' above it"])


def test_imports_inside_functions_and_type_checking_blocks_count(check: Check) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from .program import Plan\n"
        "def plan():\n"
        "    from .cli import main\n"
    )
    status, lines = check({"sharding.py": source})
    assert status == 1
    assert lines == [
        "sharding.py:3: room 'sharding' imports from room 'program' above it",
        "sharding.py:5: room 'sharding' imports from room 'cli' above it",
    ]


def test_a_room_without_a_floor_fails(check: Check) -> None:
    status, lines = check({"attic.py": "", "cli.py": "from .attic import box\n"})
    assert status == 1
    assert lines == [
        "attic.py:1: room 'attic' is on no floor; give it one in tools/floors.py",
        "cli.py:1: room 'cli' imports from room 'attic', which is on no floor",
    ]


CALLED = "def say():\n    from .b import name\n"
TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import Name\n"
LAZY = "\n\nHOMES = {'b': 'shardwright.report.b:name'}\n"


@pytest.mark.parametrize(("source", "line"), [("from . import b\n", 1), (CALLED, 2), (TYPED, 3), (LAZY, 3)])
def test_a_circle_within_a_room_fails_and_is_named(check: Check, source: str, line: int) -> None:
    status, lines = check({"report/a.py": source, "report/b.py": "import shardwright.report.c\n", "report/c.py": ""})
    assert (status, lines) == (0, ["floors: 4 files, every import goes down"])
    status, lines = check({"report/c.py": "import os\nfrom .a import say\n"})
    circle = [f"report/a.py:{line}", "report/b.py:1", "report/c.py:2"]
    turns = [" → ".join([*circle[turn:], *circle[: turn + 1]]).rpartition(":")[0] for turn in range(3)]
    assert status == 1
    assert lines in [[f"{way.partition(' ')[0]}: imports run in a circle: {way}"] for way in turns]


def test_every_circle_is_named(check: Check) -> None:
    status, lines = check(
        {
            "ir/a.py": "from . import b\n",
            "ir/b.py": "from . import a\n",
            "cost/a.py": "from . import b\nfrom . import c\n",
            "cost/b.py": "from . import a\n",
            "cost/c.py": "from . import a\n",
        }
    )
    assert (status, len(lines)) == (1, 3)


def test_a_package_may_name_its_files_and_is_run_by_python_before_them(check: Check) -> None:
    files = {"program/__init__.py": "from .plan import Plan\n", "program/plan.py": "from .value import Value\n"}
    assert check({**files, "program/value.py": ""})[0] == 0
    status, lines = check({"program/value.py": "from . import Plan\n"})
    assert status == 1
    assert "imports run in a circle" in lines[0]


def test_a_way_upward_in_the_order_of_a_room_fails(check: Check) -> None:
    files = {"reshard/search.py": "", "reshard/extra.py": "from . import search\n", "reshard/plan.py": ""}
    assert check({**files, "reshard/other.py": "from .plan import plan\n"})[0] == 0
    status, lines = check({"reshard/search.py": "from .other import name\nfrom . import plan\n"})
    leads = "leads upward in the order of 'reshard':"
    assert (status, lines) == (
        1,
        [
            f"reshard/search.py:2: {leads} reshard/search.py:2 → reshard/plan.py",
        ],
    )
    status, lines = check({"reshard/search.py": "from .other import name\n"})
    assert (status, lines) == (
        1,
        [f"reshard/search.py:1: {leads} reshard/search.py:1 → reshard/other.py:1 → reshard/plan.py"],
    )


def test_all_files_of_a_folder_have_its_place(check: Check) -> None:
    files = {"partition/localize/dot.py": "", "partition/splits.py": "from .localize.dot import dot\n"}
    assert check(files)[0] == 0
    status, lines = check({"partition/splits.py": "", "partition/localize/dot.py": "from ..splits import splits\n"})
    assert status == 1
    assert lines[0].endswith("in the order of 'partition': partition/localize/dot.py:1 → partition/splits.py")


def test_the_orders_name_files_that_there_are() -> None:
    package = REPOSITORY / "src" / "shardwright"
    for room, order in floors.ORDERS.items():
        for name in order:
            assert (package / room / f"{name}.py").is_file() or (package / room / name).is_dir(), f"{room}/{name}"


@pytest.mark.parametrize(
    "source",
    [
        "from jaxlib.mlir import ir\n",
        "import jaxlib._jax\n",
        "from jax import _src\n",
        "from jax._src import core\n",
        "from jax.interpreters import mlir\n",
        "import jax\njax._src.core\n",
        "IR = 'jaxlib.mlir:ir'\n",
    ],
)
@pytest.mark.parametrize("path", ["ir/graph.py", "frontends/jax.py", "runtime/execute.py", "__init__.py"])
def test_private_jax_outside_its_doors_fails(check: Check, path: str, source: str) -> None:
    status, lines = check({path: source})
    assert status == 1
    assert lines[0].startswith(f"{path}:{source.count(chr(10))}: 'jax")
    assert "is private to jax; only ir/context.py, runtime/xla.py and runtime/embed.py may import it" in lines[0]


@pytest.mark.parametrize("door", floors.DOORS)
def test_private_jax_passes_through_its_doors(check: Check, door: str) -> None:
    status, _ = check({door: "import jaxlib._jax\nfrom jaxlib.mlir import ir\nfrom jax._src import core\n"})
    assert status == 0


@pytest.mark.parametrize(
    "source",
    [
        "from shardwright.notation.sdy.sharding import parse_shardings\n",
        "from shardwright.notation.sdy import sharding\n",
        "import shardwright.notation.carriers\n",
        "from ..notation import modules\n",
    ],
)
@pytest.mark.parametrize("room", ["rules", "reshard", "propagation", "partition", "analysis"])
def test_engines_read_and_print_no_text(check: Check, room: str, source: str) -> None:
    status, lines = check({f"{room}/engine.py": source})
    assert status == 1
    assert f"is of notation, and room '{room}' works on values; see TEXTS" in lines[0]


def test_what_has_a_reason_to_read_text_reads_that_alone(check: Check) -> None:
    names = "from shardwright.notation.names import symbol_name\n"
    assert check({"analysis/groups.py": names})[0] == 0
    status, lines = check({"analysis/groups.py": f"{names}from shardwright.notation.sdy.sharding import parse_axes\n"})
    assert status == 1
    assert len(lines) == 1


def test_every_exception_is_needed() -> None:
    root = REPOSITORY / "src" / "shardwright"
    for file, modules in floors.TEXTS.items():
        text = (root / file).read_text()
        assert all(f"shardwright.notation.{module} " in text for module in modules), file


def test_a_missing_folder_fails(tmp_path: Path) -> None:
    assert floors.main([str(tmp_path / "nowhere")]) == 1


def test_this_repository_keeps_its_floors(capsys: pytest.CaptureFixture[str]) -> None:
    status = floors.main([str(REPOSITORY / "src" / "shardwright")])
    assert status == 0, capsys.readouterr().out
