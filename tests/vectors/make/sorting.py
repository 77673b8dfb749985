"""Vectors of TopK and Unique.

NumPy decides: NaN is greater than all numbers; of equal elements the first comes first. `np.unique` counts all NaN as one.
"""
import numpy as np
from family import FLOATS, INTS, Family, bfloat16, short

f = Family("sorting")
rng = np.random.default_rng(4)
nan, inf = np.nan, np.inf


def top(x, k, axis=-1, largest=1):
    # Ranks order what NumPy cannot negate; equal elements share one.
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    rank = np.unique(wide, return_inverse=True)[1].reshape(x.shape).astype(np.int64)
    order = np.argsort(-rank if largest else rank, axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int64)]


def add(name, x, k, opset=28, **attributes):
    axis, largest = attributes.get("axis", -1), attributes.get("largest", 1)
    f.add(name, "TopK", {"x": x, "k": np.array([k])}, constants=["k"], outputs=2, attributes=attributes, opset=opset,
          expected=top(x, k, axis, largest))


for t in FLOATS + INTS:
    x = rng.integers(0, 9, (3, 7)).astype(t)
    add(f"top_{short(t)}", x, 3)
    add(f"bottom_{short(t)}", x, 4, largest=0)
for t in FLOATS:
    x = np.array([1, nan, -inf, inf, -0.0, 0.0, nan, 2], t)
    add(f"top_with_nan_{short(t)}", x, 5)
    add(f"bottom_with_nan_{short(t)}", x, 8, largest=0)
for t in INTS:
    info = np.iinfo(t)
    add(f"top_limits_{short(t)}", np.array([[0, info.max, info.min, info.max - 1]], t), 4)
x = rng.standard_normal((2, 3, 4)).astype(np.float32)
for axis in (-3, -2, 0, 1, 2):
    add(f"top_axis_{axis}", x, 2, axis=axis)
    add(f"bottom_axis_{axis}", x, 2, axis=axis, largest=0)
add("top_of_all", x, 4)
add("top_of_none", x, 0)
add("top_of_ties", np.zeros((2, 6), np.float32), 3)
add("top_opset_10", x, 2, opset=10, axis=1)
add("top_to_nothing", np.zeros((0, 3), np.float32), 2)
f.add("top_opset_1", "TopK", {"x": x}, outputs=2, opset=9, attributes={"axis": 0, "k": 1}, expected=top(x, 1, 0))
f.add("top_k_that_varies", "TopK", {"x": x, "k": np.array([3])}, outputs=2, expected=top(x, 3))
f.add("top_more_than_there_are", "TopK", {"x": x, "k": np.array([5])}, constants=["k"], outputs=2, fails=True)
f.add("top_negative", "TopK", {"x": x, "k": np.array([-1])}, constants=["k"], outputs=2, fails=True)


def unique(x, axis=None, sorted=1):
    y, first, of, count = np.unique(x, axis=axis, return_index=True, return_inverse=True, return_counts=True)
    of = of.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        back = np.argsort(order)
        y = np.take(y, order, axis=axis or 0)
        first, of, count = first[order], back[of], count[order]
    return [y, first.astype(np.int64), of.astype(np.int64), count.astype(np.int64)]


def add_unique(name, x, axis=None, sorted=1, expected=None, **k):
    attributes = {"sorted": sorted, **({} if axis is None else {"axis": axis})}
    f.add(name, "Unique", {"x": x}, outputs=4, attributes=attributes,
          expected=expected or unique(x, axis, sorted), **k)


for t in [np.float16, np.float32, np.float64] + INTS + [np.bool_]:
    x = rng.integers(0, 2 if t == np.bool_ else 5, (3, 4)).astype(t)
    for sorted in (0, 1):
        add_unique(f"unique_{short(t)}_{sorted}", x, sorted=sorted)
        add_unique(f"unique_rows_{short(t)}_{sorted}", np.repeat(x[:, :2], 2, 0), axis=0, sorted=sorted)
x = rng.integers(0, 2, (2, 4, 3)).astype(np.float32)
for axis in (-3, -2, -1, 0, 1, 2):
    for sorted in (0, 1):
        add_unique(f"unique_axis_{axis}_{sorted}", x, axis=axis, sorted=sorted)
add_unique("unique_with_nan", np.array([nan, 1, nan, inf, -inf, 1], np.float32))
add_unique("unique_with_nan_as_they_come", np.array([nan, 1, nan, inf, -inf, 1], np.float32), sorted=0)
add_unique("unique_bf16", np.array([2, 1, 2], bfloat16),
           expected=[np.array([1, 2], bfloat16), np.array([1, 0]), np.array([1, 0, 1]), np.array([1, 2])])
words = np.array(["b", "a", "b", "ä", "", "B"])
add_unique("unique_strings", words)
add_unique("unique_strings_as_they_come", words, sorted=0)
add_unique("unique_of_nothing", np.zeros(0, np.int64))
add_unique("unique_complex", np.array([1 + 2j, 1 + 1j, 1 + 2j, 0 - 1j], np.complex64))
add_unique("unique_rank_0", np.float32(3))
f.write()
