"""DecoderMaskedMultiHeadAttention and DecoderMaskedSelfAttention of `com.microsoft`: one new position and its cache.

ONNX Runtime computes the first where its CPU kernel takes the operands; NumPy computes the rest, as the schemas define it.
"""
import numpy as np

from family import Family

f = Family("masked_decoders", opset=17)
MS = {"com.microsoft": 1}
rng = np.random.default_rng(23)
B, N, S, M, P = 4, 2, 4, 6, 3
"""The sequences, the heads, their size, the room of the cache and how much of it is in use."""
D = N * S
i32 = np.int32


def random(*shape):
    return rng.normal(0, 1, shape).astype(np.float32)


def add(name, op, inputs, attributes, **how):
    how = {"expected": "ort", "relative": 1e-4, "absolute": 1e-5} | how
    f.add(name, f"com.microsoft::{op}", inputs, attributes={"num_heads": N} | attributes, opsets=MS, **how)


def by_heads(x):
    return x.reshape(x.shape[0], N, -1)


def attended(q, keys, values, mask=None, added=None, scale=None, filter=-10000.0):
    """The definition: what a position sees, and the products with what is added to them."""
    q = by_heads(q.astype(np.float64))
    products = np.einsum("bnd,bntd->bnt", q, keys.astype(np.float64)) * (scale or 1 / np.sqrt(q.shape[-1]))
    if mask is not None:
        products = products + np.where(mask > 0, 0, filter)[:, None]
    if added is not None:
        products = products + added[:, :, 0]
    weights = np.exp(products - products.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = np.einsum("bnt,bntd->bnd", weights, values)
    return y.reshape(len(q), 1, -1).astype(np.float32), products[:, :, None].astype(np.float32)


def extended(k, v, pk, pv, past, shared=True):
    if not shared:
        return np.concatenate([pk, by_heads(k)[:, :, None]], 2), np.concatenate([pv, by_heads(v)[:, :, None]], 2)
    keys, values = pk.copy(), pv.copy()
    keys[:, :, past], values[:, :, past] = by_heads(k), by_heads(v)
    return keys, values


def gathered(cache, table, width, total):
    """The positions that each sequence sees, by the table."""
    own = cache[:, :, :total].copy()
    for row in range(len(cache)):
        for t in range(total - 1):
            own[row, :, t] = cache[row // width * width + table[row // width, row % width, t], :, t]
    return own


q, k, v, pk, pv = random(B, 1, D), random(B, 1, D), random(B, 1, D), random(B, N, M, S), random(B, N, M, S)
own = {"q": q, "k": k, "v": v, "mask": None, "added": None, "pk": pk, "pv": pv, "past": np.array([P], i32)}
mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], i32)
HEADS = "DecoderMaskedMultiHeadAttention"
shared = {"past_present_share_buffer": 1}
for name, more, attributes in [
    ("plain", {}, {}), ("mask", {"mask": mask}, {}), ("added", {"added": random(B, N, 1, P + 1)}, {}),
    ("added_for_all", {"added": random(1, N, 1, P + 1)}, {}), ("scale", {}, {"scale": 0.3}),
    ("filter", {"mask": mask}, {"mask_filter_value": -1.5}), ("bias", {"width": None, "table": None, "bias": random(3 * D)}, {}),
    ("no_past", {"past": np.array([0], i32)}, {}), ("last", {"past": np.array([M - 1], i32)}, {}),
]:
    add(f"self_{name}", HEADS, own | more, shared | attributes, outputs=3)
for name, table in [("own", np.tile(np.arange(2, dtype=i32)[:, None], (2, 1, M))),
                    ("others", np.array([[[0, 1, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1]], [[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]]], i32))]:
    add(f"beams_{name}", HEADS, own | {"width": np.array([2], i32), "table": table}, shared, outputs=3)
    add(f"beams_{name}_mask", HEADS, own | {"mask": np.ones((B, P + 1), i32), "width": np.array([2], i32), "table": table},
        shared, outputs=3)
