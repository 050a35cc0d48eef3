"""The function that prices per-device programs in HLO, ours and XLA's alike, with the arithmetic shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwright.cost.hardware import Hardware, hardware
from tests.oracles.hlo_work import Kernel, kernels
from tests.oracles.plan_price import Plan, Sends, plan_of, seconds_on, sends_on
from tests.oracles.xla_many import Compiled, compiled_of

BOX = Hardware(
    "a box",
    100.0,
    3.0,
    multiply_adds_per_second=50.0,
    memory_bytes_per_second=10.0,
    peaks=(("f32", 20.0), ("tf32", 40.0)),
)
"""Sends 100 B/s, starts in 3 s, multiplies bf16 at 100, tf32 at 40 and f32 at 20 operations a second, moves 10 B/s."""

SCALARS = """%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}
"""


def entry(lines: str, *before: str) -> str:
    """A module of some lines."""
    body = "\n".join(f"  {line.strip()}" for line in lines.strip().splitlines())
    return "\n".join(["HloModule m, num_partitions=8\n", SCALARS, *before, f"ENTRY %main () -> f32[] {{\n{body}\n}}\n"])


def seen(lines: str, *before: str) -> list[tuple[str, float, str, int, int]]:
    """Kernels as tuples."""
    every = kernels(entry(lines, *before))
    return [(one.opcode, one.operations, one.dtype, one.moved, one.times) for one in every]


def test_elementwise_ops_are_fused_into_one_that_reads_what_they_begin_with() -> None:
    # x is read once for both branches, the row once for all that it is broadcast to: 4·8·4 + 8·4 bytes; 4·8·4 are written
    fused = seen("""
        %x = f32[4,8] parameter(0)
        %row = f32[8] parameter(1)
        %rows = f32[4,8] broadcast(%row), dimensions={1}
        %two = f32[] constant(2)
        %twos = f32[4,8] broadcast(%two), dimensions={}
        %twice = f32[4,8] multiply(%x, %twos)
        %exp = f32[4,8] exponential(%x)
        %both = f32[4,8] add(%twice, %exp)
        ROOT %sum = f32[4,8] add(%both, %rows)
    """)
    assert fused == [("add", 0, "f32", 128 + 32 + 128, 1)]


def test_a_value_that_is_read_by_a_product_is_written_and_by_a_reduction_is_not() -> None:
    # exp is read by both: the kernel that writes it moves 2 · 128 bytes, the reduction reads what was written
    assert seen("""
        %x = f32[4,8] parameter(0)
        %w = f32[8,2] parameter(1)
        %zero = f32[] constant(0)
        %exp = f32[4,8] exponential(%x)
        %half = f32[4,8] sqrt(%x)
        %sums = f32[4] reduce(%half, %zero), dimensions={1}, to_apply=%sum
        %y = f32[4,2] dot(%exp, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT %both = (f32[4], f32[4,2]) tuple(%sums, %y)
    """) == [
        ("exponential", 0, "f32", 128 + 128, 1),
        ("reduce", 0, "f32", 128 + 16, 1),
        ("dot", 2 * 4 * 2 * 8, "tf32", 128 + 64 + 32, 1),
    ]


def test_what_nobody_reads_is_not_run() -> None:
    assert seen("""
        %x = f32[4,8] parameter(0)
        %w = f32[8,8] parameter(1)
        %unused = f32[4,8] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT %y = f32[4,8] negate(%x)
    """) == [("negate", 0, "f32", 256, 1)]


def test_barriers_move_nothing() -> None:
    assert seen("""
        %x = f32[4,8] parameter(0)
        %y = f32[4,8] parameter(1)
        %n = f32[4,8] negate(%x)
        %one = f32[4,8] opt-barrier(%n)
        %pair = (f32[4,8], f32[4,8]) tuple(%one, %y)
        %both = (f32[4,8], f32[4,8]) opt-barrier(%pair)
        %a = f32[4,8] get-tuple-element(%both), index=0
        %b = f32[4,8] get-tuple-element(%both), index=1
        ROOT %sum = f32[4,8] add(%a, %b)
    """) == [("add", 0, "f32", 3 * 128, 1)]


@pytest.mark.parametrize(
    ("constant", "read"), [("{1}", 0), ("{1, 1}", 0), ("{{1, 1}, {1, 1}}", 0), ("{1, 2}", 8), ("{...}", 8)]
)
def test_constants_are_read_where_they_are_more_than_a_number(constant: str, read: int) -> None:
    assert seen(f"""
        %x = f32[2] parameter(0)
        %c = f32[2] constant({constant})
        ROOT %y = f32[2] add(%x, %c)
    """) == [("add", 0, "f32", 8 + read + 8, 1)]


def test_what_is_computed_twice_counts_once() -> None:
    another = SCALARS.replace("%sum", "%other").replace("%a", "%p").replace("%b", "%q").replace("%add", "%r")
    assert seen(
        """
        %x = f32[4,8] parameter(0)
        %zero = f32[] constant(0)
        %nil = f32[] constant(0)
        %one = f32[] constant(1)
        %a = f32[4] reduce(%x, %zero), dimensions={1}, to_apply=%sum, metadata={op_name="here" stack_frame_id=1}
        %b = f32[4] reduce(%x, %nil), dimensions={1}, to_apply=%other, metadata={op_name="there"}
        %c = f32[4] reduce(%x, %one), dimensions={1}, to_apply=%sum
        %d = f32[8] reduce(%x, %zero), dimensions={0}, to_apply=%sum
        ROOT %all = (f32[4], f32[4], f32[4], f32[8]) tuple(%a, %b, %c, %d)
        """,
        another,
    ) == [("reduce", 0, "f32", 144, 1), ("reduce", 0, "f32", 144, 1), ("reduce", 0, "f32", 160, 1)]


def test_views_move_nothing_and_slices_read_what_they_take() -> None:
    # of the stack of 16 rows one is read; the update reads it from there and writes it in place, 32 bytes each
    assert seen("""
        %stack = f32[16,8] parameter(0)
        %i = s32[] parameter(1)
        %zero = s32[] constant(0)
        %row = f32[1,8] dynamic-slice(%stack, %i, %zero), dynamic_slice_sizes={1,8}
        %flat = f32[8] reshape(%row)
        %more = f32[8] negate(%flat)
        %again = f32[1,8] reshape(%more)
        ROOT %y = f32[16,8] dynamic-update-slice(%stack, %again, %i, %zero)
    """) == [("dynamic-update-slice", 0, "f32", 32 + 4 + 32, 1)]
    # gathered: 4 rows of 32 bytes and 4 indices of 4 are read, 4 rows written
    assert seen("""
        %table = f32[64,8] parameter(0)
        %ids = s32[4,1] parameter(1)
        ROOT %rows = f32[4,8] gather(%table, %ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
    """) == [("gather", 0, "f32", 128 + 16 + 128, 1)]
    # scattered: 16 bytes of indices and 128 of updates are read, the rows that they go to read and written
    assert seen("""
        %table = f32[64,8] parameter(0)
        %ids = s32[4,1] parameter(1)
        %rows = f32[4,8] parameter(2)
        ROOT %y = f32[64,8] scatter(%table, %ids, %rows), update_window_dims={1}, to_apply=%sum
    """) == [("scatter", 0, "f32", 16 + 128 + 2 * 128, 1)]


@pytest.mark.parametrize(
    ("types", "rest", "operations", "kind"),
    [
        (("f32", "f32"), "", 2, "tf32"),
        (("f32", "f32"), ", operand_precision={highest,highest}", 2, "f32"),
        (("f32", "f32"), ", operand_precision={high,default}", 2, "f32"),
        (("bf16", "bf16"), "", 2, "bf16"),
        (("bf16", "f32"), "", 2, "tf32"),
        (("f64", "f64"), "", 2, "f64"),
        (("s8", "s8"), "", 2, "s8"),
        (("f8e4m3fn", "bf16"), "", 2, "bf16"),
        (("c64", "c64"), "", 8, "c64"),
    ],
)
def test_products_count_by_type_and_precision(types: tuple[str, str], rest: str, operations: int, kind: str) -> None:
    [(_, counted, dtype, _, _)] = seen(f"""
        %x = {types[0]}[3,4,8] parameter(0)
        %w = {types[1]}[3,8,2] parameter(1)
        ROOT %y = f32[3,4,2] dot(%x, %w), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}{rest}
    """)
    assert (counted, dtype) == (operations * 3 * 4 * 2 * 8, kind)


@pytest.mark.parametrize(
    ("left", "right", "result", "attributes", "multiply_adds"),
    [
        # 3 taps along 8 places, but for the two that meet padding: 22 meetings, squared; 4 images, 5 · 6 features
        ("4,8,8,5", "3,3,5,6", "4,8,8,6", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", 4 * 5 * 6 * 22**2),
        # each second place only, none beyond the border: 3 · 3 meetings
        ("4,8,8,5", "3,3,5,6", "4,3,3,6", "window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f", 4 * 5 * 6 * 9**2),
        # between two elements a hole, which meets nothing: of 8 places and 2 taps 2 · 4 meetings along each dimension
        ("4,4,4,5", "2,2,5,6", "4,8,8,6", "window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f", 4 * 5 * 6 * 8**2),
        # a kernel with holes: taps 2 apart, 8 places, 2 of 3 taps fit at either of two places at each end
        ("4,8,5", "3,5,6", "4,8,6", "window={size=3 pad=2_2 rhs_dilate=2}, dim_labels=b0f_0io->b0f", 4 * 5 * 6 * (8 * 3 - 4)),
        # 10 features in 5 groups of 2: each result meets 2
        ("4,8,10", "3,2,20", "4,6,20", "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=5", 4 * 2 * 20 * 18),
        # 8 images in 4 groups: each result meets 2 of them, as batches of 2
        ("8,6,5", "3,5,8", "2,4,8", "window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=4", 2 * 5 * 8 * 12),
        # no window at all
        ("4,5", "5,6", "4,6", "dim_labels=bf_io->bf", 4 * 5 * 6),
    ],
)  # fmt: skip
def test_convolutions_count_what_meets(left: str, right: str, result: str, attributes: str, multiply_adds: int) -> None:
    [(_, counted, dtype, _, _)] = seen(f"""
        %x = bf16[{left}] parameter(0)
        %w = bf16[{right}] parameter(1)
        ROOT %y = bf16[{result}] convolution(%x, %w), {attributes}
    """)
    assert (counted, dtype) == (2 * multiply_adds, "bf16")


LOOP = """%body (s: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %s = (s32[], f32[4,8]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4,8] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %y = f32[4,8] negate(%x)
  ROOT %t = (s32[], f32[4,8]) tuple(%next, %y)
}

%condition (c: (s32[], f32[4,8])) -> pred[] {
  %c = (s32[], f32[4,8]) parameter(0)
  %n = s32[] get-tuple-element(%c), index=0
  %end = s32[] constant(5)
  ROOT %less = pred[] compare(%n, %end), direction=LT
}
"""


def test_a_loop_counts_as_often_as_it_runs_and_of_branches_the_one_that_moves_most() -> None:
    assert seen(
        """
        %x = f32[4,8] parameter(0)
        %zero = s32[] constant(0)
        %start = (s32[], f32[4,8]) tuple(%zero, %x)
        %loop = (s32[], f32[4,8]) while(%start), condition=%condition, body=%body
        ROOT %y = f32[4,8] get-tuple-element(%loop), index=1
        """,
        LOOP,
    ) == [
        ("compare", 0, "pred", 4 + 1, 6),
        ("add", 0, "s32", 4 + 4, 5),
        ("negate", 0, "f32", 256, 5),
    ]
    little = "%little (a: f32[4,8]) -> f32[] {\n  %a = f32[4,8] parameter(0)\n  ROOT %c = f32[] constant(0)\n}\n"
    much = (
        "%much (b: f32[4,8]) -> f32[] {\n  %b = f32[4,8] parameter(0)\n  %z = f32[] constant(0)\n"
        "  ROOT %r = f32[] reduce(%b, %z), dimensions={0,1}, to_apply=%sum\n}\n"
    )
    assert seen(
        """
        %x = f32[4,8] parameter(0)
        %which = s32[] parameter(1)
        ROOT %y = f32[] conditional(%which, %x, %x, %x), branch_computations={%little, %much, %little}
        """,
        little,
        much,
    ) == [("reduce", 0, "f32", 128 + 4, 1)]


def test_the_time_is_that_of_starts_bytes_and_kernels_one_after_the_other() -> None:
    plan = Plan((Sends(200.0, 2),), (Kernel("dot", 400.0, "bf16", 20, 3), Kernel("add", 0.0, "f32", 50)))
    # 200 / 100 + 2 · 3 to communicate; three times 400 / 100, which is more than 20 / 10; 50 / 10
    assert seconds_on(BOX, plan) == 2 + 6 + 3 * 4 + 5
    assert plan.operations == 1200


REDUCED = """
    %x = f32[32] parameter(0)
    %y = f32[32] parameter(1)
    %a = f32[32] all-reduce(%x), channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=%sum
    %b = f32[32] all-reduce(%y), channel_id=2, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=%sum
    ROOT %both = (f32[32], f32[32]) tuple(%a, %b)
"""
MERGED = """
    %x = f32[32] parameter(0)
    %y = f32[32] parameter(1)
    ROOT %both = (f32[32], f32[32]) all-reduce(%x, %y), channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=%sum
"""


def test_collectives_that_the_pipeline_merges_start_once() -> None:
    # each all_reduce of 128 bytes over 4 sends 2 · 128 · 3 / 4
    apart, merged = plan_of(entry(REDUCED), entry(REDUCED), 8), plan_of(entry(REDUCED), entry(MERGED), 8)
    assert (sends_on(BOX, apart), apart.kernels) == (Sends(2 * 192, 2), ())
    assert sends_on(BOX, merged) == Sends(2 * 192, 1)
    assert seconds_on(BOX, apart) - seconds_on(BOX, merged) == pytest.approx(3.0)


def test_of_two_ways_to_communicate_the_one_counts_that_takes_less_where_it_is_run() -> None:
    # 2 / 100 + 2 · 3 s are more than 300 / 100 + 3; where starts are a hundred times faster, they are less
    plan = Plan((Sends(2.0, 2), Sends(300.0, 1)), ())
    quick = replace(BOX, start_seconds=0.03)
    assert (sends_on(BOX, plan), seconds_on(BOX, plan)) == (Sends(300.0, 1), 6.0)
    assert (sends_on(quick, plan), seconds_on(quick, plan)) == (Sends(2.0, 2), 0.02 + 0.06)
    assert plan.sent == 2.0


MODULE = """\
module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                  %b: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<16x8xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
}
"""


@pytest.mark.oracle
def test_what_xla_makes_of_an_annotated_module_is_priced() -> None:
    [compiled] = compiled_of([MODULE], 4, local=False)
    assert isinstance(compiled, Compiled)
    plan = plan_of(compiled.entered, compiled.final, 4)
    # the sum of 16 · 8 elements over 4 devices; a product of (16, 8) by (8, 8)
    assert sends_on(hardware("h100"), plan) == Sends(2 * 16 * 8 * 4 * 3 / 4, 1)
    assert plan.kernels == (Kernel("dot", 2 * 16 * 8 * 8, "tf32", 4 * (16 * 8 + 8 * 8 + 16 * 8)),)
    box = hardware("h100")
    assert seconds_on(box, plan) == pytest.approx(6.6e-6 + 768 / 4.5e11 + 1280 / 3.35e12)
    assert compiled.temporary > 0
