"""Writes what ONNX's own inference says of every model of a folder beside it, as `NAME.inferred`.

Where that inference refuses a model nothing is written.
"""
import pathlib
import sys

import onnx

files = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
refused = 0
for file in files:
    try:
        model = onnx.load(file, load_external_data=False)
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception:
        refused += 1
        continue
    file.with_suffix(".inferred").write_bytes(inferred.SerializeToString())
print(f"{len(files)} models inferred by ONNX, {refused} of them refused")
