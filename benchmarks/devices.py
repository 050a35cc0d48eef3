"""Partitioning one program for 8, 512 and 16,384 devices: time and memory depend on the program, not on the devices.

The program is a small language model with its loss and one weight gradient: an embedding lookup in a table sharded by
rows, blocks of normalization and a two-layer perceptron in the Megatron way with sequence parallelism, and a softmax
over sharded logits. Its op graph is the same for every mesh; sharded dimensions grow with it.
"""

from __future__ import annotations

import sys
from functools import partial

from common import MIB, ChildError, Report, Run, in_turns, measure

MESHES = {8: (2, 4), 512: (32, 16), 16_384: (256, 64)}
LAYERS = 8
BAR = 2.0
"""How much more any bigger mesh may take than the smallest."""


def program(data: int, model: int, layers: int = LAYERS) -> str:
    """The text for a mesh of `data` × `model`."""
    batch, length, width, hidden, vocabulary = 4 * data, 8 * model, 256, 64 * model, 128 * model
    writer = _Writer(batch, length, width, hidden)
    writer.embed(vocabulary)
    for layer in range(layers):
        writer.block(layer)
    writer.loss(vocabulary)
    arguments = [
        f"%tokens: tensor<{batch}x{length}x1xi32> {_sharding('data', '', '')}",
        f"%table: tensor<{vocabulary}x{width}xf32> {_sharding('model', '')}",
    ]
    for layer in range(layers):
        arguments.append(f"%up{layer}: tensor<{width}x{hidden}xf32> {_sharding('', 'model')}")
        arguments.append(f"%down{layer}: tensor<{hidden}x{width}xf32> {_sharding('model', '')}")
    results = f"tensor<f32>, tensor<{vocabulary}x{width}xf32>"
    return f"""module @mlp attributes {{mhlo.num_partitions = {data * model} : i32}} {{
  sdy.mesh @mesh = <["data"={data}, "model"={model}]>
  func.func @main({", ".join(arguments)}) -> ({results}) {{
    {writer.text}
    return %loss, %gradient : {results}
  }}
}}
"""


def _sharding(*axes: str) -> str:
    """The attribute of an argument: one axis per dimension, or none."""
    dims = ", ".join(f'{{"{axis}"}}' if axis else "{}" for axis in axes)
    return f"{{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"


