"""Writes `bb-ir/src/opset/schemas.rs` from ONNX's schemas: `python bb-ir/schema/schemas.py`, with `onnx` 1.23 installed.

With `--check` it writes nothing, and fails if the file is not what it would write.
"""
import pathlib
import re
import sys

import numpy
import onnx
from onnx.defs import OpSchema

NAMES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool", "string": "string",
    "complex64": "c64", "complex128": "c128", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1",
    "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2", "float6e2m3": "f6e2m3", "float6e3m2": "f6e3m2",
}
ORDER = list(NAMES.values())
DOMAINS = {"": "ONNX", "ai.onnx.ml": "ML", "ai.onnx.preview": "PREVIEW", "ai.onnx.preview.training": "TRAINING"}
KINDS = {
    "FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "TYPE_PROTO": "y", "SPARSE_TENSOR": "t",
    "FLOATS": "F", "INTS": "I", "STRINGS": "S", "TENSORS": "T", "GRAPHS": "G",
}
PATH = pathlib.Path(__file__).parent.parent / "src/opset/schemas.rs"


def elements(types):
    """The element types inside type strings, as in `seq(tensor(float))`, in a fixed order."""
    found = {NAMES[t] for text in types for t in re.findall(r"tensor\((\w+)\)", text)}
    return " ".join(t for t in ORDER if t in found)


def element_types(schema):
    """What the operand of the first result's type takes; or else the operand, or the result, that takes the most."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    if schema.outputs and schema.outputs[0].type_str in {p.type_str for p in schema.inputs} & set(allowed):
        return elements(allowed[schema.outputs[0].type_str])
    for parts in (schema.inputs, schema.outputs):
        sets = [elements(allowed.get(p.type_str, [p.type_str])) for p in parts]
        best = max(sets, key=lambda s: len(s.split()), default="")
        if best:
            return best
    return ""


def parameters(formal):
    """The operands or the results, one letter each."""
    def letter(p):
        if p.option == OpSchema.FormalParameterOption.Variadic:
            return "+" if p.min_arity > 0 else "*"
        return "?" if p.option == OpSchema.FormalParameterOption.Optional else "1"
    return "".join(map(letter, formal))


def written(value):
    """A default, as text without spaces."""
    value = onnx.helper.get_attribute_value(value)
    if isinstance(value, float):
        return str(numpy.float32(value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        # An empty tensor of no type, which says that there is no default.
        assert not value.dims and not value.data_type, value
        return ""
    return str(value).replace(" ", "")


def attributes(schema):
    """The attributes: each with its kind, and `!` if it is required, or `=` and its default."""
    cells = []
    for name, a in sorted(schema.attributes.items()):
        default = written(a.default_value) if a.default_value.name else ""
        assert not re.search(r"\s", default), (schema.name, name, default)
        tail = "!" if a.required else f"={default}" if default or a.default_value.type == onnx.AttributeProto.STRING else ""
        cells.append(f"{name}:{KINDS[a.type.name]}{tail}")
    return " ".join(cells)


def made():
    """The text of the file."""
    schemas = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        schemas.setdefault(schema.domain, []).append(schema)
    sets, tables = {}, []
    for domain, table in DOMAINS.items():
        rows = []
        for s in sorted(schemas[domain], key=lambda s: (s.name, s.since_version)):
            # `GroupNormalization` 18 is deprecated, and models carry it all the same.
            gone = s.deprecated and s.name != "GroupNormalization"
            of = "GONE" if gone else sets.setdefault(element_types(s), len(sets))
            kept = "" if gone else attributes(s)
            rows.append(f'    ("{s.name}", {s.since_version}, "{parameters(s.inputs)}", "{parameters(s.outputs)}", "{kept}", {of}),\n')
        tables.append(f"/// The operators of `{domain or 'ai.onnx'}`, by name and version.\n#[rustfmt::skip]\n"
                      f"pub(super) const {table}: &[Row] = &[\n{''.join(rows)}];\n")
    listed = "".join(f'    "{text}",\n' for text in sets)
    return f'''//! ONNX's schemas: what each version of each operator takes. `schema/schemas.py` writes this file from ONNX 1.23.
//!
//! A row holds from its version to the operator's next row. Of operands and results, `1` is one that is required, `?` one
//! that may be left out, `+` and `*` any number, of at least one and none. Attributes are `name:kind`, with `!` if required
//! or `=default`; the kinds are the letters of [`AttributeSchema::kind`](super::AttributeSchema::kind).
//!
//! The last column is the index of a set of [`SETS`], or [`GONE`] if the version took the operator away. The set is that
//! of the operand that has the type of the first result; where none has, of the operand with the most types, or of the
//! result.

/// A version of an operator: name, version, operands, results, attributes, element types.
pub(super) type Row = (&'static str, i64, &'static str, &'static str, &'static str, u8);

/// Stands for the element types of a version that took the operator away.
pub(super) const GONE: u8 = u8::MAX;

/// The sets of element types.
#[rustfmt::skip]
pub(super) const SETS: &[&str] = &[
{listed}];

''' + "\n".join(tables)


if __name__ == "__main__":
    text = made()
    if "--check" in sys.argv:
        sys.exit(0 if PATH.read_text() == text else f"{PATH} is not what {__file__} writes")
    PATH.write_text(text)
