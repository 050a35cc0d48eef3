"""What the verifier of sdy and its parser say, and why it is so and what to change: patterns of their messages.

Source: the sdy dialect reference (the constraints of each attribute and op).
"""

from __future__ import annotations

import re

__all__ = ["reason_of"]

_ONCE = ("an axis splits, replicates or awaits reduction once in a sharding", "take it out of all places but one")
_PARTS = (
    "a part (pre)size of an axis lies below `pre` of its major-most parts and is `size` wide",
    "give a pre-size of at least 1 and a size of at least 2, with pre-size times size dividing the axis",
)
_ORDER = ("they are a set, which is written in the order of the mesh", "write them in the order of the mesh's axes")
_BODY = (
    "the body is local to the manual axes: each operand and result, cut along them, is one of its values",
    "make the shapes inside those outside, divided by the manual axes of each dimension",
)
_COLLECTIVE = (
    "a collective states what it does and the sharding that comes of it, and the two differ",
    "make out_sharding the operand's sharding as the axes given change it",
)
_FACTORS = ("a rule names the factors of every dimension of every operand and result", "name as many as the op has")
_SPECIAL = (
    "the special factors of a rule are listed in the order of their symbols, each once, in one of the lists",
    "sort the list, and take out what it has twice or has no size",
)
_FACTOR = (
    "a factor is one loop of the op: it has a size, and runs over one dimension of a tensor",
    "give the rule a factor for each loop, with its size in the order of the symbols",
)
_MESH = ("a mesh gives every axis a name and a size, and every device one place", "correct the mesh")
_EDGE = (
    "an edge stands for a value that control flow or a computation carries, and all readers read the edge",
    "take the op out: propagation adds the edges it needs",
)

_REASONS: tuple[tuple[str, tuple[str, str]], ...] = (
    (r"both sub-axis and full-axis|overlapping sub-axes", _ONCE),
    (r"two consecutive sub-axes", ("one part says the same", "write them as one part, or as the axis")),
    (r"sub-axis ", _PARTS),
    (r"(?:replicated|unreduced) axes are not ordered", _ORDER),
    (r"dim \d+ is empty and closed", ("there are no axes that the priority could be of", "leave the priority out")),
    (
        r"a (?:maximal|single-device) sharding",
        ("a mesh of one device splits nothing", "give the sharding no dimensions: []"),
    ),
    (r"non-shaped tensors", ("what has no dimensions is not split", "give it no dimensions and no axes: []")),
    (r"only ranked tensors", ("a sharding has an entry per dimension", "give the tensor a rank")),
    (r"ops can only have a sharding for a tuple", ("a sharding is of one tensor", "pass the tensors one by one")),
    (
        r"should have a sharding attribute of type TensorShardingAttr",
        ("it is one value", "write #sdy.sharding<@m, […]>"),
    ),
    (
        r"should have a sharding attribute of type TensorShardingPerValue",
        ("an op has one sharding for each result", "write #sdy.sharding_per_value<[<@m, […]>]>"),
    ),
    (
        r"(?:\w+ )?shardings don't match number of values",
        ("there is one sharding for each value", "give as many as there are values"),
    ),
    (r"unknown manual axis", ("manual axes are axes of the mesh of its shardings", "name axes of that mesh")),
    (
        r"operates on axis .* already bound",
        ("inside a manual computation its axes are gone: values are local to them", "leave the axis out"),
    ),
    (
        r".*must have all manual axes come before free axes",
        ("manual axes cut first", "write them first in the dimension"),
    ),
    (r".*dimension size .* is not divisible by the manual axes", ("manual axes do not pad", "pad the tensor before")),
    (r"(?:operand|result) shape, corresponding sharding|number of op", _BODY),
    (r"all in and out shardings must be bound to the same mesh", ("the body runs on one mesh", "use one mesh in all")),
    (r"expected (?:input|sdy\.data_flow_edge|operand of sdy)", _EDGE),
    (r"cannot specify `BOTH`", ("a barrier that lets both directions pass is none", "take it out, or block one")),
    (
        r"collective on operand without sharding",
        ("what it does is said in terms of the operand's sharding", "give the operand's definition a sharding"),
    ),
    (r"result (?:sharding|mesh)|can't apply|sharded size of|operand and result sharding|reduction axis", _COLLECTIVE),
    (r"parameter list is empty", ("it moves no axis", 'take it out, or say what it moves: [{"x"}: 0->1]')),
    (r"(?:source|target) dimension|overlapping source/target|source dimensions", _COLLECTIVE),
    (r"number of (?:operands|results) and mappings|number of (?:operand|result)s mappings", _FACTORS),
    (r"(?:operand|result)(?: \d+)? - mapping rank|mapping rank", _FACTORS),
    (r"indices of special factors|index must be|a factor can only be in one", _SPECIAL),
    (r".*(?:factor|dim mapping)", _FACTOR),
    (r".*propagation edges|expected axis ref", ("the attribute tells of a propagation that was", "take it out")),
    (r"should have a sharding rule attribute", ("it is read as a rule", "write #sdy.op_sharding_rule<…>")),
    (r"custom op 'sdy\.mesh'|redefinition of symbol", _MESH),
    (r"expects parent op", ("the op belongs to the module, or to the body of another op", "move it there")),
    (
        r"(?:priorities|expecting (?:integer )?priority)",
        ("priorities are p0, p1, …, the lower the earlier", "write one so"),
    ),
    (r"expecting symbol", ("factors are i, j, …, z, z_1, z_2, …", "name them so")),
    (
        r"using value defined outside|use of undeclared SSA value",
        ("a body reads its own arguments and what is defined before", "pass the value as an operand"),
    ),
    (
        r"expects regions to end with|must be the last operation",
        ("the body of an sdy computation ends with sdy.return, a function with func.return", "end it so"),
    ),
    (
        r"requires the same type|inferred type|.*invalid kind of type|expected the type of|.*type mismatch",
        ("the op leaves types as they are, and a call passes those of its function", "make the types agree"),
    ),
    (
        r".*does not reference a valid function",
        ("the module defines no such function", "define it, or correct the name"),
    ),
    (
        r".*allowed_direction",
        ("a barrier says which way axes flow", "write allowed_direction=FORWARD, BACKWARD or NONE"),
    ),
    (r".*'group_id'|integer constant out of range", ("a group has a number of 64 bits", "write group_id=0")),
    (r"unregistered operation", ("the dialect has no op of this name", "correct the name")),
)


def reason_of(message: str) -> tuple[str, str]:
    """Why a message of the verifier or of the parser is so, and what to change; empty texts where it is not known."""
    return next((reason for pattern, reason in _REASONS if re.match(pattern, message, re.DOTALL)), ("", ""))
