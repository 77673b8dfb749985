"""Rows of operators that move elements, of any type."""
import numpy as np
from onnx import helper, numpy_helper

from .cases import MAX, MIN, MOVES, Refused, array, draw, dtype_of, is_float, is_small, nan, number_of, whole
from .rows import row

MATRIX = [[MIN, 1, 2], [3, 0, MAX]]


def ints(*values):
    return np.array(values, np.int64)


def moves(c, operands, **attributes):
    """Takes operands of any type, and integers as they are."""
    c.inputs = [v if v is None or isinstance(v, np.ndarray) else c.x(i, v) for i, v in enumerate(operands)]
    c.attributes, c.expected = attributes, MOVES
    return c


@row("Identity")
def identity(c):
    if c.version >= 14 and not c.types["V"].startswith("tensor"):
        from .structure import sample

        value = sample(c.types["V"])
        c.inputs, c.expected = [value], [value]
        return
    c.inputs = [c.x(0, MATRIX)]
    c.expected = c.inputs[0]


@row("Reshape")
def reshape(c):
    if c.version < 5:
        moves(c, [MATRIX], shape=[3, -1])
        c.expected = c.inputs[0].reshape(3, 2)
    else:
        moves(c, [MATRIX, ints(0, -1, 1)])


@row("Flatten")
def flatten(c):
    moves(c, [[MATRIX, MATRIX]], axis=2)


@row("Transpose")
def transpose(c):
    moves(c, [[MATRIX]], perm=[2, 0, 1])


@row("Squeeze", "Unsqueeze")
def axes(c):
    x = [[[1], [MAX]]] if c.op == "Squeeze" else [2, MIN]
    along = (0, 2) if c.version < 11 else (0, -1)
    x = c.x(0, x)
    c.expected = x.reshape(2) if c.op == "Squeeze" else x.reshape(1, 2, 1)
    c.inputs = [x] if c.version < 13 else [x, ints(*along)]
    c.attributes = {"axes": list(along)} if c.version < 13 else {}


@row("Concat")
def concat(c):
    moves(c, [MATRIX, [[4, 5, 6]]], axis=0)
    c.expected = np.concatenate(c.inputs)


@row("Slice")
def slices(c):
    if c.version < 10:
        moves(c, [MATRIX], starts=[0, -2], ends=[1, 1000], axes=[0, 1])
        c.expected = c.inputs[0][:1, -2:]
    else:
        moves(c, [MATRIX, [1, -1], [2, -4], [0, 1], [1, -2]])
        c.expected = c.inputs[0][1:2, ::-2]


@row("Split")
def split(c):
    x = [MIN, 1, 2, 3, MAX]
    c.outputs = 2
    if c.version in (2, 11):
        moves(c, [x], split=[2, 3])
    elif c.version == 1:
        moves(c, [x], split=[2, 3], axis=0)
    elif c.version == 13:
        moves(c, [x, ints(2, 3)])
    else:
        moves(c, [x], num_outputs=2)
        c.expected = [c.inputs[0][:3], c.inputs[0][3:]]
        return
    c.expected = [c.inputs[0][:2], c.inputs[0][2:]]


@row("Gather")
def gather(c):
    moves(c, [MATRIX, [2, 0]], axis=1)
    c.expected = c.inputs[0][:, [2, 0]]


@row("GatherElements")
def gather_elements(c):
    moves(c, [MATRIX, [[1, 0, 1]]])


@row("GatherND")
def gather_nd(c):
    moves(c, [MATRIX, ints(*[[1, 0], [0, 2]]).reshape(2, 2)])


@row("Expand")
def expand(c):
    moves(c, [[[1], [MAX]], ints(2, 1, 3)])


@row("Tile")
def tile(c):
    if c.version < 6:
        c.take(MATRIX, 2, 1)
        c.expected = np.tile(c.inputs[0], (1, 2))
    else:
        moves(c, [MATRIX, ints(1, 2)])


@row("Pad")
def pad(c):
    data = c.x(0, MATRIX)
    mode = "reflect" if len(c.types["T"]) % 2 else "constant"
    before, after = [0, 1], [1, 0]
    if c.version < 11:
        c.inputs, c.attributes = [data], {("paddings" if c.version < 2 else "pads"): before + after, "mode": mode}
        if mode == "constant":
            c.attributes["value"] = 3.0
    else:
        filler = c.x(0, 3) if mode == "constant" else None
        tail = [array([0, 1], c.types["Tind"])] if c.version >= 18 else []
        c.inputs, c.attributes = [data, ints(*before, *after), filler, *tail], {"mode": mode}
    positions = np.arange(6).reshape(2, 3)
    pool = np.concatenate([data.reshape(-1), c.x(0, [3])])
    more = {"constant_values": 6} if mode == "constant" else {}
    c.expected = pool[np.pad(positions, list(zip(before, after)), mode=mode, **more)]


