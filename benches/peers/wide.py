"""One case of nearly every kind of operator, at extents that models have, so that what is slow for no reason shows.

They are compared with ONNX Runtime alone, whose operators they are. An operator that it lacks is left out of the table.
"""

import numpy
from onnx import TensorProto, helper

from catalogue import Operator, node, numbers

RANDOM = numpy.random.default_rng(7)
PICTURE = (1, 32, 56, 56)
ROWS = (128, 768)
FLOAT, BOOL, INT64, INT32, UINT8 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8


def case(name, operator, *inputs, result=FLOAT, weights=(), before=(), outputs=("out",), domain="", **attributes):
    """An operator on these inputs, of which those at `weights` are constants of the model."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    made = helper.make_node(operator, names, list(outputs), domain=domain, **attributes)
    feed = {name: x for name, x in zip(names, inputs) if name}
    constants = tuple(names[i] for i in weights)
    return Operator(name, [*before, made], lambda _: feed, None, result, (ROWS,), constants=constants)


def ints(*values):
    return numpy.array(values, numpy.int64)


def whole(high, shape, dtype=numpy.int64):
    return RANDOM.integers(0, high, shape).astype(dtype)


def unary():
    x = numbers(ROWS)
    small = (numpy.tanh(x) * 0.9).astype(numpy.float32)
    for name in ("Abs Neg Sign Floor Ceil Reciprocal Sigmoid HardSigmoid HardSwish Softplus Softsign Mish Elu Selu Celu Relu "
                 "LeakyRelu ThresholdedRelu Gelu Sin Cos Tan Sinh Cosh Atan Asinh Identity Not IsNaN IsInf").split():
        operand = x > 0 if name == "Not" else x
        yield case(name, name, operand, result=BOOL if name in ("Not", "IsNaN", "IsInf") else FLOAT)
    for name in "Asin Acos Atanh".split():
        yield case(name, name, small)
    for name in "Log Sqrt Acosh".split():
        yield case(name, name, numpy.abs(x) + numpy.float32(1.01))
    yield case("Gelu tanh", "Gelu", x, approximate="tanh")
    yield case("PRelu", "PRelu", numbers(PICTURE), numbers((32, 1, 1)), weights=(1,))
    yield case("Clip", "Clip", x, numpy.float32(-1), numpy.float32(1), weights=(1, 2))
    for dtype in ("float16", "float64", "int8", "int32", "int64"):
        code = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
        yield case(f"Abs {dtype}", "Abs", (x * 9).astype(dtype), result=code)
        yield case(f"Add {dtype}", "Add", (x * 9).astype(dtype), (x * 5).astype(dtype), result=code)
    for dtype in ("float16", "float64"):
        code = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
        for name in ("Exp", "Tanh", "Sigmoid", "Erf"):
            yield case(f"{name} {dtype}", name, (x / 4).astype(dtype), result=code)


def binary():
    x, y = numbers(ROWS), numbers(ROWS, 2)
    for name in "Sub Div Max Min Mean Sum".split():
        yield case(name, name, x, y)
    yield case("Pow by 2", "Pow", x, numpy.float32(2), weights=(1,))
    yield case("Pow by 0.5", "Pow", numpy.abs(x), numpy.float32(0.5), weights=(1,))
    yield case("Pow", "Pow", numpy.abs(x), y)
    yield case("Mod floats", "Mod", x, y, fmod=1)
    yield case("Mod ints", "Mod", whole(1000, ROWS), whole(90, ROWS) + 1, result=INT64)
    yield case("Div ints", "Div", whole(1000, ROWS), whole(90, ROWS) + 1, result=INT64)
    yield case("Div i32", "Div", whole(1000, ROWS, numpy.int32), whole(90, ROWS, numpy.int32) + 1, result=INT32)
    for name in "Equal Greater LessOrEqual".split():
        yield case(name, name, x, y, result=BOOL)
    yield case("Equal ints", "Equal", whole(9, ROWS), whole(9, ROWS), result=BOOL)
    yield case("And", "And", x > 0, y > 0, result=BOOL)
    yield case("Where", "Where", x > 0, x, y)
    yield case("Where with a scalar", "Where", x > 0, x, numpy.float32(-1e9), weights=(2,))
    yield case("BitShift", "BitShift", whole(99, ROWS, numpy.uint32), whole(3, ROWS, numpy.uint32), result=TensorProto.UINT32, direction="LEFT")
    yield case("Add to rows", "Add", x, numbers(768))
    yield case("Add to columns", "Add", x, numbers((128, 1)))
    yield case("Mul channels", "Mul", numbers(PICTURE), numbers((1, 32, 1, 1)))


def reductions():
    x, picture = numbers(ROWS), numbers(PICTURE)
    for name in "ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split():
        yield case(f"{name} last", name, x, ints(-1), weights=(1,), keepdims=0)
        yield case(f"{name} first", name, x, ints(0), weights=(1,), keepdims=0)
    yield case("ReduceMean of planes", "ReduceMean", picture, ints(2, 3), weights=(1,))
    yield case("ReduceMean of channels", "ReduceMean", picture, ints(1), weights=(1,))
    yield case("ReduceSum ints", "ReduceSum", whole(9, ROWS), ints(-1), weights=(1,), result=INT64)
    yield case("ReduceMax u8", "ReduceMax", whole(255, ROWS, numpy.uint8), ints(-1), weights=(1,), result=UINT8)
    yield case("ReduceMax f16", "ReduceMax", x.astype(numpy.float16), ints(-1), weights=(1,), result=TensorProto.FLOAT16)
    for axis in (0, 1):
        for name in ("ArgMax", "ArgMin"):
            yield case(f"{name} {axis}", name, x, axis=axis, keepdims=0, result=INT64)
    yield case("ArgMax of channels", "ArgMax", picture, axis=1, keepdims=0, result=INT64)
    yield case("ArgMax ints", "ArgMax", whole(999, ROWS, numpy.int32), axis=1, keepdims=0, result=INT64)
    yield case("CumSum last", "CumSum", x, numpy.array(1), weights=(1,))
    yield case("CumSum first", "CumSum", x, numpy.array(0), weights=(1,))
    yield case("TopK 5 of a vector", "TopK", numbers(1 << 16), ints(5), weights=(1,), outputs=("out", "i"))
    yield case("TopK 300 of a vector", "TopK", numbers(1 << 14), ints(300), weights=(1,), outputs=("out", "i"))
    yield case("TopK all", "TopK", numbers(1 << 14), ints(1 << 14), weights=(1,), outputs=("out", "i"))
    yield case("TopK of columns", "TopK", x, ints(5), weights=(1,), outputs=("out", "i"), axis=0)
    yield case("TopK ints", "TopK", whole(10**6, ROWS), ints(5), weights=(1,), outputs=("out", "i"), result=INT64)
    yield case("Unique", "Unique", whole(999, 1 << 14), result=INT64)
    yield case("NonZero", "NonZero", (x > 1).astype(numpy.float32), result=INT64)
    yield case("NonZero bools", "NonZero", x > 1, result=INT64)
    yield case("Compress", "Compress", x, RANDOM.random(128) > 0.5, axis=0)


def norms():
    x, picture = numbers(ROWS), numbers(PICTURE)
    channels = [numbers(32, i) for i in range(3)] + [numpy.abs(numbers(32, 4)) + numpy.float32(0.1)]
    yield case("Softmax", "Softmax", x)
    yield case("Softmax of columns", "Softmax", x, axis=0)
    yield case("Softmax of channels", "Softmax", picture, axis=1)
    yield case("Softmax of 10", "Softmax", numbers((4096, 10)))
    yield case("Softmax f16", "Softmax", x.astype(numpy.float16), result=TensorProto.FLOAT16)
    yield case("LogSoftmax", "LogSoftmax", x)
    yield case("Hardmax", "Hardmax", x)
    yield case("LayerNorm", "LayerNormalization", x, numbers(768), numbers(768), weights=(1, 2))
    yield case("RMSNorm", "SimplifiedLayerNormalization", x, numbers(768), weights=(1,), axis=-1)
    yield case("InstanceNorm", "InstanceNormalization", picture, channels[0], channels[1], weights=(1, 2))
    yield case("GroupNorm", "GroupNormalization", picture, channels[0], channels[1], weights=(1, 2), num_groups=8)
    yield case("BatchNorm", "BatchNormalization", picture, *channels, weights=(1, 2, 3, 4))
    yield case("LpNorm", "LpNormalization", x)
    yield case("LRN", "LRN", picture, size=5)
    yield case("MeanVariance", "MeanVarianceNormalization", picture)


def moves():
    x, picture = numbers(ROWS), numbers(PICTURE)
    for perm in ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 1, 2), (1, 0, 2, 3)):
        yield case(f"Transpose {perm}", "Transpose", numbers((8, 12, 64, 64)), perm=perm)
    yield case("Transpose u8", "Transpose", whole(255, (3, 224, 224), numpy.uint8), perm=(1, 2, 0), result=UINT8)
    yield case("Concat last", "Concat", x, x, axis=1)
    yield case("Concat of ones", "Concat", numbers((4000, 1)), numbers((4000, 1)), numbers((4000, 1)), axis=1)
    yield case("Concat channels", "Concat", picture, picture, axis=1)
    yield case("Split", "Split", x, ints(256, 512), weights=(1,), outputs=("out", "b"), axis=1)
    yield case("Slice steps", "Slice", picture, ints(0, 0), ints(99, 99), ints(2, 3), ints(2, 2), weights=(1, 2, 3, 4))
    yield case("Slice backwards", "Slice", x, ints(-1), ints(-9999), ints(1), ints(-1), weights=(1, 2, 3, 4))
    yield case("Expand", "Expand", numbers((1, 768)), ints(128, 768), weights=(1,))
    yield case("Expand last", "Expand", numbers((1280, 1)), ints(1280, 80), weights=(1,))
    yield case("Tile", "Tile", numbers((64, 96)), ints(4, 5), weights=(1,))
    for mode in ("constant", "edge", "reflect", "wrap"):
        yield case(f"Pad {mode}", "Pad", picture, ints(0, 0, 1, 2, 0, 0, 3, 2), weights=(1,), mode=mode)
    yield case("Gather rows", "Gather", numbers((5000, 256)), whole(5000, (1, 300)))
    yield case("Gather columns", "Gather", x, whole(768, 300), axis=1)
    yield case("Gather scalars", "Gather", numbers(5000), whole(5000, 30000))
    yield case("GatherElements", "GatherElements", x, whole(128, ROWS), axis=0)
    yield case("GatherElements last", "GatherElements", x, whole(768, ROWS), axis=1)
    yield case("GatherND", "GatherND", picture, numpy.stack([whole(n, (64, 64)) for n in (1, 32, 56)], -1))
    yield case("ScatterElements", "ScatterElements", x, whole(128, (64, 768)), numbers((64, 768)), axis=0)
    yield case("ScatterElements add", "ScatterElements", x, whole(128, (64, 768)), numbers((64, 768)), axis=0, reduction="add")
    yield case("ScatterND", "ScatterND", x, RANDOM.permutation(128)[:64].reshape(64, 1), numbers((64, 768)))
    yield case("ScatterND points", "ScatterND", x, numpy.stack([whole(128, 9000), whole(768, 9000)], -1), numbers(9000), reduction="add")
    yield case("OneHot", "OneHot", whole(100, 1000), ints(100), numpy.array([0, 1], numpy.float32), weights=(1, 2))
    yield case("DepthToSpace", "DepthToSpace", picture, blocksize=2)
    yield case("DepthToSpace CRD", "DepthToSpace", picture, blocksize=2, mode="CRD")
    yield case("SpaceToDepth", "SpaceToDepth", picture, blocksize=2)
    yield case("Trilu", "Trilu", numbers((8, 128, 128)))
    yield case("ReverseSequence", "ReverseSequence", numbers((64, 32, 64)), whole(63, 32) + 1)
    yield case("Range", "Range", numpy.array(0), numpy.array(100000), numpy.array(1), result=INT64)
    yield case("ConstantOfShape", "ConstantOfShape", ints(128, 768), result=FLOAT)
    yield case("EyeLike", "EyeLike", numbers((256, 256)))


def convolutions():
    def conv(name, x, w, **attributes):
        return case(name, "Conv", numbers(x), numbers(w, 2), numbers(w[0], 3), weights=(1, 2), **attributes)

    one = dict(pads=[1, 1, 1, 1])
    yield conv("Conv 3x3 first", (1, 3, 224, 224), (32, 3, 3, 3), strides=[2, 2], **one)
    yield conv("Conv 7x7 first", (1, 3, 224, 224), (64, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3])
    yield conv("Conv 16x16 patches", (1, 3, 224, 224), (192, 3, 16, 16), strides=[16, 16])
    yield conv("Conv 1x1 56", (1, 64, 56, 56), (128, 64, 1, 1))
    yield conv("Conv 1x1 14", (1, 256, 14, 14), (256, 256, 1, 1))
    yield conv("Conv 1x1 7", (1, 512, 7, 7), (512, 512, 1, 1))
    yield conv("Conv 1x1 stride", (1, 64, 56, 56), (128, 64, 1, 1), strides=[2, 2])
    yield conv("Conv 3x3 7", (1, 256, 7, 7), (256, 256, 3, 3), **one)
    yield conv("Conv 3x3 14", (1, 128, 14, 14), (128, 128, 3, 3), **one)
    yield conv("Conv 3x3 56", (1, 64, 56, 56), (64, 64, 3, 3), **one)
    yield conv("Conv 3x3 stride", (1, 64, 56, 56), (128, 64, 3, 3), strides=[2, 2], **one)
    yield conv("Conv 3x3 few", (1, 8, 112, 112), (8, 8, 3, 3), **one)
    yield conv("Conv 3x3 dilated", (1, 64, 28, 28), (64, 64, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2])
    yield conv("Conv 5x5", (1, 32, 28, 28), (64, 32, 5, 5), pads=[2, 2, 2, 2])
    yield conv("Conv 1x7", (1, 64, 17, 17), (64, 64, 1, 7), pads=[0, 3, 0, 3])
    yield conv("Conv grouped", (1, 128, 28, 28), (128, 4, 3, 3), group=32, **one)
    yield conv("Conv depthwise", (1, 128, 28, 28), (128, 1, 3, 3), group=128, **one)
    yield conv("Conv depthwise 7x7", (1, 96, 28, 28), (96, 1, 7, 7), group=96, pads=[3, 3, 3, 3])
    yield conv("Conv depthwise stride", (1, 96, 56, 56), (96, 1, 3, 3), group=96, strides=[2, 2], **one)
    yield conv("Conv depth multiplier", (1, 32, 28, 28), (64, 1, 3, 3), group=32, **one)
    yield conv("Conv batch", (8, 32, 28, 28), (64, 32, 3, 3), **one)
    yield conv("Conv to 1", (1, 64, 112, 112), (1, 64, 3, 3), **one)
    yield conv("Conv 1-D", (1, 80, 300), (128, 80, 3), pads=[1, 1])
    yield conv("Conv 1-D wide", (1, 1, 16000), (64, 1, 400), strides=[160])
    yield conv("Conv 1-D depthwise", (1, 256, 200), (256, 1, 31), group=256, pads=[15, 15])
    yield conv("Conv 1-D dilated", (1, 64, 400), (64, 64, 3), dilations=[9], pads=[9, 9])
    yield conv("Conv 3-D", (1, 16, 16, 28, 28), (32, 16, 3, 3, 3), pads=[1] * 6)
    yield conv("Conv 3-D depthwise", (1, 32, 16, 28, 28), (32, 1, 3, 3, 3), group=32, pads=[1] * 6)
    yield case("Conv f16", "Conv", numbers((1, 64, 28, 28)).astype(numpy.float16), numbers((64, 64, 3, 3), 2).astype(numpy.float16), weights=(1,), result=TensorProto.FLOAT16, **one)
    yield case("Conv f64", "Conv", numbers((1, 32, 28, 28)).astype(float), numbers((32, 32, 3, 3), 2).astype(float), weights=(1,), result=TensorProto.DOUBLE, **one)
    yield case("Conv computed weights", "Conv", numbers((1, 64, 28, 28)), numbers((64, 64, 3, 3), 2), **one)
    for name, x, w, attributes in (
        ("ConvTranspose 2x2", (1, 64, 28, 28), (64, 32, 2, 2), dict(strides=[2, 2])),
        ("ConvTranspose 4x4", (1, 64, 28, 28), (64, 32, 4, 4), dict(strides=[2, 2], **one)),
        ("ConvTranspose 3x3", (1, 32, 56, 56), (32, 32, 3, 3), one),
        ("ConvTranspose 1-D", (1, 128, 100), (128, 64, 16), dict(strides=[8], pads=[4, 4])),
        ("ConvTranspose grouped", (1, 64, 28, 28), (64, 1, 4, 4), dict(group=64, strides=[2, 2], **one)),
    ):
        yield case(name, "ConvTranspose", numbers(x), numbers(w, 2), weights=(1,), **attributes)
    picture = numbers((1, 64, 56, 56))
    yield case("MaxPool 2x2", "MaxPool", picture, kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxPool 3x3", "MaxPool", picture, kernel_shape=[3, 3], strides=[2, 2], **one)
    yield case("MaxPool 5x5", "MaxPool", numbers((1, 128, 20, 20)), kernel_shape=[5, 5], pads=[2] * 4)
    yield case("MaxPool 1-D", "MaxPool", numbers((1, 64, 3000)), kernel_shape=[4], strides=[4])
    yield case("MaxPool indices", "MaxPool", picture, kernel_shape=[2, 2], strides=[2, 2], outputs=("out", "i"))
    yield case("AveragePool 2x2", "AveragePool", picture, kernel_shape=[2, 2], strides=[2, 2])
    yield case("AveragePool 3x3", "AveragePool", picture, kernel_shape=[3, 3], **one)
    yield case("LpPool", "LpPool", picture, kernel_shape=[3, 3])
    yield case("GlobalAveragePool", "GlobalAveragePool", picture)
    yield case("GlobalMaxPool", "GlobalMaxPool", picture)
    for mode in ("nearest", "linear", "cubic"):
        scales = numpy.array([1, 1, 2, 2], numpy.float32)
        yield case(f"Resize {mode}", "Resize", numbers((1, 32, 40, 40)), None, scales, weights=(2,), mode=mode)
        yield case(f"Resize {mode} down", "Resize", numbers((1, 3, 480, 640)), None, None, ints(1, 3, 224, 224), weights=(3,), mode=mode)
    yield case("Resize corners", "Resize", numbers((1, 32, 40, 40)), None, numpy.array([1, 1, 2, 2], numpy.float32), weights=(2,), mode="linear", coordinate_transformation_mode="align_corners")
    yield case("GridSample", "GridSample", numbers((1, 16, 40, 40)), (numbers((1, 40, 40, 2)) / 4))
    yield case("RoiAlign", "RoiAlign", numbers((1, 64, 40, 40)), numpy.sort(RANDOM.random((20, 4)).astype(numpy.float32) * 40), numpy.zeros(20, numpy.int64), output_height=7, output_width=7, sampling_ratio=2)
    boxes = numpy.sort(RANDOM.random((1, 2000, 4)).astype(numpy.float32))
    yield case("NonMaxSuppression", "NonMaxSuppression", boxes, RANDOM.random((1, 4, 2000)).astype(numpy.float32), ints(50), numpy.array([0.5], numpy.float32), numpy.array([0.3], numpy.float32), weights=(2, 3, 4), result=INT64)


def products():
    x = numbers((64, 256))
    yield case("Gemm", "Gemm", x, numbers((512, 256)), numbers(512), weights=(1, 2), transB=1)
    yield case("Gemm 1", "Gemm", numbers((1, 768)), numbers((768, 768)), numbers(768), weights=(1, 2))
    yield case("Gemm computed", "Gemm", x, numbers((512, 256)), numbers(512), transB=1, alpha=0.5)
    yield case("Gemm transA", "Gemm", numbers((256, 64)), numbers((256, 512)), weights=(1,), transA=1)
    yield case("MatMul heads", "MatMul", numbers((1, 12, 128, 64)), numbers((1, 12, 64, 128)))
    yield case("MatMul heads values", "MatMul", numbers((1, 12, 128, 128)), numbers((1, 12, 128, 64)))
    yield case("MatMul vector", "MatMul", numbers(1024), numbers((1024, 1024)), weights=(1,))
    yield case("MatMul to vector", "MatMul", numbers((1024, 1024)), numbers(1024))
    yield case("MatMul thin", "MatMul", numbers((4000, 10)), numbers((10, 3)), weights=(1,))
    yield case("MatMul f64", "MatMul", numbers((128, 128)).astype(float), numbers((128, 128)).astype(float), result=TensorProto.DOUBLE)
    yield case("MatMul f16", "MatMul", numbers((128, 256)).astype(numpy.float16), numbers((256, 128)).astype(numpy.float16), weights=(1,), result=TensorProto.FLOAT16)
    yield case("MatMul i32", "MatMul", whole(9, (64, 64), numpy.int32), whole(9, (64, 64), numpy.int32), result=INT32)
    yield case("Einsum bhqd", "Einsum", numbers((1, 64, 12, 64)), numbers((1, 64, 12, 64)), equation="bqhd,bkhd->bhqk")
    yield case("Einsum ij,jk", "Einsum", numbers((64, 64)), numbers((64, 64)), equation="ij,jk->ik")
    u8, i8 = whole(255, (128, 256), numpy.uint8), whole(100, (256, 256), numpy.int8)
    yield case("MatMulInteger", "MatMulInteger", u8, i8, numpy.uint8(120), weights=(1, 2), result=INT32)
    scale, scales = numpy.float32(0.02), numpy.abs(numbers(256)) / 100
    yield case("QLinearMatMul", "QLinearMatMul", u8, scale, numpy.uint8(120), i8, scales, numpy.zeros(256, numpy.int8), scale, numpy.uint8(100), weights=range(1, 8), result=UINT8)
    yield case("QLinearConv", "QLinearConv", whole(255, (1, 64, 28, 28), numpy.uint8), scale, numpy.uint8(120), whole(100, (64, 64, 3, 3), numpy.int8), scale, numpy.int8(0), scale, numpy.uint8(100), weights=range(1, 8), result=UINT8, pads=[1] * 4)
    yield case("ConvInteger", "ConvInteger", whole(255, (1, 64, 28, 28), numpy.uint8), whole(100, (64, 64, 3, 3), numpy.uint8), numpy.uint8(120), weights=(1, 2), result=INT32, pads=[1] * 4)
    x = numbers(ROWS)
    yield case("QuantizeLinear", "QuantizeLinear", x, scale, numpy.uint8(128), weights=(1, 2), result=UINT8)
    yield case("QuantizeLinear i8", "QuantizeLinear", x, scale, numpy.int8(0), weights=(1, 2), result=TensorProto.INT8)
    yield case("DequantizeLinear", "DequantizeLinear", whole(255, ROWS, numpy.uint8), scale, numpy.uint8(128), weights=(1, 2))
    yield case("DequantizeLinear axis", "DequantizeLinear", whole(255, ROWS, numpy.uint8), numpy.abs(numbers(768)), whole(255, 768, numpy.uint8), weights=(1, 2))
    yield case("DynamicQuantize", "DynamicQuantizeLinear", x, outputs=("out", "s", "z"), result=UINT8)


def recurrent():
    n, s = 64, 50
    for name, gates, outputs in (("LSTM", 4, ("out", "h", "c")), ("GRU", 3, ("out", "h")), ("RNN", 1, ("out", "h"))):
        given = [numbers((s, 1, n)), numbers((1, gates * n, n)) / 20, numbers((1, gates * n, n)) / 20, numbers((1, 2 * gates * n)) / 20]
        yield case(name, name, *given, weights=(1, 2, 3), hidden_size=n, outputs=outputs)
    both = [numbers((s, 4, n)), numbers((2, 4 * n, n)) / 20, numbers((2, 4 * n, n)) / 20, numbers((2, 8 * n)) / 20]
    yield case("LSTM both ways", "LSTM", *both, weights=(1, 2, 3), hidden_size=n, direction="bidirectional", outputs=("out", "h", "c"))


def signal():
    yield case("DFT", "DFT", numbers((8, 512, 1)), None, numpy.array(1), weights=(2,), onesided=1)
    yield case("STFT", "STFT", numbers((1, 16000)).reshape(1, 16000, 1), numpy.array(160), numpy.hanning(400).astype(numpy.float32), numpy.array(400), weights=(1, 2, 3))
    q = numbers((1, 8, 128, 64))
    yield case("Attention", "Attention", q, q, q)
    yield case("Attention causal", "Attention", q, q, q, is_causal=1)
    yield case("RandomNormalLike", "RandomNormalLike", q)
    q = numbers((1, 128, 512))
    yield case("MultiHeadAttention", "MultiHeadAttention", q, q, q, num_heads=8, domain="com.microsoft")
    yield case("SkipLayerNorm", "SkipLayerNormalization", numbers((1, 128, 512)), numbers((1, 128, 512)), numbers(512), numbers(512), weights=(2, 3), domain="com.microsoft")
    yield case("FastGelu", "FastGelu", numbers(ROWS), numbers(768), weights=(1,), domain="com.microsoft")
    yield case("BiasGelu", "BiasGelu", numbers(ROWS), numbers(768), weights=(1,), domain="com.microsoft")
    yield case("QuickGelu", "QuickGelu", numbers(ROWS), domain="com.microsoft")
    yield case("FusedMatMul", "FusedMatMul", numbers((128, 256)), numbers((512, 256)), weights=(1,), transB=1, alpha=0.1, domain="com.microsoft")


def operators():
    groups = (unary, binary, reductions, norms, moves, convolutions, products, recurrent, signal)
    return [operator for group in groups for operator in group()]
