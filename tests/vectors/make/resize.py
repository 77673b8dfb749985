"""Vectors of Resize and Upsample in all versions.

ONNX's evaluator decides, which has no versions before 11: those are ONNX Runtime's. Where a scale makes an extent that
is no integer, ONNX's shape inference and ONNX Runtime multiply in single precision. With `pytorch_half_pixel`, the only element of
an axis is at position 0, as the text says; the evaluator has -0.5 there, so that `by_text` decides, and ONNX Runtime where it has
a kernel.
"""
import itertools

import numpy as np
from family import FLOATS, INTS, Family, short
from onnx import numpy_helper

f = Family("resize")
random = np.random.default_rng(3)
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]


def resize(name, shape, scales=None, sizes=None, roi=None, t=np.float32, expected="reference", opset=19, fails=False, **attributes):
    info = np.iinfo(t) if np.dtype(t).kind in "iu" else None
    x = random.uniform(-3, 3, shape) if info is None else random.integers(max(info.min, -1 << 40), min(info.max, 1 << 40), shape)
    x = x.astype(t)
    inputs = {"x": x, "roi": None if roi is None else np.array(roi, np.float32),
              "scales": None if scales is None else np.array(scales, np.float32),
              "sizes": None if sizes is None else np.array(sizes, np.int64)}
    f.add(name, "Resize", inputs, attributes=attributes, expected=expected, opset=opset, fails=fails, absolute=1e-5)


for c, (mode, kind) in itertools.product(COORDINATES, [("nearest", "floor"), ("nearest", "ceil"), ("nearest", "round_prefer_ceil"),
                                                       ("nearest", "round_prefer_floor"), ("linear", None), ("cubic", None)]):
    words = {"mode": mode, "coordinate_transformation_mode": c} | ({"nearest_mode": kind} if kind else {})
    roi = [0, 0, 0.23, 0.07, 1, 1, 0.71, 1.19] if c == "tf_crop_and_resize" else None
    words |= {"extrapolation_value": 9.5} if roi else {}
    label = f"{c}_{kind or mode}"
    resize(f"{label}_larger", (1, 2, 3, 4), scales=[1, 1, 2, 1.6], roi=roi, **words)
    resize(f"{label}_smaller", (1, 1, 6, 5), scales=[1, 1, 0.5, 0.65], roi=roi, **words)
    resize(f"{label}_to_sizes", (1, 1, 4, 5), sizes=[1, 1, 7, 3], roi=roi, **words)
    if c != "pytorch_half_pixel":
        resize(f"{label}_to_one", (1, 1, 4, 3), sizes=[1, 1, 1, 1], roi=roi, **words)
for mode, exclude in itertools.product(["linear", "cubic"], [0, 1]):
    for name, words in {"scales": {"scales": [1, 1, 0.4, 0.75]}, "sizes": {"sizes": [1, 1, 3, 9]}}.items():
        resize(f"antialias_{mode}_{name}_{exclude}", (1, 1, 8, 6), mode=mode, antialias=1, exclude_outside=exclude, **words)
        resize(f"exclude_{mode}_{name}_{exclude}", (1, 1, 5, 6), mode=mode, exclude_outside=exclude, **words)
resize("antialias_of_rows", (7, 5), scales=[0.3, 1], mode="linear", antialias=1)
resize("antialias_larger", (4, 5), scales=[1.5, 2], mode="cubic", antialias=1)
resize("antialias_align_corners", (9, 5), scales=[0.5, 0.5], mode="linear", antialias=1, coordinate_transformation_mode="align_corners")
resize("another_spline", (1, 1, 4, 4), scales=[1, 1, 1.5, 0.8], mode="cubic", cubic_coeff_a=-0.5)
for policy, mode in itertools.product(["stretch", "not_larger", "not_smaller"], ["nearest", "linear"]):
    words = {"sizes": [7, 6], "mode": mode, "keep_aspect_ratio_policy": policy}
    resize(f"{policy}_{mode}_of_axes", (1, 2, 3, 5), axes=[2, 3], **words)
    # The evaluator knows no negative axes.
    made = f.models[f"{policy}_{mode}_of_axes"]
    x, y = (numpy_helper.to_array(t) for t in made.graph.initializer if t.name in ("x", "expected:y0"))
    inputs = {"x": x, "roi": None, "scales": None, "sizes": np.array([7, 6])}
    f.add(f"{policy}_{mode}_of_negative_axes", "Resize", inputs, attributes={k: v for k, v in words.items() if k != "sizes"} | {"axes": [-2, -1]}, opset=19,
          expected=y)
