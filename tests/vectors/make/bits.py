"""Vectors of BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and BitShift: every integer type, broadcasting, limits.

NumPy decides, and for shifts by a type's bits or more the text of BitShift 28.
"""
import numpy as np
from family import INTS, Family, short

f = Family("bits")
rng = np.random.default_rng(7)
OPS = {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}


def shifted(x, y, left):
    bits, signed = 8 * x.dtype.itemsize, x.dtype.kind == "i"
    out = []
    for a, b in zip(x.tolist(), y.tolist()):
        if not 0 <= b < bits:
            v = -1 if signed and not left and a < 0 else 0
        else:
            v = a << b if left else a >> b
        v &= (1 << bits) - 1
        out.append(v - (1 << bits) if signed and v >> (bits - 1) else v)
    return np.array(out, x.dtype)


for t in INTS:
    info = np.iinfo(t)
    a = np.array([info.min, info.max, 0, 1, 85, info.max - 1], t)
    b = np.array([info.max, info.max, info.min, 3, 51, 1], t)
    for op, g in OPS.items():
        f.add(f"{op.lower()}_{short(t)}", f"Bitwise{op}", {"a": a, "b": b}, expected=g(a, b))
        c = rng.integers(0, 100, (2, 3, 1)).astype(t)
        d = rng.integers(0, 100, (3, 4)).astype(t)
        f.add(f"{op.lower()}_broadcast_{short(t)}", f"Bitwise{op}", {"a": c, "b": d}, expected=g(c, d))
    f.add(f"not_{short(t)}", "BitwiseNot", {"x": a}, expected=np.invert(a))
    counts = np.array([0, 1, 2, 8 * info.dtype.itemsize - 1, 8 * info.dtype.itemsize, 3], t)
    for x, name in [(a, "limits"), (b, "others")]:
        for left, direction in [(True, "LEFT"), (False, "RIGHT")]:
            f.add(f"shift_{direction.lower()}_{name}_{short(t)}", "BitShift", {"x": x, "y": counts},
                  attributes={"direction": direction}, expected=shifted(x, counts, left))
    if np.dtype(t).kind == "i":
        for left, direction in [(True, "LEFT"), (False, "RIGHT")]:
            f.add(f"shift_{direction.lower()}_by_negative_{short(t)}", "BitShift", {"x": a, "y": np.full(6, -1, t)},
                  attributes={"direction": direction}, expected=shifted(a, np.full(6, -1, t), left))
f.add("and_of_nothing", "BitwiseAnd", {"a": np.zeros((0, 3), np.int32), "b": np.ones(3, np.int32)}, expected=np.zeros((0, 3), np.int32))
f.add("xor_rank_0", "BitwiseXor", {"a": np.int64(5), "b": np.int64(3)}, expected=np.int64(6))
f.add("shift_opset_11", "BitShift", {"x": np.array([16, 4, 1], np.uint8), "y": np.array([1, 2, 3], np.uint8)}, opset=11,
      attributes={"direction": "RIGHT"}, expected=np.array([8, 1, 0], np.uint8))
f.add("and_of_shapes_that_do_not_fit", "BitwiseAnd", {"a": np.ones(2, np.int32), "b": np.ones(3, np.int32)}, fails=True)
f.add("shift_without_direction", "BitShift", {"x": np.ones(2, np.uint8), "y": np.ones(2, np.uint8)}, fails=True)
f.write()
