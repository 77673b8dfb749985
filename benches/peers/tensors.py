"""Inputs of models as files, `input_0.pb`, `input_1.pb`, …, with their names in them."""

import pathlib

import onnx
from onnx import numpy_helper


def read(room):
    """The inputs in a folder, in their order."""
    number = lambda path: int(path.stem.removeprefix("input_"))
    feed = {}
    for path in sorted(pathlib.Path(room).glob("input_*.pb"), key=number):
        proto = onnx.TensorProto()
        proto.ParseFromString(path.read_bytes())
        feed[proto.name or path.stem] = numpy_helper.to_array(proto)
    return feed


def write(room, feed):
    """Writes inputs, and returns the folder."""
    for position, (name, x) in enumerate(feed.items()):
        proto = numpy_helper.from_array(x, name)
        (pathlib.Path(room) / f"input_{position}.pb").write_bytes(proto.SerializeToString())
    return room


def read_for(model, room):
    """The inputs in a folder by the names of a model's inputs, in whose order they are."""
    graph = onnx.load(model, load_external_data=False).graph
    constants = {initializer.name for initializer in graph.initializer}
    names = [x.name for x in graph.input if x.name not in constants]
    return dict(zip(names, read(room).values()))
