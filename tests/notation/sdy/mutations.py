"""A module with one token of its annotations changed: an axis, a number, a mesh, a priority, a bracket, a word."""

from __future__ import annotations

import random
import re

__all__ = ["mutated"]

_TOKEN = re.compile(
    r'"\w*"|@\w+|\bp\d+\b|(?<![\w.#%-])\d+\b|[?{}\[\]<>,]|:(?=\()'
    r"|\b(?:replicated|unreduced|FORWARD|BACKWARD|NONE|manual_axes|in_shardings|out_shardings)\b"
)
_ANNOTATED = re.compile(r"^.*(?:sdy\.|_shardings=|manual_axes|reduction=).*$", re.MULTILINE)
_AXIS = re.compile(r'"(\w+)"=\d+')
_TELLING = 0.8
"""How often it is no bracket: those mostly lead to text that does not parse."""

_WORDS = ("replicated", "unreduced", "in_shardings", "out_shardings", "FORWARD", "BACKWARD", "NONE", "BOTH", "max")
_NUMBERS = ("0", "1", "2", "3", "4", "6", "8", "-1", "4294967296", "9223372036854775807", "99999999999999999999")
_SUFFIXES = ("", "", ":(1)2", ":(2)2", ":(1)3", ":(2)4", ":(0)2", ":(2)0", ":(1)8", ":(4294967296)4294967296")


def mutated(text: str, seed: object) -> str:
    """`text` with one token changed, added or left out, the same one for the same seed."""
    chance = random.Random(f"mutated/{seed}")
    lines = list(_ANNOTATED.finditer(text))
    line = chance.choice(lines)
    tokens = list(_TOKEN.finditer(text, line.start(), line.end()))
    if not tokens:
        return text
    telling = [token for token in tokens if token[0] not in "{}[]<>,:"]
    token = chance.choice(telling if telling and chance.random() < _TELLING else tokens)
    return text[: token.start()] + _instead(token[0], text, chance) + text[token.end() :]


def _instead(token: str, text: str, chance: random.Random) -> str:
    drawn = chance.random()
    if drawn < 0.15:
        return ""
    if drawn < 0.25:
        return f"{token}, {token}" if token[0] == '"' else token * 2
    if drawn < 0.3:
        return chance.choice(["?", "{", "}", "[]", "{}", "{?}", ",", '"x"', "@mesh", "0", "p1", "p01", " unreduced={}"])
    return _alike(token, text, chance)


def _alike(token: str, text: str, chance: random.Random) -> str:
    if token[0] == '"':
        return f'"{chance.choice([*_AXIS.findall(text), "nope"])}"{chance.choice(_SUFFIXES)}'
    if token[0] == "@":
        return chance.choice(["@mesh", "@other", "@nope", "@main", "mesh<[], device_ids=[0]>", 'mesh<["x"=2]>', "@one"])
    if token[0] == "p":
        return chance.choice(["p0", "p1", "p2", "p01", "p-1", "p", "p99999999999999999999"])
    if token.isdigit():
        return chance.choice(_NUMBERS)
    if token[0].isalpha():
        return chance.choice(_WORDS)
    return chance.choice(["?", "{", "}", "[", "]", "<", ">", ",", ":", "{?}", "[]"])
