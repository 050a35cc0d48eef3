"""Formulas of the field, each with its arithmetic, against the functions that all choices are priced by.

`n` devices on a ring, `V` bytes gathered, `B` bytes of one device. Sources: the tuning tables and bandwidth factors of
NCCL and nccl-tests; Zheng et al., "Alpa"; Rajbhandari et al., "ZeRO"; Shoeybi et al., "Megatron-LM"; Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models"; Lepikhin et al., "GShard"; Pope et al., "Efficiently
Scaling Transformer Inference"; Williams et al., "Roofline"; Austin et al., "How to Scale Your Model".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from shardwright.cost.collectives import (
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    collective_permute_bytes,
    reduce_scatter_bytes,
)
from shardwright.cost.hardware import TPU_V5P, Hardware, hardware
from shardwright.cost.price import Cost, price, step_cost, work_cost
from shardwright.cost.roofline import operations_per_second, roofline_seconds
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllToAll, ReduceScatter, Step, local_bytes

MIB = 1 << 20
BF16, F32 = 2, 4
H100, V5E = hardware("h100"), hardware("tpu_v5e")

MESH = Mesh(x=2, y=4)
X, Y = MESH.axis("x"), MESH.axis("y")


def moved(step: Step, before: TensorSharding, shape: tuple[int, ...], element_bytes: int = BF16) -> Cost:
    """What a step of a tensor costs that lies so before it."""
    return step_cost(step, before, local_bytes(shape, element_bytes, before))


# --- collectives: bytes and seconds


@pytest.mark.parametrize(
    ("sends", "factor"),
    [
        (all_gather_bytes, lambda n: (n - 1) / n),
        (reduce_scatter_bytes, lambda n: (n - 1) / n),
        (all_reduce_bytes, lambda n: 2 * (n - 1) / n),
        (all_to_all_bytes, lambda n: (n - 1) / n),
    ],
    ids=["all_gather", "reduce_scatter", "all_reduce", "all_to_all"],
)
@pytest.mark.parametrize("n", [2, 3, 8, 72])
def test_bus_bandwidth_over_algorithm_bandwidth_is_the_factor_of_nccl_tests(
    sends: Callable[[float, int], float], factor: Callable[[int], float], n: int
) -> None:
    """busbw = algbw · factor, algbw = size / time: what every link carries over the size of the buffer."""
    size = 840.0 * MIB
    assert sends(size, n) / size == pytest.approx(factor(n))


@pytest.mark.parametrize(
    ("step", "before", "seconds"),
    [
        # V·(n−1)/n / W = 64 MiB · 3/4 / 9e10 B/s
        (AllGather(((Y,), ())), TensorSharding.of(MESH, [["y"], []]), 64 * MIB * (3 / 4) / 9e10),
        (ReduceScatter(((Y,), ())), TensorSharding.of(MESH, [[], []], partial="y"), 64 * MIB * (3 / 4) / 9e10),
        # 2·V·(n−1)/n / W
        (AllReduce((Y,)), TensorSharding.of(MESH, [[], []], partial="y"), 2 * 64 * MIB * (3 / 4) / 9e10),
        # B·(n−1)/n / W, of the B = 64 MiB / 4 of a device
        (AllToAll((((Y,), 0, 1),)), TensorSharding.of(MESH, [["y"], []]), 64 * MIB / 4 * (3 / 4) / 9e10),
    ],
    ids=["all_gather", "reduce_scatter", "all_reduce", "all_to_all"],
)
def test_a_collective_takes_its_bytes_over_the_link_and_a_start(
    step: Step, before: TensorSharding, seconds: float
) -> None:
    cost = moved(step, before, (4096, 8192))  # 64 MiB of bf16
    assert price(cost, TPU_V5P) == pytest.approx(1e-6 + seconds)


def test_a_permute_to_a_neighbour_takes_what_a_device_holds_over_the_link() -> None:
    held = 90_000_000.0  # B / W = 9e7 / 9e10 = 1 ms
    assert TPU_V5P.seconds(collective_permute_bytes(held)) == pytest.approx(1e-3)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather_but_for_a_start() -> None:
    partial = TensorSharding.of(MESH, [[], []], partial="y")
    scatter = ReduceScatter(((Y,), ()))
    halves = moved(scatter, partial, (512, 512)) + moved(AllGather(((Y,), ())), scatter.apply(partial), (512, 512))
    whole = moved(AllReduce((Y,)), partial, (512, 512))
    assert halves == Cost(whole.bytes_sent, whole.starts + 1)


def test_an_all_to_all_sends_an_nth_of_an_all_gather_of_the_same_tensor() -> None:
    split = TensorSharding.of(MESH, [["y"], []])
    exchanged, gathered = (
        moved(step, split, (512, 512)).bytes_sent for step in (AllToAll((((Y,), 0, 1),)), AllGather(((Y,), ())))
    )
    assert exchanged == gathered / 4


def test_a_gather_along_two_axes_is_one_along_their_product_however_it_is_taken() -> None:
    """V·(7/8) at once; V/4·(1/2) of the inner axis and then V·(3/4) of the outer one: V·(1/8 + 3/4)."""
    both = TensorSharding.of(MESH, [["y", "x"], []])
    inner = AllGather(((X,), ()))
    one_by_one = [
        moved(inner, both, (512, 512)).bytes_sent,
        moved(AllGather(((Y,), ())), inner.apply(both), (512, 512)).bytes_sent,
    ]
    volume = 512 * 512 * BF16
    assert one_by_one == [volume / 4 * (1 / 2), volume * (3 / 4)]
    assert sum(one_by_one) == moved(AllGather(((Y, X), ())), both, (512, 512)).bytes_sent == volume * (7 / 8)


def test_time_is_alpha_for_each_start_and_beta_for_each_byte_as_alpa_has_it() -> None:
    alpha, beta = 2e-6, 1 / 25e9
    link = Hardware("a link", bytes_per_second=1 / beta, start_seconds=alpha, multiply_adds_per_second=1.0)
    assert price(Cost(bytes_sent=3e6, starts=5), link) == pytest.approx(5 * alpha + 3e6 * beta)


@pytest.mark.parametrize(
    ("box", "worth"),
    [
        (TPU_V5P, 90e3),  # 1e-6 s · 9e10 B/s
        (V5E, 45e3),  # 1e-6 s · 4.5e10 B/s
        (H100, 2.97e6),  # 6.6e-6 s · 4.5e11 B/s
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_below_so_many_bytes_a_collective_takes_its_start_rather_than_its_link(box: Hardware, worth: float) -> None:
    assert price(Cost(starts=1), box) == pytest.approx(price(Cost(bytes_sent=worth), box))


# --- computing, by the roofline


@pytest.mark.parametrize(
    ("name", "intensity"),
    [
        ("tpu_v5e", 243),  # 1.97e14 / 8.1e11
        ("tpu_v5p", 164),  # 4.59e14 / 2.8e12
        ("h100", 296),  # 9.9e14 / 3.35e12
    ],
)
def test_a_product_with_a_large_weight_is_bound_by_compute_from_so_many_rows_on(name: str, intensity: int) -> None:
    """2·B·D·F operations over 2·D·F bytes of weight are B a byte: bound by memory while B < peak / bandwidth."""
    box, d, f = hardware(name), 8192, 32768
    assert round(operations_per_second(box, "bf16") / (box.memory_bytes_per_second or math.nan)) == intensity
    for rows, is_by_compute in ((intensity - 2, False), (intensity + 2, True)):
        operations, weights = 2 * rows * d * f, BF16 * d * f
        seconds = roofline_seconds(box, operations=operations, bytes_moved=weights)
        assert (seconds == operations / operations_per_second(box, "bf16")) == is_by_compute


def test_a_product_of_matrices_of_n_takes_a_third_of_n_operations_a_byte() -> None:
    """2·n³ operations, 3·n²·2 bytes of bf16: n / 3 a byte, of which a v5e needs 243, so n = 729."""
    n = 729
    operations, bytes_moved = 2 * n**3, 3 * n * n * BF16
    assert operations / bytes_moved == n / 3
    by_compute, by_memory = operations / 1.97e14, bytes_moved / 8.1e11
    assert by_compute == pytest.approx(by_memory, rel=2e-3)
    assert roofline_seconds(V5E, operations=operations, bytes_moved=bytes_moved) == max(by_compute, by_memory)


def test_a_training_step_takes_six_operations_a_parameter_and_token() -> None:
    """2 forward, 4 backward: 70e9 parameters and 4e6 tokens on 8960 v5p at their peak, 6·P·T / (n·C)."""
    parameters, tokens, n = 70e9, 4e6, 8960
    assert roofline_seconds(TPU_V5P, operations=6 * parameters * tokens / n) == pytest.approx(
        6 * 70e9 * 4e6 / (8960 * 4.59e14)
    )


def test_decoding_takes_at_least_the_reading_of_weights_and_caches() -> None:
    """13e9 parameters of bf16 and caches of 4 sequences of 8192 on 8 v5e: 40 layers, 40 heads of 128, keys and values."""
    weights = 13e9 * BF16
    caches = 4 * 8192 * 2 * 40 * 40 * 128 * BF16
    operations = 4 * 2 * 13e9
    seconds = roofline_seconds(V5E, operations=operations / 8, bytes_moved=(weights + caches) / 8)
    assert seconds == pytest.approx((26e9 + 26_843_545_600) / 8 / 8.1e11)


@pytest.mark.parametrize(("name", "milliseconds"), [("tpu_v5e", 19.8), ("tpu_v5p", 34.3), ("h100", 23.9)])
def test_all_memory_is_read_in_its_size_over_its_bandwidth(name: str, milliseconds: float) -> None:
    """16e9 / 8.1e11, 96e9 / 2.8e12 and 80e9 / 3.35e12."""
    box = hardware(name)
    assert roofline_seconds(box, bytes_moved=box.memory_bytes or 0) * 1e3 == pytest.approx(milliseconds, rel=3e-3)


def test_devices_share_multiplications_along_every_axis_that_splits_a_loop() -> None:
    """B·D·F over x = 2 and y = 4: an eighth, two operations each, at 4.59e14 a second."""
    b, d, f = 1024, 8192, 32768
    cost = work_cost(b * d * f, ((X,), (), (Y,)))
    assert cost.multiply_adds == b * d * f / 8
    assert price(cost, TPU_V5P) == pytest.approx(roofline_seconds(TPU_V5P, operations=2 * b * d * f / 8))


# --- strategies: traffic, memory, and where they cease to hide


PSI, N = 1 << 20, 8
RING = (N - 1) / N
LINE = Mesh(n=N)
ALL = LINE.axis("n")
WHOLE = TensorSharding.of(LINE, [[]])
SPLIT = TensorSharding.of(LINE, [["n"]])
SUMS = TensorSharding.of(LINE, [[]], partial="n")


def of_parameters(step: Step, before: TensorSharding, element_bytes: int = BF16) -> float:
    return moved(step, before, (PSI,), element_bytes).bytes_sent


def test_data_parallelism_sends_two_bytes_for_each_of_the_gradients_twice() -> None:
    assert of_parameters(AllReduce((ALL,)), SUMS) == 2 * PSI * BF16 * RING


def test_zero2_sends_as_much_and_zero3_half_as_much_again() -> None:
    scatter, gather = of_parameters(ReduceScatter(((ALL,),)), SUMS), of_parameters(AllGather(((ALL,),)), SPLIT)
    assert scatter + gather == 2 * PSI * BF16 * RING
    assert scatter + 2 * gather == 3 * PSI * BF16 * RING


def test_what_zero_holds_of_sixteen_bytes_a_parameter() -> None:
    """Parameters and gradients of bf16, and of f32 a copy and both moments: 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N."""

    def held(parameters: TensorSharding, gradients: TensorSharding, states: TensorSharding) -> int:
        narrow = sum(local_bytes((PSI,), BF16, lies) for lies in (parameters, gradients))
        return narrow + 3 * local_bytes((PSI,), F32, states)

    assert held(WHOLE, WHOLE, WHOLE) == 16 * PSI
    assert held(WHOLE, WHOLE, SPLIT) == 4 * PSI + 12 * PSI / N
    assert held(WHOLE, SPLIT, SPLIT) == 2 * PSI + 14 * PSI / N
    assert held(SPLIT, SPLIT, SPLIT) == 16 * PSI / N


def test_megatron_sends_four_all_reduces_of_activations_a_layer() -> None:
    """8·b·s·h·(t−1)/t elements, of bf16; with sequence parallelism 4 all_gathers and 4 reduce_scatters send the same."""
    b, s, h = 4, 2048, 4096
    activations = (b, s, h)
    partial, split = (
        TensorSharding.of(LINE, [[], *rest], partial=kind) for rest, kind in (([[], []], "n"), ([["n"], []], ""))
    )
    reduces = 4 * moved(AllReduce((ALL,)), partial, activations).bytes_sent
    scatters = 4 * moved(ReduceScatter(((), (ALL,), ())), partial, activations).bytes_sent
    gathers = 4 * moved(AllGather(((), (ALL,), ())), split, activations).bytes_sent
    assert reduces == 8 * b * s * h * RING * BF16
    assert scatters + gathers == reduces


def test_a_mixture_of_experts_sends_four_all_to_alls_of_its_slots_a_layer() -> None:
    """Two forward, two backward, each of E·C·M elements of a device but for the nth that stays."""
    experts, slots, m = 64, 40, 1024
    before, shape = TensorSharding.of(LINE, [[], ["n"], [], []]), (experts, N, slots, m)
    exchange = moved(AllToAll((((ALL,), 1, 0),)), before, shape).bytes_sent
    assert 4 * exchange == 4 * experts * slots * m * BF16 * RING


def large(cost: Callable[[float, int], float], volume: float) -> float:
    """What a device sends of a collective on so long a ring that (n − 1) / n is 1."""
    return cost(volume, 1 << 40)


def test_tensor_parallelism_hides_while_hidden_features_a_device_are_more_than_operations_a_byte() -> None:
    """Of a layer 4·B·D·F / (Y·C) seconds of products, 4·B·D / W of a gather and a scatter: hidden while F / Y > C / W."""
    b, d, f = 2048, 8192, 32768
    bound = operations_per_second(TPU_V5P, "bf16") / TPU_V5P.bytes_per_second
    assert bound == pytest.approx(5100)  # 4.59e14 / 9e10, one way of one link
    for y, hides in ((6, True), (7, False)):
        products = roofline_seconds(TPU_V5P, operations=4 * b * d * f / y)
        sends = large(all_gather_bytes, b * d * BF16) + large(reduce_scatter_bytes, b * d * BF16)
        assert (products > TPU_V5P.seconds(sends)) == (f / y > bound) == hides


def test_fsdp_hides_while_tokens_a_device_are_more_than_operations_a_byte() -> None:
    """Forward 4·B·D·F / (X·C) seconds of products and 4·D·F / W to gather both weights: hidden while B / X > C / W."""
    d, f = 8192, 32768
    for tokens, hides in ((5200, True), (5000, False)):
        products = roofline_seconds(TPU_V5P, operations=4 * tokens * d * f)
        gathers = 2 * large(all_gather_bytes, d * f * BF16)
        assert (products > TPU_V5P.seconds(gathers)) == hides


def test_data_parallelism_hides_at_the_same_number_of_tokens() -> None:
    """Backward 8·B·D·F / (X·C) seconds of products, 8·D·F / W to reduce both gradients: B / X > C / W as well."""
    d, f = 8192, 32768
    for tokens, hides in ((5200, True), (5000, False)):
        products = roofline_seconds(TPU_V5P, operations=8 * tokens * d * f)
        reduces = 2 * large(all_reduce_bytes, d * f * BF16)
        assert (products > TPU_V5P.seconds(reduces)) == hides


TOKENS, E, F = 512, 4096, 16384
"""Of a feed-forward layer of inference: F = 4E."""


def both(devices: int, volume: float) -> float:
    """Elements that a device sends to gather so many, and to scatter the sum of as many, a long ring's (n − 1) / n."""
    factor = (devices - 1) / devices if devices > 1 else 1.0
    return (all_gather_bytes(volume, devices) + reduce_scatter_bytes(volume, devices)) / factor


