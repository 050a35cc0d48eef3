"""The slides "Sharding Framework Design for Device Mesh": all of their IR, in order.

One line in the transform dialect, shown there for comparison, is left out: it is of no dialect of ours.
"""

from __future__ import annotations

from tests.notation.snippets import (
    ALL_DOT,
    BOTH_USED,
    BRACKETS,
    NESTED,
    ONE,
    OP0,
    SOME_DOT,
    THREE,
    TWO,
    Mend,
    Snippet,
    body,
)

__all__ = ["SLIDES"]

SLIDES_2D = """mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])

func.func @mlp_2d_weight_stationary(%arg0: tensor<2x4x8xf32>,
                                     %arg1: tensor<8x32xf32>,
                                     %arg2: tensor<32x8xf32>) ->
    tensor<2x4x8xf32> attributes {mesh_cluster = @mesh0} {
"""
MATERIALIZED_2D = """func.func @mlp_2d_weight_stationary(%arg0: tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>, %arg1: tensor<8x32xf32, #mesh.shard<[[0], [1, 2]]>>,
    %arg2: tensor<32x8xf32, #mesh.shard<[[1, 2], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>> attributes {mesh_cluster = @mesh0} {
  %0 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
  %1 = mesh.all_gather %arg0 {mesh_axis = [[[], [], [1, 2]]} : tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>> ->
    tensor<2x4x8xf32, #mesh.shard<[[[], [], [0]]>>
  %2 = "mhlo.dot_general"(%1, %arg1) {..., sharding = [[[], [], [1, 2], [0]]} : (tensor<2x4x8xf32, #mesh.shard<[[[], [], [0]]>>, tensor<8x32xf32, #mesh.shard<[[0], [1, 2]]>>)
    -> tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2], [0]]>>
"""
OPTIMIZED_2D = f"""{MATERIALIZED_2D}    %3 = mesh.reduce_scatter %2 {{mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64}} : tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2], [0]]>> ->
        tensor<2x4x32xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
    %4 = mesh.local_split %0 : tensor<2x4x32xf32> -> tensor<2x4x32xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
    %5 = mhlo.maximum %3, %4 {{sharding = [[[], [], [0, 1, 2]]}} : tensor<2x4x32xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
    %6 = mesh.all_gather %5 {{mesh_axis = [[[], [], [0]]}} : tensor<2x4x32xf32, #mesh.shard<[[[], [], [0, 1, 2]]>> ->
        tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2]]>>
    %7 = "mhlo.dot_general"(%6, %arg2) {{..., sharding = [[[], [], [0], [1, 2]]}} : (tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2]]>>, tensor<32x8xf32, #mesh.shard<[[1, 2], [0]]>>)
        -> tensor<2x4x8xf32, #mesh.shard<[[[], [], [0], [1, 2]]>>
    %8 = mesh.reduce_scatter %7 {{mesh_axis = [1, 2], reduction = "sum", tensor_axis = 2 : i64}} : tensor<2x4x8xf32, #mesh.shard<[[[], [], [0], [1, 2]]>> ->
        tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
    return %8 : tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
}}"""
OPTIMIZED_MENDS: tuple[Mend, ...] = (
    BRACKETS,
    SOME_DOT,
    ("tensor_axis = 1", "tensor_axis = 2", "the type says that dimension 2 is scattered"),
)
OPTIMIZED_SAYS = (
    'sdy.all_gather [{}, {}, {"axis_1", "axis_2"}] %arg0',
    'sdy.reduce_scatter [{}, {}, {"axis_0"}] %1',  # behind axes 1 and 2, which are before it in the list …
    'sdy.collective_permute %2 out_sharding=<@mesh0, [{}, {}, {"axis_0", "axis_1", "axis_2"}]>',  # … and so moved
    'sdy.all_slice [{}, {}, {"axis_0", "axis_1", "axis_2"}] %cst',
    'sdy.reduce_scatter [{}, {}, {"axis_1", "axis_2"}]',
)

