"""What converting a module from one notation to another costs, beside parsing it.

The module is a GPT training step of 22,815 ops, once as users annotate it and once with the sharding of every tensor.
Converting is everything but MLIR's own parsing and printing: telling the notation, spelling its ops generically,
rewriting the module to sdy and from there, spelling the other notation. Milliseconds.
"""

from __future__ import annotations

from functools import partial

from common import Report, Run, Sample, example, in_turns, measure

PROGRAM = "gpt32"
BAR = 2.0
"""Times what parsing the module in its own notation takes."""


def parse(text: str) -> Run:
    from shardwright.ir.context import context, load_module
    from shardwright.notation.conversion import as_generic

    context()
    generic = as_generic(text)
    return lambda: load_module(generic)


def convert(text: str, to: str) -> Run:
    """Everything, parsing and printing included."""
    from shardwright.ir.context import context
    from shardwright.notation.conversion import convert_module
    from shardwright.notation.module_notations import module_notation, notation_of

    context()
    module_notation(to), notation_of(text)  # loaded from here on, which is not measured
    return lambda: convert_module(text, to)


def print_as(text: str, to: str) -> Run:
    """What printing the converted module takes."""
    from shardwright.ir.context import module_text
    from shardwright.notation.conversion import open_module
    from shardwright.notation.module_notations import module_notation

    module = open_module(text).module
    module_notation(to).write(module)
    return lambda: module_text(module, locations="loc(" in text)


def converted(text: str, to: str) -> str:
    return str(convert(text, to)())


def in_a_fork(make: partial[str]) -> str:
    """The text that `make` gives, made in a process of its own: this one must not have an MLIR context yet."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as pool:
        return pool.submit(make).result()


def propagated(text: str) -> str:
    from shardwright.ir.context import load_module, module_text
    from shardwright.notation.modules import read, write
    from shardwright.propagation import propagate

    return module_text(write(propagate(read(load_module(text)))))


def report_one(report: Report, name: str, text: str, to: str) -> None:
    sides = {
        "parse": partial(measure, partial(parse, text)),
        "print": partial(measure, partial(print_as, text, to)),
        "convert": partial(measure, partial(convert, text, to)),
    }
    samples: dict[str, Sample] = in_turns(sides)
    parsing, printing, everything = (1e3 * samples[side].seconds for side in sides)
    report.add(f"{name}_parse_ms", parsing)
    report.add(f"{name}_print_ms", printing)
    report.add(f"{name}_all_ms", everything)
    report.add(f"{name}_convert_per_parse", (everything - parsing - printing) / parsing, BAR)


def main() -> None:
    report = Report()
    given = example(PROGRAM)
    complete = in_a_fork(partial(propagated, given))
    for state, text in (("given", given), ("complete", complete)):
        for to in ("mhlo", "shard", "rfc"):
            report_one(report, f"{state}_sdy_to_{to}", text, to)
        for source in ("mhlo", "shard", "rfc"):
            report_one(report, f"{state}_{source}_to_sdy", in_a_fork(partial(converted, text, source)), "sdy")
    report.exit()


if __name__ == "__main__":
    main()
