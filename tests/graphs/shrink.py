"""The smallest program with the same problem: without steps, results and shardings that it does not take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.graphs.programs import Program
from tests.graphs.steps import Block, Step, names

__all__ = ["pruned", "shrunk", "smaller"]


def shrunk(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    """A program of which nothing can be left out that `smaller` leaves out."""
    while True:
        found = next((one for one in smaller(program) if is_wrong(one)), None)
        if found is None:
            return program
        program = found


def smaller(program: Program) -> Iterator[Program]:
    """Programs of less, of the least first."""
    main = program.main
    returned = names(main.returns)
    if len(returned) > 1:
        for number, name in enumerate(returned):
            yield _returning(program, (name,), (program.results[number],))
        for number in range(len(returned)):
            kept = [at for at in range(len(returned)) if at != number]
            yield _returning(program, [returned[at] for at in kept], [program.results[at] for at in kept])
    elif returned:
        maker = next((step for step in main.steps if returned[0] in step.targets), None)
        for name in dict.fromkeys(names(maker.text)) if maker else ():
            yield _returning(program, (name,), ("",))
    for steps in _without(main, program, outermost=True):
        yield pruned(replace(program, main=steps))
    for name, sharding in program.arguments.items():
        if sharding and sum(map(bool, program.arguments.values())) > 1:
            yield replace(program, arguments={**program.arguments, name: ""})
    for number, sharding in enumerate(program.results):
        if sharding:
            results = tuple("" if at == number else text for at, text in enumerate(program.results))
            yield replace(program, results=results)


def _returning(program: Program, values: Sequence[str], results: Sequence[str]) -> Program:
    returns = f"({''.join(f'{value}, ' for value in values)})"
    return pruned(replace(program, main=replace(program.main, returns=returns), results=tuple(results)))


def pruned(program: Program) -> Program:
    """Without what no result needs; what is no longer defined is an argument."""
    main = _live(program.main, keep_parameters=False)
    free = sorted(main.free(), key=lambda name: int(name[1:]))
    parameters = (*main.parameters, *free)
    arguments = {name: program.arguments.get(name, "") for name in parameters}
    return replace(program, main=replace(main, parameters=parameters), arguments=arguments)


def _live(block: Block, keep_parameters: bool = True) -> Block:
    needed, kept = set(names(block.returns)), list[Step]()
    for step in reversed(block.steps):
        if needed & set(step.targets):
            kept.insert(0, replace(step, blocks=tuple(map(_live, step.blocks))))
            needed |= kept[0].free()
    parameters = tuple(name for name in block.parameters if keep_parameters or name in needed)
    return replace(block, steps=tuple(kept), parameters=parameters)


def _without(block: Block, program: Program, outermost: bool) -> Iterator[Block]:
    """The block without one of its steps, the last first, or with less in the functions of one."""
    for at in reversed(range(len(block.steps))):
        step = block.steps[at]
        for instead in _instead(step, program, outermost):
            yield replace(block, steps=(*block.steps[:at], *instead, *block.steps[at + 1 :]))
        for number, inner in enumerate(step.blocks):
            for less in _without(inner, program, outermost=False):
                blocks = (*step.blocks[:number], less, *step.blocks[number + 1 :])
                yield replace(block, steps=(*block.steps[:at], replace(step, blocks=blocks), *block.steps[at + 1 :]))


def _instead(step: Step, program: Program, outermost: bool) -> Iterator[tuple[Step, ...]]:
    """What can stand in place of a step: an argument or a constant, or an operand of the same type."""
    if outermost:
        yield ()
    elif step.family != "constant":
        made = []
        for name in step.targets:
            struct = program.types[name]
            made.append(Step("constant", (name,), f"some({struct.shape}, {str(struct.dtype)!r})"))
        yield tuple(made)
    if len(step.targets) == 1 and step.family != "same":
        for name in dict.fromkeys(names(step.text)):
            if program.types[name] == program.types[step.targets[0]]:
                yield (Step("same", step.targets, name),)
