"""Writes `bb/src/coverage/samples.bin`: for each version of each operator a small call of it.

`python tests/cases/samples.py CASES`, where CASES is the folder with the unpacked cases of this crate; onnx 1.23. A call is
one of ONNX's cases of that version, the smallest, or of a neighbouring version if ONNX's checker finds the same call valid
there; a version without a case is written out below. A call is a model whose inputs are the operands of the type that
`bb_ir::opset::versions` lists, with elements as defaults, to be cast to each type; everything else is constant. The
graph's name is the domain, the operator, the version and the element type, `*` for any, with spaces between. Each model
follows its length, four bytes in little-endian order.
"""
import collections
import glob
import os
import pathlib
import re
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).parents[2]
# The names of element types and the rule for which operand counts have their home there.
sys.path.insert(0, str(ROOT / "bb-ir/schema"))
from schemas import DOMAINS, NAMES, element_types, elements  # noqa: E402

LARGEST = 6000


def variable(schema):
    """The type variable (or type) of the operand that `of` speaks of, and whether it is an operand's."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    if schema.outputs and schema.outputs[0].type_str in {p.type_str for p in schema.inputs} & set(allowed):
        return schema.outputs[0].type_str, True
    for parts, operand in ((schema.inputs, True), (schema.outputs, False)):
        sets = [(len(elements(allowed.get(p.type_str, [p.type_str])).split()), -i) for i, p in enumerate(parts)]
        best = max(sets, default=(0, 0))
        if best[0]:
            return parts[-best[1]].type_str, operand
    return None, False


def formal(schema, i):
    return schema.inputs[min(i, len(schema.inputs) - 1)]


class Call:
    """Nodes, the operands that take the type, and constants, by name."""

    def __init__(self, nodes, typed=(), constants=(), outputs=None, opset=None, others=()):
        self.nodes, self.typed, self.constants = nodes, dict(typed), dict(constants)
        self.outputs = outputs or [o for o in nodes[-1].output if o]
        self.opset, self.others = opset, list(others)

    def model(self, domain, name, since, dtype="*"):
        opsets = {domain: since}
        opsets.update(self.others)
        if domain != "" and "" not in opsets:
            opsets[""] = 20
        tensors = [numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v
                   for k, v in {**self.typed, **self.constants}.items()]
        for tensor, key in zip(tensors, {**self.typed, **self.constants}):
            tensor.name = key
        inputs = [h.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors if t.name in self.typed]
        outputs = [onnx.ValueInfoProto(name=o) for o in self.outputs]
        graph = h.make_graph(self.nodes, f"{domain or 'ai.onnx'} {name} {since} {dtype}", inputs, outputs, tensors)
        model = h.make_model(graph, opset_imports=[h.make_opsetid(d, v) for d, v in opsets.items()])
        model.ir_version, model.producer_name = 10, ""
        return model


def node(op, inputs, outputs, domain="", **attributes):
    return h.make_node(op, inputs, outputs, domain=domain, **attributes)


f32 = lambda *x: np.array(x, np.float32)
i64 = lambda *x: np.array(x, np.int64)
GRID = np.array([[0.5, 1, 2], [0.25, 0.75, 1]], np.float32)
IMAGE = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4) % 5
UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log
Mish Neg Reciprocal Relu Round Selu Shape Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
Identity IsNaN RandomNormalLike RandomUniformLike Multinomial Not BitwiseNot Flatten EyeLike""".split()
BINARY = "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Pow Sub Xor".split()
NUMBERS = {v: getattr(T, k.upper() if k != "float" and k != "double" else k.upper())
           for k, v in NAMES.items() if hasattr(T, k.upper())}


def scalar(dtype):
    """A tensor of one element, 1, of any type."""
    number = NUMBERS[dtype]
    if dtype == "string":
        return h.make_tensor("v", number, [1], [b"1"])
    return h.make_tensor("v", number, [1], [1.0 if dtype[0] in "fbc" and dtype != "bool" else 1])


