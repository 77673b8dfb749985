"""Trains the language model of the example `llm` on the repository's own documentation, and writes its weights.

    python cli/examples/llm/train.py [STEPS]

It needs NumPy alone, and takes seven minutes on two cores. The gradients are written by hand; `python cli/examples/llm/train.py check`
compares them with finite differences. `model.rs` beside this file has the same model on any backend.
"""

import pathlib
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
    """Bytes of blocks, of which 128 stands for 0, and a scale for each block."""
    blocks = matrix.reshape(matrix.shape[0], -1, BLOCK)
    scales = (np.abs(blocks).max(-1) / 127).astype(np.float32)
    return (np.round(blocks / scales[..., None]) + 128).clip(0, 255).astype(np.uint8), scales


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


def save(w):
    """Writes the bytes of all weights after each other, in the order of `initial`, each followed by its scales."""
    parts = []
    for x in w.values():
        parts += quantised(x) if x.ndim == 2 else [x]
    np.save(HERE / "weights.npy", np.frombuffer(b"".join(x.tobytes() for x in parts), np.uint8))


if __name__ == "__main__":
    argument = sys.argv[1] if len(sys.argv) > 1 else "4000"
    check() if argument == "check" else train(int(argument))
