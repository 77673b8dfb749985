"""The estimators and pipelines that are trained, exported and compared with their library's own predictions.

Each row says what is trained on which data, and how far the exported model may be from the library. Exported models hold
and compute 32-bit floats where the libraries have 64 bits, so that a prediction is off by the rounding of the sums that
make it: `SUMS` unless a row says more. `EXPLAINED` has what differs by more, and why.
"""
import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn import (calibration, cluster, compose, cross_decomposition, decomposition, discriminant_analysis, ensemble,
                     feature_selection, gaussian_process, impute, linear_model, mixture, multiclass,
                     multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import kernels
from xgboost import XGBClassifier, XGBRegressor, XGBRFClassifier, XGBRFRegressor

rng = np.random.default_rng(11)
TRAINED, TESTED = slice(0, 160), slice(160, 208)
ROWS, FEATURES = 208, 5
X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
SMALL_COUNTS = rng.integers(0, 6, (ROWS, FEATURES)).astype(np.float32)
SIGNAL = X[:, 0] * 1.5 - X[:, 1] + 0.5 * X[:, 2] * X[:, 3]
NOISE = rng.normal(0, 0.2, ROWS)
BINARY = (SIGNAL + NOISE > 0).astype(np.int64)
THREE = np.digitize(SIGNAL + NOISE, [-0.8, 0.8]).astype(np.int64)
WORDS = np.array(["low", "middle", "high"])[THREE]
LABELS = np.stack([BINARY, (X[:, 2] > 0).astype(np.int64), (X[:, 3] + X[:, 4] > 0.3).astype(np.int64)], axis=1)
NUMBER = (SIGNAL + NOISE).astype(np.float32)
NUMBERS = np.stack([NUMBER, X[:, 4] - NUMBER], axis=1)
COUNTS = rng.poisson(np.exp(0.3 * SIGNAL)).astype(np.float32)
HOLES = np.where(rng.random(X.shape) < 0.15, np.nan, X).astype(np.float32)
TEXTS = np.array([
    "The cat sat on the mat.", "A dog, a cat; and the mouse!", "Dogs chase cats & cats chase mice?", "mat mat MAT the-cat",
    "An example of text: 3 words or 33", "naïve café déjà vu", "the end", "to be or not to be", "a", "snake_case and CamelCase",
    "punctuation... everywhere!!", "tabs\tand\nlines", "x y z", "the quick brown fox jumps over the lazy dog", "42", "dog",
])
TOPICS = np.array([0, 1, 1, 0, 2, 2, 0, 2, 0, 2, 2, 2, 0, 1, 2, 1])
COLOURS = np.array(["red", "green", "blue", "grey"])[rng.integers(0, 4, ROWS)]
SIZES = np.array(["s", "m", "l"])[rng.integers(0, 3, ROWS)]

SUMS = (1e-4, 1e-5)
"""Relative and absolute: sums of some hundred products of 32-bit floats."""
EXACT = (0.0, 0.0)
"""Labels, counts, and numbers that are taken and not computed."""

CLASSIFIERS = {
    "logistic": linear_model.LogisticRegression(),
    "logistic_l1": linear_model.LogisticRegression(solver="saga", l1_ratio=1, max_iter=500, random_state=0),
    "logistic_cv": linear_model.LogisticRegressionCV(Cs=3, cv=3),
    "sgd_log": linear_model.SGDClassifier(loss="log_loss", random_state=0),
    "sgd_huber": linear_model.SGDClassifier(loss="modified_huber", random_state=0),
    "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
    "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "gaussian_nb": naive_bayes.GaussianNB(),
    "tree": tree.DecisionTreeClassifier(max_depth=6, random_state=0),
    "extra_tree": tree.ExtraTreeClassifier(max_depth=6, random_state=0),
    "forest": ensemble.RandomForestClassifier(12, max_depth=6, random_state=0),
    "extra_trees": ensemble.ExtraTreesClassifier(12, max_depth=6, random_state=0),
    "boosting": ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0),
    "hist_boosting": ensemble.HistGradientBoostingClassifier(max_iter=12, random_state=0),
    "adaboost": ensemble.AdaBoostClassifier(n_estimators=8, random_state=0),
    "bagging": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), 6, random_state=0),
    "mlp": neural_network.MLPClassifier((8,), max_iter=200, random_state=0),
    "mlp_logistic": neural_network.MLPClassifier((6, 4), activation="logistic", max_iter=200, random_state=0),
    "knn": neighbors.KNeighborsClassifier(5),
    "knn_distance": neighbors.KNeighborsClassifier(4, weights="distance"),
    "knn_manhattan": neighbors.KNeighborsClassifier(5, metric="manhattan"),
    "svc_rbf": svm.SVC(probability=True, random_state=0),
    "svc_poly": svm.SVC(kernel="poly", degree=2, probability=True, random_state=0),
    "svc_linear": svm.SVC(kernel="linear", probability=True, random_state=0),
    "svc_sigmoid": svm.SVC(kernel="sigmoid", probability=True, random_state=0),
    "nu_svc": svm.NuSVC(nu=0.3, probability=True, random_state=0),
    "calibrated_sigmoid": calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), method="sigmoid", cv=3),
    "calibrated_isotonic": calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), method="isotonic", cv=3),
    "one_vs_rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "voting_soft": ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], voting="soft",
        flatten_transform=False),
    "stacking": ensemble.StackingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=3),
    "lightgbm": LGBMClassifier(n_estimators=8, num_leaves=8, verbose=-1),
    "lightgbm_dart": LGBMClassifier(n_estimators=8, num_leaves=8, boosting_type="dart", verbose=-1),
    "xgboost": XGBClassifier(n_estimators=8, max_depth=3),
    "xgboost_rf": XGBRFClassifier(n_estimators=8, max_depth=3),
}
"""Classifiers with probabilities, each of two classes and of three."""

