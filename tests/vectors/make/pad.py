"""Vectors of Pad in all modes and versions: negative paddings crop first, then `np.pad` pads."""
import itertools

import numpy as np
from family import COMPUTE, Family, short

f = Family("pad")
random = np.random.default_rng(6)


def padded(x, pads, mode, value=None):
    r = x.ndim
    x = x[tuple(slice(max(-pads[i], 0), max(x.shape[i] + min(pads[r + i], 0), 0)) for i in range(r))]
    widths = [(max(pads[i], 0), max(pads[r + i], 0)) for i in range(r)]
    if mode != "constant" and x.ndim:
        return np.pad(x, widths, mode)
    value = ("" if x.dtype == object else 0) if value is None else value
    y = np.full([before + d + after for d, (before, after) in zip(x.shape, widths)], value, x.dtype)
    y[tuple(slice(before, before + d) for d, (before, _) in zip(x.shape, widths))] = x
    return y


def pad(name, shape, pads, mode="constant", value=None, axes=None, t=np.float32, opset=25, index=np.int64, explicit=True):
    x = random.uniform(-9, 9, shape) if np.dtype(t).kind in "fV" else random.integers(0, 100, shape)
    x = (x > 50 if t is np.bool_ else x).astype(t)
    full = list(pads)
    if axes is not None:
        n = len(axes)
        full = [0] * 2 * len(shape)
        for i, a in enumerate(axes):
            full[a % len(shape)], full[len(shape) + a % len(shape)] = pads[i], pads[n + i]
    value = None if value is None else np.array(value, t)
    y = padded(x, full, mode, value)
    attributes = {"mode": mode} if explicit else {}
    if opset < 11:
        attributes |= {"paddings" if opset < 2 else "pads": list(pads)} | ({} if value is None else {"value": float(value)})
        f.add(name, "Pad", {"x": x}, attributes=attributes, opset=opset, expected=y)
    else:
        inputs = {"x": x, "pads": np.array(pads, np.int64), "value": value, "axes": None if axes is None else np.array(axes, index)}
        f.add(name, "Pad", inputs, attributes=attributes, opset=opset, expected=y)


MODES = ["constant", "edge", "reflect", "wrap"]
for mode in MODES:
    pad(f"{mode}", (3, 4), [1, 2, 0, 1], mode)
    pad(f"{mode}_line", (5,), [2, 3], mode)
    pad(f"{mode}_volume", (2, 3, 2, 3), [1, 0, 1, 2, 0, 2, 0, 1], mode)
    pad(f"{mode}_negative", (5, 6), [-1, -2, -1, 0], mode)
    pad(f"{mode}_both_ways", (5, 6), [-2, 3, 2, -1], mode)
    pad(f"{mode}_axes", (2, 4, 3), [1, 2, 2, 0], mode, axes=[2, 1])
    pad(f"{mode}_negative_axes", (2, 4, 3), [1, 2, 2, 0], mode, axes=[-2, -1])
    pad(f"{mode}_axes_i32", (2, 4, 3), [2, 1], mode, axes=[1], index=np.int32)
    pad(f"{mode}_nothing", (3, 4), [0, 0, 0, 0], mode)
    pad(f"{mode}_of_one", (1, 3), [2, 0, 1, 0], mode)
    pad(f"{mode}_beside_nothing", (0, 3), [0, 1, 0, 2], mode)
    pad(f"{mode}_rank_0", (), [], mode)
    for t in COMPUTE:
        pad(f"{mode}_{short(t)}", (2, 3), [1, 0, 1, 2], mode, t=t)
for mode in ["edge", "reflect", "wrap"]:
    pad(f"{mode}_beyond_the_extent", (3, 2), [7, 5, 8, 3], mode)
for t in COMPUTE:
    pad(f"value_{short(t)}", (2, 2), [0, 1, 1, 0], value=1, t=t)
pad("of_nothing", (0, 2), [2, 0, 1, 1], value=3)
pad("to_nothing", (3, 2), [-2, 0, -1, 0])
pad("cropped_at_both_ends", (6,), [-2, -3])
pad("value_nan", (2, 2), [1, 1, 1, 1], value=np.nan)
pad("value_infinite", (2, 2), [1, 1, 1, 1], value=-np.inf)
pad("mode_by_default", (2, 3), [1, 1, 0, 2], explicit=False)
pad("no_axes", (2, 3), [], axes=[])
for opset, mode in itertools.product([2, 11, 13, 18], ["constant", "edge", "reflect"]):
    pad(f"{mode}_of_opset_{opset}", (3, 4), [1, 2, 0, 1], mode, opset=opset, value=2.5 if mode == "constant" else None)
pad("opset_1", (3, 4), [1, 2, 0, 1], opset=1, value=1.5)
pad("opset_2_negative", (3, 4), [-1, 2, 0, -1], opset=2)
letters = np.array([["a", "b"], ["cd", ""]], object)
for mode in MODES:
    f.add(f"{mode}_strings", "Pad", {"x": letters, "pads": np.array([1, 0, 0, 1])}, attributes={"mode": mode},
          expected=padded(letters, [1, 0, 0, 1], mode))
f.add("value_string", "Pad", {"x": letters, "pads": np.array([1, 0, 0, 1]), "value": np.array("z", object)},
      expected=padded(letters, [1, 0, 0, 1], "constant", "z"))
z = np.array([1 + 2j, 3 - 1j], np.complex64)
f.add("complex", "Pad", {"x": z, "pads": np.array([1, 2])}, expected=padded(z, [1, 2], "constant"))
f.add("complex_reflected", "Pad", {"x": z, "pads": np.array([1, 1])}, attributes={"mode": "reflect"}, expected=padded(z, [1, 1], "reflect"))
x = np.ones((2, 3), np.float32)
f.add("too_few", "Pad", {"x": x, "pads": np.array([1, 1])}, fails=True)
f.add("too_many_axes", "Pad", {"x": x, "pads": np.array([1, 1]), "v": None, "axes": np.array([0, 1])}, fails=True)
f.add("axis_out_of_range", "Pad", {"x": x, "pads": np.array([1, 1]), "v": None, "axes": np.array([2])}, fails=True)
f.add("unknown_mode", "Pad", {"x": x, "pads": np.array([1, 1, 1, 1])}, attributes={"mode": "mirror"}, fails=True)
f.add("more_than_an_address_counts", "Pad", {"x": x, "pads": np.array([1 << 62, 0, 1 << 62, 0])}, fails=True)
f.add("reflect_of_nothing", "Pad", {"x": x[:0], "pads": np.array([1, 0, 0, 0])}, attributes={"mode": "reflect"}, fails=True)
f.write()
