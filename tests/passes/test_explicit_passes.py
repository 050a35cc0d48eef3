"""The passes that make communication explicit and go local: what our stages do, in place, for every program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import ir, load_module, module_text
from shardwright.notation.modules import read, write
from shardwright.partition import check, localize, materialize
from shardwright.passes import dense_groups
from shardwright.passes.pipeline import run_step, steps_of
from shardwright.propagation import propagate
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.programs import random_program

_PROGRAM = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func private @g(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot %a, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = call @g(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""
_PROPAGATED = "sdy-propagation-pipeline"
_Named = tuple[str, dict[str, bool]]
_FULL: _Named = ("sdy-insert-explicit-reshards", {"enable-full-version": True})
_COLLECTIVES: _Named = ("sdy-reshard-to-collectives", {})
_LOCAL: _Named = ("sdy-convert-global-to-local", {})
_DROPPED: _Named = ("sdy-drop-sharding-and-mesh", {})


def _module(text: str, *passes: _Named) -> ir.Module:
    module = load_module(text)
    for name, options in passes:
        for step in steps_of(name, options):
            run_step(module, step)
    assert module.operation.verify()
    return module


def _body(module: ir.Module) -> str:
    """A module's `@main` as text."""
    text = module_text(module).replace("func.func public", "func.func")
    return text[text.index("func.func @main") :]


def test_a_program_is_made_explicit_as_by_the_partitioner() -> None:
    propagated = propagate(read(load_module(_PROGRAM)))
    made = _module(module_text(write(propagated)), _FULL)
    assert _body(made).count("sdy.all_reduce") == 1
    assert _body(made) == _body(write(materialize(propagated).graph))
    check(read(made))


def test_what_is_explicit_stays() -> None:
    once = _module(_PROGRAM, (_PROPAGATED, {}), _FULL)
    assert _body(_module(module_text(once), _COLLECTIVES)) == _body(once)


def test_called_functions_are_gone_and_meshes_stay() -> None:
    text = module_text(_module(_PROGRAM, (_PROPAGATED, {}), _COLLECTIVES))
    assert "@g" not in text
    assert 'sdy.mesh @mesh = <["x"=2, "y"=4]>' in text


def test_the_default_leaves_reshards_to_the_partitioner() -> None:
    before = _module(_PROGRAM, (_PROPAGATED, {}))
    after = _module(module_text(before), ("sdy-insert-explicit-reshards", {}))
    assert module_text(after) == module_text(before)
    assert "all_reduce" not in module_text(after)


def test_a_local_program_is_that_of_the_partitioner() -> None:
    propagated = propagate(read(load_module(_PROGRAM)))
    made = _module(module_text(write(propagated)), ("sdy-convert-global-to-local", {"enable-rgv3": True}), _DROPPED)
    assert "tensor<4x4xf32>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32>" in _body(made)
    local = write(localize(materialize(propagated).graph), shardings=False)
    assert _body(made) == _body(local)


def test_replica_groups_list_devices_unless_rgv3_is_asked_for() -> None:
    text = module_text(_module(_PROGRAM, (_PROPAGATED, {}), _LOCAL))
    assert "replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>" in text
    assert "mesh_axes" not in text
    compact = module_text(_module(_PROGRAM, (_PROPAGATED, {}), ("sdy-convert-global-to-local", {"enable-rgv3": True})))
    assert 'mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>' in compact


def test_replica_groups_of_very_many_devices_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_groups, "_MOST_DEVICES", 4)
    with pytest.raises(ShardingError, match="groups of 8 devices are not spelt out") as caught:
        _module(_PROGRAM, (_PROPAGATED, {}), _LOCAL)
    assert "enable-rgv3" in (caught.value.diagnostic.remedy or "")


def test_explicit_first_or_not_the_local_program_is_the_same() -> None:
    at_once = _module(_PROGRAM, (_PROPAGATED, {}), _LOCAL, _DROPPED)
    in_steps = _module(_PROGRAM, (_PROPAGATED, {}), _FULL, _COLLECTIVES, _LOCAL, _DROPPED)
    assert _body(at_once) == _body(in_steps)


_SEVERAL = """
sdy.mesh @mesh = <["x"=2]>
sdy.mesh @three = <["x"=3]>
func.func @first(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @second(%a: tensor<9xf32> {sdy.sharding = #sdy.sharding<@three, [{"x"}]>})
    -> (tensor<9xf32> {sdy.sharding = #sdy.sharding<@three, [{"x"}]>}) {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@three, [{"x"}]>]>} : tensor<9xf32>
  return %0 : tensor<9xf32>
}
"""


def test_every_function_that_is_entered_is_a_program_of_its_own() -> None:
    text = module_text(_module(_SEVERAL, _LOCAL, _DROPPED))
    assert "@first(%arg0: tensor<4xf32>) -> tensor<4xf32>" in text
    assert "@second(%arg0: tensor<3xf32>) -> tensor<3xf32>" in text


def test_meshes_of_different_size_in_one_program_are_refused_and_nothing_is_changed() -> None:
    text = _SEVERAL.replace(
        "tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@three",
        "tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh",
        1,
    )
    module = load_module(text)
    before = module_text(module)
    (step,) = steps_of(*_LOCAL)
    with pytest.raises(ShardingError, match="function @second uses meshes of different size"):
        run_step(module, step)
    assert module_text(module) == before


def test_a_mesh_of_another_size_that_a_sharding_spells_out_is_refused_too() -> None:
    text = _SEVERAL.replace("per_value<[<@three", 'per_value<[<mesh<["x"=2]>', 1)
    with pytest.raises(ShardingError, match="function @second uses meshes of different size") as caught:
        _module(text, _LOCAL)
    assert "Mesh(x=2) of 2" in (caught.value.diagnostic.cause or "")


def test_a_module_without_a_mesh_stays() -> None:
    text = "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}"
    assert module_text(_module(text, _FULL, _COLLECTIVES, _LOCAL)) == module_text(load_module(text))


_AWAITED = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x", "y"}>}) {
  %0 = stablehlo.tanh %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def test_sums_that_are_left_to_be_made_are_layouts_to_the_partitioner() -> None:
    propagated = _module(_AWAITED, (_PROPAGATED, {}))
    assert "sdy.replicated_to_unreduced" in module_text(propagated)
    assert "sdy.sharded_to_unreduced" in module_text(propagated)
    without = _module(_AWAITED)
    for step in steps_of(_PROPAGATED):
        if step.entry.name != "sdy-insert-explicit-reshards":
            run_step(without, step)
    assert _body(_module(module_text(propagated), _LOCAL)) == _body(_module(module_text(without), _LOCAL))


@pytest.mark.oracle
def test_the_pipeline_is_that_of_shardy(record_property: Callable[[str, object], None]) -> None:
    texts = [random_program(seed) for seed in range(40)]
    answers = run_batch([(text, f"builtin.module({_PROPAGATED})") for text in texts])
    for text, theirs in zip(texts, answers, strict=True):
        assert not isinstance(theirs, ShardyFailure)
        assert module_text(_module(text, (_PROPAGATED, {}))) == theirs
    record_property("summary", f"{len(texts)} modules after the propagation pipeline, byte for byte")
