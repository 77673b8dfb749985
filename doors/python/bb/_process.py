"""ONNX Runtime's settings for the whole process, and its facts about itself."""

from __future__ import annotations

import platform
from typing import Any, ClassVar

from ._hints import no_attribute

#: The version of ONNX Runtime whose interface this package follows.
INTERFACE = "1.31.0"

_ADAPTER = "write the adapter's weights into the model"
_BACKENDS = "`bb.backends()` lists the backends, and `bb.Session(model, name)` opens one"
_COMPILED = "`session.save(path)` writes a compiled model, and `bb.Session(path)` opens it"
_HOST = "values lie in the host's memory, `cpu`"
_LIBRARIES = "the variable `BB_BACKEND_PATH` names libraries of backends, and `bb.register` takes a class"
_MEMORY = "the backend's memory is bounded by `Session(model, memory=…)`"
_COVERAGE = "`session.coverage()` says what runs each node"

#: Names of ONNX Runtime that this package does not have, with advice on alternatives.
ABSENT = {
    "AdapterFormat": _ADAPTER,
    "LoraAdapter": _ADAPTER,
    "ModelCompiler": _COMPILED,
    "OrtAllocatorType": _MEMORY,
    "OrtArenaCfg": _MEMORY,
    "OrtCompileApiFlags": _COMPILED,
    "OrtDeviceMemoryType": _HOST,
    "OrtDeviceVendorId": _HOST,
    "OrtEpAssignedNode": _COVERAGE,
    "OrtEpAssignedSubgraph": _COVERAGE,
    "OrtEpContextData": _COMPILED,
    "OrtEpContextDataBuffer": _COMPILED,
    "OrtEpDevice": _BACKENDS,
    "OrtExecutionProviderDevicePolicy": _BACKENDS,
    "OrtExternalInitializerInfo": _COMPILED,
    "OrtHardwareDevice": _BACKENDS,
    "OrtHardwareDeviceType": _BACKENDS,
    "OrtMemType": _MEMORY,
    "OrtMemoryInfo": _MEMORY,
    "OrtMemoryInfoDeviceType": _HOST,
    "OrtSparseFormat": "pass dense arrays",
    "OrtSyncStream": _HOST,
    "SparseTensor": "pass dense arrays",
    "create_and_register_allocator": _MEMORY,
    "create_and_register_allocator_v2": _MEMORY,
    "get_ep_devices": _BACKENDS,
    "load": "`bb.Session(path)` opens a model",
    "import_capi_exception": "what cannot be imported is an `ImportError` where it is imported",
    "onnxruntime_validation": "`bb.__version__` is the version of the package",
    "register_execution_provider_library": _LIBRARIES,
    "set_default_logger_callback": "nothing is written to a log",
    "set_global_thread_pool_sizes": "`Session(model, threads=…)` says how many threads a session has",
    "set_seed": "an operator that draws numbers has an attribute `seed`",
    "training": "programs in Rust train models, `bb/docs/training.md`",
    "unregister_execution_provider_library": _LIBRARIES,
}


class Advised:
    """A class of ONNX Runtime's interface that suggests alternatives to its missing attributes."""

    #: Attributes of ONNX Runtime's class that this class does not have, with advice on alternatives.
    _absent: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        cls = type(self).__name__
        if name in self._absent:
            raise AttributeError(f"bb has no `{cls}.{name}`: {self._absent[name]}", name=name)
        raise no_attribute(f"{cls!r} object has no attribute {name!r}", name, dir(self))


def disable_telemetry_events() -> None:
    """Does nothing: nothing is sent anywhere."""


def enable_telemetry_events() -> None:
    """Does nothing: nothing is sent anywhere."""


def set_default_logger_severity(severity: int) -> None:
    """Checks the severity, 0 to 4, and does nothing: nothing is written to a log."""
    if not 0 <= severity <= 4:
        raise ValueError(f"a severity is 0 (verbose) to 4 (fatal), got {severity}")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Does nothing: nothing is written to a log."""


def interface_version() -> str:
    """The version of ONNX Runtime whose interface this package follows."""
    return INTERFACE


def get_build_info() -> str:
    """The processor that the package was built for."""
    return f"bb, {platform.machine()}"


def has_collective_ops() -> bool:
    """Whether there are operators that talk to other machines: there are none."""
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Does nothing: there are no libraries to load."""


def print_debug_info() -> None:
    """Prints facts about the package and the machine."""
    from . import __version__, backends

    print(f"bb {__version__}, with the interface of ONNX Runtime {INTERFACE}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    print(f"backends: {', '.join(backends())}")
