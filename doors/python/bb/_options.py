"""Options that users of ONNX Runtime know."""

from __future__ import annotations

import enum
import operator
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from . import _bb
from ._author import default_name, is_backend
from ._hints import meant, no_attribute
from ._process import Advised
from ._value import OrtValue
from .errors import _make

#: The backends that ONNX Runtime has names for.
PROVIDERS = {"CPUExecutionProvider": "cpu"}


def with_options(name: str, options: Mapping[str, Any]) -> str:
    """The name of a backend with options in it: `chip(tile=64)`."""
    if not options:
        return name
    if not isinstance(options, Mapping):
        raise TypeError(f"`backend_options` must be a dict, as in {{'threads': 1}}, got {options!r}")
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    for key, text in texts.items():
        if any(mark in key + text for mark in ",()"):
            raise ValueError(f"the option {key!r} has a comma or a parenthesis in it")
    given = ",".join(f"{key}={text}" for key, text in texts.items())
    if name.endswith(")"):
        return f"{name[:-1]},{given})"
    return f"{name}({given})"


def whole(name: str, value: Any) -> int | None:
    """The value of an argument that is a whole number; `None` stays as it is."""
    if value is None:
        return None
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"`{name}` must be a whole number, got {value!r}") from None


def truth(name: str, value: Any) -> bool:
    """The value of an argument that is `True` or `False`."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"`{name}` must be True or False, got {value!r}")
    return bool(value)


def default_backend() -> str:
    """The backend where a program names none: the one of the variable `BB_BACKEND`, or `cpu`."""
    return os.environ.get("BB_BACKEND") or "cpu"


def backend_name(backend: Any) -> str:
    """The name of a backend that a caller gave; the default one for `None`."""
    if backend is None:
        return default_backend()
    if isinstance(backend, str):
        return backend
    if not is_backend(backend):
        raise TypeError(f"`backend` must be the name of a backend, got `{type(backend).__name__}`; there are {_bb.backends()}")
    name = default_name(backend)
    if isinstance(backend, type):
        got, call = f"the class `{backend.__name__}`", f"bb.register({backend.__name__})"
    else:
        got, call = f"an object of the class `{type(backend).__name__}`", f"bb.register(backend, {name!r})"
    raise TypeError(f"`backend` must be the name of a backend, got {got}: pass {name!r} after `{call}`")


def backend_options(backend: str) -> dict[str, dict[str, Any]]:
    """Returns the options of a backend by name, each with its `type`, its `default` (`None` if the backend chooses) and what it is `about`.

    They are given as `bb.Session(model, "cpu", backend_options={"threads": 1})`, or in the name: `cpu(threads=1)`.

    Raises:
        BackendError: no backend has the name.
    """
    found = _bb.backend_options(backend)
    if found is None:
        linked = _bb.backends()
        text = f"no backend is called `{backend}`{meant(backend, linked)}; there are {linked}"
        raise _make("BackendError", text, {"kind": "configuration", "got": backend, "expected": ", ".join(linked)})
    return {name: {"type": kind, "default": default, "about": about} for name, kind, default, about in found}


class GraphOptimizationLevel(enum.IntEnum):
    """How much a model is rewritten. `bb` always applies exact rewritings."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionOrder(enum.IntEnum):
    """In which order nodes run. `bb` chooses the order that needs least memory."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class ExecutionMode(enum.IntEnum):
    """How nodes are scheduled. `bb` runs them in order, and shares the work of each."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class _Known(Advised):
    """Attributes of a list, so that a misspelt one is an error."""

    _known: dict[str, Any] = {}

    def __init__(self) -> None:
        for name, value in self._known.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._known and not name.startswith("_"):
            raise no_attribute(f"{type(self).__name__} has no option {name!r}", name, self._known)
        if isinstance(self._known.get(name), bool):
            value = _truth_or_number(name, value)
        object.__setattr__(self, name, value)


def _truth_or_number(name: str, value: Any) -> bool:
    """The value of an option of ONNX Runtime, which takes whole numbers, too."""
    return truth(name, bool(value) if isinstance(value, int) else value)


