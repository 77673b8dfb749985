"""Vectors of QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: per tensor, per axis, blocked, every type.

The definition, by NumPy and ml_dtypes: to integers `saturate(round_half_even(x / scale) + zero_point)`, to floats the
quotient cast with the rule of `saturate`; back, `(x - zero_point) * scale`.
"""
import ml_dtypes
import numpy as np
from family import Family
from onnx import TensorProto as T

f = Family("quantization", opset=25)
WIDE = [np.uint8, np.int8, np.uint16, np.int16]
NARROW = {"uint4": (ml_dtypes.uint4, 0, 15), "int4": (ml_dtypes.int4, -8, 7), "uint2": (ml_dtypes.uint2, 0, 3), "int2": (ml_dtypes.int2, -2, 1)}
SMALL = {
    "float8e4m3fn": (ml_dtypes.float8_e4m3fn, 448.0), "float8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 240.0),
    "float8e5m2": (ml_dtypes.float8_e5m2, 57344.0), "float8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 57344.0),
}
rng = np.random.default_rng(11)


def integers(x, scale, zero, low, high):
    return np.clip(np.rint(x.astype(np.float32) / scale.astype(np.float32)) + zero.astype(np.float32), low, high)


def along(v, axis, rank):
    return v.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


x = np.array([0, 0.5, 1, 1.5, 2.5, -0.5, -1.5, -2.5, 100, -100, 1e9, -1e9, np.inf, -np.inf, 3.49, 3.51], np.float32)
for dtype in WIDE:
    info, name = np.iinfo(dtype), np.dtype(dtype).name
    zero = np.array(3 if info.min else 130, dtype)
    for scale in (np.float32(1), np.float32(0.3)):
        y = integers(x, scale, zero, info.min, info.max).astype(dtype)
        f.add(f"quantize_{name}_{scale:.1f}", "QuantizeLinear", {"x": x, "s": scale, "z": zero}, expected=y)
    y = np.array([info.min, info.min + 1, 0, 1, 77, info.max], dtype)
    f.add(f"dequantize_{name}", "DequantizeLinear", {"x": y, "s": np.float32(0.25), "z": zero},
          expected=(y.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * np.float32(0.25))
    for axis in (0, 1, -1):
        m = rng.uniform(-40, 40, (2, 3, 4)).astype(np.float32)
        n = m.shape[axis]
        scale = np.array([0.5, 0.125, 2, 0.75][:n], np.float32)
        zeros = np.array([1, 7, 0, 5][:n], dtype)
        s, z = along(scale, axis, 3), along(zeros, axis, 3)
        f.add(f"quantize_{name}_axis_{axis}", "QuantizeLinear", {"x": m, "s": scale, "z": zeros}, attributes={"axis": axis},
              expected=integers(m, s, z, info.min, info.max).astype(dtype))
        q = rng.integers(0, 100, (2, 3, 4)).astype(dtype)
        f.add(f"dequantize_{name}_axis_{axis}", "DequantizeLinear", {"x": q, "s": scale, "z": zeros}, attributes={"axis": axis},
              expected=((q.astype(np.int32) - z.astype(np.int32)).astype(np.float32) * s).astype(np.float32))
for name, (dtype, low, high) in NARROW.items():
    zero = np.array(1, dtype)
    y = integers(x, np.float32(1), np.float32(1), low, high).astype(dtype)
    f.add(f"quantize_{name}", "QuantizeLinear", {"x": x, "s": np.float32(1), "z": zero}, expected=y)
    codes = np.arange(low, high + 1).astype(dtype)
    f.add(f"dequantize_{name}", "DequantizeLinear", {"x": codes, "s": np.float32(0.5), "z": zero},
          expected=((np.arange(low, high + 1) - 1) * 0.5).astype(np.float32))
    # Blocks of two along the last axis; an odd number of elements ends within a byte.
    m = rng.uniform(-9, 9, (3, 4)).astype(np.float32)
    scale = np.array([[0.5, 1], [2, 0.25], [1, 4]], np.float32)
    f.add(f"quantize_{name}_blocked", "QuantizeLinear", {"x": m, "s": scale, "z": np.zeros((3, 2), dtype)},
          attributes={"axis": 1, "block_size": 2},
          expected=integers(m, np.repeat(scale, 2, 1), np.float32(0), low, high).astype(dtype))
    q = rng.integers(low, high + 1, (3, 4))
    f.add(f"dequantize_{name}_blocked", "DequantizeLinear", {"x": q.astype(dtype), "s": scale}, attributes={"axis": 1, "block_size": 2},
          expected=(q * np.repeat(scale, 2, 1)).astype(np.float32))
    f.add(f"dequantize_{name}_odd", "DequantizeLinear", {"x": codes[:3], "s": np.float32(2)},
          expected=(np.arange(low, low + 3) * 2).astype(np.float32))
for name, (dtype, most) in SMALL.items():
    v = np.array([0, -0.25, 1, 1.5, 17, most, most * 1.01, most * 4, -most * 4, np.inf, -np.inf, np.nan], np.float32)
    zero = np.array(0, dtype)
    for saturate in (1, 0):
        f.add(f"quantize_{name}_saturate_{saturate}", "QuantizeLinear", {"x": v * 2, "s": np.float32(2), "z": zero},
              attributes={"saturate": saturate},
              expected=(np.where(np.isnan(v), v, np.clip(v, -most, most)) if saturate else v).astype(dtype))
    codes = np.arange(0, 256, 5).astype(np.uint8).view(dtype)
    f.add(f"dequantize_{name}", "DequantizeLinear", {"x": codes, "s": np.float32(0.5)},
          expected=codes.astype(np.float32) * np.float32(0.5))
codes = np.arange(16).astype(np.uint8).view(ml_dtypes.float4_e2m1fn)
f.add("dequantize_float4e2m1", "DequantizeLinear", {"x": codes, "s": np.float32(2)}, expected=codes.astype(np.float32) * 2)
v = np.array([0, 0.2, 0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 7, -0.3, -6, -50, 1, -1], np.float32)
f.add("quantize_float4e2m1", "QuantizeLinear", {"x": v, "s": np.float32(1), "z": np.array(0, ml_dtypes.float4_e2m1fn)},
      expected=np.clip(v, -6, 6).astype(ml_dtypes.float4_e2m1fn))
f.add("quantize_of_nothing", "QuantizeLinear", {"x": np.zeros((0, 2), np.float32), "s": np.float32(1), "z": np.array(0, np.int8)},
      expected=np.zeros((0, 2), np.int8))
f.add("quantize_without_zero_point", "QuantizeLinear", {"x": x, "s": np.float32(1)},
      expected=integers(x, np.float32(1), np.float32(0), 0, 255).astype(np.uint8))
f.add("quantize_to_output_dtype", "QuantizeLinear", {"x": x, "s": np.float32(1)}, attributes={"output_dtype": T.INT16},
      expected=integers(x, np.float32(1), np.float32(0), -32768, 32767).astype(np.int16))
f.add("quantize_f16", "QuantizeLinear", {"x": x[:8].astype(np.float16), "s": np.float16(0.5), "z": np.array(5, np.int8)},
      expected=integers(x[:8], np.float32(0.5), np.float32(5), -128, 127).astype(np.int8))
f.add("dequantize_to_f16", "DequantizeLinear", {"x": np.array([0, 1, 200], np.uint8), "s": np.float16(0.5), "z": np.array(100, np.uint8)},
      expected=np.array([-50, -49.5, 50], np.float16))
f.add("dequantize_int32", "DequantizeLinear", {"x": np.array([-(2**31), -1, 0, 70000, 2**31 - 1], np.int32), "s": np.float32(0.5)},
      expected=(np.array([-(2**31), -1, 0, 70000, 2**31 - 1], np.float64) * 0.5).astype(np.float32))
for i, v in enumerate([np.array([-1, 0, 2, 5.5], np.float32), np.array([[3, 4], [5, 6]], np.float32), np.array([-9, -1], np.float32)]):
    low, high = min(v.min(), 0), max(v.max(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
    f.add(f"dynamic_quantize_{i}", "DynamicQuantizeLinear", {"x": v}, outputs=3,
          expected=[np.clip(np.rint(v / scale) + zero, 0, 255).astype(np.uint8), scale, zero])
f.write()
