"""MoE and QMoE of `com.microsoft`: computed by ONNX Runtime; what its CPU kernels do not take, by NumPy as the schemas define it."""
import ml_dtypes
import numpy as np

from family import Family, bfloat16, tensor

f = Family("experts", opset=17)
MS = {"com.microsoft": 1}
rng = np.random.default_rng(11)
T, E, H, I = 5, 4, 6, 8
"""The tokens, the experts, and the sizes outside of them and inside."""


def random(*shape, scale=1.0):
    return rng.normal(0, scale, shape).astype(np.float32)


def add(name, op, inputs, attributes=None, **how):
    how = {"expected": "ort", "relative": 1e-4, "absolute": 1e-4} | how
    f.add(name, f"com.microsoft::{op}", inputs, attributes=attributes, opsets=MS, **how)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


PLAIN = {"relu": lambda x: np.maximum(x, 0), "relu2": lambda x: np.maximum(x, 0) ** 2, "gelu": gelu, "silu": lambda x: x * sigmoid(x),
         "identity": lambda x: x}


def between(h, third, activation, fusion=1, alpha=1.0, beta=0.0, limit=np.inf, after=False):
    """What is between the layers of an expert, as the schemas define it."""
    if activation in PLAIN:
        return PLAIN[activation](h) if third is None else PLAIN[activation](h) * third
    half = h.shape[-1] // 2
    g, l = (h, third) if third is not None else (h[..., :half], h[..., half:]) if fusion == 2 else (h[..., 0::2], h[..., 1::2])
    if activation == "geglu":
        return gelu(g) * l
    l = np.clip(l, -limit, limit)
    if after:
        return np.minimum(g * sigmoid(alpha * g), limit) * (l + beta)
    g = np.minimum(g, limit)
    return g * sigmoid(alpha * g) * (l + beta)


def mixture(x, chosen, weights, w1, b1, w2, b2, w3=None, b3=None, **how):
    """The definition, in double precision."""
    wide = lambda a: None if a is None else np.asarray(a, np.float64)
    x, w1, b1, w2, b2, w3, b3 = map(wide, (x, w1, b1, w2, b2, w3, b3))
    layer = lambda x, w, b, e: x @ w[e].T + (0 if b is None else b[e])
    y = np.zeros((len(x), w2.shape[1]))
    for t in range(len(x)):
        for e, weight in zip(chosen[t], weights[t]):
            third = None if w3 is None else layer(x[t], w3, b3, e)
            y[t] += weight * layer(between(layer(x[t], w1, b1, e), third, **how), w2, b2, e)
    return y.astype(np.float32)


def routed(logits, k, normalise):
    """The experts of each token and their weights: probabilities of all, or among those that are chosen."""
    p = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    chosen = np.argsort(-p, axis=-1, kind="stable")[:, :k]
    weights = np.take_along_axis(p, chosen, -1)
    return chosen, weights / weights.sum(-1, keepdims=True) if normalise else weights


def plain(x=None, out=I, tokens=T):
    return {"x": random(tokens, H) if x is None else x, "router": random(tokens, E), "w1": random(E, out, H), "b1": random(E, out),
            "w2": random(E, H, I), "b2": random(E, H)}


for activation in ["relu", "gelu", "silu", "identity"]:
    for k, normalise in [(1, 0), (2, 1)]:
        add(f"moe_{activation}_{k}_{normalise}", "MoE", plain(), {"k": k, "normalize_routing_weights": normalise, "activation_type": activation})
