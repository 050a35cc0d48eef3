"""Our texts before the programs that define them: XLA's partitioner, upstream's shard dialect, PyTorch's DTensor."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation
from shardwright.notation.shard.sharding import print_sharding as print_shard
from shardwright.sharding import TensorSharding
from tests.notation.test_hlo_xla import DEVICES, ask_xla, held
from tests.notation.test_pairs import SEED, random_case
from tests.oracles import peers, xla_held

pytestmark = pytest.mark.oracle

Record = Callable[[str, object], None]


def drawn(seed: int, most: int) -> Iterator[tuple[TensorSharding, Shape]]:
    """Random shardings of meshes with axes, closed, the shape as it comes."""
    rng = random.Random(seed)
    while True:
        sharding, shape = random_case(rng, most)
        if sharding.mesh.axes and not any(dim.open for dim in sharding.dims):
            yield sharding, shape


def uneven_tiles(count: int) -> list[tuple[TensorSharding, Shape]]:
    """Shardings on eight devices of tensors that they do not divide, some of the shards empty."""
    tiles: list[tuple[TensorSharding, Shape]] = []
    for sharding, shape in drawn(SEED + 40, xla_held.DEVICES):
        plain = not (sharding.partial or sharding.offsets or sharding.halos)
        if sharding.mesh.size == xla_held.DEVICES and plain and all(shape) and not sharding.divides(shape):
            tiles.append((sharding, shape))
        if len(tiles) == count:
            return tiles
    raise AssertionError


def test_xla_cuts_uneven_dimensions_where_we_do(record_property: Record) -> None:
    cases = uneven_tiles(400)
    questions = [
        (notation("mhlo").print(sharding, shape), shape, sharding.local_shape(shape)) for sharding, shape in cases
    ]
    empty = 0
    for (sharding, shape), question, buffers in zip(cases, questions, xla_held.ask(questions), strict=True):
        whole = np.arange(1, math.prod(shape) + 1).reshape(shape)
        for position in range(sharding.mesh.size):
            own = whole[sharding.device_slice(shape, position)]
            padded = np.zeros(sharding.local_shape(shape), dtype=np.int64)
            padded[tuple(slice(0, size) for size in own.shape)] = own
            assert buffers[sharding.mesh.device_id(position)] == padded.tolist(), question
            empty += own.size == 0
    assert empty >= 100
    record_property("summary", f"mhlo: XLA cuts {len(cases)} uneven tensors where we do, {empty} shards empty")


def test_xla_gives_every_device_our_slice_of_even_tensors(record_property: Record) -> None:
    cases: list[TensorSharding] = []
    for sharding, _ in drawn(SEED + 41, DEVICES):
        if not (sharding.partial or sharding.offsets or sharding.halos):
            cases.append(sharding)
        if len(cases) == 2000:
            break
    shapes = [tuple(2 * math.prod(axis.size for axis in dim.axes) for dim in sharding.dims) for sharding in cases]
    questions: list[dict[str, Any]] = [
        {"text": notation("mhlo").print(sharding, shape), "shape": shape, "devices": sharding.mesh.size}
        for sharding, shape in zip(cases, shapes, strict=True)
    ]
    for sharding, shape, question, (text, slices) in zip(cases, shapes, questions, ask_xla(questions), strict=True):
        assert text == question["text"]
        assert slices == held(sharding, shape), text
    record_property("summary", f"mhlo: XLA gives every device our slice, {len(cases)} random shardings")


def module(text: str, mesh: Mesh, shape: Shape) -> str:
    """A module around one sharding of an argument."""
    tensor = f"tensor<{''.join(f'{size}x' for size in shape)}f32>"
    return f"""
    shard.grid @mesh(shape = {"x".join(str(size) for _, size in mesh.axes)})
    func.func @f(%a: {tensor}) -> {tensor} {{
      %s = {text} : !shard.sharding
      %0 = shard.shard %a to %s : {tensor}
      return %0 : {tensor}
    }}"""


def shard_texts(count: int, seed: int) -> list[tuple[str, Mesh, Shape]]:
    """What we print for random shardings, no more than half of it without halos or offsets."""
    cases: list[tuple[str, Mesh, Shape]] = []
    plain = 0
    for sharding, shape in drawn(seed, 64):
        if sharding.partial:
            continue
        try:
            text = print_shard(sharding, shape)
        except ShardingError:
            continue
        if text.endswith("]]"):
            plain += 1
        if not text.endswith("]]") or 2 * plain <= count:
            cases.append((text, sharding.mesh, shape))
        if len(cases) == count:
            return cases
    raise AssertionError


def miscounted(text: str, mesh: Mesh) -> bool:
    """Whether offsets are given for several axes: upstream's `ShardingOp` adds up the sizes that it should multiply."""
    lists, _, offsets = text.partition("sharded_dims_offsets")
    known = {str(at): size for at, (_, size) in enumerate(mesh.axes)}
    sizes = [
        [known.get(axis.strip(), 1) for axis in inner.split(",")] for inner in re.findall(r"\[([-\d, ]+)\]", lists)
    ]
    return bool(offsets) and any(sum(dim) != math.prod(dim) for dim in sizes)