add("one_beam", HEADS, own | {"width": np.array([1], i32), "table": np.zeros((B, 1, M), i32)}, shared, outputs=3)
ck, cv = random(B, N, 5, S), random(B, N, 5, S)
cross_mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [1, 0, 0, 0, 0]], i32)
add("cross", HEADS, {"q": q, "k": ck, "v": cv}, {})
add("cross_mask", HEADS, {"q": q, "k": ck, "v": cv, "mask": cross_mask}, {})
y, products = attended(q, ck, cv, cross_mask)
add("cross_products", HEADS, {"q": q, "k": ck, "v": cv, "mask": cross_mask}, {"output_qk": 1}, outputs=["y", "", "", "qk"],
    expected=[y, products])
keys, values = extended(k, v, pk, pv, P)
mask[3, 3] = 1  # a row of masks alone has no digits left
y, products = attended(q, keys[:, :, :P + 1], values[:, :, :P + 1], mask)
add("self_products", HEADS, own | {"mask": mask}, shared | {"output_qk": 1}, outputs=["y", "k2", "v2", "qk"],
    expected=[y, keys, values, products])
packed = {"q": np.concatenate([q, k, v], -1), "k": None, "v": None, "mask": None, "added": None, "pk": pk, "pv": pv, "past": np.array([P], i32)}
y, _ = attended(q, keys[:, :, :P + 1], values[:, :, :P + 1])
add("packed", HEADS, packed, shared, outputs=3, expected=[y, keys, values])
short = {"pk": pk[:, :, :P].copy(), "pv": pv[:, :, :P].copy(), "past": None}
long_keys, long_values = extended(k, v, short["pk"], short["pv"], P, shared=False)
add("cache_that_grows", HEADS, own | short, {}, outputs=3, expected=[attended(q, long_keys, long_values)[0], long_keys, long_values])

# 16-bit floats: the result is rounded once.
halves = {key: x.astype(np.float16) if x is not None and x.dtype == np.float32 else x for key, x in own.items()}
wide = {key: x.astype(np.float32) if x is not None and x.dtype == np.float16 else x for key, x in halves.items()}
keys16, values16 = extended(wide["k"], wide["v"], wide["pk"], wide["pv"], P)
y = attended(wide["q"], keys16[:, :, :P + 1], values16[:, :, :P + 1])[0]
add("self_f16", HEADS, halves, shared, outputs=3, expected=[y.astype(np.float16), keys16.astype(np.float16), values16.astype(np.float16)],
    relative=2e-3, absolute=1e-3)

for name, more, attributes in [
    ("cache_that_is_full", {"past": np.array([M], i32)}, {}), ("two_positions", {"q": random(B, 2, D)}, {}),
    ("table_that_is_missing", {"width": np.array([2], i32)}, {}), ("mask_of_another_length", {"mask": np.ones((B, M), i32)}, {}),
    ("past_below_0", {"past": np.array([-1], i32)}, {}), ("width_that_does_not_fit", {"width": np.array([3], i32), "table": np.zeros((1, 3, M), i32)}, {}),
    ("unknown_attribute", {}, {"rotary": 1}),
]:
    add(f"refuses_{name}", HEADS, own | more, shared | attributes, outputs=3, fails=True)

# The projections are one product, and the keys lie in groups of 16 bytes.
SELF = "DecoderMaskedSelfAttention"


