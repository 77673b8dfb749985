"""Rows of reductions, products, windows, normalisation, recurrent and signal operators."""
import math

import numpy as np

from .cases import MAX, MIN, REFERENCE, Refused, array, as_type, draw, dtype_of, inf, is_float, nan, number_of, whole
from .rows import row, table


def ints(*values):
    return np.array(values, np.int64)


# Reductions.

REDUCE = {
    "ReduceL1": lambda x: np.sum(np.abs(x), 1), "ReduceL2": lambda x: np.sqrt(np.sum(x.astype(float) ** 2, 1)),
    "ReduceLogSum": lambda x: np.log(np.sum(x.astype(float), 1)),
    "ReduceLogSumExp": lambda x: np.log(np.sum(np.exp(x.astype(float)), 1)),
    "ReduceMax": lambda x: np.max(x, 1), "ReduceMin": lambda x: np.min(x, 1),
    "ReduceMean": lambda x: np.mean(x.astype(float), 1), "ReduceProd": lambda x: np.prod(x, 1, dtype=x.dtype),
    "ReduceSum": lambda x: np.sum(x, 1, dtype=x.dtype), "ReduceSumSquare": lambda x: np.sum(x * x, 1, dtype=x.dtype),
}


@row(*REDUCE)
def reduce(c):
    x = [[1, 2, 3], [4, 7, 5], [0, 9, 0]] if "Log" in c.op or "L2" in c.op or "Mean" in c.op else [[MIN, 2, 3], [5, -6, 1], [3, MAX, MAX]]
    if is_float(c.dtype()) and c.op in ("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1"):
        x = [[-1.5, 2, 3], [5, -6, 1], [0.5, -4, 1]]
    in_attributes = c.version < (13 if c.op == "ReduceSum" else 18)
    c.inputs, c.attributes = [c.x(0, x)], {"keepdims": 0}
    if in_attributes:
        c.attributes["axes"] = [1 if c.version < 11 else -1]
    else:
        c.inputs.append(ints(-1))
    with np.errstate(all="ignore"):
        y = REDUCE[c.op](c.wide()[0])
    # What an integer type has no fraction for is truncated.
    c.expected = np.trunc(y).astype(np.int64) if whole(c.dtype()) and y.dtype.kind == "f" else y


@row("ArgMax", "ArgMin")
def arg(c):
    c.take([[3, MAX, 1, MAX], [MIN, 0, MIN, 5]], axis=1, keepdims=0)
    x = c.wide()[0]
    c.expected = (np.argmax if c.op == "ArgMax" else np.argmin)(x, 1)


@row("CumSum", "CumProd")
def cumulative(c):
    c.take([[1, 2, 3], [MAX if whole(c.dtype()) else 4, 5, -6]], 1)
    c.expected = (np.cumsum if c.op == "CumSum" else np.cumprod)(c.wide()[0], 1, dtype=c.wide()[0].dtype)


# Products.

@row("MatMul")
def matmul(c):
    c.take([[MAX if whole(c.dtype()) else 4, 2, -1], [0, 3, 5]], [[2, 1], [-3, 0], [4, 6]])
    with np.errstate(all="ignore"):
        c.expected = np.matmul(*c.wide())


@row("Gemm")
def gemm(c):
    c.take([[1, 2], [3, -4]], [[5, 6], [-7, 8]], [[1, 2]] if c.version > 6 else [[1, 2], [3, 4]], transB=1)
    a, b, bias = c.wide()
    c.expected = a @ b.T + bias


@row("Einsum")
def einsum(c):
    c.take([[1, 2, 3], [4, -5, 6]], [[7, 8], [-9, 1], [2, 3]], equation="ij,jk->ki")
    c.expected = np.einsum("ij,jk->ki", *c.wide())


@row("Det")
def det(c):
    c.take([[2, 1, 3], [0, -4, 1], [5, 2, 2]])


@row("MatMulInteger")
def matmul_integer(c):
    c.take([[MIN, 1, 2], [MAX, 3, 0]], [[4, MAX], [MIN, 2], [1, 5]], 3, 2)
    a, b, za, zb = [x.astype(np.int64) for x in c.inputs]
    c.expected = (a - za) @ (b - zb)


