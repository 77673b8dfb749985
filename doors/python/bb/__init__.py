"""ONNX models on any backend of `bb`.

    import bb

    session = bb.Session("model.onnx")
    [scores] = session.run({"x": x})

`Session` behaves like `onnxruntime.InferenceSession`; `import bb as onnxruntime` is enough for most programs, and
`bb.onnxruntime.install()` redirects `import onnxruntime` here. `import bb.backend` is ONNX's backend interface, and needs the package
`onnx`. `class Mine(bb.Backend)` is a backend.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import Any, cast

from . import errors
from ._author import Backend, Conformance, conformance, primitives, register, unregister
from ._bb import CancelToken, Graph, Node, backends, limits
from ._binding import IOBinding
from ._generate import Generation, Generator
from ._hints import no_attribute
from ._installed import PARTS as _PARTS
from ._options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    backend_name,
    backend_options,
    get_available_providers,
)
from ._process import (
    ABSENT,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from ._session import ModelMetadata, NodeArg, Session
from ._value import OrtDevice, OrtValue, copy_tensors
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

#: The names that ONNX Runtime has for a session and a binding.
InferenceSession = Session
SessionIOBinding = IOBinding
get_all_providers = get_available_providers

try:
    __version__ = _version("bb")
except PackageNotFoundError:
    __version__ = "0"


def get_version_string() -> str:
    """The version of the package."""
    return __version__


def __getattr__(name: str) -> Any:
    if name == "capi":
        from importlib import import_module

        return import_module(".capi", __name__)
    if name == "backend":
        from importlib import import_module

        try:
            return import_module(".backend", __name__)
        except MissingPackage as missing:
            raise AttributeError(f"bb has no `backend`: {missing}", name=name) from None
    if name in _PARTS:
        raise AttributeError(
            f"bb has no `{name}`: call `bb.onnxruntime.install()`, and import `onnxruntime.{name}` of an installed ONNX Runtime"
        )
    if name in ABSENT:
        raise AttributeError(f"bb has no `{name}`: {ABSENT[name]}", name=name)
    raise no_attribute(f"module 'bb' has no attribute {name!r}", name, __all__)


def get_device() -> str:
    """Returns the kind of device that sessions run on by default."""
    return "CPU"


def _session(model: Any, options: dict[str, Any]) -> Session:
    if isinstance(model, Session):
        if options:
            raise TypeError("a session that is open takes no options")
        return model
    return Session(model, **options)


def inspect(model: Any, **options: Any) -> dict[str, Any]:
    """Describes a model; see `Session.inspect`. The options are the options of `Session`."""
    return _session(model, options).inspect()


def coverage(model: Any = None, *, backend: str | None = None, **options: Any) -> dict[str, Any]:
    """Returns how each node of a model runs on a backend; without a model, how each operator runs, by version and element type."""
    if model is None:
        from . import _bb

        return cast(dict[str, Any], json.loads(_bb.operators(backend_name(backend))))
    return (model if isinstance(model, Session) else Session(model, backend, **options)).coverage()


def profile(model: Any, feeds: Any, runs: int = 10, warmup: int = 1, **options: Any) -> dict[str, Any]:
    """Runs a model and measures each part of it; see `Session.profile`. The options are the options of `Session`."""
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
    """Runs a model here and elsewhere; see `Session.compare`. The options are the options of `Session`."""
    return _session(model, options).compare(feeds, other, rtol=rtol, atol=atol, per_node=per_node)


__all__ = [
    "Backend",
    "BackendError",
    "CancelToken",
    "Cancelled",
    "Conformance",
    "DeadlineExceeded",
    "Error",
    "ExecutionMode",
    "ExecutionOrder",
    "FileError",
    "FileNotFound",
    "Generation",
    "Generator",
    "Graph",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InputError",
    "InternalError",
    "LimitError",
    "MissingPackage",
    "ModelError",
    "ModelMetadata",
    "Node",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "OutOfMemory",
    "OutputError",
    "RunError",
    "RunOptions",
    "Session",
    "SessionIOBinding",
    "SessionOptions",
    "UnsupportedError",
    "backend_options",
    "backends",
    "compare",
    "conformance",
    "copy_tensors",
    "coverage",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "errors",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "has_collective_ops",
    "inspect",
    "limits",
    "preload_dlls",
    "primitives",
    "print_debug_info",
    "profile",
    "register",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "unregister",
]
