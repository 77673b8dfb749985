"""Writes `bb-ir/src/opset/element_types.rs` from ONNX's schemas: `python bb-ir/schema/element_types.py` (onnx 1.23)."""
import pathlib
import re

import onnx

NAMES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool", "string": "string",
    "complex64": "c64", "complex128": "c128", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1",
    "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2", "float6e2m3": "f6e2m3", "float6e3m2": "f6e3m2",
}
ORDER = list(NAMES.values())
DOMAINS = {"": "ONNX", "ai.onnx.ml": "ML", "ai.onnx.preview": "PREVIEW", "ai.onnx.preview.training": "TRAINING"}


def elements(types):
    """The element types inside type strings, as in `seq(tensor(float))`, in a fixed order."""
    found = {NAMES[t] for text in types for t in re.findall(r"tensor\((\w+)\)", text)}
    return " ".join(t for t in ORDER if t in found)


def of(schema):
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


schemas = {}
for schema in onnx.defs.get_all_schemas_with_history():
    schemas.setdefault(schema.domain, {}).setdefault(schema.name, []).append(schema)
sets, tables = {}, []
for domain, name in DOMAINS.items():
    rows = []
    for op, versions in sorted(schemas.get(domain, {}).items()):
        cells = []
        for schema in sorted(versions, key=lambda s: s.since_version):
            # `GroupNormalization` 18 is deprecated, and models carry it all the same.
            gone = schema.deprecated and op != "GroupNormalization"
            types = "-" if gone else sets.setdefault(of(schema), len(sets))
            cells.append(f"{schema.since_version}:{types}")
        rows.append(f'    ("{op}", "{" ".join(cells)}"),\n')
    tables.append(f"/// The operators of `{domain or 'ai.onnx'}`, by name.\n#[rustfmt::skip]\n"
                  f"pub(super) const {name}: &[Row] = &[\n{''.join(rows)}];\n")
listed = "".join(f'    "{text}",\n' for text in sets)
out = f'''//! The versions of ONNX's operators, and the element types that each takes.
//!
//! A version is its number and the index of a set of [`SETS`], or `-` if the operator is gone. The set is that of
//! the operand that has the type of the first result; where none has, of the operand with the most types, or of the
//! result.
//!
//! Source: the schemas of ONNX 1.23, by `schema/element_types.py`. Sorted by name.

/// An operator's name, and its versions.
pub(super) type Row = (&'static str, &'static str);

/// The sets of element types.
#[rustfmt::skip]
pub(super) const SETS: &[&str] = &[
{listed}];

''' + "\n".join(tables)
path = pathlib.Path(__file__).parent.parent / "src/opset/element_types.rs"
path.write_text(out)
print(len(sets), "sets;", out.count("\n"), "lines")
