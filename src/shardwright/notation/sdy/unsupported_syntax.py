"""What the sdy dialect has and the installed jaxlib's parser does not know, rewritten on the level of the text.

Kinds of reduction (`unreduced=max{"x"}`, `sdy.all_reduce max {"x"}`) travel as carriers (`shardwright.ir.carriers`):

- `sdy.sharding = #sdy.sharding<…>` becomes `shardwright.sharding = "…"`, the per-value form `shardwright.shardings`;
- a constraint, a reshard or a collective into such a sharding becomes `"shardwright.constraint"(%x) {sharding = "…"}`;
- a collective out of one becomes an `sdy.reshard`, as every collective leaves the value that all devices together hold
  as it is; which collective it was stands in `shardwright.collective`, for the checks of `sdy_verify`.

Dimensions without a factor (`*`) get one of size 1, which says the same; attributes spelt `#sdy.axis_ref_list<…>` are
spelt `#sdy<axis_ref_list …>`. Lines stay where they are.

Source: the sdy dialect reference (TensorShardingAttr, AllReduceOp, DimMappingAttr).
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.ir.carriers import CARRIED_COLLECTIVE
from shardwright.ir.context import reduction_kinds
from shardwright.ir.ops import COLLECTIVES
from shardwright.notation.names import STRING
from shardwright.notation.sdy.factors import factor_symbol
from shardwright.notation.sdy.text import ShardedOp, Unclosed, closing, outside_strings, properties, statement
from shardwright.notation.sdy.verifier_crashes import refuse_verifier_crashes
from shardwright.scanner import line_of
from shardwright.sharding import REDUCTION_KINDS

__all__ = ["prepare"]

_FORMS = (
    "all_to_all_param",
    "all_to_all_param_list",
    "axis_ref",
    "axis_ref_list",
    "dimension_sharding",
    "list_of_axis_ref_lists",
    "manual_axes",
    "mesh_axis",
    "sub_axis_info",
    "tensor_mapping",
)
"""Attributes that jaxlib reads as `#sdy<name…>` and not as `#sdy.name<…>`."""

_SHARDED = ("sharding_constraint", "reshard", "data_flow_edge")
_COLLECTIVES = [name.removeprefix("sdy.") for name in COLLECTIVES]
_OPS = "|".join((*_SHARDED, *_COLLECTIVES))
_KIND = re.compile(r"unreduced\s*=\s*([A-Za-z_]\w*)")
_REDUCTION = re.compile(r"(?:sdy\.all_reduce|sdy\.reduce_scatter)\s+([A-Za-z_]\w*)\s*(?=[{\[])")
_WITH_KINDS = (
    ("unreduced", _KIND),
    *((op, re.compile(rf"{re.escape(op)}\s+[A-Za-z_]")) for op in ("sdy.all_reduce", "sdy.reduce_scatter")),
)
"""A word, which most texts do not have, and what is looked for in those that do."""
_SITE = re.compile(
    rf'"(?P<generic>sdy\.(?:{_OPS}))"(?=\s*\()'
    rf"|{STRING}|//[^\n]*"
    rf"|\bsdy\.sharding\s*=\s*(?P<attribute>#sdy\.sharding(?:_per_value)?)(?=<)"
    rf"|\b(?P<op>sdy\.(?:{_OPS}))\b"
)
_WORD = re.compile(rf"{STRING}|//[^\n]*|{_KIND.pattern}|{_REDUCTION.pattern}")
_SEVERAL = re.compile(r"unreduced\s*=[^<>]*\bunreduced\s*=")
_ALIAS = re.compile(r"^(#[A-Za-z_][\w$.]*)[ \t]*=[ \t]*(?=#sdy\.sharding(?:_per_value)?<)", re.MULTILINE)
_RULE = r"op_sharding_rule<\s*\([^()]*\)\s*->\s*\([^()]*\)(?:\s*\{[^{}]*\})?"
_AXES = re.compile(r"#sdy<\w+?\s*(?=[\[{])")


def prepare(text: str, name: str = "-") -> str:
    """The text of a module as jaxlib can parse it; text without anything of the kind comes back as it is.

    Raises:
        ShardingError: an unknown kind of reduction, a kind where no carrier can hold it, or what jaxlib's verifier
            would not survive, at its line in `name`.
    """
    if "sdy" not in text:
        return text
    refuse_verifier_crashes(text, name)
    forms = [form for form in _FORMS if f"#sdy.{form}<" in text]
    if forms:
        text = outside_strings(rf"#sdy\.({'|'.join(forms)})<", lambda match: f"#sdy<{match[2]} ", text)
    if "op_sharding_rule<" in text and "*" in text:
        text = outside_strings(_RULE, lambda match: _mapped(match[0]), text)
    if not _has_kinds(text):
        return text
    text = outside_strings(
        r"(?:unreduced\s*=\s*|sdy\.(?:all_reduce|reduce_scatter)\s+)sum\b(?=\s*[{\[])", _summed, text
    )
    return _Carrying(text, name).run() if _has_kinds(text) else text


def _has_kinds(text: str) -> bool:
    return any(word in text and pattern.search(text) is not None for word, pattern in _WITH_KINDS)


def _is_native(text: str) -> bool:
    """Whether the installed sdy knows all kinds of a text, and no sharding has several, which no sdy knows."""
    kinds = {match[1] or match[2] for match in _WORD.finditer(text)} - {None}
    return kinds <= set(reduction_kinds()) and _SEVERAL.search(text) is None


def _summed(match: re.Match[str]) -> str:
    return match[0][:-3] + "   "


def _mapped(rule: str) -> str:
    """The beginning of a sharding rule with a factor of size 1 for every dimension without one."""
    if "*" not in rule:
        return rule
    closed = rule.rstrip().endswith("}")
    head, _, sizes = rule.rpartition("{") if closed else (rule, "", "")
    entries = [entry for entry in sizes.rstrip().rstrip("}").split(",") if entry.strip()]
    while "*" in head:
        symbol = factor_symbol(len(entries))
        head = head.replace("*", symbol, 1)
        entries.append(f" {symbol}=1" if entries else f"{symbol}=1")
    return f"{head.rstrip()} {{{','.join(entries)}}}"


class _Carrying:
    """One text whose kinds of reduction become carriers."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.text = text

    def run(self) -> str:
        self._check_kinds()
        if _is_native(self.text):
            return self.text
        try:
            self._inline_aliases()
            written = self._rewritten()
        except Unclosed:
            return self.text
        self._check_rest(written)
        return written

    def _rewritten(self) -> str:
        text = self.text
        pieces: list[str] = []
        done = at = 0
        while (site := _SITE.search(text, at)) is not None:
            at = site.end()
            replacement = self._site(site)
            if replacement is None:
                continue
            written, at = replacement
            lost = text.count("\n", site.start(), at) - written.count("\n")
            pieces += (text[done : site.start()], written, "\n" * lost)
            done = at
        return "".join(pieces) + text[done:]

    def _site(self, site: re.Match[str]) -> tuple[str, int] | None:
        """What stands for the site, and where it ends; `None` where it has no kind of reduction."""
        if site["attribute"]:
            end = closing(self.text, site.end())
            return (_attribute(site["attribute"], self.text[site.end() : end]), end) if self._kind(site, end) else None
        if site["op"]:
            parts = statement(self.text, site.end())
            return (_custom(site["op"], parts), parts.end) if parts and self._kind(site, parts.end) else None
        if site["generic"]:
            parts = properties(self.text, site.end())
            return (_generic(site["generic"], parts), parts.end) if parts and self._kind(site, parts.end) else None
        return None

    def _kind(self, site: re.Match[str], end: int) -> bool:
        inside = self.text[site.start() : end]
        return _KIND.search(inside) is not None or _REDUCTION.search(inside) is not None

    def _inline_aliases(self) -> None:
        """Aliases of shardings with kinds are spelt out where they are used: a carrier is not an attribute of sdy."""
        spelt: dict[str, str] = {}
        for match in list(_ALIAS.finditer(self.text)):
            end = closing(self.text, self.text.index("<", match.end()))
            definition = self.text[match.end() : end]
            if _KIND.search(definition):
                spelt[match[1]] = " ".join(definition.split())
                blank = re.sub(r"[^\n]", " ", self.text[match.start() : end])
                self.text = self.text[: match.start()] + blank + self.text[end:]
        if spelt:
            names = "|".join(map(re.escape, sorted(spelt, key=len, reverse=True)))
            self.text = outside_strings(rf"(?:{names})(?![\w$.])", lambda match: spelt[match[0]], self.text)

    def _check_kinds(self) -> None:
        for match in _WORD.finditer(self.text):
            kind = match[1] or match[2]
            if kind is not None and kind not in REDUCTION_KINDS:
                raise ShardingError(
                    f"unknown kind of reduction {kind!r}",
                    location=f"{self.name}:{line_of(self.text, match.start())}",
                    cause="devices hold contributions that a kind combines; it stands before the axes",
                    remedy=f"one of {', '.join(REDUCTION_KINDS)}; a sum needs no word",
                )

    def _check_rest(self, written: str) -> None:
        for match in re.finditer(rf"{STRING}|//[^\n]*|(?P<kind>{_KIND.pattern})", written):
            if match["kind"]:
                raise _not_held(match[2], written, match.start(), self.name)


