"""Sharding rules in one line: the dimensions of every operand and result by name.

    b i k, b k j -> b i j       a batched matrix product
    (h d), d -> h               a dimension of two factors, major first
    i _ -> i _                  dimensions that correspond to nothing

A name is a factor; it stands at most once in a tensor, and dimensions of the same name have one size. Factors that
no result has are summed over. A scalar is nothing: `i j, -> i j`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.scanner import Scanner
from shardwright.words import counted

__all__ = ["Einsum", "parse_einsum"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

_Dim = tuple[str, ...]
"""The factors of a dimension, major to minor; none for one that corresponds to nothing."""

_Tensor = tuple[_Dim, ...]


@dataclass(frozen=True, slots=True)
class Einsum:
    """A rule whose sizes are not known yet.

    Attributes:
        text: As it was written.
        operands: The dimensions of every operand; one scalar may also be no operand at all.
        results: And of every result.
        reduction: Factors whose parts are summed.
        need_replication: Factors that the op cannot be computed in parts of.
        permutation: Factors that need data of neighbouring shards.
        blocked: Factors along which propagation must not flow.
        local: Factors that parts can be computed along, where nothing else shows it.
    """

    text: str
    operands: tuple[_Tensor, ...]
    results: tuple[_Tensor, ...]
    reduction: frozenset[str]
    need_replication: frozenset[str]
    permutation: frozenset[str]
    blocked: frozenset[str]
    local: frozenset[str]

    @property
    def factors(self) -> tuple[str, ...]:
        """The names: those of results in order, then the others."""
        return _names((*self.results, *self.operands))

    def rule(self, signature: Signature) -> ShardingRule:
        """The rule of an op.

        Raises:
            ShardingError: it has other operands, results, ranks or sizes than the text says.
        """
        operands = self._of(self.operands, signature.operands, "operand", signature)
        results = self._of(self.results, signature.results, "result", signature)
        pairs = [
            (dim, size, f"dimension {number} of {what}")
            for what, tensor, type in (*operands, *results)
            for number, (dim, size) in enumerate(zip(tensor, type.dims, strict=True))
        ]
        sizes = self._sizes(pairs, signature)
        numbers = {name: number for number, name in enumerate(self.factors)}
        known = [sizes[name] for name in self.factors]

        def mapping(tensor: _Tensor) -> TensorMapping:
            dims = []
            for dim in tensor:
                if not dim:
                    known.append(1)
                dims.append(tuple(numbers[name] for name in dim) if dim else (len(known) - 1,))
            return tuple(dims)

        def those(names: frozenset[str]) -> frozenset[int]:
            return frozenset(numbers[name] for name in names)

        left = tuple(mapping(tensor) for _, tensor, _ in operands)
        right = tuple(mapping(tensor) for _, tensor, _ in results)
        return ShardingRule(
            tuple(known),
            left,
            right,
            reduction=those(self.reduction),
            need_replication=those(self.need_replication),
            permutation=those(self.permutation),
            blocked=those(self.blocked),
            custom=True,
            local=those(self.local),
        )

    def _of(
        self, tensors: tuple[_Tensor, ...], types: tuple[TensorType, ...], what: str, signature: Signature
    ) -> list[tuple[str, _Tensor, TensorType]]:
        """Every tensor of one side with its name and its type."""
        if tensors == ((),) and not types:
            return []
        if len(tensors) != len(types):
            self._unfit(signature, f"the rule has {len(tensors)} {what}s, the op {len(types)}")
        for number, (tensor, type) in enumerate(zip(tensors, types, strict=True)):
            if len(tensor) != type.rank:
                problem = f"the rule has {counted(len(tensor), 'dimension')} for {what} {number}"
                self._unfit(signature, f"{problem}, its type is {type}")
        return [(f"{what} {number}", *pair) for number, pair in enumerate(zip(tensors, types, strict=True))]

    def _sizes(self, pairs: list[tuple[_Dim, int, str]], signature: Signature) -> dict[str, int]:
        """The size of every factor: first those that are a dimension, then what is left in a dimension of several."""
        sizes: dict[str, int] = {}
        pending = [pair for pair in pairs if pair[0]]
        while pending:
            rest = []
            for dim, size, where in pending:
                unknown = [name for name in dim if name not in sizes]
                known = math.prod(sizes[name] for name in dim if name in sizes)
                if len(unknown) > 1:
                    rest.append((dim, size, where))
                elif not unknown and known != size:
                    self._unfit(signature, f"{' × '.join(dim)} is {known}, {where} has {size} elements")
                elif unknown and (known == 0 or size % known):
                    self._unfit(signature, f"{where} has {size} elements, which {known} does not divide")
                elif unknown:
                    sizes[unknown[0]] = size // known
            if len(rest) == len(pending):
                self._unfit(signature, f"the sizes of {', '.join(rest[0][0])} do not follow from the types")
            pending = rest
        return sizes

    def _unfit(self, signature: Signature, cause: str) -> NoReturn:
        raise ShardingError(
            f"the rule {self.text!r} does not fit the op",
            op=signature.label,
            cause=cause,
            remedy="name every dimension of every operand and result of the op in its rule",
        )


def parse_einsum(
    text: str,
    *,
    reduction: bool = True,
    need_replication: str | Iterable[str] = (),
    permutation: str | Iterable[str] = (),
    blocked: str | Iterable[str] = (),
    local: str | Iterable[str] = (),
) -> Einsum:
    """Read a rule.

    Arguments:
        text: As above.
        reduction: Whether factors that no result has are summed over; they need to be whole otherwise.
        need_replication: Names of factors that the op cannot be computed in parts of, also as text: `"k d"`.
        permutation: Names of factors that need data of neighbouring shards.
        blocked: Names of factors along which propagation must not flow.
        local: Names of factors that parts can be computed along, where nothing else shows it.

    Raises:
        ShardingError: not text, or malformed text, at its column; a factor twice in one tensor; a name that is no
            factor, or one said to be of two kinds.
    """
    if not isinstance(text, str):
        _refuse(repr(text), "no text", "a rule is one line")
    operands, results = _EinsumParser(text).sides()
    inner = frozenset(_names(operands)) - frozenset(_names(results))
    names = frozenset(_names((*operands, *results)))
    whole = _factors(text, names, "need_replication", need_replication)
    shifted = _factors(text, names, "permutation", permutation)
    still = _factors(text, names, "blocked", blocked)
    parts = _factors(text, names, "local", local)
    if not isinstance(reduction, bool):
        _refuse(text, f"reduction is {reduction!r}, not True or False", "factors that no result has are summed, or not")
    if whole & shifted:
        _refuse(text, f"{min(whole & shifted)!r} is in need_replication and in permutation", "a factor is of one kind")
    summed = inner - whole - shifted
    if not reduction:
        whole |= summed
    if parts & (whole | shifted):
        _refuse(text, f"{min(parts & (whole | shifted))!r} is local and not", "what is local needs no data of others")
    return Einsum(text, operands, results, summed if reduction else frozenset(), whole, shifted, still, parts)


def _factors(text: str, names: frozenset[str], what: str, given: str | Iterable[str]) -> frozenset[str]:
    """The factors that an argument names."""
    if not isinstance(given, Iterable):
        _refuse(text, f"{what} is {given!r}, not names", f"its factors: {_listed(names)}")
    named = frozenset(given.split() if isinstance(given, str) else given)
    if named - names:
        wrong = min(map(repr, named - names))
        _refuse(text, f"{what} names {wrong}, which is no factor", f"its factors: {_listed(names)}")
    return named


def _names(tensors: tuple[_Tensor, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for tensor in tensors for dim in tensor for name in dim))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _refuse(text: str, message: str, cause: str) -> NoReturn:
    raise ShardingError(
        f"not a sharding rule: {text[:200]!r}: {message}",
        cause=cause,
        remedy="name the dimensions of operands and results: 'b i k, b k j -> b i j'",
    )


class _EinsumParser(Scanner):
    """Reads the text of a rule, and knows the column."""

    TOKEN = re.compile(r"\s*(->|[A-Za-z][A-Za-z0-9_]*|\S)")

    def refuse(self, cause: str, remedy: str = "") -> NoReturn:
        _refuse(self.text, f"column {self.column()}", f"{cause}, got {self.peek() or 'the end'!r}")

    def sides(self) -> tuple[tuple[_Tensor, ...], tuple[_Tensor, ...]]:
        operands = self._side()
        if not self.accept("->"):
            self.refuse("expected ->")
        results = self._side()
        if self.peek():
            self.refuse("expected the end")
        return operands, results

    def _side(self) -> tuple[_Tensor, ...]:
        tensors = [self._tensor()]
        while self.accept(","):
            tensors.append(self._tensor())
        return tuple(tensors)

    def _tensor(self) -> _Tensor:
        dims: list[_Dim] = []
        seen: set[str] = set()
        while self.peek() not in (",", "->", ""):
            dims.append(self._dim(seen))
        return tuple(dims)

    def _dim(self, seen: set[str]) -> _Dim:
        if self.accept("_"):
            return ()
        if not self.accept("("):
            return (self._factor(seen),)
        factors = [self._factor(seen)]
        while not self.accept(")"):
            factors.append(self._factor(seen))
        return tuple(factors)

    def _factor(self, seen: set[str]) -> str:
        name = self.peek()
        if not _NAME.fullmatch(name):
            self.refuse("expected the name of a factor")
        if name in seen:
            _refuse(self.text, f"column {self.column()}", f"{name!r} stands twice in one tensor")
        seen.add(name)
        return self.take()