resize("scales_of_axes", (2, 3, 4), scales=[1.5], axes=[1], mode="linear")
resize("scales_of_axes_in_another_order", (2, 3, 4), scales=[0.5, 2], axes=[2, 0], mode="cubic")
resize("roi_of_axes", (2, 4, 5), scales=[1.5, 0.8], roi=[0.1, 0.2, 0.9, 1.1], axes=[2, 1], mode="linear",
       coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=-1.0)
resize("line", (5,), scales=[1.7], mode="linear")
resize("volume", (1, 1, 2, 3, 2), scales=[1, 1, 2, 0.7, 1.5], mode="linear")
resize("volume_cubic", (3, 2, 3), sizes=[4, 4, 4], mode="cubic")
resize("as_it_is", (2, 3), scales=[1, 1], mode="linear")
resize("one_element", (1, 1), sizes=[3, 2], mode="linear")
for t in FLOATS + INTS:
    resize(f"nearest_{short(t)}", (3, 4), scales=[1.7, 0.6], t=t)
    resize(f"linear_{short(t)}", (3, 4), scales=[1.3, 0.7], t=t, mode="linear")
    resize(f"cubic_{short(t)}", (3, 4), scales=[1.3, 1.9], t=t, mode="cubic")
truth = random.uniform(0, 1, (3, 4)) > 0.5
f.add("nearest_bool", "Resize", {"x": truth, "roi": None, "scales": np.array([2, 1], np.float32)}, opset=19,
      expected=np.repeat(truth, 2, 0))
letters = np.array([["a", "bc"], ["", "d"]], object)
f.add("nearest_strings", "Resize", {"x": letters, "roi": None, "scales": np.array([1, 2], np.float32)}, opset=19,
      expected=np.repeat(letters, 2, 1))
f.add("linear_strings", "Resize", {"x": letters, "roi": None, "scales": np.array([1, 2], np.float32)}, opset=19,
      attributes={"mode": "linear"}, fails=True)
resize("nothing", (0, 3), scales=[2, 2], expected=np.zeros((0, 6), np.float32))
resize("nothing_to_sizes", (0, 3), sizes=[0, 2], mode="linear", expected=np.zeros((0, 2), np.float32))
resize("to_nothing", (2, 3), sizes=[2, 0], mode="linear", expected=np.zeros((2, 0), np.float32))
resize("products_in_single_precision", (1, 1, 10, 10), scales=[1, 1, 0.7, 1.1], mode="linear", expected="ort", opset=13)
resize("scale_zero", (2, 3), scales=[0, 1], fails=True)
resize("scale_negative", (2, 3), scales=[-1, 1], fails=True)
resize("scale_infinite", (2, 3), scales=[np.inf, 1], fails=True)
resize("size_negative", (2, 3), sizes=[-1, 1], fails=True)
resize("scales_for_other_axes", (2, 3), scales=[1], fails=True)
resize("neither", (2, 3), fails=True)
resize("something_from_nothing", (0, 3), sizes=[2, 3], fails=True)
resize("unknown_mode", (2, 3), scales=[1, 2], mode="quadratic", fails=True)
resize("unknown_policy", (2, 3), sizes=[1, 2], keep_aspect_ratio_policy="larger", fails=True)
for opset in [11, 13, 18]:
    resize(f"linear_of_opset_{opset}", (1, 1, 3, 4), scales=[1, 1, 2, 0.5], roi=[], opset=opset, mode="linear", expected="ort")
    resize(f"cubic_of_opset_{opset}", (1, 1, 3, 4), scales=[1, 1, 2, 2.5], roi=[], opset=opset, mode="cubic", expected="ort")
