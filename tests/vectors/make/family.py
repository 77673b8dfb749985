"""A family of test vectors: small models with inputs and the outputs that an independent program computes.

A file is a list of length-delimited `ModelProto`s, one per vector. `graph.name` is the vector's name. Inputs are
initializers of the same names as the graph's inputs; outputs are initializers named `expected:OUTPUT`. Where a value is
no tensor, its parts have paths: `NAME/0`, `NAME/1`, … in a sequence, `NAME/keys` and `NAME/values` in a map; an optional
is what it holds. Every other initializer is a constant of the model. `metadata_props` has `relative` and `absolute` where the definition allows
other tolerances than ONNX's, and `fails` where the model must be refused.

The usual generator:

    from family import Family
    f = Family("reductions")
    f.add("sum_of_all", "ReduceSum", {"x": np.ones((2, 3), np.float32)}, attributes={"keepdims": 0})
    f.write()
"""
import pathlib
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent.parent
NEWEST = 28
LARGEST = 4096
"""Elements that one tensor of a vector may have."""

bfloat16 = ml_dtypes.bfloat16
FLOATS = [np.float16, bfloat16, np.float32, np.float64]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
COMPUTE = FLOATS + INTS + [np.bool_]
"""The element types that backends compute in."""


def short(dtype):
    """Names an element type as the vectors do, as in `f32`."""
    dtype = np.dtype(dtype)
    names = {"bfloat16": "bf16", "bool": "bool", "object": "string"}
    kinds = {"f": "f", "i": "i", "u": "u"}
    if dtype.name in names:
        return names[dtype.name]
    return f"{kinds[dtype.kind]}{8 * dtype.itemsize}" if dtype.kind in kinds else dtype.name


class Family:
    """The vectors of one file."""

    def __init__(self, name, opset=NEWEST):
        """`opset` is that of `ai.onnx` where a vector names none."""
        self.name, self.opset, self.models = name, opset, {}

    def add(self, name, nodes, inputs, *, attributes=None, outputs=None, expected="reference", opset=None,
            opsets=None, constants=None, relative=None, absolute=None, fails=False, functions=(), ir=10):
        """Adds a vector.

        `nodes` is an operator, whose operands are `inputs` in order, where `None` is one that is left out; or a list
        of nodes, whose inputs are the names in `inputs`. For an operator, `outputs` is how many results it gives (one
        unless told), and `constants` names the operands that are constants of the model instead of inputs. For nodes,
        `outputs` is a list of names, and `constants` has arrays by name.

        `expected` is `"reference"` for ONNX's evaluator, `"ort"` for ONNX Runtime, or an array, or a list of arrays.
        `opset` is the version of `ai.onnx`, `opsets` has versions by domain, `ir` is that of the file. With `fails` the model must
        be refused.
        """
        assert name not in self.models, f"{name} is added twice"
        constants = constants or ()
        if isinstance(nodes, str):
            domain, _, op_type = nodes.rpartition("::")
            given = {k: v for k, v in inputs.items() if v is not None}
            names = [k if v is not None else "" for k, v in inputs.items()]
            while names and not names[-1]:
                names.pop()
            outputs = [f"y{i}" for i in range(outputs or 1)] if not isinstance(outputs, list) else outputs
            nodes = [helper.make_node(op_type, names, outputs, domain=domain, **(attributes or {}))]
            constants = {k: given.pop(k) for k in constants}
            inputs = given
        outputs = [o for o in outputs if o]
        tensors = {k: tensor(k, v) for k, v in inputs.items()}
        fixed = [tensor(k, v) for k, v in dict(constants).items()]
        versions = {"": opset or self.opset, **(opsets or {})}
        imports = [helper.make_opsetid(d, v) for d, v in versions.items() if d or opset or any(not n.domain for n in nodes)]

        def model(results):
            ports = [value_info(t) for t in tensors.values()]
            graph = helper.make_graph(nodes, name, ports, results, initializer=fixed)
            return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=functions)

        untyped = [onnx.ValueInfoProto(name=o) for o in outputs]
        if fails:
            expected = []
        elif isinstance(expected, str):
            expected = {"reference": reference, "ort": runtime}[expected](model(untyped), inputs, outputs)
        elif not isinstance(expected, (list, tuple)):
            expected = [expected]
        assert fails or len(expected) == len(outputs), f"{name}: {len(outputs)} outputs, {len(expected)} expected"
        results = [tensor(f"expected:{o}", v) for o, v in zip(outputs, expected)]
        made = model([value_info(r, o) for r, o in zip(results, outputs)] if results else untyped)
        for key, value in [("relative", relative), ("absolute", absolute), ("fails", "true" if fails else None)]:
            if value is not None:
                made.metadata_props.add(key=key, value=str(value))
        made.graph.initializer.extend([*tensors.values(), *results])
        self.models[name] = made

    def write(self):
        """Writes the file."""
        path = FOLDER / f"{self.name}.pb"
        with open(path, "wb") as f:
            for model in self.models.values():
                data = model.SerializeToString(deterministic=True)
                f.write(varint(len(data)) + data)
        print(f"{path.name}: {len(self.models)} vectors, {path.stat().st_size} bytes")


def varint(n):
    """Writes a length as protobuf does."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def tensor(name, value):
    """Makes a tensor; a `TensorProto` is renamed, an array of `str` or `object` holds strings."""
    if not isinstance(value, TensorProto):
        value = np.asarray(value)
        value = value.astype(object) if value.dtype.kind in "US" else value
        assert value.size <= LARGEST, f"{name} has {value.size} elements"
        value = numpy_helper.from_array(value, name)
    copy = TensorProto()
    copy.CopyFrom(value)
    copy.name = name
    return copy


def value_info(tensor, name=None):
    """Declares a value of the tensor's type and extents."""
    return helper.make_tensor_value_info(name or tensor.name, tensor.data_type, list(tensor.dims))


def arrays(inputs):
    """Turns tensors into what evaluators take."""
    return {k: numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for k, v in inputs.items()}


def reference(model, inputs, outputs):
    """Runs a model on ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(outputs, arrays(inputs))


def runtime(model, inputs, outputs):
    """Runs a model on ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(outputs, arrays(inputs))
