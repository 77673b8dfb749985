"""Vectors of operators of `com.microsoft` for decoders, speech and newer language models, computed by ONNX Runtime."""
import numpy as np
from family import Family

f = Family("newer", opset=21)
rng = np.random.default_rng(37)


def random(*shape, scale=1.0):
    return rng.normal(0, scale, shape).astype(np.float32)


def add(name, op, inputs, attributes=None, **how):
    how = {"expected": "ort", "relative": 1e-4, "absolute": 1e-5} | how
    f.add(name, f"com.microsoft::{op}", inputs, attributes=attributes, opsets={"com.microsoft": 1}, **how)


# Windows of an axis.
x = random(2, 9, 3)
for name, attributes in [("last", {"size": 2}), ("middle", {"size": 4, "step": 2, "dim": 1}), ("first", {"size": 1, "step": 3, "dim": -3}),
                         ("whole", {"size": 9, "dim": 1})]:
    add(f"unfold_{name}", "UnfoldTensor", {"x": x}, attributes)
add("unfold_i64", "UnfoldTensor", {"x": np.arange(7)}, {"size": 3, "step": 2})
add("unfold_strings", "UnfoldTensor", {"x": np.array(["a", "b", "c"])}, {"size": 2},
    expected=np.array([["a", "b"], ["b", "c"]], object))
add("unfold_too_large", "UnfoldTensor", {"x": x}, {"size": 4}, fails=True)
add("unfold_no_step", "UnfoldTensor", {"x": x}, {"size": 2, "step": 0}, fails=True)
add("sample", "SampleOp", {"x": x})

# Tokens.
tokens = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [0, 1, 2, 3, 4]])
scores = random(3, 6)
for size in (1, 2, 3, 4, 5, 6, 9):
    add(f"ngram_repeat_{size}", "NGramRepeatBlock", {"tokens": tokens, "scores": scores}, {"ngram_size": size})
add("ngram_repeat_none", "NGramRepeatBlock", {"tokens": tokens, "scores": scores}, {"ngram_size": 0}, fails=True)
for name, source, current, at, predicted, attributes in [
    ("plain", [1, 2, 3, 4], [1], 1, [2, 3, 9, 9], {}), ("all", [1, 2, 3], [7], 0, [1, 2, 3, 4], {}),
    ("none_predicted", [5, 6, 5, 7], [5, 7], 0, None, {}), ("several", [5, 6, 5, 6], [5], 2, [6, 6, 6], {"max_ngram_size": 2}),
    ("longer", [1, 2, 1, 3], [9, 2], 2, [1, 1, 1], {"min_ngram_size": 1, "max_ngram_size": 4}), ("unknown", [1, 2], [8], 2, [3], {}),
]:
    operands = {"source": np.array(source), "current": np.array(current), "at": np.array([at])}
    operands |= {} if predicted is None else {"predicted": np.array(predicted)}
    add(f"bifurcation_{name}", "BifurcationDetector", operands, attributes, outputs=2)
add("warping", "DynamicTimeWarping", {"x": random(5, 7)})
add("warping_of_one_matrix", "DynamicTimeWarping", {"x": random(1, 6, 3)})
add("warping_ties", "DynamicTimeWarping", {"x": np.ones((4, 3), np.float32)})
add("warping_row", "DynamicTimeWarping", {"x": random(1, 4)})

# Words, n-grams and experts.
words = rng.integers(1, 6, (5, 7)).astype(np.int32)
for word, length in zip(words, (7, 3, 5, 1, 2)):
    word[length:] = 0
letters = {"words": words, "w": random(4, 1, 3, 5), "b": random(4), "table": random(6, 5)}
add("words", "WordConvEmbedding", letters)
add("words_sizes", "WordConvEmbedding", letters, {"embedding_size": 4, "conv_window_size": 3, "char_embedding_size": 5})
add("words_without_letters", "WordConvEmbedding", letters | {"words": np.zeros((2, 4), np.int32)}, expected=np.zeros((2, 4), np.float32))
add("words_of_other_sizes", "WordConvEmbedding", letters, {"embedding_size": 5}, fails=True)
for dtype in (np.int32, np.int64):
    tokens = {"ids": rng.integers(0, 5, (2, 6)).astype(dtype),
              "factors": rng.integers(-(2**30) if dtype == np.int32 else -(2**62), 2**30, 3).astype(dtype),
              "sizes": rng.integers(1, 1000, 4).astype(dtype)}
    more = {"past": rng.integers(0, 5, (2, 2)).astype(dtype), "offsets": rng.integers(0, 100, 4).astype(dtype),
            "end": np.array(2, dtype), "segments": np.array([[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 2, 2]], np.int32)}
    sizes = {"pad_id": 4, "n_head_per_ngram": 2, "max_ngram_size": 3}
    for name, given, reset in [("", [], 0), ("_past", ["past", "offsets"], 0), ("_end", ["end"], 0), ("_reset", ["past", "end"], 1),
                               ("_all", list(more), 1)]:
        operands = tokens | {k: v if k in given else None for k, v in more.items()}
        add(f"ngram_hashes{name}_{np.dtype(dtype).name}", "NGramHashMapping", operands, sizes | {"reset_on_eos": reset}, outputs=2)
