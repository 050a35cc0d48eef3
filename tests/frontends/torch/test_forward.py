"""Modules become programs, and their sharded results are torch's own."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import Perceptron

MESH = sw.Mesh(data=2, model=4)


@pytest.fixture(scope="module")
def perceptron() -> Any:
    torch.manual_seed(0)
    return Perceptron()


@pytest.fixture(scope="module")
def program(perceptron: Any) -> sw.Program:
    return sw.from_torch(perceptron, (torch.randn(8, 16),), {"scale": 2.0})


def refused(*args: Any, **kwargs: Any) -> sw.Diagnostic:
    with pytest.raises(sw.ShardingError) as caught:
        sw.from_torch(*args, **kwargs)
    return caught.value.diagnostic


def test_arguments_are_called_as_in_the_state_dict(program: sw.Program) -> None:
    assert list(program.arguments) == ["up.weight", "up.bias", "down.weight", "down.bias", "x"]
    assert (program.name, list(program.results)) == ("Perceptron", ["result0"])


def test_the_sharded_module_gives_what_torch_gives(program: sw.Program, perceptron: Any) -> None:
    spmd = program.shard(MESH, {"x": "data,-", "up.weight": "model,-"}).partition()
    assert spmd.verify().ok
    step = spmd.compile()
    x = torch.randn(8, 16)
    torch.testing.assert_close(step(x, scale=2.0), perceptron(x, scale=2.0))


def test_ops_stand_at_the_lines_of_the_module(program: sw.Program) -> None:
    places = {str(program.graph.locations[op.location]) for op in program.graph.walk()}
    assert any("tests/frontends/torch/models.py:" in place for place in places)
    assert not any("site-packages" in place for place in places)


def test_a_prefix_of_names_is_a_part_of_the_module(program: sw.Program) -> None:
    plan = program.shard(MESH, {"up": ("model",), "up.weight": "model,data"})
    assert [repr(plan.arguments[name]) for name in ("up.weight", "up.bias")] == ["[{model}, {data}]", "[{model}]"]


def test_programs_are_values(program: sw.Program, perceptron: Any) -> None:
    again = pickle.loads(pickle.dumps(program))
    spmd = again.shard(MESH, {"x": "data,-"}).partition()
    x = torch.randn(8, 16)
    torch.testing.assert_close(spmd.compile()(x, scale=2.0), perceptron(x, scale=2.0))


def test_verification_takes_the_parameters_of_the_module(program: sw.Program, perceptron: Any) -> None:
    arrays = program.shard(MESH).partition().inputs()
    assert torch.equal(torch.from_numpy(arrays[1].copy()), perceptron.up.bias.detach())


def test_a_state_dict_goes_in_and_comes_back(program: sw.Program, perceptron: Any) -> None:
    step: Any = program.shard(MESH, {"up.weight": "model,-"}).partition().compile()
    own = step.state_dict()
    assert list(own) == list(perceptron.state_dict())
    assert all(torch.equal(own[name], tensor) for name, tensor in perceptron.state_dict().items())
    other = Perceptron()
    step.load_state_dict(other.state_dict())
    x = torch.randn(8, 16)
    torch.testing.assert_close(step(x, scale=2.0), other(x, scale=2.0))
    with pytest.raises(sw.ShardingError, match=r"has no parameter or buffer 'up\.wait'"):
        step.load_state_dict({"up.wait": torch.zeros(1)})
    with pytest.raises(sw.ShardingError, match=r"'up\.bias' cannot be torch\.float32\[1\]"):
        step.load_state_dict({"up.bias": torch.zeros(1)})


def test_other_arguments_are_refused(program: sw.Program) -> None:
    step = program.shard(MESH).partition().compile()
    for args, kwargs, message in (
        ((torch.randn(8, 16),), {"scale": 3.0}, "is called with 3.0 where it was made for 2.0"),
        ((torch.randn(4, 16),), {"scale": 2.0}, r"float32\[4, 16\] where it was made for float32\[8, 16\]"),
        ((torch.randn(8, 16),), {}, "is called with other arguments than it was made for"),
    ):
        with pytest.raises(sw.ShardingError, match=message):
            step(*args, **kwargs)


def test_what_is_no_module_is_refused(perceptron: Any) -> None:
    x = torch.randn(8, 16)
    assert refused(torch.relu, (x,)).message.startswith("not a module: <built-in")
    assert refused(perceptron, x).message == "the arguments are no tuple"
    assert refused(perceptron, (object(),)).cause == "it is an object, which torch's pytrees do not look into"
    assert refused(perceptron, (x,), train=3).message == "not a loss function: 3"


def test_what_torch_cannot_trace_is_refused() -> None:
    class Branching(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    diagnostic = refused(Branching(), (torch.randn(4),))
    assert diagnostic.message == "torch.export cannot trace Branching"
    assert "data-dependent" in diagnostic.cause


def test_random_numbers_are_refused_at_their_line() -> None:
    class Dropping(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.dropout(x, 0.5, self.training)

    module = Dropping()
    diagnostic = refused(module, (torch.randn(4),))
    assert diagnostic.message == "the program draws random numbers"
    assert "test_forward.py:" in diagnostic.location
    assert list(sw.from_torch(module.eval(), (torch.randn(4),)).arguments) == ["x"]


def test_an_op_without_stablehlo_is_named() -> None:
    class Sorting(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvalsh(x)

    diagnostic = refused(Sorting(), (torch.randn(4, 4),))
    assert diagnostic.message == "torch-mlir cannot write Sorting as StableHLO"
    assert "eigh" in diagnostic.op
    assert "test_forward.py:" in diagnostic.location


def test_an_op_is_named_also_where_torch_mlir_stumbles_over_its_operands() -> None:
    class Pooling(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.x = torch.nn.Parameter(torch.randn(2, 2, 4, 8, 8))

        def forward(self) -> Any:
            return torch.nn.functional.max_pool3d(self.x, 2)

    diagnostic = refused(Pooling(), (), train=lambda module: module().sum())
    assert "max_pool" not in diagnostic.cause
    assert diagnostic.op == "aten.max_pool3d_with_indices.default"
    assert "test_forward.py:" in diagnostic.location


def test_arguments_are_not_written_to() -> None:
    class Writing(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            return (x.add_(1) * self.w).sum()

    for options in ({}, {"train": lambda module, x: module(x)}):
        diagnostic = refused(Writing(), (torch.zeros(4),), **options)
        assert "arguments" in diagnostic.remedy


class Mixed(torch.nn.Module):  # type: ignore[misc]
    """Values of many types, and a buffer that is no part of the `state_dict`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 4, dtype=torch.bfloat16))
        self.register_buffer("scale", torch.tensor([1, 2, 3, 4], dtype=torch.int64), persistent=False)

    def forward(self, x: Any, mask: Any, *, offset: Any, more: Any) -> Any:
        values = torch.where(mask, x, offset.double()[:, None]) + more["one"][0]
        return {"values": values, "product": x.bfloat16() @ self.weight * self.scale, "names": ("a", None)}


