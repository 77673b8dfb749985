"""Vectors of the random operators, which draw what NumPy's `RandomState` draws from the seed, as ONNX's evaluator does; and
of dropout."""
import numpy as np
from family import Family

f = Family("draws")
TYPES = {1: np.float32, 10: np.float16, 11: np.float64}
for seed in (0.0, 1.0, 7.5, 123456.0):
    state = lambda: np.random.RandomState(int(seed))
    for dtype, t in TYPES.items():
        close = {"relative": 2e-3, "absolute": 2e-3} if t == np.float16 else {"relative": 1e-5, "absolute": 1e-6}
        k = f"{np.dtype(t).name}_{seed}"
        f.add(f"uniform_{k}", "RandomUniform", {}, attributes={"shape": [3, 4], "low": -1.0, "high": 3.0, "seed": seed, "dtype": dtype},
              expected=(state().rand(3, 4) * 4 - 1).astype(t), **close)
        f.add(f"normal_{k}", "RandomNormal", {}, attributes={"shape": [3, 5], "mean": 2.0, "scale": 0.5, "seed": seed, "dtype": dtype},
              expected=(state().randn(3, 5) * 0.5 + 2).astype(t), **close)
        f.add(f"uniform_like_{k}", "RandomUniformLike", {"x": np.zeros((2, 0, 3), np.int32) if seed == 1 else np.zeros((2, 3), np.int32)},
              attributes={"seed": seed, "dtype": dtype}, expected=state().rand(*((2, 0, 3) if seed == 1 else (2, 3))).astype(t), **close)
        f.add(f"normal_like_{k}", "RandomNormalLike", {"x": np.zeros(700, t)}, attributes={"seed": seed}, expected=state().randn(700).astype(t), **close)
    p = np.array([0, 0.1, 0.5, 0.75, 1, 0.3, 0.9, 0.0, 0.5, 0.2])
    f.add(f"bernoulli_{seed}", "Bernoulli", {"x": p}, attributes={"seed": seed}, expected=state().binomial(1, p).astype(np.float64))
    f.add(f"bernoulli_bool_{seed}", "Bernoulli", {"x": p.astype(np.float32)}, attributes={"seed": seed, "dtype": 9},
          expected=state().binomial(1, p.astype(np.float32)).astype(bool))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 5
    for ratio in (0.25, 0.75):
        mask = state().uniform(0, 1, x.shape) >= ratio
        f.add(f"dropout_{seed}_{ratio}", "Dropout", {"x": x, "ratio": np.float32(ratio), "training": np.array(True)}, constants=["training"], outputs=2,
              attributes={"seed": int(seed)}, expected=[(mask * x / (1 - ratio)).astype(np.float32), mask], relative=1e-6)
    # ONNX's evaluator has no Multinomial; `choice` inverts the cumulated probabilities, row after row.
    for k, t, rows, count in [("rows", np.float32, [[0.5, 0.25, 0.25], [0.125, 0, 0.875]], 8), ("one_class", np.float64, [[1.0]], 3), ("no_row", np.float16, np.zeros((0, 4)), 3),
                              ("many", np.float64, [np.linspace(1, 2, 40)], 50), ("no_sample", np.float64, [[0.5, 0.5]], 0), ("f16", np.float16, [[0.5, 0.5], [0.25, 0.75]], 6)]:
        with np.errstate(all="ignore"):
            logs = np.log(np.asarray(rows, np.float64)).astype(t)
        weights, generator = np.exp(logs.astype(np.float64)), state()
        chosen = [generator.choice(len(w), count, p=w / w.sum()) for w in weights]
        for to, number in (np.int32, 6), (np.int64, 7):
            f.add(f"multinomial_{k}_{np.dtype(to).name}_{seed}", "Multinomial", {"x": logs}, attributes={"sample_size": count, "seed": seed, "dtype": number},
                  expected=np.array(chosen, to).reshape(len(logs), count))
f.add("dropout_at_inference", "Dropout", {"x": x, "ratio": np.float32(0.5)}, outputs=2, expected=[x, np.ones(x.shape, bool)])
f.add("dropout_opset_7", "Dropout", {"x": x}, opset=7, attributes={"ratio": 0.5}, outputs=2, expected=[x, np.ones_like(x)])
f.add("dropout_opset_10", "Dropout", {"x": x}, opset=10, outputs=2, expected=[x, np.ones(x.shape, bool)])
# What is certain needs no generator.
sure = np.log(np.array([[1e-30, 1, 1e-30], [1, 1e-30, 1e-30]], np.float32))
f.add("multinomial_of_what_is_certain", "Multinomial", {"x": sure}, attributes={"sample_size": 5}, expected=np.array([[1] * 5, [0] * 5], np.int32))
f.add("multinomial_i64", "Multinomial", {"x": sure}, attributes={"sample_size": 2, "dtype": 7, "seed": 3.0}, expected=np.array([[1] * 2, [0] * 2]))
f.add("bernoulli_of_what_is_certain", "Bernoulli", {"x": np.array([0.0, 1.0], np.float32)}, expected=np.array([0, 1], np.float32))
f.add("uniform_of_negative_extent", "RandomUniform", {}, attributes={"shape": [-1]}, fails=True)
f.add("uniform_of_great_extent", "RandomUniform", {}, attributes={"shape": [2**40, 2**20]}, fails=True)
f.write()