resize("tf_nearest_of_opset_11", (1, 1, 3, 4), scales=[1, 1, 2, 2.5], roi=[], opset=11, expected="ort",
       coordinate_transformation_mode="tf_half_pixel_for_nn")


def before(name, op, shape, scales, opset, mode="nearest", t=np.float32):
    x = random.uniform(-3, 3, shape).astype(t)
    if opset < 9:
        f.add(name, op, {"x": x}, attributes={"mode": mode, "scales": [float(s) for s in scales]}, opset=opset, expected="ort")
    else:
        f.add(name, op, {"x": x, "scales": np.array(scales, np.float32)}, attributes={"mode": mode}, opset=opset, expected="ort",
              constants=["scales"])


for opset, op in [(7, "Upsample"), (9, "Upsample"), (10, "Resize")]:
    before(f"{op.lower()}_{opset}_nearest", op, (1, 2, 3, 2), [1, 1, 2, 3], opset)
    before(f"{op.lower()}_{opset}_by_fractions", op, (1, 1, 3, 4), [1, 1, 1.6, 2.5], opset)
    before(f"{op.lower()}_{opset}_linear", op, (1, 1, 3, 4), [1, 1, 2, 1.5], opset, "linear")
before("resize_10_smaller", "Resize", (1, 1, 6, 5), [1, 1, 0.5, 0.6], 10)
before("resize_10_smaller_linear", "Resize", (1, 1, 6, 5), [1, 1, 0.5, 0.6], 10, "linear")
x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)
f.add("upsample_1_nearest", "Upsample", {"x": x}, attributes={"height_scale": 2.0, "width_scale": 3.0, "mode": "nearest"}, opset=1,
      expected=np.repeat(np.repeat(x, 2, 2), 3, 3))
f.add("upsample_1_by_default", "Upsample", {"x": x}, attributes={"height_scale": 1.0, "width_scale": 2.0}, opset=6,
      expected=np.repeat(x, 2, 3))
rows = np.array([1, 1.75, 2.5, 3.25, 4, 4], np.float32)
f.add("upsample_1_bilinear", "Upsample", {"x": np.array([1, 2.5, 4], np.float32).reshape(1, 1, 1, 3)},
      attributes={"height_scale": 1.0, "width_scale": 2.0, "mode": "bilinear"}, opset=1, expected=rows.reshape(1, 1, 1, 6))


def shares(n, m, scale, mode, a, stretch, exclude):
    """The shares of `n` elements in each of `m`, `[m, n]`, by the text of the operator: `pytorch_half_pixel`, and the weights of neighbours."""
    out = np.zeros((m, n))
    for i in range(m):
        p = (i + 0.5) / scale - 0.5 if m > 1 else 0.0
        if mode == "nearest":
            out[i, int(np.clip(np.ceil(p - 0.5), 0, n - 1))] = 1
            continue
        reach = (2 if mode == "cubic" else 1) / stretch
        near = np.arange(np.floor(p - reach), np.ceil(p + reach) + 1)
        d = np.abs(near - p) * stretch
        inner, outer = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        w = np.where(d <= 1, inner, np.where(d < 2, outer, 0)) if mode == "cubic" else np.maximum(1 - d, 0)
        if exclude:
            w[(near < 0) | (near >= n)] = 0
        for q, share in zip(near, w / w.sum()):
            out[i, int(np.clip(q, 0, n - 1))] += share
    return out


