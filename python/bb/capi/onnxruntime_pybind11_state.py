"""ONNX Runtime's exceptions: the classes of `bb.errors` that are raised in their places."""

from .._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions, get_available_providers
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
    "SessionOptions",
    "get_available_providers",
]
