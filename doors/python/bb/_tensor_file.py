"""Tensors in files of ONNX's format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _bb
from .errors import FileError, _make

if TYPE_CHECKING:
    import numpy as np


def read_tensor(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """Reads a file with one tensor in ONNX's format (`TensorProto`), for example `input_0.pb` of ONNX's test data.

    Returns:
        An array. Strings are objects in it.

    Raises:
        FileNotFound: there is no file.
        FileError: the file cannot be read, or is no tensor.
        MissingPackage: NumPy has no elements of the type, and `ml_dtypes` is not installed.
    """
    where = os.fspath(path)
    if not os.path.exists(where):
        raise _make("FileNotFound", f"there is no file {where!r}", {"kind": "configuration", "filename": where})
    try:
        array: np.ndarray[Any, Any] = _bb.read_tensor(where)
    except FileError as error:
        error.filename = where
        raise
    return array
