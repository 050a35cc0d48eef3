"""The commands that take a program: run, propagate, partition, verify."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardwright.cli.given import VIRTUAL_DEVICES, Given, answer, check_devices, deliver, epilog, progress
from shardwright.cli.options import input_options, partition_options, program_options
from shardwright.files import is_standard_output, make_folder, write_files
from shardwright.notation.module_notations import module_notation_names
from shardwright.report.devices import describe_mesh
from shardwright.report.summary import (
    Summary,
    describe_hardware,
    describe_improvements,
    describe_program,
    describe_reasons,
    describe_search,
    describe_verification,
)
from shardwright.stage import STAGES

if TYPE_CHECKING:
    from shardwright.program import PerDevice, Spmd


@click.command(
    epilog=epilog(
        "shardwright run examples/gpt2.mlir",
        "shardwright run mlp.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model -o stages",
        "shardwright run examples/gpt2.mlir --hardware h100",
        "shardwright run examples/gpt2.mlir --processes 4",
    ),
)
@program_options
@partition_options
@input_options
@click.option("-o", "--output", metavar="DIR", help="Folder of the stages (default: NAME.stages here).")
@click.option(
    "--processes",
    type=click.IntRange(min=2),
    metavar="N",
    help="Run in N processes of this machine too, each with its share of the devices, and compare with one process.",
)
def run(
    file: str,
    inputs: str | None,
    seed: int,
    timeout: float,
    rtol: float | None,
    atol: float | None,
    output: str | None,
    processes: int | None,
    **options: Any,
) -> int:
    """Shard FILE, write every stage, run it on virtual devices and compare with the unsharded program.

    A program that is written for one device of a grid already is lowered and run as it is; its results go to a file.
    """
    given = Given(file, **options)
    folder = Path(output) if output is not None else Path(f"{_stem(file)}.stages")
    with given.session(), progress() as clock:
        arrays = _given_inputs(inputs)
        program = given.load(clock)
        if program.is_per_device:
            given.check_unsharded()
            if processes is not None:
                raise click.UsageError("No such option for a program of one device: --processes")
            answer(given, _run_per_device(given, program.per_device(), arrays, seed, timeout, folder))
            return 0
        spmd = given.partition(program, VIRTUAL_DEVICES)
        spmd.check_can_run()
        spmd.inputs(arrays, seed=seed)  # what they raise comes before anything is written
        if processes is not None:
            from shardwright.runtime.several import check_share

            check_share(spmd.mesh.size, processes)
        written = _write_stages(spmd, folder)
        verification = spmd.verify(arrays, seed=seed, rtol=rtol, atol=atol, timeout=timeout, processes=processes)
    summary = {
        **spmd.summary(),
        **describe_verification(verification),
        "written": written,
    }
    answer(given, summary)
    return 0 if verification.ok else 1


@click.command(
    epilog=epilog(
        "shardwright propagate examples/gpt2.mlir -o full.mlir",
        "shardwright propagate mlp.mlir --mesh data=2,model=4 --arg 0=data,- --arg 1=-,model",
    ),
)
@program_options
@click.option("-o", "--output", metavar="OUT", help="File of the module (default: standard output).")
def propagate(file: str, output: str | None, **options: Any) -> None:
    """Complete the sharding of every tensor of FILE and write the module."""
    given = Given(file, **options)
    with given.propagation_session(), progress() as clock:
        plan = given.shard(given.load(clock))
        text = plan.module()
    deliver(given, text, output, plan.summary)


@click.command(
    epilog=epilog(
        "shardwright partition examples/gpt2.mlir -o local.mlir",
        "shardwright partition mlp.mlir --mesh x=8 --arg 0=x,- --stage explicit",
        "shardwright partition examples/gpt2.mlir --hardware h100 -o local.mlir",
    ),
)
@program_options
@partition_options
@click.option(
    "--stage",
    type=click.Choice(STAGES[1:]),
    default="local",
    show_default=True,
    help="explicit: global shapes with all communication written; local: the program of one device.",
)
@click.option(
    "--to",
    type=click.Choice(list(module_notation_names())),
    default="sdy",
    show_default=True,
    help="The notation. A local program has StableHLO's collectives, or with shard or mesh those dialects'.",
)
@click.option("-o", "--output", metavar="OUT", help="File of the module (default: standard output).")
def partition(file: str, stage: str, to: str, output: str | None, **options: Any) -> None:
    """Make every communication of FILE explicit and write the module of a stage."""
    given = Given(file, **options)
    if given.reasons and not given.as_json and (output is None or is_standard_output(output)):
        raise click.UsageError("No such option without -o FILE or --json: --reasons (standard output takes the module)")
    with given.session(), progress() as clock:
        program = given.load(clock)
        if program.is_per_device:
            given.check_unsharded()
            local = program.per_device()
            deliver(given, local.module(to), output, local.summary)
            return
        spmd = given.partition(program, to=to if stage == "explicit" else "sdy")
        text = spmd.module(stage, to)
    deliver(given, text, output, spmd.summary)


@click.command(
    epilog=epilog(
        "shardwright verify examples/gpt2.mlir",
        "shardwright verify mlp.mlir --mesh x=8 --arg 0=x,- --inputs batch.npz",
        "shardwright verify examples/gpt2.mlir --hardware mine.toml",
    ),
)
@program_options
@partition_options
@input_options
def verify(
    file: str,
    inputs: str | None,
    seed: int,
    timeout: float,
    rtol: float | None,
    atol: float | None,
    **options: Any,
) -> int:
    """Run FILE sharded on virtual devices and unsharded, and compare the results."""
    given = Given(file, **options)
    with given.session(), progress() as clock:
        arrays = _given_inputs(inputs)
        spmd = given.partition(given.load(clock), VIRTUAL_DEVICES)
        verification = spmd.verify(arrays, seed=seed, rtol=rtol, atol=atol, timeout=timeout)
    summary = {"program": describe_program(spmd.source), "mesh": describe_mesh(spmd.mesh)}
    answer(
        given,
        {
            **summary,
            **describe_hardware(spmd.hardware),
            **describe_search(spmd.searched),
            **describe_improvements(spmd.improvements),
            **describe_verification(verification),
            **describe_reasons(spmd.reasons),
        },
    )
    return 0 if verification.ok else 1


def _run_per_device(
    given: Given, program: PerDevice, arrays: Mapping[str, Any] | None, seed: int, timeout: float, folder: Path
) -> Summary:
    """Lower and run, and write the module and the results, one row a device."""
    import numpy as np

    check_devices(program.mesh.size, given.devices, VIRTUAL_DEVICES, program.name)
    text = program.module()
    results = program.run(arrays, seed=seed, timeout=timeout)
    make_folder(folder)
    module, file = str(folder / "local.mlir"), str(folder / "results.npz")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:  # `numpy.savez` takes no array called `file`
        for name, array in results.items():
            with members.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    write_files({module: text, file: archive.getvalue()})
    return {**program.summary(results), "written": {"local": module, "results": file}}


def _given_inputs(file: str | None) -> Mapping[str, Any] | None:
    if file is None:
        return None
    from shardwright.runtime.inputs import load_inputs

    return load_inputs(file)


def _stem(file: str) -> str:
    return "program" if file == "-" else Path(file).stem


def _write_stages(spmd: Spmd, folder: Path) -> dict[str, str]:
    """Write every stage; all texts are made before the first is written."""
    with spmd.clock.stage("write"):
        texts = {str(folder / f"{stage}.mlir"): spmd.module(stage) for stage in STAGES}
        make_folder(folder)
        write_files(texts)
        return dict(zip(STAGES, texts, strict=True))
