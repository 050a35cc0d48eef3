"""Wrong ops: what the constraints of the sdy dialect's ops forbid."""

from __future__ import annotations

from tests.notation.sdy.wrong import MARK, TYPE, Wrong, body, manual

__all__ = ["WRONG_COLLECTIVES", "WRONG_MANUAL", "WRONG_OPS"]

_INNER = "tensor<4x8xf32>"
_TOKEN = "!stablehlo.token"

WRONG_MANUAL = {
    "too many shardings of operands": manual("number of values", inside='<@mesh, [{"a"}, {}]>, <@mesh, [{"a"}, {}]>'),
    "no shardings of results": manual("number of values", outside=""),
    "a manual axis that there is not": manual("unknown manual axis", axes='"a", "d"'),
    "a manual axis twice": manual("given twice", axes='"a", "a"', peer="accepts"),
    "a manual axis behind a free one": manual(
        "come before free axes", '<@mesh, [{"b", "a"}, {}]>', '<@mesh, [{"b", "a"}, {}]>'
    ),
    "manual axes that pad": manual("not divisible", type="tensor<7x8xf32>", local="tensor<4x8xf32>"),
    "another shape inside": manual("must match", local="tensor<2x8xf32>"),
    "another element type inside": manual("must match", local="tensor<4x8xbf16>"),
    "another shape of the result": manual("must match", outside='<@mesh, [{}, {"a"}]>'),
    "two meshes": manual("same mesh", outside='<@order, [{"a"}, {}]>'),
    "a mesh that there is not": manual("unknown mesh:? @nope", inside='<@nope, [{"a"}, {}]>'),
    "an axis that there is not": manual("unknown (mesh )?axis", inside='<@mesh, [{"d"}, {}]>'),
    "a mesh of one device": manual("one device", "<@one, []>", "<@one, []>", "", TYPE, peer="dies"),
    "a mesh of one device, spelt out": manual(
        "one device", "<mesh<[], device_ids=[0]>, []>", "<@mesh, [{}, {}]>", "", TYPE, peer="dies"
    ),
    "a constraint along a manual axis": manual(
        "already bound", lines=f'    %1 = sdy.sharding_constraint %q <@mesh, [{{"a"}}, {{}}]> : {_INNER} {MARK}\n'
    ),
    "an op along a manual axis": manual(
        "already bound",
        lines=f'    %1 = stablehlo.tanh %q {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{"a"}}]>]>}} : {_INNER} {MARK}\n',
    ),
    "a value replicated along a manual axis": manual(
        "already bound",
        lines=f'    %1 = sdy.sharding_constraint %q <@mesh, [{{}}, {{}}], replicated={{"a"}}> : {_INNER} {MARK}\n',
    ),
    "a manual axis within itself": manual(
        "already bound",
        lines="    %1 = sdy.manual_computation(%q) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>]"
        f' manual_axes={{"a"}} {MARK}\n'
        f"        (%w: {_INNER}) {{\n      sdy.return %w : {_INNER}\n    }} : ({_INNER}) -> {_INNER}\n",
    ),
    "a value from outside": manual("outside", lines=f"    %1 = stablehlo.tanh %x : {TYPE} {MARK}\n"),
    "a token that becomes a tensor": body(
        f'  %0 = "sdy.manual_computation"(%x) <{{in_shardings = #sdy.sharding_per_value<[<@mesh, []>]>, {MARK}\n'
        '      manual_axes = #sdy<manual_axes{"a"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}> ({\n'
        f"  ^bb0(%q: {_INNER}):\n    sdy.return %q : {_INNER}\n  }}) : ({_TOKEN}) -> {_INNER}",
        f"operand 0 is a {_TOKEN} outside and a {_INNER} inside",
        "accepts",
        type=_TOKEN,
    ),
    "the end of another region": body(
        f'  %0 = "sdy.manual_computation"(%x) <{{in_shardings = #sdy.sharding_per_value<[<@mesh, [{{}}, {{}}]>]>, {MARK}\n'
        "      manual_axes = #sdy<manual_axes{}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}> ({\n"
        f"  ^bb0(%q: {TYPE}):\n    stablehlo.return %q : {TYPE}\n  }}) : ({TYPE}) -> {TYPE}",
        "sdy.return",
    ),
}


