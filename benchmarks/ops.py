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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from common import Report

from tests.models.ops import CASES, OpCase

MESHES = {"8": {"x": 8}, "2x4": {"x": 2, "y": 4}, "3x2": {"x": 3, "y": 2}, "7": {"x": 7}}
UNEVEN = "7"
"""The mesh that divides nothing. On the way to XLA shardings of arguments and results that do not divide are dropped,
so what it does with them is another task, and no bar.
"""
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
        """Whether XLA's partitioner does the same task."""
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
        """How it is short, and the first of what is noted of it."""
        if not self.is_short:
            return ""
        more = [word for word, is_more in (("bytes", self.sends_more), ("work", self.computes_more)) if is_more]
        notes = list(dict.fromkeys(self.reason.split("; "))) if self.reason else []
        rest = [f"and {len(notes) - SHOWN_NOTES} notes more"] if len(notes) > SHOWN_NOTES else []
        short = f"more {' and '.join(more)}" if more else "no answer"
        return "; ".join([f"**short**: {short}", *notes[:SHOWN_NOTES], *rest])


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


def rows_of(case: OpCase, mesh: str) -> Iterator[Row]:
    """The rows of an op on a mesh whose propagated modules differ."""
    import shardwright as sw
    from shardwright.errors import ShardingError

    text, met = case.text(), set[str]()
    for split in splits(case, MESHES[mesh]):
        row = Row(case, mesh, "+".join(map(str, split)), annotated(text, MESHES[mesh], split))
        try:
            plan = sw.load(row.text).plan()
            propagated = plan.module()
            if propagated in met:
                continue
            met.add(propagated)
            program = plan.partition()
            row.local, row.sent = program.module("local"), program.traffic.total.executed_bytes
            row.reason = "; ".join(f"{note.op}: {note.message}" for note in program.notes)
        except ShardingError as error:
            row.reason = str(error).splitlines()[0]
        yield row


def add_costs(rows: list[Row], devices: int) -> None:
    """What XLA counts in our local programs and in its own."""
    from tests.oracles.xla_many import costs_of

    ours = costs_of([row.local for row in rows], devices, local=True)
    theirs = costs_of([row.text for row in rows], devices, local=False)
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
                row.equal, row.reason = False, f"unequal: {str(error)[:300]}"


def line(row: Row) -> str:
    """A row as a figure: bytes with XLA's as bar, then work so."""
    theirs = "-" if row.xla_sent is None else f"<={row.xla_sent:.0f}"
    work = "-" if row.xla_work is None else f"<={MORE_WORK * row.xla_work:.0f}"
    verdict = "short" if row.is_short else "ok"
    return f"{row.name} {row.sent:.0f} {theirs} work {row.work:.0f} {work} {verdict}"


def table(rows: Sequence[Row]) -> str:
    """The page of the documentation."""
    meshes = ", ".join(dict.fromkeys(row.mesh for row in rows))
    short, barred = sum(row.is_short for row in rows), sum(row.has_bar for row in rows)
    equal = sum(row.equal is True for row in rows)
    lines = [
        "# Every op along every dimension",
        "",
        f"Written by `benchmarks/ops.py --table`: ops of `tests/models/ops.py` on meshes {meshes}, one dimension of",
        "one tensor split, or two along an axis each; bytes that each device sends, and work, beside XLA's partitioner",
        f"on the same annotated module in the same run. Of {len(rows)} programs {equal} were run and give what the",
        f"unsharded op does. The mesh of {UNEVEN} has no bar, since XLA is handed no such shardings; of the",
        f"{barred} rows with a bar {short} fall short.",
        "",
        "| op | mesh | split | bytes | XLA's | work / XLA's | |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        ratio = f"{row.work / row.xla_work:.2f}" if row.xla_work else "-"
        theirs = "-" if row.xla_sent is None else f"{row.xla_sent:,.0f}"
        lines.append(
            f"| {row.case.name} | {row.mesh} | {row.split} | {row.sent:,.0f} | {theirs} | {ratio} | {row.verdict} |"
        )
    return "\n".join(lines) + "\n"


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
    report.add("ops.short", sum(row.is_short for row in rows) / max(1, len(rows)), SHORT_SHARE)
    report.exit()


if __name__ == "__main__":
    sys.exit(main())
