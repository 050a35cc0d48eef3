"""Op name → sharding rule.

A family file declares its rules with `@sharding_rule("stablehlo.transpose")` on a function from signature to rule;
importing `shardwright.rules.families` registers all of ours. Users give rules for ops of their own with `rule`.

Of an op's rules the first holds: its attribute `sdy.sharding_rule`; what a user gave for its name; ours; what it says
of its loops itself (see `interface`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.memo import forget_everywhere, memoize
from shardwright.rules.einsum import parse_einsum
from shardwright.rules.facts import OpFacts, declare
from shardwright.rules.fit import check_fit, unfit
from shardwright.rules.overrides import forget_overrides
from shardwright.rules.rule import ShardingRule
from shardwright.rules.self_described import interface_rule
from shardwright.rules.text import ATTRIBUTE, parse_rule

if TYPE_CHECKING:  # graphs load MLIR
    from shardwright.ir.graph import Op

__all__ = [
    "Definition",
    "FactorsOf",
    "answer_of",
    "beyond_shardy",
    "factors_apart",
    "forget_rule",
    "give_rule",
    "gone_through",
    "is_given",
    "known_rule",
    "label_of",
    "local_factors",
    "local_factors_by",
    "own_iterations",
    "registered_ops",
    "result_alone",
    "rule",
    "rule_for",
    "rule_of",
    "sharding_rule",
]

RuleFunction = Callable[[Signature], ShardingRule | None]
UserFunction = Callable[[Signature], ShardingRule | str | None]
Definition = Callable[[int], "Op | None"]
"""From a value to the op that makes it; `None` for arguments."""
Refinement = Callable[["Op", ShardingRule, Definition], ShardingRule]
"""An op's rule in its program, from the one that its signature tells."""
FactorsOf = Callable[[Signature, ShardingRule], frozenset[int]]
"""Some of the factors of an op's rule."""
Iterations = Callable[[Signature], int]
"""How many iterations an op has."""
Through = Callable[[Signature], int]
"""Which of the tensors of an op it goes through, operands counted before results."""
Function = TypeVar("Function", bound=RuleFunction)
Given = TypeVar("Given", bound=UserFunction)

_CUSTOM_CALL = "stablehlo.custom_call"

_rules: dict[str, RuleFunction] = {}
_local: dict[str, FactorsOf] = {}
_apart: dict[str, FactorsOf] = {}
_refined: dict[str, Refinement] = {}
_iterations: dict[str, Iterations] = {}
_through: dict[str, Through] = {}
_given: dict[str, RuleFunction] = {}
_beyond: set[str] = set()


def sharding_rule(
    *names: str,
    beyond_shardy: bool = False,
    facts: OpFacts | None = None,
    local: FactorsOf | None = None,
    apart: FactorsOf | None = None,
    refined: Refinement | None = None,
    iterations: Iterations | None = None,
    through: Through | None = None,
) -> Callable[[Function], Function]:
    """Register a function from signature to rule for the ops called `names`. It returns `None` where no rule holds.

    Arguments:
        names: The ops.
        beyond_shardy: Whether the C++ Shardy has no rule for them, so that comparisons leave them out.
        facts: What else they are.
        local: The pass-through factors that the op can be split along without talking to other devices, where not all
            are. Some rules let shardings pass along a dimension that the op cannot be computed in parts of: the part of
            a `dynamic_update_slice` that lies in one shard depends on where the update goes.
        apart: The factors of dimensions that have nothing in common across the op's tensors, if one is strict: those
            that concatenate joins, and those that a convolution slides its window along.
        refined: Gives the rule where it depends on how the op's operands are made, too.
        iterations: Gives how many iterations the op has, where that is not the product of its factors' sizes.
        through: Tells which tensor the op goes through, and nothing of others, if it is one that looks elements up in
            a larger tensor, or puts them there.
    """

    def register(function: Function) -> Function:
        for name in names:
            _rules[name] = function
            if local is not None:
                _local[name] = local
            if apart is not None:
                _apart[name] = apart
            if refined is not None:
                _refined[name] = refined
            if iterations is not None:
                _iterations[name] = iterations
            if through is not None:
                _through[name] = through
        if beyond_shardy:
            _beyond.update(names)
        if facts is not None:
            declare(names, facts)
        return function

    return register


