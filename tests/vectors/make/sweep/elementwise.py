"""Rows of operators that work element by element."""
import numpy as np

from .cases import MAX, MIN, array, as_type, dtype_of, element, inf, is_float, nan, number_of, whole
from .rows import row, table

POINTS = [nan, inf, -inf, -2.5, -1, -0.5, 0, 0.25, 0.5, 1, 3]
WHOLE = [MIN, -30, -3, -1, 0, 1, 2, 30, MAX]

table({
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh Exp Log Sqrt Reciprocal Ceil Floor": ([POINTS], {}),
    "Sigmoid Softplus Softsign Round Mish": ([POINTS[:3] + [-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, 7]], {}),
    "Elu LeakyRelu ThresholdedRelu Celu": ([POINTS], {"alpha": 0.5}),
    "HardSigmoid": ([POINTS], {"alpha": 0.25, "beta": 0.5}),
    "Selu": ([POINTS], {"alpha": 1.5, "gamma": 2.0}),
    "IsNaN IsInf": ([POINTS], {}),
    "Not": ([[0, 1, 1]], {}),
    "BitwiseAnd BitwiseOr BitwiseXor": ([[MIN, -3, 0, 5, MAX], [7, MAX, 9, 6, MIN]], {}),
    "BitwiseNot": ([WHOLE], {}),
    "StringConcat": ([[1, 0, 2], [0, 3, 4]], {}),
})


@row("Abs", "Sign", "Neg", "Relu", "Erf")
def either(c):
    dtype = c.dtype()
    values = POINTS if is_float(dtype) else WHOLE
    if c.op == "Erf" and not is_float(dtype):
        values = [MIN if whole(dtype).min < 0 else 30, 0, 30, MAX]
    c.take(values)
    if c.op == "Relu":
        c.expected = np.where(c.wide()[0] < 0, 0, c.wide()[0])
    elif not is_float(dtype):
        x = c.inputs[0]
        with np.errstate(all="ignore"):
            sign = np.sign(x).astype(dtype)
            c.expected = {"Abs": np.abs(x), "Sign": sign, "Neg": -x, "Erf": sign}[c.op]


@row("Shrink")
def shrink(c):
    c.take([-9, -3, -1.25, 0, 1, 2.5, 7], bias=1.0, lambd=1.5)
    x = c.wide()[0]
    # No unsigned number is below `-lambd`.
    c.expected = np.where(x > 1.5, x - x.dtype.type(1), np.where(x.astype(np.float64) < -1.5, x + x.dtype.type(1), 0)).astype(x.dtype)


@row("Gelu", "HardSwish", "Swish")
def composed(c):
    c.take([-4, -2.5, -1, 0, 0.5, 1, 3, 9])
    x = c.wide()[0]
    if c.op == "HardSwish":
        c.expected = x * np.clip(x / 6 + 0.5, 0, 1)


@row("SwiGLU")
def swiglu(c):
    c.take([[-2, 0.5, 3], [1, -1, 4]], [[1, 2, -3], [0.5, 4, 0]])


@row("PRelu")
def prelu(c):
    x, slope = [[-3, 2, MIN], [-1, MAX, 0]], [2, 3, 1]
    c.take(x, slope if c.version >= 7 else [2])
    x, slope = c.wide()
    if not is_float(c.dtype()):
        with np.errstate(all="ignore"):
            c.expected = np.where(x < 0, x * slope, x)


@row("Clip")
def clip(c):
    values = [MIN, 1, 3, 5, MAX]
    if c.version < 11:
        c.take(values, min=2.0, max=4.0)
        c.expected = np.clip(c.wide()[0], 2, 4)
    else:
        c.take(values, 2, 4)


LEFT = [MIN, -7, 7, 0, 1, MAX, 6, MIN]
RIGHT = [1, 2, -2, 5, MAX, MAX, 3, -1]
BROADCAST = ([[[3, -1], [2, 7]], [[0, 4], [5, 2]]], [2, -3])


def operands(c, left, right):
    """Takes two operands, and in old versions one that is broadcast along the axis 1."""
    if c.version < 7:
        c.take(*BROADCAST, broadcast=1, axis=1)
        a, b = c.wide()
        return a, b.reshape(2, 1)
    c.take(left, right)
    return c.wide()


