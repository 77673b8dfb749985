"""Inputs and outputs that are bound to memory, with ONNX Runtime's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._hints import meant
from ._options import RunOptions
from ._process import Advised
from ._value import OrtValue, dtype_of, memory_at, on_host

if TYPE_CHECKING:
    from ._session import Session


class IOBinding(Advised):
    """What a session reads and where it leaves its results, from run to run.

    Results that are bound to memory are copied there.
    """

    _absent = {"get_outputs_as_ortvaluevector": "`get_outputs` gives the values"}

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, np.ndarray[Any, Any] | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an input to an array."""
        self._bind(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: Any, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds an input to memory, which the caller keeps alive."""
        on_host(device_type)
        self._bind(name, memory_at(buffer_ptr, dtype_of(element_type), shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        self._bind(name, ortvalue.numpy())

    def bind_output(
        self,
        name: str,
        device_type: Any = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output, into memory of the caller if an address is given."""
        on_host(device_type)
        if buffer_ptr is None:
            self._ask(name, None)
        elif element_type is None or shape is None:
            raise ValueError("memory for an output needs `element_type` and `shape`")
        else:
            self._ask(name, memory_at(buffer_ptr, dtype_of(element_type), shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output, into the memory of a value."""
        self._ask(name, ortvalue._array())

    def synchronize_inputs(self) -> None:
        """Does nothing: inputs are in the host's memory."""

    def synchronize_outputs(self) -> None:
        """Does nothing: a run has ended when it returns."""

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order of their bindings."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The results of the last run as arrays."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs."""
        self._outputs.clear()
        self._results.clear()

    def _bind(self, name: str, value: Any) -> None:
        known = [port.name for port in (*self._session.get_inputs(), *self._session.get_overridable_initializers())]
        if name not in known:
            raise ValueError(f"the model has no input {name!r}; its inputs are {known}{meant(name, known)}")
        self._inputs[name] = value

    def _ask(self, name: str, into: np.ndarray[Any, Any] | None) -> None:
        known = [port.name for port in self._session.get_outputs()]
        if name not in known:
            raise ValueError(f"the model has no output {name!r}; its outputs are {known}{meant(name, known)}")
        self._outputs[name] = into

    def _run(self, run_options: RunOptions | None) -> None:
        if not self._outputs:
            raise ValueError("no output is bound: call `bind_output` for those that the run should give")
        found = self._session.run(list(self._outputs), self._inputs, run_options)
        for (name, into), value in zip(self._outputs.items(), found, strict=True):
            if into is None:
                continue
            if not isinstance(value, np.ndarray) or value.dtype != into.dtype or value.shape != into.shape:
                what = f"{value.dtype} with extents {list(value.shape)}" if isinstance(value, np.ndarray) else repr(type(value))
                raise ValueError(
                    f"output {name!r} is {what}; the bound memory is for {into.dtype} with extents {list(into.shape)}"
                )
        for (name, into), value in zip(self._outputs.items(), found, strict=True):
            if into is not None:
                into[...] = value
        bound = zip(self._outputs.values(), found, strict=True)
        self._results = [OrtValue(value if into is None else into) for into, value in bound]
