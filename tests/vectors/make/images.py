"""Vectors of other operators on images and sequences: regions, cropping, folding, unpooling, suppression, determinants.

MaxRoiPool is ONNX Runtime's; the others are ONNX's evaluator's, or follow the definition here.
"""
import itertools

import ml_dtypes
import numpy as np
from family import COMPUTE, FLOATS, Family, short
from onnx import helper

f = Family("images")
random = np.random.default_rng(7)
LOOSE = {np.float16: 2e-2, ml_dtypes.bfloat16: 1e-1}


def normal(shape, t=np.float32):
    return random.uniform(-3, 3, shape).astype(t)


def roi(name, shape, rois, batch=None, opset=22, x=None, t=np.float32, **attributes):
    x = normal(shape, t) if x is None else x
    wide = np.float64 if t is np.float64 else np.float32
    inputs = {"x": x, "rois": np.array(rois, t).reshape(-1, 4), "batch": np.array(batch or [0] * (len(rois)), np.int64)}
    if np.dtype(t).itemsize == 2:
        # The evaluator accumulates in the operand's type.
        from family import reference
        names = list(inputs)
        node = helper.make_node("RoiAlign", names, ["y"], **attributes)
        ports = [helper.make_tensor_value_info(n, 1, None) for n in [*names, "y"]]
        model = helper.make_model(helper.make_graph([node], "g", ports[:-1], ports[-1:]), opset_imports=[helper.make_opsetid("", opset)],
                                  ir_version=10)
        expected = reference(model, {k: v.astype(wide) if k != "batch" else v for k, v in inputs.items()}, ["y"])[0].astype(t)
    else:
        expected = "reference"
    f.add(name, "RoiAlign", inputs, attributes=attributes, opset=opset, expected=expected, absolute=LOOSE.get(t, 1e-5))


BOXES = [[0.5, 1.25, 4.5, 3.75], [1, 1, 3, 5], [-3, -2, 9, 8], [2, 2, 2, 2]]
for mode, how, ratio in itertools.product(["avg", "max"], ["half_pixel", "output_half_pixel"], [0, 1, 2, 3]):
    words = {"mode": mode, "coordinate_transformation_mode": how, "sampling_ratio": ratio}
    boxes = BOXES[:3] if how == "half_pixel" and ratio == 0 else BOXES
    roi(f"align_{mode}_{how}_{ratio}", (2, 2, 6, 5), boxes, [1, 0, 0, 1][:len(boxes)], output_height=2, output_width=3, **words)
for t in FLOATS:
    roi(f"align_{short(t)}", (1, 2, 5, 5), [[1, 0.5, 4, 3.5]], t=t, output_height=2, output_width=2, sampling_ratio=2)
roi("align_by_default", (1, 2, 5, 5), BOXES[:1])
roi("align_scaled", (1, 1, 5, 6), [[4, 2, 20, 16]], spatial_scale=0.25, output_height=3, output_width=2)
x, boxes = normal((1, 1, 5, 6)), np.array(BOXES[:2], np.float32)
# The evaluator shifts positions in this version, too, which has no attribute for it.
f.add("align_opset_10", "RoiAlign", {"x": x, "rois": boxes, "batch": np.zeros(2, np.int64)}, opset=10, expected="ort",
      attributes={"output_height": 2, "output_width": 2})
roi("align_opset_16", (1, 1, 5, 6), BOXES[:2], opset=16, output_height=2, output_width=2, mode="max")
roi("align_outside", (1, 1, 3, 3), [[10, 10, 12, 12], [-9, 0, -5, 2]], sampling_ratio=2)
roi("align_turned_round", (1, 1, 4, 4), [[3, 3, 1, 1]], sampling_ratio=2, output_height=2)
f.add("align_no_regions", "RoiAlign", {"x": normal((1, 2, 3, 3)), "rois": np.zeros((0, 4), np.float32), "batch": np.zeros(0, np.int64)},
      attributes={"output_height": 2}, opset=22, expected=np.zeros((0, 2, 2, 1), np.float32))
for name, change in {"image_out_of_range": {"batch": np.array([1])}, "negative_image": {"batch": np.array([-1])},
                     "other_batch": {"batch": np.array([0, 0])}, "boxes_of_5": {"rois": np.ones((1, 5), np.float32)},
                     "rank_3": {"x": normal((2, 3, 3))}}.items():
    f.add(f"align_{name}", "RoiAlign", {"x": normal((1, 2, 3, 3)), "rois": np.ones((1, 4), np.float32), "batch": np.array([0])} | change,
          opset=22, fails=True)
