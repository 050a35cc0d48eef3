"""Explicit programs that a pass makes better, by name: the pass, the program, and the ops that are left."""

from __future__ import annotations

from dataclasses import dataclass

from tests.optimize.explicit import function

__all__ = ["CASES", "CHANGING", "Case"]


@dataclass(frozen=True)
class Case:
    """A program that one pass makes better.

    Attributes:
        name: The pass.
        text: The program.
        left: The names of its ops afterwards.
        is_exact: Whether the pass does the same where floating-point sums keep their order.
        needs_bytes: Whether it only pays where starting a collective costs nothing: tensors here are small.
    """

    name: str
    text: str
    left: str
    is_exact: bool = True
    needs_bytes: bool = False


_ROWS = ['a: tensor<8x16xf32> [{"x", "y"}, {}]']
_BOTH = ['a: tensor<8x16xf32> [{}, {"x"}]', 'b: tensor<16x8xf32> [{"x"}, {}]', 'c: tensor<8x16xf32> [{}, {"x"}]']
_GRID = ['a: tensor<8x16xf32> [{}, {"x", "y"}]', 'b: tensor<16x8xf32> [{"x", "y"}, {}]']
_DOT = "(tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>"
_PARTIAL = f"""
%p = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
%q = stablehlo.dot %c, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
"""
_REDUCED = f"""{_PARTIAL}
%r = sdy.all_reduce {{"x"}} %p «[{{}}, {{}}]» : tensor<8x8xf32>
%s = sdy.all_reduce {{"x"}} %q «[{{}}, {{}}]» : tensor<8x8xf32>
"""
_SCATTERED = f"""{_PARTIAL}
%r = sdy.reduce_scatter [{{"x"}}, {{}}] %p «[{{"x"}}, {{}}]» : tensor<8x8xf32>
%s = sdy.reduce_scatter [{{"x"}}, {{}}] %q «[{{"x"}}, {{}}]» : tensor<8x8xf32>
"""
_WHOLE = "tensor<8x8xf32> [{}, {}]"

DEAD = {
    "nobody reads it": Case(
        "dead-collectives",
        function(
            _ROWS,
            'tensor<8x16xf32> [{"x", "y"}, {}]',
            """
            %0 = stablehlo.negate %a «[{"x", "y"}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_gather [{"y"}, {}] %0 «[{"x"}, {}]» : tensor<8x16xf32>
            %2 = stablehlo.exponential %1 «[{"x"}, {}]» : tensor<8x16xf32>
            %3 = sdy.all_gather [{"x"}, {}] %2 «[{}, {}]» : tensor<8x16xf32>
            %4 = stablehlo.tanh %a «[{"x", "y"}, {}]» : tensor<8x16xf32>
            return %4 : tensor<8x16xf32>
            """,
        ),
        "tanh",
    ),
    "it moves nothing": Case(
        "dead-collectives",
        function(
            _ROWS,
            'tensor<8x16xf32> [{"x", "y"}, {}]',
            """
            %0 = sdy.collective_permute %a «[{"x", "y"}, {}]» : tensor<8x16xf32>
            %1 = stablehlo.tanh %0 «[{"x", "y"}, {}]» : tensor<8x16xf32>
            return %1 : tensor<8x16xf32>
            """,
        ),
        "tanh",
    ),
}

