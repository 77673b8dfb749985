"""Vectors of what ONNX Runtime's optimiser and quantisers, and converters of other libraries' models, write in `com.microsoft`.

Expected values are ONNX Runtime's; where it has no kernel on the CPU, or its kernel is wrong, NumPy's by the definition.
"""
import numpy as np
import onnx
from family import Family, bfloat16

f = Family("exporters", opset=17)
rng = np.random.default_rng(5)
MS = {"com.microsoft": 1}
f32 = np.float32


def random(*shape, scale=1.0):
    return rng.normal(0, scale, shape).astype(f32)


def bytes_of(*shape, t=np.uint8):
    return rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, shape).astype(t)


def add(name, op, inputs, attributes=None, **how):
    how = {"expected": "ort", "relative": 1e-4, "absolute": 1e-5} | how
    f.add(name, f"com.microsoft::{op}", inputs, attributes=attributes, opsets=MS, **how)


def refused(name, op, inputs, attributes=None):
    f.add(name, f"com.microsoft::{op}", inputs, attributes=attributes, opsets=MS, fails=True)


# Words of texts.
PLAIN = {"mark": 0, "pad_value": "#", "mincharnum": 1}
for name, texts, attributes in [
    ("words", ["Hello World", "I love  it"], {"separators": [" "]}),
    ("words_marked", ["Hello World", "I love  it"], {"separators": [" "], "mark": 1}),
    ("rows", [["a b", "c"], ["d e f", ""]], {"separators": [" "], "mark": 1}),
    ("of_characters", ["abc", "é漢a"], {"separators": [""]}),
    ("of_characters_marked", ["abc", "é漢a", ""], {"tokenexp": ".", "mark": 1}),
    ("of_characters_and_lines", ["a\nb"], {"tokenexp": "."}),
    ("long_words", ["a bb ccc é漢"], {"separators": [" "], "mincharnum": 2}),
    ("long_matches", ["abcd xab"], {"tokenexp": "ab|bcd", "mincharnum": 3}),
    ("too_short", ["ab cd abc"], {"tokenexp": "[a-z]{2}", "mincharnum": 3}),
    ("longest", ["ab", "xab aab"], {"tokenexp": "a|ab"}),
    ("longest_of_lazy", ["aaa"], {"tokenexp": "a+?"}),
    ("between_longest", ["xaby"], {"separators": ["a|ab"]}),
    ("in_order", ["xaby"], {"separators": ["a", "ab"]}),
    ("between_several", ["a,b;c", "a,;b", ",;"], {"separators": [",", ";"]}),
    ("between_several_long", ["a,b cc;d"], {"separators": [",| ", ";"], "mincharnum": 2}),
    ("between_nothing", ["a1b22c"], {"separators": ["[0-9]*"]}),
    ("matches_or_nothing", ["a1b22c"], {"tokenexp": "[a-z]*"}),
    ("matches_of_nothing", ["a1b22c"], {"tokenexp": "x*"}),
    ("both_kinds", ["a b"], {"separators": [" "], "tokenexp": "a"}),
    ("nothing_is_left", [" ", ""], {"separators": [" "], "mark": 1}),
    ("nothing_is_left_of_rows", [[" "], [""]], {"separators": [" "]}),
    ("ascii_words", ["été naïve_1"], {"tokenexp": r"\w+"}),
    ("ascii_boundaries", ["été ab"], {"tokenexp": r"\bab\b"}),
    ("context_before", ["xab ab"], {"tokenexp": r"\bab"}),
    ("at_the_start", ["abab"], {"tokenexp": "^ab"}),
    ("between_starts", ["abab"], {"separators": ["^a"]}),
    ("no_line", ["ab\nab", "a\nb"], {"tokenexp": "^ab$"}),
    ("any_case", ["aXbxc"], {"separators": ["(?i)x"]}),
    ("letters_of_unicode", ["aЖ1é"], {"tokenexp": r"\pL+"}),
    ("dashes", ["a-b--c"], {"separators": ["[--]"]}),
    ("quoted", ["a.b|c&"], {"separators": [r"\Q.\E", "[|&&]"]}),
    ("other_filler", ["a b", "c"], {"separators": [" "], "pad_value": ""}),
]:
    add(f"tokens_{name}", "Tokenizer", {"x": np.array(texts, dtype=object)}, PLAIN | attributes)