def mixed() -> tuple[tuple[Any, ...], dict[str, Any]]:
    keywords = {"offset": torch.arange(8, dtype=torch.int32), "more": {"one": [torch.randn(8, 8).double(), 2]}}
    return (torch.randn(8, 8, dtype=torch.float64), torch.rand(8, 8) > 0.5), keywords


def test_types_and_containers_of_all_kinds_pass() -> None:
    module = Mixed()
    args, kwargs = mixed()
    program = sw.from_torch(module, args, kwargs)
    assert list(program.arguments) == ["weight", "scale", "x", "mask", "more/one/0", "offset"]
    assert list(program.results) == ["values", "product"]
    spmd = program.shard(MESH, {"x": "data,-", "weight": "-,model"}).partition()
    assert spmd.verify().ok
    step: Any = spmd.compile(trial=False)
    args, kwargs = mixed()
    assert list(kwargs) == ["offset", "more"]
    given, expected = step(*args, more=kwargs["more"], offset=kwargs["offset"]), module(*args, **kwargs)
    assert given.pop("names") == expected.pop("names") == ("a", None)
    torch.testing.assert_close(given, expected, rtol=1e-2, atol=1e-2)
    module.load_state_dict(step.state_dict())  # strict: no name too many
    with pytest.raises(
        sw.ShardingError, match=r"Mixed is called with an? ndarray where it was made for float64\[8, 8\]"
    ):
        step(args[0].numpy(), args[1], **kwargs)


def test_a_module_without_numbers_can_be_planned() -> None:
    with torch.device("meta"):
        module = Perceptron((1 << 14, 1 << 15, 8))  # two gigabytes, had it any
    program = sw.from_torch(module, (torch.empty(8, 1 << 14, device="meta"),))
    spmd = program.shard(MESH, {"up.weight": "model,data"}).partition()
    assert spmd.memory.peak > (1 << 29) / 2
    assert program.call is not None
    assert program.call.given() == {}
    with pytest.raises(sw.ShardingError, match="has no numbers"):
        spmd.compile(trial=False)


