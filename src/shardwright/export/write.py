"""Writing a partitioned program as one file, with its plan, for another process or machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shardwright.export.calls import call_record
from shardwright.export.container import FORMAT, VERSION, Container, write_container
from shardwright.export.platforms import calls_of_libraries, check_platform
from shardwright.ir.graph import Graph
from shardwright.ir.portable import portable_artifact
from shardwright.mesh import Mesh
from shardwright.runtime.call import Call, JaxCall
from shardwright.runtime.records import mesh_record, sharding_record
from shardwright.runtime.tensors import Tensors

__all__ = ["export"]


def export(
    path: str | os.PathLike[str],
    name: str,
    mesh: Mesh,
    graph: Graph,
    modules: Mapping[str, str],
    arguments: Tensors,
    results: Tensors,
    call: Call | None,
    platforms: Sequence[str],
) -> Path:
    """Write a program of one device, and all there is to know to run it.

    Arguments:
        path: The file.
        name: What the program is called.
        mesh: The devices it is for.
        graph: The program of one device.
        modules: The text of the stages `propagated` and `local`.
        arguments: What it takes.
        results: What it gives.
        call: How the function is called that it comes from; other than functions of JAX are called with arrays then.
        platforms: On which it must be able to run.

    Raises:
        ShardingError: a platform that does not have what it calls, an op that StableHLO does not have, or a place that
            cannot be written.
    """
    targets = calls_of_libraries(graph)
    for platform in platforms:
        check_platform(platform, targets, name)
    artifacts = {stage: portable_artifact(text, name) for stage, text in modules.items()}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "stablehlo": artifacts["local"][1],
        "made_with": {package: _version(package) for package in ("shardwright", "jaxlib")},
        "name": name,
        "mesh": mesh_record(mesh),
        "arguments": _values(arguments),
        "results": _values(results),
        "custom_calls": list(targets),
        "call": call_record(call) if isinstance(call, JaxCall) else None,
    }
    return write_container(path, Container(manifest, {stage: data for stage, (data, _) in artifacts.items()}))


def _values(tensors: Tensors) -> list[dict[str, Any]]:
    types, shardings = tensors
    return [
        {"name": name, "type": str(type), "sharding": sharding_record(sharding)}
        for (name, type), sharding in zip(types.items(), shardings, strict=True)
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed: run from its source"
