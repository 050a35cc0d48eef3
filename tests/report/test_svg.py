"""The SVG of a picture: well-formed, self-contained, and complete."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from shardwright.mesh import Mesh
from shardwright.report.show import picture, picture_svg
from shardwright.sharding import TensorSharding

SVG = "{http://www.w3.org/2000/svg}"
MESH = Mesh(x=4, y=2)
CASES = {
    "rows": (TensorSharding.of(MESH, [["x"], []]), (8, 3)),
    "uneven": (TensorSharding.of(MESH, [["x"]]), (7,)),
    "empty": (TensorSharding.of(MESH, [["x", "y"]]), (3,)),
    "partial": (TensorSharding.of(MESH, [["x"]], partial=["y"]), (8,)),
    "halo": (replace(TensorSharding.of(MESH, [["x"], ["y"]]), halos=((1, 2), None)), (8, 4)),
    "replicated": (TensorSharding.of(MESH, [[]]), (8,)),
    "scalar": (TensorSharding.of(MESH, []), ()),
    "three dimensions": (TensorSharding.of(Mesh(x=2, y=2, z=2), [["x"], ["y"], ["z"]]), (4, 4, 4)),
}


def drawn(sharding: TensorSharding, shape: tuple[int, ...]) -> ElementTree.Element:
    return ElementTree.fromstring(picture_svg(picture(sharding, shape)))


def devices_of(root: ElementTree.Element, group: str) -> list[int]:
    texts = root.findall(f"{SVG}g[@id='{group}']/{SVG}text[@class='device']")
    return [int(device) for text in texts for device in (text.text or "").split()]


@pytest.mark.parametrize("name", CASES)
def test_each_device_is_in_each_picture_once(name: str) -> None:
    root = drawn(*CASES[name])
    assert sorted(devices_of(root, "tensor")) == list(range(8))
    assert devices_of(root, "devices") == list(range(8))


@pytest.mark.parametrize("name", CASES)
def test_everything_lies_on_the_canvas_and_no_two_tiles_overlap(name: str) -> None:
    root = drawn(*CASES[name])
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        for box in root.findall(f"{SVG}g/{SVG}rect")
    ]
    for x, y, w, h in boxes:
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[i + 1 :]:
            assert x + w <= x2 + 0.2 or x2 + w2 <= x + 0.2 or y + h <= y2 + 0.2 or y2 + h2 <= y + 0.2


def test_it_needs_nothing_but_itself() -> None:
    text = picture_svg(picture(*CASES["halo"]))
    assert "script" not in text
    assert "href" not in text
    assert "url(" not in text
    assert text.count("http") == 1  # the name space


def test_it_says_what_the_terminal_says() -> None:
    words = [element.text for element in drawn(*CASES["uneven"]).iter(f"{SVG}text")]
    assert "tensor 7 in 4 tiles (4) of at most 2" in words
    assert "replicated over y: 2 devices hold the same" in words
    assert "[6:7]" in words


def test_tiles_are_as_wide_as_their_share_and_empty_ones_dashed() -> None:
    boxes = drawn(*CASES["uneven"]).findall(f"{SVG}g[@id='tensor']/{SVG}rect")
    assert float(boxes[0].attrib["width"]) > 1.8 * float(boxes[3].attrib["width"])
    empty = drawn(*CASES["empty"]).findall(f"{SVG}g[@id='tensor']/{SVG}rect[@class='empty']")
    assert len(empty) == 5


def test_names_of_axes_are_escaped() -> None:
    root = drawn(TensorSharding.of(Mesh([("<&>", 2)]), [["<&>"]]), (4,))
    assert "<&>=1" in [element.text for element in root.iter(f"{SVG}text")]


def test_a_huge_mesh_makes_a_small_file() -> None:
    sharding = TensorSharding.of(Mesh(x=128, y=128), [["x"], ["y"]])
    text = picture_svg(picture(sharding, (1024, 1024)))
    assert len(text) < 100_000
    assert 16383 in devices_of(ElementTree.fromstring(text), "devices")
