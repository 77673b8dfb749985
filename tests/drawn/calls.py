"""Valid calls of operators, from which drawn models begin, and the schemas of all versions.

The calls are those of `bb/src/coverage/samples.bin`, of ONNX's own cases and of the vectors in `tests/vectors`.
"""
import collections
import os
import pathlib
import re
import struct

import numpy as np
import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as runtime
from onnx import TensorProto as T
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).parents[2]
LARGEST = 700
"""Elements that one operand of a call may have."""

NUMBERS = {name.lower(): number for name, number in T.DataType.items() if number}
NUMBERS["bool"], NUMBERS["string"] = T.BOOL, T.STRING


def allowed(types):
    """Returns the numbers of the element types of tensors among type strings."""
    found = [re.fullmatch(r"tensor\((\w+)\)", text) for text in types]
    return [NUMBERS[m.group(1)] for m in found if m and m.group(1) in NUMBERS]


class Operand:
    """A formal operand or result of a schema."""

    def __init__(self, formal, constraints):
        self.name = formal.name
        self.type = getattr(formal, "type_str", None) or getattr(formal, "typeStr", "")
        self.optional = formal.option.name == "Optional"
        self.variadic = formal.option.name == "Variadic"
        self.types = allowed(constraints.get(self.type, [self.type]))


class Schema:
    """A version of an operator."""

    def __init__(self, schema):
        constraints = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
        self.domain, self.name, self.since, self.until = schema.domain, schema.name, schema.since_version, None
        self.inputs = [Operand(p, constraints) for p in schema.inputs]
        self.outputs = [Operand(p, constraints) for p in schema.outputs]
        self.attributes = {}
        for name, a in schema.attributes.items():
            default = getattr(a, "default_value", None)
            if default is None and a._default_value:
                default = onnx.AttributeProto.FromString(a._default_value)
            self.attributes[name] = (a.type.name, a.required, default if default is not None and default.name else None)
        # Texts in quotes are often words that an attribute may be.
        self.words = set(re.findall(r"['\"`]([A-Za-z_0-9]{2,24})['\"`]", (schema.doc or "") + str(
            [getattr(a, "description", "") for a in schema.attributes.values()])))

    def input(self, i):
        return self.inputs[min(i, len(self.inputs) - 1)] if self.inputs else None


def schemas():
    """Returns every version of every operator, with the last opset in which it holds."""
    found = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated or schema.name == "GroupNormalization":
            found[schema.domain, schema.name].append(Schema(schema))
    for schema in runtime.get_all_operator_schema():
        if schema.domain in ("com.microsoft", "com.microsoft.nchwc") and not schema.deprecated:
            found[schema.domain, schema.name].append(Schema(schema))
    # Versions that ONNX Runtime has, where it has the operator.
    newest = {"": max(s.since_version for s in runtime.get_all_operator_schema() if s.domain == ""), "ai.onnx.ml": 5}
    for (domain, _), versions in found.items():
        versions.sort(key=lambda s: s.since)
        for schema, later in zip(versions, versions[1:] + [None]):
            schema.until = later.since - 1 if later else max(schema.since, newest.get(domain, 1))
    return found


class Call:
    """Nodes, of which the last is the one of interest, and the tensors that they read."""

    def __init__(self, nodes, values, opsets, outputs):
        self.nodes, self.values, self.opsets, self.outputs = nodes, values, opsets, outputs

    @property
    def target(self):
        return self.nodes[-1]

    def version(self):
        return self.opsets.get(self.target.domain, 1)


def captured(node):
    """Returns the names that subgraphs of a node read; some are values of the subgraphs."""
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    inner = [n for g in graphs for n in g.node]
    own = {n for g in graphs for n in [i.name for i in g.input] + [t.name for t in g.initializer]} | {n for i in inner for n in i.output}
    return [name for n in inner for name in [*n.input, *captured(n)] if name not in own]


def of_model(model, tensors):
    """Returns the calls in a model whose operands are all given."""
    graph = model.graph
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    values = {t.name: t for t in graph.initializer if t.name}
    values.update(tensors)
    if model.functions or any(i.type.WhichOneof("value") not in ("tensor_type", None) for i in graph.input):
        return
    for node in graph.node:
        if node.domain == "ai.onnx":
            node.domain = ""
    whole = len(graph.node) <= 3
    for nodes in [list(graph.node)] if whole else [[n] for n in graph.node]:
        made, read = set(), []
        for node in nodes:
            read += [name for name in [*node.input, *captured(node)] if name and name not in made]
            made |= set(node.output)
        if any(name not in values for name in read):
            continue
        try:
            given = {name: numpy_helper.to_array(values[name]) for name in read}
            # ONNX Runtime takes bytes of truth values as they are, and reads 0 and 1 only.
            given = {name: x.view(np.uint8) != 0 if x.dtype == bool and x.ndim else x for name, x in given.items()}
        except (ValueError, TypeError, KeyError):
            continue
        if any(x.size > LARGEST for x in given.values()):
            continue
        outputs = [name for name in nodes[-1].output if name]
        yield Call(nodes, given, opsets, outputs)


def of_case(folder):
    """Returns the calls of a folder with one of ONNX's cases."""
    if os.path.getsize(folder + "/model.onnx") > 60000:
        return
    model = onnx.load(folder + "/model.onnx")
    free = [i for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}]
    tensors = {}
    for i, info in enumerate(free):
        path = f"{folder}/test_data_set_0/input_{i}.pb"
        if not info.type.HasField("tensor_type") or not os.path.exists(path) or os.path.getsize(path) > 20000:
            return
        with open(path, "rb") as file:
            tensors[info.name] = T.FromString(file.read())
    yield from of_model(model, tensors)


def samples():
    data, at = (ROOT / "bb/src/coverage/samples.bin").read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield onnx.ModelProto.FromString(data[at + 4:at + 4 + size])
        at += 4 + size


def vectors():
    for path in sorted((ROOT / "tests/vectors").glob("*.pb")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size = shift = 0
            while True:
                byte = data[at]
                size, shift, at = size | (byte & 0x7F) << shift, shift + 7, at + 1
                if byte < 0x80:
                    break
            yield onnx.ModelProto.FromString(data[at:at + size])
            at += size


def corpus(cases, known):
    """Returns the calls by domain, operator and version; `known` are the schemas."""
    found = collections.defaultdict(list)

    def add(calls):
        for call in calls:
            node = call.target
            versions = [s for s in known.get((node.domain, node.op_type), []) if s.since <= call.version()]
            if versions:
                found[node.domain, node.op_type, versions[-1].since].append(call)

    for model in samples():
        add(of_model(model, {}))
    for folder in sorted(str(p.parent) for p in pathlib.Path(cases).glob("*/*/model.onnx")):
        add(of_case(folder))
    for model in vectors():
        if not any(p.key == "fails" for p in model.metadata_props):
            add(of_model(model, {}))
    return found
