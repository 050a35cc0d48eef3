"""Convolutions at which XLA's simplifier ends the process, or loses that windows are reversed: what devices run of them
is written so that it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.runtime.execute import Execution, Job, WorkerDied, try_jobs
from tests.jaxlib_differences import INSTALLED


@dataclass(frozen=True)
class Convolution:
    """One of an image of 2 by `rows` and a kernel of 3 by `size`, which XLA lets change places."""

    rows: int
    size: int
    base: int
    stride: int
    pads: tuple[int, int] = (0, 0)

    @property
    def arrays(self) -> tuple[Any, Any]:
        shapes = (1, 1, 2, self.rows), (1, 1, 3, self.size)
        image, kernel = (np.arange(1, np.prod(one) + 1, dtype=np.float32).reshape(one) for one in shapes)
        return image, kernel

    def __call__(self, image: Any, kernel: Any, base: int | None = None) -> Any:
        dilation = (1, base or self.base)
        return lax.conv_general_dilated(image, kernel, (1, self.stride), ((2, 2), self.pads), lhs_dilation=dilation)

    def expected(self) -> Any:
        """What it gives, computed of an image with the zeros in it."""
        image, kernel = self.arrays
        dilated = np.zeros((1, 1, 2, (self.rows - 1) * self.base + 1), np.float32)
        dilated[..., :: self.base] = image
        return np.asarray(self(dilated, kernel, base=1))


FAILING = {
    "rows of two": Convolution(3, 2, 2, 1),
    "rows of three, more in the image": Convolution(4, 3, 3, 2),
    "rows of three, fewer in the image": Convolution(2, 3, 3, 2),
}
"""Windows that are those of groups, of images without."""

COMPILED = {
    "groups": Convolution(2, 2, 2, 1),
    "other strides": Convolution(4, 3, 3, 1),
    "other dilations": Convolution(3, 2, 3, 1),
    "padding": Convolution(3, 2, 2, 1, (1, 1)),
}


def local(name: str) -> str:
    """What one of two devices runs, which is right; images and kernels are whole."""
    function = (FAILING | COMPILED)[name]
    spmd = sw.from_jax(function, *function.arrays).shard(sw.Mesh(x=2), args={0: "-,-,-,-"}).partition()
    text = spmd.module()
    (result,) = try_jobs([Job(text, function.arrays)])
    assert isinstance(result, Execution), result
    np.testing.assert_array_equal(result.outputs[0], function.expected())
    return text


@pytest.mark.parametrize("name", FAILING)
def test_windows_that_xla_takes_for_groups_are_reversed(name: str) -> None:
    assert "stablehlo.reverse" in local(name)


@pytest.mark.parametrize("name", COMPILED)
def test_others_stay_as_they_are(name: str) -> None:
    assert "stablehlo.reverse" not in local(name)


def test_what_only_the_parts_of_devices_are() -> None:
    """The image has more rows than the kernel, and that of a device fewer: it keeps two and takes three."""

    def function(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), ((1, 2), (0, 0)), lhs_dilation=(2, 2))

    image, kernel = np.ones((1, 1, 8, 3), np.float32), np.ones((1, 1, 3, 2), np.float32)
    spmd = sw.from_jax(function, image, kernel).shard(sw.Mesh(x=8), args={0: "-,-,x,-"}).partition()
    assert "stablehlo.reverse" in spmd.module()
    spmd.verify().require()


@pytest.mark.oracle
@pytest.mark.skipif(INSTALLED != (0, 10), reason="known of this jaxlib")
def test_xla_ends_the_process_that_compiles_one_as_it_was() -> None:
    """When it does no more, `window_reversals` can go."""
    function = FAILING["rows of two"]
    (result,) = try_jobs([Job(jax.jit(function).lower(*function.arrays).as_text(), function.arrays)])
    assert isinstance(result, WorkerDied)


def single_window(rows: tuple[int, ...], features: int) -> str:
    """A convolution of one window, all rows of an image, that is reversed along all dimensions."""
    sizes, count = "x".join(map(str, rows)), len(rows)
    digits, ones, yes = (", ".join(some) for some in (map(str, range(count)), ["1"] * count, ["true"] * count))
    image, kernel = f"tensor<{sizes}x2x1xf32>", f"tensor<{sizes}x1x{features}xf32>"
    result = f"tensor<{'1x' * count}2x{features}xf32>"
    return f"""func.func @main(%x: {image}, %k: {kernel}) -> {result} {{
      %0 = "stablehlo.convolution"(%x, %k) <{{
        dimension_numbers = #stablehlo.conv<[{digits}, b, f]x[{digits}, i, o]->[{digits}, b, f]>,
        window_strides = array<i64: {ones}>, padding = dense<0> : tensor<{count}x2xi64>,
        lhs_dilation = array<i64: {ones}>, rhs_dilation = array<i64: {ones}>,
        window_reversal = array<i1: {yes}>, feature_group_count = 1 : i64, batch_group_count = 1 : i64
      }}> : ({image}, {kernel}) -> {result}
      return %0 : {result}
    }}"""


def given_and_expected(text: str, rows: tuple[int, ...], features: int) -> tuple[Any, Any]:
    """What a program of a single window gives, and what it should."""
    image, kernel = (
        np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape) for shape in ((*rows, 2), (*rows, features))
    )
    (result,) = try_jobs([Job(text, (image[..., None], kernel[..., None, :]))])
    assert isinstance(result, Execution), result
    dims = list(range(len(rows)))
    return result.outputs[0].reshape(2, features), np.tensordot(image, np.flip(kernel, tuple(dims)), (dims, dims))


@pytest.mark.parametrize(("rows", "features"), [((2,), 1), ((3,), 1), ((3, 2), 1), ((3,), 2)])
def test_a_single_window_that_is_reversed_has_its_kernel_reversed(rows: tuple[int, ...], features: int) -> None:
    local = sw.load(single_window(rows, features)).shard(sw.Mesh(x=2)).partition().module()
    assert ("stablehlo.reverse" in local) == (features == 1)
    np.testing.assert_array_equal(*given_and_expected(local, rows, features))


@pytest.mark.oracle
@pytest.mark.skipif(INSTALLED != (0, 10), reason="known of this jaxlib")
def test_xla_loses_that_a_single_window_is_reversed() -> None:
    """When it does no more, that part of `window_reversals` can go."""
    given, expected = given_and_expected(single_window((3,), 1), (3,), 1)
    assert not np.array_equal(given, expected)
