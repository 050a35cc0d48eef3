"""Without torch, or without torch-mlir, from_torch says what to install, and nothing else is different."""

from __future__ import annotations

import subprocess
import sys

import pytest

import shardwright as sw


@pytest.mark.parametrize("missing", ["torch", "torch_mlir"])
def test_what_is_missing_is_said_with_the_remedy(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "torch_mlir":
        monkeypatch.setitem(sys.modules, "torch", sys)  # one that is there
    with pytest.raises(sw.ShardingError) as caught:
        sw.from_torch(object(), ())
    assert caught.value.diagnostic.remedy == "pip install 'shardwright[torch]'"
    assert missing in caught.value.diagnostic.cause


def test_nothing_loads_torch_by_itself() -> None:
    code = "import sys, shardwright as sw; sw.from_torch; sw.Program; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
