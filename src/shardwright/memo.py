"""Memoized decisions and interned values, owned by a session.

Every decision of the compiler is a pure function over frozen values. `memoize` remembers its answers in the *current*
session; a new session starts empty, so a benchmark measures cold work and a long-lived process can drop what it holds.

    with Session():
        program = load("step.mlir")    # all caches start empty and are dropped at the end
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import fields
from functools import cached_property, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

__all__ = ["Hashed", "Session", "current_session", "forget_everywhere", "memoize", "once", "uncollected"]

P = ParamSpec("P")
R = TypeVar("R")

_LIMIT = 1 << 17
_MISSING = object()
_put = dict.__setitem__


_sessions: WeakSet[Session] = WeakSet()


class _Tables(dict[str, "_Table"]):
    """Tables by name, each made when first asked for, and bounded."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __missing__(self, name: str) -> _Table:
        table = self[name] = _Table(self.limit)
        return table


class _Table(dict[Any, Any]):
    """At `limit` entries it is emptied before the next one."""

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self.limit:
            self.clear()
        super().__setitem__(key, value)


class Session:
    """Owner of all memo tables. Each table is bounded: at `limit` entries it is emptied and refilled.

    Attributes:
        limit: Entries of a table.
        hardware: What decisions are priced for, as `sw.hardware("h100")`; a TPU v5p where it is `None`.
        tables: Every table by name.
    """

    def __init__(self, limit: int = _LIMIT, hardware: object = None) -> None:
        """Make a session with empty tables."""
        self.limit = limit
        self.hardware = hardware
        self.tables = _Tables(limit)
        self._tokens: list[Token[Session]] = []
        _sessions.add(self)

    def on(self, hardware: object) -> Session:
        """A session for another hardware that remembers what this one does."""
        other = Session(self.limit, hardware)
        other.tables = self.tables
        return other

    def table(self, name: str) -> dict[Any, Any]:
        """The memo table called `name`, made when first asked for. What it is given by `[…] =` alone is counted."""
        return self.tables[name]

    def clear(self) -> None:
        """Forget every remembered answer."""
        for table in self.tables.values():
            table.clear()

    def __enter__(self) -> Session:
        """Make this the current session."""
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        """Make the session before this one current again."""
        _current.reset(self._tokens.pop())


class Hashed:
    """Base of frozen dataclasses (`eq=False`) that are dictionary keys everywhere: the hash is computed once.

    That is when it is first asked for, which it never is of many. Compared by the values of all fields; unequal hashes
    settle most comparisons. What was found equal once shares the values from then on, so that the next comparison is
    one of identities.
    """

    _key: tuple[Any, ...]
    _hash: int

    def __eq__(self, other: object) -> bool:
        """Equal by value."""
        if self is other:
            return True
        if type(other) is not type(self):
            return False
        try:
            differ = self._hash != other._hash
        except AttributeError:
            differ = hash(self) != hash(other)
        if differ or self._key is other._key:
            return not differ
        if self._key != other._key:
            return False
        object.__setattr__(other, "_key", self._key)
        return True

    def __hash__(self) -> int:
        """The hash of the values of all fields."""
        try:
            return self._hash
        except AttributeError:
            return self._hashed()

    def _hashed(self) -> int:
        """Compute key and hash."""
        cls = type(self)
        key = (_values_of.get(cls) or _remember_fields(cls))(self)
        hashed = hash(key)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", hashed)
        return hashed

    def __getstate__(self) -> tuple[Any, ...]:
        """The values of all fields: hashes are those of this process."""
        return tuple(getattr(self, field.name) for field in fields(cast(Any, self)))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take the values of all fields."""
        for field, value in zip(fields(cast(Any, self)), state, strict=True):
            object.__setattr__(self, field.name, value)


_values_of: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""Class → the values of all fields of one of its objects."""


def _remember_fields(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    names = [field.name for field in fields(cls)]
    get = attrgetter(*names)
    values = _values_of[cls] = get if len(names) > 1 else lambda object: (get(object),)
    return values


_current: ContextVar[Session] = ContextVar("shardwright_session")
_default = Session()


def current_session() -> Session:
    """The session in force: the innermost `with Session()`, or the process-wide default."""
    return _current.get(_default)


def forget_everywhere() -> None:
    """Clear all sessions: what answers were made of has changed."""
    for session in list(_sessions):
        session.clear()


def memoize(function: Callable[P, R]) -> Callable[P, R]:
    """Remember the answers of a pure function of hashable positional arguments in the current session."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            return function(*args, **kwargs)
        table = _current.get(_default).tables[name]
        answer: R = table.get(args, _MISSING)
        if answer is _MISSING:
            answer = function(*args, **kwargs)
            if len(table) >= table.limit:
                table.clear()
            _put(table, args, answer)  # what `_Table` does, without a call of Python's: most of a first run are misses
        return answer

    return remembered


if TYPE_CHECKING:
    once = cached_property
else:

    class once(cached_property):
        """A property that is computed when it is first asked for: without the lock that Python 3.11 takes for it."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """The value, which from now on is an attribute of the object."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """Pause Python's cycle collector while `function` runs.

    A stage makes hundreds of thousands of small objects that all live to its end; looking through them for garbage
    again and again took a quarter of the time of a 22,000-op program.
    """

    @wraps(function)
    def paused(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return paused
