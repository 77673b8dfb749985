"""Case folders as `bb conformance` reads them: a model, its inputs, the outputs expected, and the tolerance with its reason."""
import json
import pathlib
import shutil

import numpy as np
import onnx
from onnx import numpy_helper


def written(value):
    """Turns a value into the message that its type wants: an array, or a list of arrays or of dictionaries."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=[dictionary(v) for v in value])
    if isinstance(value, list):
        return numpy_helper.from_list([np.asarray(v) for v in value])
    value = np.asarray(value)
    return numpy_helper.from_array(value.astype(object) if value.dtype.kind in "US" else value)


def dictionary(value):
    """Makes a map from labels to scores; ONNX's own writer takes no texts for keys."""
    texts = isinstance(next(iter(value)), str)
    message = onnx.MapProto(key_type=onnx.TensorProto.STRING if texts else onnx.TensorProto.INT64)
    if texts:
        message.string_keys.extend(key.encode() for key in value)
    else:
        message.keys.extend(int(key) for key in value)
    message.values.CopyFrom(numpy_helper.from_list([np.float32(v) for v in value.values()]))
    return message


def write(folder, model, inputs, outputs, relative, absolute, reason):
    """Writes a case; `inputs` and `outputs` are in the order of the graph's."""
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, str(folder / "model.onnx"))
    for kind, values in [("input", inputs), ("output", outputs)]:
        for i, value in enumerate(values):
            (data / f"{kind}_{i}.pb").write_bytes(written(value).SerializeToString())
    tolerance = {"rtol": relative, "atol": absolute, "reason": reason}
    (folder / "data.json").write_text(json.dumps(tolerance, indent=1) + "\n")


def read(folder):
    """Reads a case's model, inputs by name and tolerance; inputs that have a default may have no file."""
    folder = pathlib.Path(folder)
    model = onnx.load(str(folder / "model.onnx"))
    given = {x.name for x in model.graph.initializer}
    files = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    ports = [x for x in model.graph.input if len(files) == len(model.graph.input) or x.name not in given]
    inputs = {}
    for port, file in zip(ports, files):
        tensor = onnx.TensorProto.FromString(file.read_bytes())
        inputs[port.name] = numpy_helper.to_array(tensor)
    told = folder / "data.json"
    tolerance = json.loads(told.read_text()) if told.exists() else {}
    return model, inputs, (tolerance.get("rtol", 1e-3), tolerance.get("atol", 1e-7))
