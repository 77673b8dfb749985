"""Vectors of the reductions: axes as attribute, operand or none, zero extents, every element type, limits and NaN.

NumPy decides, in `f64` for halves, whose sums ONNX does not round on the way.
"""
import numpy as np
from family import COMPUTE, FLOATS, INTS, Family, short

f = Family("reduction_extremes")
rng = np.random.default_rng(1)
nan, inf = np.nan, np.inf


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" or short(x.dtype) == "bf16" else x


def kept(g):
    return lambda x, **k: g(wide(x), **k).astype(x.dtype)


def safe(g):
    def h(x, **k):
        with np.errstate(all="ignore"):
            return g(x, **k)
    return h


REDUCTIONS = {
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceMean": np.mean,
    "ReduceL1": lambda x, **k: np.sum(np.abs(x), **k),
    "ReduceL2": lambda x, **k: np.sqrt(np.sum(np.square(x.astype(np.float64)), **k)),
    "ReduceSumSquare": lambda x, **k: np.sum(np.square(x), **k),
    "ReduceLogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.sum(np.exp(x.astype(np.float64)), **k)),
}
x = rng.uniform(0.5, 3, (2, 3, 4)).astype(np.float32)
for op, g in REDUCTIONS.items():
    g = kept(safe(g))
    short_op = op.removeprefix("Reduce").lower()
    f.add(f"{short_op}_of_all", op, {"x": x}, attributes={"keepdims": 0}, expected=g(x))
    f.add(f"{short_op}_negative_axis", op, {"x": x, "axes": np.array([-2])}, constants=["axes"],
          expected=g(x, axis=-2, keepdims=True))
    f.add(f"{short_op}_two_axes", op, {"x": x, "axes": np.array([2, 0])}, constants=["axes"],
          attributes={"keepdims": 0}, expected=g(x, axis=(0, 2)))
    f.add(f"{short_op}_axes_attribute", op, {"x": x}, opset=11, attributes={"axes": [1], "keepdims": 0},
          expected=g(x, axis=1))
    f.add(f"{short_op}_axes_operand_that_varies", op, {"x": x, "axes": np.array([1])}, expected=g(x, axis=1, keepdims=True))
    f.add(f"{short_op}_rank_0", op, {"x": np.float32(2.5)}, expected=g(np.float32(2.5).reshape(())))
    f.add(f"{short_op}_f64", op, {"x": x.astype(np.float64), "axes": np.array([1])}, constants=["axes"],
          expected=g(x.astype(np.float64), axis=1, keepdims=True))
    f.add(f"{short_op}_f16", op, {"x": x.astype(np.float16), "axes": np.array([1])}, constants=["axes"],
          expected=g(x.astype(np.float16), axis=1, keepdims=True), relative=2e-3)

# No axes and `noop_with_empty_axes`: what surrounds the reduction still applies.
for op, expected in [("ReduceSum", x), ("ReduceMax", x), ("ReduceL1", np.abs(x)), ("ReduceSumSquare", x * x),
                     ("ReduceLogSum", np.log(x)), ("ReduceLogSumExp", x), ("ReduceMean", x), ("ReduceL2", np.abs(x))]:
    f.add(f"{op.removeprefix('Reduce').lower()}_of_no_axes", op, {"x": x, "axes": np.zeros(0, np.int64)},
          constants=["axes"], attributes={"noop_with_empty_axes": 1}, expected=expected)
f.add("sum_empty_axes_reduce_all", "ReduceSum", {"x": x, "axes": np.zeros(0, np.int64)}, constants=["axes"],
      expected=np.sum(x, keepdims=True))

