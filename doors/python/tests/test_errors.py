"""Errors: one class for each reaction of a program, with the details as fields."""

import importlib
import importlib.util
import inspect
import pickle
import warnings
from typing import get_args

import numpy as np
import pytest

import bb
import models


def test_every_class_is_an_error_of_bb():
    for name in bb.errors.__all__:
        cls = getattr(bb, name)
        assert issubclass(cls, bb.Error) and inspect.getdoc(cls)
    for cls, also in {
        bb.ModelError: ValueError, bb.FileNotFound: FileNotFoundError, bb.InputError: ValueError,
        bb.UnsupportedError: NotImplementedError, bb.RunError: RuntimeError, bb.OutOfMemory: MemoryError,
        bb.DeadlineExceeded: TimeoutError, bb.MissingPackage: ImportError, bb.LimitError: ValueError,
    }.items():
        assert issubclass(cls, also)


KINDS = get_args(bb.errors.ErrorKind)


def kind_of(call):
    """Returns the class and the kind of the error that a call raises."""
    with pytest.raises(bb.Error) as raised:
        call()
    assert raised.value.kind in KINDS
    return type(raised.value), raised.value.kind


def test_the_class_of_an_error_follows_from_its_kind(tmp_path):
    good = models.unary("Neg", shape=["n", 3])
    session = bb.Session(good)
    row = np.ones((1, 3), np.float32)
    assert kind_of(lambda: bb.Session(b"no model")) == (bb.ModelError, "invalid-model")
    assert kind_of(lambda: session.run({})) == (bb.InputError, "wrong-input")
    assert kind_of(lambda: session.run([row, row])) == (bb.InputError, "wrong-input")
    assert kind_of(lambda: session.run({"x": np.ones(3, np.float32)})) == (bb.InputError, "wrong-input")
    assert kind_of(lambda: session.run({"x": np.array([object()])})) == (bb.InputError, "wrong-input")
    assert kind_of(lambda: session.run(["nothing"], {"x": row})) == (bb.OutputError, "wrong-input")
    assert kind_of(lambda: bb.Session(good, dims={"nothing": 2})) == (bb.InputError, "wrong-input")
    assert kind_of(lambda: bb.Session(good, limits={"nothing": "2"})) == (bb.InputError, "configuration")
    assert kind_of(lambda: bb.Session(good, backend="nowhere")) == (bb.BackendError, "configuration")
    assert kind_of(lambda: bb.Session(tmp_path / "none.onnx")) == (bb.FileNotFound, "configuration")
    assert kind_of(lambda: bb.Session(tmp_path)) == (bb.FileError, "configuration")
    assert kind_of(lambda: bb.Session(good, limits={"model_bytes": "3"})) == (bb.LimitError, "limit")
    small = bb.Session(models.unary("Neg"), memory=1 << 20)
    assert kind_of(lambda: small.run([np.ones(1 << 20, np.float32)])) == (bb.OutOfMemory, "limit")
    token = bb.CancelToken()
    token.cancel()
    assert kind_of(lambda: session.run({"x": row}, cancel=token)) == (bb.Cancelled, "cancelled")
    assert kind_of(lambda: session.run({"x": row}, timeout=0)) == (bb.DeadlineExceeded, "cancelled")
    assert kind_of(lambda: session.save(tmp_path / "none" / "saved")) == (bb.FileError, "configuration")
    three = models.tensor_type(models.FLOAT, [3])
    strange = models.model([models.node("Strange", ["x"], ["y"])], [("x", three)], [("y", three)])
    assert kind_of(lambda: bb.Session(strange)) == (bb.UnsupportedError, "unsupported")


def test_a_node_that_fails_is_named_with_its_operator_and_shapes():
    session = bb.Session(models.product())
    with pytest.raises(bb.RunError) as raised:
        session.run({"a": np.ones((2, 3), np.float32), "b": np.ones((4, 5), np.float32)})
    error = raised.value
    assert (error.node, error.operator, error.domain) == ("product", "MatMul", "")
    assert (error.kind, error.backend) == ("wrong-input", "cpu")
    assert str(error).startswith("node `product` (MatMul) failed: ")
    assert error.shapes == [(2, 3), (4, 5)] and error.dtypes == ["float", "float"]
    assert error.causes and all(cause in str(error) for cause in error.causes)
    # The session goes on.
    assert session.run({"a": np.ones((2, 3), np.float32), "b": np.ones((3, 5), np.float32)})[0].shape == (2, 5)


