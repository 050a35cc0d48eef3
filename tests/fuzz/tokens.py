"""Changes that know nothing of grammar: of tokens and of bytes."""

from __future__ import annotations

import random
import re

__all__ = ["bytes_changed", "tokens_changed"]

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!]?[\w.$-]+|\s+|.', re.DOTALL)
_STRANGE = ("é", "\0", "\u202e", "＜", "𝔁", '"', "'", "\\", "/*", "//", "%", "@", "#", "?", "!", "->", "^bb0", "\ufeff")
_OPENING = ("[", "(", "{", "<", "tensor<", "array<", "#sdy.sharding<", "loc(", "tuple<", "- ", "dense<")
_NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "64",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775808",
    "1e9",
    "0x1",
)


def tokens_changed(text: str, rng: random.Random) -> str:
    """One change of tokens: left out, doubled, swapped, replaced; the end cut off; brackets without end."""
    tokens = _TOKEN.findall(text) or [""]
    words = [place for place, token in enumerate(tokens) if not token.isspace()] or [0]
    at, other = rng.choice(words), rng.choice(words)
    change = rng.choices(range(8), (4, 3, 3, 3, 2, 1, 1, 2))[0]
    if change == 0:
        del tokens[at : at + rng.randint(1, 3)]
    elif change == 1:
        tokens[at:at] = tokens[at : at + rng.randint(1, 8)] * rng.choice((1, 1, 2, 30))
    elif change == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif change == 3:
        tokens[at] = tokens[other]
    elif change == 4:
        tokens.insert(at, rng.choice(_STRANGE))
    elif change == 5:
        del tokens[at:]
    elif change == 6:
        tokens.insert(at, rng.choice(_OPENING) * rng.choice((1, 2, 40, 3000)))
    else:
        digits = [place for place in words if tokens[place].lstrip("-").isdecimal()] or [at]
        tokens[rng.choice(digits)] = rng.choice(_NUMBERS)
    return "".join(tokens)


def bytes_changed(content: bytes, rng: random.Random) -> bytes:
    """One change of bytes: flipped, left out, put in, moved, cut off."""
    data = bytearray(content or b"\0")
    at = rng.randrange(len(data))
    change = rng.randrange(6)
    if change <= 1:
        data[at] ^= 1 << rng.randrange(8)
    elif change == 2:
        del data[at : at + rng.choice((1, 1, 2, 16))]
    elif change == 3:
        data[at:at] = rng.randbytes(rng.choice((1, 1, 2, 8)))
    elif change == 4:
        other = rng.randrange(len(data))
        data[at : at + 4], data[other : other + 4] = data[other : other + 4], data[at : at + 4]
    else:
        del data[at:]
    return bytes(data)