def subgraph(name, nodes, inputs, outputs):
    infos = [onnx.ValueInfoProto(name=x) for x in inputs], [onnx.ValueInfoProto(name=x) for x in outputs]
    return h.make_graph(nodes, name, *infos)


def trees(name, since):
    common = dict(nodes_falsenodeids=[2, 0, 0], nodes_featureids=[0, 0, 0], nodes_missing_value_tracks_true=[0, 0, 0],
                  nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_nodeids=[0, 1, 2], nodes_treeids=[0, 0, 0],
                  nodes_truenodeids=[1, 0, 0], nodes_values=[0.6, 0.0, 0.0])
    if name == "TreeEnsembleClassifier":
        return dict(common, class_ids=[0, 1], class_nodeids=[1, 2], class_treeids=[0, 0], class_weights=[1.0, 1.0],
                    classlabels_int64s=[0, 1])
    return dict(common, n_targets=1, target_ids=[0, 0], target_nodeids=[1, 2], target_treeids=[0, 0],
                target_weights=[1.0, 2.0])


ML = {
    "CategoryMapper": lambda t: Call([node("CategoryMapper", ["x"], ["y"], "ai.onnx.ml", cats_strings=["1", "2"],
                                           cats_int64s=[1, 2])], {"x": i64(1, 2)}),
    "FeatureVectorizer": lambda t: Call([node("FeatureVectorizer", ["x", "z"], ["y"], "ai.onnx.ml", inputdimensions=[3, 3])],
                                        {"x": GRID, "z": GRID}),
    "LinearClassifier": lambda t: Call([node("LinearClassifier", ["x"], ["y", "s"], "ai.onnx.ml", classlabels_ints=[0, 1],
                                             coefficients=[1.0, 2.0, 3.0, 3.0, 2.0, 1.0], intercepts=[0.0, 1.0])], {"x": GRID}),
    "LinearRegressor": lambda t: Call([node("LinearRegressor", ["x"], ["y"], "ai.onnx.ml", coefficients=[1.0, 2.0, 3.0],
                                            intercepts=[1.0], targets=1)], {"x": GRID}),
    "Normalizer": lambda t: Call([node("Normalizer", ["x"], ["y"], "ai.onnx.ml", norm="L2")], {"x": GRID}),
    "OneHotEncoder": lambda t: Call([node("OneHotEncoder", ["x"], ["y"], "ai.onnx.ml", zeros=1, **(
        {"cats_strings": ["1", "2"]} if t == "string" else {"cats_int64s": [1, 2]}))], {"x": i64(1, 2)}),
    "Imputer": lambda t: Call([node("Imputer", ["x"], ["y"], "ai.onnx.ml", **(
        {"imputed_value_int64s": [1], "replaced_value_int64": 2} if t and t[0] in "iu" else
        {"imputed_value_floats": [1.0], "replaced_value_float": 2.0}))], {"x": GRID}),
    "Scaler": lambda t: Call([node("Scaler", ["x"], ["y"], "ai.onnx.ml", offset=[1.0], scale=[2.0])], {"x": GRID}),
    "SVMClassifier": lambda t: Call([node("SVMClassifier", ["x"], ["y", "s"], "ai.onnx.ml", classlabels_ints=[0, 1],
                                          coefficients=[1.0, -1.0], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0],
                                          rho=[0.1], support_vectors=[1.0, 2.0, 3.0, 3.0, 2.0, 1.0], vectors_per_class=[1, 1])],
                                    {"x": GRID}),
    "SVMRegressor": lambda t: Call([node("SVMRegressor", ["x"], ["y"], "ai.onnx.ml", coefficients=[1.0, -1.0],
                                         kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], rho=[0.1], n_supports=2,
                                         support_vectors=[1.0, 2.0, 3.0, 3.0, 2.0, 1.0])], {"x": GRID}),
    "ZipMap": lambda t: Call([node("ZipMap", ["x"], ["y"], "ai.onnx.ml", classlabels_int64s=[0, 1, 2])], {"x": GRID}),
}
# What differs by the element type.
BY_TYPE = {"OneHotEncoder", "Imputer", "Constant", "RandomNormal", "RandomUniform", "SequenceEmpty", "LabelEncoder",
           "TreeEnsemble", "BitCast", "TfIdfVectorizer"}


