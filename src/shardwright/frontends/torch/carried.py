"""What a module keeps from one call to the next by assigning it: tensors in the place of its buffers, and nothing else.

torch.export sees what is written to a tensor. Where a module puts another one in its place, only its attributes know of
that, and torch.export takes these back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from shardwright.errors import ShardingError
from shardwright.frontends.torch.arguments import PLAIN, described
from shardwright.frontends.torch.places import place_of_forward

__all__ = ["Carried"]

_BUFFERS, _NAMED = "_buffers", ("_buffers", "_parameters", "_modules")
_DEPTH = 2
"""Attributes of a module, and what is in lists and dictionaries among them."""
_BUFFER = "make it a tensor and a buffer, by self.register_buffer, or an argument and a result"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value in an attribute, with the memory behind it if it is a tensor."""

    value: Any
    memory: int | None

    def is_same(self, other: _Kept) -> bool:
        """Whether nothing was put in its place, or for a plain value an equal one."""
        if self.value is other.value:
            return self.memory == other.memory
        is_plain = isinstance(self.value, PLAIN) and type(self.value) is type(other.value)
        return is_plain and bool(self.value == other.value)


_Key = tuple[Any, ...]
_Entries = dict[tuple[Any, _Key], _Kept]
"""By module, and by the attribute and the place in it."""


class Carried:
    """The attributes of a module and of its parts, as they are before a call."""

    def __init__(self, module: Any, name: str) -> None:
        """Remember them.

        Arguments:
            module: The module.
            name: What it is called in diagnostics.
        """
        self._name = name
        self._paths = {part: path for path, part in module.named_modules()}
        self._attributes = {part: {key: _copied(value) for key, value in vars(part).items()} for part in self._paths}
        self._before = self._entries()
        self._replaced: dict[tuple[Any, _Key], str] = {}

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Give the module back the attributes that it had, when this is left."""
        try:
            yield
        finally:
            for part, attributes in self._attributes.items():
                vars(part).clear()
                for key, (value, copy) in attributes.items():
                    if copy is not None:
                        value.clear()
                        (value.extend if isinstance(value, list) else value.update)(copy)
                    vars(part)[key] = value

    def assigned(self) -> dict[str, Any]:
        """The buffers in whose place the call put another tensor, by name, and that tensor.

        Raises:
            ShardingError: another attribute was changed, or a buffer to what is not like it.
        """
        after = self._entries()
        changed = [
            where
            for where in {**self._before, **after}
            if not self._is_kept(where, self._before.get(where), after.get(where))
        ]
        for where in changed:
            self._check(where, self._before.get(where), after.get(where))
        buffers = [where for where in changed if where not in self._replaced]
        self._check_alone(buffers, after)
        return {self._text(where): after[where].value.detach().clone() for where in buffers}

    def check_unread(self, constants: Sequence[Any]) -> None:
        """That of tensors in plain attributes those that were replaced were not read before: others are made anew.

        Arguments:
            constants: The tensors that the call read and that are no parameters or buffers.

        Raises:
            ShardingError: one was.
        """
        read = {_memory(constant) for constant in constants}
        for where, cause in self._replaced.items():
            if self._before[where].memory in read:
                raise self._refused(where, cause, _BUFFER)

    def _entries(self) -> _Entries:
        return {(part, key): kept for part in self._paths for key, kept in _found(vars(part), ())}

    def _is_kept(self, where: tuple[Any, _Key], before: _Kept | None, after: _Kept | None) -> bool:
        """Whether an entry is as it was, or a mark that the first call leaves: that something has been prepared."""
        if before is None:
            return after is not None and where[1][0] not in _NAMED and isinstance(after.value, (bool, str))
        return after is not None and before.is_same(after)

    def _check(self, where: tuple[Any, _Key], before: _Kept | None, after: _Kept | None) -> None:
        """That what was changed is a buffer, and like what it was, or another tensor, of which we shall see."""
        old, new = (None if kept is None else kept.value for kept in (before, after))
        was, is_now = ("missing" if kept is None else described(kept.value) for kept in (before, after))
        is_buffer = where[1][0] == _BUFFERS
        if old is new:
            cause = "its data was replaced, which torch.export does not see"
            raise self._refused(where, cause, "let it be a buffer, and write to itself: self.{0}.copy_(…)")
        if is_buffer and isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and was == is_now:
            return
        if is_buffer:
            cause = f"it was {was} and is {is_now}, where a buffer keeps its shape and element type"
            raise self._refused(where, cause, "register it as it is after a call, and assign what is like it")
        cause = f"it was {was} and is {'another one' if was == is_now else is_now}: only buffers are kept between calls"
        if where[1][0] in _NAMED or not (isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)):
            raise self._refused(
                where, cause, f"{_BUFFER}; if the first call alone changes it, call the module once before"
            )
        self._replaced[where] = cause

    def _check_alone(self, changed: Sequence[tuple[Any, _Key]], after: _Entries) -> None:
        """That no other attribute is the tensor that an assigned buffer was, or shares memory with what it is now."""
        was = Counter(id(kept.value) for kept in self._before.values())
        shared = Counter(kept.memory for kept in after.values())
        for where in changed:
            memory = after[where].memory
            if was[id(self._before[where].value)] > 1 or (memory is not None and shared[memory] > 1):
                cause = "another attribute is the same tensor, or a view of it, before the call or after it"
                raise self._refused(where, cause, "assign a copy, self.{0} = ….clone(), or write to it in place")

    def _refused(self, where: tuple[Any, _Key], cause: str, remedy: str) -> ShardingError:
        return ShardingError(
            f"a call of {self._name} changes {self._text(where)}, which cannot be carried to the next call",
            location=place_of_forward(where[0]),
            cause=cause,
            remedy=remedy.format(_text(where[1])),
        )

    def _text(self, where: tuple[Any, _Key]) -> str:
        path = self._paths[where[0]]
        return f"{path}.{_text(where[1])}" if path else _text(where[1])


def _text(key: _Key) -> str:
    attribute, *inner = key
    return str(inner[0]) if attribute in _NAMED else "".join([attribute, *(f"[{one!r}]" for one in inner)])


def _found(value: Any, key: _Key) -> Iterator[tuple[_Key, _Kept]]:
    """What is kept in an attribute.

    Functions are not, hooks and wrappers among them; nor are texts in containers, the notes that a module makes of its
    calls.
    """
    if isinstance(value, (dict, list)) and len(key) < _DEPTH:
        for inner, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _found(one, (*key, inner))
    elif not callable(value) and not (isinstance(value, str) and len(key) > 1):
        yield key, _Kept(value, _memory(value))


def _memory(value: Any) -> int | None:
    if isinstance(value, torch.Tensor):
        with suppress(NotImplementedError):  # tensors that have none of their own
            return int(value.untyped_storage()._cdata)
    return None


def _copied(value: Any) -> tuple[Any, Any]:
    """A value, and of a container a copy."""
    return value, value.copy() if type(value) in (list, dict, OrderedDict) else None
