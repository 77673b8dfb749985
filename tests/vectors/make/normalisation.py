"""Vectors of operators that normalise, in f64 by NumPy."""
import numpy as np
from family import Family, bfloat16, short

f = Family("normalisation")
rng = np.random.default_rng(23)


def add(name, op, x, y, attributes=None, opset=22, more=None, **how):
    t = x.dtype
    tolerance = {"float64": 1e-11, "float32": 2e-5, "float16": 3e-3}.get(t.name, 2.5e-2)
    ys = y if isinstance(y, list) else [y]
    f.add(name, op, {"x": x} | (more or {}), attributes=attributes, opset=opset, expected=[np.asarray(y).astype(y_type) for y, y_type in
          zip(ys, how.pop("types", [t] * len(ys)))], **({"relative": tolerance, "absolute": tolerance, "outputs": len(ys)} | how))


def normal(x, axes, epsilon):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def draw(*shape, t=np.float32):
    return rng.normal(0.5, 2, shape).astype(t)


def spread(v, rank):
    return v.astype(np.float64).reshape(-1, *[1] * (rank - 2))


for name, shape, axis in [("last", (2, 3, 4), -1), ("two", (2, 3, 4), 1), ("all", (2, 3, 4), 0), ("negative", (2, 3, 4), -2), ("vector", (5,), -1),
                          ("one", (3, 1), -1)]:
    x, scale, bias = draw(*shape), draw(*shape[axis:]), draw(*shape[axis:])
    axes = tuple(range(axis % len(shape), len(shape)))
    y = normal(x, axes, 1e-5)
    add(f"layer_{name}", "LayerNormalization", x, y * scale + bias, {"axis": axis}, 17, {"s": scale, "b": bias})
    add(f"layer_{name}_no_bias", "LayerNormalization", x, y * scale, {"axis": axis}, 17, {"s": scale})
    wide = x.astype(np.float64)
    rms = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-5) * scale
    add(f"rms_{name}", "RMSNormalization", x, rms, {"axis": axis}, 23, {"s": scale})
for t in [np.float16, np.float64, bfloat16]:
    x, scale, bias = draw(2, 5, t=t), draw(5, t=t), draw(5, t=t)
    add(f"layer_{short(t)}", "LayerNormalization", x, normal(x, -1, 0.0078125) * scale.astype(float) + bias.astype(float), {"epsilon": 0.0078125}, 17, {"s": scale, "b": bias})
    wide = x.astype(np.float64)
    add(f"rms_{short(t)}", "RMSNormalization", x, wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale.astype(float), {}, 23, {"s": scale})
x, scale = draw(2, 3, 4), draw(3, 4)
wide = x.astype(np.float64)
add("layer_results", "LayerNormalization", x, [normal(x, (1, 2), 1e-5) * scale, wide.mean((1, 2), keepdims=True),
    1 / np.sqrt(wide.var((1, 2), keepdims=True) + 1e-5)], {"axis": 1}, 17, {"s": scale})
add("layer_of_nothing", "LayerNormalization", np.zeros((0, 4), np.float32), np.zeros((0, 4)), {}, 17, {"s": draw(4)})
add("layer_constant", "LayerNormalization", np.full((2, 4), 7, np.float32), np.zeros((2, 4)), {}, 17, {"s": draw(4)})

for name, shape in [("two", (4, 3)), ("three", (2, 3, 5)), ("four", (2, 3, 2, 4)), ("five", (1, 2, 2, 1, 3)), ("no_batch", (0, 3, 2))]:
    x = draw(*shape)
    c = shape[1]
    s, b, m, v = draw(c), draw(c), draw(c), rng.uniform(0.2, 3, c).astype(np.float32)
    r = len(shape)
    y = (x.astype(np.float64) - spread(m, r)) / np.sqrt(spread(v, r) + 1e-5) * spread(s, r) + spread(b, r)
    more = {"s": s, "b": b, "m": m, "v": v}
    add(f"batch_{name}", "BatchNormalization", x, y, {}, 15, more)
    if name == "four":
        add("batch_9", "BatchNormalization", x, y, {}, 9, more)
        add("batch_7", "BatchNormalization", x, y, {"spatial": 1}, 7, more)
        add("batch_6", "BatchNormalization", x, y, {"is_test": 1}, 6, more)
        axes = (0, 2, 3)
        mean, var = x.astype(np.float64).mean(axes), x.astype(np.float64).var(axes)
        y = (x.astype(np.float64) - spread(mean, r)) / np.sqrt(spread(var, r) + 1e-3) * spread(s, r) + spread(b, r)
        add("batch_training", "BatchNormalization", x, [y, m * 0.75 + mean * 0.25, v * 0.75 + var * 0.25],
            {"training_mode": 1, "momentum": 0.75, "epsilon": 1e-3}, 15, more)
