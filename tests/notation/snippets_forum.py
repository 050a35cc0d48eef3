"""The mesh RFC on LLVM's forum: all of its IR, in order."""

from __future__ import annotations

from tests.notation.snippets import ARROW, BOTH_USED, DOT, ONE, OP0, TWO, Mend, Snippet, body

__all__ = ["FORUM"]

CLUSTER_1D = "mesh.cluster @mesh0(rank = 1, dim_sizes = [2])"
ARGUMENTS = "%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>"
FULL_DOT = f"{DOT}, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]"
WRAPPED_DOT = """{
dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2],
rhs_contracting_dimensions = [0]>,
precision_config =
[#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]
}"""
WRAPPED_DOT_2 = WRAPPED_DOT.replace("=\n[", "= [")
OPTION_DOT = WRAPPED_DOT_2.replace("]\n}", "],\nsharding = [[], [], [], [0]]\n}")
FIRST = '"mhlo.dot_general"(%0, %arg1) '
SECOND = '"mhlo.dot_general"(%3, %arg2) '


def used(type: str) -> Mend:
    return ('"use"(%arg0) ...\n...', f'"use"(%arg0) : ({type}) -> ()\nreturn', "elided")


NAMELESS: Mend = ("func.func(", "func.func @foo(", "a function has a name")

RETURNED = f"{TWO}\n!type = {{}}\nfunc.func @f(%0: !type) -> !type attributes {{mesh_cluster = @mesh0}} {{\nreturn %0 : !type\n}}"
"""A function that gives back what it takes."""

