"""All steps, each file once imported."""

from tests.models.steps import layers, optimizers, precision, structure
from tests.models.steps.step import MESH, SHARDINGS, STEPS, plan

__all__ = ["MESH", "SHARDINGS", "STEPS", "layers", "optimizers", "plan", "precision", "structure"]
