"""Vectors of arithmetic: wrapping integers, quotients, remainders, powers, shifts, broadcasting.

Python's integers, reduced to the width of the type, are the reference for integers; NumPy is for floats.
"""
import numpy as np
from family import FLOATS, INTS, Family, short

f = Family("arithmetic")
nan, inf = np.nan, np.inf


def wrapped(values, dtype):
    """The low bits of integers of any size."""
    bits = np.iinfo(dtype).bits
    unsigned = np.array([int(v) % 2**bits for v in np.ravel(values)], np.uint64)
    return unsigned.astype(f"u{bits // 8}").view(dtype).reshape(np.shape(values))


def big(x):
    return np.array([int(v) for v in x.ravel()], object).reshape(x.shape)


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a, b):
    if b >= 0:
        return a**b
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


for t in INTS:
    info = np.iinfo(t)
    edges = np.array([info.min, info.min + 1, -7 if info.min else 9, -1 if info.min else 6, 0, 1, 3, 7, info.max - 1, info.max], t)
    a, b = edges[:, None], edges[None, :]
    wide = big(a), big(b)
    for op, function in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)]:
        f.add(f"{op.lower()}_{short(t)}", op, {"a": a, "b": b}, expected=wrapped(function(*wide), t))
    divisors = edges[edges != 0][None, :]
    pairs = [(int(x), int(y)) for x in edges for y in divisors[0]]
    shape = (len(edges), divisors.size)
    f.add(f"div_{short(t)}", "Div", {"a": a, "b": divisors},
          expected=wrapped(np.array([truncated(x, y) for x, y in pairs], object).reshape(shape), t))
    f.add(f"mod_{short(t)}", "Mod", {"a": a, "b": divisors},
          expected=wrapped(np.array([x % y for x, y in pairs], object).reshape(shape), t))
    f.add(f"fmod_{short(t)}", "Mod", {"a": a, "b": divisors}, attributes={"fmod": 1},
          expected=wrapped(np.array([x - y * truncated(x, y) for x, y in pairs], object).reshape(shape), t))
    zero = np.array([1, 0], t)
    f.add(f"div_by_zero_{short(t)}", "Div", {"a": edges[-2:], "b": zero}, fails=True)
    f.add(f"mod_by_zero_{short(t)}", "Mod", {"a": edges[-2:], "b": zero}, fails=True)
    f.add(f"div_of_nothing_by_zero_{short(t)}", "Div", {"a": np.zeros((0,), t), "b": np.array([0], t)},
          expected=np.zeros((0,), t))
    if t in (np.int32, np.int64):
        exponents = np.array([-3, -2, -1, 0, 1, 2, 3, 31, 64], t)
        bases = np.array([info.min, -3, -2, -1, 1, 2, 3, 10, info.max], t)
        table = np.array([[power(int(x), int(y)) for y in exponents] for x in bases], object)
        f.add(f"pow_{short(t)}", "Pow", {"a": bases[:, None], "b": exponents}, expected=wrapped(table, t))
        f.add(f"pow_of_zero_{short(t)}", "Pow", {"a": np.array([0, 0, 0], t), "b": np.array([0, 1, 5], t)},
              expected=np.array([1, 0, 0], t))
        f.add(f"pow_of_zero_to_negative_{short(t)}", "Pow", {"a": np.array([0], t), "b": np.array([-1], t)}, fails=True)
        for e in (np.int8, np.int16, np.uint8, np.uint16, np.uint32, np.uint64):
            few = np.array([0, 1, 2, 3], e)
            table = np.array([[power(int(x), int(y)) for y in few] for x in bases], object)
            f.add(f"pow_{short(t)}_{short(e)}", "Pow", {"a": bases[:, None], "b": few}, expected=wrapped(table, t))
        for e in (np.float32, np.float64, np.float16):
            f.add(f"pow_{short(t)}_{short(e)}", "Pow", {"a": np.array([-3, 0, 2, 9, 100], t), "b": np.array([2, 3, 2.5, 0.5, 1.5], e)},
                  expected=np.array([9, 0, 5, 3, 1000], t))
    if not info.min:
        counts = np.array([0, 1, 3, info.bits - 1, info.bits, info.bits + 5], t)
        numbers = big(edges[:, None])
        for direction, function in [("LEFT", lambda x, n: x << n), ("RIGHT", lambda x, n: x >> n)]:
            table = np.array([[function(int(x), int(n)) for n in counts] for x in edges], object)
            f.add(f"shift_{direction.lower()}_{short(t)}", "BitShift", {"x": a, "n": counts[None, :]},
                  attributes={"direction": direction}, expected=wrapped(table, t))

with np.errstate(all="ignore"):
    for t in FLOATS:
        edges = np.array([nan, inf, -inf, 0.0, -0.0, 1, -1, 2.5, -3.75, 1e-4, 3e4], t)
        a, b = edges[:, None], edges[None, :]
        for op, function in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]:
            f.add(f"{op.lower()}_{short(t)}", op, {"a": a, "b": b}, expected=function(a, b).astype(t))
        f.add(f"fmod_{short(t)}", "Mod", {"a": a, "b": b}, attributes={"fmod": 1},
              expected=np.fmod(a.astype(np.float64), b.astype(np.float64)).astype(t))
        f.add(f"pow_{short(t)}", "Pow", {"a": a, "b": b}, expected=np.power(a.astype(np.float64), b.astype(np.float64)).astype(t))
        for e in (np.int32, np.int64):
            n = np.array([-2, -1, 0, 1, 3], e)
            wide = np.power(a.astype(np.float64), n.astype(np.float64)[None, :])
            f.add(f"pow_{short(t)}_{short(e)}", "Pow", {"a": a, "b": n}, expected=wide.astype(t))
        f.add(f"sum_{short(t)}", "Sum", {"a": edges[3:], "b": edges[:1:-1][: len(edges) - 3].copy(), "c": np.array(1, t)},
              expected=(edges[3:].astype(np.float64) + edges[:1:-1][: len(edges) - 3].astype(np.float64) + 1).astype(t))

rng = np.random.default_rng(3)
SHAPES = [((), ()), ((3,), ()), ((), (2, 0)), ((2, 1), (1, 3)), ((4, 1, 2), (3, 1)), ((1,), (0,)), ((2, 3, 4), (2, 3, 4)), ((1, 1, 1), (5,))]
for i, (s, u) in enumerate(SHAPES):
    a, b = rng.integers(1, 9, s).astype(np.float32), rng.integers(1, 9, u).astype(np.float32)
    for op, function in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]:
        f.add(f"{op.lower()}_broadcast_{i}", op, {"a": a, "b": b}, expected=np.asarray(function(a, b)))
f.add("add_shapes_that_do_not_broadcast", "Add", {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}, fails=True)
# Before opset 7, `axis` says which dimensions of the first operand the second has.
a, b = rng.integers(1, 9, (2, 3, 4)).astype(np.float32), np.array([1, 2, 3], np.float32)
for op, function in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]:
    f.add(f"{op.lower()}_along_axis", op, {"a": a, "b": b}, opset=6, attributes={"broadcast": 1, "axis": 1},
          expected=function(a, b[:, None]))
f.write()
