"""The kinds of operators that models spend their time in, each at many extents and types.

They are compared with ONNX Runtime alone. Weights are constants of the model.
"""

import itertools

import numpy
from onnx import TensorProto

from catalogue import numbers
from wide import case, ints, whole

FLOAT, FLOAT16, INT32, INT64, UINT8 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
)

# Channels and sides of square maps, as the layers of a network have them.
MAPS = ((16, 112), (64, 56), (128, 28), (256, 14), (512, 7))
SCALE = numpy.float32(0.02)


def halves(x):
    return x.astype(numpy.float16)


def window(side, stride):
    return dict(pads=[side // 2] * 4, strides=[stride] * 2)


def convolutions():
    for (channels, side), kernel, stride in itertools.product(MAPS, (1, 3, 5), (1, 2)):
        name = f"conv {kernel}x{kernel} s{stride} {channels} of {side}²"
        x, w = numbers((1, channels, side, side)), numbers((channels, channels, kernel, kernel), 2) / 9
        around = window(kernel, stride)
        if kernel < 5 or channels < 512:
            yield case(name, "Conv", x, w, weights=(1,), **around)
        if kernel > 1:
            dw = numbers((channels, 1, kernel, kernel), 3)
            yield case(f"depthwise {name[5:]}", "Conv", x, dw, weights=(1,), group=channels, **around)
        if kernel == 3 and stride == 1 and channels < 512:
            yield case(f"f16 {name}", "Conv", halves(x), halves(w), weights=(1,), result=FLOAT16, **around)
        if kernel < 5 and channels < 512:
            given = whole(255, x.shape, numpy.uint8), SCALE, numpy.uint8(120), whole(99, w.shape, numpy.int8), SCALE, numpy.int8(0)
            yield case(f"u8 {name}", "QLinearConv", *given, SCALE, numpy.uint8(100), weights=range(1, 8), result=UINT8, **around)
    for side, kernel in ((224, 3), (224, 7), (640, 3)):
        x, w = numbers((1, 3, side, side)), numbers((32, 3, kernel, kernel), 2)
        yield case(f"first conv {kernel}x{kernel} of {side}²", "Conv", x, w, weights=(1,), **window(kernel, 2))
    for channels, length, kernel in ((64, 400, 3), (128, 200, 5), (256, 100, 9), (80, 1500, 3), (512, 64, 3)):
        x, w = numbers((1, channels, length)), numbers((channels, channels, kernel), 2)
        yield case(f"conv 1-D {kernel} of {channels}x{length}", "Conv", x, w, weights=(1,), pads=[kernel // 2] * 2)
    for channels, side, kernel in ((64, 28, 2), (32, 56, 4), (128, 14, 4), (16, 112, 2)):
        x, w = numbers((1, channels, side, side)), numbers((channels, channels // 2, kernel, kernel), 2)
        pads = [(kernel - 2) // 2] * 4
        yield case(f"transposed {kernel}x{kernel} {channels} of {side}²", "ConvTranspose", x, w, weights=(1,), strides=[2, 2], pads=pads)


def pools():
    for (channels, side), (kernel, stride) in itertools.product(MAPS, ((2, 2), (3, 2), (3, 1), (5, 1))):
        for name in ("MaxPool", "AveragePool"):
            pads = [kernel // 2 if kernel > 2 else 0] * 4
            shape = dict(kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
            yield case(f"{name} {kernel} s{stride} {channels} of {side}²", name, numbers((1, channels, side, side)), **shape)


def products():
    extents = ((1, 256, 256), (1, 768, 3072), (7, 384, 1536), (16, 64, 64), (32, 512, 512), (64, 768, 768), (128, 384, 384), (128, 3072, 768))
    for m, k, n in extents:
        name, x, w = f"{m}x{k}x{n}", numbers((m, k)), numbers((k, n), 2) / 9
        yield case(f"product {name}", "MatMul", x, w, weights=(1,))
        yield case(f"f16 product {name}", "MatMul", halves(x), halves(w), weights=(1,), result=FLOAT16)
        u8, i8 = whole(255, (m, k), numpy.uint8), whole(99, (k, n), numpy.int8)
        yield case(f"u8 product {name}", "MatMulInteger", u8, i8, numpy.uint8(120), weights=(1, 2), result=INT32)
    for heads, s, t, d in ((12, 32, 32, 64), (12, 128, 128, 64), (8, 1, 256, 64), (4, 384, 384, 32), (6, 197, 197, 64)):
        name = f"{heads}x{s}x{t}x{d}"
        yield case(f"scores {name}", "MatMul", numbers((1, heads, s, d)), numbers((1, heads, d, t)))
        yield case(f"values {name}", "MatMul", numbers((1, heads, s, t)), numbers((1, heads, t, d)))
        yield case(f"attention {name}", "Attention", numbers((1, heads, s, d)), numbers((1, heads, t, d), 2), numbers((1, heads, t, d), 3))


def rows():
    for shape in ((16, 64), (128, 128), (384, 384), (128, 768), (16, 4096), (1, 32000)):
        name, x, n = "x".join(map(str, shape)), numbers(shape), shape[-1]
        yield case(f"softmax {name}", "Softmax", x)
        yield case(f"f16 softmax {name}", "Softmax", halves(x), result=FLOAT16)
        yield case(f"layer norm {name}", "LayerNormalization", x, numbers(n), numbers(n), weights=(1, 2))
        for operator in ("Add", "Mul"):
            yield case(f"{operator} {name}", operator, x, numbers(shape, 2))
        for operator in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Gelu"):
            yield case(f"{operator} {name}", operator, x)
            if operator != "Gelu":
                yield case(f"f16 {operator} {name}", operator, halves(x), result=FLOAT16)
        for operator, axis in itertools.product(("ReduceSum", "ReduceMax", "ReduceMean"), (0, 1)):
            yield case(f"{operator} {axis} {name}", operator, x, ints(axis), weights=(1,), keepdims=0)
        yield case(f"ArgMax {name}", "ArgMax", x, axis=-1, keepdims=0, result=INT64)
        yield case(f"u8 quantize {name}", "QuantizeLinear", x, SCALE, numpy.uint8(128), weights=(1, 2), result=UINT8)
    for channels, side in MAPS:
        x, c = numbers((1, channels, side, side)), numbers(channels)
        yield case(f"instance norm {channels} of {side}²", "InstanceNormalization", x, c, c, weights=(1, 2))
        yield case(f"batch norm {channels} of {side}²", "BatchNormalization", x, c, c, c, numpy.abs(c) + 1, weights=(1, 2, 3, 4))


def moves():
    for shape, perm in itertools.product(((1, 128, 12, 64), (1, 64, 56, 56), (4, 32, 32, 32)), ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 1, 2), (0, 2, 3, 1))):
        yield case(f"transpose {perm} of {shape}", "Transpose", numbers(shape), perm=perm)
    for count, width in ((30000, 64), (30000, 384), (1000, 1), (256, 3000)):
        at = whole(count, (1, 128))
        yield case(f"gather 128 of {count}x{width}", "Gather", numbers((count, width)), at)
    for axis in (0, 1, 2, 3):
        x = numbers((4, 32, 28, 28))
        yield case(f"concat {axis}", "Concat", x, x, axis=axis)
        yield case(f"slice {axis}", "Slice", x, ints(1), ints(9999), ints(axis), weights=(1, 2, 3))
    for (channels, side), mode, scale in itertools.product(((32, 40), (64, 28), (3, 224)), ("nearest", "linear"), (0.5, 2.0)):
        scales = numpy.array([1, 1, scale, scale], numpy.float32)
        yield case(f"resize {mode} {scale} {channels} of {side}²", "Resize", numbers((1, channels, side, side)), None, scales, weights=(2,), mode=mode)


def operators():
    return [operator for kind in (convolutions, pools, products, rows, moves) for operator in kind()]
