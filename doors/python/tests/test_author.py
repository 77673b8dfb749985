"""Backends that are written in Python."""

from __future__ import annotations

import functools
import gc
import importlib.util
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import bb
import models

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

from graph_backend import Graphs  # noqa: E402
from numpy_backend import NumPy  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture
def named():
    """Registers backends under names of their own, and removes them."""
    names = []

    def register(backend):
        names.append(f"mine{len(names)}-{os.getpid()}")
        bb.register(backend, names[-1])
        return names[-1]

    yield register
    for name in names:
        bb.unregister(name)


def add_model(element=models.FLOAT, shape=(2, 3)):
    ty = models.tensor_type(element, shape)
    return models.model([models.node("Add", ["x", "x"], ["y"], name="doubled")], [("x", ty)], [("y", ty)])


class OnlyAdd(bb.Backend):
    def add(self, a, b):
        return a + b


def returning(result):
    """A backend whose `add` returns this value, or the value that this function returns for the operands."""

    class Returning(bb.Backend):
        def add(self, a, b):
            return result(a, b) if callable(result) else result

    return Returning


# What a backend is.


def test_a_class_with_one_method_runs_a_model_of_one_node(named):
    session = bb.Session(add_model(), named(OnlyAdd))
    [y] = session.run({"x": X})
    assert y.dtype == np.float32 and np.array_equal(y, X + X)
    assert session.coverage()["counts"]["native"] == 1


def test_a_backend_is_listed_and_opened_by_its_name():
    assert bb.register(NumPy) is NumPy
    try:
        assert bb.Session(add_model(), "numpy").backend == "numpy" and "numpy" in bb.backends()
        rows = bb.coverage(backend="numpy")["operators"]
        assert {row["runs"] for row in rows if row["operator"] in ("Add", "MatMul")} == {"native"}
    finally:
        assert bb.unregister("numpy")
    assert not bb.unregister("numpy") and "numpy" not in bb.backends()
    with pytest.raises(bb.BackendError, match="no backend is called `numpy`"):
        bb.Session(add_model(), "numpy")


def test_a_name_is_taken_once(named):
    name = named(OnlyAdd)
    with pytest.raises(bb.BackendError) as raised:
        bb.register(OnlyAdd, name)
    assert str(raised.value) == f"the name `{name}` is taken: call `bb.unregister('{name}')` before, or choose another name"
    for taken in ("cpu", "metrics", "first_of"):
        with pytest.raises(bb.BackendError) as raised:
            bb.register(OnlyAdd, taken)
        assert str(raised.value) == f"the name `{taken}` is taken: choose another name"
    for wrong in ("", "a b", "a+b", "a(b)", "a:1"):
        with pytest.raises(bb.BackendError, match="cannot be the name of a backend"):
            bb.register(OnlyAdd, wrong)
    # The earlier class stays until it is removed, and objects that are created from it by name do not outlive that.
    composed = f"first_of(metrics+{name}, cpu)"
    assert np.array_equal(bb.Session(add_model(), composed).run({"x": X})[0], X + X)
    assert bb.unregister(name)
    bb.register(returning(lambda a, b: a - b), name)
    assert np.array_equal(bb.Session(add_model(), composed).run({"x": X})[0], X - X)


def test_an_object_is_a_backend_too(named):
    class Scaled(bb.Backend):
        def __init__(self, factor):
            self.factor = np.float32(factor)

        def add(self, a, b):
            return (a + b) * self.factor

    assert np.array_equal(bb.Session(add_model(), named(Scaled(3))).run({"x": X})[0], 6 * X)
    for call in (bb.register, bb.conformance):
        with pytest.raises(TypeError) as raised:
            call(Scaled)
        assert str(raised.value) == (
            "`Scaled(factor)` cannot be called without arguments; expected a class that can, or an object:"
            " `bb.register(Scaled(…), name)`"
        )


def test_a_backend_is_opened_by_its_name():
    for backend, text in [
        (OnlyAdd, "got the class `OnlyAdd`: pass 'onlyadd' after `bb.register(OnlyAdd)`"),
        (OnlyAdd(), "got an object of the class `OnlyAdd`: pass 'onlyadd' after `bb.register(backend, 'onlyadd')`"),
        (3, f"got `int`; there are {bb.backends()}"),
    ]:
        with pytest.raises(TypeError) as raised:
            bb.Session(add_model(), backend=backend)
        assert str(raised.value) == f"`backend` must be the name of a backend, {text}"
    for call in (
        lambda: bb.coverage(backend=OnlyAdd),
        lambda: bb.Session(add_model()).compare({"x": X}, OnlyAdd),
    ):
        with pytest.raises(TypeError, match=r"pass 'onlyadd' after `bb.register\(OnlyAdd\)`"):
            call()


class Signatures(bb.Backend):
    """Methods that can be called with their arguments."""

    exp = np.exp
    neg = staticmethod(np.negative)
    abs = staticmethod(lambda x: np.abs(x))
    gather = functools.partialmethod(lambda self, mode, data, indices, axis: np.take(data, indices, axis, mode=mode), "clip")
    concat = None

    def add(self, *operands):
        return np.add(*operands)

    def mul(self, left, right, out=None):
        return np.multiply(left, right, out)

    @classmethod
    def less(cls, a, b):
        return np.less(a, b)

    @np.errstate(all="ignore")
    def sqrt(self, x):
        return np.sqrt(x)

    @property
    def log(self):
        return np.log

    def helper(self):
        return None


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (lambda self, x: x, "`Wrong.add` takes `(x)`, expected `(a, b)`: write `def add(self, a, b)`"),
        (lambda self, x: x, "`Wrong.reduce_sum` takes `(x)`, expected `(x, axes, keepdims)`: write `def reduce_sum(self, x, axes, keepdims)`"),
        (lambda self, x, *, perm: x, "`Wrong.transpose` takes `(x, *, perm)`, expected `(x, perm)`: write `def transpose(self, x, perm)`"),
        (lambda self, x, y, condition: x, "`Wrong.where` takes `(x, y, condition)`, expected `(condition, x, y)`: write `def where(self, condition, x, y)`"),
        (lambda x: x, "`Wrong.identity` takes `()`, expected `(x)`: write `def identity(self, x)`"),
        (lambda self: None, "`Wrong.from_host` takes `()`, expected `(array)`: write `def from_host(self, array)`"),
        (lambda self, graph: None, "`Wrong.execute` takes `(graph)`, expected `(graph, inputs)`: write `def execute(self, graph, inputs)`"),
    ],
)
def test_a_method_with_a_wrong_signature_is_refused(method, text):
    name = text.split("`")[1].removeprefix("Wrong.")
    wrong = type("Wrong", (Signatures,), {name: method})
    for backend in (wrong, wrong()):
        for call in (lambda: bb.register(backend, "wrong-signature"), lambda: bb.conformance(backend)):
            with pytest.raises(TypeError) as raised:
                call()
            assert str(raised.value) == text
    assert "wrong-signature" not in bb.backends()


