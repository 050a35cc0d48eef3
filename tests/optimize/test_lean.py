"""`--effort lean`: the fastest of what sends no more and holds hardly more than where each op is split by itself."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.optimize import HOISTING, compared
from shardwright.optimize.compared import demand_of, room_for_orders
from shardwright.program import Spmd
from tests.models.large.all import LARGE
from tests.models.nets.all import NETS
from tests.models.steps.all import plan


@pytest.mark.parametrize(
    ("name", "optimize"), [("adagrad.tensor", "all"), ("lamb.fsdp", "off"), ("layer_norm.tensor", "exact")]
)
def test_no_more_is_sent_and_hardly_more_held(name: str, optimize: str) -> None:
    with sw.Session(hardware=sw.hardware("h100")):
        fast, lean = (plan(*name.split(".")).partition(effort=effort, optimize=optimize) for effort in ("fast", "lean"))
        most, demand = demand_of(fast.explicit), demand_of(lean.explicit)
        assert demand.sent <= most.sent * (1 + 1e-9)
        assert demand.beside <= 1.1 * most.beside
        assert demand.seconds <= most.seconds * (1 + 1e-9)
        lean.verify().require()


def _told(spmd: Spmd) -> list[str]:
    return [note.message for note in spmd.notes if "beside what a search for less time came to" in note.message]


def test_it_says_what_was_not_taken_and_why() -> None:
    """A recurrent network would take a third less time with twice as much held; a part of that comes at no price."""
    with sw.Session(hardware=sw.hardware("h100")):
        fast, lean, free = (
            NETS["both_ways_lstm"].plan(evenly=True).partition(effort=one, optimize="all")
            for one in ("fast", "lean", "default")
        )
        seconds = [demand_of(one.explicit).seconds for one in (free, lean, fast)]
        assert seconds[0] < seconds[1] < seconds[2]
        (note,) = _told(lean)
        assert "hardly more is held of any tensor" in note
        assert "less beside its arguments" in note
        assert lean.searched is not None
        assert lean.searched.otherwise


def test_a_tenth_of_the_time_is_worth_more_memory() -> None:
    """Weights that are gathered in front of a scan, where op by op sums of activations are awaited in each of its turns."""
    with sw.Session(hardware=sw.hardware("h100")):
        lean, fast = (
            plan("scan_of_twelve_layers", "fsdp").partition(effort=one, optimize="all") for one in ("lean", "fast")
        )
        most, demand = demand_of(fast.explicit), demand_of(lean.explicit)
        assert demand.seconds < 0.1 * most.seconds
        assert 1.1 * most.beside < demand.beside <= 3 * most.beside
        assert demand.sent <= most.sent
        lean.verify().require()


def test_what_is_fastest_and_holds_no_more_is_taken_as_it_is() -> None:
    """Nothing is to be said then."""
    with sw.Session(hardware=sw.hardware("h100")):
        lean, free = (plan("sgd", "fsdp").partition(effort=effort, optimize="all") for effort in ("lean", "default"))
        assert not _told(lean)
        assert demand_of(lean.explicit).seconds <= demand_of(free.explicit).seconds * 1.01


def test_a_step_that_has_nothing_to_choose_is_each_op_by_itself() -> None:
    with sw.Session(hardware=sw.hardware("h100")):
        lean, fast = (plan("sgd", "data").partition(effort=effort) for effort in ("lean", "fast"))
        assert lean.module() == fast.module()


@pytest.mark.parametrize("is_little", [True, False])
def test_only_what_holds_little_is_brought_out_of_loops(is_little: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A particle filter gathers 512 bytes once, in front of its loop; where even that is too much, in every turn."""
    if not is_little:
        monkeypatch.setattr(compared, "_MORE", 0.0)
    with sw.Session(hardware=sw.hardware("h100")):
        lean = NETS["particle_filter"].plan(evenly=True).partition(effort="lean", optimize="all")
    assert any(one.by == HOISTING for one in lean.improvements or ()) == is_little


def test_other_orders_have_room_for_what_a_program_holds_less_than_another() -> None:
    with sw.Session(hardware=sw.hardware("h100")):
        less, more = (plan("lamb", "fsdp").partition(effort=effort).explicit for effort in ("lean", "fast"))
        held = [demand_of(one).beside for one in (less, more)]
        assert held[0] < held[1]
        assert room_for_orders(less, more) == int(1.1 * held[1] - held[0])
        assert room_for_orders(more, more) == int(1.1 * held[1] - held[1])
        assert room_for_orders(more, less) == max(0, int(1.1 * held[0] - held[1]))


def test_orders_hold_less_where_all_that_is_gained_by_them_is_too_much() -> None:
    """Pairs of residues, on 2×4 devices: gathers that wait for a bucket to be full hold more than orders may."""
    with sw.Session(hardware=sw.hardware("h100")):
        fast, lean = (LARGE["pairs.both"](False).partition(effort=one, optimize="all") for one in ("fast", "lean"))
        most, demand = demand_of(fast.explicit), demand_of(lean.explicit)
        assert demand.beside <= 1.1 * most.beside
        assert demand.sent < 0.5 * most.sent
        assert demand.seconds < 0.8 * most.seconds
        assert not _told(lean)


def test_what_may_be_held_is_told_by_the_program_as_it_is_decided() -> None:
    """Other orders of it may happen to hold less, or more."""
    with sw.Session(hardware=sw.hardware("h100")):
        plain = plan("lamb", "fsdp").partition(effort="fast").explicit
        demand = demand_of(plain)
        for beside in (1, demand.beside + 1):
            least = demand._replace(beside=beside)
            assert least.or_held_by(plain) == demand._replace(beside=max(beside, demand.beside))
