"""Plans applied to live PyTorch modules, which torch runs by its DTensor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shardwright.plans.load import load_saved
from shardwright.plans.saved import SavedPlan
from shardwright.program.planned import Planned

if TYPE_CHECKING:
    from shardwright.frontends.torch.placed import Layouts

__all__ = ["parallelize"]


def parallelize(
    module: Any, plan: Planned | SavedPlan | str | os.PathLike[str], mesh: Any = None, *, full: bool = True
) -> Any:
    """Lay a live PyTorch module out over processes as a plan has it; torch runs and trains it, by DTensor.

    Every parameter and buffer becomes a `torch.distributed.tensor.DTensor`, with the numbers that the first process
    of the mesh has; what is tied stays tied. The module is called as before, by every process with the same whole
    tensors: each argument is laid out as the plan has the one of its name; one that the plan does not have is whole
    everywhere. Along axes that split the first dimension of an argument, the batch, parameters are gathered where they
    are used, as FSDP does. What modules inside take and give is brought to where the plan has it, if it knows of it.
    Gradients lie as their parameters. Optimizers are made of the parameters afterwards.

    Arguments:
        module: The `torch.nn.Module` that the plan was made of by `sw.from_torch`, as a forward pass or a training
            step. It is changed in place; on an error it is as it was.
        plan: The plan, or the file that `plan.save` wrote, of one mesh.
        mesh: A `DeviceMesh` with the axes of the plan's mesh; by default one of all processes, which are to be as many.
        full: Give results whole, as plain tensors; else as DTensors, laid out as the plan of a forward pass has them.

    Returns:
        The module.

    Raises:
        ShardingError: torch is missing, processes are not joined, not as many as the mesh has devices, or not in its
            order, the plan is of another module, or placements cannot say how a tensor of it lies. The module, when it
            is called, raises one for an op that DTensor has no rule for, at its line.

    Example:
        plan = sw.from_torch(model, (tokens,)).shard(sw.Mesh(data=2, model=2), shardings)
        sw.parallelize(model, plan)  # in each of four processes
        optimizer = torch.optim.AdamW(model.parameters())
        loss(model(tokens), labels).backward()
        optimizer.step()
    """
    from shardwright.frontends.torch.peers import torch_alone

    torch_alone()
    from shardwright.frontends.torch.parallel import lay_out

    saved = plan.saved if isinstance(plan, Planned) else plan if isinstance(plan, SavedPlan) else load_saved(plan)
    lay_out(module, _layouts(saved), mesh, full)
    return module


def _layouts(saved: SavedPlan) -> Layouts:
    """How a plan has what a module consists of, takes and gives, and the modules inside of it."""
    from shardwright.frontends.torch.placed import Layouts

    return Layouts(
        saved.mesh,
        {name: one.sharding for name, one in saved.arguments.items()},
        {name: one.sharding for name, one in saved.results.items()},
        {name: one.type.dims for name, one in saved.arguments.items() if one.type is not None},
        {
            (call, is_input, name): one.sharding
            for call, module in saved.modules.items()
            for is_input, tensors in ((True, module.inputs), (False, module.outputs))
            for name, one in tensors.items()
        },
    )
