"""Vectors of every version of every operator, on every element type that its schema allows.

A vector is a version of an operator; its model has a node for each choice of types, named after the parameter and the
type. `sweep` has the rows. Versions without a vector are written, with the reason, to `tests/vectors/make/sweep/missing.txt`.
"""
import pathlib

import onnx
from family import Family, tensor
from onnx import helper

from sweep import cases, elementwise, learned, movement, numeric, structure  # noqa: F401: rows register themselves
from sweep.cases import Case, Refused, brief
from sweep.rows import ROWS

MISSING = pathlib.Path(__file__).parent / "sweep" / "missing.txt"
PREFERRED = ["tensor(float)", "tensor(int64)", "tensor(uint8)", "tensor(int8)", "tensor(int32)", "tensor(bool)", "tensor(string)"]


def chosen(allowed):
    """Chooses the type of a parameter that is not asked about."""
    return next((t for t in PREFERRED if t in allowed), sorted(allowed)[0])


def flat(path, value):
    """Lists the tensors of a value, each with its path."""
    if value is structure.ABSENT:
        return []
    if isinstance(value, structure.Sequence):
        return [leaf for i, item in enumerate(value) for leaf in flat(f"{path}/{i}", item)]
    if isinstance(value, structure.Map):
        return [(f"{path}/keys", value.keys), (f"{path}/values", value.values)]
    return [(path, value)]


class Group:
    """The model of one version of an operator."""

    def __init__(self, schema):
        self.schema, self.nodes, self.ports, self.results, self.tensors = schema, [], {}, [], []
        self.seen = {}

    def given(self, value, ty):
        """Names a graph input that holds a value; equal ones are one."""
        leaves = [tensor(path, v) for path, v in flat("", value)]
        key = (ty, tuple(t.SerializeToString(deterministic=True) for t in leaves))
        if key not in self.seen:
            name = self.seen[key] = f"x{len(self.seen)}"
            shape = list(leaves[0].dims) if ty.startswith("tensor") else None
            self.ports[name] = helper.make_tensor_value_info(name, cases.number_of(ty), shape) if shape is not None else structure.port(name, ty)
            for leaf in leaves:
                leaf.name = name + leaf.name
                self.tensors.append(leaf)
        return self.seen[key]

    def add(self, c, label):
        """Adds the node of a case."""
        inputs = []
        for i, value in enumerate(c.inputs):
            if value is None:
                inputs.append("")
                continue
            ty = (c.types_of_inputs or {i: c.input_type(i)})[i]
            inputs.append(self.given(value, ty))
        outputs = [f"{label}.{i}" if i else label for i in range(c.outputs)]
        for i, (name, value) in enumerate(zip(outputs, c.results())):
            ty = c.output_type(i)
            if ty.startswith("tensor"):
                made = tensor(f"expected:{name}", value)
                self.results.append(helper.make_tensor_value_info(name, made.data_type, list(made.dims)))
                self.tensors.append(made)
            else:
                self.results.append(structure.port(name, ty))
                self.tensors += [tensor(f"expected:{path}", v) for path, v in flat(name, value)]
        if c.around:
            self.nodes += c.around(inputs, outputs, c.tag)
        else:
            self.nodes.append(helper.make_node(c.op, inputs, outputs, domain=self.schema.domain, **c.attributes))

    def model(self):
        name = f"{self.schema.domain + '.' if self.schema.domain else ''}{self.schema.name}_{self.schema.since_version}"
        graph = helper.make_graph(self.nodes, name, list(self.ports.values()), self.results, initializer=self.tensors)
        versions = [helper.make_opsetid(self.schema.domain, self.schema.since_version)]
        if self.schema.domain and any(not n.domain for n in self.nodes):
            versions.append(helper.make_opsetid("", 28))
        return helper.make_model(graph, opset_imports=versions, ir_version=10)


def swept(schema, missing):
    """Makes the group of a version, and notes the types without a vector."""
    group, done = Group(schema), set()
    fill = ROWS.get((schema.domain, schema.name))
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    wanted = [(p, t) for p in allowed for t in sorted(allowed[p])] or [("", "")]
    usual = {p: chosen(ts) for p, ts in allowed.items()}
    for parameter, ty in wanted:
        if (parameter, ty) in done:
            continue
        c = Case(schema, {**usual, **({parameter: ty} if parameter else {})})
        label = f"{parameter}-{brief(ty)}" if parameter else "all"
        c.asked, c.allowed, c.tag, c.around, c.types_of_inputs = parameter, allowed, f"{label}.", None, None
        try:
            if fill is None:
                raise Refused("it has no row")
            fill(c)
            assert c.types.get(parameter, ty) == ty, f"{schema.name}: the row chose another type"
            c.expected = [c.expected] if not isinstance(c.expected, (str, list, tuple)) else c.expected
            group.add(c, label)
        except Refused as reason:
            missing.append(f"{schema.domain or 'ai.onnx'} {schema.name} {schema.since_version} {parameter} {brief(ty)}: {reason}")
            continue
        done |= set(c.types.items())
    return group


def main():
    f, missing = Family("element_types"), []
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)):
        # Models may have what is deprecated; in these versions all others are gone.
        if not schema.deprecated or schema.name == "GroupNormalization":
            group = swept(schema, missing)
            if group.nodes:
                model = group.model()
                f.models[model.graph.name] = model
    f.write()
    MISSING.write_text("".join(f"{line}\n" for line in missing))


if __name__ == "__main__":
    main()
