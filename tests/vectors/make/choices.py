"""Vectors of what ONNX's text leaves open or states otherwise than its cases: signs of zeros, outputs without a name, versions, forms of
storage. `bb/docs/semantics.md` names them.

The definitions in NumPy decide.
"""
import numpy as np
from family import FLOATS, Family, bfloat16, short, tensor
from onnx import TensorProto as T
from onnx import helper

f = Family("choices", opset=22)
rng = np.random.default_rng(29)
node = helper.make_node
inf, nan = np.inf, np.nan

# The sign of a zero is that of the operand in every odd function and in products with the operand; its reciprocal shows it.
KEEP = {op: {} for op in "Asin Asinh Atan Atanh Sin Sinh Tan Tanh Erf Softsign Mish HardSwish Elu Round Floor Ceil Sqrt Identity".split()}
KEEP |= {"Gelu": {}, "LeakyRelu": {"alpha": 0.1}, "Swish": {"alpha": 1.5}}
for t in FLOATS:
    zeros = np.array([-0.0, 0.0, -0.0], t)
    signs = (np.array([-1, 1, -1]) * inf).astype(t)
    for op, attributes in KEEP.items():
        nodes = [node(op, ["x"], ["y"], **attributes), node("Reciprocal", ["y"], ["z"])]
        f.add(f"zero_of_{op.lower()}_{short(t)}", nodes, {"x": zeros}, outputs=["z"], expected=signs, opset=24)
    nodes = [node("Gelu", ["x"], ["y"], approximate="tanh"), node("Reciprocal", ["y"], ["z"])]
    f.add(f"zero_of_gelu_tanh_{short(t)}", nodes, {"x": zeros}, outputs=["z"], expected=signs)
    f.add(f"zero_of_prelu_{short(t)}", [node("PRelu", ["x", "s"], ["y"]), node("Reciprocal", ["y"], ["z"])], {"x": zeros, "s": np.array([0.25], t)},
          outputs=["z"], expected=signs)
    f.add(f"zero_of_neg_{short(t)}", [node("Neg", ["x"], ["y"]), node("Reciprocal", ["y"], ["z"])], {"x": zeros}, outputs=["z"], expected=-signs)

# Products of halves are rounded once.
for t in [np.float16, bfloat16]:
    x = np.array([[60000, 50000, 1e-4, 2e-5], [3e-4, 2e-4, 40000, 30000]], t)
    expected = x.astype(np.float64).prod(1)
    f.add(f"product_{short(t)}", "ReduceProd", {"x": x, "axes": np.array([1])}, attributes={"keepdims": 0}, expected=expected.astype(t), relative=2**-7 if t is bfloat16 else 2**-10)

# Empty names are no outputs.
x = rng.standard_normal((2, 3, 4)).astype(np.float32)
scale, bias, mean = (rng.standard_normal(3).astype(np.float32) for _ in range(3))
var = rng.uniform(0.5, 2, 3).astype(np.float32)


def tested(x, scale, bias, mean, var):
    s, b, m, v = (p.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2)) if p.ndim == 1 else p.astype(np.float64) for p in (scale, bias, mean, var))
    return ((x - m) / np.sqrt(v + 1e-5) * s + b).astype(np.float32)


moments = {"scale": scale, "bias": bias, "mean": mean, "var": var}
for opset in [1, 6, 7, 9]:
    attributes = {1: {"is_test": 0, "consumed_inputs": [0, 0, 0, 1, 1]}, 6: {"is_test": 0}}.get(opset, {})
    for count in [1, 2, 5]:
        f.add(f"batch_normalization_{opset}_with_{count}_names", "BatchNormalization", {"x": x} | moments, attributes=attributes, opset=opset,
              outputs=["y", "", "", "", ""][:count], expected=tested(x, scale, bias, mean, var), relative=1e-5, absolute=1e-5)
f.add("batch_normalization_trains_for_a_name", "BatchNormalization", {"x": x} | moments, opset=9, outputs=["y", "", "", "m", ""], relative=1e-5, absolute=1e-5,
      expected=[tested(x, scale, bias, x.mean((0, 2)), x.var((0, 2))), x.mean((0, 2))])
f.add("batch_normalization_15_with_names", "BatchNormalization", {"x": x} | moments, opset=15, outputs=["y", "", ""],
      expected=tested(x, scale, bias, mean, var), relative=1e-5, absolute=1e-5)
