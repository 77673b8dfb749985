"""Trains the language model of the example `llm` on the repository's own documentation, and writes it as a GGUF file.

    python cli/examples/llm/train.py [STEPS]

It needs NumPy alone, and takes seven minutes on two cores. The gradients are written by hand; `python cli/examples/llm/train.py check`
compares them with finite differences.
"""

import pathlib
import struct
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]

# A token is a character: the end of a line, or one of printable ASCII.
VOCABULARY = 96
WIDTH, LAYERS, HEADS, GROUPS, HIDDEN = 96, 2, 6, 2, 192
SIZE = WIDTH // HEADS
# Each position attends to itself and to this many before it.
WINDOW = 63
EPSILON, BASE = 1e-5, 10000.0
# The numbers of a block of quantised weights, which share a scale.
BLOCK = 32
# Where tensors begin in a GGUF file.
ALIGNMENT = 32


def text():
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "bb" / "docs").glob("*.md"))]
    return "\n".join(file.read_text() for file in files)


def tokens(text):
    codes = np.frombuffer(text.encode("ascii", "ignore"), np.uint8).astype(np.int64)
    codes = codes[(codes == 10) | ((codes >= 32) & (codes < 127))]
    return np.where(codes == 10, 0, codes - 31)


def initial(random, dtype):
    def matrix(rows, columns, scale=1.0):
        return (random.standard_normal((rows, columns)) * scale / np.sqrt(columns)).astype(dtype)

    weights = {"embedding": matrix(VOCABULARY, WIDTH, 0.5), "norm": np.ones(WIDTH, dtype)}
    deep = 1 / np.sqrt(2 * LAYERS)
    for i in range(LAYERS):
        weights[f"{i}.norm1"] = np.ones(WIDTH, dtype)
        weights[f"{i}.norm2"] = np.ones(WIDTH, dtype)
        weights[f"{i}.qkv"] = matrix((HEADS + 2 * GROUPS) * SIZE, WIDTH)
        weights[f"{i}.out"] = matrix(WIDTH, WIDTH, deep)
        weights[f"{i}.gate_up"] = matrix(2 * HIDDEN, WIDTH)
        weights[f"{i}.down"] = matrix(WIDTH, HIDDEN, deep)
    return weights


def norm(x, scale):
    root = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    normal = x * root
    return normal * scale, (normal, root)


def norm_back(dy, scale, kept):
    normal, root = kept
    dn = dy * scale
    return root * (dn - normal * (dn * normal).mean(-1, keepdims=True)), (dy * normal).reshape(-1, scale.size).sum(0)