def _named(words: str, shardings: str = "", inside: str = TYPE, returned: str = "%q", mark: int = 0) -> Wrong:
    marks = [MARK if number == mark else "" for number in range(2)]
    return body(
        f'  %0 = sdy.named_computation<"f">(%x) {shardings} (%q: {inside}) {{ {marks[0]}\n'
        f"    sdy.return {returned} : {inside} {marks[1]}\n  }} : ({TYPE}) -> {TYPE}",
        words,
    )


WRONG_OPS = {
    "a constraint of another rank": body(
        f"  %0 = sdy.sharding_constraint %x <@mesh, [{{}}]> : {TYPE}", "given to a tensor"
    ),
    "a constraint without a sharding": body(f"  %0 = sdy.sharding_constraint %x : {TYPE}", "expected"),
    "a constraint to another type": body(
        f'  %0 = "sdy.sharding_constraint"(%x) <{{sharding = #sdy.sharding<@mesh, [{{}}]>}}> : ({TYPE}) -> tensor<8xf32>',
        "type",
    ),
    "a reshard along an axis that there is not": body(
        f'  %0 = sdy.reshard %x <@mesh, [{{"d"}}, {{}}]> : {TYPE}', "unknown mesh axis 'd'"
    ),
    "a reshard of an unknown value": body(f"  %0 = sdy.reshard %nope <@mesh, [{{}}, {{}}]> : {TYPE}", "undeclared"),
    "an edge of a value that others read": body(
        f"  %1 = stablehlo.tanh %x : {TYPE}\n  %2 = stablehlo.tanh %1 : {TYPE}\n  %3 = sdy.data_flow_edge %1 : {TYPE} {MARK}",
        "single user",
    ),
    "an edge behind a constraint": body(
        f"  %1 = sdy.sharding_constraint %x <@mesh, [{{}}, {{}}]> : {TYPE}\n  %2 = sdy.data_flow_edge %1 : {TYPE} {MARK}",
        "SdyDialect op",
    ),
    "an edge of a dynamic tensor": body(
        "  %0 = stablehlo.custom_call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>\n"
        f"  %1 = sdy.data_flow_edge %0 : tensor<?xf32> {MARK}",
        "static-shaped",
        type="tensor<?xf32>",
    ),
    "an edge along which nothing flows": body(
        f"  %1 = stablehlo.tanh %x : {TYPE}\n  %2 = sdy.data_flow_edge %1 : {TYPE} {MARK}", "no data flows", "accepts"
    ),
    "a barrier in both directions": body(f"  %0 = sdy.propagation_barrier %x allowed_direction=BOTH : {TYPE}", "BOTH"),
    "a barrier in an unknown direction": body(
        f"  %0 = sdy.propagation_barrier %x allowed_direction=SIDEWAYS : {TYPE}", "keyword|direction|expected"
    ),
    "a barrier without a direction": body(f"  %0 = sdy.propagation_barrier %x : {TYPE}", "expected"),
    "a group without a number": body(f"  sdy.sharding_group %x : {TYPE}", "expected"),
    "a group whose number is too large": body(
        f"  sdy.sharding_group %x group_id=99999999999999999999 : {TYPE}", "integer"
    ),
    "a group of no tensor": body("  sdy.sharding_group %x group_id=1 : !stablehlo.token", "token", type=_TOKEN),
    "a named computation of another type": _named("incompatible", inside="tensor<4x8xf32>"),
    "a named computation with too many shardings": _named(
        "number of values", "in_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>]"
    ),
    "a named computation with a wrong sharding": _named("unknown (mesh )?axis", 'out_shardings=[<@mesh, [{"d"}, {}]>]'),
    "a named computation that reads from outside": _named("outside", returned="%x", mark=1),
    "an op of the dialect that there is not": body(
        f'  %0 = "sdy.shuffle"(%x) : ({TYPE}) -> {TYPE}', "unregistered|unknown"
    ),
    "a return on its own": body(f"  sdy.return %x : {TYPE}", "parent|terminator"),
    "propagation edges without a sharding": body(
        '  %0 = stablehlo.tanh %x {sdy.propagation_edges = #sdy.propagation_edges<[{step-1 = [{"a" = operand-0 -> [result-0]}]}]>}'
        f" : {TYPE}",
        "propagation edges",
    ),
}

