"""The package under ONNX Runtime's name, for programs that import that.

    import bb.onnxruntime
    bb.onnxruntime.install()        # `import onnxruntime` gives this module from here on

    python -m bb.onnxruntime program.py arguments…
    python -m bb.onnxruntime -m module arguments…

The variable `BB_BACKEND` names the backend of the program's sessions, and `BB_BACKEND_PATH` libraries of backends.
"""

from __future__ import annotations

import sys
from typing import Any

import bb
from bb import *  # noqa: F403
from bb import capi
from bb._installed import install as _find_parts
from bb._process import INTERFACE
from bb._process import interface_version as get_version_string

__all__ = bb.__all__ + bb._MORE
globals().update({name: getattr(bb, name) for name in bb._MORE})

#: The version of ONNX Runtime whose interface this is; `bb.__version__` is the package's own.
__version__ = version = INTERFACE
package_name = "onnxruntime"
cuda_version = ""


def __getattr__(name: str) -> Any:
    return getattr(bb, name)


def install() -> None:
    """Makes `import onnxruntime` give this module, whether ONNX Runtime is installed or not.

    Call it before anything imports ONNX Runtime.
    """
    own = sys.modules[__name__] if __name__ != "__main__" else __import__("bb.onnxruntime", fromlist=["install"])
    there = sys.modules.get("onnxruntime")
    if there is not None and there is not own:
        raise RuntimeError("ONNX Runtime is imported already; call `install` before that")
    sys.modules["onnxruntime"] = own
    # So that `import onnxruntime.quantization` asks where parts of an installed ONNX Runtime are.
    own.__path__ = []
    _find_parts()
    for name in ("", ".onnxruntime_pybind11_state", ".onnxruntime_inference_collection", "._pybind_state"):
        __import__(f"bb.capi{name}")
        sys.modules[f"onnxruntime.capi{name}"] = sys.modules[f"bb.capi{name}"]


if __name__ == "__main__":
    import runpy

    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"] or arguments[0] in ("-h", "--help"):
        sys.exit("expected a program: python -m bb.onnxruntime program.py …, or python -m bb.onnxruntime -m module …")
    import os

    if arguments[0] != "-m" and not os.path.exists(arguments[0]):
        sys.exit(f"there is no program `{arguments[0]}`")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
