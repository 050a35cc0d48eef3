from __future__ import annotations

import pytest

from shardwright.analysis.memory import MemoryUse, memory
from tests.analysis.programs import graph

BIG = "tensor<256xf32>"  # 1,024 bytes
KIB = 1024


def used(body: str) -> MemoryUse:
    return memory(graph(body))


def chain(attributes: str = "") -> str:
    return f"""  func.func @main(%a: {BIG} {attributes}) -> {BIG} {{
    %0 = "stablehlo.reverse"(%a) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
    %1 = "stablehlo.reverse"(%0) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
    %2 = "stablehlo.reverse"(%1) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
    return %2 : {BIG}
  }}"""


def test_an_argument_lives_throughout() -> None:
    use = used(chain())
    assert (use.arguments, use.donated, use.results) == (KIB, 0, KIB)
    assert (use.peak, use.peak_op) == (3 * KIB, "stablehlo.reverse")


@pytest.mark.parametrize("attribute", ["{jax.buffer_donor = true}", "{tf.aliasing_output = 0 : i32}"])
def test_a_donated_argument_goes_after_its_last_use(attribute: str) -> None:
    use = used(chain(attribute))
    assert (use.donated, use.peak) == (KIB, 2 * KIB)


def test_elementwise_ops_write_into_an_operand_that_dies() -> None:
    body = f"""  func.func @main(%a: {BIG}) -> {BIG} {{
    %0 = stablehlo.negate %a : {BIG}
    %1 = stablehlo.add %0, %a : {BIG}
    %2 = stablehlo.tanh %1 : {BIG}
    return %2 : {BIG}
  }}"""
    assert used(body).peak == 2 * KIB


def test_elementwise_ops_leave_an_operand_alone_that_is_read_again() -> None:
    body = f"""  func.func @main(%a: {BIG}) -> {BIG} {{
    %0 = stablehlo.negate %a : {BIG}
    %1 = stablehlo.tanh %0 : {BIG}
    %2 = stablehlo.add %0, %1 : {BIG}
    return %2 : {BIG}
  }}"""
    assert used(body).peak == 3 * KIB


def test_a_reshape_shares_its_operand_and_keeps_it_alive() -> None:
    body = f"""  func.func @main(%a: {BIG}) -> {BIG} {{
    %0 = "stablehlo.reverse"(%a) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
    %1 = stablehlo.reshape %0 : ({BIG}) -> tensor<16x16xf32>
    %2 = "stablehlo.reverse"(%1) <{{dimensions = array<i64: 0>}}> : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<16x16xf32>) -> {BIG}
    return %3 : {BIG}
  }}"""
    assert used(body).peak == 3 * KIB


def test_splats_and_broadcasts_take_no_buffer() -> None:
    body = f"""  func.func @main(%a: tensor<f32>) -> {BIG} {{
    %0 = stablehlo.constant dense<1.0> : {BIG}
    %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> {BIG}
    %2 = stablehlo.add %0, %1 : {BIG}
    return %2 : {BIG}
  }}"""
    assert used(body).peak == KIB + 4


def test_an_argument_returned_as_it_is_is_copied_unless_donated() -> None:
    body = f"  func.func @main(%a: {BIG} ATTRIBUTE) -> {BIG} {{ return %a : {BIG} }}"
    assert used(body.replace("ATTRIBUTE", "")).peak == 2 * KIB
    assert used(body.replace("ATTRIBUTE", "{jax.buffer_donor = true}")).peak == KIB


def loop(body: str, after: str = "", operand: str = "%a", donor: str = "") -> str:
    return f"""  func.func @main(%a: {BIG} {donor}) -> {BIG} {{
    %0 = stablehlo.constant dense<[0, 8]> : tensor<2xi32>
    %1:2 = stablehlo.while(%i = %0, %x = {operand}) : tensor<2xi32>, {BIG}
    cond {{
      %test = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %test : tensor<i1>
    }} do {{{body}
      stablehlo.return %i, %y : tensor<2xi32>, {BIG}
    }}
    {after}
    return %1#1 : {BIG}
  }}"""


