"""Trains estimators, exports them, and compares the exported models with what the libraries themselves predict.

`python train.py FOLDER [--bb PROGRAM]` writes a case for each to FOLDER and, where a `bb` is given, a table of differences to
`FOLDER/table.md`. The outputs that a case expects are the library's predictions, never a runtime's.
"""
import argparse
import pathlib
import subprocess
import tempfile
import warnings

import lightgbm
import numpy as np
import onnxruntime
import pandas
import xgboost
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as classes
from skl2onnx.common.shape_calculator import calculate_linear_regressor_output_shapes as numbers
from sklearn.base import clone

import case
import estimators as e
from explained import EXPLAINED, EXPORTED_OTHERWISE

OPSET = {"": 18, "ai.onnx.ml": 3}
OPTIONS = {"zipmap": [True, False, "columns"], "nocl": [True, False], "raw_scores": [True, False]}
for kind in (lightgbm.LGBMClassifier, xgboost.XGBClassifier, xgboost.XGBRFClassifier):
    convert = convert_lightgbm if kind is lightgbm.LGBMClassifier else convert_xgboost
    update_registered_converter(kind, kind.__name__, classes, convert, options=OPTIONS)
for kind in (lightgbm.LGBMRegressor, lightgbm.LGBMRanker, xgboost.XGBRegressor, xgboost.XGBRFRegressor):
    convert = convert_lightgbm if kind.__module__.startswith("lightgbm") else convert_xgboost
    update_registered_converter(kind, kind.__name__, numbers, convert, options={"split": None})


def floats(inputs):
    return [(name, FloatTensorType([None, *x.shape[1:]])) for name, x in inputs.items()]


def flags(model, **options):
    """Options of a classifier: a matrix of scores in place of dictionaries."""
    if not isinstance(model, e.svm.LinearSVC):
        options["zipmap"] = False
    return {id(model): options}


def fit(estimator, data, *goal):
    return clone(estimator).fit(data[e.TRAINED], *(g[e.TRAINED] for g in goal))


def classified(estimator, data, goal):
    """A classifier, its inputs and what it says of them: labels and probabilities."""
    model, x = fit(estimator, data, goal), data[e.TESTED]
    scores = model.predict_proba(x)
    return model, {"x": x}, [model.predict(x), np.stack(scores) if isinstance(scores, list) else scores], flags(model)


def decided(estimator, data, goal):
    """A classifier that has scores of its own; of two classes ONNX has one for each."""
    model, x = fit(estimator, data, goal), data[e.TESTED]
    scores = model.decision_function(x)
    scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
    return model, {"x": x}, [model.predict(x), scores], flags(model, raw_scores=True)


def regressed(estimator, data, goal, types=None):
    model, x = fit(estimator, data, goal), data[e.TESTED]
    return model, {"x": x}, [model.predict(x)], None, types


def told(estimator, data, methods):
    """Whatever has these methods, of which the model's outputs are what they return."""
    model, x = fit(estimator, data, e.BINARY), data[e.TESTED]
    return model, {"x": x}, [getattr(model, method)(x) for method in methods], None


def dictionaries(estimator):
    model, x = fit(estimator, e.X, e.WORDS), e.X[e.TESTED]
    rows = [dict(zip(map(str, model.classes_), map(float, row))) for row in model.predict_proba(x)]
    return model, {"x": x}, [model.predict(x), rows], None