def _keep(constants: dict[str, OrtValue], name: str, value: OrtValue) -> None:
    if not isinstance(name, str) or not isinstance(value, OrtValue):
        raise TypeError(f"expected a name and an `OrtValue`, got `{type(name).__name__}` and `{type(value).__name__}`")
    if name in constants:
        raise ValueError(f"a tensor for the constant {name!r} is there already")
    value._array()
    constants[name] = value


class SessionOptions(_Known):
    """The options of a session that ONNX Runtime has.

    `intra_op_num_threads`, extents of dimensions, and tensors that replace constants work as they do there. Options that make ONNX
    Runtime write files are refused when a session is opened. The others are accepted, because they decide how ONNX Runtime works
    inside, and have no effect.
    """

    _absent = {
        "add_provider_for_devices": "name the backend when a session is opened: `bb.Session(model, name)`",
        "clear_ep_context_data_read_func": "`session.save(path)` writes a compiled model, and `bb.Session(path)` opens it",
        "set_ep_context_data_read_func": "`session.save(path)` writes a compiled model, and `bb.Session(path)` opens it",
        "set_load_cancellation_flag": "Ctrl-C ends opening a session",
        "set_provider_selection_policy": "name the backend when a session is opened: `bb.Session(model, name)`",
        "set_provider_selection_policy_delegate": "name the backend when a session is opened: `bb.Session(model, name)`",
    }

    _known = {
        "intra_op_num_threads": 0,
        "inter_op_num_threads": 0,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": 0,
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "log_severity_level": 2,
        "log_verbosity_level": 0,
        "logid": "",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
        "enable_profiling": False,
        "profile_file_prefix": "onnxruntime_profile_",
        "optimized_model_filepath": "",
    }

    def __init__(self) -> None:
        super().__init__()
        self._dims: dict[str, int] = {}
        self._config: dict[str, str] = {}
        self._constants: dict[str, OrtValue] = {}
        self._external: dict[str, OrtValue] = {}
        self._files: dict[str, bytes] = {}

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Gives a symbolic dimension an extent."""
        self._dims[name] = extent

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry, which has no effect."""
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Returns an entry."""
        return self._config[key]

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        """Not there: an extent is given by the name of its dimension."""
        raise NotImplementedError("bb gives extents by name: `add_free_dimension_override_by_name`, or `dims` of a session")

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Replaces the constant of a name by a tensor. A name that the model does not have changes nothing."""
        _keep(self._constants, name, value)

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Replaces constants by tensors; the files of the constants are then not read. The model must have each of the names."""
        if len(names) != len(values):
            raise ValueError(f"expected a value for each of {len(names)} names, got {len(values)}")
        for name, value in zip(names, values):
            _keep(self._external, name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Gives the content of files with external data, by the names that the model has for the files."""
        if not len(names) == len(buffers) == len(lengths):
            raise ValueError(f"expected a content and a length for each of {len(names)} files, got {len(buffers)} and {len(lengths)}")
        for name, buffer, length in zip(names, buffers, lengths):
            content = bytes(buffer)
            if not 0 <= length <= len(content):
                raise ValueError(f"the content of {name!r} has {len(content)} bytes, got {length} as its length")
            self._files[name] = content[:length]

    def has_providers(self) -> bool:
        """Whether the options name providers: they never do, because a session is given its backend."""
        return False

    def register_custom_ops_library(self, path: str) -> None:
        """Not there: a library of operators for ONNX Runtime has that library's interface."""
        raise NotImplementedError(f"bb cannot load {path!r}, a library of operators for ONNX Runtime: it does not have that interface")

    def add_provider(self, name: str, options: dict[str, str] | None = None) -> None:
        """Not there: a session is given its backend."""
        raise NotImplementedError(f"name the backend when a session is opened: bb.Session(model, providers=[{name!r}])")

    def _given(self) -> dict[str, Any]:
        """What a session takes of the options."""
        threads = whole("intra_op_num_threads", getattr(self, "intra_op_num_threads")) or 0
        if threads < 0:
            raise ValueError(f"`intra_op_num_threads` must be at least 1, or 0 for as many as there are processors; got {threads}")
        return {
            "threads": threads,
            "constants": {name: value._array() for name, value in self._constants.items()},
            "external": {name: value._array() for name, value in self._external.items()},
            "files": dict(self._files),
        }

    def _refuse_what_writes_files(self) -> None:
        if getattr(self, "enable_profiling"):
            raise NotImplementedError(
                "bb writes no file of times: leave `enable_profiling` out and call `session.profile(feeds)`"
            )
        if getattr(self, "optimized_model_filepath"):
            raise NotImplementedError(
                "bb writes no optimised ONNX file: leave `optimized_model_filepath` out, and use `session.save(path)` for a"
                " compiled model or the command `bb export`"
            )


