"""Vectors of MatMul and Gemm, in f64 or in the integer type by NumPy."""
import numpy as np
from family import FLOATS, Family, bfloat16, short

f = Family("products")
rng = np.random.default_rng(19)
WIDE_INTS = [np.int32, np.int64, np.uint32, np.uint64]


def random(shape, t):
    if t in WIDE_INTS:
        info = np.iinfo(t)
        return rng.integers(info.min, info.max, shape, t, endpoint=True)
    return rng.normal(size=shape).astype(t)


def tolerance(t):
    t = {np.float64: 1e-12, np.float16: 2e-3, bfloat16: 1.6e-2}.get(t, 1e-5)
    return {"relative": t, "absolute": t}


def matmul(name, a, b, t=np.float32, opset=13):
    a, b = random(a, t), random(b, t)
    wide = [a, b] if t in WIDE_INTS else [a.astype(np.float64), b.astype(np.float64)]
    with np.errstate(all="ignore"):
        y = np.asarray(np.matmul(*wide)).astype(t)
    f.add(f"matmul_{name}", "MatMul", {"a": a, "b": b}, expected=y, opset=opset, **tolerance(t))


for name, a, b in [
    ("matrices", (2, 3), (3, 4)), ("row", (3,), (3, 4)), ("column", (2, 3), (3,)), ("vectors", (5,), (5,)),
    ("batch", (2, 3, 4), (2, 4, 5)), ("broadcast", (2, 1, 3, 4), (5, 4, 2)), ("batch_by_matrix", (2, 3, 4), (4, 5)),
    ("matrix_by_batch", (3, 4), (2, 4, 5)), ("row_by_batch", (4,), (2, 4, 5)), ("batch_by_column", (2, 3, 4), (4,)),
    ("no_inner", (2, 0), (0, 3)), ("no_rows", (0, 3), (3, 2)), ("no_columns", (2, 3), (3, 0)), ("no_batch", (0, 2, 3), (3, 4)),
    ("empty_vectors", (0,), (0,)), ("one", (1, 1), (1, 1)), ("tall", (33, 2), (2, 1)), ("long", (1, 257), (257, 1)),
    ("tiles", (17, 31), (31, 33)), ("five_dimensions", (2, 1, 2, 2, 3), (1, 3, 1, 3, 2)),
]:
    matmul(name, a, b)
for t in FLOATS + WIDE_INTS:
    matmul(f"of_{short(t)}", (3, 7), (7, 5), t)
    matmul(f"batch_of_{short(t)}", (2, 2, 3), (1, 3, 4), t)
matmul("opset_1", (2, 3), (3, 4), opset=1)
inf, nan = np.inf, np.nan
a = np.array([[inf, 1], [nan, 0], [0, -inf]], np.float32)
b = np.array([[0, 1], [1, 2]], np.float32)
with np.errstate(all="ignore"):
    f.add("matmul_extremes", "MatMul", {"a": a, "b": b}, expected=a @ b, opset=13)
f.add("matmul_inner_differs", "MatMul", {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}, fails=True)
f.add("matmul_batches_differ", "MatMul", {"a": np.ones((2, 3, 3), np.float32), "b": np.ones((3, 3, 3), np.float32)}, fails=True)
f.add("matmul_rank_0", "MatMul", {"a": np.float32(1), "b": np.ones((1, 1), np.float32)}, fails=True)


def gemm(name, a, b, c=None, t=np.float32, opset=13, alpha=1.0, beta=1.0, ta=0, tb=0, **extra):
    a, b, c = random(a, t), random(b, t), None if c is None else random(c, t)
    if t in WIDE_INTS:
        y = (a.T if ta else a) @ (b.T if tb else b) + c
    else:
        y = alpha * (a.astype(np.float64).T if ta else a.astype(np.float64)) @ (b.astype(np.float64).T if tb else b.astype(np.float64))
        y = y if c is None else y + beta * c.astype(np.float64)
    attributes = {k: v for k, v, d in [("alpha", alpha, 1.0), ("beta", beta, 1.0), ("transA", ta, 0), ("transB", tb, 0)] if v != d}
    f.add(f"gemm_{name}", "Gemm", {"a": a, "b": b, "c": c}, attributes=attributes | extra, expected=y.astype(t), opset=opset, **tolerance(t))


gemm("plain", (2, 3), (3, 4), (2, 4))
gemm("no_c", (2, 3), (3, 4))
gemm("row", (2, 3), (3, 4), (4,))
gemm("column", (2, 3), (3, 4), (2, 1))
gemm("scalar", (2, 3), (3, 4), ())
gemm("one", (2, 3), (3, 4), (1,))
gemm("scaled", (2, 3), (3, 4), (2, 4), alpha=0.5, beta=-0.25)
gemm("beta_of_zero", (2, 3), (3, 4), (2, 4), beta=0.0)
gemm("a", (3, 2), (3, 4), (4,), ta=1)
gemm("b", (2, 3), (4, 3), (4,), tb=1)
gemm("both", (3, 2), (4, 3), (2, 4), ta=1, tb=1, alpha=0.75)
gemm("no_inner", (2, 0), (0, 3), (3,))
gemm("no_rows", (0, 3), (3, 2), (2,))
gemm("opset_11", (2, 3), (3, 4), (4,), opset=11)
gemm("opset_9", (2, 3), (3, 4), (1, 4), opset=9)
gemm("opset_7", (2, 3), (3, 4), (2, 1), opset=7)
gemm("opset_6", (2, 3), (3, 4), (4,), opset=6, broadcast=1)
gemm("opset_1", (2, 3), (3, 4), (2, 4), opset=1)
for t in [np.float16, np.float64, bfloat16, *WIDE_INTS]:
    gemm(f"of_{short(t)}", (3, 4), (2, 4), (3, 2), t, tb=1)
f.add("gemm_of_three_dimensions", "Gemm", {"a": np.ones((1, 2, 3), np.float32), "b": np.ones((3, 2), np.float32)}, fails=True)
f.add("gemm_c_too_large", "Gemm", {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 2), np.float32), "c": np.ones((3, 2, 2), np.float32)}, fails=True)
f.write()