for name, shape in [("texts", [0]), ("columns", [2, 0]), ("rows", [0, 2])]:
    add(f"tokens_of_no_{name}", "Tokenizer", {"x": np.zeros(shape, dtype=object)}, PLAIN | {"separators": [" "], "mark": 1})
one_text = {"x": np.array(["a b"], dtype=object)}
for name, attributes in [
    ("without_rule", {}), ("with_bad_pattern", {"tokenexp": "("}), ("with_empty_pattern", {"tokenexp": ""}), ("with_lookahead", {"tokenexp": "(?=a)"}),
    ("of_characters_too_long", {"tokenexp": ".", "mincharnum": 2}), ("of_no_length", {"separators": [" "], "mincharnum": 0}),
    ("with_unknown_attribute", {"separators": [" "], "stopwords": ["a"]}),
]:
    refused(f"tokens_{name}", "Tokenizer", one_text, PLAIN | attributes)
refused("tokens_of_three_dimensions", "Tokenizer", {"x": np.array([[["a"]]], dtype=object)}, PLAIN | {"separators": [" "]})
refused("tokens_of_a_scalar", "Tokenizer", {"x": np.array("a", dtype=object)}, PLAIN | {"separators": [" "]})

# Hashes.
for name, x in [("texts", np.array(["", "a", "ab", "abc", "abcd", "héllo wörld"], dtype=object)), ("i32", np.array([0, 1, -1, 2**31 - 1], np.int32)),
                ("u32", np.array([[0, 7], [9, 2**32 - 1]], np.uint32)), ("i64", np.array([0, -5, 2**62], np.int64)),
                ("u64", np.array([0, 2**64 - 1], np.uint64)), ("f32", random(2, 3)), ("f64", random(3).astype(np.float64))]:
    for attributes in [{"positive": 0}, {"positive": 1, "seed": 42}]:
        add(f"hash_{name}_{attributes['positive']}", "MurmurHash3", {"x": x}, attributes)
add("hash_by_default", "MurmurHash3", {"x": np.array(["feature"], dtype=object)})
refused("hash_of_truth", "MurmurHash3", {"x": np.array([True])})

# Distances.
a, b = random(4, 3), random(5, 3)
difference = a[:, None].astype(np.float64) - b[None]
ca, cb = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
cosine = lambda a, b: 1 - (a @ b.T) / (np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1))
for metric, expected in {
    "sqeuclidean": "ort", "euclidean": "ort", "cityblock": np.abs(difference).sum(-1), "manhattan": np.abs(difference).sum(-1),
    "chebyshev": np.abs(difference).max(-1), "minkowski": np.sqrt((difference**2).sum(-1)), "cosine": cosine(a, b), "correlation": cosine(ca, cb),
    "canberra": (np.abs(difference) / (np.abs(a)[:, None] + np.abs(b))).sum(-1),
    "braycurtis": np.abs(difference).sum(-1) / np.abs(a[:, None] + b).sum(-1),
}.items():
    expected = expected if isinstance(expected, str) else expected.astype(f32)
    add(f"distance_{metric}", "CDist", {"a": a, "b": b}, {"metric": metric}, expected=expected)
add("distance_f64", "CDist", {"a": a.astype(np.float64), "b": b.astype(np.float64)}, {"metric": "euclidean"})
whole = np.array([[0, 1, 2], [3, 1, 0]], f32)
for metric in ["hamming", "matching"]:
    add(f"distance_{metric}", "CDist", {"a": whole, "b": whole[:1]}, {"metric": metric}, expected=np.array([[0], [2 / 3]], f32))
add("distance_of_zeros", "CDist", {"a": np.array([[0, 1]], f32), "b": np.array([[0, 3]], f32)}, {"metric": "canberra"}, expected=np.array([[0.5]], f32))
# The difference of great numbers that are equal is 0.
add("distance_of_equal_rows", "CDist", {"a": np.array([[12345.679, 9876.543]], f32), "b": np.array([[12345.679, 9876.543]], f32)},
    {"metric": "euclidean"}, expected=np.zeros((1, 1), f32))
