"""Vectors of the linear models, support vector machines and encoders of `ai.onnx.ml`, and of maps.

NumPy decides by the operators' text, and for support vector machines LIBSVM's formulas; of two classes with one score, scores are
the evaluator's: -s and s. ONNX Runtime decides where a vector says so.
"""
import numpy as np
from family import Family
from onnx import helper, numpy_helper

f = Family("models")
rng = np.random.default_rng(11)
nan, inf = np.nan, np.inf
ML = {"ai.onnx.ml": 1}


def softmax(s):
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


TRANSFORM = {"NONE": lambda s: s, "LOGISTIC": lambda s: 1 / (1 + np.exp(-s)), "SOFTMAX": softmax}


def add(name, op, inputs, attributes, expected, versions=ML, outputs=1, **more):
    f.add(name, f"ai.onnx.ml::{op}", inputs, opsets=versions, attributes=attributes, outputs=outputs, expected=expected, **more)


close = {"relative": 1e-5, "absolute": 1e-6}
X = rng.standard_normal((5, 3)).astype(np.float32)
W = rng.standard_normal((4, 3)).astype(np.float32)
B = rng.standard_normal(4).astype(np.float32)
for t in [np.float32, np.float64, np.int32, np.int64]:
    x = (X * 4).astype(t)
    for rows in (1, 2, 4):
        s = x.astype(np.float64) @ W[:rows].T.astype(np.float64) + B[:rows]
        for transform, g in TRANSFORM.items() if t == np.float32 else [("NONE", TRANSFORM["NONE"])]:
            k = f"{np.dtype(t).name}_{rows}_{transform.lower()}"
            add(f"linear_regressor_{k}", "LinearRegressor", {"x": x}, {"coefficients": W[:rows].ravel().tolist(), "intercepts": B[:rows].tolist(),
                "targets": rows, "post_transform": transform}, g(s).astype(np.float32), **close)
            scores = g(np.hstack([-s, s]) if rows == 1 else s)
            labels = [5, 3, 9, 1][:max(rows, 2)]
            add(f"linear_classifier_{k}", "LinearClassifier", {"x": x}, {"coefficients": W[:rows].ravel().tolist(), "intercepts": B[:rows].tolist(),
                "classlabels_ints": labels, "post_transform": transform}, [np.array(labels)[scores.argmax(1)], scores.astype(np.float32)], outputs=2, **close)
s = X.astype(np.float64) @ W.T
def probit(p):
    log = np.log(4 * p * (1 - p))
    v = 2 / (np.pi * 0.147) + log / 2
    return np.sqrt(2) * np.sign(p - 0.5) * np.sqrt(np.sqrt(v * v - log / 0.147) - v)


p = np.array([[0.1, 0.3], [0.5001, 0.9], [0.02, 0.999]], np.float32)
add("linear_regressor_probit", "LinearRegressor", {"x": p}, {"coefficients": [1.0, 0.0, 0.0, 1.0], "targets": 2, "post_transform": "PROBIT"},
    probit(p.astype(np.float64)).astype(np.float32), relative=1e-3, absolute=1e-3)
add("linear_regressor_probit_of_certain", "LinearRegressor", {"x": np.array([[0.0, 1.0]])}, {"coefficients": [1.0, 0.0, 0.0, 1.0], "targets": 2,
    "post_transform": "PROBIT"}, np.array([[-inf, inf]], np.float32))
z = np.array([[0.0, 2.0], [-1.0, 1e-9], [3.0, 3.0]], np.float32)
e = np.where(np.abs(z) > 1e-7, np.exp(z - z.max(1, keepdims=True)), z * np.exp(-z.max(1, keepdims=True)))
add("linear_regressor_softmax_zero", "LinearRegressor", {"x": z}, {"coefficients": [1.0, 0.0, 0.0, 1.0], "targets": 2, "post_transform": "SOFTMAX_ZERO"},
    (e / e.sum(1, keepdims=True)).astype(np.float32), **close)
add("linear_regressor_without_intercepts", "LinearRegressor", {"x": X}, {"coefficients": W.ravel().tolist(), "targets": 4}, s.astype(np.float32), **close)
add("linear_classifier_strings", "LinearClassifier", {"x": X}, {"coefficients": W.ravel().tolist(), "classlabels_strings": list("wxyz")},
    [np.array(list("wxyz"), object)[s.argmax(1)], s.astype(np.float32)], outputs=2, **close)
