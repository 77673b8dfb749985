"""Makes the vectors by which errors of element-wise functions are measured.

    python tests/data/accuracy/make.py

needs mpmath alone. A file `FUNCTION.TYPE` holds, for each argument, three little-endian numbers of type f64: the
argument, the value, and what the value lacks. Arguments are numbers of the type. They are spread over exponents and over the
interval in which the function changes; some are chosen where it is hard to compute.
"""

import random
import struct
from pathlib import Path

from mpmath import mp, mpf

mp.prec = 1400  # The greatest f64 angles need 1,024 bits before the point.

# The bits of the significand, the least exponent of a normal number and the greatest exponent, of each type.
TYPES = {"f64": (53, -1022, 1023, 260), "f32": (24, -126, 127, 260), "f16": (11, -14, 15, 130), "bf16": (8, -126, 127, 130)}


def rounded(x, kind):
    """Returns the nearest number of a type, or None beyond its range."""
    digits, least, greatest, _ = TYPES[kind]
    x = mpf(x)
    if x == 0:
        return mpf(0)
    exponent = max(int(mp.floor(mp.log(abs(x), 2))), least) - digits + 1
    y = mp.nint(mp.ldexp(x, -exponent)) * mpf(2) ** exponent
    return y if 0 < abs(y) < mpf(2) ** (greatest + 1) else None


def gelu_tanh(x):
    u = 2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)
    return x / (1 + mp.exp(-u))


def times_logistic(x, size):
    return x / (1 + mp.exp(-size))


QUARTERS = [k * mp.pi / 2 for k in (1, 2, 3, 4, 7, 11, 64, 355, 1001, 65535, 10**6 + 1)]
# The angles that are nearest to a multiple of a quarter turn, of f64 and of f32. Source: Muller, Elementary Functions, 11.3.
HARD = [mpf(6381956970095103) * mpf(2) ** 797, mpf(16367173) * mpf(2) ** 72, mpf(5.319372648326541e255)]

# Each function, the interval of its changes, and hard arguments.
FUNCTIONS = {
    "exp": (mp.exp, -745, 709, [mpf(2) ** -30, 88, -87, -103, -708]),
    "log": (mp.log, 0, 4, [1 + mpf(2) ** -7, 1 - mpf(2) ** -7, 1 + mpf(2) ** -20, 1 - mpf(2) ** -20, mpf(2) ** -1050]),
    "sqrt": (mp.sqrt, 0, 100, [2, 3]),
    "sin": (mp.sin, -20, 20, QUARTERS + HARD),
    "cos": (mp.cos, -20, 20, QUARTERS + HARD),
    "tan": (mp.tan, -20, 20, QUARTERS + HARD),
    "asin": (mp.asin, -1, 1, [0.5, 1 - mpf(2) ** -10, 1 - mpf(2) ** -24, mpf(2) ** -12]),
    "acos": (mp.acos, -1, 1, [0.5, 1 - mpf(2) ** -10, 1 - mpf(2) ** -24, -1 + mpf(2) ** -10]),
    "atan": (mp.atan, -5, 5, [0.4375, 0.6875, 1.1875, 2.4375]),
    "sinh": (mp.sinh, -89, 89, [0.3, 1, 22, 709.9]),
    "cosh": (mp.cosh, -89, 89, [0.3, 1, 22, 709.9]),
    "tanh": (mp.tanh, -20, 20, [0.05, 0.3, 0.55]),
    "asinh": (mp.asinh, -10, 10, [mpf(2) ** -12, 2, mpf(2) ** 28]),
    "acosh": (mp.acosh, 1, 10, [1 + mpf(2) ** -7, 1 + mpf(2) ** -20, 2, mpf(2) ** 28]),
    "atanh": (mp.atanh, -1, 1, [0.5, 1 - mpf(2) ** -10, 1 - mpf(2) ** -24]),
    "expm1": (mp.expm1, -40, 90, [mpf(2) ** -10, -0.3, 0.35, 0.7]),
    "log1p": (lambda x: mp.log(1 + x), -1, 5, [mpf(2) ** -10, -mpf(2) ** -10, -1 + mpf(2) ** -10]),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), -110, 40, [-2, -3.4, -700]),
    "softplus": (lambda x: mp.log(1 + mp.exp(x)), -110, 40, [-0.5, -3.4, -700]),
    "erf": (mp.erf, -7, 7, [0.47, 0.84375, 0.92, 1, 1.25]),
    "gelu": (lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, -14, 10, [-2.2, -10, -37, -0.7]),
    "gelu_tanh": (gelu_tanh, -11, 10, [-2.2, -10, -20, -0.7]),
    "swish": (lambda x: x / (1 + mp.exp(-x)), -110, 40, [-2, -3.2, -91, -700]),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), -40, 5, [-0.3, -mpf(2) ** -12]),
}


def arguments(name, kind):
    _, low, high, hard = FUNCTIONS[name]
    digits, least, greatest, count = TYPES[kind]
    draw = random.Random(f"{name}.{kind}")
    found = set()
    for x in hard:
        x = rounded(x, kind)
        if x is not None:
            step = mpf(2) ** (int(mp.floor(mp.log(abs(x), 2))) - digits + 1)
            found.update([x, x + step, x - step])
    # Two in three are in the interval of changes, the others have any exponent.
    while len(found) < count:
        if draw.random() < 2 / 3:
            x = rounded(draw.uniform(float(low), float(high)), kind)
        else:
            x = rounded(draw.choice([-1, 1]) * draw.uniform(1, 2) * mpf(2) ** draw.randint(least, greatest), kind)
        if x is not None:
            found.add(x)
    return sorted(found)


def main():
    here = Path(__file__).parent
    for name, (function, *_) in FUNCTIONS.items():
        for kind, (digits, least, greatest, _) in TYPES.items():
            rows = []
            for x in arguments(name, kind):
                # Exponentials of what is far beyond the range need not be computed.
                if abs(x) > 2000 and name not in ("log", "log1p", "sqrt", "sin", "cos", "tan", "atan", "asinh", "acosh"):
                    continue
                y = function(x)
                if mp.im(y) != 0 or mp.isnan(y) or mp.isinf(y):
                    continue
                y = mp.re(y)
                # Results that overflow or are not normal numbers are another matter.
                if not mpf(2) ** least <= abs(y) < mpf(2) ** greatest:
                    continue
                high = float(y)
                rows.append(struct.pack("<ddd", float(x), high, float(y - mpf(high))))
            (here / f"{name}.{kind}").write_bytes(b"".join(rows))


if __name__ == "__main__":
    main()
