"""Vectors of Attention, FlexAttention, RotaryEmbedding, LinearAttention, CausalConvWithState and SwiGLU, by ONNX's evaluator, and of
SparseAttention, by ONNX Runtime.

The products that `qk_matmul_output_mode` 0 asks for are those before `softcap`; ONNX's evaluator gives those after it.
"""
import numpy as np
from family import Family, bfloat16, short
from onnx import TensorProto, helper

f = Family("attention")
rng = np.random.default_rng(29)


def random(*shape, t=np.float32):
    return rng.normal(size=shape).astype(t)


def near(t):
    t = {np.float64: 1e-6, np.float16: 4e-3, bfloat16: 2.5e-2}.get(t, 1e-4)
    return {"relative": t, "absolute": t / 10}


def attention(name, q, k, v=None, attributes=None, opset=24, t=np.float32, outputs=1, **more):
    inputs = {"q": random(*q, t=t), "k": random(*k, t=t), "v": random(*(v or k), t=t), "mask": None, "pk": None, "pv": None, "lengths": None}
    f.add(f"attention_{name}", "Attention", inputs | more, attributes=attributes, opset=opset, outputs=outputs, **near(t))


Q, K, V = (2, 4, 3, 4), (2, 4, 5, 4), (2, 4, 5, 6)
mask = rng.integers(0, 2, (3, 5)).astype(bool)
mask[1] = False
attention("plain", Q, K, V)
attention("opset_23", Q, K, V, opset=23)
attention("causal", Q, K, V, {"is_causal": 1})
attention("causal_square", K, K, K, {"is_causal": 1})
attention("scale", Q, K, V, {"scale": 0.25})
attention("softcap", Q, K, V, {"softcap": 2.0})
attention("truth_mask", Q, K, V, mask=mask)
attention("added_mask", Q, K, V, mask=random(3, 5))
attention("mask_by_head", Q, K, V, mask=random(4, 3, 5))
attention("mask_of_four_dimensions", Q, K, V, mask=random(2, 1, 3, 5))
attention("mask_and_causal", Q, K, V, {"is_causal": 1}, mask=random(3, 5))
attention("truth_mask_and_causal", Q, K, V, {"is_causal": 1}, mask=mask)
attention("softcap_and_mask", Q, K, V, {"softcap": 1.5}, mask=mask)
attention("short_mask", Q, K, V, mask=random(3, 4))
attention("shared_heads", (2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6))
attention("one_shared_head", (2, 4, 3, 4), (2, 1, 5, 4), (2, 1, 5, 6), {"is_causal": 1})
attention("three_dimensions", (2, 3, 8), (2, 5, 8), (2, 5, 12), {"q_num_heads": 4, "kv_num_heads": 4})
attention("three_dimensions_shared", (2, 3, 8), (2, 5, 4), (2, 5, 6), {"q_num_heads": 4, "kv_num_heads": 2}, mask=mask)
attention("past", Q, K, V, outputs=3, pk=random(2, 4, 2, 4), pv=random(2, 4, 2, 6))
attention("past_causal", Q, Q, Q, {"is_causal": 1}, outputs=3, pk=random(2, 4, 2, 4), pv=random(2, 4, 2, 4))
attention("lengths", Q, K, V, lengths=np.array([3, 5], np.int64))
attention("lengths_causal", Q, K, V, {"is_causal": 1}, lengths=np.array([4, 2], np.int64))
attention("one_query", (1, 2, 1, 4), (1, 2, 6, 4), (1, 2, 6, 4))
attention("no_queries", (1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 4))
attention("no_batch", (0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 4))
for mode in range(4):
    attention(f"products_{mode}", Q, K, V, {"qk_matmul_output_mode": mode, "softcap": 3.0 if mode else 0.0}, outputs=["y", "", "", "qk"], mask=mask)
