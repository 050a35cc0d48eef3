import pytest

from shardwright.errors import ShardingError
from shardwright.notation.forms.texts import to_generic
from shardwright.notation.shard.dialect.tables import SHARD

GRIDS = "shard.grid @g(shape = 2x4)\nshard.grid @d(shape = 3x?)\nshard.grid @three(shape = 3)\n"

RULES = [
    ("shard.grid @x(shape = [])", "rank of grid is expected to be a positive integer"),
    ("shard.grid @x(shape = -1)", "Failed parsing dimension list"),
    ("shard.grid @x(shape = 0x2)", "dimension size of a grid is expected to be positive or dynamic"),
    ("shard.grid @g(shape = 3)", "redefinition of symbol named 'g'"),
    # shardings
    ("shard.sharding @g split_axes = [[0], [0]] : !shard.sharding", "grid axis duplicated"),
    ("shard.sharding @g split_axes = [[0, 0]] : !shard.sharding", "grid axis duplicated"),
    ("mesh.sharding @g split_axes = [[0]] partial = sum [0] : !mesh.sharding", "grid axis duplicated"),
    ("shard.sharding @g split_axes = [[-1]] : !shard.sharding", "grid axis is expected to be non-negative"),
    ("shard.sharding @g split_axes = [[2]] : !shard.sharding", '0-based grid axis index 2 is out of bounds. The referenced grid "g" is of rank 2.'),
    ("mesh.sharding @g split_axes = [[0]] partial = max [7] : !mesh.sharding", "0-based grid axis index 7 is out of bounds"),
    ("shard.sharding @none split_axes = [[0]] : !shard.sharding", 'Undefined required grid symbol "none".'),
    ("shard.sharding @a::@b split_axes = [[0]] : !shard.sharding", "invalid kind of attribute specified"),
    ("shard.sharding @g split_axes = [[0]] : index", "must be sharding definition"),
    ("shard.sharding @g split_axes = [[0], [1]] halo_sizes = [1, 2] : !shard.sharding", "halo sizes must be specified for all split axes"),
    ("shard.sharding @g split_axes = [[0]] halo_sizes = [-1, 2] : !shard.sharding", "halo sizes must be non-negative"),
    ("shard.sharding @g split_axes = [[0]] halo_sizes = [?, 2] : !shard.sharding", "expected a number or SSA operand"),
    ("shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] sharded_dims_offsets = [0, 2, 2] : !shard.sharding", "halo sizes and shard offsets are mutually exclusive"),
    ("shard.sharding @d split_axes = [[0]] sharded_dims_offsets = [0, 2, 2] : !shard.sharding", "sharded dims offsets are not allowed for device grids with dynamic shape"),
    ("shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 2, 4, 0, 2, 4, 6] : !shard.sharding", "sharded dims offsets has wrong size"),
    ("shard.sharding @g split_axes = [[0, 1]] sharded_dims_offsets = [0, 1, 2, 3, 4, 5, 6] : !shard.sharding", "sharded dims offsets has wrong size"),
    ("shard.sharding @three split_axes = [[0]] sharded_dims_offsets = [0, 2, 3, 2] : !shard.sharding", "sharded dims offsets must be non-decreasing"),
    ("shard.shard %i to %s : index", "must be ranked tensor"),
    ("shard.shard %i to %s : tensor<*xf32>", "must be ranked tensor"),
    ("shard.get_sharding %i : i32 -> !shard.sharding", "must be ranked tensor"),
    ("shard.shard_shape dims = [6, 7] sharding = %s device = [%i] : index", "Unexpected number of results 1. Expected 2."),
    ("shard.update_halo %a on @g split_axes = [[0]] halo_sizes = [1] : tensor<4xf32>", "halo sizes must be specified for all split axes"),
    ("shard.update_halo %a on @g split_axes = [[3]] : tensor<4xf32>", "0-based grid axis index 3 is out of bounds"),
    ("shard.update_halo %a on @g split_axes = [[0]] : tensor<f32>", "must be ranked tensor of at least one dimension"),
    # questions about the grid
    ("shard.grid_shape @g axes = [0, 2] : index, index", "0-based grid axis index 2 is out of bounds"),
    ("shard.grid_shape @g axes = [0, 0] : index, index", "Grid axes contains duplicate elements."),
    ("shard.grid_shape @g axes = [0] : index, index", "Unexpected number of results 2. Expected 1."),
    ("shard.grid_shape @g : index", "Unexpected number of results 1. Expected 2."),
    ("shard.grid_shape @g axes = [0] : i64", "must be index"),
    ("shard.process_multi_index on @g axes = [2] : index", "0-based grid axis index 2 is out of bounds"),
    ("shard.process_multi_index on @none : index", 'Undefined required grid symbol "none".'),
    ("shard.process_linear_index on @none : index", 'Undefined required grid symbol "none".'),
    ("shard.neighbors_linear_indices on @g[%i] split_axes = [0] : index, index", "unexpected multi-index size 1. Expected 2."),
    ("shard.neighbors_linear_indices on @g[%i, %i] split_axes = [5] : index, index", "0-based grid axis index 5 is out of bounds"),
    ("shard.neighbors_linear_indices on @g[%i, %i] split_axes = [0] : index", "expected 2 results, but found 1"),
    # groups
    ("shard.all_reduce %a on @none : tensor<4xf32> -> tensor<4xf32>", 'Undefined required grid symbol "none".'),
    ("shard.all_reduce %a on @g grid_axes = [2] : tensor<4xf32> -> tensor<4xf32>", "0-based grid axis index 2 is out of bounds"),
    ("shard.all_reduce %a on @g grid_axes = [-1] : tensor<4xf32> -> tensor<4xf32>", "0-based grid axis index -1 is out of bounds"),
    ("shard.all_reduce %a on @g grid_axes = [0, 1, 0] : tensor<4xf32> -> tensor<4xf32>", "Grid axes contains duplicate elements."),
    ("shard.all_reduce %a on @g reduction = most : tensor<4xf32> -> tensor<4xf32>", "expected a reduction kind"),
    ("shard.all_reduce %a on @g : tensor<4xf32> -> tensor<5xf64>", "requires the same shape for all operands and results"),
    ("shard.all_reduce %a on @g : f32 -> f32", "must be ranked tensor"),
    # gathers
    ("shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<3x4xf32> -> tensor<6x5xf32>", "Dimension size mismatch for result axis 1. Expected 4, but got 5."),
    ("shard.all_gather %a on @g grid_axes = [1] gather_axis = 1 : tensor<3x4xf32> -> tensor<3x5xf32>", "Dimension size mismatch for result axis 1. Expected 16, but got 5."),
    ("shard.all_gather %a on @g gather_axis = 0 : tensor<?xf32> -> tensor<3xf32>", "Dimension size mismatch for result axis 0. Expected dynamic, but got 3."),
    ("shard.all_gather %a on @g gather_axis = 1 : tensor<3xf32> -> tensor<3xf32>", "Gather axis 1 is out of bounds [0, 1)."),
    ("shard.all_gather %a on @g gather_axis = -1 : tensor<3xf32> -> tensor<3xf32>", "Gather axis -1 is out of bounds [0, 1)."),
    ("shard.all_gather %a on @g gather_axis = 0 : tensor<3xf32> -> tensor<3xf64>", "requires the same element type for all operands and results"),
    ("shard.all_gather %a on @g gather_axis = 0 : tensor<3xf32> -> tensor<3x1xf32>", "don't have matching ranks"),
    ("shard.all_gather %a on @g gather_axis = 0 : tensor<f32> -> tensor<f32>", "must be ranked tensor of at least one dimension"),
    ("shard.all_gather %a on @g : tensor<3xf32> -> tensor<3xf32>", "expected 'gather_axis'"),
    ("shard.gather %a on @three grid_axes = [0] gather_axis = 0 root = [3] : (tensor<2xi8>) -> tensor<6xi8>", 'Out of bounds coordinate 0 for in-group device "root". Got 3, but expected value in the range [0, 2].'),
    ("shard.gather %a on @three grid_axes = [0] gather_axis = 0 root = [2, 2] : (tensor<2xi8>) -> tensor<6xi8>", 'In-group device "root" has unexpected multi-index size 2. Expected 1.'),
    ("shard.gather %a on @three grid_axes = [0] gather_axis = 0 root = [0] : (tensor<2xi8>) -> tensor<5xi8>", "Expected 6, but got 5."),
    # slices and scatters
    ("shard.all_slice %a on @three grid_axes = [0] slice_axis = 0 : tensor<3xf32> -> tensor<2xf32>", "Expected 1, but got 2."),
    ("shard.all_slice %a on @three grid_axes = [0] slice_axis = 0 : tensor<4xf32> -> tensor<?xf32>", "Operand dimension size 4 is not divisible by collective device group size 3 for tensor axis 0."),
    ("shard.all_slice %a on @three grid_axes = [0] slice_axis = 1 : tensor<3xf32> -> tensor<1xf32>", "Slice axis 1 is out of bounds [0, 1)."),
    ("shard.all_slice %a on @three grid_axes = [0] slice_axis = 0 : tensor<3x4xf32> -> tensor<1x5xf32>", "Dimension size mismatch for result axis 1. Expected 4, but got 5."),
    ("shard.reduce_scatter %a on @three grid_axes = [0] scatter_dim = 0 : tensor<4xf32> -> tensor<?xf64>", "Operand dimension size 4 is not divisible"),
    ("shard.reduce_scatter %a on @three scatter_axis = 0 : tensor<?xf32> -> tensor<2xf64>", "Expected dynamic, but got 2."),
    ("shard.scatter %a on @three grid_axes = [0] scatter_dim = 0 root = [3] : (tensor<3xi8>) -> tensor<1xi8>", "Out of bounds coordinate 0"),
    ("shard.scatter %a on @three grid_axes = [0] scatter_dim = 0 root = [1] : (tensor<4xi8>) -> tensor<?xi8>", "Operand dimension size 4 is not divisible"),
    ("shard.all_to_all %a on @d grid_axes = [1] split_axis = 0 concat_axis = 1 : tensor<3x6xi8> -> tensor<3x6xi8>", "Dimension size mismatch for result axis 1. Expected dynamic, but got 6."),
    ("shard.all_to_all %a on @three grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<3x2xi8> -> tensor<1x7xi8>", "Expected 6, but got 7."),
    ("shard.all_to_all %a on @three grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<3x2xi8> -> tensor<2x6xi8>", "Expected 1, but got 2."),
    ("shard.all_to_all %a on @three grid_axes = [0] split_axis = 2 concat_axis = 1 : tensor<3x2xi8> -> tensor<1x6xi8>", "Split axis 2 is out of bounds [0, 2)."),
    ("shard.all_to_all %a on @three grid_axes = [0] split_axis = 0 concat_axis = 9 : tensor<3x2xi8> -> tensor<1x6xi8>", "Concat axis 9 is out of bounds [0, 2)."),
    # one device of the group
    ("shard.broadcast %a on @d grid_axes = [0] root = [3] : (tensor<2xi8>) -> tensor<2xi8>", "Out of bounds coordinate 0"),
    ("shard.broadcast %a on @d grid_axes = [1] root = [-1] : (tensor<2xi8>) -> tensor<2xi8>", "Out of bounds coordinate 0"),
    ("shard.broadcast %a on @d grid_axes = [0] root = [2, 2] : (tensor<2xi8>) -> tensor<2xi8>", "unexpected multi-index size 2. Expected 1."),
    ("shard.broadcast %a on @d grid_axes = [0] root = [2] : (tensor<2xi8>) -> tensor<2xi16>", "requires the same element type"),
    ("shard.broadcast %a on @d grid_axes = [0] root = [%i] : (tensor<2xi8>) -> tensor<2xi8>", "expected 2 operand types, but found 1"),
    ("shard.recv %a on @d grid_axes = [0] source = [3] : (tensor<2xi8>) -> tensor<2xi8>", 'in-group device "source"'),
    ("shard.recv %a on @d grid_axes = [0] source = [2] : (tensor<2xi8>) -> tensor<2xi16>", "requires the same element type"),
    ("shard.send %a on @d grid_axes = [0] destination = [2, 2] : (tensor<2xi8>) -> tensor<2xi8>", 'In-group device "destination"'),
    ("shard.reduce %a on @d grid_axes = [0] root = [3] : (tensor<2xi8>) -> tensor<2xi8>", "Out of bounds coordinate 0"),
    ("shard.reduce %a on @d grid_axes = [0] root = [2] : (tensor<2xi8>) -> tensor<3xi16>", "requires the same shape"),
    ("shard.shift %a on @g grid_axes = [0] shift_axis = 1 offset = 2 : tensor<4xi8> -> tensor<4xi8>", "Invalid shift axis 1. It must be one of the grouping grid axes."),
    ("shard.shift %a on @g grid_axes = [0] shift_axis = 0 offset = 2 : tensor<4xi8> -> tensor<5xi8>", "requires the same shape"),
    # the generic form
    ('"shard.all_gather"(%a) {grid = @g} : (tensor<3xf32>) -> tensor<3xf32>', "requires attribute 'gather_axis'"),
    ('"shard.all_gather"(%a) {grid = @g, gather_axis = @x} : (tensor<3xf32>) -> tensor<3xf32>', "attribute 'gather_axis' is not a number"),
    ('"shard.all_gather"(%a, %a) {grid = @g, gather_axis = 0 : index} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>', "expected 1 operands, but found 2"),
    ('"shard.sharding"(%h) {grid = @g, split_axes = #shard.axisarray<[[0]]>, operandSegmentSizes = array<i32: 1, 1>} : (i64) -> !shard.sharding', "operandSegmentSizes [1, 1] do not fit 1 operands"),
    ('"shard.sharding"(%h) {grid = @g, split_axes = #shard.axisarray<[[0]]>} : (i64) -> !shard.sharding', "no operandSegmentSizes"),
    ('"shard.sharding"(%h) {grid = @g, split_axes = #shard.axisarray<[[0]]>, operandSegmentSizes = array<i32: 0, 1>} : (i64) -> !shard.sharding', "1 operands 'dynamic_halo_sizes' for 0 dynamic values"),
    ("shard.all_reduce %a on @g {grid = @d} : tensor<3xf32> -> tensor<3xf32>", "attribute 'grid' occurs more than once"),
    ("shard.all_reduc %a on @g : tensor<3xf32> -> tensor<3xf32>", "unregistered operation 'shard.all_reduc'"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "message"), RULES)