def label_encoder(since, t):
    keys, values = {"string": ("strings", ["1", "2"]), "i64": ("int64s", [1, 2]), "f32": ("floats", [1.0, 2.0])}.get(t, (None, None))
    if since == 1:
        return Call([node("LabelEncoder", ["x"], ["y"], "ai.onnx.ml", classes_strings=["1", "2"])], {"x": i64(1, 2)})
    if keys:
        return Call([node("LabelEncoder", ["x"], ["y"], "ai.onnx.ml", **{f"keys_{keys}": values, f"values_{keys}": values})],
                    {"x": i64(1, 2)})
    pair = h.make_tensor("k", NUMBERS[t], [2], [1, 2])
    return Call([node("LabelEncoder", ["x"], ["y"], "ai.onnx.ml", keys_tensor=pair, values_tensor=pair)], {"x": i64(1, 2)})


def tree_ensemble(t):
    tensor = lambda values: h.make_tensor("t", NUMBERS[t], [len(values)], values)
    return Call([node("TreeEnsemble", ["x"], ["y"], "ai.onnx.ml", n_targets=1, tree_roots=[0], leaf_targetids=[0, 0],
                      leaf_weights=tensor([1.0, 2.0]), nodes_falseleafs=[1], nodes_falsenodeids=[1], nodes_trueleafs=[1],
                      nodes_truenodeids=[0], nodes_featureids=[0], nodes_splits=tensor([0.6]),
                      nodes_modes=h.make_tensor("m", T.UINT8, [1], [0]))], {"x": GRID})


