"""Vectors of `com.microsoft.nchwc`, whose channels are in blocks, and of operators whose channels are last.

The expected numbers are those of the operators of ONNX, in ONNX's order, by ONNX Runtime. The filters are put into blocks here.
Each vector begins and ends in ONNX's order, because the size of a block is the processor's; where filters are in blocks, the
vector tells the size by numbers of channels that fit one size alone.
"""
import numpy as np
from family import Family, runtime, tensor, value_info
from onnx import helper

f = Family("blocked", opset=17)
rng = np.random.default_rng(31)
BLOCKS, MS, LAST = "com.microsoft.nchwc", "com.microsoft", "com.ms.internal.nhwc"
OPSETS = {BLOCKS: 1, MS: 1, LAST: 12}


def random(*shape):
    return rng.normal(0, 1, shape).astype(np.float32)


def plain(nodes, inputs, constants, outputs=("y",)):
    """What ONNX Runtime makes of operators of ONNX."""
    graph = helper.make_graph(nodes, "plain", [value_info(tensor(k, v)) for k, v in inputs.items()],
                              [helper.make_tensor_value_info(o, 1, None) for o in outputs],
                              initializer=[tensor(k, v) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=10)
    return runtime(model, inputs, list(outputs))


def up(n, block):
    return -(-n // block) * block


def blocked_filters(w, block, by_channel):
    """Filters in blocks, zeros filling up the last ones."""
    o, i = w.shape[:2]
    padded = np.zeros((up(o, block), i if by_channel else up(i, block), *w.shape[2:]), np.float32)
    padded[:o, :i] = w
    o, i = padded.shape[:2]
    if by_channel:
        split = padded.reshape(o // block, block, i, *w.shape[2:]).transpose(0, 2, 3, 4, 1)
    else:
        split = padded.reshape(o // block, block, i // block, block, *w.shape[2:]).transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(split).reshape(padded.shape)


def filled(b, block):
    return np.pad(b, (0, up(len(b), block) - len(b)))


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def reorder(source, to):
    return node("ReorderInput", [source], [to], BLOCKS)


def back(source, channels, to="y", **attributes):
    return node("ReorderOutput", [source], [to], BLOCKS, channels=channels, **attributes)


how = {"opsets": OPSETS, "relative": 1e-4, "absolute": 1e-5}

# Orders alone, and what needs no filters.
x = random(1, 32, 5, 4)
f.add("reorder_there_and_back", [reorder("x", "b"), back("b", 32)], {"x": x}, outputs=["y"], expected=x, **how)
f.add("reorder_channels_last", [node("ReorderInput", ["x"], ["b"], BLOCKS, channels_last=1), back("b", 32)],
      {"x": np.ascontiguousarray(x.transpose(0, 2, 3, 1))}, outputs=["y"], expected=x, **how)
f.add("reorder_to_channels_last", [reorder("x", "b"), back("b", 32, channels_last=1)], {"x": x}, outputs=["y"],
      expected=np.ascontiguousarray(x.transpose(0, 2, 3, 1)), **how)
few = random(1, 28, 3, 2)
f.add("reorder_fills_up", [reorder("x", "b"), back("b", 28)], {"x": few}, outputs=["y"], expected=few, **how)
f.add("reorder_of_no_images", [reorder("x", "b"), back("b", 16)], {"x": random(0, 16, 3, 2)}, outputs=["y"],
      expected=random(0, 16, 3, 2), **how)
f.add("reorder_without_filters", [reorder("x", "y")], {"x": x}, outputs=["y"],
      expected=np.ascontiguousarray(x.reshape(1, 4, 8, 5, 4).transpose(0, 1, 3, 4, 2)).reshape(x.shape), **how)
f.add("reorder_loses_more_than_a_block", [reorder("x", "b"), back("b", 12)], {"x": x}, outputs=["y"], fails=True, **how)
f.add("reorder_makes_channels", [reorder("x", "b"), back("b", 33)], {"x": x}, outputs=["y"], fails=True, **how)
f.add("elements_between", [reorder("x", "b"), node("Relu", ["b"], ["r"]), node("Concat", ["r", "b"], ["c"], axis=1), back("c", 64)],
      {"x": x}, outputs=["y"], expected=np.concatenate([np.maximum(x, 0), x], 1), **how)
pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
for name, op, attributes in [
    ("max", "MaxPool", pool), ("max_ceil", "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("max_dilated", "MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    ("max_same", "MaxPool", {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("average", "AveragePool", pool), ("average_with_pads", "AveragePool", pool | {"count_include_pad": 1}),
    ("global_max", "GlobalMaxPool", {}), ("global_average", "GlobalAveragePool", {}),
]:
    expected = plain([node(op, ["x"], ["y"], **attributes)], {"x": x}, {})
    f.add(f"pool_{name}", [reorder("x", "b"), node(op, ["b"], ["p"], BLOCKS, **attributes), back("p", 32)], {"x": x},
          outputs=["y"], expected=expected, **how)
small = random(1, 16, 4, 5)
for name, scales, attributes in [
    ("nearest", [1, 1, 2, 3], {}), ("linear", [1, 1, 2, 2], {"mode": "linear"}),
    ("linear_corners", [1, 1, 3, 2], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    ("linear_half_pixel", [1, 1, 2, 1], {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
    ("once", [1, 1, 1, 1], {"mode": "linear"}),
]:
    own = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"} | attributes
    floor = {"nearest_mode": "floor"} if own["mode"] == "nearest" else {}
    expected = plain([node("Resize", ["x", "", "s"], ["y"], **own, **floor)], {"x": small}, {"s": np.array(scales, np.float32)})
    f.add(f"upsample_{name}", [reorder("x", "b"), node("Upsample", ["b"], ["u"], BLOCKS, scales=scales, **attributes), back("u", 16)],
          {"x": small}, outputs=["y"], expected=expected, **how)
f.add("upsample_cubic", [reorder("x", "b"), node("Upsample", ["b"], ["u"], BLOCKS, scales=[1, 1, 2, 2], mode="cubic"), back("u", 16)],
      {"x": small}, outputs=["y"], fails=True, **how)

# Convolutions. 24 filters are whole blocks of 8, and fill up blocks of 16.
for block in (8, 16):
    big = random(1, 24, 4, 3)
    for name, source, w, group, attributes, activation in [
        ("open", random(1, 3, 6, 6), random(24, 3, 3, 3), 1, {"pads": [1, 1, 1, 1]}, {}),
        ("blocked", big, random(24, 24, 2, 2), 1, {"strides": [2, 1], "pads": [1, 0, 0, 1]}, {"activation": "Relu"}),
        ("one_by_one", big, random(24, 24, 1, 1), 1, {}, {"activation": "LeakyRelu", "activation_params": [0.25]}),
        ("by_channel", big, random(24, 1, 3, 3), 24, {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
         {"activation": "Clip", "activation_params": [-0.5, 1.5]}),
        ("tanh", big, random(24, 24, 1, 2), 1, {"auto_pad": "SAME_LOWER"}, {"activation": "Tanh"}),
        ("hard_sigmoid", big, random(24, 24, 2, 2), 1, {}, {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
    ]:
        b, o = random(w.shape[0]), w.shape[0]
        common = {"group": group, **attributes}
        nodes, inputs, constants = [], {"x": source}, {"w": w, "b": b}
        nodes.append(node("FusedConv", ["x", "w", "b"], ["y"], MS, **common, **activation))
        expected = plain(nodes, inputs, constants)
        is_open = source.shape[1] < block
        fixed = {"w": blocked_filters(w, block, is_open or group > 1), "b": filled(b, block)}
        # The operand is in whole blocks of either size.
        own = common | ({"group": up(o, block)} if group > 1 else {})
        first = [] if is_open else [reorder("x", "i")]
        conv = node("Conv", ["x" if is_open else "i", "w", "b"], ["c"], BLOCKS, **own, **activation)
        f.add(f"conv_{name}_{block}", [*first, conv, back("c", o)], inputs, outputs=["y"], expected=expected,
              constants=fixed, **how)
    # What is added comes before the function.
    w, z = random(24, 24, 1, 1), random(1, 24, 4, 3)
    expected = plain([node("FusedConv", ["x", "w", "", "z"], ["y"], MS, activation="Relu")], {"x": big, "z": z}, {"w": w})
    nodes = [reorder("x", "i"), reorder("z", "s"), node("Conv", ["i", "w", "", "s"], ["c"], BLOCKS, activation="Relu"), back("c", 24)]
    f.add(f"conv_added_{block}", nodes, {"x": big, "z": z}, outputs=["y"], expected=expected,
          constants={"w": blocked_filters(w, block, False)}, **how)
f.add("conv_in_no_blocks", [node("Conv", ["x", "w"], ["c"], BLOCKS), back("c", 20)], {"x": random(1, 3, 4, 4)}, outputs=["y"],
      constants={"w": random(20, 3, 1, 1)}, fails=True, **how)
f.add("conv_with_unknown_function", [node("Conv", ["x", "w"], ["c"], BLOCKS, activation="Nonsense"), back("c", 16)],
      {"x": random(1, 3, 4, 4)}, outputs=["y"], constants={"w": random(16, 3, 1, 1)}, fails=True, **how)

# The channels last.
x, w, b, z = random(2, 4, 5, 6), random(6, 2, 3, 2), random(6), random(2, 6, 4, 5)


def last(x):
    return np.ascontiguousarray(x.transpose(0, *range(2, x.ndim), 1))


conv = {"group": 2, "pads": [1, 0, 0, 0]}
fused = conv | {"activation": "LeakyRelu", "activation_params": [0.25]}
expected = [last(v) for v in plain([node("Conv", ["x", "w", "b"], ["y"], **conv)], {"x": x}, {"w": w, "b": b})]
# The filters of NhwcConv have their channels last, too: that is what `fusion_nhwc_conv` of onnxruntime.transformers writes, and what CUDA's kernel reads.
f.add("nhwc_conv", f"{MS}::NhwcConv", {"x": last(x), "w": last(w), "b": b}, attributes=conv, expected=expected, **how)
f.add("internal_conv", f"{LAST}::Conv", {"x": last(x), "w": w, "b": b}, attributes=conv, expected=expected, **how)
expected = [last(v) for v in plain([node("FusedConv", ["x", "w", "b", "z"], ["y"], MS, **fused)], {"x": x, "z": z}, {"w": w, "b": b})]
f.add("nhwc_fused_conv", f"{MS}::NhwcFusedConv", {"x": last(x), "w": w, "b": b, "z": last(z)}, attributes=fused,
      expected=expected, **how)
for op, attributes in [("MaxPool", pool), ("AveragePool", pool), ("GlobalMaxPool", {}), ("GlobalAveragePool", {})]:
    expected = [last(v) for v in plain([node(op, ["x"], ["y"], **attributes)], {"x": x}, {})]
    f.add(f"internal_{op}", f"{LAST}::{op}", {"x": last(x)}, attributes=attributes, expected=expected, **how)
for name, filters, channels, attributes in [
    ("1x1", (5, 4, 1, 1), 4, {}), ("3x3", (5, 4, 3, 3), 4, {"pads": [1, 1, 1, 1]}), ("3x3_of_3", (5, 3, 3, 3), 3, {}), ("2x2_of_2", (4, 2, 2, 2), 2, {}),
    ("strides", (5, 4, 3, 3), 4, {"strides": [2, 1]}), ("dilations", (5, 4, 3, 2), 4, {"dilations": [2, 3], "kernel_shape": [3, 2]}),
    ("groups_of_3", (6, 3, 3, 3), 6, {"group": 2, "auto_pad": "SAME_UPPER"}), ("line", (5, 4, 3), 4, {}), ("volume", (3, 2, 2, 1, 2), 2, {}),
]:
    for bias in (True, False):
        source, own = random(2, channels, *[7, 8, 5][:len(filters) - 2]), random(*filters)
        more = {"b": random(filters[0])} if bias else {}
        expected = [last(v) for v in plain([node("Conv", ["x", "w", *more], ["y"], **attributes)], {"x": source}, {"w": own} | more)]
        f.add(f"nhwc_conv_{name}_{'bias' if bias else 'plain'}", f"{MS}::NhwcConv", {"x": last(source), "w": last(own)} | more, attributes=attributes,
              expected=expected, **how)
f.add("nhwc_conv_of_other_channels", f"{MS}::NhwcConv", {"x": random(1, 5, 5, 4), "w": random(2, 3, 3, 3)}, fails=True, **how)
f.add("nhwc_conv_with_a_function", f"{MS}::NhwcConv", {"x": random(1, 5, 5, 4), "w": random(2, 3, 3, 4)}, attributes={"activation": "Relu"}, fails=True, **how)
x, w = random(1, 3, 5, 4), random(4, 3, 2, 2)
expected = [last(v) for v in plain([node("Conv", ["x", "w"], ["y"])], {"x": x}, {"w": w})]
f.add("nhwc_fused_conv_of_one_group", f"{MS}::NhwcFusedConv", {"x": last(x), "w": w}, expected=expected, **how)
f.add("internal_conv_of_one_group", f"{LAST}::Conv", {"x": last(x), "w": w}, expected=expected, **how)
f.write()
