"""The operators that are measured: as an ONNX model, as NumPy's function, and under the name by which the other engines know it."""

import dataclasses
import itertools
import math
import typing

import numpy
import onnx
from onnx import helper, numpy_helper

SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 24)
TYPES = {"i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32"}
"""The element types between which casts are measured, and NumPy's names of them."""


@dataclasses.dataclass
class Operator:
    name: str
    """The nodes of a model from `x`, `y`, … to `out`."""
    nodes: list
    """Makes the inputs with so many elements, or of an extent."""
    feed: typing.Callable
    """What NumPy calls, with the inputs in their order; `None` if it has no function for it."""
    numpy: typing.Callable | None
    result: int = onnx.TensorProto.FLOAT
    """Sizes, and what they are called in the table."""
    sizes: tuple = SIZES
    """The number of multiplications at a size, if a processor's peak bounds them."""
    products: typing.Callable | None = None
    """Inputs that are constants of the model."""
    constants: tuple = ()

    def model(self, feed):
        """The model for these inputs, and the inputs that it has."""
        given = {name: x for name, x in feed.items() if name not in self.constants}
        info = lambda name, x: helper.make_tensor_value_info(name, numpy_helper.from_array(x).data_type, x.shape)
        graph = helper.make_graph(
            self.nodes,
            "operator",
            [info(name, x) for name, x in given.items()],
            [helper.make_tensor_value_info("out", self.result, None)],
            [numpy_helper.from_array(feed[name], name) for name in self.constants],
        )
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=11), given


def node(operator, *inputs, **attributes):
    return helper.make_node(operator, inputs, ["out"], **attributes)


def numbers(shape, seed=1):
    return (3 * numpy.random.default_rng(seed).standard_normal(shape)).astype(numpy.float32)


def flat(n):
    return {"x": numbers(n)}


def two(n):
    return {"x": numbers(n), "y": numbers(n, 2)}


def positive(n):
    return {"x": numpy.abs(numbers(n)) + numpy.float32(0.01)}