ones = np.ones(4, np.float32)
f.add("layer_normalization_without_moments", "LayerNormalization", {"x": x, "s": ones}, opset=17, outputs=["y", "", ""])
f.add("max_pool_without_indices", "MaxPool", {"x": x}, attributes={"kernel_shape": [2]}, outputs=["y", ""])
f.add("unique_without_positions", "Unique", {"x": np.array([3, 1, 3])}, outputs=["y", "", "", ""], expected=np.array([1, 3]))
f.add("unique_counts_alone", "Unique", {"x": np.array([3, 1, 3])}, outputs=["", "", "", "n"], expected=np.array([1, 2]))
f.add("loss_without_logarithms", "SoftmaxCrossEntropyLoss", {"x": x[:, :, 0], "t": np.array([0, 2])}, outputs=["l", ""])
for opset in [7, 10, 12, 22]:
    f.add(f"dropout_{opset}_without_mask", "Dropout", {"x": x}, opset=opset, outputs=["y", ""], expected=x)
w, r = rng.uniform(-0.5, 0.5, (1, 16, 4)).astype(np.float32), rng.uniform(-0.5, 0.5, (1, 16, 4)).astype(np.float32)
for op, gates in [("RNN", 1), ("GRU", 3), ("LSTM", 4)]:
    operands = {"x": x, "w": w[:, : 4 * gates], "r": r[:, : 4 * gates]}
    f.add(f"{op.lower()}_last_alone", op, operands, attributes={"hidden_size": 4}, opset=14, outputs=["", "h"] + [""] * (op == "LSTM"), expected="ort", relative=1e-5, absolute=1e-5)
    f.add(f"{op.lower()}_all_alone", op, operands, attributes={"hidden_size": 4}, opset=14, outputs=["y", ""] + [""] * (op == "LSTM"), expected="ort", relative=1e-5, absolute=1e-5)
q = rng.standard_normal((1, 2, 3, 4)).astype(np.float32)
f.add("attention_without_products", "Attention", {"q": q, "k": q, "v": q}, opset=23, outputs=["y", "", "", ""])

# Before opset 7 `is_test` is 0 unless given, and Dropout draws; what is kept is doubled.
for name, attributes in [("not_given", {}), ("given", {"is_test": 0})]:
    nodes = [node("Dropout", ["x"], ["y"], ratio=0.5, **attributes), node("Sub", ["y", "one"], ["d"]), node("Abs", ["d"], ["z"])]
    f.add(f"dropout_6_draws_{name}", nodes, {"x": np.ones(64, np.float32)}, constants={"one": np.ones(64, np.float32)}, outputs=["z"], opset=6, expected=np.ones(64, np.float32))
f.add("dropout_6_in_a_test", "Dropout", {"x": x}, attributes={"is_test": 1}, opset=6, expected=x)

# Infinities become the greatest number of the types without infinities: so in ONNX's own cases of every version.
for opset in [19, 21, 23, 24, 25]:
    for word, to, most in [("e4m3fn", T.FLOAT8E4M3FN, 448), ("e4m3fnuz", T.FLOAT8E4M3FNUZ, 240), ("e5m2", T.FLOAT8E5M2, 57344), ("e5m2fnuz", T.FLOAT8E5M2FNUZ, 57344)]:
        nodes = [node("Cast", ["x"], ["q"], to=to), node("Cast", ["q"], ["y"], to=1)]
        f.add(f"cast_{opset}_to_{word}", nodes, {"x": np.array([inf, -inf, nan, 1e9, -1e9, 1], np.float32)}, outputs=["y"], opset=opset,
              expected=np.array([most, -most, nan, most, -most, 1], np.float32))

# Names, versions and windows that are refused.
relu = [node("Relu", ["x"], ["y"])]
f.add("refuses_initializers_of_one_name", [node("Add", ["x", "k"], ["y"])], {"x": ones}, constants={"k": ones}, outputs=["y"], fails=True)
f.models["refuses_initializers_of_one_name"].graph.initializer.append(tensor("k", ones))
f.add("refuses_an_opset_to_come", relu, {"x": ones}, outputs=["y"], opset=35, fails=True)
f.add("refuses_a_window_beyond_its_operand", "MaxPool", {"x": x}, attributes={"kernel_shape": [3], "dilations": [2], "strides": [2]}, fails=True)
f.add("refuses_no_opset", relu, {"x": ones}, outputs=["y"], opset=6, fails=True)
del f.models["refuses_no_opset"].opset_import[:]
for version in [1, 2]:
    name = f"ir_{version}_means_opset_1"
    f.add(name, relu, {"x": x}, outputs=["y"], opset=6, expected=np.maximum(x, 0))
    f.models[name].ir_version = version
    del f.models[name].opset_import[:]


def imports(name, versions):
    """Replaces the imports of a vector's model."""
    del f.models[name].opset_import[:]
    f.models[name].opset_import.extend(helper.make_opsetid(domain, version) for domain, version in versions)


