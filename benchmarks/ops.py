"""Every op along every dimension: what each device sends and computes, beside XLA's partitioner on the same module.

A row is an op of `tests/models/ops.py` on a mesh, with one dimension of one of its tensors split, or two split along an
axis each; propagation says the rest, on both sides. Rows that become the same module stand once. Of each row our
per-device program is run on virtual devices and compared with the unsharded op; bytes are those sent by each device,
work is what XLA counts in the executables.

    python benchmarks/ops.py                 all rows; the short ones with their reasons
    python benchmarks/ops.py --only conv     those whose family or name contains a word
    python benchmarks/ops.py --mesh 8 7      those on some meshes
    python benchmarks/ops.py --table FILE    write the table of the documentation as well
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import Report

from tests.models.ops import CASES, OpCase

if TYPE_CHECKING:
    import shardwright as sw

MESHES = {"8": {"x": 8}, "2x4": {"x": 2, "y": 4}, "3x2": {"x": 3, "y": 2}, "7": {"x": 7}}
UNEVEN = "7"
"""The mesh that divides nothing: what stands beside XLA's there is shown, and has no bar."""
MORE_WORK = 1.02
"""How many times XLA's work a row may take."""
FEW_BYTES, LITTLE_WORK = 64, 1 << 12
"""What is no matter: a scalar more on its way, and the arithmetic of a device's own index."""
SHORT_SHARE = 0.01
SHOWN_NOTES = 2
"""How many of the notes of a row that is short the table has."""
TOGETHER = 40
"""How many programs are run by one process."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A dimension that is split: of an argument, or of a result."""

    is_result: bool
    number: int
    dim: int

    def __str__(self) -> str:
        return f"{'result' if self.is_result else 'arg'}{self.number}.{self.dim}"


@dataclass(slots=True)
class Row:
    """An annotated op on a mesh, and what came of it."""

    case: OpCase
    mesh: str
    split: str
    text: str
    for_xla: str = ""
    local: str = ""
    sent: float = 0.0
    work: float = 0.0
    xla_sent: float | None = None
    xla_work: float | None = None
    equal: bool | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """Mesh, op, and what is split."""
        return f"ops.{self.mesh}.{self.case.name}.{self.split}".replace(" ", "_")

    @property
    def has_bar(self) -> bool:
        """Whether there is a figure of XLA's, on a mesh that has a bar."""
        return self.xla_sent is not None and self.xla_work is not None and self.mesh != UNEVEN

    @property
    def sends_more(self) -> bool:
        """Whether it sends more than XLA's."""
        return self.has_bar and self.sent > (self.xla_sent or 0) + FEW_BYTES

    @property
    def computes_more(self) -> bool:
        """Whether it computes more than XLA's."""
        return self.has_bar and self.work > MORE_WORK * (self.xla_work or 0) + LITTLE_WORK

    @property
    def is_short(self) -> bool:
        """Whether it is unequal or has no program, sends more than XLA does, or computes more."""
        return self.equal is False or self.local == "" or self.sends_more or self.computes_more

    @property
    def verdict(self) -> str:
        """How it is short, what that is for, and the first of what is noted of it."""
        if not self.is_short:
            return ""
        notes = list(dict.fromkeys(self.reason.split("; "))) if self.reason else []
        rest = [f"and {len(notes) - SHOWN_NOTES} notes more"] if len(notes) > SHOWN_NOTES else []
        return "; ".join([self._trade, *notes[:SHOWN_NOTES], *rest])

    @property
    def _trade(self) -> str:
        if not self.sends_more and not self.computes_more:
            return "no program" if self.local == "" else "unequal"
        if self.sends_more and self.computes_more:
            return "more bytes and more work"
        if self.sends_more:
            return f"more bytes, for {self.work / (self.xla_work or 1):.0%} of the work"
        return f"more work, for {self.sent / self.xla_sent:.0%} of the bytes" if self.xla_sent else "more work"