def rows(n):
    """Rows of 256 numbers."""
    return {"x": numbers((n // 256, 256))}


def square(n):
    side = math.isqrt(n)
    return {"x": numbers((side, side))}


def pictures(n):
    """64 channels of a square picture."""
    side = math.isqrt(n // 64)
    return {"x": numbers((1, 64, side, side))}


def scaled(n):
    return rows(n) | {"y": numbers(256, 2), "z": numbers(256, 3)}


def picked(n):
    """A table of rows of 64 numbers, and as many random positions of them."""
    rows = n // 64
    return {"x": numbers((rows, 64)), "y": numpy.random.default_rng(2).integers(0, rows, rows)}


def reduced(axis):
    axes = [] if axis is None else [axis]
    constant = helper.make_node("Constant", [], ["axes"], value=numpy_helper.from_array(numpy.array(axes, numpy.int64)))
    return [constant, node("ReduceSum", "x", "axes", keepdims=0)]


def softmax(x):
    e = numpy.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, scale, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / numpy.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * scale + bias


def greatest(x):
    """The 16 greatest numbers of each row, in descending order."""
    return -numpy.sort(numpy.partition(-x, 15, axis=-1)[:, :16], axis=-1)


def casts():
    for source, target in itertools.permutations(TYPES, 2):
        own, other = numpy.dtype(TYPES[source]), numpy.dtype(TYPES[target])
        result = helper.np_dtype_to_tensor_dtype(other)
        # Numbers that every type has.
        feed = lambda n, own=own: {"x": numpy.random.default_rng(1).integers(0, 100, n).astype(own)}
        cast = lambda x, other=other: x.astype(other)
        yield Operator(f"cast {source} {target}", [node("Cast", "x", to=result)], feed, cast, result)


def matrices(extents):
    """A product's operands."""
    m, k, n = extents
    return {"x": numbers((m, k)), "y": numbers((k, n), 2)}


def bytes_(extents):
    m, k, n = extents
    draw = numpy.random.default_rng(1)
    return {"x": draw.integers(0, 256, (m, k), numpy.uint8), "y": draw.integers(-128, 128, (k, n), numpy.int8)}


def convolved(extents):
    """A picture and weights: the channels, the extent of the picture and that of the window."""
    channels, side, window = extents
    return {"x": numbers((1, channels, side, side)), "y": numbers((channels, channels, window, window), 2)}


def products():
    cubes = tuple((n, n, n) for n in (8, 16, 32, 64, 128, 256, 512, 1024))
    layers = ((1, 768, 3072), (128, 768, 3072))
    count = lambda extents: math.prod(extents)
    windows = ((64, 56, 3), (256, 14, 3), (256, 28, 1))
    taps = lambda extents: extents[0] ** 2 * extents[1] ** 2 * extents[2] ** 2
    yield Operator("matmul", [node("MatMul", "x", "y")], matrices, numpy.matmul, sizes=cubes + layers, products=count)
    yield Operator(
        "matmul by a constant", [node("MatMul", "x", "y")], matrices, None, sizes=layers, products=count, constants=("y",)
    )
    integer = dict(result=onnx.TensorProto.INT32, sizes=tuple((n, n, n) for n in (256, 512, 1024)), products=count)
    yield Operator("matmul i8", [node("MatMulInteger", "x", "y")], bytes_, None, **integer)
    yield Operator("matmul i8 by a constant", [node("MatMulInteger", "x", "y")], bytes_, None, constants=("y",), **integer)
    same = dict(sizes=windows, products=taps, constants=("y",))
    yield Operator("conv", [node("Conv", "x", "y", auto_pad="SAME_UPPER")], convolved, None, **same)


def operators():
    integer = onnx.TensorProto.INT64
    top = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(numpy.array([16], numpy.int64)))
    top = [top, helper.make_node("TopK", ["x", "k"], ["out", "indices"])]
    channels_last = lambda x: numpy.ascontiguousarray(x.transpose(0, 2, 3, 1))
    return [
        Operator("add", [node("Add", "x", "y")], two, numpy.add),
        Operator("mul", [node("Mul", "x", "y")], two, numpy.multiply),
        Operator("exp", [node("Exp", "x")], flat, numpy.exp),
        Operator("tanh", [node("Tanh", "x")], flat, numpy.tanh),
        Operator("erf", [node("Erf", "x")], flat, None),
        Operator("sqrt", [node("Sqrt", "x")], positive, numpy.sqrt),
        Operator("round", [node("Round", "x")], flat, numpy.rint),
        Operator("softmax", [node("Softmax", "x")], rows, softmax),
        Operator("layer norm", [node("LayerNormalization", "x", "y", "z")], scaled, layer_norm),
        Operator("sum of all", reduced(None), square, numpy.sum),
        Operator("sum over the first axis", reduced(0), square, lambda x: x.sum(axis=0)),
        Operator("sum over the last axis", reduced(1), square, lambda x: x.sum(axis=1)),
        Operator("argmax", [node("ArgMax", "x", axis=1, keepdims=0)], square, lambda x: x.argmax(axis=1), integer),
        Operator("top-k", top, rows, greatest),
        Operator("transpose", [node("Transpose", "x")], square, lambda x: numpy.ascontiguousarray(x.T)),
        Operator("NCHW to NHWC", [node("Transpose", "x", perm=[0, 2, 3, 1])], pictures, channels_last),
        Operator("gather of rows", [node("Gather", "x", "y")], picked, lambda x, y: x[y]),
        *casts(),
        *products(),
    ]


def named(name):
    return next(operator for operator in operators() if operator.name == name)


def size_name(size):
    """How a table names a size."""
    if isinstance(size, tuple):
        return " x ".join(map(str, size))
    return f"{size >> 20} Mi" if size >= 1 << 20 else f"{size >> 10} Ki"