def trained():
    """Names, and what trains: a model, its inputs, the predictions, and how it is exported."""
    for kind, goal in [("binary", e.BINARY), ("three", e.THREE)]:
        for name, estimator in e.CLASSIFIERS.items():
            yield f"{name}_{kind}", lambda: classified(estimator, e.X, goal)
        for name, estimator in e.DECISIONS.items():
            yield f"{name}_{kind}", lambda: decided(estimator, e.X, goal)
    for name in ["logistic", "forest"]:
        yield f"{name}_words", lambda: classified(e.CLASSIFIERS[name], e.X, e.WORDS)
        yield f"{name}_dictionaries", lambda: dictionaries(e.CLASSIFIERS[name])
    for name, estimator in e.OF_SMALL_COUNTS.items():
        yield name, lambda: classified(estimator, e.SMALL_COUNTS, e.THREE)
    for name, estimator in e.OF_LABELS.items():
        yield name, lambda: classified(estimator, e.X, e.LABELS)
    for rows, goal in [(e.REGRESSORS, e.NUMBER), (e.OF_COUNTS, e.COUNTS), (e.OF_SEVERAL, e.NUMBERS)]:
        for name, estimator in rows.items():
            yield f"{name}_regression", lambda: regressed(estimator, e.X, goal)
    yield "lightgbm_ranker", ranked
    for name, (estimator, data) in e.TRANSFORMERS.items():
        yield name, lambda: told(estimator, data, ["transform"])
    for rows, methods in [(e.CLUSTERS, ["predict", "transform"]), (e.OUTLIERS, ["predict", "decision_function"]),
                          (e.MIXTURES, ["predict", "predict_proba"])]:
        for name, estimator in rows.items():
            yield name, lambda: told(estimator, e.X, methods)
    wide, goal = e.X.astype(np.float64), e.NUMBER.astype(np.float64)
    for name in e.OF_DOUBLES:
        types = [("x", DoubleTensorType([None, e.FEATURES]))]
        yield f"{name}_doubles", lambda: regressed(e.REGRESSORS[name], wide, goal, types)
    for name, vectorizer in e.VECTORIZERS.items():
        yield f"text_{name}", lambda: worded(vectorizer)
    for name, classifier in e.OF_TEXTS.items():
        yield f"text_to_{name}", lambda: of_topics(e.pipeline.make_pipeline(clone(e.VECTORIZERS["tfidf"]), classifier))
    for name, model in e.OF_COLUMNS.items():
        yield f"mixed_{name}", lambda: of_columns(model)


def ranked():
    model = lightgbm.LGBMRanker(n_estimators=8, num_leaves=8, verbose=-1).fit(e.X[e.TRAINED], e.THREE[e.TRAINED], group=[40] * 4)
    return model, {"x": e.X[e.TESTED]}, [model.predict(e.X[e.TESTED])], None


TEXT = [("x", StringTensorType([None, 1]))]


def plain(vectorizer):
    """A locale that every machine has."""
    return {id(vectorizer): {"locale": "C"}}


def worded(vectorizer):
    """Words of texts, counted and weighted."""
    model = clone(vectorizer).fit(e.TEXTS)
    return model, {"x": e.TEXTS.reshape(-1, 1)}, [model.transform(e.TEXTS).toarray()], plain(model), TEXT


def of_topics(model):
    model.fit(e.TEXTS, e.TOPICS)
    expected = [model.predict(e.TEXTS), model.predict_proba(e.TEXTS)]
    return model, {"x": e.TEXTS.reshape(-1, 1)}, expected, flags(model) | plain(model[0]), TEXT


def of_columns(model):
    """Columns of numbers and of texts, with holes: an input for each."""
    frame = pandas.DataFrame({f"n{i}": e.HOLES[:, i] for i in range(3)} | {"colour": e.COLOURS, "size": e.SIZES})
    types = [(k, FloatTensorType([None, 1]) if k[0] == "n" else StringTensorType([None, 1])) for k in frame]
    model, tested = clone(model), frame[e.TESTED]
    classifies = hasattr(model, "predict_proba")
    model.fit(frame[e.TRAINED], (e.WORDS if classifies else e.NUMBER)[e.TRAINED])
    inputs = {k: tested[[k]].to_numpy().astype(np.float32 if k[0] == "n" else object) for k in frame}
    expected = [model.predict(tested)] + ([model.predict_proba(tested)] if classifies else [])
    return model, inputs, expected, flags(model) if classifies else None, types


