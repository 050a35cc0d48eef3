"""The propagation passes against the C++ passes of the same names. `SHARDWRIGHT_FUZZ=N` takes N random programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.passes.registry import Pass, pass_named
from tests.passes.differential import Job, Value, assert_same, ours, prepared
from tests.propagation.programs import random_program

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "12"))
_NAMES = tuple(f"sdy-{strategy}-propagate" for strategy in ("basic", "aggressive", "op-priority", "user-priority"))
_GROUP = re.compile(r"^ *sdy\.sharding_group .*\n", re.MULTILINE)
_RULES = "sdy-populate-op-sharding-rules"
_IMPORT = (
    "symbol-dce,sdy-lift-inlined-meshes,sdy-remove-size-one-axes,sdy-constant-or-scalar-splitter,symbol-dce,"
    "sdy-manual-axes-cleanup,sdy-add-data-flow-edges,sdy-apply-sharding-constraints,sdy-sharding-group-import"
)

_FUNCTIONS = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
sdy.mesh @three = <["x"=3]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>, jax.x = 1 : i32},
    %b: tensor<16x4xf32>) -> (tensor<8x4xf32>, tensor<8x16xf32>) attributes {k} {
  %0 = stablehlo.add %a, %a : tensor<8x16xf32>
  %dead = stablehlo.tanh %a : tensor<8x16xf32>
  %1 = stablehlo.dot %0, %b {
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=4, k=16}, custom>
  } : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %2:2 = stablehlo.custom_call @unknown(%1) : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return %1, %0 : tensor<8x4xf32>, tensor<8x16xf32>
}
func.func private @g(%a: tensor<9x9xf32> {sdy.sharding = #sdy.sharding<@three, [{"x"}, {}]>}) -> tensor<9x9xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<9x9xf32>
  %0 = stablehlo.add %a, %c {
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=9, j=9}>} : tensor<9x9xf32>
  return %0 : tensor<9x9xf32>
}
func.func private @h(%a: tensor<9x9xf32>, %i: tensor<i32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<9x9xf32> {
  %0 = func.call @g(%a) {sdy.sharding = #sdy.sharding_per_value<[<@three, [{}, {"x"}]>]>}
    : (tensor<9x9xf32>) -> tensor<9x9xf32>
  %unread = func.call @g(%0) : (tensor<9x9xf32>) -> tensor<9x9xf32>
  %1:2 = stablehlo.custom_call @unknown(%0) : (tensor<9x9xf32>) -> (tensor<9x9xf32>, tensor<4xf32>)
  %2 = stablehlo.negate %1#0 {mine = "kept"} : tensor<9x9xf32>
  %3:2 = "stablehlo.sort"(%2, %0) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
      %p = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<9x9xf32>, tensor<9x9xf32>) -> (tensor<9x9xf32>, tensor<9x9xf32>)
  return %3#1 : tensor<9x9xf32>
}
"""
_PRIORITIES = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p0, {"y", ?}p2]>},
    %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p1, {?}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{?}, {"y", ?}p1]> : tensor<8x8xf32>
  %2 = stablehlo.dot %1, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
