"""Registers a plugin of `bb` in an ONNX Runtime that is too old for it, which must be an error that says so. Python's interface of that version
has no such function, so that the one of C is called.

    python too_old.py LIBRARY
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import onnxruntime as ort

#: The positions of functions in the table of the version.
ERROR_MESSAGE, CREATE_ENV, REGISTER = 2, 3, 301


class Base(ctypes.Structure):
    _fields_ = [("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)), ("version", ctypes.c_void_p)]


def main(library: str) -> int:
    folder = Path(ort.__file__).parent / "capi"
    (path,) = folder.glob("libonnxruntime.so.*")
    runtime = ctypes.CDLL(str(path))
    runtime.OrtGetApiBase.restype = ctypes.POINTER(Base)
    minor = int(ort.__version__.split(".")[1])
    table = ctypes.cast(runtime.OrtGetApiBase().contents.get_api(minor), ctypes.POINTER(ctypes.c_void_p))

    def function(at: int, result: type, *arguments: type) -> ctypes._CFuncPtr:
        return ctypes.CFUNCTYPE(result, *arguments)(table[at])

    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    environment = pointer()
    status = function(CREATE_ENV, pointer, ctypes.c_int, text, ctypes.POINTER(pointer))(4, b"test", ctypes.byref(environment))
    assert not status
    status = function(REGISTER, pointer, pointer, text, text)(environment, b"plugin", library.encode())
    if not status:
        print(f"WRONG: ONNX Runtime {ort.__version__} takes the library")
        return 1
    message = function(ERROR_MESSAGE, text, pointer)(status).decode()
    print(f"ONNX Runtime {ort.__version__}: {message}")
    return int("1.23 or newer" not in message or ort.__version__ not in message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
