"""ONNX models on any backend of `bb`.

    import bb

    session = bb.Session("model.onnx")
    [scores] = session.run({"x": x})

`Session` behaves like `onnxruntime.InferenceSession`; `import bb as onnxruntime` is enough for most programs. `bb.backend` is ONNX's
backend interface.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import Any, cast

from . import errors
from ._bb import CancelToken, backends, limits
from ._options import (
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    get_available_providers,
)
from ._session import ModelMetadata, NodeArg, Session
from .errors import (
    BackendError,
    Cancelled,
    DeadlineExceeded,
    Error,
    FileError,
    FileNotFound,
    InputError,
    InternalError,
    LimitError,
    MissingPackage,
    ModelError,
    OutOfMemory,
    OutputError,
    RunError,
    UnsupportedError,
)

#: The name that ONNX Runtime has for a session.
InferenceSession = Session

try:
    __version__ = _version("bb")
except PackageNotFoundError:
    __version__ = "0"


def get_device() -> str:
    """The kind of device on which sessions run unless they are told otherwise."""
    return "CPU"


def _session(model: Any, options: dict[str, Any]) -> Session:
    if isinstance(model, Session):
        if options:
            raise TypeError("a session that is open takes no options")
        return model
    return Session(model, **options)


def inspect(model: Any, **options: Any) -> dict[str, Any]:
    """What a model is; see `Session.inspect`. The options are those of `Session`."""
    return _session(model, options).inspect()


def coverage(model: Any = None, *, backend: str = "cpu", **options: Any) -> dict[str, Any]:
    """What runs each node of a model on a backend; without a model, what runs each operator, by version and element type."""
    if model is None:
        from . import _bb

        return cast(dict[str, Any], json.loads(_bb.operators(backend)))
    return (model if isinstance(model, Session) else Session(model, backend, **options)).coverage()


def profile(model: Any, feeds: Any, runs: int = 10, warmup: int = 1, **options: Any) -> dict[str, Any]:
    """Runs a model and measures each part of it; see `Session.profile`. The options are those of `Session`."""
    return _session(model, options).profile(feeds, runs, warmup)


def compare(
    model: Any,
    feeds: Any,
    other: Any = "reference",
    *,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    per_node: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Runs a model here and elsewhere; see `Session.compare`. The options are those of `Session`."""
    return _session(model, options).compare(feeds, other, rtol=rtol, atol=atol, per_node=per_node)


__all__ = [
    "BackendError",
    "CancelToken",
    "Cancelled",
    "DeadlineExceeded",
    "Error",
    "ExecutionMode",
    "FileError",
    "FileNotFound",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InputError",
    "InternalError",
    "LimitError",
    "MissingPackage",
    "ModelError",
    "ModelMetadata",
    "NodeArg",
    "OutOfMemory",
    "OutputError",
    "RunError",
    "RunOptions",
    "Session",
    "SessionOptions",
    "UnsupportedError",
    "backends",
    "compare",
    "coverage",
    "errors",
    "get_available_providers",
    "get_device",
    "inspect",
    "limits",
    "profile",
]
