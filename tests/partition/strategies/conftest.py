"""What is known of strategies is known by bytes: devices have one link here, over which what sends less takes less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import shardwright as sw


@pytest.fixture(autouse=True)
def one_link() -> Iterator[None]:
    with sw.Session(hardware=sw.hardware("tpu_v5p").with_a_link()):
        yield