FORUM = [
    Snippet(
        "RFC, MeshShardingAttr, sharded",
        "tensor<4x8xf32, #mesh.shard<[[0]]>",
        (("[[0]]>", "[[0]]>>", "the type is not closed"),),
        RETURNED,
        says=('sdy.sharding = #sdy.sharding<@mesh0, [{"axis_0"}, {}]>',),
    ),
    Snippet(
        "RFC, MeshShardingAttr, partial",
        "tensor<4x8xf32, #mesh.shard<[[0], [], [1]]>",
        (("[1]]>", "[1]]>>", "the type is not closed"),),
        RETURNED,
        says=('sdy.sharding = #sdy.sharding<@mesh0, [{"axis_0"}, {}], unreduced={"axis_1"}>',),
    ),
    Snippet(
        "RFC, ClusterOp",
        """mesh.cluster @mesh0(rank = 3, dim_sizes = [4, 8, 12])
mesh.cluster @mesh1(rank = 2, dim_sizes = [4])
mesh.cluster @mesh1(rank = 2, dim_sizes = [0, 4])
func.func(%arg0 : tensor<?x?xf32>) > tensor<?x?xf32> attributes
{ mesh_cluster = @mesh0 } {
...
}""",
        (
            (
                "@mesh1(rank = 2, dim_sizes = [0, 4])",
                "@mesh2(rank = 2, dim_sizes = [0, 4])",
                "a symbol is defined once",
            ),
            ARROW,
            NAMELESS,
            ("...\n", "return %arg0 : tensor<?x?xf32>\n", "elided"),
        ),
        says=(
            'sdy.mesh @mesh0 = <["axis_0"=4, "axis_1"=8, "axis_2"=12]>',
            '"mesh.cluster"() {dim_sizes = [4], rank = 2 : i64, sym_name = "mesh1"}',
            '"mesh.cluster"() {dim_sizes = [0, 4], rank = 2 : i64, sym_name = "mesh2"}',
        ),
    ),
    Snippet(
        "RFC, AnnotateOp, two users",
        """%0 = op0 ...
%1 = mesh.annotate %0 {sharding = [[0], [1]], required = true,
as_result = true} : tensor<2x5xf32> > tensor<2x5xf32>
%2 = mesh.annotate %1 {sharding = [[0]], required = true,
as_result = false} : tensor<2x5xf32> > tensor<2x5xf32>
%3 = op1(%2) : ...
%4 = mesh.annotate %1 {sharding = [[1]], required = true,
as_result = false} : tensor<2x5xf32> > tensor<2x5xf32>
%5 = op2(%4) : ...""",
        (
            ARROW,
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
        "RFC, AnnotateOp, the user without annotation",
        """%0 = op0 ...
%1 = mesh.annotate %0 {sharding = [[0], [1]], required = true,
as_result = true} : tensor<2x5xf32> > tensor<2x5xf32>
%2 = op1(%1) : ...""",
        (
            ARROW,
            OP0,
            ("op1(%1) : ...", "stablehlo.negate %1 : tensor<2x5xf32>", "elided"),
        ),
        body(TWO, result="%2: tensor<2x5xf32>"),
        says=('[{"axis_0"}, {"axis_1"}]>]>}', "stablehlo.negate %0"),
    ),
    Snippet(
        "RFC, AllGatherOp",
        """%1 = mesh.all_gather %0 {mesh_axis = [[0], [1]]} :
tensor<2x4xf32, #mesh.shard<[[0], [1]]>> > tensor<2x4xf32>>""",
        (("> > tensor<2x4xf32>>", "> -> tensor<2x4xf32>", "the arrow lost its dash, and a bracket is too many"),),
        body(TWO, "%0: tensor<2x4xf32, #mesh.shard<[[0], [1]]>>", "%1: tensor<2x4xf32>"),
        says=('sdy.all_gather [{"axis_0"}, {"axis_1"}] %arg0 out_sharding=<@mesh0, [{}, {}]>',),
    ),
    Snippet(
        "RFC, AllReduceOp",
        """%1 = mesh.all_reduce %0 {reduction = "sum", mesh_axis = [0]} :
tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0, 1]]>> > tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>>""",
        (ARROW,),
        body(
            TWO,
            "%0: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0, 1]]>>",
            "%1: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>>",
        ),
        says=('sdy.all_reduce {"axis_0"} %arg0 out_sharding=<@mesh0, [{}, {}, {}], unreduced={"axis_1"}>',),
    ),
    Snippet(
        "RFC, LocalSplitOp",
        """%1 = mesh.local_split %0 {sharding = [[], [], [0]]} : tensor<2x4x8xf32, , #mesh.shard<[[], [1], []]>>
> tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>>""",
        ((", , ", ", ", "a comma too many"), ("\n> tensor", "\n-> tensor", "the arrow lost its dash")),
        body(
            TWO,
            "%0: tensor<2x4x8xf32, #mesh.shard<[[], [1], []]>>",
            "%1: tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>>",
        ),
        says=('sdy.all_slice [{}, {}, {"axis_0"}] %arg0 out_sharding=<@mesh0, [{}, {"axis_1"}, {"axis_0"}]>',),
    ),
    Snippet(
        "RFC, ReduceScatterOp",
        """%1 = mesh.reduce_scatter %0 {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64} :
tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>> > tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>""",
        (ARROW,),
        body(
            TWO,
            "%0: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>>",
            "%1: tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>",
        ),
        says=('sdy.reduce_scatter [{}, {}, {"axis_0"}] %arg0 out_sharding=<@mesh0, [{}, {}, {"axis_0"}]>',),
    ),
    *(
        Snippet(
            f"RFC, partition, before, {which}",
            """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func(%arg0: tensor<8xf32, #mesh.shard<[[0]]>>) > () attributes { mesh_cluster = @mesh0 } {
"use"(%arg0) ...
...
}""",
            (ARROW, NAMELESS, used("tensor<8xf32, #mesh.shard<[[0]]>>")),
            says=('%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{"axis_0"}]>}',),
        )
        for which in ("weights partitioned", "weights whole")
    ),
    Snippet(
        "RFC, partition, after, weights partitioned",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func(%arg0: tensor<4xf32>) > () attributes { mesh_cluster = @mesh0 } {
"use"(%arg0) ...
...
}""",
        (ARROW, NAMELESS, used("tensor<4xf32>")),
        says=("func.func @foo(%arg0: tensor<4xf32>)", '"use"(%arg0)'),
    ),
    Snippet(
        "RFC, partition, after, weights whole",
        """mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func(%arg0: tensor<8xf32>) > () attributes { mesh_cluster = @mesh0 } {
%idx = mesh.idx(0)
%c4 = arith.constant 4 : i64
%start = arith.muli %idx, %c4 : i64
%arg0_slice = "mhlo.dynamic_slice"(%arg0, %start) {
slice_sizes = dense<[4]> : tensor<1xi64>
} : (tensor<8xf32>, i64) > tensor<4xf32>
"use"(%arg0_slice) ...
...
}""",
        (
            ARROW,
            NAMELESS,
            ("(%arg0_slice) ...\n...", "(%arg0_slice) : (tensor<4xf32>) -> ()\nreturn", "elided"),
            ("%start = ", "%first = ", "an index of a slice is a tensor"),
            (
                ": i64\n%arg0_slice",
                ": i64\n%start = tensor.from_elements %first : tensor<i64>\n%arg0_slice",
                "an index of a slice is a tensor",
            ),
            (", i64)", ", tensor<i64>)", "an index of a slice is a tensor"),
        ),
        says=('"mesh.idx"() {axis = 0 : index} : () -> i64', "mesh_cluster = @mesh0", "stablehlo.dynamic_slice"),
    ),
    Snippet(
        "RFC, 1-D weight stationary, tensors annotated",
        f"""{CLUSTER_1D}
func.func @mlp({ARGUMENTS}) > tensor<2x4x8xf32> attributes {{ mesh_cluster = @mesh0 }} {{
%0 = mesh.annotate %arg0 {{required = true, sharding = [[], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
%1 = {FIRST}{WRAPPED_DOT} : (tensor<2x4x8xf32>, tensor<8x32xf32>) > tensor<2x4x32xf32>
%2 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
%4 = {SECOND}{WRAPPED_DOT_2} : (tensor<2x4x32xf32>, tensor<32x8xf32>) > tensor<2x4x8xf32>
%5 = mesh.annotate %4 {{required = true, sharding = [[], [], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
%6 = mesh.annotate %5 {{as_result = false, required = true, sharding = [[], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
return %6 : tensor<2x4x8xf32>
}}""",
        (ARROW,),
        says=(
            '%arg0: tensor<2x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{}, {}, {"axis_0"}]>}',
            '-> (tensor<2x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{}, {}, {"axis_0"}]>})',
            'sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{}, {}, {}], unreduced={"axis_0"}>]>',
        ),
    ),
    Snippet(
        "RFC, 1-D weight stationary, loops",
        f"""%3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
%1 = {FIRST}{WRAPPED_DOT} : (tensor<2x4x8xf32>, tensor<8x32xf32>) > tensor<2x4x32xf32>
%4 = {SECOND}{WRAPPED_DOT_2} : (tensor<2x4x32xf32>, tensor<32x8xf32>) > tensor<2x4x8xf32>""",
        (
            ARROW,
            ("%3 = mhlo.maximum %1, %2 ", "%5 = mhlo.maximum %arg3, %arg3 ", "three ops apart from their program"),
            ("(%0, ", "(%arg0, ", "three ops apart from their program"),
            ("(%3, ", "(%arg3, ", "three ops apart from their program"),
        ),
        f"{ONE}\nfunc.func @f({ARGUMENTS}, %arg3: tensor<2x4x32xf32>)"
        " -> (tensor<2x4x32xf32>, tensor<2x4x32xf32>, tensor<2x4x8xf32>) {\n{}\n"
        "return %5, %1, %4 : tensor<2x4x32xf32>, tensor<2x4x32xf32>, tensor<2x4x8xf32>\n}",
        says=("stablehlo.maximum", "contracting_dims = [2] x [0]"),
    ),
    Snippet(
        "RFC, 1-D weight stationary, completed",
        f"""{CLUSTER_1D}
func.func @mlp_1d_weight_stationary({ARGUMENTS}) > tensor<2x4x8xf32> attributes {{ mesh_cluster = @mesh0 }} {{
%0 = mesh.annotate %arg1 {{as_result = false, required = false, sharding = [[], [0]]}} : tensor<8x32xf32> > tensor<8x32xf32>
%1 = mesh.annotate %arg2 {{as_result = false, required = false, sharding = [[0]]}} : tensor<32x8xf32> > tensor<32x8xf32>
%2 = mesh.annotate %arg0 {{required = true, sharding = [[], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
%3 = mesh.annotate %2 {{as_result = false, required = false, sharding = []}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
%4 = "mhlo.dot_general"(%3, %0) {{{FULL_DOT}, sharding = [[], [], [0]]}} : (tensor<2x4x8xf32>, tensor<8x32xf32>) > tensor<2x4x32xf32>
%5 = mesh.annotate %4 {{required = false, sharding = [[], [], [0]]}} : tensor<2x4x32xf32> > tensor<2x4x32xf32>
%6 = mesh.annotate %5 {{as_result = false, required = false, sharding = [[], [], [0]]}} : tensor<2x4x32xf32> > tensor<2x4x32xf32>
%7 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%8 = mesh.annotate %7 {{required = false, sharding = []}} : tensor<2x4x32xf32> > tensor<2x4x32xf32>
%9 = mesh.annotate %8 {{as_result = false, required = false, sharding = [[], [], [0]]}} : tensor<2x4x32xf32> > tensor<2x4x32xf32>
%10 = mhlo.maximum %6, %9 {{sharding = [[], [], [0]]}} : tensor<2x4x32xf32>
%11 = mesh.annotate %10 {{required = false, sharding = [[], [], [0]]}} : tensor<2x4x32xf32> > tensor<2x4x32xf32>
%12 = mesh.annotate %11 {{as_result = false, required = false, sharding = [[], [], [0]]}} : tensor<2x4x32xf32> > tensor<2x4x32xf32>
%13 = "mhlo.dot_general"(%12, %1) {{{FULL_DOT}, sharding = [[], [], [], [0]]}} : (tensor<2x4x32xf32>, tensor<32x8xf32>) > tensor<2x4x8xf32>
%14 = mesh.annotate %13 {{required = true, sharding = [[], [], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
%15 = mesh.annotate %14 {{as_result = false, required = true, sharding = [[], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
return %15 : tensor<2x4x8xf32>
}}""",
        (ARROW,),
        says=(
            '%0 = sdy.sharding_constraint %arg1 <@mesh0, [{?}, {"axis_0", ?}]>',
            '%1 = sdy.sharding_constraint %arg2 <@mesh0, [{"axis_0", ?}, {?}]>',
            "%2 = sdy.sharding_constraint %arg0 <@mesh0, [{?}, {?}, {?}]>",
            "%3 = stablehlo.dot_general %2, %0",
            "stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{?}, {?}, {?}]>]>}",
            'sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{}, {}, {}], unreduced={"axis_0"}>]>',
        ),
    ),
    Snippet(
        "RFC, 1-D weight stationary, materialized",
        f"""{CLUSTER_1D}
func.func @mlp_1d_weight_stationary(%arg0: tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>, %arg1: tensor<8x32xf32, #mesh.shard<[[], [0]]>>, %arg2: tensor<32x8xf32, #mesh.shard<[[0]]>>) > tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>> attributes {{ mesh_cluster = @mesh0 }} {{
%0 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%1 = mesh.all_gather %arg0 {{mesh_axis = [[], [], [0]], tensor_axis = [2]}} : tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>> > tensor<2x4x8xf32>
%2 = "mhlo.dot_general"(%1, %arg1) {{{FULL_DOT}, sharding = [[], [], [0]]}} : (tensor<2x4x8xf32>, tensor<8x32xf32, #mesh.shard<[[], [0]]>>) > tensor<2x4x32xf32, #mesh.shard<[[], [], [0]]>>
%3 = mesh.local_split %0 {{sharding = [[], [], [0]]}} : tensor<2x4x32xf32> > tensor<2x4x32xf32, #mesh.shard<[[], [], [0]]>>
%4 = mhlo.maximum %2, %3 {{sharding = [[], [], [0]]}} : tensor<2x4x32xf32, #mesh.shard<[[], [], [0]]>>
%5 = "mhlo.dot_general"(%4, %arg2) {{{FULL_DOT}, sharding = [[], [], [], [0]]}} : (tensor<2x4x32xf32, #mesh.shard<[[], [], [0]]>>, tensor<32x8xf32, #mesh.shard<[[0]]>>) > tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>>
%6 = mesh.reduce_scatter %5 {{mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64}} : tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>> > tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
return %6 : tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
}}""",
        (ARROW,),
        says=(
            'sdy.all_gather [{}, {}, {"axis_0"}] %arg0 out_sharding=<@mesh0, [{}, {}, {}]>',
            'sdy.all_slice [{}, {}, {"axis_0"}] %cst out_sharding=<@mesh0, [{}, {}, {"axis_0"}]>',
            'sdy.reduce_scatter [{}, {}, {"axis_0"}] %4 out_sharding=<@mesh0, [{}, {}, {"axis_0"}]>',
        ),
    ),
    Snippet(
        "RFC, 1-D weight stationary, partitioned",
        f"""{CLUSTER_1D}
func.func @mlp_1d_weight_stationary(%arg0: tensor<2x4x4xf32>, %arg1: tensor<8x16xf32>, %arg2: tensor<16x8xf32>) > tensor<2x4x4xf32> attributes {{mesh_cluster = @mesh0}} {{
%0 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%1 = "mhlo.all_gather"(%arg0) {{all_gather_dim = 2 : i64, channel_handle = #mhlo.channel_handle<handle = 0, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<2x4x4xf32>) > tensor<2x4x8xf32>
%2 = "mhlo.dot_general"(%1, %arg1) {{{FULL_DOT}, sharding = [[], [], [0]]}} : (tensor<2x4x8xf32>, tensor<8x16xf32>) > tensor<2x4x16xf32>
%3 = mhlo.constant dense<0.000000e+00> : tensor<2x4x16xf32>
%4 = mhlo.maximum %2, %3 {{sharding = [[], [], [0]]}} : tensor<2x4x16xf32>
%5 = "mhlo.dot_general"(%4, %arg2) {{{FULL_DOT}, sharding = [[], [], [], [0]]}} : (tensor<2x4x16xf32>, tensor<16x8xf32>) > tensor<2x4x8xf32>
%6 = "mhlo.reduce_scatter"(%5) ({{
^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
%7 = mhlo.add %arg3, %arg4 : tensor<f32>
mhlo.return %7 : tensor<f32>
}}) {{channel_handle = #mhlo.channel_handle<handle = 0, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 2 : i64}} : (tensor<2x4x8xf32>) > tensor<2x4x4xf32>
return %6 : tensor<2x4x4xf32>
}}""",
        (ARROW,),
        says=(
            '"stablehlo.all_gather"(%arg0)',
            '"stablehlo.reduce_scatter"',
            "mesh_cluster = @mesh0",
            "shardwright.option = [[], [], [], [0]]",
        ),
    ),
    Snippet(
        "RFC, 1-D weight stationary, ops with options",
        f"""mesh.cluster @mesh0(rank = 1, dim_sizes = [8])
func.func @mlp_1d_weight_stationary_with_sharding_on_operation({ARGUMENTS}) > tensor<2x4x8xf32> attributes {{ mesh_cluster = @mesh0 }} {{
%0 = mesh.annotate %arg0 {{required = true, sharding = [[], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
%1 = {FIRST}{WRAPPED_DOT} : (tensor<2x4x8xf32>, tensor<8x32xf32>) > tensor<2x4x32xf32>
%2 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
%3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
%4 = {SECOND}{OPTION_DOT} : (tensor<2x4x32xf32>, tensor<32x8xf32>) > tensor<2x4x8xf32>
%6 = mesh.annotate %4 {{as_result = false, required = true, sharding = [[], [], [0]]}} : tensor<2x4x8xf32> > tensor<2x4x8xf32>
return %6 : tensor<2x4x8xf32>
}}""",
        (ARROW,),
        says=(
            'sdy.mesh @mesh0 = <["axis_0"=8]>',
            '%arg2: tensor<32x8xf32>) -> (tensor<2x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh0, [{}, {}, {"axis_0"}]>})',
            'sdy.sharding_constraint %1 <@mesh0, [{}, {}, {"axis_0"}]>',
            'sdy.sharding_constraint %arg2 <@mesh0, [{"axis_0"}, {}]>',
            'sdy.sharding = #sdy.sharding_per_value<[<@mesh0, [{}, {}, {}], unreduced={"axis_0"}>]>',
        ),
    ),
]
