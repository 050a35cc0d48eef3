"""An instance of an op cut into parts along one factor: what each part holds, and the op that computes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardwright.ir.types import TensorType
from shardwright.rules.rule import ShardingRule, TensorMapping
from tests.rules.corpus import Instance, array

__all__ = ["Split", "Tensor", "inputs_of"]

Tensor = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Split:
    """An instance and one factor of its rule, split in `parts`."""

    instance: Instance
    rule: ShardingRule
    factor: int
    parts: int

    def blocks(self, tensors: Sequence[Tensor], mappings: Sequence[TensorMapping], part: int) -> list[Tensor]:
        """What one part holds of each tensor."""
        return [self._block(tensor, mapping, part) for tensor, mapping in zip(tensors, mappings, strict=True)]

    def _block(self, tensor: Tensor, mapping: TensorMapping, part: int) -> Tensor:
        for dim, factors in enumerate(mapping):
            if self.factor not in factors:
                continue
            at = factors.index(self.factor)
            major = int(np.prod([self.rule.sizes[factor] for factor in factors[:at]], initial=1))
            before, size, after = tensor.shape[:dim], tensor.shape[dim], tensor.shape[dim + 1 :]
            cut = tensor.reshape(*before, major, self.parts, size // major // self.parts, *after)
            tensor = cut.take(part, axis=dim + 1).reshape(*before, size // self.parts, *after)
        return tensor

    def local(self) -> Instance:
        """The op that computes one part."""
        operands = self._types(self.instance.operands, self.rule.operands)
        results = self._types(self.instance.results, self.rule.results)
        attributes = _local_attributes(self, TensorType.parse(operands[0]), TensorType.parse(results[0]))
        return replace(self.instance, operands=operands, results=results, attributes=attributes)

    def _types(self, types: Sequence[str], mappings: Sequence[TensorMapping]) -> tuple[str, ...]:
        local = []
        for text, mapping in zip(types, mappings, strict=True):
            type = TensorType.parse(text)
            split = (self.parts if self.factor in factors else 1 for factors in mapping)
            shape = tuple(size // by for size, by in zip(type.dims, split, strict=True))
            local.append(str(type.with_shape(shape)))
        return tuple(local)


def _local_attributes(split: Split, operand: TensorType, result: TensorType) -> str:
    """The attributes that hold sizes, at the sizes of one part."""
    text, name = split.instance.attributes, split.instance.name
    whole = TensorType.parse(split.instance.operands[0])
    if name in ("stablehlo.slice", "stablehlo.gather"):
        attribute = "limit_indices" if name == "stablehlo.slice" else "slice_sizes"
        return _resize(text, attribute, whole.dims, operand.dims)
    if name == "stablehlo.dynamic_slice":
        return _set(text, "slice_sizes", result.dims)
    if name == "stablehlo.broadcast":
        return _set(text, "broadcast_sizes", result.dims[: result.rank - operand.rank])
    if name == "stablehlo.convolution":
        for groups in ("feature_group_count", "batch_group_count"):
            count = int(re.findall(rf"{groups} = (\d+)", text)[0])
            if count > 1 and _is_group_factor(split, count):
                text = text.replace(f"{groups} = {count}", f"{groups} = {count // split.parts}")
    return text


def _is_group_factor(split: Split, count: int) -> bool:
    """Whether the factor stands, as the major one, in the result and in both operands."""
    majors = [{factors[0] for factors in mapping} for mapping in (*split.rule.operands, *split.rule.results)]
    return split.rule.sizes[split.factor] == count and all(split.factor in major for major in majors)


def _set(text: str, attribute: str, values: Sequence[int]) -> str:
    return re.sub(rf"{attribute} = array<[^>]*>", f"{attribute} = {array(values)}", text)


def _resize(text: str, attribute: str, whole: Sequence[int], local: Sequence[int]) -> str:
    """Sizes that are those of the whole dimension become those of the part."""
    match = re.search(rf"{attribute} = array<i64(?:: ([^>]*))?>", text)
    values = [int(value) for value in (match[1] or "").split(",") if value] if match else []
    changed = [part if value == size else value for value, size, part in zip(values, whole, local, strict=True)]
    return _set(text, attribute, changed)


def inputs_of(instance: Instance, seed: int) -> list[Tensor]:
    """Numbers in [0.1, 0.9) for floats, small integers (also as indices), both truth values."""
    rng = np.random.default_rng(seed)
    inputs: list[Tensor] = []
    for text in instance.operands:
        type = TensorType.parse(text)
        if type.dtype.startswith("complex"):
            inputs.append((rng.random(type.dims) + 1j * rng.random(type.dims)).astype(np.complex64))
        elif type.dtype == "f32":
            inputs.append(rng.uniform(0.1, 0.9, type.dims).astype(np.float32))
        else:
            dtype = {"i1": np.bool_, "i16": np.int16, "i32": np.int32, "ui64": np.uint64}[type.dtype]
            inputs.append(rng.integers(0, 3 if type.dtype != "i1" else 2, type.dims).astype(dtype))
    if "cholesky" in instance.name:
        inputs[0] = np.matmul(inputs[0], inputs[0].swapaxes(-1, -2)) + np.eye(inputs[0].shape[-1], dtype=np.float32)
    return inputs
