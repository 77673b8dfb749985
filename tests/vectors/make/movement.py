"""Vectors of what moves, repeats, cuts, joins and masks elements. NumPy computes all of them."""
import numpy as np
import onnx
from family import COMPUTE, Family, bfloat16, short
from onnx import helper

f = Family("movement")
rng = np.random.default_rng(8)
inf = np.inf


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
    x = rng.integers(0, 9, (3, 4)).astype(t)
    y = rng.integers(0, 9, (1, 4)).astype(t)
    c = np.array([[True], [False], [True]])
    f.add(f"where_{short(t)}", "Where", {"c": c, "x": x, "y": y}, expected=np.where(c, x, y))
    f.add(f"tile_{short(t)}", "Tile", {"x": x, "repeats": np.array([2, 3])}, constants=["repeats"], expected=np.tile(x, (2, 3)))
    f.add(f"expand_{short(t)}", "Expand", {"x": y, "shape": np.array([2, 3, 1])}, constants=["shape"],
          expected=np.broadcast_to(y, (2, 3, 4)).copy())
    for upper in (0, 1):
        f.add(f"trilu_{short(t)}_{upper}", "Trilu", {"x": x}, attributes={"upper": upper}, expected=(np.triu if upper else np.tril)(x))
    if t != bfloat16:
        f.add(f"compress_{short(t)}", "Compress", {"x": x, "c": np.array([True, False, True])}, attributes={"axis": -1},
              expected=x[:, [0, 2]])
        f.add(f"non_zero_{short(t)}", "NonZero", {"x": (x % 3 == 0).astype(t)}, expected=np.array(np.nonzero(x % 3 == 0), np.int64))
x = rng.standard_normal((2, 3, 5)).astype(np.float32)
for k in (-10, -3, -1, 0, 1, 2, 10):
    for upper in (0, 1):
        f.add(f"trilu_diagonal_{k}_{upper}", "Trilu", {"x": x, "k": np.array(k)}, constants=["k"], attributes={"upper": upper},
              expected=(np.triu if upper else np.tril)(x, k))
wild = np.array([[np.nan, inf], [-inf, np.nan]], np.float32)
f.add("trilu_of_nan", "Trilu", {"x": wild}, expected=np.array([[np.nan, inf], [0, np.nan]], np.float32))
f.add("trilu_of_nothing", "Trilu", {"x": np.zeros((0, 3, 3), np.float32)}, expected=np.zeros((0, 3, 3), np.float32))
f.add("trilu_of_vector", "Trilu", {"x": np.zeros(3, np.float32)}, fails=True)
for name, x, repeats in [("none", np.arange(6).reshape(2, 3), [0, 2]), ("once", np.arange(3.0), [1]), ("rank_0", np.float32(3), []),
                         ("of_nothing", np.zeros((0, 2)), [3, 2]), ("rank_3", np.arange(6).reshape(1, 2, 3), [2, 1, 2])]:
    f.add(f"tile_{name}", "Tile", {"x": x, "repeats": np.array(repeats, np.int64)}, expected=np.tile(x, repeats))
f.add("tile_opset_1", "Tile", {"x": np.arange(6.0).reshape(2, 3).astype(np.float32), "tiles": np.float32(2), "axis": np.float32(1)}, opset=5,
      expected=np.tile(np.arange(6.0).reshape(2, 3).astype(np.float32), (1, 2)))
f.add("tile_of_another_rank", "Tile", {"x": np.arange(3.0), "repeats": np.array([1, 2])}, fails=True)
f.add("tile_negative", "Tile", {"x": np.arange(3.0), "repeats": np.array([-1])}, fails=True)
for name, x, shape in [("rank_0", np.float32(2), [2, 3]), ("to_less", np.zeros((2, 3)), [3]), ("nothing", np.zeros((1, 3)), [0, 3]),
                       ("of_nothing", np.zeros((0, 1)), [2, 0, 3]), ("both", np.arange(3.0).reshape(3, 1), [1, 4]), ("to_rank_0", np.float64(1), [])]:
    shape = np.array(shape, np.int64)
    expected = np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))).copy()
    f.add(f"expand_{name}", "Expand", {"x": x, "shape": shape}, constants=["shape"], expected=expected)
f.add("expand_to_what_does_not_fit", "Expand", {"x": np.zeros((2, 3)), "shape": np.array([2, 2])}, fails=True)
for t in [np.float32, np.float64, np.int16, np.int32, np.int64]:
    for start, limit, delta in [(0, 5, 1), (3, 9, 3), (10, 4, -2), (5, 5, 1), (3, 9, -3), (-4, 5, 4)]:
        three = {"start": np.array(start, t), "limit": np.array(limit, t), "delta": np.array(delta, t)}
        f.add(f"range_{short(t)}_{start}_{limit}_{delta}", "Range", three, constants=list(three), expected=np.arange(start, limit, delta, dtype=t))
