"""Runs ONNX's own checker, with its type and shape inference, on every model of a folder."""
import pathlib
import sys

import onnx

wrong = 0
files = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
for file in files:
    try:
        onnx.checker.check_model(onnx.load(file), full_check=True)
    except Exception as error:
        wrong += 1
        print(f"{file.name}: {error}")
print(f"{len(files)} graphs checked, {wrong} of them not valid")
sys.exit(1 if wrong or not files else 0)
