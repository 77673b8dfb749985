"""Registers a plugin of `bb` in an ONNX Runtime that is too old for it, which must be an error that says so.

    python too_old.py LIBRARY
"""

from __future__ import annotations

import sys

import onnxruntime as ort

try:
    ort.register_execution_provider_library("plugin", sys.argv[1])
except Exception as error:
    print(f"ONNX Runtime {ort.__version__}: {error}")
    sys.exit("1.23" not in str(error) or ort.__version__ not in str(error))
sys.exit(f"ONNX Runtime {ort.__version__} takes the library")
