"""Vectors of NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss, computed in f64 by NumPy as ONNX's text says.

ONNX's evaluator averages over ignored labels when `ignore_index` is -1; the text does not.
"""
import numpy as np
from family import Family, bfloat16, short

f = Family("loss")
rng = np.random.default_rng(11)


def loss(log, labels, weights=None, ignore=None, reduction="mean"):
    kept = np.ones(labels.shape, bool) if ignore is None else labels != ignore
    safe = np.where(kept, labels, 0)
    w = np.ones(log.shape[1]) if weights is None else weights.astype(np.float64)
    w = np.where(kept, w[safe], 0.0)
    chosen = np.take_along_axis(log, safe[:, None], 1)[:, 0]
    losses = np.where(kept, -chosen * w, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / w.sum()


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def add(name, op, shape, t=np.float32, index=np.int64, weighted=False, ignore=None, reduction="mean", scale=1.0, log=False,
        opset=22, labels=None):
    x = rng.normal(0, scale, shape).astype(t)
    n, c, *rest = shape
    if labels is None:
        labels = rng.integers(0, c, (n, *rest)).astype(index)
        if ignore is not None and labels.size:
            labels.flat[0] = ignore
    weights = rng.uniform(0.1, 2, c).astype(t) if weighted else None
    attributes = {"reduction": reduction} | ({} if ignore is None else {"ignore_index": ignore})
    wide = x.astype(np.float64) if op == "NegativeLogLikelihoodLoss" else log_softmax(x.astype(np.float64))
    expected = [np.asarray(loss(wide, labels, weights, ignore, reduction)).astype(t)]
    if log:
        expected.append(wide.astype(t))
    tolerance = {np.float64: 1e-12, np.float32: 1e-5, np.float16: 2e-3, bfloat16: 1.6e-2}[t]
    f.add(name, op, {"x": x, "labels": labels, "weights": weights}, attributes=attributes, outputs=len(expected),
          expected=expected, opset=opset, relative=tolerance, absolute=tolerance)


for op, short_name in [("NegativeLogLikelihoodLoss", "nll"), ("SoftmaxCrossEntropyLoss", "sce")]:
    for reduction in ["none", "sum", "mean"]:
        add(f"{short_name}_{reduction}", op, (3, 5), reduction=reduction)
        add(f"{short_name}_{reduction}_weights", op, (2, 4, 3), reduction=reduction, weighted=True)
        add(f"{short_name}_{reduction}_ignore", op, (2, 4, 3, 2), reduction=reduction, ignore=1)
        add(f"{short_name}_{reduction}_ignore_negative", op, (4, 3), reduction=reduction, ignore=-1)
        add(f"{short_name}_{reduction}_ignore_out_of_range", op, (4, 3, 2), reduction=reduction, ignore=99, weighted=True)
    for t in [np.float16, np.float64]:
        add(f"{short_name}_{short(t)}", op, (3, 4, 2), t, weighted=True, opset=13)
    add(f"{short_name}_bf16", op, (3, 4, 2), bfloat16, weighted=True, ignore=2)
    add(f"{short_name}_i32_labels", op, (3, 4), index=np.int32, opset=12)
    add(f"{short_name}_one_class", op, (2, 1, 2))
    add(f"{short_name}_five_dimensions", op, (1, 2, 2, 1, 3), reduction="sum")
    add(f"{short_name}_no_samples_none", op, (0, 3, 2), reduction="none")
    add(f"{short_name}_no_samples_sum", op, (0, 3), reduction="sum")
    add(f"{short_name}_no_places", op, (2, 3, 0), reduction="none")
    x = rng.normal(size=(2, 3)).astype(np.float32)
    f.add(f"{short_name}_label_out_of_range", op, {"x": x, "labels": np.array([0, 3])}, fails=True)
    f.add(f"{short_name}_labels_of_another_shape", op, {"x": x, "labels": np.array([0, 1, 2])}, fails=True)
    f.add(f"{short_name}_unknown_reduction", op, {"x": x, "labels": np.array([0, 1])}, attributes={"reduction": "most"},
          fails=True)
add("sce_log_prob", "SoftmaxCrossEntropyLoss", (3, 5), log=True)
add("sce_log_prob_f16", "SoftmaxCrossEntropyLoss", (2, 3, 4), np.float16, log=True, opset=13)
add("sce_great_scores", "SoftmaxCrossEntropyLoss", (4, 6), scale=1000.0, log=True)
inf = np.inf
x = np.array([[inf, 0, 0], [-inf, 0, 1], [np.nan, 0, 0]], np.float32)
f.add("nll_extremes", "NegativeLogLikelihoodLoss", {"x": x, "labels": np.array([0, 0, 0])}, attributes={"reduction": "none"},
      expected=np.array([-inf, inf, np.nan], np.float32))
f.add("nll_extremes_ignored", "NegativeLogLikelihoodLoss", {"x": x, "labels": np.array([0, 0, 0])},
      attributes={"reduction": "none", "ignore_index": 0}, expected=np.zeros(3, np.float32))
f.write()
