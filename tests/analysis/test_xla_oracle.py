from __future__ import annotations

import pytest

from tests.oracles.hlo import HloCollective, collectives, count_trips, replica_groups, shape_bytes
from tests.oracles.xla import ROOT, XlaError, partition
from tests.oracles.xla_many import Costs, costs_of
from tests.oracles.xla_pass import begin_and_end, time_of_pass, used_until

HEADER = "HloModule jit_f, entry_computation_layout={(f32[4])->f32[4]}, num_partitions=8\n\n"
ADD = """%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
"""


def module(ops: str, rest: str = "", parameter: str = "f32[32]", result: str = "f32[32]") -> list[HloCollective]:
    entry = (
        f"ENTRY %main_spmd (param: {parameter}) -> {result} {{\n  %param = {parameter}{{0}} parameter(0)\n{ops}\n}}\n"
    )
    return collectives(f"{HEADER}{ADD}\n{rest}\n{entry}\n", 8)


def seen(uses: list[HloCollective]) -> list[tuple[str, int, float, int]]:
    return [(use.kind, use.group_size, use.sent, use.executed) for use in uses]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", [[0, 1], [2, 3]]),
        ("{}", [[0, 1, 2, 3]]),
        ("[2,2]<=[4]", [[0, 1], [2, 3]]),
        ("[2,2]<=[2,2]T(1,0)", [[0, 2], [1, 3]]),
        ("mesh['x'=2,'y'=2] {'x'}", [[0, 2], [1, 3]]),
        ("mesh['x'=2,'y'=2] {'x','y'}", [[0, 1, 2, 3]]),
        ("mesh['x'=4] {'x':(1)2}", [[0, 2], [1, 3]]),
        ("mesh['x'=4] {'x':(2)2}", [[0, 1], [2, 3]]),
        ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'x'}", [[0, 1], [2, 3]]),
        ("mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'y'}", [[3, 2], [1, 0]]),
    ],
)
def test_replica_groups_are_read_in_every_form(text: str, groups: list[list[int]]) -> None:
    assert sorted(replica_groups(text, 4)) == sorted(groups)


def test_bytes_of_shapes() -> None:
    assert shape_bytes("f32[2,4]{1,0}") == 32
    assert shape_bytes("(bf16[8]{0}, /*index=1*/pred[4], s32[])") == 24
    assert shape_bytes("f8e4m3fn[16]") == 16


def test_each_kind_sends_by_the_ring_formulas() -> None:
    uses = module("""  %g = f32[128]{0} all-gather(%param), channel_id=1, replica_groups=[2,4]<=[8], dimensions={0}
  %r = f32[32]{0} all-reduce(%param), replica_groups=mesh['a'=2,'b'=4] {'a'}, to_apply=%add, metadata={op_name="here"}
  %s = f32[8]{0} reduce-scatter(%param), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=%add
  %t = f32[32]{0} all-to-all(%param), replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0}
  %c = f32[32]{0} collective-permute(%param), channel_id=2, source_target_pairs={{0,1},{1,0}}
  ROOT %n = f32[32]{0} negate(%r)""")
    assert seen(uses) == [
        ("all-gather", 4, 384, 1),
        ("all-reduce", 2, 128, 1),
        ("reduce-scatter", 4, 96, 1),
        ("all-to-all", 2, 64, 1),
        ("collective-permute", 2, 128, 1),
    ]
    assert uses[1].op_name == "here"


def test_tuple_operands_are_summed() -> None:
    uses = module("""  %r = (f32[32]{0}, f32[32]{0}) all-reduce(%param, %param), replica_groups={{0,1}}, to_apply=%add
  ROOT %n = f32[32]{0} get-tuple-element(%r), index=0""")
    assert seen(uses) == [("all-reduce", 2, 256, 1)]