COMMON = {
    "the same twice": Case(
        "common-collectives",
        function(
            _ROWS,
            "tensor<8x16xf32> [{}, {}]",
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = stablehlo.tanh %0 «[{}, {}]» : tensor<8x16xf32>
            %2 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %3 = stablehlo.multiply %1, %2 «[{}, {}]» : tensor<8x16xf32>
            return %3 : tensor<8x16xf32>
            """,
        ),
        "all_gather tanh multiply",
    ),
    "of the same computed twice": Case(
        "common-collectives",
        function(
            _BOTH,
            _WHOLE,
            f"""
            %p = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %r = sdy.all_reduce {{"x"}} %p «[{{}}, {{}}]» : tensor<8x8xf32>
            %q = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %s = sdy.all_reduce {{"x"}} %q «[{{}}, {{}}]» : tensor<8x8xf32>
            %0 = stablehlo.multiply %r, %s «[{{}}, {{}}]» : tensor<8x8xf32>
            return %0 : tensor<8x8xf32>
            """,
        ),
        "dot all_reduce multiply",
    ),
    "another that is nearer": Case(
        "common-collectives",
        function(
            _ROWS,
            "tensor<8x16xf32> [{}, {}]",
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_to_all [{"y"}: 0->1] %a «[{"x"}, {"y"}]» : tensor<8x16xf32>
            %2 = stablehlo.tanh %1 «[{"x"}, {"y"}]» : tensor<8x16xf32>
            %3 = sdy.all_gather [{"x"}, {"y"}] %2 «[{}, {}]» : tensor<8x16xf32>
            %4 = stablehlo.multiply %0, %3 «[{}, {}]» : tensor<8x16xf32>
            return %4 : tensor<8x16xf32>
            """,
        ),
        "all_gather all_slice tanh all_gather multiply",
    ),
    "in a loop what is there before it": Case(
        "common-collectives",
        function(
            _ROWS,
            "tensor<8x16xf32> [{}, {}]",
            """
            %zero = stablehlo.constant «[]» dense<0> : tensor<i32>
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1:2 = stablehlo.while(%i = %zero, %x = %0) : tensor<i32>, tensor<8x16xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {}]>]>}
            cond {
              %n = stablehlo.constant «[]» dense<3> : tensor<i32>
              %c = stablehlo.compare LT, %i, %n «[]» : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %one = stablehlo.constant «[]» dense<1> : tensor<i32>
              %j = stablehlo.add %i, %one «[]» : tensor<i32>
              %2 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
              %3 = stablehlo.multiply %x, %2 «[{}, {}]» : tensor<8x16xf32>
              stablehlo.return %j, %3 : tensor<i32>, tensor<8x16xf32>
            }
            return %1#1 : tensor<8x16xf32>
            """,
        ),
        "all_gather while compare add multiply",
    ),
}

FOLDED = {
    "two all_reduces are one": Case(
        "all-reduce-fold",
        function(
            _GRID,
            _WHOLE,
            f"""
            %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x", "y"}}» : {_DOT}
            %1 = sdy.all_reduce {{"y"}} %0 «[{{}}, {{}}], unreduced={{"x"}}» : tensor<8x8xf32>
            %2 = sdy.all_reduce {{"x"}} %1 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %2 : tensor<8x8xf32>
            """,
        ),
        "dot all_reduce",
        is_exact=False,
    ),
}

