"""Wrong meshes and wrong shardings of values: what MeshAttr, TensorShardingAttr and their parts forbid."""

from __future__ import annotations

from tests.notation.sdy.wrong import MARK, MESHES, TYPE, Wrong, argument, body

__all__ = ["WRONG_MESHES", "WRONG_RULES", "WRONG_SHARDINGS"]

_EMPTY = "func.func @main() {\n  return\n}\n"


def _mesh(attribute: str, words: str, peer: str = "refuses") -> Wrong:
    return Wrong(f"sdy.mesh @first = <[]>\nsdy.mesh @mesh = {attribute} {MARK}\n{_EMPTY}", words, peer)


WRONG_MESHES = {
    "an axis twice": _mesh('<["a"=2, "a"=2]>', "duplicate axis"),
    "an axis of size 0": _mesh('<["a"=0]>', "at least 1"),
    "an axis of negative size": _mesh('<["a"=-2]>', "at least 1"),
    "an axis without a size": _mesh('<["a"]>', "expected|expects"),
    "a size that is no integer": _mesh('<["a"=99999999999999999999]>', "devices"),
    "a name without quotes": _mesh("<[a=2]>", "expected"),
    "too few device ids": _mesh('<["a"=2], device_ids=[0]>', "device ids"),
    "a device twice": _mesh('<["a"=2], device_ids=[1, 1]>', "device ids"),
    "a negative device": _mesh('<["a"=2], device_ids=[0, -1]>', "non-negative"),
    "a device beyond the last": _mesh('<["a"=2], device_ids=[2, 1]>', "device ids"),
    "two devices without axes": _mesh("<[], device_ids=[1, 2]>", "device_ids"),
    "more devices than there are numbers": _mesh('<["a"=4294967296, "b"=4294967296]>', "devices", "accepts"),
    "a device beyond all numbers": _mesh("<[], device_ids=[9223372036854775807]>", "mesh", "accepts"),
    "meshes of different size": Wrong(
        f'sdy.mesh @first = <["a"=2]>\nsdy.mesh @second = <["a"=4]> {MARK}\n{_EMPTY}', "different size", "accepts"
    ),
    "a mesh twice": Wrong(f'sdy.mesh @m = <["a"=2]>\nsdy.mesh @m = <["a"=2]> {MARK}\n{_EMPTY}', "redefinition"),
    "a mesh in a function": body('  sdy.mesh @inner = <["a"=2]>', "parent op"),
}

