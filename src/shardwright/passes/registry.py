"""Passes by name. A pass file declares its passes with `register`; `shardwright.passes.all` imports all of ours.

    @register("sdy-close-shardings", "Closes the dimensions of all shardings and drops their replicated axes.")
    def close_shardings(module: ir.Module, options: Options) -> None: ...

Source for names and options: the passes of OpenXLA's Shardy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir

__all__ = ["Apply", "Option", "Options", "Pass", "Pipeline", "pass_named", "passes", "register", "register_pipeline"]

Options = Mapping[str, Any]
"""Values of a pass's options by name, defaults filled in."""

Apply = Callable[[ir.Module, Options], None]
"""Changes a module in place. Raises `ShardingError` with op and location for what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a pass.

    Attributes:
        name: As it is written: `keep-sharding-rules`.
        default: Its value where unsaid; says the kind too: a bool, an int or a string.
        doc: What it does.
        choices: The strings allowed, where few are.
        is_list: Whether the string is a list, with commas.
    """

    name: str
    default: bool | int | str
    doc: str
    choices: tuple[str, ...] = ()
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: its name and options, what it does, and the function that does it.

    `on` is the op it is nested on in a textual pipeline: `builtin.module` or `func.func`. `apply` is always given the
    whole module.
    """

    name: str
    doc: str
    apply: Apply
    options: tuple[Option, ...] = ()
    on: str = "builtin.module"

    def defaults(self) -> dict[str, Any]:
        """Every option at its default."""
        return {option.name: option.default for option in self.options}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named sequence of passes; `expand` gives them for the pipeline's own options."""

    name: str
    doc: str
    expand: Callable[[Options], tuple[tuple[str, Options], ...]]
    options: tuple[Option, ...] = ()


_passes: dict[str, Pass | Pipeline] = {}


def register(
    name: str, doc: str, *, options: tuple[Option, ...] = (), on: str = "builtin.module"
) -> Callable[[Apply], Apply]:
    """Make the decorated function known as the pass called `name`."""

    def decorate(apply: Apply) -> Apply:
        _passes[name] = Pass(name, doc, apply, options, on)
        return apply

    return decorate


def register_pipeline(pipeline: Pipeline) -> Pipeline:
    """Make a pipeline known."""
    _passes[pipeline.name] = pipeline
    return pipeline


def passes() -> tuple[Pass | Pipeline, ...]:
    """All passes and pipelines, by name."""
    return tuple(_passes[name] for name in sorted(_passes))


def pass_named(name: str) -> Pass | Pipeline:
    """The pass or pipeline called `name`.

    Raises:
        ShardingError: there is none.
    """
    if name not in _passes:
        raise ShardingError(f"unknown pass {name!r}", remedy="see shardwright-opt --help for those there are")
    return _passes[name]
