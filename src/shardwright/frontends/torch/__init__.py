"""The way in from PyTorch: a module becomes one graph of ATen ops, and that a StableHLO program.

`export` traces the module, `training` makes one graph of loss, gradients and optimizer step, `cleaning` leaves what
torch-mlir knows, `stablehlo` hands it over as text; `call` remembers how the module is called, and `step` runs it.
Nothing here is imported before it is asked for: torch and torch-mlir are an extra.
"""
