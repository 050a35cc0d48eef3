"""Which ways there are to split an op, what each is priced at, and that the cheapest is taken."""

from __future__ import annotations

from typing import Any

import pytest

from shardwright.cost.hardware import BYTES, TPU_V5P, Hardware
from shardwright.cost.price import Cost, price
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.partition import edges
from shardwright.partition.assign import NEARLY, WORTH, assign, choice_of, choices
from shardwright.partition.proposals import Source, from_mesh
from shardwright.partition.splits import splits_of
from shardwright.partition.ways import question_of, ways_of
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.sharding import TensorSharding, replicated

MESH = Mesh(x=2, y=4)
MATRIX = TensorType((64, 64), "f32")
BYTES_OF_MATRIX = 64 * 64 * 4
NONE: frozenset[int] = frozenset()
DOT = Signature(
    "stablehlo.dot_general",
    (("dot_dimension_numbers", "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"),),
    (MATRIX, MATRIX),
    (MATRIX,),
)
ADD = Signature("stablehlo.add", (), (MATRIX, MATRIX), (MATRIX,))
OPAQUE = Signature("stablehlo.custom_call", (("call_target_name", '"mine"'),), (MATRIX,), (MATRIX,))


def lies(*axes: str, partial: str = "") -> TensorSharding:
    return TensorSharding.of(MESH, [list(dim) for dim in axes], partial=partial)


WHOLE = lies("", "")


@pytest.mark.parametrize(
    ("sources", "target", "passing"),
    [
        (((lies("x", ""),), (lies("", "y"),)), lies("x", "y"), NONE),
        (((lies("", "y"),), (lies("y", ""),)), WHOLE, NONE),
        (((lies("y", ""),), (lies("x", ""), lies("", "y"))), lies("", "x"), NONE),
        (((lies("", "", partial="y"),), (lies("", "x"),)), WHOLE, frozenset({0})),
        (((), (lies("x", "y"),)), lies("y", "x"), NONE),
    ],
)
@pytest.mark.parametrize("hardware", [BYTES, TPU_V5P], ids=lambda hardware: hardware.name)
def test_the_cheapest_of_the_choices_is_taken(
    sources: tuple[Source, ...], target: TensorSharding, passing: frozenset[int], hardware: Hardware
) -> None:
    with Session(hardware=hardware):
        ways = choices(DOT, sources, (target,), passing)
        taken = assign(DOT, sources, (target,), passing)
    assert taken in ways
    assert len(set(ways)) == len(ways)
    assert taken.price(hardware) == min(way.price(hardware) for way in ways)


@pytest.mark.parametrize(
    ("sources", "target", "passing"),
    [
        (((lies("x", "y"),), (lies("x", "y"),)), lies("x", "y"), NONE),
        (((lies("x", ""),), ()), lies("x", ""), NONE),
        (((), ()), lies("", "y"), NONE),
        (((WHOLE,), (WHOLE,)), WHOLE, NONE),
        (((lies("x", ""), WHOLE), (lies("x", ""),)), lies("x", ""), NONE),
        (((lies("x", "", partial="y"),), (lies("x", "", partial="y"),)), lies("x", ""), frozenset({0, 1})),
        (((lies("x", ""),), (lies("x", ""),)), lies("", "x"), NONE),
    ],
)
@pytest.mark.parametrize("hardware", [BYTES, TPU_V5P], ids=lambda hardware: hardware.name)
def test_what_stays_in_place_is_the_cheapest_of_the_choices_too(
    sources: tuple[Source, ...], target: TensorSharding, passing: frozenset[int], hardware: Hardware
) -> None:
    with Session(hardware=hardware):
        ways = choices(ADD, sources, (target,), passing)
        taken = assign(ADD, sources, (target,), passing)
    assert taken in ways
    assert taken.price(hardware) == min(way.price(hardware) for way in ways)
    least = min(way.own.multiply_adds for way in ways if way.price(hardware) == taken.price(hardware))
    assert taken.own.multiply_adds == least