WRONG_SHARDINGS = {
    "a mesh that there is not": argument("@nope, [{}, {}]", "unknown mesh @nope"),
    "a function for a mesh": argument("@main, [{}, {}]", "unknown mesh @main"),
    "an axis that there is not": argument('@mesh, [{"d"}, {}]', "unknown mesh axis 'd'"),
    "a replicated axis that there is not": argument('@mesh, [{}, {}], replicated={"d"}', "unknown mesh axis 'd'"),
    "an unreduced axis that there is not": argument('@mesh, [{}, {}], unreduced={"d"}', "unknown mesh axis 'd'"),
    "an axis in two dimensions": argument('@mesh, [{"a"}, {"a"}]', "used twice"),
    "an axis twice in a dimension": argument('@mesh, [{"a", "a"}, {}]', "used twice"),
    "an axis that splits and is replicated": argument('@mesh, [{"a"}, {}], replicated={"a"}', "used twice"),
    "an axis that splits and is unreduced": argument('@mesh, [{"a"}, {}], unreduced={"a"}', "used twice"),
    "an axis replicated and unreduced": argument('@mesh, [{}, {}], replicated={"a"}, unreduced={"a"}', "used twice"),
    "replicated axes out of order": argument('@mesh, [{}, {}], replicated={"b", "a"}', "not ordered"),
    "unreduced axes out of order": argument('@mesh, [{}, {}], unreduced={"b", "a"}', "not ordered"),
    "too few dimensions": argument("@mesh, [{}]", "1 dimension is given to a tensor of 2"),
    "too many dimensions": argument("@mesh, [{}, {}, {}]", "3 dimensions is given to a tensor of 2"),
    "dimensions of a scalar": argument("@mesh, [{}]", "given to a tensor of 0", "tensor<f32>"),
    "a part and the whole of an axis": argument('@mesh, [{"c":(1)2}, {"c"}]', "both sub-axis and full-axis"),
    "parts that overlap": argument('@mesh, [{"c":(1)2}, {"c":(1)2}]', "used twice"),
    "parts that can be one": argument('@mesh, [{"c":(1)2, "c":(2)2}, {}]', "can be merged"),
    "a part below 0 parts": argument('@mesh, [{"c":(0)2}, {}]', "pre-size"),
    "a part of size 1": argument('@mesh, [{"c":(2)1}, {}]', "greater than 1"),
    "a part beyond its axis": argument('@mesh, [{"c":(2)4}, {}]', "doesn't divide"),
    "a part that does not divide its axis": argument('@mesh, [{"c":(1)3}, {}]', "doesn't divide"),
    "a part as large as its axis": argument('@mesh, [{"c":(1)4}, {}]', "equal to the full axis"),
    "a part of so many devices that they overflow": argument(
        '@mesh, [{"c":(4294967296)4294967296}, {}]', "does not fit its axis", peer="dies"
    ),
    "a priority without axes": argument("@mesh, [{}p1, {}]", "empty and closed but has a priority"),
    "a priority with a leading zero": argument('@mesh, [{"a"}p01, {}]', "leading zeros"),
    "a priority that is no number": argument('@mesh, [{"a"}q1, {}]', "expect"),
    "a priority beyond all numbers": argument('@mesh, [{"a"}p99999999999999999999, {}]', "priority"),
    "axes after the question mark": argument('@mesh, [{?, "a"}, {}]', "expected"),
    "an unknown word": argument('@mesh, [{}, {}], reduced={"a"}', "expected|unknown"),
    "no dimensions said": argument("@mesh", "expected"),
    "a token that is split": argument("@mesh, [{}]", "non-shaped", "!stablehlo.token"),
    "a token that is replicated": argument('@mesh, [], replicated={"a"}', "non-shaped", "!stablehlo.token"),
    "a tensor of unknown rank": argument("@mesh, []", "ranked", "tensor<*xf32>"),
    "a tuple of two": argument("@mesh, [{}, {}]", "tuple", f"tuple<{TYPE}, {TYPE}>"),
    "a tuple of one": argument("@mesh, [{}, {}]", "a tuple has an sdy.sharding", f"tuple<{TYPE}>", "accepts"),
    "a dynamic dimension": argument('@mesh, [{"a"}, {}]', "static shape", "tensor<?x8xf32>", "accepts"),
    "one device and dimensions": argument("@one, [{}, {}]", "maximal|single-device"),
    "a wrong sharding of a result": Wrong(
        f"{MESHES}func.func @main(%x: {TYPE}) -> (\n    {TYPE} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}},\n"
        f'    {TYPE} {{sdy.sharding = #sdy.sharding<@mesh, [{{"d"}}, {{}}]>}}) {{ {MARK}\n  return %x, %x : {TYPE}, {TYPE}\n}}\n',
        "unknown mesh axis 'd'",
    ),
    "an unknown kind of reduction": argument('@mesh, [{}, {}], unreduced=sometimes{"a"}', "unknown kind"),
    "the shardings of an op on an argument": Wrong(
        f"{MESHES}func.func @main(\n"
        f"    %x: {TYPE} {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{}}]>]>}}) {{ {MARK}\n  return\n}}\n",
        "TensorShardingAttr",
    ),
    "the sharding of an argument on an op": body(
        "  %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} : " + TYPE,
        "TensorShardingPerValueAttr",
    ),
    "two shardings for one result": body(
        "  %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>]>} : "
        + TYPE,
        "number of values",
    ),
    "a sharding for no result": body(
        '  stablehlo.custom_call @f(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}]>]>}'
        f" : ({TYPE}) -> ()",
        "number of values",
    ),
    "a wrong sharding of an op": body(
        '  %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"d"}, {}]>]>} : ' + TYPE,
        "unknown mesh axis",
    ),
    "an unknown mesh for no result": body(
        "  stablehlo.custom_call @f(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@nope, []>]>}"
        f" : ({TYPE}) -> ()",
        "unknown mesh @nope",
    ),
    "a string for a sharding": body(
        '  %0 = stablehlo.tanh %x {sdy.sharding = "a"} : ' + TYPE, "TensorShardingPerValueAttr"
    ),
}


def _rule(rule: str, words: str, peer: str = "refuses") -> Wrong:
    return body(f"  %0 = stablehlo.tanh %x {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}} : {TYPE}", words, peer)


WRONG_RULES = {
    "too many operands": _rule("([i, j], [i])->([i, j]) {i=8, j=8}", "number of operands"),
    "too many results": _rule("([i, j])->([i, j], [i]) {i=8, j=8}", "number of results"),
    "too few dimensions": _rule("([i])->([i, j]) {i=8, j=8}", "rank"),
    "a factor twice in a tensor": _rule("([i, i])->([i, j]) {i=8, j=8}", "reuse"),
    "a factor of size 1 among several": _rule("([i, jk])->([i, jk]) {i=8, j=8, k=1}", "size 1"),
    "a factor without a size": _rule("([i, k])->([i, j]) {i=8, j=8}", "factor ind"),
    "a factor that nothing has": _rule("([i, j])->([i, j]) {i=8, j=8, k=2}", "isn't used"),
    "a factor of negative size": _rule("([i, j])->([i, j]) {i=-8, j=8}", "negative size", "accepts"),
    "factors out of order": _rule("([i, j])->([i, j]) {j=8, i=8}", "order"),
    "a letter that is no factor": _rule("([a, j])->([a, j]) {a=8, j=8}", "from 'i' to 'z'"),
    "special factors out of order": _rule("([i, j])->([i, j]) {i=8, j=8} permutation={j, i}", "sorted"),
    "a special factor twice": _rule("([i, j])->([i, j]) {i=8, j=8} permutation={i, i}", "unique"),
    "a factor special in two ways": _rule(
        "([i, j])->([i, j]) {i=8, j=8} need_replication={i} permutation={i}", "only be in one"
    ),
    "a special factor that there is not": _rule("([i, j])->([i, j]) {i=8, j=8} reduction={k}", "less than 2"),
    "a blocked factor that there is not": _rule("([i, j])->([i, j]) {i=8, j=8} blocked_propagation={k}", "less than 2"),
    "a reduction factor in a result": _rule("([i, j])->([i, j]) {i=8, j=8} reduction={i}", "reduction"),
    "something else for a rule": body(
        f"  %0 = stablehlo.tanh %x {{sdy.sharding_rule = 3}} : {TYPE}", "OpShardingRuleAttr"
    ),
}
