"""Where ONNX Runtime defines its sessions and values."""

from .._binding import IOBinding
from .._session import Session
from .._session import Session as InferenceSession
from .._value import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]
