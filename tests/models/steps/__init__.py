"""Training steps in plain JAX, small enough to be verified by the dozen."""
