"""Training steps of modules that are laid out over processes, `python -m tests.frontends.torch.processes`, and started.

Every process makes the modules with parameters of its own, and takes plans from files: what counts are the numbers of
the first of the mesh.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import GPT, LSTM, ConvNet, MoE, Perceptron, ViT

Shard = importlib.import_module("torch.distributed.tensor").Shard
CommDebugMode = importlib.import_module("torch.distributed.tensor.debug").CommDebugMode
F = torch.nn.functional
ROOT = Path(__file__).parents[3]
SECONDS = 240


@dataclass(frozen=True)
class Model:
    """A module, what it takes, its loss, and its optimizer."""

    make: Callable[[], Any]
    inputs: Callable[[], Any]
    labels: Callable[[], Any]
    loss: Callable[[Any, Any], Any]
    optimizer: Callable[[Any], Any]

    def step(self, seed: int, lay_out: Callable[[Any], Any] = lambda module: module) -> dict[str, Any]:
        """Results, gradients and new parameters of two steps."""
        torch.manual_seed(seed)
        module = lay_out(self.make())
        optimizer = self.optimizer(module.parameters())
        torch.manual_seed(100)
        found: dict[str, Any] = {}
        for number in range(2):
            optimizer.zero_grad()
            results = module(self.inputs())
            value = self.loss(results, self.labels())
            value.backward()
            found[f"results {number}"], found[f"loss {number}"] = results.detach(), value.detach()
            found |= {f"grad {number} {name}": one.grad for name, one in module.named_parameters()}
            optimizer.step()
        return {**found, **module.state_dict(), **{f"lies {n}": p for n, p in module.named_parameters()}}


def heads() -> Any:
    """A GPT whose heads can be split, with results of the size of its inputs."""
    made = GPT(is_split=True)
    with torch.no_grad():
        made.wte.weight.mul_(0.1)
    return made


def entropy(results: Any, labels: Any) -> Any:
    return F.cross_entropy(results.flatten(0, -2), labels.flatten())


def adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=0.01, eps=1e-3)  # gradients of the biases of keys are noise


def momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def tokens() -> Any:
    return torch.randint(0, 64, (8, 16))


def images() -> Any:
    return torch.randn(8, 3, 16, 16).double()


def vectors() -> Any:
    return torch.randn(8, 16).double()


def classes() -> Any:
    return torch.randint(0, 8, (8,))


def doubled(make: Callable[[], Any]) -> Callable[[], Any]:
    """A module, or a tensor, in double precision: sums in other orders differ by little then on every machine."""
    return lambda: make().double()


MODELS = {
    "mlp": Model(doubled(Perceptron), vectors, doubled(lambda: torch.randn(8, 8)), F.mse_loss, momentum),
    "gpt": Model(doubled(GPT), tokens, tokens, entropy, adamw),
    "heads": Model(doubled(heads), tokens, tokens, entropy, adamw),
    "convolution": Model(doubled(ConvNet), images, classes, entropy, momentum),
    "vit": Model(doubled(ViT), images, classes, entropy, adamw),
    "moe": Model(doubled(MoE), vectors, classes, entropy, momentum),
}


class Shifted(Perceptron):
    """With a buffer, which is added to the results."""

    def __init__(self) -> None:
        super().__init__((16, 5, 8))
        self.register_buffer("shift", torch.arange(8.0))

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return super().forward(x, scale) + self.shift


class Inner(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """Takes and gives a container of tensors, and notes how they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.seen: list[str] = []

    def forward(self, *, batch: Any) -> Any:
        self.seen.append(str(getattr(batch["x"], "placements", "whole")))
        return {"x": torch.tanh(self.linear(batch["x"])), "times": 1}


