"""The reference of the `sdy` dialect: its examples, in order. The forms of attributes, C++ types in their places, are none."""

from __future__ import annotations

from tests.notation.snippets import Mend, Snippet

__all__ = ["MESHES", "REFERENCE"]

ESCAPED: Mend = (r"\]", "]", "a bracket is escaped as for Markdown")
APPLIED: Mend = ("stablehlo.tanh(%0)", "stablehlo.tanh %0", "an op of MLIR is no call")


_MESH = 'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2, "d"=2]>\n'


PSEUDO = "pseudo-code: n is 1 here, and what is elided is filled in"
CONDITION = """^bb0(%pred_arg_0: tensor<i32>, %pred_arg_1: tensor<8xf32>):
  %p = stablehlo.compare LT, %pred_arg_0, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
}, {"""
STEP = """^bb0(%body_arg_0: tensor<i32>, %body_arg_1: tensor<8xf32>):
  %one = stablehlo.constant dense<1> : tensor<i32>
  %return_value_0 = stablehlo.add %body_arg_0, %one : tensor<i32>
  %return_value_1 = stablehlo.tanh %body_arg_1 : tensor<8xf32>
  """


def _function(type: str, dims: str = "") -> str:
    """The head of a function whose argument lies so: an explicit program says of each value how it lies."""
    dims = dims.replace("{}", "{ }")  # the first empty pair of brackets is where the example goes
    lies = f" {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}" if dims else ""
    return f"func.func @main(%0: {type}{lies}) -> {type} {{\n"


def _frame(type: str, dims: str = "", result: str = "%2") -> str:
    return f"{_MESH}{_function(type, dims)}{{}}\nreturn {result} : {type}\n}}"


