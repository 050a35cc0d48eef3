"""Ops along a split dimension that they need whole: split along another one, where an all_to_all leads there and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.mesh import Mesh
from shardwright.program import Spmd
from tests.frontends.devices import eight_devices

eight_devices()

X = jax.ShapeDtypeStruct((512, 2048), jnp.float32)
SENT = 512 * 2048 * 4 // 8 * 7 // 8
"""What each of eight devices sends of its shard of X when dimensions change places."""

AXIS: list[tuple[str, Callable[[Any], Any], float]] = [
    ("sort", lambda x: jnp.sort(x, 1), 2 * SENT),
    ("argsort", lambda x: jnp.argsort(x, 1), 2 * SENT),
    ("cumsum", lambda x: jnp.cumsum(x, 1), 2 * SENT),
    ("fft", lambda x: jnp.fft.fft(x, axis=1), 4 * SENT),
    ("cummax", lambda x: jax.lax.cummax(x, 1), 2 * SENT),
]


def partitioned(function: Callable[..., Any], *arguments: Any, args: dict[str | int, Any]) -> Spmd:
    return sw.from_jax(function, *arguments).shard(Mesh(x=8), args=args).partition(effort="fast")


@pytest.mark.parametrize(("name", "function", "bytes"), AXIS, ids=[name for name, _, _ in AXIS])
def test_an_op_along_a_split_dimension_is_split_along_the_other(
    name: str, function: Callable[[Any], Any], bytes: float
) -> None:
    spmd = partitioned(function, X, args={0: "-,x"})
    assert "all_gather" not in spmd.traffic.kinds
    assert spmd.traffic.total.executed_bytes == bytes
    assert spmd.verify().ok


def test_axes_of_two_dimensions_go_to_the_one_that_can_be_split() -> None:
    """Two devices along x share the work too: gathered they send what two all_to_alls send, and compute twice."""
    stack = jax.ShapeDtypeStruct((16, 256, 256), jnp.complex64)
    spmd = sw.from_jax(jnp.fft.fft2, stack).shard(Mesh(x=2, y=4), args={0: "-,x,y"}).partition(effort="fast")
    assert "tensor<2x256x256xcomplex<f32>>) -> tensor<2x256x256xcomplex<f32>>" in spmd.module("local")
    assert "tensor<16x256x256xcomplex<f32>>" not in spmd.module("local")
    assert spmd.verify().ok


@pytest.mark.parametrize("length", [2, 4, 8], ids="{} rows".format)
def test_what_an_fft_gives_is_gathered_along_a_dimension_that_is_not_the_first(length: int) -> None:
    """XLA lets an FFT give it in the layout that suits the gather, and its runtime for CPUs refuses that."""
    type = f"tensor<{length}x4x8xcomplex<f32>>"
    spmd = (
        sw.load(f"""sdy.mesh @m = <["x"=2, "y"=4]>
        func.func @main(%a: {type} {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{"y"}}, {{}}]>}})
            -> ({type} {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}, {{}}]>}}) {{
          %0 = stablehlo.fft %a, type = FFT, length = [8] : ({type}) -> {type}
          return %0 : {type}
        }}""")
        .plan()
        .partition(effort="fast")
    )
    assert [op.name for op in spmd.explicit.walk()] == ["stablehlo.fft", "sdy.all_gather", "func.return"]
    assert spmd.verify().ok


def test_operands_that_contract_what_cannot_be_split_contract_something_else() -> None:
    def gradient(x: Any, w: Any, cotangent: Any) -> Any:
        def conv(w: Any) -> Any:
            return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        return jax.vjp(conv, w)[1](cotangent)[0]

    image = jax.ShapeDtypeStruct((8, 32, 32, 16), jnp.float32)
    weights = jax.ShapeDtypeStruct((3, 3, 16, 16), jnp.float32)
    spmd = partitioned(gradient, image, weights, image, args={0: "-,-,-,-", 2: "-,-,-,x"})
    assert spmd.verify().ok


def test_where_no_other_dimension_divides_the_operand_is_gathered() -> None:
    spmd = partitioned(lambda x: jnp.sort(x, 1), jax.ShapeDtypeStruct((6, 512), jnp.float32), args={0: "-,x"})
    (note,) = spmd.notes
    assert note.message.startswith("operand 0 is gathered along dimension 1")
    assert spmd.verify().ok


def test_it_is_told_that_the_dimension_changes() -> None:
    (note,) = partitioned(lambda x: jnp.sort(x, 1), X, args={0: "-,x"}).notes
    assert note.message.startswith("operand 0 is split along another dimension than 1")
    assert note.bytes == SENT


def test_features_that_a_convolution_sums_are_split_along_images_instead() -> None:
    """All features were gathered, 7,397,376 bytes, and all of it computed by each device; a sum sends 14,680,064."""

    def function(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    image, kernel = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 64, 64, 64), (3, 3, 64, 64)))
    with sw.Session(hardware=sw.hardware("tpu_v5p").with_a_link()):
        spmd = partitioned(function, image, kernel, args={0: "-,-,-,x"})
    shard = 8 * 64 * 64 * 64 * 4 // 8
    assert spmd.traffic.total.executed_bytes == shard * 7 // 8 + 3 * 3 * 64 * 64 * 4 * 7 // 8 + shard * 7
    assert "tensor<1x64x64x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x64x64x64xf32>" in spmd.module("local")


def test_where_a_result_that_nobody_reads_lies_is_no_matter() -> None:
    """What was sorted was priced on its way back, and so what cost more was taken: 1,228,800 bytes."""
    x = jax.ShapeDtypeStruct((960, 960), jnp.float32)
    spmd = sw.from_jax(lambda x: jnp.argsort(x, 0), x).shard(Mesh(x=3, y=2), args={0: "x,y"}).partition(effort="fast")
    assert spmd.traffic.total.executed_bytes == 2 * 960 * 960 * 4 // 6 * 2 // 3
    assert spmd.verify().ok