attention("window", K, K, K, {"left_window_size": 1, "right_window_size": 1}, opset=25)
attention("window_causal", K, K, K, {"left_window_size": 2, "is_causal": 1}, opset=25)
for t in [np.float16, np.float64]:
    attention(f"of_{short(t)}", Q, K, V, {"is_causal": 1}, t=t)
attention("f16_softmax_in_f32", Q, K, V, {"softmax_precision": TensorProto.FLOAT}, t=np.float16)
for name, op in [("attention", "Attention"), ("flex", "ai.onnx.preview::FlexAttention")]:
    for what, q, k in [("heads", (2, 0, 3, 4), (2, 0, 5, 4)), ("batch", (0, 2, 3, 4), (0, 2, 5, 4)), ("query", (1, 2, 0, 4), (1, 2, 5, 4))]:
        f.add(f"{name}_of_no_{what}", op, {"q": np.zeros(q, np.float32), "k": np.zeros(k, np.float32), "v": np.zeros(k, np.float32)},
              expected=np.zeros(q, np.float32), **({"opsets": {"ai.onnx.preview": 1}} if name == "flex" else {}))
f.add("attention_heads_do_not_divide", "Attention", {"q": random(1, 3, 2, 4), "k": random(1, 2, 2, 4), "v": random(1, 2, 2, 4)}, fails=True)
f.add("attention_widths_differ", "Attention", {"q": random(1, 2, 2, 4), "k": random(1, 2, 2, 3), "v": random(1, 2, 2, 4)}, fails=True)

PREVIEW = "ai.onnx.preview"


def changing(op, *constants):
    """A graph of one input and one output."""
    nodes = [helper.make_node(op, ["s", *(f"c{i}" for i in range(len(constants)))], ["t"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * 4) for n in "st"]
    fixed = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [], [c]) for i, c in enumerate(constants)]
    return helper.make_graph(nodes, "changing", ports[:1], ports[1:], fixed)


for name, q, k, attributes, t in [
    ("plain", Q, K, {}, np.float32), ("scale", Q, K, {"scale": 0.2}, np.float32), ("shared_heads", Q, (2, 2, 5, 4), {}, np.float32),
    ("score", Q, K, {"score_mod": changing("Mul", 0.5)}, np.float32), ("score_tanh", Q, K, {"score_mod": changing("Tanh")}, np.float32),
    ("weights", Q, K, {"prob_mod": changing("Add", 0.125)}, np.float32), ("both", Q, K, {"score_mod": changing("Sin"), "prob_mod": changing("Sqrt")}, np.float32),
    ("of_f16", Q, K, {}, np.float16), ("of_f64", Q, K, {}, np.float64),
]:
    f.add(f"flex_{name}", f"{PREVIEW}::FlexAttention", {"q": random(*q, t=t), "k": random(*k, t=t), "v": random(*k, t=t)}, attributes=attributes,
          opset=26, opsets={"": 26, PREVIEW: 1}, **near(t))

def turned(x, cos, sin, ids):
    """`RotaryEmbedding` of pairs from both halves of the last axis, in f64."""
    x, cos, sin = (a.astype(np.float64) for a in (x, cos[ids][:, None], sin[ids][:, None]))
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


