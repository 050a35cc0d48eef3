"""Dimensions that do not divide by their shards, made ones that do: a program whose tensors are padded."""
