"""Lists ONNX Runtime's operators on the CPU that ONNX has not: `python tests/data/runtime/make.py`, with `onnx` 1.23 and
`onnxruntime` 1.32 installed. It writes `operators.txt`.

A line is a domain, where `ai.onnx` is ONNX's own, a name, and the versions of the domain that a kernel serves. Of an operator
that ONNX has from a later version on, the line has the versions before it. A line with a word behind it is of a kernel that the
package for x86-64 has not: `arm64` stands for processors with arithmetic of 16-bit floats, `training` and `torch` for builds
with these parts. They are from `onnxruntime/contrib_ops/cpu/cpu_contrib_kernels.cc` of version 1.32.
"""
import pathlib

import onnx.defs
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

ENDLESS = 2**31 - 1
ELSEWHERE = [
    ("com.microsoft", "NhwcFusedConv", 1, ENDLESS, "arm64"),
    ("com.ms.internal.nhwc", "AveragePool", 11, ENDLESS, "arm64"),
    ("com.ms.internal.nhwc", "GlobalAveragePool", 1, ENDLESS, "arm64"),
    ("com.ms.internal.nhwc", "MaxPool", 12, ENDLESS, "arm64"),
    ("com.microsoft", "ShrunkenGather", 1, ENDLESS, "training"),
    ("org.pytorch.aten", "ATen", 1, ENDLESS, "torch"),
]
assert onnxruntime.__version__.startswith("1.32."), onnxruntime.__version__

first = {}
for schema in onnx.defs.get_all_schemas_with_history():
    key = (schema.domain, schema.name)
    first[key] = min(first.get(key, ENDLESS), schema.since_version)
rows = {}
for kernel in state.get_all_opkernel_def():
    key = (kernel.domain, kernel.op_name)
    since, until = kernel.version_range
    until = min(until, first.get(key, ENDLESS + 1) - 1)
    if since <= until:
        least, most = rows.get(key, (since, until))
        rows[key] = (min(least, since), max(most, until))
lines = [(domain, name, *versions, "") for (domain, name), versions in rows.items()] + ELSEWHERE
text = f"# Written by make.py, which says what the columns are, from ONNX Runtime {onnxruntime.__version__}.\n"
for domain, name, since, until, where in sorted(lines):
    text += f"{domain or 'ai.onnx'} {name} {since}{'+' if until == ENDLESS else '' if since == until else f'-{until}'} {where}".rstrip() + "\n"
(pathlib.Path(__file__).parent / "operators.txt").write_text(text)
