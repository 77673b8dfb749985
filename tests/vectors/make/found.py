"""Vectors of what drawn models found (`tests/drawn`): defaults of attributes, middles of windows, positions of maxima, vectors among
quantised operands, types of scales, operands of no extent.

The definitions in NumPy decide, and ONNX Runtime where the operator is its own.
"""
import numpy as np
from family import Family
from onnx import TensorProto, helper

f = Family("found", opset=22)
rng = np.random.default_rng(41)
node = helper.make_node
nan, inf = np.nan, np.inf
single = lambda x: float(np.float32(x))

# Defaults are floats of 32 bits, as if the model had them: results in `f64` show their last digits.
x = np.array([-2.5, -1, -0.3, 0, 0.7, 3])
f.add("hard_sigmoid_defaults_f64", "HardSigmoid", {"x": x}, expected=np.clip(x * single(0.2) + 0.5, 0, 1), relative=1e-15, absolute=0)
f.add("leaky_relu_default_f64", "LeakyRelu", {"x": x}, expected=np.where(x < 0, x * single(0.01), x), relative=1e-15, absolute=0)
f.add("leaky_relu_written_default_f64", "LeakyRelu", {"x": x}, attributes={"alpha": 0.01}, expected=np.where(x < 0, x * single(0.01), x), relative=1e-15,
      absolute=0)
f.add("selu_1_defaults_f64", "Selu", {"x": x}, opset=1, expected=np.where(x > 0, single(1.0507) * x, single(1.0507) * single(1.6732) * np.expm1(x)),
      relative=1e-14, absolute=0)
image = rng.standard_normal((2, 3, 2, 2))
squares = np.stack([(image[:, max(c - 1, 0):c + 2] ** 2).sum(1) for c in range(3)], 1)
f.add("lrn_defaults_f64", "LRN", {"x": image}, attributes={"size": 3}, expected=image / (1 + single(1e-4) / 3 * squares) ** single(0.75), relative=1e-14,
      absolute=0)
moments = {name: rng.uniform(0.5, 2, 3) for name in ["scale", "bias", "mean", "var"]}
s, b, m, v = (p.reshape(3, 1, 1) for p in moments.values())
f.add("batch_normalization_defaults_f64", "BatchNormalization", {"x": image} | moments, expected=(image - m) / np.sqrt(v + single(1e-5)) * s + b,
      relative=1e-13, absolute=1e-15)