for t in (np.float32, np.float64):
    three = {"start": np.array(0.5, t), "limit": np.array(2.1, t), "delta": np.array(0.25, t)}
    f.add(f"range_of_fractions_{short(t)}", "Range", three, expected=np.arange(7).astype(t) * t(0.25) + t(0.5))
great = {"start": np.array(2**62), "limit": np.array(2**62 + 5), "delta": np.array(2)}
f.add("range_of_great", "Range", great, expected=np.array([2**62, 2**62 + 2, 2**62 + 4]))
f.add("range_without_step", "Range", {"start": np.array(0), "limit": np.array(5), "delta": np.array(0)}, fails=True)
f.add("range_without_step_f32", "Range", {"start": np.float32(0), "limit": np.float32(5), "delta": np.float32(0)}, fails=True)


def hot(indices, depth, values, axis):
    i = np.asarray(indices)
    at = np.where(i < 0, i + depth, i)
    y = np.where(at[..., None] == np.arange(depth), values[1], values[0])
    return np.moveaxis(y, -1, axis).astype(values.dtype)


for axis in (-1, 0, 1, -2, -3, 2):
    i = rng.integers(-4, 5, (2, 3))
    f.add(f"one_hot_axis_{axis}", "OneHot", {"i": i, "depth": np.array(4), "values": np.array([2, 5], np.float32)}, constants=["depth"],
          attributes={"axis": axis}, expected=hot(i, 4, np.array([2, 5], np.float32), axis))
for t, v in [(np.int64, np.int32), (np.float32, np.float32), (np.uint8, np.bool_), (np.int32, np.float64), (np.int16, np.int8)]:
    i = np.array([0, 2, 1, 7]).astype(t)
    f.add(f"one_hot_{short(t)}_{short(v)}", "OneHot", {"i": i, "depth": np.array([3], np.int64), "values": np.array([0, 1]).astype(v)},
          constants=["depth"], expected=hot(i.astype(np.int64), 3, np.array([0, 1]).astype(v), -1))
f.add("one_hot_float_depth", "OneHot", {"i": np.array([1, 0]), "depth": np.array(3.0, np.float32), "values": np.array([0.0, 1])},
      expected=hot([1, 0], 3, np.array([0.0, 1]), -1))
f.add("one_hot_rank_0", "OneHot", {"i": np.array(1), "depth": np.array(3), "values": np.array([0.0, 1])}, constants=["depth"],
      expected=hot(1, 3, np.array([0.0, 1]), -1))
f.add("one_hot_of_nothing", "OneHot", {"i": np.zeros((0, 2), np.int64), "depth": np.array(3), "values": np.array([0.0, 1])}, constants=["depth"],
      expected=np.zeros((0, 2, 3)))
x = np.arange(6.0).reshape(2, 3)
f.add("compress_flat", "Compress", {"x": x, "c": np.array([False, True, False, False, True])}, expected=np.array([1.0, 4.0]))
f.add("compress_short_condition", "Compress", {"x": x, "c": np.array([False, True])}, attributes={"axis": 1}, expected=x[:, [1]])
f.add("compress_to_nothing", "Compress", {"x": x, "c": np.array([False])}, attributes={"axis": 0}, expected=x[:0])
f.add("compress_strings", "Compress", {"x": np.array(["a", "b", "c"], object), "c": np.array([True, False, True])}, expected=np.array(["a", "c"], object))
f.add("compress_beyond", "Compress", {"x": x, "c": np.array([False, False, True])}, attributes={"axis": 0}, fails=True)
f.add("non_zero_rank_0", "NonZero", {"x": np.float32(3)}, expected=np.zeros((0, 1), np.int64))
f.add("non_zero_rank_0_of_zero", "NonZero", {"x": np.float32(0)}, expected=np.zeros((0, 0), np.int64))
f.add("non_zero_rank_3", "NonZero", {"x": np.eye(3)[None] - np.eye(3)[:, None]}, expected=np.array(np.nonzero(np.eye(3)[None] - np.eye(3)[:, None]), np.int64))
f.add("non_zero_of_nan", "NonZero", {"x": np.array([np.nan, -0.0, 1e-40], np.float32)}, expected=np.array([[0, 2]]))
f.add("non_zero_none", "NonZero", {"x": np.zeros((2, 2), np.int32)}, expected=np.zeros((2, 0), np.int64))
f.add("non_zero_of_nothing", "NonZero", {"x": np.zeros((2, 0), np.float32)}, expected=np.zeros((2, 0), np.int64))
for k in (-2, 0, 1, 5):
    f.add(f"eye_like_{k}", "EyeLike", {"x": np.zeros((3, 4), np.int32)}, attributes={"k": k}, expected=np.eye(3, 4, k, dtype=np.int32))
