"""Functions of the `shard` dialect for upstream's passes over it: what each pass makes of them is in `shard_upstream.txt`.

Every function stands in a module with the same grids. `CASES` has those of each pass by name; more passes than one see
most functions, since that a pass leaves a function as it is says something as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

__all__ = ["CASES", "GRIDS", "module"]

GRIDS = """shard.grid @g(shape = 2x4)
shard.grid @one(shape = 2)
shard.grid @three(shape = 2x3x5)
shard.grid @five(shape = 2x3x5x7x2)
shard.grid @some(shape = ?x3x?)
"""

_COLLECTIVES = {
    "all_gather": "shard.all_gather {} on @g grid_axes = [{}] gather_axis = 0 : tensor<4xf32> -> tensor<{}xf32>",
    "all_slice": "shard.all_slice {} on @g grid_axes = [{}] slice_axis = 0 : tensor<4xf32> -> tensor<{}xf32>",
    "gather": "shard.gather {} on @g grid_axes = [{}] gather_axis = 0 root = [{root}] : (tensor<4xf32>) -> tensor<{}xf32>",
    "reduce_scatter": "shard.reduce_scatter {} on @g grid_axes = [{}] scatter_dim = 0 : tensor<4xf32> -> tensor<{}xf32>",
    "scatter": "shard.scatter {} on @g grid_axes = [{}] scatter_dim = 0 root = [{root}] : (tensor<4xf32>) -> tensor<{}xf32>",
    "all_reduce": "shard.all_reduce {} on @g grid_axes = [{}] : tensor<4xf32> -> tensor<{}xf32>",
    "all_to_all": "shard.all_to_all {} on @g grid_axes = [{}] split_axis = 0 concat_axis = 0 : tensor<4xf32> -> tensor<{}xf32>",
    "broadcast": "shard.broadcast {} on @g grid_axes = [{}] root = [{root}] : (tensor<4xf32>) -> tensor<{}xf32>",
    "recv": "shard.recv {} on @g grid_axes = [{}] source = [{root}] : (tensor<4xf32>) -> tensor<{}xf32>",
    "send": "shard.send {} on @g grid_axes = [{}] destination = [{root}] : (tensor<4xf32>) -> tensor<{}xf32>",
    "reduce": "shard.reduce {} on @g grid_axes = [{}] root = [{root}] : (tensor<4xf32>) -> tensor<{}xf32>",
    "shift": "shard.shift {} on @g grid_axes = [{}] shift_axis = 0 offset = 1 rotate : tensor<4xf32> -> tensor<{}xf32>",
    "update_halo": "shard.update_halo {} on @g split_axes = [[{}]] halo_sizes = [1, 1] : tensor<{}xf32>",
}
_SIZES = {"all_gather": 8, "gather": 8, "all_slice": 2, "reduce_scatter": 2, "scatter": 2}


def _function(name: str, taken: str, gives: str, body: str) -> str:
    """A function: what it takes and gives, and its ops."""
    return f"func.func @{name}({taken}) -> ({gives}) {{\n{body}\n}}\n"


def _collective(name: str, axes: str) -> tuple[str, str]:
    """An op on `%a` along some axes, and the type of what it gives."""
    size = _SIZES.get(name, 4) if axes else 4
    return _COLLECTIVES[name].format("%a", axes, size, root="0" if axes else ""), f"tensor<{size}xf32>"


def _used() -> Mapping[str, str]:
    """Every collective along no axes and along one: read, not read, and written twice."""
    found = {}
    for name, axes in product(_COLLECTIVES, ("", "0")):
        if not axes and name in ("shift", "update_halo"):
            continue
        op, type = _collective(name, axes)
        place = f"{name}_{'along' if axes else 'alone'}"
        found[f"{place}_read"] = _function(
            f"{place}_read", "%a: tensor<4xf32>", type, f"  %0 = {op}\n  return %0 : {type}"
        )
        found[f"{place}_unread"] = _function(
            f"{place}_unread", "%a: tensor<4xf32>", "", f"  %0 = {op}\n  return"
        ).replace(" -> ()", "")
        both = f"  %0 = {op}\n  %1 = {op}\n  return %0, %1 : {type}, {type}"
        found[f"{place}_twice"] = _function(f"{place}_twice", "%a: tensor<4xf32>", f"{type}, {type}", both)
    return found


def _sums(name: str, op: str, type: str, kind: str, first: str = "[0]", second: str = "[0]") -> str:
    """Two reductions added up by an op."""
    said = "" if kind == "sum" else f" reduction = {kind}"
    body = f"""  %0 = shard.all_reduce %a on @g grid_axes = {first}{said} : {type} -> {type}
  %1 = shard.all_reduce %b on @g grid_axes = {second}{said} : {type} -> {type}
  %2 = arith.{op} %0, %1 : {type}
  return %2 : {type}"""
    return _function(name, f"%a: {type}, %b: {type}", type, body)


def _added() -> Mapping[str, str]:
    floats, integers = "tensor<5xf32>", "tensor<5xi32>"
    pairs = {
        "addf": (floats, "sum"),
        "mulf": (floats, "product"),
        "subf": (floats, "sum"),
        "maximumf": (floats, "max"),
        "maxnumf": (floats, "max"),
        "minimumf": (floats, "min"),
        "minnumf": (floats, "min"),
        "addi": (integers, "sum"),
        "maxsi": (integers, "max"),
        "maxui": (integers, "max"),
        "minsi": (integers, "min"),
        "minui": (integers, "min"),
        "andi": (integers, "bitwise_and"),
    }
    found = {f"sums_{op}": _sums(f"sums_{op}", op, *rest) for op, rest in pairs.items()}
    found["sums_of_maxima"] = _sums("sums_of_maxima", "addf", floats, "max")
    found["sums_other_axes"] = _sums("sums_other_axes", "addf", floats, "sum", "[0]", "[1]")
    found["sums_both_axes"] = _sums("sums_both_axes", "addf", floats, "sum", "[0, 1]", "[0, 1]")
    found["sums_in_other_order"] = _sums("sums_in_other_order", "addf", floats, "sum", "[0, 1]", "[1, 0]")
    return found


_T = "tensor<4x8xf32>"
_S = "  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding\n"


def _one(name: str, body: str, taken: str = f"%a: {_T}", gives: str = _T) -> str:
    return _function(name, taken, gives, body)


_WRITTEN = {
    "shard_unread": _one("shard_unread", f"{_S}  %0 = shard.shard %a to %s : {_T}\n  return %a : {_T}"),
    "shard_four_times": _one(
        "shard_four_times",
        f"""{_S}  %s2 = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %a to %s : {_T}
  %2 = shard.shard %a to %s annotate_for_users : {_T}
  %3 = shard.shard %a to %s2 annotate_for_users : {_T}
  return %0, %1, %2, %3 : {_T}, {_T}, {_T}, {_T}""",
        gives=f"{_T}, {_T}, {_T}, {_T}",
    ),
    "shard_others": _one(
        "shard_others",
        f"""{_S}  %s2 = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %s3 = shard.sharding @g split_axes = [[0], []] : !shard.sharding
  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %a to %s2 : {_T}
  %2 = shard.shard %a to %s3 : {_T}
  return %0, %1, %2 : {_T}, {_T}, {_T}""",
        gives=f"{_T}, {_T}, {_T}",
    ),
    "shard_again_after_another": _one(
        "shard_again_after_another",
        f"""{_S}  %t = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %a to %t : {_T}
  %2 = shard.shard %a to %t annotate_for_users : {_T}
  %3 = shard.shard %a to %s : {_T}
  return %0, %1, %2, %3 : {_T}, {_T}, {_T}, {_T}""",
        gives=f"{_T}, {_T}, {_T}, {_T}",
    ),
    "shard_read_by_others_first": _one(
        "shard_read_by_others_first",
        f"""{_S}  %n = arith.negf %a : {_T}
  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %a to %s : {_T}
  return %0, %1, %n : {_T}, {_T}, {_T}""",
        gives=f"{_T}, {_T}, {_T}",
    ),
    "shard_read_by_others_last": _one(
        "shard_read_by_others_last",
        f"""{_S}  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %a to %s : {_T}
  %n = arith.negf %a : {_T}
  return %0, %1, %n : {_T}, {_T}, {_T}""",
        gives=f"{_T}, {_T}, {_T}",
    ),
    "shard_chain": _one(
        "shard_chain",
        f"""{_S}  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %0 to %s : {_T}
  %2 = shard.shard %1 to %s annotate_for_users : {_T}
  %3 = shard.shard %2 to %s annotate_for_users : {_T}
  return %3 : {_T}""",
    ),
    "shard_get": _one(
        "shard_get",
        f"""{_S}  %0 = shard.shard %a to %s : {_T}
  %1 = shard.get_sharding %0 : {_T} -> !shard.sharding
  %2 = shard.get_sharding %0 : {_T} -> !shard.sharding
  return %1, %2 : !shard.sharding, !shard.sharding""",
        gives="!shard.sharding, !shard.sharding",
    ),
    "halos": _one(
        "halos",
        f"""  %c = arith.constant 1 : i64
  %z = arith.constant 0 : i64
  %s = shard.sharding @g split_axes = [[0]] halo_sizes = [%c, 2] : !shard.sharding
  %t = shard.sharding @g split_axes = [[0]] halo_sizes = [0, 0] : !shard.sharding
  %u = shard.sharding @g split_axes = [[0]] halo_sizes = [%z, %z] : !shard.sharding
  %v = shard.sharding @g split_axes = [[0]] halo_sizes = [%n, %c] : !shard.sharding
  %w = shard.sharding @g split_axes = [[0], [1]] halo_sizes = [0, 0, 0, 1] : !shard.sharding
  %0 = shard.shard %a to %s : {_T}
  %1 = shard.shard %0 to %t : {_T}
  %2 = shard.shard %1 to %u : {_T}
  %3 = shard.shard %2 to %v : {_T}
  %4 = shard.shard %3 to %w : {_T}
  return %4 : {_T}""",
        taken=f"%a: {_T}, %n: i64",
    ),
    "offsets": _one(
        "offsets",
        """  %c = arith.constant 3 : i64
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 3, 6] : !shard.sharding
  %t = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 6] : !shard.sharding
  %u = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %c, 6] : !shard.sharding
  %v = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %n, 6] : !shard.sharding
  %w = shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 3, 6, 0, 2, 4, 6, 8] : !shard.sharding
  %x = shard.sharding @g split_axes = [[], []] : !shard.sharding
  %0 = shard.shard %a to %s : tensor<6x8xf32>
  %1 = shard.shard %0 to %t : tensor<6x8xf32>
  %2 = shard.shard %1 to %u : tensor<6x8xf32>
  %3 = shard.shard %2 to %v : tensor<6x8xf32>
  %4 = shard.shard %3 to %w : tensor<6x8xf32>
  %5 = shard.shard %4 to %x : tensor<6x8xf32>
  return %5 : tensor<6x8xf32>""",
        taken="%a: tensor<6x8xf32>, %n: i64",
        gives="tensor<6x8xf32>",
    ),
    "halo_of_constants": _one(
        "halo_of_constants",
        f"""  %c = arith.constant 1 : i64
  %0 = shard.update_halo %a on @g split_axes = [[0]] halo_sizes = [%c, 2] : {_T}
  return %0 : {_T}""",
    ),
    "numbers": _one(
        "numbers",
        """  %c = arith.constant 3 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %k:2 = shard.shard_shape dims = [6, %c] sharding = %s device = [%c0, %c1] : index, index
  %d, %u = shard.neighbors_linear_indices on @g[%c0, %c1] split_axes = [1] : index, index
  %n:2 = shard.grid_shape @g : index, index
  return %k#0, %k#1, %d, %u, %n#0, %n#1 : index, index, index, index, index, index""",
        taken="",
        gives="index, index, index, index, index, index",
    ),
    "sizes_known_in_part": _one(
        "sizes_known_in_part",
        """  %0:3 = shard.grid_shape @some : index, index, index
  %1:2 = shard.grid_shape @some axes = [1, 0] : index, index
  %2 = shard.grid_shape @some axes = [2] : index
  return %0#0, %0#1, %0#2, %1#0, %1#1, %2 : index, index, index, index, index, index""",
        taken="",
        gives="index, index, index, index, index, index",
    ),
    "indices_twice": _one(
        "indices_twice",
        """  %0:2 = shard.process_multi_index on @g : index, index
  %1:2 = shard.process_multi_index on @g : index, index
  %2 = shard.process_linear_index on @g : index
  %3 = shard.process_linear_index on @g : index
  return %0#0, %1#1, %2, %3 : index, index, index, index""",
        taken="",
        gives="index, index, index, index",
    ),
    "index_of_three": _one(
        "index_of_three",
        """  %0:3 = shard.process_multi_index on @three axes = [2, 0, 1] : index, index, index
  %1 = shard.process_multi_index on @three axes = [1] : index
  return %0#0, %0#1, %0#2, %1 : index, index, index, index""",
        taken="",
        gives="index, index, index, index",
    ),
    "index_of_some": _one(
        "index_of_some",
        "  %0:3 = shard.process_multi_index on @some : index, index, index\n"
        "  return %0#0, %0#1, %0#2 : index, index, index",
        taken="",
        gives="index, index, index",
    ),
    "index_of_one": _one(
        "index_of_one",
        "  %0 = shard.process_multi_index on @one : index\n  return %0 : index",
        taken="",
        gives="index",
    ),
    "sum_read_twice": _one(
        "sum_read_twice",
        f"""  %0 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %1 = shard.all_reduce %b on @g grid_axes = [0] : {_T} -> {_T}
  %2 = arith.addf %0, %1 : {_T}
  return %2, %0 : {_T}, {_T}""",
        taken=f"%a: {_T}, %b: {_T}",
        gives=f"{_T}, {_T}",
    ),
    "sum_and_itself": _one(
        "sum_and_itself",
        f"""  %0 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %2 = arith.addf %0, %0 : {_T}
  return %2 : {_T}""",
    ),
    "sum_and_another": _one(
        "sum_and_another",
        f"""  %0 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %2 = arith.addf %0, %a : {_T}
  return %2 : {_T}""",
    ),
    "sum_to_another_type": _one(
        "sum_to_another_type",
        """  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<5xf32> -> tensor<5xf64>
  %1 = shard.all_reduce %a on @g grid_axes = [0] : tensor<5xf32> -> tensor<5xf64>
  %2 = arith.addf %0, %1 : tensor<5xf64>
  return %2 : tensor<5xf64>""",
        taken="%a: tensor<5xf32>",
        gives="tensor<5xf64>",
    ),
    "sum_of_no_axes": _one(
        "sum_of_no_axes",
        """  %0 = shard.all_reduce %a on @g : tensor<5xf32> -> tensor<5xf64>
  return %0 : tensor<5xf64>""",
        taken="%a: tensor<5xf32>",
        gives="tensor<5xf64>",
    ),
    "sum_of_three": _one(
        "sum_of_three",
        f"""  %0 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %1 = shard.all_reduce %b on @g grid_axes = [0] : {_T} -> {_T}
  %2 = arith.addf %0, %1 : {_T}
  %3 = shard.all_reduce %c on @g grid_axes = [0] : {_T} -> {_T}
  %4 = arith.addf %2, %3 : {_T}
  return %4 : {_T}""",
        taken=f"%a: {_T}, %b: {_T}, %c: {_T}",
    ),
    "in_a_branch": _one(
        "in_a_branch",
        f"""  %0 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %1 = scf.if %p -> ({_T}) {{
    %2 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
    %3 = shard.all_reduce %0 on @g grid_axes = [] : {_T} -> {_T}
    %4 = arith.addf %2, %3 : {_T}
    scf.yield %4 : {_T}
  }} else {{
    %5 = shard.all_reduce %a on @g grid_axes = [1] : {_T} -> {_T}
    scf.yield %5 : {_T}
  }}
  return %1, %0 : {_T}, {_T}""",
        taken=f"%a: {_T}, %p: i1",
        gives=f"{_T}, {_T}",
    ),
    "unread_chain": _one(
        "unread_chain",
        f"""  %0 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %1 = arith.negf %0 : {_T}
  %2 = shard.all_reduce %1 on @g grid_axes = [1] : {_T} -> {_T}
  return %a : {_T}""",
    ),
}