def truncated(a, b):
    """Divides integers towards zero."""
    with np.errstate(all="ignore"):
        q = np.array([int(x) // int(y) if (int(x) < 0) == (int(y) < 0) else -(-int(x) // int(y)) for x, y in zip(a.reshape(-1), b.reshape(-1))], object)
    return np.array([as_type(v, a.dtype) for v in q], a.dtype).reshape(a.shape)


@row("Add", "Sub", "Mul", "Div")
def arithmetic(c):
    a, b = operands(c, LEFT, RIGHT)
    with np.errstate(all="ignore"):
        if c.op == "Div" and a.dtype.kind in "iu":
            c.expected = truncated(a, np.broadcast_to(b, a.shape))
        else:
            c.expected = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[c.op](a, b)


@row("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "And", "Or", "Xor")
def comparison(c):
    edge = [nan, inf] if is_float(c.dtype()) else [4, 0]
    a, b = operands(c, [MIN, 3, 0, MAX, 2, *edge], [MAX, 3, -1, MAX, 5, *edge])
    functions = {"Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal,
                 "Equal": np.equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
    c.expected = functions[c.op](a, b).astype(bool)


@row("Max", "Min", "Sum", "Mean")
def variadic(c):
    edge = [nan, 1] if is_float(c.dtype()) else [4, 0]
    lists = [[MIN, 1, -3, 5, *edge], [2, MAX, -2, 4, *edge[::-1]], [3, 3, -5, 4, 1, 1]]
    c.take(*lists)
    xs = c.wide()
    if c.op == "Max":
        c.expected = np.maximum(np.maximum(*xs[:2]), xs[2])
    elif c.op == "Min":
        c.expected = np.minimum(np.minimum(*xs[:2]), xs[2])
    else:
        c.take(*[[1, 2.5, -3, 4], [0.5, 3, -8, 2], [2, 2, 2, 0]])
        xs = c.wide()
        c.expected = sum(xs) / (3 if c.op == "Mean" else 1)


@row("BitShift")
def shift(c):
    c.take([MIN, -3, 5, MAX, 1, 9], [1, 2, 0, 3, 7, 1], direction="LEFT" if c.types["T"] in ("tensor(uint8)", "tensor(int16)", "tensor(uint32)", "tensor(int64)") else "RIGHT")


@row("Mod")
def modulo(c):
    if is_float(c.dtype()):
        a, b = c.take([-7.5, 7.5, 4, -4, 9], [2, -2, 3, 3, 9], fmod=1).wide()
        c.expected = np.fmod(a, b)
    else:
        a, b = c.take([MIN, -7, 7, -7, MAX, 5], [3, 2, -2, -3, 10, 5]).wide()
        c.expected = np.mod(a, b)


@row("Pow")
def power(c):
    if c.version < 7:
        c.take(*BROADCAST, broadcast=1, axis=1)
        a, b = c.wide()
        with np.errstate(all="ignore"):
            c.expected = np.power(a, b.reshape(2, 1))
        return
    exponents = dtype_of(c.type_of(c.formal(c.schema.inputs, 1)))
    c.take([1, -2, 3, 0, -5, 7, 2], [0, 3, 2, 1, 1, 0, 5])
    a, b = c.wide()
    if is_float(c.dtype()) or is_float(exponents):
        c.expected = np.trunc(np.power(a.astype(np.float64), b.astype(np.float64))).astype(np.int64) if whole(c.dtype()) else np.power(a, b.astype(np.float64))
    else:
        c.expected = np.array([as_type(int(x) ** int(y), c.dtype()) for x, y in zip(a, b)], c.dtype())


@row("Where")
def where(c):
    c.take([[1, 0], [0, 1]], [[MIN, 1], [2, MAX]], [3, 5])
    condition, a, b = c.inputs
    c.expected = np.where(condition, a, np.broadcast_to(b, a.shape)).astype(a.dtype)


@row("Cast", "CastLike")
def cast(c):
    """Numbers that both types have; `cast` and `bb-ir/tests/cast.rs` have the rest."""
    a, b = dtype_of(c.types["T1"]), dtype_of(c.types["T2"])
    values = [v for v in (0, 1, 2, 3, 4, 6) if all(holds(v, d) for d in (a, b))]
    x = np.array([str(v) for v in values], object) if a == object else array(values, c.types["T1"])
    wide = np.array(values, float)
    if b == object:
        real = not whole(a) and a.kind not in "bO"
        c.expected = np.array([str(float(v)) if real else str(bool(v)) if a.kind == "b" else str(v) for v in values], object)
    else:
        c.expected = wide.astype(b)
    if c.op == "Cast":
        to = c.types["T2"]
        c.inputs, c.attributes = [x], {"to": number_of(to) if c.version >= 6 else element(to).upper()}
    else:
        c.inputs = [x, np.zeros(0, b)]


def holds(v, dtype):
    """Tells whether a type has a whole number."""
    if dtype == object:
        return True
    return v in (0, 1) if dtype.kind == "b" else float(np.float64(v).astype(dtype)) == v
