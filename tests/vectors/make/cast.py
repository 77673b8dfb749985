"""Vectors of Cast: every pair of element types, with values out of range, halves, NaN and infinities.

NumPy converts compute types (`bb_ir::convert` says what it does out of range), ml_dtypes the small floats; ONNX's
evaluator gives the rest: 4- and 2-bit integers, strings, the rounding of float8e8m0. Numbers near the middle of two short floats
are rounded by rational arithmetic, because ml_dtypes, ONNX's evaluator and ONNX Runtime round some of them twice.
"""
import bisect
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
from family import COMPUTE, FLOATS, INTS, Family, short
from onnx import TensorProto as T

f = Family("cast")
nan, inf = np.nan, np.inf
VALUES = [0, -0.0, 0.4, 0.5, -0.5, 1.5, -1.9, 2.5, 127, 128, -129, 255.5, 256, -1, 40000, 70000, -70000]
WILD = [3e9, -3e9, 5e9, 1e19, -1e19, 2e38, nan, inf, -inf]


def number(dtype):
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


with np.errstate(all="ignore"):
    for a in COMPUTE:
        if a == np.bool_:
            x = np.array([True, False])
        elif a in FLOATS:
            x = np.array(VALUES + WILD).astype(a)
        else:
            info = np.iinfo(a)
            x = np.array([0, 1, 2, 100, info.max, info.max - 1, info.min, info.min + 1], a)
        for b in COMPUTE:
            y = x.astype(b)
            if a in FLOATS and b in INTS:
                # Conversion instructions of x86-64: to the width that holds the type, then the low bits.
                wide = x.astype(np.float64)
                whole = np.trunc(np.where(np.isfinite(wide), wide, 0))
                bits, via = np.iinfo(b).bits, np.int32 if np.iinfo(b).bits <= 16 else np.int64
                if b == np.int32:
                    via = np.int32
                limits = np.iinfo(via)
                fits = np.isfinite(wide) & (whole >= limits.min) & (whole < float(limits.max) + 1)
                register = [int(v) if ok else limits.min for v, ok in zip(whole, fits)]
                if b != np.uint64:
                    y = np.array([v % 2**bits for v in register], np.uint64).astype(f"u{bits // 8}").view(b)
            f.add(f"{short(a)}_to_{short(b)}", "Cast", {"x": x}, attributes={"to": number(b)}, expected=y)
    SMALL = [(ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e4m3fnuz, 240), (ml_dtypes.float8_e5m2, 57344),
             (ml_dtypes.float8_e5m2fnuz, 57344)]
    for dtype, most in SMALL:
        x = np.array([0, 1, -1.5, 0.3, most, most * 1.02, most * 2, -1e6, nan, inf, -inf, 1e-9], np.float32)
        name = np.dtype(dtype).name.replace("_", "")
        clipped = np.where(np.isnan(x), x, np.clip(x, -most, most)).astype(np.float32)
        f.add(f"f32_to_{name}", "Cast", {"x": x}, attributes={"to": number(dtype)}, expected=clipped.astype(dtype))
        f.add(f"f32_to_{name}_unsaturated", "Cast", {"x": x}, attributes={"to": number(dtype), "saturate": 0},
              expected=x.astype(dtype))
        codes = np.arange(256, dtype=np.uint8).view(dtype)
        for to in (np.float32, np.float16, ml_dtypes.bfloat16):
            f.add(f"{name}_to_{short(to)}", "Cast", {"x": codes}, attributes={"to": number(to)}, expected=codes.astype(to))
x = np.array([1, 2.5, 3, 3.5, 0.3, 5, 100], np.float32)
for mode in ("up", "down", "nearest"):
    f.add(f"f32_to_float8e8m0_{mode}", "Cast", {"x": x}, attributes={"to": T.FLOAT8E8M0, "round_mode": mode})
x = np.array([0, 0.25, 0.75, 2.5, 5, 6, 100, -0.3, -7], np.float32)
f.add("f32_to_float4e2m1", "Cast", {"x": x}, attributes={"to": T.FLOAT4E2M1}, expected=np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn))
for to, dtype, low, high in [(T.INT4, ml_dtypes.int4, -8, 7), (T.UINT4, ml_dtypes.uint4, 0, 15), (T.INT2, ml_dtypes.int2, -2, 1), (T.UINT2, ml_dtypes.uint2, 0, 3)]:
    name = T.DataType.Name(to).lower()
    whole = np.arange(low, high + 1)
    for a in (np.float32, np.int32, np.int8 if low else np.uint8):
        f.add(f"{short(a)}_to_{name}", "Cast", {"x": whole.astype(a)}, attributes={"to": to}, expected=whole.astype(dtype))
        f.add(f"{name}_to_{short(a)}", "Cast", {"x": whole.astype(dtype)}, attributes={"to": number(a)}, expected=whole.astype(a))
    f.add(f"{name}_to_bool", "Cast", {"x": whole.astype(dtype)}, attributes={"to": T.BOOL}, expected=whole != 0)