def angles(length, dtype):
    speeds = BASE ** (-np.arange(SIZE // 2) * 2 / SIZE)
    turns = np.arange(length)[:, None] * speeds
    return np.cos(turns).astype(dtype), np.sin(turns).astype(dtype)


def rotate(x, cos, sin):
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def run(w, ids, goal):
    """Returns the mean loss and the gradients."""
    batch, length = ids.shape
    dtype = w["embedding"].dtype
    share = HEADS // GROUPS
    cos, sin = angles(length, dtype)
    back = np.arange(length)[:, None] - np.arange(length)[None, :]
    mask = np.where((back >= 0) & (back <= WINDOW), 0, -np.inf).astype(dtype)
    factor = dtype.type(1 / np.sqrt(SIZE))

    x = w["embedding"][ids]
    kept = []
    for i in range(LAYERS):
        a, n1 = norm(x, w[f"{i}.norm1"])
        qkv = (a @ w[f"{i}.qkv"].T).reshape(batch, length, HEADS + 2 * GROUPS, SIZE).transpose(0, 2, 1, 3)
        q, k, v = qkv[:, :HEADS], qkv[:, HEADS : HEADS + GROUPS], qkv[:, HEADS + GROUPS :]
        q = rotate(q, cos, sin).reshape(batch, GROUPS, share * length, SIZE)
        k = rotate(k, cos, sin)
        v = np.ascontiguousarray(v)
        scores = (q @ k.transpose(0, 1, 3, 2)).reshape(batch, GROUPS, share, length, length) * factor + mask
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        p = p.reshape(batch, GROUPS, share * length, length)
        o = (p @ v).reshape(batch, HEADS, length, SIZE).transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)
        x2 = x + o @ w[f"{i}.out"].T
        m, n2 = norm(x2, w[f"{i}.norm2"])
        g, u = np.split(m @ w[f"{i}.gate_up"].T, 2, -1)
        s = 1 / (1 + np.exp(-g))
        f = g * s * u
        x = x2 + f @ w[f"{i}.down"].T
        kept.append((a, n1, q, k, v, p, o, m, n2, g, u, s, f))
    h, last = norm(x, w["norm"])
    logits = h @ w["embedding"].T
    logits -= logits.max(-1, keepdims=True)
    e = np.exp(logits)
    total = e.sum(-1, keepdims=True)
    rows = np.arange(batch)[:, None], np.arange(length)[None, :], goal
    loss = (np.log(total[..., 0]) - logits[rows]).mean()

    d = {}
    dl = e / total
    dl[rows] -= 1
    dl /= batch * length
    flat = lambda x: x.reshape(-1, x.shape[-1])
    product = lambda dy, x: flat(dy).T @ flat(x)
    d["embedding"] = product(dl, h)
    dx, d["norm"] = norm_back(dl @ w["embedding"], w["norm"], last)
    for i in reversed(range(LAYERS)):
        a, n1, q, k, v, p, o, m, n2, g, u, s, f = kept[i]
        d[f"{i}.down"] = product(dx, f)
        df = dx @ w[f"{i}.down"]
        dgu = np.concatenate([df * u * (s + g * s * (1 - s)), df * g * s], -1)
        d[f"{i}.gate_up"] = product(dgu, m)
        dm, d[f"{i}.norm2"] = norm_back(dgu @ w[f"{i}.gate_up"], w[f"{i}.norm2"], n2)
        dx = dx + dm
        d[f"{i}.out"] = product(dx, o)
        do = (dx @ w[f"{i}.out"]).reshape(batch, length, HEADS, SIZE).transpose(0, 2, 1, 3)
        do = do.reshape(batch, GROUPS, share * length, SIZE)
        dv = p.transpose(0, 1, 3, 2) @ do
        dp = do @ v.transpose(0, 1, 3, 2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * factor
        dq = rotate((ds @ k).reshape(batch, HEADS, length, SIZE), cos, -sin)
        dk = rotate(ds.transpose(0, 1, 3, 2) @ q, cos, -sin)
        dqkv = np.concatenate([dq, dk, dv], 1).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        d[f"{i}.qkv"] = product(dqkv, a)
        da, d[f"{i}.norm1"] = norm_back(dqkv @ w[f"{i}.qkv"], w[f"{i}.norm1"], n1)
        dx = dx + da
    np.add.at(d["embedding"], ids.reshape(-1), flat(dx))
    return loss, d


def check():
    random = np.random.default_rng(3)
    w = initial(random, np.dtype(np.float64))
    ids = random.integers(0, VOCABULARY, (2, 70))
    goal = random.integers(0, VOCABULARY, (2, 70))
    _, d = run(w, ids, goal)
    for name, weights in w.items():
        at = tuple(random.integers(0, n) for n in weights.shape)
        if name == "embedding":
            at = (ids[0, 0], at[1])
        step, own = 1e-5, weights[at]
        weights[at] = own + step
        up, _ = run(w, ids, goal)
        weights[at] = own - step
        down, _ = run(w, ids, goal)
        weights[at] = own
        print(f"{name:12} {d[name][at]:+.9f} {(up - down) / (2 * step):+.9f}")


def quantised(matrix):
    """The format Q8_0: blocks of a scale of 16 bits and of numbers of 8 bits."""
    blocks = matrix.reshape(-1, BLOCK)
    scales = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16)
    numbers = np.round(blocks / scales.astype(np.float32)).clip(-127, 127).astype(np.int8)
    return np.concatenate([scales.view(np.uint8), numbers.view(np.uint8)], -1).tobytes()


def train(steps):
    random = np.random.default_rng(7)
    ids = tokens(text())
    w = initial(random, np.dtype(np.float32))
    batch, length, rate, decay = 16, 128, 4e-3, 0.02
    first = {name: np.zeros_like(x) for name, x in w.items()}
    second = {name: np.zeros_like(x) for name, x in w.items()}
    start, mean = time.time(), 0.0
    for step in range(steps):
        at = random.integers(0, ids.size - length - 1, batch)[:, None] + np.arange(length)
        loss, d = run(w, ids[at], ids[at + 1])
        mean = loss if step == 0 else 0.98 * mean + 0.02 * loss
        size = np.sqrt(sum(float((x * x).sum()) for x in d.values()))
        now = rate * min(1, (step + 1) / 100) * (0.05 + 0.95 * (0.5 + 0.5 * np.cos(np.pi * step / steps)))
        for name, x in w.items():
            grad = d[name] * min(1, 1 / size)
            first[name] = 0.9 * first[name] + 0.1 * grad
            second[name] = 0.97 * second[name] + 0.03 * grad * grad
            m, v = first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.97 ** (step + 1))
            x -= now * (m / (np.sqrt(v) + 1e-8) + (decay * x if x.ndim == 2 else 0))
        if step % 100 == 0 or step + 1 == steps:
            print(f"step {step}: loss {mean:.3f}, {time.time() - start:.0f} s", flush=True)
        if step % 500 == 499 or step + 1 == steps:
            save(w)


