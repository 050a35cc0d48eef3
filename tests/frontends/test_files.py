"""Files are written whole or not at all."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.files import make_folder, read_file, write_file


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = write_file(tmp_path / "out.mlir", "µ\n")
    assert read_file(str(path)) == "µ\n".encode()
    assert os.listdir(tmp_path) == ["out.mlir"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"module {}")))
    assert read_file("-") == b"module {}"


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.mlir"
    path.write_text("old")
    path.chmod(0o640)
    write_file(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.mlir"
    path.write_text("old")

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ShardingError, match="No space left on device"):
        write_file(path, "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["out.mlir"])


@pytest.mark.parametrize("path", ["no/such/folder/out.mlir", ".", "a\0b"])
def test_a_place_that_cannot_be_written(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ShardingError, match="cannot write"):
        write_file(path, "text")
    assert os.listdir(tmp_path) == []


def test_devices_are_written_to_and_not_replaced() -> None:
    write_file(os.devnull, "text")
    assert Path(os.devnull).is_char_device()


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    assert make_folder(make_folder(tmp_path / "a" / "b")).is_dir()


def test_a_folder_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ShardingError, match="cannot make the folder"):
        make_folder(tmp_path / "a")