def test_all_wrong_signatures_are_reported_and_others_are_taken(named):
    assert np.array_equal(bb.Session(add_model(), named(Signatures)).run({"x": X})[0], X + X)
    two = type("Two", (Signatures,), {"add": lambda self, x: x, "sub": lambda self: None})
    with pytest.raises(TypeError, match=r"`Two.add` takes `\(x\)`.*; `Two.sub` takes `\(\)`"):
        bb.register(two)
    # `execute` gets all nodes, so that other methods are the author's own.
    named(type("Whole", (Graphs,), {"add": lambda self, node: node}))


def test_a_keyword_with_a_typo_names_the_one_that_is_meant():
    with pytest.raises(TypeError, match=r"^register\(\) got an unexpected keyword argument 'nam'; did you mean 'name'\?$"):
        bb.register(OnlyAdd, nam="adds")
    with pytest.raises(TypeError, match=r"^conformance\(\) got an unexpected keyword argument 'exclud'; did you mean 'exclude'\?$"):
        bb.conformance(OnlyAdd, exclud=["a"])


def test_a_method_with_a_typo_gets_a_warning(named):
    class Typos(bb.Backend):
        def gater(self, x, indices, axis):
            return np.take(x, indices, axis)

        def from_hosts(self, array):
            return array

        def add(self, a, b):
            return a + b

        def adds(self, a, b):
            return a + b

        def helper(self):
            return None

    with pytest.warns(UserWarning) as caught:
        named(Typos)
    assert [str(warning.message) for warning in caught] == [
        "`Typos.from_hosts` is no method of a backend, so `bb` does not call it; did you mean `from_host`?",
        "`Typos.gater` is no method of a backend, so `bb` does not call it; did you mean `gather`?",
    ]


def test_names_of_operators_and_of_other_libraries_get_a_warning(named):
    class Others(OnlyAdd):
        dtypes = ["float32"]

        def relu(self, x):
            return np.maximum(x, 0)

        def MatMul(self, a, b):
            return a @ b

        def subtract(self, a, b):
            return a - b

        def maximum(self, a, b):
            return np.maximum(a, b)

        def _softmax(self, x):
            return x

    class Inherits(NumPy):
        def matmull(self, a, b):
            return a @ b

    class Whole(Graphs):
        def relu(self, x):
            return x

    never = "is no method of a backend, so `bb` does not call it"
    for cls, texts in [
        (Others, [
            f"`Others.MatMul` {never}; did you mean `matmul`?",
            "`Others.dtypes` is no attribute of a backend, so `bb` does not read it; did you mean `types`?",
            f"`Others.maximum` {never}: models run `Max` by primitives, which `bb.primitives()` lists",
            f"`Others.relu` {never}: models run `Relu` by primitives, which `bb.primitives()` lists",
            f"`Others.subtract` {never}; did you mean `sub`?",
        ]),
        (Inherits, [f"`Inherits.matmull` {never}; did you mean `matmul`?"]),
        (Whole, []),
    ]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            named(cls)
        assert [str(warning.message) for warning in caught] == texts


def test_what_is_no_backend_is_refused(named):
    class Stranger:
        pass

    for stranger in (Stranger, Stranger(), 3):
        with pytest.raises(TypeError, match="inherits from `bb.Backend`"):
            bb.register(stranger)
        with pytest.raises(TypeError, match="inherits from `bb.Backend`"):
            bb.conformance(stranger if stranger != 3 else object())

    class NotCallable(bb.Backend):
        add = 3

    class NoType(bb.Backend):
        types = ["float32", "float31"]

    class OwnName(bb.Backend):
        types = ["f32"]

    class FewTypes(bb.Backend):
        types = ["float32"]

    class Raises(bb.Backend):
        def __init__(self):
            raise OSError("no such device")

    for cls, cause, text in [
        (Raises, OSError, "^backend `mine.*` is registered, but not available: `Raises\\(\\)` raised an exception: OSError: no such device$"),
    ]:
        with pytest.raises(bb.BackendError, match=text) as raised:
            bb.Session(add_model(), named(cls))
        assert type(raised.value.__cause__) is cause
    for cls, text in [
        (NotCallable, "`NotCallable.add` is `int`, expected a method"),
        (OwnName, "`types` has f32, which is no element type; did you mean `float32`\\?; there are float32"),
        (NoType, "float31, which is no element type; there are float32"),
        (FewTypes, "`types` has float32; every backend has at least float32, bool, and int32 or int64"),
    ]:
        with pytest.raises(TypeError, match=text):
            bb.register(cls, "wrong-types")
    assert "wrong-types" not in bb.backends()


def test_a_method_cannot_write_to_what_other_nodes_read(named):
    class InPlace(NumPy):
        def exp(self, x):
            return np.exp(x, out=x)

    ty = models.tensor_type(models.FLOAT, [3])
    nodes = [models.node("Neg", ["x"], ["h"]), models.node("Exp", ["h"], ["e"]), models.node("Sub", ["h", "e"], ["y"])]
    session = bb.Session(models.model(nodes, [("x", ty)], [("y", ty)]), named(InPlace))
    with pytest.raises(bb.RunError, match="read-only"):
        session.run({"x": np.array([1, 2, 3], np.float32)})


def test_a_method_that_is_missing_is_said_with_what_to_write(named):
    name = named(OnlyAdd)
    session = bb.Session(models.product(), name)
    [node] = session.coverage()["nodes"]
    assert node["runs"] == "unsupported"
    assert any("write `def matmul(self, a, b)`" in why for why in node["missing"])
    with pytest.raises(bb.UnsupportedError, match=r"`OnlyAdd` has no method `matmul`; write `def matmul\(self, a, b\)`") as raised:
        session.run({"a": X, "b": X.T})
    assert raised.value.node == "product" and raised.value.operator == "MatMul"
    assert raised.value.nodes == [("product", "MatMul")] and node["needs"] == ["matmul"]
    # What is missing runs elsewhere, if there is an elsewhere.
    assert np.allclose(bb.Session(models.product(), f"first_of({name}, cpu)").run({"a": X, "b": X.T})[0], X @ X.T)


