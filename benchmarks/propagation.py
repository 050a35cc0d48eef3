"""Text → propagated text, beside C++ Shardy: parse, `sdy-propagation-pipeline` (verifier off), print.

Every repetition starts with all of our caches empty. Ratios are of processor time, which other work on the machine
disturbs least, and so is the growth: time per op of a model of 128 layers over that of one of 8. Milliseconds, and MiB
of peak memory beyond what the process held before.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from common import EXAMPLES, MIB, ROOT, ChildError, Report, Run, Sample, example, in_turns, measure

BARS = {"gpt8": 1.0, "gpt32": 1.0, "gpt32_scan": 1.5}
GROWTH = 1.1
SMALL, LARGE = 8, 128


def ours(text: str) -> Run:
    from shardwright.ir.context import context, load_module
    from shardwright.memo import uncollected
    from shardwright.notation import modules
    from shardwright.propagation import propagate

    context()

    @uncollected  # as the command runs it
    def run() -> str:
        large = modules.read_large(text)
        graph = large[0] if large else modules.read(load_module(text))
        return modules.text_of(propagate(graph, in_order_of_use=True))

    return run


def theirs(text: str) -> Run:
    from shardwright.ir.context import context, module_text, passmanager
    from shardwright.ir.context import ir as mlir

    shared = context()

    def run() -> str:
        with shared:
            module = mlir.Module.parse(text)
            manager = passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
            manager.enable_verifier(False)
            manager.run(module.operation)
            return module_text(module)

    return run


def side(prepare: Callable[[], Run]) -> Callable[[], Sample]:
    return partial(measure, prepare, time.process_time)


def compare(report: Report, name: str, bar: float) -> None:
    text = example(name)
    samples = in_turns({"ours": side(partial(ours, text)), "cpp": side(partial(theirs, text))})
    for who, sample in samples.items():
        report.add(f"propagation.{name}.{who}_ms", sample.seconds * 1e3)
        report.add(f"propagation.{name}.{who}_peak_mib", sample.peak_bytes / MIB)
    report.add(f"propagation.{name}.ours_warm_ms", (samples["ours"].warm_seconds or 0.0) * 1e3)
    report.add(f"propagation.{name}.ratio", samples["ours"].seconds / samples["cpp"].seconds, at_most=bar)


def growth(report: Report) -> None:
    """Time per line of text of many layers, over that of few."""
    texts = {SMALL: example(f"gpt{SMALL}"), LARGE: many_layers()}
    samples = in_turns({str(layers): side(partial(ours, text)) for layers, text in texts.items()})
    each = {layers: samples[str(layers)].seconds / text.count("\n") for layers, text in texts.items()}
    report.add(f"propagation.gpt{LARGE}.ours_ms", samples[str(LARGE)].seconds * 1e3)
    report.add(f"propagation.gpt{LARGE}.ours_peak_mib", samples[str(LARGE)].peak_bytes / MIB)
    report.add("propagation.growth", each[LARGE] / each[SMALL], at_most=GROWTH)


def many_layers() -> str:
    """The text of the large model, made in `build/` when it is not there."""
    path = ROOT / "build" / f"gpt{LARGE}.mlir"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        subprocess.run([sys.executable, str(EXAMPLES / "gpt.py"), "--layers", str(LARGE), "-o", str(path)], check=True)
    return path.read_text()


def main(names: list[str]) -> None:
    report = Report()
    for name in names or BARS:
        compare(report, name, BARS.get(name, 1.0))
    if not names:
        growth(report)
    report.exit()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ChildError as error:
        sys.exit(str(error))
