"""Plans lead where they should, on simulated devices, and cost no more than what others do."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import HealthCheck, given, settings

from shardwright.axes import AxisRef, axes_size, subtract_axes
from shardwright.cost.collectives import all_gather_bytes, all_reduce_bytes
from shardwright.cost.hardware import BYTES, TPU_V5P, Hardware
from shardwright.cost.price import Cost, price, step_cost
from shardwright.errors import ShardingError
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.reshard import plan as planning
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.reshard.problem import idle_axes
from shardwright.sharding import Partial, TensorSharding, replicated
from shardwright.steps import AllSlice, CollectivePermute, layouts_after, local_bytes
from tests.reshard.greedy import greedy
from tests.reshard.simulate import arrives
from tests.reshard.strategies import reshards

Reshard = tuple[tuple[int, ...], TensorSharding, TensorSharding]

PROPERTY = settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def names(chain: ReshardPlan) -> list[str]:
    return [type(step).__name__ for step in chain.steps]


def simulate(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, chain: ReshardPlan) -> None:
    """Assert that every device ends with exactly its part of the target."""
    arrives(shape, source, target, chain.steps)


def naive_bytes(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding) -> float:
    """What reducing all, gathering all and slicing sends, with one-byte elements."""
    held, total = local_bytes(shape, 1, source), all_gather_bytes(math.prod(shape), axes_size(source.used_axes))
    for _, run_of_one_kind in itertools.groupby(source.partial, lambda p: p.kind):
        axes = tuple(p.axis for p in run_of_one_kind)
        total += all_reduce_bytes(held, axes_size(subtract_axes(axes, target.partial_axes)))
    return total


@PROPERTY
@given(reshards())
def test_every_device_gets_exactly_its_part(reshard: Reshard) -> None:
    shape, source, target = reshard
    simulate(shape, source, target, plan(shape, 4, source, target))


@PROPERTY
@given(reshards())
def test_never_sends_more_than_reducing_and_gathering_all(reshard: Reshard) -> None:
    shape, source, target = reshard
    assert plan(shape, 1, source, target, BYTES).cost.bytes_sent <= naive_bytes(shape, source, target) + 1e-9


@PROPERTY
@given(reshards())
def test_never_holds_more_than_source_or_target(reshard: Reshard) -> None:
    shape, source, target = reshard
    most = max(local_bytes(shape, 4, source), local_bytes(shape, 4, target))
    assert plan(shape, 4, source, target).peak_bytes <= most


@PROPERTY
@given(reshards(kinds=()))
def test_never_above_a_greedy_chain_like_shardys(reshard: Reshard) -> None:
    shape, source, target = reshard
    try:
        sent, collectives = greedy(shape, source, target)
    except ShardingError:
        return  # sub-axes that cannot co-exist are too much for it
    chain = plan(shape, 1, source, target, BYTES)
    assert (chain.cost.bytes_sent, chain.cost.starts) <= (sent + 1e-9, collectives)


@PROPERTY
@given(reshards())
def test_at_most_one_permute_sends_anything(reshard: Reshard) -> None:
    shape, source, target = reshard
    chain = plan(shape, 1, source, target)
    layouts = [source, *layouts_after(source.closed(), chain.steps)]
    permutes = [
        step
        for step, layout in zip(chain.steps, layouts, strict=False)
        if isinstance(step, CollectivePermute) and step_cost(step, layout, 1).bytes_sent
    ]
    assert len(permutes) <= 1


@PROPERTY
@given(reshards())
def test_as_much_memory_as_a_plan_takes_changes_nothing_and_less_is_kept_to_or_refused(reshard: Reshard) -> None:
    shape, source, target = reshard
    free = plan(shape, 4, source, target)
    ends = max(local_bytes(shape, 4, source), local_bytes(shape, 4, target))
    assert plan(shape, 4, source, target, None, free.peak_bytes).cost == free.cost
    for memory in {ends - 1, ends, free.peak_bytes - 1}:
        try:
            chain = plan(shape, 4, source, target, None, memory)
        except ShardingError as error:
            assert error.diagnostic.cause is not None
            least = int(error.diagnostic.cause.split()[4])
            assert least > memory
            assert plan(shape, 4, source, target, None, least).peak_bytes == least
        else:
            assert max(ends, chain.peak_bytes) <= memory
            assert price(chain.cost, TPU_V5P) >= price(free.cost, TPU_V5P) * (1 - 1e-9)
            simulate(shape, source, target, chain)


def test_idle_axes_are_used_where_memory_is_short() -> None:
    mesh = Mesh(x=6, y=2)
    source = TensorSharding.of(mesh, [[AxisRef("x", 1, 2)], []])
    target = TensorSharding.of(mesh, [[], [AxisRef("x", 1, 3)]])
    assert plan((12, 12), 1, source, target).peak_bytes == 144
    chain = plan((12, 12), 1, source, target, None, 72)
    assert chain.peak_bytes == 72
    simulate((12, 12), source, target, chain)
    with pytest.raises(ShardingError, match="in 71 bytes per device") as refused:
        plan((12, 12), 1, source, target, None, 71)
    assert "must hold 72 bytes" in str(refused.value)


def test_a_known_full_rematerialization_of_xla_is_one_exchange_of_the_least_there_is() -> None:
    mesh = Mesh(x=4, y=2)
    source = TensorSharding.of(mesh, [["y"], [], ["x"]])
    target = TensorSharding.of(mesh, [[], ["x", "y"], []])
    chain = plan((16, 16, 16), 4, source, target, ONE_LINK)
    assert names(chain) == ["AllToAll"]
    assert chain.cost == Cost(2048 * 7 / 8, 1)  # of what a device needs, it holds an eighth
    assert chain.peak_bytes == 2048
    simulate((16, 16, 16), source, target, chain)


def test_reversing_the_axes_of_three_dimensions_is_one_permute() -> None:
    mesh = Mesh(a=2, b=2, c=2)
    source, target = (TensorSharding.of(mesh, [[name] for name in order]) for order in ("abc", "cba"))
    assert names(plan((8, 8, 8), 4, source, target)) == ["CollectivePermute"]


MESH = Mesh(x=4, y=2)
ONE_LINK = TPU_V5P.with_a_link()
"""On a torus, what sends more may take less."""

CASES = [
    # source dims, partial, target dims, steps, elements sent of a 16 x 16 tensor
    ("|", "", "x|y", ["AllSlice"], 0),
    ("x|y", "", "|y", ["AllGather"], 128 - 32),
    ("x|y", "", "|", ["AllGather"], 256 - 32),
    ("x|", "", "|y", ["AllSlice", "AllGather"], 128 - 32),
    ("x|", "", "|x", ["AllToAll"], 64 * 3 / 4),
    ("x|", "", "|x,y", ["AllSlice", "AllToAll"], 32 * 7 / 8 / 2 * 2),
    ("x,y|", "", "y,x|", ["CollectivePermute"], 32),
    ("x|y", "", "y|x", ["CollectivePermute"], 32),  # in two parts
    ("|", "x", "x|", ["ReduceScatter"], 256 * 3 / 4),
    ("|", "x,y", "x,y|", ["ReduceScatter"], 256 * 7 / 8),
    ("|", "x", "x|y", ["AllSlice", "ReduceScatter"], 128 * 3 / 4),
    ("|", "x", "|y", ["AllSlice", "AllReduce"], 2 * 128 * 3 / 4),
    ("y|", "x", "y|", ["AllReduce"], 2 * 128 * 3 / 4),
    ("|", "x,y", "|", ["AllReduce"], 2 * 256 * 7 / 8),
    ("|", "x", "|", ["AllReduce"], 2 * 256 * 3 / 4),
]


def dims(text: str) -> list[list[str]]:
    return [[axis for axis in dim.split(",") if axis] for dim in text.split("|")]


@pytest.mark.parametrize(("source", "partial", "target", "steps", "sent"), CASES)
def test_known_best_chains(source: str, partial: str, target: str, steps: list[str], sent: float) -> None:
    before = TensorSharding.of(MESH, dims(source), partial=filter(None, partial.split(",")))
    after = TensorSharding.of(MESH, dims(target))
    chain = plan((16, 16), 1, before, after, ONE_LINK)
    assert (names(chain), chain.cost.bytes_sent) == (steps, sent)
    simulate((16, 16), before, after, chain)


def test_a_reduction_is_scattered_over_two_dimensions_where_the_second_start_is_worth_it() -> None:
    source, target = TensorSharding.of(MESH, [[], []], partial=["x", "y"]), TensorSharding.of(MESH, [["x"], ["y"]])
    by_bytes, by_time = plan((16, 16), 1, source, target, BYTES), plan((16, 16), 1, source, target, ONE_LINK)
    assert (names(by_bytes), by_bytes.cost) == (["ReduceScatter"], Cost(256 * 7 / 8, 2))
    assert (names(by_time), by_time.cost) == (["AllReduce", "AllSlice"], Cost(2 * 256 * 7 / 8, 1))


def test_idle_devices_share_a_large_reduction_but_not_a_small_one() -> None:
    source, target = TensorSharding.of(MESH, [[], []], partial=["x"]), replicated(MESH, 2)
    small, large = (plan((size, size), 4, source, target, ONE_LINK) for size in (16, 4096))
    assert names(small) == ["AllReduce"]
    assert names(large) == ["AllSlice", "AllReduce", "AllGather"]
    assert large.cost.bytes_sent == 2 * 2**25 * 3 / 4 + 2**25  # without: 2 * 2**26 * 3 / 4
    simulate((16, 16), source, target, plan((16, 16), 1 << 20, source, target))


def test_axes_of_one_device_are_not_idle() -> None:
    mesh = Mesh(x=4, one=1, y=2)
    source, target = TensorSharding.of(mesh, [[], []], partial=["x"]), replicated(mesh, 2)
    assert idle_axes(source, target) == (mesh.axis("y"),)
    assert idle_axes(TensorSharding.of(mesh, [[mesh.axis("x", 2, 2)]]), replicated(mesh, 1)) == (
        mesh.axis("x", 1, 2),
        mesh.axis("y"),
    )
    assert plan((4096, 4096), 4, source, target, ONE_LINK).steps[0] == AllSlice(((mesh.axis("y"),), ()))


def test_what_stays_partial_stays() -> None:
    source = TensorSharding.of(MESH, [[], []], partial=["x", "y"])
    target = TensorSharding.of(MESH, [["x"], []], partial=["y"])
    chain = plan((16, 16), 1, source, target)
    assert names(chain) == ["ReduceScatter"]
    simulate((16, 16), source, target, chain)


def test_equal_layouts_need_no_steps() -> None:
    parts = TensorSharding.of(MESH, [[AxisRef("x", 1, 2), AxisRef("x", 2, 2)], []], open=True)
    whole = TensorSharding.of(MESH, [["x"], []])
    assert plan((16, 16), 4, parts, whole) == ReshardPlan((), Cost(), 256)
    assert plan((16, 16), 4, whole, whole).cost == Cost()


def test_a_plan_is_made_for_the_hardware_of_the_session_and_never_for_another() -> None:
    source, target = TensorSharding.of(MESH, [[], []], partial=["x"]), replicated(MESH, 2)
    question = ((256, 256), 4, source, target)
    slow_to_start = Hardware("slow", bytes_per_second=1e9, start_seconds=1.0, multiply_adds_per_second=1e12)
    with Session(hardware=BYTES):
        assert names(plan(*question)) == ["AllSlice", "AllReduce", "AllGather"]
        assert names(plan(*question, slow_to_start)) == ["AllReduce"]
        assert plan(*question) is plan(*question, BYTES)
    with Session(hardware=slow_to_start):
        assert names(plan(*question)) == ["AllReduce"]


def test_a_scalar_is_reduced() -> None:
    source = TensorSharding.of(MESH, [], partial=["x"], kind="max")
    chain = plan((), 4, source, replicated(MESH, 0))
    assert (names(chain), chain.cost.bytes_sent) == (["AllReduce"], 6)


def test_axes_of_one_device_come_and_go_for_nothing() -> None:
    mesh = Mesh(one=1, x=2)
    source = TensorSharding.of(mesh, [["one", "x"], []], partial=[])
    for axes in ([[], ["one", "x"]], [["x"], ["one"]], [["x"], []], [["x", "one"], []]):
        target = TensorSharding.of(mesh, axes)
        chain = plan((4, 4), 1, source, target)
        simulate((4, 4), source, target, chain)
        assert chain.cost.bytes_sent == (4 if not axes[0] else 0)
    partial = TensorSharding.of(mesh, [[], []], partial=["one"])
    chain = plan((4, 4), 1, partial, replicated(mesh, 2))
    assert (names(chain), chain.cost.bytes_sent, chain.cost.starts) == (["AllReduce"], 0, 0)


def test_sub_axes_that_cannot_co_exist() -> None:
    mesh = Mesh(x=6)
    source = TensorSharding.of(mesh, [[AxisRef("x", 1, 2)], []])
    target = TensorSharding.of(mesh, [[], [AxisRef("x", 1, 3)]])
    chain = plan((6, 6), 1, source, target)
    assert names(chain) == ["AllGather", "AllSlice"]
    simulate((6, 6), source, target, chain)


ORDER = (0, 2, 1, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    ("source", "target", "sent"),
    [("x|y", "x|y", 32), ("x|", "|x", 48 + 64), ("|", "x|y", 0), ("x|y", "|", 256 - 32), ("|", "|", 0)],
)
def test_another_device_order_is_at_most_one_permute(source: str, target: str, sent: float) -> None:
    other = Mesh(MESH.axes, device_ids=ORDER)
    before, after = TensorSharding.of(MESH, dims(source)), TensorSharding.of(other, dims(target))
    chain = plan((16, 16), 1, before, after, ONE_LINK)
    assert chain.cost.bytes_sent == sent
    assert names(chain).count("CollectivePermute") == 1
    simulate((16, 16), before, after, chain)


def test_a_partial_tensor_on_another_device_order() -> None:
    other = Mesh(MESH.axes, device_ids=ORDER)
    before = TensorSharding.of(MESH, [["x"], []], partial=["y"])
    for after in (TensorSharding.of(other, [[], ["x"]]), TensorSharding.of(other, [["x"], []], partial=["y"])):
        simulate((16, 16), before, after, plan((16, 16), 1, before, after))


def test_the_minor_most_kind_is_reduced_first() -> None:
    mesh = Mesh(x=2, y=2)
    source = TensorSharding(
        mesh, replicated(mesh, 1).dims, partial=(Partial(mesh.axis("x"), "max"), Partial(mesh.axis("y"), "sum"))
    )
    chain = plan((4,), 1, source, replicated(mesh, 1))
    assert [getattr(step, "kind", "") for step in chain.steps if hasattr(step, "kind")] == ["sum", "max"]
    simulate((4,), source, replicated(mesh, 1), chain)
    staying = TensorSharding(mesh, source.dims, partial=source.partial[1:])
    with pytest.raises(ShardingError, match="reduced before"):
        plan((4,), 1, source, staying)


@pytest.mark.parametrize(
    ("shape", "source", "target", "message"),
    [
        ((16, 16), TensorSharding.of(MESH, [["x"], []]), TensorSharding.of(Mesh(x=4), [["x"], []]), "different axes"),
        ((6, 16), replicated(MESH, 2), TensorSharding.of(MESH, [["x"], []]), "evenly"),
        ((16, 16), replicated(MESH, 2), TensorSharding.of(MESH, [[], []], partial=["x"]), "the source is not"),
        ((16,), replicated(MESH, 2), TensorSharding.of(MESH, [["x"], []]), "2 dimensions"),
        (
            (16,),
            TensorSharding(MESH, TensorSharding.of(MESH, [["y"]]).dims, offsets=((0, 4, 16),)),
            replicated(MESH, 1),
            "offsets",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, message: str
) -> None:
    with pytest.raises(ShardingError, match=message):
        plan(shape, 4, source, target)


def test_plans_are_remembered_in_the_session() -> None:
    source, target = TensorSharding.of(MESH, [["x"], []]), TensorSharding.of(MESH, [[], ["x"]])
    with Session():
        assert plan((16, 16), 4, source, target) is plan((16, 16), 4, source, target)


_SOME = 3
"""Of how many orders one is looked at in the short run."""


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.long] if part else []) for part in range(_SOME)]
)
def test_large_meshes_do_not_take_forever(part: int) -> None:
    mesh = Mesh(a=16, b=8, c=8, d=4, e=2)
    orders = itertools.permutations([["a", "b"], ["c"], ["d"], ["e"]])
    source = TensorSharding.of(mesh, [["a", "b"], ["c"], ["d"], ["e"]])
    for order in itertools.islice(orders, part, None, _SOME):
        target = TensorSharding.of(mesh, list(order))
        chain = plan((1024, 1024, 1024, 1024), 2, source, target)
        assert layouts_after(source.closed(), chain.steps)[-1:] in ((target,), ())
        assert chain.cost.bytes_sent <= naive_bytes((2048, 1024, 1024, 1024), source, target)


@PROPERTY
@given(reshards())
def test_what_is_combined_in_place_is_planned_as_the_search_does(reshard: Reshard) -> None:
    shape, source, _ = reshard
    target = source.with_axes(source.axes).closed()
    for hardware in (BYTES, TPU_V5P):
        with Session():
            made = plan(shape, 4, source, target, hardware)
        with Session(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(planning, "reduction_in_place", lambda *_: None)
            found = plan(shape, 4, source, target, hardware)
            assert found == made or (hardware is TPU_V5P and price(found.cost, hardware) == price(made.cost, hardware))