def test_a_session_on_a_backend_that_lacks_a_method_is_a_warning(named):
    tried = []

    class Few(OnlyAdd):
        def add(self, a, b):
            tried.append(a.shape)
            return a + b

    class Dynamic(OnlyAdd):
        def __init__(self):
            self.matmul = lambda a, b: a @ b

    name = named(Few)
    for backend in (name, f"metrics+{name}"):
        with pytest.warns(UserWarning) as caught:
            bb.Session(models.product(), backend)
        assert [(str(warning.message), warning.filename) for warning in caught] == [(
            f"node `product` (MatMul) cannot run on '{backend}': `Few` has no method `matmul`; write `def matmul(self, a, b)`, or run"
            f' what is missing on `cpu`: `bb.Session(model, "first_of({backend}, cpu)")`',
            __file__,
        )]
    with pytest.warns(UserWarning, match=r"node `sum` \(ReduceSum\) .*: `Adds.primitives` does not have `reduce_sum`; add it if `execute` runs it"):
        bb.Session(two_nodes(), named(Adds))
    tried.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What runs is no warning and is not tried; neither is a method that only the object has.
        bb.Session(add_model(), name)
        bb.Session(models.product(), named(Dynamic))
        bb.Session(models.product(), f"first_of({name}, cpu)")
        assert bb.coverage(models.product(), backend=name)["needs"] == ["matmul"]
    assert tried == []


def test_coverage_lists_all_methods_to_write(named):
    ty = models.tensor_type(models.FLOAT, [2, 3])
    nodes = [models.node("Softmax", ["x"], ["s"]), models.node("Add", ["s", "s"], ["a"]), models.node("Exp", ["a"], ["y"])]
    coverage = bb.coverage(models.model(nodes, [("x", ty)], [("y", ty)]), backend=named(OnlyAdd))
    assert [node["runs"] for node in coverage["nodes"]] == ["unsupported", "native", "unsupported"]
    softmax, add, exp = [node["needs"] for node in coverage["nodes"]]
    assert softmax == ["reduce_max", "sub", "exp", "reduce_sum", "div"] and add == [] and exp == ["exp"]
    assert coverage["needs"] == softmax


def test_an_operator_that_runs_on_no_type_is_unsupported(named):
    rows = {row["operator"]: row for row in bb.coverage(backend=named(OnlyAdd))["operators"]}
    assert rows["Exp"]["runs"] == rows["Softmax"]["runs"] == "unsupported" and rows["Exp"]["types"] == []
    assert rows["Add"]["runs"] == "native" and "f32" in rows["Add"]["types"]


def test_the_primitives_are_listed_with_their_signatures():
    assert {"add", "gather"} <= set(bb.primitives()) <= set(vars(NumPy))
    for method, definition in bb.primitives().items():
        names = definition.removeprefix(f"def {method}(").removesuffix(")").split(", ")
        assert list(inspect.signature(getattr(NumPy, method)).parameters) == names


# What methods return.


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (None, "`NoneType`"),
        ("text", "`str`"),
        (3.0, "`float`"),
        ([1.0, 2.0], "`list`"),
        (lambda a, b: (a + b).tolist(), "`list`"),
        (lambda a, b: (a + b)[:1], r"float32 of the shape \[1, 3\]"),
        (lambda a, b: (a + b).astype(np.float64), r"float64 of the shape \[2, 3\]"),
        (lambda a, b: (a + b).astype("datetime64[s]"), "`ndarray`"),
        (lambda a, b: np.float32(1), r"float32 of the shape \[\]"),
        (lambda a, b: np.empty((0, 3), np.float32), r"float32 of the shape \[0, 3\]"),
    ],
)
def test_what_is_not_the_result_is_refused(named, result, got):
    session = bb.Session(add_model(), named(returning(result)))
    text = rf"`Returning.add` returned {got}, expected float32 of the shape \[2, 3\]"
    with pytest.raises(bb.RunError, match=text) as raised:
        session.run({"x": X})
    error = raised.value
    # A result that violates the contract is a failure of the backend, in Python as in Rust.
    assert (error.node, error.kind, error.expected) == ("doubled", "device", "float32 of the shape [2, 3]")
    assert re.fullmatch(got, error.got)
    assert "describe" not in str(error)
    assert ('; convert it, as in `result.astype("float32")`' in str(error)) == got.startswith("float64")


@pytest.mark.parametrize(
    "result",
    [
        lambda a, b: np.asfortranarray(a + b),
        lambda a, b: np.repeat(a + b, 2, axis=1)[:, ::2],
        lambda a, b: (a + b).astype(">f4"),
        lambda a, b: np.ma.array(a + b),
        lambda a, b: np.broadcast_to((a + b)[:, :], (2, 3)),
    ],
)
def test_any_array_with_the_right_elements_is_taken(named, result):
    [y] = bb.Session(add_model(), named(returning(result))).run({"x": X})
    assert y.dtype == np.float32 and y.dtype.isnative and np.array_equal(y, X + X)
    y[0, 0] = 7


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_every_shape_goes_in_and_out(named, shape):
    x = np.full(shape, 2, np.float32)
    [y] = bb.Session(add_model(shape=shape), named(OnlyAdd)).run({"x": x})
    assert y.shape == shape and np.array_equal(y, x + x)


def test_split_returns_as_many_as_it_is_asked_for(named):
    ty = models.tensor_type(models.FLOAT, [2, 3])
    nodes = [models.node("Split", ["x", "sizes"], ["a", "b"], axis=1)]
    sizes = models.tensor(models.INT64, [2], np.array([1, 2]).tobytes(), "sizes")
    outs = [("a", models.tensor_type(models.FLOAT, [2, 1])), ("b", models.tensor_type(models.FLOAT, [2, 2]))]
    model = models.model(nodes, [("x", ty)], outs, [sizes])

    def splits(result):
        class Splits(bb.Backend):
            def split(self, x, axis, sizes):
                assert (axis, sizes) == (1, (1, 2))
                return result(x)

        return bb.Session(model, named(Splits)).run({"x": X})

    a, b = splits(lambda x: (x[:, :1], x[:, 1:]))
    assert np.array_equal(a, X[:, :1]) and np.array_equal(b, X[:, 1:])
    with pytest.raises(bb.RunError, match="returned 1, expected a list of 2 tensors") as raised:
        splits(lambda x: [x])
    assert (raised.value.expected, raised.value.got) == ("a list of 2 tensors", "1")
    with pytest.raises(bb.RunError, match="returned `ndarray`, expected a list of 2 tensors"):
        splits(lambda x: x)


