"""Writes `onnxruntime.tsv`: the attributes of ONNX Runtime's own operators that have a default, from its schemas.

`python tests/data/defaults/make.py`, with `onnx` and `onnxruntime` 1.32 installed. A line is the domain, the operator, the version, the attribute, the
kind and the default. Some attributes have no default in the schema, but their description says one ("Default value is 0."), or ONNX Runtime's kernels
take 0 for "not given"; programs that write models write those out, too.
"""
import pathlib
import re

import onnx
from onnxruntime.capi import _pybind_state as runtime

DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
TOLD = re.compile(r"[Dd]efault(?: value)?(?: is|:)? (-?\d+(?:\.\d+)?(?:e-?\d+)?)(?!/)")
# Attributes for which 0 stands for "not given", by the code of the kernels.
ZERO = {"scale": 0.0, "past_present_share_buffer": 0, "rotary_embedding_dim": 0, "kv_cache_bit_width": 0, "output_qk": 0}


def default(name, attribute):
    """The default as the schema has it, as its description says it, or as the kernels have it."""
    if attribute._default_value:
        proto = onnx.AttributeProto.FromString(attribute._default_value)
        return onnx.helper.get_attribute_value(proto)
    told = TOLD.search(attribute.description)
    kind = attribute.type.name
    if told and kind in ("INT", "FLOAT"):
        return int(float(told[1])) if kind == "INT" else float(told[1])
    return None if name == "scale" and "sqrt(head_size)" not in attribute.description else ZERO.get(name)


def text(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return ",".join(map(text, value))
    # As many digits as tell the float from others.
    return str(value) if isinstance(value, int) else f"{value:.9g}"


lines = set()
for schema in runtime.get_all_operator_schema():
    if schema.domain not in DOMAINS or schema.deprecated:
        continue
    for name, attribute in schema.attributes.items():
        value = default(name, attribute)
        if value is not None and not attribute.required:
            row = [schema.domain, schema.name, str(schema.since_version), name, attribute.type.name, text(value)]
            assert not any("\t" in part or "\n" in part for part in row), row
            lines.add("\t".join(row))
path = pathlib.Path(__file__).with_name("onnxruntime.tsv")
path.write_text("\n".join(sorted(lines)) + "\n")
print(len(lines), "defaults")
