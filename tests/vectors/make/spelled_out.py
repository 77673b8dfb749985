"""Vectors of normalisations of halves that exporters write as many operators: squares and sums leave the range of `f16`, or lose
the small numbers, where the results fit.

NumPy computes the formula in f64 and rounds once. A result may be rounded twice more, by a scale and a shift.
"""
import itertools

import numpy as np
from family import Family, bfloat16, short
from onnx import helper

f = Family("spelled_out", opset=17)
rng = np.random.default_rng(28)
node = helper.make_node
TOLERANCE = {"float16": 2**-9, "bfloat16": 2**-6}


def chain(centred, twice, square, mean, root, quotient):
    """The nodes from `x` to the quotient `n`; axes are the last one."""
    nodes, d, e = [], "x", "x"
    if centred:
        nodes += [node("ReduceMean", ["x"], ["mean"], axes=[-1]), node("Sub", ["x", "mean"], ["d"])]
        d = e = "d"
    if twice:
        nodes += [node("Sub", ["x", "mean"], ["e"])]
        e = "e"
    nodes += [node("Pow", [d, "two"], ["square"]) if square == "Pow" else node("Mul", [d, d], ["square"])]
    if mean == "ReduceMean":
        nodes += [node("ReduceMean", ["square"], ["v"], axes=[-1])]
    else:
        nodes += [node("ReduceSum", ["square", "last"], ["sum"]), node(mean, ["sum", "length" if mean == "Div" else "share"], ["v"])]
    nodes += [node("Add", ["v", "epsilon"], ["shifted"])]
    if root == "Pow":
        nodes += [node("Pow", ["shifted", "minus"], ["inverse"])]
    else:
        nodes += [node("Sqrt", ["shifted"], ["root"])]
        nodes += {"Div": [], "Reciprocal": [node("Reciprocal", ["root"], ["inverse"])], "One": [node("Div", ["one", "root"], ["inverse"])]}[quotient]
    if root != "Pow" and quotient == "Div":
        return nodes + [node("Div", [e, "root"], ["n"])]
    return nodes + [node("Mul", [e, "inverse"], ["n"])]


def constants(t, n):
    return {"two": np.array(2, t), "one": np.array(1, t), "epsilon": np.array(1e-5, t), "minus": np.array(-0.5, t), "length": np.array(n, t),
            "share": np.array(1 / n, t), "last": np.array([-1])}


def formula(x, centred, scale=1.0, bias=0.0):
    x = x.astype(np.float64)
    d = x - x.mean(-1, keepdims=True) if centred else x
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + float(np.float32(1e-5))) * scale + bias


def add(name, t, nodes, x, expected, more=None, outputs=("y",)):
    used = {i for n in nodes for i in n.input}
    fixed = {k: v for k, v in (constants(t, x.shape[-1]) | (more or {})).items() if k in used}
    expected = [np.asarray(y).astype(t) for y in (expected if isinstance(expected, list) else [expected])]
    tolerance = TOLERANCE[np.dtype(t).name]
    f.add(f"{name}_{short(t)}", nodes, {"x": x}, constants=fixed, outputs=list(outputs), expected=expected, relative=tolerance, absolute=tolerance)


def large(*shape, t):
    """Numbers whose squares exceed 65504, as the greatest of a language model's hidden states do."""
    return (rng.standard_normal(shape) * 700).astype(t)


