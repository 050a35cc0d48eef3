"""Bytecode that would end the process that reads it is refused; what is sound is read."""

from __future__ import annotations

import base64

import pytest

from shardwright.errors import ShardingError
from shardwright.ir import bytecode
from shardwright.ir.bytecode import check_bytecode
from shardwright.ir.context import load_module, module_text
from tests.ir.contained import read_contained

_SOUND = base64.b64decode(
    "TUzvUg1NTElSMjMuMC4wZ2l0AAEfBwEFCQkBAw8DBQcTBQMXAyMRBwERCxMLCxMTExMBBxMXBwJJBQ0XAQEBDQMFDxcBAwMXAQMj"
    "FwEFERcBBwcbAxEFBQMBAwELBE0FAVADAQcEPQMBBQNQCQMHBCkDBQsDAwsAB0YNBQMBAwEFBA8DAwYDAQUBAHURCwULDw8VCxFi"
    "dWlsdGluAGZ1bmMAc3RhYmxlaGxvAG1vZHVsZQByZXR1cm4AdGFuaAAtAG1haW4ACBsHBQEBDQEFAQEHAQMB"
)
"""`func.func @main(%a: tensor<4xf32>) -> tensor<4xf32>`, the tanh of its argument."""

_ENDS_THE_PROCESS = _SOUND[:188] + b"\xff" + _SOUND[189:]

ENDLESS = (
    "TUzvUg1NTElSMjMuMC4wZ2l0AAE3CwEFCQ0RFQEDFwMLGR0hJSkFBQsvBwMzCQM1A4ljEwFhCwsLCw8LExsLUwsTCwsTEysLIwsLCxMbCxsTEx"
    "MrMwsLcxMPEyMLUwtzQxMTCxMTAwOBAREHDw8XDxcLKwMDQQKaBQUdBQ8JBwUfEQEFBSEXAQMDAwURExUHBSMjAwUhAgAAAAAAAAACAAAAAAAA"
    "AAUlFwEFBw0PBScXAQcHFwEHJwMJAwUjJScpKwkFKSMNBQkAAAEABSsFLQUvFwEJGwMFMTMDBQUxIw0DBQAAFwELFwMDAwUXAQ0bAwkDBQs9P2"
    "FBQyMFBREABwAAAAAAAAUzBTUjAwcxBwAAAAAAAAAHAAAAAAAAAAoAAAAAAAAAFwEPFxEBRRcBERsDB01LUVMLVQU3IwMFIQAAAAAAAACAAAAA"
    "AAAAAIAFOSMDBzEAAAAAAAAAgAkAAAAAAAAAAAAAAAAAAAAjBQcZAQAAAAEAAAACAAAAFwETGwMDWwkFOxcBFRcXARcLI3NoYXJkLmF4aXNhcn"
    "JheTxbW10sIFswXSwgW11dPgADAQIEAQICGwUNIQkBCgIbBQ0JCQGBBQMHDQsBAQEBBSFzaGFyZC5zaGFyZGluZwAEtwUBUA0BBwSnAwEJBQEX"
    "Dw1QHQMHBIsDFyMDDx8ABwctIQMLAwEDAzUvAwEDAzk3BQEBCQNFOwMREUJJBQMBCwdXSwcBAQEJDQsHCRMDXVkDBQ8EXw0DBQ8RExUGAwEFAQ"
    "CuBD0LCw85FwsZGRUVCxMNKQUFCxMPGRMfCykPCw0LDRFidWlsdGluAHNoYXJkAGZ1bmMAYXJpdGgAbWVzaABtb2R1bGUAcHJvY2Vzc19tdWx0"
    "aV9pbmRleABncmlkAHJlZHVjZV9zY2F0dGVyAHNoYXJkaW5nAHNoYXJkX3NoYXBlAHJldHVybgBjb25zdGFudABzaXplAC0AZwBvcGVyYW5kU2"
    "VnbWVudFNpemVzAHNoYXBlAHN5bV9uYW1lAG1haW4AZ3JpZF9heGVzAHJlZHVjdGlvbgBiaXR3aXNlX3hvcgBzY2F0dGVyX2RpbQBheGVzAHNw"
    "bGl0X2F4ZXMAc3RhdGljX3NoYXJkZWRfZGltc19vZmZzZXRzAGRldmljZQBkaW1zAGF4aXMACBsHBQEBDQEZAQEbAQNH"
)


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


def test_bytecode_that_keeps_the_reader_busy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program of the shard dialect with one byte changed MLIR's reader is never done."""
    monkeypatch.setattr(bytecode, "_SECONDS", 2)
    monkeypatch.setattr(bytecode, "_CLOCK", 300)  # a machine that does much else gives it two seconds late
    with pytest.raises(ShardingError, match="the bytecode cannot be read") as raised:
        check_bytecode(base64.b64decode(ENDLESS))
    assert "was not done after 2 seconds" in raised.value.diagnostic.cause
