"""Propagation by cost: where size, position or arrival decides badly, time decides well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.axes import Axes
from shardwright.cost.hardware import BYTES, Hardware
from shardwright.ir.context import load_module
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.modules import read
from shardwright.program import Plan
from shardwright.propagation import propagate
from shardwright.propagation.engine.compatible import Direction
from shardwright.propagation.engine.preference import Preferred
from shardwright.propagation.engine.seconds import op_seconds
from shardwright.propagation.engine.step import Strategy, step
from shardwright.rules.rule import ShardingRule, identity_rule
from shardwright.sharding import TensorSharding
from tests.partition.modelled import modelled_seconds


@dataclass(frozen=True)
class Badly:
    """A program in which Shardy's order decides badly.

    Attributes:
        text: The program.
        value: What the strategies shard otherwise.
        first: How Shardy's order has it.
        cheaper: How it takes less time.
        sent: Bytes that a device sends, the former way and the latter.
    """

    text: str
    value: str
    first: str
    cheaper: str
    sent: tuple[int, int]


CASES = {
    # `i` of the larger operand wins, and what reads the result brings it to `j`.
    "size": Badly(
        """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<80x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %b: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                %c: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64x80x32xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<80x64xf32>, tensor<64x64xf32>) -> tensor<80x64xf32>
  %1 = stablehlo.dot_general %0, %c, batching_dims = [1] x [0], contracting_dims = [] x []
    : (tensor<80x64xf32>, tensor<64x32xf32>) -> tensor<64x80x32xf32>
  return %1 : tensor<64x80x32xf32>
}""",
        "%0",
        "[{x}, {}]",
        "[{}, {x}]",
        (18432, 15360),
    ),
    # The first operand wins, and the product behind it has a large sum to combine.
    "position": Badly(
        """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                %b: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<64x256xf32> {
  %0 = stablehlo.add %a, %b : tensor<64x64xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  return %1 : tensor<64x256xf32>
}""",
        "%0",
        "[{}, {x}]",
        "[{x}, {}]",
        (15360, 3072),
    ),
    # The maker of the value comes first; what its other user wants would cost a fraction.
    "arrival": Badly(
        """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<64x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %b: tensor<4x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
                %c: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64x64x32xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<64x4xf32>, tensor<4x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.dot_general %0, %c, batching_dims = [1] x [0], contracting_dims = [] x []
    : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x64x32xf32>
  return %1 : tensor<64x64x32xf32>
}""",
        "%0",
        "[{x}, {}]",
        "[{}, {x}]",
        (6144, 768),
    ),
    # Two axes contradict each other in one dimension: nobody wins, and everything is gathered.
    "contradiction": Badly(
        """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %b: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<64x16xf32> {
  %0 = stablehlo.add %a, %b : tensor<64x16xf32>
  return %0 : tensor<64x16xf32>
}""",
        "%0",
        "[{}, {}]",
        "[{y}, {}]",
        (4096, 1024),
    ),
}


def _plan(text: str, strategy: str, folder: Path) -> Plan:
    file = folder / "step.mlir"
    file.write_text(text)
    return sw.load(file).shard(strategy=strategy)


@pytest.mark.parametrize("name", CASES)
def test_time_decides_where_shardys_order_does_badly(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    case = CASES[name]
    with sw.Session(hardware=BYTES):
        first, cheaper = (_plan(case.text, strategy, tmp_path) for strategy in ("user-priority", "cost"))
        ways = [repr(plan.explain(case.value)[0].sharding) for plan in (first, cheaper)]
        programs = [plan.partition() for plan in (first, cheaper)]
        sent = tuple(round(program.traffic.total.executed_bytes) for program in programs)
        seconds = [modelled_seconds(plan) for plan in (first, cheaper)]
    assert ways == [case.first, case.cheaper]
    assert sent == case.sent
    assert seconds[1] < seconds[0]
    for program in programs:
        program.verify().require()
    record_property("summary", f"by cost, {name}: {sent[1]} bytes in the place of {sent[0]}")


def test_what_takes_less_time_is_asked_of_the_hardware_of_the_session(tmp_path: Path) -> None:
    """Two collectives of few bytes, or one of more."""
    text = CASES["size"].text.replace("80x", "128x").replace("x80x", "x128x")
    dear = Hardware("dear starts", bytes_per_second=1.0, start_seconds=1e6, multiply_adds_per_second=1e12)
    for hardware, expected, starts in ((BYTES, "[{x}, {}]", 2), (dear, "[{}, {x}]", 1)):
        with sw.Session(hardware=hardware):
            plan = _plan(text, "cost", tmp_path)
            assert repr(plan.explain("%0")[0].sharding) == expected
            assert plan.partition().traffic.total.executed == starts


def test_where_nothing_competes_it_is_as_without_a_price() -> None:
    text = (
        CASES["size"]
        .text.replace('[{}, {"x"}]', "[{}, {}]")
        .replace('32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}', "32xf32>")
    )
    graph = read(load_module(text))
    assert propagate(graph, strategy="cost").shardings == propagate(graph).shardings


def test_what_is_chosen_is_explained(tmp_path: Path) -> None:
    with sw.Session(hardware=BYTES):
        (explanation,) = _plan(CASES["arrival"].text, "cost", tmp_path).explain("%0")
    (chain,) = explanation.chains
    assert (chain.annotation.where, chain.axis.name) == ("argument c", "x")
    assert [(link.op, link.phase) for link in chain.links] == [("stablehlo.dot_general", "priority 0, round 3, cost")]
    assert any(stop.axis.name == "x" and stop.reason == "conflict" for stop in explanation.stops)


# One op


MESH = Mesh(x=4, y=2)
DOT = ShardingRule((64, 32, 16), (((0,), (2,)), ((2,), (1,))), (((0,), (1,)),), reduction=frozenset({2}))
DOT_TYPES = tuple(TensorType(shape, "f32") for shape in ((64, 16), (16, 32), (64, 32)))
WORK = Hardware("work", bytes_per_second=1.0, start_seconds=0.0, multiply_adds_per_second=64 * 32 * 16)


def _lies(*dims: str | None, open: bool = False) -> TensorSharding:
    return TensorSharding.of(MESH, [[dim] if dim else [] for dim in dims], open=open)


def _dot_seconds(*shardings: TensorSharding | None, whole: frozenset[int] = frozenset()) -> float:
    return op_seconds(DOT, whole, 64 * 32 * 16, DOT_TYPES, shardings, (1.0, 1.0, 1.0), WORK)


def test_an_op_takes_its_share_of_the_work_and_what_its_tensors_send() -> None:
    """Of a product of 64×16 by 16×32, of 4 bytes an element, that takes a second on one device."""
    assert _dot_seconds(_lies("x", None), None, None) == 1 / 4
    assert _dot_seconds(_lies("x", None), _lies(None, "y"), None) == 1 / 8
    # split along `x` by either operand, the other is gathered: the second one is smaller
    assert _dot_seconds(_lies("x", None), _lies(None, "x"), None) == 1 / 4 + 16 * 32 * 4 * 3 / 4
    # as above by each of them; contributions along both would be more, and so all is computed everywhere
    assert _dot_seconds(_lies(None, "x"), _lies("x", None), None) == 1 + (64 * 16 + 16 * 32) * 4 * 3 / 4
    # what lies open may follow, what is closed is sent: here computing all of it takes less
    assert _dot_seconds(_lies(None, None), None, _lies("x", None)) == 1 / 4
    assert _dot_seconds(None, None, _lies(None, None)) == 1
    assert _dot_seconds(_lies("x", None), None, None, whole=frozenset({0})) == 1 + 64 * 16 * 4 * 3 / 4


def test_contributions_are_combined_for_who_reads_the_result() -> None:
    rule = ShardingRule((8, 8, 64), DOT.operands, DOT.results, DOT.reduction)
    types = tuple(TensorType(shape, "f32") for shape in ((8, 64), (64, 8), (8, 8)))
    shardings = _lies(None, "x"), _lies("x", None), None
    seconds = op_seconds(rule, frozenset(), 0, types, shardings, (1.0, 1.0, 1.0), WORK)
    assert (
        seconds == 2 * (8 * 8 * 4 / 2) * 3 / 4 + 8 * 8 * 4 / 2
    )  # a half by each of the devices along `y`, and gathered


@pytest.mark.parametrize(("first", "back", "gathered"), [("x", None, 1), (None, "x", 16)])
def test_what_comes_more_often_takes_longer(first: str | None, back: str | None, gathered: int) -> None:
    """A value that enters a loop, and comes back at each of sixteen turns, and is to be whole inside."""
    rule, types = identity_rule((64,), 2), (TensorType((64,), "f32"),) * 3
    shardings = _lies(first), _lies(back), _lies(None)
    seconds = op_seconds(rule, frozenset(), 0, types, shardings, (1.0, 16.0, 16.0), WORK)
    assert seconds == gathered * 64 * 4 * 3 / 4


def test_dimensions_that_do_not_divide_are_padded() -> None:
    types = (TensorType((6,), "f32"),) * 2
    seconds = op_seconds(identity_rule((6,)), frozenset(), 0, types, (_lies("x"), _lies(None)), (1.0, 1.0), WORK)
    assert seconds == 8 * 4 * 3 / 4


def _stepped(strategy: Strategy | Preferred, *shardings: TensorSharding | None) -> dict[int, tuple[Axes, ...]]:
    updates = step(DOT, shardings, (Direction.BOTH,) * 3, False, strategy)
    return {tensor: sharding.axes for tensor, sharding in updates}


def test_a_tensor_that_is_followed_gets_its_way() -> None:
    shardings = _lies("x", None), _lies(None, "x"), None
    x = (MESH.axis("x"),)
    assert _stepped(Strategy.AGGRESSIVE, *shardings) == {2: (x, ())}
    assert _stepped(Preferred(0), *shardings) == {2: (x, ())}
    assert _stepped(Preferred(1), *shardings) == {2: ((), x)}


def test_a_tensor_that_is_followed_binds_no_closed_one() -> None:
    shardings = _lies("x", None), _lies(None, "x"), _lies(None, None)
    assert not _stepped(Preferred(1), *shardings)