def registered_ops() -> tuple[str, ...]:
    """The names of all ops that have a rule."""
    return tuple(_rules)


def beyond_shardy() -> frozenset[str]:
    """The names of the ops that have a rule here and none in the C++ Shardy."""
    return frozenset(_beyond)


@overload
def rule(
    name: str,
    text: str,
    *,
    reduction: bool = True,
    need_replication: str | Iterable[str] = (),
    permutation: str | Iterable[str] = (),
    blocked: str | Iterable[str] = (),
    local: str | Iterable[str] = (),
) -> None: ...


@overload
def rule(name: str) -> Callable[[Given], Given]: ...


def rule(
    name: str,
    text: str | None = None,
    *,
    reduction: bool = True,
    need_replication: str | Iterable[str] = (),
    permutation: str | Iterable[str] = (),
    blocked: str | Iterable[str] = (),
    local: str | Iterable[str] = (),
) -> Callable[[Given], Given] | None:
    """Give the sharding rule of an op of your own, or another rule for one that has one.

    Shardings propagate along every factor that is not blocked. An op of your own is computed in parts along those that
    are summed, and that stand in an operand and in every result; never along those that need replication or neighbours.
    Factors of results alone are computed whole, and so is all of a call that calls functions, or in whose
    `backend_config` the factor's size stands, unless `local` names them. One of StableHLO is as its own rule allows.

    Arguments:
        name: The op's name, or `@target` for a custom call.
        text: The dimensions of its operands and results by name; left out, `rule` decorates a function that gives this
            text, a `ShardingRule`, or `None` where there is no rule, for the op's signature.
        reduction: Whether factors that no result has are summed over; they are to be whole otherwise.
        need_replication: Names of factors that the op cannot be computed in parts of, also as text: `"k d"`.
        permutation: Names of factors that need data of neighbouring shards.
        blocked: Names of factors along which propagation must not flow.
        local: Names of factors that your op can be computed in parts along although nothing shows it.

    Raises:
        ShardingError: malformed text, at its column; no such factor; kinds of factors without a text. Where the op is
            used: other operands, results, ranks or sizes than the rule says, or a function that fails.

    Example:
        >>> rule("my.matmul", "b i k, b k j -> b i j")
        >>> rule("@my_attention", "b q d, b k d, b k e -> b q e", need_replication="k d")
        >>> @rule("my.norm")
        ... def norm(signature):
        ...     return "i j, j -> i j" if signature.operands[0].rank == 2 else None
        >>> forget_rule("my.matmul"), forget_rule("@my_attention"), forget_rule("my.norm")
        (None, None, None)
    """
    if text is not None:
        parse = partial(parse_einsum, text, reduction=reduction, need_replication=need_replication)
        give_rule(label_of(name), parse(permutation=permutation, blocked=blocked, local=local).rule)
        return None
    if not reduction or need_replication or permutation or blocked or local:
        raise ShardingError(
            f"kinds of factors for {name!r} without a rule that has factors",
            remedy="give the rule in one line with them, or let the decorated function return a ShardingRule",
        )
    return partial(_give_answers, label_of(name))


def _give_answers(label: str, function: Given) -> Given:
    """The rules of an op are what a function answers."""
    give_rule(label, lambda signature: _checked(answer_of(function, signature), signature))
    return function


def forget_rule(name: str) -> None:
    """Take back what was said of an op with `rule` or `sharding_interface`, if there is something."""
    label = label_of(name)
    if (_given.pop(label, None) is not None) | forget_overrides(label):
        forget_everywhere()


@memoize
def rule_for(signature: Signature) -> ShardingRule | None:
    """The sharding rule of an op, or `None` where it has none, as without sizes (it is computed replicated).

    Raises:
        ShardingError: the rule that the program or a user gives does not fit the op.
    """
    text = signature.text(ATTRIBUTE)
    if text is not None:
        return parse_rule(text)
    if any(type.is_dynamic for type in (*signature.operands, *signature.results)):
        return None
    given = _given.get(signature.label) if _given else None
    return given(signature) if given else known_rule(signature)


