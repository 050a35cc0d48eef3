import pytest

from shardwright.ir.context import load_module, module_text
from shardwright.notation.forms.texts import to_custom, to_generic
from shardwright.notation.shard.canonical import canonicalize
from shardwright.notation.shard.dialect.tables import SHARD

ARGUMENTS = "%arg0: tensor<4xf32>, %arg1: i64, %arg2: tensor<8x8xf32>, %arg3: i1"


def _canonical(body: str) -> tuple[int, list[str]]:
    text = f"module {{\n  shard.grid @g(shape = 2x4)\n  func.func @f({ARGUMENTS}) {{\n{body}    return\n  }}\n}}\n"
    module = load_module(to_generic(text, [SHARD]))
    count = canonicalize(module)
    assert module.operation.verify()
    assert canonicalize(module) == 0
    lines = to_custom(module_text(module), [SHARD]).splitlines()
    return count, [line.strip() for line in lines[3:-3]]


def _used(value: str, type_: str) -> str:
    return f'    "use"({value}) : ({type_}) -> ()\n'


@pytest.mark.parametrize(
    "op",
    [
        "shard.all_reduce %arg0 on @g : tensor<4xf32> -> tensor<4xf32>",
        "shard.all_reduce %arg0 on @g grid_axes = [] reduction = max : tensor<4xf32> -> tensor<4xf32>",
        "shard.all_gather %arg0 on @g gather_axis = 0 : tensor<4xf32> -> tensor<4xf32>",
        "shard.all_slice %arg0 on @g slice_axis = 0 : tensor<4xf32> -> tensor<4xf32>",
        "shard.all_to_all %arg0 on @g split_axis = 0 concat_axis = 0 : tensor<4xf32> -> tensor<4xf32>",
        "shard.broadcast %arg0 on @g root = [] : (tensor<4xf32>) -> tensor<4xf32>",
        "shard.gather %arg0 on @g gather_axis = 0 root = [] : (tensor<4xf32>) -> tensor<4xf32>",
        "shard.recv %arg0 on @g : (tensor<4xf32>) -> tensor<4xf32>",
        "shard.send %arg0 on @g destination = [] : (tensor<4xf32>) -> tensor<4xf32>",
        "shard.reduce %arg0 on @g root = [] : (tensor<4xf32>) -> tensor<4xf32>",
        "shard.reduce_scatter %arg0 on @g scatter_dim = 0 : tensor<4xf32> -> tensor<4xf32>",
        "shard.scatter %arg0 on @g scatter_dim = 0 root = [] : (tensor<4xf32>) -> tensor<4xf32>",
    ],
)
def test_a_collective_over_no_axes_goes(op: str) -> None:
    assert _canonical(f"    %0 = {op}\n" + _used("%0", "tensor<4xf32>")) == (
        1,
        [_used("%arg0", "tensor<4xf32>").strip()],
    )


@pytest.mark.parametrize(
    "op",
    [
        "%0 = shard.all_reduce %arg0 on @g : tensor<4xf32> -> tensor<4xf64>",
        "%0 = shard.all_reduce %arg0 on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>",
        "%0 = shard.sharding @g split_axes = [[0]] halo_sizes = [0, %arg1] : !shard.sharding",
        "%0 = shard.sharding @g split_axes = [[0]] halo_sizes = [0, 1] : !shard.sharding",
        "%0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %arg1, 8] : !shard.sharding",
        "%0 = shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 4, 8, 0, 1, 2, 3, 5] : !shard.sharding",
        "%0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [2, 4, 6] : !shard.sharding",
    ],
)
def test_what_says_something_stays(op: str) -> None:
    assert _canonical(f"    {op}\n") == (0, [op])


@pytest.mark.parametrize(
    ("sharding", "canonical"),
    [
        ("[[0]] halo_sizes = [0, 0]", "[[0]]"),
        ("[[0]] halo_sizes = [%c0, 0]", "[[0]]"),
        ("[[0]] halo_sizes = [%c2, %arg1]", "[[0]] halo_sizes = [2, %arg1]"),
        ("[[0], [1]] halo_sizes = [1, %c2, %c2, 22]", "[[0], [1]] halo_sizes = [1, 2, 2, 22]"),
        ("[[0]] sharded_dims_offsets = [%c0, %c2, %arg1]", "[[0]] sharded_dims_offsets = [0, 2, %arg1]"),
        ("[[0]] sharded_dims_offsets = [0, %c2, 4]", "[[0]]"),
        ("[[0], [], [1]] sharded_dims_offsets = [0, 4, 8, 0, 1, 2, 3, 4]", "[[0], [], [1]]"),
        ("[[1, 0]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 6, 7, 8]", "[[1, 0]]"),
    ],
)
def test_constants_fold_and_lists_that_say_nothing_go(sharding: str, canonical: str) -> None:
    count, lines = _canonical(
        "    %c0 = arith.constant 0 : i64\n    %c2 = arith.constant 2 : i64\n"
        f"    %0 = shard.sharding @g split_axes = {sharding} {{note}} : !shard.sharding\n"
        + _used("%0", "!shard.sharding")
    )
    assert count == 1
    assert lines[-2:] == [
        f"%0 = shard.sharding @g split_axes = {canonical} {{note}} : !shard.sharding",
        '"use"(%0) : (!shard.sharding) -> ()',
    ]


def test_an_annotation_that_stands_twice_folds() -> None:
    sharding = "    %{} = shard.sharding @g split_axes = {} : !shard.sharding\n"
    shard = "    %{} = shard.shard %arg2 to %{} {}: tensor<8x8xf32>\n"
    count, lines = _canonical(
        sharding.format("s", "[[0]]")
        + sharding.format("t", "[[0], []]")
        + sharding.format("u", "[[1]]")
        + shard.format("a", "s", "")
        + shard.format("b", "t", "")
        + shard.format("c", "u", "")
        + shard.format("d", "s", "annotate_for_users ")
        + "".join(_used(f"%{name}", "tensor<8x8xf32>") for name in "abcd")
    )
    assert count == 1
    assert lines == [
        "%0 = shard.sharding @g split_axes = [[0]] : !shard.sharding",
        "%1 = shard.sharding @g split_axes = [[1]] : !shard.sharding",
        "%2 = shard.shard %arg2 to %0 : tensor<8x8xf32>",
        "%3 = shard.shard %arg2 to %1 : tensor<8x8xf32>",
        "%4 = shard.shard %arg2 to %0 annotate_for_users : tensor<8x8xf32>",
        *(f'"use"(%{n}) : (tensor<8x8xf32>) -> ()' for n in (2, 2, 3, 4)),
    ]


def test_annotations_in_other_blocks_stay() -> None:
    body = (
        "    %s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"
        "    %a = shard.shard %arg2 to %s : tensor<8x8xf32>\n"
        '    "foo.region"() ({\n      %b = shard.shard %arg2 to %s : tensor<8x8xf32>\n      "foo.end"() : () -> ()\n    }) : () -> ()\n'
    )
    count, lines = _canonical(body)
    assert count == 0
    assert sum("shard.shard " in line for line in lines) == 2
