"""Vectors of functions of single elements over the whole range of every float type.

NumPy computes the definitions in long double (64 bits of precision on x86-64) and rounds once. Where a definition is
a product of infinity and zero, or a difference of infinities, the result is NaN, as IEEE 754 has it. The plain
functions are held to a few units in the last place rather than to ONNX's tolerance.
"""
import math

import numpy as np
import onnx
from family import FLOATS, INTS, Family, bfloat16, short
from onnx import helper

f = Family("elementwise")
L = np.longdouble
nan, inf = np.nan, np.inf


def erf(x):
    return np.array([math.erf(v) for v in x], L)


def erfc(x):
    return np.array([math.erfc(v) for v in x], L)


def sigmoid(x):
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


PLAIN = {
    "Abs": np.abs, "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh, "Atan": np.arctan,
    "Atanh": np.arctanh, "Ceil": np.ceil, "Cos": np.cos, "Cosh": np.cosh, "Erf": erf, "Exp": np.exp, "Floor": np.floor,
    "Log": np.log, "Neg": np.negative, "Reciprocal": lambda x: 1 / x, "Relu": lambda x: np.maximum(x, 0),
    "Round": np.round, "Sigmoid": sigmoid, "Sign": np.sign, "Sin": np.sin, "Sinh": np.sinh, "Sqrt": np.sqrt,
    "Tan": np.tan, "Tanh": np.tanh,
}
ALPHA, GAMMA = L(1.67326319217681884765625), L(1.05070102214813232421875)
COMPOSED = {
    "celu": ("Celu", {"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(2 * np.expm1(x / 2), 0)),
    "elu": ("Elu", {"alpha": 0.5}, lambda x: np.where(x < 0, np.expm1(x) / 2, x)),
    "gelu": ("Gelu", {}, lambda x: x * erfc(-x / np.sqrt(L(2))) / 2),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"},
                  lambda x: x * (1 + np.tanh(np.sqrt(2 / L(np.pi)) * (x + L("0.044715") * x**3))) / 2),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 0.25, "beta": 0.5}, lambda x: np.clip(x / 4 + L(0.5), 0, 1)),
    "hard_swish": ("HardSwish", {}, lambda x: x * np.clip(x / 6 + L(0.5), 0, 1)),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.125}, lambda x: np.where(x < 0, x / 8, x)),
    "mish": ("Mish", {}, lambda x: x * np.tanh(softplus(x))),
    "selu": ("Selu", {}, lambda x: GAMMA * np.where(x > 0, x, ALPHA * np.expm1(x))),
    "shrink": ("Shrink", {"lambd": 1.5, "bias": 0.5},
               lambda x: np.where(x < -1.5, x + L(0.5), np.where(x > 1.5, x - L(0.5), 0))),
    "softplus": ("Softplus", {}, softplus),
    "softsign": ("Softsign", {}, lambda x: x / (1 + np.abs(x))),
    "swish": ("Swish", {"alpha": 2.0}, lambda x: x * sigmoid(2 * x)),
    "thresholded_relu": ("ThresholdedRelu", {"alpha": 0.75}, lambda x: np.where(x > 0.75, x, 0)),
}


def points(dtype):
    """Numbers from everywhere: the limits, neighbours of 0 and 1, halves, and random ones of every magnitude."""
    limits = np.finfo(dtype) if dtype != bfloat16 else __import__("ml_dtypes").finfo(dtype)
    big, small, least = float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)
    eps = float(limits.eps)
    rng = np.random.default_rng(7)
    low, high = math.log10(small), math.log10(big)
    sizes = 10 ** rng.uniform(low, high, 24) * rng.choice([-1, 1], 24)
    near = rng.uniform(-12, 12, 24)
    fixed = [0, least, small, 1e-6, 1e-3, 0.5, 1 - eps, 1, 1 + eps, 1.5, 2, 2.5, 3, 3.5, 4.25, 20, 87, 88.5, 89.25, 700, big]
    with np.errstate(all="ignore"):
        return np.array([nan, inf, -inf, *fixed, *[-v for v in fixed], *sizes, *near]).astype(dtype)


