"""The locks hold versions and hashes alone, one for each jax that the package allows; a lane without its Python says so."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MAKEFILE = (REPOSITORY / "Makefile").read_text()
LINE = re.compile(r"[A-Za-z0-9_.-]+==[^ ]+( --hash=sha256:[0-9a-f]{64})+")


def setting(name: str) -> list[str]:
    match = re.search(rf"^{name} := (.*)$", MAKEFILE, re.MULTILINE)
    assert match is not None
    return match[1].split()


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def lock_of(version: str) -> Path:
    return REPOSITORY / ("requirements.lock" if minor(version) == "0.10" else f"requirements-jax{minor(version)}.lock")


@pytest.mark.parametrize("version", setting("LOCKED_JAX"))
def test_a_lock_pins_its_jax_and_hashes_all(version: str) -> None:
    lines = lock_of(version).read_text().splitlines()
    assert [line for line in lines if LINE.fullmatch(line) is None] == []
    pins = dict(line.split()[0].split("==") for line in lines)
    assert (pins["jax"], pins["jaxlib"]) == (version, version)


@pytest.mark.parametrize("lock", sorted(REPOSITORY.glob("requirements*.lock")), ids=lambda lock: lock.name)
def test_a_lock_has_each_package_once_in_order(lock: Path) -> None:
    """With two versions of a package, pip installs nothing."""
    names = [line.partition("==")[0].lower().replace("_", "-") for line in lock.read_text().splitlines()]
    assert names == sorted(set(names))


def test_every_lock_is_one_of_a_version_and_every_version_has_a_lane() -> None:
    locks = {path for path in REPOSITORY.glob("requirements*.lock") if path.name != "requirements-oracles.lock"}
    assert locks == {lock_of(version) for version in setting("LOCKED_JAX")}
    assert {lane.partition("-jax")[2] for lane in setting("LANES")} == {minor(v) for v in setting("LOCKED_JAX")}


def test_the_range_of_the_package_ends_behind_the_newest_lock() -> None:
    dependencies = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest, newest = setting("LOCKED_JAX")[0], minor(setting("LOCKED_JAX")[-1]).split(".")
    expected = f">={lowest},<{newest[0]}.{int(newest[1]) + 1}"
    ranges = dict(re.findall(r"^(jax|jaxlib)(>.*)$", "\n".join(dependencies), re.MULTILINE))
    assert ranges == {"jax": expected, "jaxlib": expected}


def test_a_lane_without_its_python_is_left_out_and_says_so() -> None:
    lane = subprocess.run(
        ["bash", str(REPOSITORY / "tools" / "lanes.sh"), "python3.999-jax0.12"],
        capture_output=True,
        text=True,
        env={**os.environ, "MAKE": "false"},
    )
    assert lane.returncode == 0
    assert lane.stdout == "lane python3.999-jax0.12: left out: no python3.999 that makes environments on this machine\n"


def test_a_python_that_this_jax_does_not_take_is_refused_with_a_remedy(tmp_path: Path) -> None:
    for name, status in (("python3.11", "exit 1"), ("id", "echo 1000")):  # not root: installs no packages
        (tmp_path / name).write_text(f"#!/bin/sh\n{status}\n")
        (tmp_path / name).chmod(0o755)
    setup = subprocess.run(
        ["bash", str(REPOSITORY / "tools" / "setup.sh")],
        capture_output=True,
        text=True,
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "PYTHON": "python3.11",
            "JAX": "0.12",
            "VENV": str(tmp_path / "made"),
        },
    )
    assert setup.returncode == 1
    assert "no Python >= 3.12 and < 3.15 that can make virtual environments was found: tried python3.11" in setup.stderr
    assert not (tmp_path / "made").exists()