def test_shapes_of_values_on_the_way_follow_from_the_inputs():
    ty = models.tensor_type(models.FLOAT, ["n", 4])
    nodes = [
        models.node("Transpose", ["x"], ["t"], perm=[1, 0]),
        models.node("MatMul", ["t", "w"], ["y"], name="late"),
    ]
    outs = [("y", models.tensor_type(models.FLOAT, None))]
    ins = [("x", ty), ("w", models.tensor_type(models.FLOAT, ["m", 2]))]
    with pytest.raises(bb.RunError) as raised:
        bb.Session(models.model(nodes, ins, outs)).run([np.ones((3, 4), np.float32), np.ones((5, 2), np.float32)])
    assert (raised.value.node, raised.value.shapes) == ("late", [(4, 3), (5, 2)])


def test_extents_of_one_name_that_differ_are_a_warning():
    row = models.tensor_type(models.FLOAT, ["n"])
    outs = [("y", models.tensor_type(models.FLOAT, ["m"]))]
    model = models.model([models.node("Concat", ["a", "b"], ["y"], axis=0)], [("a", row), ("b", row)], outs)
    session = bb.Session(model)
    a, b = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)
    message = r"input `b` is declared as f32\[n\], got f32\[3\]: extent 3 of axis 0 must be 2, .* input `a`"
    with pytest.warns(UserWarning, match=message) as warned:
        (y,) = session.run({"a": a, "b": b})
    assert y.tolist() == [1, 2, 3, 4, 5] and [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.run({"a": a, "b": a})[0].tolist() == [1, 2, 1, 2]
        with pytest.raises(UserWarning):
            session.run({"a": a, "b": b})
    with pytest.raises(bb.InputError, match="because `n` is 2"):
        bb.Session(model, strict=True).run({"a": a, "b": b})


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "input `x` is missing"),
        ({"x": np.ones((1, 3), np.float32), "z": 1}, "`z` is no input of the graph"),
        ({"x": None}, r"input `x` is declared as f32\[n, 3\]: expected a value, got `NoneType`"),
        ({"x": np.ones((1, 3), np.float64)}, "element type f64 must be f32"),
        ({"x": np.ones(3, np.float32)}, "rank 1 must be 2"),
        ({"x": np.ones((1, 4), np.float32)}, "extent 4 of axis 1 must be 3"),
        ({"x": np.array([["a"] * 3])}, "element type string must be f32"),
        ({"x": np.array(["2020-01-01"], "datetime64[D]")}, "has no element type of ONNX"),
        ([np.ones((1, 3), np.float32)] * 2, "takes 1 inputs, got 2"),
    ],
)
def test_wrong_inputs_say_what_was_expected(feeds, message):
    session = bb.Session(models.unary("Neg", shape=["n", 3]))
    with pytest.raises(bb.InputError, match=message) as raised:
        session.run(feeds)
    assert "backend" not in str(raised.value)
    if isinstance(feeds, dict):
        assert raised.value.input in ("x", "z")
    with pytest.raises(ValueError):
        session.run(feeds)


def test_feeds_of_a_wrong_kind_are_type_errors():
    session = bb.Session(models.unary("Neg"))
    for feeds in [3, "x", np.ones(2, np.float32)]:
        with pytest.raises(TypeError, match="expected a dict of inputs"):
            session.run(feeds)
    with pytest.raises(TypeError, match="names of inputs must be `str`, got `int`"):
        session.run({"x": 1, 3: 4})
    with pytest.raises(TypeError, match="the inputs are given twice"):
        session.run(None, {"x": 1}, feeds={"x": 1})


def test_an_input_that_raises_is_the_cause():
    class Bad:
        def __array__(self, dtype=None, copy=None):
            raise KeyError("inside")

    with pytest.raises(bb.InputError, match="input `x` is declared as f32") as raised:
        bb.Session(models.unary("Neg")).run([Bad()])
    assert isinstance(raised.value.__cause__, KeyError) and raised.value.got.endswith("Bad")
    assert raised.value.expected == "f32"