# Of several imports of a domain the last one counts. Softmax is about all axes from the second on before version 13, and about the last one since.
cube = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 2, 2)
softmax = {11: np.exp(cube) / np.exp(cube).sum((1, 2), keepdims=True), 13: np.exp(cube) / np.exp(cube).sum(-1, keepdims=True)}
for before, last, other in [(11, 13, ""), (13, 11, ""), (11, 13, "ai.onnx"), (13, 11, "ai.onnx")]:
    name = f"the_last_import_is_{last}{'_by_its_long_name' if other else ''}"
    f.add(name, "Softmax", {"x": cube}, opset=last, expected=softmax[last], relative=1e-6)
    imports(name, [("", before), ("ai.onnx.ml", 3), (other, last)])
words = np.array(["b", "a", "z"], object)
for before, last in [(1, 2), (2, 1)]:
    name, ml = f"the_last_import_of_ml_is_{last}", {"ai.onnx.ml": last}
    given = {"classes_strings": ["a", "b"]} if last == 1 else {"keys_strings": ["a", "b"], "values_int64s": [0, 1]}
    f.add(name, "ai.onnx.ml::LabelEncoder", {"x": words}, attributes=given, opsets=ml, expected=np.array([1, 0, -1]))
    imports(name, [("", 18), ("ai.onnx.ml", before), ("ai.onnx.ml", last)])
# Without an import, the newest version counts.
f.add("without_import_of_ml", "ai.onnx.ml::LabelEncoder", {"x": words}, attributes={"keys_strings": ["a", "b"], "values_int64s": [0, 1]}, opsets={"ai.onnx.ml": 5},
      expected=np.array([1, 0, -1]))
f.add("without_import_of_microsoft", "com.microsoft::QuickGelu", {"x": x}, attributes={"alpha": 1.0}, opsets={"com.microsoft": 1}, expected=x / (1 + np.exp(-x)), relative=1e-5)
f.add("refuses_a_version_1_without_import", "ai.onnx.ml::LabelEncoder", {"x": words}, attributes={"classes_strings": ["a", "b"]}, opsets={"ai.onnx.ml": 1}, fails=True)
f.add("refuses_no_import_of_onnx", relu, {"x": ones}, outputs=["y"], opset=18, fails=True)
imports("refuses_no_import_of_onnx", [("ai.onnx.ml", 3)])
body = helper.make_function("own", "F", ["x"], ["y"], [helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")], [helper.make_opsetid("", 18)])
f.add("refuses_a_function_without_import", "own::F", {"x": ones}, opsets={"own": 1}, functions=[body], fails=True)
for name in ["without_import_of_ml", "without_import_of_microsoft", "refuses_a_version_1_without_import"]:
    imports(name, [("", 18)])

# Whatever is not 0 is true.
for name, stored in [("raw", T(data_type=T.BOOL, dims=[4], raw_data=b"\x00\x01\x07\xff")), ("entries", T(data_type=T.BOOL, dims=[4], int32_data=[0, 1, 256, -1]))]:
    f.add(f"truth_of_{name}", [node("Where", ["k", "x", "z"], ["y"])], {"x": ones}, constants={"k": stored, "z": ones * 0}, outputs=["y"], expected=np.array([0, 1, 1, 1], np.float32))

# A real signal may lack the dimension of real and imaginary parts.
signal, window = rng.standard_normal((2, 20)).astype(np.float32), np.hanning(6).astype(np.float32)
frames = np.stack([signal[:, i : i + 6] * window for i in range(0, 15, 3)], 1).astype(np.float64)
for onesided, transform in [(0, np.fft.fft), (1, np.fft.rfft)]:
    z = transform(frames)
    f.add(f"stft_of_rank_2_onesided_{onesided}", "STFT", {"x": signal, "step": np.array(3), "w": window}, attributes={"onesided": onesided}, opset=17, constants=["step", "w"],
          expected=np.stack([z.real, z.imag], -1).astype(np.float32), absolute=1e-5)

# Without `spatial`, a feature has moments of its own, or takes those of its channel.
wide = {k: rng.uniform(0.5, 2, (3, 4)).astype(np.float32) for k in moments}
for opset in [1, 6, 7]:
    attributes = {"spatial": 0} | {1: {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}, 6: {"is_test": 1}}.get(opset, {})
    for name, own in [("features", wide), ("channels", moments)]:
        f.add(f"batch_normalization_{opset}_of_{name}", "BatchNormalization", {"x": x} | own, attributes=attributes, opset=opset, expected=tested(x, *own.values()),
              relative=1e-5, absolute=1e-5)
f.add("batch_normalization_7_trains_features", "BatchNormalization", {"x": x} | wide, attributes={"spatial": 0}, opset=7, outputs=["y", "m"], relative=1e-4, absolute=1e-5,
      expected=[tested(x, wide["scale"], wide["bias"], x.mean(0), x.var(0)), (wide["mean"] * 0.9 + x.mean(0) * 0.1).astype(np.float32)])
f.write()