DECISIONS = {
    "linear_svc": svm.LinearSVC(random_state=0),
    "ridge_classifier": linear_model.RidgeClassifier(),
    "ridge_classifier_cv": linear_model.RidgeClassifierCV(),
    "perceptron": linear_model.Perceptron(random_state=0),
    "sgd_hinge": linear_model.SGDClassifier(random_state=0),
    "svc_scores": svm.SVC(decision_function_shape="ovr"),
}
"""Classifiers with scores that are no probabilities."""

OF_SMALL_COUNTS = {
    "multinomial_nb": naive_bayes.MultinomialNB(),
    "complement_nb": naive_bayes.ComplementNB(),
    "categorical_nb": naive_bayes.CategoricalNB(min_categories=6),
    "bernoulli_nb": naive_bayes.BernoulliNB(),
}
OF_LABELS = {
    "labels_knn": neighbors.KNeighborsClassifier(3),
    "labels_rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "labels_mlp": neural_network.MLPClassifier((6,), max_iter=200, random_state=0),
    "labels_forest": ensemble.RandomForestClassifier(6, max_depth=4, random_state=0),
    "labels_multi_output": multioutput.MultiOutputClassifier(linear_model.LogisticRegression()),
}
"""Classifiers of several labels at once."""

REGRESSORS = {
    "linear": linear_model.LinearRegression(),
    "ridge_cv": linear_model.RidgeCV(),
    "lasso_lars": linear_model.LassoLars(alpha=0.01),
    "lars": linear_model.Lars(),
    "omp": linear_model.OrthogonalMatchingPursuit(),
    "elastic_net_cv": linear_model.ElasticNetCV(cv=3),
    "huber": linear_model.HuberRegressor(),
    "theil_sen": linear_model.TheilSenRegressor(random_state=0),
    "quantile": linear_model.QuantileRegressor(alpha=0.01),
    "bayesian_ridge": linear_model.BayesianRidge(),
    "ard": linear_model.ARDRegression(),
    "sgd": linear_model.SGDRegressor(random_state=0),
    "svr_rbf": svm.SVR(),
    "svr_poly": svm.SVR(kernel="poly", degree=2),
    "nu_svr": svm.NuSVR(nu=0.3),
    "linear_svr": svm.LinearSVR(random_state=0),
    "tree": tree.DecisionTreeRegressor(max_depth=6, random_state=0),
    "forest": ensemble.RandomForestRegressor(12, max_depth=6, random_state=0),
    "hist_boosting": ensemble.HistGradientBoostingRegressor(max_iter=12, random_state=0),
    "adaboost": ensemble.AdaBoostRegressor(n_estimators=6, random_state=0),
    "bagging": ensemble.BaggingRegressor(tree.DecisionTreeRegressor(max_depth=4), 6, random_state=0),
    "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=300, random_state=0),
    "knn_distance": neighbors.KNeighborsRegressor(4, weights="distance"),
    "knn_chebyshev": neighbors.KNeighborsRegressor(4, metric="minkowski", p=1),
    "gp_rational": gaussian_process.GaussianProcessRegressor(kernels.RationalQuadratic() + kernels.WhiteKernel(0.1), alpha=0.1),
    "stacking": ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))], cv=3),
    "lightgbm": LGBMRegressor(n_estimators=8, num_leaves=8, verbose=-1),
    "lightgbm_rf": LGBMRegressor(
        n_estimators=8, num_leaves=8, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, verbose=-1),
    "lightgbm_dart": LGBMRegressor(n_estimators=8, num_leaves=8, boosting_type="dart", verbose=-1),
    "lightgbm_huber": LGBMRegressor(n_estimators=8, num_leaves=8, objective="huber", verbose=-1),
    "xgboost": XGBRegressor(n_estimators=8, max_depth=3),
    "xgboost_rf": XGBRFRegressor(n_estimators=8, max_depth=3),
}
"""Regressors of one number."""

