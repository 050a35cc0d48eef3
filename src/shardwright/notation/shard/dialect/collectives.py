"""Communication over groups of devices: `shard.all_gather`, `all_reduce`, `all_to_all`, `broadcast` and others.

The group of a device are those that differ from it along `grid_axes` only, in the order of that list, outer to inner.

Source: MLIR's `shard` dialect page.
"""

from __future__ import annotations

from shardwright.notation.forms.form import Attribute, Operand, OpForm
from shardwright.notation.forms.kinds import I16_ARRAY, I64, I64_ARRAY, INDEX, REDUCTION, SYMBOL, UNIT
from shardwright.notation.shard.dialect.checks import Check, all_of
from shardwright.notation.shard.dialect.collective_checks import (
    axes_known,
    in_group,
    same_element,
    same_rank,
    same_shape,
    tensors,
    verify_all_to_all,
    verify_gather,
    verify_scatter,
    verify_shift,
)

__all__ = ["COLLECTIVE_FORMS"]

_HEAD = "$input `on` $grid (`grid_axes` `=` $grid_axes^)? "
_REDUCTION = "(`reduction` `=` $reduction^)? "
_ARROW = " attr-dict `:` type($input) `->` type($result)"
_FUNCTION = " attr-dict `:` functional-type(operands, results)"
_KIND = Attribute("reduction", REDUCTION, default="sum")
_SCATTER = {"scatter_axis": "scatter_dim"}


def _index(name: str) -> Attribute:
    return Attribute(name, INDEX)


def _rooted(name: str, *, optional: bool = False) -> str:
    """A list of indices that names a device of the group, as custom syntax."""
    text = f"`{name}` `=` custom<DynamicIndexList>(${name}_dynamic, ${name})"
    return f"({text}^)?" if optional else text


def _collective(
    name: str,
    assembly: str,
    doc: str,
    attributes: tuple[Attribute, ...],
    *checks: Check,
    root: str = "",
    optional: bool = False,
    synonyms: dict[str, str] | None = None,
) -> OpForm:
    """A form with the operand, the grid and, where `root` is named, a device of the group that all of them have."""
    operands = [Operand("input")]
    given = [Attribute("grid", SYMBOL), Attribute("grid_axes", I16_ARRAY, default=()), *attributes]
    if root:
        operands.append(Operand(f"{root}_dynamic", "variadic", "index"))
        given.append(Attribute(root, I64_ARRAY, optional=optional))
        checks = (*checks, in_group(root))
    return OpForm(
        f"shard.{name}",
        f"{_HEAD}{assembly}{_FUNCTION if root else _ARROW}",
        doc=doc,
        operands=tuple(operands),
        results=("result",),
        attributes=tuple(given),
        verify=all_of(*checks),
        synonyms=synonyms or {},
    )


COLLECTIVE_FORMS = (
    _collective(
        "all_gather",
        "`gather_axis` `=` $gather_axis",
        "Concatenates the tensors of a group along dimension `gather_axis`; every device gets all of it. "
        "Source: AllGatherOp.",
        (_index("gather_axis"),),
        tensors(1),
        same_element,
        same_rank,
        axes_known,
        verify_gather,
    ),
    _collective(
        "all_reduce",
        _REDUCTION.strip(),
        "Reduces the tensors of a group element by element, in the element type of the result; every device gets the "
        "reduction. Source: AllReduceOp.",
        (_KIND,),
        tensors(0),
        same_shape,
        axes_known,
    ),
    _collective(
        "all_slice",
        "`slice_axis` `=` $slice_axis",
        "Each device keeps its own slice along dimension `slice_axis`, by its place in the group; nothing is sent. "
        "Source: AllSliceOp.",
        (_index("slice_axis"),),
        tensors(1),
        same_element,
        same_rank,
        axes_known,
        verify_scatter("slice_axis", "Slice"),
    ),
    _collective(
        "all_to_all",
        "`split_axis` `=` $split_axis `concat_axis` `=` $concat_axis",
        "Splits the tensor along `split_axis`, sends a piece to each device of the group and concatenates those "
        "received along `concat_axis`. Source: AllToAllOp.",
        (_index("split_axis"), _index("concat_axis")),
        tensors(1),
        same_element,
        same_rank,
        axes_known,
        verify_all_to_all,
    ),
    _collective(
        "broadcast",
        _rooted("root"),
        "Every device of a group gets the tensor of its `root`. Source: BroadcastOp.",
        (),
        tensors(0),
        same_shape,
        same_element,
        axes_known,
        root="root",
    ),
    _collective(
        "gather",
        f"`gather_axis` `=` $gather_axis {_rooted('root')}",
        "Concatenates the tensors of a group along dimension `gather_axis` on its `root`; elsewhere the result is "
        "undefined. Source: GatherOp.",
        (_index("gather_axis"),),
        tensors(1),
        same_rank,
        same_element,
        axes_known,
        verify_gather,
        root="root",
    ),
    _collective(
        "recv",
        _rooted("source", optional=True),
        "The tensor that device `source` of the group sends. Source: RecvOp.",
        (),
        tensors(1),
        same_shape,
        same_element,
        axes_known,
        root="source",
        optional=True,
    ),
    _collective(
        "send",
        _rooted("destination"),
        "Sends the tensor to device `destination` of the group. Source: SendOp.",
        (),
        tensors(1),
        same_shape,
        same_element,
        axes_known,
        root="destination",
    ),
    _collective(
        "reduce",
        f"{_REDUCTION}{_rooted('root')}",
        "Reduces the tensors of a group element by element, in the element type of the result, on its `root`; "
        "elsewhere the result is undefined. Source: ReduceOp.",
        (_KIND,),
        tensors(0),
        same_shape,
        axes_known,
        root="root",
    ),
    _collective(
        "reduce_scatter",
        f"{_REDUCTION}`scatter_dim` `=` $scatter_dim",
        "Reduces the tensors of a group element by element and gives each device a slice of the reduction along "
        "dimension `scatter_dim`. Source: ReduceScatterOp.",
        (_KIND, _index("scatter_dim")),
        tensors(1),
        same_rank,
        axes_known,
        verify_scatter("scatter_dim", "Scatter"),
        synonyms=_SCATTER,
    ),
    _collective(
        "scatter",
        f"`scatter_dim` `=` $scatter_dim {_rooted('root')}",
        "Splits the tensor of the group's `root` along dimension `scatter_dim`; each device gets its piece. "
        "Source: ScatterOp.",
        (_index("scatter_dim"),),
        tensors(1),
        same_rank,
        same_element,
        axes_known,
        verify_scatter("scatter_dim", "Scatter"),
        root="root",
        synonyms=_SCATTER,
    ),
    _collective(
        "shift",
        "`shift_axis` `=` $shift_axis `offset` `=` $offset (`rotate` $rotate^)?",
        "Each device gets the tensor of the one `offset` further along grid axis `shift_axis`, around the end where "
        "`rotate` is set; without it, devices without a source have an undefined result. Source: ShiftOp.",
        (_index("shift_axis"), Attribute("offset", I64), Attribute("rotate", UNIT, default=False)),
        tensors(1),
        same_shape,
        same_element,
        axes_known,
        verify_shift,
    ),
)
