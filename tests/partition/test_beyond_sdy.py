"""Steps that sdy has no op for: all_to_alls that name a dimension twice, permutes in parts. They are taken as they are
priced, put every element where it belongs, and are written so that sdy can read them, and they can be read again.
"""

from __future__ import annotations

import re

import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.memo import Session
from tests.frontends.devices import eight_devices

eight_devices()

FLAT, CUBE = '["x"=4, "y"=2]', '["x"=2, "y"=2, "z"=2]'
SHUFFLED = FLAT + ", device_ids=[3, 1, 0, 2, 7, 6, 4, 5]"
CASES = [
    # mesh, source, target, the collectives, what is sent of an eighth of the tensor
    (FLAT, '{"y"}, {}, {"x"}', '{}, {"x", "y"}, {}', 1, 7 / 8),
    (FLAT, '{"y"}, {}, {"x"}', '{}, {"y", "x"}, {}', 1, 7 / 8),
    (FLAT, '{"x", "y"}, {}, {}', '{}, {"y"}, {"x"}', 1, 7 / 8),
    (FLAT, '{"y", "x"}, {}, {}', '{}, {"x", "y"}, {}', 1, 7 / 8),
    (FLAT, '{"x"}, {}, {}', '{}, {"x":(2)2, "x":(1)2}, {}', 1, 2 * 3 / 4),
    (FLAT, '{"x":(1)2, "y", "x":(2)2}, {}, {}', '{"x":(1)2}, {"x":(2)2}, {"y"}', 1, 3 / 4),
    (SHUFFLED, '{"y"}, {}, {"x"}', '{}, {"x", "y"}, {}', 1, 7 / 8),
    (CUBE, '{"x", "z"}, {}, {"y"}', '{}, {"x", "y", "z"}, {}', 1, 7 / 8),
    (CUBE, '{"x", "y", "z"}, {}, {}', '{}, {"x", "z"}, {"y"}', 1, 7 / 8),
    (CUBE, '{"x", "y"}, {"z"}, {}', '{}, {"z"}, {"y", "x"}', 1, 3 / 4),
    (CUBE, '{"x"}, {"y"}, {"z"}', '{"x", "z", "y"}, {}, {}', 1, 3 / 4),
    (FLAT, '{"x"}, {"y"}, {}', '{"y"}, {"x"}, {}', 2, 1),
    (FLAT, '{"x"}, {"y"}, {}', '{"y"}, {"x":(2)2}, {"x":(1)2}', 2, 1),
    (SHUFFLED, '{"x"}, {"y"}, {}', '{"y"}, {"x"}, {}', 2, 1),
    (FLAT, '{"x", "y"}, {}, {}', '{"x":(2)2}, {"y", "x":(1)2}, {}', 4, 1),
    (FLAT, '{"x"}, {}, {}', '{"x":(2)2}, {"x":(1)2}, {}', 2, 2),
    (CUBE, '{"x", "z"}, {"y"}, {}', '{"y"}, {"x"}, {"z"}', 2, 1),
    (CUBE, '{"x", "y"}, {}, {}', '{"z"}, {"y"}, {}', 2, 2),
]


def partition(mesh: str, source: str, target: str) -> sw.Spmd:
    type = "tensor<8x16x8xi32>"
    text = f"""sdy.mesh @m = <{mesh}>
        func.func @main(%a: {type} {{sdy.sharding = #sdy.sharding<@m, [{source}]>}})
            -> ({type} {{sdy.sharding = #sdy.sharding<@m, [{target}]>}}) {{ return %a : {type} }}"""
    return sw.load(text).plan().partition()


def name(starts: int) -> str:
    return "all_to_all" if starts == 1 else "collective_permute"


def without_locations(text: str) -> str:
    return re.sub(r" ?loc\(.*", "", re.sub(r"#loc.*\n", "", text))


@pytest.mark.parametrize(("mesh", "source", "target", "starts", "sent"), CASES)
def test_every_step_brings_every_element_where_it_belongs(
    mesh: str, source: str, target: str, starts: int, sent: float
) -> None:
    with Session(hardware=BYTES):
        spmd = partition(mesh, source, target)
    assert [op.name for op in spmd.explicit.walk()][-2:] == [f"sdy.{name(starts)}", "func.return"]
    assert spmd.traffic.total.static == starts
    assert spmd.traffic.total.static_bytes == spmd.traffic.total.executed_bytes == 8 * 16 * 8 * 4 / 8 * sent
    assert spmd.verify().ok


@pytest.mark.parametrize(("mesh", "source", "target", "starts", "sent"), CASES)
def test_text_has_a_manual_computation_that_is_read_as_the_step(
    mesh: str, source: str, target: str, starts: int, sent: float
) -> None:
    with Session(hardware=BYTES):
        spmd = partition(mesh, source, target)
        text = spmd.module("explicit")
        assert text.count(f"stablehlo.{name(starts)}") == starts
        assert text.count("sdy.manual_computation") == 1
        assert "shardwright." not in text
        again = sw.load(text).plan().partition()
    steps = [[(op.name, op.signature.step) for op in one.explicit.walk()] for one in (spmd, again)]
    assert steps[0] == steps[1]
    assert again.module("explicit") == text
    assert without_locations(again.module("local")) == without_locations(spmd.module("local"))


def test_a_computation_that_puts_elements_elsewhere_stays_one() -> None:
    text = partition(*CASES[0][:3]).module("explicit")
    x, y = '#stablehlo.axis_ref<name = "x">', '#stablehlo.axis_ref<name = "y">'
    other = text.replace(f"axes = [{x}, {y}]", f"axes = [{y}, {x}]")
    assert other != text
    assert "sdy.manual_computation" in [op.name for op in sw.load(other).plan().partition().explicit.walk()]


def test_a_computation_between_sub_axes_that_cannot_be_used_together_stays_one() -> None:
    text = """sdy.mesh @m = <["x"=6]>
        func.func @main(%a: tensor<6x6xi32>) -> tensor<6x6xi32> {
          %0 = sdy.manual_computation(%a) in_shardings=[<@m, [{"x":(1)2}, {}]>]
              out_shardings=[<@m, [{}, {"x":(1)3}]>] manual_axes={"x"} (%b: tensor<3x6xi32>) {
            %1 = stablehlo.iota dim = 0 : tensor<6x2xi32>
            sdy.return %1 : tensor<6x2xi32>
          } : (tensor<6x6xi32>) -> tensor<6x6xi32>
          return %0 : tensor<6x6xi32>
        }"""
    assert "sdy.manual_computation" in [op.name for op in sw.load(text).plan().partition().explicit.walk()]