def known_rule(signature: Signature) -> ShardingRule | None:
    """The rule that an op has by its meaning, whatever the program or a user says."""
    return _rules.get(signature.name, interface_rule)(signature)


def factors_apart(signature: Signature, rule: ShardingRule) -> frozenset[int] | None:
    """The factors of an op's rule whose dimensions have nothing in common, or `None` for an op that has none such."""
    apart = _apart.get(signature.name)
    return None if apart is None else apart(signature, rule)


def local_factors(signature: Signature) -> frozenset[int]:
    """The factors of the op's known rule along which each shard of the results needs only that shard of the operands.

    Empty for an op without such a rule. `tests/rules/test_numbers.py` checks this by computing. Rules that a user or
    the program gives are not asked: see `given`.
    """
    if any(type.is_dynamic for type in (*signature.operands, *signature.results)):
        return frozenset()
    rule = known_rule(signature)
    return frozenset() if rule is None else local_factors_by(signature, rule)


def local_factors_by(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The `local_factors` of an op whose known rule is at hand."""
    local = _local.get(signature.name)
    return rule.pass_through if local is None else rule.pass_through & local(signature, rule)


def own_iterations(signature: Signature) -> int | None:
    """How many iterations an op has by its meaning; `None` where these are those of its factors: see `iterations`."""
    count, number = _iterations.get(signature.name), gone_through(signature)
    if number is not None:
        return (*signature.operands, *signature.results)[number].elements
    return None if count is None else count(signature)


def result_alone(signature: Signature) -> int:
    """What an op goes through that takes a part of an operand: its result, and nothing else of that."""
    return len(signature.operands)


def gone_through(signature: Signature) -> int | None:
    """The one of its tensors that an op goes through, operands counted before results; `None` of those that go through
    all. Where it is not split, there is as much to do in each part.
    """
    through = _through.get(signature.name)
    return None if through is None else through(signature)


def rule_of(op: Op, definition: Definition) -> ShardingRule | None:
    """The sharding rule of an op in its program; `definition` gives the op that makes a value."""
    rule = rule_for(op.signature)
    refined = _refined.get(op.signature.name)
    if refined is None or rule is None or rule.custom:
        return rule
    return refined(op, rule, definition)


def is_given(signature: Signature) -> bool:
    """Whether the rule of an op comes from the program or from a user."""
    return signature.text(ATTRIBUTE) is not None or signature.label in _given


def label_of(name: str) -> str:
    """The label of signatures that a name means, `@target` a custom call.

    Raises:
        ShardingError: no name of an op.
    """
    if not isinstance(name, str) or not name or any(char.isspace() for char in name):
        raise ShardingError(
            f"{name!r} is not the name of an op",
            remedy="give a name such as 'my.matmul', or '@target' for a custom call",
        )
    return f"{_CUSTOM_CALL} {name}" if name.startswith("@") else name


def give_rule(label: str, function: RuleFunction) -> None:
    """Register what gives the rule of an op by its label; what was decided without it is forgotten."""
    _given[label] = function
    forget_overrides(label)
    forget_everywhere()


def answer_of(function: Callable[[Signature], Any], signature: Signature) -> Any:
    """What a user's function says of an op.

    Raises:
        ShardingError: the function fails, at the op.
    """
    try:
        return function(signature)
    except ShardingError:
        raise
    except Exception as error:
        raise ShardingError(
            "the function that gives the op's rule failed",
            op=signature.label,
            cause=f"{type(error).__name__}: {error}",
            remedy="correct the function; it may return None where it knows no rule",
        ) from error


def _checked(answer: ShardingRule | str | None, signature: Signature) -> ShardingRule | None:
    """What a user's function says, as a rule that fits the op."""
    if answer is None:
        return None
    if isinstance(answer, str):
        return parse_einsum(answer).rule(signature)
    if not isinstance(answer, ShardingRule):
        raise unfit(signature, f"the function gave {answer!r}", "return a ShardingRule, its text, or None")
    check_fit(answer, signature)
    return replace(answer, custom=True)
