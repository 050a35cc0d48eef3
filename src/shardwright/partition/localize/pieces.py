"""The ops of one device that single explicit ops become, written once for all programs in which they stand.

Each value has the number that it has in explicit programs. What devices compute of their place, an index along axes
say, is written where a program first needs it: pieces name what they need, and where, and `LocalPieces.program` fills
it in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from shardwright.axes import Axes
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import RETURNS, STEPS
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.program import Localizer
from shardwright.sharding import replicated
from shardwright.steps import ShardedToUnreduced, ToUnreduced

__all__ = ["CannotGoOn", "LocalOps", "LocalPieces"]


_ALIKE = STEPS.keys() - {name for name, step in STEPS.items() if step in (ToUnreduced, ShardedToUnreduced)}
"""Collectives that look at nothing but how their tensors lie: others ask whether what they read is a constant."""


class CannotGoOn(Exception):
    """What an op becomes is not known by itself, so the program has to be partitioned as a whole."""


class _Need(Op):
    """Stands where something is needed that devices compute of their place."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        super().__init__(Signature("", (), (), ()), (), ())
        self.key = key


LocalOps = tuple[Op, ...]
"""The ops of one device, and what they need before them."""


class _Shared(Local):
    """Writes pieces; what devices compute of their place is written apart, and named where it is needed."""

    def __init__(self, graph: Graph, mesh: Mesh) -> None:
        super().__init__(graph, [])
        self.mesh = mesh
        self.needed: dict[Hashable, tuple[int, LocalOps]] = {}

    def position(self, mesh: Mesh | None = None) -> int:
        """See `Local.position`."""
        return self._need(("position", (mesh or self.mesh).device_ids), lambda: Local.position(self, mesh))

    def axis_index(self, axes: Axes, mesh: Mesh | None = None) -> int:
        """See `Local.axis_index`."""
        return self._need(("index", mesh or self.mesh, axes), lambda: Local.axis_index(self, axes, mesh))

    def is_first(self, axes: Axes, mesh: Mesh | None = None) -> int:
        """See `Local.is_first`."""
        return self._need(("first", mesh or self.mesh, axes), lambda: Local.is_first(self, axes, mesh))

    def _need(self, key: Hashable, compute: Callable[[], int]) -> int:
        if key not in self.needed:
            outer, self.ops = self.ops, []
            value = compute()
            self.needed[key] = value, tuple(self.ops)
            self.ops = outer
        self.ops.append(_Need(key))
        return self.needed[key][0]


class LocalPieces:
    """Writes the ops of one device for single explicit ops.

    Attributes:
        graph: Types of values. It has no ops.
    """

    def __init__(self, explicit: Graph) -> None:
        """Write for explicit ops whose values are those of `explicit`, which may come to be later."""
        self.explicit = explicit
        self.localizer = Localizer(explicit)
        self.localizer.begin()
        self.graph = self.localizer.target
        self.ctx = _Shared(self.graph, explicit.mesh)
        self._forms: dict[tuple[int, ...], tuple[Op, Signature | None]] = {}
        self._alike: dict[tuple[int, ...], tuple[Op, LocalOps]] = {}

    def grow(self) -> None:
        """Know of values that have come to the explicit programs."""
        types, shardings = self.explicit.types, self.explicit.shardings
        for value in range(len(self.graph.types), len(types)):
            layout = shardings[value] or replicated(self.explicit.mesh, 0)
            self.graph.new_value(local_type(types[value], layout))
            self.localizer.values[value] = value

    def of(self, op: Op) -> LocalOps:
        """What an explicit op without regions becomes.

        Raises:
            ShardingError: it cannot be computed in these parts.
            CannotGoOn: it hands on what it reads.
        """
        shardings = self.explicit.shardings
        key = id(op.signature), *[id(shardings[value]) for value in op.operands + op.results]
        if key not in self._forms:
            self._forms[key] = op, self.localizer.form(op)
        form = self._forms[key][1]
        if form is not None:
            if form.name == "stablehlo.constant":
                self.ctx.constants[op.results[0]] = form.text("value") or ""
            return (Op(form, op.operands, op.results, (), op.location),)
        if op.signature.name not in _ALIKE:
            return self._written(op)
        if key not in self._alike:
            self._alike[key] = op, self._written(op)
        like, ops = self._alike[key]
        return ops if like is op else self._as(like, ops, op)

    def _as(self, like: Op, ops: LocalOps, op: Op) -> LocalOps:
        """What an op becomes that lies as another one does of which that is known: the same, on values of its own."""
        names = dict(zip(like.operands + like.results, op.operands + op.results, strict=True))
        made = [value for one in ops for value in one.results if value not in names]
        names.update(zip(made, self.graph.new_values([self.graph.types[value] for value in made]), strict=True))
        self._leave_out()
        return tuple([one if isinstance(one, _Need) else _renamed(one, names) for one in ops])

    def _written(self, op: Op) -> LocalOps:
        self.ctx.ops = []
        self.ctx.location = op.location
        try:
            self.localizer.op(op, self.ctx)
        finally:
            self._leave_out()
        made, names = self.ctx.ops, self._names(op)
        return tuple([one if isinstance(one, _Need) else _renamed(one, names) for one in made] if names else made)

    def _names(self, op: Op) -> dict[int, int]:
        """The values that were made for the results of an op, and the numbers that these have."""
        if op.signature.name in RETURNS:
            return {}
        values = self.localizer.values
        names = {values[result]: result for result in op.results}
        made = {value for one in self.ctx.ops for value in one.results}
        if len(names) != len(op.results) or not names.keys() <= made:
            raise CannotGoOn
        for value, result in names.items():
            values[result] = result
            if value in self.ctx.constants:
                self.ctx.constants[result] = self.ctx.constants[value]
        return names

    def _leave_out(self) -> None:
        """Leave out the numbers in explicit programs that values of one device have taken."""
        for value in range(len(self.explicit.types), len(self.graph.types)):
            self.explicit.new_value(self.graph.types[value])

    @staticmethod
    def is_need(op: Op) -> bool:
        """Whether something stands there that a program needs, and no op."""
        return isinstance(op, _Need)

    def program(self, pieces: Iterable[LocalOps], there: set[Hashable]) -> list[Op]:
        """The ops of one device, what they need of its place written where it is first needed.

        Arguments:
            pieces: The ops, and what they need.
            there: What is written before them; gets what is written now.
        """
        ops: list[Op] = []
        for piece in pieces:
            self._write(piece, ops, there)
        return ops

    def _write(self, piece: LocalOps, ops: list[Op], there: set[Hashable]) -> None:
        for op in piece:
            if not isinstance(op, _Need):
                ops.append(op)
            elif op.key not in there:
                there.add(op.key)
                self._write(self.ctx.needed[op.key][1], ops, there)


def _renamed(op: Op, names: dict[int, int]) -> Op:
    operands, results = (tuple([names.get(value, value) for value in some]) for some in (op.operands, op.results))
    return Op(op.signature, operands, results, op.regions, op.location)