add("ngram_hashes_of_too_few_factors", "NGramHashMapping", tokens, sizes | {"max_ngram_size": 4}, fails=True)
logits, bias = random(2, 3, 8), random(8)
add("router", "MoEGroupRouter", {"x": logits, "bias": bias}, {"top_k": 3, "n_group": 4, "topk_group": 2, "group_topk": 2})
add("router_of_one_group", "MoEGroupRouter", {"x": logits, "bias": bias}, {"top_k": 2})
add("router_sentinel", "MoEGroupRouter", {"x": logits, "bias": bias}, {"top_k": 1, "n_group": 2, "group_topk": 9, "router_sentinel": -7.0})
add("router_scores", "MoEGroupRouter", {"x": logits, "bias": bias}, {"top_k": 2}, outputs=["", "s", "w"])
add("router_too_many", "MoEGroupRouter", {"x": logits, "bias": bias}, {"top_k": 5, "n_group": 4, "topk_group": 2}, fails=True)

# Integers of 16 bits.
a, b = rng.integers(-(2**15), 2**15, (2, 3, 4)).astype(np.int16), rng.integers(-2000, 2000, (4, 5)).astype(np.int16)
wide = lambda x: x.astype(np.int64)
add("integers_16", "MatMulInteger16", {"a": a, "b": b}, expected=(wide(a) @ wide(b)).astype(np.int32))
u = rng.integers(0, 2**16, (2, 3)).astype(np.uint16), rng.integers(0, 9000, (3, 2)).astype(np.uint16)
add("integers_16_unsigned", "MatMulInteger16", {"a": u[0], "b": u[1]}, expected=(wide(u[0]) @ wide(u[1])).astype(np.uint32))

# Masks of keys, of which the first numbers are the lengths of the keys.
q, k, v = random(2, 3, 8), random(2, 5, 8), random(2, 5, 8)
for name, mask in [("lengths", [2, 5, 0, 3, 6, 0, 5, 10]), ("packed", [4, 1, 0, 2, 3, 0, 4, 5])]:
    add(f"keys_masked_by_{name}", "MultiHeadAttention", {"q": q, "k": k, "v": v, "bias": None, "mask": np.array(mask, np.int32)},
        {"num_heads": 2})
q, k, v = random(1, 3, 4), random(1, 4, 4), random(1, 4, 4)
add("keys_masked_in_one_batch", "MultiHeadAttention", {"q": q, "k": k, "v": v, "bias": None, "mask": np.array([3, 0, 3, 0, 4], np.int32)},
    {"num_heads": 1})

# Gates and streams.
x, y, scale = random(2, 3, 8), random(2, 3, 8), random(4)
add("gated_add", "GatedAdd", {"x": x, "y": y, "gate": random(2, 3, 1)})
add("gated_add_by_column", "GatedAdd", {"x": x, "y": y, "gate": random(2, 3, 8)}, fails=True)
for activation in ("silu", "swish", "sigmoid"):
    add(f"gated_rms_{activation}", "GatedRMSNorm", {"x": x, "scale": scale, "gate": y}, {"activation": activation, "epsilon": 1e-3})
add("gated_rms_tanh", "GatedRMSNorm", {"x": x, "scale": scale, "gate": y}, {"activation": "tanh"}, fails=True)
add("gated_rms_of_other_parts", "GatedRMSNorm", {"x": x, "scale": random(3), "gate": y}, fails=True)
add("scaled_silu", "ScaledSiLU", {"x": x}, {"alpha": 1.5})
add("scaled_silu_operand", "ScaledSiLU", {"x": x, "scale": np.float32(-0.5)})
grouped = random(2, 3, 4, 5)
flat = grouped.reshape(2, 3, 20)
add("branchwise_rms", "BranchwiseRMSNorm", {"x": grouped})
add("branchwise_rms_scale", "BranchwiseRMSNorm", {"x": grouped, "scale": random(5)}, {"epsilon": 1e-2})
add("branchwise_rms_each", "BranchwiseRMSNorm", {"x": grouped, "scale": random(4, 5)})
add("branchwise_rms_flat", "BranchwiseRMSNorm", {"x": flat, "scale": random(20)}, {"num_branches": 4})
for name, shape in [("branch", (2, 3, 4)), ("column", (2, 3, 4, 1)), ("each", (2, 3, 4, 5))]:
    add(f"pre_mix_{name}", "HyperConnectionPreMix", {"x": grouped, "mix": random(*shape)}, {"reduction_scale": 0.5})
    add(f"pre_mix_flat_{name}", "HyperConnectionPreMix", {"x": flat, "mix": random(*shape)}, {"num_branches": 4})
    operands = {"x": grouped, "block": random(2, 3, 5), "mix": random(*shape)}
    add(f"post_mix_{name}", "HyperConnectionPostMix", operands)
    add(f"post_mix_matrix_{name}", "HyperConnectionPostMix", operands | {"matrix": random(2, 3, 4, 4)})