# The middle of a window is 1, and the ends of two of them are 0.
for name in ["Hann", "Hamming", "Blackman"]:
    for periodic, size in [(1, 10), (0, 9)]:
        expected = np.zeros(size, np.int32)
        expected[size // 2] = 1
        f.add(f"{name.lower()}_middle_{'periodic' if periodic else 'symmetric'}", f"{name}Window", {"n": np.array(size)}, attributes={
            "output_datatype": TensorProto.INT32, "periodic": periodic}, constants=["n"], expected=expected)

# Where the maxima are: NaN is one, and padding has none.
x = np.array([[[1, nan, 2, 5, nan, nan, 3, 4]]], np.float32)
f.add("max_pool_positions_of_nan", "MaxPool", {"x": x}, attributes={"kernel_shape": [2], "strides": [2]}, outputs=2,
      expected=[np.array([[[nan, 5, nan, 4]]], np.float32), np.array([[[1, 3, 4, 7]]])])
x = np.arange(1, 9, dtype=np.float32).reshape(1, 2, 4)
f.add("max_pool_positions_of_padding", "MaxPool", {"x": x}, attributes={"kernel_shape": [2], "strides": [2], "pads": [2, 0]}, outputs=2,
      expected=[np.array([[[-inf, 2, 4], [-inf, 6, 8]]], np.float32), np.array([[[-1, 1, 3], [-1, 5, 7]]])])


# Of equal maxima the first in the order of rows counts, also where positions are those of columns.
x = np.array([[[[-2, 2], [2, -2], [0, 1]]]], np.float32)
for order, place in [(0, 1), (1, 3)]:
    f.add(f"max_pool_positions_of_ties_in_order_{order}", "MaxPool", {"x": x}, attributes={"kernel_shape": [2, 2], "storage_order": order}, outputs=2,
          expected=[np.array([[[[2], [2]]]], np.float32), np.array([[[[place], [[2, 1][order]]]]])])
x = rng.standard_normal((2, 2, 3, 4, 5)).astype(np.float32)
flat = x.reshape(2, 2, -1).argmax(-1)
a, b, c = np.unravel_index(flat, (3, 4, 5))
offsets = 60 * np.arange(4).reshape(2, 2)
f.add("max_pool_positions_by_columns_of_3_dimensions", "MaxPool", {"x": x}, attributes={"kernel_shape": [3, 4, 5], "storage_order": 1}, outputs=2,
      expected=[x.max((2, 3, 4), keepdims=True), (a + 3 * b + 12 * c + offsets).reshape(2, 2, 1, 1, 1)])

# A power of an integer that no integer is, is the least one, also among constants.
x = np.array([-8, 2, 3, 10, -1, 5], np.int32)
y = np.array([0.5, 31, 2, 40, nan, -1], np.float32)
f.add("pow_of_i32_by_floats", "Pow", {"x": x, "y": y}, expected=np.array([-2**31, -2**31, 9, -2**31, -2**31, 0], np.int32))
f.add("pow_of_i64_by_floats", "Pow", {"x": x.astype(np.int64), "y": y}, expected=np.array([-2**63, 2**31, 9, -2**63, -2**63, 0]))

# The mean of equal numbers is that number.
x = np.full((2, 3, 8), -2.7140472, np.float32)
operands = {"x": x, "s": np.ones(3, np.float32), "b": np.array([1, 2, 3], np.float32), "m": np.zeros(3, np.float32), "v": np.ones(3, np.float32)}
f.add("batch_normalization_trains_equal_numbers", "BatchNormalization", operands, attributes={"training_mode": 1}, outputs=["y"], opset=15,
      expected=np.tile(np.array([1, 2, 3], np.float32)[:, None], (2, 1, 8)), relative=1e-6, absolute=0)

# A vector has no rows for scales of one element to be for.
def quantised(a, b, a_zero, b_zero, scale, y_zero):
    product = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)
    return np.clip(np.round(product * scale) + y_zero, 0, 255).astype(np.uint8)


one = lambda value, t=np.float32: np.array([value], t)
for name, left, right in [("vector_by_matrix", (4,), (4, 3)), ("matrix_by_vector", (3, 4), (4,)), ("vector_by_vector", (4,), (4,)), ("matrices", (2, 4), (4, 3))]:
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in (left, right))
    operands = {"a": a, "as": one(0.5), "az": one(3, np.uint8), "b": b, "bs": one(0.25), "bz": one(7, np.uint8), "ys": one(512), "yz": one(9, np.uint8)}
    f.add(f"qlinear_{name}_of_one_scale", "QLinearMatMul", operands, expected=quantised(a, b, 3, 7, 0.5 * 0.25 / 512, 9))

# `softmax_precision` of 16 bits takes no digits from operands of 32 bits.
q, k, v = (rng.standard_normal((1, 2, 3, 4)) for _ in range(3))
scores = q @ k.transpose(0, 1, 3, 2) * 0.5
weights = np.exp(scores - scores.max(-1, keepdims=True))
attended = weights / weights.sum(-1, keepdims=True) @ v
for name, to in [("f16", TensorProto.FLOAT16), ("bf16", TensorProto.BFLOAT16)]:
    operands = {"q": q.astype(np.float32), "k": k.astype(np.float32), "v": v.astype(np.float32)}
    f.add(f"attention_with_softmax_in_{name}", "Attention", operands, attributes={"softmax_precision": to}, opset=23, expected=attended.astype(np.float32),
          relative=1e-5, absolute=1e-6)

# What is dropped is multiplied by 0.
x = np.full(12, nan, np.float32)
f.add("dropout_of_nan", "Dropout", {"x": x, "r": np.array(0.5, np.float32), "t": np.array(True)}, attributes={"seed": 3}, constants=["r", "t"], expected=x)

