"""Modules that the dialect allows and that propagation cannot take: shapes, calls, entries, groups."""

from __future__ import annotations

from tests.notation.sdy.wrong import MARK, MESHES, TYPE, Wrong, body, manual

__all__ = ["WRONG_PROGRAMS"]

_RETURN = f"  return %x : {TYPE}\n}}\n"


def _module(text: str, words: str, peer: str = "accepts") -> Wrong:
    return Wrong(MESHES + text, words, peer)


_CALL = f"func.func @main(%x: {TYPE}) -> {TYPE} {{\n  %0 = call @f(%x) : ({TYPE}) -> {TYPE}"

WRONG_PROGRAMS = {
    "a dynamic argument": _module(
        f"func.func @main(\n    %x: {TYPE},\n    %y: tensor<?x8xf32>) -> {TYPE} {{ {MARK}\n{_RETURN}", "static shape"
    ),
    "a dynamic result of an op": body(
        f"  %0 = stablehlo.custom_call @f(%x) : ({TYPE}) -> tensor<?x8xf32>", "static shape", "accepts"
    ),
    "a bounded dimension": body(
        f"  %0 = stablehlo.custom_call @f(%x) : ({TYPE}) -> tensor<?x8xf32, #stablehlo.bounds<8, ?>>",
        "static shape",
        "accepts",
    ),
    "an unranked tensor": body(
        f"  %0 = stablehlo.custom_call @f(%x) : ({TYPE}) -> tensor<*xf32>", "static shape", "accepts"
    ),
    "a sharding of a tuple": body(
        f"  %0 = stablehlo.tuple %x {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{}}]>]>}} : tuple<{TYPE}>",
        "packs or unpacks",
        "accepts",
    ),
    "a dynamic argument of a loop's body": body(
        f"  %0 = stablehlo.custom_call @f(%x) : ({TYPE}) -> tensor<?xf32> {MARK}\n"
        "  %1 = stablehlo.while(%i = %0) : tensor<?xf32>\n"
        "  cond {\n    %c = stablehlo.constant dense<false> : tensor<i1>\n    stablehlo.return %c : tensor<i1>\n"
        "  } do {\n    stablehlo.return %i : tensor<?xf32>\n  }",
        "static shape",
        "accepts",
    ),
    "a function that calls itself": _module(
        f"{_CALL}\n  return %0 : {TYPE}\n}}\nfunc.func private @f(%x: {TYPE}) -> {TYPE} {{\n"
        f"  %0 = call @f(%x) : ({TYPE}) -> {TYPE} {MARK}\n  return %0 : {TYPE}\n}}\n",
        "calls itself",
    ),
    "functions that call each other": _module(
        f"{_CALL}\n  return %0 : {TYPE}\n}}\nfunc.func private @f(%x: {TYPE}) -> {TYPE} {{\n"
        f"  %0 = call @g(%x) : ({TYPE}) -> {TYPE}\n  return %0 : {TYPE}\n}}\n"
        f"func.func private @g(%x: {TYPE}) -> {TYPE} {{\n"
        f"  %0 = call @f(%x) : ({TYPE}) -> {TYPE} {MARK}\n  return %0 : {TYPE}\n}}\n",
        "calls itself",
    ),
    "a call of a function that there is not": _module(
        f"{_CALL} {MARK}\n{_RETURN}", "does not reference a valid function", "refuses"
    ),
    "a call of a function that is only declared": _module(
        f"{_CALL} {MARK}\n{_RETURN}func.func private @f({TYPE}) -> {TYPE}\n", "not defined"
    ),
    "a call with another type": _module(
        f"{_CALL} {MARK}\n{_RETURN}func.func private @f(%x: tensor<4xf32>) -> {TYPE} {{\n"
        f"  %0 = stablehlo.constant dense<0.0> : {TYPE}\n  return %0 : {TYPE}\n}}\n",
        "type mismatch",
        "refuses",
    ),
    "an entry that is only declared": _module(f"func.func private @main({TYPE}) -> {TYPE} {MARK}\n", "no body"),
    "a group across a manual computation": manual(
        "group 4 crosses the boundary of a manual computation",
        lines=f"    sdy.sharding_group %q group_id=4 : tensor<4x8xf32> {MARK}\n",
        before=f"  sdy.sharding_group %x group_id=4 : {TYPE}\n",
        peer="accepts",
    ),
    "a group of two shapes": body(
        f"  sdy.sharding_group %x group_id=4 : {TYPE}\n  %0 = stablehlo.custom_call @f() : () -> tensor<4xf32>\n"
        f"  sdy.sharding_group %0 group_id=4 : tensor<4xf32> {MARK}",
        "group 4 have different shapes",
        "accepts",
    ),
    "several blocks in the entry": _module(
        f"func.func @main(%x: {TYPE}) -> {TYPE} {{ {MARK}\n  cf.br ^next\n^next:\n{_RETURN}", "func.func has 2 blocks"
    ),
    "several blocks in a function that is called": _module(
        f"{_CALL}\n{_RETURN}func.func private @f(%x: {TYPE}) -> {TYPE} {{ {MARK}\n  cf.br ^next\n^next:\n{_RETURN}",
        "func.func has 2 blocks",
    ),
    "several blocks in a region": body(
        f'  %0 = "some.op"(%x) ({{ {MARK}\n  ^first:\n    cf.br ^second\n  ^second:\n    "some.end"() : () -> ()\n  }})'
        f" : ({TYPE}) -> {TYPE}",
        "2 blocks",
        "accepts",
    ),
    "a reduction that reads a value from outside": body(
        f"  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"  %0 = stablehlo.reduce(%x init: %z) across dimensions = [0, 1] : ({TYPE}, tensor<f32>) -> tensor<f32> {MARK}\n"
        "   reducer(%p: tensor<f32>, %q: tensor<f32>) {\n"
        "    %1 = stablehlo.add %p, %z : tensor<f32>\n    stablehlo.return %1 : tensor<f32>\n  }",
        "from outside",
        "accepts",
    ),
}
