"""Files are written whole or not at all."""

from __future__ import annotations

import io
import os
import resource
from pathlib import Path

import pytest

from shardwright.errors import ShardingError
from shardwright.files import make_folder, read_file, write_file, write_files


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


def test_what_is_on_no_disk_is_not_there_at_all(tmp_path: Path) -> None:
    """A quota or a limit is told when half is written, a full network disk when the file is closed."""
    path = tmp_path / "out.mlir"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(ShardingError, match="File too large") as caught:
            write_file(path, "x" * (1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.diagnostic.remedy.startswith("make room")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["out.mlir"])


def test_of_several_files_all_or_none_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ShardingError, match="no/b"):
        write_files({str(tmp_path / "a"): "new", str(tmp_path / "no/b"): b"new"})
    assert ((tmp_path / "a").read_text(), os.listdir(tmp_path)) == ("old", ["a"])
    write_files({str(tmp_path / "a"): "new", str(tmp_path / "b"): b"\xff"})
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_bytes()) == ("new", b"\xff")


def test_a_long_name_is_no_matter(tmp_path: Path) -> None:
    assert write_file(tmp_path / ("n" * 255), "text").read_text() == "text"


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.mlir"
    path.write_text("old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(ShardingError, match="Permission denied"):
        write_file(path, "new")


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ShardingError, match="symbolic links"):
        write_file(tmp_path / "a", "text")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_pipe_and_an_open_descriptor_are_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", "through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    with (tmp_path / "file").open("wb") as file:
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        write_file(tmp_path / "link", "text")
        assert os.fstat(file.fileno()).st_ino == (tmp_path / "file").stat().st_ino
    assert (tmp_path / "file").read_text() == "text"


def test_devices_are_written_to_and_not_replaced() -> None:
    write_file(os.devnull, "text")
    assert Path(os.devnull).is_char_device()


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    assert make_folder(make_folder(tmp_path / "a" / "b")).is_dir()


def test_a_folder_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ShardingError, match="cannot make the folder"):
        make_folder(tmp_path / "a")
