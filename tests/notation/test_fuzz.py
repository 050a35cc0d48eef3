"""Texts from the grammar of every notation, whole and mutilated: each is read or refused in words, fast and in little memory.

What is read is also printed in every notation, and what is printed is read again. `SHARDWRIGHT_FUZZ=N` runs N texts,
`SHARDWRIGHT_SEED=N` other ones.
"""

from __future__ import annotations

import os
import random
import re
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation, notation_names, notations, parse_text
from shardwright.sharding import TensorSharding
from tests.notation.grammars import GRAMMARS

COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "2000"))
SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
SECONDS = 1.0
"""Most time of the processor for one text, with all that is done with it."""
BYTES = 48 << 20
"""Most memory for one text: an order of a million devices may be written out, one of four thousand million may not."""

CUBE = Mesh(x=2, y=4, z=3)
MESHES: Sequence[Mesh | None] = (
    None, CUBE, CUBE, CUBE, CUBE, CUBE, Mesh(x=8), Mesh(CUBE.axes, device_ids=list(range(24))[::-1]), Mesh(),
    Mesh(device_ids=[3]), Mesh(x=1 << 32, y=1 << 20, z=3), Mesh([("x", 2), ("a b", 2), ("y'", 3)]),
)  # fmt: skip
SHAPES: Sequence[Shape | None] = (None, (), (8,), (8, 16), (24, 24), (7, 5), (7, 5, 3), (0, 4), (1 << 40, 3))
HUGE = ["4294967296", "9223372036854775808", "1000000000000000000", "65537", "0", "-1", "9" * 5000, "1e9", "0x10", "٣"]
STRANGE = ["é", "\0", "\ud800", "\u202e", "＜", "“", "\n", "𝔁", '"', "'", "\\", "/*", "*/", "//", "%", "@", "#", "?"]
NESTING = ["[", "(", "{", "<", "[[", "{{", "mesh<", "P(", "[{", '{"x",', "metadata={", "{devices=[", "Shard("]


def mutilated(text: str, rng: random.Random) -> str:
    """One change: tokens swapped, left out, doubled or replaced, the end cut off, or brackets without end."""
    tokens = re.findall(r"\w+|\s+|.", text, re.DOTALL) or [""]
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    numbers = [index for index, token in enumerate(tokens) if token.isdecimal()] or [at]
    change = rng.randrange(9)
    if change == 0:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif change == 1:
        del tokens[at : at + rng.randint(1, 3)]
    elif change == 2:
        tokens[at:at] = tokens[at : at + rng.randint(1, 8)] * rng.choice([1, 1, 2, 50])
    elif change == 3:
        tokens[rng.choice(numbers)] = rng.choice(HUGE)
    elif change == 4:
        tokens.insert(at, rng.choice(STRANGE))
    elif change == 5:
        del tokens[at:]
    elif change == 6:
        tokens.insert(at, rng.choice(NESTING) * rng.choice([1, 2, 40, 2000]))
    elif change == 7:
        tokens[at] = tokens[other]
    else:
        tokens[rng.choice(numbers)] = str(rng.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 24, 64]))
    return "".join(tokens)


def judge(action: Callable[[], TensorSharding | str], text: str) -> TensorSharding | str | None:
    """What comes of it; nothing where it is refused, in words that name something and are no longer than need be."""
    try:
        return action()
    except ShardingError as error:
        diagnostic = error.diagnostic
        assert diagnostic.message, text
        assert re.search(r"['\"\d@\[]", str(error)), f"{text!r} is refused without naming what: {error}"
        assert diagnostic.cause or diagnostic.remedy or diagnostic.location, (
            f"{text!r} is refused without a reason: {error}"
        )
        assert len(str(error)) <= 2 * len(text) + 2000, f"too many words: {error}"
    return None


def try_text(text: str, shape: Shape | None, mesh: Mesh | None) -> Counter[str]:
    """Read by whichever notation knows it and by all the others, print in all, read again."""
    counts: Counter[str] = Counter()
    sharding = judge(lambda: parse_text(text, shape=shape, mesh=mesh), text)
    for entry in notations():
        judge(lambda read=entry.parse: read(text, shape, mesh), text)  # type: ignore[misc]  # no inferring through a default
    if not isinstance(sharding, TensorSharding):
        return Counter(refused=1)
    counts["read"] += 1
    sharding.check(shape)
    for name in GRAMMARS:
        printed = judge(lambda to=name: notation(to).print(sharding, shape), text)  # type: ignore[misc]  # no inferring through a default
        if isinstance(printed, str):
            back = notation(name).parse(printed, again(shape, sharding), sharding.mesh)
            assert notation(name).print(back, shape) == printed, f"{name}: {printed[:300]!r}"
            counts["printed"] += 1
    return counts


def again(shape: Shape | None, sharding: TensorSharding) -> Shape:
    """The shape, or any that can be where none was needed: one that every count of shards divides."""
    if shape is not None:
        return shape
    counts = sharding.local_shape((0,) * sharding.rank) if sharding.offsets else (0,) * sharding.rank
    cuts = sharding.offsets or (None,) * sharding.rank
    return tuple(cut[-1] if cut else count for cut, count in zip(cuts, counts, strict=True))


