"""Compares the outputs of models on bb's CPU backend and on ONNX Runtime with those of the same models in `f64`.

A model is written again with `f64` in place of every smaller floating-point type, and evaluated by the reference backend. The
error of an element is relative to its absolute value, or to a thousandth of the greatest one of its output, whichever is larger. A
model is left out, with the reason, if it has an operator that ONNX does not define on `f64`.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tensors

SMALLER = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Inputs that ONNX has as `f32`, whatever the type of the others: by operator, their positions."""
KEPT = {"Resize": (1, 2), "Upsample": (1,)}
"""Attributes that name an element type."""
TYPES = {"Cast": "to", "EyeLike": "dtype", "RandomNormal": "dtype", "RandomUniform": "dtype"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--bb", required=True, help="the command bb")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for accuracy.md")
    return parser.parse_args()


def double(tensor):
    """A tensor of `f64` if it has smaller floats."""
    if tensor.data_type in SMALLER:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float64), tensor.name))


def doubled(graph):
    """Rewrites a graph with `f64`."""
    del graph.value_info[:]
    for tensor in graph.initializer:
        double(tensor)
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in SMALLER:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    nodes = []
    for node in graph.node:
        for attribute in node.attribute:
            doubled_attribute(node, attribute)
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(numpy.zeros(1))))
        for position in KEPT.get(node.op_type, ()):
            if position < len(node.input) and node.input[position]:
                name = f"{node.output[0]}/f32/{position}"
                nodes.append(helper.make_node("Cast", [node.input[position]], [name], to=TensorProto.FLOAT))
                node.input[position] = name
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def doubled_attribute(node, attribute):
    if attribute.type == onnx.AttributeProto.GRAPH:
        doubled(attribute.g)
    elif attribute.type == onnx.AttributeProto.TENSOR:
        double(attribute.t)
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(numpy.array(value, numpy.float64))))
    elif TYPES.get(node.op_type) == attribute.name and attribute.i in SMALLER:
        attribute.i = TensorProto.DOUBLE


def on_bb(args, backend, model, feed):
    """The outputs of a model on a backend of bb, by name."""
    with tempfile.TemporaryDirectory() as room:
        room = pathlib.Path(room)
        tensors.write(room, feed)
        command = [args.bb, "run", model, "--backend", backend, "--inputs", room, "--output", room / "outputs"]
        ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(" ".join(ran.stderr.split()))
        # What a path cannot have is written as in a web address.
        return {urllib.parse.unquote(path.stem): numpy.load(path) for path in (room / "outputs").glob("*.npy")}


def on_onnx_runtime(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [x.name for x in session.get_outputs()], session.run(None, feed)


def errors(outputs, exact):
    """The greatest and the mean relative error of the floating-point outputs."""
    found = []
    for got, right in zip(outputs, exact):
        if right.dtype != numpy.float64 or got.shape != right.shape or not right.size:
            continue
        least = 1e-3 * numpy.max(numpy.abs(right), initial=1e-300)
        found.append(numpy.abs(got.astype(numpy.float64) - right).ravel() / numpy.maximum(numpy.abs(right), least).ravel())
    if not found:
        raise RuntimeError("it has no output of floating-point numbers whose shape is the same in f64")
    found = numpy.concatenate(found)
    return float(found.max()), float(found.mean())


def compared(args, folder):
    """The errors of both on a model."""
    path = folder / "model.onnx"
    feed = tensors.read_for(path, folder / "test_data_set_0")
    model = onnx.load(path)
    doubled(model.graph)
    smaller = (numpy.float32, numpy.float16)
    exact_feed = {name: x.astype(numpy.float64) if x.dtype in smaller else x for name, x in feed.items()}
    names, theirs = on_onnx_runtime(path, feed)
    with tempfile.TemporaryDirectory() as room:
        written = pathlib.Path(room) / "model.onnx"
        onnx.save(model, written)
        exact = ordered(on_bb(args, "reference", written, exact_feed), names)
    ours = ordered(on_bb(args, "cpu", path, feed), names)
    return errors(ours, exact), errors(theirs, exact)


def ordered(outputs, names):
    """Outputs in the order of the model."""
    if set(outputs) != set(names):
        raise RuntimeError("not all of its outputs are tensors")
    return [outputs[name] for name in names]


def main():
    args = arguments()
    lines = [
        f"Relative errors beside f64, ONNX Runtime {onnxruntime.__version__}",
        "",
        "| model | bb, greatest | mean | ONNX Runtime, greatest | mean |",
        "|---|---|---|---|---|",
    ]
    for folder in args.folders:
        try:
            ours, theirs = compared(args, folder)
        except Exception as error:  # What one model lacks must not end the others.
            print(f"{folder.name}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
            continue
        lines.append(f"| {folder.name} | {ours[0]:.1e} | {ours[1]:.1e} | {theirs[0]:.1e} | {theirs[1]:.1e} |")
        print(lines[-1], flush=True)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "accuracy.md").write_text("\n".join(lines) + "\n")


main()