def seeds_of(case: OpCase) -> list[tuple[Seed, int]]:
    """The dimensions of an op's tensors with their sizes, as JAX says them."""
    import jax

    results = jax.tree.leaves(jax.eval_shape(case.function, *case.arguments))
    tensors = [(False, number, one) for number, one in enumerate(case.arguments)]
    tensors += [(True, number, one) for number, one in enumerate(results)]
    return [
        (Seed(result, number, dim), size)
        for result, number, one in tensors
        for dim, size in enumerate(one.shape)
        if size > 1
    ]


def annotated(text: str, axes: dict[str, int], split: dict[Seed, Sequence[str]]) -> str:
    """The module with a mesh, and with shardings at the tensors that have a split dimension."""
    mesh = ", ".join(f'"{name}"={size}' for name, size in axes.items())
    text = text.replace("{\n", f"{{\n  sdy.mesh @mesh = <[{mesh}]>\n", 1)
    for is_result, number in {(seed.is_result, seed.number) for seed in split}:
        text = _stated(text, is_result, number, split)
    return text


def _stated(text: str, is_result: bool, number: int, split: dict[Seed, Sequence[str]]) -> str:
    """The module with the sharding of one tensor."""
    start = text.index("@main(")
    tensor = r"tensor<((?:[^<>]|<[^<>]*>)*)>"
    pattern = re.compile(rf"{tensor} \{{jax\.result_info = \"[^\"]*\"" if is_result else rf"%arg{number}: {tensor}")
    match = list(pattern.finditer(text, start))[number if is_result else 0]
    rank = len(re.findall(r"\d+x", match.group(1).replace("complex<", "")))
    axes = [split.get(Seed(is_result, number, dim)) for dim in range(rank)]
    dims = ", ".join(f"{{{', '.join(f'{one!r}' for one in of)}}}" if of else "{?}" for of in axes).replace("'", '"')
    sharding = f"sdy.sharding = #sdy.sharding<@mesh, [{dims}]>"
    stated = f", {sharding}" if is_result else f" {{{sharding}}}"
    return text[: match.end()] + stated + text[match.end() :]


def splits(case: OpCase, axes: dict[str, int]) -> Iterator[dict[Seed, Sequence[str]]]:
    """One dimension with all axes, or two with one each."""
    names, whole = tuple(axes), math.prod(axes.values())
    seeds = seeds_of(case)
    for seed, size in seeds:
        if size >= whole:
            yield {seed: names}
    if len(names) == 2:
        for (one, _), (other, _) in combinations(seeds, 2):
            yield {one: names[:1], other: names[1:]}


def partial_operands(case: OpCase, count: int) -> Iterator[tuple[Seed, OpCase]]:
    """The op of which an operand is a sum of so many contributions, one on each device, for every one that may be."""
    import jax
    import jax.numpy as jnp

    def summed(number: int) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            return case.function(*arguments[:number], arguments[number].sum(0), *arguments[number + 1 :])

        return function

    for number, type in enumerate(case.arguments):
        if type.shape and jnp.issubdtype(type.dtype, jnp.inexact):
            contributions = jax.ShapeDtypeStruct((count, *type.shape), type.dtype)
            arguments = (*case.arguments[:number], contributions, *case.arguments[number + 1 :])
            yield Seed(False, number, 0), OpCase(case.family, case.name, summed(number), arguments)


def rows_of(case: OpCase, mesh: str) -> Iterator[Row]:
    """The rows of an op on a mesh whose propagated modules differ."""
    met, axes, sizes, text = set[str](), MESHES[mesh], dict(seeds_of(case)), case.text()
    for split in splits(case, axes):
        is_uneven = any(sizes[seed] % math.prod(map(axes.__getitem__, names)) for seed, names in split.items())
        row = Row(case, mesh, "+".join(map(str, split)), annotated(text, axes, split))
        yield from partitioned(row, is_uneven, met)
    for seed, partial in partial_operands(case, math.prod(axes.values())):
        stated = annotated(partial.text(), axes, {seed: tuple(axes)})
        yield from partitioned(Row(case, mesh, f"arg{seed.number}.partial", stated), False, met)


