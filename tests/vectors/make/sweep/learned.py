"""Rows of `ai.onnx.ml`, of training, of strings and of pictures."""
import numpy as np
from onnx import helper, numpy_helper

from .cases import Refused, array, draw, dtype_of, element, number_of
from .rows import row
from .structure import Map, Sequence

ML = "ai.onnx.ml"
TEXTS = {"tensor(int64)": "int64s", "tensor(string)": "strings", "tensor(float)": "floats"}


def labels(c, parameter, key, count=2):
    """Sets classes of the type of the labels, and returns them."""
    if c.types[parameter] == "tensor(string)":
        c.attributes[f"{key}_strings"] = [f"c{i}" for i in range(count)]
        return np.array([f"c{i}" for i in range(count)], object)
    c.attributes[f"{key}_{'ints' if key == 'classlabels' and not c.op.startswith('Tree') else 'int64s'}"] = [7 + i for i in range(count)]
    return np.arange(7, 7 + count)


@row("ArrayFeatureExtractor", domain=ML)
def extract(c):
    c.inputs = [c.x(0, [[1, 2, 3], [4, 5, 6]]), np.array([2, 0])]
    c.expected = c.inputs[0][:, [2, 0]]


@row("Binarizer", domain=ML)
def binarize(c):
    c.take([-1, 2, 3, 5], threshold=2.0)
    c.expected = np.array([0, 0, 1, 1])


@row("FeatureVectorizer", domain=ML)
def features(c):
    c.take([[1, 2], [3, 4]], [[5], [6]], inputdimensions=[2, 1])
    c.expected = np.array([[1, 2, 5], [3, 4, 6]])


@row("Imputer", domain=ML)
def impute(c):
    c.take([[0, 2], [3, 0]])
    kind = ("int64", "int64s", [7, 8]) if c.dtype().kind == "i" else ("float", "floats", [7.0, 8.0])
    c.attributes = {f"replaced_value_{kind[0]}": type(kind[2][0])(0), f"imputed_value_{kind[1]}": kind[2]}
    c.expected = np.array([[7, 2], [3, 8]])


@row("Scaler", domain=ML)
def scale(c):
    c.take([[1, 2], [3, 4]], offset=[1.0, 0.0], scale=[2.0, 0.5])
    c.expected = np.array([[0, 1], [4, 2]])


@row("Normalizer", domain=ML)
def normalize(c):
    c.take([[1, 3], [4, 0]], norm="L1")
    c.expected = np.array([[0.25, 0.75], [1, 0]])


@row("OneHotEncoder", domain=ML)
def one_hot(c):
    if c.dtype() == object:
        c.inputs, c.attributes = [np.array([["a"], ["b"]], object)], {"cats_strings": ["b", "a"]}
    else:
        c.take([[2], [1]], cats_int64s=[1, 2])
    c.expected = np.array([[[0, 1]], [[1, 0]]])


@row("LinearRegressor", domain=ML)
def regress(c):
    c.take([[1, 2], [3, 4]], coefficients=[0.5, -1.0], intercepts=[2.0])
    c.expected = np.array([[0.5], [-0.5]])


@row("LinearClassifier", domain=ML)
def classify(c):
    c.take([[1, 2], [4, 1]], coefficients=[1.0, 0.0, 0.0, 1.0], intercepts=[0.0, 0.5], post_transform="NONE")
    c.outputs, names = 2, labels(c, "T2", "classlabels")
    c.expected = [names[[1, 0]], np.array([[1, 2.5], [4, 1.5]])]


@row("SVMRegressor", domain=ML)
def svm_regress(c):
    c.take([[1, 2], [3, 4]], coefficients=[1.0, -0.5], support_vectors=[1.0, 0.0, 0.0, 1.0], n_supports=2, rho=[0.25], kernel_type="LINEAR")
    c.expected = np.array([[0.25], [1.25]])


@row("SVMClassifier", domain=ML)
def svm_classify(c):
    """Linear: the score of a pair of classes is a sum over the vectors of both, and `rho`."""
    c.take([[3, 1], [1, 4]], coefficients=[1.0, -1.0], support_vectors=[1.0, 0.0, 0.0, 1.0], vectors_per_class=[1, 1], rho=[0.0], kernel_type="LINEAR")
    c.outputs, given = 2, dict(c.attributes)
    c.attributes["classlabels_ints"] = [0, 1]
    places, scores = c.evaluate(c.wide())
    c.attributes = given
    c.expected = [labels(c, "T2", "classlabels")[places], scores]


@row("TreeEnsembleRegressor", domain=ML)
def trees(c):
    stump(c)
    c.attributes.update(n_targets=1, target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2.0])
    c.expected = np.array([[1.5], [-2]])


def stump(c):
    """One node that asks whether the feature 1 is at most 2.5."""
    c.take([[9, 2], [0, 3]])
    c.attributes = dict(nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[2.5, 0.0, 0.0],
                        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0])