f.add("eye_like_of_type", "EyeLike", {"x": np.zeros((2, 2), np.int32)}, attributes={"dtype": 11}, expected=np.eye(2))
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
# A scalar has no axes: none are named, or an empty list.
for dtype in (np.float32, np.int64, np.bool_):
    one = np.array(1, dtype)
    for opset in (1, 11, 13, 25):
        f.add(f"squeeze_scalar_{short(dtype)}_{opset}", "Squeeze", {"x": one}, opset=opset, expected=one)
        if opset < 13:
            empty = helper.make_node("Squeeze", ["x"], ["y"])
            empty.attribute.append(helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS))
            f.add(f"squeeze_scalar_by_no_axes_{short(dtype)}_{opset}", [empty], {"x": one}, outputs=["y"], opset=opset, expected=one)
        else:
            f.add(f"squeeze_scalar_by_no_axes_{short(dtype)}_{opset}", "Squeeze", {"x": one, "a": ints()}, opset=opset, expected=one)
            f.add(f"squeeze_scalar_by_a_blank_{short(dtype)}_{opset}", [helper.make_node("Squeeze", ["x", ""], ["y"])], {"x": one}, outputs=["y"],
                  opset=opset, expected=one)
f.add("squeeze_scalar_by_an_axis", "Squeeze", {"x": np.float32(3), "a": ints(0)}, fails=True)
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
f.add("tile_nothing", "Tile", {"x": x, "r": ints(1, 0, 2)}, expected=np.zeros((3, 0, 10), np.float32))
f.add("expand_middle_to_nothing", "Expand", {"x": x[:, :1], "s": ints(3, 0, 5)}, expected=np.zeros((3, 0, 5), np.float32))
f.add("expand_that_does_not_fit", "Expand", {"x": x, "s": ints(2, 4, 5)}, fails=True)
f.add("concat_new", "Concat", {"x": x}, attributes={"axis": 0}, expected=x)
f.add("concat_that_does_not_fit", "Concat", {"x": x, "y": x[:, :, :2]}, attributes={"axis": 0}, fails=True)
f.add("shape", "Shape", {"x": x}, expected=ints(3, 4, 5))
f.add("shape_of_scalar", "Shape", {"x": np.float32(0)}, expected=np.zeros(0, np.int64))
for start, end in [(1, None), (-1, None), (0, -1), (-9, 9), (2, 1)]:
    attributes = {"start": start} | ({} if end is None else {"end": end})
    f.add(f"shape_{start}_{end}", "Shape", {"x": x}, attributes=attributes, expected=ints(*x.shape[start:end]) if start != -9 else ints(*x.shape))
f.add("size_of_nothing", "Size", {"x": np.zeros((3, 0), np.float32)}, expected=np.int64(0))
f.add("constant_of_shape_nothing", "ConstantOfShape", {"s": ints(2, 0)}, expected=np.zeros((2, 0), np.float32))
x = counted((1, 4, 2, 4))
d = x.reshape(1, 2, 2, 1, 2, 4)
f.add("depth_to_space_dcr", "DepthToSpace", {"x": x}, attributes={"blocksize": 2}, expected=d.transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 8))
f.add("depth_to_space_crd", "DepthToSpace", {"x": x}, attributes={"blocksize": 2, "mode": "CRD"},
      expected=x.reshape(1, 1, 2, 2, 2, 4).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 8))
f.add("space_to_depth", "SpaceToDepth", {"x": x}, attributes={"blocksize": 2},
      expected=x.reshape(1, 4, 1, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 1, 2))
# ONNX: `DCR` puts the places in a block before the channels, `CRD` after them.
for mode, axes in (("DCR", (0, 3, 5, 1, 2, 4)), ("CRD", (0, 1, 3, 5, 2, 4))):
    x = counted((2, 3, 4, 6))
    blocks = x.reshape(2, 3, 2, 2, 3, 2).transpose(axes).reshape(2, 12, 2, 3)
    f.add(f"space_to_depth_{mode}", "SpaceToDepth", {"x": x}, attributes={"blocksize": 2, "mode": mode}, expected=blocks)
f.add("space_to_depth_of_an_unknown_mode", "SpaceToDepth", {"x": x}, attributes={"blocksize": 2, "mode": "RDC"}, fails=True)
f.write()