def test_ops_that_check_values_are_refused() -> None:
    class Inverse(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.x = torch.nn.Parameter(torch.eye(4))

        def forward(self) -> Any:
            return torch.linalg.inv(self.x)

    with pytest.raises(sw.ShardingError, match="checks its values while it runs"):
        sw.from_torch(Inverse(), (), train=lambda module: module().sum())


def loops(x: Any) -> Any:
    return torch.ops.higher_order.while_loop(lambda y: y.sum() < 3, lambda y: (y + 1,), (x,), ())[0]


@pytest.mark.parametrize("train", [None, lambda module, x: module(x).sum()], ids=["forward", "training"])
@pytest.mark.parametrize(
    ("op", "call", "remedy"),
    [
        ("cond", lambda x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,)), "torch.where"),
        ("while_loop", loops, "let Python loop"),
    ],
)
def test_branches_and_loops_that_are_ops_are_refused(op: str, call: Any, remedy: str, train: Any) -> None:
    class Calling(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                scale = call(x)
            return scale * self.w

    diagnostic = refused(Calling(), (torch.zeros(4),), train=train)
    assert diagnostic.message == "the program branches or loops while it runs"
    assert diagnostic.op == op
    assert "test_forward.py:" in diagnostic.location
    assert remedy in diagnostic.remedy


class Calling(torch.nn.Module):  # type: ignore[misc]
    """A function of an argument, times a parameter."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("k", torch.ones(4))
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self, x) * self.w


def written_after_use(module: Any, x: Any) -> Any:
    y = module.w * module.k * x
    module.k.add_(1)
    return y


@pytest.mark.parametrize("train", [None, lambda module, x: module(x).sum()], ids=["forward", "training"])
@pytest.mark.parametrize(
    ("function", "cause", "remedy"),
    [
        (lambda _, x: x.masked_select(x > 0).sum(), "the size of a result depends on values", "torch.where"),
        (lambda _, x: torch.bincount(x.long(), minlength=4), "the size of a result depends on values", "one_hot"),
        (lambda _, x: x.sum().item() * x, "a value becomes a number of Python's", "no branches on values"),
        (lambda _, x: torch.func.grad(lambda y: (y**3).sum())(x), "torch.func.grad", "torch.autograd.grad"),
    ],
)
def test_what_torch_cannot_trace_says_why_and_where(function: Any, cause: str, remedy: str, train: Any) -> None:
    diagnostic = refused(Calling(function), (torch.ones(4),), train=train)
    assert cause in diagnostic.cause
    assert remedy in diagnostic.remedy
    assert "test_forward.py:" in diagnostic.location


@pytest.mark.parametrize("train", [None, lambda module, x: module(x).sum()], ids=["forward", "training"])
def test_parameters_are_not_written_to(train: Any) -> None:
    def halved(module: Any, x: Any) -> Any:
        with torch.no_grad():
            module.w.mul_(0.5)
        return x

    diagnostic = refused(Calling(halved), (torch.ones(4),), train=train)
    assert diagnostic.message == "the program writes to the parameter w"
    assert "register_buffer" in diagnostic.remedy


def test_what_is_written_to_out_of_sight_or_too_late_is_refused() -> None:
    diagnostic = refused(Calling(written_after_use), (torch.ones(4),), train=lambda module, x: module(x).sum())
    assert "of which gradients need what it was" in diagnostic.cause
    diagnostic = refused(Calling(lambda module, x: module.k.data.copy_(x)), (torch.ones(4),))
    assert "self.buffer.copy_(…)" in diagnostic.remedy


def test_an_average_over_all_calls_is_refused_in_a_few_words(capfd: pytest.CaptureFixture[str]) -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(4, momentum=None))
    diagnostic = refused(module, (torch.randn(8, 4),))
    assert diagnostic.cause.startswith("0, a BatchNorm1d, has momentum=None")
    assert "momentum=0.1" in diagnostic.remedy
    assert not "".join(capfd.readouterr())
    x = torch.randn(8, 4)
    step: Any = sw.from_torch(module.eval(), (x,)).shard(MESH).partition().compile(trial=False)
    torch.testing.assert_close(step(x), module(x).detach())
