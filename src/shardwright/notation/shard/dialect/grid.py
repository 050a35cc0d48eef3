"""The grid of devices and the questions about it: `shard.grid`, `grid_shape`, process indices, neighbours.

Source: MLIR's `shard` dialect page.
"""

from __future__ import annotations

from shardwright.notation.forms.form import Attribute, Operand, OpForm, OpText, Symbols
from shardwright.notation.forms.kinds import DIMS, DYNAMIC, I16_ARRAY, STRING, SYMBOL, SYMBOL_NAME
from shardwright.notation.shard.dialect.checks import axes_in_grid, axes_of, grid_of, index_results, refuse, shape_of

__all__ = ["GRID_FORMS"]


def _verify_grid(op: OpText, symbols: Symbols) -> None:
    del symbols
    shape = op.attributes["shape"]
    if not shape:
        refuse(
            op,
            f"'{op.form.name}' op rank of grid is expected to be a positive integer",
            cause="a grid without axes has nothing to shard over",
            remedy="give at least one axis, of size 1 if need be: shape = 1",
        )
    for size in shape:
        if size != DYNAMIC and size < 1:
            refuse(
                op,
                f"'{op.form.name}' op dimension size of a grid is expected to be positive or dynamic, got {size}",
                cause="an axis has at least one device",
                remedy="give its size, or ? where it is unknown",
            )


def _verify_axes(op: OpText, symbols: Symbols) -> None:
    axes_of(op, symbols, "axes")
    index_results(op, len(op.attributes["axes"]) or len(shape_of(grid_of(op, symbols))))


def _verify_linear(op: OpText, symbols: Symbols) -> None:
    grid_of(op, symbols)
    index_results(op, 1)


def _verify_neighbours(op: OpText, symbols: Symbols) -> None:
    grid = grid_of(op, symbols)
    axes_in_grid(op, grid, op.attributes["split_axes"])
    rank, given = len(shape_of(grid)), len(op.operands["device"])
    if given != rank:
        refuse(
            op,
            f'In-group device "device" has unexpected multi-index size {given}. Expected {rank}.',
            cause=f'the grid "{op.attributes["grid"]}" has {rank} axes',
            remedy="give one index for each axis",
        )
    index_results(op, 2)


GRID_FORMS = (
    OpForm(
        "shard.grid",
        "($sym_visibility^)? $sym_name `(` `shape` `=` custom<DimensionList>($shape) `)` attr-dict",
        doc="Defines a grid of devices: a name and the sizes of its axes, `?` where unknown. Devices are counted row "
        "by row, the last axis fastest. Source: GridOp.",
        attributes=(
            Attribute("sym_visibility", STRING, optional=True),
            Attribute("sym_name", SYMBOL_NAME),
            Attribute("shape", DIMS),
        ),
        verify=_verify_grid,
    ),
    OpForm(
        "shard.grid_shape",
        "$grid (`axes` `=` $axes^)? attr-dict `:` type($result)",
        doc="Sizes of the grid's axes: of those listed, or of all. Source: GridShapeOp.",
        results=("result*",),
        attributes=(Attribute("grid", SYMBOL), Attribute("axes", I16_ARRAY, default=())),
        verify=_verify_axes,
    ),
    OpForm(
        "shard.process_multi_index",
        "`on` $grid (`axes` `=` $axes^)? attr-dict `:` type($result)",
        doc="Position of this device along the axes listed, or along all. Source: ProcessMultiIndexOp.",
        results=("result*",),
        attributes=(Attribute("grid", SYMBOL), Attribute("axes", I16_ARRAY, default=())),
        verify=_verify_axes,
    ),
    OpForm(
        "shard.process_linear_index",
        "`on` $grid attr-dict `:` type($result)",
        doc="Number of this device in the grid, row by row: on a 10x20x30 grid device (1, 2, 3) is 1·600 + 2·30 + 3. "
        "Source: ProcessLinearIndexOp.",
        results=("result",),
        attributes=(Attribute("grid", SYMBOL),),
        verify=_verify_linear,
    ),
    OpForm(
        "shard.neighbors_linear_indices",
        "`on` $grid `[` $device `]` `split_axes` `=` $split_axes attr-dict `:` type(results)",
        doc="Numbers of the devices before and after `device` along the axes, -1 where there is none. "
        "Source: NeighborsLinearIndicesOp.",
        operands=(Operand("device", "variadic", "index"),),
        results=("neighbor_down", "neighbor_up"),
        attributes=(Attribute("grid", SYMBOL), Attribute("split_axes", I16_ARRAY)),
        verify=_verify_neighbours,
    ),
)