add("linear_regressor_of_no_rows", "LinearRegressor", {"x": X[:0]}, {"coefficients": W.ravel().tolist(), "targets": 4}, np.zeros((0, 4), np.float32))
add("linear_regressor_of_other_features", "LinearRegressor", {"x": X}, {"coefficients": [1.0, 2.0]}, None, fails=True)
add("linear_classifier_of_other_classes", "LinearClassifier", {"x": X}, {"coefficients": W.ravel().tolist(), "intercepts": B.tolist(),
    "classlabels_ints": [1, 2, 3]}, None, outputs=2, fails=True)

# Kernels of LIBSVM.
SV = rng.standard_normal((6, 3)).astype(np.float32)
gamma, coef0, degree = 0.25, 0.5, 3.0
KERNEL = {"LINEAR": lambda a, b: a @ b.T, "POLY": lambda a, b: (gamma * (a @ b.T) + coef0) ** degree,
          "SIGMOID": lambda a, b: np.tanh(gamma * (a @ b.T) + coef0),
          "RBF": lambda a, b: np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(-1))}
params = {"kernel_params": [gamma, coef0, degree], "support_vectors": SV.ravel().tolist()}
x64, sv64 = X.astype(np.float64), SV.astype(np.float64)
for kernel, k in KERNEL.items():
    c = rng.standard_normal(6).astype(np.float32)
    y = k(x64, sv64) @ c + np.float32(0.1)
    for one_class in (0, 1):
        add(f"svm_regressor_{kernel.lower()}_{one_class}", "SVMRegressor", {"x": X}, {**params, "kernel_type": kernel, "coefficients": c.tolist(),
            "rho": [0.1], "n_supports": 6, "one_class": one_class}, (np.where(y > 0, 1, -1) if one_class else y)[:, None].astype(np.float32), **close)
    for sizes, labels in [([4, 2], [7, 9]), ([3, 2, 1], ["a", "b", "c"])]:
        n = len(sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        coef = rng.standard_normal((n - 1, 6)).astype(np.float32)
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        rho = rng.standard_normal(len(pairs)).astype(np.float32)
        K = k(x64, sv64)
        part = lambda row, c: K[:, starts[c]:starts[c + 1]] @ coef[row, starts[c]:starts[c + 1]].astype(np.float64)
        margin = np.stack([part(j - 1, i) + part(i, j) + r for (i, j), r in zip(pairs, rho)], 1)
        votes = np.zeros((5, n))
        for (i, j), m in zip(pairs, margin.T):
            votes[np.arange(5), np.where(m > 0, i, j)] += 1
        strings = isinstance(labels[0], str)
        attributes = {**params, "kernel_type": kernel, "coefficients": coef.ravel().tolist(), "rho": rho.tolist(), "vectors_per_class": sizes,
                      "classlabels_strings" if strings else "classlabels_ints": labels}
        label = np.array(labels, object if strings else np.int64)[votes.argmax(1)]
        add(f"svm_classifier_{kernel.lower()}_{n}", "SVMClassifier", {"x": X}, attributes,
            [label, (margin if n > 2 else np.hstack([-margin, margin])).astype(np.float32)], outputs=2, **close)
        ab = {"prob_a": (-rng.random(len(pairs)) - 0.5).tolist(), "prob_b": rng.standard_normal(len(pairs)).tolist()}
        add(f"svm_classifier_{kernel.lower()}_{n}_probabilities", "SVMClassifier", {"x": X}, {**attributes, **ab}, "ort", outputs=2,
            relative=1e-4, absolute=1e-5)
linear = {"coefficients": W.ravel().tolist(), "rho": [0.2], "classlabels_ints": [4, 3, 2, 1]}
s = x64 @ W.T + np.float32(0.2)
add("svm_classifier_without_vectors", "SVMClassifier", {"x": X}, linear, [np.array([4, 3, 2, 1])[s.argmax(1)], s.astype(np.float32)], outputs=2, **close)
add("svm_regressor_without_vectors", "SVMRegressor", {"x": X}, {"coefficients": W[0].tolist(), "rho": [0.2]}, (x64 @ W[0] + np.float32(0.2))[:, None].astype(np.float32), **close)
add("svm_regressor_without_rho", "SVMRegressor", {"x": X}, {"coefficients": W[0].tolist()}, None, fails=True)
add("svm_regressor_of_unknown_kernel", "SVMRegressor", {"x": X}, {**params, "kernel_type": "CUBE", "coefficients": [1.0] * 6, "rho": [0.1],
    "n_supports": 6}, None, fails=True)

for t in [np.float32, np.float64, np.int32, np.int64]:
    x = (X * 4).astype(t)
    add(f"scaler_{np.dtype(t).name}", "Scaler", {"x": x}, {"offset": [1.0, 0.5, -2.0], "scale": [2.0, 0.25, 1.5]},
        ((x - np.float64([1, 0.5, -2])) * [2, 0.25, 1.5]).astype(np.float32), **close)
    add(f"scaler_of_one_{np.dtype(t).name}", "Scaler", {"x": x}, {"offset": [1.0], "scale": [2.0]}, ((x - 1.0) * 2).astype(np.float32), **close)
    for threshold in (-0.5, 0.0, 0.5):
        add(f"binarizer_{np.dtype(t).name}_{threshold}", "Binarizer", {"x": x}, {"threshold": threshold}, (x > threshold).astype(t))
    for norm, g in [("MAX", lambda a: np.abs(a).max(1, keepdims=True)), ("L1", lambda a: np.abs(a).sum(1, keepdims=True)),
                    ("L2", lambda a: np.sqrt((a * a).sum(1, keepdims=True)))]:
        z = x.copy()
        z[0] = 0
        w = z.astype(np.float64)
        add(f"normalizer_{norm.lower()}_{np.dtype(t).name}", "Normalizer", {"x": z}, {"norm": norm},
            (w / np.where(g(w) == 0, 1, g(w))).astype(np.float32), **close)
x = np.array([[1, nan, 3], [nan, 0, -1]], np.float32)
add("imputer_of_nan", "Imputer", {"x": x}, {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": nan}, np.array([[1, 8, 3], [7, 0, -1]], np.float32))
add("imputer_of_one", "Imputer", {"x": x.astype(np.float64)}, {"imputed_value_floats": [5.0], "replaced_value_float": -1.0}, np.array([[1, nan, 3], [nan, 0, 5]]))
for t in [np.int32, np.int64]:
    add(f"imputer_{np.dtype(t).name}", "Imputer", {"x": np.array([[1, -1, 3], [-1, 2, -1]], t)}, {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": -1},
        np.array([[1, 8, 3], [7, 2, 9]], t))
add("imputer_without_values", "Imputer", {"x": x}, {"replaced_value_float": nan}, None, fails=True)
a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5], [6]], np.float32)
add("feature_vectorizer", "FeatureVectorizer", {"a": a, "b": b}, {"inputdimensions": [2, 1]}, np.hstack([a, b]))
add("feature_vectorizer_cuts_and_fills", "FeatureVectorizer", {"a": a, "b": b}, {"inputdimensions": [1, 3]}, np.array([[1, 5, 0, 0], [3, 6, 0, 0]], np.float32))
add("feature_vectorizer_of_vectors", "FeatureVectorizer", {"a": a[0], "b": b[0]}, {"inputdimensions": [2, 1]}, np.array([[1, 2, 5]], np.float32))
add("array_feature_extractor", "ArrayFeatureExtractor", {"x": X, "i": np.array([[2, 0]])}, {}, X[:, [2, 0]])
add("array_feature_extractor_of_vector", "ArrayFeatureExtractor", {"x": np.array(["a", "b"], object), "i": np.array([1, 1, 0])}, {}, np.array([["b", "b", "a"]], object))
for t in [np.float32, np.float64, np.int32, np.int64]:
    add(f"one_hot_{np.dtype(t).name}", "OneHotEncoder", {"x": np.array([[4, 1], [2, 9]]).astype(t)}, {"cats_int64s": [1, 2, 4]},
        np.array([[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 0]]], np.float32))
