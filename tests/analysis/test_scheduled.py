"""What scheduled programs for GPUs take, with the arithmetic shown."""

from __future__ import annotations

import pytest

from shardwright.cost.hardware import Hardware
from tests.analysis.test_plan_price import entry
from tests.oracles.hlo_scheduled import LAUNCH, Scheduled, scheduled

BOX = Hardware("a box", 100.0, 3.0, 500.0, memory_bytes_per_second=10.0, peaks=(("tf32", 20.0),))
"""Sends 100 B/s, starts in 3 s, multiplies bf16 at 1,000 and tf32 at 20 operations a second, moves 10 B/s."""

FUSED = """%fused (p: f32[100,8], i: s32[]) -> f32[1,8] {
  %p = f32[100,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %z = s32[] constant(0)
  ROOT %d = f32[1,8]{1,0} dynamic-slice(%p, %i, %z), dynamic_slice_sizes={1,8}
}
"""
UPDATED = """%updated (p: f32[100,8], u: f32[1,8], i: s32[]) -> f32[100,8] {
  %p = f32[100,8]{1,0} parameter(0)
  %u = f32[1,8]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %z = s32[] constant(0)
  ROOT %d = f32[100,8]{1,0} dynamic-update-slice(%p, %u, %i, %z)
}
"""
BODY = """%body (t: (s32[], f32[10])) -> (s32[], f32[10]) {
  %t = (s32[], f32[10]{0}) parameter(0)
  %n = s32[] get-tuple-element(%t), index=0
  %x = f32[10]{0} get-tuple-element(%t), index=1
  %copy = f32[10]{0} copy(%x)
  ROOT %r = (s32[], f32[10]{0}) tuple(%n, %copy)
}
%condition (t: (s32[], f32[10])) -> pred[] {
  %t = (s32[], f32[10]{0}) parameter(0)
  ROOT %p = pred[] constant(true)
}
"""


def of(lines: str, *before: str) -> Scheduled:
    return scheduled(entry(lines, *before), 4, BOX)


START = "%s = f32[100]{0} all-reduce-start(%x), replica_groups={{0,1,2,3}}, to_apply=%sum"
DONE = "%d = f32[100]{0} all-reduce-done(%s)"
SENT = 3 + 2 * 400 * 3 / 4 / 100
"""All reduce of 400 bytes among four devices."""
COPY = "%c = f32[10]{0} copy(%y)"
COPIED = 2 * 40 / 10 + LAUNCH


def test_what_is_computed_until_a_collective_is_waited_for_hides_it() -> None:
    begin = "%x = f32[100]{0} parameter(0)\n%y = f32[10]{0} parameter(1)"
    hidden = of(f"{begin}\n{START}\n{COPY}\n{DONE}")
    assert (hidden.computing, hidden.sending) == pytest.approx((COPIED, SENT))
    assert hidden.seconds == pytest.approx(SENT)  # 9 seconds, of which 8 are hidden
    assert hidden.exposed == pytest.approx(SENT - COPIED)
    assert (hidden.beside, hidden.started) == (1, 1)
    late = of(f"{begin}\n{START}\n{DONE}\n{COPY}")
    assert (late.seconds, late.exposed) == pytest.approx((SENT + COPIED, SENT))


def test_what_is_started_in_step_with_kernels_hides_nothing() -> None:
    begin = "%x = f32[100]{0} parameter(0)\n%y = f32[10]{0} parameter(1)"
    sync = START + ', backend_config={"collective_backend_config":{"is_sync":true}}'
    found = of(f"{begin}\n{sync}\n{COPY}\n{DONE}")
    assert found.seconds == pytest.approx(SENT + COPIED)
    assert (found.beside, found.started) == (0, 1)


def test_two_collectives_wait_for_one_another() -> None:
    second = START.replace("%s", "%s2").replace("%x", "%z")
    done = DONE.replace("%s", "%s2").replace("%d", "%d2")
    begin = "%x = f32[100]{0} parameter(0)\n%z = f32[100]{0} parameter(1)"
    assert of(f"{begin}\n{START}\n{second}\n{DONE}\n{done}").seconds == pytest.approx(2 * SENT)


def test_what_goes_to_the_same_device_takes_nothing() -> None:
    begin = "%x = f32[100]{0} parameter(0)"
    pairs = "source_target_pairs={{0,0},{1,1}}"
    assert of(f"{begin}\n%p = f32[100]{{0}} collective-permute(%x), {pairs}").seconds == 0
    moved = of(f"{begin}\n%p = f32[100]{{0}} collective-permute(%x), {pairs.replace('0,0', '0,1')}")
    assert moved.seconds == pytest.approx(3 + 400 / 100)


def test_a_fusion_reads_what_it_slices_and_writes_what_it_updates() -> None:
    begin = "%p = f32[100,8]{1,0} parameter(0)\n%i = s32[] parameter(1)"
    sliced = of(f"{begin}\n%f = f32[1,8]{{1,0}} fusion(%p, %i), kind=kLoop, calls=%fused", FUSED)
    assert sliced.seconds == pytest.approx((32 + 4 + 32) / 10 + LAUNCH)  # a row, the index, and the row that is written
    update = "%u = f32[1,8]{1,0} parameter(2)"
    kernel = "%f = f32[100,8]{1,0} fusion(%p, %u, %i), kind=kLoop, calls=%updated"
    updated = of(f"{begin}\n{update}\n{kernel}", UPDATED)
    assert updated.seconds == pytest.approx((32 + 4 + 32) / 10 + LAUNCH)


def test_products_and_convolutions_of_libraries_are_their_operations_or_their_traffic() -> None:
    call = 'custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
    call += '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
    operands = "%a = {0}[8,64]{{1,0}} parameter(0)\n%b = {0}[64,16]{{1,0}} parameter(1)\n"
    product = "%p = ({0}[8,16]{{1,0}}, s8[4000]{{0}}) custom-call(%a, %b), "
    slow, fast = (of((operands + product).format(dtype) + call) for dtype in ("f32", "bf16"))
    assert slow.seconds == pytest.approx(2 * 8 * 64 * 16 / 20 + LAUNCH)
    assert fast.seconds == pytest.approx((8 * 64 + 64 * 16 + 8 * 16) * 2 / 10 + LAUNCH)
    # 2 images of 4 × 4 places, 3 × 3 kernels from 5 to 7 features: the same operations, whichever of the three is made
    image, kernel, made = "f32[2,4,4,5]{3,2,1,0}", "f32[3,3,5,7]{3,2,1,0}", "f32[2,4,4,7]{3,2,1,0}"
    for target, left, right, result in (
        ("Forward", image, kernel, made),
        ("BackwardInput", made, kernel, image),
        ("BackwardFilter", image, made, kernel),
    ):
        call = f'custom_call_target="__cudnn$conv{target}", window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f'
        lines = (
            f"%a = {left} parameter(0)\n%b = {right} parameter(1)\n%c = ({result}, u8[0]{{0}}) custom-call(%a, %b), "
        )
        assert of(lines + call).seconds == pytest.approx(2 * 2 * 16 * 7 * 9 * 5 / 20 + LAUNCH)


def test_a_loop_runs_as_often_as_its_text_says() -> None:
    loop = '%w = (s32[], f32[10]{0}) while(%t), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    found = of(f"%t = (s32[], f32[10]{{0}}) parameter(0)\n{loop}", BODY)
    assert (found.seconds, found.computing) == pytest.approx((7 * COPIED, 7 * COPIED))