class _Writer:
    """Appends ops to a function; `x` is the name of the activations so far."""

    def __init__(self, batch: int, length: int, width: int, hidden: int) -> None:
        self.activation = f"tensor<{batch}x{length}x{width}xf32>"
        self.row = f"tensor<{batch}x{length}xf32>"
        self.inner = f"tensor<{batch}x{length}x{hidden}xf32>"
        self.up = f"tensor<{width}x{hidden}xf32>"
        self.down = f"tensor<{hidden}x{width}xf32>"
        self.batch, self.length, self.width = batch, length, width
        self.lines = ["%zero = stablehlo.constant dense<0.0> : tensor<f32>"]
        self.lines.append("%lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>")
        self.x = ""

    @property
    def text(self) -> str:
        return "\n    ".join(self.lines)

    def add(self, *lines: str) -> None:
        self.lines += lines

    def embed(self, vocabulary: int) -> None:
        numbers = "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2"
        self.add(
            f'%embedded = "stablehlo.gather"(%table, %tokens) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
            f"slice_sizes = array<i64: 1, {self.width}>}}> : (tensor<{vocabulary}x{self.width}xf32>, "
            f"tensor<{self.batch}x{self.length}x1xi32>) -> {self.activation}"
        )
        self.x = self.split("%embedded", "%x")

    def split(self, value: str, result: str) -> str:
        """Sequence parallelism: between blocks, positions are split over `model`."""
        self.add(
            f'{result} = sdy.sharding_constraint {value} <@mesh, [{{"data"}}, {{"model"}}, {{}}]> : {self.activation}'
        )
        return result

    def block(self, layer: int) -> None:
        n, x = layer, self.x
        self.add(
            f"%square{n} = stablehlo.multiply {x}, {x} : {self.activation}",
            f"%total{n} = stablehlo.reduce(%square{n} init: %zero) applies stablehlo.add across dimensions = [2] "
            f": ({self.activation}, tensor<f32>) -> {self.row}",
            f"%scale{n} = stablehlo.rsqrt %total{n} : {self.row}",
            f"%scales{n} = stablehlo.broadcast_in_dim %scale{n}, dims = [0, 1] : ({self.row}) -> {self.activation}",
            f"%normal{n} = stablehlo.multiply {x}, %scales{n} : {self.activation}",
            f"%hidden{n} = stablehlo.dot_general %normal{n}, %up{n}, contracting_dims = [2] x [0] "
            f": ({self.activation}, {self.up}) -> {self.inner}",
            f"%active{n} = stablehlo.tanh %hidden{n} : {self.inner}",
            f"%out{n} = stablehlo.dot_general %active{n}, %down{n}, contracting_dims = [2] x [0] "
            f": ({self.inner}, {self.down}) -> {self.activation}",
            f"%sum{n} = stablehlo.add {x}, %out{n} : {self.activation}",
        )
        self.x = self.split(f"%sum{n}", f"%x{n}")

    def loss(self, vocabulary: int) -> None:
        logits = f"tensor<{self.batch}x{self.length}x{vocabulary}xf32>"
        table = f"tensor<{vocabulary}x{self.width}xf32>"
        reduce = f"({logits}, tensor<f32>) -> {self.row}"
        self.add(
            f"%logits = stablehlo.dot_general {self.x}, %table, contracting_dims = [2] x [1] "
            f": ({self.activation}, {table}) -> {logits}",
            "%top = stablehlo.reduce(%logits init: %lowest) applies stablehlo.maximum across dimensions = [2] "
            f": {reduce}",
            f"%tops = stablehlo.broadcast_in_dim %top, dims = [0, 1] : ({self.row}) -> {logits}",
            f"%shifted = stablehlo.subtract %logits, %tops : {logits}",
            f"%powers = stablehlo.exponential %shifted : {logits}",
            f"%sums = stablehlo.reduce(%powers init: %zero) applies stablehlo.add across dimensions = [2] : {reduce}",
            "%loss = stablehlo.reduce(%sums init: %zero) applies stablehlo.add across dimensions = [0, 1] "
            f": ({self.row}, tensor<f32>) -> tensor<f32>",
            f"%gradient = stablehlo.dot_general %powers, {self.x}, contracting_dims = [0, 1] x [0, 1] "
            f": ({logits}, {self.activation}) -> {table}",
        )


def partition(text: str) -> Run:
    from shardwright.ir.context import load_module, module_text
    from shardwright.notation.modules import read, write
    from shardwright.partition import localize, materialize
    from shardwright.propagation import propagate

    graph = read(load_module(text))
    return lambda: module_text(write(localize(materialize(propagate(graph)).graph)))


def main() -> None:
    report = Report()
    sides = {str(devices): partial(measure, partial(partition, program(*mesh))) for devices, mesh in MESHES.items()}
    samples = in_turns(sides)
    fewest, *more = (samples[str(devices)] for devices in sorted(MESHES))
    for devices, sample in samples.items():
        report.add(f"devices.{devices}.ms", sample.seconds * 1e3)
        report.add(f"devices.{devices}.warm_ms", (sample.warm_seconds or 0.0) * 1e3)
        report.add(f"devices.{devices}.peak_mib", sample.peak_bytes / MIB)
    slowest, largest = max(sample.seconds for sample in more), max(sample.peak_bytes for sample in more)
    report.add("devices.time_growth", slowest / fewest.seconds, BAR)
    report.add("devices.memory_growth", largest / max(1, fewest.peak_bytes), BAR)
    report.exit()


if __name__ == "__main__":
    try:
        main()
    except ChildError as error:
        sys.exit(str(error))
