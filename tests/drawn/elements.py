"""Draws elements of tensors: small numbers, special ones, and the extremes of each type."""
import ml_dtypes
import numpy as np
from onnx import TensorProto as T
from onnx import helper

TEXTS = ["", "a", "b", "A", "ab", "Ab c", " a ", "1", "2", "-1.5", "1e3", "nan", "inf", "é", "É", "ß", "漢字", "a,b", "a\nb", "\u0301e", "😀", "aa", "b a b"]


def numpy_type(number):
    """Returns the type of NumPy or `ml_dtypes` of an element type of ONNX."""
    return np.dtype(object) if number == T.STRING else np.dtype(helper.tensor_dtype_to_np_dtype(number))


def is_float(dtype):
    return dtype.kind == "f" or dtype.kind == "V" or dtype.name.startswith(("float", "bfloat"))


def is_int(dtype):
    return dtype.kind in "iu" or dtype.name in ("int2", "uint2", "int4", "uint4")


def limits(dtype):
    info = ml_dtypes.iinfo(dtype) if dtype.kind not in "iu" else np.iinfo(dtype)
    return int(info.min), int(info.max)


def cast(x, dtype):
    """Converts elements so that the result holds what it can of the numbers."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if dtype == object:
            return np.array([str(v) for v in x.reshape(-1)], object).reshape(x.shape)
        if x.dtype == object:
            return np.array([len(str(v)) % 4 for v in x.reshape(-1)]).astype(dtype).reshape(x.shape)
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = x.real
        if is_int(dtype):
            low, high = limits(dtype)
            if is_int(x.dtype):
                wide = x.astype(np.int64 if x.dtype != np.uint64 else np.uint64)
            else:
                wide = np.nan_to_num(np.asarray(x, np.float64), nan=0, posinf=100, neginf=-100)
                wide = np.clip(wide, -2.0**62, 2.0**62).astype(np.int64)
            if low == 0:
                wide = np.abs(wide) if wide.dtype != np.uint64 else wide
            return np.asarray(np.clip(wide, low, min(high, 2**63 - 1))).astype(dtype)
        if dtype == bool:
            return np.asarray(x, np.float64) != 0
        if x.dtype.kind == "c":
            return x.astype(dtype)
        return np.asarray(np.asarray(x, np.float64).astype(np.float32 if dtype != np.float64 and dtype.kind != "c" else np.float64)).astype(dtype)


def specials(dtype):
    """Returns numbers of a type of floats that are often forgotten."""
    info = ml_dtypes.finfo(dtype)
    least = float(info.smallest_subnormal) if hasattr(info, "smallest_subnormal") else float(info.tiny)
    return [0.0, -0.0, np.nan, np.inf, -np.inf, least, -least, float(info.tiny), -float(info.tiny), 1.0, -1.0]


def extremes(dtype):
    info = ml_dtypes.finfo(dtype)
    return [float(info.max), float(info.min), float(info.max) / 2, float(info.tiny), float(info.eps)]


KINDS = ["small", "small", "normal", "ties", "few", "equal", "positive", "special", "special", "zeros"]
WILD = KINDS + ["wide", "extreme", "bits"]


def draw(dice, dtype, shape, kind):
    """Draws elements; `kind` is one of `WILD`."""
    dtype, count = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
    if dtype == object:
        return np.array([dice.choice(TEXTS) for _ in range(count)], object).reshape(shape)
    if dtype == bool:
        return np.array([dice.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    if dtype.kind == "c":
        real = np.float32 if dtype.itemsize == 8 else np.float64
        parts = [draw(dice, real, shape, kind) for _ in range(2)]
        with np.errstate(all="ignore"):
            whole = np.empty(shape, dtype)
            whole.real, whole.imag = parts
        return whole
    if is_int(dtype):
        return integers(dice, dtype, count, kind).reshape(shape)
    bits = dtype.itemsize * 8
    if kind == "bits" and dtype.itemsize in (2, 4, 8) and dtype.kind in "fV":
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return np.array([dice.getrandbits(bits) for _ in range(count)], unsigned).view(dtype).reshape(shape)
    numbers = [floating(dice, dtype, kind) for _ in range(count)]
    if kind in ("few", "equal"):
        some = numbers[:1 if kind == "equal" else 3] or [0.0]
        numbers = [dice.choice(some) for _ in numbers]
    with np.errstate(all="ignore"):
        wide = np.array(numbers, np.float64)
        return (wide if dtype == np.float64 else wide.astype(np.float32)).astype(dtype).reshape(shape)


def floating(dice, dtype, kind):
    if kind in ("small", "few"):
        return float(dice.randint(-4, 4))
    if kind == "ties":
        return dice.randint(-5, 5) + 0.5
    if kind == "positive":
        return dice.choice([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 0.1])
    if kind == "zeros":
        return dice.choice([0.0, -0.0, 0.0, 1.0])
    if kind == "wide":
        most = {2: 4.0, 4: 37.0, 8: 300.0}.get(dtype.itemsize, 2.0)
        return dice.choice([-1, 1]) * dice.uniform(1, 9) * 10.0 ** dice.uniform(-most, most)
    if kind == "extreme" and dice.random() < 0.5:
        return dice.choice(extremes(dtype))
    if kind == "special" and dice.random() < 0.35:
        return dice.choice(specials(dtype))
    return dice.gauss(0, 1.5)


def integers(dice, dtype, count, kind):
    low, high = limits(dtype)
    if kind in ("extreme", "special"):
        some = [low, high, low + 1, high - 1, 0, 1, max(low, -1), high // 2]
        numbers = [dice.choice(some) for _ in range(count)]
    elif kind in ("wide", "bits"):
        numbers = [dice.randint(low, high) for _ in range(count)]
    elif kind == "zeros":
        numbers = [dice.choice([0, 0, 1]) for _ in range(count)]
    elif kind == "equal":
        numbers = [dice.randint(max(low, -4), min(high, 4))] * count
    elif kind == "positive":
        numbers = [dice.randint(1, min(high, 5)) for _ in range(count)]
    else:
        numbers = [dice.randint(max(low, -6), min(high, 6)) for _ in range(count)]
    wide = np.uint64 if high > 2**63 - 1 else np.int64
    return np.array(numbers, wide).astype(dtype)