def test_what_the_dialect_forbids_is_refused_at_its_line_with_a_remedy(op: str, message: str) -> None:
    for end in ("", "\n"):
        with pytest.raises(ShardingError) as caught:
            to_generic(f"{GRIDS}func.func @f() {{\n    {op}{end}", [SHARD], "program.mlir")
        diagnostic = caught.value.diagnostic
        assert message in diagnostic.message
        assert diagnostic.op.startswith(("shard.", "mesh."))
        assert diagnostic.location.startswith("program.mlir:5:")
        assert diagnostic.cause or diagnostic.remedy


def test_an_unknown_op_is_answered_with_those_of_a_like_name() -> None:
    with pytest.raises(ShardingError) as caught:
        to_generic("shard.all_reduc %a on @g : tensor<3xf32> -> tensor<3xf32>", [SHARD])
    assert "shard.all_reduce" in caught.value.diagnostic.remedy


@pytest.mark.parametrize(
    "op",
    [
        "shard.all_gather %a on @d grid_axes = [1] gather_axis = 1 : tensor<5x6xf32> -> tensor<5x?xf32>",
        "shard.all_gather %a on @g gather_axis = 1 : tensor<?x?xf32> -> tensor<?x?xf32>",
        "shard.all_to_all %a on @d grid_axes = [1] split_axis = 0 concat_axis = 0 : tensor<3xi8> -> tensor<3xi8>",
        "shard.all_to_all %a on @three grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<4x1xi8> -> tensor<?x3xi8>",
        "shard.all_slice %a on @d grid_axes = [1] slice_axis = 0 : tensor<5xf32> -> tensor<?xf32>",
        "shard.all_reduce %a on @g : tensor<4xf32, #x.y<[1, 2]>> -> tensor<4xf64>",
        "shard.sharding @d split_axes = [[1]] halo_sizes = [0, 0] : !shard.sharding",
    ],
)
def test_unknown_sizes_may_stand_for_any(op: str) -> None:
    assert f'"{op.split()[0]}"(' in to_generic(GRIDS + op, [SHARD])
