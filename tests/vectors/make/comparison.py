"""Vectors of Equal, Greater, GreaterOrEqual, Less, LessOrEqual, And, Or, Xor, Not, IsNaN, IsInf: every element type, NaN,
infinities, signed zeros, limits, broadcasting. NumPy decides."""
import numpy as np
from family import COMPUTE, FLOATS, INTS, Family, short

f = Family("comparison")
rng = np.random.default_rng(9)
nan, inf = np.nan, np.inf
OPS = {"Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal}
for op, g in OPS.items():
    name = op.lower()
    for t in FLOATS:
        a = np.array([nan, 1, -0.0, inf, -inf, inf, 1, 2], t)
        b = np.array([nan, nan, 0.0, inf, inf, 1, 2, 1], t)
        f.add(f"{name}_{short(t)}", op, {"a": a, "b": b}, expected=g(a, b))
        f.add(f"{name}_broadcast_{short(t)}", op, {"a": a[:, None], "b": b[:3]}, expected=g(a[:, None], b[:3]))
    for t in INTS:
        info = np.iinfo(t)
        a = np.array([info.min, info.max, info.max, 0, 3], t)
        b = np.array([info.max, info.max, info.max - 1, 0, 4], t)
        f.add(f"{name}_{short(t)}", op, {"a": a, "b": b}, expected=g(a, b))
    f.add(f"{name}_rank_0", op, {"a": np.float32(1), "b": np.float32(2)}, expected=np.array(g(1, 2)))
    f.add(f"{name}_of_nothing", op, {"a": np.zeros((2, 0), np.float32), "b": np.zeros((1,), np.float32)}, expected=np.zeros((2, 0), bool))
    x, y = rng.standard_normal((2, 1, 4)).astype(np.float32), rng.standard_normal((3, 1)).astype(np.float32)
    f.add(f"{name}_both_broadcast", op, {"a": x, "b": y}, expected=g(x, y))
    f.add(f"{name}_of_shapes_that_do_not_fit", op, {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)}, fails=True)
    if op in ("Equal", "Greater", "Less"):
        a, b = np.arange(6).reshape(2, 3).astype(np.int32 if op == "Equal" else np.float32), np.array([1, 4])
        f.add(f"{name}_opset_1", op, {"a": a, "b": b.astype(a.dtype)}, opset=6, attributes={"broadcast": 1, "axis": 0}, expected=g(a, b[:, None]))
great = np.array([2**53, 2**53 + 1, 2**63 - 1])
f.add("equal_beyond_53_bits", "Equal", {"a": great, "b": great + np.array([1, 0, -1])}, expected=np.array([False, True, False]))
b = np.array([[True, False], [True, True]])
f.add("equal_bool", "Equal", {"a": b, "b": b[0]}, expected=b == b[0])
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
for op, g in LOGIC.items():
    a, c = np.array([[False, False, True, True]]).T, np.array([False, True])
    f.add(f"{op.lower()}_all", op, {"a": a, "b": c}, expected=g(a, c))
    f.add(f"{op.lower()}_rank_0", op, {"a": np.array(True), "b": np.array(False)}, expected=np.array(g(True, False)))
    f.add(f"{op.lower()}_of_nothing", op, {"a": np.zeros((0, 1), bool), "b": c}, expected=np.zeros((0, 2), bool))
    f.add(f"{op.lower()}_opset_1", op, {"a": b, "b": c}, opset=6, attributes={"broadcast": 1, "axis": 0}, expected=g(b, c[:, None]))
f.add("not_all", "Not", {"x": b}, expected=~b)
f.add("not_of_nothing", "Not", {"x": np.zeros((0, 2), bool)}, expected=np.zeros((0, 2), bool))
for t in FLOATS:
    x = np.array([nan, inf, -inf, 0, 1, -nan], t)
    f.add(f"is_nan_{short(t)}", "IsNaN", {"x": x}, expected=np.isnan(x))
    f.add(f"is_inf_{short(t)}", "IsInf", {"x": x}, expected=np.isinf(x))
    for negative, positive in [(0, 0), (0, 1), (1, 0)]:
        f.add(f"is_inf_{short(t)}_{negative}{positive}", "IsInf", {"x": x}, attributes={"detect_negative": negative, "detect_positive": positive},
              expected=np.isneginf(x.astype(np.float32)) * negative + np.isposinf(x.astype(np.float32)) * positive > 0)
f.write()
