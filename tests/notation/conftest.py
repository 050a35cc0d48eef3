"""What tests of notations share."""

from __future__ import annotations

import pytest


@pytest.fixture
def sums_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with jaxlib 0.10, whose sdy knows no kind of reduction but the sum."""
    monkeypatch.delattr("jaxlib.mlir.dialects.sdy.ReductionOp", raising=False)
