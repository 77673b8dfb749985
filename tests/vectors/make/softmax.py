"""Vectors of Softmax, LogSoftmax and Hardmax, by NumPy: f32 and f64 in f64, halves step by step as ONNX's function rounds.
"""
import numpy as np
from family import Family, bfloat16, short

f = Family("softmax")
rng = np.random.default_rng(17)


def softmax(x, axes):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axes, keepdims=True, initial=-np.inf))
        return e / e.sum(axes, keepdims=True)


def log_softmax(x, axes):
    with np.errstate(all="ignore"):
        x = x - x.max(axes, keepdims=True, initial=-np.inf)
        return x - np.log(np.exp(x).sum(axes, keepdims=True))


def hardmax(x, axes):
    shape = x.shape
    moved = x.reshape(*shape[: axes[0]], -1) if len(axes) > 1 else np.moveaxis(x, axes[0], -1)
    y = np.zeros_like(moved)
    if moved.size:
        np.put_along_axis(y, moved.argmax(-1)[..., None], 1, -1)
    return y.reshape(shape) if len(axes) > 1 else np.moveaxis(y, -1, axes[0])


def add(name, op, x, axis=None, opset=13, **how):
    attributes = {} if axis is None else {"axis": axis}
    axis = (-1 if opset >= 13 else 1) if axis is None else axis
    first = axis % x.ndim
    axes = (first,) if opset >= 13 else tuple(range(first, x.ndim))
    rule = {"Softmax": softmax, "LogSoftmax": log_softmax, "Hardmax": hardmax}[op]
    wide = x if op == "Hardmax" or (op == "Softmax" and x.dtype == np.float16) else x.astype(np.float64)
    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3}.get(x.dtype.name, 2.5e-2)
    f.add(name, op, {"x": x}, attributes=attributes, opset=opset, expected=rule(wide, axes).astype(x.dtype),
          **({"relative": tolerance, "absolute": tolerance / 100} | how))


for op in ["Softmax", "LogSoftmax", "Hardmax"]:
    name = op.lower()
    x = rng.normal(0, 3, (2, 3, 4)).astype(np.float32)
    for axis in [None, 0, 1, 2, -1, -2, -3]:
        add(f"{name}_13_axis_{axis}", op, x, axis)
    for opset in [1, 11]:
        for axis in [None, 0, 2] + ([-2] if opset == 11 else []):
            add(f"{name}_{opset}_axis_{axis}", op, x, axis, opset)
    for t in [np.float16, np.float64, bfloat16]:
        add(f"{name}_{short(t)}", op, x.astype(t), 1)
    add(f"{name}_great", op, np.array([[1e4, -1e4, 9999], [88, 89, 90]], np.float32))
    add(f"{name}_equal", op, np.full((2, 5), 3, np.float32))
    add(f"{name}_one", op, np.array([[7], [-7]], np.float32))
    add(f"{name}_vector", op, x[0, 0])
    add(f"{name}_nothing", op, np.zeros((0, 3), np.float32))
    add(f"{name}_nothing_along", op, np.zeros((3, 0), np.float32))
    if op != "Hardmax":
        nan, inf = np.nan, np.inf
        add(f"{name}_extremes", op, np.array([[nan, 1, 2], [inf, 1, 2], [-inf, 1, 2], [-inf, -inf, -inf], [inf, inf, 0]], np.float32))
    f.add(f"{name}_axis_out_of_range", op, {"x": x}, attributes={"axis": 3}, opset=13, fails=True)
add("hardmax_ties", "Hardmax", np.array([[1, 3, 3], [2, 2, 2]], np.float32))
add("hardmax_ties_11", "Hardmax", np.array([[1, 3], [3, 3]], np.float32), 0, 11)
f.write()
