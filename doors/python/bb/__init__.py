"""ONNX models on any backend of `bb`.

    import bb

    session = bb.Session("model.onnx")
    [scores] = session.run({"x": x})

`Session` behaves like `onnxruntime.InferenceSession`; `import bb as onnxruntime` is enough for most programs, and
`bb.onnxruntime.install()` redirects `import onnxruntime` here. `import bb.backend` is ONNX's backend interface, and needs the package
`onnx`. `class Mine(bb.Backend)` is a backend. `help(bb.errors)` describes the errors.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import Any, cast

from . import errors
from ._author import Backend, primitives, register, unregister
from ._bb import CancelToken, Graph, Node, backends, limits
from ._binding import IOBinding
from ._conformance import Conformance, conformance
from ._generate import Generation, Generator
from ._hints import no_attribute
from ._installed import PARTS as _PARTS
from ._options import (
    ExecutionMode as ExecutionMode,
    ExecutionOrder as ExecutionOrder,
    GraphOptimizationLevel as GraphOptimizationLevel,
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
from ._session import ExaminedSession, Session
from ._session import ModelMetadata as ModelMetadata
from ._session import NodeArg as NodeArg
from ._tensor_file import read_tensor
from ._value import OrtDevice, OrtValue, copy_tensors
from .errors import (
    BackendError as BackendError,
    Cancelled as Cancelled,
    DeadlineExceeded as DeadlineExceeded,
    Error,
    FileError as FileError,
    FileNotFound as FileNotFound,
    InputError as InputError,
    InternalError as InternalError,
    LimitError as LimitError,
    MissingPackage as MissingPackage,
    ModelError as ModelError,
    OutOfMemory as OutOfMemory,
    OutputError as OutputError,
    RunError as RunError,
    UnsupportedError as UnsupportedError,
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
    raise no_attribute(f"module 'bb' has no attribute {name!r}", name, [*__all__, *_MORE])


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
    return (model if isinstance(model, Session) else ExaminedSession(model, backend, **options)).coverage()


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
    "CancelToken",
    "Conformance",
    "Error",
    "Generation",
    "Generator",
    "Graph",
    "IOBinding",
    "Node",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "Session",
    "SessionOptions",
    "backend_options",
    "backends",
    "compare",
    "conformance",
    "copy_tensors",
    "coverage",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "errors",
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
    "read_tensor",
    "register",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "unregister",
]

#: The public names whose help is long and inherited: other names of ONNX Runtime, and the errors, which `help(bb.errors)` describes.
_MORE = [
    "BackendError",
    "Cancelled",
    "DeadlineExceeded",
    "ExecutionMode",
    "ExecutionOrder",
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
    "SessionIOBinding",
    "UnsupportedError",
    "get_all_providers",
]
