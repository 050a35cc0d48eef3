"""The grammar of meshes and shardings as users write them: what it reads, prints and refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from shardwright.axes import AxisRef
from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.meshes import mesh_of
from shardwright.frontends.specs import parse_argument_option, parse_spec, print_spec, sharding_of
from shardwright.mesh import Mesh
from shardwright.sharding import DimSharding, TensorSharding
from shardwright.words import counted

MESH = Mesh(data=2, model=4, x=8)


def refused(call: Callable[..., Any], *args: Any) -> Diagnostic:
    with pytest.raises(ShardingError) as caught:
        call(*args)
    diagnostic = caught.value.diagnostic
    assert diagnostic.cause
    assert diagnostic.remedy
    return diagnostic


@st.composite
def shardings(draw: st.DrawFn) -> TensorSharding:
    """Any sharding on `MESH` that SPEC can say: each axis, whole or as parts, in at most one place."""
    parts: list[AxisRef] = []
    for name, size in MESH.axes:
        cut = draw(st.sampled_from([cut for cut in (1, 2, 4) if size % cut == 0 and cut < size]))
        parts += [AxisRef(name, 1, cut), AxisRef(name, cut, size // cut)] if cut > 1 else [AxisRef(name, 1, size)]
    order = draw(st.permutations(parts))
    rank = draw(st.integers(0, 4))
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    for part in order:
        dim = draw(st.integers(0, rank))
        if dim < rank and not (dims[dim] and dims[dim][-1].joins(part)):
            dims[dim].append(part)
    return TensorSharding(MESH, tuple(DimSharding(tuple(dim), not dim and draw(st.booleans())) for dim in dims))


@given(shardings())
def test_what_is_printed_is_read_back(sharding: TensorSharding) -> None:
    assert parse_spec(print_spec(sharding), MESH, sharding.rank) == sharding


@given(shardings(), st.sampled_from([" ", "  "]))
def test_spaces_around_entries_and_axes_do_not_matter(sharding: TensorSharding, space: str) -> None:
    text = print_spec(sharding).replace(",", f"{space},{space}").replace("+", f"{space}+{space}")
    assert parse_spec(f"{space}{text}{space}", MESH, sharding.rank) == sharding


@given(st.text(st.sampled_from("data,model+-.:()12 x="), max_size=20), st.integers(0, 3))
def test_any_text_is_read_or_refused_with_a_diagnostic(text: str, rank: int) -> None:
    try:
        sharding = parse_spec(text, MESH, rank)
    except ShardingError:
        return
    sharding.check((8,) * rank)


@given(shardings())
def test_whole_axes_mean_the_same_as_a_partition_spec(sharding: TensorSharding) -> None:
    if not all(MESH.is_full(axis) for axis in sharding.used_axes):
        return
    entries = [P.UNCONSTRAINED if dim.open else tuple(axis.name for axis in dim.axes) or None for dim in sharding.dims]
    assert sharding_of(P(*entries), MESH, sharding.rank) == sharding


def test_the_entries() -> None:
    assert repr(parse_spec("data,-,.,x+model:(2)2", MESH, 4)) == "[{data}, {?}, {}, {x, model:(2)2}]"
    assert parse_spec("", MESH, 0).rank == 0


def test_neighbouring_parts_are_one() -> None:
    assert parse_spec("x:(1)2+x:(2)4", MESH, 1) == parse_spec("x", MESH, 1)


def test_an_unknown_axis() -> None:
    diagnostic = refused(parse_spec, "modle,-", MESH, 2)
    assert diagnostic.message == "unknown mesh axis 'modle'"
    assert diagnostic.remedy == "did you mean 'model'?"


@pytest.mark.parametrize("text", ["data,data", "data+data,-", "x:(1)4,x:(2)2", "x,x:(1)2"])
def test_an_axis_used_twice(text: str) -> None:
    assert "used twice" in refused(parse_spec, text, MESH, 2).message


@pytest.mark.parametrize(("text", "rank"), [("data,-,-", 2), ("-", 0), ("", 1)])
def test_another_number_of_entries_than_dimensions(text: str, rank: int) -> None:
    diagnostic = refused(parse_spec, text, MESH, rank)
    assert diagnostic.message.endswith(f"the tensor has {counted(rank, 'dimension')}")


@pytest.mark.parametrize("text", [",", "data,", "+,-", "data+,-", "-+data,-", ".,da ta", "x:2,-", "x:(1),-"])
def test_malformed_entries(text: str) -> None:
    assert refused(parse_spec, text, MESH, 2).message.startswith(("not a sharding", "unknown mesh axis"))


def test_parts_that_do_not_fit_their_axis() -> None:
    with pytest.raises(ShardingError, match="does not fit axis 'model' of size 4"):
        parse_spec("model:(2)4", MESH, 1)


def test_a_mesh() -> None:
    assert mesh_of("data=2, model=4") == Mesh(data=2, model=4)


@pytest.mark.parametrize("text", ["", "data", "data=", "=2", "data=2,", "data=two", "data=-2", "-=2", "a b=2", "a+b=2"])
def test_what_is_no_mesh(text: str) -> None:
    refused(mesh_of, text)


@pytest.mark.parametrize("text", ["data=2,data=4", "data=0"])
def test_a_mesh_that_is_none(text: str) -> None:
    with pytest.raises(ShardingError, match="mesh axis 'data'"):
        mesh_of(text)


def test_an_argument_and_its_spec() -> None:
    assert parse_argument_option("params/w1=-,model") == ("params/w1", "-,model")
    assert parse_argument_option("scale=") == ("scale", "")
    assert parse_argument_option("a=b=data") == ("a=b", "data")


@pytest.mark.parametrize("text", ["", "params/w1", "=data"])
def test_what_is_no_argument_with_a_spec(text: str) -> None:
    refused(parse_argument_option, text)


@pytest.mark.parametrize("text", ["data", "-", "model+data", "x:(2)2,data"])
def test_missing_entries_of_a_text_are_not_split(text: str) -> None:
    rank = text.count(",") + 1
    full = ",".join([text, ".", "."])
    assert sharding_of(text, MESH, rank + 2) == parse_spec(full, MESH, rank + 2)


def test_missing_entries_of_a_partition_spec_are_not_split() -> None:
    assert sharding_of("data", MESH, 3) == sharding_of(P("data"), MESH, 3)
    assert sharding_of(P("data"), MESH, 3) == TensorSharding.of(MESH, [["data"], [], []])


def test_a_partition_spec_with_more_entries_than_dimensions() -> None:
    assert refused(sharding_of, P("data", None), MESH, 1).message.endswith("has 2 entries, the tensor has 1 dimension")


def test_a_partition_spec_that_uses_an_axis_twice() -> None:
    assert "used twice" in refused(sharding_of, P("data", ("x", "data")), MESH, 2).message


def test_an_unreduced_partition_spec() -> None:
    assert sharding_of(P("x", unreduced={"data"}), MESH, 1) == TensorSharding.of(MESH, [["x"]], partial=["data"])
    assert sharding_of(P("x", reduced={"data"}), MESH, 1).replicated == (MESH.axis("data"),)


def test_a_sharding_of_another_mesh() -> None:
    refused(sharding_of, TensorSharding.of(Mesh(y=2), [["y"]]), MESH, 1)


def test_a_sharding_on_devices_in_another_order() -> None:
    """It asks for data on other devices, which is not to be forgotten."""
    turned = Mesh(MESH.axes, device_ids=range(MESH.size - 1, -1, -1))
    assert "device_ids" in refused(sharding_of, TensorSharding.of(turned, [["x"]]), MESH, 1).message
    assert sharding_of(TensorSharding.of(turned, [["x"]]), turned, 1).mesh is turned


def test_offsets_of_a_sharding_are_kept() -> None:
    mesh = Mesh(x=2)
    uneven = replace(TensorSharding.of(mesh, [["x"]]), offsets=((0, 3, 8),))
    assert sharding_of(uneven, mesh, 1).offsets == ((0, 3, 8),)


def test_a_sharding_of_the_same_mesh() -> None:
    sharding = TensorSharding.of(MESH, [["x"], []])
    assert sharding_of(sharding, MESH, 2) == sharding


@pytest.mark.parametrize("spec", [None, 3, ("data", 3), {"data"}])
def test_what_is_no_sharding(spec: object) -> None:
    assert refused(sharding_of, spec, MESH, 2).message.startswith("not a sharding")
