"""`mhlo.sharding`s that name a part of the devices: on all of them in the `sdy` dialect, and back as they were."""

from __future__ import annotations

import random
import re

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.sub_meshes import sub_meshes
from shardwright.mesh import Mesh
from shardwright.notation.hlo.modules import export_module, import_module
from shardwright.notation.hlo.sub_meshes import lift
from shardwright.notation.hlo.text import parse_hlo
from shardwright.notation.hlo.tiles import expand
from shardwright.notation.modules import read
from shardwright.sharding import TensorSharding

Slices = dict[int, tuple[tuple[int, int], ...]]


def module(texts: list[str], count: int | None = None) -> str:
    """A function with an argument of each sharding."""
    arguments = [f'%a{number}: tensor<24x24xf32> {{mhlo.sharding = "{text}"}}' for number, text in enumerate(texts)]
    devices = "" if count is None else f" attributes {{mhlo.num_partitions = {count} : i32}}"
    body = ") -> tensor<24x24xf32> {\n  return %a0 : tensor<24x24xf32>\n}\n}"
    return f"module{devices} {{\nfunc.func @main(" + ",\n  ".join(arguments) + body


def imported(text: str) -> str:
    held = load_module(text)
    import_module(held, "step.mlir")
    assert held.operation.verify()
    return module_text(held)


def exported(text: str, version: str = "V2") -> list[str]:
    held = load_module(text)
    export_module(held, version)
    assert held.operation.verify()
    return re.findall(r'mhlo.sharding = "(.*?)"', module_text(held))


def held_by(sharding: TensorSharding) -> Slices:
    """The rows and columns that each device holds of a tensor of 24 by 24."""
    mesh = sharding.mesh
    slices: Slices = {}
    for position in range(mesh.size):
        ranges = []
        for dim in sharding.axes:
            shards = 1
            for axis in dim:
                shards *= axis.size
            size, index = 24 // shards, mesh.index(dim, position)
            ranges.append((index * size, index * size + size))
        slices[mesh.device_id(position)] = tuple(ranges)
    return slices


