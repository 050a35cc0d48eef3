"""Plans applied again: a program that is as it was gets the plan that was saved; of another, what still fits."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.plans.load import load_saved
from shardwright.plans.read import parse_plan
from shardwright.plans.saved import PlannedTensor, SavedPlan
from shardwright.plans.text import plan_text
from tests.models.steps.all import SHARDINGS, STEPS
from tests.models.steps.all import plan as step

EXAMPLES = Path(__file__).parents[2] / "examples"

PERCEPTRON = """
func.func @main(%x: tensor<16x64xf32>, %w1: tensor<64x256xf32>, %w2: tensor<256x64xf32>) -> tensor<16x64xf32> {
  %0 = stablehlo.dot %x, %w1 : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  %1 = stablehlo.tanh %0 : tensor<16x256xf32>
  %2 = stablehlo.dot %1, %w2 : (tensor<16x256xf32>, tensor<256x64xf32>) -> tensor<16x64xf32>
  return %2 : tensor<16x64xf32>
}
"""
MESH = sw.Mesh(data=2, model=4)
ARGS = {"x": "data,-", "w1": "-,model", "w2": "model,-"}


def planned(text: str = PERCEPTRON) -> sw.Plan:
    return sw.load(text).shard(MESH, {"x": ARGS["x"], "w1": ARGS["w1"]})


@pytest.mark.parametrize("name", ["gpt2", "mlp", "decode", "gpt32_scan"])
def test_an_example_gets_the_plan_that_was_saved_to_the_byte(name: str, tmp_path: Path) -> None:
    plan = sw.load(EXAMPLES / f"{name}.mlir").plan()
    plan.save(tmp_path / "plan.toml")
    assert sw.load_plan(tmp_path / "plan.toml") == plan.saved
    again = sw.load(EXAMPLES / f"{name}.mlir").apply(tmp_path / "plan.toml", strict=True)
    assert again.module() == plan.module()
    assert (again.fit and again.fit.new, again.notes) == ((), ())


@pytest.mark.parametrize("kind", SHARDINGS)
def test_so_do_models(kind: str) -> None:
    for name in list(STEPS)[::6]:
        plan = step(name, kind)
        saved = parse_plan(plan_text(plan.saved), "plan.toml")
        assert (saved, plan.program.apply(saved, strict=True).module()) == (plan.saved, plan.module()), name


def test_a_program_without_a_mesh_gets_that_of_the_plan(tmp_path: Path) -> None:
    planned().save(tmp_path / "plan.toml")
    again = sw.load(PERCEPTRON).apply(str(tmp_path / "plan.toml"))
    assert again.module() == planned().module()
    assert again.mesh == MESH


def test_what_was_completed_stays_where_what_was_said_leads_elsewhere_now() -> None:
    saved = planned().saved
    assert repr(saved.arguments["w2"]) == repr(
        PlannedTensor(planned().arguments["w2"], None, saved.arguments["w2"].type)
    )
    changed = PERCEPTRON.replace("stablehlo.tanh %0", "stablehlo.constant dense<1.0>")
    assert repr(planned(changed).arguments["w2"]) == "[{}, {}]"
    again = sw.load(changed).apply(saved)
    assert (repr(again.arguments["w2"]), again.notes) == ("[{model}, {}]", ())
    assert repr(again.results["result0"]) == repr(planned().results["result0"])


def misfit(changed: str, mesh: sw.Mesh | None = None, saved: SavedPlan | None = None) -> tuple[str, str, sw.Plan]:
    """The one entry that does not fit: why, what to change, and the plan without it."""
    again = sw.load(changed).apply(saved or planned().saved, mesh)
    assert again.fit is not None
    [unfit] = again.fit.unfit
    assert [note.message for note in again.notes if note.is_fallback] == [f"the plan does not fit: {unfit.cause}"]
    assert unfit.remedy in [note.remedy for note in again.notes]
    return f"{unfit.what} {unfit.name}: {unfit.cause}", unfit.remedy, again


def test_an_argument_that_has_another_name_is_told_with_it() -> None:
    told, remedy, again = misfit(PERCEPTRON.replace("%w1", "%w1_up"))
    assert told == "argument w1: the program has no such argument; it has 'w1_up', 'w2' and 1 more"
    assert remedy == "if it is called 'w1_up' now, write that in the plan"
    assert repr(again.arguments["x"]) == "[{data}, {}]"
    assert again.fit is not None
    assert again.fit.new == ("w1_up",)


def test_an_argument_that_is_gone_is_told() -> None:
    told, remedy, _ = misfit(PERCEPTRON.replace("%w2", "%v"), saved=only("w2"))
    assert told == "argument w2: the program has no such argument; it has 'w1' and 2 more"
    assert remedy == "if it is called 'v' now, write that in the plan"
    identity = "func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {\n  return %x : tensor<64xf32>\n}\n"
    told, remedy, _ = misfit(identity, saved=only("w2"))
    assert told == "argument w2: the program has no such argument; it has 'x'"
    assert remedy == "leave it out"


def test_a_dimension_that_no_longer_divides_is_told() -> None:
    told, _, again = misfit(PERCEPTRON.replace("tensor<16x", "tensor<15x"), saved=only("x"))
    assert told == (
        "argument x: dimension 0 of tensor<15x64xf32> does not divide by 2 (data=2); "
        "when the plan was made it was 16 over 2"
    )
    assert repr(again.arguments["x"]) == "[{}, {}]"


def only(name: str) -> SavedPlan:
    """A plan that says something of one argument alone, and of no result."""
    saved = sw.load(PERCEPTRON).shard(MESH, {name: ARGS[name]}).saved
    return replace(saved, arguments={name: saved.arguments[name]}, results={})


def test_what_did_not_divide_when_the_plan_was_made_was_meant_so() -> None:
    uneven = PERCEPTRON.replace("16x", "15x")
    plan = planned(uneven)
    again = sw.load(uneven).apply(plan.saved, strict=True)
    assert again.module() == plan.module()
    assert repr(again.arguments["x"]) == "[{data}, {}]"


def test_another_rank_is_told() -> None:
    other = "func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {\n  return %x : tensor<64xf32>\n}\n"
    told, _, _ = misfit(other, saved=only("x"))
    assert told == "argument x: it is tensor<64xf32>, the plan says 2 dimensions, [{data}, {}]"


def test_an_axis_that_the_mesh_lacks_is_told_and_others_are_found_by_name() -> None:
    told, remedy, _ = misfit(PERCEPTRON, sw.Mesh(modes=4, data=4), only("w1"))
    assert told == "argument w1: the mesh has no axis 'model', it has modes=4, data=4"
    assert remedy == "write 'modes' in its place, or give the mesh such an axis"
    other = sw.load(PERCEPTRON).apply(planned().saved, sw.Mesh(model=2, data=8))
    assert repr(other.arguments["x"]) == "[{data}, {}]"
    assert [note.message for note in other.notes] == [
        "the plan was made for Mesh(data=2, model=4), and is applied on Mesh(model=2, data=8)"
    ]


def test_a_part_of_an_axis_that_is_too_small_is_told() -> None:
    plan = sw.load(PERCEPTRON).shard(MESH, {"x": "model:(2)2,."})
    told, _, _ = misfit(PERCEPTRON, sw.Mesh(data=2, model=2), replace(plan.saved, results={}))
    assert told == "argument x: sub-axis 'model':(2)2 does not fit axis 'model' of size 2"


def test_axes_of_size_1_need_not_be_there() -> None:
    plan = sw.load(PERCEPTRON).shard(sw.Mesh(data=2, stage=1), {"x": "data+stage,."})
    again = sw.load(PERCEPTRON).apply(plan.saved, {"data": 2}, strict=True)
    assert repr(again.arguments["x"]) == "[{data}, {}]"


def test_strict_names_all_that_does_not_fit_with_its_line(tmp_path: Path) -> None:
    planned().save(tmp_path / "plan.toml")
    program = sw.load(PERCEPTRON.replace("%w", "%u"))
    with pytest.raises(sw.ShardingError) as caught:
        program.apply(tmp_path / "plan.toml", strict=True)
    path = tmp_path / "plan.toml"
    assert str(caught.value) == (
        f"{path}:13: error: the plan does not fit the program: 2 entries of 4\n"
        f"  why:    {path}:13: argument 'w1': the program has no such argument; it has 'u1' and 2 more\n"
        f"          {path}:14: argument 'w2': the program has no such argument; it has 'u2' and 2 more\n"
        "  change: if it is called 'u1' now, write that in the plan\n"
        "          if it is called 'u2' now, write that in the plan\n"
        "          or do without strict"
    )
    with pytest.raises(sw.ShardingError, match="2 fallbacks"):
        program.apply(path).partition(strict=True)


def test_args_win_over_the_plan() -> None:
    again = sw.load(PERCEPTRON).apply(planned().saved, args={"w1": ".,.", "w2": ".,model"})
    assert [repr(again.arguments[name]) for name in ("x", "w1", "w2")] == ["[{data}, {}]", "[{}, {}]", "[{}, {model}]"]


def test_a_path_means_all_below_it_and_the_more_specific_name_wins() -> None:
    program = sw.load(EXAMPLES / "gpt2.mlir")
    text = (
        'shardwright_plan = 1\nmesh.axes = [["data", 2], ["model", 4]]\n[arguments]\n'
        '"params/blocks/1" = "."\n"params/blocks/1/w_up" = "model,."\n"params[\'blocks\'][0][\'w_up\']" = "model,."\n'
    )
    again = program.apply(parse_plan(text, "plan.toml"))
    assert again.fit is not None
    assert repr(again.arguments["params/blocks/1/w_up"]) == "[{model}, {}]"
    assert repr(again.arguments["params/blocks/0/w_up"]) == "[{model}, {}]"
    assert "params/blocks/1/b_up" in again.fit.arguments
    assert {one.name.rpartition("/")[2] for one in again.fit.unfit} == {"w_down", "wk", "wo", "wq", "wv"}
    assert all(one.location == "plan.toml:4" for one in again.fit.unfit)


def test_what_the_plan_does_not_know_is_left_to_propagation_and_told() -> None:
    saved = planned().saved
    known = replace(saved, arguments={name: saved.arguments[name] for name in ("x", "w1")})
    again = sw.load(PERCEPTRON).apply(known, strict=True)
    assert again.module() == planned().module()
    [note] = again.notes
    assert (note.message, note.is_fallback) == (
        "the plan says nothing of 'w2', which propagation completes",
        False,
    )


def test_how_it_was_propagated_and_partitioned_is_taken_over_unless_asked_otherwise(tmp_path: Path) -> None:
    plan = sw.load(PERCEPTRON).shard(MESH, {"x": ARGS["x"]}, strategy="basic", conservative=True)
    spmd = plan.partition(effort="default", optimize="all")
    spmd.save(tmp_path / "plan.toml")
    again = sw.load(PERCEPTRON).apply(tmp_path / "plan.toml")
    assert (again.strategy, again.conservative) == ("basic", True)
    assert again.partition().partitioning == spmd.partitioning
    assert again.partition(effort="fast").partitioning == replace(spmd.saved.partitioning, effort="fast")  # type: ignore[type-var]
    other = sw.load(PERCEPTRON).apply(tmp_path / "plan.toml", strategy="user-priority", conservative=False)
    assert (other.strategy, other.conservative) == ("user-priority", False)


def test_what_it_came_to_is_what_the_program_comes_to(tmp_path: Path) -> None:
    with sw.Session(hardware=sw.hardware("h100")):
        spmd = planned().partition()
    spmd.save(tmp_path / "plan.toml")
    saved = load_saved(tmp_path / "plan.toml")
    assert saved == spmd.saved
    assert saved.outcome is not None
    assert saved.partitioning is not None
    assert saved.partitioning.hardware == "h100"
    assert saved.outcome.bytes_sent == spmd.traffic.total.executed_bytes
    assert saved.outcome.collectives == spmd.traffic.total.executed
    assert (saved.outcome.argument_bytes, saved.outcome.peak_bytes) == (spmd.memory.arguments, spmd.memory.peak)
    assert saved.outcome.seconds == pytest.approx(spmd.assessment.times.overlapped)


def test_the_way_back_and_copies_keep_the_fit() -> None:
    again = sw.load(PERCEPTRON).apply(planned().saved)
    assert again.partition().plan.fit is again.fit
    copy = pickle.loads(pickle.dumps(again))
    assert copy.fit == again.fit
    assert again.with_arguments({"w1": ".,."}).fit is again.fit


ODD = {
    "all communication written": "",
    "an argument on one device": """
