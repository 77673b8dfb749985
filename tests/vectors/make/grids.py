"""Vectors of GridSample, AffineGrid and DeformConv.

ONNX's evaluator decides, on `float32` or `float64`; it forms the weights of other types in those types, so that they
are computed on floats and cast. It has DeformConv in two dimensions and for images of more than one row and column
alone; the loops here are the definition for the others.
"""
import itertools

import ml_dtypes
import numpy as np
from family import FLOATS, INTS, Family, short
from onnx.reference import ReferenceEvaluator
from onnx import helper, TensorProto

f = Family("grids")
random = np.random.default_rng(2)
FAR = 100.0


def evaluated(op, inputs, **attributes):
    names = list(inputs)
    node = helper.make_node(op, names, ["y"], **attributes)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in [*names, "y"]]
    graph = helper.make_graph([node], "g", ports[:-1], ports[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return ReferenceEvaluator(model).run(None, inputs)[0]


def cubic_at_the_border(x, grid, centres):
    """Cubic interpolation in which each element of the neighbourhood is moved to the border, as PyTorch and ONNX Runtime 1.32 do.
    ONNX's evaluator moves the position there instead."""
    def weight(d, a=-0.75):
        d = abs(d)
        return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0

    dims, (n, c) = x.shape[2:], x.shape[:2]
    y = np.zeros((n, c, *grid.shape[1:-1]))
    for at in np.ndindex(n, *grid.shape[1:-1]):
        # The innermost dimension is the first coordinate.
        places = [(p + 1) / 2 * (d - 1) if centres else ((p + 1) * d - 1) / 2 for p, d in zip(grid[at][::-1].astype(np.float64), dims)]
        for taps in itertools.product(range(-1, 3), repeat=len(dims)):
            near = [int(np.floor(p)) + tap for p, tap in zip(places, taps)]
            share = np.prod([weight(p - i) for p, i in zip(places, near)])
            y[(at[0], slice(None), *at[1:])] += share * x[(at[0], slice(None), *[min(max(i, 0), d - 1) for i, d in zip(near, dims)])]
    return y


def grid(name, dims, out, t=np.float32, g=np.float32, opset=22, reach=1.4, n=1, c=2, at=None, **attributes):
    x = random.uniform(-4, 4, (n, c, *dims)) if np.dtype(t).kind not in "iu" else random.integers(0, 100, (n, c, *dims))
    x = (x > 0 if t is np.bool_ else x).astype(t)
    where = random.uniform(-reach, reach, (n, *out, len(dims))) if at is None else np.asarray(at).reshape(n, *out, len(dims))
    where = where.astype(g)
    wide = np.float32 if np.dtype(t).itemsize <= 2 or t is np.float32 else np.float64
    words = {k: {"bilinear": "linear", "bicubic": "cubic"}.get(v, v) for k, v in attributes.items()}
    # PyTorch and ONNX Runtime read NaN as -1; what is beyond all borders is as far as infinity.
    near = np.nan_to_num(np.where(np.isnan(where.astype(np.float64)), -1, where.astype(np.float64)), posinf=FAR, neginf=-FAR)
    if words.get("mode") == "cubic" and words.get("padding_mode") == "border":
        y = cubic_at_the_border(x.astype(np.float64), near, words.get("align_corners", 0))
    else:
        y = evaluated("GridSample", {"x": x.astype(wide), "grid": near.astype(np.float32 if np.dtype(g).itemsize == 2 else g)}, **words)
    f.add(name, "GridSample", {"x": x, "grid": where}, attributes=attributes, opset=opset, expected=y.astype(t), absolute=1e-5)


for mode, padding, centres in itertools.product(["nearest", "linear", "cubic"], ["zeros", "border", "reflection"], [0, 1]):
    words = {"mode": mode, "padding_mode": padding, "align_corners": centres}
    grid(f"{mode}_{padding}_{centres}", (4, 5), (3, 4), n=2, **words)
    grid(f"{mode}_{padding}_{centres}_far", (3, 4), (2, 3), reach=9, **words)
    grid(f"{mode}_{padding}_{centres}_volume", (3, 2, 4), (2, 2, 2), c=1, **words)
    grid(f"{mode}_{padding}_{centres}_line", (5,), (7,), **words)
for mode, t in itertools.product(["linear", "nearest", "cubic"], FLOATS):
    grid(f"{mode}_of_{short(t)}", (4, 3), (3, 3), t=t, mode=mode)
for t in INTS:
    grid(f"nearest_of_{short(t)}", (4, 3), (3, 3), t=t, mode="nearest", padding_mode="border")
    grid(f"linear_of_{short(t)}", (4, 3), (2, 3), t=t)
grid("nearest_of_bool", (4, 3), (3, 3), t=np.bool_, mode="nearest")
for g in [np.float16, ml_dtypes.bfloat16, np.float64]:
    # Thirty-seconds, which halves hold as well.
    grid(f"positions_of_{short(g)}", (4, 5), (3, 3), g=g, at=random.integers(-40, 40, 18) / 32)
grid("defaults_of_opset_16", (4, 5), (3, 4), opset=16)
grid("bilinear", (4, 5), (3, 4), opset=16, mode="bilinear", padding_mode="reflection")
grid("bicubic", (4, 5), (3, 4), opset=16, mode="bicubic", padding_mode="border")
grid("bicubic_of_opset_20", (4, 5), (3, 4), opset=20, mode="cubic")
grid("ties_go_to_even", (4, 4), (3, 3), mode="nearest", align_corners=1, at=[v / 3 for v in range(-9, 9)])
grid("corners", (3, 3), (2, 2), align_corners=1, at=[-1, -1, 1, -1, -1, 1, 1, 1])
grid("edges", (3, 3), (2, 2), at=[-1, -1, 1, -1, -1, 1, 1, 1])
grid("one_element_by_edges", (1, 1), (2, 3), padding_mode="reflection")
grid("one_element_by_centres", (1, 1), (2, 3), align_corners=1)
x = random.uniform(-1, 1, (1, 2, 3, 3)).astype(np.float32)
f.add("no_positions", "GridSample", {"x": x, "grid": np.zeros((1, 0, 4, 2), np.float32)}, opset=22,
      expected=np.zeros((1, 2, 0, 4), np.float32))
f.add("no_images", "GridSample", {"x": x[:0], "grid": np.zeros((0, 3, 4, 2), np.float32)}, opset=22,
      expected=np.zeros((0, 2, 3, 4), np.float32))
words = np.array(["a", "b", "c", "d"], object).reshape(1, 1, 2, 2)
f.add("nearest_of_strings", "GridSample", {"x": words, "grid": np.array([-0.5, -0.5, 0.5, 0.5, 3, 0], np.float32).reshape(1, 1, 3, 2)},
      attributes={"mode": "nearest"}, opset=22, expected=np.array(["a", "d", ""], object).reshape(1, 1, 1, 3))
f.add("linear_of_strings", "GridSample", {"x": words, "grid": np.zeros((1, 1, 1, 2), np.float32)}, opset=22, fails=True)
infinite = np.full((1, 1, 2, 2), np.inf, np.float32)
f.add("zeros_beyond_infinities", "GridSample", {"x": infinite, "grid": np.array([5, 5, 0, 0], np.float32).reshape(1, 1, 2, 2)}, opset=22,
      expected=np.array([0, np.inf], np.float32).reshape(1, 1, 1, 2))
f.add("another_rank", "GridSample", {"x": x, "grid": np.zeros((1, 3, 4, 3), np.float32)}, opset=22, fails=True)
f.add("another_batch", "GridSample", {"x": x, "grid": np.zeros((2, 3, 4, 2), np.float32)}, opset=22, fails=True)
f.add("unknown_padding", "GridSample", {"x": x, "grid": np.zeros((1, 3, 4, 2), np.float32)}, opset=22,
      attributes={"padding_mode": "ones"}, fails=True)


def affine(name, size, centres=0, t=np.float32, n=None):
    r = len(size) - 2
    theta = random.uniform(-1, 1, (n if n is not None else size[0], r, r + 1)).astype(t)
    axes = []
    for d in size[2:]:
        if centres:
            axes.append(np.linspace(-1, 1, d) if d > 1 else np.full(d, -1.0))
        else:
            axes.append((2 * np.arange(d) + 1) / d - 1)
    points = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(size[2:])], -1)
    y = np.einsum("...k,nrk->n...r", points, theta.astype(np.float64)).astype(t)
    f.add(name, "AffineGrid", {"theta": theta, "size": np.array(size, np.int64)}, attributes={"align_corners": centres},
          opset=20, expected=y, absolute={2: 2e-2}.get(np.dtype(t).itemsize, 1e-6))


