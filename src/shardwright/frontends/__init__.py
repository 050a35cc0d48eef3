"""The ways in: files in every encoding, JAX functions, and shardings written by hand."""