def neighbours(rows):
    """Rows of heads in the order of the kind `llama`, in which the two elements that are rotated together are neighbours."""
    return rows.reshape(-1, 2, SIZE // 2, WIDTH).swapaxes(1, 2).reshape(rows.shape)


def tensors(w):
    """The tensors by the names that they have in GGUF files."""
    yield "token_embd.weight", w["embedding"]
    yield "output_norm.weight", w["norm"]
    for i in range(LAYERS):
        q, k, v = np.split(w[f"{i}.qkv"], [HEADS * SIZE, (HEADS + GROUPS) * SIZE])
        gate, up = np.split(w[f"{i}.gate_up"], 2)
        own = {
            "attn_norm": w[f"{i}.norm1"], "attn_q": neighbours(q), "attn_k": neighbours(k), "attn_v": v, "attn_output": w[f"{i}.out"],
            "ffn_norm": w[f"{i}.norm2"], "ffn_gate": gate, "ffn_up": up, "ffn_down": w[f"{i}.down"],
        }
        yield from ((f"blk.{i}.{name}.weight", x) for name, x in own.items())


def metadata():
    # Characters as byte-level tokenizers write them; there are no pairs, so that each is a token.
    characters = ["\u010a", "\u0120", *map(chr, range(33, 127))]
    return {
        "general.architecture": "llama", "general.name": "documentation of bb", "llama.block_count": LAYERS,
        # Only the distance between two positions counts, and it is at most the window, so that texts may be longer than those of training.
        "llama.context_length": 8192, "llama.embedding_length": WIDTH, "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": GROUPS, "llama.attention.sliding_window": WINDOW + 1,
        "llama.attention.layer_norm_rms_epsilon": EPSILON, "llama.rope.freq_base": BASE,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": characters,
        "tokenizer.ggml.merges": [],
    }


def text_bytes(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value_bytes(value):
    """A value of the metadata: the number of its type, and its bytes."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_bytes(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text_bytes, value))


def save(w):
    """Writes `model.gguf`: matrices of 8 bits, vectors of floats."""
    keys, described, data = metadata(), b"", b""
    all_tensors = dict(tensors(w))
    for name, x in all_tensors.items():
        kind, own = (8, quantised(x)) if x.ndim == 2 else (0, x.astype(np.float32).tobytes())
        extents = x.shape[::-1]
        described += text_bytes(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, len(data))
        data += own + bytes(-len(own) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(keys))
    head += b"".join(text_bytes(key) + value_bytes(value) for key, value in keys.items()) + described
    (HERE / "model.gguf").write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


if __name__ == "__main__":
    argument = sys.argv[1] if len(sys.argv) > 1 else "4000"
    check() if argument == "check" else train(int(argument))
