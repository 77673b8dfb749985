"""Vectors of ArgMax and ArgMin: ties from either end, NaN, which wins as in NumPy, limits, every element type."""
import numpy as np
from family import COMPUTE, FLOATS, INTS, Family, short

f = Family("argmax")
rng = np.random.default_rng(2)
nan, inf = np.nan, np.inf


def arg(op, x, axis, keepdims=True, last=False):
    g = np.argmax if op == "ArgMax" else np.argmin
    if last:
        y = x.shape[axis] - 1 - g(np.flip(x, axis), axis=axis)
    else:
        y = g(x, axis=axis)
    return np.expand_dims(y, axis).astype(np.int64) if keepdims else y.astype(np.int64)


for op in ["ArgMax", "ArgMin"]:
    name = op.lower()
    for t in FLOATS + INTS:
        x = rng.integers(0, 4, (3, 5)).astype(t)
        f.add(f"{name}_ties_{short(t)}", op, {"x": x}, attributes={"axis": 1}, expected=arg(op, x, 1))
        f.add(f"{name}_last_of_ties_{short(t)}", op, {"x": x}, attributes={"axis": -1, "select_last_index": 1, "keepdims": 0},
              expected=arg(op, x, 1, False, True))
    for t in FLOATS:
        x = np.array([[1, nan, 3, nan], [inf, -inf, inf, 0], [-0.0, 0.0, -0.0, 0.0], [nan, nan, nan, nan]], t)
        f.add(f"{name}_nan_{short(t)}", op, {"x": x}, attributes={"axis": 1}, expected=arg(op, x, 1))
        f.add(f"{name}_last_nan_{short(t)}", op, {"x": x}, attributes={"axis": 1, "select_last_index": 1},
              expected=arg(op, x, 1, True, True))
    for t in INTS:
        info = np.iinfo(t)
        x = np.array([[info.min, info.max, 0], [info.max, info.max - 1, info.min]], t)
        f.add(f"{name}_limits_{short(t)}", op, {"x": x}, attributes={"axis": 1}, expected=arg(op, x, 1))
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    for axis in (-3, -1, 0, 1):
        f.add(f"{name}_axis_{axis}", op, {"x": x}, attributes={"axis": axis, "keepdims": 0}, expected=arg(op, x, axis, False))
    f.add(f"{name}_default_axis", op, {"x": x}, expected=arg(op, x, 0))
    f.add(f"{name}_opset_1", op, {"x": x}, opset=8, attributes={"axis": 2}, expected=arg(op, x, 2))
    f.add(f"{name}_of_one", op, {"x": np.array([nan], np.float32)}, expected=np.array([0]))
    f.add(f"{name}_to_nothing", op, {"x": np.zeros((3, 0), np.float32)}, attributes={"axis": 0},
          expected=np.zeros((1, 0), np.int64))
    f.add(f"{name}_axis_out_of_range", op, {"x": x}, attributes={"axis": 3}, fails=True)
f.write()
