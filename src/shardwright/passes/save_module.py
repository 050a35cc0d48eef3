"""The module, saved as it is between two passes."""

from __future__ import annotations

from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.files import write_file
from shardwright.ir.context import ir, module_text
from shardwright.passes.registry import Option, Options, register

_OPTIONS = (
    Option("dump-directory", "", "Where to save; nothing is saved where it is empty."),
    Option("file-name", "module", "The name of the file, without .mlir."),
    Option("dump-index", -1, "A number put before the name, unless negative."),
)


@register("sdy-save-module", "Saves the module to a directory as a `.mlir` file.", options=_OPTIONS)
def save_module(module: ir.Module, options: Options) -> None:
    """Write the module to `DIRECTORY/00.NAME.mlir`; the directory is made where there is none.

    Raises:
        ShardingError: the file cannot be written.
    """
    if not options["dump-directory"]:
        return
    directory, index = Path(options["dump-directory"]), options["dump-index"]
    path = directory / f"{f'{index:02}.' if index >= 0 else ''}{options['file-name']}.mlir"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ShardingError(
            f"the module cannot be saved to {path}",
            cause=str(error),
            remedy="give a dump-directory that can be written to",
        ) from None
    write_file(path, module_text(module))