def test_what_a_method_gets_cannot_be_written(named):
    def write(a, b):
        a += b
        return a

    x = X.copy()
    advice = "operands and returned arrays are read-only: copy first, as in `x = x.copy()`"
    text = f"`Returning.add` wrote to a read-only array; {advice}: ValueError: output array is read-only"
    with pytest.raises(bb.RunError, match=re.escape(text)) as raised:
        bb.Session(add_model(), named(returning(write))).run({"x": x})
    assert type(raised.value.__cause__) is ValueError and np.array_equal(x, X)


def test_results_are_not_the_memory_of_inputs(named):
    class Passes(bb.Backend):
        def identity(self, x):
            return x

    x = np.arange(4096, dtype=np.float32)
    [y] = bb.Session(models.identity(models.FLOAT, [4096]), named(Passes)).run({"x": x})
    x[:] = 0
    assert y[4095] == 4095
    y[0] = 1
    assert x[0] == 0


# Tensors of other kinds.


class Boxed:
    """A tensor that is no array."""

    def __init__(self, array):
        self.array = array


class Boxes(bb.Backend):
    """Tensors without attributes that say what they are."""

    def from_host(self, array):
        return Boxed(array)

    def to_host(self, tensor):
        return tensor.array

    def describe(self, tensor):
        return tensor.array.dtype.name, tensor.array.shape

    def add(self, a, b):
        return Boxed(a.array + b.array)


def test_a_tensor_is_any_object(named):
    [y] = bb.Session(add_model(), named(Boxes)).run({"x": X})
    assert np.array_equal(y, X + X)

    class Undescribed(Boxes):
        describe = bb.Backend.describe

    with pytest.raises(bb.RunError, match="`Undescribed.from_host` returned `Boxed`, expected float32") as raised:
        bb.Session(add_model(), named(Undescribed)).run({"x": X})
    assert "; write `def describe(self, tensor)`, which returns the element type and the shape of a `Boxed`" in str(raised.value)
    assert raised.value.__cause__ is None

    class Lies(Boxes):
        def to_host(self, tensor):
            return tensor.array.astype(np.float64)

    with pytest.raises(bb.RunError, match=r"`Lies.to_host` returned float64 of the shape \[2, 3\], expected float32"):
        bb.Session(add_model(), named(Lies)).run({"x": X})

    class Shapeless(Boxes):
        def describe(self, tensor):
            return "float32", None

    with pytest.raises(bb.Error, match="`Shapeless.from_host` returned `Boxed`"):
        bb.Session(add_model(), named(Shapeless)).run({"x": X})

    class NoPair(Boxes):
        def describe(self, tensor):
            return "float32"

    with pytest.raises(bb.Error, match="`NoPair.from_host` raised an exception"):
        bb.Session(add_model(), named(NoPair)).run({"x": X})


def test_tensors_of_torch(named):
    torch = pytest.importorskip("torch")

    class Torch(bb.Backend):
        def from_host(self, array):
            return torch.tensor(array)

        def add(self, a, b):
            return a + b

    [y] = bb.Session(add_model(), named(Torch)).run({"x": X})
    assert np.array_equal(y, X + X)


def test_tensors_of_jax(named):
    jax = pytest.importorskip("jax")

    class Jax(bb.Backend):
        def from_host(self, array):
            return jax.numpy.asarray(array)

        def add(self, a, b):
            return a + b

    [y] = bb.Session(add_model(), named(Jax)).run({"x": X})
    assert np.array_equal(y, X + X)


# Element types.


class Passes(bb.Backend):
    """Moves elements of every type."""

    def identity(self, x):
        return x

    def transpose(self, x, perm):
        return np.transpose(x, perm or None)


def test_strings_are_arrays_of_objects(named):
    session = bb.Session(models.unary("Transpose", models.STRING, [1, 2]), named(Passes))
    [y] = session.run({"x": np.array([["a", "é"]], object)})
    assert y.dtype == object and y.tolist() == [["a"], ["é"]]


def test_element_types_of_ml_dtypes(named):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    session = {}
    for name, number in [("bfloat16", 16), ("float8_e4m3fn", 17), ("uint4", 21), ("int4", 22), ("float4_e2m1fn", 23)]:
        seen = []

        class Seen(Passes):
            def transpose(self, x, perm):
                seen.append(x.dtype)
                return np.transpose(x)

        dtype = np.dtype(getattr(ml_dtypes, name))
        session[name] = bb.Session(models.unary("Transpose", number, [1, 3]), named(Seen))
        [y] = session[name].run({"x": np.array([[1, 2, 3]]).astype(dtype)})
        assert y.dtype == dtype and y.astype(np.float32).tolist() == [[1], [2], [3]] and seen == [dtype]


def test_an_element_type_that_numpy_does_not_have_is_an_error(named):
    if importlib.util.find_spec("ml_dtypes"):
        pytest.skip("`ml_dtypes` is installed")
    model = models.model(
        [models.node("Cast", ["x"], ["b"], to=models.BFLOAT16), models.node("Cast", ["b"], ["y"], to=models.FLOAT)],
        [("x", models.tensor_type(models.FLOAT, [2]))],
        [("y", models.tensor_type(models.FLOAT, [2]))],
    )

    class Casts(bb.Backend):
        def cast(self, x, to, saturate, round_mode):
            return x.astype(to)

    # A class without `types` has those of NumPy, which hold the others.
    [y] = bb.Session(model, named(Casts), widen_halves=False).run({"x": np.ones(2, np.float32)})
    assert y.tolist() == [1, 1]

    class Declares(Casts):
        types = ["float32", "int32", "bool", "bfloat16"]

    session = bb.Session(model, named(Declares), widen_halves=False)
    with pytest.raises(bb.Error, match="NumPy has no elements of bf16; the package `ml_dtypes` has them as `bfloat16`"):
        session.run({"x": np.ones(2, np.float32)})


