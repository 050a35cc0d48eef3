"""Random command lines over a module in `case.mlir`: every command and pass, with the options that they have."""

from __future__ import annotations

import random
import re

import shardwright.passes.all  # noqa: F401  # makes the passes known
from shardwright.notation.module_notations import module_notation_names
from shardwright.notation.registry import notations
from shardwright.passes.registry import Option, Pass, Pipeline, passes
from shardwright.passes.upstream import is_upstream
from shardwright.propagation import STRATEGY_WORDS
from tests.notation.grammars import GRAMMARS

__all__ = ["FILE", "OUTPUT", "command_line"]

FILE, OUTPUT = "case.mlir", "out.mlir"

_WEIGHTS = {
    "propagate": 16.0,
    "partition": 26.0,
    "explain": 8.0,
    "convert": 13.0,
    "one sharding": 3.0,
    "opt": 33.0,
    "run": 0.4,
    "verify": 0.6,
}
_MESHES = ("x=2", "x=2,y=4", "a=2,b=2,c=2", "data=2,model=2", "x=1", "x=3,y=5", "x=0", "x=4294967296", "é=2", "mesh=2")
_SPECS = ("x", "x,-", "-,x", "y,x", "-", "a,b", "P('x')", "P(None, 'x')", "{x},{y}", "[{'x'}, {}]", "", "x+y", "data,-")
_FLAGS = (
    "-mlir-print-op-generic", "-mlir-print-debuginfo", "-mlir-print-local-scope", "-verify-roundtrip", "-emit-bytecode",
    "-allow-unregistered-dialect", "-split-input-file", "-no-implicit-module", "-mlir-print-ir-after-all",
    "-mlir-print-ir-after-change", "-mlir-timing", "-dump-pass-pipeline", "-verify-each=false",
    "-mlir-use-nameloc-as-prefix", "-mlir-print-debuginfo", "-mlir-pretty-debuginfo",
)  # fmt: skip
_STRINGS = ("", "x", "main", "1.0.0", "a,b", "stablehlo.add", "tensor<8x8xf32>", "canonicalize")


def command_line(text: str, rng: random.Random, kind: str | None = None) -> tuple[str, ...]:
    """A program and its arguments; the file it is given is `FILE`, the one it writes is `OUTPUT`."""
    kind = kind or rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    if kind == "opt":
        return "shardwright-opt", *_opt(rng)
    if kind == "one sharding":
        return "shardwright", *_one_sharding(text, rng)
    arguments = [kind, FILE]
    if kind == "convert":
        arguments += ["--to", rng.choice(module_notation_names())]
    else:
        arguments += _options(rng)
        if "sdy.mesh" not in text and "=[" not in text and rng.random() < 0.5:
            arguments += ["--mesh", "x=2,y=4"]
    if kind == "explain":
        arguments += ["--", _value(text, rng)] if rng.random() < 0.5 else [_plain(_value(text, rng))]
    if kind == "partition":
        arguments += ["--stage", rng.choice(("local", "local", "explicit"))]
    if kind in ("run", "verify"):
        arguments += ["--devices", "16", "--timeout", "4"]  # some programs loop for ever, as their predicate says
    if kind == "run":
        arguments += ["-o", "stages"]
    if kind in ("convert", "propagate", "partition") and rng.random() < 0.4:
        arguments += ["-o", OUTPUT]
    return "shardwright", *arguments


def _options(rng: random.Random) -> list[str]:
    """Those that every command with a program has."""
    arguments: list[str] = []
    if rng.random() < 0.25:
        arguments += ["--strategy", rng.choice(list(STRATEGY_WORDS))]
    if rng.random() < 0.1:
        arguments += ["--conservative"]
    if rng.random() < 0.1:
        arguments += ["--mesh", rng.choice(_MESHES)]
    if rng.random() < 0.15:
        arguments += [f"--arg={rng.choice((0, 0, 1, 'arg0', 'x', '%arg0', 'é'))}={rng.choice(_SPECS)}"]
    if rng.random() < 0.2:
        arguments += ["--json"]
    return arguments


def _value(text: str, rng: random.Random) -> str:
    """What may be asked to be explained."""
    names: list[str] = re.findall(r"%[\w.$-]+(?:#\d+)?", text) or ["%0"]
    kind = rng.randrange(8)
    if kind <= 1:
        return rng.choice(names)
    if kind == 2:
        return rng.choice(names)[1:]
    if kind == 3:
        return f"{FILE}:{rng.randint(0, text.count(chr(10)) + 1)}"
    if kind <= 6:
        return rng.choice(("0", "result 0", "result 1", "arg0", "%0", "%1", "%2", "%arg0", "%0#1"))
    return rng.choice(("", "nothing", f"%{rng.randrange(30)}", ":", "result", "-1", "é", "*"))


def _plain(value: str) -> str:
    return value if not value.startswith("-") else "0"


def _one_sharding(text: str, rng: random.Random) -> list[str]:
    """`show` and `convert` of a sharding that the module has, or of any notation's."""
    shardings = re.findall(r"<@\w+, \[[^\]<>]*\][^<>]*>|\{devices=[^\"{}]*\}", text)
    name = rng.choice(list(GRAMMARS))
    sharding = rng.choice(shardings) if shardings and rng.random() < 0.6 else GRAMMARS[name](rng)
    shape = rng.choice(("8x8", "8", "", "8x16", "7x5", "4x4x4", "0x3", "1099511627776x2", "8x16x4x2"))
    arguments = [rng.choice(("show", "convert")), f"--sharding={sharding}", f"--shape={shape}"]
    if rng.random() < 0.8:
        arguments += [f"--mesh={rng.choice((*_MESHES, 'x=2,y=4', 'x=2,y=4,z=3', 'a=2,b=2,c=2'))}"]
    if arguments[0] == "convert" and rng.random() < 0.5:
        arguments += ["--to", rng.choice([entry.name for entry in notations()])]
    if arguments[0] == "show" and rng.random() < 0.3:
        arguments += ["-o", rng.choice(("-", "tiles.svg"))]
    return [*arguments, *(["--json"] if rng.random() < 0.2 else [])]


def _opt(rng: random.Random) -> list[str]:
    entries = passes()
    weights = [0.35 if isinstance(entry, Pass) and is_upstream(entry.name) else 1.0 for entry in entries]
    chosen = rng.choices(entries, weights, k=rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 4)))
    given = [(entry, _pass_options(entry, rng)) for entry in chosen]
    arguments = [FILE, *rng.sample(_FLAGS, rng.choice((0, 0, 0, 1, 1, 2)))]
    if given and rng.random() < 0.2:
        steps = ",".join(f"{entry.name}{{{options}}}" if options else entry.name for entry, options in given)
        arguments += [f"-pass-pipeline=builtin.module({steps})"]
    else:
        arguments += [f"-{entry.name}={options}" if options else f"-{entry.name}" for entry, options in given]
    return arguments + (["-o", OUTPUT] if rng.random() < 0.4 else [])


def _pass_options(entry: Pass | Pipeline, rng: random.Random) -> str:
    some = [option for option in entry.options if rng.random() < 0.3]
    return " ".join(f"{option.name}={_option_value(option, rng)}" for option in some)


def _option_value(option: Option, rng: random.Random) -> str:
    if isinstance(option.default, bool):
        return rng.choice(("true", "false"))
    if isinstance(option.default, int):
        return str(rng.choice((0, 1, 2, option.default, option.default)))
    if "directory" in option.name:
        return "dumps"
    return rng.choice(option.choices or _STRINGS)