text = np.array(["1", "-2.5", "1e3", "NaN", "-INF", "inf", "0"], object)
f.add("string_to_f32", "Cast", {"x": text}, attributes={"to": T.FLOAT}, expected=np.array([1, -2.5, 1000, nan, -inf, inf, 0], np.float32))
f.add("string_to_i64", "Cast", {"x": np.array(["-7", "9223372036854775807"], object)}, attributes={"to": T.INT64}, expected=np.array([-7, 2**63 - 1]))
f.add("string_that_is_no_number", "Cast", {"x": np.array(["seven"], object)}, attributes={"to": T.FLOAT}, fails=True)
f.add("i64_to_string", "Cast", {"x": np.array([-7, 0, 2**63 - 1])}, attributes={"to": T.STRING}, expected=np.array(["-7", "0", str(2**63 - 1)], object))
f.add("f32_to_string", "Cast", {"x": np.array([0, 1.5, -2.25, nan, inf], np.float32)}, attributes={"to": T.STRING})
f.add("cast_like", "CastLike", {"x": np.array([1.5, -1.5], np.float32), "y": np.zeros(0, np.int8)}, expected=np.array([1, -1], np.int8))
f.add("cast_of_nothing", "Cast", {"x": np.zeros((0, 3), np.float16)}, attributes={"to": T.INT32}, expected=np.zeros((0, 3), np.int32))
f.add("cast_rank_0", "Cast", {"x": np.float64(2.75)}, attributes={"to": T.UINT8}, expected=np.uint8(2))


def floats(dtype):
    """The finite floats of a type that are not negative, as numbers in ascending order."""
    codes = np.arange(2 ** (8 * np.dtype(dtype).itemsize - 1)).astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    return [Fraction(float(v)) for v in codes.astype(np.float64) if np.isfinite(v)]


def nearest(numbers, dtype, most=None):
    """Rounds each number once, from the middle to the even code; `most` is what overflows, infinity by default."""
    all, out = floats(dtype), []
    beyond = 2 * all[-1] - all[-2]
    for x in numbers:
        size = abs(Fraction(x))
        at = bisect.bisect_right(all, size) - 1
        above = all[at + 1] if at + 1 < len(all) else beyond
        code = at + (size - all[at] > above - size or size - all[at] == above - size and at % 2)
        value = float(all[code]) if code < len(all) else float("inf") if most is None else most
        out.append(-value if x < 0 else value)
    return np.array(out, np.float64).astype(dtype)


def middles(dtype, count=24):
    """Some numbers in the middle of two neighbours: of the least, near 1, near the greatest, and some between."""
    all = floats(dtype)
    at = sorted({0, 1, 2, 3, bisect.bisect_left(all, 1), bisect.bisect_left(all, 1) + 1, len(all) - 2, *np.linspace(4, len(all) - 3, count).astype(int)})
    return [(all[i] + all[i + 1]) / 2 for i in at] + [all[-1] + (all[-1] - all[-2]) / 2]


SHORT = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
for dtype in SHORT:
    name = short(dtype) if np.dtype(dtype).itemsize == 2 else np.dtype(dtype).name.replace("_", "")
    most = None if np.dtype(dtype).itemsize == 2 else float(floats(dtype)[-1])
    exact = [float(m) for m in middles(dtype)]
    x = np.array([v * sign for m in exact for v in (np.nextafter(m, 0), m, np.nextafter(m, np.inf), m * (1 - 2**-30), m * (1 + 2**-30)) for sign in (1, -1)])
    y = nearest([Fraction(v) for v in x], dtype, most)
    f.add(f"f64_to_{name}_near_middles", "Cast", {"x": x}, attributes={"to": number(dtype)}, expected=y)
    f.add(f"f64_like_{name}_near_middles", "CastLike", {"x": x, "y": np.zeros(0, dtype)}, expected=y)
    nodes = [onnx.helper.make_node("Mul", ["x", "two"], ["d"]), onnx.helper.make_node("Cast", ["d"], ["y"], to=number(dtype))]
    f.add(f"f64_to_{name}_in_a_chain", nodes, {"x": x / 2}, outputs=["y"], constants={"two": np.float64(2)}, expected=nearest([Fraction(v) for v in x], dtype, most))
    texts, numbers = [], []
    for m in middles(dtype):
        digits = str((m.numerator * 10**160) // m.denominator).rjust(161, "0")
        plain = f"{digits[:-160]}.{digits[-160:].rstrip('0')}"
        for text in (plain, plain + "0" * 30 + "1", "-" + plain + "1"):
            texts.append(text)
            numbers.append(Fraction(text))
    f.add(f"string_to_{name}_near_middles", "Cast", {"x": np.array(texts, object)}, attributes={"to": number(dtype)}, expected=nearest(numbers, dtype, most))
for t in (np.int32, np.int64, np.uint32, np.uint64):
    bits = np.iinfo(t).bits - (np.dtype(t).kind == "i")
    x = np.array([v for e in range(1, bits - 8) for m in (129, 200, 255) for v in ((2 * m + 1 << e) + d for d in (-1, 0, 1)) if v < 2**bits], object)
    x = np.concatenate([x, [-v for v in x] if np.dtype(t).kind == "i" else x[:0]])
    f.add(f"{short(t)}_to_bf16_near_middles", "Cast", {"x": x.astype(t)}, attributes={"to": T.BFLOAT16}, expected=nearest([Fraction(int(v)) for v in x], ml_dtypes.bfloat16))
# The nearest float32 counts, in ONNX's evaluator as in ONNX Runtime.
x = np.array([1, np.nextafter(1, 2), np.nextafter(2, 0), np.nextafter(1.5, 0), 1.5, np.nextafter(3, 0)])
for mode in ("up", "down", "nearest"):
    f.add(f"f64_to_float8e8m0_{mode}", "Cast", {"x": x}, attributes={"to": T.FLOAT8E8M0, "round_mode": mode})
f.write()
