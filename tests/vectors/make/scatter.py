"""Vectors of Scatter, ScatterElements and ScatterND: every reduction, element type and axis, and what is refused.

NumPy decides, by `ufunc.at`, which applies updates in order.
"""
import numpy as np
from family import COMPUTE, FLOATS, INTS, Family, bfloat16, short

f = Family("scatter")
rng = np.random.default_rng(5)
nan, inf = np.nan, np.inf
JOIN = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def written(data, at, updates, reduction):
    y = data.copy()
    if reduction == "none":
        for i, u in zip(zip(*[a.reshape(-1) for a in at]), updates.reshape(-1, *updates.shape[at[0].ndim:])):
            y[i] = u
    else:
        with np.errstate(all="ignore"):
            JOIN[reduction].at(y, tuple(at), updates)
    return y


def elements(data, indices, updates, axis=0, reduction="none"):
    at = list(np.indices(indices.shape))
    at[axis] = np.where(indices < 0, indices + data.shape[axis], indices)
    return written(data, at, updates, reduction)


def add(name, data, indices, updates, axis=None, reduction="none", op="ScatterElements", opset=28):
    attributes = {} if axis is None else {"axis": axis}
    if reduction != "none":
        attributes["reduction"] = reduction
    f.add(name, op, {"data": data, "indices": indices, "updates": updates}, attributes=attributes, opset=opset,
          expected=elements(data, indices, updates, axis or 0, reduction))


indices = np.array([[0, 2, 1], [1, 1, -1]])
for t in COMPUTE:
    data = rng.integers(0, 4, (3, 3)).astype(t)
    updates = rng.integers(0, 4, (2, 3)).astype(t)
    add(f"elements_{short(t)}", data, indices, updates)
    for reduction in ["add", "mul", "max", "min"]:
        if t != np.bool_:
            add(f"elements_{reduction}_{short(t)}", data, indices, updates, reduction=reduction)
for reduction, expected in [("add", np.logical_or), ("mul", np.logical_and), ("max", np.logical_or), ("min", np.logical_and)]:
    data, updates = np.array([True, True, False, False]), np.array([True, False, True, False])
    f.add(f"elements_{reduction}_bool", "ScatterElements", {"data": data, "indices": np.arange(4), "updates": updates},
          attributes={"reduction": reduction}, expected=expected(data, updates))
for t in INTS:
    info = np.iinfo(t)
    data = np.array([info.max, info.min, 3], t)
    for reduction in ["add", "mul"]:
        add(f"elements_{reduction}_wraps_{short(t)}", data, np.array([0, 1, 0]), np.array([2, info.max, 3], t), reduction=reduction)
data = np.array([nan, 1, inf, -inf, 0], np.float32)
for reduction in ["add", "mul", "max", "min"]:
    add(f"elements_{reduction}_with_nan", data, np.array([0, 1, 2, 3, 4, 4]), np.array([1, nan, -inf, inf, -0.0, 7], np.float32),
        reduction=reduction)
data = rng.standard_normal((2, 3, 4)).astype(np.float32)
for axis in (-3, -2, -1, 0, 1, 2):
    indices = rng.integers(-data.shape[axis], data.shape[axis], (2, 2, 3))
    add(f"elements_axis_{axis}", data, indices, rng.standard_normal((2, 2, 3)).astype(np.float32), axis=axis)
    add(f"elements_add_axis_{axis}", data, indices.astype(np.int32), rng.standard_normal((2, 2, 3)).astype(np.float32), axis=axis,
        reduction="add")
words = np.array(["a", "b", "c", ""], object)
add("elements_strings", words, np.array([3, 0]), np.array(["ä", "xyz"], object))
add("elements_complex", np.arange(3).astype(np.complex64), np.array([1]), np.array([1 + 5j], np.complex64))
add("elements_nothing", np.arange(3.0), np.zeros(0, np.int64), np.zeros(0))
add("elements_longer_than_data", np.arange(2.0), np.array([0, 1, 0, 1]), np.array([5.0, 6, 7, 8]))
add("scatter_of_opset_9", np.arange(4.0).astype(np.float32), np.array([2, 0]), np.array([9, 8], np.float32), op="Scatter", opset=9)
add("elements_opset_11", np.arange(4.0).astype(np.float32), np.array([2, -4]), np.array([9, 8], np.float32), opset=11)
three = np.arange(3.0)
for name, indices, updates, more in [("beyond", [3], [1.0], {}), ("before", [-4], [1.0], {}), ("of_another_rank", [[0]], [[1.0]], {}),
                                     ("with_other_updates", [0, 1], [1.0], {}), ("unknown_reduction", [0], [1.0], {"reduction": "sub"})]:
    f.add(f"elements_{name}", "ScatterElements", {"data": three, "indices": np.array(indices), "updates": np.array(updates)},
          attributes=more, fails=True)


