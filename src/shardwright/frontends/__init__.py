"""The ways in: files in every encoding, JAX functions, PyTorch modules, and shardings written by hand."""