add("distance_to_none", "CDist", {"a": a, "b": np.zeros((0, 3), f32)}, {"metric": "euclidean"}, expected=np.zeros((4, 0), f32))
refused("distance_unknown", "CDist", {"a": a, "b": b}, {"metric": "mahalanobis"})
refused("distance_of_vectors", "CDist", {"a": a[0], "b": b}, {"metric": "euclidean"})

# Products and convolutions with a function.
x, w, bias = random(1, 4, 5, 5), random(6, 2, 3, 3), random(6)
for name, params in [("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.25]), ("Clip", [-0.5, 1.5]), ("HardSigmoid", [0.3, 0.4])]:
    attributes = {"activation": name, "group": 2, "pads": [1, 1, 1, 1]} | ({"activation_params": params} if params else {})
    add(f"fused_conv_{name.lower()}", "FusedConv", {"x": x, "w": w, "b": bias}, attributes)
add("fused_conv_plain", "FusedConv", {"x": x, "w": w, "b": bias}, {"group": 2})
add("fused_conv_sum", "FusedConv", {"x": x, "w": w, "b": bias, "z": random(1, 6, 3, 3)}, {"group": 2, "activation": "Relu"})
add("fused_conv_sum_without_bias", "FusedConv", {"x": x, "w": w, "b": None, "z": random(1, 6, 3, 3)}, {"group": 2, "activation": "Relu"})
add("fused_conv_strides", "FusedConv", {"x": x, "w": w}, {"group": 2, "activation": "Relu", "strides": [2, 2], "auto_pad": "SAME_UPPER"})
add("fused_conv_1d", "FusedConv", {"x": random(2, 3, 7), "w": random(4, 3, 3)}, {"activation": "Relu", "dilations": [2]})
refused("fused_conv_unknown", "FusedConv", {"x": x, "w": w}, {"group": 2, "activation": "Relu7"})
a, b, c = random(3, 4), random(4, 5), random(5)
parameters = {"Relu": {}, "Sigmoid": {}, "Tanh": {}, "Softplus": {}, "Softsign": {}, "LeakyRelu": {"activation_alpha": 0.2}, "Elu": {"activation_alpha": 0.7},
              "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4}, "ThresholdedRelu": {"activation_alpha": 0.6},
              "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.1}}
for name, attributes in parameters.items():
    add(f"fused_gemm_{name.lower()}", "FusedGemm", {"a": a, "b": b, "c": c}, {"activation": name} | attributes)
add("fused_gemm_turned", "FusedGemm", {"a": a.T.copy(), "b": b.T.copy(), "c": random(3, 1)},
    {"activation": "Relu", "transA": 1, "transB": 1, "alpha": 0.5, "beta": -2.0})
add("fused_gemm_without_sum", "FusedGemm", {"a": a, "b": b}, {"activation": "LeakyRelu", "activation_alpha": 0.01})
add("fused_gemm_i32", "FusedGemm", {"a": np.array([[1, -2]], np.int32), "b": np.array([[3], [4]], np.int32)}, {"activation": "Relu"},
    expected=np.array([[0]], np.int32))
refused("fused_gemm_unknown", "FusedGemm", {"a": a, "b": b}, {"activation": "Relu6"})
a, b = random(2, 3, 4), random(2, 4, 5)
product = a.astype(np.float64) @ b
add("matmul_activation_relu", "FusedMatMulActivation", {"a": a, "b": b}, {"activation": "Relu"}, expected=np.maximum(product, 0).astype(f32))
add("matmul_activation_elu", "FusedMatMulActivation", {"a": a, "b": np.swapaxes(b, 1, 2).copy()},
    {"activation": "Elu", "activation_alpha": 0.5, "transB": 1, "alpha": 2.0},
    expected=np.where(product > 0, 2 * product, 0.5 * np.expm1(2 * product)).astype(f32))
soft = np.exp(product) / np.exp(product).sum(1, keepdims=True)
add("matmul_activation_softmax", "FusedMatMulActivation", {"a": a, "b": b}, {"activation": "Softmax", "activation_axis": 1}, expected=soft.astype(f32))
add("transpose_matmul", "TransposeMatMul", {"a": random(2, 3, 4), "b": random(2, 3, 5)}, {"transA": 1, "alpha": 0.5})
add("transpose_matmul_both", "TransposeMatMul", {"a": random(3, 4), "b": random(5, 3)}, {"transA": 1, "transB": 1})

# Quantised operators. Where the quotient is half-way, rounding may go to either side, so that one step is allowed where products are involved.
for t in (np.uint8, np.int8):
    kind, zero = np.dtype(t).name, t(7)
    a, b = bytes_of(3, 4, t=t), bytes_of(4, 5, t=t)
    base = {"a": a, "as": f32(0.03), "az": zero, "b": b, "bs": f32(0.02), "bz": t(-3 if t == np.int8 else 3)}
    add(f"q_gemm_{kind}", "QGemm", base | {"c": None, "ys": f32(0.11), "yz": zero})
    add(f"q_gemm_to_float_{kind}", "QGemm", base | {"c": rng.integers(-900, 900, 5).astype(np.int32)}, {"alpha": 0.5})
    turned = base | {"a": a.T.copy(), "b": b.T.copy(), "c": rng.integers(-900, 900, (3, 5)).astype(np.int32), "ys": f32(0.17), "yz": zero}
    add(f"q_gemm_turned_{kind}", "QGemm", turned, {"transA": 1, "transB": 1, "alpha": 1.5})
    columns = base | {"bs": rng.uniform(0.01, 0.1, 5).astype(f32), "bz": np.zeros(5, t) if t == np.int8 else np.full(5, 128, t)}
    add(f"q_gemm_columns_{kind}", "QGemm", columns | {"c": rng.integers(-900, 900, 5).astype(np.int32), "ys": f32(0.19), "yz": zero})
    pair = {"c": rng.integers(0, 2, (2, 1)).astype(bool), "x": bytes_of(2, 3, t=t), "xs": f32(0.07), "xz": zero, "y": bytes_of(1, 3, t=t), "ys": f32(0.05),
            "yz": t(4), "zs": f32(0.061), "zz": t(9)}
    add(f"q_where_{kind}", "QLinearWhere", pair)
    x = bytes_of(2, 3, 4, t=t)
    numbers = (x.astype(np.float64) - float(zero)) * float(f32(0.07))
    for name, axes, keep in [("last", [2], 1), ("two", [0, -1], 0)]:
        mean = np.round(numbers.mean(tuple(axes), keepdims=bool(keep)).astype(f32) / f32(0.0313)) + 5
        add(f"q_mean_{name}_{kind}", "QLinearReduceMean", {"x": x, "xs": f32(0.07), "xz": zero, "ys": f32(0.0313), "yz": t(5)},
            {"axes": axes, "keepdims": keep}, expected=np.clip(mean, np.iinfo(t).min, np.iinfo(t).max).astype(t))
    x, w = bytes_of(1, 5, 6, 4, t=t), bytes_of(6, 2, 3, 3, t=np.int8)
    conv = {"x": x, "xs": f32(0.04), "xz": zero, "w": w, "ws": f32(0.01), "wz": np.int8(0), "ys": f32(0.37), "yz": zero}
    last = {"channels_last": 1, "group": 2, "pads": [1, 1, 1, 1]}
    add(f"q_conv_last_{kind}", "QLinearConv", conv, last)
    add(f"q_conv_last_filters_{kind}", "QLinearConv", conv | {"ws": rng.uniform(0.005, 0.02, 6).astype(f32), "wz": np.zeros(6, np.int8),
        "b": rng.integers(-500, 500, 6).astype(np.int32)}, last | {"strides": [2, 1]})
    add(f"q_conv_second_{kind}", "QLinearConv", conv | {"x": np.transpose(x, (0, 3, 1, 2)).copy()}, {"group": 2})
    add(f"pool_last_{kind}", "NhwcMaxPool", {"x": x}, {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]})
    add(f"pool_last_ceil_{kind}", "NhwcMaxPool", {"x": x}, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "dilations": [1, 2]})
ids, segments = rng.integers(0, 7, (2, 4)).astype(np.int32), rng.integers(0, 2, (2, 4)).astype(np.int32)
tables = {k: bytes_of(n, 6) for k, n in [("words", 7), ("places", 5), ("kinds", 2)]} | {"g": bytes_of(6), "b": bytes_of(6)}
scales = {k: f32(v) for k, v in [("s0", 0.02), ("s1", 0.01), ("s2", 0.03), ("s3", 0.015), ("s4", 0.005)]}
zeros = {f"z{i}": np.uint8(v) for i, v in enumerate([120, 130, 128, 100, 127])}
mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
add("q_embed", "QEmbedLayerNormalization", {"ids": ids, "segments": segments} | tables | {"mask": mask} | scales | zeros, {"epsilon": 1e-6}, outputs=2)
add("q_embed_without_mask", "QEmbedLayerNormalization", {"ids": ids, "segments": segments} | tables | {"mask": None} | scales | zeros, outputs=2)

# Weights of few bits.
def spread(x, block, axis, extent):
    return np.take(x, np.arange(extent) // block, axis=axis)


for bits in (4, 8):
    for given in (False, True):
        table, blocks = rng.integers(0, 1 << bits, (6, 40)), 3
        scale, point = rng.uniform(0.01, 0.1, (6, blocks)).astype(f32), rng.integers(0, 1 << bits, (6, blocks + 1))
        pack = lambda v: (v[:, ::2] | v[:, 1::2] << 4).astype(np.uint8) if bits == 4 else v.astype(np.uint8)
        used = point[:, :blocks] if given else np.full((6, blocks), 1 << (bits - 1))
        numbers = (table - spread(used, 16, 1, 40)) * spread(scale, 16, 1, 40).astype(np.float64)
        where = np.array([[0, 5], [-1, 2]], np.int64)
        inputs = {"t": pack(table), "i": where, "s": scale} | ({"z": pack(point) if bits == 4 else point[:, :blocks].astype(np.uint8)} if given else {})
        attributes = {"bits": bits, "block_size": 16, "quantize_axis": 1}
        add(f"gather_{bits}_bits_{'points' if given else 'plain'}", "GatherBlockQuantized", inputs, attributes, expected=numbers[where].astype(f32),
            constants=[k for k in inputs if k != "i"])
for name, ty, low in [("i4", onnx.TensorProto.INT4, -8), ("u4", onnx.TensorProto.UINT4, 0)]:
    table, scale = rng.integers(low, low + 16, (32, 3)), rng.uniform(0.01, 0.1, (2, 3)).astype(f32)
    point = rng.integers(low, low + 16, (2, 3))
    four = lambda v: onnx.helper.make_tensor("t", ty, v.shape, v.ravel())
    numbers = (table - spread(point, 16, 0, 32)) * spread(scale, 16, 0, 32).astype(np.float64)
    add(f"gather_{name}", "GatherBlockQuantized", {"t": four(table), "i": np.array([2, 0], np.int32), "s": scale, "z": four(point)},
        {"block_size": 16, "gather_axis": 1, "quantize_axis": 0}, expected=numbers[:, [2, 0]].astype(f32), constants=["t", "s", "z"])
    plain = table * spread(scale, 16, 0, 32).astype(np.float64)
    add(f"gather_{name}_along_blocks", "GatherBlockQuantized", {"t": four(table), "i": np.array(17, np.int32), "s": scale},
        {"block_size": 16, "gather_axis": 0, "quantize_axis": 0}, expected=plain[17].astype(f32), constants=["t", "s"])
inputs = {"t": rng.integers(0, 256, (4, 16)).astype(np.uint8), "i": np.array([1, 9, -9, -4], np.int64), "s": np.ones((4, 1), f32)}
expected = np.where(np.array([True, False, False, True])[:, None], inputs["t"][[1, 0, 0, 0]].astype(f32) - 128, 0)
add("gather_beyond_is_zero", "GatherBlockQuantized", inputs, {"bits": 8, "block_size": 16, "quantize_axis": 1}, expected=expected.astype(f32))
half = inputs | {"i": np.array([3], np.int64), "s": np.full((4, 1), 0.5, np.float16)}
add("gather_f16", "GatherBlockQuantized", half, {"bits": 8, "block_size": 16, "quantize_axis": 1},
    expected=((inputs["t"][[3]].astype(f32) - 128) * 0.5).astype(np.float16))
refused("gather_along_bytes", "GatherBlockQuantized", inputs, {"bits": 4, "block_size": 16, "gather_axis": 1, "quantize_axis": 0})
for kind in (0, 1):
    count, block = 5 * 32, 16
    inputs = {"a": random(3, 32), "b": rng.integers(0, 256, count // 2).astype(np.uint8), "s": rng.uniform(0.1, 1, count // block).astype(f32)}
    add(f"bnb4_{kind}", "MatMulBnb4", inputs, {"K": 32, "N": 5, "block_size": block, "quant_type": kind}, constants=["b", "s"])
add("bnb4_half_byte", "MatMulBnb4", {"a": random(2, 3), "b": rng.integers(0, 256, 5).astype(np.uint8), "s": np.ones(1, f32)},
    {"K": 3, "N": 3, "block_size": 16, "quant_type": 1}, expected="ort")

# Operators that ONNX has, too.
x = random(2, 4, 4) + 2 * np.eye(4, dtype=f32)
add("inverse", "Inverse", {"x": x}, relative=1e-3)
add("inverse_f64", "Inverse", {"x": random(5, 5).astype(np.float64)})
add("inverse_of_a_number", "Inverse", {"x": np.array([[4]], f32)})
add("inverse_exchanging", "Inverse", {"x": np.array([[0, 2, 0], [0, 0, 4], [1, 0, 0]], f32)})
add("inverse_of_none", "Inverse", {"x": np.zeros((0, 3, 3), f32)}, expected=np.zeros((0, 3, 3), f32))
refused("inverse_of_no_square", "Inverse", {"x": random(2, 3)})
for name, first, last, step in [("i32", np.int32(2), np.int32(9), np.int32(3)), ("f32", f32(1), f32(2), f32(0.25)), ("i64", np.int64(5), np.int64(0), np.int64(-2)),
                                ("f64", np.float64(0), np.float64(3), None), ("i16", np.int16(1), np.int16(4), None)]:
    add(f"range_{name}", "Range", {"a": first, "b": last, "c": step})
add("range_of_vectors", "Range", {"a": np.array([1], np.int64), "b": np.array([4], np.int64), "c": np.array([1], np.int64)})
for name, k, upper in [("upper", None, 1), ("lower", None, 0), ("upper_1", 1, 1), ("lower_1", -1, 0)]:
    add(f"trilu_{name}", "Trilu", {"x": random(2, 3, 4), "k": None if k is None else np.int64(k)}, {"upper": upper})
add("unique_f32", "Unique", {"x": np.array([2, 1, 1, 3, 4, 3], f32)}, outputs=3)
add("unique_i64", "Unique", {"x": np.array([5, -1, 5], np.int64)}, outputs=3, expected=[np.array([5, -1]), np.array([0, 1, 0]), np.array([2, 1])])
add("unique_text", "Unique", {"x": np.array(["b", "a", "b"], dtype=object)}, outputs=3,
    expected=[np.array(["b", "a"], dtype=object), np.array([0, 1, 0]), np.array([2, 1])])
add("expand_dims", "ExpandDims", {"x": random(2, 3), "axis": np.int32(-1)})
add("expand_dims_first", "ExpandDims", {"x": random(2, 3), "axis": np.int32(0)})
add("gather_nd", "GatherND", {"x": random(2, 3, 4), "i": np.array([[0, 1], [1, 2]], np.int64)})
image = random(1, 2, 4, 5)
grid = rng.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(f32)
for mode in ["bilinear", "nearest", "bicubic"]:
    # Beyond the image ONNX Runtime's cubic differs from ONNX's.
    add(f"grid_{mode}", "GridSample", {"x": image, "g": grid * f32(0.8)}, {"mode": mode, "padding_mode": "border", "align_corners": 1})
add("grid_by_default", "GridSample", {"x": image, "g": grid})
for mode, value in [("constant", f32(1.5)), ("constant", None), ("edge", None), ("reflect", None)]:
    add(f"pad_{mode}_{'value' if value else 'plain'}", "Pad", {"x": random(3, 4), "p": np.array([1, 2, 0, 1], np.int64), "v": value}, {"mode": mode})
add("pad_by_a_row", "Pad", {"x": random(3, 4), "p": np.array([[1, -1, 0, 1]], np.int64)}, {"mode": "constant"})
x, w = random(1, 2, 3, 4), random(2, 3, 3, 3)
for name, pads, extra in [("pads", [1, 0, 0, 1], {}), ("strides", [1, 1, 1, 1], {"strides": [2, 2], "output_padding": [1, 1]})]:
    add(f"conv_transpose_{name}", "ConvTransposeWithDynamicPads", {"x": x, "w": w, "p": np.array(pads, np.int64), "b": random(3)}, extra)
refused("conv_transpose_of_few_pads", "ConvTransposeWithDynamicPads", {"x": x, "w": w, "p": np.array([1, 1], np.int64)})
x, images = random(2, 3, 6, 7), np.array([0, 1, 1], np.int32)
boxes = np.array([[0.1, 0.2, 0.8, 0.7], [0, 0, 1, 1], [-0.3, 0.5, 0.6, 1.4]], f32)
for name, size, attributes in [("bilinear", [4, 5], {}), ("nearest", [3, 4], {"mode": "nearest"}), ("of_one", [1, 1], {"extrapolation_value": 7.0}),
                               ("beyond", [5, 3], {"extrapolation_value": -1.0, "mode": "bilinear"})]:
    add(f"crop_{name}", "CropAndResize", {"x": x, "r": boxes, "i": images, "s": np.array(size, np.int32)}, attributes)
refused("crop_of_unknown_mode", "CropAndResize", {"x": x, "r": boxes, "i": images, "s": np.array([2, 2], np.int32)}, {"mode": "cubic"})

# Halves: ONNX Runtime computes in f32 on the same numbers, and the results are rounded.
for t, tolerance in [(np.float16, 2e-3), (bfloat16, 2e-2)]:
    kind = np.dtype(t).name
    halves = lambda *shape: random(*shape).astype(t)
    exact = lambda v: v.astype(f32)
    how = {"relative": tolerance, "absolute": tolerance}
    x, w = halves(1, 2, 4, 4), halves(3, 2, 1, 1)
    y = np.einsum("nchw,mc->nmhw", exact(x), exact(w)[:, :, 0, 0])
    add(f"fused_conv_{kind}", "FusedConv", {"x": x, "w": w}, {"activation": "LeakyRelu", "activation_params": [0.5]},
        expected=np.where(y > 0, y, 0.5 * y).astype(t), **how)
    a, b = halves(3, 4), halves(4, 2)
    add(f"fused_gemm_{kind}", "FusedGemm", {"a": a, "b": b}, {"activation": "Sigmoid"}, expected=(1 / (1 + np.exp(-exact(a) @ exact(b)))).astype(t), **how)
    x = (random(3, 3) + 3 * np.eye(3, dtype=f32)).astype(t)
    add(f"inverse_{kind}", "Inverse", {"x": x}, expected=np.linalg.inv(x.astype(np.float64)).astype(t), **how)
# What is left out is one group, and no matrix that is transposed.
conv = {"x": bytes_of(1, 5, 6, 3), "xs": f32(0.04), "xz": np.uint8(7), "w": bytes_of(4, 3, 2, 2, t=np.int8), "ws": f32(0.01), "wz": np.int8(0), "ys": f32(0.37),
        "yz": np.uint8(9)}
add("q_conv_of_one_group", "QLinearConv", conv, {"channels_last": 1})
add("transpose_matmul_of_none", "TransposeMatMul", {"a": random(2, 4, 3), "b": random(2, 3, 5)})
f.write()