for name, x, cache, ids, attributes in [
    ("four", (2, 3, 4, 8), (10, 4), [[0, 1, 2, 3], [9, 0, 5, 5]], {}), ("three", (2, 4, 24), (10, 4), [[0, 1, 2, 3], [9, 0, 5, 5]], {"num_heads": 3}),
    ("interleaved", (2, 3, 4, 8), (10, 4), [[0, 1, 2, 3], [4, 5, 6, 7]], {"interleaved": 1}), ("no_ids", (2, 3, 4, 8), (2, 4, 4), None, {}),
    ("partial", (2, 3, 4, 8), (10, 2), [[0, 1, 2, 3], [4, 5, 6, 7]], {"rotary_embedding_dim": 4}),
    ("partial_interleaved", (2, 4, 24), (2, 4, 2), None, {"rotary_embedding_dim": 4, "interleaved": 1, "num_heads": 3}),
]:
    for t in [np.float32, np.float16] if name == "four" else [np.float32]:
        operands = {"x": random(*x, t=t), "cos": random(*cache, t=t), "sin": random(*cache, t=t), "ids": None if ids is None else np.array(ids)}
        # ONNX's evaluator rounds each product of halves, which cancel. The definition is rounded once.
        once = {"expected": turned(*operands.values()).astype(t)} if t == np.float16 else {}
        f.add(f"rotary_{name}_{short(t)}", "RotaryEmbedding", operands, attributes=attributes, opset=23, **once, **near(t))

for rule in ["linear", "gated", "delta", "gated_delta"]:
    for name, b, t, h, g, how in [("plain", 2, 4, 2, 2, {}), ("shared", 1, 3, 4, 2, {"scale": 0.5}), ("one_step", 2, 1, 2, 1, {}), ("no_steps", 1, 0, 2, 2, {})]:
        keys, values = 3, 5
        x = {"q": random(b, t, h * keys), "k": random(b, t, g * keys) / 2, "v": random(b, t, g * values),
             "past": random(b, g, keys, values) if name != "plain" else None,
             "decay": -np.abs(random(b, t, g * (keys if name == "plain" else 1))) if "gated" in rule else None,
             "beta": rng.uniform(0, 1, (b, t, 1 if name == "one_step" else g)).astype(np.float32) if "delta" in rule else None}
        f.add(f"linear_{rule}_{name}", "LinearAttention", x, attributes={"q_num_heads": h, "kv_num_heads": g, "update_rule": rule, **how}, outputs=2, **near(np.float32))
x = {"q": random(1, 3, 4), "k": random(1, 3, 4), "v": random(1, 3, 4)}
f.add("linear_without_decay", "LinearAttention", x, attributes={"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated"}, outputs=2, fails=True)
f.add("linear_heads_do_not_divide", "LinearAttention", x, attributes={"q_num_heads": 3, "kv_num_heads": 2, "update_rule": "linear"}, outputs=2, fails=True)
h = {k: v.astype(np.float16) for k, v in x.items()}
f.add("linear_f16", "LinearAttention", h, attributes={"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}, outputs=2, **near(np.float16))

for name, b, c, length, k, bias, past, activation in [
    ("plain", 2, 3, 5, 4, True, False, "none"), ("past", 2, 3, 5, 4, True, True, "silu"), ("one", 1, 2, 1, 4, False, True, "swish"),
    ("narrow", 2, 2, 3, 1, True, False, "none"), ("shorter_than_state", 1, 2, 2, 5, False, False, "silu"),
]:
    for t in [np.float32, np.float16]:
        f.add(f"causal_conv_{name}_{short(t)}", "CausalConvWithState", {"x": random(b, c, length, t=t), "w": random(c, 1, k, t=t), "b": random(c, t=t) if bias else None,
              "past": random(b, c, k - 1, t=t) if past else None}, attributes={"activation": activation}, outputs=2, **near(t))

for t in [np.float16, bfloat16, np.float32, np.float64]:
    for alpha in [1.0, 0.5]:
        a, b = random(2, 3, t=t), random(2, 3, t=t)
        wide = a.astype(np.float64)
        y = (wide / (1 + np.exp(-alpha * wide)) * b.astype(np.float64)).astype(t)
        f.add(f"swiglu_{short(t)}_{alpha}", "SwiGLU", {"a": a, "b": b}, attributes={"alpha": alpha}, expected=y, **near(t))
f.add("swiglu_no_broadcast", "SwiGLU", {"a": random(2, 3), "b": random(3)}, fails=True)

# SparseAttention: ONNX Runtime's kernel wants the caches of operands and results to be one buffer each.
def bound(node, given):
    """Runs a node on ONNX Runtime, whose caches are changed in place."""
    import onnxruntime

    ports = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in given.items()]
    made = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in node.output]
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", ports, made), opset_imports=versions, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = {k: onnxruntime.OrtValue.ortvalue_from_numpy(np.array(v)) for k, v in given.items()}
    binding = session.io_binding()
    for k, v in values.items():
        binding.bind_ortvalue_input(k, v)
    binding.bind_output(node.output[0])
    for output, cache in zip(node.output[1:], ["past_k", "past_v"]):
        binding.bind_ortvalue_output(output, values[cache])
    session.run_with_iobinding(binding)
    return [np.array(x.numpy()) for x in binding.get_outputs()]