for t in [np.float16, np.float64, bfloat16]:
    x, c = draw(2, 3, 2, t=t), 3
    s, b, m, v = draw(c, t=t), draw(c, t=t), draw(c, t=t), rng.uniform(0.2, 3, c).astype(t)
    y = (x.astype(np.float64) - spread(m, 3)) / np.sqrt(spread(v, 3) + 1e-5) * spread(s, 3) + spread(b, 3)
    add(f"batch_{short(t)}", "BatchNormalization", x, y, {}, 15, {"s": s, "b": b, "m": m, "v": v}, relative={"f16": 1e-2, "bf16": 6e-2}.get(short(t), 1e-11),
        absolute={"f16": 1e-2, "bf16": 6e-2}.get(short(t), 1e-11))

for name, shape in [("three", (2, 3, 5)), ("four", (2, 3, 4, 2)), ("one_place", (2, 3, 1))]:
    x, s, b = draw(*shape), draw(3), draw(3)
    r = len(shape)
    y = normal(x, tuple(range(2, r)), 1e-5) * spread(s, r) + spread(b, r)
    add(f"instance_{name}", "InstanceNormalization", x, y, {}, 6, {"s": s, "b": b})
for t in [np.float16, np.float64, bfloat16]:
    x, s, b = draw(2, 3, 5, t=t), draw(3, t=t), draw(3, t=t)
    add(f"instance_{short(t)}", "InstanceNormalization", x, normal(x, 2, 1e-5) * spread(s, 3) + spread(b, 3), {}, 22, {"s": s, "b": b})
for opset in [18, 21]:
    for groups in [1, 2, 4]:
        x = draw(2, 4, 3, 2)
        count = groups if opset == 18 else 4
        s, b = draw(count), draw(count)
        y = normal(x.reshape(2, groups, -1), 2, 1e-5).reshape(x.shape)
        every = lambda v: spread(np.repeat(v, 4 // count), 4)
        add(f"group_{opset}_{groups}", "GroupNormalization", x, y * every(s) + every(b), {"num_groups": groups}, opset, {"s": s, "b": b})
f.add("group_does_not_divide", "GroupNormalization", {"x": draw(1, 4, 2), "s": draw(4), "b": draw(4)}, attributes={"num_groups": 3}, opset=21, fails=True)

x = draw(2, 3, 2, 2)
add("mean_variance", "MeanVarianceNormalization", x, normal(x, (0, 2, 3), 1e-9), {}, 13, relative=1e-4, absolute=1e-4)
add("mean_variance_axes", "MeanVarianceNormalization", x, normal(x, (1, 3), 1e-9), {"axes": [1, -1]}, 13, relative=1e-4, absolute=1e-4)
for p in [1, 2]:
    for axis in [0, 1, -1]:
        x = draw(2, 3, 4)
        x[:, :, 0] = 0
        x[0] = 0
        norm = np.abs(x.astype(np.float64)) ** p
        norm = norm.sum(axis, keepdims=True) ** (1 / p)
        y = np.divide(x, norm, out=np.zeros(x.shape), where=norm != 0)
        add(f"lp_{p}_axis_{axis}", "LpNormalization", x, y, {"p": p, "axis": axis}, 22)
for size in [1, 2, 3, 5]:
    x = draw(2, 4, 3)
    wide = x.astype(np.float64)
    sums = np.zeros(wide.shape)
    for c in range(4):
        low, high = max(0, c - (size - 1) // 2), min(4, c + size // 2 + 1)
        sums[:, c] = (wide[:, low:high] ** 2).sum(1)
    add(f"lrn_{size}", "LRN", x, wide / (2.0 + 0.5 / size * sums) ** 0.75, {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 2.0}, 13)
# `stash_type` 11: the first stage is in `f64`, where squares of these do not overflow.
x = (np.array([[[3, -4], [5, 12]], [[8, 15], [-7, 24]]]) * 1e19).astype(np.float32)
wide = x.astype(np.float64)
ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
centred = wide - wide.mean(-1, keepdims=True)
f.add("rms_in_f64", "RMSNormalization", {"x": x, "scale": ones}, attributes={"stash_type": 11},
      expected=(wide / np.sqrt((wide**2).mean(-1, keepdims=True))).astype(np.float32))
f.add("layer_in_f64", "LayerNormalization", {"x": x, "scale": ones, "bias": zeros}, attributes={"stash_type": 11},
      expected=(centred / np.sqrt((centred**2).mean(-1, keepdims=True))).astype(np.float32))
f.add("group_in_f64", "GroupNormalization", {"x": x, "scale": ones, "bias": zeros}, attributes={"num_groups": 2, "stash_type": 11},
      expected=(centred / np.sqrt((centred**2).mean(-1, keepdims=True))).astype(np.float32))
f.write()
