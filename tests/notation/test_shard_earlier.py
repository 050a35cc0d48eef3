import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.forms.texts import respell, to_custom, to_generic
from shardwright.notation.shard.dialect.tables import SHARD

HEAD = "module {\n  shard.grid @g(shape = 2x4)\n  func.func @f(%arg0: tensor<4x8xf32>, %arg1: tensor<8xi8>, %arg2: index) {\n"
TAIL = "    return\n  }\n}\n"


def _today(text: str) -> str:
    """A module of an earlier generation as it is written today."""
    generic = to_generic(text, [SHARD])
    return to_custom(module_text(load_module(generic)), [SHARD])


@pytest.mark.parametrize(
    ("earlier", "today"),
    [
        ("%0:2 = mesh.mesh_shape @g axes = [0, 1] : index, index", "%0:2 = shard.grid_shape @g axes = [0, 1] : index, index"),
        ("%0:2 = mesh.process_multi_index on @g : index, index", "%0:2 = shard.process_multi_index on @g : index, index"),
        ("%0 = mesh.sharding @g split_axes = [[0]] : !mesh.sharding", "%0 = shard.sharding @g split_axes = [[0]] : !shard.sharding"),
        ("%0 = mesh.sharding @g split_axes = [[0]] partial = max[1] : !mesh.sharding", "%0 = mesh.sharding @g split_axes = [[0]] partial = max [1] : !mesh.sharding"),
        ("%0 = mesh.sharding @g split_axes = [[0]] partial = <sum> [1] halo_sizes = [1, 1] : !mesh.sharding", "%0 = mesh.sharding @g split_axes = [[0]] partial = sum [1] halo_sizes = [1, 1] : !mesh.sharding"),
        ("%0 = mesh.all_reduce %arg0 on @g mesh_axes = [1, 0] reduction = <max> : tensor<4x8xf32> -> tensor<4x8xf64>", "%0 = shard.all_reduce %arg0 on @g grid_axes = [1, 0] reduction = max : tensor<4x8xf32> -> tensor<4x8xf64>"),
        ("%0 = shard.all_reduce %arg0 on @g reduction = #shard.partial<sum> : tensor<4x8xf32> -> tensor<4x8xf32>", "%0 = shard.all_reduce %arg0 on @g : tensor<4x8xf32> -> tensor<4x8xf32>"),
        ("%0 = shard.reduce_scatter %arg0 on @g grid_axes = [0] scatter_axis = 0 : tensor<4x8xf32> -> tensor<2x8xf32>", "%0 = shard.reduce_scatter %arg0 on @g grid_axes = [0] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>"),
        ('%0 = "shard.reduce_scatter"(%arg0) <{grid = @g, grid_axes = array<i16: 0>, scatter_axis = 0 : index}> : (tensor<4x8xf32>) -> tensor<2x8xf32>', "%0 = shard.reduce_scatter %arg0 on @g grid_axes = [0] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>"),
        ("%0 = mesh.scatter %arg1 on @g mesh_axes = [0] scatter_axis = 0 root = [%arg2] : (tensor<8xi8>, index) -> tensor<4xi8>", "%0 = shard.scatter %arg1 on @g grid_axes = [0] scatter_dim = 0 root = [%arg2] : (tensor<8xi8>, index) -> tensor<4xi8>"),
        ('%0 = "mesh.all_gather"(%arg1) <{gather_axis = 0 : index, mesh = @g, mesh_axes = array<i16: 0>}> : (tensor<8xi8>) -> tensor<16xi8>', "%0 = shard.all_gather %arg1 on @g grid_axes = [0] gather_axis = 0 : tensor<8xi8> -> tensor<16xi8>"),
    ],
)  # fmt: skip
def test_an_earlier_spelling_says_the_same_as_todays(earlier: str, today: str) -> None:
    text = f"{HEAD}    {earlier}\n{TAIL}"
    assert _today(text) == f"{HEAD}    {today}\n{TAIL}"
    assert _today(text.replace("shard.grid @g", "mesh.mesh @g")) == f"{HEAD}    {today}\n{TAIL}"


def test_a_sharding_within_mesh_shard_becomes_an_op_of_its_own() -> None:
    text = (
        f"{HEAD}    %s = mesh.shard %arg0 to <@g, [[0]]> : tensor<4x8xf32>\n"
        f"    %t = mesh.shard %s to\n <@g, split_axes = [[], []], partial = max[1]> annotate_for_users : tensor<4x8xf32>\n"
        f'    %u = "mesh.shard"(%t) <{{annotate_for_users, shard = #mesh.shard<@g, [[0, 1]]>}}> : (tensor<4x8xf32>) -> tensor<4x8xf32>\n{TAIL}'
    )
    assert _today(text) == (
        f"{HEAD}    %0 = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"
        "    %1 = shard.shard %arg0 to %0 : tensor<4x8xf32>\n"
        "    %2 = mesh.sharding @g split_axes = [[], []] partial = max [1] : !mesh.sharding\n"
        "    %3 = shard.shard %1 to %2 annotate_for_users : tensor<4x8xf32>\n"
        "    %4 = shard.sharding @g split_axes = [[0, 1]] : !shard.sharding\n"
        f"    %5 = shard.shard %3 to %4 annotate_for_users : tensor<4x8xf32>\n{TAIL}"
    )
    assert to_generic(text, [SHARD]).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("inline", "message"),
    [
        ("<@g, [[0]], partial = max[0]>", "grid axis duplicated"),
        ("<@g, [[2]]>", "is out of bounds"),
        ("<@other, [[0]]>", "Undefined required grid symbol"),
        ("<@g, [[0]], whole = max[0]>", "expected 'partial'"),
    ],
)
def test_a_sharding_within_mesh_shard_is_verified(inline: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as caught:
        to_generic(f"{HEAD}    %0 = mesh.shard %arg0 to {inline} : tensor<4x8xf32>\n{TAIL}", [SHARD], "old.mlir")
    assert caught.value.diagnostic.location.startswith("old.mlir:4:")


def test_a_module_is_printed_in_the_mesh_spelling_on_request() -> None:
    text = f"{HEAD}    %0 = shard.sharding @g split_axes = [[0]] : !shard.sharding\n    %1 = shard.shard %arg0 to %0 : tensor<4x8xf32>\n    %2 = shard.reduce_scatter %1 on @g grid_axes = [0] scatter_dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>\n    func.call @h(%0) : (!shard.sharding) -> ()\n{TAIL}"
    mesh = respell(text, [SHARD], "mesh")
    assert mesh == (
        text.replace("shard.grid", "mesh.mesh")
        .replace("shard.", "mesh.")
        .replace("grid_axes", "mesh_axes")
        .replace("scatter_dim", "scatter_axis")
    )
    assert respell(mesh, [SHARD], "mesh") == mesh
    assert to_generic(mesh, [SHARD]) == to_generic(text, [SHARD])


def test_a_spelling_that_is_not_known_is_refused() -> None:
    with pytest.raises(ShardingError, match="has no spelling in the dialect 'grid'"):
        respell(HEAD, [SHARD], "grid")
