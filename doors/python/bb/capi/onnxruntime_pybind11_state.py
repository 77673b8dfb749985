"""ONNX Runtime's exceptions: the classes of `bb.errors` that are raised in their places."""

from __future__ import annotations

from typing import Any

from .._binding import IOBinding as SessionIOBinding
from .._installed import native
from .._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions, get_available_providers
from .._process import (
    ABSENT,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    has_collective_ops,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from .._session import ModelMetadata, NodeArg
from .._value import OrtDevice, OrtValue
from ..errors import BackendError as EPFail
from ..errors import Error as Fail
from ..errors import FileNotFound as NoSuchFile
from ..errors import InputError as InvalidArgument
from ..errors import ModelError as InvalidGraph
from ..errors import ModelError as InvalidProtobuf
from ..errors import ModelError as NoModel
from ..errors import RunError as EngineError
from ..errors import RunError as RuntimeException
from ..errors import UnsupportedError as NotImplemented

__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "RuntimeException",
    "SessionIOBinding",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_available_providers",
    "get_build_info",
    "has_collective_ops",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]


def __getattr__(name: str) -> Any:
    # The tools that quantise models pack weights by functions of ONNX Runtime's native part.
    if name.startswith("quantize_"):
        return getattr(native(), name)
    if name in ABSENT:
        raise AttributeError(f"bb has no `{name}`: {ABSENT[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
