"""Vectors of TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor: every comparison, missing values, every aggregate and
transform, random forests, and what is refused.

A walk in this file decides, node by node in `f64`. For classifiers of two classes whose leaves give to one alone, scores are as the
evaluator's: 1 - p and p, or -p and p before a transform.
"""
import numpy as np
from family import Family
from onnx import numpy_helper

f = Family("trees")
rng = np.random.default_rng(10)
nan = np.nan
OLD = {"ai.onnx.ml": 3}
NEW = {"ai.onnx.ml": 5}
WORDS = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
COMPARE = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]


def grow(depth, features, modes):
    """A random tree: inner nodes are dicts, leaves are `None`."""
    if depth == 0 or (depth < 3 and rng.random() < 0.2):
        return None
    return {"feature": int(rng.integers(features)), "value": float(np.float32(rng.integers(-3, 4) / 2)), "mode": int(rng.choice(modes)),
            "missing": int(rng.integers(2)), "kids": [grow(depth - 1, features, modes), grow(depth - 1, features, modes)]}


class Forest:
    """Trees, numbered as both encodings need it."""

    def __init__(self, trees):
        self.rows, self.leaves, self.roots = [], [], []
        for tree in trees:
            self.roots.append(self.number(tree, len(self.roots), [0]))

    def number(self, node, tree, next_id):
        row = {"tree": tree, "id": next_id[0], "node": node, "kids": None, "leaf": None}
        next_id[0] += 1
        self.rows.append(row)
        if node is None:
            row["leaf"] = len(self.leaves)
            self.leaves.append(row)
        else:
            row["kids"] = [self.number(kid, tree, next_id) for kid in node["kids"]]
        return row

    def leaf(self, root, x):
        while root["kids"]:
            n = root["node"]
            v = x[n["feature"]]
            holds = bool(n["missing"]) if np.isnan(v) else bool(COMPARE[n["mode"]](v, n["value"]))
            root = root["kids"][0 if holds else 1]
        return root["leaf"]

    def reached(self, X):
        return [[self.leaf(root, x) for root in self.roots] for x in X.astype(np.float64)]

    def old(self):
        r = self.rows
        inner = lambda g: [g(row["node"]) if row["node"] else 0 for row in r]
        return {"nodes_treeids": [row["tree"] for row in r], "nodes_nodeids": [row["id"] for row in r],
                "nodes_featureids": inner(lambda n: n["feature"]), "nodes_values": [float(v) for v in inner(lambda n: n["value"])],
                "nodes_modes": [WORDS[row["node"]["mode"]] if row["node"] else "LEAF" for row in r],
                "nodes_missing_value_tracks_true": inner(lambda n: n["missing"]),
                "nodes_truenodeids": [row["kids"][0]["id"] if row["kids"] else 0 for row in r],
                "nodes_falsenodeids": [row["kids"][1]["id"] if row["kids"] else 0 for row in r]}

    def votes(self, what, weights):
        """`weights` has lists of (target, weight) by leaf."""
        flat = [(row, t, w) for row, list in zip(self.leaves, weights) for t, w in list]
        return {f"{what}_treeids": [r["tree"] for r, _, _ in flat], f"{what}_nodeids": [r["id"] for r, _, _ in flat],
                f"{what}_ids": [t for _, t, _ in flat], f"{what}_weights": [float(w) for _, _, w in flat]}


def softmax(s):
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def softmax_zero(s):
    m = s.max(1, keepdims=True)
    e = np.where(np.abs(s) > 1e-7, np.exp(s - m), s * np.exp(-m))
    return e / e.sum(1, keepdims=True)


TRANSFORM = {"NONE": lambda s: s, "LOGISTIC": lambda s: 1 / (1 + np.exp(-s)), "SOFTMAX": softmax, "SOFTMAX_ZERO": softmax_zero}