def written(schema, t):
    """The calls that are written out; `t` is the element type where the call depends on it."""
    name, since, x = schema.name, schema.since_version, ["x"]
    if schema.domain == "ai.onnx.ml":
        if name == "LabelEncoder":
            return label_encoder(since, t)
        if name == "TreeEnsemble":
            return tree_ensemble(t)
        if name in ("TreeEnsembleClassifier", "TreeEnsembleRegressor"):
            results = ["y", "s"] if name.endswith("Classifier") else ["y"]
            return Call([node(name, x, results, "ai.onnx.ml", **trees(name, since))], {"x": GRID})
        return ML[name](t) if name in ML else None
    if schema.domain == "ai.onnx.preview.training" and name == "Gradient":
        return Call([node("Mul", ["x", "x"], ["p"]), node("Gradient", x, ["y"], "ai.onnx.preview.training", xs=x, y="p")],
                    {"x": GRID}, others=[("", 20)])
    if schema.domain and name != "FlexAttention":
        return None
    attributes = {}
    if "consumed_inputs" in schema.attributes and schema.attributes["consumed_inputs"].required:
        attributes["consumed_inputs"] = [0, 0, 0, 1, 1][:len(schema.inputs)]
    if name in UNARY:
        return Call([node(name, x, ["y"])], {"x": GRID})
    if name in BINARY:
        return Call([node(name, ["x", "z"], ["y"])], {"x": GRID, "z": GRID + 1})
    if name in ("Max", "Mean", "Min", "Sum"):
        return Call([node(name, ["x", "z"], ["y"])], {"x": GRID, "z": GRID})
    if name == "BitCast":
        return Call([node(name, x, ["y"], to=NUMBERS[t])], {"x": GRID})
    if name == "Attention":
        return Call([node(name, ["x", "k", "v"], ["y"], q_num_heads=1, kv_num_heads=1)],
                    {k: GRID.reshape(1, 2, 3) for k in "xkv"})
    if name == "FlexAttention":
        return Call([node(name, ["x", "k", "v"], ["y"], schema.domain)], {k: GRID.reshape(1, 1, 2, 3) for k in "xkv"})
    if name == "GridSample":
        return Call([node(name, ["x", "g"], ["y"], mode="nearest")], {"x": IMAGE}, {"g": np.zeros((1, 1, 1, 2), np.float32)})
    if name == "Resize" and since == 10:
        return Call([node(name, ["x", "s"], ["y"])], {"x": IMAGE}, {"s": f32(1, 1, 2, 2)})
    if name == "Resize":
        return Call([node(name, ["x", "r", "s"], ["y"])], {"x": IMAGE}, {"r": f32(), "s": f32(1, 1, 2, 2)})
    if name == "TfIdfVectorizer":
        pool = {"pool_strings": ["1", "2"]} if t == "string" else {"pool_int64s": [1, 2]}
        return Call([node(name, x, ["y"], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                          ngram_indexes=[0, 1], **pool)], {"x": i64(1, 2, 2)})
    if name == "Constant":
        return Call([node(name, [], ["y"], value=scalar(t))])
    if name in ("RandomNormal", "RandomUniform"):
        return Call([node(name, [], ["y"], shape=[2], seed=1.0, dtype=NUMBERS[t])])
    if name in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"):
        return Call([node(name, x, ["y"])], {"x": IMAGE})
    if name == "MaxRoiPool":
        return Call([node(name, ["x", "r"], ["y"], pooled_shape=[2, 2])], {"x": IMAGE, "r": f32(0, 0, 0, 3, 3).reshape(1, 5)})
    if name == "MatMulInteger":
        return Call([node(name, ["x", "b"], ["y"])], {"x": np.array([[1, 2]], np.uint8)}, {"b": np.array([[1], [2]], np.uint8)})
    if name == "QLinearConv":
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
        zero, image, kernel = np.array(0, np.uint8), IMAGE.astype(np.uint8), np.ones((1, 1, 2, 2), np.uint8)
        values = dict(zip(names, [image, f32(1)[0], zero, kernel, f32(1)[0], zero, f32(1)[0], zero]))
        values = {k: np.asarray(v) for k, v in values.items()}
        typed = [k for i, k in enumerate(names) if formal(schema, i).type_str == variable(schema)[0]]
        return Call([node(name, names, ["y"])], {k: values[k] for k in typed},
                    {k: v for k, v in values.items() if k not in typed})
    if name == "Tile":
        if since == 1:
            return Call([node(name, ["x", "n", "a"], ["y"])], {"x": GRID, "n": f32(2), "a": f32(0)})
        return Call([node(name, ["x", "n"], ["y"])], {"x": GRID}, {"n": i64(1, 2)})
    if name == "Slice" and since >= 10:
        return Call([node(name, ["x", "s", "e", "a"], ["y"])], {"x": GRID}, {"s": i64(0), "e": i64(2), "a": i64(1)})
    if name == "Slice":
        return Call([node(name, x, ["y"], starts=[0], ends=[2], axes=[1])], {"x": GRID})
    if name == "LRN":
        return Call([node(name, x, ["y"], size=3)], {"x": IMAGE})
    if name == "Reshape" and since == 1:
        return Call([node(name, x, ["y"], shape=[3, 2])], {"x": GRID})
    if name == "Pad" and since == 1:
        return Call([node(name, x, ["y"], paddings=[0, 1, 0, 1])], {"x": GRID})
    if name == "TopK" and since == 1:
        return Call([node(name, x, ["y", "i"], k=2)], {"x": GRID})
    if name == "TopK" and since == 10:
        return Call([node(name, ["x", "k"], ["y", "i"])], {"x": GRID}, {"k": i64(2)})
    if name == "Cast" and since < 6:
        return Call([node(name, x, ["y"], to="FLOAT")], {"x": GRID})
    if name == "Cast":
        return Call([node(name, x, ["y"], to=T.FLOAT)], {"x": GRID})
    if name == "Upsample" and since == 1:
        return Call([node(name, x, ["y"], width_scale=2.0, height_scale=2.0)], {"x": IMAGE})
    if name == "BatchNormalization" and since <= 7:
        ones = {k: f32(1) for k in "sbmv"}
        attributes = dict(attributes, **({"is_test": 1} if since < 7 else {}))
        return Call([node(name, ["x", "s", "b", "m", "v"], ["y"], **attributes)], {"x": IMAGE, **ones})
    if name == "Dropout" and since < 12:
        return Call([node(name, x, ["y"], **({"is_test": 1} if since < 7 else {}))], {"x": GRID})
    if name == "InstanceNormalization":
        return Call([node(name, ["x", "s", "b"], ["y"])], {"x": IMAGE, "s": f32(1), "b": f32(0)})
    if name == "If":
        branch = lambda b: subgraph(b, [node("Identity", ["z"], ["o"])], [], ["o"])
        return Call([node(name, ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))],
                    {"c": np.array([True])}, {"z": GRID})
    if name == "Loop":
        body = subgraph("b", [node("Identity", ["c"], ["d"]), node("Identity", ["v"], ["w"]), node("Identity", ["v"], ["u"])],
                        ["i", "c", "v"], ["d", "w", "u"])
        return Call([node(name, ["n", "", "x"], ["y", "s"], body=body)], {"x": GRID}, {"n": np.array(2, np.int64)})
    if name == "Scan":
        body = subgraph("b", [node("Identity", ["v"], ["w"]), node("Identity", ["p"], ["u"])], ["v", "p"], ["w", "u"])
        first = [""] if since == 8 else []
        parts = GRID.reshape(1, 2, 3) if since == 8 else GRID
        state = GRID[0].reshape(1, 3) if since == 8 else GRID[0]
        return Call([node(name, first + ["v0", "x"], ["y", "s"], body=body, num_scan_inputs=1)], {"v0": state, "x": parts})
    if name == "ScatterND":
        return Call([node(name, ["x", "i", "u"], ["y"])], {"x": GRID, "u": GRID[:1]}, {"i": i64(0).reshape(1, 1)})
    if name == "LpPool" and since == 1:
        return Call([node(name, x, ["y"], kernel_shape=[2, 2], p=2.0)], {"x": IMAGE})
    pair = node("SequenceConstruct", ["x", "z"], ["q"])
    two = {"x": GRID, "z": GRID}
    if name == "SequenceMap":
        body = subgraph("b", [node("Identity", ["v"], ["w"])], ["v"], ["w"])
        return Call([pair, node(name, ["q"], ["y"], body=body)], two)
    if name == "SequenceConstruct":
        return Call([node(name, ["x", "z"], ["y"])], two)
    if name == "SequenceEmpty":
        return Call([node(name, [], ["y"], dtype=NUMBERS[t])])
    if name in ("SequenceAt", "SequenceErase"):
        return Call([pair, node(name, ["q", "i"], ["y"])], two, {"i": np.array(0, np.int64)})
    if name == "SequenceInsert":
        return Call([pair, node(name, ["q", "x"], ["y"])], two)
    if name == "SequenceLength":
        return Call([pair, node(name, ["q"], ["y"])], two)
    if name == "ConcatFromSequence":
        return Call([pair, node(name, ["q"], ["y"], axis=0)], two)
    if name == "Optional":
        return Call([node(name, x, ["y"])], {"x": GRID})
    if name in ("OptionalGetElement", "OptionalHasElement"):
        return Call([node("Optional", x, ["o"]), node(name, ["o"], ["y"])], {"x": GRID})
    return None


