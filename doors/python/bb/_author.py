"""Backends that are classes of Python."""

from __future__ import annotations

import atexit
import difflib
import functools
import inspect
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _bb
from ._hints import hinted, meant

if TYPE_CHECKING:
    from ._session import Session

# Threads that still run sessions when the interpreter ends must not call methods.
atexit.register(_bb.end)


class Backend:
    """A backend that is written in Python, for prototypes: `class Mine(bb.Backend)`, then `bb.register(Mine)`.

    A class writes the methods of the primitives (`bb.primitives()` lists them), or one method `execute(graph, inputs)`. ONNX's operators
    are computed with primitives, so that every model runs whose element types the backend has.

    Methods get tensors and parameters in the order of the signature, and return a tensor; `split` returns a list. A tensor is any
    object. The element type and the shape of a method's result are compared with the primitive's. A method must not
    write to its operands, and threads may call it at the same time.

    Where a class writes `execute`, its other methods are not called: it gets a `bb.Graph` and the inputs by name, and returns the
    outputs by name. The same graph comes again as the same object. If `execute` does not run all primitives, the attribute `primitives`
    lists those that it runs, so that `first_of(mine, cpu)` gives the other nodes to another backend.
    """

    #: The element types, by the names that NumPy and `ml_dtypes` have for them; `None` for all that NumPy and the installed `ml_dtypes` have.
    types: Sequence[Any] | None = None
    #: The primitives that `execute` runs, by their methods; `None` if it runs all.
    primitives: Collection[str] | None = None
    #: The version; models that were compiled for one version are not for another.
    version: str = ""

    def from_host(self, array: Any) -> Any:
        """Makes a tensor of an array of NumPy, which cannot be written and may share memory with others."""
        return array

    def to_host(self, tensor: Any) -> Any:
        """Makes an array of NumPy of a tensor. By default NumPy's `asarray` does it."""
        return tensor

    def describe(self, tensor: Any) -> tuple[Any, tuple[int, ...]]:
        """The element type and the shape of a tensor. By default its attributes `dtype` and `shape` say them."""
        return tensor.dtype, tensor.shape


AnyBackend = TypeVar("AnyBackend", bound=type[Backend] | Backend)


#: The backends that are registered, by their names.
_registered: dict[str, type[Backend] | Backend] = {}

#: The part of a message that names a mistake in a method: an exception, or a wrong result.
_MISTAKE = re.compile(r"`[\w.]+` (raised an exception: (?!NotImplementedError)|returned |wrote to ).*")

#: The methods that are not primitives, with their arguments.
_HOOKS = {"execute": ["graph", "inputs"], "from_host": ["array"], "to_host": ["tensor"], "describe": ["tensor"]}


def is_backend(backend: Any) -> bool:
    """Returns whether an object is a class that inherits from `Backend`, or an object of one."""
    return issubclass(backend if isinstance(backend, type) else type(backend), Backend)


def default_name(backend: type[Backend] | Backend) -> str:
    """The name of a backend that is registered without one."""
    cls = backend if isinstance(backend, type) else type(backend)
    name: str | None = getattr(backend, "name", None)
    return name or cls.__name__.lower()


def checked(backend: type[Backend] | Backend) -> type[Backend]:
    """Returns the class of a backend.

    Raises:
        TypeError: it does not inherit from `Backend`, it has a method that cannot be called with the arguments that the method gets, or
            it is a class whose constructor needs arguments.
    """
    cls = backend if isinstance(backend, type) else type(backend)
    if not is_backend(backend):
        raise TypeError(f"a backend is a class that inherits from `bb.Backend`, got `{cls.__name__}`")
    if isinstance(backend, type) and (signature := _refusing(backend, [])):
        raise TypeError(
            f"`{cls.__name__}{signature}` cannot be called without arguments; expected a class that can, or an object:"
            f" `bb.register({cls.__name__}(…), name)`"
        )
    methods = dict(_HOOKS)
    whole = getattr(backend, "execute", None) is not None
    _check_primitives(cls.__name__, backend.primitives, whole)
    if not whole:
        methods |= {name: arguments for name, arguments, _ in _bb.primitives()}
    wrong = []
    for name, arguments in methods.items():
        method = _method(backend, name)
        # A property and the like can be read only once an object exists.
        if method is not None and not callable(method) and not hasattr(type(method), "__get__"):
            raise TypeError(f"`{cls.__name__}.{name}` is `{type(method).__name__}`, expected a method")
        if callable(method) and (signature := _refusing(method, arguments)):
            listed = ", ".join(arguments)
            wrong.append(
                f"`{cls.__name__}.{name}` takes `{signature}`, expected `({listed})`: write `def {name}(self, {listed})`"
            )
    if wrong:
        raise TypeError("; ".join(wrong))
    return cls


