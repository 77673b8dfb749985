"""Vectors of operators that move, join, cut and choose elements, and of comparisons. NumPy computes all of them."""
import numpy as np
from family import COMPUTE, FLOATS, Family, short

f = Family("arrangement")
rng = np.random.default_rng(9)
nan, inf = np.nan, np.inf


def counted(shape, dtype=np.float32):
    size = int(np.prod(shape))
    return (np.arange(size) % 2 if dtype == np.bool_ else np.arange(size)).astype(dtype).reshape(shape)


def ints(*values):
    return np.array(values, np.int64)


for t in COMPUTE:
    x = counted((2, 3, 4), t)
    name = short(t)
    f.add(f"transpose_{name}", "Transpose", {"x": x}, attributes={"perm": [2, 0, 1]}, expected=x.transpose(2, 0, 1))
    f.add(f"reshape_{name}", "Reshape", {"x": x, "s": ints(0, -1, 2)}, constants=["s"], expected=x.reshape(2, 6, 2))
    f.add(f"slice_{name}", "Slice", {"x": x, "b": ints(-1, 3), "e": ints(-99, 0), "a": ints(1, -1), "s": ints(-1, -2)},
          expected=x[:, ::-1, 3:0:-2])
    f.add(f"concat_{name}", "Concat", {"x": x, "y": x[:, :0], "z": x[:, 1:]}, attributes={"axis": -2},
          expected=np.concatenate([x, x[:, 1:]], 1))
    f.add(f"gather_{name}", "Gather", {"x": x, "i": np.array([[0, -1], [2, 1]])}, attributes={"axis": 1},
          expected=np.take(x, np.array([[0, -1], [2, 1]]), axis=1))
    f.add(f"where_{name}", "Where", {"c": counted((3, 1), np.bool_), "x": x, "y": x[::-1].copy()},
          expected=np.where(counted((3, 1), np.bool_), x, x[::-1]))
    f.add(f"tile_{name}", "Tile", {"x": x[0], "r": ints(2, 3)}, expected=np.tile(x[0], (2, 3)))
    f.add(f"expand_{name}", "Expand", {"x": x[:, :1], "s": ints(2, 1, 3, 1)}, expected=np.broadcast_to(x[:, :1], (2, 2, 3, 4)).copy())
    f.add(f"equal_{name}", "Equal", {"x": x, "y": x[:, ::-1].copy()}, expected=x == x[:, ::-1])
    if t != np.bool_:
        for op, function in [("Less", np.less), ("Greater", np.greater), ("LessOrEqual", np.less_equal), ("GreaterOrEqual", np.greater_equal)]:
            f.add(f"{op.lower()}_{name}", op, {"x": x, "y": np.array([11, 3, 20, 15], t)}, expected=function(x, np.array([11, 3, 20, 15], t)))
for t in FLOATS:
    a, b = np.array([nan, 1, inf, -inf, 0.0, nan], t), np.array([nan, nan, inf, inf, -0.0, 2], t)
    for op, function in [("Equal", np.equal), ("Less", np.less), ("Greater", np.greater), ("LessOrEqual", np.less_equal), ("GreaterOrEqual", np.greater_equal)]:
        f.add(f"{op.lower()}_of_nan_{short(t)}", op, {"x": a, "y": b}, expected=function(a, b))
x = counted((3, 4, 5))
SLICES = [
    ((0,), (2**63 - 1,), None, None, x), ((1,), (-1,), None, None, x[1:-1]), ((5,), (9,), (0,), None, x[5:9]),
    ((-1,), (-(2**63),), (2,), (-1,), x[:, :, ::-1]), ((3, 0), (0, 5), (1, 2), (-2, 3), x[:, 3:0:-2, 0:5:3]),
    ((2,), (1,), (-3,), (1,), x[2:1]), ((-100,), (100,), (1,), (3,), x[:, ::3]),
]
for i, (starts, ends, axes, steps, y) in enumerate(SLICES):
    inputs = {"x": x, "b": ints(*starts), "e": ints(*ends), "a": None if axes is None else ints(*axes), "s": None if steps is None else ints(*steps)}
    f.add(f"slice_{i}", "Slice", inputs, expected=y.copy())