add("pre_mix_flat_all", "HyperConnectionPreMix", {"x": flat, "mix": random(2, 3, 20)}, {"num_branches": 4})
add("post_mix_flat", "HyperConnectionPostMix", {"x": flat, "block": random(2, 3, 5), "mix": random(2, 3, 4), "matrix": random(2, 3, 4, 4)},
    {"num_branches": 4})
add("linear_attention_gate", "LinearAttentionGate", {"a": x, "bias": random(8), "scale": random(8)})
add("linear_attention_gate_rate", "LinearAttentionGate", {"a": x, "bias": random(8), "scale": random(8), "b": y}, outputs=2)
engram = {"key": random(2, 3, 2, 4), "query": random(2, 3, 2, 4), "value": random(2, 3, 4), "ks": random(2, 4), "qs": random(2, 4)}
add("engram_gate", "EngramGate", engram)
add("engram_gate_normalised", "EngramGate", engram | {"vs": random(2, 4)}, {"epsilon": 1e-3}, outputs=2)

# Positions of three kinds.
table = {"cos": random(9, 6), "sin": random(9, 6)}
ids = rng.integers(0, 9, (3, 2, 4))
for name, x, attributes in [
    ("sections", random(2, 4, 24), {"mrope_section": [2, 3, 1], "num_heads": 2}), ("mixed", random(2, 4, 24), {"mrope_section": [2, 2, 2], "mrope_layout": 1, "num_heads": 2}),
    ("mixed_unequal", random(2, 4, 24), {"mrope_section": [4, 1, 1], "mrope_layout": 1, "num_heads": 2}),
    ("heads", random(2, 2, 4, 12), {"mrope_section": [6, 0, 0]}),
    ("interleaved", random(2, 4, 24), {"mrope_section": [1, 2, 3], "interleaved": 1, "num_heads": 2}),
    ("part", random(2, 4, 32), {"mrope_section": [2, 2, 2], "rotary_embedding_dim": 12, "num_heads": 2}),
]:
    add(f"three_positions_{name}", "MRotaryEmbedding", {"x": x, "ids": ids, **table}, attributes)
add("three_positions_of_other_pairs", "MRotaryEmbedding", {"x": random(2, 4, 24), "ids": ids, **table}, {"mrope_section": [2, 2, 3], "num_heads": 2}, fails=True)

# States that are carried along.
x, w = random(2, 3, 5), random(3, 1, 3)
add("causal_conv", "CausalConvWithState", {"x": x, "w": w}, outputs=2)
add("causal_conv_past", "CausalConvWithState", {"x": x, "w": w, "b": random(3), "past": random(2, 3, 2)}, {"activation": "silu"}, outputs=2)
add("causal_conv_dilated", "CausalConvWithState", {"x": x, "w": w, "b": None, "past": random(2, 3, 4)}, {"dilation": 2}, outputs=2)
add("causal_conv_last", "CausalConvWithState", {"x": random(2, 5, 3), "w": w, "b": random(3), "past": random(2, 2, 3)}, {"channels_last": 1}, outputs=2)
add("causal_conv_last_parted", "CausalConvWithState", {"x": random(2, 5, 3, 2), "w": random(6, 1, 3)}, {"channels_last": 1}, outputs=2)


def convolved(x, w, past):
    """`CausalConvWithState` by its schema, with a window of states, which ONNX Runtime has on other devices alone."""
    window, (batch, channels, steps) = len(past), x.shape
    everything = np.concatenate([past[-1], x], 2)
    y = np.stack([(everything[:, :, t:t + 3] * w[:, 0]).sum(2) for t in range(steps)], 2)
    states = [everything[:, :, t + 1:t + 3] if t >= 0 else np.zeros((batch, channels, 2)) for t in range(steps - window, steps)]
    return [y.astype(np.float32), np.stack(states).astype(np.float32)]


