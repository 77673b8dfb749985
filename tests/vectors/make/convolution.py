"""Vectors of Conv and ConvTranspose by the definition: a loop over the filter's places. And of the integer ones."""
import itertools

import ml_dtypes
import numpy as np
from family import FLOATS, Family, short

f = Family("convolution")
random = np.random.default_rng(5)
HALF = {np.float16: 2e-2, ml_dtypes.bfloat16: 2e-1}


def same(dims, kernel, strides, dilations, auto):
    before, after = [], []
    for d, k, s, e in zip(dims, kernel, strides, dilations):
        total = max((-(-d // s) - 1) * s + (k - 1) * e + 1 - d, 0)
        less = total // 2
        before.append(less if auto == "SAME_UPPER" else total - less)
        after.append(total - less if auto == "SAME_UPPER" else less)
    return before + after


def convolved(x, w, strides, pads, dilations, group):
    r = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:r], pads[r:])])
    n, m, kernel = x.shape[0], w.shape[0], w.shape[2:]
    out = [(x.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(r)]
    y = np.zeros((n, group, m // group, *out), x.dtype)
    x = x.reshape(n, group, x.shape[1] // group, *x.shape[2:])
    w = w.reshape(group, m // group, *w.shape[1:])
    for k in itertools.product(*map(range, kernel)):
        cut = tuple(slice(k[i] * dilations[i], k[i] * dilations[i] + (out[i] - 1) * strides[i] + 1, strides[i]) for i in range(r))
        y += np.einsum("ngc...,gmc->ngm...", x[(slice(None),) * 3 + cut], w[(slice(None),) * 3 + k])
    return y.reshape(n, m, *out)


def conv(name, dims, kernel, n=1, c=2, m=3, group=1, strides=None, pads=None, dilations=None, bias=False, auto=None,
         t=np.float32, given=True, opset=22):
    r = len(dims)
    s, d = strides or [1] * r, dilations or [1] * r
    x = random.uniform(-1, 1, (n, c, *dims)).astype(t)
    w = random.uniform(-1, 1, (m, c // group, *kernel)).astype(t)
    b = random.uniform(-1, 1, m).astype(t) if bias else None
    p = same(dims, kernel, s, d, auto) if auto and auto != "VALID" else pads or [0] * 2 * r
    y = convolved(x.astype(np.float64), w.astype(np.float64), s, p, d, group)
    y = y if b is None else y + b.astype(np.float64).reshape(-1, *[1] * r)
    named = {"kernel_shape": list(kernel) if given else None, "strides": strides, "pads": pads, "dilations": dilations,
             "auto_pad": auto, "group": group if group > 1 else None}
    f.add(name, "Conv", {"x": x, "w": w, "b": b}, attributes={k: v for k, v in named.items() if v is not None}, opset=opset,
          expected=y.astype(t), absolute=HALF.get(t, 1e-5))


for t in FLOATS:
    conv(f"conv_{short(t)}", (4, 5), (2, 3), t=t, bias=True)
conv("line", (9,), (3,), pads=[1, 2])
conv("line_grouped", (7,), (2,), c=4, m=4, group=2, bias=True, strides=[2])
conv("volume", (3, 4, 4), (2, 3, 2), pads=[1, 0, 0, 0, 1, 1])
conv("volume_strided", (4, 5, 6), (2, 2, 2), strides=[2, 1, 3], dilations=[1, 2, 2], n=2, c=1, m=2)
conv("four_dimensions", (2, 3, 2, 3), (2, 2, 1, 2), c=1, m=2)
conv("strided", (7, 8), (3, 2), strides=[2, 3], n=2)
conv("dilated", (8, 9), (3, 2), dilations=[2, 4])
conv("uneven_padding", (4, 4), (3, 3), pads=[2, 0, 1, 3])
conv("depthwise", (5, 5), (3, 3), c=4, m=4, group=4, pads=[1, 1, 1, 1])
conv("depthwise_with_more_filters", (4, 5), (2, 2), c=3, m=6, group=3, bias=True)
conv("grouped", (5, 4), (3, 2), c=6, m=4, group=2, strides=[2, 1], n=2)
conv("pointwise", (4, 3), (1, 1), c=5, m=2)
conv("pointwise_strided", (5, 4), (1, 1), strides=[2, 3])
conv("pointwise_padded", (3, 3), (1, 1), pads=[1, 0, 0, 2], bias=True)
conv("window_of_all", (3, 4), (3, 4))
conv("without_the_kernel_shape", (4, 4), (2, 2), given=False)
conv("nothing_in_the_batch", (4, 4), (2, 2), n=0)
conv("no_channels", (4, 4), (2, 2), c=0, bias=True)
conv("opset_1", (4, 4), (2, 3), opset=1, pads=[1, 1, 1, 1])
for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
    conv(f"{auto.lower()}", (5, 6), (3, 2), auto=auto)
    conv(f"{auto.lower()}_strided", (5, 6), (2, 4), auto=auto, strides=[2, 3])
    conv(f"{auto.lower()}_dilated", (6, 7), (2, 3), auto=auto, dilations=[2, 2])
x, w = np.ones((1, 4, 4, 4), np.float32), np.ones((2, 2, 2, 2), np.float32)
f.add("channels_that_do_not_fit", "Conv", {"x": x, "w": w}, fails=True)
f.add("groups_that_do_not_fit", "Conv", {"x": x, "w": w}, attributes={"group": 3}, fails=True)
f.add("no_groups", "Conv", {"x": x, "w": w}, attributes={"group": 0}, fails=True)
f.add("another_kernel_shape", "Conv", {"x": x, "w": w}, attributes={"group": 2, "kernel_shape": [3, 2]}, fails=True)
f.add("larger_than_the_operand", "Conv", {"x": x, "w": np.ones((2, 4, 5, 2), np.float32)}, fails=True)
f.add("stride_of_0", "Conv", {"x": x, "w": w}, attributes={"group": 2, "strides": [1, 0]}, fails=True)
f.add("dilation_below_0", "Conv", {"x": x, "w": w}, attributes={"group": 2, "dilations": [1, -1]}, fails=True)


def transposed(name, dims, kernel, n=1, c=2, m=3, group=1, strides=None, pads=None, dilations=None, extra=None, to=None,
               bias=False, auto=None, t=np.float32, opset=22):
    r = len(dims)
    s, d, o = strides or [1] * r, dilations or [1] * r, extra or [0] * r
    p = pads or [0] * 2 * r
    x = random.uniform(-1, 1, (n, c, *dims)).astype(t)
    w = random.uniform(-1, 1, (c, m // group, *kernel)).astype(t)
    b = random.uniform(-1, 1, m).astype(t) if bias else None
    full = [s[i] * (dims[i] - 1) + (kernel[i] - 1) * d[i] + 1 for i in range(r)]
    goal = to or ([dims[i] * s[i] for i in range(r)] if auto in ("SAME_UPPER", "SAME_LOWER") else None)
    if goal:
        # The text: `total_padding = stride * (input - 1) + output_padding + span - output_shape`; unless SAME_UPPER, the
        # larger half is at the start.
        total = [full[i] + o[i] - goal[i] for i in range(r)]
        less = [v // 2 for v in total]
        more = [v - h for v, h in zip(total, less)]
        p = less + more if auto == "SAME_UPPER" else more + less
    y = np.zeros((n, m, *[full[i] + o[i] for i in range(r)]))
    wide = x.astype(np.float64).reshape(n, group, c // group, *dims)
    filters = w.astype(np.float64).reshape(group, c // group, m // group, *kernel)
    for k in itertools.product(*map(range, kernel)):
        cut = tuple(slice(k[i] * d[i], k[i] * d[i] + (dims[i] - 1) * s[i] + 1, s[i]) for i in range(r))
        part = np.einsum("ngc...,gcm->ngm...", wide, filters[(slice(None),) * 3 + k])
        y[(slice(None),) * 2 + cut] += part.reshape(n, m, *dims)
    # A negative padding adds zeros.
    y = np.pad(y, [(0, 0), (0, 0), *((max(-a, 0), max(-b, 0)) for a, b in zip(p[:r], p[r:]))])
    y = y[(slice(None),) * 2 + tuple(slice(max(p[i], 0), y.shape[2 + i] - max(p[r + i], 0)) for i in range(r))]
    y = y if b is None else y + b.astype(np.float64).reshape(-1, *[1] * r)
    named = {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": extra, "output_shape": to,
             "auto_pad": auto, "group": group if group > 1 else None}
    f.add(f"transpose_{name}", "ConvTranspose", {"x": x, "w": w, "b": b}, opset=opset, expected=y.astype(t),
          attributes={k: v for k, v in named.items() if v is not None}, absolute=HALF.get(t, 1e-5))


for t in FLOATS:
    transposed(short(t), (3, 4), (2, 3), t=t, bias=True, strides=[2, 1])
transposed("line", (5,), (3,))
transposed("line_strided", (4,), (3,), strides=[3], extra=[2])
transposed("volume", (2, 3, 2), (2, 2, 3), strides=[1, 2, 2], pads=[0, 1, 0, 1, 0, 1])
transposed("strided", (3, 4), (3, 2), strides=[2, 3], n=2)
transposed("stride_beyond_the_kernel", (3, 3), (2, 1), strides=[4, 3])
transposed("padded", (4, 4), (3, 3), pads=[1, 2, 0, 1])
transposed("padding_beyond_the_kernel", (5, 5), (2, 2), pads=[3, 0, 0, 2])
transposed("dilated", (3, 4), (2, 3), dilations=[3, 2])
transposed("dilated_strided", (3, 3), (2, 2), dilations=[2, 3], strides=[3, 2], pads=[1, 0, 0, 1])
transposed("grouped", (3, 3), (2, 2), c=4, m=6, group=2, bias=True)
transposed("depthwise", (3, 4), (3, 2), c=3, m=3, group=3, strides=[2, 2])
transposed("output_padding", (3, 3), (3, 3), strides=[2, 3], extra=[1, 2], pads=[1, 1, 1, 1])
transposed("output_shape", (3, 4), (3, 3), strides=[3, 2], to=[10, 8])
transposed("output_shape_and_padding", (3, 3), (3, 3), strides=[3, 2], to=[10, 8], extra=[1, 1])
transposed("output_shape_uneven", (3, 3), (4, 3), strides=[2, 2], to=[7, 6])
transposed("output_shape_upper", (3, 3), (4, 3), strides=[2, 2], to=[7, 6], auto="SAME_UPPER")
transposed("output_shape_beyond", (3, 3), (2, 2), strides=[2, 2], to=[8, 7])
transposed("one_element", (1, 1), (3, 2), strides=[2, 2])
transposed("nothing_in_the_batch", (3, 3), (2, 2), n=0)
transposed("opset_1", (3, 3), (2, 2), opset=1, strides=[2, 2])
transposed("opset_11", (3, 3), (2, 2), opset=11, pads=[1, 0, 0, 0])
transposed("valid", (3, 3), (3, 2), auto="VALID", strides=[2, 2])
for auto in ["SAME_UPPER", "SAME_LOWER"]:
    transposed(auto.lower(), (4, 3), (3, 3), auto=auto, strides=[2, 2])
    transposed(f"{auto.lower()}_even", (4, 3), (4, 2), auto=auto, strides=[1, 2])
f.add("transpose_of_other_channels", "ConvTranspose", {"x": x, "w": w}, fails=True)
f.add("transpose_without_groups", "ConvTranspose", {"x": x, "w": np.ones((4, 1, 2, 2), np.float32)}, attributes={"group": 0}, fails=True)


def integers(name, dims, kernel, c=2, m=2, group=1, t=np.uint8, u=np.uint8, zero=None, filter_zero=None, **attributes):
    r = len(dims)
    x, w = (random.integers(np.iinfo(v).min, np.iinfo(v).max, s, endpoint=True).astype(v)
            for v, s in [(t, (1, c, *dims)), (u, (m, c // group, *kernel))])
    zero = None if zero is None else np.array(zero, t)
    filter_zero = None if filter_zero is None else np.array(filter_zero, u)
    wide = x.astype(np.int64) - (0 if zero is None else int(zero))
    shape = (-1, *[1] * (r + 1)) if filter_zero is not None and filter_zero.ndim else ()
    filters = w.astype(np.int64) - (0 if filter_zero is None else filter_zero.astype(np.int64).reshape(shape))
    y = convolved(wide, filters, attributes.get("strides", [1] * r), attributes.get("pads", [0] * 2 * r),
                  attributes.get("dilations", [1] * r), group)
    if group > 1:
        attributes["group"] = group
    f.add(f"integer_{name}", "ConvInteger", {"x": x, "w": w, "x_zero": zero, "w_zero": filter_zero}, attributes=attributes,
          opset=10, expected=y.astype(np.int32))


for t, u in itertools.product([np.uint8, np.int8], repeat=2):
    integers(f"{short(t)}_{short(u)}", (4, 4), (2, 2), t=t, u=u, zero=3, filter_zero=5)
integers("without_zeros", (4, 5), (2, 3))
integers("padded_with_the_zero_point", (3, 3), (2, 2), zero=100, pads=[1, 1, 1, 1])
integers("zero_of_each_filter", (4, 4), (2, 2), m=3, u=np.int8, filter_zero=[1, -2, 3], zero=7)
integers("grouped", (4, 4), (2, 2), c=4, m=4, group=2, zero=1)
integers("line", (6,), (2,), strides=[2], dilations=[2])
f.write()
