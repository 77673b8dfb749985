"""Vectors of Clip, Max, Min and Relu where ONNX leaves a choice: NaN, equal bounds, bounds that cross.

NumPy decides: `np.maximum`, `np.minimum` and `np.clip` return NaN wherever an operand is one.
"""
import numpy as np
from family import FLOATS, INTS, Family, short

f = Family("clip")
nan, inf = np.nan, np.inf
A = [nan, 1.0, -inf, inf, -0.0, 3.0, nan]
B = [1.0, nan, 2.0, -inf, 0.0, 3.0, nan]
for t in FLOATS:
    a, b = np.array(A, t), np.array(B, t)
    f.add(f"max_of_nan_{short(t)}", "Max", {"a": a, "b": b}, expected=np.maximum(a, b))
    f.add(f"min_of_nan_{short(t)}", "Min", {"a": a, "b": b}, expected=np.minimum(a, b))
    low, high = np.array(-1, t), np.array(2, t)
    f.add(f"clip_of_nan_{short(t)}", "Clip", {"x": a, "min": low, "max": high}, expected=np.clip(a, low, high).astype(t))
    f.add(f"clip_to_nan_{short(t)}", "Clip", {"x": b, "min": np.array(nan, t), "max": high},
          expected=np.clip(b, np.array(nan, t), high).astype(t))
    f.add(f"relu_of_nan_{short(t)}", "Relu", {"x": a}, expected=np.maximum(a, np.array(0, t)))
for t in INTS:
    info = np.iinfo(t)
    x = np.array([info.min, info.min + 1, 0, 5, 7, info.max - 1, info.max], t)
    f.add(f"clip_{short(t)}", "Clip", {"x": x, "min": np.array(3, t), "max": np.array(6, t)},
          expected=np.clip(x, np.array(3, t), np.array(6, t)))
    f.add(f"max_{short(t)}", "Max", {"x": x, "y": x[::-1].copy(), "z": np.array([4], t)},
          expected=np.maximum(np.maximum(x, x[::-1]), np.array([4], t)))
    f.add(f"min_{short(t)}", "Min", {"x": x[:, None], "y": np.array([4, info.max, info.min], t)},
          expected=np.minimum(x[:, None], np.array([4, info.max, info.min], t)))
x = np.linspace(-3, 3, 7, dtype=np.float32)
# ONNX: where the bounds cross, every element is the upper one.
f.add("clip_with_crossed_bounds", "Clip", {"x": x, "min": np.float32(2), "max": np.float32(-2)},
      expected=np.full(7, -2, np.float32))
f.add("clip_without_lower", "Clip", {"x": x, "min": None, "max": np.float32(1)}, expected=np.minimum(x, 1))
f.add("clip_without_upper", "Clip", {"x": x, "min": np.float32(1)}, expected=np.maximum(x, 1))
f.add("clip_without_bounds", "Clip", {"x": x}, expected=x)
f.add("clip_of_nothing", "Clip", {"x": np.zeros((2, 0), np.float32), "min": np.float32(1)},
      expected=np.zeros((2, 0), np.float32))
f.add("clip_rank_0", "Clip", {"x": np.float64(9), "min": np.float64(0), "max": np.float64(1)}, expected=np.float64(1))
f.add("clip_by_attributes", "Clip", {"x": np.array([-5, nan, 5, inf], np.float32)}, opset=6,
      attributes={"min": -1.0, "max": 1.0}, expected=np.array([-1, nan, 1, 1], np.float32))
f.add("max_of_one", "Max", {"x": x}, expected=x)
f.add("max_broadcast_of_nothing", "Max", {"x": np.zeros((0, 3), np.float32), "y": x[:3]},
      expected=np.zeros((0, 3), np.float32))
f.add("mean_with_nan", "Mean", {"a": np.array(A, np.float32), "b": np.array(B, np.float32)},
      expected=((np.array(A, np.float64) + np.array(B, np.float64)) / 2).astype(np.float32))
f.write()
