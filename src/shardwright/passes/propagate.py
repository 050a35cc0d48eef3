"""Propagation by strategy: `sdy-basic-propagate` and those built on it.

Every function is propagated, regions included. Results of the functions that a program enters by are kept equal to what
these return; calls let nothing through.

Source: the propagation passes of OpenXLA's Shardy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.drop_sharding_rules import drop_sharding_rules
from shardwright.passes.module_graph import ModuleGraph, read_module_graph
from shardwright.passes.module_ops import RESULTS, Row, first_results, operations, rows_of, set_rows
from shardwright.passes.module_shardings import SHARDING, Shardings, single
from shardwright.passes.populate_op_sharding_rules import CONSERVATIVE, populate_rules, populate_rules_of
from shardwright.passes.registry import Option, Options, register
from shardwright.passes.save_module import save_module
from shardwright.passes.warnings import is_heard, warn, warn_of_unknown
from shardwright.passes.write_back import write_back
from shardwright.propagation import FACTORS, propagate_only
from shardwright.propagation.effects import is_pure
from shardwright.propagation.method import method

__all__: list[str] = []

_COMMON = (
    CONSERVATIVE,
    Option("debug-propagation-edge-sharding", False, "Whether to leave `sdy.propagation_edges` on ops and results."),
    Option("debug-sharding-origins", False, "Whether to leave `sdy.sharding_origins` on arguments, results and ops."),
    Option("keep-sharding-rules", False, "Whether the rules of ops stay, as `sdy.sharding_rule`."),
    Option("module-dump-directory", "", "Where to save the propagated module; nothing is saved where it is empty."),
)
_FACTORS = Option(
    "propagation-strategy", "aggressive", "How conflicts between the loops of an op are settled.", tuple(FACTORS)
)
_BY_OP = Option("run-op-priority-propagation", True, "Whether ops that cost nothing to split come before others.")
_CONTRADICTED = (
    "The initial operand shardings on the sharding groups of groupID: {} do not match. Inserting an open sharding "
    "constraint to all constrained values. This can be caused when shardings from different values are grouped (e.g. "
    "from jax.shard_alike) but have separate inconsistent sharding constraints on them."
)
_WITHOUT_ROUNDS = {"op-priority": "aggressive", "user-priority": "user-priority-only"}
"""What is left of a strategy without the rounds of op priority."""


def _declare(strategy: str, doc: str, more: tuple[Option, ...]) -> None:
    options = tuple(sorted((*_COMMON, *more), key=lambda option: option.name))

    @register(f"sdy-{strategy}-propagate", doc, options=options)
    def apply(module: ir.Module, options: Options) -> None:
        _propagate(module, _strategy(strategy, options), options)
        dump = options["module-dump-directory"]
        if dump:
            name = f"propagation_after_{strategy.replace('-', '_')}"
            save_module(module, {"dump-directory": dump, "file-name": name, "dump-index": 0})


def _strategy(name: str, options: Options) -> str:
    return name if options.get(_BY_OP.name, True) else _WITHOUT_ROUNDS[name]


def _propagate(module: ir.Module, strategy: str, options: Options) -> None:
    read = read_module_graph(module)
    if options["keep-sharding-rules"]:
        populate_rules(read, conservative=options[CONSERVATIVE.name])
    origins = options["debug-sharding-origins"]
    made = propagate_only(
        read.graph,
        strategy=strategy,
        factors=options.get(_FACTORS.name, "aggressive"),
        conservative=options[CONSERVATIVE.name],
        debug_sharding_origins=origins,
        debug_propagation_edge_sharding=options["debug-propagation-edge-sharding"],
        contradicted=lambda number, value: warn(_maker(read, value), _CONTRADICTED.format(number)),
        functions=read.called(),
        noted_results=_noted_results(read) if origins else None,
        starts=read.starts(),
        readers=read.readers(),
    )
    warn_of_unknown(_visited(module, read) if is_heard() else ())
    added = write_back(read, made)
    if method(strategy).user_priority:
        _settle_results(module, read)
    if options["keep-sharding-rules"]:
        populate_rules_of(added)
    else:
        drop_sharding_rules(module, {})


def _maker(read: ModuleGraph, value: int) -> Any:
    """The op that makes a value, or around the block that it is an argument of."""
    arguments = read.graph.main.block.arguments
    for part in read.parts:
        if value in arguments[part.arguments.start : part.arguments.stop]:
            return part.handle
        for handle, op in part.ops:
            if value in op.results or any(value in region.arguments for region in op.regions):
                return handle
    raise KeyError(value)


def _visited(module: ir.Module, read: ModuleGraph) -> list[Any]:
    """The ops that propagation comes to, in order, before any is taken out.

    What is dead from the start goes when its turn comes, unseen with all that its regions hold; what only that reads
    has had its turn before.
    """
    uses = read.graph.uses()
    dead = {
        handle
        for part in read.parts
        for handle, op in part.ops
        if op.results and not any(uses[value] for value in op.results) and is_pure(op)
    }
    return operations(module, without=dead)


def _settle_results(module: ir.Module, read: ModuleGraph) -> None:
    """Once all priorities have had their turn none is left, on results of called functions either."""
    called = [part.handle for part in read.parts if not part.is_entered]
    shardings = Shardings(module)
    for function in called:
        rows = rows_of(function, RESULTS)
        changed = [_settle(row, shardings) for row in rows]
        if any(changed):
            set_rows(function, RESULTS, rows)


def _settle(row: Row, shardings: Shardings) -> bool:
    sharding = shardings.one(row[SHARDING]) if SHARDING in row else None
    if sharding is None or all(dim.priority is None for dim in sharding.dims):
        return False
    row[SHARDING] = single(replace(sharding, dims=tuple([replace(dim, priority=None) for dim in sharding.dims])))
    return True


def _noted_results(read: ModuleGraph) -> list[int]:
    return [part.results[index] for part in read.parts if part.results for index, _ in first_results(part.handle)]


_declare("basic", "Propagates shardings along the axes that all tensors of an op agree on.", ())
_declare("aggressive", "Propagates shardings, each tensor of an op taking what it can.", (_FACTORS,))
_declare("op-priority", "Propagates shardings, through ops that cost nothing to split first.", (_FACTORS, _BY_OP))
_declare("user-priority", "Propagates shardings in the order of the priorities given.", (_FACTORS, _BY_OP))
