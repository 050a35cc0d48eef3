"""What no process can run that has nothing but the module: calls of Python, and ops that XLA has not.

JAX keeps the function that is called in the process that lowered it; its module holds only a number or a pointer. Run
elsewhere, XLA follows that to nowhere and ends the process. So it does with an op of a dialect that it does not know.
"""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.context import is_registered
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.rules.custom_call import is_python, is_python_with_effects
from shardwright.rules.traits import facts_of

__all__ = ["check_runnable"]

_PARTITIONED = "stablehlo.custom_call @CustomSPMDPartitioning"
"""A function with `jax.experimental.custom_partitioning` in a program for several devices."""


_ELSEWHERE = "it calls a Python function that only the process which lowered it has"
_AGAIN = "it calls a Python function that does something, and programs are run several times here"


def _reason(signature: Signature, with_python: bool, repeats: bool) -> str:
    """Why an op cannot be run: it calls Python that is not at hand or has effects, or has XLA ask for its partition."""
    if signature.label == _PARTITIONED or (is_python(signature) and not with_python):
        return _ELSEWHERE
    return _AGAIN if repeats and is_python_with_effects(signature) else ""


def check_runnable(graph: Graph, with_python: bool = False, *, repeats: bool = False) -> None:
    """Whether a program can be run from its module alone.

    Arguments:
        graph: The program.
        with_python: Whether the Python functions that it calls are at hand.
        repeats: Whether it is run several times, so that these may do nothing.

    Raises:
        ShardingError: it calls back into Python, talks to a host that does not answer, or has an op that is none of
            XLA's, at the line.
    """
    for op in graph.walk():
        if not is_registered(op.name):
            raise ShardingError(
                f"the program cannot be run: XLA has no op {op.name}",
                op=op.name,
                location=str(graph.locations[op.location]),
                cause="it runs StableHLO; ops of other dialects are sharded and partitioned, but not run",
                remedy="lower it to StableHLO first; `shardwright partition` writes the program of one device as it is",
            )
        facts = facts_of(op.name)
        reason = facts.refused if facts.host else ""
        name = op.name
        if python := _reason(op.signature, with_python, repeats):
            name, reason = op.signature.label, python
        if reason:
            raise ShardingError(
                "the program cannot be run apart from the process that made it",
                op=name,
                location=str(graph.locations[op.location]),
                cause=reason,
                remedy="leave it out (pure_callback, io_callback, debug.print, custom_partitioning, …), or run the "
                "function with jax.jit and the plan's in_shardings and out_shardings",
            )
