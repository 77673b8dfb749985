"""Vectors of Einsum; `numpy.einsum` computes them, in f64 or in the integer type."""
import numpy as np
from family import Family, INTS, bfloat16, short

f = Family("einsum")
rng = np.random.default_rng(5)


def add(name, equation, *shapes, t=np.float32, opset=12):
    xs = []
    for shape in shapes:
        if np.dtype(t).kind in "iu" and t is not bfloat16:
            info = np.iinfo(t)
            xs.append(rng.integers(info.min, info.max, shape, t, endpoint=True))
        else:
            xs.append(rng.normal(size=shape).astype(t))
    wide = xs if t in INTS else [x.astype(np.float64) for x in xs]
    with np.errstate(all="ignore"):
        y = np.asarray(np.einsum(equation, *wide, optimize=False)).astype(t)
    tolerance = {np.float64: 1e-11, np.float16: 2e-3, bfloat16: 1.6e-2}.get(t, 1e-5)
    f.add(name, "Einsum", {f"x{i}": x for i, x in enumerate(xs)}, attributes={"equation": equation}, expected=y, opset=opset,
          relative=tolerance, absolute=tolerance)


add("copy", "ij->ij", (2, 3))
add("transpose", "ij->ji", (2, 3))
add("implicit_transpose", "ba", (2, 3))
add("implicit_by_the_alphabet", "cAb", (2, 3, 4))
add("sum_of_all", "ijk->", (2, 3, 4))
add("sum_of_rows", "ij->i", (2, 3))
add("diagonal", "ii->i", (4, 4))
add("trace", "ii", (4, 4))
add("diagonal_of_three", "iii->i", (3, 3, 3))
add("two_diagonals", "ijij->ji", (2, 3, 2, 3))
add("batched_diagonal", "...ii->...i", (2, 3, 4, 4))
add("product", "ij,jk->ik", (2, 3), (3, 4))
add("product_implicit", "ij,jk", (2, 3), (3, 4))
add("product_of_transposed", "ji,kj->ki", (3, 2), (4, 3))
add("batched_product", "bij,bjk->bik", (2, 3, 4), (2, 4, 5))
add("attention", "bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4))
add("ellipsis_product", "...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2))
add("ellipsis_of_different_ranks", "...a,b...->...ab", (3, 2), (4, 2, 3))
add("ellipsis_in_the_middle", "a...b->b...a", (2, 3, 4, 5))
add("ellipsis_implicit", "...ij,...jk", (2, 3, 4), (2, 4, 2))
add("ellipsis_of_nothing", "...,...->...", (), ())
add("outer", "i,j->ij", (3,), (4,))
add("inner", "i,i", (5,), (5,))
add("elementwise", "ij,ij->ij", (2, 3), (2, 3))
add("three_operands", "ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
add("three_with_shared_label", "i,ij,ik->jk", (2,), (2, 3), (2, 4))
add("four_operands", "a,ab,bc,c->", (2,), (2, 3), (3, 4), (4,))
add("bilinear", "bi,oij,bj->bo", (2, 3), (4, 3, 5), (2, 5))
add("sums_in_one_operand_alone", "ij,kl->k", (2, 3), (4, 5))
add("scalars", ",->", (), ())
add("scalar_times_matrix", ",ij->ji", (), (2, 3))
add("spaces", " i j , j k -> i k ", (2, 3), (3, 4))
add("capital_letters", "aB,Bc->ca", (2, 3), (3, 4))
add("diagonal_in_product", "ii,ij->j", (3, 3), (3, 4))
add("zero_inner", "ij,jk->ik", (2, 0), (0, 3))
add("zero_outer", "ij,jk->ik", (0, 3), (3, 2))
add("zero_batch", "bij,bjk->bik", (0, 2, 3), (0, 3, 2))
add("broadcast_of_one", "ij,jk->ik", (2, 1), (3, 4))
for t in INTS + [np.float16, np.float64]:
    add(f"product_{short(t)}", "ij,jk->ki", (2, 3), (3, 4), t=t)
    add(f"trace_{short(t)}", "ii->", (3, 3), t=t)
add("product_bf16", "bij,bjk->bik", (2, 3, 4), (2, 4, 2), t=bfloat16, opset=28)
x = np.array([[np.inf, 1], [np.nan, -np.inf]], np.float32)
f.add("extremes", "Einsum", {"x": x, "y": np.ones((2, 2), np.float32)}, attributes={"equation": "ij,jk->ik"}, expected=x @ np.ones((2, 2), np.float32), opset=12)
for name, equation, shapes in [
    ("too_few_terms", "ij->ij", [(2, 3), (3, 2)]), ("rank_differs", "ijk->i", [(2, 3)]), ("unknown_output", "ij->k", [(2, 3)]),
    ("output_twice", "ij->ii", [(2, 2)]), ("extents_differ", "ij,jk->ik", [(2, 3), (4, 2)]), ("no_square", "ii->i", [(2, 3)]),
    ("no_letter", "i1->i", [(2, 3)]), ("two_ellipses", "...i...->i", [(2, 3)]),
]:
    f.add(name, "Einsum", {f"x{i}": np.ones(s, np.float32) for i, s in enumerate(shapes)}, attributes={"equation": equation},
          fails=True, opset=12)
f.write()