forms = [(False, False), (True, False), (True, True)]
for t in [np.float16, bfloat16]:
    for i, ((centred, twice), square, root) in enumerate(itertools.product(forms, ["Pow", "Mul"], ["Sqrt/Div", "Sqrt/Reciprocal", "Sqrt/One", "Pow/"])):
        root, quotient = root.split("/")
        mean = ["ReduceMean", "Div", "Mul"][i % 3]
        x = large(2, 3, 64, t=t)
        scale, bias = rng.uniform(0.5, 2, 64).astype(t), rng.uniform(-1, 1, 64).astype(t)
        nodes = chain(centred, twice, square, mean, root, quotient) + [node("Mul", ["n", "scale"], ["scaled"]), node("Add", ["scaled", "bias"], ["y"])]
        words = "_".join(w.lower() for w in ["layer" if centred else "rms", "twice" if twice else "once", square, mean, root, quotient] if w)
        add(words, t, nodes, x, formula(x, centred, scale.astype(np.float64), bias.astype(np.float64)), {"scale": scale, "bias": bias})
    rms = chain(False, False, "Pow", "ReduceMean", "Sqrt", "Reciprocal")
    x = large(3, 48, t=t)
    add("rms_alone", t, [*rms[:-1], node("Mul", ["x", "inverse"], ["y"])], x, formula(x, False))
    scale = rng.uniform(0.5, 2, 48).astype(t)
    add("rms_scaled_only", t, [*rms, node("Mul", ["n", "scale"], ["y"])], x, formula(x, False) * scale.astype(np.float64), {"scale": scale})
    # What another node reads, or the graph returns, is rounded there, and the chain goes on without the rounding.
    layer = chain(True, False, "Pow", "ReduceMean", "Sqrt", "Div")
    root = np.sqrt(x.astype(np.float64).var(-1, keepdims=True) + 1e-5)
    add("layer_returns_root", t, layer, x, [formula(x, True), root], outputs=("n", "root"))
    # Norms: of large numbers, and of numbers whose squares are no numbers of `f16`.
    norm = [node("Mul", ["x", "x"], ["square"]), node("ReduceSum", ["square", "last"], ["sum"]), node("Sqrt", ["sum"], ["root"]), node("Div", ["x", "root"], ["y"])]
    for name, x in [("large", large(4, 32, t=t)), ("small", (rng.standard_normal((4, 32)) * 2e-5).astype(t))]:
        wide = x.astype(np.float64)
        add(f"norm_of_{name}", t, norm, x, wide / np.sqrt((wide**2).sum(-1, keepdims=True)))
        expected = np.sqrt((wide**2).sum(-1))
        flat = [norm[0], node("ReduceSum", ["square", "last"], ["sum"], keepdims=0), node("Sqrt", ["sum"], ["y"])]
        add(f"root_of_squares_of_{name}", t, flat, x, expected)
    # Whisper: the mean and the variance over rows, then a quotient, a scale and a shift of `[rows]`.
    x = (rng.standard_normal((1, 4, 384)) * 900 + 2000).astype(t)
    scale, bias = rng.uniform(0.5, 2, 384).astype(t), rng.uniform(-1, 1, 384).astype(t)
    nodes = chain(True, False, "Pow", "ReduceMean", "Sqrt", "Div") + [node("Mul", ["n", "scale"], ["scaled"]), node("Add", ["scaled", "bias"], ["y"])]
    add("whisper", t, nodes, x, formula(x, True, scale.astype(np.float64), bias.astype(np.float64)), {"scale": scale, "bias": bias})
    # The model itself casts to f32 and back.
    cast = [node("Cast", ["x"], ["w"], to=1), node("Mul", ["w", "w"], ["square"]), node("ReduceMean", ["square"], ["v"], axes=[-1]), node("Add", ["v", "small"], ["shifted"]),
            node("Sqrt", ["shifted"], ["root"]), node("Div", ["w", "root"], ["n"]), node("Cast", ["n"], ["back"], to={"float16": 10, "bfloat16": 16}[np.dtype(t).name]),
            node("Mul", ["scale", "back"], ["y"])]
    x, scale = large(2, 48, t=t), rng.uniform(0.5, 2, 48).astype(t)
    add("rms_with_casts", t, cast, x, formula(x, False) * scale.astype(np.float64), {"small": np.array([1e-5], np.float32), "scale": scale})
f.write()
