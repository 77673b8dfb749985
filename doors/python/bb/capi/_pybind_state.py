"""ONNX Runtime's other name for its native part."""

from .onnxruntime_pybind11_state import *  # noqa: F403
from .onnxruntime_pybind11_state import __all__ as __all__
from .onnxruntime_pybind11_state import __getattr__ as __getattr__