def _slice(name: str, grid: str, axes: str, dim: int, before: str, after: str) -> str:
    body = f"""  %0 = shard.all_slice %a on @{grid} grid_axes = [{axes}] slice_axis = {dim} : tensor<{before}> -> tensor<{after}>
  return %0 : tensor<{after}>"""
    return _function(name, f"%a: tensor<{before}>", f"tensor<{after}>", body)


_SLICES = {
    name: _slice(name, *rest)
    for name, rest in {
        "slice_one_axis": ("g", "1", 0, "8x3xf32", "2x3xf32"),
        "slice_two_axes": ("g", "1, 0", 0, "8x3xf32", "1x3xf32"),
        "slice_two_in_order": ("g", "0, 1", 1, "3x8xf32", "3x1xf32"),
        "slice_three_axes": ("three", "2, 0, 1", 0, "60x7xf32", "2x7xf32"),
        "slice_four_axes": ("five", "2, 0, 1, 3", 0, "2100x7xf32", "10x7xf32"),
        "slice_five_axes": ("five", "4, 3, 2, 1, 0", 0, "2100x7xf32", "5x7xf32"),
        "slice_unknown": ("some", "2, 0", 1, "?x?xf32", "?x?xf32"),
        "slice_known_in_part": ("three", "1", 1, "4x6x?xf32", "4x2x?xf32"),
        "slice_of_one_dimension": ("one", "0", 0, "8xi8", "4xi8"),
    }.items()
}

