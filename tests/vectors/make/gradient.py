"""Vectors of Gradient: central differences of what ONNX's evaluator computes in f64."""
import numpy as np
from family import Family, reference
from onnx import TensorProto, helper

DOMAIN = "ai.onnx.preview.training"
f = Family("gradient", opset=18)
rng = np.random.default_rng(37)
STEP = 1e-5


def draw(*shape, low=0.3, high=1.7):
    return rng.uniform(low, high, shape)


def add(name, nodes, inputs, xs=None, fixed=None, y="y", opset=18):
    """`nodes` are tuples: operator, operands, results, and attributes if any; `xs` names what to differentiate by."""
    xs = xs or list(inputs)
    fixed = fixed or {}
    zs = [k for k in inputs if k not in xs]
    made = [helper.make_node(n[0], n[1].split(), n[2].split(), **(n[3] if len(n) > 3 else {})) for n in nodes]
    ports = [helper.make_tensor_value_info(k, TensorProto.DOUBLE, v.shape) for k, v in inputs.items()]
    constants = [helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.flatten()) for k, v in fixed.items()]
    graph = helper.make_graph(made, name, ports, [helper.make_empty_tensor_value_info(y)], initializer=constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)

    def total(**changed):
        return np.sum(reference(model, inputs | changed, [y])[0], dtype=np.float64)

    expected = []
    for k in xs:
        g = np.zeros(inputs[k].shape)
        for at in np.ndindex(g.shape):
            up, down = inputs[k].copy(), inputs[k].copy()
            up[at] += STEP
            down[at] -= STEP
            g[at] = (total(**{k: up}) - total(**{k: down})) / (2 * STEP)
        expected.append(g)
    made.append(helper.make_node("Gradient", xs + zs, [f"d{k}" for k in xs], domain=DOMAIN, xs=xs, y=y, **({"zs": zs} if zs else {})))
    f.add(name, made, inputs, outputs=[f"d{k}" for k in xs], expected=expected, constants=fixed, opset=opset, opsets={DOMAIN: 1},
          relative=1e-6, absolute=1e-7)


def ints(*values):
    return np.array(values, np.int64)


for op in ["Neg", "Abs", "Sqrt", "Exp", "Log", "Sigmoid", "Tanh", "Relu", "Softplus", "Reciprocal", "Sin", "Atan", "Softmax", "LogSoftmax"]:
    add(op.lower(), [(op, "x", "z"), ("Mul", "z c", "y")], {"x": draw(2, 3)}, fixed={"c": draw(2, 3)})
for op in ["Add", "Sub", "Mul", "Div", "Pow"]:
    add(op.lower(), [(op, "a b", "y")], {"a": draw(2, 3), "b": draw(2, 3)})
    add(f"{op.lower()}_broadcast", [(op, "a b", "y")], {"a": draw(2, 1, 3), "b": draw(4, 1)})
    add(f"{op.lower()}_with_scalar", [(op, "a b", "y")], {"a": draw(2, 3), "b": draw()})
for name, a, b in [("matrices", (2, 3), (3, 4)), ("row", (3,), (3, 2)), ("column", (2, 3), (3,)), ("vectors", (4,), (4,)), ("batch", (2, 2, 3), (3, 2)),
                   ("broadcast", (2, 1, 2, 3), (3, 3, 2))]:
    add(f"matmul_{name}", [("MatMul", "a b", "z"), ("Exp", "z", "y")], {"a": draw(*a, high=0.6), "b": draw(*b, high=0.6)})
for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp"]:
    for keep in [0, 1]:
        add(f"{op.lower()}_{keep}", [(op, "x axes", "z", {"keepdims": keep}), ("Mul", "z z", "y")], {"x": draw(2, 3, 2)}, fixed={"axes": ints(-2)})
    add(f"{op.lower()}_of_all", [(op, "x", "z"), ("Exp", "z", "y")], {"x": draw(2, 2)})