def _not_held(kind: str, text: str, at: int, name: str) -> ShardingError:
    """The refusal of a kind of reduction that no carrier takes, at position `at` of the text."""
    ops = re.findall(r"\bsdy\.(?:manual|named)_computation\b", text[:at])
    side_at, side = max((text.rfind(side, 0, at), side) for side in ("in_shardings", "out_shardings"))
    inside = side_at >= 0 and re.search(r"%|manual_axes", text[side_at:at]) is None
    if not ops or not inside:
        cause = f"'unreduced={kind}' belongs to the shardings of a value, a constraint or a collective"
        remedy = "state it on the value, or on a constraint after it"
    else:
        cause = (
            f"the {side} of an {ops[-1]} are an attribute of sdy, which jaxlib reads itself and knows without "
            f"kinds, and which propagation writes anew: 'unreduced={kind}' has no place in it"
        )
        remedy = (
            f"reduce the operand by an sdy.all_reduce {kind} before the computation"
            if side == "in_shardings"
            else f"reduce the result inside the computation, by a stablehlo.all_reduce whose body is a {kind}"
        )
    return ShardingError(
        f"the kind of reduction {kind!r} stands where it cannot be held",
        op=ops[-1] if ops else "",
        location=f"{name}:{line_of(text, at)}",
        cause=cause,
        remedy=remedy,
    )