@row("DepthToSpace", "SpaceToDepth")
def blocks(c):
    shape = (1, 4, 1, 2) if c.op == "DepthToSpace" else (1, 1, 2, 4)
    moves(c, [np.arange(8).reshape(shape).tolist()], blocksize=2)
    x = c.inputs[0]
    if c.op == "DepthToSpace":
        c.expected = x.reshape(1, 2, 2, 1, 1, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 2, 4)
    else:
        c.expected = x.reshape(1, 1, 1, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 4, 1, 2)


@row("CenterCropPad")
def crop(c):
    moves(c, [MATRIX, [3, 2]])
    c.expected = np.concatenate([c.inputs[0][:, :2], nothing(c, 1, 2)])


@row("Compress")
def compress(c):
    moves(c, [MATRIX, np.array([False, True, True])], axis=1)


@row("Trilu")
def trilu(c):
    x = c.x(0, MATRIX)
    c.inputs, c.attributes = [x, np.array(1)], {"upper": 1}
    c.expected = np.where(np.triu(np.ones((2, 3)), 1) != 0, x, nothing(c)).astype(x.dtype)


@row("ReverseSequence")
def reverse_sequence(c):
    moves(c, [MATRIX, ints(3, 2)], batch_axis=0, time_axis=1)
    x = c.inputs[0]
    c.expected = np.stack([x[0, ::-1], x[1, [1, 0, 2]]])


@row("Scatter", "ScatterElements")
def scatter(c):
    moves(c, [MATRIX, [[1, 0, 1]], [[7, 8, 9]]])
    c.expected = c.inputs[0].copy()
    c.expected[[1, 0, 1], [0, 1, 2]] = c.inputs[2][0]


@row("ScatterND")
def scatter_nd(c):
    moves(c, [MATRIX, ints(*[[1, 0], [0, 2]]).reshape(2, 2), [7, 8]])
    c.expected = c.inputs[0].copy()
    c.expected[[1, 0], [0, 2]] = c.inputs[2]


@row("TensorScatter")
def tensor_scatter(c):
    moves(c, [[[[1, 2], [3, 4], [5, 6]]], [[[7, MAX]]], ints(1)])
    c.expected = c.inputs[0].copy()
    c.expected[0, 1] = c.inputs[1][0, 0]


@row("Shape", "Size")
def shape(c):
    c.inputs = [c.x(0, MATRIX)]
    c.expected = np.array([2, 3] if c.op == "Shape" else 6, np.int64)


@row("NonZero")
def non_zero(c):
    c.inputs = [c.x(0, [[0, 1, 5], [3, 0, 0]])]
    if c.dtype().kind == "c":
        c.inputs[0][c.inputs[0].real == 0] = 0
    c.expected = np.array([[0, 0, 1], [1, 2, 0]], np.int64)


@row("OneHot")
def one_hot(c):
    c.take([1, 0, 3], 3, [2, MAX], axis=0)
    low, high = c.inputs[2]
    expected = np.full((3, 3), low, c.inputs[2].dtype)
    expected[[1, 0], [0, 1]] = high
    c.expected = expected


@row("EyeLike")
def eye(c):
    c.inputs, c.attributes = [c.x(0, MATRIX)], {"k": 1, "dtype": number_of(c.types["T2"])}
    c.expected = np.eye(2, 3, 1).astype(dtype_of(c.types["T2"]))


@row("Constant")
def constant(c):
    x = array(MATRIX, c.types["T"])
    c.attributes, c.expected = {"value": numpy_helper.from_array(x, "value")}, x


@row("ConstantOfShape")
def constant_of_shape(c):
    x = array([3], c.types["T2"])
    c.inputs, c.attributes = [ints(2, 2)], {"value": numpy_helper.from_array(x, "value")}
    c.expected = np.full((2, 2), x[0], x.dtype)


