"""What a function of JAX does besides computing: the tokens of effects in an order become values of its own module.

    func @main(%token: !stablehlo.token, %x: …) -> (!stablehlo.token, …)    as JAX lowers ordered effects
    func @main(%x: …) -> (…) { %token = stablehlo.create_token … }          as it is called here

Nobody gives or takes a token: calls of Python stay in their order by those inside, and calls of the program by what JAX
has for its own (`runtime.embed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shardwright.frontends.load import Source
from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.runtime.python_calls import PythonCalls

__all__ = ["python_calls", "with_own_tokens"]


def python_calls(told: Mapping[str, Any]) -> PythonCalls:
    """The functions that a module calls, and in which order.

    Arguments:
        told: What JAX gives its compiler beside the module.
    """
    functions, unordered = (tuple(told.get(name, ())) for name in ("host_callbacks", "unordered_effects"))
    return PythonCalls(functions, unordered, bool(told.get("ordered_effects")))


def with_own_tokens(source: Source) -> Source:
    """The program without tokens among its arguments and results; itself where there are none."""
    graph = source.graph
    main, types = graph.main, graph.types
    taken = [types[value].is_tensor for value in main.block.arguments]
    given = [types[value].is_tensor for value in main.block.terminator.operands]
    if all(taken) and all(given):
        return source
    tokens = [value for value, is_kept in zip(main.block.arguments, taken, strict=True) if not is_kept]
    made = [Op(Signature("stablehlo.create_token", (), (), (types[token],)), (), (token,)) for token in tokens]
    last = main.block.terminator
    results = _kept(last.operands, given)
    operands = tuple(types[value] for value in results)
    returned = Op(replace(last.signature, operands=operands), tuple(results), (), (), last.location)
    block = Block(tuple(_kept(main.block.arguments, taken)), [*made, *main.block.ops[:-1], returned])
    function = replace(
        main,
        block=block,
        argument_attributes=_kept(main.argument_attributes, taken),
        argument_names=_kept(main.argument_names, taken),
        argument_locations=_kept(main.argument_locations, taken) if main.argument_locations else [],
        result_attributes=_kept(main.result_attributes, given),
        result_names=_kept(main.result_names, given),
        result_shardings=_kept(main.result_shardings, given),
    )
    return replace(source, graph=replace(graph, main=function))


def _kept(values: Any, are_kept: list[bool]) -> list[Any]:
    return [value for value, is_kept in zip(values, are_kept, strict=True) if is_kept]
