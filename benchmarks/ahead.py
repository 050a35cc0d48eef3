"""What XLA's compilers for accelerators make of our programs, beside those of its own partitioner, without the devices.

XLA compiles for TPUs wherever `libtpu` is installed, and for GPUs wherever JAX's plugin is. So this says what no price
of ours does: whether they take a program, and what a device holds of it after their own fusion, layouts and order. Of
each program of `benchmarks/plans.py`, those that fill eight devices unless others are named,

    temporary     buffers that are neither arguments nor results, by those of XLA's partitioner's program
    held_gib      all buffers of a device
    said          what we say that is set aside for it, by that
    step          for GPUs, the time that it takes as XLA has scheduled it, collectives beside kernels, by the time of
                  XLA's partitioner's program (`tests/oracles/hlo_scheduled.py`)
    exposed       what of it is waiting for collectives

and in the end the geometric mean of the steps.

    python benchmarks/ahead.py                                     the large programs for v5p:2x2x2
    python benchmarks/ahead.py nets steps --topology v5e:2x4       the small ones: whether they are taken, foremost
    python benchmarks/ahead.py --gpu h100                          the large ones for a node of eight H100s
    python benchmarks/ahead.py clusters --gpu h100 --topology 1x8x8    those for 64, of eight nodes

Without XLA for such devices nothing is compiled, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from statistics import geometric_mean
from typing import Any

from common import Answer, Report, in_child

TEMPORARY, SAID, STEP = 1.1, (0.8, 1.3), 1.0
"""Our temporaries by those of XLA's partitioner's program; what we say by what XLA's compiler sets aside; our step."""
_SMALL = {"tpu": 1 << 20, "gpu": 1 << 26}
"""Bytes of a device under which compilers' own tables and tiles, and what libraries of GPUs have to work in, say more
of what is held than the program does."""


def names_of(chosen: Sequence[str]) -> Answer:
    """In a child: the programs whose names begin so."""
    import plans

    every = list(plans.programs())
    found = [name for name in every if any(name == one or name.startswith(f"{one}.") for one in chosen)]
    return {"names": found, "kinds": list(dict.fromkeys(name.split(".")[0] for name in every))}


def compiled(name: str, chosen: argparse.Namespace) -> Answer:
    """In a child: both sides of a program as XLA's compiler has them."""
    import jax
    import plans

    import shardwright as sw
    from shardwright.notation import modules
    from shardwright.runtime.ahead import devices_of

    devices = devices_of(chosen.platform, chosen.topology, chosen.gpu)
    with sw.Session(hardware=sw.hardware(chosen.hardware)):
        plan = plans.programs()[name]()
        if plan.mesh.size != len(devices):
            return {"other": f"a mesh of {plan.mesh.size}"}
        spmd = plan.partition(effort=chosen.effort, optimize=chosen.optimize)
        ours, theirs = spmd.module("local"), modules.located_text(plan.annotated)
    answer: Answer = {"said": spmd.memory.allocated}
    for side, text in (("ours", ours), ("theirs", theirs)):
        try:
            answer[side] = _compiled(text, devices, side == "theirs", chosen)
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            answer[f"{side}_refused"] = str(error).split("\n", 1)[0][:300]
    return answer


def _compiled(text: str, devices: Sequence[Any], partition: bool, chosen: argparse.Namespace) -> Answer:
    """What a device holds of a program, and for GPUs what it takes as it is scheduled."""
    import shardwright as sw
    from shardwright.runtime.ahead import UNTUNED
    from shardwright.runtime.xla import compile_absent
    from tests.oracles.hlo_scheduled import scheduled

    made = compile_absent(text, devices, partition, UNTUNED if chosen.gpu else ())
    memory = made.get_compiled_memory_stats()
    outside = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    answer: Answer = {"temporary": memory.temp_size_in_bytes, "held": outside + memory.temp_size_in_bytes}
    if chosen.gpu:
        (module,) = made.hlo_modules()
        answer["takes"] = asdict(scheduled(module.to_string(), len(devices), sw.hardware(chosen.hardware)))
    return answer


def compare(report: Report, name: str, chosen: argparse.Namespace) -> float | None:
    """The figures of a program, and its step if it is known; none of one on a mesh of other devices, or of which XLA
    takes its own neither.
    """
    answer = in_child(compiled, name, chosen)
    if "other" in answer:
        print(f"{name}: {answer['other']}", flush=True)
        return None
    if "ours_refused" in answer and "theirs_refused" in answer:
        print(f"{name}: neither is taken: {answer['ours_refused']}", flush=True)
        return None
    report.add(f"ahead.{name}.taken", float("ours" in answer), None, 1.0)
    if "ours" not in answer or "theirs" not in answer:
        why = ("error", "ours_refused", "theirs_refused")  # which side has ended a process is not known
        print(f"    {next(answer[one] for one in why if one in answer)}", flush=True)
        return None
    ours, theirs = answer["ours"], answer["theirs"]
    is_small = ours["held"] < _SMALL[chosen.platform]
    ratio = ours["temporary"] / max(1, theirs["temporary"])
    report.add(f"ahead.{name}.temporary", round(ratio, 3), None if is_small else TEMPORARY)
    report.add(f"ahead.{name}.held_gib", ours["held"] / 2**30)
    bars = (None, None) if is_small else (SAID[1], SAID[0])
    report.add(f"ahead.{name}.said", round(answer["said"] / ours["held"], 3), *bars)
    if "takes" not in ours:
        return None
    step = ours["takes"]["seconds"] / theirs["takes"]["seconds"]
    report.add(f"ahead.{name}.step", round(step, 3), STEP)
    report.add(f"ahead.{name}.exposed", ours["takes"]["exposed"] / ours["takes"]["seconds"])
    return step


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", default=["large"], metavar="NAME", help="programs, or what names begin with"
    )
    parser.add_argument("--gpu", help="which GPUs to compile for: a100, h100, h200, b200 (default: TPUs)")
    parser.add_argument("--topology", help="as JAX calls the devices (default: v5p:2x2x2, or 1x1x8)")
    parser.add_argument("--hardware", help="the data sheet to decide by (default: tpu_v5p, or that of the GPU)")
    parser.add_argument("--effort", default="lean", help="how hard we look (default: lean)")
    parser.add_argument("--optimize", default="all", help="what becomes of our collectives (default: all)")
    chosen = parser.parse_args(arguments)
    chosen.platform = "gpu" if chosen.gpu else "tpu"
    chosen.topology = chosen.topology or ("1x1x8" if chosen.gpu else "v5p:2x2x2")
    chosen.hardware = chosen.hardware or chosen.gpu or "tpu_v5p"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # which asks the network what machine this is
    os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    found = in_child(names_of, chosen.names)
    if not found.get("names"):
        why = found.get("error") or f"names begin with {', '.join(found['kinds'])}"
        sys.exit(f"there is no {', '.join(chosen.names)}: {why}")
    there = in_child(_topology, chosen)
    if "error" in there:
        sys.exit(f"XLA does not compile for {chosen.topology} here: {there['error']}")
    print(f"# {there['devices']} × {there['kind']}", flush=True)
    report = Report()
    steps = [step for name in found["names"] if (step := compare(report, name, chosen)) is not None]
    if steps:
        report.add("ahead.mean_step", geometric_mean(steps))
    report.exit()


def _topology(chosen: argparse.Namespace) -> Answer:
    from shardwright.runtime.ahead import devices_of

    devices = devices_of(chosen.platform, chosen.topology, chosen.gpu)
    return {"devices": len(devices), "kind": devices[0].device_kind}


if __name__ == "__main__":
    main(sys.argv[1:])
