"""Vectors of products with blocks of few bits whose left operand is rounded to 8 bits: `MatMulNBits` with an `accuracy_level` of 4.

Expected values are NumPy's by the definition, because ONNX Runtime's rounding depends on the processor.
"""
import numpy as np
from family import Family

f = Family("rounded", opset=17)
rng = np.random.default_rng(6)
MS = {"com.microsoft": 1}
f32 = np.float32


def random(*shape):
    return rng.normal(0, 1, shape).astype(f32)


def bytes_of(*shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def add(name, inputs, attributes, **how):
    how = {"relative": 1e-4, "absolute": 1e-4} | how
    f.add(name, "com.microsoft::MatMulNBits", inputs, attributes=attributes, opsets=MS, **how)


def rounded(x, block):
    """What the rounded numbers of a row stand for, block by block."""
    filled = np.pad(x.astype(f32), ((0, 0), (0, -x.shape[1] % block))).reshape(len(x), -1, block)
    scale = np.abs(filled).max(-1, keepdims=True) / f32(127)
    small = scale < np.finfo(f32).tiny
    scale = np.where(small, f32(1), scale)
    with np.errstate(invalid="ignore"):
        exact = np.rint(filled / scale).astype(np.float64) * scale
    return np.where(np.isfinite(scale), exact, np.nan).reshape(len(x), -1)[:, :x.shape[1]]


for bits, inner, block, zeros in [(4, 70, 32, None), (4, 96, 16, np.uint8), (4, 64, 32, f32), (8, 48, 16, np.uint8), (8, 130, 64, None),
                                  (2, 64, 32, np.uint8), (2, 40, 16, f32)]:
    columns, blocks = 19, -(-inner // block)
    a, scale = random(3, inner), rng.uniform(0.01, 0.1, (columns, blocks)).astype(f32)
    a[1, :block] = 0
    numbers = lambda v: (np.unpackbits(v, axis=-1, bitorder="little").reshape(columns, -1, bits) * (1 << np.arange(bits))).sum(-1)
    inputs = {"a": a, "b": bytes_of(columns, blocks, block * bits // 8), "s": scale}
    q, z = numbers(inputs["b"].reshape(columns, -1))[:, :inner], np.full((columns, blocks), 1 << (bits - 1))
    if zeros is f32:
        # What halves have as well.
        inputs["z"] = z = rng.uniform(0, 1 << bits, (columns, blocks)).astype(np.float16).astype(f32)
    elif zeros:
        inputs["z"] = bytes_of(columns, -(-blocks * bits // 8))
        z = numbers(inputs["z"])[:, :blocks]
    product = lambda a, s, of=np.arange(inner) // block: (a.astype(np.float64) @ ((q - z[:, of]) * s.astype(np.float64)[:, of]).T).astype(a.dtype)
    attributes = {"K": inner, "N": columns, "bits": bits, "block_size": block, "accuracy_level": 4}
    name, constants = f"of_{bits}_bits_{inner}_by_{block}", [k for k in inputs if k != "a"]
    add(name, inputs, attributes, expected=product(rounded(a, block), scale).astype(f32), constants=constants)
    add(f"{name}_given", inputs, attributes, expected=product(rounded(a, block), scale).astype(f32))
    bias = random(columns)
    add(f"{name}_of_a_row", {"a": a[:1]} | {k: inputs.get(k) for k in "bsz"} | {"g": None, "c": bias}, attributes,
        expected=(product(rounded(a[:1], block), scale) + bias).astype(f32), constants=constants)
    half = lambda k: inputs[k].astype(np.float16)
    add(f"{name}_f16", inputs | {k: half(k) for k in inputs if inputs[k].dtype == f32}, attributes,
        expected=product(rounded(half("a"), block), half("s")).astype(np.float16), constants=constants, relative=2e-3, absolute=2e-3)
    beyond = a.copy()
    beyond[2, inner - 1] = np.nan if zeros else -np.inf
    add(f"{name}_beyond", inputs | {"a": beyond}, attributes, expected=product(rounded(beyond, block), scale).astype(f32),
        constants=constants)
    if not zeros:
        # Numbers whose scales belong to other places are multiplied as they are.
        order = (np.arange(inner, dtype=np.int32) * 7 % inner) // block
        add(f"{name}_in_order", inputs | {"z": None, "order": order}, attributes, expected=product(a, scale, order).astype(f32))
f.add("of_unknown_level", "com.microsoft::MatMulNBits", inputs, attributes=attributes | {"accuracy_level": 5}, opsets=MS, fails=True)
f.write()
