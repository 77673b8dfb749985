"""What ONNX Runtime sets for the whole process, and what it says of itself."""

from __future__ import annotations

import platform

#: The version of ONNX Runtime whose interface this package follows.
INTERFACE = "1.23.0"

#: What ONNX Runtime has and this package has not, and what to use.
ABSENT = {
    "AdapterFormat": "write the adapter's weights into the model",
    "LoraAdapter": "write the adapter's weights into the model",
    "ModelCompiler": "`session.save(path)` writes a compiled model",
    "OrtAllocatorType": "the backend's memory is bounded by `Session(model, memory=…)`",
    "OrtArenaCfg": "the backend's memory is bounded by `Session(model, memory=…)`",
    "OrtMemType": "the backend's memory is bounded by `Session(model, memory=…)`",
    "OrtMemoryInfo": "the backend's memory is bounded by `Session(model, memory=…)`",
    "SparseTensor": "pass dense arrays",
    "create_and_register_allocator": "the backend's memory is bounded by `Session(model, memory=…)`",
    "create_and_register_allocator_v2": "the backend's memory is bounded by `Session(model, memory=…)`",
    "get_ep_devices": "`bb.backends()` lists the backends",
    "register_execution_provider_library": "`bb.backends()` lists the backends; none is loaded while a program runs",
    "set_global_thread_pool_sizes": "`Session(model, threads=…)` says how many threads a session has",
    "set_seed": "an operator that draws numbers has an attribute `seed`",
    "unregister_execution_provider_library": "`bb.backends()` lists the backends; none is loaded while a program runs",
}


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