OF_COUNTS = {
    "poisson": linear_model.PoissonRegressor(),
    "gamma_link": linear_model.TweedieRegressor(power=1.5, link="log"),
    "hist_poisson": ensemble.HistGradientBoostingRegressor(max_iter=8, loss="poisson", random_state=0),
    "lightgbm_poisson": LGBMRegressor(n_estimators=8, num_leaves=8, objective="poisson", verbose=-1),
    "lightgbm_tweedie": LGBMRegressor(n_estimators=8, num_leaves=8, objective="tweedie", verbose=-1),
    "xgboost_poisson": XGBRegressor(n_estimators=8, max_depth=3, objective="count:poisson"),
    "xgboost_tweedie": XGBRegressor(n_estimators=8, max_depth=3, objective="reg:tweedie"),
}
"""Regressors of counts."""

OF_SEVERAL = {
    "multi_task_lasso": linear_model.MultiTaskLasso(alpha=0.01),
    "multi_task_elastic_net": linear_model.MultiTaskElasticNet(alpha=0.01),
    "multi_output": multioutput.MultiOutputRegressor(linear_model.Ridge()),
    "extra_trees": ensemble.ExtraTreesRegressor(8, max_depth=5, random_state=0),
    "knn": neighbors.KNeighborsRegressor(3),
    "pls": cross_decomposition.PLSRegression(2),
}
"""Regressors of two numbers."""

TRANSFORMERS = {
    "standard": (preprocessing.StandardScaler(), X),
    "standard_no_mean": (preprocessing.StandardScaler(with_mean=False), X),
    "max_abs": (preprocessing.MaxAbsScaler(), X),
    "min_max_clip": (preprocessing.MinMaxScaler((-1, 1), clip=True), X),
    "robust": (preprocessing.RobustScaler(quantile_range=(10, 90)), X),
    "power": (preprocessing.PowerTransformer(), X),
    "normalizer_l1": (preprocessing.Normalizer("l1"), X),
    "normalizer_max": (preprocessing.Normalizer("max"), X),
    "bins": (preprocessing.KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), X),
    "bins_one_hot": (preprocessing.KBinsDiscretizer(3, encode="onehot-dense", strategy="quantile", quantile_method="averaged_inverted_cdf"), X),
    "polynomial": (preprocessing.PolynomialFeatures(3, interaction_only=True), X),
    "log": (preprocessing.FunctionTransformer(), POSITIVE),
    "imputer_mean": (impute.SimpleImputer(), HOLES),
    "imputer_constant": (impute.SimpleImputer(strategy="constant", fill_value=-3.0), HOLES),
    "imputer_knn": (impute.KNNImputer(n_neighbors=3), HOLES),
    "pca": (decomposition.PCA(3), X),
    "pca_whiten": (decomposition.PCA(3, whiten=True), X),
    "truncated_svd": (decomposition.TruncatedSVD(3, random_state=0), X),
    "kernel_pca": (decomposition.KernelPCA(3, kernel="rbf", gamma=0.1), X),
    "variance": (feature_selection.VarianceThreshold(0.9), X),
    "k_best": (feature_selection.SelectKBest(k=2), X),
    "percentile": (feature_selection.SelectPercentile(percentile=50), X),
    "from_model": (feature_selection.SelectFromModel(linear_model.LogisticRegression()), X),
    "rfe": (feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=3), X),
}
"""What changes features, by the data."""

