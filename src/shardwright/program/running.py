"""Partitioned programs handed over to XLA, as they are called, or to be verified."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from shardwright.frontends.load import Source
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:
    from shardwright.runtime.arrays import Array
    from shardwright.runtime.call import Call
    from shardwright.runtime.compiled import Compiled
    from shardwright.runtime.tensors import Tensors
    from shardwright.runtime.verify import Verification

__all__ = ["check_can_be_shared", "check_can_run", "compiled", "verified"]


def _callbacks(call: Call | None) -> tuple[Any, ...]:
    """The Python functions that a program calls, where they are at hand, by the numbers that it has for them."""
    if call is None:
        return ()
    from shardwright.runtime.call import JaxCall  # imports jax, which commands do without

    return call.callbacks.functions if isinstance(call, JaxCall) else ()


def check_can_run(graph: Graph, annotated: Graph, local: Graph, mesh: Mesh, call: Call | None) -> None:
    """Check that a program can be run on this machine, and beside it the unsharded one: see `Spmd.check_can_run`."""
    from shardwright.runtime.limits import check_run
    from shardwright.runtime.runnable import check_runnable

    with_python = bool(_callbacks(call))
    check_runnable(annotated, with_python, repeats=True)  # what nobody reads is run too, unsharded
    check_runnable(local, with_python, repeats=True)
    check_run([*graph.arguments.values(), *graph.results.values()], local, mesh.size)


def check_can_be_shared(local: Graph, mesh: Mesh, processes: int) -> None:
    """Check that several processes can run a program, each on as many devices as the others.

    Raises:
        ShardingError: they cannot.
    """
    from shardwright.runtime.runnable import check_runnable
    from shardwright.runtime.several import check_share

    check_share(mesh.size, processes)
    check_runnable(local)  # those have no pipe to this process


def compiled(
    module: str, local: Graph, mesh: Mesh, arguments: Tensors, results: Tensors, call: Call | None, trial: bool
) -> Compiled:
    """What runs a program; see `Spmd.compile`.

    Arguments:
        module: The program of one device as text.
        local: The same as a graph.
        mesh: The devices.
        arguments: What it takes.
        results: What it gives.
        call: How the function is called that it comes from.
        trial: Whether another process runs it first.

    Raises:
        ShardingError: what `compile_program` does.
    """
    from shardwright.runtime.call import JaxCall
    from shardwright.runtime.compiled import LocalProgram, compile_program  # imports jax, which commands do without
    from shardwright.runtime.runnable import check_runnable
    from shardwright.runtime.unregistered import told_at_its_call

    check_runnable(local, with_python=bool(_callbacks(call)))
    with told_at_its_call(local):
        made = compile_program(LocalProgram.of(module, local, mesh, arguments, results), call, trial)
    if call is None:
        return made
    stage = call.stage if isinstance(call, JaxCall) else None
    if stage is None:
        bound: Compiled = call.bound(made)
        return bound
    from shardwright.frontends.wrappers import wrapped

    return made.within(partial(wrapped, stage))


def verified(
    source: Source,
    annotated: Graph,
    module: str,
    mesh: Mesh,
    shardings: tuple[Sequence[TensorSharding], Sequence[TensorSharding]],
    arrays: Sequence[Array],
    *,
    call: Call | None,
    **options: Any,
) -> Verification:
    """What comes of running a program beside the unsharded one.

    Arguments:
        source: What was read.
        annotated: The program with the shardings that users gave.
        module: The program of one device as text.
        mesh: The devices.
        shardings: How arguments lie, and results.
        arrays: Inputs.
        call: How the function is called that it comes from.
        **options: Those of `runtime.verify.verify`.

    Raises:
        ShardingError: what that does.
    """
    from shardwright.runtime.miscomputed import notes_of
    from shardwright.runtime.unregistered import told_at_its_call
    from shardwright.runtime.verify import verify

    text, graph, partitioned = _reference(source, annotated, shardings)
    with told_at_its_call(source.graph):
        verification = verify(
            text,
            module,
            mesh,
            *shardings,
            arrays,
            list(source.graph.results.values()),
            list(source.graph.results),
            graph=graph,
            partitioned=partitioned,
            callbacks=_callbacks(call),
            **options,
        )
    return verification.with_notes(notes_of(source.graph))


def _reference(
    source: Source, annotated: Graph, shardings: tuple[Sequence[TensorSharding], Sequence[TensorSharding]]
) -> tuple[str, Graph, bool]:
    """What results are held against, as text and as a graph, and whether XLA's partitioner is to make that of it."""
    from shardwright.notation import modules
    from shardwright.runtime.annotated import annotated as on_devices
    from shardwright.runtime.annotated import needs_devices
    from shardwright.runtime.unsharded import unsharded, unsharded_text

    if needs_devices(source.graph):
        graph = on_devices(annotated, *shardings)
        return modules.text_of(graph), graph, True
    return unsharded_text(source.graph, source.content, source.name), unsharded(source.graph), False