def regress(forest, X, weights, targets, how, base=None):
    out = []
    for leaves in forest.reached(X):
        given = [[] for _ in range(targets)]
        for leaf in leaves:
            for t, w in weights[leaf]:
                given[t].append(np.float64(np.float32(w)))
        great = float(np.finfo(np.float32).max)
        join = {"SUM": sum, "AVERAGE": lambda g: sum(g) / len(forest.roots), "MIN": lambda g: min(g, default=great),
                "MAX": lambda g: max(g, default=-great)}[how]
        out.append([join(g) for g in given])
    return np.array(out, np.float64) + (0 if base is None else np.array(base))


X = rng.integers(-4, 5, (16, 4)).astype(np.float32) / 2
X[3, 1] = X[7, :] = nan
for i, word in enumerate(WORDS + ["all"]):
    forest = Forest([grow(4, 4, [i] if i < 6 else range(6)) for _ in range(5)])
    weights = [[(int(rng.integers(2)), np.float32(rng.normal()))] for _ in forest.leaves]
    for how in ["SUM", "AVERAGE", "MIN", "MAX"]:
        f.add(f"regressor_{word.lower()}_{how.lower()}", "ai.onnx.ml::TreeEnsembleRegressor", {"x": X}, opsets=OLD,
              attributes={**forest.old(), **forest.votes("target", weights), "n_targets": 2, "aggregate_function": how,
                          "base_values": [0.5, -0.25]},
              expected=regress(forest, X, weights, 2, how, [0.5, -0.25]).astype(np.float32), relative=1e-5, absolute=1e-5)
forest = Forest([grow(3, 3, [0]) for _ in range(3)])
plain = [[(0, np.float32(rng.normal()))] for _ in forest.leaves]
two = [[(0, np.float32(rng.normal())), (1, np.float32(rng.normal()))] for _ in forest.leaves]
for t in [np.float64, np.int32, np.int64]:
    Y = rng.integers(-3, 4, (6, 3)).astype(t)
    f.add(f"regressor_of_{np.dtype(t).name}", "ai.onnx.ml::TreeEnsembleRegressor", {"x": Y}, opsets=OLD,
          attributes={**forest.old(), **forest.votes("target", plain), "n_targets": 1},
          expected=regress(forest, Y, plain, 1, "SUM").astype(np.float32), relative=1e-5, absolute=1e-6)
X3 = X[:, :3]
for transform, g in TRANSFORM.items():
    f.add(f"regressor_{transform.lower()}", "ai.onnx.ml::TreeEnsembleRegressor", {"x": X3}, opsets={"ai.onnx.ml": 1},
          attributes={**forest.old(), **forest.votes("target", two), "n_targets": 2, "post_transform": transform},
          expected=g(regress(forest, X3, two, 2, "SUM")).astype(np.float32), relative=1e-5, absolute=1e-6)
f.add("regressor_of_no_rows", "ai.onnx.ml::TreeEnsembleRegressor", {"x": np.zeros((0, 3), np.float32)}, opsets=OLD,
      attributes={**forest.old(), **forest.votes("target", plain), "n_targets": 1}, expected=np.zeros((0, 1), np.float32))