def allowed(op, dtype):
    schema = onnx.defs.get_schema(op)
    name = helper.tensor_dtype_to_string(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    wanted = f"tensor({name.removeprefix('TensorProto.').lower().replace('float64', 'double')})"
    constraint = next(c for c in schema.type_constraints if c.type_param_str == schema.inputs[0].type_str)
    return wanted in constraint.allowed_type_strs


def rounded(y, dtype):
    """Rounds long doubles once."""
    if dtype in (np.float32, np.float64):
        return np.asarray(y, L).astype(dtype)
    # ml_dtypes and NumPy round f16 and bf16 from f64; 53 bits of one value in ten million would round twice.
    return np.asarray(y, np.float64).astype(dtype)


with np.errstate(all="ignore"):
    for t in FLOATS:
        x = points(t)
        wide = x.astype(np.float64).astype(L)
        # Eight units in the last place, and as many of the least numbers.
        exact = {np.float32: (1e-6, 1e-44), np.float64: (2e-15, 4e-323), np.float16: (1e-3, 1.2e-7), bfloat16: (None, 1e-39)}[t]
        for op, function in PLAIN.items():
            if allowed(op, t):
                f.add(f"{op.lower()}_{short(t)}", op, {"x": x}, expected=rounded(function(wide), t),
                      relative=exact[0], absolute=exact[1])
        for name, (op, attributes, function) in COMPOSED.items():
            if allowed(op, t):
                f.add(f"{name}_{short(t)}", op, {"x": x}, attributes=attributes, expected=rounded(function(wide), t))
        f.add(f"is_nan_{short(t)}", "IsNaN", {"x": x}, expected=np.isnan(x))
        if allowed("IsInf", t):
            f.add(f"is_inf_{short(t)}", "IsInf", {"x": x}, expected=np.isinf(x))
            f.add(f"is_positive_inf_{short(t)}", "IsInf", {"x": x}, attributes={"detect_negative": 0}, expected=x == inf)
            f.add(f"is_negative_inf_{short(t)}", "IsInf", {"x": x}, attributes={"detect_positive": 0}, expected=x == -inf)
        slope = np.array([[2], [0.5], [-1]], t)
        signed = np.array([[-1, 2, nan], [-inf, -0.0, 3], [-4, inf, 5]], t)
        f.add(f"prelu_{short(t)}", "PRelu", {"x": signed, "slope": slope},
              expected=np.where(signed < 0, signed * slope, signed).astype(t))
    for t in INTS:
        info = np.iinfo(t)
        x = np.array([info.min, info.min + 1, 0, 1, 5, info.max], t)
        f.add(f"abs_{short(t)}", "Abs", {"x": x}, expected=np.abs(x))
        f.add(f"sign_{short(t)}", "Sign", {"x": x}, expected=np.sign(x))
        # By the formula in numbers, then truncated; ONNX's definition by other operators would truncate the bias first, and has
        # none for unsigned integers.
        x = np.array([-5 if info.min else 5, 0, 1, 2, 3, 100], t)
        for name, bias, lambd in [("soft", 1.5, 1.5), ("below", 0.25, -1.5), ("whole", 2.0, 2.0)]:
            wide = x.astype(np.float64)
            y = np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0))
            f.add(f"shrink_{name}_{short(t)}", "Shrink", {"x": x}, attributes={"bias": bias, "lambd": lambd}, expected=np.trunc(y).astype(np.int64).astype(t))
        x = np.array([info.min, info.min + 1, 0, 1, 5, info.max], t)
        if info.min:
            f.add(f"neg_{short(t)}", "Neg", {"x": x}, expected=-x)
            f.add(f"relu_{short(t)}", "Relu", {"x": x}, expected=np.maximum(x, 0))
    for op, function in [("Exp", np.exp), ("Tanh", np.tanh), ("Round", np.round), ("Sin", np.sin)]:
        f.add(f"{op.lower()}_rank_0", op, {"x": np.float32(0.5)}, expected=function(np.float32(0.5)))
        f.add(f"{op.lower()}_of_nothing", op, {"x": np.zeros((2, 0, 3))}, expected=np.zeros((2, 0, 3)))
f.write()
