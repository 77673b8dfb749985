"""Vectors of `com.microsoft`, computed by ONNX Runtime; where it has no kernel on the CPU, by NumPy."""
import collections

import numpy as np
import onnx
from family import Family, bfloat16, runtime, short, tensor
from onnx import numpy_helper

f = Family("microsoft", opset=17)
rng = np.random.default_rng(3)
MS = {"com.microsoft": 1}


def random(*shape, scale=1.0):
    return rng.normal(0, scale, shape).astype(np.float32)


def add(name, op, inputs, attributes=None, **how):
    how = {"expected": "ort", "relative": 1e-4, "absolute": 1e-5} | how
    f.add(name, f"com.microsoft::{op}", inputs, attributes=attributes, opsets=MS, **how)


# Products and activations.
for name, a, b, attributes in [
    ("plain", (2, 3), (3, 4), {}), ("a", (3, 2), (3, 4), {"transA": 1}), ("b", (2, 3), (4, 3), {"transB": 1}),
    ("both_scaled", (2, 3, 2), (2, 4, 3), {"transA": 1, "transB": 1, "alpha": 0.25}),
    ("batches", (3, 2, 4), (2, 4, 5), {"transBatchA": 1}), ("batches_both", (3, 2, 4), (5, 2, 4), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    ("broadcast", (2, 1, 3, 4), (5, 4, 2), {"alpha": -2.0}),
]:
    add(f"fused_matmul_{name}", "FusedMatMul", {"a": random(*a), "b": random(*b)}, attributes)
x = np.concatenate([np.linspace(-12, 12, 49), [0.0, -0.0, 1e-6]]).astype(np.float32)
add("gelu", "Gelu", {"x": x})
add("quick_gelu", "QuickGelu", {"x": x})
add("quick_gelu_alpha", "QuickGelu", {"x": x}, {"alpha": 0.5})
add("fast_gelu", "FastGelu", {"x": x})
add("fast_gelu_bias", "FastGelu", {"x": random(2, 3, 4), "b": random(4)})
add("bias_gelu", "BiasGelu", {"x": random(2, 3, 4), "b": random(4)})

# Normalisations.
x, skip, gamma, beta, bias = random(2, 3, 8), random(2, 3, 8), random(8), random(8), random(8)
add("skip_layer_norm", "SkipLayerNormalization", {"x": x, "s": skip, "g": gamma, "b": beta})
add("skip_layer_norm_bias", "SkipLayerNormalization", {"x": x, "s": skip, "g": gamma, "b": beta, "bias": bias}, {"epsilon": 1e-3},
    outputs=["y", "", "", "sum"])
add("skip_layer_norm_no_beta", "SkipLayerNormalization", {"x": x, "s": skip, "g": gamma})
add("skip_layer_norm_one_skip", "SkipLayerNormalization", {"x": x, "s": skip[0], "g": gamma, "b": beta})
add("skip_layer_norm_skip_of_one_batch", "SkipLayerNormalization", {"x": x, "s": skip[:1], "g": gamma, "b": beta})
add("skip_rms_norm", "SkipSimplifiedLayerNormalization", {"x": x, "s": skip, "g": gamma}, {"epsilon": 1e-5})
add("skip_rms_norm_bias", "SkipSimplifiedLayerNormalization", {"x": x, "s": skip, "g": gamma, "bias": bias},
    outputs=["y", "", "", "sum"])
wide = x.astype(np.float64)
rms = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * gamma
add("rms_norm", "SimplifiedLayerNormalization", {"x": x, "g": gamma}, {"axis": -1, "epsilon": 1e-5}, expected=rms.astype(np.float32))
norm = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * gamma + beta
add("layer_norm", "LayerNormalization", {"x": x, "g": gamma, "b": beta}, {"axis": -1, "epsilon": 1e-5},
    expected=norm.astype(np.float32))
ids, segments = rng.integers(0, 7, (2, 4)).astype(np.int32), rng.integers(0, 2, (2, 4)).astype(np.int32)
embed = {"ids": ids, "segments": segments, "words": random(7, 6), "places": random(5, 6), "kinds": random(2, 6),
         "g": random(6), "b": random(6)}
mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
add("embed_layer_norm", "EmbedLayerNormalization", embed | {"mask": mask}, {"epsilon": 1e-6}, outputs=2)
add("embed_layer_norm_no_mask", "EmbedLayerNormalization", embed, outputs=2)
add("embed_layer_norm_no_segments", "EmbedLayerNormalization", embed | {"segments": None, "kinds": None, "mask": mask}, outputs=2)
add("embed_layer_norm_sum", "EmbedLayerNormalization", embed | {"mask": None, "positions": np.array([[3, 2, 1, 0], [0, 0, 4, 4]], np.int32)},
    outputs=["y", "lengths", "sum"])

# Attention.
b, s, d, n = 2, 4, 6, 2
merged = {"x": random(b, s, d), "w": random(d, 3 * d, scale=0.5), "bias": random(3 * d)}
for name, extra, attributes in [
    ("plain", {}, {}), ("causal", {}, {"unidirectional": 1}), ("scale", {}, {"scale": 0.3}),
    ("mask_of_ends", {"mask": np.array([4, 2], np.int32)}, {}),
    ("mask_of_ends_and_starts", {"mask": np.array([4, 3, 1, 0], np.int32)}, {}),
    ("mask_by_key", {"mask": np.array([[1, 1, 1, 0], [0, 1, 1, 1]], np.int32)}, {}),
    ("mask_by_query", {"mask": rng.integers(0, 2, (b, s, s)).astype(np.int32)}, {}),
    ("mask_of_all", {"mask": np.zeros((b, s), np.int32)}, {}),
    ("mask_and_causal", {"mask": np.array([[0, 1, 1, 1], [1, 1, 0, 1]], np.int32)}, {"unidirectional": 1}),
    ("filter_value", {"mask": np.array([[1, 1, 0, 0], [1, 1, 0, 1]], np.int32)}, {"mask_filter_value": -2.0}),
    ("bias", {"mask": None, "past": None, "added": random(b, n, s, s)}, {}),
]:
    add(f"attention_{name}", "Attention", merged | extra, {"num_heads": n} | attributes)
add("attention_sizes", "Attention", merged | {"w": random(d, 16), "bias": random(16)}, {"num_heads": n, "qkv_hidden_sizes": [6, 6, 4]})
for causal in [0, 1]:
    add(f"attention_past_{causal}", "Attention", merged | {"mask": None, "past": random(2, b, n, 3, 3)},
        {"num_heads": n, "unidirectional": causal}, outputs=2)
q, k, v = random(b, s, d), random(b, 5, d), random(b, 5, 8)
apart = {"q": q, "k": k, "v": v}
add("mha", "MultiHeadAttention", apart, {"num_heads": n})
add("mha_bias", "MultiHeadAttention", apart | {"bias": random(20)}, {"num_heads": n})
add("mha_padding", "MultiHeadAttention", apart | {"bias": None, "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)},
    {"num_heads": n})
add("mha_added", "MultiHeadAttention", apart | {"bias": None, "mask": None, "added": random(1, n, s, 5)}, {"num_heads": n, "scale": 0.4})
same = {"q": q, "k": random(b, s, d), "v": random(b, s, d)}
add("mha_causal", "MultiHeadAttention", same, {"num_heads": n, "unidirectional": 1})
add("mha_past", "MultiHeadAttention", same | {"bias": None, "mask": None, "added": None, "pk": random(b, n, 3, 3), "pv": random(b, n, 3, 3)},
    {"num_heads": n}, outputs=3)
add("mha_past_causal", "MultiHeadAttention", same | {"bias": random(18), "mask": None, "added": None, "pk": random(b, n, 3, 3), "pv": random(b, n, 3, 3)},
    {"num_heads": n, "unidirectional": 1}, outputs=3)
add("mha_keys_of_a_cache", "MultiHeadAttention", {"q": q, "k": random(b, n, 5, 3), "v": random(b, n, 5, 3)}, {"num_heads": n})
table = rng.uniform(-1, 1, (8, 2)).astype(np.float32)
other = rng.uniform(-1, 1, (8, 2)).astype(np.float32)
for name, shape, ids, attributes in [
    ("offset", (2, 3, 8), np.array([2], np.int64), {}), ("ids", (2, 3, 8), np.array([[0, 4, 2], [7, 6, 5]], np.int64), {}),
    ("interleaved", (2, 3, 8), np.array([0], np.int64), {"interleaved": 1}),
    ("four", (2, 2, 3, 4), np.array([1], np.int64), {}),
    ("partial", (2, 3, 12), np.array([1], np.int64), {"rotary_embedding_dim": 4, "num_heads": 2}),
]:
    add(f"rotary_{name}", "RotaryEmbedding", {"x": random(*shape), "ids": ids, "cos": table, "sin": other}, attributes)


# Heads that share keys, with caches; sequences that are shorter than others end in what nobody defines.
def group_query(name, s, past, ends, total, attributes=None, room=None, packed=False, rotary=False, added=False, n=4, g=2, size=16,
                b=2, ids=None, sink=False):
    inputs = {"q": random(b, s, (n + 2 * g if packed else n) * size), "k": None if packed else random(b, s, g * size),
              "v": None if packed else random(b, s, g * size)}
    room = past if room is None else room
    cache = [None, None] if past is None else [random(b, g, room, size), random(b, g, room, size)]
    inputs |= {"pk": cache[0], "pv": cache[1], "ends": np.array(ends, np.int32), "total": np.array(total, np.int32)}
    if rotary or added or sink:
        inputs |= {"cos": random(12, size // 2) if rotary else None, "sin": random(12, size // 2) if rotary else None}
    if added or sink or ids is not None:
        inputs |= {"ids": None if ids is None else np.array(ids, np.int64), "added": random(1, n, s, total) if added else None}
    if sink:
        inputs |= {"sink": random(n)}
    attributes = {"num_heads": n, "kv_num_heads": g, "do_rotary": int(rotary)} | (attributes or {})
    add(f"group_query_{name}", "GroupQueryAttention", inputs, attributes, outputs=3, constants=["total"])


group_query("prompt", 5, None, [4, 4], 5)
group_query("prompt_packed", 5, None, [4, 4], 5, packed=True)
group_query("prompt_rotary", 5, None, [4, 4], 5, rotary=True)
group_query("prompt_interleaved", 5, None, [4, 4], 5, {"rotary_interleaved": 1}, rotary=True)
group_query("prompt_window", 6, None, [5, 5], 6, {"local_window_size": 2})
group_query("prompt_softcap", 4, None, [3, 3], 4, {"softcap": 1.5, "scale": 0.7})
group_query("prompt_added", 4, None, [3, 3], 4, added=True)
group_query("step", 1, 4, [4, 4], 5)
group_query("step_rotary", 1, 4, [4, 4], 5, rotary=True)
group_query("step_packed_rotary", 1, 4, [4, 4], 5, rotary=True, packed=True)
group_query("step_window", 1, 6, [6, 6], 7, {"local_window_size": 3})
group_query("step_of_one", 1, 3, [3], 4, b=1, rotary=True)
group_query("steps_of_one", 3, 3, [5], 6, b=1, rotary=True)
group_query("one_shared_head", 1, 3, [3, 3], 4, g=1)

# Quantised.
one = np.float32


def bytes_of(*shape, t=np.uint8):
    info = np.iinfo(t)
    return rng.integers(info.min, info.max, shape, t, endpoint=True)


for t, zero in [(np.uint8, 120), (np.int8, -5)]:
    z = t(zero)
    kind = np.dtype(t).name
    pair = {"a": bytes_of(2, 3, 4, t=t), "as": one(0.05), "az": z, "b": bytes_of(3, 4, t=t), "bs": one(0.02), "bz": t(3)}
    add(f"add_{kind}", "QLinearAdd", pair | {"cs": one(0.061), "cz": z})
    add(f"mul_{kind}", "QLinearMul", pair | {"cs": one(0.083), "cz": z})
    add(f"add_scalar_{kind}", "QLinearAdd", pair | {"b": bytes_of(1, t=t), "cs": one(0.07), "cz": z})
    single = {"x": bytes_of(2, 3, 4, 4, t=t), "xs": one(0.07), "xz": z}
    add(f"sigmoid_{kind}", "QLinearSigmoid", single | {"ys": one(1 / 256), "yz": t(np.iinfo(t).min)})
    add(f"leaky_relu_{kind}", "QLinearLeakyRelu", single | {"ys": one(0.0631), "yz": z}, {"alpha": 0.2})
    add(f"average_pool_{kind}", "QLinearAveragePool", single | {"ys": one(0.0563), "yz": t(7)}, {"kernel_shape": [2, 3], "strides": [1, 2]})
    add(f"average_pool_pads_{kind}", "QLinearAveragePool", single | {"ys": one(0.0563), "yz": t(7)},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1})
    add(f"average_pool_last_{kind}", "QLinearAveragePool", single | {"ys": one(0.0563), "yz": t(7)}, {"kernel_shape": [2, 2], "channels_last": 1})
    add(f"global_average_pool_{kind}", "QLinearGlobalAveragePool", single | {"ys": one(0.011), "yz": t(7)})
    add(f"global_average_pool_last_{kind}", "QLinearGlobalAveragePool", single | {"ys": one(0.011), "yz": t(7)}, {"channels_last": 1})
    add(f"softmax_{kind}", "QLinearSoftmax", {"x": bytes_of(3, 5, t=t), "xs": one(0.0171), "xz": z, "ys": one(1 / 256), "yz": t(np.iinfo(t).min)},
        {"opset": 13})
    add(f"concat_{kind}", "QLinearConcat", {"ys": one(0.05), "yz": z, "a": bytes_of(2, 3, t=t), "as": one(0.0413), "az": t(4), "b": bytes_of(2, 2, t=t),
        "bs": one(0.0711), "bz": t(9)}, {"axis": 1})
    add(f"quantize_{kind}", "QuantizeLinear", {"x": random(2, 3, scale=3), "s": one(0.031), "z": z})
    add(f"quantize_axis_{kind}", "QuantizeLinear", {"x": random(2, 3, scale=3), "s": np.array([0.03, 0.01, 0.05], one), "z": np.array([1, 2, 3], t)}, {"axis": 1})
    add(f"dequantize_{kind}", "DequantizeLinear", {"x": bytes_of(2, 3, t=t), "s": one(0.03), "z": z})
    add(f"dequantize_axis_{kind}", "DequantizeLinear", {"x": bytes_of(2, 3, t=t), "s": np.array([0.03, 0.01], one), "z": np.array([1, 2], t)}, {"axis": 0})
    w = bytes_of(4, 5, t=t)
    add(f"dynamic_quantize_matmul_{kind}", "DynamicQuantizeMatMul", {"a": random(3, 4), "b": w, "s": one(0.02), "z": z, "bias": random(5)})
    add(f"dynamic_quantize_matmul_columns_{kind}", "DynamicQuantizeMatMul", {"a": random(2, 3, 4), "b": w,
        "s": rng.uniform(0.01, 0.1, 5).astype(one), "z": bytes_of(5, t=t)})
    add(f"matmul_integer_to_float_{kind}", "MatMulIntegerToFloat", {"a": bytes_of(3, 4), "b": w, "as": one(0.03), "bs": one(0.02), "az": np.uint8(9),
        "bz": z, "bias": random(5)})
for directions, per_column in [(1, False), (1, True), (2, False)]:
    i, h = 4, 3
    scales = lambda: rng.uniform(0.01, 0.03, (directions, 4 * h) if per_column else (directions,)).astype(one)
    zeros = lambda: np.zeros((directions, 4 * h) if per_column else (directions,), np.int8)
    # One sequence, so that no runtime quantises parts of a batch apart.
    add(f"dynamic_quantize_lstm_{directions}_{'columns' if per_column else 'matrix'}", "DynamicQuantizeLSTM", {
        "x": random(3, 1, i), "w": bytes_of(directions, i, 4 * h, t=np.int8), "r": bytes_of(directions, h, 4 * h, t=np.int8), "b": random(directions, 8 * h),
        "lengths": None, "h0": random(directions, 1, h), "c0": random(directions, 1, h), "p": random(directions, 3 * h),
        "ws": scales(), "wz": zeros(), "rs": scales(), "rz": zeros()},
        {"hidden_size": h, "direction": "bidirectional" if directions == 2 else "forward"}, outputs=3,
        constants=["w", "r", "ws", "wz", "rs", "rz"], relative=1e-3, absolute=1e-4)
add("matmul_integer_to_float_columns", "MatMulIntegerToFloat", {"a": bytes_of(3, 4), "b": bytes_of(4, 5, t=np.int8), "as": one(0.03),
    "bs": rng.uniform(0.01, 0.1, 5).astype(one), "az": None, "bz": None})
add("q_attention", "QAttention", {"x": bytes_of(b, s, d), "w": bytes_of(d, 3 * d, t=np.int8), "bias": random(3 * d), "xs": one(0.02), "ws": one(0.01),
    "mask": np.array([4, 2], np.int32), "xz": np.uint8(128), "wz": np.int8(3)}, {"num_heads": n})
add("q_attention_causal_past", "QAttention", {"x": bytes_of(b, s, d), "w": bytes_of(d, 3 * d, t=np.int8), "bias": random(3 * d), "xs": one(0.02),
    "ws": one(0.01), "mask": None, "xz": np.uint8(128), "wz": np.int8(3), "past": random(2, b, n, 3, 3)}, {"num_heads": n, "unidirectional": 1}, outputs=2)
for bits, inner, block, zeros in [(4, 32, 16, False), (4, 40, 16, True), (4, 48, 32, True), (8, 32, 16, False), (8, 48, 32, True), (2, 64, 32, False)]:
    columns, blocks = 5, -(-inner // block)
    inputs = {"a": random(3, inner), "b": bytes_of(columns, blocks, block * bits // 8), "s": rng.uniform(0.01, 0.1, (columns, blocks)).astype(one)}
    if zeros:
        inputs["z"] = bytes_of(columns, -(-blocks * bits // 8))
    attributes = {"K": inner, "N": columns, "bits": bits, "block_size": block}
    packed = np.unpackbits(inputs["b"], axis=-1, bitorder="little").reshape(columns, blocks, block, bits)
    q = (packed * (1 << np.arange(bits))).sum(-1)
    z = np.full((columns, blocks, 1), 1 << (bits - 1))
    if zeros:
        z = np.unpackbits(inputs["z"], axis=-1, bitorder="little").reshape(columns, -1, bits)
        z = (z * (1 << np.arange(bits))).sum(-1)[:, :blocks, None]
    w = ((q - z) * inputs["s"][..., None].astype(np.float64)).reshape(columns, -1)[:, :inner]
    y = (inputs["a"].astype(np.float64) @ w.T).astype(one)
    add(f"matmul_{bits}_bits_{inner}_by_{block}", "MatMulNBits", inputs, attributes, expected=y,
        constants=[k for k in inputs if k != "a"])
    add(f"matmul_{bits}_bits_{inner}_by_{block}_given", "MatMulNBits", inputs, attributes, expected=y)
    # Blocks in another order than that of the places.
    order = (np.arange(inner, dtype=np.int32) * 7 % inner) // block
    flat = lambda v: np.broadcast_to(v, (columns, blocks, 1))[:, order, 0]
    w = (q.reshape(columns, -1)[:, :inner] - flat(z)) * flat(inputs["s"][..., None]).astype(np.float64)
    y = (inputs["a"].astype(np.float64) @ w.T).astype(one)
    add(f"matmul_{bits}_bits_{inner}_by_{block}_in_order", "MatMulNBits", {k: inputs.get(k) for k in "absz"} | {"order": order},
        attributes, expected=y)

# The other floats, twice for each operator: ONNX Runtime computes in f32 on the same numbers, and the results are rounded.
# Halves hold what comes between as well, so that sums are a few of their units away.
HALVES, ALL = (np.float16, bfloat16), (np.float16, bfloat16, np.float64)
OTHERS = {"FusedMatMul": ALL, "Gelu": ALL, "QuickGelu": ALL, "BiasGelu": ALL, "LayerNormalization": ALL, "SimplifiedLayerNormalization": ALL,
          "FastGelu": HALVES, "SkipLayerNormalization": HALVES, "SkipSimplifiedLayerNormalization": HALVES, "RotaryEmbedding": HALVES, "Attention": HALVES,
          "MultiHeadAttention": HALVES, "GroupQueryAttention": HALVES, "EmbedLayerNormalization": (np.float16,), "MatMulNBits": HALVES}
seen = collections.Counter()
for model in list(f.models.values()):
    graph = model.graph
    node = graph.node[0]
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    # A mask of -10000 leaves halves nothing of what it is added to.
    for t in OTHERS.get(node.op_type, ()) if graph.name != "attention_mask_of_all" else ():
        seen[node.op_type, t] += 1
        if seen[node.op_type, t] > 2:
            continue
        given = {name: stored[name].astype(t) if stored[name].dtype == np.float32 else stored[name] for name in node.input if name}
        wide = {name: v.astype(np.float32) if v.dtype == t else v for name, v in given.items()}
        outputs = [o.name for o in graph.output]
        if node.op_type.endswith("LayerNormalization") and not node.op_type.startswith(("Skip", "Embed")):
            # ONNX Runtime has no such operators of the domain on the CPU.
            x, g, *b = [v.astype(np.float64) for v in given.values()]
            centred = x - x.mean(-1, keepdims=True) if b else x
            expected = [centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + (b[0] if b else 0)]
        else:
            plain = onnx.ModelProto.FromString(model.SerializeToString())
            del plain.graph.initializer[:]
            fixed = [name for name in given if name not in {i.name for i in graph.input}]
            plain.graph.initializer.extend(tensor(name, wide[name]) for name in fixed)
            expected = runtime(plain, {k: v for k, v in wide.items() if k not in fixed}, outputs)
        expected = [e.astype(t) if stored[f"expected:{o}"].dtype == np.float32 else e for e, o in zip(expected, outputs)]
        ports = {name: v for name, v in given.items() if name in {i.name for i in graph.input}}
        f.add(f"{graph.name}_{short(t)}", [node], ports, outputs=outputs, constants={k: v for k, v in given.items() if k not in ports}, opsets=MS,
              opset=17, expected=expected, relative=4e-3, absolute=3e-2 if t == bfloat16 else 4e-3)

# For more than one position, ONNX Runtime 1.31 reads the first number of the positions alone.
group_query("prompt_positions", 5, None, [4], 5, rotary=True, ids=[[2, 3, 4, 5, 6]], b=1)
group_query("step_positions", 1, 4, [4, 4], 5, rotary=True, ids=[[4], [7]])
group_query("prompt_sinks", 5, None, [4, 4], 5, sink=True)
group_query("prompt_sinks_window_added", 6, None, [5, 5], 6, {"local_window_size": 3}, sink=True, added=True)
group_query("step_sinks", 1, 4, [4, 4], 5, sink=True, rotary=True)
group_query("prompt_smooth", 4, None, [3, 3], 4, {"smooth_softmax": 1})
for name, inputs in [("SimplifiedLayerNormalization", {"x": random(2, 3, 8), "g": random(8)}), ("LayerNormalization", {"x": random(2, 3, 8), "g": random(8), "b": random(8)})]:
    # ONNX Runtime writes them into ONNX's domain, in models of opsets where ONNX has none.
    f.add(f"{name.lower()}_in_the_domain_of_onnx", name, inputs, attributes={"axis": -1, "epsilon": 1e-5}, opset=15, relative=1e-4, absolute=1e-5, expected="ort")
x = random(2, 3)
f.add("unknown_attribute", "com.microsoft::Gelu", {"x": x}, attributes={"approximate": "tanh"}, opsets=MS, fails=True)
f.add("unknown_operator", "com.microsoft::Snpe", {"x": x}, opsets=MS, fails=True)
f.add("heads_do_not_divide", "com.microsoft::Attention", merged, attributes={"num_heads": 4}, opsets=MS, fails=True)

# A scale below zero, and one that is no number. 0 stands for the default.
for name, scale in [("below_zero", -0.5), ("zero", 0.0), ("nan", np.nan)]:
    add(f"attention_scale_{name}", "Attention", merged | {"mask": np.array([[1, 1, 1, 0], [0, 1, 1, 1]], np.int32)}, {"num_heads": n, "scale": scale})
    add(f"mha_scale_{name}", "MultiHeadAttention", apart | {"bias": None, "mask": None, "added": random(1, n, s, 5)}, {"num_heads": n, "scale": scale})
    if name != "nan":
        # For a prompt, ONNX Runtime gives zeros there.
        group_query(f"prompt_scale_{name}", 4, None, [3, 3], 4, {"scale": scale})
    group_query(f"step_scale_{name}_softcap", 1, 4, [4, 4], 5, {"scale": scale, "softcap": 1.5})
add("attention_scale_below_zero_causal", "Attention", merged, {"num_heads": n, "scale": -0.5, "unidirectional": 1})

# Results that have a name and that nothing reads. A mean of squares alone has no mean.
x, skip, gamma = random(2, 3, 8), random(2, 3, 8), random(8)
for name, op, operands in [("skip_rms_norm", "SkipSimplifiedLayerNormalization", {"x": x, "s": skip, "g": gamma}),
                           ("skip_layer_norm", "SkipLayerNormalization", {"x": x, "s": skip, "g": gamma, "b": random(8)}),
                           ("embed_layer_norm", "EmbedLayerNormalization", embed | {"mask": mask})]:
    for label, read in [("first", ["y"]), ("sum", ["y", "sum"])]:
        named = ["y", "mean", "sum"] if name.startswith("embed") else ["y", "mean", "inverse", "sum"]
        node = onnx.helper.make_node(op, list(operands), named, domain="com.microsoft")
        needed = named if name.startswith("embed") else [o if o in read else "" for o in named[:len(named) if "sum" in read else 1]]
        blank = onnx.helper.make_node(op, list(operands), needed, domain="com.microsoft")
        f.add("plain", [blank], operands, outputs=read, opsets=MS, opset=17, expected="ort")
        expected = [numpy_helper.to_array(t) for t in f.models.pop("plain").graph.initializer if t.name.startswith("expected:")]
        f.add(f"{name}_names_all_reads_{label}", [node], operands, outputs=read, opsets=MS, opset=17, expected=expected, relative=1e-4, absolute=1e-5)
both = onnx.helper.make_node("SkipSimplifiedLayerNormalization", ["x", "s", "g"], ["y", "mean"], domain="com.microsoft")
f.add("skip_rms_norm_reads_a_mean", [both], {"x": x, "s": skip, "g": gamma}, outputs=["y", "mean"], opsets=MS, opset=17, expected="ort", relative=1e-4, absolute=1e-5)
unread = onnx.helper.make_node("Neg", ["mean"], ["unread"])
f.add("skip_rms_norm_whose_mean_nothing_needs", [both, unread], {"x": x, "s": skip, "g": gamma}, outputs=["y"], opsets=MS, opset=17,
      expected=[((x + skip) / np.sqrt(((x + skip).astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-12) * gamma).astype(np.float32)], relative=1e-4, absolute=1e-5)


# Heads of queries and keys that are divided by the root of their mean square, before they turn. ONNX Runtime's CPU kernel has no such weights: it gets
# what NumPy divided.
def unit_heads(x, weight, epsilon, size=16):
    heads = x.astype(np.float64).reshape(*x.shape[:2], -1, size)
    y = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + epsilon) * weight
    return y.reshape(x.shape).astype(np.float32)


def group_query_norm(name, s, past, ends, total, attributes=None, packed=False, rotary=False, n=4, g=2, size=16, b=2, fails=False, change=None):
    q, k, v = random(b, s, n * size), random(b, s, g * size), random(b, s, g * size)
    weights = {"of_q": random(size), "of_k": random(size)}
    attributes = {"num_heads": n, "kv_num_heads": g, "do_rotary": int(rotary)} | (attributes or {})
    both = attributes.get("qk_norm_epsilon", 1e-6)
    own_q = unit_heads(q, weights["of_q"], attributes.get("q_norm_epsilon", both))
    own_k = unit_heads(k, weights["of_k"], attributes.get("k_norm_epsilon", both))
    rest = {"pk": None, "pv": None} if past is None else {"pk": random(b, g, past, size), "pv": random(b, g, past, size)}
    rest |= {"ends": np.array(ends, np.int32), "total": np.array(total, np.int32), "cos": random(12, size // 2) if rotary else None,
             "sin": random(12, size // 2) if rotary else None, "ids": None, "added": None, "sink": None, "ks": None, "vs": None}
    joined = lambda q, k, v: {"q": np.concatenate([q, k, v], -1), "k": None, "v": None} if packed else {"q": q, "k": k, "v": v}
    how = {"fails": True}
    if not fails:
        plain = {k: v for k, v in attributes.items() if "norm" not in k}
        add("plain", "GroupQueryAttention", joined(own_q, own_k, v) | rest, plain, outputs=3, constants=["total"])
        how = {"expected": [numpy_helper.to_array(t) for t in f.models.pop("plain").graph.initializer if t.name.startswith("expected:")]}
    add(f"group_query_norm_{name}", "GroupQueryAttention", joined(q, k, v) | rest | weights | (change or {}), attributes, outputs=3, constants=["total"], **how)


group_query_norm("prompt", 5, None, [4, 4], 5)
group_query_norm("prompt_rotary", 5, None, [4, 4], 5, rotary=True)
group_query_norm("prompt_packed_rotary", 5, None, [4, 4], 5, rotary=True, packed=True)
group_query_norm("step", 1, 4, [4, 4], 5, rotary=True)
group_query_norm("epsilon", 4, None, [3, 3], 4, {"qk_norm_epsilon": 0.5})
group_query_norm("epsilon_of_each", 4, None, [3, 3], 4, {"qk_norm_epsilon": 0.5, "q_norm_epsilon": 0.125, "k_norm_epsilon": 2.0})
group_query_norm("epsilon_of_queries", 4, None, [3, 3], 4, {"q_norm_epsilon": 0.25})
group_query_norm("refuses_queries_only", 4, None, [3, 3], 4, fails=True, change={"of_k": None})
group_query_norm("refuses_keys_only", 4, None, [3, 3], 4, fails=True, change={"of_q": None})
group_query_norm("refuses_other_sizes", 4, None, [3, 3], 4, fails=True, change={"of_q": random(4)})
group_query_norm("refuses_no_epsilon", 4, None, [3, 3], 4, {"q_norm_epsilon": 0.0}, fails=True)
# Values of attributes that are not served, and what is served only with others.
for name, attributes in [("quantised_keys", {"k_quant_type": "PER_TENSOR"}), ("quantised_values", {"v_quant_type": "PER_CHANNEL"}),
                         ("bits_of_a_cache", {"kv_cache_bit_width": 8}), ("products", {"qk_output": 1}), ("a_cache_of_a_window", {"sliding_window_cache": 1}),
                         ("an_unknown_softmax", {"smooth_softmax": 2})]:
    group_query_norm(f"refuses_{name}", 4, None, [3, 3], 4, attributes, fails=True)
f.add("attention_refuses_rotary", "com.microsoft::Attention", merged, attributes={"num_heads": n, "do_rotary": 1}, opsets=MS, fails=True)
f.write()
