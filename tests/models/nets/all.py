"""All models, each file once imported."""

from tests.models.nets import (
    attention,
    convolutional,
    decoding,
    experts,
    generative,
    graphs,
    numerics,
    optimization,
    pipelines,
    recurrent,
    samplers,
)
from tests.models.nets.net import NETS, Net

__all__ = [
    "NETS",
    "Net",
    "attention",
    "convolutional",
    "decoding",
    "experts",
    "generative",
    "graphs",
    "numerics",
    "optimization",
    "pipelines",
    "recurrent",
    "samplers",
]