@row("ConvInteger")
def conv_integer(c):
    c.take(draw(1, 2, 4, 4, by=1, seed=3), draw(2, 2, 2, 2, by=1, seed=4), 3, 2)
    x, w, zx, zw = [v.astype(np.int64) for v in c.inputs]
    c.expected = convolved(x - zx, w - zw)


def convolved(x, w):
    """Correlates without padding, at strides of one."""
    n, _, height, width = x.shape
    out = np.zeros((n, w.shape[0], height - w.shape[2] + 1, width - w.shape[3] + 1), x.dtype)
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            part = x[:, :, i:i + w.shape[2], j:j + w.shape[3]]
            out[:, :, i, j] = np.tensordot(part, w, ((1, 2, 3), (1, 2, 3)))
    return out


# Windows.

IMAGE = draw(1, 2, 4, 5)
table({
    "Conv": ([IMAGE, draw(3, 2, 3, 2), draw(3)], {"pads": [1, 0, 1, 1], "strides": [2, 1], "kernel_shape": [3, 2]}),
    "ConvTranspose": ([draw(1, 3, 2, 3), draw(3, 2, 3, 2), draw(2)], {"strides": [2, 1], "kernel_shape": [3, 2], "pads": [1, 0, 0, 1]}),
    "GlobalAveragePool GlobalMaxPool": ([IMAGE], {}),
    "InstanceNormalization": ([draw(2, 2, 3), [1, 2], [0.5, -1]], {}),
})


@row("AveragePool")
def average_pool(c):
    """Without the padding: versions before 7 could not say otherwise, whatever the evaluator does."""
    c.take(IMAGE, kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1])
    c.read_as = max(c.version, 7)


@row("LRN")
def local_response(c):
    """The evaluator takes the batch's extent for the channels'."""
    c.take(draw(1, 4, 2, 2), size=3, alpha=0.5, beta=0.75, bias=2.0)
    x = c.wide()[0]
    near = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    c.expected = x / (2 + 0.5 / 3 * (near[:, :-2] + near[:, 1:-1] + near[:, 2:])) ** 0.75


@row("LpNormalization")
def lp_normalization(c):
    """The evaluator adds the numbers instead of their sizes."""
    c.take(draw(2, 3), p=1, axis=0)
    x = c.wide()[0]
    c.expected = x / np.abs(x).sum(0)


@row("GlobalLpPool", "LpPool")
def lp_pool(c):
    x, power = draw(1, 2, 3, 3), 2.0 if c.version == 1 else 2
    if c.op == "GlobalLpPool":
        c.take(x, p=power)
        c.expected = np.sqrt(np.sum(c.wide()[0] ** 2, (2, 3), keepdims=True))
        return
    c.take(x, p=power, kernel_shape=[2, 2])
    x = c.wide()[0]
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    c.expected = np.sqrt(np.sum(windows**2, (4, 5)))