def test_operators_that_nothing_runs_are_listed():
    ty = models.tensor_type(models.FLOAT, [3])
    nodes = [models.node("Strange", ["x"], ["t"], name="first", domain="my.own"), models.node("Odd", ["t"], ["y"], domain="my.own")]
    model = models.model(nodes, [("x", ty)], [("y", ty)]) + models._field(8, models._field(1, "my.own") + models._field(2, 1))
    with pytest.raises(bb.UnsupportedError) as raised:
        bb.Session(model)
    assert raised.value.nodes == [("first", "Strange"), ("y", "Odd")]


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file") as raised:
        bb.Session(tmp_path / "none.onnx")
    assert isinstance(raised.value, bb.FileNotFound) and raised.value.filename.endswith("none.onnx")
    with pytest.raises(bb.FileError, match="expected a file") as raised:
        bb.Session(tmp_path)
    assert raised.value.filename == str(tmp_path)
    with pytest.raises(bb.FileError, match="saved`: there is no folder `.*none`") as raised:
        bb.Session(models.unary("Neg")).save(tmp_path / "none" / "saved")
    assert raised.value.filename == str(tmp_path / "none" / "saved")
    with pytest.raises(bb.FileNotFound, match="^there is no folder '.*none'; `folder` is the folder of the model's external data$") as raised:
        bb.Session(models.unary("Neg"), folder=tmp_path / "none")
    assert (raised.value.kind, raised.value.filename) == ("configuration", str(tmp_path / "none"))
    with pytest.raises(TypeError):
        bb.Session(3)


def test_hostile_bytes_are_refused():
    good = models.long_running()
    random = np.random.default_rng(1)
    for data in [b"", b"\0", b"hello", b"PK\x03\x04", good[: len(good) // 2], b"\xff" * 4000]:
        with pytest.raises(bb.ModelError):
            bb.Session(data)
    refused = 0
    for _ in range(2000):
        data = bytearray(good)
        for _ in range(random.integers(1, 4)):
            data[random.integers(len(data))] = random.integers(256)
        try:
            bb.Session(bytes(data))
        except bb.Error:
            refused += 1
    assert refused > 500


def test_the_interface_of_onnx_names_the_package_that_it_needs():
    if importlib.util.find_spec("onnx"):
        assert bb.backend.supports_device("CPU")
        return
    with pytest.raises(bb.MissingPackage, match="^`bb.backend` needs the package `onnx`: pip install onnx$") as raised:
        importlib.import_module("bb.backend")
    assert (raised.value.kind, raised.value.name) == ("configuration", "onnx")
    with pytest.raises(AttributeError, match="^bb has no `backend`: `bb.backend` needs the package `onnx`: pip install onnx$"):
        bb.backend
    assert not hasattr(bb, "backend")


def test_errors_survive_pickling():
    with pytest.raises(bb.RunError) as raised:
        bb.Session(models.product()).run({"a": np.ones((2, 3), np.float32), "b": np.ones((4, 5), np.float32)})
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is bb.RunError and str(again) == str(raised.value)
    assert again.kind == raised.value.kind
    assert (again.node, again.shapes) == ("product", [(2, 3), (4, 5)])


def test_a_memory_limit_is_an_error():
    session = bb.Session(models.unary("Neg"), memory=1 << 20)
    with pytest.raises(MemoryError) as raised:
        session.run([np.ones(1 << 20, np.float32)])
    assert isinstance(raised.value, bb.OutOfMemory)
    assert session.run([np.ones(10, np.float32)])[0][0] == -1


def test_operands_of_two_element_types_are_named_with_both():
    ins = [("x", models.tensor_type(models.FLOAT, [3])), ("n", models.tensor_type(models.INT64, [3]))]
    model = models.model([models.node("Add", ["x", "n"], ["y"], name="sum")], ins, [("y", ins[0][1])])
    with pytest.raises(bb.ModelError) as raised:
        bb.Session(model)
    why = "`add`: `b` has elements of i64, expected f32 like `a`; cast one of them"
    assert str(raised.value) == f"node `sum` (`Add`) is not valid: {why}"
    assert (raised.value.node, raised.value.expected, raised.value.got) == ("sum", "f32", "i64")