f.add("align_endless_region", "RoiAlign", {"x": np.ones((1, 1, 3, 3), np.float32), "rois": np.array([[0, 0, 1e30, 1e30]], np.float32),
      "batch": np.array([0])}, opset=22, expected=np.zeros((1, 1, 1, 1), np.float32), absolute=1e-6)

for name, boxes, words in [("", [[0, 0, 0, 3, 2], [1, 1, 1, 4, 4]], {}), ("_scaled", [[0, 2, 3, 9, 8]], {"spatial_scale": 0.5}),
                           ("_small", [[0, 2, 2, 2, 2], [1, 3, 1, 2, 0]], {}), ("_outside", [[0, -3, -2, 12, 9], [1, 9, 9, 12, 12]], {}),
                           ("_fractions", [[1, 0.5, 1.5, 3.49, 2.51]], {"spatial_scale": 1.3})]:
    f.add(f"roi_pool{name}", "MaxRoiPool", {"x": normal((2, 2, 6, 5)), "rois": np.array(boxes, np.float32)},
          attributes={"pooled_shape": [2, 3], **words}, opset=1, expected="ort")
f.add("roi_pool_no_regions", "MaxRoiPool", {"x": normal((1, 2, 3, 3)), "rois": np.zeros((0, 5), np.float32)},
      attributes={"pooled_shape": [2, 2]}, opset=22, expected=np.zeros((0, 2, 2, 2), np.float32))
f.add("roi_pool_other_image", "MaxRoiPool", {"x": normal((1, 2, 3, 3)), "rois": np.array([[1, 0, 0, 1, 1]], np.float32)},
      attributes={"pooled_shape": [2, 2]}, opset=22, fails=True)
f.add("roi_pool_without_shape", "MaxRoiPool", {"x": normal((1, 2, 3, 3)), "rois": np.zeros((0, 5), np.float32)}, opset=22, fails=True)


def crop(name, shape, to, t=np.float32, axes=None, index=np.int64):
    x = normal(shape).astype(t)
    f.add(f"crop_{name}", "CenterCropPad", {"x": x, "shape": np.array(to, index)}, attributes={} if axes is None else {"axes": axes},
          opset=18)


crop("odd", (5, 6), [2, 3])
crop("pad", (2, 3), [5, 6])
crop("both", (7, 2, 3), [4, 5, 3])
crop("axes", (4, 5, 3), [6, 2], axes=[0, 1])
crop("negative_axes", (4, 5, 3), [6, 2], axes=[-1, -3])
crop("to_i32_extents", (4, 4), [3, 7], index=np.int32)
crop("to_nothing", (4, 3), [0, 2])
crop("from_nothing", (0, 3), [3, 3])
crop("as_it_is", (2, 2), [2, 2])
for t in COMPUTE:
    crop(short(t), (3, 2), [2, 5], t=t)
f.add("crop_strings", "CenterCropPad", {"x": np.array(["a", "b", "c"], object), "shape": np.array([4])}, opset=18,
      expected=np.array(["a", "b", "c", ""], object))
f.add("crop_rank_0", "CenterCropPad", {"x": np.float32(3), "shape": np.zeros(0, np.int64)}, opset=18, expected=np.float32(3))
f.add("crop_negative", "CenterCropPad", {"x": normal((2, 2)), "shape": np.array([-1, 2])}, opset=18, fails=True)
f.add("crop_other_axes", "CenterCropPad", {"x": normal((2, 2)), "shape": np.array([1, 2])}, attributes={"axes": [0]}, opset=18, fails=True)


