"""Vectors of Gather, GatherElements and GatherND: ranks, axes, negative indices, batches, strings, and what is refused."""
import numpy as np
from family import COMPUTE, Family, short

f = Family("gather")
rng = np.random.default_rng(6)
data = rng.standard_normal((2, 3, 4)).astype(np.float32)
for axis in (-3, -1, 0, 1, 2):
    for shape in ((), (2,), (2, 2), (0,)):
        n = data.shape[axis]
        indices = rng.integers(-n, n, shape)
        f.add(f"entries_axis_{axis}_rank_{'x'.join(map(str, shape)) or 'none'}", "Gather", {"data": data, "indices": indices},
              attributes={"axis": axis}, expected=np.take(data, indices, axis=axis))
for t in COMPUTE:
    x = rng.integers(0, 9, (3, 4)).astype(t)
    f.add(f"entries_{short(t)}", "Gather", {"data": x, "indices": np.array([2, -3, 0], np.int32)}, expected=x[[2, 0, 0]])
    at = rng.integers(-4, 4, (3, 2))
    f.add(f"elements_{short(t)}", "GatherElements", {"data": x, "indices": at}, attributes={"axis": 1},
          expected=np.take_along_axis(x, at % 4, 1))
    f.add(f"nd_{short(t)}", "GatherND", {"data": x, "indices": np.array([[0, 1], [-1, -1]])}, expected=x[[0, 2], [1, 3]])
for name, x, indices in [("of_vector", np.arange(5.0), [4, 0]), ("beside_nothing", np.zeros((3, 0)), [1, 2]),
                         ("i32_of_rank_0", np.arange(6).reshape(2, 3), np.int32(-1))]:
    f.add(f"entries_{name}", "Gather", {"data": x, "indices": np.array(indices)}, expected=x[np.array(indices)])
words = np.array([["a", "b"], ["", "ä"]], object)
f.add("entries_strings", "Gather", {"data": words, "indices": np.array([1, 1, 0])}, attributes={"axis": 1}, expected=words[:, [1, 1, 0]])
f.add("elements_strings", "GatherElements", {"data": words, "indices": np.array([[1], [0]])}, attributes={"axis": 1},
      expected=np.array([["b"], [""]], object))
f.add("nd_strings", "GatherND", {"data": words, "indices": np.array([[1]])}, expected=words[[1]])
f.add("entries_of_nothing", "Gather", {"data": np.zeros((0, 3), np.float32), "indices": np.zeros(0, np.int64)},
      expected=np.zeros((0, 3), np.float32))
f.add("entries_beyond", "Gather", {"data": data, "indices": np.array([2])}, fails=True)
f.add("entries_before", "Gather", {"data": data, "indices": np.array([-3])}, fails=True)
for axis in (-3, -2, -1, 0, 1, 2):
    n = data.shape[axis]
    shape = [2, 2, 3]
    shape[axis] = 5
    at = rng.integers(-n, n, shape)
    where = list(np.indices(shape))
    where[axis] = at % n
    f.add(f"elements_axis_{axis}", "GatherElements", {"data": data, "indices": at.astype(np.int32)}, attributes={"axis": axis},
          expected=data[tuple(where)])
f.add("elements_none", "GatherElements", {"data": data, "indices": np.zeros((2, 0, 4), np.int64)}, attributes={"axis": 1},
      expected=np.zeros((2, 0, 4), np.float32))
f.add("elements_beyond", "GatherElements", {"data": np.arange(6.0).reshape(2, 3), "indices": np.array([[3, 0, 0]])},
      attributes={"axis": 1}, fails=True)
f.add("elements_before", "GatherElements", {"data": np.arange(6.0).reshape(2, 3), "indices": np.array([[0, 0, 0], [-4, 0, 0]])},
      attributes={"axis": 1}, fails=True)
whole = np.arange(12.0).reshape(3, 4)
f.add("elements_fewer_beside", "GatherElements", {"data": whole, "indices": np.array([[0, 2], [-1, 1], [0, 0], [1, -3]])},
      expected=whole[[[0, 2], [2, 1], [0, 0], [1, 0]], [0, 1]])
f.add("elements_longer_than_data", "GatherElements", {"data": np.arange(3), "indices": np.array([0, 2, -1, 1, 0])}, expected=np.array([0, 2, 2, 1, 0]))
# An index out of range along its own axis is refused, though the element that it would name by position is there.
for name, at in [("beyond_inside", 3), ("before_inside", -4), ("beyond_all", 2**63 - 1), ("before_all", -(2**63))]:
    f.add(f"elements_{name}", "GatherElements", {"data": whole, "indices": np.array([[0, at, 0, 0]])}, fails=True)
f.add("elements_too_wide", "GatherElements", {"data": whole, "indices": np.zeros((1, 5), np.int64)}, fails=True)
f.add("elements_of_another_rank", "GatherElements", {"data": data, "indices": np.array([0])}, fails=True)


def nd(data, indices, batch):
    if batch:
        return np.stack([nd(d, i, batch - 1) for d, i in zip(data, indices)])
    return data[tuple(np.moveaxis(indices, -1, 0))]


for name, indices, batch in [("slices", [[1], [0], [-1]], 0), ("rows", [[1, 2], [0, -1]], 0), ("elements", [[1, 2, 3], [0, 0, -4]], 0),
                             ("of_rank_3", [[[0, 1]], [[1, -3]]], 0), ("batch_rows", [[1], [2]], 1), ("batch_elements", [[1, 3], [2, -1]], 1),
                             ("batch_lists", [[[1], [0]], [[2], [-3]]], 1), ("two_batches", [[[1], [0], [3]], [[2], [-3], [0]]], 2)]:
    indices = np.array(indices)
    f.add(f"nd_{name}", "GatherND", {"data": data, "indices": indices}, attributes={"batch_dims": batch} if batch else {},
          expected=nd(data, indices, batch))
f.add("nd_of_no_index", "GatherND", {"data": data, "indices": np.zeros((2, 0), np.int64)}, expected=np.stack([data, data]))
f.add("nd_one", "GatherND", {"data": data, "indices": np.array([1, 2])}, expected=data[1, 2])
f.add("nd_none", "GatherND", {"data": data, "indices": np.zeros((0, 2), np.int64)}, expected=np.zeros((0, 4), np.float32))
f.add("nd_beyond", "GatherND", {"data": np.arange(6.0).reshape(2, 3), "indices": np.array([[0, 3]])}, fails=True)
f.add("nd_before", "GatherND", {"data": np.arange(6.0).reshape(2, 3), "indices": np.array([[1, -4]])}, fails=True)
f.add("nd_too_long", "GatherND", {"data": np.arange(3.0), "indices": np.array([[0, 0]])}, fails=True)
f.write()
