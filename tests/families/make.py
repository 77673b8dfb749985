"""Makes the cases of the families `Llm`, `Image` and `Quant`: operands, parameters and what NumPy computes of them.

    python tests/families/make.py

The formulas are those of ONNX and PyTorch, written with loops where that is clearer. All operands have at most 8 significant bits,
so that they are the same numbers in every float type; results are computed in float64. `tests/tests/operators/families` replays the cases
on every backend, operation by operation and as graphs.
"""

import contextlib
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
FLOATS = ["f32", "f64", "f16", "bf16"]
random = np.random.default_rng(11)


def drawn(*shape, most=2.0):
    """Multiples of 1/32 below `most`, which every float type has."""
    return np.round(random.uniform(-most, most, shape) * 32) / 32


class Typed:
    """A tensor of a given element type; arrays of floats otherwise have that of the case."""

    def __init__(self, dtype, array):
        self.dtype, self.array = dtype, np.asarray(array, np.float64)


@contextlib.contextmanager
def apart(name):
    """Draws from a generator of its own meanwhile, so that the operands of the cases behind it stay as they are."""
    global random
    before, random = random, np.random.default_rng(len(name))
    yield
    random = before


def i64(array):
    return Typed("i64", array)


def encoded(x):
    if x is None:
        return None
    dtype, array = (x.dtype, x.array) if isinstance(x, Typed) else ("float", np.asarray(x, np.float64))
    word = lambda v: repr(v) if not np.isfinite(v) else (int(v) if v == int(v) else float(f"{v:.17g}"))
    return {"type": dtype, "shape": list(array.shape), "data": [word(float(v)) for v in array.ravel()]}


class Cases:
    def __init__(self, family):
        self.family, self.cases = family, []

    def add(self, op, name, inputs, params, outputs, types=FLOATS, tolerance=1.0):
        """`tolerance` counts the roundings of the largest result that a correct computation may make."""
        self.cases.append(
            {
                "op": op,
                "name": name,
                "types": types,
                "tolerance": tolerance,
                "inputs": [encoded(x) for x in inputs],
                "params": params,
                "outputs": [encoded(x) for x in outputs],
            }
        )

    def save(self):
        lines = ",\n".join(json.dumps(case) for case in self.cases)
        (HERE / f"{self.family}.json").write_text(f"[\n{lines}\n]\n")


# --- Llm ---------------------------------------------------------------------------------------------------------------


def silu(x):
    return x / (1 + np.exp(-x))


