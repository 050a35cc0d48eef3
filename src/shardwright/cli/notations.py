"""The commands that take one sharding or convert modules: show, convert."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from shardwright.cli.given import examples, parse_shape, print_json
from shardwright.errors import Diagnostic, ShardingError
from shardwright.files import is_standard_output, write_file
from shardwright.frontends.meshes import mesh_of
from shardwright.notation.module_notations import module_notation_names, notation_of
from shardwright.notation.notation import Shape
from shardwright.notation.registry import notation_names, parse_text, print_text
from shardwright.report.devices import describe_mesh, mesh_line
from shardwright.report.layout import Page, console
from shardwright.report.summary import Summary
from shardwright.report.text import print_summary
from shardwright.sharding import TensorSharding

F = TypeVar("F", bound=Callable[..., Any])


_MODULES = ", ".join(module_notation_names())
_SHARDINGS = ", ".join(notation_names())


def _sharding_options(*, required: bool) -> Callable[[F], F]:
    """One sharding, in any notation, and the tensor and devices it is of."""
    options = (
        click.option("--sharding", required=required, metavar="TEXT", help="The sharding, in any notation."),
        click.option("--shape", required=required, metavar="SHAPE", help='The tensor, as 8x16; "" is a scalar.'),
        click.option("--mesh", metavar="AXES", help="The devices, as x=2,y=4, for a text that does not say them."),
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
    )

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _sharding(text: str, shape: Shape, mesh: str | None) -> TensorSharding:
    return parse_text(text, shape=shape, mesh=None if mesh is None else mesh_of(mesh))


def _described(sharding: TensorSharding, shape: Shape) -> Summary:
    return {"sharding": repr(sharding), "shape": list(shape), "mesh": describe_mesh(sharding.mesh)}


@click.command(
    epilog=examples(
        """shardwright show --sharding '<@mesh, [{"x"}, {}]>' --shape 4x3 --mesh x=2""",
        """shardwright show --sharding '<@mesh, [{"x"}, {}]>' --shape 7x5 --mesh x=4,y=2 -o tiles.svg""",
    ),
)
@_sharding_options(required=True)
@click.option("-o", "--output", metavar="OUT.svg", help="Write the picture as SVG (- is standard output).")
def show(sharding: str, shape: str, mesh: str | None, as_json: bool, output: str | None) -> None:
    """Draw a sharding: the tensor cut into tiles with the devices on each, and the slice that each device holds."""
    from shardwright.report.show import describe_picture, picture, picture_svg, print_picture

    if output is not None and Path(output).suffix.lower() not in ("", ".svg"):
        raise ShardingError(
            f"cannot write a picture as {Path(output).suffix!r}",
            cause="pictures are written as SVG",
            remedy=f"give -o {Path(output).with_suffix('.svg')}",
        )
    sizes = parse_shape(shape)
    read = _sharding(sharding, sizes, mesh)
    drawn = picture(read, sizes)
    answer = {**_described(read, sizes), **describe_picture(drawn)}
    is_printed = output is not None and is_standard_output(output)
    if output is not None and not is_printed:
        written = {"picture": str(write_file(output, picture_svg(drawn)))}
        if as_json:
            print_json({**answer, "written": written})
        else:
            print_summary(console(), {"written": written})
    elif as_json:
        print_json(answer)
    elif is_printed:
        sys.stdout.write(picture_svg(drawn))
    else:
        print_picture(console(), drawn)


@click.command(
    epilog=examples(
        "shardwright convert examples/mlp.mlir --to mhlo -o mlp.mhlo.mlir",
        """shardwright convert --sharding '<@mesh, [{"x"}, {}]>' --shape 8x16 --mesh x=2,y=4""",
        """shardwright convert --sharding '<@mesh, [{"x"}, {}]>' --shape 8x16 --mesh x=2,y=4 --to sdy""",
    ),
)
@click.argument("file", metavar="[FILE]", required=False)
@_sharding_options(required=False)
@click.option(
    "--to", default="all", metavar="NAME", help=f"For FILE: {_MODULES}. For a sharding: {_SHARDINGS}, or all."
)
@click.option("-o", "--output", metavar="OUT", help="File of the module (default: standard output).")
def convert(file: str | None, to: str, output: str | None, sharding: str | None, **options: Any) -> None:
    """Write the module in FILE in another notation; its own is told by what is in it.

    With --sharding, print that one sharding in another notation, or in every one that can say it, with why the others
    cannot.
    """
    if (file is None) == (sharding is None):
        raise click.UsageError("give either FILE or --sharding with --shape")
    if file is not None:
        _convert_module(file, to, output, **options)
    elif options["shape"] is None:
        raise click.UsageError("a sharding takes --shape")
    else:
        _convert_sharding(str(sharding), to, output, **options)


def _convert_module(file: str, to: str, output: str | None, shape: str | None, mesh: str | None, as_json: bool) -> None:
    from shardwright.frontends.convert import convert_content
    from shardwright.frontends.load import content_of

    if shape is not None or mesh is not None:
        raise click.UsageError("--shape and --mesh go with --sharding; a module says both itself")
    if to == "all":
        raise click.UsageError(f"a module is written in one notation: give --to with one of {_MODULES}")
    content, name = content_of(file)
    text = convert_content(content, to, name)
    told = {"from": notation_of(content).name, "to": to}
    if output is not None and not is_standard_output(output):
        written = {"module": str(write_file(output, text))}
        if as_json:
            print_json({**told, "written": written})
        else:
            print_summary(console(), {"written": written})
    elif as_json:
        print_json({**told, "module": text})
    else:
        sys.stdout.write(text)


def _convert_sharding(sharding: str, to: str, output: str | None, shape: str, mesh: str | None, as_json: bool) -> None:
    if output is not None:
        raise click.UsageError("-o goes with FILE")
    sizes = parse_shape(shape)
    read = _sharding(sharding, sizes, mesh)
    texts: dict[str, str] = {}
    refused: dict[str, Diagnostic] = {}
    for name in notation_names() if to == "all" else [to]:
        try:
            texts[name] = print_text(read, name, shape=sizes)
        except ShardingError as error:
            if to != "all":
                raise
            refused[name] = error.diagnostic
    if as_json:
        why = {name: {"message": diagnostic.message, "cause": diagnostic.cause} for name, diagnostic in refused.items()}
        print_json({**_described(read, sizes), "texts": texts, "refused": why})
    elif to != "all":
        sys.stdout.write(texts[to] + "\n")
        if read.mesh.device_ids is not None and to != "mhlo":
            print(f"on {mesh_line(describe_mesh(read.mesh))}, which the text does not say", file=sys.stderr)
    else:
        _print_conversions(read, texts, refused)


def _print_conversions(sharding: TensorSharding, texts: dict[str, str], refused: dict[str, Diagnostic]) -> None:
    out = console()
    page = Page(out.width if out.is_terminal else None)
    page.line(mesh_line(describe_mesh(sharding.mesh)), indent=0)
    page.pairs(list(texts.items()))
    if refused:
        page.heading("Not expressible")
        page.pairs([(name, diagnostic.message) for name, diagnostic in refused.items()])
    page.print(out)