f.add("regressor_of_a_leaf", "ai.onnx.ml::TreeEnsembleRegressor", {"x": X3}, opsets=OLD,
      attributes={**Forest([None]).old(), "target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [2.5], "n_targets": 1},
      expected=np.full((16, 1), 2.5, np.float32))

for labels in [[3, 1, 2], ["x", "y", "z"]]:
    kind = "strings" if isinstance(labels[0], str) else "int64s"
    weights = [[(c, np.float32(rng.normal())) for c in range(3)] for _ in forest.leaves]
    for transform, g in TRANSFORM.items():
        scores = g(regress(forest, X3, weights, 3, "SUM", [0.1, 0.2, -0.3]))
        f.add(f"classifier_{kind}_{transform.lower()}", "ai.onnx.ml::TreeEnsembleClassifier", {"x": X3}, opsets=OLD, outputs=2,
              attributes={**forest.old(), **forest.votes("class", weights), f"classlabels_{kind}": labels, "post_transform": transform,
                          "base_values": [0.1, 0.2, -0.3]}, relative=1e-5, absolute=1e-6,
              expected=[np.array(labels, object if kind == "strings" else np.int64)[scores.argmax(1)], scores.astype(np.float32)])
for sign, weights in [("positive", [[(0, np.float32(rng.random() / 3))] for _ in forest.leaves]), ("any", plain)]:
    for transform, g in TRANSFORM.items():
        for base in [None, [0.25]]:
            p = regress(forest, X3, weights, 1, "SUM", base)
            scores = g(np.hstack([1 - p if transform == "NONE" else -p, p]))
            f.add(f"classifier_binary_{sign}_{transform.lower()}_{'base' if base else 'none'}", "ai.onnx.ml::TreeEnsembleClassifier", {"x": X3},
                  opsets=OLD, outputs=2, relative=1e-5, absolute=1e-6,
                  attributes={**forest.old(), **forest.votes("class", weights), "classlabels_int64s": [7, 9], "post_transform": transform,
                              **({"base_values": base} if base else {})},
                  expected=[np.array([7, 9])[scores.argmax(1)], scores.astype(np.float32)])
both = [[(0, np.float32(w)), (1, np.float32(1 - w))] for w in rng.random(len(forest.leaves))]
scores = regress(forest, X3, both, 2, "SUM")
f.add("classifier_binary_of_both", "ai.onnx.ml::TreeEnsembleClassifier", {"x": X3}, opsets=OLD, outputs=2, relative=1e-5,
      attributes={**forest.old(), **forest.votes("class", both), "classlabels_strings": ["no", "yes"]},
      expected=[np.array(["no", "yes"], object)[scores.argmax(1)], scores.astype(np.float32)])


def new(forest, weights, ids, targets, t, members=None, **more):
    inner = [r for r in forest.rows if r["node"]]
    place = {id(r): i for i, r in enumerate(inner)}
    leaf = lambda side: [int(r["kids"][side]["leaf"] is not None) for r in inner]
    child = lambda side: [r["kids"][side]["leaf"] if r["kids"][side]["leaf"] is not None else place[id(r["kids"][side])] for r in inner]
    tensor = lambda v, d: numpy_helper.from_array(np.array(v, d))
    return {"nodes_splits": tensor([r["node"]["value"] for r in inner], t), "nodes_modes": tensor([r["node"]["mode"] for r in inner], np.uint8),
            "nodes_featureids": [r["node"]["feature"] for r in inner], "nodes_truenodeids": child(0), "nodes_falsenodeids": child(1),
            "nodes_trueleafs": leaf(0), "nodes_falseleafs": leaf(1), "leaf_targetids": ids, "leaf_weights": tensor(weights, t),
            "nodes_missing_value_tracks_true": [r["node"]["missing"] for r in inner],
            "tree_roots": [place[id(r)] for r in forest.roots], "n_targets": targets, **more}


def rooted(modes, depth=4, count=4):
    trees = [grow(depth, 4, modes) for _ in range(count)]
    return Forest([t or {"feature": 0, "value": 0.0, "mode": 0, "missing": 0, "kids": [None, None]} for t in trees])


for t in [np.float16, np.float32, np.float64]:
    for number, how in enumerate(["AVERAGE", "SUM", "MIN", "MAX"]):
        forest = rooted(range(6))
        ids = [int(i) for i in rng.integers(0, 3, len(forest.leaves))]
        weights = (rng.integers(-8, 9, len(forest.leaves)) / 8).astype(np.float32)
        votes = [[(i, w)] for i, w in zip(ids, weights)]
        Y = X.astype(t)
        expected = regress(forest, Y, votes, 3, how)
        if t == np.float16 and how in ("MIN", "MAX"):
            continue  # What no leaf gives to is beyond the type.
        f.add(f"ensemble_{np.dtype(t).name}_{how.lower()}", "ai.onnx.ml::TreeEnsemble", {"x": Y}, opsets=NEW,
              attributes=new(forest, weights, ids, 3, t, aggregate_function=number),
              expected=np.clip(expected, -np.finfo(np.float32).max, np.finfo(np.float32).max).astype(t) if t != np.float64 or how in ("SUM", "AVERAGE")
              else np.where(np.abs(expected) > 1e30, np.sign(expected) * np.finfo(np.float64).max, expected))
for number, transform in enumerate(["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]):
    forest = rooted([0], 3, 3)
    ids = [int(i) for i in rng.integers(0, 2, len(forest.leaves))]
    weights = (rng.integers(-8, 9, len(forest.leaves)) / 8).astype(np.float32)
    f.add(f"ensemble_{transform.lower()}", "ai.onnx.ml::TreeEnsemble", {"x": X}, opsets=NEW,
          attributes=new(forest, weights, ids, 2, np.float32, post_transform=number), relative=1e-5, absolute=1e-6,
          expected=TRANSFORM[transform](regress(forest, X, [[(i, w)] for i, w in zip(ids, weights)], 2, "SUM")).astype(np.float32))

# Sets: nodes in order of `nodes_modes`, each set ended by NaN.
tensor = lambda v, d=np.float32: numpy_helper.from_array(np.array(v, d))
sets = {"nodes_splits": tensor([0, 0, 0]), "nodes_modes": tensor([6, 6, 0], np.uint8), "nodes_featureids": [0, 1, 0], "tree_roots": [0],
        "nodes_truenodeids": [1, 0, 2], "nodes_trueleafs": [0, 1, 1], "nodes_falsenodeids": [2, 1, 3], "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 0, 0, 0], "leaf_weights": tensor([1, 2, 3, 4]), "n_targets": 1,
        "membership_values": tensor([0, 1.5, nan, -2, nan])}
Y = np.array([[0, -2], [1.5, 0], [1, 9], [-1, 0], [nan, 0]], np.float32)
f.add("ensemble_of_sets", "ai.onnx.ml::TreeEnsemble", {"x": Y}, opsets=NEW, attributes=sets,
      expected=np.array([[1], [2], [4], [3], [4]], np.float32))
f.add("ensemble_of_sets_with_missing", "ai.onnx.ml::TreeEnsemble", {"x": Y}, opsets=NEW,
      attributes={**sets, "nodes_missing_value_tracks_true": [1, 0, 0]}, expected=np.array([[1], [2], [4], [3], [2]], np.float32))

old = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_values": [0.0, 0.0, 0.0],
       "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
       "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1}
for name, wrong in [("circle", {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF"], "target_nodeids": [2, 2]}),
                    ("own_child", {"nodes_truenodeids": [0, 0, 0]}), ("child_that_is_not", {"nodes_truenodeids": [5, 0, 0]}),
                    ("negative_child", {"nodes_truenodeids": [-1, 0, 0]}), ("feature_that_is_not", {"nodes_featureids": [4, 0, 0]}),
                    ("target_that_is_not", {"target_ids": [0, 1]}), ("weight_of_no_leaf", {"target_nodeids": [0, 2]}),
                    ("lists_of_other_lengths", {"nodes_values": [0.0]}), ("unknown_mode", {"nodes_modes": ["BRANCH_ABOUT", "LEAF", "LEAF"]}),
                    ("node_twice", {"nodes_nodeids": [0, 1, 1]}), ("many_targets", {"n_targets": 2**60})]:
    f.add(f"refuses_{name}", "ai.onnx.ml::TreeEnsembleRegressor", {"x": X}, opsets=OLD, attributes={**old, **wrong}, fails=True)
for name, wrong in [("circle", {"nodes_truenodeids": [1, 0, 2], "nodes_trueleafs": [0, 0, 1]}), ("child_that_is_not", {"nodes_truenodeids": [7, 0, 2]}),
                    ("leaf_that_is_not", {"nodes_falsenodeids": [2, 4, 3]}), ("root_that_is_not", {"tree_roots": [3]}),
                    ("sets_that_are_not", {"membership_values": tensor([0, nan])}), ("unknown_mode", {"nodes_modes": tensor([6, 9, 0], np.uint8)})]:
    f.add(f"refuses_{name}_by_position", "ai.onnx.ml::TreeEnsemble", {"x": Y}, opsets=NEW, attributes={**sets, **wrong}, fails=True)
f.write()