CLUSTERS = {
    "k_means": cluster.KMeans(4, n_init=2, random_state=0),
}
OUTLIERS = {
    "isolation_forest": ensemble.IsolationForest(n_estimators=10, random_state=0),
    "one_class_svm": svm.OneClassSVM(nu=0.2),
    "local_outlier": neighbors.LocalOutlierFactor(5, novelty=True),
}
MIXTURES = {
    "mixture_full": mixture.GaussianMixture(3, random_state=0),
    "mixture_diagonal": mixture.GaussianMixture(3, covariance_type="diag", random_state=0),
    "mixture_bayesian": mixture.BayesianGaussianMixture(n_components=3, random_state=0),
}
OF_DOUBLES = ["linear", "ridge_cv", "gp_rational", "mlp", "knn_distance"]
"""Regressors of 64-bit data."""

WORD = "[a-zA-Z]+"
VECTORIZERS = {
    "count": CountVectorizer(token_pattern="[a-zA-Z0-9_]+"),
    "count_default": CountVectorizer(),
    "count_binary": CountVectorizer(token_pattern="[a-z]+", binary=True),
    "count_stop_words": CountVectorizer(token_pattern=WORD, stop_words=["the", "a", "on"]),
    "count_characters": CountVectorizer(analyzer="char"),
    "tfidf": TfidfVectorizer(token_pattern=WORD),
    "tfidf_pairs": TfidfVectorizer(token_pattern=WORD, ngram_range=(1, 2)),
    "tfidf_triples": TfidfVectorizer(token_pattern=WORD, ngram_range=(3, 3)),
    "tfidf_sublinear": TfidfVectorizer(token_pattern="[a-zA-Z0-9]+", sublinear_tf=True, norm="l1"),
    "tfidf_cased": TfidfVectorizer(token_pattern="[a-zA-Z]{2,}", lowercase=False, smooth_idf=False),
    "tfidf_characters": TfidfVectorizer(analyzer="char", ngram_range=(2, 2)),
}
OF_TEXTS = {
    "logistic": linear_model.LogisticRegression(),
    "naive_bayes": naive_bayes.MultinomialNB(),
    "forest": ensemble.RandomForestClassifier(8, max_depth=4, random_state=0),
}


def columns(encoder, last, numbers=("n0", "n1", "n2"), filled=True):
    """A pipeline of numbers, which are filled up and scaled, and texts, which are encoded."""
    steps = pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), preprocessing.StandardScaler())
    parts = [("n", steps if filled else "passthrough", list(numbers)), ("t", encoder, ["colour", "size"])]
    return pipeline.make_pipeline(compose.ColumnTransformer(parts if numbers else parts[1:]), last)


OF_COLUMNS = {
    "one_hot": columns(
        preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False), linear_model.LogisticRegression()),
    "one_hot_dropped": columns(
        preprocessing.OneHotEncoder(drop="first", sparse_output=False), linear_model.LogisticRegression()),
    "ordinal": columns(preprocessing.OrdinalEncoder(), ensemble.ExtraTreesClassifier(6, max_depth=4, random_state=0)),
    "holes_to_boosting": columns(
        preprocessing.OrdinalEncoder(), ensemble.HistGradientBoostingRegressor(max_iter=8, random_state=0), filled=False),
    "texts_to_ridge": columns(preprocessing.OneHotEncoder(sparse_output=False), linear_model.Ridge(), numbers=()),
}
