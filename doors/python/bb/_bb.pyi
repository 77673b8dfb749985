"""The native part of the package."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self, final

from typing_extensions import disjoint_base

from ._options import RunOptions

__all__ = [
    "CancelToken",
    "Graph",
    "Node",
    "Session",
    "backend_options",
    "backends",
    "case_folders",
    "conformance_case",
    "conformance_tests",
    "end",
    "limits",
    "operator_names",
    "operators",
    "pass_switches",
    "primitives",
    "read_tensor",
    "register",
    "unregister",
]

@final
class CancelToken:
    """Stops the runs that were given it, from any thread."""

    def __new__(cls) -> CancelToken: ...
    def cancel(self) -> None:
        """Stops the runs, also those that have not begun."""

    def reset(self) -> None:
        """Lets runs that begin from now on run; those that were stopped stay stopped."""

    @property
    def cancelled(self) -> bool:
        """Whether the runs were stopped."""

@final
class Graph:
    """A graph of primitives, as `Backend.execute` gets it. The nodes are sorted so that they can run in this order."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes."""

    @property
    def constants(self) -> dict[str, Any]:
        """The constants by name, as `from_host` made them."""

    @property
    def onnx(self) -> bytes:
        """The graph as the bytes of an ONNX model."""

@final
class Node:
    """A call of a primitive in a graph."""

    @property
    def operator(self) -> str:
        """The primitive as ONNX names it, as in `ReduceSum`."""

    @property
    def method(self) -> str:
        """The primitive as a method, as in `reduce_sum`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the operands."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters by name, in the order of the method's."""

@disjoint_base
class Session:
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...
    def _open(
        self,
        model: Any,
        folder: str | PathLike[str] | None,
        backend: str,
        threads: int | None,
        memory: int | None,
        dims: Mapping[str, int],
        limits: Mapping[str, str],
        flags: Mapping[str, bool],
        given: Mapping[str, Any],
    ) -> None: ...
    def run(
        self,
        output_names: Any = None,
        input_feed: Any = None,
        run_options: RunOptions | None = None,
        *,
        feeds: Any = None,
        fetch: Sequence[str] | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> list[Any]:
        """Runs the model.

        `run(feeds)` returns all outputs in order. `run(names, feeds)` and `run(feeds, fetch=names)` return the named outputs; a
        name may also be an inner value. The inputs come in a dict by name, or in a list by position; each is an array, or anything that
        gives one by DLPack or `__array__`; a list for a sequence, a dict for a map, `None` for an input that is left out. A tensor comes
        back as an array, which may be written; a sequence as a list, a map as a dict, an absent value as `None`.

        The interpreter's lock is released meanwhile. `timeout` counts seconds, and raises `DeadlineExceeded`; `cancel`, and
        `run_options`, stop the run from another thread, which raises `Cancelled`. Ctrl-C raises `KeyboardInterrupt`.
        """

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the compiled model to a file that opens faster, with the plans that runs made so far."""

    @property
    def backend(self) -> str:
        """The name of the backend."""

    def _inputs(self) -> list[tuple[str, str, list[int | str | None] | None, bool]]: ...
    def _outputs(self) -> list[tuple[str, str, list[int | str | None] | None, bool]]: ...
    def _facts(self) -> str: ...
    def _inspect(self) -> str: ...
    def _coverage(self) -> str: ...
    def _coverage_on(self, author: Any, base: type[Any]) -> str: ...
    def _profile(self, feeds: Any, runs: int, warmup: int) -> str: ...
    def _values(self) -> list[tuple[str, str, str]]: ...

def backends() -> list[str]:
    """Lists the backends that this library has, by name."""

def pass_switches() -> list[tuple[str, str, bool]]:
    """Lists the switches of passes: name, effect while it is on, and whether it is on by default."""

def limits() -> list[tuple[str, str, str, str]]:
    """Lists the limits on untrusted models and inputs: name, unit, description, and default."""

def backend_options(name: str) -> list[tuple[str, str, str | None, str]] | None: ...
def operator_names() -> list[str]: ...
def operators(backend: str) -> str: ...
def register(author: Any, base: type[Any], name: str, version: str, path: str) -> None: ...
def unregister(name: str) -> bool: ...
def end() -> None: ...
def read_tensor(path: str | PathLike[str]) -> Any: ...
def primitives() -> list[tuple[str, list[str], str]]: ...
def conformance_tests(name: str | None, author: Any, base: type[Any]) -> list[tuple[str, str, str]]: ...
def case_folders(folder: str | PathLike[str]) -> list[tuple[str, str]]: ...
def conformance_case(backend: str, name: str, path: str | PathLike[str]) -> tuple[str, str, str]: ...
