"""Ops of which nothing moves: the choice told without a price is the one that all prices tell."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import shardwright as sw
from shardwright.cost.hardware import current_hardware
from shardwright.ir.signature import Signature
from shardwright.memo import Session
from shardwright.partition import assign as assigning
from shardwright.partition import decide as deciding
from shardwright.partition import op_split as splitting
from shardwright.partition.decisions import Layout
from shardwright.partition.in_place import choice_in_place, pointwise_in_place
from shardwright.partition.proposals import Shardings, Source
from shardwright.partition.splits import splits_of
from shardwright.partition.ways import Choice
from shardwright.rules.pointwise import POINTWISE
from tests.propagation.programs import random_program
from tests.propagation.programs_wide import wide_program


@pytest.mark.parametrize("program", [random_program, wide_program])
def test_the_choice_in_place_is_the_cheapest(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: Counter[bool] = Counter()

    def assign(signature: Signature, sources: tuple[Source, ...], targets: Shardings, *rest: Any) -> Choice:
        splits = splits_of(signature)
        choice = choice_in_place(splits, sources, targets, current_hardware()) if splits is not None else None
        told[choice is not None] += 1
        with monkeypatch.context() as patch:
            patch.setattr(assigning, "choice_in_place", lambda *_: None)
            cheapest = assigning.assign(signature, sources, targets, *rest)
        assert choice in (None, cheapest)
        return cheapest

    monkeypatch.setattr(splitting, "assign", assign)
    monkeypatch.setattr(deciding, "pointwise_in_place", lambda *_: None)
    for seed in range(12):
        with Session(), suppress(sw.ShardingError):
            sw.load(program(seed)).plan().partition()
    assert min(told[True], told[False]) > 10


@pytest.mark.parametrize("program", [random_program, wide_program])
def test_pointwise_ops_are_in_place_without_a_rule_where_all_prices_tell_so(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Counter[bool] = Counter()

    def in_place(
        signature: Signature, sources: tuple[Source, ...], targets: tuple[Layout, ...], passing: frozenset[int]
    ) -> Shardings | None:
        operands = pointwise_in_place(signature, sources, targets, passing)
        layouts = tuple(filter(None, targets))
        if operands is not None:
            choice = assigning.assign(signature, sources, layouts, passing)
            assert (choice.operands, choice.results) == (operands, targets)
        elif signature.name in POINTWISE:
            splits = splits_of(signature)
            assert splits is None or choice_in_place(splits, sources, layouts, current_hardware()) is None
        told[operands is not None] += signature.name in POINTWISE
        return operands

    monkeypatch.setattr(deciding, "pointwise_in_place", in_place)
    for seed in range(96):
        with Session(), suppress(sw.ShardingError):
            sw.load(program(seed)).plan().partition(effort="default" if seed % 8 == 0 else "fast")
    assert min(told[True], told[False]) > 10