def fitted(expected, outputs):
    """Gives predictions the shapes and types of the model's outputs, which often have a column more."""
    def one(value, output):
        if isinstance(output, list) and not isinstance(output[0], dict):
            return [one(*pair) for pair in zip(value, output, strict=True)]
        if isinstance(value, list):
            return value
        value, output = np.asarray(value), np.asarray(output)
        assert value.size == output.size, f"{value.shape} are expected, {output.shape} came"
        return value.reshape(output.shape).astype(output.dtype)
    assert len(expected) == len(outputs), f"{len(expected)} outputs are expected, {len(outputs)} came"
    return [one(*pair) for pair in zip(expected, outputs)]


def difference(expected, got):
    """The greatest difference of two arrays, or how many labels differ."""
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.dtype.kind not in "fc":
        return float((expected.astype(str) != got.astype(str)).sum())
    return float(np.max(np.abs(expected - got), initial=0.0))


def ran(program, folder, names):
    """The outputs that `bb` has for a case; those of dictionaries and sequences are left out."""
    with tempfile.TemporaryDirectory() as to:
        given = [f"--input={name}={folder}/test_data_set_0/input_{i}.pb" for i, name in enumerate(names)]
        done = subprocess.run([program, "run", str(folder / "model.onnx"), "--output", to, *given], capture_output=True, text=True)
        found = {path.stem: np.load(path, allow_pickle=True) for path in pathlib.Path(to).glob("*.npy")}
        return found, done.stderr.strip().splitlines()[-1] if done.returncode else ""


def verdict(name, differences, tolerable):
    if name in EXPORTED_OTHERWISE:
        return "as ONNX Runtime: " + EXPORTED_OTHERWISE[name] if tolerable else "differs from ONNX Runtime"
    if not tolerable:
        return "differs"
    return "explained: " + EXPLAINED[name][2] if name in EXPLAINED else "equal" if not any(differences) else "rounding"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--bb", help="the program that runs the models, for the table")
    arguments.add_argument("--only", default="", help="part of the names")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    table, failed = ["| model | output | greatest difference | verdict |", "|---|---|---|---|"], []
    for name, made in trained():
        if asked.only not in name:
            continue
        model, inputs, expected, options, *types = made()
        exported = to_onnx(model, initial_types=(types or [None])[0] or floats(inputs), options=options, target_opset=OPSET)
        outputs = onnxruntime.InferenceSession(exported.SerializeToString()).run(None, inputs)
        expected = outputs if name in EXPORTED_OTHERWISE else fitted(expected, outputs)
        relative, absolute, reason = EXPLAINED.get(name, (*e.SUMS, EXPORTED_OTHERWISE.get(name, "sums of 32-bit floats")))
        case.write(asked.folder / name, exported, list(inputs.values()), expected, relative, absolute, reason)
        if not asked.bb:
            continue
        got, error = ran(asked.bb, asked.folder / name, inputs)
        pairs = {o.name: (w, got.get(o.name)) for o, w in zip(exported.graph.output, expected) if isinstance(w, np.ndarray)}
        if error or any(g is None or np.shape(g) != np.shape(w) for w, g in pairs.values()):
            failed.append(name)
            table.append(f"| {name} | | | {error or 'an output is missing or has another shape'} |")
            continue
        close = lambda w, g: w.dtype.kind not in "f" or np.allclose(g, w, relative, absolute, equal_nan=True)
        differences = {k: difference(*pair) for k, pair in pairs.items()}
        tolerable = all(close(*pair) and (pair[0].dtype.kind == "f" or not differences[k]) for k, pair in pairs.items())
        failed += [] if tolerable else [name]
        table += [f"| {name} | {k} | {v:.2g} | {verdict(name, differences.values(), tolerable)} |" for k, v in differences.items()]
    if asked.bb:
        (asked.folder / "table.md").write_text("\n".join(table) + "\n")
        print(f"{len(table) - 2} outputs in {asked.folder / 'table.md'}; {len(failed)} models differ:", *failed, sep="\n")


if __name__ == "__main__":
    main()