def partitioned(row: Row, is_uneven: bool, met: set[str]) -> Iterator[Row]:
    """A row with our program; none where its propagated module was met before."""
    import shardwright as sw
    from shardwright.errors import ShardingError

    row.for_xla = row.text
    try:
        plan = sw.load(row.text).plan()
        propagated = plan.module()
        if propagated in met:
            return
        met.add(propagated)
        row.for_xla = with_uneven(plan) if is_uneven else row.text
        program = plan.partition(effort="fast")
        row.local, row.sent = program.module("local"), program.traffic.total.executed_bytes
        row.reason = "; ".join(f"{note.op}: {note.message}" for note in program.notes)
    except ShardingError as error:
        row.reason = str(error).splitlines()[0]
    yield row


def with_uneven(plan: sw.Plan) -> str:
    """The propagated module for XLA's partitioner where shardings of arguments and results do not divide.

    On Shardy's way to XLA these are dropped, which is another task; by `mhlo.sharding` the partitioner has them.
    """
    from shardwright.notation.conversion import convert_module
    from shardwright.notation.modules import located_text
    from shardwright.partition import with_stated_boundary

    return convert_module(located_text(with_stated_boundary(plan.graph, plan.annotated)), "mhlo", "-")


def add_costs(rows: list[Row], devices: int) -> None:
    """What XLA counts in our local programs and in its own."""
    from tests.oracles.xla_many import costs_of

    ours = costs_of([row.local for row in rows], devices, local=True)
    theirs = costs_of([row.for_xla for row in rows], devices, local=False)
    for row, one, other in zip(rows, ours, theirs, strict=True):
        if isinstance(one, str):
            row.reason = f"XLA refuses our program: {one}"
        else:
            row.work = one.work
        if isinstance(other, str):
            row.reason += f" (XLA itself fails: {other.splitlines()[-1] if other else 'it ends the process'})"
        else:
            row.xla_sent, row.xla_work = other.sent, other.work


def add_equality(rows: list[Row]) -> None:
    """Whether our local programs give what the unsharded ops do."""
    from shardwright.runtime.execute import try_jobs
    from tests.partition.compare import assert_equal, make_case

    for begin in range(0, len(rows), TOGETHER):
        some = rows[begin : begin + TOGETHER]
        cases = [make_case(row.text, 0) for row in some]
        done = try_jobs([job for case in cases for job in (case.unsharded, case.local)], timeout=600)
        for number, (row, case) in enumerate(zip(some, cases, strict=True)):
            try:
                assert_equal(row.name, case, done[2 * number], done[2 * number + 1])
                row.equal = True
            except AssertionError as error:
                row.equal, row.reason = False, f"unequal: {' '.join(str(error).split())[:200]}"


def line(row: Row) -> str:
    """A row as a figure: bytes with XLA's as bar, then work so."""
    theirs = "-" if row.xla_sent is None else f"<={row.xla_sent:.0f}"
    work = "-" if row.xla_work is None else f"<={MORE_WORK * row.xla_work:.0f}"
    verdict = "short" if row.is_short else "ok"
    return f"{row.name} {row.sent:.0f} {theirs} work {row.work:.0f} {work} {verdict}"


def table(rows: Sequence[Row]) -> str:
    """The page of the documentation."""
    short = [row for row in rows if row.is_short]
    return "\n".join(
        [
            "# Every op along every dimension",
            "",
            PAGE.format(
                meshes=", ".join(dict.fromkeys(row.mesh.replace("x", "×") for row in rows)),
                rows=len(rows),
                equal=sum(row.equal is True for row in rows),
                barred=sum(row.has_bar for row in rows),
                short=sum(row.has_bar for row in short),
            ),
            "",
            "## What falls short",
            "",
            "| op | mesh | split | bytes | XLA's | work | XLA's | why |",
            "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
            *[
                f"| {row.case.name} | {row.mesh} | {row.split} | {row.sent:,.0f} | {_figure(row.xla_sent)} "
                f"| {row.work:,.0f} | {_figure(row.xla_work)} | {row.verdict} |"
                for row in short
            ],
            "",
            "## All ops",
            "",
            "| op | rows | silent | bytes / XLA's | work / XLA's | all bytes / XLA's | short |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
            *[_op_line(name, [row for row in rows if row.case.name == name]) for name in _names(rows)],
            "",
        ]
    )


