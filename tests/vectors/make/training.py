"""Vectors of Adagrad, Adam and Momentum: the pseudo code of ONNX's text, in f64 by NumPy."""
import numpy as np
from family import Family, short

f = Family("training")
rng = np.random.default_rng(13)
DOMAIN = "ai.onnx.preview.training"


def adagrad(r, t, x, g, h, decay_factor=0.0, epsilon=1e-6, norm_coefficient=0.0):
    g = norm_coefficient * x + g
    h = h + g * g
    return x - r / (1 + t * decay_factor) * g / (np.sqrt(h) + epsilon), h


def adam(r, t, x, g, v, h, alpha=0.9, beta=0.999, epsilon=1e-6, norm_coefficient=0.0, norm_coefficient_post=0.0):
    g = norm_coefficient * x + g
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    r = r * np.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else r
    return (1 - norm_coefficient_post) * (x - r * v / (np.sqrt(h) + epsilon)), v, h


def momentum(r, t, x, g, v, alpha, beta, norm_coefficient, mode):
    g = norm_coefficient * x + g
    v = alpha * v + (beta if t > 0 else 1) * g
    return x - r * (g + alpha * v if mode == "nesterov" else v), v


def add(name, op, shapes, t, kept, dtype=np.float32, rate_shape=(), **attributes):
    rule = {"Adagrad": adagrad, "Adam": adam, "Momentum": momentum}[op]
    rounded = {k: v if isinstance(v, str) else float(np.float32(v)) for k, v in attributes.items()}
    r = np.full(rate_shape, 0.125, np.float32)
    lists = [[rng.normal(size=s).astype(dtype) for s in shapes] for _ in range(2)]
    lists += [[rng.uniform(0.1, 2, s).astype(dtype) for s in shapes] for _ in range(kept)]
    columns = [rule(0.125, t, *(l[i].astype(np.float64) for l in lists), **rounded) for i in range(len(shapes))]
    expected = [np.asarray(c[row]).astype(dtype) for row in range(1 + kept) for c in columns]
    inputs = {"r": r, "t": np.full(rate_shape, t, np.int64)}
    inputs |= {f"{'xgab'[k]}{i}": v for k, l in enumerate(lists) for i, v in enumerate(l)}
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    f.add(name, f"{DOMAIN}::{op}", inputs, attributes=attributes, outputs=len(expected), expected=expected, opsets={DOMAIN: 1},
          relative=tolerance, absolute=tolerance / 10)


for dtype in [np.float32, np.float64]:
    for t in [0, 1, 7]:
        add(f"adagrad_{t}_{short(dtype)}", "Adagrad", [(2, 3)], t, 1, dtype, decay_factor=0.25, norm_coefficient=0.125)
        add(f"adam_{t}_{short(dtype)}", "Adam", [(2, 3)], t, 2, dtype, alpha=0.875, beta=0.75)
        for mode in ["standard", "nesterov"]:
            add(f"momentum_{mode}_{t}_{short(dtype)}", "Momentum", [(2, 3)], t, 1, dtype, alpha=0.75, beta=0.5,
                norm_coefficient=0.25, mode=mode)
shapes = [(2,), (), (3, 1), (0, 4)]
add("adagrad_many", "Adagrad", shapes, 2, 1)
add("adam_many", "Adam", shapes, 2, 2, norm_coefficient=0.25, norm_coefficient_post=0.125, epsilon=0.0625)
add("momentum_many", "Momentum", shapes, 2, 1, alpha=0.5, beta=0.25, norm_coefficient=0.0, mode="standard")
add("adam_rate_of_rank_1", "Adam", [(2, 2)], 3, 2, rate_shape=(1,))
add("adam_rate_for_a_scalar", "Adam", [()], 3, 2, rate_shape=(1,))
x = np.ones(2, np.float32)
f.add("adam_too_few", f"{DOMAIN}::Adam", {"r": np.float32(1), "t": np.int64(1), "x": x, "g": x, "v": x}, outputs=3,
      opsets={DOMAIN: 1}, fails=True)
f.add("momentum_unknown_mode", f"{DOMAIN}::Momentum", {"r": np.float32(1), "t": np.int64(1), "x": x, "g": x, "v": x}, outputs=2,
      attributes={"alpha": 0.5, "beta": 0.5, "norm_coefficient": 0.0, "mode": "heavy"}, opsets={DOMAIN: 1}, fails=True)
f.write()
