"""Sharding rules: how the dimensions of an op's operands and results correspond. One file per op family."""
