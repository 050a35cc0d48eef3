"""What a diagnostic says to change, changed: then it works, and means what was meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.program.program import EXAMPLE


def remedy(attempt: Callable[[], Any]) -> str:
    with pytest.raises(sw.ShardingError) as refused:
        attempt()
    return refused.value.diagnostic.remedy


def answer(*command: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, command)
    return done.exit_code, done.output


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "matmul.mlir"
    path.write_text(EXAMPLE)
    return str(path)


@pytest.mark.parametrize(
    ("text", "shape", "meant"),
    [
        # XLA's own page has this one; without what follows the brace it would be eight tiles for a tensor of rank 3
        ("{devices=[1,2,4]0,1,2,3,4,5,6,7} last_tile_dim_replicate", (4, 4), "[{}, {a}]"),
        ("{devices=[2,1,2]<=[4]} last_tile_dim_replicate}", (4, 4), "[{a}, {}]"),
        ("{devices=[2,1,2]<=[4]} last_tile_dims={replicated}", (4, 4), "[{a}, {}]"),
        ("{devices=[2,1]<=[2]}}", (4, 4), "[{a}, {}]"),
    ],
)
def test_text_behind_the_last_brace(text: str, shape: tuple[int, ...], meant: str) -> None:
    change = remedy(lambda: sw.parse_sharding(text, shape=shape))
    mended = change.partition("move the brace behind it: ")[2]
    if not mended:
        assert change == "leave out what follows the last brace"
        mended = text[: text.index("}") + 1]
    assert repr(sw.parse_sharding(mended, shape=shape)) == meant


def test_a_misspelt_axis() -> None:
    program = sw.load(EXAMPLE)
    change = remedy(lambda: program.shard(sw.Mesh(data=2, model=4), args={"x": "dta,-"}))
    axis = re.findall("'(.*)'", change)[0]
    assert program.shard(sw.Mesh(data=2, model=4), args={"x": f"{axis},-"}).arguments["x"].axes[0][0].name == "data"


def test_too_many_entries(file: str) -> None:
    status, output = answer("propagate", file, "--mesh", "x=2", "--arg", "x=x,-,-")
    assert status == 1
    assert "give 2, '-' or '.' where a dimension is not split" in output
    for spec in ("x", "x,-", "x,."):
        assert answer("propagate", file, "--mesh", "x=2", "--arg", f"x={spec}")[0] == 0


def test_a_program_without_a_mesh(file: str) -> None:
    status, output = answer("propagate", file)
    assert status == 1
    options = re.findall(r"(--mesh) (\S+),", output)[0]
    assert answer("propagate", file, *options, "--arg", "x=data,-")[0] == 0


def test_more_devices_than_are_started_unasked(file: str) -> None:
    command = ["partition", file, "--mesh", "x=1024", "--devices", "8"]
    status, output = answer(*command)
    assert status == 1
    asked = re.findall(r"--devices (1024)", output)[0]
    assert answer(*command[:-1], asked)[0] == 0


def test_a_local_program_is_run_as_it_is(file: str, tmp_path: Path) -> None:
    local = str(tmp_path / "local.mlir")
    assert answer("partition", file, "--mesh", "x=2", "--arg", "x=x,-", "-o", local)[0] == 0
    for command in ("propagate", "verify"):
        status, output = answer(command, local)
        assert status == 1
        assert "`shardwright run`" in output
        assert "`shardwright partition`" in output
    assert answer("partition", local)[0] == 0
    assert answer("run", local, "-o", str(tmp_path / "stages"))[0] == 0


def test_text_on_one_line() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    assert "put a line break at its end" in remedy(lambda: sw.load(text))
    assert list(sw.load(text + "\n").arguments) == ["x"]


def test_an_input_of_another_type() -> None:
    spmd = sw.load(EXAMPLE).shard(sw.Mesh(data=2), args={"x": "data,-"}).partition()
    x = np.arange(16 * 64).reshape(16, 64)
    dtype = re.findall(r"astype\('(\w+)'\)", remedy(lambda: spmd.inputs({"x": x})))[0]
    assert np.array_equal(spmd.inputs({"x": x.astype(dtype)})[0], x)


def test_what_is_lowered_already() -> None:
    lowered = jax.jit(lambda x: jnp.sin(x)).lower(jnp.ones(8))
    assert "sw.load(lowered.as_text(debug_info=True))" in remedy(lambda: sw.load(lowered))  # type: ignore[arg-type]
    assert "give it alone" in remedy(lambda: sw.from_jax(lowered, jnp.ones(8)))
    assert list(sw.from_jax(lowered).arguments) == ["x"]
    assert list(sw.load(lowered.as_text(debug_info=True)).arguments) == ["x"]


def test_options_of_a_function_that_is_jitted() -> None:
    def step(x: jax.Array) -> jax.Array:
        return x + 1

    change = remedy(lambda: sw.from_jax(jax.jit(step), jnp.ones(8), donate_argnums=0))
    assert change == "give them to jax.jit, or give the function itself"
    for program in (
        sw.from_jax(jax.jit(step, donate_argnums=0), jnp.ones(8)),
        sw.from_jax(step, jnp.ones(8), donate_argnums=0),
    ):
        attributes = program.graph.main.argument_attributes[0]
        assert {"jax.buffer_donor", "tf.aliasing_output"} & attributes.keys()


def test_halos_in_a_notation_without(tmp_path: Path) -> None:
    path = tmp_path / "halos.mlir"
    path.write_text(
        "shard.grid @g(shape = 2x2)\n"
        "func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {\n"
        "  %s = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding\n"
        "  %y = shard.shard %x to %s : tensor<8x4xf32>\n"
        "  return %y : tensor<8x4xf32>\n}\n"
    )
    in_sdy = tmp_path / "sdy.mlir"
    assert answer("convert", str(path), "--to", "sdy", "-o", str(in_sdy))[0] == 0
    status, output = answer("convert", str(in_sdy), "--to", "mhlo")
    assert status == 1
    notation = re.findall("convert it to `(shard)`", output)[0]
    assert "halo_sizes = [1, 1]" in answer("convert", str(in_sdy), "--to", notation)[1]


def test_a_value_by_its_printed_number() -> None:
    program = sw.load("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                      "  %a = stablehlo.tanh %x : tensor<4xf32>\n  return %a : tensor<4xf32>\n}\n")  # fmt: skip
    plan = program.shard(sw.Mesh(x=2), args={"x": "x"})
    number = re.findall(r'"(%)\d+"', remedy(lambda: plan.explain(0)))[0] + "0"  # type: ignore[arg-type]
    assert [explanation.chains[0].axis.name for explanation in plan.explain(number)] == ["x"]