@row("BitCast")
def bit_cast(c):
    a, b = dtype_of(c.types["T1"]), dtype_of(c.types["T2"])

    def bits(d):
        return (whole(d) or np.finfo(d)).bits if is_small(d) and whole(d) else {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}.get(d.name, 8 * d.itemsize)

    if bits(a) != bits(b):
        if c.asked == "T1":
            c.types["T2"] = c.types["T1"]
        else:
            c.types["T1"] = c.types["T2"]
        a = b = dtype_of(c.types["T1"])
    values = [0, 1, 3, 2] if a.kind != "b" and b.kind != "b" else [0, 1]
    c.inputs, c.attributes = [array(values, c.types["T1"])], {"to": number_of(c.types["T2"])}
    c.expected = c.inputs[0].view(b)


@row("Range")
def spread(c):
    c.take(7, 0, -2)
    c.expected = np.array([7, 5, 3, 1], np.int64).astype(c.dtype())


@row("Unique")
def unique(c):
    c.inputs, c.outputs = [c.x(0, [3, 1, 3, 0, MAX, 1])], 4
    x = c.inputs[0]
    if x.dtype == object:
        y, first, inverse, counts = np.unique(x.astype(str), return_index=True, return_inverse=True, return_counts=True)
        order = sorted(range(len(y)), key=lambda i: y[i].encode())
        assert order == list(range(len(y)))
        y = y.astype(object)
    else:
        y, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    c.expected = [y, first, inverse, counts]


@row("TopK")
def top(c):
    values = [[3, MAX, 1, 3, MIN]]
    c.outputs = 2
    if c.version < 10:
        c.take(values, k=3)
    else:
        c.inputs = [c.x(0, values), ints(3)]
    order = np.argsort([-float(v) for v in c.inputs[0][0]], kind="stable")[:3]
    c.expected = [c.inputs[0][:, order], order.reshape(1, 3)]


@row("Upsample")
def upsample(c):
    x = c.x(0, [[MATRIX]])
    c.inputs, c.attributes = [x], {"mode": "nearest"}
    if c.version == 1:
        c.attributes.update(height_scale=2.0, width_scale=2.0)
    elif c.version == 7:
        c.attributes["scales"] = [1.0, 1.0, 2.0, 2.0]
    else:
        c.inputs.append(np.array([1, 1, 2, 2], np.float32))
    c.expected = x.repeat(2, 2).repeat(2, 3)


@row("Resize")
def resize(c):
    x = c.x(0, [[MATRIX]])
    scales = np.array([1, 1, 2, 2], np.float32)
    c.attributes = {"mode": "nearest"}
    if c.version == 10:
        c.inputs = [x, scales]
    else:
        asked = c.asked == "T2"
        c.inputs = [x, c.x(1, []) if c.version == 11 and not asked else c.x(1, [0, 0, 0, 0, 1, 1, 1, 1]) if asked else None, scales]
        c.attributes["coordinate_transformation_mode"] = "tf_crop_and_resize" if asked else "asymmetric"
        c.attributes["nearest_mode"] = "floor"
        if asked:
            # (i * (2 - 1) / (4 - 1)) and (i * (3 - 1) / (6 - 1)), floored.
            c.expected = x[:, :, [0, 0, 0, 1]][:, :, :, [0, 0, 0, 1, 1, 2]]
            return
    c.expected = x.repeat(2, 2).repeat(2, 3)


@row("GridSample")
def grid_sample(c):
    x = c.x(0, [[MATRIX]])
    # The last point lies outside, where there is nothing.
    at = array([[[[-1, -1], [0, 1], [1, -1], [1, 1], [-3, 0]]]], c.types["T2"])
    c.inputs, c.attributes = [x, at], {"mode": "nearest", "align_corners": 1}
    inside = x[:, :, [0, 1, 0, 1], [0, 1, 2, 2]].reshape(1, 1, 1, 4)
    c.expected = np.concatenate([inside, nothing(c, 1, 1, 1, 1)], 3)


def nothing(c, *shape):
    """What operators put where nothing is: zeros, empty strings."""
    return np.full(shape, "", object) if c.dtype() == object else np.zeros(shape, c.dtype())


@row("Col2Im")
def col2im(c):
    if c.dtype() == object:
        raise Refused("strings have no sum")
    if c.dtype().kind == "c":
        raise Refused("backends do not compute on complex numbers")
    c.inputs = [c.x(0, np.arange(1, 9).reshape(1, 4, 2)), ints(2, 4), ints(2, 2)]
    c.attributes = {"strides": [2, 2]}
    x = c.inputs[0]
    c.expected = x.reshape(1, 1, 2, 2, 1, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 2, 4)