def rms_norm(x, scale, epsilon):
    """torch.nn.functional.rms_norm."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def softmax(x):
    """Of rows; a row of minus infinity is 0, as in ONNX Attention."""
    most = x.max(-1, keepdims=True) if x.shape[-1] else np.zeros(x.shape[:-1] + (1,))
    e = np.exp(x - np.where(np.isfinite(most), most, 0))
    e[~np.isfinite(x)] = 0
    total = e.sum(-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def attention(q, k, v, allowed, scale=None, softcap=0.0, bias=None):
    """One query and head at a time. `allowed(b, i, j)` tells whether query i may attend to key j."""
    batch, heads, queries, size = q.shape
    groups, keys = k.shape[1], k.shape[2]
    scale = 1 / np.sqrt(size) if scale is None else scale
    y = np.zeros((batch, heads, queries, v.shape[3]))
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // groups)
            for i in range(queries):
                score = np.array([q[b, h, i] @ k[b, g, j] * scale for j in range(keys)])
                if softcap > 0:
                    score = softcap * np.tanh(score / softcap)
                if bias is not None:
                    score = score + np.broadcast_to(bias, (batch, heads, queries, keys))[b, h, i]
                mask = np.array([allowed(b, i, j) for j in range(keys)], bool)
                score = np.where(mask, score, -np.inf)
                y[b, h, i] = softmax(score[None])[0] @ v[b, g]
    return y


def window(offset, causal=True, left=None):
    """ONNX: query i is at the position offset + i."""

    def allowed(b, i, j):
        at = (offset[b] if isinstance(offset, (list, np.ndarray)) else offset) + i
        return (not causal or j <= at) and (left is None or j >= at - left)

    return allowed


def llm():
    c = Cases("llm")
    x, skip, scale, bias = drawn(2, 3, 8), drawn(2, 3, 8), drawn(8), drawn(8)
    total = x + skip + bias
    c.add("skip_rms_norm", "with a bias", [x, skip, scale, bias], [1e-5], [rms_norm(total, scale, 1e-5), total], tolerance=8)
    c.add("skip_rms_norm", "without", [x, skip, scale, None], [1e-3], [rms_norm(x + skip, scale, 1e-3), x + skip], tolerance=8)
    row, one = drawn(5), drawn(1)
    c.add("skip_rms_norm", "a vector and a skip that broadcasts", [row, one, one, None], [1e-5], [rms_norm(row + one, one, 1e-5), row + one], tolerance=8)
    none = np.zeros((0, 4))
    c.add("skip_rms_norm", "no rows", [none, none, drawn(4), None], [1e-5], [none, none])

    a, b = drawn(3, 7, most=4), drawn(3, 7, most=4)
    c.add("silu_mul", "matrices", [a, b], [], [silu(a) * b], tolerance=4)
    far = np.array([-100.0, -30.0, 0.0, 30.0, 100.0])
    c.add("silu_mul", "far from zero", [far, np.ones(5)], [], [silu(far)], tolerance=4)
    c.add("silu_mul", "scalars and broadcasting", [np.array(1.5), a], [], [silu(1.5) * a], tolerance=4)
    special = np.array([np.nan, np.inf, -np.inf])
    c.add("silu_mul", "NaN and infinity", [special, np.ones(3)], [], [silu(special)])
    c.add("silu_mul", "nothing", [np.zeros((2, 0)), np.zeros((2, 0))], [], [np.zeros((2, 0))])

    x, w, bias = drawn(2, 3, 6), drawn(4, 6), drawn(4)
    c.add("linear", "with a bias", [x, w, bias], [], [x @ w.T + bias], tolerance=12)
    c.add("linear", "without", [x, w, None], [], [x @ w.T], tolerance=12)
    c.add("linear", "a vector", [x[0, 0], w, bias], [], [w @ x[0, 0] + bias], tolerance=12)
    c.add("linear", "weights of one column", [x, w[0], None], [], [x @ w[0]], tolerance=12)
    c.add("linear", "no columns", [x, np.zeros((0, 6)), None], [], [np.zeros((2, 3, 0))])
    c.add("linear", "nothing to add up", [np.zeros((2, 0)), np.zeros((3, 0)), drawn(3)[:3] * 0 + 1], [], [np.ones((2, 3))])
    whole = np.array([[1, -2, 3], [4, 5, -6]])
    c.add("linear", "integers", [Typed("i32", whole), Typed("i32", whole), None], [], [Typed("i32", whole @ whole.T)], types=["f32"])

    for bits, block, inner in [(4, 32, 64), (8, 32, 40), (4, 16, 16), (8, 16, 33), (2, 16, 32)]:
        columns, blocks = 5, -(-inner // block)
        ints = random.integers(0, 2**bits, (columns, blocks * block))
        zeros = random.integers(0, 2**bits, (columns, blocks))
        scales = np.round(random.uniform(1, 8, (columns, blocks))) / 64
        x, bias = drawn(3, inner), drawn(columns)
        each = 8 // bits
        packed = sum((ints.reshape(columns, blocks, -1, each)[..., i] << (bits * i)) for i in range(each))
        width = -(-blocks * bits // 8)
        padded = np.zeros((columns, width * each), int)
        padded[:, :blocks] = zeros
        packed_zeros = sum((padded.reshape(columns, width, each)[..., i] << (bits * i)) for i in range(each))
        spread = lambda z: np.repeat(z, block, 1)
        for own, z in [(None, np.full((columns, blocks), 2 ** (bits - 1))), (Typed("u8", packed_zeros), zeros)]:
            w = ((ints - spread(z)) * spread(scales))[:, :inner]
            what = f"{bits} bits in blocks of {block}, {'without' if own is None else 'with'} zero points"
            c.add("quantized_linear", what, [x, Typed("u8", packed), scales, own, bias], [bits, block], [x @ w.T + bias], tolerance=inner)
    for dtype, low, high in [("i4", -8, 8), ("u4", 0, 16), ("i8", -128, 128), ("u8", 0, 256)]:
        for block, inner in [(16, 40), (0, 24)]:
            columns = 4
            size = block or inner
            blocks = -(-inner // size)
            ints = random.integers(low, high, (columns, inner))
            zeros = random.integers(low, high, (columns, blocks))
            scales = np.round(random.uniform(1, 8, (columns, blocks))) / 128
            x = drawn(2, inner)
            spread = lambda z: np.repeat(z, size, 1)[:, :inner]
            w = ints * spread(scales)
            c.add("quantized_linear", f"{dtype} in blocks of {block}", [x, Typed(dtype, ints), scales, None, None], [4, block], [x @ w.T], tolerance=inner)
            w = (ints - spread(zeros)) * spread(scales)
            c.add("quantized_linear", f"{dtype} in blocks of {block} with zero points", [x, Typed(dtype, ints), scales, Typed(dtype, zeros), None], [4, block], [x @ w.T], tolerance=inner)

    def cached(name, heads, groups, new, past, causal=True, left=None, scale=None, softcap=0.0, bias=None, batch=2, first=None):
        """`first` is what the key of the first position consists of."""
        q, k, v = drawn(batch, heads, new, 4), drawn(batch, groups, new, 4), drawn(batch, groups, new, 3)
        old_k, old_v = (None, None) if past is None else (drawn(batch, groups, past, 4), drawn(batch, groups, past, 3))
        if first is not None:
            old_k[:, :, 0] = first
        all_k = k if past is None else np.concatenate([old_k, k], 2)
        all_v = v if past is None else np.concatenate([old_v, v], 2)
        y = attention(q, all_k, all_v, window(past or 0, causal, left), scale, softcap, bias)
        c.add("cached_attention", name, [q, k, v, old_k, old_v, bias], [causal, left, scale, softcap, None], [y, all_k, all_v], tolerance=24)

    cached("a prompt", 2, 2, 5, None)
    cached("one new position", 2, 2, 1, 6)
    cached("some new positions", 4, 2, 3, 4)
    cached("one group", 3, 1, 2, 3)
    cached("an empty past", 2, 1, 3, 0)
    cached("a window in a prompt", 2, 1, 6, None, left=2)
    cached("a window behind a past", 2, 1, 3, 5, left=1)
    cached("a window of one query", 4, 2, 1, 7, left=2)
    cached("a window of the query alone", 2, 2, 1, 4, left=0)
    cached("a window longer than the sequence", 2, 1, 1, 4, left=100)
    cached("a window longer than the prompt", 2, 1, 4, 2, left=100)
    cached("soft caps", 2, 1, 3, 2, softcap=1.5)
    cached("a scale", 2, 1, 3, 2, scale=0.25)
    cached("not causal", 2, 1, 3, 2, causal=False)
    cached("not causal, with a window", 2, 1, 4, 2, causal=False, left=1)
    cached("a bias", 2, 1, 3, 2, bias=drawn(2, 1, 3, 5))
    cached("a bias of one query with a window", 2, 1, 1, 4, bias=drawn(1, 5), left=2)
    for name, first, new, how in [
        ("an infinite key before a window", np.inf, 3, {}),
        ("a key of NaN before a window", np.nan, 3, {}),
        ("a key of NaN before a window, with a bias", np.nan, 3, {"bias": np.arange(21.0).reshape(3, 7) / 8}),
        ("a key of NaN before a window of one query", np.nan, 1, {}),
    ]:
        with apart(name):
            cached(name, 2, 1, new, 4, left=1, first=first, **how)
    cached("no new positions", 2, 1, 0, 3)
    cached("no sequences", 2, 1, 2, 3, batch=0)

    def paged(name, heads, groups, new, size, table, lengths, causal=True, left=None, softcap=0.0, holes=(), index="i64", first=None):
        blocks = 6
        batch = len(lengths)
        q = drawn(batch, heads, new, 4)
        k, v = drawn(blocks, size, groups, 4), drawn(blocks, size, groups, 3)
        for hole in holes:
            k[hole], v[hole] = np.nan, np.nan
        if first is not None:
            k[table[0][0], 0] = first
        keys = len(table[0]) * size
        all_k, all_v = np.zeros((batch, groups, keys, 4)), np.zeros((batch, groups, keys, 3))
        there = np.zeros((batch, keys), bool)
        for b in range(batch):
            for j in range(min(lengths[b], keys)):
                block = table[b][j // size]
                if block >= 0:
                    all_k[b, :, j], all_v[b, :, j], there[b, j] = k[block, j % size], v[block, j % size], True
        reached = window([length - new for length in lengths], causal, left)
        y = attention(q, all_k, all_v, lambda b, i, j: there[b, j] and reached(b, i, j), None, softcap)
        c.add("paged_attention", name, [q, k, v, Typed(index, table), Typed(index, lengths)], [causal, left, None, softcap, None], [y], tolerance=24)

    paged("blocks out of order", 2, 2, 1, 2, [[4, 1, 3]], [6])
    paged("sequences of different lengths, with 32-bit indices", 4, 2, 1, 2, [[5, 0, 2], [1, -1, -1]], [5, 1], index="i32")
    paged("what lies behind a length is not looked at", 2, 1, 1, 2, [[0, 3, 99], [2, -7, 1 << 20]], [3, 2], holes=[(3, 1)])
    paged("gaps", 2, 1, 1, 2, [[0, -1, 3]], [6])
    paged("nothing but gaps", 2, 1, 1, 2, [[-1, -1]], [4])
    paged("several queries", 2, 1, 3, 2, [[0, 2, 3], [4, 1, 0]], [6, 5])
    paged("queries before the sequence", 2, 1, 3, 2, [[0, 2]], [2])
    paged("a window", 2, 1, 2, 2, [[0, 2, 3]], [6], left=1)
    paged("a window longer than the sequence", 2, 1, 2, 2, [[0, 2, 3]], [5], left=50)
    for name, first in [("an infinite key before a window", np.inf), ("a key of NaN before a window", np.nan)]:
        with apart(name):
            paged(name, 2, 1, 2, 2, [[4, 2, 3]], [6], left=1, first=first)
    paged("not causal", 2, 1, 2, 2, [[0, 2, 3]], [5], causal=False)
    paged("soft caps", 2, 1, 1, 3, [[0, 2]], [4], softcap=2.0)
    paged("an empty sequence", 2, 1, 1, 2, [[0, 2], [1, 3]], [0, 3])
    paged("blocks without room", 2, 1, 1, 0, [[0, 2]], [0])

    def ragged(name, heads, groups, new, size, pasts, table, left=None, scale=None, softcap=0.0, holes=(), index="i64", bits8=False, first=None):
        """Each sequence by itself, as attention to its past and its new positions."""
        blocks, count = 5, sum(new)
        with apart(name):
            q, k, v = drawn(count, heads, 4), drawn(count, groups, 4), drawn(count, groups, 3)
            past_k, past_v = drawn(blocks, size, groups, 4), drawn(blocks, size, groups, 3)
            integers, scales = [], []
            if bits8:
                integers = [random.integers(-127, 128, x.shape) for x in [past_k, past_v]]
                scales = [2.0 ** random.integers(-8, -4, x.shape[:-1]) for x in integers]
                past_k, past_v = [x * scale[..., None] for x, scale in zip(integers, scales)]
                for hole in holes:
                    scales[0][hole], scales[1][hole] = np.nan, np.nan
                integers, scales = [Typed("i8", x) for x in integers], [Typed("f32", x) for x in scales]
        for hole in holes:
            past_k[hole], past_v[hole] = np.nan, np.nan
        if first is not None:
            past_k[table[0][0], 0] = first
        starts, y = np.concatenate([[0], np.cumsum(new)]), np.zeros((count, heads, 3))
        for b, past in enumerate(pasts):
            own = slice(int(starts[b]), int(starts[b + 1]))
            places = [(table[b][j // size], j % size) for j in range(past)]
            by_heads = lambda x, old, width: np.concatenate([np.array([old[p] for p in places]).reshape(past, groups, width), x[own]]).transpose(1, 0, 2)[None]
            y[own] = attention(q[own].transpose(1, 0, 2)[None], by_heads(k, past_k, 4), by_heads(v, past_v, 3), window(past, True, left), scale, softcap)[0].transpose(1, 0, 2)
        table = np.array(table, np.float64).reshape(len(pasts), len(table[0]) if table else 1)
        numbers = [Typed(index, x) for x in [starts, pasts, table]]
        operands, types = [q, k, v, *(integers or [past_k, past_v]), *numbers, *(scales or [None, None])], ["f32", "f64"] if bits8 else FLOATS
        c.add("ragged_attention", name, operands, [left, scale, softcap], [y], types=types, tolerance=24)

    ragged("a prompt", 2, 2, [4], 2, [0], [[0]])
    ragged("prompts of several lengths", 4, 2, [3, 1, 2], 2, [0, 0, 0], [[0], [1], [2]])
    ragged("one new position of each", 4, 2, [1, 1, 1], 2, [4, 1, 3], [[3, 1], [0, 0], [4, 2]])
    ragged("a prompt among others, with 32-bit indices", 2, 1, [1, 4, 1], 2, [3, 0, 2], [[3, 1], [0, 0], [4, 0]], index="i32")
    ragged("a part of a prompt", 2, 1, [3], 2, [5], [[4, 0, 2]])
    ragged("pasts that begin alike", 2, 1, [1, 2], 2, [4, 3], [[2, 0], [2, 1]])
    ragged("what lies behind is not looked at", 2, 1, [2, 1], 2, [3, 1], [[0, 3, 99], [2, -1, 1 << 20]], holes=[(3, 1), (2, 1)])
    ragged("a window of the own past", 2, 1, [3, 1], 2, [3, 4], [[0, 1], [2, 3]], left=1)
    ragged("a window of the position alone", 2, 1, [2, 1], 2, [3, 4], [[0, 1], [2, 3]], left=0)
    ragged("a window longer than all", 2, 1, [2, 1], 2, [3, 4], [[0, 1], [2, 3]], left=50)
    ragged("an infinite key before the window", 2, 1, [3, 1], 2, [3, 4], [[0, 1], [2, 3]], left=1, first=np.inf)
    ragged("a key of NaN before the window", 2, 1, [3, 1], 2, [3, 4], [[0, 1], [2, 3]], left=1, first=np.nan)
    ragged("a scale of a quarter", 2, 1, [2, 1], 2, [3, 4], [[0, 1], [2, 3]], scale=0.25)
    ragged("products bounded by a soft cap", 2, 1, [2, 1], 2, [3, 4], [[0, 1], [2, 3]], softcap=1.5)
    ragged("sequences without new positions", 2, 1, [0, 2, 0], 2, [3, 2, 0], [[0, 1], [2, 0], [0, 0]])
    ragged("integers of 8 bits", 4, 2, [3, 1, 2], 2, [4, 1, 3], [[3, 1], [0, 0], [4, 2]], bits8=True)
    ragged("integers of 8 bits in a window, behind which nothing is looked at", 2, 1, [2, 1], 2, [3, 1], [[0, 3, 99], [2, -1, 1 << 20]], left=1, holes=[(3, 1), (2, 1)], bits8=True)
    ragged("integers of 8 bits and no room for pasts", 2, 1, [2, 1], 2, [0, 0], [[], []], bits8=True)
    ragged("no new positions at all", 2, 1, [0, 0], 2, [3, 2], [[0, 1], [2, 0]])
    ragged("no sequences at all", 2, 1, [], 2, [], [])
    ragged("no room for pasts", 2, 1, [2, 1], 2, [0, 0], [[], []])
    ragged("blocks without any room", 2, 1, [2, 1], 0, [0, 0], [[0], [1]])

    def append(name, cache, new, at, circular, y, index="i64", types=FLOATS):
        place = None if at is None else Typed(index, at)
        c.add("kv_append", name, [cache, new, place], [circular], [y], types=types, tolerance=0)

    cache, new = drawn(2, 3, 5, 4), drawn(2, 3, 2, 4)
    append("behind", cache, new, None, False, np.concatenate([cache, new], 2))
    append("behind nothing", cache[:, :, :0], new, None, False, new)
    append("behind, two dimensions", cache[0, 0], new[0, 0], None, False, np.concatenate([cache[0, 0], new[0, 0]]))

    def scattered(cache, new, at, circular=False):
        y = cache.copy()
        for b in range(cache.shape[0]):
            for i in range(new.shape[-2]):
                place = at[b] + i
                y[b, ..., place % cache.shape[-2] if circular else place, :] = new[b, ..., i, :]
        return y

    append("at positions", cache, new, [3, 0], False, scattered(cache, new, [3, 0]))
    append("at 32-bit positions", cache, new, [1, 2], False, scattered(cache, new, [1, 2]), "i32")
    append("at one position for all", cache, new, np.array(2), False, scattered(cache, new, [2, 2]))
    append("around the end", cache, new, [4, 12], True, scattered(cache, new, [4, 12], True))
    append("the whole cache", cache, cache * 2, [0, 0], False, cache * 2)
    append("nothing", cache, new[:, :, :0], [0, 4], False, cache)
    append("three dimensions", cache[:, 0], new[:, 0], [1, 3], False, scattered(cache[:, 0], new[:, 0], [1, 3]))
    bytes_ = Typed("i8", random.integers(-128, 128, (1, 2, 3, 2)))
    more = Typed("i8", random.integers(-128, 128, (1, 2, 1, 2)))
    append("bytes", bytes_, more, [1], False, Typed("i8", scattered(bytes_.array, more.array, [1])), types=["f32"])
    c.save()


# --- Image -------------------------------------------------------------------------------------------------------------


def padded(x, reach, border):
    rows, columns = reach
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(rows, rows), (columns, columns)], mode=border)


def correlate(x, weights, border):
    """A loop over the filter; x has at least two dimensions."""
    weights = np.asarray(weights, np.float64)
    rows, columns = weights.shape[0] // 2, weights.shape[1] // 2
    wide = padded(x, (rows, columns), border)
    y = np.zeros_like(x)
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            y += weights[i, j] * wide[..., i : i + x.shape[-2], j : j + x.shape[-1]]
    return y


def blur(x, sigma, border):
    if sigma == 0:
        return x
    reach = int(np.ceil(3 * sigma))
    line = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    line /= line.sum()
    # The whole two-dimensional filter at once.
    return correlate(x, np.outer(line, line), border)


def as_bytes(y):
    return Typed("u8", np.clip(np.round(y), 0, 255))


def image():
    c = Cases("image")
    pixels = lambda *shape: np.round(random.uniform(0, 1, shape) * 64) / 64
    x = pixels(2, 3, 6, 7)
    grey = pixels(5, 4)
    raw = random.integers(0, 256, (3, 6, 5)).astype(np.float64)
    for border in ["constant", "edge", "reflect", "wrap"]:
        for sigma in [0.5, 1.25]:
            c.add("gaussian_blur", f"{border}, {sigma}", [x], [sigma, border], [blur(x, sigma, border)], tolerance=8)
        c.add("sobel", border, [x], ["magnitude", border], [np.hypot(correlate(x, SOBEL, border), correlate(x, np.transpose(SOBEL), border))], tolerance=8)
        c.add("sharpen", border, [x], [0.75, 0.5, border], [x + 0.75 * (x - blur(x, 0.5, border))], tolerance=8)
    # The radius is above the extents, so that the border repeats.
    for border in ["constant", "edge", "reflect", "wrap"]:
        c.add("gaussian_blur", f"{border}, wider than the image", [grey], [3.3, border], [blur(grey, 3.3, border)], tolerance=16)
    c.add("gaussian_blur", "one pixel", [np.full((1, 1), 0.5)], [1.0, "reflect"], [np.full((1, 1), 0.5)], tolerance=8)
    c.add("gaussian_blur", "a standard deviation of 0", [x], [0.0, "reflect"], [x], tolerance=0)
    c.add("gaussian_blur", "a tiny standard deviation", [x], [1e-30, "edge"], [x], tolerance=0)
    c.add("gaussian_blur", "no rows", [np.zeros((3, 0, 4))], [1.0, "edge"], [np.zeros((3, 0, 4))])
    c.add("gaussian_blur", "no images", [np.zeros((0, 2, 4))], [1.0, "reflect"], [np.zeros((0, 2, 4))])
    c.add("gaussian_blur", "bytes", [Typed("u8", raw)], [1.0, "reflect"], [as_bytes(blur(raw, 1.0, "reflect"))], types=["f32"])
    c.add("sobel", "along the width", [grey], ["x", "reflect"], [correlate(grey, SOBEL, "reflect")], tolerance=8)
    c.add("sobel", "along the height", [grey], ["y", "reflect"], [correlate(grey, np.transpose(SOBEL), "reflect")], tolerance=8)
    c.add("sobel", "bytes", [Typed("u8", raw)], ["x", "edge"], [as_bytes(correlate(raw, SOBEL, "edge"))], types=["f32"])
    c.add("sobel", "no columns", [np.zeros((3, 0))], ["magnitude", "reflect"], [np.zeros((3, 0))])
    c.add("sharpen", "bytes", [Typed("u8", raw)], [1.0, 1.0, "reflect"], [as_bytes(2 * raw - blur(raw, 1.0, "reflect"))], types=["f32"])
    for standard, weights in [("bt601", [0.299, 0.587, 0.114]), ("bt709", [0.2126, 0.7152, 0.0722])]:
        y = np.tensordot(weights, x, ([0], [1]))[:, None]
        c.add("grayscale", standard, [x], [-3, standard], [y], tolerance=4)
        c.add("grayscale", f"{standard}, channels last", [np.moveaxis(x, 1, -1)], [3, standard], [np.moveaxis(y, 1, -1)], tolerance=4)
        c.add("grayscale", f"{standard}, bytes", [Typed("u8", raw)], [0, standard], [as_bytes(np.tensordot(weights, raw, 1)[None])], types=["f32"])
    c.add("grayscale", "one pixel", [np.array([1.0, 0.5, 0.25])], [0, "bt601"], [np.array([0.299 + 0.587 / 2 + 0.114 / 4])], tolerance=4)
    edges = np.array([0.0, 0.25, 0.5, 0.53125, 1.0, np.nan, -1.0])
    c.add("threshold", "around the value", [edges], [0.5], [np.array([0, 0, 0, 1, 1, 0, 0.0])], tolerance=0)
    c.add("threshold", "a scalar", [np.array(0.75)], [0.5], [np.array(1.0)], tolerance=0)
    levels = Typed("u8", [0, 126, 127, 128, 255])
    c.add("threshold", "bytes between integers", [levels], [127.5], [Typed("u8", [0, 0, 0, 255, 255])], types=["f32"])
    c.add("threshold", "bytes below all", [levels], [-3.0], [Typed("u8", [255] * 5)], types=["f32"])
    c.add("threshold", "bytes above all", [levels], [300.0], [Typed("u8", [0] * 5)], types=["f32"])
    for factor in [0.0, 0.5, 1.75]:
        c.add("brightness", str(factor), [x], [factor], [np.clip(x * factor, 0, 1)], tolerance=2)
        c.add("brightness", f"bytes, {factor}", [Typed("u8", raw)], [factor], [as_bytes(raw * factor)], types=["f32"])
        mean = np.tensordot([0.299, 0.587, 0.114], x, ([0], [1])).mean((-2, -1))[:, None, None, None]
        c.add("contrast", str(factor), [x], [factor], [np.clip((x - mean) * factor + mean, 0, 1)], tolerance=8)
        c.add("contrast", f"grey, {factor}", [grey], [factor], [np.clip((grey - grey.mean()) * factor + grey.mean(), 0, 1)], tolerance=8)
        single = grey[None, None]
        c.add("contrast", f"one channel, {factor}", [single], [factor], [np.clip((single - grey.mean()) * factor + grey.mean(), 0, 1)], tolerance=8)
    c.add("invert", "floats", [x], [], [1 - x], tolerance=1)
    c.add("invert", "bytes", [Typed("u8", raw)], [], [Typed("u8", 255 - raw)], types=["f32"])
    c.add("invert", "nothing", [np.zeros((0, 3))], [], [np.zeros((0, 3))])
    c.save()


SOBEL = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]


# --- Quant -------------------------------------------------------------------------------------------------------------

INTEGERS = {
    "i2": (-2, 1), "u2": (0, 3), "i4": (-8, 7), "u4": (0, 15), "i8": (-128, 127), "u8": (0, 255),
    "i16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1), "i32": (-(2**31), 2**31 - 1),
}  # fmt: skip


def float_values(exponent, mantissa, bias, most):
    """The values from 0 to `most` of a float type, in order."""
    values = []
    for e in range(2**exponent):
        for m in range(2**mantissa):
            fraction = m / 2**mantissa
            values.append(fraction * 2.0 ** (1 - bias) if e == 0 else (1 + fraction) * 2.0 ** (e - bias))
    return np.array([v for v in values if v <= most])


SMALL = {
    "f8e4m3fn": float_values(4, 3, 7, 448.0),
    "f8e4m3fnuz": float_values(4, 3, 8, 240.0),
    "f8e5m2": float_values(5, 2, 15, 57344.0),
    "f8e5m2fnuz": float_values(5, 2, 16, 57344.0),
    "f4e2m1": float_values(2, 1, 1, 6.0),
}


def to_small(x, dtype):
    """To the nearest value, ties to the one whose last bit is 0, saturating."""
    values = SMALL[dtype]
    size = np.abs(x)
    y = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        distance = np.abs(values - min(size[at], values[-1]))
        near = np.flatnonzero(distance == distance.min())
        best = next((i for i in near if i % 2 == 0), near[0])
        y[at] = np.copysign(values[best], x[at]) if values[best] else 0.0
    return y


def quant():
    c = Cases("quant")
    layouts = [
        ("one scale", (), 1, 0), ("one scale in a vector", (1,), 0, 0), ("along the last axis", (6,), -1, 0),
        ("along the first axis", (4,), 0, 0), ("by blocks", (4, 3), 1, 2), ("by blocks, the last short", (4, 2), -1, 4),
        ("by blocks of rows", (2, 6), 0, 3), ("by one block", (4, 1), 1, 100),
    ]  # fmt: skip

    def spread(s, axis, block, shape):
        if s.ndim == 0 or s.shape == (1,):
            return np.broadcast_to(s.reshape(()), shape)
        if s.ndim == 1:
            return np.broadcast_to(np.expand_dims(s, [i for i in range(2) if i != axis % 2]), shape)
        return np.repeat(s, block, axis).take(range(shape[axis]), axis)

    for dtype, (low, high) in INTEGERS.items():
        for name, shape, axis, block in layouts if dtype in ("i4", "u8") else [layouts[0], layouts[2], layouts[4]]:
            # Halves are rounded to even: quotients are multiples of 1/2.
            scale = 2.0 ** random.integers(-3, 3, shape)
            zero = random.integers(max(low, -50), min(high, 50) + 1, shape) if dtype != "i32" else np.zeros(shape)
            span = min(high - low, 300)
            steps = np.round(random.uniform(-span, span, (4, 6))) / 2
            s, z = spread(np.asarray(scale, np.float64), axis, block, (4, 6)), spread(np.asarray(zero, np.float64), axis, block, (4, 6))
            x = steps * s
            y = np.clip(np.round(x / s) + z, low, high)
            given = None if dtype == "i32" else Typed(dtype, zero)
            types = ["f32"]
            c.add("quantize", f"{dtype}, {name}", [x, scale, given], [dtype, axis, block, None, True], [Typed(dtype, y)], types=types)
            c.add("dequantize", f"{dtype}, {name}", [Typed(dtype, y), scale, given], ["f32", axis, block], [Typed("f32", (y - z) * s)], types=["f32"])
            if span <= 255:
                c.add("dequantize", f"{dtype}, {name}, to halves", [Typed(dtype, y), Typed("f16", scale), given], ["f16", axis, block], [Typed("f16", (y - z) * s)], types=["f32"])
    for dtype, values in SMALL.items():
        for name, shape, axis, block in [layouts[0], layouts[3], layouts[4]]:
            scale = 2.0 ** random.integers(-2, 2, shape)
            s = spread(np.asarray(scale, np.float64), axis, block, (4, 6))
            q = np.round(random.uniform(-1.2, 1.2, (4, 6)) * values[-1] * 16) / 16
            q.flat[:3] = [values[1] / 2, (values[2] + values[3]) / 2, -(values[3] + values[4]) / 2]
            x = (q * s).astype(np.float32).astype(np.float64)
            y = to_small(x / s, dtype)
            c.add("quantize", f"{dtype}, {name}", [Typed("f32", x), Typed("f32", scale), None], [dtype, axis, block, None, True], [Typed(dtype, y)], types=["f32"])
            c.add("dequantize", f"{dtype}, {name}", [Typed(dtype, y), Typed("f32", scale), None], ["f32", axis, block], [Typed("f32", y * s)], types=["f32"])
    c.add("quantize", "nothing", [np.zeros((0, 3)), np.ones(3), None], ["i8", 1, 0, None, True], [Typed("i8", np.zeros((0, 3)))], types=["f32"])

    def product(name, a, b, a_scale, b_scale, a_zero, b_zero, bias, types):
        wide = lambda x: np.asarray(x.array)
        zero = lambda z, rows: 0 if z is None else (z.array[:, None] if rows and z.array.ndim == 1 and z.array.shape != (1,) else z.array)
        rows = a_scale[:, None] if np.ndim(a_scale) == 1 and np.shape(a_scale) != (1,) and wide(a).ndim > 1 else a_scale
        y = (wide(a) - zero(a_zero, True)) @ (wide(b) - zero(b_zero, False)) * rows * b_scale
        c.add("scaled_matmul", name, [a, b, a_scale, b_scale, a_zero, b_zero, bias], [], [y if bias is None else y + bias], types=types, tolerance=4)

    for left, right in [("u8", "i8"), ("i8", "i8"), ("u8", "u8"), ("i4", "i4"), ("i16", "i8")]:
        ints = lambda dtype, *shape: Typed(dtype, random.integers(max(INTEGERS[dtype][0], -128), min(INTEGERS[dtype][1], 255) + 1, shape))
        a, b = ints(left, 3, 5), ints(right, 5, 4)
        scales = lambda *shape: 2.0 ** random.integers(-9, -5, shape)
        both = ["f32", "f64", "f16", "bf16"]
        product(f"{left} and {right}", a, b, scales(), scales(), None, None, None, both)
        product(f"{left} and {right} by rows and columns", a, b, scales(3), scales(4), ints(left, 3), ints(right, 4), drawn(4), both)
        product(f"{left} and {right} with one zero point", a, b, scales(1), scales(1), ints(left, 1), ints(right), drawn(3, 4), both)
    batch, b = Typed("i8", random.integers(-9, 9, (2, 3, 5))), Typed("i8", random.integers(-9, 9, (5, 4)))
    product("a batch", batch, b, 2.0 ** np.array([-1.0, 0, 1]), 2.0 ** np.array([-1.0, 0, 1, 2]), None, None, None, ["f32"])
    product("a vector", Typed("i8", [1, 2, 3, 4, 5]), b, np.array(0.5), np.array(0.25), None, None, None, ["f32"])
    small = lambda *shape: to_small(drawn(*shape), "f8e4m3fn")
    product("floats of 8 bits", Typed("f8e4m3fn", small(3, 5)), Typed("f8e4m3fn", small(5, 4)), np.array([0.5, 1, 2]), np.array(0.25), None, None, None, ["f32", "bf16"])
    product("nothing to add up", Typed("i8", np.zeros((2, 0))), Typed("i8", np.zeros((0, 3))), np.array(1.0), np.array(1.0), None, None, None, ["f32"])
    c.save()


if __name__ == "__main__":
    llm()
    image()
    quant()