@row("TreeEnsembleClassifier", domain=ML)
def tree_classes(c):
    stump(c)
    c.outputs, names = 2, labels(c, "T2", "classlabels", 3)
    c.attributes.update(class_treeids=[0, 0, 0], class_nodeids=[1, 1, 2], class_ids=[0, 2, 1], class_weights=[0.25, 0.75, 1.0])
    c.expected = [names[[2, 1]], np.array([[0.25, 0, 0.75], [0, 1, 0]])]


@row("TreeEnsemble", domain=ML)
def ensemble(c):
    c.take([[9, 2], [0, 3]])
    tensor = lambda v: numpy_helper.from_array(np.array(v, c.dtype()))
    c.attributes = dict(nodes_featureids=[1], nodes_splits=tensor([2.5]), nodes_modes=numpy_helper.from_array(np.array([0], np.uint8)),
                        nodes_truenodeids=[0], nodes_falsenodeids=[1], nodes_trueleafs=[1], nodes_falseleafs=[1], tree_roots=[0],
                        leaf_targetids=[0, 0], leaf_weights=tensor([1.5, -2]), n_targets=1)
    c.expected = np.array([[1.5], [-2]])


@row("LabelEncoder", domain=ML)
def encode(c):
    a, b = c.types["T1"], c.types["T2"]
    keys = np.array(["a", "b"], object) if a == "tensor(string)" else array([1, 2], a)
    values = np.array(["x", "y"], object) if b == "tensor(string)" else array([5, 7], b)
    if c.version == 1:
        if a == b:
            other = "tensor(string)" if a == "tensor(int64)" else "tensor(int64)"
            c.types["T2" if c.asked == "T1" else "T1"] = other
            return encode(c)
        c.attributes = {"classes_strings": ["a", "b"], "default_int64": -1, "default_string": "none"}
        forward = a == "tensor(string)"
        c.inputs = [np.array(["b", "a", "c"], object) if forward else np.array([1, 0, 2])]
        c.expected = np.array([1, 0, -1]) if forward else np.array(["b", "a", "none"], object)
        return
    c.inputs = [keys[[1, 0, 1]]]
    c.expected = values[[1, 0, 1]]
    if a in TEXTS and b in TEXTS:
        c.attributes = {f"keys_{TEXTS[a]}": keys.tolist(), f"values_{TEXTS[b]}": values.tolist()}
    else:
        default = np.array(["none"], object) if b == "tensor(string)" else array([9], b)
        c.attributes = {"keys_tensor": numpy_helper.from_array(keys), "values_tensor": numpy_helper.from_array(values),
                        "default_tensor": numpy_helper.from_array(default)}


@row("CategoryMapper", domain=ML)
def categories(c):
    if c.types["T1"] == c.types["T2"]:
        other = "tensor(string)" if c.types["T1"] == "tensor(int64)" else "tensor(int64)"
        c.types["T2" if c.asked == "T1" else "T1"] = other
    c.attributes = {"cats_strings": ["a", "b"], "cats_int64s": [5, 3], "default_int64": -7, "default_string": "none"}
    forward = c.types["T1"] == "tensor(string)"
    c.inputs = [np.array(["b", "a", "c"], object) if forward else np.array([3, 5, 9])]
    c.expected = np.array([3, 5, -7]) if forward else np.array(["b", "a", "none"], object)


def key_and_value(ty):
    key, value = ty.removeprefix("map(").removesuffix(")").split(", ")
    return f"tensor({key})", f"tensor({value})"


@row("DictVectorizer", domain=ML)
def vectorize(c):
    key, value = key_and_value(c.types["T1"])
    if c.asked == "T2" and c.types["T2"] != value:
        c.types["T1"] = next(t for t in sorted(c.allowed["T1"]) if key_and_value(t)[1] == c.types["T2"])
        key, value = key_and_value(c.types["T1"])
    c.types["T2"] = value
    keys = np.array(["a", "b"], object) if key == "tensor(string)" else np.array([1, 5])
    values = np.array(["x", "y"], object) if value == "tensor(string)" else array([3, 4], value)
    c.inputs = [Map(keys, values)]
    c.attributes = {"string_vocabulary": ["b", "z", "a"]} if key == "tensor(string)" else {"int64_vocabulary": [5, 9, 1]}
    none = "" if value == "tensor(string)" else 0
    # A vector, by the schema's text; ONNX Runtime makes a row.
    c.expected = np.array([values[1], none, values[0]], values.dtype)


@row("CastMap", domain=ML)
def cast_map(c):
    _, value = key_and_value(c.types["T1"])
    values = np.array(["4", "-2"], object) if value == "tensor(string)" else np.array([4, -2], np.float32)
    to = c.types["T2"]
    if to == "tensor(string)" and value == "tensor(float)":
        raise_to = array([0.5, -2.5], value)
        values = raise_to
    c.inputs, c.attributes = [Map(np.array([1, 3]), values)], {"cast_to": "TO_" + element(to).upper(), "map_form": "SPARSE", "max_map": 4}
    if to == "tensor(string)":
        c.expected = np.array([["", str(values[0]), "", str(values[1])]], object)
    else:
        c.expected = np.array([[0, 4, 0, -2]], dtype_of(to))