add("moe_one_token", "MoE", plain(tokens=1), {"k": 2})
add("moe_no_tokens", "MoE", plain(tokens=0), {"k": 2}, expected=np.zeros((0, H), np.float32))
add("moe_all_experts", "MoE", plain(), {"k": E, "activation_type": "silu"})
add("moe_default_k", "MoE", plain())
x3 = random(1, T, H)
add("moe_batch", "MoE", plain(x3), {"k": 2, "normalize_routing_weights": 1})
add("moe_no_biases", "MoE", plain() | {"b1": None, "b2": None}, {"k": 2})
# Older models name the extents of matrices in the other order.
older = plain()
add("moe_older_extents", "MoE", older | {"w1": older["w1"].reshape(E, H, I), "w2": older["w2"].reshape(E, I, H)}, {"k": 2})
gate = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2}
for name, more in [("plain", {}), ("limit", {"swiglu_limit": 0.75}), ("beta", {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0})]:
    add(f"moe_swiglu_{name}", "MoE", plain(out=2 * I), gate | more)
    add(f"moe_swiglu_{name}_one_token", "MoE", plain(out=2 * I, tokens=1), gate | more)


def defined(name, inputs, attributes, **how):
    """A vector of what ONNX Runtime's CPU kernel does not take."""
    chosen, weights = routed(inputs["router"], attributes["k"], attributes.get("normalize_routing_weights"))
    given = {key: inputs.get(key) for key in ["b1", "w2", "b2", "w3", "b3"]}
    y = mixture(inputs["x"], chosen, weights, inputs["w1"], **given, **how)
    add(name, "MoE", inputs, attributes, expected=y)


for tokens in [1, T]:
    defined(f"moe_swiglu_halves_{tokens}", plain(out=2 * I, tokens=tokens), gate | {"swiglu_fusion": 2, "swiglu_limit": 1.0, "activation_beta": 0.5},
            activation="swiglu", fusion=2, limit=1.0, beta=0.5)
    third = {"w3": random(E, I, H), "b3": random(E, I)}
    defined(f"moe_swiglu_third_{tokens}", plain(tokens=tokens) | third, gate | {"swiglu_fusion": 0}, activation="swiglu")
    defined(f"moe_silu_third_{tokens}", plain(tokens=tokens) | third, {"k": 2, "activation_type": "silu", "normalize_routing_weights": 1}, activation="silu")
    defined(f"moe_geglu_{tokens}", plain(out=2 * I, tokens=tokens), {"k": 2, "activation_type": "geglu", "swiglu_fusion": 1}, activation="geglu")
defined("moe_geglu_halves", plain(out=2 * I), {"k": 1, "activation_type": "geglu", "swiglu_fusion": 2}, activation="geglu", fusion=2)
defined("moe_relu2", plain(), {"k": 2, "activation_type": "relu2"}, activation="relu2")
defined("moe_limit_after", plain(out=2 * I), gate | {"swiglu_limit": 0.5, "swiglu_limit_after_activation": 1}, activation="swiglu", limit=0.5, after=True)


def sparse(logits):
    """SparseMixer of Phi-3.5-MoE, in evaluation."""
    logits = logits.astype(np.float64)
    chosen, weights = [], []
    for row in logits:
        left, at, own = row.copy(), [], []
        for _ in range(2):
            best = int(np.argmax(left))
            most = left[best]
            far = (most - row) / np.maximum(np.abs(row), most) > 0.02
            p = np.exp(np.where(far, -np.inf, left) - most)
            at.append(best)
            own.append(p[best] / p.sum())
            left[best] = -np.inf
        chosen.append(at)
        weights.append(own)
    return np.array(chosen), np.array(weights)


near = plain()
near["router"] = np.array([[1.0, 0.99, 0.2, -3], [2, 2.03, 2.01, 1.99], [0.1, 0.5, 0.501, 0.4], [3, 1, 0.98, 1.01], [0.5, -0.5, 0.25, 0.125]], np.float32)
chosen, weights = sparse(near["router"])
add("moe_sparse_mixer", "MoE", near, {"k": 2, "use_sparse_mixer": 1},
    expected=mixture(near["x"], chosen, weights, near["w1"], near["b1"], near["w2"], near["b2"], activation="relu"))

# 16-bit floats: the result is rounded once.
half = {key: value.astype(np.float16) for key, value in plain().items()}
wide = {key: value.astype(np.float32) for key, value in half.items()}
chosen, weights = routed(wide["router"], 2, True)
y = mixture(wide["x"], chosen, weights, wide["w1"], wide["b1"], wide["w2"], wide["b2"], activation="silu")
add("moe_f16", "MoE", half, {"k": 2, "normalize_routing_weights": 1, "activation_type": "silu"}, expected=y.astype(np.float16), relative=2e-3, absolute=2e-3)