SLICED = {
    "of what is reduced": Case(
        "collective-slice",
        function(
            _BOTH[:2],
            'tensor<8x8xf32> [{}, {"x"}]',
            f"""
            %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
            %2 = sdy.all_slice [{{}}, {{"x"}}] %1 «[{{}}, {{"x"}}]» : tensor<8x8xf32>
            return %2 : tensor<8x8xf32>
            """,
        ),
        "dot reduce_scatter",
    ),
    "of what is gathered, the same": Case(
        "collective-slice",
        function(
            _ROWS,
            'tensor<8x16xf32> [{"x", "y"}, {}]',
            """
            %0 = sdy.all_gather [{"y"}, {}] %a «[{"x"}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_slice [{"y"}, {}] %0 «[{"x", "y"}, {}]» : tensor<8x16xf32>
            %2 = stablehlo.tanh %1 «[{"x", "y"}, {}]» : tensor<8x16xf32>
            return %2 : tensor<8x16xf32>
            """,
        ),
        "tanh",
    ),
    "of what is gathered, less": Case(
        "collective-slice",
        function(
            _ROWS,
            'tensor<8x16xf32> [{"x"}, {}]',
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_slice [{"x"}, {}] %0 «[{"x"}, {}]» : tensor<8x16xf32>
            return %1 : tensor<8x16xf32>
            """,
        ),
        "all_gather",
    ),
    "of what is gathered, along another dimension": Case(
        "collective-slice",
        function(
            _ROWS,
            'tensor<8x16xf32> [{"x"}, {"y"}]',
            """
            %0 = sdy.all_gather [{"y"}, {}] %a «[{"x"}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_slice [{}, {"y"}] %0 «[{"x"}, {"y"}]» : tensor<8x16xf32>
            return %1 : tensor<8x16xf32>
            """,
        ),
        "all_to_all",
    ),
}

FLATTENED = {
    "gathered along one axis after the other": Case(
        "flatten-collectives",
        function(
            _ROWS,
            "tensor<8x16xf32> [{}, {}]",
            """
            %0 = sdy.all_gather [{"y"}, {}] %a «[{"x"}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_gather [{"x"}, {}] %0 «[{}, {}]» : tensor<8x16xf32>
            return %1 : tensor<8x16xf32>
            """,
        ),
        "all_gather",
    ),
    "moved there and on": Case(
        "flatten-collectives",
        function(
            _ROWS,
            'tensor<8x16xf32> [{}, {"x", "y"}]',
            """
            %0 = sdy.all_to_all [{"y"}: 0->1] %a «[{"x"}, {"y"}]» : tensor<8x16xf32>
            %1 = sdy.collective_permute %0 «[{"y"}, {"x"}]» : tensor<8x16xf32>
            %2 = sdy.all_to_all [{"y"}: 0->1] %1 «[{}, {"x", "y"}]» : tensor<8x16xf32>
            return %2 : tensor<8x16xf32>
            """.replace('"y"}, {"x"}', '"x"}, {"y"}')
            .replace('[{"y"}: 0->1] %1', '[{"x"}: 0->1] %1')
            .replace('%1 «[{}, {"x", "y"}]»', '%1 «[{}, {"y", "x"}]»')
            .replace("return %2", '%3 = sdy.collective_permute %2 «[{}, {"x", "y"}]» : tensor<8x16xf32>\n return %3'),
        ),
        "all_to_all",
    ),
}

REASSOCIATED = {
    "a sum of sums": Case(
        "all-reduce-reassociate",
        function(
            _BOTH,
            _WHOLE,
            f"""{_REDUCED}
            %0 = stablehlo.add %r, %s «[{{}}, {{}}]» : tensor<8x8xf32>
            return %0 : tensor<8x8xf32>
            """,
        ),
        "dot dot add all_reduce",
        is_exact=False,
    ),
    "through what is linear": Case(
        "all-reduce-reassociate",
        function(
            [*_BOTH, "k: tensor<f32> []"],
            _WHOLE,
            f"""{_REDUCED}
            %0 = stablehlo.negate %r «[{{}}, {{}}]» : tensor<8x8xf32>
            %1 = stablehlo.transpose %0, dims = [1, 0] «[{{}}, {{}}]» : (tensor<8x8xf32>) -> tensor<8x8xf32>
            %2 = stablehlo.broadcast_in_dim %k, dims = [] «[{{}}, {{}}]» : (tensor<f32>) -> tensor<8x8xf32>
            %3 = stablehlo.multiply %2, %s «[{{}}, {{}}]» : tensor<8x8xf32>
            %4 = stablehlo.subtract %1, %3 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %4 : tensor<8x8xf32>
            """,
        ),
        "dot dot broadcast_in_dim multiply negate transpose subtract all_reduce",
        is_exact=False,
    ),
    "of a number in all places, and of a matrix": Case(
        "all-reduce-reassociate",
        function(
            [*_BOTH[:2], 'v: tensor<16xf32> [{"x"}]'],
            _WHOLE,
            f"""
            %0 = stablehlo.dot %v, %v «[], unreduced={{"x"}}» : (tensor<16xf32>, tensor<16xf32>) -> tensor<f32>
            %1 = sdy.all_reduce {{"x"}} %0 «[]» : tensor<f32>
            %2 = stablehlo.broadcast_in_dim %1, dims = [] «[{{}}, {{}}]» : (tensor<f32>) -> tensor<8x8xf32>
            %3 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %4 = sdy.all_reduce {{"x"}} %3 «[{{}}, {{}}]» : tensor<8x8xf32>
            %5 = stablehlo.add %2, %4 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %5 : tensor<8x8xf32>
            """,
        ),
        "dot broadcast_in_dim dot add all_reduce",
        is_exact=False,
    ),
    "of less, behind a slice of it": Case(
        "all-reduce-reassociate",
        function(
            _BOTH[:2],
            "tensor<2x8xf32> [{}, {}]",
            f"""
            %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
            %2 = stablehlo.slice %1 [2:4, 0:8] «[{{}}, {{}}]» : (tensor<8x8xf32>) -> tensor<2x8xf32>
            %3 = stablehlo.reshape %2 «[{{}}, {{}}]» : (tensor<2x8xf32>) -> tensor<2x8xf32>
            return %3 : tensor<2x8xf32>
            """,
        ),
        "dot slice all_reduce reshape",
    ),
    "a sum of what is scattered": Case(
        "reduce-scatter-reassociate",
        function(
            _BOTH,
            'tensor<8x8xf32> [{"x"}, {}]',
            f"""{_SCATTERED}
            %0 = stablehlo.add %r, %s «[{{"x"}}, {{}}]» : tensor<8x8xf32>
            return %0 : tensor<8x8xf32>
            """,
        ),
        "dot dot add reduce_scatter",
        is_exact=False,
    ),
}

GATHERED = {
    "behind a conversion to less": Case(
        "all-gather-move-down",
        function(
            _ROWS,
            "tensor<8x16xbf16> [{}, {}]",
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = stablehlo.convert %0 «[{}, {}]» : (tensor<8x16xf32>) -> tensor<8x16xbf16>
            return %1 : tensor<8x16xbf16>
            """,
        ),
        "convert all_gather",
    ),
    "behind work that is then shared": Case(
        "all-gather-move-down",
        function(
            [*_ROWS, "b: tensor<16x8xf32> [{}, {}]"],
            _WHOLE,
            f"""
            %0 = sdy.all_gather [{{"x", "y"}}, {{}}] %a «[{{}}, {{}}]» : tensor<8x16xf32>
            %1 = stablehlo.dot %0, %b «[{{}}, {{}}]» : {_DOT}
            %2 = stablehlo.tanh %1 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %2 : tensor<8x8xf32>
            """,
        ),
        "dot tanh all_gather",
        is_exact=False,
    ),
    "of two, with both": Case(
        "all-gather-move-down",
        function(
            [*_ROWS, 'b: tensor<8x16xf32> [{"x", "y"}, {}]', "c: tensor<8x16xf32> [{}, {}]"],
            "tensor<8x16xf32> [{}, {}]",
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = sdy.all_gather [{"x", "y"}, {}] %b «[{}, {}]» : tensor<8x16xf32>
            %2 = stablehlo.multiply %0, %1 «[{}, {}]» : tensor<8x16xf32>
            %3 = stablehlo.logistic %2 «[{}, {}]» : tensor<8x16xf32>
            %4 = stablehlo.multiply %2, %3 «[{}, {}]» : tensor<8x16xf32>
            %5 = stablehlo.add %4, %c «[{}, {}]» : tensor<8x16xf32>
            return %5 : tensor<8x16xf32>
            """,
        ),
        "multiply logistic multiply all_slice add all_gather",
    ),
    "and gone, where shards are read in the end": Case(
        "all-gather-move-down",
        function(
            _ROWS,
            'tensor<8x16xf32> [{"x", "y"}, {}]',
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = stablehlo.tanh %0 «[{}, {}]» : tensor<8x16xf32>
            %2 = sdy.all_slice [{"x", "y"}, {}] %1 «[{"x", "y"}, {}]» : tensor<8x16xf32>
            return %2 : tensor<8x16xf32>
            """,
        ),
        "tanh",
    ),
    "where what is gathered is added up": Case(
        "all-gather-move-down",
        function(
            [*_ROWS, "z: tensor<f32> []"],
            "tensor<16xf32> [{}]",
            """
            %0 = sdy.all_gather [{"x", "y"}, {}] %a «[{}, {}]» : tensor<8x16xf32>
            %1 = stablehlo.constant «[]» dense<0.0> : tensor<f32>
            %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] «[{}]» : (tensor<8x16xf32>, tensor<f32>) -> tensor<16xf32>
            return %2 : tensor<16xf32>
            """,
        ),
        "reduce all_reduce",
        is_exact=False,
    ),
}

DECOMPOSED = {
    "work that is then shared": Case(
        "all-reduce-decompose",
        function(
            _BOTH[:2],
            _WHOLE,
            f"""
            %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
            %2 = stablehlo.tanh %1 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %2 : tensor<8x8xf32>
            """,
        ),
        "dot reduce_scatter tanh all_gather",
        needs_bytes=True,
    ),
    "and a part is enough": Case(
        "all-reduce-decompose",
        function(
            _BOTH[:2],
            'tensor<8x8xf32> [{}, {"x"}]',
            f"""
            %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
            %2 = stablehlo.tanh %1 «[{{}}, {{}}]» : tensor<8x8xf32>
            %3 = sdy.all_slice [{{}}, {{"x"}}] %2 «[{{}}, {{"x"}}]» : tensor<8x8xf32>
            return %3 : tensor<8x8xf32>
            """,
        ),
        "dot reduce_scatter tanh",
    ),
}


MOVED = {
    "moved behind a conversion to less": Case(
        "collective-move-down",
        function(
            ['a: tensor<8x16xf32> [{"x"}, {}]'],
            'tensor<8x16xbf16> [{}, {"x"}]',
            """
            %0 = sdy.all_to_all [{"x"}: 0->1] %a «[{}, {"x"}]» : tensor<8x16xf32>
            %1 = stablehlo.convert %0 «[{}, {"x"}]» : (tensor<8x16xf32>) -> tensor<8x16xbf16>
            return %1 : tensor<8x16xbf16>
            """,
        ),
        "convert all_to_all",
    ),
    "gathered before a conversion to more": Case(
        "collective-move-up",
        function(
            ['a: tensor<8x16xbf16> [{"x", "y"}, {}]'],
            "tensor<16x8xf32> [{}, {}]",
            """
            %0 = stablehlo.transpose %a, dims = [1, 0] «[{}, {"x", "y"}]» : (tensor<8x16xbf16>) -> tensor<16x8xbf16>
            %1 = stablehlo.convert %0 «[{}, {"x", "y"}]» : (tensor<16x8xbf16>) -> tensor<16x8xf32>
            %2 = sdy.all_gather [{}, {"x", "y"}] %1 «[{}, {}]» : tensor<16x8xf32>
            return %2 : tensor<16x8xf32>
            """,
        ),
        "transpose all_gather convert",
    ),
    "gathered before it is put in many places": Case(
        "collective-move-up",
        function(
            ['a: tensor<8xf32> [{"x", "y"}]'],
            "tensor<8x64xf32> [{}, {}]",
            """
            %0 = stablehlo.broadcast_in_dim %a, dims = [0] «[{"x", "y"}, {}]» : (tensor<8xf32>) -> tensor<8x64xf32>
            %1 = sdy.all_gather [{"x", "y"}, {}] %0 «[{}, {}]» : tensor<8x64xf32>
            return %1 : tensor<8x64xf32>
            """,
        ),
        "all_gather broadcast_in_dim",
    ),
    "cut before an op": Case(
        "collective-move-up",
        function(
            ["a: tensor<8x16xf32> [{}, {}]"],
            'tensor<16x8xf32> [{}, {"x", "y"}]',
            """
            %0 = stablehlo.transpose %a, dims = [1, 0] «[{}, {}]» : (tensor<8x16xf32>) -> tensor<16x8xf32>
            %1 = stablehlo.negate %0 «[{}, {}]» : tensor<16x8xf32>
            %2 = sdy.all_slice [{}, {"x", "y"}] %1 «[{}, {"x", "y"}]» : tensor<16x8xf32>
            return %2 : tensor<16x8xf32>
            """,
        ),
        "all_slice transpose negate",
    ),
    "cut before work that is then shared": Case(
        "collective-move-up",
        function(
            ["a: tensor<8x16xf32> [{}, {}]", "b: tensor<16x8xf32> [{}, {}]"],
            'tensor<8x8xf32> [{"x", "y"}, {}]',
            f"""
            %0 = stablehlo.dot %a, %b «[{{}}, {{}}]» : {_DOT}
            %1 = sdy.all_slice [{{"x", "y"}}, {{}}] %0 «[{{"x", "y"}}, {{}}]» : tensor<8x8xf32>
            return %1 : tensor<8x8xf32>
            """,
        ),
        "all_slice dot",
        is_exact=False,
    ),
}


def _loop(body: str, carried: str = "", types: str = "", layouts: str = "", yields: str = "") -> str:
    """A program with a loop of three turns that carries `%x` round, and perhaps more, and gives it."""
    return function(
        ['a: tensor<8x16xf32> [{"x", "y"}, {}]'],
        "tensor<8x16xbf16> [{}, {}]",
        f"""
        %zero = stablehlo.constant «[]» dense<0> : tensor<i32>
        %start = stablehlo.constant «[{{}}, {{}}]» dense<1.0> : tensor<8x16xbf16>
        %l:{2 + bool(carried)} = stablehlo.while(%i = %zero, %x = %start{carried}) : tensor<i32>, tensor<8x16xbf16>{types} attributes {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{{}}, {{}}]>{layouts}]>}}
        cond {{
          %n = stablehlo.constant «[]» dense<3> : tensor<i32>
          %c = stablehlo.compare LT, %i, %n «[]» : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %one = stablehlo.constant «[]» dense<1> : tensor<i32>
          %j = stablehlo.add %i, %one «[]» : tensor<i32>
          {body}
          stablehlo.return %j, %3{yields} : tensor<i32>, tensor<8x16xbf16>{types}
        }}
        return %l#1 : tensor<8x16xbf16>
        """,
    )


_GATHERED_W = """%1 = stablehlo.convert %w «[{"x", "y"}, {}]» : (tensor<8x16xf32>) -> tensor<8x16xbf16>
          %2 = sdy.all_gather [{"x", "y"}, {}] %1 «[{}, {}]» : tensor<8x16xbf16>
          %3 = stablehlo.multiply %x, %2 «[{}, {}]» : tensor<8x16xbf16>"""
_CARRIED_W = {
    "carried": ", %w = %a",
    "types": ", tensor<8x16xf32>",
    "layouts": ', <@mesh, [{"x", "y"}, {}]>',
}

CHANGING = _loop(
    _GATHERED_W + '\n          %4 = stablehlo.negate %w «[{"x", "y"}, {}]» : tensor<8x16xf32>',
    **_CARRIED_W,
    yields=", %4",
)
"""A loop that gathers what it changes."""

HOISTED = {
    "of what comes from outside": Case(
        "hoist-collectives",
        _loop(_GATHERED_W.replace("%w", "%a")),
        "convert all_gather while compare add multiply",
    ),
    "of what is carried round as it is": Case(
        "hoist-collectives",
        _loop(_GATHERED_W, **_CARRIED_W, yields=", %w"),
        "convert all_gather while compare add multiply",
    ),
}

_SQUARE = "(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"
_WIDE = [
    'a: tensor<64x64xf32> [{"x"}, {}]',
    'w: tensor<64x64xf32> [{"y"}, {}]',
    'v: tensor<64x64xf32> [{"y"}, {}]',
    "b: tensor<64x64xf32> [{}, {}]",
]


def _product(result: str, left: str, right: str) -> str:
    return f'%{result} = stablehlo.dot %{left}, %{right} «[{{"x"}}, {{}}]» : {_SQUARE}'


def _gathered(result: str, operand: str) -> str:
    return f'%{result} = sdy.all_gather [{{"y"}}, {{}}] %{operand} «[{{}}, {{}}]» : tensor<64x64xf32>'


def _wide(*ops: str) -> str:
    """A program of products of four tensors that gives `%z`."""
    return function(_WIDE, 'tensor<64x64xf32> [{"x"}, {}]', "\n".join([*ops, "return %z : tensor<64x64xf32>"]))


SCHEDULED = {
    "started before what it does not need": Case(
        "schedule-collectives",
        _wide(_product("0", "a", "b"), _gathered("1", "w"), _product("z", "0", "1")),
        "all_gather dot dot",
    ),
    "read behind what does not need it": Case(
        "schedule-collectives",
        _wide(
            _gathered("0", "w"),
            _product("1", "a", "0"),
            _product("2", "a", "b"),
            '%z = stablehlo.subtract %1, %2 «[{"x"}, {}]» : tensor<64x64xf32>',
        ),
        "all_gather dot dot subtract",
    ),
    "the next started beside what reads the last": Case(
        "schedule-collectives",
        _wide(_gathered("0", "w"), _product("1", "a", "0"), _gathered("2", "v"), _product("z", "1", "2")),
        "all_gather all_gather dot dot",
    ),
}

BUCKETED = {
    "two sums sent as one": Case(
        "bucket-collectives",
        function(
            _BOTH,
            _WHOLE,
            f"""{_REDUCED}
            %0 = stablehlo.tanh %r «[{{}}, {{}}]» : tensor<8x8xf32>
            %1 = stablehlo.multiply %0, %s «[{{}}, {{}}]» : tensor<8x8xf32>
            return %1 : tensor<8x8xf32>
            """,
        ),
        "dot dot manual_computation all_reduce all_reduce return tanh multiply",
    ),
    "a sum, and one that is scattered": Case(
        "bucket-collectives",
        function(
            _BOTH,
            'tensor<8x8xf32> [{"x"}, {}]',
            f"""{_PARTIAL}
            %r = sdy.all_reduce {{"x"}} %p «[{{}}, {{}}]» : tensor<8x8xf32>
            %s = sdy.reduce_scatter [{{"x"}}, {{}}] %q «[{{"x"}}, {{}}]» : tensor<8x8xf32>
            %0 = stablehlo.tanh %r «[{{}}, {{}}]» : tensor<8x8xf32>
            %1 = sdy.all_slice [{{"x"}}, {{}}] %0 «[{{"x"}}, {{}}]» : tensor<8x8xf32>
            %2 = stablehlo.subtract %s, %1 «[{{"x"}}, {{}}]» : tensor<8x8xf32>
            return %2 : tensor<8x8xf32>
            """,
        ),
        "dot dot manual_computation all_reduce all_reduce partition_id divide convert multiply dynamic_slice return "
        "tanh all_slice subtract",
    ),
    "two sums scattered along different dimensions": Case(
        "bucket-collectives",
        function(
            _BOTH,
            'tensor<8x8xf32> [{"x"}, {}]',
            f"""{_PARTIAL}
            %r = sdy.reduce_scatter [{{"x"}}, {{}}] %p «[{{"x"}}, {{}}]» : tensor<8x8xf32>
            %s = sdy.reduce_scatter [{{}}, {{"x"}}] %q «[{{}}, {{"x"}}]» : tensor<8x8xf32>
            %t = stablehlo.transpose %s, dims = [1, 0] «[{{"x"}}, {{}}]» : (tensor<8x8xf32>) -> tensor<8x8xf32>
            %0 = stablehlo.subtract %r, %t «[{{"x"}}, {{}}]» : tensor<8x8xf32>
            return %0 : tensor<8x8xf32>
            """,
        ),
        "dot dot manual_computation reshape reshape reshape transpose reshape concatenate reduce_scatter return "
        "manual_computation slice slice reshape reshape return transpose subtract",
    ),
    "two tensors of other shapes gathered as one": Case(
        "bucket-collectives",
        function(
            ['a: tensor<8x16xf32> [{"y"}, {"x"}]', 'b: tensor<8x24x16xf32> [{}, {"y"}, {"x"}]'],
            'tensor<8x24x16xf32> [{}, {}, {"x"}]',
            """
            %0 = sdy.all_gather [{"y"}, {}] %a «[{}, {"x"}]» : tensor<8x16xf32>
            %1 = sdy.all_gather [{}, {"y"}, {}] %b «[{}, {}, {"x"}]» : tensor<8x24x16xf32>
            %2 = stablehlo.broadcast_in_dim %0, dims = [0, 2] «[{}, {}, {"x"}]» : (tensor<8x16xf32>) -> tensor<8x24x16xf32>
            %3 = stablehlo.subtract %1, %2 «[{}, {}, {"x"}]» : tensor<8x24x16xf32>
            return %3 : tensor<8x24x16xf32>
            """,
        ),
        "manual_computation reshape reshape all_gather all_gather return manual_computation reshape "
        "reshape reshape transpose reshape return broadcast_in_dim subtract",
    ),
    "floats and numbers gathered as one": Case(
        "bucket-collectives",
        function(
            ['a: tensor<8x16xf32> [{"y"}, {"x"}]', 'b: tensor<8x16xi32> [{}, {"x", "y"}]'],
            'tensor<8x16xf32> [{}, {"x"}]',
            """
            %0 = sdy.all_gather [{"y"}, {}] %a «[{}, {"x"}]» : tensor<8x16xf32>
            %1 = sdy.all_gather [{}, {"y"}] %b «[{}, {"x"}]» : tensor<8x16xi32>
            %2 = stablehlo.convert %1 «[{}, {"x"}]» : (tensor<8x16xi32>) -> tensor<8x16xf32>
            %3 = stablehlo.subtract %0, %2 «[{}, {"x"}]» : tensor<8x16xf32>
            return %3 : tensor<8x16xf32>
            """,
        ),
        "manual_computation reshape reshape all_gather all_gather return manual_computation reshape "
        "reshape reshape transpose reshape return convert subtract",
    ),
}

_FIRST_TURN = "manual_computation partition_id remainder convert"
_PLACED = "dot multiply dynamic_update_slice"
_ADDED = "multiply dynamic_slice dot add"


def _between(turn: str, *, turns: str = "add remainder", sent: str = "collective_permute") -> str:
    return f"{sent} {turns} {turn}"


AROUND_RINGS = {
    "gathered along a free dimension of the left": Case(
        "collective-matmul",
        function(
            ['a: tensor<64x64xf32> [{"x", "y"}, {}]', "b: tensor<64x64xf32> [{}, {}]"],
            'tensor<64x64xf32> [{"x"}, {}]',
            f"""
            %0 = sdy.all_gather [{{"y"}}, {{}}] %a «[{{"x"}}, {{}}]» : tensor<64x64xf32>
            %1 = stablehlo.dot %0, %b «[{{"x"}}, {{}}]» : {_SQUARE}
            return %1 : tensor<64x64xf32>
            """,
        ),
        f"{_FIRST_TURN} collective_permute {_PLACED} {_between(_PLACED)} {_between(_PLACED)} add remainder {_PLACED} return",
        is_exact=False,
        needs_bytes=True,
    ),
    "gathered along a free dimension of the right": Case(
        "collective-matmul",
        function(
            ['a: tensor<64x64xf32> [{"x"}, {}]', 'b: tensor<64x64xf32> [{}, {"y"}]'],
            'tensor<64x64xf32> [{"x"}, {}]',
            f"""
            %0 = sdy.all_gather [{{}}, {{"y"}}] %b «[{{}}, {{}}]» : tensor<64x64xf32>
            %1 = stablehlo.dot %a, %0 «[{{"x"}}, {{}}]» : {_SQUARE}
            return %1 : tensor<64x64xf32>
            """,
        ),
        f"{_FIRST_TURN} collective_permute {_PLACED} {_between(_PLACED)} {_between(_PLACED)} add remainder {_PLACED} return",
        is_exact=False,
        needs_bytes=True,
    ),
    "gathered along a contracted dimension": Case(
        "collective-matmul",
        function(
            ['a: tensor<64x64xf32> [{"y"}, {}]', 'b: tensor<64x64xf32> [{"y"}, {"x"}]'],
            'tensor<64x64xf32> [{"y"}, {"x"}]',
            f"""
            %0 = sdy.all_gather [{{"y"}}, {{}}] %b «[{{}}, {{"x"}}]» : tensor<64x64xf32>
            %1 = stablehlo.dot %a, %0 «[{{"y"}}, {{"x"}}]» : {_SQUARE}
            return %1 : tensor<64x64xf32>
            """,
        ),
        f"{_FIRST_TURN} collective_permute multiply dynamic_slice dot {_between(_ADDED)} {_between(_ADDED)} "
        f"add remainder {_ADDED} return",
        is_exact=False,
        needs_bytes=True,
    ),
    "scattered along a free dimension": Case(
        "collective-matmul",
        function(
            ['a: tensor<64x64xf32> [{"x"}, {"y"}]', 'b: tensor<64x64xf32> [{"y"}, {}]'],
            'tensor<64x64xf32> [{"x", "y"}, {}]',
            f"""
            %0 = stablehlo.dot %a, %b «[{{"x"}}, {{}}], unreduced={{"y"}}» : {_SQUARE}
            %1 = sdy.reduce_scatter [{{"y"}}, {{}}] %0 «[{{"x", "y"}}, {{}}]» : tensor<64x64xf32>
            return %1 : tensor<64x64xf32>
            """,
        ),
        f"{_FIRST_TURN} add remainder multiply dynamic_slice dot {_between(_ADDED)} {_between(_ADDED)} "
        f"collective_permute {_ADDED} return",
        is_exact=False,
        needs_bytes=True,
    ),
}

EARLIER = {
    "of a ratio of sums": Case(
        "all-reduce-move-up",
        function(
            _BOTH,
            _WHOLE,
            f"""{_PARTIAL}
            %r = sdy.all_reduce {{"x"}} %p «[{{}}, {{}}]» : tensor<8x8xf32>
            %0 = stablehlo.exponential %r «[{{}}, {{}}]» : tensor<8x8xf32>
            %1 = stablehlo.divide %q, %0 «[{{}}, {{}}], unreduced={{"x"}}» : tensor<8x8xf32>
            %2 = stablehlo.negate %1 «[{{}}, {{}}], unreduced={{"x"}}» : tensor<8x8xf32>
            %3 = sdy.all_reduce {{"x"}} %2 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %3 : tensor<8x8xf32>
            """,
        ),
        "dot dot all_reduce exponential all_reduce divide negate",
        is_exact=False,
    ),
    "of a product that is scaled": Case(
        "all-reduce-move-up",
        function(
            [*_BOTH[:2], f"d: {_WHOLE}"],
            _WHOLE,
            f"""
            %k = stablehlo.constant «[{{}}, {{}}]» dense<0.5> : tensor<8x8xf32>
            %p = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
            %0 = stablehlo.transpose %p, dims = [1, 0] «[{{}}, {{}}], unreduced={{"x"}}» : (tensor<8x8xf32>) -> tensor<8x8xf32>
            %1 = stablehlo.multiply %k, %0 «[{{}}, {{}}], unreduced={{"x"}}» : tensor<8x8xf32>
            %2 = sdy.all_reduce {{"x"}} %1 «[{{}}, {{}}]» : tensor<8x8xf32>
            %3 = stablehlo.subtract %d, %2 «[{{}}, {{}}]» : tensor<8x8xf32>
            return %3 : tensor<8x8xf32>
            """,
        ),
        "dot all_reduce transpose multiply subtract",
        is_exact=False,
    ),
}

CASES = {
    **DEAD,
    **COMMON,
    **FOLDED,
    **SLICED,
    **FLATTENED,
    **REASSOCIATED,
    **EARLIER,
    **GATHERED,
    **DECOMPOSED,
    **MOVED,
    **HOISTED,
    **SCHEDULED,
    **BUCKETED,
    **AROUND_RINGS,
}