class RunOptions(_Known):
    """The options of a run that ONNX Runtime has. `terminate` stops the runs that have the options; the others have no effect."""

    _absent = {"add_active_adapter": "write the adapter's weights into the model"}

    _known = {
        "log_severity_level": 2,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "training_mode": False,
    }

    def __init__(self) -> None:
        super().__init__()
        self._token = _bb.CancelToken()
        self._config: dict[str, str] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "terminate":
            super().__setattr__(name, value)
        elif _truth_or_number(name, value):
            self._token.cancel()
        else:
            self._token.reset()

    @property
    def terminate(self) -> bool:
        """Whether runs with these options stop; setting it stops them, from any thread."""
        return self._token.cancelled

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry, which has no effect."""
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Returns an entry."""
        return self._config[key]


def check_provider_options(providers: Sequence[Any] | None, provider_options: Sequence[Any] | None) -> None:
    """Checks the forms of provider options: a list next to the providers, or pairs among them, not both.

    They tune devices of ONNX Runtime, so that they have no effect. Those of its CPU provider have none there, either.
    """
    pairs = [provider for provider in providers or () if not isinstance(provider, str)]
    for pair in pairs:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict)):
            raise ValueError(f"a provider is a name, or a pair of a name and a dict of options; got {pair!r}")
    if not provider_options:
        return
    if not providers:
        raise ValueError("`provider_options` are given without `providers`")
    if len(provider_options) != len(providers):
        raise ValueError(
            f"`provider_options` has {len(provider_options)} entries for {len(providers)} providers; expected one for each"
        )
    for options in provider_options:
        if not isinstance(options, dict):
            raise ValueError(f"`provider_options` must be a list of dicts, got {options!r} in it")
    if pairs:
        raise ValueError("options of providers are given twice: beside the providers and among them")


def check_disabled_optimizers(names: Collection[str] | None) -> None:
    """Checks the form of names of ONNX Runtime's rewritings, which `bb` does not have."""
    if names is not None and (isinstance(names, str) or not all(isinstance(name, str) for name in names)):
        raise TypeError(f"`disabled_optimizers` must be a list or set of `str`, got {names!r}")


def get_available_providers() -> list[str]:
    """The names that ONNX Runtime has for the backends that there are."""
    linked = _bb.backends()
    return [name for name, backend in PROVIDERS.items() if backend in linked]


def backend_of(backend: str | None, providers: Sequence[Any] | None) -> str:
    """Chooses the backend: the one that is named, or the first provider that there is, as ONNX Runtime does.

    ONNX Runtime's name for its own provider selects the default backend.
    """
    if backend is not None:
        if providers:
            raise ValueError("`backend` and `providers` both name a backend")
        return backend_name(backend)
    linked = _bb.backends()
    if isinstance(providers, str):
        raise TypeError(f"`providers` must be a list, as in [{providers!r}], got `str`")
    for provider in providers or ():
        name: str = provider[0] if isinstance(provider, (list, tuple)) else provider
        if name in PROVIDERS:
            return default_backend()
        if name in linked:
            return name
        suffix = "ExecutionProvider"
        # All names of ONNX Runtime have this end, so that it makes none of them similar.
        known = [*PROVIDERS] if name.upper() in map(str.upper, PROVIDERS) or not name.endswith(suffix) else []
        runs = f"the session runs on {default_backend()!r}, and `bb.backends()` lists {linked}"
        warnings.warn(f"there is no provider {name!r}{meant(name, [*known, *linked])}; {runs}", stacklevel=3)
    return default_backend()