_CALLED = f"""func.func private @inner(%a: {_T}) -> ({_T}, {_T}) {{
{_S}  %0 = shard.shard %a to %s : {_T}
  return %0, %a : {_T}, {_T}
}}
func.func private @outer(%a: {_T}) -> {_T} {{
  %0:2 = call @inner(%a) : ({_T}) -> ({_T}, {_T})
  %1 = shard.all_reduce %0#0 on @g grid_axes = [0] : {_T} -> {_T}
  %2 = arith.addf %1, %0#1 : {_T}
  return %2 : {_T}
}}
func.func @public(%a: {_T}) -> {_T} {{
  %1 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  return %1 : {_T}
}}
func.func private @plain(%a: {_T}) -> {_T} {{
  %0 = arith.negf %a : {_T}
  return %0 : {_T}
}}
"""

_CALLS = {
    name: _CALLED + _one("main", body)
    for name, body in {
        "calls_two_deep": f"  %0 = call @outer(%a) : ({_T}) -> {_T}\n  return %0 : {_T}",
        "calls_twice": f"  %0 = call @outer(%a) : ({_T}) -> {_T}\n  %1 = call @outer(%0) : ({_T}) -> {_T}\n  return %1 : {_T}",
        "calls_what_is_public": f"  %0 = call @public(%a) : ({_T}) -> {_T}\n  return %0 : {_T}",
        "calls_what_has_none": f"  %0 = call @plain(%a) : ({_T}) -> {_T}\n  %1 = call @public(%0) : ({_T}) -> {_T}\n  return %1 : {_T}",
        "calls_and_reads_half": f"  %0:2 = call @inner(%a) : ({_T}) -> ({_T}, {_T})\n  return %0#1 : {_T}",
        "calls_nothing": f"  return %a : {_T}",
    }.items()
} | {
    "calls_itself": f"""func.func @rec(%a: {_T}) -> {_T} {{
  %1 = shard.all_reduce %a on @g grid_axes = [0] : {_T} -> {_T}
  %2 = call @rec(%1) : ({_T}) -> {_T}
  return %2 : {_T}
}}
"""
}

_ALL = {**_used(), **_WRITTEN, **_added()}

CASES: Mapping[str, Mapping[str, str]] = {
    "canonicalize": {**_used(), **_WRITTEN},
    "cse": {**_used(), **_WRITTEN},
    "test-grid-simplifications": {**_WRITTEN, **_added()},
    "test-grid-process-multi-index-op-lowering": {
        name: text for name, text in _WRITTEN.items() if name.startswith("ind")
    },
    "test-grid-all-slice-op-lowering": _SLICES,
    "inline": _CALLS,
}
"""Functions by their names, by the pass that is run on them."""


def module(function: str) -> str:
    """A module with a function, and the grids."""
    return GRIDS + function