@row("ZipMap", domain=ML)
def zip_map(c):
    c.inputs = [np.array([[0.25, 0.75], [1, 0]], np.float32)]
    texts = "string" in c.types["T"]
    c.attributes = {"classlabels_strings": ["a", "b"]} if texts else {"classlabels_int64s": [3, 5]}
    keys = np.array(["a", "b"], object) if texts else np.array([3, 5])
    c.expected = [Sequence(Map(keys, row) for row in c.inputs[0])]


# Training.

TRAINING = "ai.onnx.preview.training"


@row("Adagrad", "Adam", "Momentum", domain=TRAINING)
def optimizer(c):
    values = [[2, 1], [-0.5, 3], [0.25, 4]] + ([[1, 2]] if c.op == "Adam" else [])
    c.inputs = [array(0.5, c.types["T1"]), np.array(3), *[array(v, c.types["T3"]) for v in values]]
    c.attributes = {"norm_coefficient": 0.25}
    r, (x, g, v), t = 0.5, np.array(values[:3]), 3
    g = g + 0.25 * x
    if c.op == "Adagrad":
        c.attributes.update(decay_factor=0.5, epsilon=0.125)
        h = v + g * g
        c.expected = [x - r / (1 + t * 0.5) * g / (np.sqrt(h) + 0.125), h]
    elif c.op == "Momentum":
        c.attributes.update(alpha=0.5, beta=0.75, mode="standard")
        v = 0.5 * v + 0.75 * g
        c.expected = [x - r * v, v]
    else:
        c.attributes.update(alpha=0.5, beta=0.75, epsilon=0.125, norm_coefficient_post=0.0)
        v, h = 0.5 * v + 0.5 * g, 0.75 * np.array(values[3]) + 0.25 * g * g
        r = r * np.sqrt(1 - 0.75**t) / (1 - 0.5**t)
        c.expected = [x - r * v / (np.sqrt(h) + 0.125), v, h]
    c.outputs = len(c.expected)


@row("Gradient", domain=TRAINING)
def gradient(c):
    """y = x x (the number of elements of z), whose derivative by x is that of the elements, 2 x x."""
    real = c.types["T2"] if c.asked == "T2" else "tensor(float)"
    c.types["T2"] = real
    z = array([1, 2, 3], c.types["T1"])
    x = array([2, -3], real)
    if c.asked == "T2":
        c.types["T1"] = real
        z = array([1, 2, 3], real)
    c.inputs, c.attributes = [x, z], {"xs": None, "zs": None, "y": None}

    def around(inputs, outputs, tag):
        return [
            helper.make_node("Size", [inputs[1]], [tag + "n"]),
            helper.make_node("Cast", [tag + "n"], [tag + "m"], to=number_of(real)),
            helper.make_node("Mul", [inputs[0], inputs[0]], [tag + "s"]),
            helper.make_node("Mul", [tag + "s", tag + "m"], [tag + "y"]),
            helper.make_node("Gradient", inputs, outputs, domain=TRAINING, xs=[inputs[0]], zs=[inputs[1]], y=tag + "y"),
        ]

    c.around, c.attributes, c.types_of_inputs = around, {}, [real, c.types["T1"]]
    c.expected = 2 * x.astype(float) * 3


# Strings.

@row("StringNormalizer")
def normalizer(c):
    c.inputs, c.attributes = [np.array(["Der", "Mond"], object)], {"case_change_action": "UPPER", "stopwords": ["Der"]}
    c.expected = np.array(["MOND"], object)


@row("StringSplit")
def string_split(c):
    c.inputs, c.attributes, c.outputs = [np.array(["a,b", "c"], object)], {"delimiter": ","}, 2
    c.expected = [np.array([["a", "b"], ["c", ""]], object), np.array([2, 1])]


@row("RegexFullMatch")
def regex(c):
    c.inputs, c.attributes = [np.array(["ab", "abc"], object)], {"pattern": "[a-b]+"}
    c.expected = np.array([True, False])


@row("TfIdfVectorizer")
def tf_idf(c):
    texts = c.types["T"] == "tensor(string)"
    c.inputs = [np.array(["b", "a", "b"], object) if texts else array([5, 4, 5], c.types["T"])]
    c.attributes = dict(mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[0, 1, 2])
    c.attributes.update({"pool_strings": ["a", "b", "a", "b"]} if texts else {"pool_int64s": [4, 5, 4, 5]})
    c.expected = np.array([1, 2, 1])


@row("ImageDecoder")
def picture(c):
    """A bitmap of one pixel of 24 bits."""
    head = b"BM" + (58).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    info = (40).to_bytes(4, "little") + (1).to_bytes(4, "little") * 2 + b"\1\0\x18\0" + bytes(24)
    c.inputs = [np.frombuffer(head + info + bytes([30, 20, 10, 0]), np.uint8)]
    c.expected = np.array([[[10, 20, 30]]], np.uint8)
