"""PyTorch and torch-mlir: those of this environment, or those that `make oracles` put into `build/oracles`.

`from …installed import torch` skips the file that says so where there are none. JAX is ours in any case.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.frontends.devices import eight_devices
from tests.oracles.peers import PYTHON

eight_devices()

_BESIDE = PYTHON.parents[1] / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

if find_spec("torch") is None and _BESIDE.is_dir():
    sys.path.append(str(_BESIDE))  # behind our own, which has numpy already


def __getattr__(name: str) -> Any:
    """`torch`, when it is imported from here: so each file that does so is skipped by itself."""
    if name != "torch":
        raise AttributeError(name)
    if find_spec("torch") is None or find_spec("torch_mlir") is None:
        pytest.skip(f"no torch here and none in {_BESIDE}: run `make oracles`", allow_module_level=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of their own insides, which are no matter of ours
        import_module("torch_mlir.fx")
        return import_module("torch")
