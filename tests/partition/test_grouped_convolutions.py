"""Convolutions of groups: each way to split one computes the same, and moves nothing but contributions to a sum."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import pytest
from jax import lax

from shardwright.analysis.traffic import TrafficSummary, collectives, summarize
from shardwright.ir.context import load_module
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.notation.sdy.sharding import print_mesh, print_sharding
from shardwright.partition import localize, materialize
from shardwright.partition.factors import FactorAxes, tensor_sharding
from shardwright.partition.proposals import Shardings, legal_splits
from shardwright.partition.splits import Splits, splits_of
from shardwright.program import Plan, from_jax, load
from shardwright.propagation import propagate
from shardwright.runtime.execute import try_jobs
from shardwright.sharding import TensorSharding
from tests.oracles.xla import partition
from tests.partition.compare import assert_equal, make_case
from tests.rules.corpus import Instance, program, tensor
from tests.rules.programs import ops_of

MESHES = (
    Mesh(x=4),
    Mesh(x=8),
    Mesh(x=2, y=4),
    Mesh(x=2, y=3),
    pytest.param(Mesh(x=2, y=2, z=2), marks=pytest.mark.long),
)


def convolution(
    batch: int, inputs: int, outputs: int, groups: int = 1, batch_groups: int = 1, width: int = 5, *, last: bool = True
) -> Instance:
    """One with a window of 3 of `width` elements; all other sizes are of one group."""
    sides = [
        {"b": batch * batch_groups, "0": width, "f": inputs * groups},
        {"0": 3, "i": inputs, "o": outputs * groups * batch_groups},
        {"b": batch, "0": width - 2, "f": outputs * groups * batch_groups},
    ]
    orders = ("b0f", "0io", "b0f") if last else ("bf0", "oi0", "bf0")
    image, kernel, out = (tensor([side[dim] for dim in order]) for side, order in zip(sides, orders, strict=True))
    numbers = [f"[{', '.join(order)}]" for order in orders]
    attributes = (
        f"dimension_numbers = #stablehlo.conv<{numbers[0]}x{numbers[1]}->{numbers[2]}>, "
        f"feature_group_count = {groups} : i64, batch_group_count = {batch_groups} : i64"
    )
    return Instance("stablehlo.convolution", (image, kernel), (out,), attributes)


INSTANCES = {
    "depthwise": convolution(2, 1, 1, groups=24),
    "depthwise, several outputs": convolution(2, 1, 2, groups=4, last=False),
    "fewer groups than devices": convolution(2, 4, 12, groups=2),
    "groups of six": convolution(1, 2, 4, groups=6, last=False),
    "batch groups of one": convolution(1, 4, 1, batch_groups=24),
    "batch groups": convolution(4, 2, 2, batch_groups=4, last=False),
    "fewer batch groups than devices": convolution(4, 6, 4, batch_groups=2),
}


def _split_so(instance: Instance, factors: FactorAxes, mesh: Mesh) -> tuple[Instance, Shardings]:
    """An instance, with its operands and its result laid out by the axes of its factors."""
    rule = _splits(instance).rule
    return instance, tuple(tensor_sharding(mesh, mapping, factors) for mapping in (*rule.operands, *rule.results))


def _annotated(several: Sequence[tuple[Instance, Shardings]], mesh: Mesh) -> str:
    """A module that returns the results of all instances, whose operands and results are laid out so."""
    arguments, lines, values, results = [], [], [], []
    for number, (instance, shardings) in enumerate(several):
        names = [f"%a{number}_{index}" for index in range(2)]
        for name, type, sharding in zip(names, instance.operands, shardings[:2], strict=True):
            attributes = f'sdy.sharding = {print_sharding(sharding)}, shardwright.input = "uniform 0.1 0.9"'
            arguments.append(f"{name}: {type} {{{attributes}}}")
        lines.append(instance.text(names, f"r{number}"))
        values.append(f"%r{number}")
        results.append(f"{instance.results[0]} {{sdy.sharding = {print_sharding(shardings[2])}}}")
    body = "\n  ".join(lines)
    returned = f"{', '.join(values)} : {', '.join(instance.results[0] for instance, _ in several)}"
    return (
        f"sdy.mesh @mesh = {print_mesh(mesh).removeprefix('#sdy.mesh')}\n"
        f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n  {body}\n  return {returned}\n}}"
    )


def _splits(instance: Instance) -> Splits:
    splits = splits_of(ops_of(program([instance]))[0].signature)
    assert splits is not None
    return splits


def _ways(mesh: Mesh, contracted: bool) -> Iterator[tuple[Instance, FactorAxes]]:
    """All ways to split each instance on a mesh: those that sum over devices, or those that do not."""
    for instance in INSTANCES.values():
        splits = _splits(instance)
        for factors in legal_splits(splits, mesh, {}):
            if contracted == any(factors[factor] for factor in splits.rule.reduction):
                yield instance, factors


def _traffic(text: str) -> TrafficSummary:
    return summarize(collectives(localize(materialize(propagate(modules.read(load_module(text)))).graph)))


def test_all_but_windows_is_split() -> None:
    """Groups of either kind, and the batch, inputs and outputs of one."""
    split = {}
    for name, instance in INSTANCES.items():
        splits = _splits(instance)
        bounds = splits.bounds or splits.rule.sizes  # five elements and their three windows have no parts alike
        sizes = [bounds[factor] for factor in splits.allowed]
        split[name] = sorted(size for size in sizes if size > 1)
    assert split == {
        "depthwise": [2, 24],
        "depthwise, several outputs": [2, 2, 4],
        "fewer groups than devices": [2, 2, 4, 12],
        "groups of six": [2, 4, 6],
        "batch groups of one": [4, 24],
        "batch groups": [2, 2, 4, 4],
        "fewer batch groups than devices": [2, 4, 4, 6],
    }


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("contracted", [False, True], ids=["side by side", "summed"])
def test_every_way_to_split_computes_the_same_and_moves_no_operand(mesh: Mesh, contracted: bool) -> None:
    ways = list(_ways(mesh, contracted))
    text = _annotated([_split_so(instance, factors, mesh) for instance, factors in ways], mesh)
    assert set(_traffic(text).kinds) == ({"all_reduce"} if contracted else set())
    case = make_case(text, seed=0)
    unsharded, local = try_jobs([case.unsharded, case.local], timeout=600)
    assert_equal(f"{len(ways)} ways", case, unsharded, local)


def test_a_depthwise_convolution_split_on_channels_sends_nothing() -> None:
    """Both operands were gathered: 3,151,872 bytes on each of four devices."""
    channels = print_sharding(TensorSharding.of(Mesh(x=4), [[], [], ["x"]]))
    text = f"""sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<8x256x512xf32> {{sdy.sharding = {channels}}},
        %k: tensor<4x1x512xf32> {{sdy.sharding = {channels}}}) -> tensor<8x253x512xf32> {{
      %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 512 : i64}}
        : (tensor<8x256x512xf32>, tensor<4x1x512xf32>) -> tensor<8x253x512xf32>
      return %0 : tensor<8x253x512xf32>
    }}"""
    spmd = load(text).plan().partition()
    assert spmd.traffic.total.executed_bytes == 0
    assert spmd.notes == ()
    (local,) = (op.signature for op in spmd.local.walk() if op.name == "stablehlo.convolution")
    assert local.get("feature_group_count") == 128


@pytest.mark.parametrize(("groups", "parts"), [(3, 1), (6, 2)])
def test_what_groups_do_not_divide_among_is_gathered_with_a_note(groups: int, parts: int) -> None:
    """Of six groups four devices have three each, two and two the same ones; of three groups they have all."""
    mesh = Mesh(x=4)
    instance = convolution(2, 12 // groups, 12 // groups, groups=groups)
    sharded = [TensorSharding.of(mesh, [[], [], ["x"]])] * 2
    text = _annotated([(instance, (*sharded, *sharded[:1]))], mesh)
    explicit = materialize(propagate(modules.read(load_module(text))))
    (local,) = (op.signature for op in localize(explicit.graph).walk() if op.name == "stablehlo.convolution")
    assert local.get("feature_group_count") == groups // parts
    assert [note.message for note in explicit.notes] == [
        f"operand {number} is gathered along dimension 2: no local form of this op along it" for number in range(2)
    ]
    case = make_case(text, seed=0)
    assert_equal(f"{groups} groups", case, *try_jobs([case.unsharded, case.local]))


# --- as JAX writes them


LAYOUTS = {
    "NWC": ("NWC", "WIO", "NWC"),
    "NCW": ("NCW", "OIW", "NCW"),
    "NHWC": ("NHWC", "HWIO", "NHWC"),
    "NCHW": ("NCHW", "OIHW", "NCHW"),
}
SHAPES = {"depthwise": (16, 1, 1), "two outputs a channel": (16, 1, 2), "groups": (4, 2, 3)}
"""Groups, and inputs and outputs of each."""

SPLITS: dict[str, tuple[Mesh, dict[str, str]]] = {
    "channels": (Mesh(model=4), {"C": "model"}),
    "batch": (Mesh(data=4), {"N": "data"}),
    "both": (Mesh(data=2, model=4), {"N": "data", "C": "model"}),
}


def _plan(layout: str, shape: str, split: str) -> Plan:
    """A grouped convolution, and the gradients of its operands."""
    image, kernel, out = LAYOUTS[layout]
    groups, inputs, outputs = SHAPES[shape]
    mesh, axes = SPLITS[split]

    def step(x: Any, w: Any, cotangent: Any) -> Any:
        def convolve(x: Any, w: Any) -> Any:
            return lax.conv_general_dilated(
                x, w, (1,) * (x.ndim - 2), "SAME", dimension_numbers=LAYOUTS[layout], feature_group_count=groups
            )

        result, back = jax.vjp(convolve, x, w)
        return result, *back(cotangent)

    sizes = {"N": 4, "H": 6, "W": 8}
    window = {"H": 3, "W": 3, "I": inputs, "O": groups * outputs}
    dims = ((image, sizes | {"C": groups * inputs}), (kernel, window), (out, sizes | {"C": groups * outputs}))
    arguments = [jax.ShapeDtypeStruct(tuple(size[dim] for dim in order), "float32") for order, size in dims]
    along = axes | {"O": axes["C"]} if "C" in axes else axes
    args: dict[str | int, Any] = {
        number: ",".join(along.get(dim, "-") for dim in order) for number, (order, _) in enumerate(dims)
    }
    return from_jax(step, *arguments).shard(mesh, args=args)


@pytest.mark.parametrize("split", SPLITS)
def test_gradients_send_contributions_to_that_of_the_kernel_alone(split: str) -> None:
    """Nothing where only channels are split; where the batch is, one sum, of what a device has of the kernel."""
    for layout, shape in itertools.product(LAYOUTS, SHAPES):
        spmd = _plan(layout, shape, split).partition()
        mesh, _ = SPLITS[split]
        devices = mesh.sizes.get("data", 1)
        share = spmd.plan.program.arguments["w"].bytes // mesh.sizes.get("model", 1)
        assert spmd.notes == ()
        assert spmd.traffic.total.executed == int(devices > 1)
        assert spmd.traffic.total.executed_bytes == 2 * (devices - 1) / devices * share


@pytest.mark.parametrize(
    "layout", ["NWC", "NCHW", pytest.param("NCW", marks=pytest.mark.long), pytest.param("NHWC", marks=pytest.mark.long)]
)
def test_gradients_are_those_of_one_device(layout: str) -> None:
    plans = {f"{shape}, {split}": _plan(layout, shape, split) for shape, split in itertools.product(SHAPES, SPLITS)}
    cases = {name: make_case(modules.located_text(plan.annotated), seed=0) for name, plan in plans.items()}
    done = try_jobs([job for case in cases.values() for job in (case.unsharded, case.local)], timeout=600)
    for number, (name, case) in enumerate(cases.items()):
        assert_equal(name, case, done[2 * number], done[2 * number + 1])


@pytest.mark.oracle
@pytest.mark.long
def test_gradients_beside_xla(record_property: Callable[[str, object], None]) -> None:
    sent = {}
    for case in itertools.product(LAYOUTS, SHAPES, SPLITS):
        plan = _plan(*case)
        theirs = partition(modules.located_text(plan.annotated), SPLITS[case[2]][0].size).sent
        sent[case] = (plan.partition(effort="fast").traffic.total.executed_bytes, theirs)
    assert all(ours <= theirs for ours, theirs in sent.values()), sent
    ours, theirs = (sum(column) for column in zip(*sent.values(), strict=True))
    record_property("summary", f"grouped convolutions: {ours:,.0f} bytes in {len(sent)} programs, XLA {theirs:,.0f}")