PAGE = """\
Written by `python benchmarks/ops.py --table docs/ops.md`, which measures it all anew; with `--mesh` a part of it.

A row is one op of `tests/models/ops.py` on one mesh, here of {meshes} devices, with something split: one dimension of
an argument or a result along all axes, two of any of its tensors along an axis each, or an operand that is a sum of
contributions, one on each device (`arg0.partial`). Propagation says the rest. Sizes divide by 8, 6, 4, 3 and 2, but for
kernels of three rows, and none by 7. Rows that become the same program stand once.

Of {rows} rows {equal} were run on virtual devices and gave what the unsharded op gives. Beside our program stands what
XLA's partitioner makes of the same annotated module in the same run: bytes that each device sends, and work, the
floating-point operations that XLA counts in each of the two executables: without conversions that are there because
its CPUs send no bf16, and with the sort that a call for the largest elements stands for. On Shardy's way to XLA
shardings of arguments and results that do not divide are dropped; such a module is handed to the partitioner as
`mhlo.sharding`, which it follows, so that the task is the same. The mesh of 7 is shown without a bar.

A row falls short if it sends more bytes than XLA's, by more than 64, or computes more than 1.02 times as much, by more
than 4,096 operations: {short} of {barred} do. In the second table ratios are ours by XLA's, from the least row of an op
to its greatest; `silent` are rows in which our program sends nothing."""


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.case.name for row in rows))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _op_line(name: str, rows: Sequence[Row]) -> str:
    """All rows of an op: how many, how many of them send nothing, and what they send and compute beside XLA's."""
    known = [row for row in rows if row.xla_sent is not None and row.xla_work is not None]
    sent, theirs = sum(row.sent for row in known), sum(row.xla_sent or 0 for row in known)
    cells = [
        name,
        str(len(rows)),
        str(sum(row.sent == 0 for row in rows)),
        _range([row.sent / row.xla_sent for row in known if row.xla_sent]),
        _range([row.work / row.xla_work for row in known if row.xla_work and row.work > LITTLE_WORK]),
        f"{sent / theirs:.2f}" if theirs else "-",
        str(sum(row.is_short for row in rows) or ""),
    ]
    return f"| {' | '.join(cells)} |"


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="ops whose family or name contains this")
    parser.add_argument("--mesh", choices=MESHES, nargs="+", default=list(MESHES), help="rows on these meshes only")
    parser.add_argument("--table", type=Path, help="where to write the table")
    parser.add_argument("--unrun", action="store_true", help="compare costs only, run nothing")
    chosen = parser.parse_args()
    cases = [case for case in CASES if chosen.only in f"{case.family} {case.name}"]
    rows: list[Row] = []
    for mesh in chosen.mesh:
        some = [row for case in cases for row in rows_of(case, mesh)]
        measured = [row for row in some if row.local]
        add_costs(measured, math.prod(MESHES[mesh].values()))
        if not chosen.unrun:
            add_equality(measured)
        for row in some:
            print(line(row), flush=True)
            if row.is_short:
                print(f"    {row.reason or 'no note says why'}")
        rows += some
    if chosen.table:
        chosen.table.write_text(table(rows))
    report = Report()
    report.add("ops.rows", len(rows))
    barred = [row for row in rows if row.has_bar]
    report.add("ops.unequal", sum(row.equal is False or row.local == "" for row in rows), 0)
    report.add("ops.short", sum(row.is_short for row in barred) / max(1, len(barred)), SHORT_SHARE)
    report.exit()


if __name__ == "__main__":
    sys.exit(main())