REVERSED = f'\n      %y = "stablehlo.reverse"(%x) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}'
COUNTERS = 8


def test_carried_buffers_count_once_beside_the_temporaries_of_the_body() -> None:
    use = used(loop(REVERSED, donor="{jax.buffer_donor = true}"))
    assert use.peak == 2 * KIB + COUNTERS
    assert use.peak_op == "stablehlo.reverse"


def test_an_operand_that_lives_on_is_copied_into_the_loop() -> None:
    assert used(loop(REVERSED)).peak == 3 * KIB + COUNTERS


def test_a_body_that_writes_in_place_needs_nothing_more() -> None:
    body = f"\n      %y = stablehlo.negate %x : {BIG}"
    assert used(loop(body, donor="{jax.buffer_donor = true}")).peak == KIB + COUNTERS


def test_an_operand_that_no_turn_changes_is_not_copied_though_it_lives_on() -> None:
    text = f"""
    func.func @main(%x: {BIG}, %i: tensor<2xi32>) -> ({BIG}, {BIG}) {{
      %0 = stablehlo.negate %x : {BIG}
      %1:3 = stablehlo.while(%n = %i, %w = %x, %y = %0) : tensor<2xi32>, {BIG}, {BIG}
      cond {{
        %again = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.return %again : tensor<i1>
      }} do {{
        %z = stablehlo.add %y, %w : {BIG}
        stablehlo.return %n, %w, %z : tensor<2xi32>, {BIG}, {BIG}
      }}
      return %1#2, %0 : {BIG}, {BIG}
    }}"""
    # %x, which %w is, %0, which is returned, and its copy %y
    assert used(text).peak == 3 * KIB + COUNTERS


def test_the_temporaries_of_nested_loops_add_up() -> None:
    inner = f"""
      %t = "stablehlo.reverse"(%x) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
      %u:2 = stablehlo.while(%j = %i, %z = %t) : tensor<2xi32>, {BIG}
      cond {{
        %again = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.return %again : tensor<i1>
      }} do {{
        %w = "stablehlo.reverse"(%z) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
        stablehlo.return %j, %w : tensor<2xi32>, {BIG}
      }}
      %y = stablehlo.add %x, %u#1 : {BIG}"""
    use = used(loop(inner, donor="{jax.buffer_donor = true}"))
    # carried %x, the inner loop's %z and %w; the counters %j, which the inner loop does not change, are %i
    assert use.peak == 3 * KIB + COUNTERS


def test_of_the_branches_of_a_case_the_biggest_counts() -> None:
    small = f"%s = stablehlo.negate %a : {BIG}\n stablehlo.return %s : {BIG}"
    big = f"""%t = "stablehlo.reverse"(%a) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
      %u = "stablehlo.reverse"(%t) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
      stablehlo.return %u : {BIG}"""
    body = f"""  func.func @main(%a: {BIG}, %i: tensor<i32>) -> {BIG} {{
    %0 = "stablehlo.case"(%i) ({{ {small} }}, {{ {big} }}) : (tensor<i32>) -> {BIG}
    return %0 : {BIG}
  }}"""
    assert used(body).peak == 3 * KIB + 4


def test_a_value_read_inside_a_region_stays_alive_until_then() -> None:
    body = f"""  func.func @main(%a: {BIG}, %i: tensor<i32>) -> {BIG} {{
    %b = "stablehlo.reverse"(%a) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
    %c = "stablehlo.reverse"(%a) <{{dimensions = array<i64: 0>}}> : ({BIG}) -> {BIG}
    %0 = "stablehlo.case"(%i) ({{ stablehlo.return %b : {BIG} }}, {{ stablehlo.return %c : {BIG} }})
      : (tensor<i32>) -> {BIG}
    return %0 : {BIG}
  }}"""
    assert used(body).peak == 4 * KIB + 4