def fold(name, image, block, n=1, c=2, t=np.float32, fails=False, **attributes):
    r = len(image)
    s, d, p = (attributes.get(k, v) for k, v in [("strides", [1] * r), ("dilations", [1] * r), ("pads", [0] * 2 * r)])
    out = [(image[i] + p[i] + p[r + i] - d[i] * (block[i] - 1) - 1) // s[i] + 1 for i in range(r)]
    x = random.integers(0, 9, (n, c * int(np.prod(block)), int(np.prod(out)) + fails)).astype(t)
    inputs = {"x": x, "image": np.array(image), "block": np.array(block)}
    if fails:
        return f.add(f"fold_{name}", "Col2Im", inputs, attributes=attributes, opset=18, fails=True)
    y = np.zeros((n, c, *[image[i] + p[i] + p[r + i] for i in range(r)]), object if t is np.bool_ else np.float64)
    parts = x.astype(np.float64).reshape(n, c, *block, *out)
    for k in itertools.product(*map(range, block)):
        cut = tuple(slice(k[i] * d[i], k[i] * d[i] + (out[i] - 1) * s[i] + 1, s[i]) for i in range(r))
        y[(slice(None),) * 2 + cut] += parts[(slice(None),) * 2 + k]
    y = y[(slice(None),) * 2 + tuple(slice(p[i], p[i] + image[i]) for i in range(r))]
    y = y.astype(np.int64).astype(t) if np.dtype(t).kind in "iu" else y.astype(t)
    f.add(f"fold_{name}", "Col2Im", inputs, attributes=attributes, opset=18, expected=y)


fold("plain", [4, 5], [2, 3])
fold("strided", [5, 6], [2, 2], strides=[3, 2])
fold("dilated", [6, 6], [2, 3], dilations=[3, 2])
fold("padded", [4, 4], [3, 2], pads=[1, 0, 2, 1])
fold("all", [5, 5], [2, 2], strides=[2, 3], dilations=[2, 1], pads=[1, 1, 0, 1], n=2, c=3)
fold("volume", [3, 3, 2], [2, 1, 2], c=1)
fold("with_gaps", [6, 6], [1, 1], strides=[3, 2])
fold("block_of_all", [3, 2], [3, 2])
fold("no_images", [3, 3], [2, 2], n=0)
for t in COMPUTE:
    fold(short(t), [3, 4], [2, 2], t=t)
fold("other_blocks", [3, 3], [2, 2], fails=True)
wide = np.array([1 << 40, 1])
f.add("fold_endless", "Col2Im", {"x": np.zeros((1, 0, 1), np.float32), "image": wide, "block": wide}, opset=18, fails=True)
f.add("fold_other_channels", "Col2Im", {"x": normal((1, 5, 4)), "image": np.array([3, 3]), "block": np.array([2, 2])}, opset=18, fails=True)
f.add("fold_block_of_nothing", "Col2Im", {"x": normal((1, 4, 4)), "image": np.array([3, 3]), "block": np.array([0, 2])}, opset=18, fails=True)


def unpool(name, shape, kernel, strides=None, pads=None, to=None, t=np.float32, opset=22):
    r = len(kernel)
    s, p = strides or [1] * r, pads or [0] * 2 * r
    made = [*shape[:2], *[(shape[2 + i] - 1) * s[i] + kernel[i] - p[i] - p[r + i] for i in range(r)]]
    x = normal(shape, t)
    at = random.permutation(int(np.prod(made)))[:x.size].reshape(shape).astype(np.int64)
    y = np.zeros(int(np.prod(made)), t)
    y[at.ravel()] = x.ravel()
    y = y.reshape(made)
    if to:
        y = np.pad(y, [(0, b - a) for a, b in zip(made, to)])
    attributes = {k: v for k, v in [("kernel_shape", kernel), ("strides", strides), ("pads", pads)] if v}
    f.add(f"unpool_{name}", "MaxUnpool", {"x": x, "at": at, "to": None if to is None else np.array(to)}, attributes=attributes,
          opset=opset, expected=y)


for t in FLOATS:
    unpool(short(t), (1, 2, 2, 3), [2, 2], [2, 2], t=t)
unpool("line", (2, 1, 4), [2], [2])
unpool("volume", (1, 1, 2, 1, 2), [2, 2, 2], [2, 2, 2])
unpool("padded", (1, 2, 3, 3), [3, 3], [2, 2], [1, 0, 0, 1])
unpool("to_a_shape", (1, 1, 2, 2), [2, 2], [2, 2], to=[1, 1, 5, 6])
unpool("without_strides", (1, 1, 3, 2), [2, 2])
unpool("opset_9", (1, 1, 2, 2), [2, 2], [2, 2], opset=9)
x, at = normal((1, 1, 2, 2)), np.array([0, 3, 8, 15]).reshape(1, 1, 2, 2)
words = {"kernel_shape": [2, 2], "strides": [2, 2]}
f.add("unpool_beyond", "MaxUnpool", {"x": x, "at": at + 1}, attributes=words, opset=22, fails=True)
f.add("unpool_below_0", "MaxUnpool", {"x": x, "at": at - 1}, attributes=words, opset=22, fails=True)
f.add("unpool_to_less", "MaxUnpool", {"x": x, "at": at, "to": np.array([1, 1, 3, 4])}, attributes=words, opset=22, fails=True)


def suppress(name, boxes, scores, most=9, overlap=0.5, least=None, center=0, **other):
    inputs = {"boxes": np.array(boxes, np.float32), "scores": np.array(scores, np.float32), "most": most if most is None else np.array([most]),
              "overlap": overlap if overlap is None else np.array([overlap], np.float32),
              "least": least if least is None else np.array([least], np.float32)}
    f.add(f"suppress_{name}", "NonMaxSuppression", inputs, attributes={"center_point_box": center}, opset=11, **({"expected": "ort"} | other))


some = [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]]
marks = [[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]]
suppress("plain", some, marks)
suppress("flipped", [[[b[2], b[3], b[0], b[1]] for b in some[0]]], marks)
suppress("few", some, marks, most=2)
suppress("scores", some, marks, least=0.55)
suppress("score_at_the_threshold", some, marks, least=0.75)
suppress("equal_scores", some, [[[0.5] * 6]])
suppress("nothing_overlaps_too_much", some, marks, overlap=1.0)
suppress("everything_overlaps", some, marks, overlap=0.0)
suppress("centred", [[[0.5, 0.5, 1, 1], [0.6, 0.5, 1, 1], [10.5, 0.5, 1, 1], [0.5, 3, 1, 2]]], [[[0.9, 0.75, 0.6, 0.95]]], center=1)
suppress("classes_and_images", some + some, [[m[0], m[0][::-1]] for m in marks + marks])
suppress("no_area", [[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]], [[[0.5, 0.6, 0.4]]])
suppress("none", some, marks, most=0, expected=np.zeros((0, 3), np.int64))
suppress("none_by_default", some, marks, most=None, overlap=None, expected=np.zeros((0, 3), np.int64))
suppress("no_boxes", np.zeros((1, 0, 4)), np.zeros((1, 2, 0)), expected=np.zeros((0, 3), np.int64))
suppress("other_boxes", some, [[[0.9]]], fails=True, expected=None)