f.add("slice_step_0", "Slice", {"x": x, "b": ints(0), "e": ints(1), "a": ints(0), "s": ints(0)}, fails=True)
f.add("slice_by_attributes", "Slice", {"x": x}, opset=9, attributes={"starts": [1], "ends": [-1], "axes": [1]}, expected=x[:, 1:-1].copy())
f.add("slice_i32_bounds", "Slice", {"x": x, "b": np.array([1], np.int32), "e": np.array([3], np.int32)}, expected=x[1:3].copy())
RESHAPES = [((60,), (60,)), ((-1,), (60,)), ((0, 0, -1), (3, 4, 5)), ((5, -1, 2), (5, 6, 2)), ((1, 60, 1, 1), (1, 60, 1, 1))]
for i, (to, shape) in enumerate(RESHAPES):
    f.add(f"reshape_{i}", "Reshape", {"x": x, "s": ints(*to)}, expected=x.reshape(shape))
f.add("reshape_to_scalar", "Reshape", {"x": x[:1, :1, :1], "s": np.zeros(0, np.int64)}, expected=x[0, 0, 0])
f.add("reshape_allow_zero", "Reshape", {"x": np.zeros((0, 3), np.float32), "s": ints(3, 0)}, attributes={"allowzero": 1}, expected=np.zeros((3, 0), np.float32))
f.add("reshape_by_attribute", "Reshape", {"x": x}, opset=1, attributes={"shape": [12, 5]}, expected=x.reshape(12, 5))
f.add("reshape_to_another_size", "Reshape", {"x": x, "s": ints(7, 9)}, fails=True)
f.add("reshape_with_two_open", "Reshape", {"x": x, "s": ints(-1, -1)}, fails=True)
for i, (sizes, axis) in enumerate([((1, 2), 0), ((0, 4), 1), ((2, 2, 1), -1)]):
    f.add(f"split_{i}", "Split", {"x": x, "s": ints(*sizes)}, attributes={"axis": axis}, outputs=len(sizes),
          expected=np.split(x, np.cumsum(sizes)[:-1], axis))
f.add("split_uneven", "Split", {"x": x}, attributes={"axis": 2, "num_outputs": 2}, outputs=2, expected=[x[:, :, :3], x[:, :, 3:]])
f.add("split_by_attribute", "Split", {"x": x}, opset=11, attributes={"axis": 1, "split": [1, 3]}, outputs=2, expected=[x[:, :1], x[:, 1:]])
f.add("split_that_does_not_sum", "Split", {"x": x, "s": ints(1, 1)}, attributes={"axis": 0}, outputs=2, fails=True)
y = x.reshape(1, 3, 1, 4, 5, 1)
f.add("squeeze_all", "Squeeze", {"x": y}, expected=x)
f.add("squeeze_some", "Squeeze", {"x": y, "a": ints(-1, 0)}, expected=x.reshape(3, 1, 4, 5))
f.add("squeeze_what_is_not_1", "Squeeze", {"x": y, "a": ints(1)}, fails=True)
f.add("unsqueeze", "Unsqueeze", {"x": x, "a": ints(-1, 0)}, expected=x.reshape(1, 3, 4, 5, 1))
f.add("unsqueeze_scalar", "Unsqueeze", {"x": np.float32(3), "a": ints(0)}, expected=np.full((1,), 3, np.float32))
f.add("unsqueeze_twice_the_same", "Unsqueeze", {"x": x, "a": ints(0, 0)}, fails=True)
for axis in range(-3, 4):
    at = axis + 3 if axis < 0 else axis
    f.add(f"flatten_{axis}", "Flatten", {"x": x}, attributes={"axis": axis}, expected=x.reshape(int(np.prod(x.shape[:at])), -1))