def _string(text: str) -> str:
    """One sharding as the string that carries it."""
    spelt = "#sdy.sharding" + " ".join(text.split())
    return '"' + spelt.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _attribute(kind: str, text: str) -> str:
    if kind == "#sdy.sharding":
        return f"shardwright.sharding = {_string(text)}"
    texts: list[str] = []
    at = 1
    while (start := text.find("<", at)) >= 0:
        at = closing(text, start)
        texts.append(_string(text[start:at]))
    return f"shardwright.shardings = [{', '.join(texts)}]"


def _custom(op: str, parts: ShardedOp) -> str:
    return _op(op, parts, " ".join(parts.parameters.split())) + f" {parts.tail}"


def _generic(op: str, parts: ShardedOp) -> str:
    spelt = _AXES.search(parts.parameters)
    parameters = parts.parameters[spelt.end() : closing(parts.parameters, spelt.end())] if spelt else ""
    return _op(op, parts, " ".join(parameters.split()))


def _op(op: str, parts: ShardedOp, parameters: str) -> str:
    short = op.removeprefix("sdy.")
    extra = [parts.extra] if parts.extra else []
    if short == "data_flow_edge":
        entries = ", ".join([f"shardwright.shardings = [{_string(parts.sharding)}]", *extra])
        return f'"{op}"({parts.operand}) {{{entries}}}'
    if short in _COLLECTIVES:
        what = f"{short} {parameters}".strip().replace("\\", "\\\\").replace('"', '\\"')
        extra.append(f'{CARRIED_COLLECTIVE} = "{what}"')
    if _KIND.search(parts.sharding):
        entries = ", ".join([f"sharding = {_string(parts.sharding)}", *extra])
        return f'"shardwright.constraint"({parts.operand}) {{{entries}}}'
    sharding = " ".join(parts.sharding.split())
    return f'"sdy.reshard"({parts.operand}) <{{sharding = #sdy.sharding{sharding}}}> {{{", ".join(extra)}}}'