def slices(data, indices, updates, reduction="none"):
    at = np.moveaxis(indices, -1, 0)
    at = [np.where(a < 0, a + d, a) for a, d in zip(at, data.shape)]
    return written(data, at, updates, reduction)


def add_nd(name, data, indices, updates, reduction="none", opset=28):
    f.add(name, "ScatterND", {"data": data, "indices": indices, "updates": updates}, opset=opset,
          attributes={} if reduction == "none" else {"reduction": reduction}, expected=slices(data, indices, updates, reduction))


for reduction in JOIN:
    add_nd(f"nd_slices_{reduction}", data, np.array([[0], [-1], [0]]), rng.standard_normal((3, 3, 4)).astype(np.float32), reduction)
    add_nd(f"nd_rows_{reduction}", data, np.array([[[0, 1], [1, -1]], [[0, 0], [0, 1]]]), rng.standard_normal((2, 2, 4)).astype(np.float32), reduction)
    add_nd(f"nd_elements_{reduction}", data.astype(np.float64), np.array([[0, 1, 2], [1, 2, 3], [0, 1, 2]]), np.array([1.5, 2.5, -3.5]), reduction)
    add_nd(f"nd_i64_{reduction}", np.arange(5), np.array([[4], [1], [4]]), np.array([10, 20, 30]), reduction)
add_nd("nd_opset_11", np.arange(5.0), np.array([[4], [1]]), np.array([10.0, 20]), opset=11)
add_nd("nd_strings", words, np.array([[1]]), np.array(["new"], object))
add_nd("nd_nothing", np.arange(5.0), np.zeros((0, 1), np.int64), np.zeros(0))
for name, indices, updates in [("beyond", [[5]], [1.0]), ("before", [[-6]], [1.0]), ("too_long", [[0, 0]], [1.0]),
                               ("with_other_updates", [[0]], [1.0, 2.0])]:
    f.add(f"nd_{name}", "ScatterND", {"data": np.arange(5.0), "indices": np.array(indices), "updates": np.array(updates)}, fails=True)
# Sums and products of halves are those of f64, rounded once.
for t in [np.float16, bfloat16]:
    for op, n in [("ScatterElements", 4096), ("ScatterND", 4096)]:
        many = np.full(n, 0.1, t)
        at = np.zeros(n, np.int64) if op == "ScatterElements" else np.zeros((n, 1), np.int64)
        expected = np.array([1 + many.astype(np.float64).sum(), 2])
        word = {"ScatterElements": "elements", "ScatterND": "nd"}[op]
        f.add(f"{word}_adds_many_{short(t)}", op, {"data": np.array([1, 2], t), "indices": at, "updates": many}, attributes={"reduction": "add"},
              opset=18, expected=expected.astype(t), relative=2**-7 if t is bfloat16 else 2**-10)
        factors = np.array([3e4, 3e4, 2e-4, 1e-4], t)
        at = at[:4]
        expected = np.array([7, 3]) * np.array([factors.astype(np.float64).prod(), 1])
        f.add(f"{word}_multiplies_beyond_the_range_{short(t)}", op, {"data": np.array([7, 3], t), "indices": at, "updates": factors},
              attributes={"reduction": "mul"}, opset=18, expected=expected.astype(t), relative=2**-7 if t is bfloat16 else 2**-10)
        for sign in [1, -1]:
            terms = (sign * np.array([60000, 60000, -60000, -60000])).astype(t)
            f.add(f"{word}_adds_beyond_the_range_{short(t)}_{sign}", op, {"data": np.array([7, 3], t), "indices": at, "updates": terms},
                  attributes={"reduction": "add"}, opset=18, expected=np.array([7, 3], t))
f.write()