# Without steps the state stays, and without bins there is nothing.
state = rng.standard_normal((2, 3, 4)).astype(np.float32)
filters = rng.standard_normal((3, 1, 3)).astype(np.float32)
f.add("causal_conv_without_steps", "com.microsoft::CausalConvWithState", {"x": np.zeros((2, 3, 0), np.float32), "w": filters, "b": None, "past": state},
      attributes={"dilation": 2}, outputs=2, opsets={"com.microsoft": 1}, expected="ort")
f.add("roi_align_without_bins", "RoiAlign", {"x": np.ones((1, 2, 4, 4), np.float32), "r": np.ones((3, 4), np.float32), "i": np.zeros(3, np.int64)},
      attributes={"output_height": 5, "output_width": 0}, expected=np.zeros((3, 2, 5, 0), np.float32))

# A channel without further dimensions is one element, and not all of them.
x = rng.standard_normal((3, 4)).astype(np.float32)
for op, expected in [("GlobalAveragePool", x), ("GlobalMaxPool", x), ("GlobalLpPool", np.abs(x))]:
    f.add(f"{op.lower()}_of_rank_2", op, {"x": x}, expected=expected)
    f.add(f"{op.lower()}_refuses_rank_1", op, {"x": x[0]}, fails=True)
bias = rng.standard_normal(4).astype(np.float32)
f.add("instance_normalization_of_rank_2", "InstanceNormalization", {"x": x, "s": np.ones(4, np.float32), "b": bias}, expected=np.tile(bias, (3, 1)), absolute=1e-6)
f.add("instance_normalization_refuses_rank_1", "InstanceNormalization", {"x": x[0], "s": np.ones(4, np.float32), "b": bias}, fails=True)

# Scales of experts may be `f32` beside tokens of 16 bits.
tokens, size, inner, experts = 1, 16, 16, 4
for bits in [4, 8]:
    width = size * bits // 8
    q1, q2 = (rng.integers(0, 256, (experts, inner, width)).astype(np.uint8) for _ in range(2))
    s1, s2 = (rng.uniform(0.01, 0.05, (experts, inner)).astype(np.float32) for _ in range(2))
    operands = {"x": rng.standard_normal((tokens, size)).astype(np.float16), "router": rng.standard_normal((tokens, experts)).astype(np.float16),
                "q1": q1, "s1": s1, "b1": None, "q2": q2, "s2": s2}
    f.add(f"q_moe_{bits}_bits_of_two_types", "com.microsoft::QMoE", operands, attributes={"activation_type": "relu", "expert_weight_bits": bits, "k": 2},
          opsets={"com.microsoft": 1}, expected="ort", relative=1e-2, absolute=1e-2)

# ONNX Runtime ignores a decay and an update rate that the rule does not read; ONNX excludes them.
q, k, v = (rng.standard_normal((1, 3, 4)).astype(np.float32) for _ in range(3))
operands = {"q": q, "k": k, "v": v, "past": None, "decay": -np.ones((1, 3, 2), np.float32), "rate": np.ones((1, 3, 2), np.float32)}
attributes = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
f.add("linear_attention_ignores_a_decay", "com.microsoft::LinearAttention", operands, attributes=attributes, outputs=2, opsets={"com.microsoft": 1}, expected="ort",
      relative=1e-5, absolute=1e-6)
f.add("linear_attention_refuses_a_decay", "LinearAttention", operands, attributes=attributes, outputs=2, opset=27, fails=True)

# Lengths beyond the steps would reach into other sequences.
x = np.arange(12, dtype=np.float32).reshape(3, 4)
for name, lengths in [("negative", [1, -1, 4]), ("great", [5, 1, 4])]:
    f.add(f"reverse_sequence_refuses_a_{name}_length", "ReverseSequence", {"x": x, "l": np.array(lengths)}, attributes={"batch_axis": 0, "time_axis": 1}, fails=True)