ROWS = "tensor<4xf32, #mesh.shard<@mesh0, [[0]]>>"
ROWS_OF_1 = ROWS.replace("@mesh0", "@mesh1")
THIRDS = "tensor<3xf32, #mesh.shard<@mesh0, [[0]]>>"
LEFT = "tensor<4x4xf32, #mesh.shard<[[2, 0], [1]]>>"
RIGHT = "tensor<4x8xf32, #mesh.shard<[[1]]>>"
PARTIAL = "tensor<4x8xf32, #mesh.shard<[[2, 0], [], [1]]>>"

SLIDES = [
    Snippet(
        "slides, mesh.cluster, static",
        "mesh.cluster @mesh0(rank = 2, dim_sizes = [4, 8])",
        says=('sdy.mesh @mesh0 = <["axis_0"=4, "axis_1"=8]>',),
    ),
    Snippet(
        "slides, mesh.cluster, dynamic",
        "mesh.cluster @mesh1(rank = 3, dim_sizes = [0, 4])",
        says=('"mesh.cluster"() {dim_sizes = [0, 4], rank = 3 : i64, sym_name = "mesh1"}',),
    ),
    Snippet(
        "slides, MeshShardingAttr with its mesh",
        """mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @foo(...) -> (...) {
  ... = ... : tensor<4xf32, #mesh.shard<@mesh0, [[0]]>
}""",
        (
            ("(...) -> (...)", f"() -> {ROWS}", "elided"),
            ("... = ... :", "%0 = stablehlo.iota dim = 0 :", "elided"),
            ("[[0]]>\n", f"[[0]]>>\nreturn %0 : {ROWS}\n", "the type is not closed; the function does not end"),
        ),
        says=('{sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{"axis_0"}]>]>}',),
    ),
    Snippet(
        "slides, MeshShardingAttr on the function's mesh",
        """mesh.cluster @mesh1(rank = 3, dim_sizes = [2, 2, 2])
func.func @bar(...) -> (...)
  attributes { mesh_cluster = @mesh1 } {
  ... = ... : tensor<4x8xf32, #mesh.shard<[[2, 0], [], [1]]>>
  }""",
        (
            ("(...) -> (...)", f"(%a: {LEFT}, %b: {RIGHT}) -> {PARTIAL}", "elided"),
            ("... = ... :", f"%0 = stablehlo.dot %a, %b : ({LEFT}, {RIGHT}) ->", "elided"),
            ("]>>\n  }", f"]>>\nreturn %0 : {PARTIAL}\n  }}", "the function does not end"),
        ),
        says=('<@mesh1, [{"axis_2", "axis_0"}, {}], unreduced={"axis_1"}>',),
    ),
    Snippet(
        "slides, mesh.annotate, one",
        """%0 = op0 ...
%1 = mesh.annotate %0 {#mesh.shard<[[0], [1]]>,
    required = false, as_result = true} :
    tensor<2x5xf32> -> tensor<2x5xf32>
%2 = op1(%1) : ...""",
        (
            OP0,
            ("op1(%1) : ...", "stablehlo.negate %1 : tensor<2x5xf32>", "elided"),
        ),
        body(TWO, result="%2: tensor<2x5xf32>"),
        says=(
            'stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{"axis_0", ?}, {"axis_1", ?}]>]>}',
        ),
    ),
    Snippet(
        "slides, mesh.annotate, two users",
        """%0 = op0 ...
%1 = mesh.annotate %0 {#mesh.shard<[[0], [1]]>, required = true,
as_result = true} : tensor<2x5xf32> -> tensor<2x5xf32>
%2 = mesh.annotate %1 {#mesh.shard<[[0]]>, required = true,
as_result = false} : tensor<2x5xf32> -> tensor<2x5xf32>
%3 = op1(%2) : ...
%4 = mesh.annotate %1 {#mesh.shard<[[1]]>, required = true,
as_result = false} : tensor<2x5xf32> -> tensor<2x5xf32>
%5 = op2(%4) : ...""",
        (
            OP0,
            ("op1(%2) : ...", "stablehlo.negate %2 : tensor<2x5xf32>", "elided"),
            ("op2(%4) : ...", "stablehlo.negate %4 : tensor<2x5xf32>", "elided"),
        ),
        BOTH_USED,
        says=(
            'stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{"axis_0"}, {"axis_1"}]>]>}',
            '%1 = sdy.sharding_constraint %0 <@mesh0, [{"axis_0"}, {}]>',
            "stablehlo.negate %1",
            '%3 = sdy.sharding_constraint %0 <@mesh0, [{"axis_1"}, {}]>',
            "stablehlo.negate %3",
        ),
    ),
    Snippet(
        "slides, all_gather",
        """%1 = mesh.all_gather %0 {mesh_axis = [[], [1]]} :
  tensor<2x4xf32, #mesh.shard<[[], [1, 0]]>> ->
  tensor<2x4xf32, #mesh.shard<[[], [0]]>>""",
        frame=body(
            TWO,
            "%0: tensor<2x4xf32, #mesh.shard<[[], [1, 0]]>>",
            "%1: tensor<2x4xf32, #mesh.shard<[[], [0]]>>",
        ),
        says=(
            '%0 = sdy.collective_permute %arg0 out_sharding=<@mesh0, [{}, {"axis_0", "axis_1"}]>',  # axis 1 was major
            '%1 = sdy.all_gather [{}, {"axis_1"}] %0 out_sharding=<@mesh0, [{}, {"axis_0"}]>',
        ),
    ),
    Snippet(
        "slides, collective_permute between meshes",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
mesh.cluster @mesh1(rank = 1, dim_sizes = [2])
%1 = mesh.collective_permute %0 :
  tensor<4xf32, #mesh.shard<@mesh0, [[0]]>> ->
  tensor<4xf32, #mesh.shard<@mesh1, [[0]]>>""",
        (
            (
                "%1 =",
                f"func.func @f(%0: {ROWS}) -> {ROWS_OF_1} attributes {{mesh_cluster = @mesh0}} {{\n%1 =",
                "an op stands in a function",
            ),
        ),
        f"{{}}\nreturn %1 : {ROWS_OF_1}\n}}",
        says=(
            'sdy.mesh @mesh0 = <["axis_0"=2, "stage"=2], device_ids=[0, 2, 1, 3]> '
            "{shardwright.devices = array<i64: 0, 1>}",
            'sdy.mesh @mesh1 = <["axis_0"=2, "stage"=2], device_ids=[2, 0, 3, 1]> '
            "{shardwright.devices = array<i64: 2, 3>}",
            'sdy.collective_permute %arg0 out_sharding=<@mesh1, [{"axis_0"}]>',
        ),
    ),
    Snippet(
        "slides, collective_permute of halos",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [3])
%1 = mesh.collective_permute %0 {mesh_axis = 0} :
  tensor<3xf32, #mesh.shard<@mesh0, [[0]]>> ->
  tensor<3xf32, #mesh.shard<@mesh0, [[0]]>>""",
        (
            (
                "%1 =",
                f"func.func @f(%0: {THIRDS}) -> {THIRDS} attributes {{mesh_cluster = @mesh0}} {{\n%1 =",
                "an op stands in a function",
            ),
        ),
        f"{{}}\nreturn %1 : {THIRDS}\n}}",
        says=(  # each device has what the one before it had
            "stablehlo.slice %arg0 [2:3] {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{}]>]>}",
            "stablehlo.slice %arg0 [0:2] {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{}]>]>}",
            'stablehlo.concatenate %0, %1, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{"axis_0"}]>]>',
        ),
    ),
    Snippet(
        "slides, local_split of a whole tensor",
        """%1 = mesh.local_split %0 {sharding = [[0]]} :
  tensor<2xf32, #mesh.shard<[]>> ->
  tensor<2xf32, #mesh.shard<[[0]]>>""",
        frame=body(ONE, "%0: tensor<2xf32, #mesh.shard<[]>>", "%1: tensor<2xf32, #mesh.shard<[[0]]>>"),
        says=('sdy.all_slice [{"axis_0"}] %arg0 out_sharding=<@mesh0, [{"axis_0"}]>',),
    ),
    Snippet(
        "slides, local_split of a sharded tensor",
        """%1 = mesh.local_split %0 {sharding = [[], [0]]} :
  tensor<2x4xf32, #mesh.shard<[[1], []]>> ->
  tensor<2x4xf32, #mesh.shard<[[1], [0]]>>""",
        frame=body(
            TWO,
            "%0: tensor<2x4xf32, #mesh.shard<[[1], []]>>",
            "%1: tensor<2x4xf32, #mesh.shard<[[1], [0]]>>",
        ),
        says=('sdy.all_slice [{}, {"axis_0"}] %arg0 out_sharding=<@mesh0, [{"axis_1"}, {"axis_0"}]>',),
    ),
    Snippet(
        "slides, consolidation, before",
        """%0 = ... : tensor<2x4xf32>
%1 = mesh.annotate %0 {#mesh.shard<[[[]], [0, 1]]>, as_result =
true} : tensor<2x4xf32> -> tensor<2x4xf32>
%2 = mesh.annotate %1 {#mesh.shard<[[[]], [0]]>, as_result =
false} : tensor<2x4xf32> -> tensor<2x4xf32>
... = "use"(%2) : ...""",
        (
            NESTED,
            ("%0 = ... :", "%0 = stablehlo.negate %a :", "elided"),
            ('... = "use"(%2) : ...', '"use"(%2) : (tensor<2x4xf32>) -> ()', "elided"),
        ),
        body(TWO, "%a: tensor<2x4xf32>"),
        says=('[{}, {"axis_0", "axis_1"}]>]>}', 'sdy.sharding_constraint %0 <@mesh0, [{}, {"axis_0"}]>', '"use"(%1)'),
    ),
    Snippet(
        "slides, consolidation, after",
        """%0 = ... : tensor<2x4xf32, #mesh.shard<[[[]], [0]]>>
%1 = mesh.all_gather %0 {mesh_axis = [[[]], [1]]} :
  tensor<2x4xf32, #mesh.shard<[[[]], [0, 1]]>> ->
  tensor<2x4xf32, #mesh.shard<[[[]], [0]]>>
... = "use"(%1) : ...""",
        (
            NESTED,
            (
                "%0 = ... : tensor<2x4xf32, #mesh.shard<[[], [0]]>>",
                "",
                "its type is not that which the next line reads",
            ),
            ('... = "use"(%1) : ...', '"use"(%1) : (tensor<2x4xf32, #mesh.shard<[[], [0]]>>) -> ()', "elided"),
        ),
        body(TWO, "%0: tensor<2x4xf32, #mesh.shard<[[], [0, 1]]>>"),
        says=('sdy.all_gather [{}, {"axis_1"}] %arg0 out_sharding=<@mesh0, [{}, {"axis_0"}]>',),
    ),
    Snippet(
        "slides, ShardingOption",
        """%0 = "mhlo.dot"(%lhs, %rhs) {sharding = [[], [], [0]]} :
(tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>""",
        frame=body(ONE, "%lhs: tensor<2x4xf32>, %rhs: tensor<4x8xf32>", "%0: tensor<2x8xf32>"),
        says=(
            'sdy.sharding_constraint %arg0 <@mesh0, [{}, {"axis_0"}]>',
            'sdy.sharding_constraint %arg1 <@mesh0, [{"axis_0"}, {}]>',
            'unreduced={"axis_0"}',
            "shardwright.option = [[], [], [0]]",
        ),
    ),
    Snippet(
        "slides, 2-D weight stationary, tensors annotated",
        SLIDES_2D
        + """%0 = mesh.annotate %arg0 {#mesh.shard<[[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
%1 = "mhlo.dot_general"(%0, %arg1) {...} :
    (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
%2 = mesh.annotate %1 {#mesh.shard<[[[], [], [1, 2], [0]]>} : tensor<2x4x32xf32>
%3 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%4 = mhlo.maximum %2, %3 : tensor<2x4x32xf32>
%5 = "mhlo.dot_general"(%4, %arg2) {...} :
    (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
%6 = mesh.annotate %5 {#mesh.shard<[[[], [], [0], [1, 2]]>} : tensor<2x4x8xf32>
%7 = mesh.annotate %6 {as_result = false, #mesh.shard<[[[], [], [0, 1, 2]]>} : ...
return %7 : tensor<2x4x8xf32>
}""",
        (BRACKETS, ALL_DOT, (": ...", ": tensor<2x4x8xf32>", "elided")),
        says=(
            '%arg0: tensor<2x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{}, {}, {"axis_0", "axis_1", "axis_2"}]>}',
            '-> (tensor<2x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{}, {}, {"axis_0", "axis_1", "axis_2"}]>})',
            '<@mesh0, [{}, {}, {"axis_1", "axis_2"}], unreduced={"axis_0"}>',
            '<@mesh0, [{}, {}, {"axis_0"}], unreduced={"axis_1", "axis_2"}>',
        ),
    ),
    Snippet(
        "slides, 2-D weight stationary, ops with options",
        SLIDES_2D
        + """%0 = mesh.annotate %arg0 {#mesh.shard<[[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
%1 = "mhlo.dot_general"(%0, %arg1) {..., sharding = [[[], [], [1, 2], [0]]]} :
    (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
%2 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
%4 = "mhlo.dot_general"(%3, %arg2) {..., sharding = [[[], [], [0], [1, 2]]]} :
    (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
%5 = mesh.annotate %4 {as_result = false, #mesh.shard<[[[], [], [0, 1, 2]]>} : ...
return %5 : tensor<2x4x8xf32>
}""",
        (BRACKETS, SOME_DOT, ("]]]}", "]]}", "one bracket too many"), (": ...", ": tensor<2x4x8xf32>", "elided")),
        says=(
            "shardwright.option = [[], [], [1, 2], [0]]",
            'sdy.sharding_constraint %arg0 <@mesh0, [{}, {}, {"axis_0"}]>',
            'sdy.sharding_constraint %arg1 <@mesh0, [{"axis_0"}, {"axis_1", "axis_2"}]>',
            '<@mesh0, [{}, {}, {"axis_1", "axis_2"}], unreduced={"axis_0"}>',
            'sdy.sharding_constraint %arg2 <@mesh0, [{"axis_1", "axis_2"}, {"axis_0"}]>',
            '<@mesh0, [{}, {}, {"axis_0"}], unreduced={"axis_1", "axis_2"}>',
        ),
    ),
    Snippet(
        "slides, 2-D weight stationary, completed",
        """func.func @mlp_2d_weight_stationary(...) -> tensor<2x4x8xf32> {
  %0 = mesh.annotate %arg1 {as_result = false, #mesh.shard<[[0], [1, 2]]>} : tensor<8x32xf32>
  %1 = mesh.annotate %arg2 {as_result = false, #mesh.shard<[[1, 2], [0]]>} : tensor<32x8xf32>
  %2 = mesh.annotate %arg0 {#mesh.shard<[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
  %3 = mesh.annotate %2 {as_result = false, #mesh.shard<[[], [], [0]]>} : tensor<2x4x8xf32>
  %4 = "mhlo.dot_general"(%3, %0) {..., sharding = [[], [], [1, 2], [0]]} : ...
  %5 = mesh.annotate %4 {#mesh.shard<[[], [], [1, 2], [0]]>} : tensor<2x4x32xf32>
  %6 = mesh.annotate %5 {as_result = false, #mesh.shard<[[], [], [1, 2]]>} : tensor<2x4x32xf32>
  %7 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
  %8 = mesh.annotate %7 {required = false, #mesh.shard<[]>} : tensor<2x4x32xf32>
  %9 = mesh.annotate %8 {as_result = false, #mesh.shard<[[], [], [1, 2]]>} : tensor<2x4x32xf32>
  %10 = mhlo.maximum %6, %9 {sharding = [[], [], [1, 2]]} : tensor<2x4x32xf32>
  %11 = mesh.annotate %10 {required = false, #mesh.shard<[[], [], [1, 2]]>} : tensor<2x4x32xf32>
  %12 = mesh.annotate %11 {as_result = false, #mesh.shard<[[], [], [1, 2]]>} : tensor<2x4x32xf32>
  %13 = "mhlo.dot_general"(%12, %1) {..., sharding = [[], [], [0], [1, 2]]} : ...
  %14 = mesh.annotate %13 {#mesh.shard<[[], [], [0], [1, 2]]>} : tensor<2x4x8xf32>
  %15 = mesh.annotate %14 {as_result = false, #mesh.shard<[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
  return %15 : tensor<2x4x8xf32>
}""",
        (
            SOME_DOT,
            (
                "(...) -> tensor<2x4x8xf32>",
                "(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32>"
                " attributes {mesh_cluster = @mesh0}",
                "elided",
            ),
            ("[0]]} : ...", "[0]]} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>", "elided"),
            ("[1, 2]]} : ...", "[1, 2]]} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>", "elided"),
        ),
        THREE + "\n{}",
        says=(
            '%0 = sdy.sharding_constraint %arg1 <@mesh0, [{"axis_0"}, {"axis_1", "axis_2"}]>',
            '%2 = sdy.sharding_constraint %arg0 <@mesh0, [{}, {}, {"axis_0"}]>',
            "stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{?}, {?}, {?}]>]>}",
            '[{?}, {?}, {"axis_1", "axis_2", ?}]',
        ),
    ),
    Snippet(
        "slides, 2-D weight stationary, materialized",
        f"""{MATERIALIZED_2D}  %3 = mesh.all_reduce %2 {{mesh_axis = [0], reduction = "sum"}} : tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2], [0]]>> -> tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2]]>>
  %4 = mesh.local_split %0 {{sharding = [[[], [], [1, 2]]}} : tensor<2x4x32xf32> -> tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2]]>>
  %5 = mhlo.maximum %3, %4 {{sharding = [[[], [], [1, 2]]}} : tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2]]>>
  %6 = "mhlo.dot_general"(%5, %arg2) {{..., sharding = [[[], [], [0], [1, 2]]}} : (tensor<2x4x32xf32, #mesh.shard<[[[], [], [1, 2]]>>,
    tensor<32x8xf32, #mesh.shard<[[1, 2], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[[], [], [0], [1, 2]]>>
  %7 = mesh.reduce_scatter %6 {{mesh_axis = [1, 2], reduction = "sum", tensor_axis = 2 : i64}} : tensor<2x4x8xf32, #mesh.shard<[[[], [], [0], [1, 2]]>> ->
    tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
  return %7 : tensor<2x4x8xf32, #mesh.shard<[[[], [], [0, 1, 2]]>>
}}""",
        (BRACKETS, SOME_DOT),
        THREE + "\n{}",
        says=(
            'sdy.all_gather [{}, {}, {"axis_1", "axis_2"}] %arg0 out_sharding=<@mesh0, [{}, {}, {"axis_0"}]>',
            'sdy.all_reduce {"axis_0"} %1 out_sharding=<@mesh0, [{}, {}, {"axis_1", "axis_2"}]>',
            'sdy.all_slice [{}, {}, {"axis_1", "axis_2"}] %cst',
            'sdy.reduce_scatter [{}, {}, {"axis_1", "axis_2"}] %5'
            ' out_sharding=<@mesh0, [{}, {}, {"axis_0", "axis_1", "axis_2"}]>',
        ),
    ),
    Snippet("slides, CCL optimization", OPTIMIZED_2D, OPTIMIZED_MENDS, THREE + "\n{}", OPTIMIZED_SAYS),
    Snippet("slides, analysis (the same program)", OPTIMIZED_2D, OPTIMIZED_MENDS, THREE + "\n{}", OPTIMIZED_SAYS),
    Snippet(
        "slides, partition, before",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])

