"""What a picture of a sharding says, and that it says it of every device."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.report.grid import PALETTE, Cell, Grid
from shardwright.report.show import describe_picture, picture, picture_lines, print_picture
from shardwright.sharding import Partial, TensorSharding


def drawn_text(sharding: TensorSharding, shape: tuple[int, ...], width: int | None = None) -> str:
    return "\n".join(line.plain for line in picture_lines(picture(sharding, shape), width))


def cells_of(grid: Grid) -> list[Cell]:
    return [cell for cell in itertools.chain.from_iterable(grid.cells) if cell is not None]


def test_the_first_example_of_the_mhlo_document() -> None:
    """`{devices=[2,1]0,1}` on a 4x3: device 0 holds the upper 2x3, device 1 the lower."""
    drawn = picture(TensorSharding.of(Mesh(x=2), [["x"], []]), (4, 3))
    assert [(cell.devices, cell.slices) for cell in cells_of(drawn.tensor)] == [
        ((0,), ((0, 2), (0, 3))),
        ((1,), ((2, 4), (0, 3))),
    ]
    assert (
        drawn_text(TensorSharding.of(Mesh(x=2), [["x"], []]), (4, 3))
        == """\
tensor 4x3 in 2 tiles (2x1) of 2x3
mesh x=2 (2 devices)

Tensor: the devices on each tile
        0:3
      ┌─────┐
  0:2 │ 0   │
      │ 2x3 │
      ├─────┤
  2:4 │ 1   │
      │ 2x3 │
      └─────┘

Devices: the slice that each holds
     x=0          x=1
   ┌────────────┬────────────┐
   │ 0          │ 1          │
   │ [0:2, 0:3] │ [2:4, 0:3] │
   └────────────┴────────────┘"""
    )


def test_partial_replication_names_all_devices_of_a_tile() -> None:
    """The document's `{devices=[1,2,4]… last_tile_dim_replicate}`, as its text means it: 0-3 above, 4-7 below."""
    sharding = TensorSharding.of(Mesh(x=2, y=4), [["x"], []])
    assert [cell.devices for cell in cells_of(picture(sharding, (4, 3)).tensor)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert "replicated over y: 4 devices hold the same" in drawn_text(sharding, (4, 3))


def test_the_order_of_axes_matters() -> None:
    """The RFC's `[[2, 0], [], [1]]` form: a dimension over axis 2, then axis 0."""
    sharding = TensorSharding.of(Mesh(a=2, b=2, c=2), [["c", "a"], []], partial=["b"])
    assert [cell.devices for cell in cells_of(picture(sharding, (4, 8)).tensor)] == [(0, 2), (4, 6), (1, 3), (5, 7)]


def test_seven_over_four_shows_the_real_sizes() -> None:
    text = drawn_text(TensorSharding.of(Mesh(x=4), [["x"]]), (7,))
    assert "4 tiles (4) of at most 2" in text
    assert "   │ 0   │ 1   │ 2   │ 3   │\n   │ 2   │ 2   │ 2   │ 1   │" in text
    assert "│ [6:7] │" in text


def test_empty_tiles_are_marked_in_both_pictures() -> None:
    drawn = picture(TensorSharding.of(Mesh(x=4), [["x"]]), (2,))
    assert [cell.notes for cell in cells_of(drawn.tensor)][2:] == [("0 empty",)] * 2
    assert [cell.notes for cell in cells_of(drawn.devices)][2:] == [("[2:2]", "empty")] * 2
    assert [cell.colour for cell in cells_of(drawn.tensor)] == [0, 1, None, None]


def test_partials_are_named_with_their_kind() -> None:
    mesh = Mesh(x=2, y=4, z=2)
    sharding = replace(
        TensorSharding.of(mesh, [["x"]]), partial=(Partial(mesh.axis("y"), "sum"), Partial(mesh.axis("z"), "max"))
    )
    text = drawn_text(sharding, (4,))
    assert "partial sum over y: 4 contributions to every tile" in text
    assert "partial max over z: 2 contributions to every tile" in text
    assert "replicated" not in text
    assert "part 8/8" in text


def test_halos_stand_beside_the_dimension_they_belong_to() -> None:
    sharding = replace(TensorSharding.of(Mesh(x=2), [["x"], []]), halos=((1, 2), None))
    text = drawn_text(sharding, (8, 4))
    assert "halo of dimension 0: +1/+2 elements of the neighbours" in text
    assert "[4:8 +1/+2, 0:4]" in text
    assert "in 2 tiles (2x1) of 4x4" in text


def test_offsets_give_every_tile_its_own_size() -> None:
    sharding = replace(TensorSharding.of(Mesh(x=3), [["x"]]), offsets=((0, 1, 1, 6),))
    assert [cell.notes for cell in cells_of(picture(sharding, (6,)).tensor)] == [("1",), ("0 empty",), ("5",)]


def test_three_split_dimensions_are_summarised() -> None:
    sharding = TensorSharding.of(Mesh(x=2, y=2, z=2), [["x"], [], ["y"], ["z"]])
    drawn = picture(sharding, (4, 5, 6, 8))
    assert [cell.devices for cell in cells_of(drawn.tensor)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert cells_of(drawn.tensor)[1].slices == ((0, 2), (0, 5), (3, 6), (0, 8))
    assert "dimension 3 is cut into 2 as well: a cell drawn holds all of these" in drawn.facts


@pytest.mark.parametrize(("shape", "slices"), [((), "[]"), ((5,), "[0:5]"), ((2, 3, 4), "[0:2, 0:3, 0:4]")])
def test_what_is_not_cut_is_one_tile(shape: tuple[int, ...], slices: str) -> None:
    drawn = picture(TensorSharding.of(Mesh(x=2), [[]] * len(shape)), shape)
    assert [cell.devices for cell in cells_of(drawn.tensor)] == [(0, 1)]
    assert [cell.notes for cell in cells_of(drawn.devices)] == [(slices,)] * 2


def test_devices_go_by_their_ids() -> None:
    reordered = TensorSharding.of(Mesh([("x", 3)], device_ids=[2, 0, 1]), [["x"]])
    assert [cell.devices for cell in cells_of(picture(reordered, (3,)).tensor)] == [(2,), (0,), (1,)]
    alone = TensorSharding.of(Mesh(device_ids=[7]), [[]])
    assert [cell.devices for cell in cells_of(picture(alone, (3,)).devices)] == [(7,)]


@pytest.mark.parametrize("axes", [{"x": 16384}, {"x": 128, "y": 128}, {"x": 2**20, "y": 2**20}])
def test_a_huge_mesh_is_drawn_at_once(axes: dict[str, int]) -> None:
    sharding = TensorSharding.of(Mesh(axes.items()), [[axis] for axis in axes])
    start = time.perf_counter()
    drawn = picture(sharding, (2**22,) * len(axes))
    lines = picture_lines(drawn, 80)
    assert time.perf_counter() - start < 1
    assert len(lines) < 500
    assert f"│ {math.prod(axes.values()) - 1}" in drawn_text(sharding, (2**22,) * len(axes))  # the last one is drawn
    assert not drawn.tensor.is_whole


def test_many_devices_on_a_tile_are_counted() -> None:
    drawn = picture(TensorSharding.of(Mesh(x=1000), [[]]), (4,))
    (tile,) = cells_of(drawn.tensor)
    assert tile.devices == tuple(range(8))
    assert tile.note_lines() == ["… of 1,000", "4"]


@pytest.mark.parametrize("width", [24, 32, 40, 80])
def test_wide_grids_fold_to_the_width_and_lose_nothing(width: int) -> None:
    sharding = TensorSharding.of(Mesh(x=4, y=16), [["y"], ["x"]])
    lines = drawn_text(sharding, (32, 12), width).splitlines()
    assert max(map(len, lines)) <= width
    below = "\n".join(lines).partition("Devices:")[2]
    boxes = [cell.strip() for line in below.splitlines() for cell in line.split("│")[1:]]
    assert sorted(int(box) for box in boxes if box.isdigit()) == list(range(64))


def test_a_pipe_gets_neither_colours_nor_folds() -> None:
    sharding = TensorSharding.of(Mesh(x=64), [["x"]])
    out = Console(width=40, force_terminal=False, soft_wrap=True)
    with out.capture() as captured:
        print_picture(out, picture(sharding, (64,)))
    text = captured.get()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) > 200


def test_a_terminal_gets_a_colour_per_tile() -> None:
    out = Console(width=80, force_terminal=True, color_system="truecolor", soft_wrap=True)
    with out.capture() as captured:
        print_picture(out, picture(TensorSharding.of(Mesh(x=2), [["x"], []]), (4, 3)))
    for colour in PALETTE[:2]:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        assert captured.get().count(f"48;2;{red};{green};{blue}m") == 4  # two lines in each picture


def test_neighbours_differ_in_colour_where_colours_run_out() -> None:
    drawn = picture(TensorSharding.of(Mesh(x=8, y=8), [["x"], ["y"]]), (64, 64))
    colours = [[cell.colour if cell else None for cell in row] for row in drawn.tensor.cells]
    assert all(left != right for row in colours for left, right in itertools.pairwise(row))
    assert all(a != b for upper, lower in itertools.pairwise(colours) for a, b in zip(upper, lower, strict=True))


def test_a_sharding_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShardingError, match="2 dimensions"):
        picture(TensorSharding.of(Mesh(x=2), [["x"], []]), (4,))


