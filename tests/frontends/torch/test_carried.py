"""What a module keeps from one call to the next: buffers that it assigns are carried, other attributes are refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch

MESH = sw.Mesh(data=2, model=4)
Forward = Callable[..., Any]


class Keeping(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """A module with buffers, plain attributes and a parameter, that is called as a function says."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.linspace(0.5, 1, 4))
        self.register_buffer("k", torch.arange(4.0))
        self.register_buffer("p", torch.ones(4), persistent=False)
        self.plain, self.several, self.count = torch.zeros(4), [torch.zeros(4)], 0
        self.later: Any = None
        self._forward = forward

    def forward(self, x: Any) -> Any:
        return self._forward(self, x)


class Outer(torch.nn.Module):  # type: ignore[misc]
    """One with parts, one of them called twice and under two names."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.one, self.other = Keeping(forward), Keeping(forward)
        self.again = self.one

    def forward(self, x: Any) -> Any:
        return self.one(x) + 2 * self.other(self.again(x)) + self.one.k


def added(module: Any, x: Any) -> Any:
    module.k = module.k + x.detach().mean(0)
    return x * module.w * module.k


def used_before(module: Any, x: Any) -> Any:
    old = module.k
    y = x * module.w * old
    module.k = 0.9 * old + 0.1 * x.detach().mean(0)
    return y + old


def exchanged(module: Any, x: Any) -> Any:
    module.k, module.p = module.p, module.k + x.detach().mean(0)
    return module.k + 2 * module.p * x * module.w


def unread(module: Any, x: Any) -> Any:
    module.k = (x * module.w).detach().mean(0)
    return x * module.w


def written_and_assigned(module: Any, x: Any) -> Any:
    module.k.add_(x.detach().mean(0))
    module.k = module.k * 0.5
    module.k.add_(1)
    return x * module.w * module.k.clone()


CARRIED = (added, used_before, exchanged, unread, written_and_assigned)


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=2e-5, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("make", [Keeping, Outer])
@pytest.mark.parametrize("forward", CARRIED)
def test_assigned_buffers_are_carried_from_call_to_call(forward: Forward, make: Callable[[Forward], Any]) -> None:
    module = make(forward)
    own = copy.deepcopy(module)
    program = sw.from_torch(module, (torch.randn(8, 4),))
    step: Any = program.shard(MESH, {"x": "data,model"}).partition().compile(trial=False)
    for _ in range(3):
        x = torch.randn(8, 4)
        torch.testing.assert_close(step(x), own(x).detach(), rtol=2e-5, atol=1e-5)
    assert_same(step.state_dict(), own.state_dict())


@pytest.mark.parametrize("make", [Keeping, Outer])
@pytest.mark.parametrize("forward", CARRIED)
def test_assigned_buffers_are_carried_by_training_steps(forward: Forward, make: Callable[[Forward], Any]) -> None:
    def loss(module: Any, x: Any) -> Any:
        return (module(x) ** 2).mean()

    module = make(forward)
    own = copy.deepcopy(module)
    optimizer, expected = (torch.optim.SGD(one.parameters(), lr=0.01) for one in (module, own))
    program = sw.from_torch(module, (torch.randn(8, 4),), train=loss, optimizer=optimizer)
    step: Any = program.shard(MESH, {"x": "data,model"}).partition().compile(trial=False)
    for _ in range(3):
        x = torch.randn(8, 4)
        expected.zero_grad()
        value = loss(own, x)
        value.backward()
        expected.step()
        torch.testing.assert_close(step(x), value.detach(), rtol=2e-5, atol=1e-5)
    assert_same(step.state_dict(), own.state_dict())


def replaced(module: Any, x: Any) -> Any:
    module.plain = module.plain + x
    return module.plain * module.w


def replaced_in_a_list(module: Any, x: Any) -> Any:
    module.several[0] = module.several[0] + x
    return x * module.w


def appended(module: Any, x: Any) -> Any:
    module.several.append(x)
    return x * module.w


def counted(module: Any, x: Any) -> Any:
    module.count += 1
    return x * module.w * module.count


def made_at_the_first_call(module: Any, x: Any) -> Any:
    if module.later is None:
        module.later = x.detach() * 2
    return x * module.w * module.later


def new(module: Any, x: Any) -> Any:
    module.register_buffer("made", x.detach())
    return x * module.w


def of_another_shape(module: Any, x: Any) -> Any:
    module.k = module.k + x
    return x * module.w


def of_another_type(module: Any, x: Any) -> Any:
    module.k = module.k.double()
    return x * module.w


def tied_afterwards(module: Any, x: Any) -> Any:
    module.k = module.p
    return x * module.w


def data_of_a_buffer(module: Any, x: Any) -> Any:
    module.k.data = module.k * 0.5
    return x * module.w * module.k


def data_of_a_parameter(module: Any, x: Any) -> Any:
    module.w.data = module.w * 0.5
    return x * module.w


REFUSED: dict[Forward, tuple[str, str]] = {
    replaced: ("plain", "it was float32[4] and is float32[8, 4]"),
    replaced_in_a_list: ("several[0]", "it was float32[4] and is float32[8, 4]"),
    appended: ("several[1]", "it was missing and is float32[8, 4]"),
    counted: ("count", "it was 0 and is "),
    made_at_the_first_call: ("later", "it was None and is float32[8, 4]"),
    new: ("made", "it was missing"),
    of_another_shape: ("k", "a buffer keeps its shape"),
    of_another_type: ("k", "a buffer keeps its shape and element type"),
    tied_afterwards: ("k", "another attribute is the same tensor"),
    data_of_a_buffer: ("k", "its data was replaced"),
    data_of_a_parameter: ("w", "its data was replaced"),
}


@pytest.mark.parametrize("make", [Keeping, Outer])
@pytest.mark.parametrize("train", [None, lambda module, x: module(x).sum()], ids=["forward", "training"])
@pytest.mark.parametrize("forward", REFUSED)
def test_what_cannot_be_carried_is_refused(forward: Forward, train: Any, make: Callable[[Forward], Any]) -> None:
    module, (attribute, cause) = make(forward), REFUSED[forward]
    with pytest.raises(sw.ShardingError) as caught:
        sw.from_torch(module, (torch.randn(8, 4),), train=train)
    diagnostic = caught.value.diagnostic
    path = "one." if make is Outer else ""
    assert diagnostic.message.startswith(f"a call of {make.__name__} changes {path}{attribute},")
    assert cause in diagnostic.cause
    assert "test_carried.py:" in diagnostic.location
    assert diagnostic.remedy


@pytest.mark.parametrize("forward", [*CARRIED, *REFUSED])
def test_the_module_has_its_own_attributes_afterwards(forward: Forward) -> None:
    module = Keeping(forward)
    before, several = dict(vars(module)), list(module.several)
    held = {**before["_parameters"], **before["_buffers"]}
    numbers = {name: tensor.clone() for name, tensor in held.items()}
    try:
        sw.from_torch(module, (torch.randn(8, 4),))
    except sw.ShardingError:
        assert forward in REFUSED
    assert vars(module).keys() == before.keys()
    assert all(value is before[key] for key, value in vars(module).items() if key != "several")
    assert len(module.several) == 1
    assert module.several[0] is several[0]
    after = {**module._parameters, **module._buffers}
    assert after.keys() == held.keys()
    assert all(tensor is held[name] and torch.equal(tensor, numbers[name]) for name, tensor in after.items())


def test_what_a_first_call_makes_is_there_after_one() -> None:
    module, x = Keeping(made_at_the_first_call), torch.randn(8, 4)
    module(x)
    step: Any = sw.from_torch(module, (x,)).shard(MESH).partition().compile(trial=False)
    torch.testing.assert_close(step(2 * x), module(2 * x).detach())


def test_tensors_that_are_made_anew_by_each_call_may_be_attributes() -> None:
    def last(module: Any, x: Any) -> Any:
        module.plain = x * module.w
        return module.plain + 1

    with pytest.warns(FutureWarning):
        linear = torch.nn.utils.weight_norm(torch.nn.Linear(4, 8))  # a hook assigns its weight
    module, x = torch.nn.Sequential(Keeping(last), linear), torch.randn(8, 4)
    step: Any = sw.from_torch(module, (x,)).shard(MESH).partition().compile(trial=False)
    torch.testing.assert_close(step(2 * x), module(2 * x).detach())


def test_marks_that_a_first_call_leaves_are_no_state() -> None:
    def forward(module: Any, x: Any) -> Any:
        module.is_prepared = True
        return x * module.w

    module, x = Keeping(forward), torch.randn(8, 4)
    step: Any = sw.from_torch(module, (x,)).shard(MESH).partition().compile(trial=False)
    assert not hasattr(module, "is_prepared")
    torch.testing.assert_close(step(x), module(x).detach())


def test_notes_of_calls_are_no_state() -> None:
    def noting(module: Any, x: Any) -> Any:
        module.several.append(f"called with {list(x.shape)}")
        return x * module.w

    module, x = Keeping(noting), torch.randn(8, 4)
    step: Any = sw.from_torch(module, (x,)).shard(MESH).partition().compile(trial=False)
    assert len(module.several) == 1
    torch.testing.assert_close(step(x), module(x).detach())


def test_tied_buffers_are_not_assigned_one_by_one() -> None:
    module = Outer(added)
    module.other.k = module.one.k
    with pytest.raises(sw.ShardingError, match="another attribute is the same tensor"):
        sw.from_torch(module, (torch.randn(8, 4),))
