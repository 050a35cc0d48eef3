"""`partition(optimize=…)`: programs of our own partitioner, and explicit ones of a user, made better and verified."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardwright.cli import cli
from shardwright.cost.hardware import hardware
from shardwright.errors import ShardingError
from shardwright.memo import Session
from shardwright.optimize import optimizations, optimize, registry
from shardwright.optimize.compared import demand_of
from shardwright.program import Spmd, load
from tests.models.nets.all import NETS
from tests.models.steps.all import plan
from tests.optimize.cases import CASES
from tests.optimize.explicit import NO_LATENCY, function

BETTER = ("coupling_flow", "gaussian_mixture", "guided_diffusion", "particle_filter", "selective_state_space")
"""Models that the partitioner leaves something to make better of."""


def _spmds(name: str, optimize: str = "all") -> tuple[Spmd, Spmd]:
    plan = NETS[name].plan()
    return plan.partition(effort="fast"), plan.partition(effort="fast", optimize=optimize)


def _check(name: str, optimize: str) -> None:
    """A model computes the same, and sends as much less as is said."""
    before, after = _spmds(name, optimize)
    assert after.improvements is not None
    saved = before.traffic.total.executed_bytes - after.traffic.total.executed_bytes
    assert saved == pytest.approx(sum(one.bytes_saved for one in after.improvements))
    if after.improvements:
        after.verify().require()


@pytest.mark.parametrize("name", BETTER)
def test_models_that_are_made_better_compute_the_same_and_send_as_much_less_as_is_said(name: str) -> None:
    _check(name, "all")


def test_loops_gather_once_what_they_do_not_change() -> None:
    before, after = _spmds("particle_filter")
    assert after.traffic.total.executed < before.traffic.total.executed / 2
    assert after.traffic.total.executed_bytes < before.traffic.total.executed_bytes / 2


@pytest.mark.long
@pytest.mark.parametrize("optimize", ["exact", "all"])
@pytest.mark.parametrize("name", NETS)
def test_every_model_made_better_computes_the_same(name: str, optimize: str) -> None:
    _check(name, optimize)


def test_nothing_is_made_better_unasked() -> None:
    plan = load(CASES["a sum of sums"].text).plan()
    spmd, better = plan.partition(), plan.partition(optimize="all")
    assert spmd.improvements is None
    assert "optimization" not in spmd.summary()
    assert spmd.module("explicit").count("sdy.all_reduce") == 2
    assert better.improvements
    assert better.module("explicit").count("sdy.all_reduce") == 1
    assert better.summary()["optimization"]["bytes_saved"] == 256
    exact = plan.partition(optimize="exact")
    assert {one.by for one in exact.improvements or ()} == {"schedule-collectives", "bucket-collectives"}
    exact.verify().require()
    assert pickle.loads(pickle.dumps(better)).improvements == better.improvements
    better.verify().require()


def test_the_command_tells_what_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "sums.mlir"
    file.write_text(CASES["a sum of sums"].text)
    done = CliRunner().invoke(cli, ["partition", str(file), "--optimize", "all", "-o", str(tmp_path / "local.mlir")])
    assert done.exit_code == 0, done.output
    assert "all-reduce-reassociate   1 change\n" in done.output
    assert "256 B less sent\n" in done.output
    assert "--optimize [off|exact|all]" in CliRunner().invoke(cli, ["partition", "--help"]).output


def test_where_there_is_nothing_to_make_better_nothing_is_changed() -> None:
    rows, whole = 'tensor<8x16xf32> [{"x"}, {}]', "tensor<8x16xf32> [{}, {}]"
    gather = '%0 = sdy.all_gather [{"x"}, {}] %a «[{}, {}]» : tensor<8x16xf32>'
    plan = load(function([f"a: {rows}"], whole, f"{gather}\nreturn %0 : tensor<8x16xf32>")).plan()
    spmd = plan.partition(optimize="all")
    assert spmd.improvements == ()
    assert spmd.module("explicit") == plan.partition().module("explicit")


def test_where_no_collective_is_one_too_many_only_their_places_change() -> None:
    plan = NETS["grouped_queries"].plan()
    spmd = plan.partition(effort="fast", optimize="exact")
    late = {one.name for one in optimizations() if one.is_late}
    assert spmd.improvements
    assert {one.by for one in spmd.improvements} <= late
    assert spmd.traffic.total.executed_bytes == plan.partition(effort="fast").traffic.total.executed_bytes
    spmd.verify().require()


def test_with_whole_arguments_too() -> None:
    plan = load(CASES["behind a conversion to less"].text).plan()
    plan.partition(optimize="all", arguments="whole").verify().require()


def test_a_choice_that_there_is_not() -> None:
    plan = load(CASES["a sum of sums"].text).plan()
    with pytest.raises(ShardingError, match="no such optimization: 'some'"):
        plan.partition(optimize="some")


def test_the_hardware_of_the_session_decides() -> None:
    plan = load(CASES["work that is then shared"].text).plan()
    assert plan.partition(optimize="all").improvements == ()
    with Session(hardware=NO_LATENCY):
        assert plan.partition(optimize="all").improvements


@pytest.mark.parametrize("to", ["shard", "mesh", "rfc"])
def test_what_is_made_better_can_be_written_in_a_notation_without_manual_computations(to: str, tmp_path: Path) -> None:
    file = tmp_path / "sums.mlir"
    file.write_text(
        """
        sdy.mesh @m = <["x"=4]>
        func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>})
            -> (tensor<64xf32>, tensor<64xf32>) {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %b = stablehlo.exponential %a : tensor<64x64xf32>
          %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
          %1 = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
          return %0, %1 : tensor<64xf32>, tensor<64xf32>
        }
        """
    )
    bucket = "sdy.manual_computation"
    assert bucket in load(file).plan().partition(optimize="all").module("explicit")
    options = ["--optimize", "all", "--stage", "explicit", "--to"]
    written = CliRunner().invoke(cli, ["partition", str(file), *options, to])
    assert written.exit_code == 0, written.output
    load(written.output).plan().partition().verify().require()


@pytest.mark.parametrize(("step", "sharding"), [("sgd", "data"), ("mixture_of_experts", "data"), ("sgd", "fsdp")])
def test_what_was_searched_for_takes_no_longer_than_each_op_by_itself_once_it_is_made_better(
    step: str, sharding: str
) -> None:
    with Session(hardware=hardware("h100")):
        made = plan(step, sharding)
        searched, alone = (made.partition(effort=effort, optimize="all") for effort in ("default", "fast"))
        found = made.partition(effort="default")
    assert searched.searched is not None
    assert found.searched is not None
    assert searched.assessment.times.overlapped <= alone.assessment.times.overlapped * (1 + 1e-9)
    is_alone = any("each op is split by itself" in note.message for note in searched.notes)
    assert is_alone == (sharding == "data")
    if is_alone:
        assert (searched.searched.otherwise, searched.searched.seconds) == (0, searched.searched.seconds_before)
        assert searched.traffic == alone.traffic
        assert found.searched.otherwise
    searched.verify().require()


def test_of_what_takes_less_time_and_holds_much_more_a_part_is_taken_that_holds_hardly_more() -> None:
    with Session(hardware=hardware("h100")):
        made = plan("mixture_of_experts", "tensor")
        taken, alone = (made.partition(effort=effort, optimize="all") for effort in ("default", "fast"))
        searched = made.partition(effort="default").searched
        assert demand_of(taken.explicit).is_better(demand_of(alone.explicit))
    assert searched is not None
    assert searched.seconds < searched.seconds_before
    assert taken.assessment.times.overlapped < 0.7 * alone.assessment.times.overlapped
    assert any("hardly more is held of any tensor" in note.message for note in taken.notes)
    taken.verify().require()


@pytest.mark.parametrize(
    ("name", "lost"), [("shampoo", "collective-matmul"), ("split_vocabulary", "all-reduce-decompose")]
)
def test_a_change_that_leaves_less_to_put_together_is_not_made(name: str, lost: str) -> None:
    memory_is_free = replace(hardware("h100"), memory_bytes_per_second=None)  # else nothing is gained by its ring
    with Session(hardware=memory_is_free):
        made = NETS[name].plan() if name in NETS else plan(name, "fsdp")
        explicit, found = made.partition(effort="fast").explicit, made.partition(effort="fast", optimize="all")
        (weighed,) = [one for one in optimizations() if one.name == lost]
        assert weighed.is_weighed
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(registry._KNOWN, lost, replace(weighed, is_weighed=False))
            unweighed = optimize(explicit)
        assert demand_of(found.explicit).seconds < 0.95 * demand_of(unweighed.graph).seconds
    assert lost in {one.by for one in unweighed.improvements}
    assert found.improvements is not None
    assert lost not in {one.by for one in found.improvements}
    found.verify().require()
