"""Tests of a file that share what is made once run in one process: xdist tells them by what they are called."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="module")
def process() -> int:
    return os.getpid()


@pytest.mark.parametrize("number", range(4))
def test_what_is_shared_is_made_in_this_process(process: int, number: int, request: pytest.FixtureRequest) -> None:
    assert process == os.getpid()
    group = "@tests/tools/test_groups.py" if "PYTEST_XDIST_WORKER" in os.environ else ""
    assert request.node.nodeid.endswith(f"in_this_process[{number}]{group}")
