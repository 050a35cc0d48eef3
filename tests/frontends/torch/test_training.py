"""Training steps: loss, gradients and what optimizers make of them are torch's own, however they are sharded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import Perceptron

MESH = sw.Mesh(data=2, model=4)
SHARDINGS: dict[str | int, Any] = {"x": "data,-", "y": "data,-", "up.weight": "model,data"}

Make = Callable[[Any], Any]


def loss(module: Any, x: Any, y: Any) -> Any:
    return ((module(x) - y) ** 2).mean()


def batch() -> tuple[Any, Any]:
    return torch.randn(8, 16), torch.randn(8, 8)


def torch_step(module: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    value = loss(module, x, y)
    value.backward()
    optimizer.step()
    return value.detach()


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=2e-5, atol=2e-6, msg=lambda text, n=name: f"{n}: {text}")


def test_without_an_optimizer_gradients_are_results() -> None:
    module = Perceptron()
    program = sw.from_torch(module, batch(), train=loss)
    assert list(program.results) == ["loss", *(f"grad.{name}" for name, _ in module.named_parameters())]
    x, y = batch()
    value, gradients = program.shard(MESH, SHARDINGS).partition().compile(trial=False)(x, y)
    expected = loss(module, x, y)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    assert_same(gradients, {name: parameter.grad for name, parameter in module.named_parameters()})


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    ],
    ids=["sgd", "dampened", "nesterov", "adam", "adamw"],
)
def test_steps_of_optimizers_are_those_of_torch(make: Make) -> None:
    torch.manual_seed(1)
    module = Perceptron()
    own = copy.deepcopy(module)
    optimizer, expected = make(module.parameters()), make(own.parameters())
    program = sw.from_torch(module, batch(), train=loss, optimizer=optimizer)
    assert program.results.keys() - {"loss"} <= program.arguments.keys()  # what is replaced is called as before
    step: Any = program.shard(MESH, SHARDINGS).partition().compile(trial=False)
    for number in range(4):
        for one in (optimizer, expected):
            one.param_groups[0]["lr"] *= 0.5  # as a scheduler does
        x, y = batch()
        torch.testing.assert_close(step(x, y), torch_step(own, expected, x, y), msg=f"loss of step {number}")
    assert_same(step.state_dict(), own.state_dict())
    module.load_state_dict(step.state_dict())
    optimizer.load_state_dict(step.optimizer_state_dict())
    x, y = batch()
    for one, stepper in ((module, optimizer), (own, expected)):
        torch_step(one, stepper, x, y)
    assert_same(module.state_dict(), own.state_dict())


def test_training_goes_on_from_the_state_of_an_optimizer() -> None:
    module = Perceptron()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for _ in range(3):
        torch_step(module, optimizer, *batch())
    program = sw.from_torch(module, batch(), train=loss, optimizer=optimizer)
    spmd = program.shard(MESH, SHARDINGS).partition()
    assert spmd.verify().ok
    x, y = batch()
    step: Any = spmd.compile(trial=False)
    step(x, y)
    torch_step(module, optimizer, x, y)
    assert_same(step.state_dict(), module.state_dict())


def test_groups_have_their_own_rates_and_what_is_not_in_one_stays() -> None:
    module = Perceptron()
    groups = [{"params": [module.up.weight]}, {"params": [module.down.weight], "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    program = sw.from_torch(module, batch(), train=loss, optimizer=optimizer)
    assert [name for name in program.arguments if "lr" in name] == ["optimizer.lr.0", "optimizer.lr.1"]
    assert list(program.results) == ["loss", "up.weight", "down.weight"]
    step: Any = program.shard(MESH, SHARDINGS).partition().compile(trial=False)
    x, y = batch()
    step(x, y)
    torch_step(module, optimizer, x, y)
    assert_same(step.state_dict(), module.state_dict())


def test_state_lies_as_its_parameters_and_is_given_away() -> None:
    module = Perceptron()
    optimizer = torch.optim.Adam(module.parameters())
    plan = sw.from_torch(module, batch(), train=loss, optimizer=optimizer).shard(MESH, SHARDINGS)
    lies = plan.arguments
    assert repr(lies["optimizer.exp_avg.up.weight"]) == repr(lies["up.weight"]) == "[{model}, {data}]"
    attributes = dict(zip(plan.arguments, plan.graph.main.argument_attributes, strict=True))
    assert [name for name, row in attributes.items() if "jax.buffer_donor" not in row] == ["x", "y", "optimizer.lr"]


def test_what_cannot_be_trained_is_refused() -> None:
    module = Perceptron()
    for options, message in (
        ({"optimizer": torch.optim.SGD(module.parameters())}, "an optimizer is given, and no loss"),
        ({"train": loss, "optimizer": torch.optim.RMSprop(module.parameters())}, "part of a program: RMSprop"),
        ({"train": loss, "optimizer": torch.optim.SGD(Perceptron().parameters())}, "that the module has not"),
        ({"train": lambda m, x, y: m(x) - y}, "is no floating-point scalar"),
        ({"train": lambda m, x, y: (x - y[:, :1]).sum()}, "depends on no parameter"),
    ):
        with pytest.raises(sw.ShardingError, match=message):
            sw.from_torch(module, batch(), **options)


def test_what_else_a_loss_function_returns_comes_back() -> None:
    def with_outputs(module: Any, x: Any, y: Any) -> Any:
        outputs = module(x)
        return ((outputs - y) ** 2).mean(), {"outputs": outputs.detach(), "count": 3}

    module = Perceptron()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    program = sw.from_torch(module, batch(), train=with_outputs, optimizer=optimizer)
    assert list(program.results)[:2] == ["loss", "result/1/outputs"]
    x, y = batch()
    expected, others = with_outputs(module, x, y)
    value, more = program.shard(MESH, SHARDINGS).partition().compile(trial=False)(x, y)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(more["outputs"], others["outputs"])
    assert more["count"] == 3


def test_the_module_is_left_alone() -> None:
    module = Perceptron()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = copy.deepcopy(module.state_dict())
    step = sw.from_torch(module, batch(), train=loss, optimizer=optimizer).shard("x=1").partition().compile(trial=False)
    for _ in range(2):
        step(*batch())  # which donates what it was given
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