for shape in [(1, 1), (2, 2), (3, 3), (4, 4), (2, 5, 5), (2, 3, 3, 3), (0, 3, 3), (2, 0, 0)]:
    m = normal(shape)
    f.add(f"det_of_{'_'.join(map(str, shape))}", "Det", {"x": m}, opset=22, expected=np.linalg.det(m.astype(np.float64)).astype(np.float32))
for t in FLOATS:
    m = random.integers(-4, 5, (3, 3)).astype(t)
    f.add(f"det_{short(t)}", "Det", {"x": m}, opset=22, expected=np.round(np.linalg.det(m.astype(np.float64))).astype(t), absolute=1e-4)
f.add("det_singular", "Det", {"x": np.ones((3, 3), np.float32)}, opset=11, expected=np.float32(0))
f.add("det_exchanged", "Det", {"x": np.eye(4, dtype=np.float32)[[1, 0, 3, 2]]}, opset=22, expected=np.float32(1))
f.add("det_turned", "Det", {"x": np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]}, opset=22, expected=np.float32(-1))
f.add("det_nan", "Det", {"x": np.array([[np.nan, 1], [1, 2]], np.float32)}, opset=22, expected=np.float32(np.nan))
f.add("det_of_no_square", "Det", {"x": normal((2, 3))}, opset=22, fails=True)
f.add("det_of_a_line", "Det", {"x": normal((3,))}, opset=22, fails=True)


def turned(name, shape, lengths, time, batch, t=np.float32):
    x = np.arange(int(np.prod(shape))).reshape(shape)
    x = (x % 3 == 0 if t is np.bool_ else x).astype(t) if t is not object else x.astype(str).astype(object)
    y = x.copy()
    for i, n in enumerate(lengths):
        row = np.moveaxis(x, (batch, time), (0, 1))[i]
        np.moveaxis(y, (batch, time), (0, 1))[i, :n] = row[:n][::-1]
    f.add(f"turn_{name}", "ReverseSequence", {"x": x, "lengths": np.array(lengths, np.int64)}, opset=10,
          attributes={"time_axis": time, "batch_axis": batch}, expected=y)