for centres in [0, 1]:
    affine(f"affine_{centres}", (2, 3, 4, 5), centres)
    affine(f"affine_volume_{centres}", (1, 3, 2, 4, 5), centres)
    affine(f"affine_of_one_{centres}", (1, 1, 1, 3), centres)
    affine(f"affine_of_nothing_{centres}", (2, 1, 0, 3), centres)
for t in FLOATS:
    affine(f"affine_{short(t)}", (1, 1, 3, 3), t=t)
f.add("affine_of_other_rank", "AffineGrid", {"theta": np.ones((1, 2, 3), np.float32), "size": np.array([1, 1, 2, 2, 2])}, opset=20, fails=True)
f.add("affine_negative", "AffineGrid", {"theta": np.ones((1, 2, 3), np.float32), "size": np.array([1, 1, -2, 2])}, opset=20, fails=True)


def read(image, at):
    """What lies at a position between the elements of an image, beyond which are zeros."""
    low, y = np.floor(at).astype(int), 0.0
    for step in itertools.product([0, 1], repeat=len(at)):
        place = low + step
        if all(0 <= p < d for p, d in zip(place, image.shape)):
            y += image[tuple(place)] * np.prod(1 - np.abs(at - place))
    return y


def deform(name, dims, kernel, c=2, m=2, group=1, sets=1, strides=None, pads=None, dilations=None, bias=False, mask=False,
           t=np.float32, n=1, opset=22, given=True):
    r = len(dims)
    s, d, p = strides or [1] * r, dilations or [1] * r, pads or [0] * 2 * r
    out = [(dims[i] + p[i] + p[r + i] - d[i] * (kernel[i] - 1) - 1) // s[i] + 1 for i in range(r)]
    k = int(np.prod(kernel))
    x = random.uniform(-1, 1, (n, c, *dims)).astype(t)
    w = random.uniform(-1, 1, (m, c // group, *kernel)).astype(t)
    offset = random.uniform(-1.5, 1.5, (n, sets * k * r, *out)).astype(t)
    b = random.uniform(-1, 1, m).astype(t) if bias else None
    share = random.uniform(0, 1, (n, sets * k, *out)).astype(t) if mask else None
    o = offset.astype(np.float64).reshape(n, sets, k, r, *out)
    h = np.ones((n, sets, k, *out)) if share is None else share.astype(np.float64).reshape(n, sets, k, *out)
    y = np.zeros((n, m, *out)) if b is None else np.zeros((n, m, *out)) + b.astype(np.float64).reshape(-1, *[1] * r)
    places = list(itertools.product(*map(range, kernel)))
    for i, at in itertools.product(range(n), itertools.product(*map(range, out))):
        for j, (q, place) in itertools.product(range(c), enumerate(places)):
            g = j * sets // c
            position = np.array([at[a] * s[a] - p[a] + place[a] * d[a] for a in range(r)]) + o[(i, g, q, slice(None), *at)]
            value = read(x[i, j].astype(np.float64), position) * h[(i, g, q, *at)]
            part = j // (c // group)
            for u in range(part * m // group, (part + 1) * m // group):
                y[(i, u, *at)] += value * float(w[(u, j % (c // group), *place)])
    attributes = {"group": group, "offset_group": sets}
    attributes |= {k: v for k, v in [("strides", strides), ("pads", pads), ("dilations", dilations)] if v}
    attributes |= {"kernel_shape": list(kernel)} if given else {}
    f.add(name, "DeformConv", {"x": x, "w": w, "offset": offset, "b": b, "mask": share}, attributes=attributes,
          opset=opset, expected=y.astype(t), absolute={2: 5e-2}.get(np.dtype(t).itemsize, 1e-5))


for t in FLOATS:
    deform(f"deform_{short(t)}", (4, 4), (2, 2), t=t, pads=[1, 1, 0, 0])
deform("deform_with_bias_and_mask", (4, 5), (3, 2), bias=True, mask=True, n=2)
deform("deform_strided", (6, 5), (2, 2), strides=[2, 3], given=False)
deform("deform_dilated", (6, 6), (2, 3), dilations=[3, 2], pads=[1, 1, 1, 1])
deform("deform_grouped", (4, 4), (2, 2), c=4, m=6, group=2)
deform("deform_by_sets", (4, 4), (2, 2), c=4, m=2, sets=2, mask=True)
deform("deform_by_sets_and_groups", (4, 3), (2, 2), c=4, m=4, sets=4, group=2, bias=True)
deform("deform_by_less_sets_than_groups", (3, 3), (2, 2), c=4, m=4, sets=2, group=4)
deform("deform_line", (7,), (3,))
deform("deform_volume", (3, 3, 3), (2, 2, 2), pads=[0, 0, 1, 0, 0, 0], c=1, m=1)
deform("deform_one_row", (1, 5), (1, 2), opset=19)
deform("deform_of_no_images", (4, 4), (2, 2), n=0)
f.add("deform_of_other_offsets", "DeformConv", {"x": np.ones((1, 1, 3, 3), np.float32), "w": np.ones((1, 1, 2, 2), np.float32),
      "offset": np.zeros((1, 8, 3, 3), np.float32)}, fails=True)
f.add("deform_without_groups", "DeformConv", {"x": np.ones((1, 1, 3, 3), np.float32), "w": np.ones((1, 1, 2, 2), np.float32),
      "offset": np.zeros((1, 8, 2, 2), np.float32)}, attributes={"offset_group": 0}, fails=True)
for mode, padding, centres in itertools.product(["nearest", "linear", "cubic"], ["zeros", "border", "reflection"], [0, 1]):
    words = {"mode": mode, "padding_mode": padding, "align_corners": centres}
    at = [np.nan, 0.25, 0.5, np.nan, np.nan, np.nan, -0.5, -1]
    grid(f"{mode}_{padding}_{centres}_at_nan", (4, 5), (2, 2), at=at, **words)
    if padding != "reflection":
        grid(f"{mode}_{padding}_{centres}_at_infinities", (4, 5), (2, 2), at=[np.inf, 0.25, 0.5, -np.inf, np.inf, np.inf, -np.inf, 0], **words)
    grid(f"{mode}_{padding}_{centres}_near_the_edges", (4, 5), (4, 4), at=random.uniform(0.8, 1.3, 32) * random.choice([-1, 1], 32), **words)
f.write()
