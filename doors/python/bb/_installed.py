"""The parts of ONNX Runtime's package that are written in Python, from an ONNX Runtime that is also installed.

They import sessions from `onnxruntime`, which is this package under that name, so that their models run on `bb`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ._process import ABSENT

#: The parts.
PARTS = ("backend", "datasets", "quantization", "tools", "transformers")

#: The name under which the native part of an installed ONNX Runtime is loaded.
_NATIVE = "onnxruntime_pybind11_state"


@cache
def folder() -> str | None:
    """The folder of an installed ONNX Runtime."""
    spec = PathFinder.find_spec("onnxruntime")
    for place in (spec and spec.submodule_search_locations) or ():
        if os.path.isdir(os.path.join(place, "capi")):
            return place
    return None


def missing(name: str) -> str:
    """Says what to install for a part or a function of an installed ONNX Runtime."""
    return f"bb has no `{name}`, which is a part of ONNX Runtime's own package: pip install onnxruntime"


@cache
def native() -> ModuleType:
    """The native part of an installed ONNX Runtime, for the functions that pack weights.

    Raises:
        ImportError: there is none.
    """
    where = folder()
    spec = PathFinder.find_spec(_NATIVE, [os.path.join(where, "capi")]) if where else None
    if spec is None or spec.loader is None:
        raise ImportError(missing(f"onnxruntime.capi.{_NATIVE}"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Finder:
    """Finds the parts for `import onnxruntime.quantization` and the like."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Finds a part.

        Raises:
            ModuleNotFoundError: ONNX Runtime is not installed, or the package replaces the part.
        """
        above, _, part = name.rpartition(".")
        if above != "onnxruntime":
            return None
        if part in PARTS:
            place = folder()
            if place is None:
                raise ModuleNotFoundError(missing(name), name=name)
            return PathFinder.find_spec(name, [place])
        if part in ABSENT:
            raise ModuleNotFoundError(f"bb has no `{name}`: {ABSENT[part]}", name=name)
        return None


def install() -> None:
    """Makes the import system ask the finder."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