# Zero extents: ONNX gives the identity of the operation.
nothing = np.zeros((2, 0, 3), np.float32)
axes = np.array([1])
for op, value in [("ReduceSum", 0), ("ReduceL1", 0), ("ReduceL2", 0), ("ReduceSumSquare", 0), ("ReduceProd", 1),
                  ("ReduceLogSum", -inf), ("ReduceLogSumExp", -inf), ("ReduceMax", -inf), ("ReduceMin", inf)]:
    f.add(f"{op.removeprefix('Reduce').lower()}_of_nothing", op, {"x": nothing, "axes": axes}, constants=["axes"],
          expected=np.full((2, 1, 3), value, np.float32))
    f.add(f"{op.removeprefix('Reduce').lower()}_of_nothing_to_nothing", op, {"x": nothing, "axes": np.array([0])},
          constants=["axes"], attributes={"keepdims": 0}, expected=np.zeros((0, 3), np.float32))
for t in [np.int32, np.int64, np.int8, np.uint8]:
    info = np.iinfo(t)
    f.add(f"max_of_no_{short(t)}", "ReduceMax", {"x": np.zeros((0, 2), t), "axes": np.array([0])}, constants=["axes"],
          attributes={"keepdims": 0}, expected=np.full(2, info.min, t))
    f.add(f"min_of_no_{short(t)}", "ReduceMin", {"x": np.zeros((0, 2), t), "axes": np.array([0])}, constants=["axes"],
          attributes={"keepdims": 0}, expected=np.full(2, info.max, t))

# Extremes.
for t in FLOATS:
    x = np.array([[1, nan, 3], [-inf, inf, 0], [-0.0, 0.0, -1]], t)
    f.add(f"max_with_nan_{short(t)}", "ReduceMax", {"x": x, "axes": np.array([1])}, constants=["axes"],
          expected=np.max(x, axis=1, keepdims=True))
    f.add(f"min_with_nan_{short(t)}", "ReduceMin", {"x": x, "axes": np.array([0])}, constants=["axes"],
          expected=np.min(x, axis=0, keepdims=True))
f.add("log_sum_exp_of_great", "ReduceLogSumExp", {"x": np.array([[1000, 1000], [-1000, -1000], [inf, 0], [-inf, -inf], [nan, 1]], np.float32),
      "axes": np.array([1])}, constants=["axes"], attributes={"keepdims": 0},
      expected=np.array([1000 + np.log(2), -1000 + np.log(2), inf, -inf, nan], np.float32))
for t in [np.int32, np.int64, np.uint32, np.uint64]:
    info = np.iinfo(t)
    x = np.array([[info.max, 1], [info.min, 5], [7, 2]], t)
    for op in ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceSumSquare"]:
        g = REDUCTIONS[op]
        with np.errstate(all="ignore"):
            expected = g(x, axis=0, keepdims=True, **({"dtype": t} if op in ("ReduceSum", "ReduceProd") else {})).astype(t)
        f.add(f"{op.removeprefix('Reduce').lower()}_{short(t)}", op, {"x": x, "axes": np.array([0])}, constants=["axes"],
              expected=expected)
    small = np.array([[3, 4], [5, 12]], t)
    f.add(f"l2_{short(t)}", "ReduceL2", {"x": small, "axes": np.array([1])}, constants=["axes"],
          expected=np.array([[5], [13]], t))
    f.add(f"l1_{short(t)}", "ReduceL1", {"x": small, "axes": np.array([1])}, constants=["axes"],
          expected=np.array([[7], [17]], t))
for t in [np.int8, np.uint8]:
    info = np.iinfo(t)
    x = np.array([[info.max, info.min, 1], [3, 2, 1]], t)
    f.add(f"max_{short(t)}", "ReduceMax", {"x": x, "axes": np.array([1])}, constants=["axes"], expected=x.max(1, keepdims=True))
    f.add(f"min_{short(t)}", "ReduceMin", {"x": x, "axes": np.array([1])}, constants=["axes"], expected=x.min(1, keepdims=True))
b = np.array([[True, False], [False, False], [True, True]])
f.add("max_bool", "ReduceMax", {"x": b, "axes": np.array([1])}, constants=["axes"], expected=b.any(1, keepdims=True))
f.add("min_bool", "ReduceMin", {"x": b, "axes": np.array([1])}, constants=["axes"], expected=b.all(1, keepdims=True))
f.add("axis_out_of_range", "ReduceSum", {"x": x, "axes": np.array([2])}, constants=["axes"], fails=True)
f.write()
