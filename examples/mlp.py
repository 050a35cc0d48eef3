"""A two-layer perceptron with the 2D weight-stationary sharding, on a mesh x=2, y=2, z=2.

Weights never move. With activations B L E and hidden units F, as in "Efficiently Scaling Transformer
Inference" (Pope et al., 2022, figure 2b):

    x        B L E_xyz   gathered over y and z before the first product
    w_in     E_x F_yz
    hidden   B L F_yz    partial over x after the first product
    w_out    F_yz E_x
    result   B L E_xyz   partial over y and z after the second product, so a reduce-scatter ends it
"""

import jax
import jax.numpy as jnp
from example import Example, Input, argument_parser, constrain, lower, write_text
from jax.sharding import PartitionSpec


def mlp(x: jax.Array, w_in: jax.Array, w_out: jax.Array) -> jax.Array:
    """B L E, E F, F E -> B L E."""
    hidden = jnp.einsum("ble,ef->blf", x, w_in)
    hidden = jnp.maximum(constrain(hidden, None, None, ("y", "z")), 0.0)
    result = jnp.einsum("blf,fe->ble", hidden, w_out)
    return constrain(result, None, None, ("x", "y", "z"))


def build(batch: int = 2, length: int = 4, d_model: int = 8, d_ff: int = 32) -> Example:
    """The perceptron; `d_model` must be a multiple of 8 and `d_ff` of 4."""
    inputs = (
        Input((batch, length, d_model), PartitionSpec(None, None, ("x", "y", "z")), "normal 1.0"),
        Input((d_model, d_ff), PartitionSpec("x", ("y", "z")), "normal 0.3"),
        Input((d_ff, d_model), PartitionSpec(("y", "z"), "x"), "normal 0.3"),
    )
    return Example(mlp, inputs, {"x": 2, "y": 2, "z": 2})


def main() -> None:
    """Lowers the perceptron from the command line."""
    arguments = argument_parser(__doc__).parse_args()
    write_text(lower(build()), arguments.output)


if __name__ == "__main__":
    main()
