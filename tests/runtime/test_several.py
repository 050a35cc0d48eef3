"""A program in several processes of this machine: equal to one process, and ended as one where a process fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.process import children
from shardwright.program import Spmd, load
from shardwright.runtime.jobs import Job, load_parts, save_part
from shardwright.runtime.several import run_in_processes
from shardwright.runtime.verify import InProcesses, Verification
from tests.test_signals import ENDLESS

MESH = 'sdy.mesh @m = <["x"=4, "y"=2]>'
TURNED = 'sdy.mesh @m = <["x"=4, "y"=2], device_ids=[7, 1, 6, 0, 5, 3, 4, 2]>'

STEP = """
func.func @main(%x: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{"y"}}]>}},
                %w: tensor<16x6xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"y"}}, {{}}]>}})
    -> (tensor<8x6xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}]>}}, tensor<6xf32>) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %0, %1 : tensor<8x6xf32>, tensor<6xf32>
}}"""

UNEVEN = """
sdy.mesh @m = <["x"=4]>
func.func @main(%x: tensor<7x3xi64> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>})
    -> (tensor<7x3xi64> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) {
  %0 = stablehlo.add %x, %x : tensor<7x3xi64>
  return %0 : tensor<7x3xi64>
}"""


def partitioned(text: str) -> Spmd:
    return load(text).plan().partition()


def job(spmd: Spmd) -> Job:
    types = tuple(spmd.source.graph.results.values())
    return Job(spmd.module(), tuple(spmd.inputs()), spmd.mesh, spmd.in_shardings, spmd.out_shardings, types)


@pytest.mark.parametrize("mesh", [MESH, TURNED], ids=["in order", "in another order"])
def test_two_processes_give_what_one_gives(mesh: str) -> None:
    verification = partitioned(mesh + STEP.format()).verify(processes=2)
    verification.require()
    about = verification.in_processes
    assert about is not None
    assert (about.processes, about.devices, about.failures) == (2, 4, ())
    assert about.difference < 1e-6
    assert about.identical == (about.difference == 0)


def test_integers_are_the_same_bit_for_bit_also_where_shards_are_uneven() -> None:
    spmd = partitioned(UNEVEN)
    about = spmd.verify(processes=4).in_processes
    assert about is not None
    assert (about.devices, about.identical, about.difference) == (1, True, 0.0)


def test_results_that_differ_are_told_of_the_run_in_processes_alone() -> None:
    wrong = Verification((), in_processes=InProcesses(2, 4, False, 1.0, ("result: 3 elements differ",), 0.1))
    assert not wrong.ok
    with pytest.raises(ShardingError, match="in 1 places") as raised:
        wrong.require()
    assert raised.value.diagnostic.cause == "in several processes, result: 3 elements differ"


def test_devices_that_cannot_be_shared_out() -> None:
    with pytest.raises(ShardingError, match="8 devices cannot be shared out among 3 processes") as raised:
        partitioned(MESH + STEP.format()).verify(processes=3)
    assert raised.value.diagnostic.remedy == "take 2 or 4 or 8 processes"


def test_what_xla_refuses_is_told_by_the_process_that_says_it() -> None:
    refused = replace(job(partitioned(UNEVEN)), module="func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>)")
    with pytest.raises(ShardingError, match=r"process \d of 2 failed: ") as raised:
        run_in_processes(refused, 2)
    assert "the others were ended with it" in raised.value.diagnostic.cause
    assert not children


@pytest.mark.parametrize("number", [0, 1])
def test_a_process_that_is_killed_ends_all_and_is_named(number: int) -> None:
    errors: list[ShardingError] = []

    def run() -> None:
        try:
            run_in_processes(job(partitioned(ENDLESS)), 2)
        except ShardingError as error:
            errors.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    victim = _started(number)
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    runner.join(30)
    assert not runner.is_alive()
    assert time.monotonic() - killed < 30
    [error] = errors
    assert error.diagnostic.message == f"process {number} of 2 was ended by signal 9 (SIGKILL)"
    assert not children


def test_one_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ShardingError, match="in 2 processes took longer than 6 seconds") as raised:
        run_in_processes(job(partitioned(ENDLESS)), 2, timeout=6)
    assert "was still at it" in raised.value.diagnostic.cause
    assert not children


def _started(number: int) -> int:
    """The process `number` of two, once it has all it needs to run and is past the beginning."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in list(children):
            told = _told(process)
            if told[-3:-1] == [str(number), "2"]:
                time.sleep(2)  # among other things it has met the other
                return process
        time.sleep(0.05)
    raise AssertionError("no such process was started")


def _told(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0").split("\0")
    except OSError:
        return []


def test_shards_of_all_processes_are_read_in_the_order_of_partitions(tmp_path: Path) -> None:
    given = job(partitioned(UNEVEN))
    shards = [np.full((2, 3), number) for number in range(4)]
    save_part(tmp_path, 0, [0, 2], [[shards[0], shards[2]]], (1.0, 2.0))
    save_part(tmp_path, 1, [1, 3], [[shards[1], shards[3]]], (3.0, 1.0))
    [results], seconds = load_parts(tmp_path, 2, given)
    assert seconds == [3.0, 2.0]
    for mine, theirs in zip(results, shards, strict=True):
        np.testing.assert_array_equal(mine, theirs)