"""


def _imported(first: int, count: int) -> list[str]:
    return prepared([random_program(seed) for seed in range(first, first + count)], _IMPORT)


def _options(number: int, name: str) -> dict[str, Value]:
    options: dict[str, Value] = {}
    if number % 2:
        options["conservative-propagation"] = True
    if name == _RULES:
        return options
    if number % 3 == 0:
        options["keep-sharding-rules"] = True
    if name != _NAMES[0] and number % 4:
        options["propagation-strategy"] = ("basic", "aggressive", "basic-then-aggressive")[number % 3]
    if name in _NAMES[2:] and number % 5 == 0:
        options["run-op-priority-propagation"] = False
    return options


def _compare(first: int, count: int) -> int:
    texts = [_FUNCTIONS, _PRIORITIES, *_imported(first, count)]
    return assert_same(
        [Job(text, name, _options(number, name)) for number, text in enumerate(texts) for name in (*_NAMES, _RULES)]
    )


@pytest.mark.oracle
def test_modules_are_propagated_as_the_passes_of_these_names_do(record_property: Callable[[str, object], None]) -> None:
    compared = _compare(0, _COUNT)
    assert compared > 4 * _COUNT
    record_property("summary", f"{compared} modules after propagation and rules, byte for byte")


@pytest.mark.oracle
@pytest.mark.long
def test_many_modules_are_propagated_as_the_passes_of_these_names_do() -> None:
    assert _compare(5000, 300) > 1200


@pytest.mark.oracle
def test_debug_attributes_are_those_of_the_passes() -> None:
    options: dict[str, Value] = {"debug-sharding-origins": True, "debug-propagation-edge-sharding": True}
    # of members of a group the C++ has no names either, or those of nothing
    texts = [_PRIORITIES, *(_GROUP.sub("", text) for text in _imported(100, _COUNT))]
    jobs = [Job(text, name, options) for text in texts for name in (_NAMES[0], _NAMES[3])]
    named = [job for job in jobs if "annotation_" not in ours(job)]  # the C++ has no names for those of ops
    assert assert_same(named) > 0


def _propagated(text: str, name: str = "sdy-user-priority-propagate", **options: Value) -> str:
    return ours(Job(text, name, {key.replace("_", "-"): value for key, value in options.items()}))


_TWO = """
sdy.mesh @mesh = <["x"=2]>
func.func @first(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @second(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @declared(tensor<8xf32>) -> tensor<8xf32>
"""


def test_without_a_main_all_functions_that_are_entered_are_programs() -> None:
    text = _propagated(_TWO)
    assert text.count('stablehlo.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x", ?}]>]>}') == 2
    assert text.count('-> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"') == 2
    assert '(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}]>}' in text
    assert "func.func private @declared(tensor<8xf32>) -> tensor<8xf32>" in text


def test_debug_attributes_count_the_arguments_of_each_function() -> None:
    text = _propagated(_TWO, debug_sharding_origins=True)
    assert 'stablehlo.tanh %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x", ?}]>]>, ' in text
    assert text.count('sdy.sharding_origins = [{x = "input: 0"}]') == 1
    assert text.count('sdy.sharding_origins = [{x = "output: 0"}]') == 1


def test_ops_that_may_have_effects_stay_though_nobody_reads_them() -> None:
    text = _propagated("""
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  %1 = "my.print"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.negate %a : tensor<8xf32>
  return %a : tensor<8xf32>
}""")
    assert '"my.print"' in text
    assert "stablehlo.tanh" in text
    assert "stablehlo.negate" not in text


_UNREAD = """
sdy.mesh @mesh = <["x"=2]>
func.func private @g(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %s: f32) -> tensor<8xf32> {
  %b = stablehlo.constant dense<true> : tensor<i1>
  %0 = "my.op"(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = func.call @g(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.negate %a : tensor<8xf32>
  %3 = arith.addf %s, %s : f32
  %6 = math.exp %s : f32
  %7 = chlo.tan %a : tensor<8xf32> -> tensor<8xf32>
  %8 = stablehlo.custom_call @foo(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %9 = mhlo.tan %a : tensor<8xf32>
  %10 = "mhlo.custom_call"(%a) {call_target_name = "foo", has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
  %12 = "stablehlo.if"(%b) ({
    %z = "my.op"(%a) : (tensor<8xf32>) -> tensor<8xf32>
    stablehlo.return %a : tensor<8xf32>
  }, {
    stablehlo.return %a : tensor<8xf32>
  }) : (tensor<i1>) -> tensor<8xf32>
  %13 = stablehlo.composite "my.c" %a {decomposition = @g} : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}
"""


@pytest.mark.oracle
def test_what_nobody_reads_goes_where_it_goes_in_the_cpp() -> None:
    """Calls and ops of unknown dialects stay, also within regions; pure ops of every known dialect go."""
    assert assert_same([Job(_UNREAD, name) for name in _NAMES], refusals=False) == len(_NAMES)


_UNREAD_LOOP = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %n: tensor<i32>)
    -> tensor<8x8xf32> {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w:2 = stablehlo.while(%i = %n, %b = %a) : tensor<i32>, tensor<8x8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %q = stablehlo.add %b, %b : tensor<8x8xf32>
      stablehlo.return %c, %q : tensor<i32>, tensor<8x8xf32>
    }
  %t = stablehlo.tanh %w#1 : tensor<8x8xf32>
  %r = "stablehlo.reduce_window"(%a, %z) <{
      window_dimensions = array<i64: 2, 2>, padding = dense<[[1, 0], [1, 0]]> : tensor<2x2xi64>}> ({
    ^bb0(%l: tensor<f32>, %m: tensor<f32>):
      %s = stablehlo.add %l, %m : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
"""


@pytest.mark.oracle
def test_a_loop_that_nobody_reads_goes_as_a_whole() -> None:
    """What its body holds was erased before what reads it there, which corrupted the heap."""
    assert assert_same([Job(_UNREAD_LOOP, name) for name in _NAMES], refusals=False) == len(_NAMES)
    assert "stablehlo.while" not in _propagated(_UNREAD_LOOP)


def test_carriers_are_propagated_as_carriers() -> None:
    text = _propagated("""
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {shardwright.sharding = "#sdy.sharding<@mesh, [{\\22x\\22}, {?}], unreduced=max{\\22y\\22}>"})
    -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}""")
    assert '[<@mesh, [{"x", ?}, {?}]>]' in text
    assert r'unreduced=max{\22y\22}>"' in text


def test_a_module_that_is_dumped_is_the_propagated_one(tmp_path: os.PathLike[str]) -> None:
    text = ours(Job(_PRIORITIES, "sdy-basic-propagate", {"module-dump-directory": str(tmp_path)}))
    with open(os.path.join(tmp_path, "00.propagation_after_basic.mlir"), encoding="utf-8") as file:
        assert module_text(load_module(file.read())) == module_text(load_module(text))


_IN_ONE_ROUND: dict[str, Value] = {"run-op-priority-propagation": False}


@pytest.mark.oracle
@pytest.mark.parametrize("factors", ["aggressive", "basic", "basic-then-aggressive"])
def test_user_priorities_without_those_of_ops_are_one_round_each(factors: str) -> None:
    options = {**_IN_ONE_ROUND, "propagation-strategy": factors}
    texts = [_PRIORITIES, *_imported(200, _COUNT)]
    assert assert_same([Job(text, _NAMES[3], options) for text in texts]) > _COUNT // 2


@pytest.mark.oracle
@pytest.mark.long
def test_many_modules_by_user_priority_alone() -> None:
    jobs = [
        Job(text, _NAMES[3], {**_IN_ONE_ROUND, "conservative-propagation": conservative})
        for text in _imported(7000, 300)
        for conservative in (False, True)
    ]
    assert assert_same(jobs) > 500


_ROUNDS = """
sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2, "w"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<8x8xf32>,
    %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"z"}p1]>},
    %d: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"w"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.dot %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.add %0, %c : tensor<8x8xf32>
  %2 = stablehlo.multiply %1, %d : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
"""


@pytest.mark.parametrize(
    ("name", "in_rounds", "product"),
    [
        (_NAMES[3], True, '{"y", ?}, {"w", ?}'),
        (_NAMES[3], False, '{"x", ?}, {"w", ?}'),
        (_NAMES[2], True, '{"y", ?}, {"z", ?}'),
        (_NAMES[2], False, '{"x", ?}, {"z", ?}'),
    ],
)
def test_priorities_of_users_and_of_ops_go_without_each_other(name: str, in_rounds: bool, product: str) -> None:
    text = _propagated(_ROUNDS, name, run_op_priority_propagation=in_rounds)
    assert f"stablehlo.dot %arg0, %arg1 {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{product}]>]>}}" in text


def test_dynamic_shapes_are_refused_at_their_place() -> None:
    declared = pass_named("sdy-basic-propagate")
    assert isinstance(declared, Pass)
    text = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  %0 = stablehlo.tanh %a : tensor<?xf32>\n"
    text += "  return %0 : tensor<?xf32>\n}"
    with pytest.raises(ShardingError, match="is not a tensor of static shape") as caught:
        declared.apply(load_module(text), declared.defaults())
    assert caught.value.diagnostic.location.startswith("-:2")


_UNSIZED = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<?x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}]>}, %b: tensor<8x8xf32> {
    sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> (tensor<i32>, tensor<8x8xf32>, tensor<?x8xf32>) {
  %0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %1 = stablehlo.tanh %b : tensor<8x8xf32>
  %2 = stablehlo.optimization_barrier %1 : tensor<8x8xf32>
  return %0, %2, %a : tensor<i32>, tensor<8x8xf32>, tensor<?x8xf32>
}
"""


@pytest.mark.oracle
def test_arguments_of_dynamic_shape_pass_where_no_op_makes_more_of_them() -> None:
    alone = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}"
    jobs = [Job(text, name) for name in (*_NAMES, "sdy-populate-op-sharding-rules") for text in (alone, _UNSIZED)]
    assert assert_same(jobs, refusals=False) == len(jobs)


_TWO_GROUPS = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>},
    %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}]>},
    %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>},
    %d: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}) -> tensor<8x8xf32> {
  sdy.sharding_group %a group_id=7 : tensor<8x8xf32>
  sdy.sharding_group %c group_id=3 : tensor<8x8xf32>
  sdy.sharding_group %b group_id=7 : tensor<8x8xf32>
  sdy.sharding_group %d group_id=3 : tensor<8x8xf32>
  %0 = stablehlo.dot %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.dot %c, %d : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
"""


@pytest.mark.oracle
def test_groups_that_contradict_themselves_get_constraints_in_the_order_of_their_numbers() -> None:
    texts = [_TWO_GROUPS, _TWO_GROUPS.replace("group_id=7", "group_id=1")]
    assert assert_same([Job(text, name) for text in texts for name in _NAMES], refusals=False) == 8


@pytest.mark.parametrize("number", [7, 5])
def test_a_value_is_in_a_group_once_whatever_no_pass_has_united(number: int) -> None:
    """The C++ constrains a constraint where the number is the same, and ends the process where it is another."""
    member = "  sdy.sharding_group %a group_id=7 : tensor<8x8xf32>\n"
    again = _TWO_GROUPS.replace(member, member + member.replace("7", str(number)))
    once, twice = _propagated(_TWO_GROUPS), _propagated(again)
    assert twice.count("sdy.sharding_group") == once.count("sdy.sharding_group") + 1
    assert _without_groups(twice) == _without_groups(once)


def _without_groups(text: str) -> list[str]:
    """What a module says, without its groups and locations."""
    return [line for line in module_text(load_module(text)).splitlines() if "sdy.sharding_group" not in line]
