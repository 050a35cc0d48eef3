"""`sw.tune` and `shardwright tune`: other shardings of arguments, one at a time, are what a fresh plan comes to.

`SHARDWRIGHT_FUZZ=N` tries N random programs in the long mode.
"""

from __future__ import annotations

import json
import os
import random
from operator import ne
from pathlib import Path

import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.program import tuning
from shardwright.program.tuning import Trial, alternatives, trials_of, tried
from shardwright.sharding import TensorSharding
from tests.graphs.programs import program
from tests.models.steps.all import SHARDINGS, STEPS
from tests.models.steps.all import plan as step
from tests.straight import straight_program

EXAMPLES = Path(__file__).parents[1] / "examples"
COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "400"))
SEEDS = 25

LAYERS = """
sdy.mesh @m = <["data"=2, "model"=4]>
func.func @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@m, [{"data"}, {}]>}, %w0: tensor<64x64xf32>,
    %w1: tensor<64x64xf32>, %b: tensor<6xf32>) -> (tensor<16x64xf32>, tensor<6xf32>) {
  %0 = stablehlo.dot %x, %w0 : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %1 = stablehlo.tanh %0 : tensor<16x64xf32>
  %2 = stablehlo.dot %1, %w1 : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  return %2, %b : tensor<16x64xf32>, tensor<6xf32>
}
"""