SLICED = """  %r = f32[32]{0} all-reduce(%param), replica_groups=[2,4]<=[8], to_apply=%add
  %table = s32[8]{0} constant({TABLE})
  %id = u32[] partition-id()
  %offsets = s32[1]{0} dynamic-slice(%table, %id), dynamic_slice_sizes={1}
  %offset = s32[] reshape(%offsets)
  ROOT %d = f32[8]{0} dynamic-slice(%r, %offset), dynamic_slice_sizes={8}"""


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("0, 8, 16, 24, 0, 8, 16, 24", [("reduce-scatter", 4, 96, 1)]),
        ("0, 0, 16, 16, 0, 0, 16, 16", [("reduce-scatter", 2, 64, 1), ("all-reduce", 2, 64, 1)]),
        ("0, 0, 0, 0, 8, 8, 8, 8", [("all-reduce", 4, 192, 1)]),
    ],
)
def test_an_all_reduce_of_which_each_keeps_a_slice_is_a_reduce_scatter(table: str, expected: list) -> None:
    assert seen(module(SLICED.replace("TABLE", table), result="f32[8]")) == expected


LOOP = """%cond (p: (s32[], f32[32])) -> pred[] {
  %p = (s32[], f32[32]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] constant(7)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}

%body (q: (s32[], f32[32])) -> (s32[], f32[32]) {
  %q = (s32[], f32[32]{0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %two = s32[] constant(2)
  %next = s32[] add(%j, %two)
  %x = f32[32]{0} get-tuple-element(%q), index=1
  %r = f32[32]{0} all-reduce(%x), replica_groups=[4,2]<=[8], to_apply=%add
  ROOT %t = (s32[], f32[32]{0}) tuple(%next, %r)
}
"""
WHILE = """  %zero = s32[] constant(0)
  %start = (s32[], f32[32]{0}) tuple(%zero, %param)
  %w = (s32[], f32[32]{0}) while(%start), condition=%cond, body=%body
  ROOT %out = f32[32]{0} get-tuple-element(%w), index=1"""


def test_loops_multiply_by_their_trip_count() -> None:
    assert seen(module(WHILE, LOOP)) == [("all-reduce", 2, 128, 4)]


def test_a_trip_count_that_xla_states_is_believed() -> None:
    counted = WHILE.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"9"}}')
    assert seen(module(counted, LOOP)) == [("all-reduce", 2, 128, 9)]


def test_a_loop_that_depends_on_data_counts_once_and_says_so() -> None:
    (use,) = module(WHILE, LOOP.replace("constant(7)", "get-tuple-element(%p), index=0"))
    assert (use.executed, use.trip_count_known) == (1, False)


def test_what_a_condition_sends_counts_once_more_than_what_its_body_does() -> None:
    asked = """  %v = f32[32]{0} get-tuple-element(%p), index=1
  %a = f32[32]{0} all-reduce(%v), replica_groups=[4,2]<=[8], to_apply=%add
  %n = s32[] constant(7)"""
    uses = module(WHILE, LOOP.replace("  %n = s32[] constant(7)", asked))
    assert seen(uses) == [("all-reduce", 2, 128, 5), ("all-reduce", 2, 128, 4)]


def test_of_a_conditional_the_costliest_branch_counts() -> None:
    branches = """%small (a: f32[32]) -> f32[32] {
  %a = f32[32]{0} parameter(0)
  ROOT %r1 = f32[32]{0} all-reduce(%a), replica_groups=[4,2]<=[8], to_apply=%add
}

%big (b: f32[32]) -> f32[32] {
  %b = f32[32]{0} parameter(0)
  ROOT %r2 = f32[32]{0} all-reduce(%b), replica_groups=[2,4]<=[8], to_apply=%add
}
"""
    ops = """  %i = s32[] constant(0)
  ROOT %c = f32[32]{0} conditional(%i, %param, %param), branch_computations={%small, %big}"""
    assert seen(module(ops, branches)) == [("all-reduce", 4, 192, 1)]


def test_trips_agree_with_ranges() -> None:
    assert [count_trips(0, 3, 10, d) for d in ("LT", "LE")] == [4, 4]
    assert count_trips(9, -3, 0, "GE") == 4
    assert count_trips(0, 0, 1, "LT") is None


def test_the_short_form_of_hlo_text_reads_like_the_long_one() -> None:
    text = f"""{HEADER}add {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}}

ENTRY main {{
  param = f32[32]{{0}} parameter(0)
  ROOT r = f32[32]{{0}} all-reduce(param), replica_groups=mesh['x'=2,'y'=4] {{'y'}}, to_apply=add
}}
"""
    assert seen(collectives(text, 8)) == [("all-reduce", 4, 192, 1)]