sdy.mesh @m = <["x"=2]>
sdy.mesh @one = <[], device_ids=[1]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>},
    %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  return %b : tensor<8xf32>
}
""",
    "tokens and priorities": """
sdy.mesh @m = <["x"=2]>
func.func @main(%t: !stablehlo.token, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", ?}p1]>})
    -> (!stablehlo.token, tensor<8xf32>) {
  return %t, %b : !stablehlo.token, tensor<8xf32>
}
""",
}


@pytest.mark.parametrize("name", ODD)
def test_so_do_odd_programs(name: str) -> None:
    program = sw.load(ODD[name] or sw.load(EXAMPLES / "mlp.mlir").plan().partition().module("explicit"))
    plan = program.plan()
    saved = parse_plan(plan_text(plan.saved), "plan.toml")
    again = program.apply(saved, strict=True)
    assert (saved, again.module(), again.notes) == (plan.saved, plan.module(), ())


def test_a_program_on_several_meshes_is_refused() -> None:
    text = """
sdy.mesh @m = <["x"=2]>
sdy.mesh @n = <["x"=2], device_ids=[1, 0]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@n, [{"x"}]>},
    %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  return %b : tensor<8xf32>
}
"""
    with pytest.raises(sw.ShardingError, match="argument 'a' lies on"):
        _ = sw.load(text).plan().saved


def test_constraints_are_written_down_with_their_lines() -> None:
    saved = sw.load(EXAMPLES / "mlp.mlir").plan().saved
    assert [(one.at, repr(one.sharding)) for one in saved.constraints] == [
        ("examples/mlp.py:22", "[{}, {}, {y, z}]"),
        ("examples/mlp.py:24", "[{}, {}, {x, y, z}]"),
    ]


@pytest.mark.parametrize("source", [5, None, ["plan.toml"]])
def test_what_is_no_plan_is_refused(source: object) -> None:
    with pytest.raises(sw.ShardingError, match="not a path"):
        sw.load(PERCEPTRON).apply(source)  # type: ignore[arg-type]


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sw.ShardingError, match="cannot read"):
        sw.load_plan(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(sw.ShardingError, match="the plan is not text"):
        sw.load_plan(tmp_path / "bytes.toml")