turned("time_first", (4, 3), [4, 1, 0], 0, 1)
turned("batch_first", (3, 4), [2, 4, 3], 1, 0)
turned("rank_4", (3, 2, 2, 2), [3, 2], 0, 1)
turned("no_time", (0, 2), [0, 0], 0, 1)
turned("no_batch", (2, 0), [], 0, 1)
turned("strings", (3, 2), [2, 3], 0, 1, object)
for t in COMPUTE:
    turned(short(t), (3, 2), [2, 3], 0, 1, t)
f.add("turn_same_axes", "ReverseSequence", {"x": normal((2, 2)), "lengths": np.array([1, 1])}, attributes={"time_axis": 1}, opset=10, fails=True)
f.add("turn_other_lengths", "ReverseSequence", {"x": normal((2, 2)), "lengths": np.array([1])}, opset=10, fails=True)


def write(name, past, update, first=None, t=np.float32, **attributes):
    inputs = {"past": normal(past).astype(t), "update": normal(update).astype(t), "first": None if first is None else np.array(first)}
    f.add(f"write_{name}", "TensorScatter", inputs, attributes=attributes, opset=24)


write("by_default", (2, 5, 3), (2, 2, 3))
write("linear", (2, 5, 3), (2, 2, 3), [0, 3])
write("rank_4", (2, 2, 4, 3), (2, 2, 1, 3), [3, 1])
write("axis", (2, 4, 2, 3), (2, 3, 2, 3), [1, 0], axis=1)
write("last_axis", (2, 3, 4), (2, 3, 2), [1, 2], axis=-1)
write("circular", (3, 4, 2), (3, 3, 2), [3, 2, 7], mode="circular")
write("circular_all", (1, 4, 2), (1, 4, 2), [2], mode="circular")
write("nothing", (2, 3, 2), (2, 0, 2), [1, 2])
write("no_batch", (0, 3, 2), (0, 1, 2))
for t in COMPUTE:
    write(short(t), (2, 3, 2), (2, 1, 2), [1, 2], t=t)
words = {"past": normal((1, 3, 2)), "update": normal((1, 2, 2))}
f.add("write_beyond", "TensorScatter", words | {"first": np.array([2])}, opset=24, fails=True)
f.add("write_below_0", "TensorScatter", words | {"first": np.array([-1])}, opset=24, fails=True)
f.add("write_other_extents", "TensorScatter", words | {"update": normal((1, 2, 3))}, opset=24, fails=True)
f.add("write_more_than_there_is", "TensorScatter", words | {"update": normal((1, 4, 2))}, opset=24, fails=True)
f.add("write_batch", "TensorScatter", words, attributes={"axis": 0}, opset=24, fails=True)

SAME = [(np.float32, np.int32), (np.float64, np.uint64), (np.int16, np.float16), (ml_dtypes.bfloat16, np.uint16), (np.int8, np.uint8),
        (np.uint32, np.float32), (np.int64, np.float64), (np.float16, ml_dtypes.bfloat16), (np.bool_, np.int8), (np.int32, np.int32)]
for a, b in SAME:
    x = random.integers(0, 2 if a is np.bool_ else 100, (2, 3)).astype(a)
    f.add(f"bits_{short(a)}_{short(b)}", "BitCast", {"x": x}, attributes={"to": helper.np_dtype_to_tensor_dtype(np.dtype(b))}, opset=26,
          expected=x.view(b))
f.add("bits_of_nan", "BitCast", {"x": np.array([np.nan, -0.0], np.float32)}, attributes={"to": 6}, opset=26,
      expected=np.array([np.nan, -0.0], np.float32).view(np.int32))
f.add("bits_rank_0", "BitCast", {"x": np.float32(1)}, attributes={"to": 6}, opset=26, expected=np.int32(0x3F800000))
f.add("bits_of_nothing", "BitCast", {"x": np.zeros((0, 2), np.float32)}, attributes={"to": 6}, opset=26, expected=np.zeros((0, 2), np.int32))
f.add("bits_of_other_width", "BitCast", {"x": np.float32(1)}, attributes={"to": 7}, opset=26, fails=True)
f.add("bits_to_strings", "BitCast", {"x": np.float32(1)}, attributes={"to": 8}, opset=26, fails=True)
f.add("bits_no_truth", "BitCast", {"x": np.array([0, 1, 2], np.uint8)}, attributes={"to": 9}, opset=26, fails=True)
f.write()
