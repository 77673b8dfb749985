"""Sessions: models on backends, with the interface of ONNX Runtime's class."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _bb
from ._author import warn_of_mistakes
from ._hints import check_keywords, hinted
from ._options import (
    RunOptions,
    SessionOptions,
    backend_of,
    check_disabled_optimizers,
    check_provider_options,
    default_backend,
    truth,
    whole,
    with_options,
)
from ._process import Advised
from ._value import OrtValue
from .errors import BackendError, LimitError, ModelError, _make

if TYPE_CHECKING:
    from ._binding import IOBinding

_FLAGS = (*(name for name, _, _ in _bb.pass_switches()), "refuse_host", "refuse_lowered", "strict")


class NodeArg(NamedTuple):
    """An input or an output: its name, its type as in `tensor(float)`, and its extents.

    An extent is a number, the name of a symbolic dimension, or `None`.
    """

    name: str
    type: str
    shape: list[int | str | None] | None


class ModelMetadata(NamedTuple):
    """What a model file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class Session(_bb.Session, Advised):
    """A model on a backend.

    It behaves like `onnxruntime.InferenceSession` and takes that class's arguments, too. Threads may share a session. A copy of a
    session is the session itself; a pickled one opens its model again where it is loaded.

    Args:
        path_or_bytes: a file, or a serialized model.
        backend: the name of the backend, `bb.backends()` lists them; with options in parentheses, as in `cpu(threads=1)`. By default
            the one of the variable `BB_BACKEND`, or `cpu`.
        backend_options: options of the backend by name, such as `{"threads": 1}`.
        threads: the number of threads that compute; by default the number of processors.
        dims: extents for symbolic dimensions, which inputs then must have.
        folder: the folder with the external data of serialized bytes.
        memory: the greatest number of bytes that the backend uses.
        limits: limits on untrusted models and inputs, by name; `bb.limits()` lists them.
        fuse: whether chains of element-wise functions become one operation; on by default.
        integers: whether products of quantised models are computed with integers; on by default.
        widen_halves: whether 16-bit floats are kept in 32 bits between operations; on by default.
        recognize: whether parts that a model spells out become one operation; the last digits differ.
        fold_scales: whether scales join the weights of products and convolutions, so that the last digits differ; on by default.
        round_rows: whether products with weights of few bits always use integers, whatever the model requests; off by default.
        refuse_host: whether to refuse models with nodes that the host computes.
        disabled_optimizers: names of ONNX Runtime's rewritings; `bb` does not have them.
        refuse_lowered: whether to refuse models with nodes that are lowered because the backend has no operation for them.
        strict: whether to refuse inputs whose extents differ where the model gives them one name.
    """

    _absent = {
        "get_input_epdevices": "`session.backend` is the name of the backend",
        "get_input_memory_infos": "values lie in the host's memory, `cpu`",
        "get_output_memory_infos": "values lie in the host's memory, `cpu`",
        "get_provider_graph_assignment_info": "`session.coverage()` says what runs each node",
        "input_names": "`session.get_inputs()` lists the inputs",
        "output_names": "`session.get_outputs()` lists the outputs",
        "predict": "`session.run(feeds)` runs the model",
        "get_tuning_results": "a backend tunes itself, and keeps nothing of it in a model",
        "release_captured_graph": "nothing is captured: a plan is kept for all extents",
        "run_with_ortvaluevector": "`run_with_ort_values` runs the model on values",
        "set_ep_dynamic_options": "options of a backend are given when a session is opened, as `backend_options`",
        "set_tuning_results": "a backend tunes itself, and keeps nothing of it in a model",
    }

    _arguments: tuple[Any, ...]
    _options: SessionOptions
    _input_args: list[NodeArg]
    _initializer_args: list[NodeArg]
    _output_args: list[NodeArg]

    def __init__(
        self,
        path_or_bytes: Any,
        backend: Any = None,
        threads: Any = None,
        dims: Mapping[str, int] | None = None,
        *,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        memory: int | None = None,
        limits: Mapping[str, Any] | None = None,
        backend_options: Mapping[str, Any] | None = None,
        disabled_optimizers: Collection[str] | None = None,
        **flags: Any,
    ) -> None:
        # ONNX Runtime's order is: model, options, providers, options of providers.
        if isinstance(backend, SessionOptions):
            backend, sess_options = None, backend
        if isinstance(threads, (list, tuple)):
            threads, providers = None, threads
        check_keywords(Session.__init__, flags, _ARGUMENTS)
        check_provider_options(providers, provider_options)
        check_disabled_optimizers(disabled_optimizers)
        options = sess_options if sess_options is not None else SessionOptions()
        options._refuse_what_writes_files()
        chosen = backend_of(backend, providers)
        name = with_options(chosen, backend_options or {})
        threads, memory = whole("threads", threads), whole("memory", memory)
        if threads is not None and threads < 1:
            raise ValueError(f"`threads` must be at least 1, got {threads}")
        bound = {name: _extent(name, extent) for name, extent in {**options._dims, **(dims or {})}.items()}
        texts = {key: str(value) for key, value in (limits or {}).items()}
        if isinstance(path_or_bytes, (bytearray, memoryview)):
            path_or_bytes = bytes(path_or_bytes)
        elif hasattr(path_or_bytes, "SerializeToString"):
            path_or_bytes = path_or_bytes.SerializeToString()
        model = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        if folder is not None and not os.path.isdir(folder):
            text = f"there is no folder {os.fspath(folder)!r}; `folder` is the folder of the model's external data"
            raise _make("FileNotFound", text, {"kind": "configuration", "filename": os.fspath(folder)})
        given = {flag: truth(flag, value) for flag, value in flags.items()}
        arguments = (model, folder, name, threads, memory, bound, texts, given)
        try:
            self._open(*arguments, options._given())
        except BackendError as error:
            if backend is None and chosen == default_backend() and os.environ.get("BB_BACKEND"):
                error.args = (f"the variable BB_BACKEND names `{chosen}`: {error}",)
            raise
        except LimitError as error:
            if limit := re.search(r"the limit `(\w+)`", str(error)):
                error.args = (f"{error}; raise it: `bb.Session(…, limits={{{limit[1]!r}: …}})`",)
            raise
        except ModelError as error:
            if saved := _SAVED.match(str(error)):
                error.args = (f"{error}; {_advice(saved)}",)
            raise
        self._arguments = arguments
        self._options = options
        self._warn(name)
        self._input_args = [NodeArg(*port[:3]) for port in self._inputs() if not port[3]]
        self._initializer_args = [NodeArg(*port[:3]) for port in self._inputs() if port[3]]
        self._output_args = [NodeArg(*port[:3]) for port in self._outputs()]

    def _warn(self, backend: str) -> None:
        warn_of_mistakes(backend, self)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run needs."""
        return list(self._input_args)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the order of a run's results."""
        return list(self._output_args)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default value in the model."""
        return list(self._initializer_args)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model file says of itself."""
        facts = json.loads(self._facts())
        fields = {name: facts[name] for name in ModelMetadata._fields[:-1]}
        return ModelMetadata(**fields, custom_metadata_map=facts["metadata"])

    def get_providers(self) -> list[str]:
        """The name that ONNX Runtime has for the backend, or the backend's own."""
        return ["CPUExecutionProvider" if self.backend == "cpu" else self.backend]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the backend, by the name that `get_providers` gives: none."""
        return {name: {} for name in self.get_providers()}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Checks that the session runs on the first of the providers that there is; the backend of a session does not change."""
        check_provider_options(providers, provider_options)
        name = backend_of(None, providers)
        if name not in (self.backend, self._arguments[2]):
            raise ValueError(
                f"the session runs on {self.backend!r}; open another one for {name!r}: bb.Session(model, {name!r})"
            )

    def disable_fallback(self) -> None:
        """Does nothing: a session never goes to another backend."""

    def enable_fallback(self) -> None:
        """Does nothing: a session never goes to another backend."""

    def get_session_options(self) -> SessionOptions:
        """The options that were given."""
        return self._options

    def end_profiling(self) -> str:
        """Not there: `profile` measures the parts of a model."""
        raise NotImplementedError("bb writes no file of times; `session.profile(feeds)` measures each part of the model")

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, in nanoseconds: 0, because `profile` measures instead."""
        return 0

    def run_async(
        self,
        output_names: Any,
        input_feed: Any,
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs the model in a thread of the package and then calls `callback(outputs, user_data, error)` there.

        The error is empty if the run succeeded; otherwise there are no outputs. Exceptions of the callback are printed as
        exceptions of threads are (`threading.excepthook`).
        """
        from ._later import start

        start(self, output_names, input_feed, callback, user_data, run_options)

    def run_with_ort_values(
        self, output_names: Any, input_dict_ort_values: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[OrtValue]:
        """Runs the model on values and returns values."""
        outputs = self.run(output_names, input_dict_ort_values, run_options)
        return [OrtValue(output) for output in outputs]

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: Any, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value of these extents, whose elements are 0."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def io_binding(self) -> IOBinding:
        """A binding of inputs and outputs to memory, for `run_with_iobinding`."""
        from ._binding import IOBinding

        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on the inputs of a binding and leaves the outputs in it."""
        iobinding._run(run_options)

    def inspect(self) -> dict[str, Any]:
        """Describes the model: its inputs, outputs, operators, parameters, and its wrong declarations.

        Returns:
            `name`, `backend`, `nodes`, `inputs`, `outputs`, `operators`, `parameters`, `warnings`, and `model`, which has what the file says
            of itself. The page `python.md` explains all keys.
        """
        return {**json.loads(self._inspect()), "model": json.loads(self._facts())}

    def coverage(self) -> dict[str, Any]:
        """Reports how each node runs on the backend: `native`, `lowered`, `host`, or `unsupported`.

        Returns:
            `backend`, `counts`, `needs` (the operations that the backend lacks), and `nodes`; each node has `node`, `operator`, `runs`,
            `backend`, `missing`, `needs`, `passed_over` and others. The page `python.md` explains all keys.
        """
        return cast(dict[str, Any], json.loads(self._coverage()))

    @hinted
    def profile(self, feeds: Any, runs: int = 10, warmup: int = 1) -> dict[str, Any]:
        """Runs the model and measures each part of it; the figures are averages of the runs.

        Args:
            feeds: the inputs, as `run` takes them.
            runs: how many runs are measured.
            warmup: how many runs precede them.

        Returns:
            `runs`, `seconds_per_run`, and `rows`; each row has `activity`, `operation`, `node`, `calls_per_run`, `seconds_per_run` and
            others. The page `python.md` explains all keys.
        """
        if runs < 1:
            raise ValueError(f"`runs` must be at least 1, got {runs}")
        return cast(dict[str, Any], json.loads(self._profile(feeds, runs, warmup)))

    @hinted
    def compare(
        self,
        feeds: Any,
        other: Any = "reference",
        *,
        rtol: float = 1e-3,
        atol: float = 1e-5,
        per_node: bool = False,
    ) -> list[dict[str, Any]]:
        """Runs the model here and elsewhere, and says how far the values are apart.

        Args:
            feeds: the inputs, as `run` takes them.
            other: the name of a backend, another session, or the expected outputs: a list, a dict by name, or the array of the only one.
            rtol: how far numbers may be apart, relative to the numbers of `other`.
            atol: how far numbers may be apart besides.
            per_node: whether to compare what each node makes, rather than the outputs.

        Returns:
            For each value `value`, `node`, `operator` and `equal`; for numbers `greatest_error`; where values differ `reason`, `at` and
            `different`.
        """
        from ._compare import compare

        return compare(self, feeds, other, rtol, atol, truth("per_node", per_node))

    def __copy__(self) -> Session:
        return self

    def __deepcopy__(self, memo: Any) -> Session:
        return self

    def __reduce__(self) -> Any:
        own = ("_arguments", "_options", "_input_args", "_initializer_args", "_output_args")
        state = {name: value for name, value in self.__dict__.items() if name not in own}
        return (_reopen, (type(self), self._arguments, self._options), state or None)

    def __repr__(self) -> str:
        model = self._arguments[0]
        what = f"{len(model)} bytes" if isinstance(model, bytes) else repr(model)
        return f"bb.Session({what}, backend={self.backend!r})"


class ExaminedSession(Session):
    """A session whose coverage is requested, so that opening it need not warn of nodes that cannot run."""

    def _warn(self, backend: str) -> None:
        pass


#: The beginning of the error for a compiled model that was saved elsewhere.
_SAVED = re.compile(r"(?:the compiled model is for another (.+): expected `(.*)`, got `(.*)`|the fingerprint of the compiled model differs)")


def _advice(saved: re.Match[str]) -> str:
    """Says what to do with a compiled model that was saved elsewhere."""
    if saved[1] == "backend":
        return (
            f"it was saved by a session on {saved[3]!r}: open it there, `bb.Session(path, {saved[3]!r})`, or open the ONNX model"
            f" on {saved[2]!r} and call `session.save(path)` again"
        )
    return "open the ONNX model here, and call `session.save(path)` again"


def _extent(name: str, extent: Any) -> int:
    """The extent of a symbolic dimension."""
    number = whole(f"dims[{name!r}]", extent)
    if number is None or number < 0:
        raise ValueError(f"`dims[{name!r}]` must be a whole number, at least 0, got {extent!r}")
    return number


#: The names of the constructor's arguments.
_ARGUMENTS = (*list(inspect.signature(Session.__init__).parameters)[1:-1], *_FLAGS)


def _reopen(cls: type[Session], arguments: tuple[Any, ...], options: SessionOptions) -> Session:
    """Opens a pickled session. A subclass may have a constructor with arguments of its own, which is not called."""
    model, folder, backend, threads, memory, dims, limits, flags = arguments
    session = cls.__new__(cls)
    Session.__init__(
        session, model, backend, threads, dims, sess_options=options, folder=folder, memory=memory, limits=limits, **flags
    )
    return session