def check(count: int, seed: int, *, traced: bool = True) -> Counter[str]:
    """`count` texts, every fourth whole; `traced` watches the memory, which takes most of the time."""
    rng, counts = random.Random(seed), Counter[str]()
    names = list(GRAMMARS)
    if traced:
        tracemalloc.start()
    for index in range(count):
        name = names[index % len(names)]
        text, whole = GRAMMARS[name](rng), rng.random() < 0.25
        for _ in range(0 if whole else rng.randint(1, 3)):
            text = mutilated(text, rng)
        shape, mesh = rng.choice(SHAPES), rng.choice(MESHES)
        if whole and rng.random() < 0.7:
            shape, mesh = (24, 24), CUBE
        told = f"{text[:400]!r}, shape {shape}, {mesh!r}"[:800]
        if traced:
            tracemalloc.reset_peak()
        before, start = tracemalloc.get_traced_memory()[0], time.process_time()
        try:
            outcome = try_text(text, shape, mesh)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} on {told}: {error}") from error
        assert time.process_time() - start < SECONDS, f"slow: {told}"
        assert tracemalloc.get_traced_memory()[1] - before < BYTES, f"large: {told}"
        counts += outcome
        counts[f"{name} whole"] += whole
        counts[f"{name} whole, read"] += whole and outcome["read"]
    tracemalloc.stop()
    return counts


def test_any_text_is_read_or_refused_in_words(record_property: Callable[[str, object], None]) -> None:
    counts = check(COUNT, SEED)
    for name in GRAMMARS:
        assert counts[f"{name} whole, read"] >= 0.25 * counts[f"{name} whole"], (
            f"the grammar of {name} is wrong: {counts}"
        )
    assert counts["refused"] >= COUNT // 4
    record_property(
        "summary", f"notations: {COUNT} random texts, {counts['read']} read, {counts['refused']} refused in words"
    )


HOSTILE = [
    "{devices=[4294967296]<=[4294967296]}",
    "{devices=[4294967296,1]<=[65536,65536]T(1,0)}",
    "{devices=[3,1431655766]<=[4294967298]}",
    "{devices=[1431655766,3]<=[2,2147483649]T(1,0)}",
    "{devices=[524288,2]<=[2,524288]T(1,0)}",
    "{devices=[349525,3]<=[5,209715]T(1,0)}",
    "{devices=[10922,3]<=[2,16383]T(1,0)}",
    "{devices=[2]" + ",".join(map(str, range(1200))) + "}",
    "{devices=[" + "1," * 1200 + "1]<=[1]}",
    "{maximal device=99999999999999999}",
    "{" * 1200,
    "{replicated metadata=" + "{" * 1200,
    "{mesh['x'=4294967296], device_ids=([65536,65536]T(1,0)), [{'x'}]}",
    "{mesh[" + ",".join(f"'a{n}'=1" for n in range(1200)) + "], [{}]}",
    '#sdy.sharding<mesh<["x"=4294967296]>, [{"x"}, {}]>',
    '#sdy.sharding<mesh<["x"=4294967296], device_ids=[1]>, [{"x"}]>',
    "#sdy.sharding<@m, [{" + "," * 1200,
    "#sdy.sharding<@m, [" + "{}, " * 1200 + "]>",
    "#sdy.sharding<" * 500,
    "shard.sharding @g split_axes = [" + "[]," * 1200 + "[0]]",
    "shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [" + "0, " * 1200 + "8]",
    "#mesh.shard<" + "[" * 1200,
    "P(" + "(" * 1200,
    "P(" + "None," * 1200 + ")",
    "P(('x'," + "'x'," * 1200 + "))",
    "f32[" + "8@x," * 1200,
    "[Shard(0), " * 400,
    "[" + "R, " * 1200 + "]",
    "[_StridedShard(dim=0, sf=999999999999999999), Shard(0), R]",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:50])
def test_hostile_texts_take_little_time_and_memory(text: str) -> None:
    meshes = [None, CUBE, Mesh(x=1 << 17), Mesh(x=1 << 32), Mesh(x=1431655766, y=3)]
    for shape, mesh in [*((None, mesh) for mesh in meshes), ((7, 1 << 40), CUBE)]:
        tracemalloc.start()
        start = time.process_time()
        try_text(text, shape, mesh)
        seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seconds < 3 * SECONDS, (shape, mesh)  # two thirds of it go into measuring the memory
        assert peak < BYTES, (shape, mesh)


@pytest.mark.long
def test_any_text_at_length() -> None:
    counts = check(max(COUNT, 100_000), SEED + 1, traced=False)
    assert counts["read"] >= 10_000


def test_every_notation_has_its_grammar() -> None:
    assert set(GRAMMARS) == set(notation_names())


def test_no_text_looks_like_two_notations() -> None:
    rng = random.Random(SEED)
    for name, grammar in GRAMMARS.items():
        for _ in range(300):
            text = grammar(rng)
            assert [entry.name for entry in notations() if entry.looks_like(text)] == [name], text