# What is refused.
for name, change, attributes in [
    ("k_of_none", {}, {"k": 0}), ("k_of_more", {}, {"k": E + 1}), ("unknown_activation", {}, {"activation_type": "tanh"}),
    ("router_of_other_tokens", {"router": random(T + 1, E)}, {}), ("layers_that_do_not_fit", {"w1": random(E, I + 1, H), "b1": None}, {}),
    ("unknown_attribute", {}, {"experts": 4}), ("bias_of_another_size", {"b2": random(E, H + 1)}, {}),
]:
    add(f"refuses_{name}", "MoE", plain() | change, {"k": 2} | attributes, fails=True)

# Weights of few bits.
HQ, IQ = 16, 32


def quantised(outer, inner, bits, block, zeros):
    """Weights, scales, zero points, and what they stand for."""
    size = block or inner
    q = rng.integers(0, 2**bits, (E, outer, inner)).astype(np.uint8)
    scales = ((rng.random((E, outer, inner // size)) + 0.5) / 2 ** (bits - 1)).astype(np.float32)
    points = rng.integers(0, 2**bits, scales.shape).astype(np.uint8) if zeros else np.full(scales.shape, 2 ** (bits - 1), np.uint8)
    numbers = (q.astype(np.float32) - np.repeat(points, size, 2)) * np.repeat(scales, size, 2)

    def packed(a):
        each = 8 // bits
        a = np.concatenate([a, np.zeros((*a.shape[:-1], -a.shape[-1] % each), np.uint8)], -1)
        return sum((a[..., i::each] << (bits * i) for i in range(each)), np.zeros((*a.shape[:-1], a.shape[-1] // each), np.uint8)).astype(np.uint8)

    points = packed(points if block else points[..., 0]) if zeros else None
    return packed(q), scales if block else scales[..., 0], points, numbers


def q_moe(name, bits, block, zeros, activation="relu", k=2, tokens=3, third=False, expected="ort", bits2=None, weights=None, **more):
    out = 2 * IQ if activation == "swiglu" and not third else IQ
    bits2 = bits2 or bits
    q1, s1, z1, d1 = quantised(out, HQ, bits, block, zeros)
    q2, s2, z2, d2 = quantised(HQ, IQ, bits2, block, zeros)
    q3, s3, z3, d3 = quantised(IQ, HQ, bits, block, zeros) if third else (None, None, None, None)
    inputs = {"x": random(tokens, HQ), "router": random(tokens, E), "q1": q1, "s1": s1, "b1": random(E, out), "q2": q2, "s2": s2,
              "b2": random(E, HQ), "q3": q3, "s3": s3, "b3": None, "z1": z1, "z2": z2, "z3": z3, "weights": weights}
    attributes = {"k": k, "activation_type": activation, "expert_weight_bits": bits} | ({"block_size": block} if block else {}) | more
    if bits2 != bits:
        attributes["fc2_expert_weight_bits"] = bits2
    if isinstance(expected, dict):
        chosen, own = routed(inputs["router"], k, True)
        expected = mixture(inputs["x"], chosen, own, d1, inputs["b1"], d2, inputs["b2"], d3, activation=activation, **expected)
    add(name, "QMoE", inputs, attributes, expected=expected, relative=1e-3, absolute=1e-3)


for bits in [4, 8]:
    for block in [0, 16]:
        for zeros in [False, True]:
            q_moe(f"q_moe_{bits}_{block}_{zeros}", bits, block, zeros)
            q_moe(f"q_moe_{bits}_{block}_{zeros}_one_token", bits, block, zeros, tokens=1, activation="silu")
q_moe("q_moe_2_bits", 2, 16, True, expected={})
q_moe("q_moe_2_bits_one_token", 2, 0, True, tokens=1, expected={})
gate = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 3.0}
q_moe("q_moe_swiglu", 4, 16, True, "swiglu", **gate)
q_moe("q_moe_swiglu_one_token", 4, 16, False, "swiglu", tokens=1, **gate)
q_moe("q_moe_not_prepacked", 4, 16, False, weights_prepacked=0)
q_moe("q_moe_weights_of_the_router", 4, 16, False, weights=np.abs(random(3, E)))
q_moe("q_moe_weights_of_the_router_normalised", 4, 16, False, weights=np.abs(random(3, E)), normalize_routing_weights=1)
q_moe("q_moe_third", 4, 16, True, "silu", third=True, expected={})
q_moe("q_moe_third_one_token", 8, 0, False, "swiglu", third=True, tokens=1, swiglu_fusion=0, expected={})
q_moe("q_moe_bits_of_the_second", 4, 16, True, bits2=8, expected={})


def q_moe_floats(name, block, activation="relu", tokens=3, third=False, router=None, **how):
    """Weights that are floats of 8 bits, with a scale for each square block or for each expert, as the schema defines them."""
    out = 2 * IQ if activation == "swiglu" and not third else IQ

    def layer(outer, inner):
        w = random(E, outer, inner).astype(ml_dtypes.float8_e4m3fn)
        if not block:
            s = (rng.random(E) + 0.5).astype(np.float32)
            return w, s, w.astype(np.float32) * s[:, None, None]
        s = (rng.random((E, -(-outer // block), -(-inner // block))) + 0.5).astype(np.float32)
        return w, s, w.astype(np.float32) * np.repeat(np.repeat(s, block, 1), block, 2)[:, :outer, :inner]

    (q1, s1, d1), (q2, s2, d2) = layer(out, HQ), layer(HQ, IQ)
    q3, s3, d3 = layer(IQ, HQ) if third else (None, None, None)
    places = {"s1": s1, "s2": s2, "s3": s3, "g1": None, "g2": None} if block else {"s1": None, "s2": None, "s3": None, "g1": s1, "g2": s2}
    inputs = {"x": random(tokens, HQ), "router": random(tokens, E), "q1": q1, "s1": places["s1"], "b1": random(E, out), "q2": q2,
              "s2": places["s2"], "b2": random(E, HQ), "q3": q3, "s3": places["s3"], "b3": None, "z1": None, "z2": None, "z3": None,
              "weights": None, "g1": places["g1"], "g2": places["g2"]}
    chosen, own = routed(inputs["router"], 2, True)
    expected = mixture(inputs["x"], chosen, own, d1, inputs["b1"], d2, inputs["b2"], d3, activation=activation, **how)
    attributes = {"k": 2, "activation_type": activation, "quant_type": "fp8"} | ({"block_size": block} if block else {})
    attributes |= {"swiglu_fusion": how.get("fusion", 0 if third else 1)} if activation == "swiglu" else {}
    add(name, "QMoE", inputs, attributes, expected=expected, relative=1e-3, absolute=1e-3)
    return inputs, attributes


for block in [0, 8, 12]:
    q_moe_floats(f"q_moe_fp8_{block}", block)
    q_moe_floats(f"q_moe_fp8_{block}_one_token", block, tokens=1, activation="silu")
q_moe_floats("q_moe_fp8_swiglu", 8, "swiglu")
q_moe_floats("q_moe_fp8_third", 12, "swiglu", third=True)
inputs, attributes = q_moe_floats("q_moe_fp8_to_refuse", 8)
for name, change, more in [
    ("integers", {"q1": np.zeros((E, IQ, HQ), np.uint8)}, {}), ("scales_of_other_blocks", {"s1": inputs["s1"][:, :1]}, {}),
    ("no_scales", {"s2": None}, {}), ("zero_points", {"z1": np.zeros((E, IQ, 1), np.uint8)}, {}), ("floats_of_4_bits", {}, {"quant_type": "fp4"}),
]:
    add(f"refuses_q_moe_{name}", "QMoE", inputs | change, attributes | more, fails=True)
f.write()
