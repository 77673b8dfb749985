"""Vectors of reductions: every operator, axes of all kinds, no elements, NaN and infinities, wrapping
integers.

NumPy computes the definitions in f64 and rounds once; sums of integers wrap. ONNX's evaluator is not asked: of empty
integers it has no extremes.
"""
import numpy as np
from family import FLOATS, Family, short

f = Family("reductions")
nan, inf = np.nan, np.inf
rng = np.random.default_rng(5)
SUMMED = [np.int32, np.int64, np.uint32, np.uint64]
ORDERED = [np.int8, np.uint8, np.int32, np.int64, np.uint32, np.uint64]


def logsumexp(x, **how):
    top = np.max(x, axis=how["axis"], keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    y = np.log(np.sum(np.exp(x - top), axis=how["axis"], keepdims=True)) + top
    return y if how["keepdims"] else np.squeeze(y, axis=how["axis"])


FUNCTIONS = {
    "L1": lambda x, **how: np.sum(np.abs(x), **how), "L2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "LogSum": lambda x, **how: np.log(np.sum(x, **how)), "LogSumExp": logsumexp, "Max": np.max, "Mean": np.mean,
    "Min": np.min, "Prod": np.prod, "Sum": np.sum, "SumSquare": lambda x, **how: np.sum(x * x, **how),
}
AXES = [((), True), ((0,), True), ((1,), False), ((-1,), True), ((0, 2), False), ((-1, -3), True), ((0, 1, 2), False)]
with np.errstate(all="ignore"):
    for name, function in FUNCTIONS.items():
        x = rng.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
        for i, (axes, keep) in enumerate(AXES):
            y = function(x.astype(np.float64), axis=axes or (0, 1, 2), keepdims=keep).astype(np.float32)
            f.add(f"{name.lower()}_axes_{i}", f"Reduce{name}", {"x": x, "axes": np.array(axes, np.int64)},
                  attributes={"keepdims": int(keep)}, expected=y)
        y = function(x.astype(np.float64), axis=(0, 1, 2), keepdims=False).astype(np.float32)
        f.add(f"{name.lower()}_without_axes", f"Reduce{name}", {"x": x}, attributes={"keepdims": 0}, expected=y)
        f.add(f"{name.lower()}_of_scalar", f"Reduce{name}", {"x": np.float32(1.5)},
              expected=np.float32(function(np.full((1,), 1.5), axis=(0,), keepdims=False)))
        for t in FLOATS:
            v = np.array([[1, 2, 3.5], [nan, 1, 2], [0.25, 4, 1]], t)
            y = function(v.astype(np.float64), axis=(1,), keepdims=False)
            f.add(f"{name.lower()}_{short(t)}", f"Reduce{name}", {"x": v, "axes": np.array([1])}, attributes={"keepdims": 0},
                  expected=y.astype(t))
        # Older versions have the axes as an attribute.
        y = function(x.astype(np.float64), axis=(1,), keepdims=True).astype(np.float32)
        f.add(f"{name.lower()}_axes_attribute", f"Reduce{name}", {"x": x}, opset=11, attributes={"axes": [1]}, expected=y)
        f.add(f"{name.lower()}_no_operation", f"Reduce{name}", {"x": x, "axes": np.zeros(0, np.int64)},
              attributes={"noop_with_empty_axes": 1}, expected={
                  "L1": np.abs(x), "L2": np.abs(x), "LogSum": np.log(x), "LogSumExp": x, "SumSquare": x * x}.get(name, x))
    for t in FLOATS:
        nothing = np.zeros((2, 0, 3), t)
        for name, value in [("Sum", 0), ("Prod", 1), ("Max", -inf), ("Min", inf), ("L1", 0), ("L2", 0), ("SumSquare", 0),
                            ("LogSum", -inf), ("LogSumExp", -inf), ("Mean", nan)]:
            f.add(f"{name.lower()}_of_nothing_{short(t)}", f"Reduce{name}", {"x": nothing, "axes": np.array([1])},
                  attributes={"keepdims": 0}, expected=np.full((2, 3), value, t))
    for t in ORDERED:
        info = np.iinfo(t)
        v = np.array([[info.min, 3, info.max], [1, 1, 0]], t)
        for name, empty in [("Max", info.min), ("Min", info.max)]:
            f.add(f"{name.lower()}_{short(t)}", f"Reduce{name}", {"x": v, "axes": np.array([0])},
                  expected=getattr(np, name.lower())(v, axis=0, keepdims=True))
            f.add(f"{name.lower()}_of_nothing_{short(t)}", f"Reduce{name}", {"x": v[:, :0].copy(), "axes": np.array([1])},
                  expected=np.full((2, 1), empty, t))
    for t in SUMMED:
        info = np.iinfo(t)
        v = np.array([[info.max, 1, 5], [2, 3, 4]], t)
        f.add(f"sum_wraps_{short(t)}", "ReduceSum", {"x": v, "axes": np.array([1])}, expected=v.sum(1, dtype=t, keepdims=True))
        f.add(f"prod_wraps_{short(t)}", "ReduceProd", {"x": v, "axes": np.array([1])}, expected=v.prod(1, dtype=t, keepdims=True))
        total = v.sum(1, dtype=t, keepdims=True)
        quotient = np.array([[int(int(row[0]) / 3) if abs(int(row[0])) < 2**50 else -(-int(row[0]) // 3) if row[0] < 0 else int(row[0]) // 3]
                             for row in total.tolist()], object)
        f.add(f"mean_wraps_{short(t)}", "ReduceMean", {"x": v, "axes": np.array([1])}, expected=quotient.astype(t))
        f.add(f"sum_of_nothing_{short(t)}", "ReduceSum", {"x": v[:, :0].copy(), "axes": np.array([1])}, expected=np.zeros((2, 1), t))
        f.add(f"prod_of_nothing_{short(t)}", "ReduceProd", {"x": v[:, :0].copy(), "axes": np.array([1])}, expected=np.ones((2, 1), t))
        f.add(f"mean_of_nothing_{short(t)}", "ReduceMean", {"x": v[:, :0].copy(), "axes": np.array([1])}, fails=True)
truth = np.array([[True, False], [False, False]])
f.add("max_bool", "ReduceMax", {"x": truth, "axes": np.array([1])}, expected=truth.any(1, keepdims=True))
f.add("min_bool", "ReduceMin", {"x": truth, "axes": np.array([1])}, expected=truth.all(1, keepdims=True))
f.add("axis_out_of_range", "ReduceSum", {"x": np.ones((2, 2), np.float32), "axes": np.array([2])}, fails=True)
f.add("axis_twice", "ReduceSum", {"x": np.ones((2, 2), np.float32), "axes": np.array([1, -1])}, fails=True)

for t in FLOATS:
    x = np.array([[1, nan, 3], [-inf, inf, 0], [-0.0, 0.0, -1]], t)
    f.add(f"max_with_nan_{short(t)}", "ReduceMax", {"x": x, "axes": np.array([1])}, expected=np.max(x, axis=1, keepdims=True))
    f.add(f"min_with_nan_{short(t)}", "ReduceMin", {"x": x, "axes": np.array([0])}, expected=np.min(x, axis=0, keepdims=True))
f.add("logsumexp_of_great", "ReduceLogSumExp", {"x": np.array([[1000, 1000], [-1000, -1000], [inf, 0], [-inf, -inf], [nan, 1]], np.float32),
      "axes": np.array([1])}, attributes={"keepdims": 0}, expected=np.array([1000 + np.log(2), -1000 + np.log(2), inf, -inf, nan], np.float32))
for t in SUMMED:
    info = np.iinfo(t)
    x = np.array([[info.max, 1], [info.min, 5], [7, 2]], t)
    with np.errstate(all="ignore"):
        f.add(f"sumsquare_wraps_{short(t)}", "ReduceSumSquare", {"x": x, "axes": np.array([0])}, expected=np.sum(x * x, 0, dtype=t, keepdims=True))
        f.add(f"l1_wraps_{short(t)}", "ReduceL1", {"x": x, "axes": np.array([0])}, expected=np.sum(np.abs(x), 0, dtype=t, keepdims=True))
    # What is no whole number is truncated.
    x = np.array([[3, 4], [5, 12], [1, 1]], t)
    f.add(f"l2_{short(t)}", "ReduceL2", {"x": x, "axes": np.array([1])}, expected=np.array([[5], [13], [1]], t))
    f.add(f"logsum_{short(t)}", "ReduceLogSum", {"x": x, "axes": np.array([1])}, opset=18, expected=np.array([[1], [2], [0]], t))
    f.add(f"logsumexp_{short(t)}", "ReduceLogSumExp", {"x": x, "axes": np.array([1])}, opset=18, expected=np.array([[4], [12], [1]], t))
x = rng.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
f.add("sum_empty_axes_reduce_all", "ReduceSum", {"x": x, "axes": np.zeros(0, np.int64)}, constants=["axes"], expected=np.sum(x, keepdims=True))
f.add("sum_constant_axes", "ReduceSum", {"x": x, "axes": np.array([2, 0])}, constants=["axes"], attributes={"keepdims": 0}, expected=np.sum(x, (2, 0)))
f.add("sum_of_nothing_to_nothing", "ReduceSum", {"x": np.zeros((2, 0, 3)), "axes": np.array([0])}, attributes={"keepdims": 0}, expected=np.zeros((0, 3)))
f.add("max_of_nothing_to_nothing", "ReduceMax", {"x": np.zeros((2, 0, 3)), "axes": np.array([0])}, attributes={"keepdims": 0}, expected=np.zeros((0, 3)))
f.write()
