"""Modules in the `shard` dialect for the tests of its table: each op as its pages write it, in canonical form."""

GRIDS = """\
shard.grid @g(shape = 2x4)
shard.grid "private" @"a b"(shape = 2x?x4)
shard.grid @line(shape = 4)
"""

ARGUMENTS = (
    "%arg0: tensor<6x5x8xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<3xf32>, %arg3: tensor<8x3xf32>, "
    "%arg4: tensor<2x8xf32>, %arg5: tensor<2xi8>, %arg6: tensor<4xi8>, %arg7: i64, %arg8: index, "
    "%arg9: !shard.sharding, %arg10: tensor<8x8xf32>, %arg11: memref<4x4xf32>"
)

OPS = """\
%0 = shard.sharding @g split_axes = [[0], [], [1]] : !shard.sharding
%0 = shard.sharding @g split_axes = [[]] : !shard.sharding
%0 = shard.sharding @g split_axes = [] : !shard.sharding
%0 = shard.sharding @"a b" split_axes = [[2, 0]] : !shard.sharding
%0 = shard.sharding @g split_axes = [[0]] halo_sizes = [1, %arg7] : !shard.sharding
%0 = shard.sharding @g split_axes = [[0], [1]] halo_sizes = [1, 2, 3, 4] : !shard.sharding
%0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 3, 8] : !shard.sharding
%0 = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %arg7, %arg7] : !shard.sharding
%0 = shard.sharding @line split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
%0 = mesh.sharding @g split_axes = [[0]] partial = max [1] : !mesh.sharding
%0 = mesh.sharding @g split_axes = [[]] partial = sum [0, 1] : !mesh.sharding
%0 = shard.shard %arg0 to %arg9 : tensor<6x5x8xf32>
%0 = shard.shard %arg0 to %arg9 annotate_for_users : tensor<6x5x8xf32>
%0 = shard.get_sharding %arg0 : tensor<6x5x8xf32> -> !shard.sharding
%0:2 = shard.grid_shape @g axes = [0, 1] : index, index
%0:3 = shard.grid_shape @"a b" : index, index, index
%0 = shard.grid_shape @line : index
%0:2 = shard.process_multi_index on @g : index, index
%0 = shard.process_multi_index on @g axes = [1] : index
%0 = shard.process_linear_index on @g : index
%0:2 = shard.neighbors_linear_indices on @g[%arg8, %arg8] split_axes = [1] : index, index
%0:2 = shard.shard_shape dims = [6, %arg8] sharding = %arg9 device = [%arg8, 1] : index, index
%0:3 = shard.shard_shape dims = [6, 5, 8] sharding = %arg9 device = [%arg8, %arg8] : index, index, index
%0 = shard.update_halo %arg10 on @g split_axes = [[0]] halo_sizes = [1, %arg7] : tensor<8x8xf32>
%0 = shard.update_halo %arg11 on @g split_axes = [[0], [1]] halo_sizes = [1, 1, 1, 1] : memref<4x4xf32>
%0 = shard.all_gather %arg1 on @g grid_axes = [1] gather_axis = 0 : tensor<2x3xf32> -> tensor<8x3xf32>
%0 = shard.all_reduce %arg2 on @g grid_axes = [0] reduction = max : tensor<3xf32> -> tensor<3xf64>
%0 = shard.all_reduce %arg2 on @g grid_axes = [1, 0] : tensor<3xf32> -> tensor<3xf32>
%0 = shard.all_reduce %arg11 on @g grid_axes = [0] reduction = bitwise_xor : memref<4x4xf32> -> memref<4x4xf32>
%0 = shard.all_slice %arg3 on @g grid_axes = [1] slice_axis = 0 : tensor<8x3xf32> -> tensor<2x3xf32>
%0 = shard.all_to_all %arg4 on @g grid_axes = [1] split_axis = 1 concat_axis = 0 : tensor<2x8xf32> -> tensor<8x2xf32>
%0 = shard.broadcast %arg5 on @g grid_axes = [0] root = [1] : (tensor<2xi8>) -> tensor<2xi8>
%0 = shard.broadcast %arg5 on @g grid_axes = [0, 1] root = [%arg8, 3] : (tensor<2xi8>, index) -> tensor<2xi8>
%0 = shard.gather %arg5 on @g grid_axes = [0] gather_axis = 0 root = [0] : (tensor<2xi8>) -> tensor<4xi8>
%0 = shard.recv %arg5 on @g grid_axes = [0] source = [1] : (tensor<2xi8>) -> tensor<2xi8>
%0 = shard.recv %arg5 on @g grid_axes = [0] : (tensor<2xi8>) -> tensor<2xi8>
%0 = shard.send %arg5 on @g grid_axes = [0] destination = [1] : (tensor<2xi8>) -> tensor<2xi8>
%0 = shard.reduce %arg5 on @g grid_axes = [0] reduction = min root = [0] : (tensor<2xi8>) -> tensor<2xi16>
%0 = shard.reduce %arg5 on @g grid_axes = [0] root = [%arg8] : (tensor<2xi8>, index) -> tensor<2xi8>
%0 = shard.reduce_scatter %arg3 on @g grid_axes = [1] reduction = max scatter_dim = 0 : tensor<8x3xf32> -> tensor<2x3xf64>
%0 = shard.scatter %arg6 on @g grid_axes = [0] scatter_dim = 0 root = [1] : (tensor<4xi8>) -> tensor<2xi8>
%0 = shard.shift %arg5 on @g grid_axes = [0, 1] shift_axis = 1 offset = -2 rotate : tensor<2xi8> -> tensor<2xi8>
%0 = shard.shift %arg5 on @g grid_axes = [1] shift_axis = 1 offset = 2 {note = "50% of %d"} : tensor<2xi8> -> tensor<2xi8>
""".splitlines()


def module(op: str) -> str:
    """A module as MLIR prints it, with one op in a function."""
    grids = "".join(f"  {line}\n" for line in GRIDS.splitlines())
    return f"module {{\n{grids}  func.func @f({ARGUMENTS}) {{\n    {op}\n    return\n  }}\n}}\n"