def test_edges_of_what_costs_too_much_already_are_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that is split as its operands are costs its work alone: of the other ways no edge is asked for."""
    asked: list[tuple[TensorSharding, TensorSharding]] = []

    def counted(*question: Any, **options: Any) -> ReshardPlan:
        asked.append(question[2:4])
        return plan(*question, **options)

    monkeypatch.setattr("shardwright.partition.edges.plan", counted)
    question = DOT, ((lies("x", ""),), (lies("", "y"),)), (lies("x", "y"),), NONE
    with Session():
        taken = assign(*question)
        assert taken.price(TPU_V5P) == price(taken.own, TPU_V5P)
        assert not asked
        choices(*question)
        assert asked


def test_axes_of_two_tensors_split_a_dimension_together() -> None:
    """What lies along x and shall lie along y was computed along x, four times what a device has to."""
    large = TensorType((4096, 4096), "f32")
    exponential = Signature("stablehlo.exponential", (), (large,), (large,))
    with Session():
        taken = assign(exponential, ((lies("x", ""),),), (lies("y", ""),), NONE)
    assert taken.operands == taken.results
    assert taken.own == Cost(multiply_adds=4096 * 4096 / 8, bytes_moved=large.bytes / 8 / 4)


def test_no_device_repeats_the_work_of_a_sum_to_send_a_little_less() -> None:
    """Both operands were gathered. Rows are one all_to_all away."""
    high, wide, square = TensorType((4096, 512), "f32"), TensorType((512, 512), "f32"), TensorType((4096, 512), "f32")
    dot = Signature(DOT.name, DOT.attributes, (high, wide), (square,))
    mesh = Mesh(x=8)
    columns, rows = TensorSharding.of(mesh, [[], ["x"]]), TensorSharding.of(mesh, [["x"], []])
    one_link = TPU_V5P.with_a_link()
    with Session(hardware=one_link):
        question = dot, ((columns,), (rows,)), (replicated(mesh, 2),), NONE
        least = min(way.price(one_link) for way in choices(*question))
        taken = assign(*question)
    assert taken.operands == (rows, replicated(mesh, 2))
    assert taken.own.multiply_adds == 4096 * 512 * 512 / 8
    assert least < taken.price(one_link) < WORTH * least
    with Session(hardware=BYTES):
        assert assign(*question).price(BYTES) == min(way.price(BYTES) for way in choices(*question))


def test_windows_of_smaller_shards_may_take_a_few_rows_more() -> None:
    """The op was computed along x, by half of the devices' share of the work, since halves have fewer neighbours."""
    image, kernel = TensorType((24, 48, 48, 48), "f32"), TensorType((3, 3, 48, 48), "f32")
    same = "padding", "dense<1> : tensor<2x2xi64>"
    numbers = "dimension_numbers", "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"
    groups = ("batch_group_count", "1 : i64"), ("feature_group_count", "1 : i64")
    convolution = Signature("stablehlo.convolution", (groups[0], numbers, groups[1], same), (image, kernel), (image,))
    before, after = lies("", "x", "", ""), lies("", "y", "", "")
    with Session():
        question = convolution, ((before,), (lies("", "", "", ""),)), (after,), NONE
        fastest = min(choices(*question), key=lambda way: way.price(TPU_V5P))
        taken = assign(*question)
    assert taken.own.multiply_adds <= fastest.own.multiply_adds / 2
    assert taken.price(TPU_V5P) <= NEARLY * fastest.price(TPU_V5P)
    edges = [way.total(TPU_V5P).bytes_sent - way.exchange.bytes_sent for way in (taken, fastest)]
    assert edges[0] <= edges[1]


