"""What newer peers answer otherwise (`tests.jaxlib_differences`), and lines for the end: `record_property("summary", text)`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fork_server import end_servers, forked_children
from tests.jaxlib_differences import INSTALLED, expected_failure
from tests.oracles.flags import FUSES_OTHERWISE

STARTING = ("test_execute.py", "test_process.py")
"""Files of tests for which processes are started as users' are."""
OPTIMIZES = "--xla_backend_optimization_level"
"""The flag of XLA by which LLVM optimizes more or less."""

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # what else runs on a machine is no failure of a test


def pytest_configure(config: pytest.Config) -> None:
    """Let XLA compile in haste, which is a third of what tests take, but for the long tests, which run what users run.

    Collectives are the same. Newer XLA lowers what is fused in one way only.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if config.option.markexpr == "not long" and OPTIMIZES not in flags:
        hasty = [f"{OPTIMIZES}=0", *([FUSES_OTHERWISE] if INSTALLED < (0, 11) else [])]
        os.environ["XLA_FLAGS"] = " ".join([*flags.split(), *hasty])


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Let fail, and only fail, what a newer jaxlib than the locked one is known to answer otherwise.

    What tests of a file share is made once: they run in one process, where else each process would make it.
    """
    for item in items:
        if _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        kind = expected_failure(item.nodeid)
        if kind is not None:
            item.add_marker(pytest.mark.xfail(reason=f"{kind}: see docs/differences.md", strict=True))
    done = yield
    for item in items:
        _name_by_group(item)
    return done


def _name_by_group(item: Any) -> None:
    """Let a test be called as xdist has it, to tell groups apart: pytest 9.2 has names elsewhere than xdist 3.8 writes."""
    name = vars(item).get("_nodeid", item.nodeid)
    if name != item.nodeid:
        item._id = type(item._id).parse(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Copy the processes that run programs, unless the test is about what starts them."""
    with nullcontext() if item.path.name in STARTING else forked_children():
        return (yield)


def pytest_sessionfinish() -> None:
    """End the processes that were copied."""
    end_servers()


def _shares(item: pytest.Item) -> bool:
    """Whether a test takes what is made once for its file."""
    fixtures = getattr(item, "_fixtureinfo", None)
    return fixtures is not None and any(
        made[-1].scope == "module" for made in fixtures.name2fixturedefs.values() if made
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests had to say, from whichever process they ran in."""
    lines = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == "summary"
    ]
    if lines:
        terminalreporter.section("measured")
        for line in sorted(lines):
            terminalreporter.write_line(line)


@pytest.fixture
def sums_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with jaxlib 0.10, whose sdy knows no kind of reduction but the sum."""
    monkeypatch.delattr("jaxlib.mlir.dialects.sdy.ReductionOp", raising=False)