def test_types_that_are_not_declared_are_held_in_others(named):
    class Few(NumPy):
        types = [np.float32, "int32", np.dtype(bool)]

    name = named(Few)
    x = np.arange(6).reshape(2, 3)
    [y] = bb.Session(add_model(models.INT64), name).run({"x": x})
    assert y.dtype == np.int64 and np.array_equal(y, 2 * x)
    session = bb.Session(add_model(models.DOUBLE), name)
    with pytest.raises(bb.UnsupportedError, match="needs f64, which the backend does not have"):
        session.run({"x": X.astype(np.float64)})
    [y] = bb.Session(add_model(models.DOUBLE), f"{name}(narrow_floats)").run({"x": X.astype(np.float64)})
    assert np.array_equal(y, 2 * X)


# Exceptions.


class Chip(Exception):
    pass


def test_an_exception_is_the_cause_with_its_traceback(named):
    raised_there = []

    def fails(a, b):
        raised_there.append(Chip("overheated"))
        raise raised_there[-1]

    for name in ("{}", "metrics+{}", "first_of({})"):
        session = bb.Session(add_model(), name.format(named(returning(fails))))
        with pytest.raises(bb.RunError, match="`Returning.add` raised an exception: Chip: overheated") as raised:
            session.run({"x": X})
        cause = raised.value.__cause__
        assert cause is raised_there[-1] and raised.value.node == "doubled"
        assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)][-1] == "fails"


def test_hooks_may_raise(named):
    class In(OnlyAdd):
        def from_host(self, array):
            raise LookupError("in")

    class Out(OnlyAdd):
        def to_host(self, tensor):
            raise LookupError("out")

    for cls, text in ((In, "`In.from_host` raised"), (Out, "`Out.to_host` raised")):
        with pytest.raises(bb.Error, match=text) as raised:
            bb.Session(add_model(), named(cls)).run({"x": X})
        assert type(raised.value.__cause__) is LookupError


def test_what_fails_when_it_is_tried_runs_on_another_backend(named):
    def fails(a, b):
        raise NotImplementedError("not yet")

    name = named(returning(fails))
    session = bb.Session(add_model(), f"first_of({name}, cpu)")
    assert np.array_equal(session.run({"x": X})[0], X + X)
    [node] = session.coverage()["nodes"]
    assert node["backend"] == "cpu" and not node["missing"]
    [passed] = node["passed_over"]
    assert (passed["backend"], passed["why"]) == (name, "refused")
    assert passed["reason"].startswith(f"`{name}` refuses `add` of f32 and f32: ")
    assert "`Returning.add` raised an exception: NotImplementedError: not yet" in passed["reason"]
    [node] = bb.Session(add_model(), name).coverage()["nodes"]
    assert "`Returning.add` raised an exception: NotImplementedError: not yet" in node["missing"][0]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda a, b: undefined(a, b), "raised an exception: NameError: name 'undefined' is not defined"),  # noqa: F821
        (lambda a, b: (a + b).astype(np.float64), "returned float64 of the shape "),
    ],
)
def test_a_mistake_that_first_of_passes_over_is_a_warning(named, wrong, text):
    name = named(returning(wrong))
    with pytest.warns(UserWarning) as caught:
        session = bb.Session(add_model(), f"first_of({name}, cpu)")
    [warning] = caught
    assert warning.filename == __file__
    message = str(warning.message)
    assert message.startswith(f"`Returning.add` {text}") and message.endswith(
        "; so node `doubled` (Add) runs on `cpu`; raise `NotImplementedError` in methods that do not run everything"
    )
    assert np.array_equal(session.run({"x": X})[0], X + X)


def test_what_is_no_mistake_is_no_warning(named):
    class Refuses(OnlyAdd):
        def add(self, a, b):
            raise NotImplementedError("later")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for backend in (Refuses, OnlyAdd):
            bb.Session(models.product(), f"first_of({named(backend)}, cpu)")
            bb.Session(add_model(), f"first_of({named(backend)}, cpu)")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("name", ["{}", "metrics+{}"])
def test_what_programs_do_not_catch_is_raised_as_it_is(named, interrupt, name):
    def fails(a, b):
        raise interrupt

    mine = named(returning(fails))
    session = bb.Session(add_model(), name.format(mine))
    with pytest.raises(interrupt):
        session.run({"x": X})
    with pytest.raises(interrupt):
        bb.Session(add_model(), f"first_of({mine}, cpu)").run({"x": X})
    # And in a thread, where no signals are handled.
    raised = []

    def run():
        try:
            session.run({"x": X})
        except BaseException as error:
            raised.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert raised == [interrupt]
    # The next run is not ended by it.
    assert len(bb.Session(add_model(), "cpu").run({"x": X})) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarms")
def test_ctrl_c_ends_a_method(named):
    def slow(a, b):
        signal.raise_signal(signal.SIGINT)
        time.sleep(60)
        return a

    session = bb.Session(add_model(), named(returning(slow)))
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        session.run({"x": X})
    with pytest.raises(KeyboardInterrupt):
        bb.conformance(returning(slow))
    assert time.monotonic() - begin < 30


