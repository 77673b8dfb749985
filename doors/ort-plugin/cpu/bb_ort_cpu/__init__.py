"""The CPU backend of `bb` as a plugin of ONNX Runtime.

    import bb_ort_cpu, onnxruntime
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(bb_ort_cpu.devices(), {})
    session = onnxruntime.InferenceSession("model.onnx", options)  # without `providers`, which overrides the devices

`PROVIDER in session.get_providers()` shows whether the session uses the plugin.

Before `onnxruntime.unregister_execution_provider_library(PROVIDER)`, close all sessions of the plugin and drop all `SessionOptions` with its
devices: ONNX Runtime frees the devices without a check, and crashes if they are used later.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

#: The name of the provider, of which devices and options are.
PROVIDER = "bb-cpu"

_lock = threading.Lock()


def library_path() -> str:
    """Returns the path of the library, as `onnxruntime.register_execution_provider_library` takes it."""
    name = {"win32": "bb_ort_cpu.dll", "darwin": "libbb_ort_cpu.dylib"}.get(sys.platform, "libbb_ort_cpu.so")
    return str(Path(__file__).parent / name)


def devices() -> list[Any]:
    """Returns the devices of the provider, as `SessionOptions.add_provider_for_devices` takes them. Registers the library if it is not.

    The devices, and options with them, must not be used after the library is unregistered.
    """
    import onnxruntime

    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise RuntimeError(
            f"bb_ort_cpu needs ONNX Runtime 1.23 or newer, and {onnxruntime.__version__} is installed: `pip install -U onnxruntime`"
        )

    def own() -> list[Any]:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]

    with _lock:
        if not own():
            onnxruntime.register_execution_provider_library(PROVIDER, library_path())
        return own()
