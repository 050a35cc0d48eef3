"""What a device does for each op, and on what: links are not used by two at once, and bodies stand for themselves."""

from __future__ import annotations

import pytest

from shardwright.cost.hardware import Hardware
from shardwright.cost.overlap import Queue
from shardwright.ir.graph import Graph
from shardwright.ir.ops import MANUAL
from shardwright.memo import Session
from shardwright.optimize import optimize
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.works import block_seconds, is_collective, works_of
from tests.optimize.explicit import function
from tests.optimize.test_collective_matmul import RUNG
from tests.optimize.test_scheduling import TURNS, explicit_of

_BOX = Hardware("a box", 1e9, 1e-9, 1e9, node_devices=4)


def _program(graph: Graph) -> ExplicitProgram:
    with Session(hardware=_BOX):
        return ExplicitProgram(graph)


_REVERSED = function(
    ['a: tensor<64x64xf32> [{"y"}, {}]', 'b: tensor<64x64xf32> [{"y"}, {}]'],
    'tensor<64x64xf32> [{"y"}, {}]',
    """
    %0 = sdy.all_gather [{"y"}, {}] %b «[{}, {}]» : tensor<64x64xf32>
    %1 = stablehlo.reverse %a, dims = [0] «[{"y"}, {}]» : tensor<64x64xf32>
    %2 = sdy.all_slice [{"y"}, {}] %0 «[{"y"}, {}]» : tensor<64x64xf32>
    %3 = stablehlo.add %1, %2 «[{"y"}, {}]» : tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
    """,
)


def test_an_op_inside_which_devices_exchange_something_waits_for_the_links() -> None:
    program = _program(explicit_of(_REVERSED))
    gather, reverse = program.graph.main.block.ops[:2]
    sending, computing = works_of(program, reverse)
    assert (sending.queue, computing.queue) == (Queue.LINKS, Queue.COMPUTE)
    assert sending.seconds + computing.seconds == pytest.approx(program.seconds(program.cost(reverse)))
    assert is_collective(works_of(program, gather))
    assert not is_collective(works_of(program, reverse))
    together = block_seconds(program, [gather, reverse])
    assert together == pytest.approx(sum(program.seconds(program.cost(op)) for op in (gather, reverse)))


def test_what_a_loop_sends_is_not_sent_beside_what_stands_around_it() -> None:
    program = _program(explicit_of(TURNS))
    (loop,) = [op for op in program.graph.main.block.ops if op.regions]
    works = works_of(program, loop)
    gather = next(op for op in loop.regions[1].ops if program.step(op) is not None)
    sent = sum(work.seconds for work in works if work.queue is Queue.LINKS)
    assert sent == pytest.approx(5 * program.seconds(program.cost(gather)))
    inside = sum(5 * block_seconds(program, region.ops) for region in loop.regions)
    assert sum(work.seconds for work in works) == pytest.approx(inside)
    assert not is_collective(works)


@pytest.mark.parametrize("name", RUNG)
def test_a_manual_computation_is_what_stands_in_it(name: str) -> None:
    """Every collective of the body is one on its links, and what reads the computation waits for it."""
    with Session(hardware=_BOX):
        made = optimize(explicit_of(RUNG[name]), ["collective-matmul"])
        program = ExplicitProgram(made.graph)
    assert made.improvements
    for op in made.graph.main.block.ops:
        if op.name == MANUAL:
            works = works_of(program, op)
            sent = [work for work in works if work.queue is not Queue.COMPUTE]
            assert len(sent) == sum("collective_permute" in inner.name for inner in op.walk())
            assert op.results[0] in works[-1].makes
            assert set(op.operands) <= {value for work in works for value in work.reads}