_SPLIT = '@mesh, [{"a"}, {}]'


def _collective(op: str, words: str, before: str = _SPLIT, peer: str = "refuses") -> Wrong:
    return body(f"  %0 = sdy.{op} : {TYPE}", words, peer, before)


WRONG_COLLECTIVES = {
    "no sharding to start from": _collective(
        'all_gather [{"a"}, {}] %x out_sharding=<@mesh, [{}, {}]>', "without sharding", ""
    ),
    "a gather of what is not split": _collective(
        'all_gather [{"b"}, {}] %x out_sharding=<@mesh, [{}, {}]>', "can't apply"
    ),
    "a gather into something else": _collective(
        'all_gather [{"a"}, {}] %x out_sharding=<@mesh, [{"b"}, {}]>', "expected sharding"
    ),
    "a gather of too few dimensions": _collective('all_gather [{"a"}] %x out_sharding=<@mesh, [{}, {}]>', "rank"),
    "a gather onto another mesh": _collective(
        'all_gather [{"a"}, {}] %x out_sharding=<@order, [{}, {}]>', "mesh does not match"
    ),
    "a slice along an axis that there is not": _collective(
        'all_slice [{"d"}, {}] %x out_sharding=<@mesh, [{"a"}, {}]>', "unknown"
    ),
    "a slice that is not in the result": _collective(
        'all_slice [{"b"}, {}] %x out_sharding=<@mesh, [{"a"}, {}]>', "expected sharding"
    ),
    "a slice along an axis twice": _collective(
        'all_slice [{"b"}, {"b"}] %x out_sharding=<@mesh, [{"a", "b"}, {"b"}]>', "used twice"
    ),
    "a slice onto one device": _collective("all_slice [] %x out_sharding=<@one, []>", "one device", "", "dies"),
    "a reduce_scatter onto one device": _collective(
        "reduce_scatter [] %x out_sharding=<@one, []>", "one device", "", "dies"
    ),
    "an exchange of nothing": _collective("all_to_all [] %x out_sharding=<@mesh, [{}, {}]>", "empty"),
    "an exchange beyond the rank": _collective(
        'all_to_all [{"a"}: 0->2] %x out_sharding=<@mesh, [{}, {}]>', "out of range"
    ),
    "an exchange with itself": _collective(
        'all_to_all [{"a"}: 0->0] %x out_sharding=<@mesh, [{"a"}, {}]>', "overlapping"
    ),
    "an exchange to somewhere else": _collective(
        'all_to_all [{"a"}: 0->1] %x out_sharding=<@mesh, [{}, {}]>', "expected sharding"
    ),
    "a permute to another size": _collective('collective_permute %x out_sharding=<@mesh, [{"c"}, {}]>', "sharded size"),
    "a permute of unreduced axes": _collective(
        'collective_permute %x out_sharding=<@mesh, [{"a"}, {}], unreduced={"b"}>', "unreduced", peer="accepts"
    ),
    "a reduction of what is split": _collective('all_reduce {"a"} %x out_sharding=<@mesh, [{"a"}, {}]>', "overlaps"),
    "a reduction that stays": _collective(
        'all_reduce {"b"} %x out_sharding=<@mesh, [{"a"}, {}], unreduced={"b"}>',
        "overlaps",
        f'{_SPLIT}, unreduced={{"b"}}',
    ),
    "a reduction that moves": _collective('all_reduce {"b"} %x out_sharding=<@mesh, [{}, {"a"}]>', "not equivalent"),
    "a reduction along a part of size 0": _collective(
        'all_reduce {"c":(2)0} %x out_sharding=<@mesh, [{"a"}, {}]>', "does not fit axis", peer="accepts"
    ),
    "a reduction of an unknown kind": _collective(
        'all_reduce often {"b"} %x out_sharding=<@mesh, [{"a"}, {}]>', "unknown kind"
    ),
}
