"""All models, each file once imported."""

from tests.models.nets import convolutional
from tests.models.nets.net import NETS, Net

__all__ = ["NETS", "Net", "convolutional"]