def tensor(path):
    with open(path, "rb") as file:
        return T.FromString(file.read())


def from_case(schema, folder):
    model = onnx.load(folder + "/model.onnx")
    call, var = model.graph.node[0], variable(schema)[0]
    initial = {t.name: t for t in model.graph.initializer}
    values = dict(initial)
    free = [i for i in model.graph.input if i.name not in initial]
    for i, info in enumerate(free):
        if not info.type.HasField("tensor_type"):
            return None
        values[info.name] = tensor(f"{folder}/test_data_set_0/input_{i}.pb")
    typed, constants, names = {}, {}, {}
    for i, name in enumerate(call.input):
        if not name or name not in values:
            if name:
                return None
            continue
        of_type = formal(schema, i).type_str == var
        # One tensor for two operands of different types is two here.
        key = names.setdefault((name, of_type), f"{'x' if of_type else 'c'}{len(names)}")
        (typed if of_type else constants)[key] = T.FromString(values[name].SerializeToString())
        call.input[i] = key
    call.name = call.doc_string = ""
    return Call([call], typed, constants)


def valid(model):
    """Whether ONNX's checker takes the call, and its inference the types of the operands."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {o.domain: o.version for o in model.opset_import}
    try:
        for call in model.graph.node:
            onnx.checker.check_node(call, context)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def main(cases):
    schemas = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS and not (schema.deprecated and schema.name != "GroupNormalization"):
            schemas.setdefault((schema.domain, schema.name), []).append(schema)
    found = collections.defaultdict(list)
    for path in glob.glob(cases + "/*/*/model.onnx"):
        model = onnx.load(path)
        if len(model.graph.node) != 1 or model.functions:
            continue
        call, folder = model.graph.node[0], os.path.dirname(path)
        domain = "" if call.domain == "ai.onnx" else call.domain
        opset = [o.version for o in model.opset_import if ("" if o.domain == "ai.onnx" else o.domain) == domain]
        versions = [s for s in schemas.get((domain, call.op_type), []) if opset and s.since_version <= opset[0]]
        if not versions:
            continue
        since = max(s.since_version for s in versions)
        size = sum(os.path.getsize(f) for f in glob.glob(folder + "/test_data_set_0/input_*")) + os.path.getsize(path)
        types = [i.type.tensor_type.elem_type for i in model.graph.input]
        # Numbers that every type has come closest to those of f32.
        rank = (0 if types and T.FLOAT in types else 1 if types and T.STRING not in types else 2)
        found[domain, call.op_type].append((rank, size, since, folder))
    records, without = [], []
    for (domain, name), versions in sorted(schemas.items()):
        for schema in sorted(versions, key=lambda s: s.since_version):
            since = schema.since_version
            types = element_types(schema).split()
            if name in BY_TYPE:
                made = [(written(schema, t), t) for t in types]
            else:
                made = [(written(schema, None), "*")]
            if made[0][0] is None:
                near = sorted(found[domain, name], key=lambda c: (c[2] != since, abs(c[2] - since), c[0], c[1], c[3]))
                exact = sorted((c for c in near if c[2] == since), key=lambda c: (c[0], c[1], c[3]))
                made = []
                for case in exact + [c for c in near if c[2] != since]:
                    call = from_case(schema, case[3])
                    if call is None:
                        continue
                    model = call.model(domain, name, since)
                    if case[2] == since or valid(model):
                        made = [(call, "*")]
                        break
            if not made:
                without.append(f"{domain} {name} {since}")
            for call, t in made:
                model = call.model(domain, name, since, t)
                data = model.SerializeToString()
                if len(data) > LARGEST:
                    print("large:", domain, name, since, len(data))
                records.append(data)
    out = b"".join(struct.pack("<I", len(data)) + data for data in records)
    (ROOT / "bb/src/coverage/samples.bin").write_bytes(out)
    print(len(records), "calls,", len(out), "bytes; none for", without)


main(sys.argv[1])
