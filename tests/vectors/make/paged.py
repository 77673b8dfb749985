"""PagedAttention of `com.microsoft`: new tokens of several sequences, whose pasts lie in blocks of one cache.

ONNX Runtime has it for GPUs alone; NumPy computes it as the schema defines it, token by token.
"""
import ml_dtypes
import numpy as np
from family import Family

f = Family("paged", opset=17)
rng = np.random.default_rng(31)
i32 = np.int32


def random(*shape):
    return rng.normal(0, 1, shape)


def turned(x, angles, interleaved):
    """A head, some of whose elements are pairs that are turned."""
    cos, sin = angles
    half = len(cos)
    x, whole = x.copy(), x
    if interleaved:
        a, b = whole[0 : 2 * half : 2], whole[1 : 2 * half : 2]
        x[0 : 2 * half : 2], x[1 : 2 * half : 2] = a * cos - b * sin, b * cos + a * sin
    else:
        a, b = whole[:half], whole[half : 2 * half]
        x[:half], x[half : 2 * half] = a * cos - b * sin, b * cos + a * sin
    return x


def paged(name, new, pasts, table, blocks=5, size=4, heads=4, groups=2, d=8, dtype=np.float32, packed=False, rotary=0,
          interleaved=False, window=None, softcap=0.0, scale=None, caches=False, holes=False, fails=False, starts=None, index=i32,
          bytes8=False, left_out=None, more={}):
    """`new` has the number of new tokens of each sequence; `rotary` is the number of elements that are turned. With `bytes8`, pasts are
    integers with a scale for each position and group, of which the operand `left_out` is left out; `more` are other attributes."""
    narrow = lambda x: x.astype(dtype)
    exact = lambda x: narrow(x).astype(np.float64)
    tokens = sum(new)
    q, k, v = exact(random(tokens, heads, d)), exact(random(tokens, groups, d)), exact(random(tokens, groups, d))
    past_k, past_v = exact(random(blocks, size, groups, d)), exact(random(blocks, size, groups, d))
    scales = {}
    if bytes8:
        scales = {at: np.abs(x).max(-1, keepdims=True).astype(np.float32) / np.float32(127) for at, x in [("ks", past_k), ("vs", past_v)]}
        whole_k, whole_v = (np.rint(x / scale).astype(np.int8) for x, scale in zip([past_k, past_v], scales.values()))
        past_k, past_v = (x * scale.astype(np.float64) for x, scale in zip([whole_k, whole_v], scales.values()))
        scales = {at: scale[..., 0] for at, scale in scales.items()}
    cos, sin = (exact(np.clip(random(24, rotary // 2), -1, 1)) for _ in range(2))
    ends = np.concatenate([[0], np.cumsum(new)])
    table = np.array(table, index)
    table = table.reshape(len(pasts), table.shape[-1] if table.ndim == 2 else 0)
    if holes:
        # What lies behind a past may be anything.
        used = {(int(table[s, j // size]), j % size) for s, past in enumerate(pasts) for j in range(past)}
        for place in np.ndindex(blocks, size):
            if place not in used:
                past_k[place], past_v[place] = np.nan, np.nan
    flat = lambda x: narrow(x.reshape(len(x), -1)) if len(x) else narrow(np.zeros((0, x.shape[1] * x.shape[2])))
    if packed:
        inputs = {"q": narrow(np.concatenate([flat(q), flat(k), flat(v)], 1)), "k": None, "v": None}
    else:
        inputs = {"q": flat(q), "k": flat(k), "v": flat(v)}
    inputs |= {"pk": narrow(past_k), "pv": narrow(past_v), "starts": np.array(ends if starts is None else starts, index),
               "pasts": np.array(pasts, index), "table": table}
    if rotary:
        inputs |= {"cos": narrow(cos), "sin": narrow(sin)}
    if bytes8:
        inputs |= {"pk": whole_k, "pv": whole_v, **{f"absent_{at}": None for at in range(len(inputs), 17)}, **scales}
    if left_out:
        inputs[left_out] = None
    attributes = {"num_heads": heads, "kv_num_heads": groups, **more}
    if rotary:
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(interleaved)}
    if window is not None:
        attributes["local_window_size"] = window
    if softcap:
        attributes["softcap"] = softcap
    if scale is not None:
        attributes["scale"] = scale
    outputs = ["y", "k_out", "v_out"] if caches else ["y"]
    how = dict(attributes=attributes, opsets={"com.microsoft": 1}, outputs=outputs)
    if fails:
        f.add(name, "com.microsoft::PagedAttention", inputs, fails=True, **how)
        return
    y, new_k, new_v = np.zeros((tokens, heads, d)), past_k.copy(), past_v.copy()
    for s, past in enumerate(pasts):
        rows = range(ends[s], ends[s + 1])
        place = lambda t: (int(table[s, t // size]), t % size)
        keys, values = [past_k[place(t)] for t in range(past)], [past_v[place(t)] for t in range(past)]
        for row in rows:
            at = past + row - ends[s]
            turn = lambda x: np.stack([turned(h, (cos[at], sin[at]), interleaved) for h in x]) if rotary else x
            keys.append(turn(k[row]))
            values.append(v[row])
            if caches:
                new_k[place(at)], new_v[place(at)] = keys[-1], values[-1]
            least = 0 if window is None or window < 1 else max(0, at - window + 1)
            for h, query in enumerate(turn(q[row])):
                g = h // (heads // groups)
                products = np.array([query @ key[g] for key in keys[least:]]) * (scale or 1 / np.sqrt(d))
                if softcap:
                    products = softcap * np.tanh(products / softcap)
                weights = np.exp(products - products.max())
                y[row, h] = (weights / weights.sum()) @ np.array([value[g] for value in values[least:]])
    expected = [flat(y)] + ([narrow(new_k), narrow(new_v)] if caches else [])
    tolerance = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}.get(np.dtype(dtype), 1e-2)
    f.add(name, "com.microsoft::PagedAttention", inputs, expected=expected, relative=10 * tolerance, absolute=tolerance, **how)


paged("prompt", [5], [0], [[0]])
paged("prompts", [5, 1, 3], [0, 0, 0], [[0], [1], [2]])
paged("step", [1], [7], [[3, 1]])
paged("steps", [1, 1, 1], [7, 4, 1], [[3, 1], [0, 0], [4, 0]])
paged("prompt_and_steps", [1, 6, 1], [7, 0, 3], [[3, 1], [0, 0], [4, 0]])
paged("part_of_a_prompt", [4, 1], [6, 2], [[2, 0], [1, 0]])
paged("shared_beginning", [1, 3], [7, 5], [[2, 0], [2, 1]])
paged("neighbouring_blocks", [2], [11], [[1, 2, 3]])
paged("whole_blocks", [1, 2], [8, 4], [[0, 1], [3, 3]])
paged("what_is_behind_is_not_looked_at", [2, 1], [5, 1], [[4, 0, 99], [2, -1, 1 << 20]], holes=True)
paged("sequences_without_new_tokens", [0, 2, 0], [3, 2, 0], [[0], [1], [2]])
paged("no_tokens", [0, 0], [3, 2], [[0], [1]])
paged("no_sequences", [], [], np.zeros((0, 2)))
paged("no_pasts", [2, 3], [0, 0], np.zeros((2, 0)))
paged("one_group", [2, 1], [3, 5], [[0, 1], [2, 3]], groups=1)
paged("no_shared_keys", [2, 1], [3, 5], [[0, 1], [2, 3]], groups=4)
paged("packed", [2, 1], [3, 5], [[0, 1], [2, 3]], packed=True)
paged("scale", [2, 1], [3, 5], [[0, 1], [2, 3]], scale=0.7)
paged("softcap", [2, 1], [3, 5], [[0, 1], [2, 3]], softcap=1.5)
paged("window", [4, 1], [3, 6], [[0, 1], [2, 3]], window=3)
paged("window_of_the_token", [3, 1], [3, 6], [[0, 1], [2, 3]], window=1)
paged("window_longer_than_sequences", [3, 1], [3, 6], [[0, 1], [2, 3]], window=40)
paged("window_and_softcap", [3, 1], [3, 6], [[0, 1], [2, 3]], window=2, softcap=2.0)
paged("rotary", [3, 1], [2, 5], [[0, 1], [2, 3]], rotary=8)
paged("rotary_interleaved", [3, 1], [2, 5], [[0, 1], [2, 3]], rotary=8, interleaved=True)
paged("rotary_of_a_part", [3, 1], [2, 5], [[0, 1], [2, 3]], rotary=4, packed=True)
paged("caches", [3, 1], [2, 5], [[0, 1], [2, 3]], caches=True)
paged("caches_rotary", [3, 1], [2, 5], [[0, 1], [2, 3]], caches=True, rotary=8)
paged("bytes", [3, 1], [6, 5], [[0, 1], [2, 3]], bytes8=True)
paged("bytes_window_and_softcap", [3, 1], [6, 5], [[0, 1], [2, 3]], bytes8=True, window=4, softcap=2.0)
paged("bytes_rotary", [3, 1], [6, 5], [[0, 1], [2, 3]], bytes8=True, rotary=8)
paged("wide_indices", [2, 1], [3, 5], [[0, 1], [2, 3]], index=np.int64)
for dtype in [np.float16, ml_dtypes.bfloat16, np.float64]:
    name = np.dtype(dtype).name
    paged(f"of_{name}", [3, 1], [2, 6], [[0, 1], [2, 3]], dtype=dtype)
    paged(f"window_of_{name}", [3, 1], [2, 6], [[0, 1], [2, 3]], dtype=dtype, window=3, softcap=2.0)
paged("a_block_that_does_not_exist", [1], [6], [[0, 5]], fails=True)
paged("a_negative_block", [1], [6], [[0, -1]], fails=True)
paged("a_past_beyond_the_table", [1], [9], [[0, 1]], fails=True)
paged("a_negative_past", [1], [-1], [[0, 1]], fails=True)
paged("starts_that_do_not_begin_at_0", [3], [2], [[0]], starts=[1, 3], fails=True)
paged("starts_that_end_early", [3], [2], [[0]], starts=[0, 2], fails=True)
paged("starts_that_fall", [2, 1], [2, 1], [[0], [1]], starts=[0, 4, 3], fails=True)
paged("starts_of_other_sequences", [3], [2], [[0]], starts=[0, 1, 3], fails=True)
paged("bytes_without_scales_of_values", [1], [6], [[0, 1]], bytes8=True, left_out="vs", fails=True)
paged("bytes_that_would_be_written", [1], [6], [[0, 1]], bytes8=True, caches=True, fails=True)
paged("bytes_that_the_operator_would_round", [1], [6], [[0, 1]], bytes8=True, more={"k_quant_type": "PER_TOKEN"}, fails=True)
paged("scale_below_zero", [3, 1], [3, 5], [[0, 1], [2, 3]], scale=-0.7)
paged("scale_below_zero_softcap", [3, 1], [3, 5], [[0, 1], [2, 3]], scale=-0.7, softcap=1.5, window=3)
paged("scale_zero_is_the_default", [2, 1], [3, 5], [[0, 1], [2, 3]], scale=0.0)
f.write()