def by_text(x, to, scales, mode, a=-0.75, antialias=False, exclude=False):
    y = x.astype(np.float64)
    for axis, (n, m, scale) in enumerate(zip(x.shape, to, scales)):
        if n != m or scale != 1:
            matrix = shares(n, m, scale, mode, a, min(scale, 1) if antialias else 1, exclude)
            y = np.moveaxis(np.moveaxis(y, axis, -1) @ matrix.T, -1, axis)
    return y.astype(x.dtype)


def to_one(name, shape, to, mode, t=np.float32, opset=19, scales=None, like_ort=True, **words):
    x = random.uniform(-3, 3, shape).astype(t)
    by_scales = scales is not None
    used = np.array(scales, np.float32) if by_scales else np.array(to) / np.array(shape)
    how = {k.removeprefix("cubic_coeff_").removesuffix("_outside"): v for k, v in words.items()}
    expected = by_text(x, to, used, mode, **how)
    attributes = {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"} | words
    none = np.zeros(0, np.float32)
    inputs = {"x": x, "roi": none if opset < 13 else None, "scales": used if by_scales else none if opset < 13 else None,
              "sizes": None if by_scales else np.array(to, np.int64)}
    if like_ort:
        f.add(f"ort_{name}", "Resize", inputs, attributes=attributes, expected="ort", opset=opset)
        found = [numpy_helper.to_array(v) for v in f.models.pop(f"ort_{name}").graph.initializer if v.name == "expected:y0"]
        np.testing.assert_allclose(found[0], expected, 1e-4, 1e-5)
    f.add(name, "Resize", inputs, attributes=attributes, expected=expected, opset=opset, absolute=1e-5,
          relative=2e-3 if t == np.float16 else None)


for mode, (antialias, exclude) in itertools.product(["nearest", "linear", "cubic"], [(0, 0), (0, 1), (1, 0), (1, 1)]):
    words = {"antialias": antialias, "exclude_outside": exclude}
    if mode == "nearest" and (antialias or exclude):
        continue
    # ONNX Runtime always excludes what is outside if it reduces aliasing, and never with straight lines if it does not.
    how = {"like_ort": exclude == antialias or mode == "cubic" and not antialias} | ({} if mode == "nearest" else words)
    label = f"only_pixel_{mode}_{antialias}{exclude}"
    to_one(label, (1, 2, 4, 3), (1, 2, 1, 1), mode, **how)
    to_one(f"{label}_of_height", (1, 1, 5, 6), (1, 1, 1, 9), mode, **how)
    to_one(f"{label}_of_width", (1, 1, 5, 6), (1, 1, 3, 1), mode, **how)
    to_one(f"{label}_by_scales", (1, 1, 6, 8), (1, 1, 1, 1), mode, scales=[1, 1, 0.25, 0.2], **how)
    for t in (np.float16, np.float64):
        to_one(f"{label}_{short(t)}", (1, 1, 4, 3), (1, 1, 1, 1), mode, t, **(how | {"like_ort": False}))
for mode in ("nearest", "linear", "cubic"):
    for opset in (11, 13, 18):
        to_one(f"only_pixel_{mode}_of_opset_{opset}", (1, 1, 4, 5), (1, 1, 1, 1), mode, opset=opset)
    to_one(f"only_pixel_{mode}_of_volumes", (1, 2, 4, 3, 5), (1, 2, 1, 2, 1), mode, like_ort=False)
    to_one(f"only_pixel_{mode}_of_channels", (1, 3, 4, 2), (1, 1, 4, 2), mode, like_ort=False)
    to_one(f"only_pixel_{mode}_of_long_axis", (1, 1, 200, 3), (1, 1, 1, 3), mode)
    to_one(f"only_pixel_{mode}_of_one", (1, 1, 1, 1), (1, 1, 1, 1), mode)
    to_one(f"only_pixel_{mode}_of_one_by_scale", (1, 1, 1, 3), (1, 1, 1, 3), mode, scales=[1, 1, 1.5, 1], like_ort=False)
to_one("only_pixel_cubic_another_spline", (1, 1, 6, 8), (1, 1, 1, 1), "cubic", cubic_coeff_a=-0.5)
f.write()
