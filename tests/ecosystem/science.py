"""Physics, geometry and statistics: ott, e3nn, tinygp, dynamax, jax-md, jax-cfd, jaxlie, interpax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, Case, batch, program


@program("ott", long=True)
def ott_gradient_of_transport() -> Case:
    from ott.geometry.pointcloud import PointCloud
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn

    def cost(x: Any, y: Any) -> Any:
        solver = Sinkhorn(max_iterations=20, inner_iterations=5)
        return solver(LinearProblem(PointCloud(x, y, epsilon=0.1))).reg_ot_cost

    args = (batch(BATCH, 4), batch(BATCH, 4, seed=1))
    return Case(jax.value_and_grad(cost), args, {"x": P("data", "model"), "y": P("model")})


@program("ott", long=True)
def ott_soft_sort() -> Case:
    """A minimum that two others read whole, where propagation has it split."""
    from ott.tools import soft_sort

    return Case(lambda x: (soft_sort.sort(x), soft_sort.ranks(x)), (batch(BATCH),), {"x": P(("data", "model"))})


@program("ott", long=True)
def ott_gromov_wasserstein() -> Case:
    from ott.geometry.pointcloud import PointCloud
    from ott.problems.quadratic.quadratic_problem import QuadraticProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn
    from ott.solvers.quadratic.gromov_wasserstein import GromovWasserstein

    def coupling(x: Any, y: Any) -> Any:
        solver = GromovWasserstein(linear_solver=Sinkhorn(max_iterations=10), epsilon=1.0, max_iterations=2)
        return solver(QuadraticProblem(PointCloud(x), PointCloud(y))).matrix

    return Case(coupling, (batch(8, 3), batch(8, 2, seed=1)), {"x": "model", "y": "data"})


@program("e3nn_jax")
def e3nn_messages() -> Case:
    import e3nn_jax as e3nn

    def messages(x: Any, senders: Any, receivers: Any) -> Any:
        towards = x[senders] - x[receivers]
        angles = e3nn.spherical_harmonics("0e+1o+2e", towards, True)
        scaled = e3nn.tensor_product(angles, e3nn.norm(angles))
        return e3nn.scatter_sum(scaled, dst=receivers, output_size=len(x)).array

    edges = jnp.arange(64)
    args = (batch(BATCH, 3), edges * 3 % BATCH, (edges * 5 + 1) % BATCH)
    return Case(messages, args, {"x": "data", "senders": "model", "receivers": "model"})


@program("tinygp")
def tinygp_evidence() -> Case:
    from tinygp import GaussianProcess, kernels

    def evidence(x: Any, y: Any, lengths: Any) -> Any:
        kernel = kernels.ExpSquared(jnp.exp(lengths[0])) + kernels.Matern52(jnp.exp(lengths[1]))
        return GaussianProcess(kernel, x, diag=0.1).log_probability(y)

    args = (jnp.sort(batch(32)), batch(32, seed=1), jnp.zeros(2))
    return Case(jax.value_and_grad(evidence, 2), args, {"x": "data", "y": "model"})


@program("dynamax", long=True)
def dynamax_parallel_smoother() -> Case:
    from dynamax.hidden_markov_model.parallel_inference import hmm_smoother

    def smoothed(first: Any, moves: Any, x: Any) -> Any:
        found = hmm_smoother(jax.nn.softmax(first), jax.nn.softmax(moves), x)
        return found.smoothed_probs, found.marginal_loglik

    args = (batch(4), batch(4, 4, seed=1), batch(BATCH, 4, seed=2))
    return Case(smoothed, args, {"x": P("data", "model")})


@program("jax_md")
def jax_md_melt() -> Case:
    from jax_md import energy, simulate, space

    distance, shift = space.periodic(8.0)
    potential = energy.lennard_jones_pair(distance)

    def melt(x: Any, key: Any) -> Any:
        first, step = simulate.nvt_langevin(potential, shift, 1e-3, 0.5)
        state, energies = jax.lax.scan(
            lambda state, _: (step(state), potential(state.position)), first(key, x), None, length=3
        )
        return state.position, energies

    places = jnp.stack(jnp.meshgrid(*[jnp.arange(4) * 2.0] * 2), -1).reshape(-1, 2)
    return Case(melt, (places + 0.05 * batch(BATCH, 2), jax.random.PRNGKey(0)), {"x": "data"})


@program("jax_cfd")
def jax_cfd_step() -> Case:
    from jax_cfd import base

    grid = base.grids.Grid((16, 16), domain=((0, 2 * np.pi), (0, 2 * np.pi)))
    around = base.boundaries.periodic_boundary_conditions(2)
    step = base.equations.semi_implicit_navier_stokes(density=1.0, viscosity=1e-2, dt=1e-2, grid=grid)

    def flow(u: Any, v: Any) -> Any:
        arrays = [base.grids.GridArray(*of, grid) for of in ((u, (1.0, 0.5)), (v, (0.5, 1.0)))]
        fields = tuple(base.grids.GridVariable(array, around) for array in arrays)
        return tuple(field.data for field in step(fields))

    return Case(flow, (0.1 * batch(16, 16), 0.1 * batch(16, 16, seed=1)), {"u": P("data", "model"), "v": P("model")})


@program("jaxlie", "jax_dataclasses")
def jaxlie_poses() -> Case:
    import jaxlie

    def loss(poses: Any, x: Any, y: Any) -> Any:
        moved = jax.vmap(lambda pose, one: jaxlie.SE3.exp(pose) @ one)(poses, x)
        return jnp.sum((moved - y) ** 2)

    args = (0.3 * batch(BATCH, 6), batch(BATCH, 3, seed=1), batch(BATCH, 3, seed=2))
    return Case(jax.value_and_grad(loss), args, {"poses": "data", "x": "model", "y": P(("data", "model"))})


@program("interpax", long=True)
def interpax_splines() -> Case:
    import interpax

    def between(x: Any, y: Any, where: Any) -> Any:
        return [interpax.interp1d(where, x, y, method=method) for method in ("cubic2", "monotonic", "linear")]

    args = (jnp.linspace(0, 1, BATCH), batch(BATCH, 4), jnp.linspace(0.1, 0.9, 32))
    return Case(between, args, {"y": P("data", "model"), "where": "data"})