def compressed(masks):
    """Blocks of layouts, as the ends of rows and the columns."""
    rows = [np.concatenate([[0], np.cumsum(m.sum(-1))]) for m in masks]
    columns = [np.nonzero(m)[1] for m in masks]
    width = max(map(len, columns))
    return np.array(rows, np.int32), np.array([np.concatenate([c, np.full(width - len(c), -1)]) for c in columns], np.int32)


BLOCKS = [np.tril(np.ones((3, 3), int)), np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]]), np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1]])]


def chosen(x, totals, layouts, group, size=16, block=16):
    """One new position, as the schema defines it: ONNX Runtime's kernel reads beyond the end of a sequence that is shorter than others."""
    keys, values, y = x["past_k"].copy(), x["past_v"].copy(), np.zeros_like(x["q"])
    for at, total in enumerate(totals):
        for cache, new in [(keys, x["k"]), (values, x["v"])]:
            cache[at, :, total - 1] = new[at, 0].reshape(-1, size)
        for head, q in enumerate(x["q"][at, 0].reshape(-1, size)):
            seen = [j for j in range(total) if BLOCKS[head % layouts][(total - 1) // block][j // block]]
            weights = np.exp(keys[at, head // group, seen] @ q / np.sqrt(size))
            y[at, 0, head * size:(head + 1) * size] = weights / weights.sum() @ values[at, head // group, seen]
    return [y, keys, values]


def sparse_attention(name, totals, new, layouts=2, heads=4, shared=2, rotary=False, packed=False, defined=False, change=None, **attributes):
    size, block, batch = 16, 16, len(totals)
    room, total = 3 * block, max(totals)
    rows, columns = compressed(BLOCKS[:layouts])
    x = {"q": random(batch, new, heads * size), "k": random(batch, new, shared * size), "v": random(batch, new, shared * size)}
    if packed:
        x = {"q": np.concatenate(list(x.values()), -1), "k": None, "v": None}
    x |= {"past_k": np.zeros((batch, shared, room, size), np.float32), "past_v": np.zeros((batch, shared, room, size), np.float32)}
    for at, own in enumerate(totals):
        for cache in ["past_k", "past_v"]:
            x[cache][at, :, :own - new] = random(shared, own - new, size)
    x |= {"rows": rows, "columns": columns, "total": np.array([total], np.int32), "totals": np.array(totals, np.int32)}
    if rotary:
        angles = rng.uniform(-3, 3, (room, size // 2)).astype(np.float32)
        x |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    x |= change or {}
    attributes = {"num_heads": heads, "kv_num_heads": shared, "sparse_block_size": block, "do_rotary": int(rotary)} | attributes
    node = helper.make_node("SparseAttention", [k if v is not None else "" for k, v in x.items()], ["y", "new_k", "new_v"],
                            domain="com.microsoft", **attributes)
    given = {k: v for k, v in x.items() if v is not None}
    how = {"fails": True} if change else {"expected": chosen(x, totals, layouts, heads // shared) if defined else bound(node, given)}
    how |= {"relative": 1e-4, "absolute": 1e-5}
    f.add(f"sparse_{name}", [node], given, outputs=["y", "new_k", "new_v"], opset=17, opsets={"com.microsoft": 1}, **how)


sparse_attention("first", [40, 40], 40, heads=2, shared=1)
sparse_attention("first_one", [37], 37, layouts=1)
sparse_attention("first_scaled", [33], 33, layouts=3, heads=3, shared=1, scale=0.5)
sparse_attention("next", [41, 41], 1)
sparse_attention("next_of_unequal_lengths", [41, 38], 1, defined=True)
sparse_attention("next_three", [47, 47], 1, layouts=3, heads=3, shared=1)
sparse_attention("rotary", [34, 34], 34, heads=2, shared=1, rotary=True)
sparse_attention("rotary_neighbours", [34], 34, rotary=True, rotary_interleaved=1)
sparse_attention("rotary_next", [41, 41], 1, rotary=True)
sparse_attention("packed", [36], 36, heads=2, shared=1, rotary=True, packed=True)
sparse_attention("refuses_layouts_that_do_not_fit", [20], 20, layouts=3, change={"total": np.array([20], np.int32)})
sparse_attention("refuses_more_than_there_is_room_for", [20], 20, change={"total": np.array([49], np.int32)})
sparse_attention("refuses_rows_beyond_the_columns", [20], 20, change={"rows": np.array([[0, 1, 3, 99], [0, 1, 99, 99]], np.int32)})

# Products of queries and keys that leave the range of the type, or are NaN. What a truth value, causality, a window or a length excludes
# takes no part, whatever its product is. A number is added, so that minus infinity beside infinity gives NaN.
allowed = np.array([[True, False, True, True], [True, True, False, True], [False, False, True, False], [False, False, False, False]])
before, left = np.tril(np.ones((4, 4), bool)), np.eye(4, dtype=bool)


def overflowing(name, seen, op="Attention", key=None, t=np.float32, form=lambda x: x, **how):
    """`seen[i, j]` tells whether query i sees key j. Products with key 1 are infinite, or NaN if `key` is, and all others are 0."""
    great = np.finfo(t).max
    q, k = np.zeros((1, 1, 4, 2), t), np.zeros((1, 1, 4, 2), t)
    q[..., 0], k[0, 0, 1, 0] = great, great if key is None else key
    v = np.arange(8, dtype=t).reshape(1, 1, 4, 2)
    y = np.zeros((1, 1, 4, 2), t)
    for i, row in enumerate(seen):
        y[0, 0, i] = np.nan if row[1] else v[0, 0, row].mean(axis=0) if row.any() else 0
    inputs = {"q": form(q), "k": form(k), "v": form(v)} | how.pop("inputs", {})
    expected = [form(y), *(x(k, v) for x in how.pop("more", []))]
    f.add(name, op, inputs, expected=expected, outputs=len(expected), **how)


def over(name, seen, mask=None, lengths=None, attributes=None, **how):
    inputs = {"mask": mask, "pk": None, "pv": None, "lengths": lengths}
    overflowing(f"attention_{name}", seen, inputs=inputs, attributes=attributes, opset=25, **how)


for what, key in [("infinity", None), ("nan", np.nan)]:
    over(f"truth_mask_over_{what}", allowed, allowed, key=key)
    over(f"causal_over_{what}", before, attributes={"is_causal": 1}, key=key)
    over(f"window_over_{what}", left, attributes={"left_window_size": 0, "right_window_size": 0}, key=key)
    over(f"length_over_{what}", before[:1].repeat(4, 0), lengths=np.array([1], np.int64), key=key)
    over(f"truth_mask_and_causal_over_{what}", allowed & before, allowed, attributes={"is_causal": 1}, key=key)
    over(f"added_mask_over_{what}", np.ones((4, 4), bool), np.where(allowed[[0, 1, 2, 2]], 0, -np.inf).astype(np.float32), key=key)
    over(f"added_mask_and_causal_over_{what}", before, np.zeros((4, 4), np.float32), attributes={"is_causal": 1}, key=key)
over("truth_mask_over_infinity_f64", allowed, allowed, t=np.float64)
over("truth_mask_over_nan_f16", allowed, allowed, key=np.nan, t=np.float16)
products = np.where(allowed, np.array([0, np.inf, 0, 0], np.float32), -np.float32(np.inf))
over("products_with_a_truth_mask_over_infinity", allowed, allowed, attributes={"qk_matmul_output_mode": 2},
     more=[lambda k, v: k, lambda k, v: v, lambda k, v: products[None, None].astype(np.float32)])
flat, microsoft = lambda x: x[0] if x.ndim == 4 else x, {"opset": 17, "opsets": {"com.microsoft": 1}}
for what, key in [("infinity", None), ("nan", np.nan)]:
    overflowing(f"one_direction_over_{what}", before, "com.microsoft::MultiHeadAttention", key=key, form=flat,
                attributes={"num_heads": 1, "unidirectional": 1}, **microsoft)
    numbers = {"pk": None, "pv": None, "last": np.array([3], np.int32), "total": np.array([4], np.int32)}
    group_query = {"op": "com.microsoft::GroupQueryAttention", "key": key, "form": flat, "more": [lambda k, v: k, lambda k, v: v], **microsoft}
    heads = {"num_heads": 1, "kv_num_heads": 1}
    overflowing(f"group_query_over_{what}", before, inputs=numbers, attributes=heads, **group_query)
    overflowing(f"group_query_window_over_{what}", left, inputs=numbers, attributes=heads | {"local_window_size": 1}, **group_query)
    biased = numbers | {"cos": None, "sin": None, "ids": None, "bias": np.zeros((1, 1, 4, 4), np.float32)}
    overflowing(f"group_query_bias_over_{what}", before, inputs=biased, attributes=heads, **group_query)
# A negative scale. ONNX's function has the square root of the scale at queries and at keys; the definition has the scale at their product.
def scaled(q, k, v, scale, cap=0.0, causal=False):
    q, k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1).astype(np.float64) for x in (q, k, v))
    products = q @ k.swapaxes(2, 3) * scale
    products = cap * np.tanh(products / cap) if cap else products
    products = np.where(np.tri(q.shape[2], k.shape[2], dtype=bool), products, -np.inf) if causal else products
    weights = np.exp(products - products.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


for name, scale, cap, causal in [("below_zero", -0.3, 0.0, False), ("below_zero_softcap", -1.2, 2.0, False), ("below_zero_causal", -0.5, 0.0, True), ("zero", 0.0, 0.0, False)]:
    for t in (np.float32, np.float16, np.float64):
        for opset in (23, 24):
            q, k, v = random(*Q, t=t), random(2, 2, 5, 4, t=t), random(2, 2, 5, 6, t=t)
            f.add(f"attention_scale_{name}_{short(t)}_{opset}", "Attention", {"q": q, "k": k, "v": v}, opset=opset, **near(t),
                  attributes={"scale": scale, "softcap": cap, "is_causal": int(causal)}, expected=scaled(q, k, v, scale, cap, causal).astype(t))
q, k, v = random(*Q), random(*K), random(*K)
f.add("flex_scale_below_zero", f"{PREVIEW}::FlexAttention", {"q": q, "k": k, "v": v}, attributes={"scale": -0.2}, opset=26, opsets={"": 26, PREVIEW: 1},
      expected=scaled(q, k, v, -0.2).astype(np.float32), **near(np.float32))
f.add("attention_scale_nan", "Attention", {"q": q, "k": k, "v": v}, attributes={"scale": np.nan}, opset=24, expected=np.full(q.shape, np.nan, np.float32))
sparse_attention("first_scaled_below_zero", [33], 33, layouts=3, heads=3, shared=1, scale=-0.5)
f.write()