def test_1d_weight_stationary_sends_as_much_on_any_number_of_devices() -> None:
    assert [both(n, TOKENS * E) for n in (8, 64, 512)] == pytest.approx([2 * TOKENS * E] * 3)


@pytest.mark.parametrize("n", [16, 64, 256])
def test_2d_weight_stationary_sends_least_where_x_is_half_the_root_of_the_devices(n: int) -> None:
    """2·T·(E/X + F/Y) with X·Y = n and F = 4E: at X = √n / 2 both are equal, 8·T·E / √n together."""
    sent = {
        x: both(n // x, TOKENS * E / x) + both(x, TOKENS * F / (n // x)) for x in (1 << k for k in range(1, 8)) if x < n
    }
    best = min(sent, key=sent.__getitem__)
    assert best == math.sqrt(n) / 2
    assert sent[best] == pytest.approx(8 * TOKENS * E / math.sqrt(n))


def test_weights_are_best_gathered_over_the_root_of_tokens_times_devices_over_features() -> None:
    """2·E·F·N/n + 2·T·E/N: least at N = √(T·n/F), where both are equal, 4·E·√(T·F/n) together."""
    tokens, n = 1 << 20, 64
    sent = {}
    for gathered in (1 << k for k in range(1, 7)):
        weights = 2 * large(all_gather_bytes, E * F * gathered / n)
        activations = large(all_gather_bytes, tokens * E / gathered) + large(
            reduce_scatter_bytes, tokens * E / gathered
        )
        sent[gathered] = weights + activations
    best = min(sent, key=sent.__getitem__)
    assert best == math.sqrt(tokens * n / F)
    assert sent[best] == pytest.approx(4 * E * math.sqrt(tokens * F / n))
