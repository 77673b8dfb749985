"""Vectors of CumSum: both directions, exclusive or not, every axis and element type, NaN and infinities, wrapping."""
import numpy as np
from family import Family, short

f = Family("cumulative_sum")
rng = np.random.default_rng(3)
nan, inf = np.nan, np.inf


def cumulated(x, axis, exclusive=0, reverse=0, g=np.cumsum, start=0):
    x = np.flip(x, axis) if reverse else x
    y = g(x, axis=axis, dtype=x.dtype)
    if exclusive:
        y = np.roll(y, 1, axis)
        if y.size:
            np.moveaxis(y, axis, 0)[0] = start
    return np.flip(y, axis) if reverse else y


x = rng.integers(-5, 6, (2, 3, 4))
for t in [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64]:
    for exclusive in (0, 1):
        for reverse in (0, 1):
            y = np.abs(x).astype(t) if np.dtype(t).kind == "u" else x.astype(t)
            axis = int(rng.integers(-3, 3))
            f.add(f"sum_{short(t)}_{exclusive}{reverse}", "CumSum", {"x": y, "axis": np.array(axis, np.int32)},
                  constants=["axis"], attributes={"exclusive": exclusive, "reverse": reverse},
                  expected=cumulated(y, axis, exclusive, reverse))
for t in [np.int32, np.int64, np.uint32, np.uint64]:
    info = np.iinfo(t)
    y = np.array([info.max, 1, info.max, info.min, 2], t)
    with np.errstate(all="ignore"):
        f.add(f"sum_wraps_{short(t)}", "CumSum", {"x": y, "axis": np.array(0)}, constants=["axis"], expected=cumulated(y, 0))
for name, values in [("nan", [1, nan, 2, 3]), ("infinity", [1, inf, 2, 3]), ("infinities", [1, inf, -inf, 3]),
                     ("late_infinity", [1, 2, 3, -inf])]:
    y = np.array(values, np.float32)
    for exclusive, reverse in [(0, 0), (1, 0), (0, 1), (1, 1)]:
        with np.errstate(all="ignore"):
            expected = cumulated(y, 0, exclusive, reverse)
        f.add(f"sum_with_{name}_{exclusive}{reverse}", "CumSum", {"x": y, "axis": np.array(0)}, constants=["axis"],
              attributes={"exclusive": exclusive, "reverse": reverse}, expected=expected)
f.add("sum_of_one", "CumSum", {"x": np.array([5], np.float32), "axis": np.array(0)}, constants=["axis"],
      attributes={"exclusive": 1}, expected=np.zeros(1, np.float32))
f.add("sum_of_nothing", "CumSum", {"x": np.zeros((2, 0), np.float32), "axis": np.array(1)}, constants=["axis"],
      expected=np.zeros((2, 0), np.float32))
f.add("sum_axis_that_varies", "CumSum", {"x": x.astype(np.float32), "axis": np.array(1, np.int32)},
      expected=cumulated(x.astype(np.float32), 1))
f.add("sum_axis_of_rank_1", "CumSum", {"x": x.astype(np.float32), "axis": np.array([-1])}, constants=["axis"],
      expected=cumulated(x.astype(np.float32), -1))
f.add("sum_axis_out_of_range", "CumSum", {"x": x.astype(np.float32), "axis": np.array(3)}, constants=["axis"], fails=True)
f.write()
