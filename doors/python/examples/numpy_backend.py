"""A complete backend in Python: every primitive by NumPy.

    python numpy_backend.py                  tests it
    python numpy_backend.py model.onnx       says what of a model it runs
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import bb

#: An array, or the number that NumPy returns for an array of rank 0. Both have an element type and a shape.
Tensor = Any

# Infinity and NaN are results like others.
quietly = np.errstate(all="ignore")


def wide(x: Tensor) -> Tensor:
    """Sums and products of 16-bit floats are computed in 32 bits."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the greatest value of an element type, which are the greatest and the least of no elements."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


class NumPy(bb.Backend):
    name = "numpy"
    types = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]

    @quietly
    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return np.add(a, b)

    @quietly
    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        return np.subtract(a, b)

    @quietly
    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return np.multiply(a, b)

    @quietly
    def div(self, a: Tensor, b: Tensor) -> Tensor:
        if a.dtype.kind == "f":
            return np.divide(a, b)
        quotient, rest = np.floor_divide(a, b), np.remainder(a, b)
        if quotient.size and not np.all(b):
            raise ZeroDivisionError("an integer is divided by zero")
        # NumPy rounds down, ONNX towards zero.
        return np.add(quotient, (rest != 0) & ((a < 0) != (b < 0)), dtype=a.dtype)

    def neg(self, x: Tensor) -> Tensor:
        return np.negative(x)

    def abs(self, x: Tensor) -> Tensor:
        return np.absolute(x)

    @quietly
    def sqrt(self, x: Tensor) -> Tensor:
        return np.sqrt(x)

    @quietly
    def pow(self, a: Tensor, b: Tensor) -> Tensor:
        if "f" in (a.dtype.kind, b.dtype.kind):
            return np.power(a, b, dtype=np.float64).astype(a.dtype)
        if np.any((a == 0) & (b < 0)):
            raise ZeroDivisionError("0 has no negative power")
        # Unsigned integers wrap as signed ones do.
        power = np.power(a.astype(np.uint64), b.astype(np.uint64))
        inverse = np.where(np.absolute(a) == 1, np.where(b % 2 == 0, 1, a), 0)
        return np.where(b < 0, inverse.astype(a.dtype), power.astype(a.dtype))

    @quietly
    def exp(self, x: Tensor) -> Tensor:
        return np.exp(x)

    @quietly
    def log(self, x: Tensor) -> Tensor:
        return np.log(x)

    @quietly
    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return np.matmul(wide(a), wide(b)).astype(a.dtype)

    @quietly
    def reduce_sum(self, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
        return np.sum(wide(x), axis=axes or None, keepdims=keepdims, dtype=wide(x).dtype).astype(x.dtype)

    @quietly
    def reduce_mean(self, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
        if x.dtype.kind == "f":
            if x.size == 0:
                return np.divide(self.reduce_sum(x, axes, keepdims), np.zeros((), x.dtype))
            return np.mean(wide(x), axis=axes or None, keepdims=keepdims).astype(x.dtype)
        total = np.sum(x.astype(object), axis=axes or None, keepdims=keepdims)
        count = x.size // np.size(total) if np.size(total) else 1
        if count == 0:
            raise ZeroDivisionError("no integer is the mean of none")
        # Python's integers do not overflow.
        return np.array([abs(n) // count * (-1 if n < 0 else 1) for n in np.ravel(total)], x.dtype).reshape(np.shape(total))

    def reduce_max(self, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
        return np.max(x, axis=axes or None, keepdims=keepdims, initial=bounds(x.dtype)[0])

    def reduce_min(self, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
        return np.min(x, axis=axes or None, keepdims=keepdims, initial=bounds(x.dtype)[1])

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return np.reshape(x, shape)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        return np.transpose(x, perm or None)

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        return np.concatenate(xs, axis)

    def slice(
        self, x: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
    ) -> Tensor:
        cut = [slice(None)] * x.ndim
        for at, axis in enumerate(axes or range(len(starts))):
            cut[axis] = slice(starts[at], ends[at], steps[at] if steps else 1)
        return x[tuple(cut)]

    def split(self, x: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
        return np.split(x, np.cumsum(sizes)[:-1], axis) if sizes else []

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return np.squeeze(x, axes or None)

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return np.expand_dims(x, tuple(axes))

    def identity(self, x: Tensor) -> Tensor:
        return x

    @quietly
    def cast(self, x: Tensor, to: np.dtype[Any], saturate: bool, round_mode: str) -> Tensor:
        # The last two parameters are about 8-bit floats, which are not among the types.
        return x.astype(to)

    def equal(self, a: Tensor, b: Tensor) -> Tensor:
        return np.equal(a, b)

    def greater(self, a: Tensor, b: Tensor) -> Tensor:
        return np.greater(a, b)

    def less(self, a: Tensor, b: Tensor) -> Tensor:
        return np.less(a, b)

    def where(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return np.where(condition, x, y)

    def constant(self, value: Tensor) -> Tensor:
        return value

    def gather(self, data: Tensor, indices: Tensor, axis: int) -> Tensor:
        return np.take(data, indices, axis)


if __name__ == "__main__":
    bb.register(NumPy)
    for model in sys.argv[1:]:
        print(model, bb.Session(model, "numpy").coverage()["counts"])
    if len(sys.argv) == 1:
        print(bb.conformance(NumPy))
