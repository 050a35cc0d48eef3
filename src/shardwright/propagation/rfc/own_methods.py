"""An op's option, and how its tensors lie by it, where whoever registered the op gave methods of its own for that.

Source: the mesh RFC on LLVM's forum, ShardingInterface: `getShardingOption` and `setShardingAnnotations` have default
implementations, which an op may override.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.propagation.rfc.derivation import Decision, Origin
from shardwright.propagation.rfc.interface import interface_of
from shardwright.propagation.rfc.op_statements import made_partial, shaped
from shardwright.propagation.rfc.option import Option
from shardwright.rules.loops import loops
from shardwright.rules.overrides import overrides_of
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["INTERFACE", "has_own_layouts", "layouts_by", "origin_of_own", "own_option"]

INTERFACE = "sharding_interface"
"""What users call what they registered an op with."""


def own_option(
    signature: Signature,
    rule: ShardingRule,
    mesh: Mesh,
    annotations: Sequence[TensorSharding | None],
    location: Callable[[], str],
) -> Option:
    """The option that an op's own method gives it.

    Arguments:
        signature: The op.
        rule: Its rule.
        mesh: The mesh of the function.
        annotations: For each operand, then for each result, what is said of it.
        location: Gives `FILE:LINE` of the op.

    Raises:
        ShardingError: the method fails, or gives what is no option of the op.
    """
    try:
        split = interface_of(signature).sharding_option(annotations)
    except ShardingError as error:
        raise error.at(signature.label, location()) from None
    unknown = next((axis for axes in split for axis in axes if axis.name not in mesh.sizes), None)
    if unknown is not None:
        raise ShardingError(
            f"the sharding_option that was given for the op names the axis {unknown.name!r}",
            op=signature.label,
            location=location(),
            cause=f"the mesh has the axes {', '.join(mesh.sizes)}",
            remedy="take axes of the mesh of the annotations that it is given, or of the program",
        )
    return dict(zip(loops(rule), split, strict=True))


def has_own_layouts(signature: Signature) -> bool:
    """Whether a method of the op's own says how its tensors lie."""
    return overrides_of(signature.label).sharding_annotations is not None


def origin_of_own(op: Op, layout: TensorSharding, target: str) -> Origin:
    """What follows of a tensor from a method of the op's own: each dimension is what that says."""
    axes = layout.axes
    return Origin(
        Decision("step", op, dict(enumerate(axes)), {}, INTERFACE), target, tuple((dim,) for dim in range(len(axes)))
    )


def layouts_by(
    signature: Signature, rule: ShardingRule, option: Option, mesh: Mesh, location: Callable[[], str]
) -> tuple[TensorSharding, ...]:
    """How the operands, then the results, of an op lie that is split by an option.

    Raises:
        ShardingError: a method of the op's own fails, or gives what does not fit.
    """
    if has_own_layouts(signature):
        split = [option.get(factor, ()) for factor in loops(rule)]
        try:
            return interface_of(signature).sharding_annotations(split, mesh)
        except ShardingError as error:
            raise error.at(signature.label, location()) from None
    operands = [shaped(mapping, option, rule, mesh) for mapping in rule.operands]
    results = [made_partial(shaped(mapping, option, rule, mesh), option, rule, signature) for mapping in rule.results]
    return (*operands, *results)