def _check_primitives(cls: str, names: Any, whole: bool) -> None:
    """Refuses a declaration of primitives that names others, or that has no effect."""
    # A property can be read only once an object exists.
    if names is None or isinstance(names, property):
        return
    if isinstance(names, str) or not isinstance(names, Collection):
        raise TypeError(f"`{cls}.primitives` must be a list or a set of methods, as in {{'add', 'matmul'}}, got {names!r}")
    known = primitives()
    for name in names:
        if name not in known:
            raise TypeError(f"`{cls}.primitives` has {name!r}, which is no primitive{meant(str(name), known)}; `bb.primitives()` lists them")
    if not whole:
        raise TypeError(f"`{cls}.primitives` is only for a class with `execute`: other classes run the primitives whose methods they have")


def _method(backend: type[Backend] | Backend, name: str) -> Any:
    """Returns a method as an object of the class has it."""
    if not isinstance(backend, type):
        return getattr(backend, name, None)
    found = inspect.getattr_static(backend, name, None)
    bind = getattr(type(found), "__get__", None)
    # There is no object yet, and a property cannot be read without one.
    if bind is None or not (callable(found) or isinstance(found, (classmethod, functools.partialmethod))):
        return found
    return bind(found, object(), backend)


def _refusing(function: Callable[..., Any], arguments: list[str]) -> str | None:
    """Returns the signature of a function that cannot be called with these arguments by position, or has them in another order."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Functions that are written in C may have no signature.
        return None
    try:
        bound = signature.bind(*arguments).arguments
    except TypeError:
        return str(signature)
    elsewhere = any(name in arguments and name != given for name, given in bound.items() if isinstance(given, str))
    return str(signature) if elsewhere else None


@hinted
def register(backend: AnyBackend, name: str | None = None) -> AnyBackend:
    """Gives a backend a name, under which sessions find it, also with layers on it and among others: `first_of(mine, cpu)`.

    Args:
        backend: a class that inherits from `Backend`, or an object of one. Opening the backend creates an object of a class.
        name: the name; by default the attribute `name` of the class, or else the name of the class in lower case.

    Returns:
        The backend, so that this is also a decorator.

    Raises:
        BackendError: another backend has the name; `unregister` removes one that was registered.
        TypeError: it is not a backend, declares wrong types or primitives, or has a method with a wrong signature.
    """
    cls = checked(backend)
    if name is None:
        name = default_name(backend)
    _bb.register(backend, Backend, name, str(backend.version), f"{cls.__module__}.{cls.__qualname__}")
    _registered[name] = backend
    _warn_of_typos(cls)
    return backend


def _warn_of_typos(cls: type[Backend]) -> None:
    """Warns of public methods and attributes that seem to be meant for `bb`, which does not use them."""
    for text in _unused(cls):
        warnings.warn(text, stacklevel=4)


#: Names that libraries have for primitives and operators.
_SYNONYMS = {
    "absolute": "abs", "astype": "cast", "concatenate": "concat", "divide": "div", "dot": "matmul", "maximum": "Max",
    "minimum": "Min", "multiply": "mul", "negative": "neg", "power": "pow", "subtract": "sub", "take": "gather",
}  # fmt: skip


def _unused(cls: type[Backend]) -> Iterator[str]:
    whole = getattr(cls, "execute", None) is not None
    methods = [*_HOOKS] if whole else [*primitives(), *_HOOKS]
    operators: dict[str, str] = {} if whole else {name.lower(): name for name in _bb.operator_names()}
    for name in dir(cls):
        if name.startswith("_") or name in primitives() or name in _HOOKS or hasattr(Backend, name):
            continue
        owner = next(base for base in cls.__mro__ if name in vars(base))
        plain = name.lower().replace("_", "")
        if not callable(getattr(cls, name)):
            attributes = [other for other in ("types", "primitives") if getattr(cls, other) is None]
            if similar := difflib.get_close_matches(plain, attributes, n=1, cutoff=0.8):
                yield f"`{cls.__name__}.{name}` is no attribute of a backend, so `bb` does not read it; did you mean `{similar[0]}`?"
            continue
        other = _SYNONYMS.get(plain, plain)
        # A method beside the similar one, such as `adds` beside `add`, is a helper of the author.
        lacking = {method.replace("_", ""): method for method in methods if method not in vars(owner)}
        similar = difflib.get_close_matches(other, lacking, n=1, cutoff=0.8)
        unused = f"`{cls.__name__}.{name}` is no method of a backend, so `bb` does not call it"
        if similar:
            yield f"{unused}; did you mean `{lacking[similar[0]]}`?"
        elif operator := operators.get(other.lower()):
            if operator.lower() not in primitives():
                yield f"{unused}: models run `{operator}` by primitives, which `bb.primitives()` lists"


def warn_of_mistakes(backend: str, session: Session) -> None:
    """Warns of nodes that do not run where the caller of `Session` means them to run, because of a class in Python.

    Args:
        backend: the name that a session was given.
        session: the session.
    """
    if "first_of(" not in backend:
        _warn_of_unwritten(backend, session)
    elif any(name in _registered for name in _names(backend)):
        _warn_of_failed_trials(session)


def _warn_of_failed_trials(session: Session) -> None:
    """Warns of methods that failed when `first_of` tried them, unless they say that they are not implemented."""
    found: dict[str, dict[str, Any]] = {}
    for node in session.coverage()["nodes"]:
        for passed in node["passed_over"]:
            mistake = _MISTAKE.search(passed["reason"])
            if passed["backend"] in _registered and mistake:
                found.setdefault(mistake.group(), node)
    for mistake, node in found.items():
        text = f"{mistake}; so {_label(node)} runs on `{node['backend']}`; raise `NotImplementedError` in methods that do not run everything"
        warnings.warn(text, stacklevel=5)


class _Nothing(Backend):
    """A backend that runs no primitive, so that its coverage lists which primitives each node needs."""

    primitives = ()

    def execute(self, graph: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


def _warn_of_unwritten(backend: str, session: Session) -> None:
    """Warns of the first node that needs a method which its class does not have."""
    author = author_of(backend)
    lacks = _lacks(author) if author is not None else set()
    if author is None or not lacks:
        return
    # The session's own coverage tries the methods, so it is determined only for a model that seems not to run.
    needs = json.loads(session._coverage_on(_Nothing, Backend))["nodes"]
    if lacks.isdisjoint(method for node in needs for method in node["needs"]):
        return
    for node in session.coverage()["nodes"]:
        missing = next((method for method in node["needs"] if method in lacks), None)
        if node["runs"] != "unsupported" or missing is None:
            continue
        cls = (author if isinstance(author, type) else type(author)).__name__
        if getattr(author, "execute", None) is None:
            why = f"`{cls}` has no method `{missing}`; write `{primitives()[missing]}`"
        else:
            why = f"`{cls}.primitives` does not have `{missing}`; add it if `execute` runs it"
        elsewhere = f'bb.Session(model, "first_of({backend}, cpu)")'
        text = f"{_label(node)} cannot run on {backend!r}: {why}, or run what is missing on `cpu`: `{elsewhere}`"
        warnings.warn(text, stacklevel=5)
        return


def _label(node: dict[str, Any]) -> str:
    return f"node `{node['node']}` ({node['operator']})"


def _names(backend: str) -> list[str]:
    """The names in the name of a backend with layers, options and members."""
    return re.findall(r"[\w.-]+", backend)


def author_of(backend: str) -> type[Backend] | Backend | None:
    """The registered backend in Python that runs what a name runs, perhaps below layers. A name with `first_of` has several."""
    if "first_of(" in backend:
        return None
    return next((_registered[name] for name in _names(backend) if name in _registered), None)


def _lacks(backend: type[Backend] | Backend) -> set[str]:
    """The primitives that a backend does not seem to run. An object may have methods that its class does not show."""
    if getattr(backend, "execute", None) is None:
        return {name for name in primitives() if _method(backend, name) is None} - {"constant"}
    declared = backend.primitives
    # A property can be read only once an object exists.
    if declared is None or isinstance(declared, property):
        return set()
    return {*primitives()} - {*declared, "constant"}


def unregister(name: str) -> bool:
    """Removes a registered backend, and returns whether there was one. Sessions that are open keep it."""
    _registered.pop(name, None)
    return _bb.unregister(name)


def primitives() -> dict[str, str]:
    """The methods that a backend writes, and how each is defined, as `def matmul(self, a, b)`."""
    return {name: definition for name, _, definition in _bb.primitives()}
