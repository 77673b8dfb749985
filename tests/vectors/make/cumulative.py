"""Vectors of CumSum and CumProd, by `numpy.cumsum` and `numpy.cumprod`, halves in f32."""
import numpy as np
from family import Family, bfloat16, short

f = Family("cumulative")
rng = np.random.default_rng(31)


def cumulative(op, x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        x = np.roll(x, 1, axis)
        if x.shape[axis]:
            np.moveaxis(x, axis, 0)[0] = 0 if op == "CumSum" else 1
    with np.errstate(all="ignore"):
        y = (np.cumsum if op == "CumSum" else np.cumprod)(x, axis, dtype=x.dtype)
    return np.flip(y, axis) if reverse else y


def add(name, op, x, axis=0, exclusive=0, reverse=0, index=np.int64, **how):
    half = x.dtype in (np.float16, bfloat16)
    y = cumulative(op, x.astype(np.float32) if half else x, axis, exclusive, reverse).astype(x.dtype)
    t = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3}.get(x.dtype.name, 1.6e-2)
    f.add(name, op, {"x": x, "axis": np.array(axis, index)}, attributes={"exclusive": exclusive, "reverse": reverse}, expected=np.ascontiguousarray(y),
          opset=26 if op == "CumProd" else 14, constants=["axis"] if axis else (), **({"relative": t, "absolute": t} | how))


for op in ["CumSum", "CumProd"]:
    name = op.lower()
    x = rng.uniform(0.5, 2, (2, 3, 5)).astype(np.float32)
    for axis in [0, 1, 2, -1, -3]:
        for exclusive in [0, 1]:
            for reverse in [0, 1]:
                add(f"{name}_{axis}_{exclusive}_{reverse}", op, x, axis, exclusive, reverse)
    for t in [np.float64, np.float16, bfloat16]:
        add(f"{name}_{short(t)}", op, x.astype(t), 1)
    for t in [np.int32, np.int64, np.uint32, np.uint64]:
        info = np.iinfo(t)
        wraps = rng.integers(info.min, info.max, (3, 4), t, endpoint=True)
        add(f"{name}_{short(t)}", op, wraps, 1, reverse=1)
        add(f"{name}_{short(t)}_exclusive", op, wraps, 0, exclusive=1)
    add(f"{name}_i32_axis", op, x, 1, index=np.int32)
    add(f"{name}_long", op, rng.uniform(0.9, 1.1, 100).astype(np.float32))
    add(f"{name}_one", op, np.array([3], np.float32))
    add(f"{name}_one_exclusive", op, np.array([3], np.float32), exclusive=1)
    add(f"{name}_nothing", op, np.zeros((2, 0), np.float32), 1, exclusive=1)
    add(f"{name}_nothing_beside", op, np.zeros((0, 2), np.float32), 1, reverse=1)
    inf, nan = np.inf, np.nan
    for what, values in [("nan", [1, nan, 2, 3]), ("infinity", [1, inf, 2, 3]), ("infinities", [1, inf, -inf, 1]), ("late_infinity", [1, 2, 3, -inf])]:
        for exclusive in [0, 1]:
            for reverse in [0, 1]:
                add(f"{name}_with_{what}_{exclusive}_{reverse}", op, np.array(values, np.float32), exclusive=exclusive, reverse=reverse)
    f.add(f"{name}_axis_of_rank_1", op, {"x": x, "axis": np.array([-1])}, opset=26, constants=["axis"], expected=cumulative(op, x, -1, 0, 0), relative=1e-5)
    f.add(f"{name}_axis_out_of_range", op, {"x": x, "axis": np.int64(3)}, opset=26, fails=True)
f.write()
