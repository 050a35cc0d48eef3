"""Layouts that can be stated at a program's boundary and that no local op or collective here keeps."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.sharding import TensorSharding

__all__ = ["check_boundary"]


def check_boundary(graph: Graph) -> None:
    """Refuse shardings with offsets or halos, arguments that are partial by another kind than sum, and effects on one
    device.

    Raises:
        ShardingError: naming the first such argument, op or result.
    """
    main = graph.main
    for name, value in zip(main.argument_names, main.block.arguments, strict=True):
        sharding = graph.shardings[value]
        if sharding is not None and any(p.kind != "sum" for p in sharding.partial):
            raise _refused(f"argument {name!r} is partial by another kind than sum", sharding, graph.locations.source)
    said = {*graph.shardings, *main.result_shardings}
    if any(map(_bounded, said)):
        raise _first_bounded(graph)
    if any(map(_is_on_one_device, said)):
        _check_effects(graph)


def _bounded(sharding: TensorSharding | None) -> bool:
    return sharding is not None and bool(sharding.offsets or sharding.halos)


def _is_on_one_device(sharding: TensorSharding | None) -> bool:
    return sharding is not None and sharding.mesh.is_maximal


def _check_effects(graph: Graph) -> None:
    for op in graph.walk():
        if op.signature.get("has_side_effect", False) and any(
            _is_on_one_device(graph.shardings[v]) for v in op.results
        ):
            raise ShardingError(
                f"{op.signature.label} is to run on one device alone, and has effects",
                op=op.signature.label,
                location=str(graph.locations[op.location]),
                cause="every device runs every op of its program",
                remedy="take its sharding away if all devices may run it, or leave the module to XLA's partitioner",
            )


def _first_bounded(graph: Graph) -> ShardingError:
    """What to say of the first sharding with offsets or halos."""
    main = graph.main
    for name, value in zip(main.argument_names, main.block.arguments, strict=True):
        if _bounded(sharding := graph.shardings[value]):
            return _refused(f"argument {name!r} has offsets or halos", sharding, graph.locations.source)
    for op in graph.walk():
        for value in (*op.results, *(value for block in op.regions for value in block.arguments)):
            if _bounded(sharding := graph.shardings[value]):
                where = str(graph.locations[op.location])
                return _refused(f"a value of {op.name} has offsets or halos", sharding, where, op.signature.label)
    pairs = zip(main.result_names, main.result_shardings, strict=True)
    name, sharding = next(pair for pair in pairs if _bounded(pair[1]))
    return _refused(f"result {name!r} has offsets or halos", sharding, graph.locations.source)


def _refused(message: str, sharding: TensorSharding | None, where: str, op: str = "func.func") -> ShardingError:
    return ShardingError(
        f"{message}, and cannot be partitioned",
        op=op,
        location=where,
        cause=f"sharding {sharding!r}; here shards are of one size, without halos, and partial inputs are sums",
        remedy="pad the dimension to a multiple of its shards, leave out halos, reduce before the program begins",
    )
