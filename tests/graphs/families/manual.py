"""Computations written for each device: each with what it is of the whole, to hold it against."""

from __future__ import annotations

from tests.graphs.families.moves import is_full
from tests.graphs.scope import Scope, step
from tests.graphs.values import Range, Value


def _spec(rank: int, dim: int | None, axis: str) -> str:
    return f"P({', '.join(repr(axis) if at == dim else 'None' for at in range(rank))})"


@step("shard_map", lambda v: is_full(v) and v.dtype in ("float32", "int32") and v.rank < 4, weight=1.5)
def shard_map(scope: Scope, v: Value) -> None:
    """A collective along one axis; what the others do is left to the partitioner, or is the same on all devices."""
    if scope.only_smooth:
        return
    rng = scope.rng
    axis, count = rng.choice([one for one in scope.writer.axes if one[1] > 1])
    dims = [dim for dim, size in enumerate(v.shape) if size % count == 0]
    if not dims:
        return
    dim = rng.choice(dims)
    part, parts = v.shape[dim] // count, f"jnp.split({v}, {count}, {dim})"
    split, whole = _spec(v.rank, dim, axis), _spec(v.rank, None, axis)
    kinds = [
        (f"lax.psum(t, {axis!r})", whole, f"sum({parts}[1:], {parts}[0])", v.range.summed(count)),
        (f"lax.pmax(t, {axis!r})", whole, f"jnp.max(jnp.stack({parts}), 0)", v.range),
        (f"jnp.flip(t, {dim})", split, f"jnp.concatenate([jnp.flip(t, {dim}) for t in {parts}], {dim})", v.range),
        (
            f"lax.ppermute(t, {axis!r}, [(i, (i + 1) % {count}) for i in range({count})])",
            split,
            f"jnp.roll({v}, {part}, {dim})",
            v.range,
        ),
        (
            f"t + lax.axis_index({axis!r}).astype(t.dtype)",
            split,
            f"jnp.concatenate([t + jnp.array(i, t.dtype) for i, t in enumerate({parts})], {dim})",
            v.range.plus(Range(float(count))),
        ),
        (
            f"lax.all_gather(t, {axis!r}, axis={dim}, tiled=True)[..., ::-1]",
            split,
            f"jnp.concatenate([{v}[..., ::-1]] * {count}, {dim})",
            v.range,
        ),
    ]
    if part % count == 0:
        text = f"lax.psum_scatter(t, {axis!r}, scatter_dimension={dim}, tiled=True)"
        kinds.append((text, split, f"sum({parts}[1:], {parts}[0])", v.range.summed(count)))
    others = [at for at in dims if at != dim]
    if others:
        text = f"lax.all_to_all(t, {axis!r}, {others[0]}, {dim}, tiled=True)"
        kinds.append((text, _spec(v.rank, others[0], axis), f"{v} + 0", v.range))
    body, out, reference, held = rng.choice(kinds)
    manual = {axis} if rng.random() < 0.3 else {name for name, _ in scope.writer.axes}
    specs = f"in_specs={split}, out_specs={out}, axis_names={{{str(sorted(manual))[1:-1]}}}"
    call = f"jax.shard_map(lambda t: {body}, mesh=MESH, {specs}, check_vma=False)({v})"
    scope.emit(call, held, reference=reference)