words = np.array(["b", "a", "z"], object)
add("one_hot_strings", "OneHotEncoder", {"x": words}, {"cats_strings": ["a", "b"]}, np.array([[0, 1], [1, 0], [0, 0]], np.float32))
add("one_hot_of_unknown", "OneHotEncoder", {"x": words}, {"cats_strings": ["a", "b"], "zeros": 0}, None, fails=True)
add("one_hot_of_known", "OneHotEncoder", {"x": words}, {"cats_strings": ["z", "a", "b"], "zeros": 0}, np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0]], np.float32))
add("label_encoder_of_opset_1", "LabelEncoder", {"x": words}, {"classes_strings": ["a", "b"], "default_int64": -7}, np.array([1, 0, -7]))
add("label_encoder_of_opset_1_back", "LabelEncoder", {"x": np.array([[1], [5]])}, {"classes_strings": ["a", "b"], "default_string": "?"}, np.array([["b"], ["?"]], object))
V2, V4 = {"ai.onnx.ml": 2}, {"ai.onnx.ml": 4}
add("label_encoder_strings_to_ints", "LabelEncoder", {"x": words}, {"keys_strings": ["a", "b", "a"], "values_int64s": [1, 2, 3]}, np.array([2, 3, -1]), V2)
add("label_encoder_ints_to_strings", "LabelEncoder", {"x": np.array([3, 1, 2])}, {"keys_int64s": [1, 2], "values_strings": ["x", "y"]}, np.array(["_Unused", "x", "y"], object), V2)
add("label_encoder_floats", "LabelEncoder", {"x": np.array([nan, 0.0, -0.0, 2, 5], np.float32)}, {"keys_floats": [nan, 0.0, 2.0], "values_floats": [1.5, 2.5, inf],
    "default_float": -1.0}, np.array([1.5, 2.5, 2.5, inf, -1], np.float32), V2)