def grouped(keys):
    n = 16 // keys.dtype.itemsize
    b, h, room, size = keys.shape
    return np.ascontiguousarray(keys.reshape(b, h, room, size // n, n).transpose(0, 1, 3, 2, 4)).reshape(keys.shape)


SS = 8
DS = N * SS
x, w, bias = random(B, 1, 5), random(5, 3 * DS), random(3 * DS)
pk, pv = random(B, N, M, SS), random(B, N, M, SS)
table = np.array([[[0, 1, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1]], [[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]]], i32)


def self_attention(name, mask=None, added=None, table=None, shared=True, dtype=np.float32, **attributes):
    inner = lambda a: a.astype(dtype).astype(np.float32)
    merged = inner(x).astype(np.float64) @ inner(w) + inner(bias)
    q, k, v = (merged[..., i * DS:(i + 1) * DS].astype(np.float32) for i in range(3))
    past_k, past_v = (inner(pk), inner(pv)) if shared else (inner(pk[:, :, :P]), inner(pv[:, :, :P]))
    keys, values = extended(k, v, past_k, past_v, P, shared)
    seen = (keys[:, :, :P + 1], values[:, :, :P + 1]) if table is None else [gathered(c, table, 2, P + 1) for c in (keys, values)]
    y, _ = attended(q, *seen, mask, added, attributes.get("scale"))
    past = np.stack([grouped(past_k.astype(dtype)) if shared else past_k.astype(dtype), past_v.astype(dtype)])
    present = np.stack([grouped(keys.astype(dtype)) if shared else keys.astype(dtype), values.astype(dtype)])
    inputs = {"x": x.astype(dtype), "w": w.astype(dtype), "bias": bias.astype(dtype), "mask": mask, "past": past,
              "added": added, "length": np.array([P], i32), "width": None if table is None else np.array([2], i32), "table": table}
    loose = {} if dtype == np.float32 else {"relative": 4e-3, "absolute": 4e-3}
    add(name, SELF, inputs, {"past_present_share_buffer": int(shared)} | attributes, outputs=2, expected=[y.astype(dtype), present], **loose)


self_attention("merged")
self_attention("merged_mask", mask=mask)
self_attention("merged_added", added=random(B, N, 1, P + 1), scale=0.25)
self_attention("merged_beams", table=table)
self_attention("merged_cache_that_grows", shared=False)
self_attention("merged_f16", dtype=np.float16)
# The first position: it sees only itself.
alone = {"q": q, "k": k, "v": v}
add("no_cache", HEADS, alone, {})
add("no_cache_mask", HEADS, alone | {"mask": np.ones((B, 1), i32)}, {})
only = np.ascontiguousarray(by_heads(k)[:, :, None]), np.ascontiguousarray(by_heads(v)[:, :, None])
add("no_cache_kept", HEADS, alone, {"scale": -0.3}, outputs=3, expected=[attended(q, *only)[0], *only])
joined = {"q": np.concatenate([q, k, v], -1)}
add("no_cache_packed", HEADS, joined, {}, outputs=3, expected=[attended(q, *only)[0], *only])
bias = random(3 * D)
own_q, own_k, own_v = (x + part for x, part in zip((q, k, v), np.split(bias, 3)))
biased = np.ascontiguousarray(by_heads(own_k)[:, :, None]), np.ascontiguousarray(by_heads(own_v)[:, :, None])
nothing = {"mask": None, "added": None, "pk": None, "pv": None, "past": None, "width": None, "table": None}
# ONNX Runtime takes the operands for those of another sequence here, and adds nothing to keys and values.
add("no_cache_bias", HEADS, alone | nothing | {"bias": bias}, {}, outputs=3, expected=[attended(own_q, *biased)[0], *biased])
y, products = attended(q, *only, scale=-0.3)
add("no_cache_products", HEADS, alone, {"output_qk": 1, "scale": -0.3}, outputs=["y", "k2", "v2", "qk"], expected=[y, *only, products])
add("refuses_a_shared_buffer_without_a_cache", HEADS, alone, shared, outputs=3, fails=True)
add("refuses_keys_without_values", HEADS, alone | nothing | {"pk": own["pk"][:, :, :P].copy()}, {}, outputs=3, fails=True)
add("self_scale_below_zero", HEADS, own, shared | {"scale": -0.3}, outputs=3)
f.write()
