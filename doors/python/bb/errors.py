"""Errors: one class for each reaction of a program, with the details as fields."""

from typing import Any, Literal

__all__ = [
    "BackendError",
    "Cancelled",
    "DeadlineExceeded",
    "Error",
    "FileError",
    "FileNotFound",
    "InputError",
    "InternalError",
    "LimitError",
    "MissingPackage",
    "ModelError",
    "OutOfMemory",
    "OutputError",
    "RunError",
    "UnsupportedError",
]


#: The kind of an error, by the caller's reaction; `Error.kind` explains the kinds.
ErrorKind = Literal[
    "invalid-model", "wrong-input", "configuration", "unsupported", "limit", "cancelled", "device", "internal"
]


class Error(Exception):
    """The base class of all errors of `bb`. A field that does not apply is `None`, or empty if it is a tuple or a list."""

    #: The kind, by reaction. `invalid-model`: the model is damaged or contradicts itself, and runs nowhere. `wrong-input`: other
    #: inputs or names will do. `configuration`: a file, a backend or an option is not there, or options contradict each other.
    #: `unsupported`: another backend or version may run this. `limit`: a limit or the memory does not suffice. `cancelled`: the run was
    #: ended, or its deadline passed. `device`: a backend, its device or the system failed. `internal`: a mistake in `bb`.
    kind: ErrorKind | None = None
    #: The node that failed: its name, or the name of its first output if it has none.
    node: str | None = None
    #: The operator of the node.
    operator: str | None = None
    #: The operator's domain; empty for `ai.onnx`.
    domain: str | None = None
    #: The extents of the node's operands, or of the input that was refused; `None` for unknown shapes and extents.
    shapes: list[tuple[int | None, ...] | None] | None = None
    #: The element types that belong to `shapes`, in ONNX Runtime's words: `float`, `int64`.
    dtypes: list[str | None] | None = None
    #: All nodes that cannot run, with their operators, if the error is an `UnsupportedError`.
    nodes: list[tuple[str, str]] | None = None
    #: The name of the input that was refused.
    input: str | None = None
    #: The expected value or form; types as in `f32[2, 8]`.
    expected: str | None = None
    #: The value or form that was given.
    got: str | None = None
    #: The file, if one cannot be read or its content is not valid.
    filename: str | None = None
    #: The backend.
    backend: str | None = None
    #: The messages of the causes, the outermost first. They are part of the message.
    causes: tuple[str, ...] = ()


class ModelError(Error, ValueError):
    """A model is not valid."""


class FileError(ModelError, OSError):
    """A file cannot be read or written."""


class FileNotFound(FileError, FileNotFoundError):
    """There is no file at a path."""


class LimitError(Error, ValueError):
    """A model, or a value of a run, exceeds a limit."""


class UnsupportedError(Error, NotImplementedError):
    """Nothing runs some nodes of a model."""


class InputError(Error, ValueError):
    """An input is missing, unknown, or unlike its declaration in the model."""


class OutputError(Error, ValueError):
    """A requested value does not exist in the model."""


class RunError(Error, RuntimeError):
    """A node failed."""


class OutOfMemory(Error, MemoryError):
    """There is no memory for a value, or a backend's limit is reached."""


class DeadlineExceeded(Error, TimeoutError):
    """The deadline of a run passed before its end."""


class Cancelled(Error, RuntimeError):
    """A run was cancelled."""


class BackendError(Error, RuntimeError):
    """A backend cannot be opened, or does not work any more."""


class MissingPackage(Error, ImportError):
    """A package is needed that is not installed, or that this build does not have."""

    kind: ErrorKind | None = "configuration"


class InternalError(Error, RuntimeError):
    """`bb` contradicts itself. No input can cause this: it is a mistake in `bb`."""


def _make(name: str, message: str, fields: dict[str, Any]) -> Error:
    """Makes an error; the native part calls this."""
    error: Error = globals()[name](message)
    for field, value in fields.items():
        setattr(error, field, value)
    return error