class Repeated(torch.nn.Module):  # type: ignore[misc]
    """Calls a module twice, the first time with a tensor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.given: list[str] = []

    def forward(self, x: Any) -> Any:
        first = self.inner(batch={"x": torch.arange(128.0).view(8, 16).sin()})
        self.given.append(str(getattr(first["x"], "placements", "whole")))
        return x + self.inner(batch=first)["x"]


REPEATED = {
    "inner.inputs.batch/x": "model,.",
    "inner.outputs.x": ".,model",
    "inner#1.inputs.batch/x": "model,.",
    "inner.linear#1.outputs": ".,.",
}
"""How what the module takes and gives is to lie."""


def check_repeated(plan: Path) -> None:
    """Calls of one module, by keyword and in containers, with a plain tensor, again and again, and by themselves."""
    torch.manual_seed(0)
    module, x = Repeated(), torch.randn(8, 16)
    expected = module(x)
    sw.parallelize(module, plan)
    for _ in range(2):
        module.inner.seen.clear()
        module.given.clear()
        torch.testing.assert_close(module(x), expected)
        assert module.inner.seen == ["(Shard(dim=0),)", "(Shard(dim=0),)"], module.inner.seen
        assert module.given == ["(Shard(dim=1),)"], module.given
    given = torch.distributed.tensor.distribute_tensor(x, module.inner.linear.weight.device_mesh, [Shard(1)])
    module.inner(batch={"x": given})
    assert module.inner.seen[-1] == "(Shard(dim=1),)"


def check_details(plan: Path) -> None:
    """Uneven shards, buffers, frozen parameters, keywords, results as DTensors, gradients of inputs, meshes given."""
    torch.manual_seed(0)
    module, x = Shifted(), torch.randn(7, 16, requires_grad=True)
    module.up.bias.requires_grad_(False)
    one, own = copy.deepcopy(module), x.detach().clone().requires_grad_()
    wrong = torch.distributed.init_device_mesh("cpu", (2,), mesh_dim_names=("model",))
    with pytest.raises(sw.ShardingError, match=r"the plan is for Mesh\(data=2\)"):
        sw.parallelize(module, plan, wrong)
    mesh = torch.distributed.init_device_mesh("cpu", (2,), mesh_dim_names=("data",))
    loaded: Any = sw.load_plan(plan)
    assert sw.parallelize(module, loaded, mesh, full=False) is module
    assert isinstance(module, Shifted)
    with pytest.raises(sw.ShardingError, match=r"'up\.weight' is a DTensor already"):
        sw.parallelize(module, plan, mesh)
    with pytest.raises(sw.ShardingError, match="argument 'x' has 1 dimension"):
        module(x[0])
    results, expected = module(x=x, scale=2.0), one(own, 2.0)
    assert str(results.placements) == "(Shard(dim=0),)"
    torch.testing.assert_close(results.full_tensor(), expected)
    results.full_tensor().square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, own.grad)
    assert module.up.weight.to_local().shape[0] == (3, 2)[torch.distributed.get_rank()]
    assert module.up.bias.grad is None
    assert module.state_dict()["shift"].device_mesh == mesh
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad.full_tensor(), one.get_parameter(name).grad)


def check_refused(plan: Path) -> None:
    """An op without a rule, at the line that calls it; and that there are rules where it is not fused."""
    torch.manual_seed(0)
    module, x = LSTM(), torch.randn(8, 6, 8)
    expected = module(x)
    sw.parallelize(module, plan)
    with pytest.raises(sw.ShardingError, match=r"DTensor cannot run lstm of \[8, 6, 8\] \[Shard") as refused:
        module(x)
    assert "does not have a sharding strategy" in refused.value.diagnostic.cause
    place, _, line = refused.value.diagnostic.location.partition(":")
    assert "self.lstm(" in Path(place).read_text().splitlines()[int(line) - 1]
    with torch.backends.mkldnn.flags(enabled=False):
        torch.testing.assert_close(module(x), expected)


def collectives(plan: Path) -> dict[str, dict[str, int]]:
    """How many collectives of each kind a forward and a backward pass start, by the plan and without its modules."""
    model, saved = MODELS[plan.name.partition("-")[0]], sw.load_plan(plan)
    assert isinstance(saved, sw.SavedPlan)
    found: dict[str, dict[str, int]] = {}
    for what, one in (("by the plan", saved), ("without modules", replace(saved, modules={}))):
        module = sw.parallelize(model.make(), one)
        inputs, labels = model.inputs(), model.labels()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that inputs are not differentiated, which the hooks of this mode tell of
            with CommDebugMode() as forward:
                results = module(inputs)
            with CommDebugMode() as backward:
                model.loss(results, labels).backward()
        for when, counted in (("forward", forward), ("backward", backward)):
            counts = counted.get_comm_counts().items()
            found[f"{when} {what}"] = {str(op).rpartition(".")[2]: count for op, count in counts}
    return found


def run(plan: Path) -> dict[str, Any]:
    """What comes out in this process with the plan of a file `MODEL-….toml`, tensors whole, and how parameters lie."""
    model = MODELS[plan.name.partition("-")[0]]
    rank = torch.distributed.get_rank()
    found = model.step(rank, lambda module: sw.parallelize(module, plan))
    whole: dict[str, Any] = {}
    for name, tensor in found.items():
        if name.startswith("lies "):
            assert tensor.grad.placements == tensor.placements, name
            whole[name] = (str(tensor.placements), list(tensor.to_local().shape))
        else:
            whole[name] = tensor.full_tensor().detach() if hasattr(tensor, "full_tensor") else tensor
    return whole


def main(rank: int, count: int, folder: Path, plans: Sequence[str]) -> None:
    """Join the others, and leave what comes out of each plan in `PLAN.RANK`."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/joined", rank=rank, world_size=count)
    if (folder / "details.toml").exists():
        check_details(folder / "details.toml")
        check_refused(folder / "refused.toml")
        check_repeated(folder / "repeated.toml")
    for plan in plans:
        torch.save(run(folder / plan), folder / f"{plan}.{rank}")
        if plan.startswith("heads-") and count == 2:
            (folder / f"{plan}.{rank}.collectives").write_text(json.dumps(collectives(folder / plan)))
    torch.distributed.destroy_process_group()


def started(count: int, folder: Path, plans: Sequence[str]) -> None:
    """Run the plans in as many processes."""
    command = [sys.executable, "-m", __name__]
    _finished([[*command, str(rank), str(count), str(folder), *plans] for rank in range(count)], folder)


def launched(count: int, script: Path, folder: Path) -> str:
    """Run a script as `torchrun` does, and give what it prints."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    [printed] = _finished([[*command, "--nproc-per-node", str(count), str(script)]], folder)
    return printed


def _finished(commands: Sequence[Sequence[str]], folder: Path) -> list[str]:
    """What processes print that run beside each other; they, and what they start, end with this."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GLOO_SOCKET_IFNAME": "lo"}
    outputs = [folder / f"printed.{number}" for number in range(len(commands))]
    with contextlib.ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        for command, output in zip(commands, outputs, strict=True):
            file = stack.enter_context(output.open("wb"))
            made = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=file, stderr=file, start_new_session=True
            )
            stack.callback(_end, made)
            processes.append(made)
        end = time.monotonic() + SECONDS
        while any(codes := [process.poll() for process in processes]) or None in codes:
            printed = "\n".join(out.read_text()[-4000:] for out, code in zip(outputs, codes, strict=True) if code)
            assert not any(codes), printed
            assert time.monotonic() < end, f"processes take more than {SECONDS} s"
            time.sleep(0.05)
    return [output.read_text() for output in outputs]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # upon which what launched others ends these
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):  # all of them have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
