"""The graph engines work on, and the only door to MLIR (jaxlib's bindings)."""
