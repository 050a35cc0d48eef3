"""What each notation of single shardings can say: for every feature of the model a witness, tried in every notation.

    >>> from shardwright.notation.table import attempt, features
    >>> sums = next(feature for feature in features() if feature.name == "partial sums")
    >>> attempt(sums, "jax")
    Support(verdict='yes', texts=("P('x', None, unreduced={'y'})",), refusal='')
    >>> attempt(sums, "mhlo").texts
    ('{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}',)

A cell is found by printing the witness and reading the text back, so that it cannot say what the code does not do.
`docs/notations.md` is this table, written by `tools/notations.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation, notation_names
from shardwright.sharding import DimSharding, Partial, TensorSharding, replicated

__all__ = ["Support", "Feature", "Witness", "attempt", "features", "table"]

_DRAWN = 4096
"""Devices of a mesh that are still compared one by one."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A sharding that has the feature, and what is known when its text is read back.

    Attributes:
        sharding: The sharding.
        shape: The tensor it is printed for, in elements.
        mesh: The mesh that the reader is given.
        read_shape: The shape that the reader is given.
    """

    sharding: TensorSharding
    shape: Shape
    mesh: Mesh | None
    read_shape: Shape | None


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that a sharding may need to say.

    Attributes:
        name: What it is, in a few words.
        witnesses: Shardings that need it; a notation has the feature if it keeps all of them.
        texts: Of what the model has no notion of: texts by notation; those without one have no way to write it.
    """

    name: str
    witnesses: tuple[Witness, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Support:
    """How one notation fares with one feature.

    Attributes:
        verdict: `yes`; `layout` where every device still holds the same, but what else was said is lost; `no` where it
            is refused; `none` where the notation has no text for it.
        texts: What was printed, or read.
        refusal: In which words it is refused.
    """

    verdict: str
    texts: tuple[str, ...] = ()
    refusal: str = ""


def table() -> dict[str, dict[str, Support]]:
    """Feature → notation → cell, notations by name, all of them tried now."""
    names = sorted(notation_names())
    return {feature.name: {name: attempt(feature, name) for name in names} for feature in features()}


def attempt(feature: Feature, name: str) -> Support:
    """Try every witness of a feature in the notation called `name`.

    Raises:
        ShardingError: no such notation, or it changes what a device holds, which is a fault of its own.
    """
    if not feature.witnesses:
        return _read(feature.texts.get(name), name)
    verdict, texts = "yes", list[str]()
    for witness in feature.witnesses:
        try:
            text = notation(name).print(witness.sharding, witness.shape)
            texts.append(text)
            back = notation(name).parse(text, witness.read_shape, witness.mesh)
        except ShardingError as error:
            return Support("no", (), error.diagnostic.message)
        if _equal(back, witness):
            continue
        verdict = "layout"
        if not _same_layout(back, witness.sharding, witness.shape):
            raise ShardingError(f"{name} changes {witness.sharding!r} to {back!r}", cause=f"its text is {text!r}")
    return Support(verdict, tuple(texts))


def _read(text: str | None, name: str) -> Support:
    if text is None:
        return Support("none")
    try:
        notation(name).parse(text, _SHAPE, _MESH)
    except ShardingError as error:
        return Support("no", (text,), error.diagnostic.cause or error.diagnostic.message)
    return Support("yes", (text,))


def _equal(back: TensorSharding, witness: Witness) -> bool:
    """Whether all came back; of a mesh that the reader had to make, the names of its axes may differ."""
    if witness.mesh is None:
        return _same_layout(back, witness.sharding, witness.shape)
    return back == witness.sharding


def _same_layout(left: TensorSharding, right: TensorSharding, shape: Shape) -> bool:
    if max(left.mesh.size, right.mesh.size) > _DRAWN:
        return replace(left.closed(), mesh=right.mesh) == right.closed() and left.mesh.axes == right.mesh.axes
    return _held(left, shape) == _held(right, shape)


def _held(sharding: TensorSharding, shape: Shape) -> dict[int, tuple[object, ...]]:
    """Device → its slice, its halos, and for every kind of reduction the devices with the same contribution."""
    mesh = sharding.mesh
    kinds = sorted({p.kind for p in sharding.partial})
    lists = {kind: tuple(p.axis for p in sharding.partial if p.kind == kind) for kind in kinds}
    halos = tuple(halo or (0, 0) for halo in sharding.halos or ((0, 0),) * sharding.rank)
    shards = {at: tuple(mesh.index(axes, at) for axes in sharding.axes) for at in range(mesh.listed)}
    alike: dict[tuple[object, ...], set[int]] = {}
    for at, shard in shards.items():
        for kind in ("", *kinds):
            alike.setdefault((kind, shard, mesh.index(lists.get(kind, ()), at)), set()).add(mesh.device_id(at))
    return {
        mesh.device_id(at): (
            tuple((cut.start, cut.stop) for cut in sharding.device_slice(shape, at)),
            halos,
            *((kind, frozenset(alike[kind, shard, mesh.index(lists[kind], at)])) for kind in kinds),
        )
        for at, shard in shards.items()
    }


_MESH = Mesh(x=2, y=4)
_SHAPE = (8, 16)
_Y1, _Y2 = AxisRef("y", 1, 2), AxisRef("y", 2, 2)


def _witness(sharding: TensorSharding, shape: Shape = _SHAPE) -> Witness:
    return Witness(sharding, shape, sharding.mesh, shape)


def _split(*dims: tuple[str | AxisRef, ...], mesh: Mesh = _MESH) -> TensorSharding:
    return TensorSharding.of(mesh, dims)


def _partial(*partial: Partial) -> TensorSharding:
    return replace(_split(("x",), ()), partial=partial)


def _of_kinds(*kinds: str) -> tuple[Witness, ...]:
    return tuple(_witness(_partial(Partial(_MESH.axis("y"), kind))) for kind in kinds)


def features() -> tuple[Feature, ...]:
    """All features, each with its witnesses."""
    return (*_layouts(), *_propagation(), *_partials(), *_sizes(), *_meshes(), *_beyond())


def _layouts() -> tuple[Feature, ...]:
    return (
        Feature("dimensions split over whole axes", (_witness(_split(("x",), ("y",))),)),
        Feature("axes of a dimension in any order", (_witness(_split(("y", "x"), ())),)),
        Feature("parts of axes", (_witness(_split((_Y2,), ("x",))), _witness(_split((_Y2,), (_Y1, "x"))))),
        Feature("an axis around another one's parts", (_witness(_split((_Y1, "x", _Y2), ())),)),
        Feature("scalars", (_witness(TensorSharding(_MESH, ()), ()),)),
    )


def _propagation() -> tuple[Feature, ...]:
    x = (_MESH.axis("x"),)
    return (
        Feature("open dimensions", (_witness(TensorSharding(_MESH, (DimSharding(x), DimSharding((), True)))),)),
        Feature("open dimensions, already split", (_witness(TensorSharding(_MESH, (DimSharding(x, True), *_ONE))),)),
        Feature("priorities", (_witness(TensorSharding(_MESH, (DimSharding(x, True, 1), *_ONE))),)),
        Feature("axes that must not split", (_witness(replace(_split(("x",), ()), replicated=(_MESH.axis("y"),))),)),
    )


_ONE = (DimSharding(),)


def _partials() -> tuple[Feature, ...]:
    x, y = _MESH.axis("x"), _MESH.axis("y")
    several = replace(_split((), ()), partial=(Partial(x, "max"), Partial(y, "sum")))
    return (
        Feature("partial sums", _of_kinds("sum")),
        Feature("partial sums along part of an axis", (_witness(_partial(Partial(_Y2))),)),
        Feature("partial maxima, minima, products", _of_kinds("max", "min", "product")),
        Feature("partial averages", _of_kinds("average")),
        Feature("partial by bits: and, or, xor", _of_kinds("and", "or", "xor")),
        Feature("partial by a reduction without a name", _of_kinds("generic")),
        Feature("partial by two kinds", (_witness(several),)),
    )


def _sizes() -> tuple[Feature, ...]:
    rows = _split(("y",), ())
    offsets, trailing = (0, 3, 3, 4, 8), (0, 3, 7, 11, 15)
    return (
        Feature("uneven shards, ceil-sized", (_witness(rows, (15, 3)),)),
        Feature("uneven shards, some of them empty", (_witness(rows, (5, 3)),)),
        Feature("uneven shards over two axes", (_witness(_split(("x", "y"), ()), (13, 3)),)),
        Feature("larger shards last", (_witness(replace(rows, offsets=(trailing, None)), (15, 3)),)),
        Feature("shards at any offsets", (_witness(replace(rows, offsets=(offsets, None))),)),
        Feature("halos", (_witness(replace(rows, halos=((1, 2), None))),)),
        Feature("halos on uneven shards", (_witness(replace(rows, halos=((1, 2), None)), (15, 3)),)),
    )


def _meshes() -> tuple[Feature, ...]:
    plain = _split(("y",), ("x",))
    order = Mesh(_MESH.axes, device_ids=(0, 1, 4, 5, 2, 3, 6, 7))
    ordered = _split(("y",), ("x",), mesh=order)
    named = _split(("x",), (), mesh=Mesh(_MESH.axes, name="second"))
    wide = _split(("y",), ("x",), mesh=Mesh(x=1 << 16, y=1 << 16))
    spaced = _split(("the x", "y'"), (), mesh=Mesh([("the x", 2), ("y'", 4)]))
    return (
        Feature("devices in another order", (_witness(ordered),)),
        Feature("one device that has it all", (_witness(replicated(Mesh(device_ids=[3]), 2)),)),
        Feature("a mesh without axes", (_witness(replicated(Mesh(), 2)),)),
        Feature("several meshes, by name", (Witness(named, _SHAPE, _MESH, _SHAPE),)),
        Feature("axes with any name", (_witness(spaced),)),
        Feature("four thousand million devices", (_witness(wide, (1 << 20, 1 << 20)),)),
        Feature(
            "read without the mesh", (Witness(plain, _SHAPE, None, _SHAPE), Witness(ordered, _SHAPE, None, _SHAPE))
        ),
        Feature("read without the shape", (Witness(plain, _SHAPE, _MESH, None),)),
    )


def _beyond() -> tuple[Feature, ...]:
    """What is read and not printed, or has no place in the model of one sharding and is refused by name."""
    pair = "[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>]"
    maxima = {
        "sdy": '#sdy.sharding<@mesh, [{"x"}, {}], unreduced=max{"y"}>',
        "mhlo": "{mesh['x'=2,'y'=4], [{'x'}, {}], unreduced=max{'y'}}",
        "shard": "#mesh.shard<@mesh, [[0]], partial = max[1]>",
        "dtensor": "[S(0), P(max)]",
    }
    hints = {
        "sdy": '#sdy.sharding<@mesh, [{"x", ?}p1, {?}]>',
        "mhlo": "{mesh['x'=2,'y'=4], [{'x', ?}, {?}]}",
        "jax": "P('x', P.UNCONSTRAINED)",
    }
    return (
        Feature("text with partial maxima", texts=maxima),
        Feature("text with open dimensions", texts=hints),
        Feature(
            "text with several shardings",
            texts={"sdy": f"#sdy.sharding_per_value<{pair}>", "mhlo": "{{replicated}, {replicated}}"},
        ),
        Feature("text with manual axes", texts={"mhlo": "{devices=[2,1,4]<=[8] last_tile_dims={manual}}"}),
        Feature("text that tells nothing", texts={"mhlo": "{unknown}"}),
        Feature("text with a tie to another tensor", texts={"mhlo": "{devices=[8,1]<=[8] shard_as 1}"}),
        Feature("text with run-time values", texts={"shard": "@mesh split_axes = [[0], []] halo_sizes = [1, %h]"}),
    )