@given(st.data())
def test_every_device_stands_on_the_tile_that_it_holds(data: st.DataObject) -> None:
    """Both pictures against each device's own slice, with sub-axes, uneven sizes and devices in any order."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3))
    ids = data.draw(st.permutations(range(math.prod(sizes))))
    mesh = Mesh([(f"a{i}", size) for i, size in enumerate(sizes)], device_ids=ids)
    parts = [
        part
        for name, size in mesh.axes
        for part in ([mesh.axis(name, 1, 2), mesh.axis(name, 2, 2)] if size == 4 else [mesh.axis(name)])
    ]
    shape = tuple(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=2)))
    dims: list[list[str | AxisRef]] = [[] for _ in shape]
    for part in data.draw(st.permutations(parts)):
        choice = data.draw(st.integers(-1, len(shape) - 1))
        if choice >= 0:
            dims[choice].append(part)
    sharding = TensorSharding.of(mesh, dims)
    held = {
        mesh.device_id(at): tuple((s.start, s.stop) for s in sharding.device_slice(shape, at))
        for at in range(mesh.size)
    }
    drawn = picture(sharding, shape)
    on_tiles = [(device, cell.slices) for cell in cells_of(drawn.tensor) for device in cell.devices]
    assert len(on_tiles) == mesh.size
    assert dict(on_tiles) == held
    assert {cell.devices[0]: cell.slices for cell in cells_of(drawn.devices)} == held
    summary = describe_picture(drawn)
    assert summary["tiles_complete"]
    assert len(summary["devices"]) == mesh.size