f.add("flatten_nothing", "Flatten", {"x": np.zeros((2, 0, 3), np.float32)}, expected=np.zeros((2, 0), np.float32))
f.add("transpose_reverses", "Transpose", {"x": x}, expected=x.T.copy())
f.add("transpose_scalar", "Transpose", {"x": np.float32(2)}, expected=np.float32(2))
f.add("gather_scalar_index", "Gather", {"x": x, "i": np.array(-2, np.int32)}, attributes={"axis": -1}, expected=x[:, :, -2].copy())
f.add("gather_nothing", "Gather", {"x": x, "i": np.zeros((0, 2), np.int64)}, expected=np.zeros((0, 2, 4, 5), np.float32))
f.add("gather_out_of_range", "Gather", {"x": x, "i": np.array([3])}, fails=True)
f.add("tile_nothing", "Tile", {"x": x, "r": ints(1, 0, 2)}, expected=np.zeros((3, 0, 10), np.float32))
f.add("expand_nothing", "Expand", {"x": x[:, :1], "s": ints(3, 0, 5)}, expected=np.zeros((3, 0, 5), np.float32))
f.add("expand_that_does_not_fit", "Expand", {"x": x, "s": ints(2, 4, 5)}, fails=True)
f.add("concat_new", "Concat", {"x": x}, attributes={"axis": 0}, expected=x)
f.add("concat_that_does_not_fit", "Concat", {"x": x, "y": x[:, :, :2]}, attributes={"axis": 0}, fails=True)
for upper in (0, 1):
    for k in (-2, -1, 0, 1, 9):
        f.add(f"trilu_{upper}_{k}", "Trilu", {"x": x, "k": np.array(k)}, attributes={"upper": upper}, expected=(np.triu if upper else np.tril)(x, k))
for k in (-1, 0, 2):
    f.add(f"eye_{k}", "EyeLike", {"x": counted((3, 4), np.int32)}, attributes={"k": k, "dtype": 11}, expected=np.eye(3, 4, k))
f.add("shape", "Shape", {"x": x}, expected=ints(3, 4, 5))
f.add("shape_of_scalar", "Shape", {"x": np.float32(0)}, expected=np.zeros(0, np.int64))
for start, end in [(1, None), (-1, None), (0, -1), (-9, 9), (2, 1)]:
    attributes = {"start": start} | ({} if end is None else {"end": end})
    f.add(f"shape_{start}_{end}", "Shape", {"x": x}, attributes=attributes, expected=ints(*x.shape[start:end]) if start != -9 else ints(*x.shape))
f.add("size_of_nothing", "Size", {"x": np.zeros((3, 0), np.float32)}, expected=np.int64(0))
f.add("constant_of_shape_nothing", "ConstantOfShape", {"s": ints(2, 0)}, expected=np.zeros((2, 0), np.float32))
for i, (start, limit, delta) in enumerate([(0, 5, 1), (5, 0, -2), (3, 3, 1), (1, 0, 1), (-2, 7, 4)]):
    for t in (np.int16, np.int32, np.int64, np.float32, np.float64):
        f.add(f"range_{i}_{short(t)}", "Range", {"a": t(start), "b": t(limit), "c": t(delta)}, expected=np.arange(start, limit, delta).astype(t))
x = counted((1, 4, 2, 4))
d = x.reshape(1, 2, 2, 1, 2, 4)
f.add("depth_to_space_dcr", "DepthToSpace", {"x": x}, attributes={"blocksize": 2}, expected=d.transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 8))
f.add("depth_to_space_crd", "DepthToSpace", {"x": x}, attributes={"blocksize": 2, "mode": "CRD"},
      expected=x.reshape(1, 1, 2, 2, 2, 4).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 8))
f.add("space_to_depth", "SpaceToDepth", {"x": x}, attributes={"blocksize": 2},
      expected=x.reshape(1, 4, 1, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 1, 2))
for op, function in [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)]:
    a, b = np.array([[True], [False]]), np.array([True, False, True])
    f.add(op.lower(), op, {"a": a, "b": b}, expected=function(a, b))
f.add("not", "Not", {"x": np.array([True, False])}, expected=np.array([False, True]))
f.write()