REFERENCE = [
    Snippet(
        "sdy, all_gather",
        """%1 = stablehlo.tanh(%0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a", "b", "c"}, {}, {"d"}\\]>]>} : tensor<8x8x8xf32>
%2 = sdy.all_gather [{"b", "c"}, {}, {"d"}\\] %1 out_sharding=<@mesh, [{"a"}, {}, {}\\]> : tensor<8x8x8xf32>""",
        (ESCAPED, APPLIED),
        _frame("tensor<8x8x8xf32>", '{"a", "b", "c"}, {}, {"d"}'),
        says=('sdy.all_gather [{"b", "c"}, {}, {"d"}] %0 out_sharding=<@mesh, [{"a"}, {}, {}]>',),
    ),
    Snippet(
        "sdy, all_slice",
        """%1 = stablehlo.tanh(%0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {}, {}\\]>]>} : tensor<8x8x8xf32>
%2 = sdy.all_slice [{"b", "c"}, {}, {"d"}\\] %1 out_sharding=<@mesh, [{"a", "b", "c"}, {}, {"d"}\\]> : tensor<8x8x8xf32>""",
        (ESCAPED, APPLIED),
        _frame("tensor<8x8x8xf32>", '{"a"}, {}, {}'),
        says=('sdy.all_slice [{"b", "c"}, {}, {"d"}] %0 out_sharding=<@mesh, [{"a", "b", "c"}, {}, {"d"}]>',),
    ),
    Snippet(
        "sdy, all_to_all",
        """%1 = stablehlo.tanh(%0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a", "b"}, {"c"}, {}, {}\\]>]>} : tensor<8x8x4x4x32>
%2 = sdy.all_to_all [{"b"}: 0->2, {"c"}: 1->3] %1 out_sharding=<@mesh, [{"a"}, {}, {"b"}, {"c"}\\]> : tensor<8x8x4x4x32>""",
        (ESCAPED, APPLIED, ("4x32>", "4xf32>", "the type of the elements lost its letter")),
        _frame("tensor<8x8x4x4xf32>", '{"a", "b"}, {"c"}, {}, {}'),
        says=('sdy.all_to_all [{"b"}: 0->2, {"c"}: 1->3] %0 out_sharding=<@mesh, [{"a"}, {}, {"b"}, {"c"}]>',),
    ),
    Snippet(
        "sdy, collective_permute",
        """sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4, "d"=2, "e"=2, "f"=2]>
%1 = stablehlo.tanh(%0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a", "c"}, {"f"}, {"d", "e"}\\]>]>} : tensor<8x8x8xf32>
%2 = sdy.collective_permute %1 out_sharding=<@mesh, [{"c":(1)2, "b", "f"}, {"a"}, {"e", "d"}\\]> : tensor<8x8x8xf32>""",
        (
            ESCAPED,
            APPLIED,
            (
                '"f"=2]>\n',
                '"f"=2]>\n' + _function("tensor<8x8x8xf32>", '{"a", "c"}, {"f"}, {"d", "e"}'),
                "a mesh is no op of a function",
            ),
        ),
        "{}\nreturn %2 : tensor<8x8x8xf32>\n}",
        says=('sdy.collective_permute %0 out_sharding=<@mesh, [{"c":(1)2, "b", "f"}, {"a"}, {"e", "d"}]>',),
    ),
    Snippet(
        "sdy, constant",
        "%output = sdy.constant dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf32>",
        frame=_frame("tensor<2x2xf32>", result="%output"),
        says=("sdy.constant dense<[[0.000000e+00, 1.000000e+00], [2.000000e+00, 3.000000e+00]]> : tensor<2x2xf32>",),
    ),
    Snippet(
        "sdy, data_flow_edge",
        """y_0, ..., y_n = while (x_0, ..., x_n)
                  ((pred_arg_0,... , pred_arg_n) { ... })
                  ((body_arg_0,..., body_arg_n) {
                    ...
                    return return_value_0, ..., return_value_n
                  })""",
        (
            ("y_0, ..., y_n = while (x_0, ..., x_n)", '%y:2 = "stablehlo.while"(%x_0, %x_1) ({', PSEUDO),
            ("((pred_arg_0,... , pred_arg_n) { ... })", CONDITION, PSEUDO),
            ("((body_arg_0,..., body_arg_n) {\n                    ...", STEP, PSEUDO),
            (
                "return return_value_0, ..., return_value_n\n                  })",
                "stablehlo.return %return_value_0, %return_value_1 : tensor<i32>, tensor<8xf32>\n"
                "}) : (tensor<i32>, tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>)",
                PSEUDO,
            ),
        ),
        f'{_MESH}func.func @main(%x_1: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}]>}})'
        " -> tensor<8xf32> {\n%x_0 = stablehlo.constant dense<0> : tensor<i32>\n"
        "%limit = stablehlo.constant dense<3> : tensor<i32>\n{}\nreturn %y#1 : tensor<8xf32>\n}",
        says=("stablehlo.while(%iterArg = %c, %iterArg_1 = %arg0) : tensor<i32>, tensor<8xf32>",),
    ),
    Snippet(
        "sdy, named_computation",
        """%1 = sdy.named_computation<"foo">(%0) (%arg1: tensor<16x32xf32>) {
  sdy.return %arg1 : tensor<16x32xf32>
} : (tensor<16x32xf32>) -> tensor<16x32xf32>""",
        frame=_frame("tensor<16x32xf32>", result="%1"),
        says=('sdy.named_computation<"foo">(%arg0) (%arg1: tensor<16x32xf32>)',),
    ),
    Snippet(
        "sdy, rule of an add",
        """%0 = stablehlo.add %arg0, %arg1 {
    sdy.sharding_rule = #sdy.op_sharding_rule<
        ([i, j],[i, j])->([i, j])
        {i=8, j=8}>
} : tensor<8x8xf32>""",
        frame='sdy.mesh @mesh = <["a"=2, "b"=2]>\nfunc.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = '
        '#sdy.sharding<@mesh, [{"a"}, {"b"}]>}, %arg1: tensor<8x8xf32>) -> tensor<8x8xf32> '
        "{\n{}\nreturn %0 : tensor<8x8xf32>\n}",
        says=("#sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=8, j=8}>",),
    ),
    Snippet(
        "sdy, rule of a product",
        """%1 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0] {
  sdy.sharding_rule = #sdy.op_sharding_rule<
      ([i, k],[k, j])->([i, j])
      {i=8, j=16, k=8}>
}: (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>""",
        (("k=8}>", "k=8} reduction={k}>", "the sum over k: without it the devices' parts would be the result"),),
        'sdy.mesh @mesh = <["a"=2, "b"=2]>\nfunc.func @main(%arg2: tensor<8x8xf32> {sdy.sharding = '
        '#sdy.sharding<@mesh, [{"a"}, {"b"}]>}, %arg3: tensor<8x16xf32>) -> tensor<8x16xf32> '
        "{\n{}\nreturn %1 : tensor<8x16xf32>\n}",
        says=("#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=8} reduction={k}>",),
    ),
]

MESHES = [
    ("<[]>", (), None),
    ("<[], device_ids=[3]>", (), (3,)),
    ('<["a"=2, "b"=3]>', (("a", 2), ("b", 3)), None),
    ('<["a"=3, "b"=2], device_ids=[0, 2, 4, 1, 3, 5]>', (("a", 3), ("b", 2)), (0, 2, 4, 1, 3, 5)),
]
"""The meshes of its page on `MeshAttr`: text, axes and device ids."""
