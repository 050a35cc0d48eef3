"""The table of what each notation can say: true by construction, and its document current."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.notation import registry
from shardwright.notation.notation import Notation, Shape
from shardwright.notation.registry import notation, notation_names
from shardwright.notation.table import Feature, attempt, features, table
from shardwright.sharding import TensorSharding
from tools.notations import FILE, main, render


@pytest.mark.usefixtures("sums_only")  # the document is about the jaxlib that is locked
def test_the_document_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run python tools/notations.py"
    assert main(["--check"]) == 0


def test_a_stale_document_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notations.md"
    assert main(["--check", "--file", str(file)]) == 1
    assert main(["--file", str(file)]) == 0
    assert main(["--check", "--file", str(file)]) == 0
    file.write_text(file.read_text() + "more\n")
    assert main(["--check", "--file", str(file)]) == 1
    assert "run `python tools/notations.py`" in capsys.readouterr().err


def test_every_feature_is_tried_in_every_notation() -> None:
    cells = table()
    names = Counter(feature.name for feature in features())
    assert set(names.values()) == {1}
    assert set(cells) == set(names)
    assert all(set(row) == set(notation_names()) for row in cells.values())


def test_a_refusal_has_words_and_all_else_a_text() -> None:
    for row in table().values():
        for cell in row.values():
            assert bool(cell.refusal) == (cell.verdict == "no")
            assert bool(cell.texts) or cell.verdict in ("no", "none")


def test_all_notations_write_plain_layouts_and_none_is_without_a_use() -> None:
    cells = table()
    plain = cells["dimensions split over whole axes"]
    assert {cell.verdict for cell in plain.values()} == {"yes"}
    only = {"shards at any offsets": "shard", "priorities": "sdy", "read without the mesh": "mhlo"}
    for feature, name in only.items():
        assert [key for key, cell in cells[feature].items() if cell.verdict == "yes"] == [name]


def _swapped(sharding: TensorSharding, shape: Shape | None) -> str:
    return notation("sdy").print(TensorSharding(sharding.mesh, sharding.dims[::-1]), shape)


LIAR = Notation("liar", "swaps dimensions", lambda text: False, notation("sdy").parse, _swapped)


def test_a_notation_that_moves_data_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._HOMES, "liar", f"{__name__}:LIAR")
    with pytest.raises(ShardingError, match="liar changes"):
        attempt(features()[0], "liar")


def test_what_has_no_text_is_no_cell() -> None:
    assert attempt(Feature("of nothing"), "jax").verdict == "none"


def test_an_unknown_notation_is_refused_in_words() -> None:
    cell = attempt(features()[0], "nothing")
    assert (cell.verdict, cell.refusal) == ("no", "unknown notation 'nothing'")