def test_a_deadline_ends_a_run_between_methods(named):
    def slow(a, b):
        time.sleep(0.3)
        return a + b

    ty = models.tensor_type(models.FLOAT, [2, 3])
    nodes = [models.node("Add", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(20)]
    session = bb.Session(models.model(nodes, [("v0", ty)], [("v20", ty)]), named(returning(slow)))
    with pytest.raises(bb.DeadlineExceeded):
        session.run({"v0": X}, timeout=0.1)


# Threads, and sessions within methods.


def test_sixteen_threads_share_a_backend(named):
    name = named(NumPy)
    session = bb.Session(models.product(), name)
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        own = bb.Session(add_model(), name)
        for _ in range(40):
            n = int(random.integers(1, 40))
            a, b = random.random((n, 8), np.float32), random.random((8, n), np.float32)
            if not np.allclose(session.run({"a": a, "b": b})[0], a @ b, rtol=1e-5):
                wrong.append(seed)
            own.run({"x": X})

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    [thread.start() for thread in threads]
    [thread.join(timeout=120) for thread in threads]
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_a_method_may_use_other_sessions(named):
    on_cpu = bb.Session(add_model(), "cpu")
    on_other = bb.Session(add_model(), named(OnlyAdd))

    def calls(a, b):
        [y] = on_cpu.run({"x": a})
        [z] = on_other.run({"x": b})
        return (y + z) / 2

    session = bb.Session(add_model(), named(returning(calls)))
    threads = [threading.Thread(target=lambda: [session.run({"x": X}) for _ in range(50)]) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join(timeout=120) for thread in threads]
    assert not any(thread.is_alive() for thread in threads)
    assert np.array_equal(session.run({"x": X})[0], X + X)


def test_a_session_within_its_own_method_is_an_error(named):
    sessions = []

    class Recursive(bb.Backend):
        def add(self, a, b):
            return sessions[-1].run({"x": a})[0]

        def from_host(self, array):
            if len(sessions) == 2:
                sessions[-1].run({"x": X})
            return array

    sessions.append(bb.Session(add_model(), named(Recursive)))
    with pytest.raises(bb.RunError, match="`Recursive.add` raised an exception") as raised:
        sessions[0].run({"x": X})
    assert "runs the session that calls it" in str(raised.value.__cause__)
    sessions.append(bb.Session(add_model(), named(Recursive)))
    with pytest.raises(bb.Error, match="`Recursive.from_host` raised an exception"):
        sessions[1].run({"x": X})


def test_sessions_within_sessions_have_an_end(named):
    names = []

    class Endless(bb.Backend):
        def add(self, a, b):
            return bb.Session(add_model(), names[0]).run({"x": a})[0]

    names.append(named(Endless))
    with pytest.raises(bb.RunError) as raised:
        bb.Session(add_model(), names[0]).run({"x": X})
    innermost = raised.value
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    assert "within 16 methods that sessions call within each other" in str(innermost)


def test_a_constructor_that_opens_its_own_backend_is_an_error(named):
    names = []

    class Selfish(OnlyAdd):
        def __init__(self):
            bb.Session(add_model(), names[0])

    names.append(named(Selfish))
    with pytest.raises(bb.BackendError, match="opened by its own constructor"):
        bb.Session(add_model(), names[0])


def test_nothing_is_left_when_a_backend_is_removed():
    alive = []

    class Tracked(np.ndarray):
        pass

    class Counted(bb.Backend):
        def from_host(self, array):
            made = np.array(array).view(Tracked)
            alive.append(weakref.ref(made))
            return made

        def add(self, a, b):
            made = np.add(a, b)
            alive.append(weakref.ref(made))
            return made

        def mul(self, a, b):
            return np.multiply(a, b)

    backend = Counted()
    bb.register(backend, "counted")
    ty = models.tensor_type(models.FLOAT, [2, 3])
    nodes = [models.node("Add", ["x", "x"], ["a"]), models.node("Mul", ["a", "x"], ["y"])]
    model = models.model(nodes, [("x", ty)], [("y", ty)])
    for _ in range(25):
        session = bb.Session(model, "metrics+counted")
        assert np.array_equal(session.run({"x": X})[0], 2 * X * X)
    assert len(alive) >= 50
    held, backend = weakref.ref(backend), None
    session = None
    bb.unregister("counted")
    # Objects that other threads dropped are released when the lock is taken next.
    bb.Session(add_model(), "cpu").run({"x": X})
    gc.collect()
    assert held() is None and not any(tensor() is not None for tensor in alive)


def test_a_program_may_end_while_threads_run(tmp_path):
    program = f"""
import sys, threading, time
sys.path[:0] = {[str(EXAMPLES), str(Path(__file__).parent)]!r}
import numpy as np, bb, models
from numpy_backend import NumPy
bb.register(NumPy)
session = bb.Session(models.product(), "numpy")
x = np.ones((64, 64), np.float32)
def work():
    while True:
        session.run({{"a": x, "b": x}})
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
print("ends")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout == "ends\n" and done.returncode == 0, done.stderr


# Graphs.


def two_nodes():
    ty = models.tensor_type(models.FLOAT, ["n", 3])
    ones = models.tensor(models.FLOAT, [3], np.ones(3, np.float32).tobytes(), "ones")
    nodes = [models.node("Add", ["x", "ones"], ["a"]), models.node("ReduceSum", ["a"], ["y"], name="sum", keepdims=0)]
    return models.model(nodes, [("x", ty)], [("y", models.tensor_type(models.FLOAT, []))], [ones])


def test_execute_gets_a_graph_of_primitives_and_its_constants(named):
    seen = []

    class Sees(Graphs):
        def execute(self, graph, inputs):
            seen.append(graph)
            return super().execute(graph, inputs)

    session = bb.Session(two_nodes(), named(Sees))
    for n in (2, 2, 5):
        [y] = session.run({"x": np.ones((n, 3), np.float32)})
        assert y == 6 * n
    graph = seen[0]
    assert seen[1] is graph
    assert [(node.method, node.operator) for node in graph.nodes] == [("add", "Add"), ("reduce_sum", "ReduceSum")]
    assert graph.nodes[1].params == {"axes": (), "keepdims": False}
    assert len(graph.inputs) == 1 and len(graph.outputs) == 1 and graph.nodes[1].outputs == graph.outputs
    [(name, ones)] = graph.constants.items()
    assert name in graph.nodes[0].inputs and np.array_equal(ones, np.ones(3, np.float32))
    for wrong, text in [
        (lambda: graph.nods, "'Graph' object has no attribute 'nods'; did you mean 'nodes'?"),
        (lambda: graph.nodes[0].parms, "'Node' object has no attribute 'parms'; did you mean 'params'?"),
        (lambda: bb.Conformance().fails, "'Conformance' object has no attribute 'fails'; did you mean 'failed'?"),
    ]:
        with pytest.raises(AttributeError) as raised:
            wrong()
        assert str(raised.value) == text
    assert repr(graph) == "<bb.Graph of 2 nodes>" and repr(graph.nodes[0]).startswith("<bb.Node add(")
    [y] = bb.Session(graph.onnx, "cpu").run([np.ones((2, 3), np.float32)])
    assert y == 12


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda graph: None, "returned `NoneType`, expected a dict of outputs by name"),
        (lambda graph: {}, "`Whole.execute` returned no outputs, expected the output `.*`: return a value for each name in `graph.outputs`"),
        (lambda graph: {"b": 1, "a": 2}, "`Whole.execute` returned `a`, `b`, expected the output"),
        (lambda graph: {graph.outputs[0]: 3}, r"returned `int`, expected float32 of the shape \[\]"),
        (lambda graph: {graph.outputs[0]: np.float64(3)}, r"returned float64 of the shape \[\], expected float32"),
        (lambda graph: 1 / 0, "`Whole.execute` raised an exception: ZeroDivisionError"),
    ],
)
def test_what_execute_returns_is_checked(named, result, text):
    class Whole(bb.Backend):
        def execute(self, graph, inputs):
            return result(graph)

    with pytest.raises(bb.RunError, match=text):
        bb.Session(two_nodes(), named(Whole)).run({"x": X})


class Adds(Graphs):
    """A backend that runs graphs of one primitive."""

    primitives = {"add"}

    def execute(self, graph, inputs):
        assert {node.method for node in graph.nodes} == {"add"}
        return super().execute(graph, inputs)


def test_a_graph_backend_declares_its_primitives(named):
    name = named(Adds)
    x = np.ones((2, 3), np.float32)
    session = bb.Session(two_nodes(), f"first_of({name}, cpu, place=order)")
    assert [node["backend"] for node in session.coverage()["nodes"]] == [name, "cpu"]
    assert session.run({"x": x})[0] == 12
    with pytest.raises(bb.UnsupportedError, match="does not run `reduce_sum`"):
        bb.Session(two_nodes(), name).run({"x": x})


def test_the_primitives_of_a_graph_backend_are_tested_and_the_others_skipped():
    report = bb.conformance(Adds)
    assert report.ok, str(report)
    assert "add" in report.passed and report.skipped["matmul"] == "`primitives` does not have `matmul`"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"add", "matmull"}, "`Wrong.primitives` has 'matmull', which is no primitive; did you mean 'matmul'?; `bb.primitives()` lists them"),
        ("add", "`Wrong.primitives` must be a list or a set of methods, as in {'add', 'matmul'}, got 'add'"),
        (3, "`Wrong.primitives` must be a list or a set of methods, as in {'add', 'matmul'}, got 3"),
    ],
)
def test_wrong_declarations_of_primitives_are_refused(wrong, text):
    for call in (bb.register, bb.conformance):
        with pytest.raises(TypeError) as raised:
            call(type("Wrong", (Graphs,), {"primitives": wrong}))
        assert str(raised.value) == text
    with pytest.raises(TypeError, match="`Wrong.primitives` is only for a class with `execute`"):
        bb.register(type("Wrong", (OnlyAdd,), {"primitives": ["add"]}))


# Conformance.


@pytest.mark.parametrize("backend", [NumPy, Graphs, NumPy(), "cpu"])
def test_examples_pass_the_tests_of_primitives(backend):
    report = bb.conformance(backend)
    assert report.ok, str(report)
    assert set(bb.primitives()) < set(report.passed) and str(report).startswith(f"{len(report.passed)} passed, 0 failed")


def test_the_tests_of_primitives_find_mistakes(capfd):
    class Wrong(NumPy):
        def matmul(self, a, b):
            return np.matmul(b.T, a.T).T + 1

        def less(self, a, b):
            return np.less_equal(a, b)

        gather = None

    report = bb.conformance(Wrong)
    assert {"matmul", "less"} <= set(report.failed) and "add" in report.passed and not report.ok
    assert report.skipped["gather"] == "`gather` is not written" and report.missing == ["gather"]
    assert "matmul" in str(report) and capfd.readouterr() == ("", "")


def test_the_tests_of_methods_that_are_not_written_are_skipped(named, capfd):
    class Few(OnlyAdd):
        types = ["float32", "int32", "bool"]

    missing = [name for name in bb.primitives() if name not in ("add", "constant")]
    name = named(Few)
    for backend in (Few, Few(), name, f"metrics+{name}"):
        report = bb.conformance(backend)
        assert report.ok and report.missing == missing, str(report)
        assert report.skipped == {method: f"`{method}` is not written" for method in missing}
        assert "add" in report.passed and "element_types" in report.passed
        assert str(report).splitlines()[1:] == [f"  missing: {', '.join(missing)}"]
    assert capfd.readouterr() == ("", "")


def write_case(folder, operator):
    """Writes a case with the input 1 and the expected output 2."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    ty = models.tensor_type(models.FLOAT, [1])
    inputs = ["x", "x"] if operator == "Add" else ["x"]
    model = models.model([models.node(operator, inputs, ["y"])], [("x", ty)], [("y", ty)])
    (folder / "model.onnx").write_bytes(model)
    for file, number in (("input_0.pb", 1), ("output_0.pb", 2)):
        (data / file).write_bytes(models.tensor(models.FLOAT, [1], np.float32(number).tobytes()))


def test_a_class_that_changed_is_tested_as_it_is(tmp_path):
    class Changes(OnlyAdd):
        pass

    write_case(tmp_path / "adds", "Add")
    bb.register(Changes, "changes")
    try:
        assert bb.conformance("changes", tmp_path).passed == ["adds"]
        Changes.add = lambda self, a, b: a - b
        failed = bb.conformance("changes", tmp_path).failed["adds"]
    finally:
        bb.unregister("changes")
    # The input is on a line of its own.
    assert failed.splitlines()[0].startswith("output `y` (0 of 1): element 0: expected 2, got 0;"), failed
    assert failed.splitlines()[1:] == ["  input `x`: f32[1] {1.0}"]


def test_a_case_that_needs_a_method_that_is_not_written_is_skipped(tmp_path):
    for case, operator in (("adds", "Add"), ("exps", "Exp"), ("logs", "Log"), ("exps_again", "Exp")):
        write_case(tmp_path / case, operator)
    report = bb.conformance(OnlyAdd, tmp_path)
    assert report.passed == ["adds"] and report.ok, str(report)
    assert report.skipped == {"exps": "`exp` is not written", "exps_again": "`exp` is not written", "logs": "`log` is not written"}
    assert report.missing == ["exp", "log"]


def test_failures_of_one_method_are_one_entry_of_the_text_and_the_worst_is_first():
    class Wrong(NumPy):
        types = ["float32", "int32", "bool"]

        def less(self, a, b):
            return np.less_equal(a, b)

        def div(self, a, b):
            raise ValueError("not for now")

    report = bb.conformance(Wrong)
    several = [name for name, why in report.failed.items() if "`Wrong.div` raised" in why]
    assert {"div", "element_types", "threads"} <= set(several)
    div, less = re.findall(r"^  \w.*", str(report), re.MULTILINE)
    assert div.startswith(f"  div, in {len(several)} tests ({', '.join(several)}): div(f32[2, 3] ")
    assert less.startswith("  less: ")


def test_warnings_about_numbers_are_not_shown_by_tests(named):
    class Few(OnlyAdd):
        types = ["float32", "int32", "bool"]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bb.conformance(Few).ok
    great = np.full((2, 3), 3e38, np.float32)
    session = bb.Session(add_model(), named(Few))
    with pytest.warns(RuntimeWarning, match="overflow"):
        session.run({"x": great})


def test_the_types_to_declare_are_suggested_once_and_in_python(named):
    class Floats(bb.Backend):
        def add(self, a, b):
            if a.dtype.kind not in "fb":
                raise TypeError("floats only")
            return a + b

        def mul(self, a, b):
            if a.dtype.kind not in "fb":
                raise TypeError("floats only")
            return a * b

    for backend in (named(Floats), Floats):
        report = bb.conformance(backend)
        why = report.failed["mul"]
        assert "declare those that are\nin the class: `types = [\"float32\", " in why and '"int64"' not in why
        assert "impl bb::Backend" not in str(report) and "fn types" not in str(report)
        assert str(report).count("declare those that are") < len(report.failed)
    missing = importlib.util.find_spec("ml_dtypes") is None
    assert any("pip install ml_dtypes" in reason for reason in report.skipped.values()) == missing


def test_one_method_that_is_wrong_for_integers_takes_no_type_away():
    class Divides(NumPy):
        types = None

        def div(self, a, b):
            return np.true_divide(a, b)

    _, suggests, types = bb.conformance(Divides).failed["div"].partition("declare those that are")
    assert not suggests or '"int32"' in types


class Few(NumPy):
    """The example's backend with few types."""

    types = ["float32", "int32", "bool"]


def test_a_backend_with_few_types_passes_by_its_class_and_by_its_name(named):
    name = named(Few)
    by_class = bb.conformance(Few)
    assert by_class.ok, str(by_class)
    for by_name in (name, f"metrics+{name}"):
        report = bb.conformance(by_name)
        assert report.ok, str(report)
        assert report.passed == by_class.passed

    class Wrong(Few):
        def less(self, a, b):
            return np.less_equal(a, b)

    report = bb.conformance(named(Wrong))
    assert set(report.failed) == {"less"} and "`less`" not in report.passed


def test_what_a_backend_with_few_types_lacks_is_unsupported(named):
    class Adds(bb.Backend):
        types = ["float32", "int32", "bool"]

        def add(self, a, b):
            return a + b

    name = named(Adds)
    ty = models.tensor_type(models.FLOAT, [3])
    model = models.model([models.node("Exp", ["x"], ["y"])], [("x", ty)], [("y", ty)])
    for backend in (name, f"metrics+{name}", f"first_of({name}, metrics+{name})"):
        with pytest.raises(bb.UnsupportedError, match=r"`Adds` has no method `exp`; write `def exp\(self, x\)`") as raised:
            bb.Session(model, backend).run({"x": np.ones(3, np.float32)})
        assert raised.value.kind == "unsupported"


def excluded():
    lines = (ROOT / "tests/cases/exclude.txt").read_text(encoding="utf-8").splitlines()
    return [line.split("#")[0].strip().removeprefix("node/") for line in lines]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """ONNX's cases of operators, in its layout."""
    if shutil.which("zstd") is None:
        pytest.skip("the cases are unpacked by zstd, which is not installed")
    folder = tmp_path_factory.mktemp("cases")
    archive = ROOT / "tests/cases/onnx-dev.tar.zst"
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", folder, "--wildcards", "./node/*"], check=True)
    return folder / "node"


@pytest.mark.parametrize("backend", [NumPy, Graphs])
def test_examples_pass_the_cases_of_onnx(backend, cases):
    pytest.importorskip("onnx")
    report = bb.conformance(backend, cases, exclude=excluded())
    assert report.ok, str(report)
    assert len(report.passed) > 1000
    # Only element types that NumPy does not have are skipped.
    assert set(report.skipped.values()) <= {"bf16", "string", "c64", "c128", "u4", "i4", "u2", "i2", "f4e2m1", "f8e8m0", *(
        f"f8e{kind}" for kind in ("4m3fn", "4m3fnuz", "5m2", "5m2fnuz")
    )}


def test_a_folder_without_cases_and_a_name_that_no_backend_has_are_errors(tmp_path):
    with pytest.raises(OSError, match="has no case in ONNX's layout"):
        bb.conformance("cpu", tmp_path)
    with pytest.raises(OSError, match="cannot read"):
        bb.conformance("cpu", tmp_path / "nothing")
    with pytest.raises(bb.BackendError):
        bb.conformance("nothing")


# Models.

FOLDERS = [ROOT / "tests/data/models", *(Path(p) for p in os.environ.get("BB_MODELS", "").split(os.pathsep) if p)]
MODELS = sorted({case.name: case for folder in FOLDERS for case in folder.glob("*") if (case / "model.onnx").exists()}.items())


@pytest.fixture(scope="module")
def numpy_name():
    bb.register(NumPy, "numpy-models")
    yield "numpy-models"
    bb.unregister("numpy-models")


@pytest.mark.parametrize("name", ["{}", "metrics+{}", "first_of({}, cpu)"])
@pytest.mark.parametrize(("model", "case"), MODELS, ids=[model for model, _ in MODELS])
def test_models_give_what_they_give_on_the_processor(numpy_name, model, case, name):
    from test_models import _tensors

    session = bb.Session(case / "model.onnx", name.format(numpy_name))
    if session.coverage()["counts"]["unsupported"]:
        pytest.skip("the model needs element types that NumPy does not have")
    inputs = _tensors(case / "test_data_set_0", "input")
    expected = bb.Session(case / "model.onnx", "cpu").run(inputs)
    for got, want in zip(session.run(inputs), expected, strict=True):
        if type(want) is not np.ndarray or want.dtype == object:
            assert np.array_equal(got, want)
        else:
            scale = np.abs(want[np.isfinite(want)]).max(initial=0) if want.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, want, 1e-3, 1e-5 * max(1.0, float(scale)))


def test_a_comparison_finds_what_is_wrong(named):
    class Wrong(NumPy):
        def exp(self, x):
            return np.exp(x) * np.float32(1.5)

    model = models.unary("Exp", shape=[2, 3])
    good, bad = bb.Session(model, named(NumPy)), bb.Session(model, named(Wrong))
    assert all(row["equal"] for row in bb.compare(good, {"x": X}, "cpu"))
    assert not all(row["equal"] for row in bb.compare(bad, {"x": X}, "cpu"))