@row("MaxPool")
def max_pool(c):
    c.take(draw(1, 1, 4, 4, seed=7, low=-90, high=90, by=1), kernel_shape=[2, 2], strides=[2, 2])
    x = c.wide()[0].reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    best = x.argmax(1)
    y = x.max(1).reshape(1, 1, 2, 2)
    if c.version == 1:
        c.expected = y
        return
    c.outputs = 2
    corners = np.array([0, 2, 8, 10])
    c.expected = [y, (corners + best // 2 * 4 + best % 2).reshape(1, 1, 2, 2)]


@row("MaxUnpool")
def max_unpool(c):
    c.inputs, c.attributes = [c.x(0, [[[[5, 7], [MAX, 9]]]]), ints(0, 3, 9, 10).reshape(1, 1, 2, 2)], {"kernel_shape": [2, 2], "strides": [2, 2]}
    y = np.zeros(16)
    y[[0, 3, 9, 10]] = c.wide()[0].reshape(-1)
    c.expected = y.reshape(1, 1, 4, 4)


@row("RoiAlign")
def roi_align(c):
    c.inputs = [c.x(0, IMAGE), c.x(1, [[0, 0, 3, 3], [1, 1, 4, 2.5]]), ints(0, 0)]
    c.attributes = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    if c.version < 16:
        c.read_as, c.read_with = 16, {"coordinate_transformation_mode": "output_half_pixel"}


@row("MaxRoiPool")
def max_roi_pool(c):
    """The region takes four rows and four columns, of which each part has two."""
    c.take(IMAGE, [[0, 0, 0, 3, 3]], pooled_shape=[2, 2])
    c.expected = c.wide()[0][:, :, :, :4].reshape(1, 2, 2, 2, 2, 2).max((3, 5))


@row("MeanVarianceNormalization")
def mean_variance(c):
    c.take(draw(2, 2, 2, 2))
    x = c.wide()[0]
    c.expected = (x - x.mean((0, 2, 3), keepdims=True)) / (x.std((0, 2, 3), keepdims=True) + 1e-9)


@row("DeformConv")
def deform_conv(c):
    c.take(draw(1, 1, 3, 3), draw(1, 1, 2, 2), draw(1, 8, 2, 2, low=-4, high=4), [1], draw(1, 4, 2, 2, low=0, high=8), kernel_shape=[2, 2])


@row("AffineGrid")
def affine_grid(c):
    c.take([[[1, 0.5, 0], [-0.5, 1, 0.25]]], [1, 1, 2, 3])


@row("NonMaxSuppression")
def suppression(c):
    boxes = np.array([[[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, 10, 1, 11]]], np.float32)
    scores = np.array([[[0.75, 0.5, 0.875]]], np.float32)
    c.inputs = [boxes, scores, ints(2), np.array([0.5], np.float32), np.array([0.125], np.float32)]
    c.expected = ints(0, 0, 2, 0, 0, 0).reshape(2, 3)


# Normalisation.

@row("Softmax", "LogSoftmax", "Hardmax")
def softmax(c):
    c.take([[[1, 2], [3, -1]], [[0, 0.5], [4, 4]]], axis=1)
    x = c.wide()[0]
    rows = x.reshape(2, 4) if c.version < 13 else x
    shifted = rows - rows.max(1, keepdims=True)
    total = np.exp(shifted).sum(1, keepdims=True)
    if c.op == "Hardmax":
        first = rows.argmax(1)
        y = np.zeros_like(rows)
        np.put_along_axis(y, np.expand_dims(first, 1), 1, 1)
    else:
        y = np.exp(shifted) / total if c.op == "Softmax" else shifted - np.log(total)
    c.expected = y.reshape(x.shape)


@row("BatchNormalization")
def batch_normalization(c):
    c.take(draw(2, 2, 3), [1, 0.5], [0, -1], [0.25, 1], [1, 4], epsilon=0.125)
    if c.version == 1:
        c.attributes["consumed_inputs"] = [0, 0, 0, 1, 1]
    if c.version < 7:
        c.attributes["is_test"] = 1
    x, scale, bias, mean, var = [v if v.ndim > 1 else v.reshape(1, 2, 1) for v in c.wide()]
    c.expected = (x - mean) / np.sqrt(var + 0.125) * scale + bias


@row("GroupNormalization")
def group_normalization(c):
    """The first version scales by group."""
    by_group = c.version < 21
    c.take(draw(1, 4, 3), [1, 2] if by_group else [1, 2, 0.5, -1], [0, 1] if by_group else [0, 1, 2, 3], num_groups=2, epsilon=0.125)
    x, scale, bias = c.wide()
    groups = x.reshape(1, 2, 6)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 0.125)
    scale, bias = [v.repeat(2) if by_group else v for v in (scale, bias)]
    c.expected = normal.reshape(1, 4, 3) * scale.reshape(4, 1) + bias.reshape(4, 1)


@row("LayerNormalization")
def layer_normalization(c):
    c.take(draw(2, 3), [1, 2, 0.5], [0, 1, -1], epsilon=0.125)
    if c.asked == "U":
        c.outputs = 3
        c.attributes["stash_type"] = number_of(c.types["U"])
        if c.types["U"] == "tensor(bfloat16)":
            c.types["T"] = "tensor(bfloat16)"
            c.take(draw(2, 3), [1, 2, 0.5], [0, 1, -1], **c.attributes)
    x, scale, bias = c.wide()
    mean = x.mean(1, keepdims=True)
    inverse = 1 / np.sqrt(x.var(1, keepdims=True) + 0.125)
    c.expected = [(x - mean) * inverse * scale + bias, mean, inverse][:c.outputs]


@row("RMSNormalization")
def rms_normalization(c):
    c.take(draw(2, 3), [1, 2, 0.5], epsilon=0.125)
    x, scale = c.wide()
    # What is normal is rounded to the type of `X` before it is scaled.
    normal = x / np.sqrt(np.mean(x * x, 1, keepdims=True) + 0.125)
    c.expected = normal.astype(c.dtype()).astype(np.float64) * scale


@row("Dropout")
def dropout(c):
    """At rest: what training draws is in `draws`."""
    if c.version >= 12:
        x = [1, 2, 3]
        c.inputs, c.outputs = [c.x(0, x), c.x(1, 0.5), np.array(False)], 2
        c.expected = [c.inputs[0], np.ones(3, bool)]
        return
    c.take([1, 2.5, -3], **({"is_test": 1} if c.version < 7 else {}))
    c.expected = c.inputs[0]
    if c.version == 10:
        c.outputs, c.expected = 2, [c.inputs[0], np.ones(3, bool)]


# Recurrent networks.

@row("RNN", "GRU", "LSTM")
def recurrent(c):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[c.op]
    x, w, r, b = [draw(*s, low=-8, high=8) for s in ((3, 2, 2), (1, gates * 2, 2), (1, gates * 2, 2), (1, gates * 4))]
    c.inputs = [c.x(0, x), c.x(1, w), c.x(2, r), c.x(3, b), np.array([3, 3], np.int32), c.x(5, draw(1, 2, 2, low=-8, high=8))]
    if c.op == "LSTM":
        c.inputs += [c.x(6, draw(1, 2, 2, low=-8, high=8, seed=1)), c.x(7, draw(1, 6, low=-8, high=8))]
    c.attributes, c.outputs = {"hidden_size": 2}, 3 if c.op == "LSTM" else 2
    if "output_sequence" in c.schema.attributes:
        c.attributes["output_sequence"] = 1
    c.expected = recur(c.op, *[v[0] if v.ndim == 3 and i in (1, 2, 5, 6) else v[0] if i in (3, 7) else v for i, v in enumerate(c.wide())])


def recur(op, x, w, r, b, _lengths, h, state=None, peepholes=None):
    """Computes one direction by the formulas of the schemas."""
    size, sigmoid, ys = h.shape[1], lambda v: 1 / (1 + np.exp(-v)), []
    wb, rb = np.split(b, 2)
    for t in x:
        if op == "RNN":
            h = np.tanh(t @ w.T + wb + h @ r.T + rb)
        elif op == "GRU":
            gate = t @ w[:2 * size].T + wb[:2 * size] + h @ r[:2 * size].T + rb[:2 * size]
            update, reset = sigmoid(gate[:, :size]), sigmoid(gate[:, size:])
            new = np.tanh(t @ w[2 * size:].T + (reset * h) @ r[2 * size:].T + rb[2 * size:] + wb[2 * size:])
            h = (1 - update) * new + update * h
        else:
            i, o, f, g = np.split(t @ w.T + h @ r.T + wb + rb, 4, 1)
            pi, po, pf = np.split(peepholes, 3)
            state = sigmoid(f + pf * state) * state + sigmoid(i + pi * state) * np.tanh(g)
            h = sigmoid(o + po * state) * np.tanh(state)
        ys.append(h[None])
    return [np.stack(ys), h[None], *([state[None]] if op == "LSTM" else [])]


# Losses.

@row("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(c):
    c.take([[-1, -0.5, -2], [-0.25, -3, -1]], [2, 0], [1, 2, 0.5])
    x, target, weight = c.wide()
    if c.op.startswith("Soft"):
        x = x - np.log(np.sum(np.exp(x), 1, keepdims=True))
        c.outputs = 2
    each = weight[target]
    y = -np.sum(each * x[[0, 1], target]) / np.sum(each)
    c.expected = [y, x][:c.outputs]


# Signals.

@row("HannWindow", "HammingWindow", "BlackmanWindow")
def window(c):
    ty = c.types["T2"]
    c.take(10, output_datatype=number_of(ty))
    t = 2 * np.pi * np.arange(10) / 10
    a = 25 / 46
    y = {"HannWindow": 0.5 - 0.5 * np.cos(t), "HammingWindow": a - (1 - a) * np.cos(t),
         "BlackmanWindow": 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t)}[c.op]
    c.expected = np.trunc(y).astype(np.int64) if whole(dtype_of(ty)) else y
    if whole(dtype_of(ty)):
        # The middle is 1, or what rounding made of it.
        c.take(9, output_datatype=number_of(ty))
        c.expected = np.zeros(9, np.int64)


@row("MelWeightMatrix")
def mel(c):
    c.take(3, 16, 8192, 0, 4096, output_datatype=number_of(c.types["T3"]))
    c.expected = REFERENCE


@row("DFT")
def dft(c):
    x = draw(1, 4, 1)
    if c.version < 20:
        c.take(x, 4, axis=1)
    else:
        c.inputs = [c.x(0, x), c.x(1, 4), ints(1).reshape(())]
    y = np.fft.fft(c.wide()[0][..., 0], axis=1)
    c.expected = np.stack([y.real, y.imag], -1)


@row("STFT")
def stft(c):
    c.take(draw(1, 8, 1), 2, [0.5, 1, 1, 0.5], 4)
    signal, _, window, _ = c.wide()
    frames = np.stack([signal[0, i:i + 4, 0] * window for i in (0, 2, 4)])
    y = np.fft.rfft(frames)
    c.expected = np.stack([y.real, y.imag], -1)[None]


# Attention.

@row("Attention")
def attention(c):
    q, k, v = draw(1, 2, 2, 4), draw(1, 2, 3, 4, seed=1), draw(1, 2, 3, 4, seed=2)
    mask = [[1, 0, 1], [1, 1, 0]] if c.types["U"] == "tensor(bool)" else [[0, 1, 0], [2, 0, 1]]
    c.take(q, k, v, mask)
    q, k, v, mask = c.wide()
    scores = q @ k.swapaxes(2, 3) / 2
    scores = np.where(mask, scores, -inf) if mask.dtype.kind == "b" else scores + mask
    weights = np.exp(scores - scores.max(3, keepdims=True))
    c.expected = weights / weights.sum(3, keepdims=True) @ v


@row("RotaryEmbedding")
def rotary(c):
    c.inputs = [c.x(0, draw(1, 1, 2, 4)), c.x(1, draw(3, 2)), c.x(2, draw(3, 2, seed=1)), ints([2, 0])]


@row("LinearAttention")
def linear_attention(c):
    c.take(draw(1, 2, 4), draw(1, 2, 4, seed=1), draw(1, 2, 4, seed=2), draw(1, 2, 2, 2), q_num_heads=2, kv_num_heads=2, update_rule="linear")
    c.outputs = 2


@row("CausalConvWithState")
def causal(c):
    c.take(draw(1, 2, 4), draw(2, 1, 3), [0.5, -1], draw(1, 2, 2))
    c.outputs = 2


@row("FlexAttention", domain="ai.onnx.preview")
def flex(c):
    c.take(draw(1, 2, 2, 4), draw(1, 2, 3, 4, seed=1), draw(1, 2, 3, 4, seed=2))
    q, k, v = c.wide()
    scores = q @ k.swapaxes(2, 3) / 2
    weights = np.exp(scores - scores.max(3, keepdims=True))
    c.expected = weights / weights.sum(3, keepdims=True) @ v


# Quantisation.

@row("QuantizeLinear")
def quantize(c):
    x, scale, to = ("T1", "T1", "T2") if c.version < 23 else ("T1", "T2", "T3")
    if c.version < 19:
        scale = "tensor(float)"
    real, unit, target = dtype_of(c.types[x]), c.type_of(scale), dtype_of(c.types[to])
    c.inputs = [array([0, 2, -4, 6, 12, 300], c.types[x]), array(2, unit), array(1 if whole(target) else 0, c.types[to])]
    wide = c.inputs[0].astype(float) / c.inputs[1].astype(float)
    if c.types[x] == "tensor(int32)" and unit not in ("tensor(float)",):
        c.inputs[1] = array(2, unit)
    if whole(target):
        info = whole(target)
        c.expected = np.clip(np.rint(wide) + 1 * (as_type(1, target)), int(info.min), int(info.max)).astype(np.int64).astype(target)
    else:
        most = float(__import__("ml_dtypes").finfo(target).max)
        c.expected = np.clip(wide, -most, most).astype(target)


@row("DequantizeLinear")
def dequantize(c):
    to = {10: "tensor(float)", 13: "tensor(float)", 19: c.types.get("T2"), 21: c.types.get("T2")}.get(c.version)
    name = "T" if c.version < 19 else "T1"
    source, scale = c.types[name], "tensor(float)" if c.version < 19 else c.types["T2"]
    target = dtype_of(source)
    c.attributes = {}
    if to is None:
        if c.asked == "T3" or scale == "tensor(float8e8m0)":
            c.attributes["output_dtype"] = number_of(c.types["T3"])
        else:
            c.types["T3"] = scale
    zero = array(1 if whole(target) else 0, source)
    if source == "tensor(int32)" or not whole(target):
        zero = array(0, source)
    c.inputs = [array([MIN, 0, 1, 3, MAX], source), array(0.5, scale), zero]
    x = c.inputs[0].astype(float) - float(zero.astype(float))
    c.expected = x * float(c.inputs[1].astype(float))


@row("DynamicQuantizeLinear")
def dynamic(c):
    c.take([0, 2, -3, -2.5, 1.5, 0.5])
    c.outputs = 3
    # The range 5 in 255 steps; 0 lies 153 steps above the least.
    scale = np.float32(5 / 255)
    c.expected = [np.clip(np.rint(c.inputs[0] / scale) + 153, 0, 255).astype(np.uint8), scale, np.uint8(153)]


@row("QLinearMatMul")
def qlinear_matmul(c):
    kinds = [dtype_of(c.types[k]) for k in ("T1", "T2", "T3")]
    zeros = [1 if whole(k) else 0 for k in kinds]
    scale = "tensor(float)" if c.version < 21 else c.types["TS"]
    a, b = [[1, 2, 3], [4, 5, 6]], [[1, 0], [2, 1], [3, 4]]
    # Floats of 8 bits have fractions.
    a = array(np.array(a) if whole(kinds[0]) else np.array(a) / 4, c.types["T1"])
    b = array(np.array(b) if whole(kinds[1]) else np.array(b) / 4, c.types["T2"])
    za, zb, zy = [array(z, c.types[k]) for z, k in zip(zeros, ("T1", "T2", "T3"))]
    sa, sb, sy = [array(v, scale) for v in (0.5, 2, 4)]
    c.inputs = [a, sa, za, b, sb, zb, sy, zy]
    y = (a.astype(float) - zeros[0]) @ (b.astype(float) - zeros[1]) / 4
    c.expected = saturated(y, zeros[2], kinds[2])


def saturated(y, zero, kind):
    info = whole(kind)
    if info is None:
        return y.astype(kind)
    return np.clip(np.rint(y) + zero, info.min, info.max).astype(kind)


@row("QLinearConv")
def qlinear_conv(c):
    kinds = [c.types[k] for k in ("T1", "T2", "T3")]
    x, w = array(draw(1, 2, 3, 3, low=0, high=9, by=1), kinds[0]), array(draw(2, 2, 2, 2, low=0, high=5, by=1), kinds[1])
    zeros = [array(z, k) for z, k in zip((2, 1, 3), kinds)]
    scales = [np.float32(v) for v in (0.5, 2, 8)]
    bias = np.array([7, -9], np.int32)
    c.inputs = [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], bias]
    y = convolved(x.astype(np.int64) - 2, w.astype(np.int64) - 1) + bias.reshape(1, 2, 1, 1)
    c.expected = saturated(y / 8, 3, dtype_of(kinds[2]))


# Random numbers, the same for the same seed; NumPy's RandomState, as in ONNX's evaluator.

@row("RandomNormal", "RandomUniform")
def random(c):
    c.attributes = {"shape": [2, 3], "dtype": number_of(c.types["T"]), "seed": 7.0}
    c.expected = drawn(c, (2, 3))


@row("RandomNormalLike", "RandomUniformLike")
def random_like(c):
    c.inputs = [c.x(0, [[0, 1, 2], [3, 4, 5]])]
    c.attributes = {"dtype": number_of(c.types["T2"]), "seed": 7.0}
    c.expected = drawn(c, (2, 3))


def drawn(c, shape):
    state = np.random.RandomState(7)
    return state.randn(*shape) if "Normal" in c.op else state.rand(*shape)


@row("Bernoulli")
def bernoulli(c):
    c.inputs, c.attributes = [c.x(0, [0, 1, 1, 0])], {"dtype": number_of(c.types["T2"])}
    c.expected = np.array([0, 1, 1, 0])


@row("Multinomial")
def multinomial(c):
    c.inputs, c.attributes = [c.x(0, [[-200, 200, -200]])], {"dtype": number_of(c.types["T2"]), "sample_size": 3}
    c.expected = np.array([[1, 1, 1]])