def test_each_edge_has_a_price_of_its_own() -> None:
    versions, target = (lies("x", ""), lies("", "x")), lies("y", "")
    for way in choices(DOT, (versions, (WHOLE,)), (target,), NONE):
        for number, have in enumerate((versions, (WHOLE,))):
            need = way.operands[number]
            sent = [cost and cost._replace(bytes_copied=0.0) for cost in way.reads[number]]
            assert sent == [plan(MATRIX.dims, 4, version, need).cost for version in have]
        (write,) = way.writes
        assert write._replace(bytes_copied=0.0) == plan(MATRIX.dims, 4, way.results[0], target).cost


def test_the_work_of_the_op_itself_is_what_is_left_on_a_device() -> None:
    ways = choices(DOT, ((lies("x", ""),), (lies("", "y"),)), (WHOLE,), NONE)
    work = {way.results[0]: way.own.multiply_adds for way in ways}
    assert work[lies("x", "y")] == 64**3 / 8
    assert work[WHOLE] == 64**3


def test_a_partial_sum_may_stay_and_comes_from_no_whole_version() -> None:
    awaiting = lies("", "", partial="y")
    ways = choices(ADD, ((awaiting, WHOLE), (awaiting,)), (WHOLE,), frozenset({0, 1}))
    staying = [way for way in ways if way.operands[0].partial]
    assert staying
    assert all(way.reads[0][1] is None and way.operands[1] == way.operands[0] for way in staying)
    assert assign(ADD, ((awaiting,), (awaiting,)), (WHOLE,), frozenset({0, 1})).results == (awaiting,)


def test_what_any_device_can_make_has_no_edges() -> None:
    assert all(way.reads[0] == () for way in choices(ADD, ((), (lies("x", ""),)), (WHOLE,), NONE))


def test_an_op_of_which_nothing_is_known_has_one_choice() -> None:
    with Session(hardware=TPU_V5P.with_a_link()):
        (way,) = choices(OPAQUE, ((lies("x", ""),),), (lies("y", ""),), NONE)
        assert way == assign(OPAQUE, ((lies("x", ""),),), (lies("y", ""),), NONE)
    assert (way.operands, way.results, way.gathered, way.whole) == ((WHOLE,), (WHOLE,), (0,), (0,))
    assert way.reads == ((Cost(BYTES_OF_MATRIX / 2, 1),),)


def test_hardware_decides_and_two_do_not_mix() -> None:
    """Gathering both factors sends less than reducing the product; where starts are dear, one reduction is taken."""
    narrow, wide = TensorType((64, 8), "f32"), TensorType((8, 64), "f32")
    dot = Signature(DOT.name, DOT.attributes, (narrow, wide), (MATRIX,))
    sources = (lies("", "x"),), (lies("x", ""),)
    slow_to_start = Hardware("slow", bytes_per_second=1e9, start_seconds=1.0, multiply_adds_per_second=1e12)
    with Session():
        question = dot, sources, (WHOLE,), NONE
        assert assign(*question).results[0].partial
    with Session(hardware=BYTES):
        assert assign(*question).results == (replicated(MESH, 2),)
    with Session(hardware=slow_to_start):
        assert assign(*question).results[0].partial


def test_a_way_that_is_given_takes_no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*_: Any, **__: Any) -> ReshardPlan:
        raise AssertionError("nobody compares it with another way")

    sources, target = ((lies("x", ""),), (lies("", "y"),)), lies("", "x")
    splits = splits_of(DOT)
    assert splits is not None
    with Session(hardware=TPU_V5P):
        question = question_of(DOT, splits, sources, (target,), NONE, TPU_V5P)
        taken = assign(DOT, sources, (target,), NONE)
        monkeypatch.setattr(edges, "plan", planned)
        ways = [way for axes in from_mesh(splits, sources, (target,)) for way in ways_of(question, axes)]
        given = [choice_of(way, DOT, sources, (target,), NONE, TPU_V5P, NONE) for way in ways]
    assert (taken.operands, taken.results) in [(one.operands, one.results) for one in given]
    assert not any(one.reads or one.writes for one in given)