def said_of(text: str) -> Slices:
    """The same as the text lists its devices."""
    hlo = parse_hlo(text)
    tile = (*hlo.data_tile, len(expand(hlo.order)) // (hlo.data_tile[0] * hlo.data_tile[1]))
    slices: Slices = {}
    for number, device in enumerate(expand(hlo.order)):
        row, column = number // tile[2] // tile[1], number // tile[2] % tile[1]
        height, width = 24 // tile[0], 24 // tile[1]
        slices[int(device)] = ((row * height, row * height + height), (column * width, column * width + width))
    return slices


def sharding_text(chance: random.Random, devices: list[int]) -> str:
    size = len(devices)
    rows = chance.choice([rows for rows in range(1, size + 1) if size % rows == 0])
    columns = chance.choice([columns for columns in range(1, size // rows + 1) if size // rows % columns == 0])
    rest = size // rows // columns
    if rows * columns == 1:
        rows, rest = size, 1
    replicas = f",{rest}" if rest > 1 else ""
    tail = " last_tile_dim_replicate" if rest > 1 else ""
    return f"{{devices=[{rows},{columns}{replicas}]{','.join(map(str, devices))}{tail}}}"


def random_texts(chance: random.Random) -> tuple[list[str], int]:
    """Shardings over random parts of 2 to 8 devices, and how many these are."""
    count = chance.choice([4, 6, 8])
    devices = list(range(count))
    if chance.random() < 0.5:
        chance.shuffle(devices)
    sizes = [size for size in range(2, count + 1) if count % size == 0]
    texts = []
    for _ in range(chance.randint(1, 5)):
        size = chance.choice(sizes)
        first = chance.randrange(0, count, size)
        part = devices[first : first + size] if chance.random() < 0.8 else chance.sample(devices, size)
        if chance.random() < 0.3:
            chance.shuffle(part)
        texts.append(sharding_text(chance, part))
    return texts, count


def test_every_device_that_a_text_names_holds_what_it_says() -> None:
    for seed in range(150):
        texts, count = random_texts(random.Random(seed))
        inner = imported(module(texts, count))
        graph = read(load_module(inner))
        assert graph.mesh.size == count
        parts = sub_meshes(graph)
        for text, value in zip(texts, graph.main.block.arguments, strict=True):
            sharding, said = graph.shardings[value], said_of(text)
            assert sharding is not None
            held = held_by(sharding)
            assert {device: held[device] for device in said} == said, text
            assert parts.get(sharding.mesh, tuple(range(count))) == tuple(sorted(said))
            alike = [sum(slices == one for slices in held.values()) for one in said.values()]
            assert len(set(alike)) == 1, "the others hold the same, each as many times"


def test_what_a_text_says_of_a_part_is_written_again() -> None:
    for seed in range(150, 250):
        texts, count = random_texts(random.Random(seed))
        inner = imported(module(texts, count))
        for version in ("V2", "V1", "named"):
            for text, again in zip(texts, exported(inner, version), strict=True):
                if len(said_of(text)) < count or version != "named":
                    assert said_of(again) == said_of(text)


def meshes(texts: list[str], count: int | None = None) -> dict[str, Mesh]:
    graph = read(load_module(imported(module(texts, count))))
    parts = sub_meshes(graph)
    return {name: mesh for name, mesh in graph.meshes.items() if mesh.axes and mesh not in parts}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["{devices=[2,1]0,1}", "{devices=[1,2]2,3}"], [Mesh(a=2, b=2)]),
        (["{devices=[2,1]<=[2]}", "{devices=[2,2]<=[4]}"], [Mesh(a=2, b=2)]),
        (["{devices=[2,1]0,1}", "{devices=[2,1]3,2}"], [Mesh(a=2, b=2, device_ids=[0, 3, 1, 2])]),
        (["{devices=[2,1]0,2}", "{devices=[2,1]3,1}"], [Mesh(a=2, b=2, device_ids=[0, 3, 1, 2])]),
        (["{devices=[2,1]0,1}", "{devices=[2,1]2,3}", "{devices=[2,1]4,5}"], [Mesh(a=3, b=2)]),
        (["{devices=[2,1]4,6}", "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"], [Mesh(a=2, b=2, c=2)]),
        (["{maximal device=1}", "{devices=[2,1]0,1}", "{devices=[2,1]2,3}", "{maximal device=3}"], [Mesh(a=2, b=2)]),
        (["{maximal device=0}", "{maximal device=1}"], [Mesh(a=2)]),
        (
            ["{devices=[2,1]0,1}", "{devices=[2,1]1,2}", "{devices=[2,1]3,0}"],
            [Mesh(a=2, b=2), Mesh(a=2, b=2, device_ids=[1, 2, 0, 3])],
        ),
    ],
)
def test_as_few_meshes_as_serve_all(texts: list[str], expected: list[Mesh]) -> None:
    made = list(meshes(texts).values())
    assert [(mesh.size, len(mesh.axes)) for mesh in made[:1]] == [(mesh.size, len(mesh.axes)) for mesh in expected[:1]]
    assert len(made) == len(expected)
    assert made[0].device_ids == expected[0].device_ids


def test_stages_of_a_pipeline_are_alike() -> None:
    """So nothing is moved between them: document 002 draws them as clusters, one behind the other."""
    lifted = lift([parse_hlo(text) for text in ("{devices=[2,1]0,1}", "{devices=[2,1]2,3}", "{devices=[2,1]5,4}")], 6)
    assert len({one.whole for one in lifted.values()}) == 1
    assert [one.devices for one in lifted.values()] == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("texts", "count", "cause", "remedy"),
    [
        (["{devices=[2,1]0,1}", "{devices=[2,1]1,2}"], None, "for 2 devices, the module for 3", "divides 3"),
        (["{devices=[2,1]0,1}", "{devices=[3,1]2,3,4}"], None, "for 2 devices, the module for 5", "num_partitions"),
        (["{devices=[2,1]0,1}", "{devices=[4,1]4,5,6,7}"], None, "device 7 is not one of 6", "from 0 to 5"),
        (["{devices=[2,1]0,4}", "{replicated}"], 4, "device 4 is not one of 4", "from 0 to 3"),
        (["{devices=[2,1,2]0,1,2,3 last_tile_dims={manual}}"], 8, "manual computation on 4 of 8 devices", "all 8"),
        (["{devices=[2,1]<=[2]}", "{maximal device=3}"], None, "device 3 is not one of 3", "from 0 to 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_on_all_devices_is_refused(texts: list[str], count: int | None, cause: str, remedy: str) -> None:
    with pytest.raises(ShardingError) as raised:
        imported(module(texts, count))
    diagnostic = raised.value.diagnostic
    assert "no mesh serves this sharding: argument" in diagnostic.message
    assert diagnostic.location.startswith("step.mlir:")
    assert cause in diagnostic.cause
    assert remedy in diagnostic.remedy


def test_groups_and_metadata_stay_with_the_sharding() -> None:
    inner = imported(module(["{devices=[2,1]0,1 shard_as 3 metadata={op_name=\\22a\\22}}", "{devices=[2,1]2,3}"]))
    assert "sdy.sharding_group %arg0 group_id=3" in inner
    assert any("{devices=[2,1]0,1 metadata={op_name=" in text for text in exported(inner))


@pytest.mark.parametrize("notation", ["shard", "mesh", "rfc"])
def test_a_sub_mesh_goes_by_way_of_other_notations(notation: str) -> None:
    text = module(["{devices=[2,1]0,1}", "{devices=[1,2]2,3}"])
    there = sw.convert(text, to=notation)
    assert "shardwright.devices = array<i64: 2, 3>" in there
    parts = sub_meshes(read(load_module(sw.convert(there, to="sdy"))))
    assert sorted(parts.values()) == [(0, 1), (2, 3)]