tensor = lambda v, d: numpy_helper.from_array(np.array(v, d))
for t in [np.int16, np.int32, np.int64, np.float32, np.float64]:
    add(f"label_encoder_tensor_{np.dtype(t).name}", "LabelEncoder", {"x": np.array([[1, 2], [3, 4]]).astype(t)}, {"keys_tensor": tensor([1, 3, 4], t),
        "values_tensor": tensor([10, 30, 40], np.int16), "default_tensor": tensor([-5], np.int16)}, np.array([[10, -5], [30, 40]], np.int16), V4)
add("label_encoder_of_other_lengths", "LabelEncoder", {"x": words}, {"keys_strings": ["a"], "values_int64s": [1, 2]}, None, V2, fails=True)
add("label_encoder_of_other_type", "LabelEncoder", {"x": words}, {"keys_int64s": [1], "values_int64s": [1]}, None, V2, fails=True)
add("category_mapper", "CategoryMapper", {"x": words}, {"cats_strings": ["a", "b"], "cats_int64s": [10, 20], "default_int64": 0}, np.array([20, 10, 0]))
add("category_mapper_back", "CategoryMapper", {"x": np.array([20, 1])}, {"cats_strings": ["a", "b"], "cats_int64s": [10, 20], "default_string": "?"}, np.array(["b", "?"], object))
# A row of numbers becomes a map, and the map a vector of a vocabulary's words.
node = lambda op, i, o, d="ai.onnx.ml", **k: helper.make_node(op, i, o, domain=d, **k)
for name, kind, labels, vocabulary in [("strings", "string", ["a", "b", "c"], ["c", "x", "a"]), ("ints", "int64", [5, 6, 7], [7, 1, 5])]:
    f.add(f"maps_of_{name}", [node("ZipMap", ["x"], ["maps"], **{f"classlabels_{kind}s": labels}), node("SequenceAt", ["maps", "i"], ["map"], ""),
          node("DictVectorizer", ["map"], ["y"], **{f"{kind}_vocabulary": vocabulary})], {"x": X}, constants={"i": np.array(2)}, outputs=["y"],
          opsets=ML, expected=[np.array([X[2, 2], 0, X[2, 0]], np.float32)])
f.add("map_to_row", [node("ZipMap", ["x"], ["maps"], classlabels_int64s=[7, 1, 3]), node("SequenceAt", ["maps", "i"], ["map"], ""),
      node("CastMap", ["map"], ["y"])], {"x": X}, constants={"i": np.array(0)}, outputs=["y"], opsets=ML, expected=[X[:1, [1, 2, 0]]])
f.add("sparse_map_to_row", [node("ZipMap", ["x"], ["maps"], classlabels_int64s=[4, 1, 3]), node("SequenceAt", ["maps", "i"], ["map"], ""),
      node("CastMap", ["map"], ["y"], map_form="SPARSE", max_map=6)], {"x": X}, constants={"i": np.array(0)}, outputs=["y"], opsets=ML,
      expected=[np.array([[0, X[0, 1], 0, X[0, 2], X[0, 0], 0]], np.float32)])
f.write()