add("reshape", [("Reshape", "x s", "z"), ("MatMul", "z c", "y")], {"x": draw(2, 3)}, fixed={"s": ints(3, 2), "c": draw(2, 2)})
add("transpose", [("Transpose", "x", "z", {"perm": [1, 2, 0]}), ("Mul", "z c", "y")], {"x": draw(2, 3, 2)}, fixed={"c": draw(3, 2, 2)})
add("transpose_reversed", [("Transpose", "x", "z"), ("Mul", "z c", "y")], {"x": draw(2, 3)}, fixed={"c": draw(3, 2)})
add("concat", [("Concat", "a b", "z", {"axis": -1}), ("Mul", "z z", "y")], {"a": draw(2, 3), "b": draw(2, 1)})
add("split", [("Split", "x sizes", "a b c", {"axis": 1}), ("Mul", "a c", "y")], {"x": draw(2, 5)}, fixed={"sizes": ints(2, 1, 2)})
add("slice", [("Slice", "x s e a t", "z"), ("Mul", "z z", "y")], {"x": draw(5, 4)}, fixed={"s": ints(-1, 0), "e": ints(-10, 4), "a": ints(0, 1), "t": ints(-2, 3)})
add("squeeze", [("Squeeze", "x", "z"), ("Exp", "z", "y")], {"x": draw(1, 3, 1)})
add("gather", [("Gather", "x i", "z", {"axis": 1}), ("Mul", "z c", "y")], {"x": draw(2, 4)}, fixed={"i": np.array([[0, -1, 0], [2, 2, 0]]), "c": draw(2, 2, 3)})
add("where", [("Greater", "a b", "k"), ("Where", "k a b", "z"), ("Mul", "z z", "y")], {"a": draw(2, 3), "b": draw(3)})
add("clip", [("Clip", "x low high", "z"), ("Exp", "z", "y")], {"x": draw(4, 3)}, fixed={"low": np.array(0.6), "high": np.array(1.2)})
add("layer_norm", [("LayerNormalization", "x s b", "z"), ("Mul", "z c", "y")], {"x": draw(2, 4), "s": draw(4), "b": draw(4)}, fixed={"c": draw(2, 4)})
add("conv", [("Conv", "x w", "z", {"pads": [1, 0, 1, 0], "strides": [2, 1]}), ("Mul", "z z", "y")], {"x": draw(1, 2, 4, 3), "w": draw(2, 2, 3, 2)})
add("einsum", [("Einsum", "a b", "z", {"equation": "bij,bkj->bik"}), ("Exp", "z", "y")], {"a": draw(2, 2, 2, high=0.6), "b": draw(2, 3, 2, high=0.6)})
add("twice_used", [("Mul", "x x", "z"), ("Add", "z x", "y")], {"x": draw(3)})
add("only_some", [("Mul", "a b", "z"), ("Mul", "z c", "y")], {"a": draw(3), "b": draw(3), "c": draw(3)}, xs=["c", "a"])
add("what_does_not_matter", [("Exp", "a", "y"), ("Exp", "b", "other")], {"a": draw(3), "b": draw(2)})
one = helper.make_node
x = draw(3)
# ONNX's evaluator rounds Erf to f32, of which differences are none.
bell = [one("Erf", ["x"], ["y"]), one("Gradient", ["x"], ["g"], domain=DOMAIN, xs=["x"], y="y")]
f.add("erf", bell, {"x": x}, outputs=["g"], expected=[2 / np.sqrt(np.pi) * np.exp(-x * x)], opsets={DOMAIN: 1}, relative=1e-9)
cube = [one("Mul", ["x", "x"], ["z"]), one("Mul", ["z", "x"], ["y"]), one("Gradient", ["x"], ["g"], domain=DOMAIN, xs=["x"], y="y"),
        one("Gradient", ["x"], ["h"], domain=DOMAIN, xs=["x"], y="g")]
f.add("second_derivative", cube, {"x": x}, outputs=["g", "h"], expected=[3 * x * x, 6 * x], opsets={DOMAIN: 1})
middle = [one("Exp", ["x"], ["h"]), one("Mul", ["h", "h"], ["y"]), one("Gradient", ["h"], ["g"], domain=DOMAIN, xs=["h"], y="y")]
f.add("by_what_is_computed", middle, {"x": x}, outputs=["g"], expected=[2 * np.exp(x)], opsets={DOMAIN: 1})
elsewhere = [one("Exp", ["x"], ["y"]), one("Gradient", ["at"], ["g"], domain=DOMAIN, xs=["x"], y="y")]
f.add("at_another_place", elsewhere, {"x": x, "at": x[:2]}, outputs=["g"], expected=[np.exp(x[:2])], opsets={DOMAIN: 1})
unknown = [one("Exp", ["x"], ["y"]), one("Gradient", ["x"], ["g"], domain=DOMAIN, xs=["x"], y="nothing")]
f.add("of_what_is_not_there", unknown, {"x": x}, outputs=["g"], opsets={DOMAIN: 1}, fails=True)
more = [one("Mul", ["x", "b"], ["y"]), one("Gradient", ["x"], ["g"], domain=DOMAIN, xs=["x"], y="y")]
f.add("of_more_than_it_names", more, {"x": x, "b": x}, outputs=["g"], opsets={DOMAIN: 1}, fails=True)
f.write()
