"""Vectors of Gather, GatherElements and GatherND, by NumPy's indexing."""
import numpy as np
from family import COMPUTE, Family, short

f = Family("gathering")
rng = np.random.default_rng(41)


def data(*shape, t=np.float32):
    return rng.integers(0, 100, shape).astype(t)


for name, shape, indices, axis in [
    ("rows", (4, 3), [0, 2, -1], 0), ("columns", (4, 3), [[2, 0], [-3, 1]], 1), ("last", (2, 3, 4), [3, 3], -1), ("scalar", (4, 3), 1, 0),
    ("of_nothing", (4, 3), np.zeros((0,), np.int64), 0), ("beside_nothing", (0, 3), [1, 2], 1), ("vector", (5,), [4, 0], 0),
]:
    x, i = data(*shape), np.asarray(indices)
    f.add(f"gather_{name}", "Gather", {"x": x, "i": i}, attributes={"axis": axis}, expected=np.take(x, i, axis))
    f.add(f"gather_{name}_i32", "Gather", {"x": x, "i": i.astype(np.int32)}, attributes={"axis": axis}, expected=np.take(x, i, axis))
for t in COMPUTE:
    x, i = data(3, 2, t=t), np.array([[-1, 0, 1], [2, 2, -3]])
    f.add(f"gather_{short(t)}", "Gather", {"x": x, "i": i}, attributes={"axis": 0}, expected=x[i])
    j = np.array([[1, -3], [0, 2]])
    f.add(f"elements_{short(t)}", "GatherElements", {"x": x, "i": j}, attributes={"axis": 0}, expected=np.take_along_axis(x, j, 0))
for name, shape, to, axis in [("first", (4, 3), (2, 3), 0), ("fewer_beside", (4, 3), (5, 2), 0), ("last", (2, 3, 4), (2, 3, 6), -1), ("middle", (2, 3, 4), (1, 2, 3), 1),
                              ("vector", (5,), (7,), 0), ("to_nothing", (4, 3), (0, 3), 0)]:
    x = data(*shape)
    i = rng.integers(-shape[axis], shape[axis], to)
    cut = x[tuple(slice(None) if a == axis % len(shape) else slice(n) for a, n in enumerate(to))]
    f.add(f"elements_{name}", "GatherElements", {"x": x, "i": i}, attributes={"axis": axis}, expected=np.take_along_axis(cut, i, axis))
x = data(2, 3, 4)
for name, i, batch, y in [
    ("elements", [[0, 1, 2], [-1, -1, -1]], 0, x[[0, 1], [1, 2], [2, 3]]), ("slices", [[1], [0]], 0, x[[1, 0]]), ("columns", [[0, 2], [1, -3]], 0, x[[0, 1], [2, 0]]),
    ("in_batches", [[2], [-1]], 1, np.stack([x[0, 2], x[1, 2]])), ("in_two_batches", [[[3], [0], [1]], [[-1], [-4], [2]]], 2, np.take_along_axis(x, np.array([[[3], [0], [1]], [[3], [0], [2]]]), 2)[..., 0]),
    ("of_no_index", np.zeros((2, 0), np.int64), 0, np.stack([x, x])), ("nothing", np.zeros((0, 2), np.int64), 0, np.zeros((0, 4), np.float32)),
    ("one", [1, 2], 0, x[1, 2]),
]:
    f.add(f"nd_{name}", "GatherND", {"x": x, "i": np.asarray(i)}, attributes={"batch_dims": batch}, expected=y)
x = data(3, 4)
# An index out of range along its own axis is refused, though the element that it would name by position is there.
for name, i in [("after", [[0, 0, 0, 3]]), ("before", [[0, -4, 0, 0]]), ("far", [[0, np.iinfo(np.int64).max, 0, 0]]), ("far_before", [[np.iinfo(np.int64).min, 0, 0, 0]])]:
    f.add(f"elements_{name}", "GatherElements", {"x": x, "i": np.array(i)}, attributes={"axis": 0}, fails=True)
f.add("elements_after_the_row", "GatherElements", {"x": x, "i": np.array([[4]])}, attributes={"axis": 1}, fails=True)
f.add("elements_too_wide", "GatherElements", {"x": x, "i": np.zeros((1, 5), np.int64)}, attributes={"axis": 0}, fails=True)
f.add("elements_of_another_rank", "GatherElements", {"x": x, "i": np.array([0])}, attributes={"axis": 0}, fails=True)
for name, i in [("after_the_row", [[0, 4]]), ("before_the_row", [[1, -5]]), ("after", [[3, 0]]), ("too_long", [[0, 0, 0]])]:
    f.add(f"nd_{name}", "GatherND", {"x": x, "i": np.array(i)}, fails=True)
for name, i in [("after", [3]), ("before", [-4])]:
    f.add(f"gather_{name}", "Gather", {"x": x, "i": np.array(i)}, fails=True)
f.write()