for window, steps in [(1, 3), (2, 5), (4, 2)]:
    x, past = random(2, 3, steps), random(window, 2, 3, 2)
    y, states = convolved(x, w, past)
    add(f"causal_conv_window_{window}", "CausalConvWithState", {"x": x, "w": w, "b": None, "past": past}, {"state_window": window},
        outputs=2, expected=[y, states])
    last = {"x": np.ascontiguousarray(x.transpose(0, 2, 1)), "w": w, "b": None, "past": np.ascontiguousarray(past.transpose(0, 1, 3, 2))}
    add(f"causal_conv_window_{window}_last", "CausalConvWithState", last, {"state_window": window, "channels_last": 1}, outputs=2,
        expected=[y.transpose(0, 2, 1), states.transpose(0, 1, 3, 2)])
q, k, v = random(2, 3, 8, scale=0.3), random(2, 3, 4, scale=0.3), random(2, 3, 6)
heads = {"q_num_heads": 4, "kv_num_heads": 2}
decay, rate, past = -np.abs(random(2, 3, 2)), np.abs(random(2, 3, 2, scale=0.3)), random(2, 2, 2, 3)
add("linear_attention", "LinearAttention", {"q": q, "k": k, "v": v}, heads | {"update_rule": "linear"}, outputs=2)
add("linear_attention_gated", "LinearAttention", {"q": q, "k": k, "v": v, "past": past, "decay": decay}, heads | {"update_rule": "gated", "scale": 0.5}, outputs=2)
add("linear_attention_both", "LinearAttention", {"q": q, "k": k, "v": v, "past": past, "decay": decay, "rate": rate}, heads, outputs=2)


def attended(q, k, v, past, decay, rate):
    """`LinearAttention` of the rule `gated_delta` by its schema, with a window of states."""
    window, batch, heads, keys, values = past.shape
    steps, queries = q.shape[1], q.shape[2] // keys
    q, k, v = (x.astype(np.float64).reshape(batch, steps, -1, size) for x, size in [(q, keys), (k, keys), (v, values)])
    state, outputs, states = past[-1].astype(np.float64), [], [np.zeros(past.shape[1:])] * window
    for t in range(steps):
        state = state * np.exp(decay[:, t])[:, :, None, None]
        held = np.einsum("bhkv,bhk->bhv", state, k[:, t])
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], rate[:, t][:, :, None] * (v[:, t] - held))
        shared = np.repeat(state, queries // heads, axis=1)
        outputs.append(np.einsum("bqkv,bqk->bqv", shared, q[:, t]) / np.sqrt(keys))
        states = states[1:] + [state]
    y = np.stack(outputs, 1).reshape(batch, steps, queries * values)
    return [y.astype(np.float32), np.stack(states).astype(np.float32)]


for window in (1, 2, 5):
    operands = {"q": q, "k": k, "v": v, "past": random(window, 2, 2, 2, 3), "decay": decay, "rate": rate}
    add(f"linear_attention_window_{window}", "LinearAttention", operands, heads | {"state_window": window}, outputs=2,
        expected=attended(*operands.values()))

# Sequences of several requests, one behind another.
def varlen(name, ends, kernel=3, dilation=1, bias=True, capacity=0, counts=None, change=None, **attributes):
    channels, batch = 4, len(ends)
    x = {"x": random(ends[-1], channels), "w": random(channels, 1, kernel), "ends": np.array([0, *ends], np.int32),
         "b": random(channels) if bias else None, "state": random(batch, channels, (kernel - 1) * dilation),
         "counts": None if counts is None else np.array(counts, np.int32)}
    attributes |= ({"dilation": dilation} if dilation > 1 else {}) | ({"state_update_capacity": capacity} if capacity else {})
    how = {"fails": True} if change else {}
    add(f"varlen_{name}", "VarlenCausalConvWithState", x | (change or {}), attributes, outputs=3 if capacity else 2, **how)


varlen("causal_conv", [3, 4, 9])
varlen("causal_conv_one", [5], bias=False, activation="silu")
varlen("causal_conv_dilated", [2, 8], dilation=2, activation="swish")
varlen("causal_conv_captured", [3, 4, 9], capacity=4, counts=[2, 3, 9])
varlen("causal_conv_captured_none", [3, 4], kernel=2, capacity=2, counts=[0, -1])
varlen("causal_conv_of_falling_ends", [3, 9], change={"ends": np.array([0, 5, 3], np.int32)})
varlen("causal_conv_of_too_few_states", [3, 9], change={"state": random(1, 4, 2)})
varlen("causal_conv_without_counts", [3, 9], capacity=2, change={"counts": None})
f.write()
