"""Propagation from end to end: import, propagate, export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.sub_meshes import on_sub_meshes, plain_first
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.propagation.debug.attributes import Debug, write_debug
from shardwright.propagation.effects import remove_dead
from shardwright.propagation.engine.propagator import Propagator
from shardwright.propagation.method import Method, method
from shardwright.propagation.order import Places, order_by_use, restore
from shardwright.propagation.recording import Recording
from shardwright.propagation.rfc.completion import complete
from shardwright.propagation.steps.bodies import see_boundaries, state_boundaries
from shardwright.propagation.steps.boundary import leave, outermost
from shardwright.propagation.steps.collectives import reshard_where_unfit
from shardwright.propagation.steps.constants import merge_constants, merge_scalars, split_constants
from shardwright.propagation.steps.constraints import apply_constraints
from shardwright.propagation.steps.dataflow import add_edges, find_edges, find_function_edges
from shardwright.propagation.steps.groups import Contradicted, collect_groups
from shardwright.propagation.steps.normalize import normalize
from shardwright.propagation.working import EDGE, CalledFunction, Readers, Working
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage

if TYPE_CHECKING:
    from shardwright.propagation.engine.rivals import Rivals

__all__ = ["prepared", "propagate", "propagate_only"]


@uncollected
def propagate(
    graph: Graph,
    *,
    strategy: str = "user-priority",
    factors: str = "aggressive",
    conservative: bool = False,
    as_compiled: bool = False,
    record: Recording | None = None,
    debug_sharding_origins: bool = False,
    debug_propagation_edge_sharding: bool = False,
) -> Graph:
    """Complete the shardings of a program.

    Arguments:
        graph: The program; it is not changed. Shardings of its values and of `main`'s results are what the user said.
        strategy: `user-priority`, or another of `method.STRATEGIES`, or `rfc`, the mesh RFC's own.
        factors: How conflicts between the loops of an op are settled: `aggressive`, `basic`, `basic-then-aggressive`,
            or `cost`, by the time that ops take on the hardware of the session, which settles those between ops as
            well. The strategies `basic`, `cost` and `rfc` have no choice.
        conservative: Whether only whole axes flow, and none to where data would move between neighbours.
        as_compiled: Whether ops take their turns in the order in which XLA has them when JAX compiles a program
            (see `order`), and what only adds dimensions of size 1 is the reshape that it is there; else they are as
            they stand in the program, as to Shardy's passes. Nothing to `rfc`.
        record: What to write every change into.
        debug_sharding_origins: Whether to leave `sdy.sharding_origins` on arguments, results and ops.
        debug_propagation_edge_sharding: Whether to leave `sdy.propagation_edges` on ops and results.

    Returns:
        A new graph in which every tensor has a closed sharding, constraints are `sdy.reshard` ops, and constants are
        copied where their users want them split differently. A program without any mesh keeps its missing shardings.

    Raises:
        ShardingError: dynamic shapes, tuples, sharding groups that contradict themselves, data-flow edges of ops that
            have none, an unknown strategy, or a record that is in use.
    """
    debug = Debug(debug_sharding_origins, debug_propagation_edge_sharding)
    _check(graph)
    graph = plain_first(graph)
    if strategy == "rfc":
        _check_rfc(conservative, debug)
        made = complete(graph, record)
    else:
        how = method(strategy, factors, conservative)
        if record is None and debug.any:
            record = Recording()
        made = _completed(graph, how, as_compiled, record, debug)
    on_sub_meshes(made, graph)
    return made


def prepared(
    graph: Graph, how: Method, as_compiled: bool = True, record: Recording | None = None
) -> tuple[Working, Places, Propagator]:
    """A copy of a program with all import steps done, the places that its ops had, and what propagates it."""
    working = Working.of(graph)
    places: Places = {}
    if as_compiled:
        how = replace(how, as_compiled=True)
        merge_scalars(working)
        places = order_by_use(working)
    results = _import(working, graph, record)
    return working, places, Propagator(working, results, how, graph.locations, record)


def _completed(graph: Graph, how: Method, as_compiled: bool, record: Recording | None, debug: Debug) -> Graph:
    working, places, propagator = prepared(graph, how, as_compiled, record)
    if how.by_cost:
        propagator.rivals = _rivals(propagator, graph)
    propagator.run()
    made = _graph(graph, working)
    if record is not None and debug.any:
        write_debug(debug, record, made, graph.main.block.terminator.operands, sink=True)
    merge_constants(working)
    leave(working, graph.meshes.values())
    reshard_where_unfit(working)
    remove_dead(working.block, len(working.types))
    if as_compiled:
        restore(working.block, places)
    made.main.result_shardings = _closed_results(graph, working, propagator.result_shardings, record)
    if record is not None:
        record.exported(working)
    return made


@uncollected
def propagate_only(
    graph: Graph,
    *,
    strategy: str = "user-priority",
    factors: str = "aggressive",
    conservative: bool = False,
    record: Recording | None = None,
    debug_sharding_origins: bool = False,
    debug_propagation_edge_sharding: bool = False,
    functions: Sequence[CalledFunction] = (),
    noted_results: Sequence[int] | None = None,
    contradicted: Contradicted | None = None,
    starts: Mapping[int, int] = MappingProxyType({}),
    readers: Readers = MappingProxyType({}),
) -> Graph:
    """Propagate through a program as it stands: the `sdy` pass of that name, without import and export.

    Data flows through control flow only where `sdy.data_flow_edge` ops are, constraints bind nothing but their results,
    constants stay shared, sharding groups keep their numbers, and open dimensions stay open. Arguments and errors are
    those of `propagate`; there is no `rfc` here. `functions` are those that others call, in the order in which they
    stand in the program, where it has several: data flows to and from them where `sdy.func_data_flow_edge` ops are.
    Where it is known which use of a value comes first, `noted_results` are the results that tell of the origins of what
    they return. `contradicted` hears of groups whose members do not have one sharding: of each its number and its first
    value. `starts` are the places among the ops of the block at which the functions of arguments begin; all do at its
    start where nothing is said.
    `readers` tell of values in which order they are read, where that need not be that of a parsed module.
    """
    debug = Debug(debug_sharding_origins, debug_propagation_edge_sharding)
    _check(graph, arguments=False)
    how = method(strategy, factors, conservative)
    if record is None and debug.any:
        record = Recording()
    results = list(graph.main.result_shardings)
    working = _as_it_stands(graph, functions, starts, readers)
    if record is not None:
        record.open(results)
        record.note(working, "annotation")
    collect_groups(working, graph.locations, contradicted, keep_numbers=True)
    if record is not None:
        record.note(working, "group")
    propagator = Propagator(working, results, how, graph.locations, record)
    if how.by_cost:
        propagator.rivals = _rivals(propagator, graph)
    propagator.run()
    state_boundaries(working)
    made = _graph(graph, working)
    made.main.result_shardings = propagator.result_shardings
    if record is not None and debug.any:
        write_debug(debug, record, made, graph.main.block.terminator.operands, sink=False, noted_results=noted_results)
    return made


def _as_it_stands(
    graph: Graph, functions: Sequence[CalledFunction], starts: Mapping[int, int], readers: Readers
) -> Working:
    """A program that nothing is imported into, with the edges that it has."""
    working = Working.of(graph)
    working.build_uses(readers)
    working.starts = {value: working.block.ops[place] for value, place in starts.items()}
    find_edges(working)
    _check_edges(graph, working)
    find_function_edges(working, functions)
    see_boundaries(working)
    return working


def _rivals(propagator: Propagator, graph: Graph) -> Rivals:
    """What chooses where shardings compete in a program that was read from `graph`."""
    from shardwright.propagation.by_cost import rivals_in  # and what plans reshards

    return rivals_in(propagator, _graph(graph, propagator.working))


def _import(working: Working, graph: Graph, record: Recording | None) -> list[TensorSharding | None]:
    """Do all import steps; the shardings of the results."""
    results = normalize(working, list(graph.main.result_shardings), graph.meshes)
    split_constants(working)
    working.build_uses()
    if record is not None:
        record.open(results)
        record.note(working, "annotation")
    find_edges(working)
    _check_edges(graph, working)
    add_edges(working)
    if record is not None:
        record.note(working, "edge")
    apply_constraints(working)
    if record is not None:
        record.note(working, "constraint")
    collect_groups(working, graph.locations)
    if record is not None:
        record.note(working, "group")
    return results


def _check_rfc(conservative: bool, debug: Debug) -> None:
    if conservative:
        raise ShardingError(
            "the strategy 'rfc' cannot be conservative",
            cause="the RFC gives an op's tensors all axes that its loops are split by",
            remedy="leave `conservative` out, or use another strategy",
        )
    if debug.any:
        raise ShardingError(
            "the strategy 'rfc' has no debug attributes",
            cause="they are Shardy's, and tell of steps that it does not take",
            remedy="leave them out, or use another strategy; explanations work with every strategy",
        )


def _check(graph: Graph, *, arguments: bool = True) -> None:
    """Refuse values of which a size is not known; arguments may be left aside, which pass by where no op makes more."""
    strange = {value for value, type in enumerate(graph.types) if type.shape is None}
    if not strange:
        return
    bad = {value for value in strange if graph.types[value].dtype.startswith(("tensor<", "tuple<", "memref<"))}
    if not bad:
        return
    for op in graph.walk():
        for value in op.results:
            if value in bad:
                raise ShardingError(
                    f"type {graph.types[value]} is not a tensor of static shape",
                    op=op.signature.label,
                    location=str(graph.locations[op.location]),
                    cause="propagation needs the size of every dimension, and tensors one by one",
                    remedy="lower the program with concrete shapes, and unpack tuples",
                )
    if arguments:
        raise ShardingError(f"type {graph.types[min(bad)]} is not a tensor of static shape", op="func.func")


def _check_edges(graph: Graph, working: Working) -> None:
    """Every `sdy.data_flow_edge` of a program belongs to an op whose data flows along it."""
    known = {edge.op for edge in working.edges.values()}
    for op in working.special.get(EDGE, ()):
        if op not in known:
            raise ShardingError(
                "no data flows along this edge",
                op=EDGE,
                location=str(graph.locations[op.location]),
                cause="its operand is no result of control flow, a barrier or a computation, no argument of a "
                "computation's body, or has another edge",
                remedy="take the op out: propagation adds the edges it needs",
            )


def _graph(graph: Graph, working: Working) -> Graph:
    """The graph of a working copy, which goes on to share its lists."""
    made = graph.skeleton(Stage.PROPAGATED)
    made.types = working.types
    made.shardings = working.shardings
    made.main.block = working.block
    return made


def _closed_results(
    graph: Graph, working: Working, results: Iterable[TensorSharding | None], record: Recording | None
) -> list[TensorSharding | None]:
    """The shardings of `main`'s results as its caller sees them."""
    mesh = next((mesh for mesh in graph.meshes.values() if mesh.axes), None)
    types = [working.types[value] for value in working.block.terminator.operands]
    closed: list[TensorSharding | None] = []
    for index, (sharding, type) in enumerate(zip(results, types, strict=True)):
        outer = outermost(sharding, type)
        if outer is not None:
            closed.append(outer.closed())
        else:
            closed.append(_replicated(mesh, type.rank) if type.is_tensor else None)
        if record is not None:
            record.cut(index, sharding, closed[-1])
    return closed


def _replicated(mesh: Mesh | None, rank: int) -> TensorSharding | None:
    return None if mesh is None else replicated(mesh, rank)
