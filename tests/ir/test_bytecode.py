"""Bytecode that would end the process that reads it is refused; what is sound is read."""

from __future__ import annotations

import base64

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from tests.ir.contained import read_contained

_SOUND = base64.b64decode(
    "TUzvUg1NTElSMjMuMC4wZ2l0AAEfBwEFCQkBAw8DBQcTBQMXAyMRBwERCxMLCxMTExMBBxMXBwJJBQ0XAQEBDQMFDxcBAwMXAQMj"
    "FwEFERcBBwcbAxEFBQMBAwELBE0FAVADAQcEPQMBBQNQCQMHBCkDBQsDAwsAB0YNBQMBAwEFBA8DAwYDAQUBAHURCwULDw8VCxFi"
    "dWlsdGluAGZ1bmMAc3RhYmxlaGxvAG1vZHVsZQByZXR1cm4AdGFuaAAtAG1haW4ACBsHBQEBDQEFAQEHAQMB"
)
"""`func.func @main(%a: tensor<4xf32>) -> tensor<4xf32>`, the tanh of its argument."""

_ENDS_THE_PROCESS = _SOUND[:188] + b"\xff" + _SOUND[189:]


def test_sound_bytecode_is_read() -> None:
    assert "stablehlo.tanh %arg0 : tensor<4xf32>" in module_text(load_module(_SOUND))


def test_bytecode_that_ends_its_reader_is_refused() -> None:
    (answer,) = read_contained([_ENDS_THE_PROCESS])
    assert answer.startswith("f.mlir: error: the bytecode cannot be read")
    assert "ends the process that reads it (status -" in answer


@pytest.mark.parametrize("damaged", [_SOUND[:100], _SOUND[:-1], b"ML\xefR"], ids=["half", "cut", "begun"])
def test_what_mlir_refuses_is_told_in_its_words(damaged: bytes) -> None:
    with pytest.raises(ShardingError) as error:
        load_module(damaged, "f.mlirbc")
    assert error.value.diagnostic.message.startswith("not valid MLIR: ")