def test_upstream_reads_our_texts_and_prints_them_alike(record_property: Record) -> None:
    cases = shard_texts(700, SEED + 42)
    answers = peers.ask("torch_mlir", [module(*case) for case in cases])
    alike = 0
    for (text, mesh, shape), (verdict, answer) in zip(cases, answers, strict=True):
        if verdict == "refused" and miscounted(text, mesh):
            assert re.search("offsets (has wrong size|must be non-decreasing)", answer), f"{text}: {answer}"
            continue
        alike += 1
        assert verdict == "ok", f"{text}: {answer}"
        printed = re.search(r"(shard\.sharding .*) : !shard\.sharding", answer)
        assert printed is not None, answer
        read = notation("shard").parse(printed[1], shape, mesh)
        assert read == notation("shard").parse(text, shape, mesh), printed[1]
        assert printed[1] == text
    having = {what: sum(what in text for text, _, _ in cases) for what in ("halo_sizes", "offsets")}
    assert alike >= 500
    assert min(having.values()) >= 30, having
    record_property("summary", f"shard: torch-mlir reads and prints {alike} random shardings as we do, {having}")


def altered(text: str, rng: random.Random) -> str:
    """One number another one, left out or doubled, or a second list of bounds."""
    numbers = list(re.finditer(r"-?\d+", text)) or list(re.finditer(r"\[", text))
    match = rng.choice(numbers)
    start, end = match.span()
    new = rng.choice(["-1", "0", "1", "2", "3", "99", "", f"{match[0]}, {match[0]}", f"{match[0]}, 1"])
    tail = rng.choice(["", "", "", " halo_sizes = [1, 1]", " sharded_dims_offsets = [0, 1, 2]"])
    return text[:start] + new + text[end:] + tail


def test_we_refuse_what_upstream_refuses(record_property: Record) -> None:
    rng = random.Random(SEED + 43)
    cases = [(altered(text, rng), mesh, shape) for text, mesh, shape in shard_texts(600, SEED + 44)]
    refused = 0
    for (text, mesh, shape), (verdict, answer) in zip(
        cases, peers.ask("torch_mlir", [module(*case) for case in cases]), strict=True
    ):
        if verdict == "refused" and not miscounted(text, mesh):
            refused += 1
            with pytest.raises(ShardingError):
                pytest.fail(f"{notation('shard').parse(text, shape, mesh)!r} from {text}, upstream: {answer}")
    assert refused >= 100
    record_property("summary", f"shard: of {len(cases)} altered texts torch-mlir refuses {refused}, and so do we")


def placements(rng: random.Random) -> tuple[str, Mesh, Shape]:
    """Any placements, strided shards among them."""
    sizes = [rng.choice([1, 2, 2, 3, 4]) for _ in range(rng.randint(1, 3))]
    one = [
        "Replicate()", "Partial(sum)", "Partial(max)", "Partial(avg)", "Partial(product)",
        *(f"Shard({dim})" for dim in (0, 0, 0, 1, 1)),
        *(f"_StridedShard(dim={dim}, sf={rng.choice([2, 2, 3, 4])})" for dim in (0, 0, 1)),
    ]  # fmt: skip
    shape = rng.choice([(rng.randint(1, 30), rng.randint(1, 30)), (24, 24), (48, 16), (36, 12)])
    kinds = [rng.choice(one) for _ in sizes]
    if len(sizes) > 1 and rng.random() < 0.3:  # a strided shard, and one that shares out the pieces above it
        dim, minor = rng.randint(0, 1), rng.randint(1, len(sizes) - 1)
        kinds[minor - 1 : minor + 1] = [f"_StridedShard(dim={dim}, sf={sizes[minor]})", f"Shard({dim})"]
    return f"[{', '.join(kinds)}]", Mesh(list(zip("abc", sizes, strict=False))), shape


def printed_placements(count: int) -> Iterator[tuple[str, Mesh, Shape]]:
    """What we print for random shardings that placements can express."""
    for sharding, shape in drawn(SEED + 45, 24):
        try:
            text = notation("dtensor").print(sharding, shape)
        except ShardingError:
            continue
        yield text, Mesh(sharding.mesh.axes), shape
        count -= 1
        if count == 0:
            return


def test_dtensor_leaves_to_every_device_what_we_say(record_property: Record) -> None:
    rng = random.Random(SEED + 46)
    cases = [*printed_placements(700), *(placements(rng) for _ in range(1500))]
    questions = [{"text": text, "mesh": [size for _, size in mesh.axes], "shape": shape} for text, mesh, shape in cases]
    compared, strided, uneven = 0, 0, 0
    for (text, mesh, shape), answer in zip(cases, peers.ask("dtensor", questions), strict=True):
        try:
            sharding = notation("dtensor").parse(text, shape, mesh)
        except ShardingError:
            assert "_StridedShard" in text, text
            continue
        assert notation("dtensor").parse(f"[{', '.join(answer['placements'])}]", shape, mesh) == sharding
        for position, (local, offset) in enumerate(answer["held"]):
            cuts = sharding.device_slice(shape, position)
            assert [cut.stop - cut.start for cut in cuts] == local, (text, mesh, shape, position)
            for cut, start in zip(cuts, offset, strict=True):
                assert cut.start == start or cut.start == cut.stop, (text, mesh, shape, position)
        compared += 1
        strided += "_StridedShard" in text
        uneven += not sharding.divides(shape)
    assert compared >= 1000
    assert min(strided, uneven) >= 100, (strided, uneven)
    record_property(
        "summary",
        f"dtensor: torch leaves every device our slice, {compared} placements, {strided} strided, {uneven} uneven",
    )


def test_altered_texts_are_really_altered() -> None:
    rng = random.Random(0)
    text = "shard.sharding @mesh split_axes = [[0], []]"
    assert sum(altered(text, rng) != text for _ in range(50)) >= 40
    assert len(list(itertools.islice(drawn(0, 8), 20))) == 20