Func.func @foo(%arg0: tensor<8xf32, #mesh.shard<[[0]]>>) ->
    attributes { mesh_cluster = @mesh0 } {
    "use"(%arg0) ...
    ...
}""",
        (
            ("Func.func", "func.func", "a capital letter"),
            (") ->\n", ") -> ()\n", "the arrow has no results"),
            ("(%arg0) ...\n    ...", "(%arg0) : (tensor<8xf32, #mesh.shard<[[0]]>>) -> ()\n    return", "elided"),
        ),
        says=('%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{"axis_0"}]>}',),
    ),
    Snippet(
        "slides, partition, after",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])

Func.func @foo(%arg0: tensor<8xf32>) -> ()
    attributes { mesh_cluster = @mesh0 } {
    %idx = mesh.idx(0)
    %c4 = arith.constant 4 : i64
    %start = arith.muli %idx, %c4 : i64
    %arg0_slice = "mhlo.dynamic_slice"(%arg0, %start) {
        slice_sizes = dense<[4]> : tensor<1xi64>
    } : (tensor<8xf32>, i64) -> tensor<4xf32>
    "use"(%arg0_slice) ...
    ...
}""",
        (
            ("Func.func", "func.func", "a capital letter"),
            ("(%arg0_slice) ...\n    ...", "(%arg0_slice) : (tensor<4xf32>) -> ()\n    return", "elided"),
            ("%start = ", "%first = ", "an index of a slice is a tensor"),
            (
                " : i64\n    %arg0_slice",
                " : i64\n    %start = tensor.from_elements %first : tensor<i64>\n    %arg0_slice",
                "an index of a slice is a tensor",
            ),
            (", i64)", ", tensor<i64>)", "an index of a slice is a tensor"),
        ),
        says=('"mesh.idx"() {axis = 0 : index} : () -> i64', "mesh_cluster = @mesh0", "stablehlo.dynamic_slice"),
    ),
    Snippet(
        "slides, partition of a tensor that is sharded already, before",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])

func.func @foo(%arg0: tensor<8xf32, #mesh.shard<[[0]]>>) ->
    attributes { mesh_cluster = @mesh0 } {
    "use"(%arg0) ...
    ...
}""",
        (
            (") ->\n", ") -> ()\n", "the arrow has no results"),
            ("(%arg0) ...\n    ...", "(%arg0) : (tensor<8xf32, #mesh.shard<[[0]]>>) -> ()\n    return", "elided"),
        ),
        says=('%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{"axis_0"}]>}',),
    ),
    Snippet(
        "slides, partition of a tensor that is sharded already, after",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])

func.func(%arg0: tensor<4xf32>) -> ()
    attributes { mesh_cluster = @mesh0 } {
    "use"(%arg0) ...
    ...
}""",
        (
            ("func.func(", "func.func @foo(", "a function has a name"),
            ("(%arg0) ...\n    ...", "(%arg0) : (tensor<4xf32>) -> ()\n    return", "elided"),
        ),
        says=("func.func @foo(%arg0: tensor<4xf32>)", '"use"(%arg0)'),
    ),
]