f.add("reverse_sequence_of_lengths_0_to_4", "ReverseSequence", {"x": x, "l": np.array([0, 3, 4])}, attributes={"batch_axis": 0, "time_axis": 1},
      expected=np.array([[0, 1, 2, 3], [6, 5, 4, 7], [11, 10, 9, 8]], np.float32))
f.add("gemm_refuses_more_rows_than_its_product_has", "Gemm", {"a": np.ones((1, 3), np.float32), "b": np.ones((3, 4), np.float32), "c": np.ones((8, 1), np.float32)},
      fails=True)
grams = {"max_gram_length": 2, "min_gram_length": 1, "mode": "TF", "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [2, 3, 5, 4], "max_skip_count": -1}
f.add("ngrams_refuse_a_negative_skip", "TfIdfVectorizer", {"x": np.array([2, 3, 5], np.int32)}, attributes=grams, fails=True)
f.add("reduce_prod_refuses_an_axis_twice", "ReduceProd", {"x": np.ones((1, 1), np.int32)}, attributes={"axes": [-1, -1]}, opset=11, fails=True)

# Without a cache, each query reaches as many keys as there are queries up to it, however many keys there are.
microsoft = {"opsets": {"com.microsoft": 1}, "expected": "ort", "relative": 1e-4, "absolute": 1e-6}
for keys in [3, 5, 6]:
    q, k, v = (rng.standard_normal((2, n, 6)).astype(np.float32) for n in [4, keys, keys])
    heads = [x.astype(np.float64).reshape(2, -1, 2, 3).transpose(0, 2, 1, 3) for x in (q, k, v)]
    products = np.where(np.tri(4, keys, dtype=bool), heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.sqrt(3), -inf)
    weights = np.exp(products - products.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ heads[2]).transpose(0, 2, 1, 3).reshape(2, 4, 6).astype(np.float32)
    f.add(f"mha_causal_with_{keys}_keys_of_4_queries", "com.microsoft::MultiHeadAttention", {"q": q, "k": k, "v": v},
          attributes={"num_heads": 2, "unidirectional": 1}, **(microsoft | {"expected": expected}))

# A cache may have another type of floats than the queries.
q, k, v = (rng.standard_normal((2, 1, heads * 16)).astype(np.float32) for heads in [4, 2, 2])
past = [rng.standard_normal((2, 2, 4, 16)).astype(np.float16) for _ in range(2)]
operands = {"q": q, "k": k, "v": v, "pk": past[0], "pv": past[1], "ends": np.array([4, 4], np.int32), "total": np.array(5, np.int32)}
f.add("gqa_with_a_cache_of_f16", "com.microsoft::GroupQueryAttention", operands, attributes={"num_heads": 4, "kv_num_heads": 2}, outputs=3, **microsoft)

# A normalisation by squares has a mean of 0, and an empty operand squeezes nothing.
x, skip = (rng.standard_normal((2, 3, 8)).astype(np.float32) for _ in range(2))
f.add("skip_rms_norm_with_all_results", "com.microsoft::SkipSimplifiedLayerNormalization", {"x": x, "s": skip, "g": np.ones(8, np.float32)},
      attributes={"epsilon": 1e-5}, outputs=4, **microsoft)
f.add("squeeze_with_an_empty_operand", "Squeeze", {"x": np.zeros((1, 2, 1), np.int64), "axes": np.zeros(0, np.int64)}, opset=21,
      expected=np.zeros((1, 2, 1), np.int64))

# Without segments, all words are of the first one.
table = lambda n: rng.standard_normal((n, 4)).astype(np.float32)
operands = {"ids": np.array([[3, 0], [1, 2]], np.int32), "segments": None, "words": table(5), "places": table(2), "kinds": table(2),
            "g": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
f.add("embed_layer_normalization_without_segments", "com.microsoft::EmbedLayerNormalization", operands, outputs=3, **microsoft)
f.add("scaler_refuses_more_numbers_than_features", "ai.onnx.ml::Scaler", {"x": np.zeros((2, 3, 1), np.float32)},
      attributes={"scale": [2.0, 0.25, 1.5], "offset": [1.0, 0.5, -2.0]}, opsets={"ai.onnx.ml": 1}, fails=True)
f.write()
