"""A per-device module for engines whose partitioner cannot be skipped: within a manual computation over all devices.

This is what JAX makes of a `shard_map`, so what XLA for TPUs and GPUs is used to. XLA for CPUs can be told to leave its
partitioner out; XLA for TPUs cannot, and refuses `partition_id` in what it takes for a program of all devices. What a
device takes and gives is its part along the first dimension of a tensor as many times as long, whatever it is a part
of in truth; what has no dimension is said to be the same everywhere, which nobody looks at.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir

__all__ = ["enclose"]

_MAIN, _BODY, _MESH, _AXIS = "main", "program_of_a_device", "every_device", "device"
_SHARDING = "sdy.sharding"


def enclose(module: ir.Module, main: ir.Operation, devices: int) -> None:
    """Have the `main` of a module become the body of a manual computation of another one, in place."""
    table = ir.SymbolTable(module.operation)
    rows = [_taken(main, name) for name in ("arg_attrs", "res_attrs")]
    type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    body, mesh = (_unused(table, name) for name in (_BODY, _MESH))
    ir.SymbolTable.replace_all_symbol_uses(_MAIN, body, module.operation)
    ir.SymbolTable.set_symbol_name(main, body)
    main.attributes["sym_visibility"] = ir.StringAttr.get("private", context=module.context)  # it may have had none
    outer = ir.Module.parse(_text(type.inputs, type.results, devices, body, mesh), module.context)
    for view in list(outer.body.operations):
        op = view.operation
        if op.name != "func.func":
            module.body.append(op)
        elif ir.StringAttr(op.attributes["sym_name"]).value != body:
            _give(op, dict(zip(("arg_attrs", "res_attrs"), rows, strict=True)), mesh)
            module.body.append(op)


def _text(inputs: Any, results: Any, devices: int, body: str, mesh: str) -> str:
    """The mesh, the entry, and what the entry calls, to be replaced."""
    ins, outs = ([_lengthened(type, devices) for type in types] for types in (inputs, results))
    numbers, count = range(len(ins)), len(outs)
    made, given = (_results(name, count) for name in ("0", "1"))
    called = f"({', '.join(map(str, inputs))}) -> ({', '.join(map(str, results))})"
    around = f"({', '.join(ins)}) -> ({', '.join(outs)})"
    return f"""
sdy.mesh @{mesh} = <["{_AXIS}"={devices}]>
func.func public @{_MAIN}({", ".join(f"%a{n}: {type}" for n, type in enumerate(ins))}) -> ({", ".join(outs)}) {{
  {made[0]}sdy.manual_computation({", ".join(f"%a{n}" for n in numbers)})
      in_shardings=[{", ".join(_sharding(type, mesh) for type in inputs)}]
      out_shardings=[{", ".join(_sharding(type, mesh) for type in results)}] manual_axes={{"{_AXIS}"}}
      ({", ".join(f"%l{n}: {type}" for n, type in enumerate(inputs))}) {{
    {given[0]}func.call @{body}({", ".join(f"%l{n}" for n in numbers)}) : {called}
    sdy.return {_listed(given[1], results)}
  }} : {around}
  func.return {_listed(made[1], outs)}
}}
func.func private @{body}{called}
"""


def _results(name: str, count: int) -> tuple[str, list[str]]:
    """How an op with so many results begins, and what these are called."""
    if count == 1:
        return f"%{name} = ", [f"%{name}"]
    return f"%{name}:{count} = " if count else "", [f"%{name}#{place}" for place in range(count)]


def _listed(values: list[str], types: Any) -> str:
    return f"{', '.join(values)} : {', '.join(map(str, types))}" if values else ""


def _lengthened(type: ir.Type, devices: int) -> str:
    """A tensor of which each device has one of `type` along the first dimension."""
    if not _is_split(type):
        return str(type)
    tensor = ir.RankedTensorType(type)
    shape = [devices * tensor.shape[0], *tensor.shape[1:]]
    return str(ir.RankedTensorType.get(shape, tensor.element_type, tensor.encoding, ir.Location.unknown(type.context)))


def _is_split(type: ir.Type) -> bool:
    return isinstance(type, ir.RankedTensorType) and bool(type.rank)


def _sharding(type: ir.Type, mesh: str) -> str:
    if not _is_split(type):
        return f"<@{mesh}, []>"
    rest = [", {}"] * (ir.RankedTensorType(type).rank - 1)
    return f'<@{mesh}, [{{"{_AXIS}"}}{"".join(rest)}]>'


def _taken(function: ir.Operation, name: str) -> list[dict[str, ir.Attribute]] | None:
    """The attributes of arguments or results, which a function loses by that."""
    if name not in function.attributes:
        return None
    rows: Any = map(ir.DictAttr, ir.ArrayAttr(function.attributes[name]))
    taken = [{entry.name: entry.attr for entry in row} for row in rows]
    del function.attributes[name]
    return taken


def _give(main: ir.Operation, rows: dict[str, list[dict[str, ir.Attribute]] | None], mesh: str) -> None:
    """Give the entry what its arguments and results had, and say of each how it lies."""
    type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    with main.context:
        for (name, row), types in zip(rows.items(), (type.inputs, type.results), strict=True):
            lies = [ir.Attribute.parse(f"#{_SHARDING}{_sharding(type, mesh)}") for type in types]
            known: list[dict[str, ir.Attribute]] = row or [{} for _ in lies]
            given = [{**one, _SHARDING: sharding} for one, sharding in zip(known, lies, strict=True)]
            main.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in given])


def _unused(table: ir.SymbolTable, name: str) -> str:
    """A name that no op of a module has."""
    while name in table:
        name += "_"
    return name