def told(*args: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(cli, ["tune", *args], input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("body", ["", "%0 = stablehlo.sine %a : tensor<8x16xf32>"])
def test_what_returns_nothing_takes_no_time_however_it_lies(body: str) -> None:
    text = f"""sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
  {body}
  return
}}"""
    tuning = sw.tune(sw.load(text).plan())
    assert tuning.trials
    assert not any(trial.outcome.seconds for trial in tuning.trials)


def test_layers_are_changed_together_and_others_alone() -> None:
    trials = trials_of(sw.load(LAYERS).plan())
    names = {names for names, _ in trials}
    assert names == {("x",), ("w0", "w1"), ("b",)}
    assert {repr(one) for names, one in trials if names == ("b",)} == {"[{data}]"}
    assert len(trials_of(sw.load(LAYERS).plan(), ["w"])) == len(alternatives(*_matrix())) - 1


def _matrix() -> tuple[TensorType, sw.Mesh]:
    plan = sw.load(LAYERS).plan()
    return plan.source.graph.arguments["w0"], plan.mesh


def test_what_is_tried_is_a_plan_of_its_own() -> None:
    plan = sw.load(LAYERS).plan()
    tuned = sw.tune(plan, ["w"])
    assert not tuned.refused
    best, *_ = tuned.best(3)
    assert best.outcome.seconds == min(one.outcome.seconds for one in tuned.trials)
    assert best.outcome == best.plan.partition(effort="fast").outcome
    assert best.arguments == ("w0", "w1")
    assert best.changed >= 2
    assert tuned.outcome == plan.partition(effort="fast").outcome
    best.plan.partition(effort="fast").verify().require()


@pytest.mark.parametrize(("name", "sharding"), [("sgd", "tensor"), ("adam", "fsdp"), ("scan_of_six_layers", "data")])
def test_a_changed_plan_is_what_a_fresh_one_is(name: str, sharding: str) -> None:
    """Changed once and again, it is what a plan is that was given all of it at once."""
    plan, rng = step(name, sharding), random.Random(name)
    changed, said = plan, dict[str | int, TensorSharding]()
    for _ in range(3):
        names, other = rng.choice(trials_of(changed))
        said |= dict.fromkeys(names, other)
        changed = changed.with_arguments(dict.fromkeys(names, other))
        fresh = plan.with_arguments(said)
        assert changed.graph.shardings == fresh.graph.shardings
        assert changed.partition(effort="fast").outcome == fresh.partition(effort="fast").outcome
    assert all(changed.arguments[str(name)].closed() == one for name, one in said.items())


def wrong(plan: sw.Plan, count: int, rng: random.Random) -> tuple[list[str], int]:
    """The trials, of so many by lot, that do not say what a fresh plan says, and how many went on from others."""
    trials, found, followed = trials_of(plan), list[str](), 0
    for names, sharding in rng.sample(trials, min(count, len(trials))):
        try:
            trial = tried(plan, names, sharding)
        except ShardingError:
            continue
        fresh = plan.with_arguments(dict.fromkeys(names, sharding))
        changed = sum(map(ne, plan.graph.shardings, fresh.graph.shardings))
        said = fresh.partition(effort="fast").outcome, changed, plan.arguments[names[0]].closed()
        followed += not trial.is_afresh
        if said != (trial.outcome, trial.changed, trial.before):
            found.append(f"{names} as {sharding!r}: {trial.outcome}, not {said}")
    return found, followed


def test_what_goes_on_from_other_trials_is_what_a_fresh_plan_comes_to() -> None:
    """Of the example, in any order of trials: number by number."""
    rng = random.Random(0)
    found, followed = wrong(sw.load(EXAMPLES / "gpt2.mlir").plan(), 12, rng)
    assert (found, followed) == ([], 12)
    for name, sharding in (("adam", "fsdp"), ("sgd", "tensor"), ("remat", "data"), ("scan_of_six_layers", "tensor")):
        found, _ = wrong(step(name, sharding), 6, rng)
        assert not found, (name, sharding)


@pytest.mark.long
@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("name", STEPS)
def test_trials_of_all_models_are_what_fresh_plans_come_to(name: str, sharding: str) -> None:
    found, followed = wrong(step(name, sharding), 30, random.Random(f"{name} {sharding}"))
    print(f"{followed} went on from others")
    assert not found


def test_trials_of_random_programs_are_what_fresh_plans_come_to() -> None:
    followed = [random_trials(sw.load(straight_program(seed)).plan(), seed) for seed in range(SEEDS)]
    assert sum(followed) >= 4 * SEEDS


@pytest.mark.long
def test_trials_of_many_random_programs_are_what_fresh_plans_come_to() -> None:
    for seed in range(COUNT):
        random_trials(sw.load(straight_program(SEEDS + seed)).plan(), seed)
        if seed % 4 == 0:  # with control flow, groups, and sizes that do not divide
            try:
                plan = sw.load(program(seed).lowered()).plan()
            except ShardingError:
                continue
            random_trials(plan, seed)


def random_trials(plan: sw.Plan, seed: int) -> int:
    """Some trials by lot, each what a fresh plan comes to; how many went on from others."""
    found, followed = wrong(plan, 6, random.Random(seed))
    assert not found, f"seed {seed}"
    return followed


def test_an_argument_that_is_not_there_is_refused() -> None:
    plan = sw.load(LAYERS).plan()
    with pytest.raises(ShardingError, match="no argument has a name that begins with 'v'"):
        sw.tune(plan, ["v"])
    with pytest.raises(ShardingError, match="v"):
        tried(plan, ("v",), TensorSharding.of(plan.mesh, [[], []]))


def test_what_cannot_be_split_so_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(plan: sw.Plan, names: tuple[str, ...], sharding: TensorSharding) -> Trial:
        if names == ("x",):
            raise ShardingError("an op cannot be split so")
        return tried(plan, names, sharding)

    monkeypatch.setattr(tuning, "tried", refusing)
    tuned = sw.tune(sw.load(LAYERS).plan())
    assert {trial.arguments for trial in tuned.trials} == {("w0", "w1"), ("b",)}
    assert len(tuned.refused) == len(trials_of(sw.load(LAYERS).plan(), ["x"]))
    assert f", {len(tuned.refused)} more cannot be split so" in told("-", stdin=LAYERS)


def test_people_get_a_table_and_machines_the_same() -> None:
    text = told("-", "w", "--top", "3", "--hardware", "h100", stdin=LAYERS)
    lines = text.splitlines()
    assert lines[0].endswith("other shardings tried, one at a time")
    assert "w0 and 1 alike" in lines[3]
    assert len(lines) == 6
    answer = json.loads(told("-", "w", "--top", "3", "--hardware", "h100", "--json", stdin=LAYERS))
    assert len(answer["best"]) == 3
    assert answer["best"][0]["arguments"] == ["w0", "w1"]
    assert f"{answer['now']['seconds'] * 1e6:,.2f} µs" in lines[2]


def test_examples_are_tried() -> None:
    assert "90 other shardings tried" in told(str(EXAMPLES / "mlp.mlir"))
