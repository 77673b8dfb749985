"""Vectors of Cast: every pair of element types, with values out of range, halves, NaN and infinities.

NumPy converts compute types (`bb_ir::convert` says what it does out of range), ml_dtypes the small floats; ONNX's
evaluator gives the rest: 4- and 2-bit integers, strings, the rounding of float8e8m0.
"""
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
f.write()
