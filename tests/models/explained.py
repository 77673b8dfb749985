"""What differs between exported models and their libraries by more than the rounding of sums, and why."""

EXPLAINED = {
    # ONNX's definition: 32-bit floats.
    "gp_rational_regression": (
        1e-2, 0.3,
        "the kernel is (1 + d / (2 a l²)) to the power of -a with a = 100000: 32-bit floats keep two digits of d beside the 1"),
}
"""Tolerances beyond those of sums: relative, absolute, and the reason in what ONNX's definition says of the exported operators."""

EXPORTED_OTHERWISE = {
    "lda_binary": "the exporter writes a softmax of both signs of the score, which is the logistic function of twice the score",
    "knn_distance_binary": "the exporter takes 1 over the greater of the negated distance and 0.000001, so that all weights are equal",
    "knn_distance_three": "the exporter takes 1 over the greater of the negated distance and 0.000001, so that all weights are equal",
    "knn_distance_regression": "the exporter takes 1 over the greater of the negated distance and 0.000001, so that all weights are equal",
    "knn_distance_doubles": "the exporter takes 1 over the greater of the negated distance and 0.000001, so that all weights are equal",
    "calibrated_isotonic_binary": "the exporter takes the nearest threshold where the library draws a line between two",
    "calibrated_isotonic_three": "the exporter takes the nearest threshold where the library draws a line between two",
    "sgd_huber_three": "the exporter takes labels from clipped probabilities, of which several are equal, the library from scores",
    "lightgbm_rf_regression": "the exporter sums the trees where the library averages them",
    "xgboost_rf_three": "the exporter takes every tree of a round for one of another class",
    "hist_poisson_regression": "the exporter leaves out the exponential function, which is the inverse of the link",
    "text_count_default": "the exporter writes `[a-zA-Z0-9_]+` for the default pattern, which takes no words of one letter",
    "text_tfidf_sublinear": "the exporter writes log(1 + n) where the library computes 1 + log(n)",
}
"""Models that are not what was trained: they are compared with ONNX Runtime's outputs of them, as the library's say nothing of them."""
