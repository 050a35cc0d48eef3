"""Modules of `shard` and sdy: every layout against the dialect's definition, whole programs there and back."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Block, Graph
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.notation.carriers import carrier_text, needs_carrier
from shardwright.notation.forms.texts import ops, to_custom, to_generic
from shardwright.notation.sdy import sharding as sdy
from shardwright.notation.shard.dialect.tables import SHARD
from shardwright.notation.shard.modules import export_module, import_module
from shardwright.sharding import TensorSharding
from tests.notation.shard_texts import ANNOTATED, STRUCTURED, exported, imported
from tests.propagation.programs import random_program

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = 1200
LAYOUTS = {
    "sdy.sharding_constraint",
    "sdy.reshard",
    "sdy.all_gather",
    "sdy.all_slice",
    "sdy.all_to_all",
    "sdy.all_reduce",
    "sdy.collective_permute",
    "sdy.reduce_scatter",
}


def shards_by_definition(op: Any, grid: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """What each device holds of a tensor: axis by axis, remainders to the last shards, offsets where given."""
    held = []
    offsets = list(op.attributes["static_sharded_dims_offsets"])
    lists = [*op.attributes["split_axes"], *[()] * len(shape)][: len(shape)]
    for device in itertools.product(*map(range, grid)):
        rest, slices = list(offsets), []
        for size, axes in zip(shape, lists, strict=True):
            index, count = 0, 1
            for axis in axes:
                index, count = index * grid[axis] + device[axis], count * grid[axis]
            cuts = [0]
            for shard in range(count):
                cuts.append(cuts[-1] + size // count + (shard >= count - size % count))
            if offsets and axes:
                cuts, rest = rest[: count + 1], rest[count + 1 :]
            slices.append(slice(cuts[index], cuts[index + 1]))
        held.append(tuple(slices))
    return held


@st.composite
def shardings(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[TensorSharding, tuple[int, ...]]:
    """A sharding of whole axes, with open dimensions, partial axes, offsets or halos; and a shape."""
    sizes = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3))
    mesh = Mesh([(name, size) for name, size in zip("xyz", sizes, strict=False)])
    shape = tuple(draw(st.lists(st.integers(1, 17), max_size=3)))
    names = draw(st.permutations([name for name, _ in mesh.axes]))
    dims: list[list[str]] = [[] for _ in shape]
    partial = []
    for name in names:
        place = draw(st.integers(-1, len(shape)))
        if 0 <= place < len(shape):
            dims[place].append(name)
        elif place == -1:
            partial.append(name)
    kind = draw(st.sampled_from(("sum", "max", "min", "product", "and", "or", "xor", "average")))
    sharding = TensorSharding.of(mesh, dims, partial=partial, kind=kind)
    split = [dim for dim, axes in enumerate(dims) if axes]
    choice = draw(st.sampled_from(("plain", "open", "offsets", "halos")))
    if choice == "open":
        opened = [replace(dim, open=draw(st.booleans())) for dim in sharding.dims]
        return replace(sharding, dims=tuple(opened)), shape
    if choice == "offsets" and split:
        dim = draw(st.sampled_from(split))
        count = math.prod(mesh.sizes[name] for name in dims[dim])
        inner = sorted(draw(st.lists(st.integers(0, shape[dim]), min_size=count - 1, max_size=count - 1)))
        cuts = (0, *inner, shape[dim])
        plain = tuple(min(index * -(-shape[dim] // count), shape[dim]) for index in range(count + 1))
        if cuts != plain:
            offsets = [cuts if number == dim else None for number in range(len(shape))]
            return replace(sharding, offsets=tuple(offsets)), shape
    if choice == "halos" and split and sharding.divides(shape):
        halo = (draw(st.integers(0, 2)), draw(st.integers(1, 2)))
        return replace(sharding, halos=tuple(halo if dim == split[0] else None for dim in range(len(shape)))), shape
    return sharding, shape


@settings(max_examples=300, deadline=None)
@given(shardings())
def test_every_device_holds_the_same_slices_in_both_and_it_comes_back(
    case: tuple[TensorSharding, tuple[int, ...]],
) -> None:
    sharding, shape = case
    type = f"tensor<{''.join(f'{size}x' for size in shape)}f32>"
    quoted = carrier_text(sharding, shape).replace('"', "\\22")
    note = (
        f'shardwright.sharding = "{quoted}"'
        if needs_carrier(sharding)
        else (f"sdy.sharding = {sdy.print_sharding(sharding)}")
    )
    mesh = sdy.print_mesh(sharding.mesh).removeprefix("#sdy.mesh")
    text = f"sdy.mesh @mesh = {mesh}\nfunc.func @main(%a: {type} {{{note}}}) -> {type} {{\n  return %a : {type}\n}}\n"
    spelled = exported(text)
    (stated,) = [op for op in ops(spelled, [SHARD]) if op.form.name.endswith(".sharding")]
    grid = tuple(size for _, size in sharding.mesh.axes)
    devices = range(sharding.mesh.size)
    assert shards_by_definition(stated, grid, shape) == [sharding.device_slice(shape, device) for device in devices]
    graph = modules.read(load_module(imported(spelled)))
    assert graph.shardings[graph.main.block.arguments[0]] == sharding


# --- whole programs


def statements_of(graph: Graph) -> list[tuple[Any, ...]]:
    """For every op: its name, what is said of its results, and through which layouts it reads which values."""
    chains: dict[int, tuple[int, tuple[Any, ...]]] = {}
    rows: list[tuple[Any, ...]] = [("arguments", [plain(graph.shardings[v]) for v in graph.main.block.arguments])]
    count = itertools.count()

    def read_by(value: int) -> tuple[int, tuple[Any, ...]]:
        if value not in chains:
            chains[value] = (next(count), ())
        return chains[value]

    def block(of: Block) -> None:
        for value in of.arguments:
            read_by(value)
        for op in of.ops:
            operands = [read_by(value) for value in op.operands]
            if op.name in LAYOUTS:
                root, chain = operands[0]
                chains[op.results[0]] = (root, (*chain, plain(graph.shardings[op.results[0]])))
                continue
            rows.append((op.name, [plain(graph.shardings[value]) for value in op.results], operands))
            for region in op.regions:
                block(region)
            for value in op.results:
                read_by(value)

    block(graph.main.block)
    name, results, operands = rows.pop()
    returned = zip(operands, graph.main.result_shardings, strict=True)
    returned_rows = [(root, chain if result is None else (*chain, plain(result))) for (root, chain), result in returned]
    return [*rows, (name, results, returned_rows)]


def plain(sharding: TensorSharding | None) -> TensorSharding | None:
    """With the priority 0, which is what is meant where none is said, unsaid; parts of an axis that make it up, joined."""
    if sharding is None:
        return None
    dims = zip(sharding.dims, sharding.closed().dims, strict=True)
    joined = tuple(replace(dim, axes=closed.axes, priority=dim.priority or None) for dim, closed in dims)
    return replace(sharding, dims=joined)


def test_random_annotated_programs_come_back_with_every_statement(
    record_property: Callable[[str, object], None],
) -> None:
    kept = refused = 0
    for seed in range(SEEDS):
        text = random_program(seed)
        module = load_module(text, "program.mlir")
        try:
            export_module(module, "program.mlir")
        except ShardingError as error:
            diagnostic = error.diagnostic
            refused += 1
            assert diagnostic.op, text
            assert diagnostic.location.startswith("program.mlir:"), text
            assert diagnostic.cause, text
            assert diagnostic.remedy, text
            continue
        kept += 1
        spelled = to_custom(module_text(module), [SHARD])
        back = imported(spelled)
        assert statements_of(modules.read(load_module(back))) == statements_of(modules.read(load_module(text))), text
        assert exported(back) == spelled, text
        assert imported(exported(back)) == back, text
    record_property("summary", f"sdy → shard → sdy: {kept} random programs equal, {refused} refused by name")
    assert kept > SEEDS // 8


@pytest.mark.parametrize("name", ["mlp", "gpt2", "gpt32_scan", "decode"])
def test_examples_come_back_equal(name: str) -> None:
    module = load_module((EXAMPLES / f"{name}.mlir").read_text(), name)
    before = module_text(module)
    export_module(module, name)
    assert "sdy." not in module_text(module)
    import_module(module, name)
    assert module.operation.verify()
    assert module_text(module) == before


def test_a_long_program_is_converted_quickly(record_property: Callable[[str, object], None]) -> None:
    count, layouts = 22815, ('[{"x"}, {}]', '[{}, {"y"}]', '[{"x"}, {"y", ?}]', "[{?}, {?}]")
    lines = [
        f"  %v{number + 1} = stablehlo.tanh %v{number} "
        f"{{sdy.sharding = #sdy.sharding_per_value<[<@m, {layouts[number % 4]}>]>}} : tensor<8x8xf32>\n"
        for number in range(count)
    ]
    module = load_module(
        'sdy.mesh @m = <["x"=2, "y"=4]>\nfunc.func @main(%v0: tensor<8x8xf32>) -> tensor<8x8xf32> {\n'
        f"{''.join(lines)}  return %v{count} : tensor<8x8xf32>\n}}\n"
    )
    before = module_text(module)
    start = time.perf_counter()
    export_module(module)
    middle = time.perf_counter()
    import_module(module)
    end = time.perf_counter()
    record_property(
        "summary", f"{count} annotated ops: sdy → shard in {middle - start:.2f} s, back in {end - middle:.2f} s"
    )
    assert module_text(module) == before
    assert end - start < 10


@pytest.mark.parametrize("seed", range(4))
def test_damaged_modules_are_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    source = to_generic(STRUCTURED if seed % 2 else ANNOTATED, [SHARD])
    tokens = re.findall(r"[\w.@%\"?-]+|\s+|.", source)
    refused = 0
    for _ in range(150):
        damaged = list(tokens)
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(damaged))
            damaged[at] = chance.choice(("", chance.choice(tokens), "-9223372036854775808", "99999999", "[[0, 0]]"))
        try:
            module = load_module("".join(damaged))
            import_module(module)
        except ShardingError:
            refused += 1
            continue
        assert module.operation.verify()
    assert 0 < refused < 150