@pytest.mark.oracle
def test_xla_partitions_the_small_example() -> None:
    report = partition((ROOT / "examples" / "mlp.mlir").read_text())
    assert seen(list(report.uses)) == [
        ("all-gather", 4, 96, 1),
        ("all-reduce", 2, 256, 1),
        ("reduce-scatter", 4, 96, 1),
    ]
    assert report.sent == 448


@pytest.mark.oracle
def test_a_module_that_xla_refuses_is_an_error() -> None:
    with pytest.raises(XlaError, match="parse"):
        partition("module { nonsense }", 2)


MEAN = """\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<64x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
LOCAL = "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"


@pytest.mark.oracle
def test_many_modules_are_compiled_and_one_that_fails_spares_the_others() -> None:
    costs, wrong, again = costs_of([MEAN, "no module", MEAN], 4, local=False)
    assert isinstance(costs, Costs)
    assert costs.sent == 2 * 8 * 4 * 3 / 4
    assert 8 * 15 <= costs.work <= 8 * 16 + 64
    assert isinstance(wrong, str)
    assert again == costs
    assert costs_of([LOCAL], 4, local=True) == [Costs(0, 0)]


MOVED = """\
module @moved attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<2x32xf32>) -> tensor<8x32xbf16> {
    %0 = stablehlo.convert %a : (tensor<2x32xf32>) -> tensor<2x32xbf16>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<2x32xbf16>) -> tensor<8x32xbf16>
    return %1 : tensor<8x32xbf16>
  }
}
"""
CHOSEN = """\
func.func @main(%a: tensor<8x32xf32>) -> (tensor<8x4xf32>, tensor<8x4xi32>) {
  %values, %indices = chlo.top_k(%a, k = 4) : tensor<8x32xf32> -> (tensor<8x4xf32>, tensor<8x4xi32>)
  return %values, %indices : tensor<8x4xf32>, tensor<8x4xi32>
}
"""


@pytest.mark.oracle
def test_work_is_that_of_the_program_and_not_of_processors() -> None:
    """On CPUs bf16 is sent as f32, to which conversions lead and back; of a call for the largest nothing is counted."""
    moved, chosen = costs_of([MOVED, CHOSEN], 4, local=True)
    assert moved == Costs(3 * 2 * 32 * 2, 2 * 32)
    assert isinstance(chosen, Costs)
    assert chosen.work == pytest.approx(8 * 32 * 8, abs=1)  # XLA counts a call that it does not know as -1


LOG = """I1122 23:20:32.100000    7 hlo_pass_pipeline.cc:181]   HLO pass shardy-xla
I1122 23:20:32.200000    7 hlo_pass_pipeline.cc:86]     Invariant checker hlo-verifier
I1122 23:20:32.300000    7 hlo_pass_pipeline.cc:176] HLO pass: shardy-xla time: 200 ms
I1122 23:20:32.306318    7 hlo_pass_pipeline.cc:181]   HLO pass spmd-partitioning
I1122 23:20:32.351459    7 hlo_pass_pipeline.cc:181]   HLO pass dce
I1122 23:20:32.352636    7 hlo_pass_pipeline.cc:86]     Invariant checker hlo-verifier
I1122 23:20:32.354168    7 hlo_pass_pipeline.cc:176] HLO pass: spmd-partitioning time: 47.8 ms
"""


def test_a_pass_lasts_until_it_is_verified_or_over() -> None:
    begin, end = begin_and_end(LOG, "spmd-partitioning")
    assert end - begin == pytest.approx(0.046318, abs=1e-6)
    begin, end = begin_and_end(LOG.replace("    Invariant checker", "    Something else"), "spmd-partitioning")
    assert end - begin == pytest.approx(0.047850, abs=1e-6)


def test_processor_time_is_in_proportion_between_notes() -> None:
    notes = [(10.0, 1.0), (12.0, 2.0), (13.0, 2.5)]
    assert [used_until(notes, moment) for moment in (10.0, 11.0, 12.0, 12.5, 13.0)] == [1.0, 1.5, 2.0, 2.25, 2.5]


@pytest.mark.oracle
def test_the_time_of_a_pass_is_read_from_its_log() -> None:
    assert time_of_pass((ROOT / "examples/gpt2.mlir").read_text()).seconds > 0


@pytest.mark.oracle
def test_what_xla_refuses_has_no_time() -> None:
    with pytest.raises(XlaError, match="expected operation name"):
        time_of_pass("module {", 8)
