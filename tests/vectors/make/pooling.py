"""Vectors of MaxPool, AveragePool, LpPool and the global ones, by the definition: a loop over windows.

A window of `ceil_mode` that would begin behind the operand and the padding before it is left out. Of equal maxima the
first place of a window counts.
"""
import itertools

import ml_dtypes
import numpy as np
from family import FLOATS, Family, short

f = Family("pooling")
random = np.random.default_rng(4)


def windows(dims, kernel, strides, pads, dilations, ceil, auto):
    """For each dimension, the paddings and the places of each window."""
    r, found = len(dims), []
    for i in range(r):
        span = (kernel[i] - 1) * dilations[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            out = -(-dims[i] // strides[i])
            total = max((out - 1) * strides[i] + span - dims[i], 0)
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        else:
            before, after = (0, 0) if auto == "VALID" else (pads[i], pads[r + i])
            room = dims[i] + before + after - span
            out = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
            if ceil and (out - 1) * strides[i] >= dims[i] + before:
                out -= 1
        places = [[o * strides[i] - before + k * dilations[i] for k in range(kernel[i])] for o in range(out)]
        found.append((before, after, places))
    return found


def pool(op, name, dims, kernel, n=1, c=2, t=np.float32, strides=None, pads=None, dilations=None, ceil=0, auto=None,
         count=0, p=2, order=None, opset=22, x=None, absolute=1e-6):
    r = len(dims)
    if x is None:
        x = random.integers(-9, 9, (n, c, *dims)) if np.dtype(t).kind in "iu" else random.uniform(-3, 3, (n, c, *dims))
    x = np.asarray(x).astype(t)
    axes = windows(dims, kernel, strides or [1] * r, pads or [0] * 2 * r, dilations or [1] * r, ceil, auto)
    shape = x.shape[:2] + tuple(len(places) for _, _, places in axes)
    y, at = np.zeros(shape), np.zeros(shape, np.int64)
    steps = np.cumprod([1, *dims[:0:-1]])[::-1] if not order else np.cumprod([1, *dims[:-1]])
    for index in np.ndindex(*shape):
        grid = list(itertools.product(*(axes[i][2][index[2 + i]] for i in range(r))))
        inside = [g for g in grid if all_in(g, dims)]
        values = [float(x[index[:2] + g]) for g in inside]
        if op == "MaxPool":
            best = int(np.argmax(values)) if values else None
            y[index] = values[best] if values else -np.inf
            plane = (index[0] * x.shape[1] + index[1]) * int(np.prod(dims))
            at[index] = plane + sum(a * s for a, s in zip(inside[best], steps)) if values else 0
        elif op == "AveragePool":
            padded = [g for g in grid if all(-b <= a < d + e for a, d, (b, e, _) in zip(g, dims, axes))] if count else inside
            y[index] = sum(values) / len(padded)
        else:
            y[index] = sum(abs(v) ** p for v in values) ** (1 / p)
    attributes = {"kernel_shape": list(kernel)}
    named = {"strides": strides, "pads": pads, "dilations": dilations, "auto_pad": auto, "storage_order": order,
             "ceil_mode": ceil or None, "count_include_pad": count or None, "p": p if op == "LpPool" else None}
    attributes |= {k: v for k, v in named.items() if v is not None}
    expected = [y.astype(t), at] if order is not None else [y.astype(t)]
    f.add(name, op, {"x": x}, attributes=attributes, outputs=len(expected), expected=expected, opset=opset, absolute=absolute)


def all_in(place, dims):
    return all(0 <= a < d for a, d in zip(place, dims))


HALF = {np.float16: 5e-3, ml_dtypes.bfloat16: 5e-2}
for op in ["MaxPool", "AveragePool", "LpPool"]:
    label = op[:-4].lower()
    pool(op, f"{label}_line", (7,), (3,))
    pool(op, f"{label}_strided", (6, 7), (2, 3), strides=[2, 3])
    pool(op, f"{label}_padded", (4, 5), (3, 2), pads=[1, 0, 1, 1])
    pool(op, f"{label}_dilated", (7, 8), (2, 3), dilations=[3, 2], strides=[1, 2])
    pool(op, f"{label}_volume", (3, 4, 3), (2, 2, 2), strides=[1, 2, 1], pads=[0, 1, 0, 1, 0, 0])
    pool(op, f"{label}_ceil", (5, 6), (2, 3), strides=[2, 2], ceil=1)
    pool(op, f"{label}_ceil_padded", (6, 7), (3, 3), strides=[2, 3], pads=[1, 1, 1, 1], ceil=1)
    pool(op, f"{label}_ceil_leaves_out_a_window", (4, 4), (1, 1), strides=[3, 3], pads=[0, 0, 0, 0], ceil=1)
    pool(op, f"{label}_ceil_dilated", (8, 8), (2, 2), strides=[3, 2], dilations=[2, 3], ceil=1)
    for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        pool(op, f"{label}_{auto.lower()}", (5, 6), (3, 2), strides=[2, 1], auto=auto)
        pool(op, f"{label}_{auto.lower()}_wide", (6, 5), (2, 4), strides=[3, 2], auto=auto)
    pool(op, f"{label}_same_dilated", (6, 7), (2, 3), dilations=[2, 2], auto="SAME_UPPER")
    pool(op, f"{label}_window_of_all", (3, 4), (3, 4))
    pool(op, f"{label}_no_images", (3, 4), (2, 2), n=0)
    pool(op, f"{label}_no_channels", (3, 4), (2, 2), c=0)
    for t in FLOATS:
        pool(op, f"{label}_{short(t)}", (4, 4), (2, 2), t=t, absolute=HALF.get(t, 1e-6))
    x = np.ones((1, 1, 3, 3), np.float32)
    f.add(f"{label}_larger_than_the_operand", op, {"x": x}, attributes={"kernel_shape": [4, 2]}, opset=22, fails=True)
    f.add(f"{label}_of_other_rank", op, {"x": x}, attributes={"kernel_shape": [2]}, opset=22, fails=True)
    f.add(f"{label}_stride_0", op, {"x": x}, attributes={"kernel_shape": [2, 2], "strides": [0, 1]}, opset=22, fails=True)
    f.add(f"{label}_kernel_0", op, {"x": x}, attributes={"kernel_shape": [0, 2]}, opset=22, fails=True)
    f.add(f"{label}_without_kernel", op, {"x": x}, opset=22, fails=True)
pool("MaxPool", "max_i8", (4, 5), (2, 2), t=np.int8, pads=[1, 1, 0, 0])
pool("MaxPool", "max_u8", (4, 5), (2, 3), t=np.uint8, strides=[2, 1])
for order in [0, 1]:
    pool("MaxPool", f"places_{order}", (4, 5), (2, 3), n=2, c=3, order=order)
    pool("MaxPool", f"places_{order}_padded", (4, 5), (3, 3), pads=[1, 1, 1, 1], strides=[2, 2], order=order)
    pool("MaxPool", f"places_{order}_dilated", (6, 5), (2, 2), dilations=[2, 3], order=order)
    pool("MaxPool", f"places_{order}_volume", (3, 2, 4), (2, 2, 2), order=order)
    pool("MaxPool", f"places_{order}_ceil", (5, 5), (2, 2), strides=[2, 2], ceil=1, order=order)
    pool("MaxPool", f"places_{order}_of_equals", (3, 4), (2, 2), x=np.ones((1, 1, 3, 4)), c=1, order=order)
    pool("MaxPool", f"places_{order}_i8", (3, 4), (2, 2), t=np.int8, order=order)
pool("MaxPool", "places_of_a_line", (7,), (3,), order=0, pads=[1, 1])
low = np.full((1, 1, 3, 3), -np.inf)
pool("MaxPool", "max_of_infinities", (3, 3), (2, 2), c=1, x=low, pads=[1, 1, 0, 0])
for ceil in [0, 1]:
    pool("AveragePool", f"average_counting_padding_{ceil}", (5, 6), (3, 3), strides=[2, 2], pads=[1, 1, 1, 1], count=1, ceil=ceil)
    pool("AveragePool", f"average_counting_uneven_padding_{ceil}", (6, 5), (4, 3), strides=[3, 2], pads=[2, 0, 1, 1], count=1, ceil=ceil)
pool("AveragePool", "average_counting_padding_dilated", (6, 7), (2, 3), dilations=[2, 2], pads=[1, 2, 1, 2], count=1)
pool("AveragePool", "average_counting_padding_line", (5,), (3,), pads=[1, 1], count=1)
for p in [1, 3]:
    pool("LpPool", f"lp_{p}", (5, 4), (2, 3), p=p, pads=[0, 1, 1, 1])
    pool("LpPool", f"lp_{p}_of_padding_alone", (2, 3), (2, 2), p=p, pads=[2, 0, 3, 2])
    pool("LpPool", f"lp_{p}_of_nothing_with_padding", (0, 2), (2, 2), p=p, pads=[1, 1, 1, 1])
pool("MaxPool", "max_of_padding_alone", (2, 3), (2, 2), pads=[2, 0, 3, 2])
pool("MaxPool", "max_of_opset_1", (4, 4), (2, 2), opset=1, strides=[2, 2])
pool("AveragePool", "average_of_opset_1", (4, 4), (3, 3), opset=1, pads=[1, 1, 1, 1])
pool("AveragePool", "average_of_opset_7", (4, 4), (3, 3), opset=7, pads=[1, 1, 1, 1], count=1)
pool("LpPool", "lp_of_opset_2", (4, 4), (2, 2), opset=2, p=3)
pool("MaxPool", "max_of_opset_8", (4, 4), (2, 2), opset=8, order=1)

for t in FLOATS:
    x = random.uniform(-3, 3, (2, 3, 4, 5)).astype(t)
    wide = x.astype(np.float64)
    loose = {"absolute": HALF.get(t, 1e-6)}
    f.add(f"global_max_{short(t)}", "GlobalMaxPool", {"x": x}, opset=22, expected=wide.max((2, 3), keepdims=True).astype(t))
    f.add(f"global_average_{short(t)}", "GlobalAveragePool", {"x": x}, opset=22, expected=wide.mean((2, 3), keepdims=True).astype(t), **loose)
    for p in [1, 2, 3]:
        y = (np.abs(wide) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        f.add(f"global_lp_{p}_{short(t)}", "GlobalLpPool", {"x": x}, attributes={"p": p}, opset=22, expected=y.astype(t), **loose)
x = random.uniform(-3, 3, (2, 1, 5)).astype(np.float32)
f.add("global_max_of_a_line", "GlobalMaxPool", {"x": x}, opset=22, expected=x.max(2, keepdims=True))
f.add("global_average_of_a_volume", "GlobalAveragePool", {"x": x.reshape(1, 2, 5, 1, 1)}, opset=1,
      expected=x.reshape(1, 2, 5, 1, 1).mean((2, 3, 4), keepdims=True))
f.add("global_lp_of_opset_1", "GlobalLpPool", {"x": x}, attributes={"p": 3.0}, opset=1,
      expected=((np.abs(x) ** 3).sum(2, keepdims=True)) ** np.float32(1 / 3))
f.write()
