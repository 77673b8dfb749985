"""Makes the cases beside this file: `python tests/data/optimised/make.py`, with `onnx` and `onnxruntime` installed, on a
processor with AVX-512.

A small network with random weights is optimised by ONNX Runtime at its highest level and saved (`blocks_of_16`): its tensors
are in blocks of 16 channels. `blocks_of_8` is the same with blocks of 8, as ONNX Runtime saves it on a processor without
AVX-512: the filters are put into other blocks here. The outputs are those of the network as it was, without optimisation.
"""
import pathlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
CHANNELS, SIDE = 24, 8


def network():
    rng = np.random.default_rng(0)
    fixed, nodes = [], []

    def constant(name, value):
        fixed.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def filters(name, *shape):
        return constant(name, rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape))

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))

    n, same = CHANNELS, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    add("Conv", ["x", filters("w0", n, 3, 3, 3), constant("b0", rng.normal(size=n))], "c0", **same)
    add("Relu", ["c0"], "r0")
    add("Conv", ["r0", filters("w1", n, n, 3, 3), constant("b1", rng.normal(size=n))], "c1", **same)
    add("Add", ["c1", "r0"], "a1")
    add("Relu", ["a1"], "r1")
    add("Conv", ["r1", filters("w2", n, 1, 3, 3), constant("b2", rng.normal(size=n))], "c2", **same, group=n, strides=[2, 2])
    add("Clip", ["c2", constant("lower", 0), constant("upper", 6)], "k2")
    add("Conv", ["k2", filters("w3", 2 * n, n, 1, 1), constant("b3", rng.normal(size=2 * n))], "c3", kernel_shape=[1, 1])
    add("LeakyRelu", ["c3"], "l3", alpha=0.1)
    add("MaxPool", ["l3"], "m3", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    add("AveragePool", ["m3"], "p3", kernel_shape=[2, 2], strides=[2, 2])
    add("Resize", ["p3", "", constant("scales", [1, 1, 2, 2])], "u3", mode="linear", coordinate_transformation_mode="asymmetric")
    add("Concat", ["u3", "m3"], "u4", axis=1)
    add("Conv", ["u4", filters("w4", 2 * n, 4 * n, 1, 1)], "c4", kernel_shape=[1, 1])
    add("Sigmoid", ["c4"], "s4")
    add("Mul", ["c4", "s4"], "map")
    add("GlobalAveragePool", ["map"], "mean")
    add("GlobalMaxPool", ["c4"], "most")
    shapes = {"map": ["n", 2 * n, SIDE // 2, SIDE // 2], "mean": ["n", 2 * n, 1, 1], "most": ["n", 2 * n, 1, 1]}
    outputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in shapes.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])]
    graph = helper.make_graph(nodes, "network", inputs, outputs, fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def session(model, level, saved=None):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    if saved:
        options.optimized_model_filepath = str(saved)
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def in_blocks_of_8(model, plain):
    """The same model, whose filters are in blocks of 8 instead of 16."""
    real = {t.name: numpy_helper.to_array(t) for t in plain.graph.initializer}
    convolutions = [n for n in plain.graph.node if n.op_type == "Conv"]
    blocked = [n for n in model.graph.node if n.op_type == "Conv" and n.domain == "com.microsoft.nchwc"]
    assert len(convolutions) == len(blocked)
    fixed = {t.name: t for t in model.graph.initializer}
    for own, node in zip(convolutions, blocked):
        w = real[own.input[1]]
        o, i, *kernel = w.shape
        assert o % 8 == 0
        if i < 8:
            w = w.reshape(o // 8, 8, i, *kernel).transpose(0, 2, 3, 4, 1)
        else:
            w = w.reshape(o // 8, 8, i // 8, 8, *kernel).transpose(0, 2, 4, 5, 3, 1)
        fixed[node.input[1]].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(w).reshape(real[own.input[1]].shape), node.input[1]))
        if len(node.input) > 2 and node.input[2]:
            fixed[node.input[2]].CopyFrom(numpy_helper.from_array(real[own.input[2]], node.input[2]))
        for attribute in node.attribute:
            if attribute.name == "group" and attribute.i > 1:
                attribute.i = o
    return model


def write(name, model, inputs, outputs):
    data = HERE / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, HERE / name / "model.onnx")
    for kind, values in [("input", inputs), ("output", outputs)]:
        for at, (key, value) in enumerate(values.items()):
            (data / f"{kind}_{at}.pb").write_bytes(numpy_helper.from_array(value, key).SerializeToString())


plain = network()
inputs = {"x": np.random.default_rng(1).normal(size=(2, 3, SIDE, SIDE)).astype(np.float32)}
names = [o.name for o in plain.graph.output]
outputs = dict(zip(names, session(plain, ort.GraphOptimizationLevel.ORT_DISABLE_ALL).run(names, inputs)))
saved = HERE / "saved.onnx"
session(plain, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, saved)
model = onnx.load(saved)
saved.unlink()
kinds = {n.op_type for n in model.graph.node if n.domain == "com.microsoft.nchwc"}
assert kinds >= {"Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReorderOutput", "Upsample"}, kinds
write("blocks_of_16", model, inputs, outputs)
write("blocks_of_8", in_blocks_of_8(onnx.load(HERE / "blocks_of_16/model.onnx"), plain), inputs, outputs)
