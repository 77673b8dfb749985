"""Sessions: how they are opened, how they describe themselves, and how they run."""

import copy
import os
import pickle
import pydoc
import subprocess
import sys

import numpy as np
import pytest

import bb
import bb.onnxruntime
import models


@pytest.fixture
def two():
    """A model with two outputs and a value on the way."""
    ty = models.tensor_type(models.FLOAT, ["batch", 3])
    nodes = [
        models.node("Neg", ["x"], ["minus"], name="negate"),
        models.node("Exp", ["minus"], ["y"]),
        models.node("Abs", ["minus"], ["z"]),
    ]
    return models.model(nodes, [("x", ty)], [("y", ty), ("z", ty)], metadata={"author": "somebody"})


X = np.array([[1, -2, 0.5]], np.float32)


def test_run_takes_inputs_by_name_and_by_position(two):
    session = bb.Session(two)
    expected = [np.exp(-X), np.abs(X)]
    runs = [
        session.run({"x": X}),
        session.run([X]),
        session.run((X,)),
        session.run(None, {"x": X}),
        session.run(["y", "z"], {"x": X}),
        session.run([], {"x": X}),
        session.run(output_names=None, input_feed={"x": X}),
        session.run(feeds={"x": X}),
        session.run(None, {"x": X}, None),
    ]
    for got in runs:
        assert isinstance(got, list)
        for ours, theirs in zip(got, expected, strict=True):
            assert type(ours) is np.ndarray and ours.dtype == np.float32
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_fetch_gives_any_value_in_any_order(two):
    session = bb.Session(two)
    [z, minus, y] = session.run({"x": X}, fetch=["z", "minus", "y"])
    np.testing.assert_array_equal(minus, -X)
    np.testing.assert_array_equal(z, abs(X))
    np.testing.assert_allclose(y, np.exp(-X), rtol=1e-6)
    [minus] = session.run(["minus"], {"x": X})
    np.testing.assert_array_equal(minus, -X)
    # More lists than a session keeps.
    for n in range(1, 40):
        assert len(session.run({"x": X}, fetch=["minus"] * n)) == n


def test_fetch_names_the_value_that_is_meant(two):
    session = bb.Session(two)
    text = 'the graph has no value `mimus`; its outputs are ["y", "z"], and its other values can be requested too; did you mean `minus`?'
    with pytest.raises(bb.OutputError) as raised:
        session.run({"x": X}, fetch=["mimus"])
    assert str(raised.value) == text and (raised.value.got, raised.value.expected) == ("mimus", "y, z")
    with pytest.raises(TypeError, match=r"list of `str`, got `str`: write `\['.*'\]`$"):
        session.run("y", {"x": X})
    with pytest.raises(TypeError, match="must be `str`, got `int`"):
        session.run([1], {"x": X})
    with pytest.raises(TypeError, match="outputs are given twice"):
        session.run(["y"], {"x": X}, fetch=["y"])


def test_the_interface_is_that_of_onnx_runtime(two, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(two)
    options = bb.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = bb.GraphOptimizationLevel.ORT_ENABLE_ALL
    for session in [
        bb.InferenceSession(str(path), options, ["CPUExecutionProvider"]),
        bb.InferenceSession(path, sess_options=options, providers=[("CPUExecutionProvider", {})]),
        bb.InferenceSession(two),
    ]:
        [x] = session.get_inputs()
        assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["batch", 3])
        assert [y.name for y in session.get_outputs()] == ["y", "z"]
        assert session.get_outputs()[0].shape == ["batch", 3]
        assert session.get_providers() == ["CPUExecutionProvider"]
        about = session.get_modelmeta()
        assert about.custom_metadata_map == {"author": "somebody"}
        assert (about.producer_name, about.graph_name) == ("tests", "graph")
        assert session.run(None, {session.get_inputs()[0].name: X})[1].shape == (1, 3)
    with pytest.warns(UserWarning, match="no provider 'TensorrtExecutionProvider'"):
        assert bb.InferenceSession(two, providers=["TensorrtExecutionProvider"]).backend == "cpu"
    with pytest.raises(AttributeError, match="no option 'intra_threads'"):
        options.intra_threads = 1
    assert bb.get_available_providers() == ["CPUExecutionProvider"]


def test_an_initializer_that_is_an_input_may_be_left_out():
    ty = models.tensor_type(models.FLOAT, [3])
    start = models.tensor(models.FLOAT, [3], np.array([1, 2, 3], np.float32).tobytes(), "b")
    model = models.model(
        [models.node("Add", ["a", "b"], ["y"])], [("a", ty), ("b", ty)], [("y", ty)], [start]
    )
    session = bb.Session(model)
    assert [port.name for port in session.get_inputs()] == ["a"]
    assert [port.name for port in session.get_overridable_initializers()] == ["b"]
    ones = np.ones(3, np.float32)
    assert session.run({"a": ones})[0].tolist() == [2, 3, 4]
    assert session.run({"a": ones, "b": None})[0].tolist() == [2, 3, 4]
    assert session.run([ones])[0].tolist() == [2, 3, 4]
    assert session.run({"a": ones, "b": ones})[0].tolist() == [2, 2, 2]


def test_dims_fix_symbolic_dimensions(two):
    session = bb.Session(two, dims={"batch": 2})
    assert session.get_inputs()[0].shape == [2, 3]
    assert session.get_outputs()[0].shape == [2, 3]
    assert session.run([np.ones((2, 3), np.float32)])[0].shape == (2, 3)
    with pytest.raises(bb.InputError, match="extent 1 of axis 0 must be 2"):
        session.run([X])
    with pytest.raises(bb.InputError, match=r"no input has a symbolic dimension `bach`; those that there are: \[\"batch\"\]"):
        bb.Session(two, dims={"bach": 2})
    options = bb.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 4)
    assert bb.Session(two, options).get_inputs()[0].shape == [4, 3]


def test_options_of_the_backend_are_given_by_name(two):
    session = bb.Session(two, "cpu", backend_options={"threads": 1, "memory": 1 << 30})
    assert session.backend == "cpu"
    assert bb.Session(two, "cpu(threads=1)").run({"x": X})
    assert copy.copy(session) is session and pickle.loads(pickle.dumps(session)).run({"x": X})
    known = "there are `threads`, `memory`, `level`, and `narrow_floats` if it lacks a float type"
    with pytest.raises(bb.BackendError) as raised:
        bb.Session(two, "cpu", backend_options={"treads": 1})
    assert str(raised.value) == f"backend `cpu` has no option `treads` (did you mean `threads`?); {known}"
    assert (raised.value.got, raised.value.expected) == ("treads", "threads, memory, level, narrow_floats")
    with pytest.raises(bb.BackendError, match="has no option `narow_floats` .did you mean `narrow_floats`"):
        bb.Session(two, "cpu", backend_options={"narow_floats": True})
    with pytest.raises(bb.BackendError, match="does not take the option `narrow_floats`"):
        bb.Session(two, "cpu", backend_options={"narrow_floats": True})
    with pytest.raises(ValueError, match="comma"):
        bb.Session(two, "cpu", backend_options={"kernel": "a,b"})


def test_threads_and_backends_are_chosen(two):
    assert {"cpu", "reference", "whole-graph"} <= set(bb.backends())
    for backend in bb.backends():
        np.testing.assert_allclose(bb.Session(two, backend).run([X])[0], np.exp(-X), rtol=1e-6)
    assert bb.Session(two, "cpu", 2).run([X])[1].tolist() == [[1, 2, 0.5]]
    with pytest.raises(ValueError, match="at least 1"):
        bb.Session(two, threads=0)
    with pytest.raises(bb.BackendError, match="no backend is called `cup`"):
        bb.Session(two, "cup")
    with pytest.raises(bb.BackendError, match="does not take the option `threads`"):
        bb.Session(two, "reference", threads=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'thread'; did you mean 'threads'?"):
        bb.Session(two, thread=2)
    with pytest.raises(TypeError, match="`threads` must be a whole number, got 'two'"):
        bb.Session(two, threads="two")
    with pytest.raises(TypeError, match="`memory` must be a whole number, got 1.5"):
        bb.Session(two, memory=1.5)
    with pytest.raises(TypeError, match="`backend_options` must be a dict"):
        bb.Session(two, backend_options=["tile"])
    with pytest.raises(ValueError, match=r"`dims\['batch'\]` must be a whole number, at least 0, got -1"):
        bb.Session(two, dims={"batch": -1})
    with pytest.raises(TypeError, match="the names of outputs come before the inputs"):
        bb.Session(two).run({"x": X}, ["minus"])
    with pytest.raises(AttributeError, match="no option 'intra_op_threads'; did you mean 'intra_op_num_threads'?"):
        bb.SessionOptions().intra_op_threads = 2
    with pytest.raises(bb.OutputError, match="the graph has no value `nothing`; its outputs are"):
        bb.Session(two).run(["nothing"], [X])


def test_the_options_of_a_backend_are_listed(two):
    options = bb.backend_options("cpu")
    assert {"threads", "memory"} <= set(options)
    assert options["threads"] == {"type": "int", "default": None, "about": "the number of threads that compute"}
    for name, option in options.items():
        assert option["type"] in ("int", "float", "bool", "str") and option["about"], name
    with pytest.raises(bb.BackendError) as raised:
        bb.backend_options("cup")
    assert str(raised.value).startswith("no backend is called `cup`; did you mean 'cpu'?; there are [")
    assert (raised.value.kind, raised.value.got) == ("configuration", "cup")


def test_a_timeout_of_another_kind_is_named(two):
    with pytest.raises(TypeError, match="^`timeout` must be a number of seconds, got '1'$"):
        bb.Session(two).run({"x": X}, timeout="1")
    assert len(bb.Session(two).run({"x": X}, timeout=60)) == 2


def test_a_provider_that_is_not_there_says_which_backend_runs(two):
    with pytest.warns(UserWarning) as caught:
        bb.Session(two, providers=["CUDAExecutionProvider", "CpuExecutionProvider"])
    there = f"the session runs on 'cpu', and `bb.backends()` lists {bb.backends()}"
    assert [str(warning.message) for warning in caught] == [
        f"there is no provider 'CUDAExecutionProvider'; {there}",
        f"there is no provider 'CpuExecutionProvider'; did you mean 'CPUExecutionProvider'?; {there}",
    ]


def test_a_number_of_threads_of_another_kind_names_the_option(two):
    options = bb.SessionOptions()
    options.intra_op_num_threads = "2"
    with pytest.raises(TypeError, match="^`intra_op_num_threads` must be a whole number, got '2'$"):
        bb.Session(two, options)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda session: session.get_input, "'Session' object has no attribute 'get_input'; did you mean 'get_inputs'?"),
        (lambda session: session.predict, "bb has no `Session.predict`: `session.run(feeds)` runs the model"),
        (lambda session: session.input_names, "bb has no `Session.input_names`: `session.get_inputs()` lists the inputs"),
        (lambda session: bb.load, "bb has no `load`: `bb.Session(path)` opens a model"),
        (lambda session: session.strange, "'Session' object has no attribute 'strange'"),
        (lambda session: bb.SessionOptions().intra_op_threads, "'SessionOptions' object has no attribute 'intra_op_threads'; did you mean 'intra_op_num_threads'?"),
        (lambda session: bb.RunOptions().terminat, "'RunOptions' object has no attribute 'terminat'; did you mean 'terminate'?"),
        (lambda session: session.io_binding().bind_inputs, "'IOBinding' object has no attribute 'bind_inputs'; did you mean 'bind_input'?"),
        (lambda session: bb.Sesion, "module 'bb' has no attribute 'Sesion'; did you mean 'Session'?"),
        (lambda session: session.run({"x": X}, timeot=1), "Session.run() got an unexpected keyword argument 'timeot'; did you mean 'timeout'?"),
        (lambda session: session.run({"x": X}, strange=1), "Session.run() got an unexpected keyword argument 'strange'"),
        (lambda session: session.profile({"x": X}, warmpu=1), "Session.profile() got an unexpected keyword argument 'warmpu'; did you mean 'warmup'?"),
        (lambda session: session.compare({"x": X}, rtoll=1), "Session.compare() got an unexpected keyword argument 'rtoll'; did you mean 'rtol'?"),
    ],
)
def test_a_name_with_a_typo_gets_the_one_that_is_meant(two, wrong, text):
    with pytest.raises((AttributeError, TypeError)) as raised:
        wrong(bb.Session(two))
    assert str(raised.value) == text
    # So that the interpreter does not print a suggestion of its own besides.
    assert getattr(raised.value, "obj", None) is None


def test_what_is_not_native_can_be_refused(two):
    ty = models.tensor_type(models.STRING, [None])
    model = models.model([models.node("StringNormalizer", ["x"], ["y"])], [("x", ty)], [("y", ty)])
    bb.Session(model)
    with pytest.raises(bb.UnsupportedError):
        bb.Session(model, refuse_host=True)


def test_models_come_from_anything_with_bytes(two, tmp_path):
    class Message:
        def SerializeToString(self):
            return two

    for model in [two, bytearray(two), memoryview(two), Message()]:
        assert bb.Session(model).run([X])[0].shape == (1, 3)


def test_external_data_lies_in_a_folder(tmp_path):
    numbers = np.arange(3, dtype=np.float32)
    (tmp_path / "weights.bin").write_bytes(numbers.tobytes())
    entry = lambda key, text: models._field(13, models._field(1, key) + models._field(2, text))
    weight = (
        models._field(1, 3) + models._field(2, models.FLOAT) + models._field(8, "w")
        + entry("location", "weights.bin") + models._field(14, 1)
    )
    ty = models.tensor_type(models.FLOAT, [3])
    model = models.model([models.node("Add", ["x", "w"], ["y"])], [("x", ty)], [("y", ty)], [weight])
    ones = np.ones(3, np.float32)
    assert bb.Session(model, folder=tmp_path).run([ones])[0].tolist() == [1, 2, 3]
    (tmp_path / "model.onnx").write_bytes(model)
    assert bb.Session(tmp_path / "model.onnx").run([ones])[0].tolist() == [1, 2, 3]
    with pytest.raises(bb.ModelError):
        bb.Session(model)


def test_a_session_is_saved_and_opened_again(two, tmp_path):
    session = bb.Session(two)
    before = session.run([X])
    session.save(tmp_path / "model.bb")
    again = bb.Session(tmp_path / "model.bb")
    for ours, theirs in zip(again.run([X]), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(bb.InputError, match="compiled"):
        bb.Session(tmp_path / "model.bb", dims={"batch": 1})


def test_copies_are_the_session_and_pickles_open_the_model_again(two, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(two)
    for session in [bb.Session(two, threads=1), bb.Session(path, dims={"batch": 1})]:
        assert copy.copy(session) is session and copy.deepcopy(session) is session
        again = pickle.loads(pickle.dumps(session))
        assert again is not session and type(again) is bb.Session
        assert again.get_inputs() == session.get_inputs()
        np.testing.assert_array_equal(again.run([X])[0], session.run([X])[0])
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(session))


def test_a_session_can_be_subclassed(two):
    class Mine(bb.Session):
        def scores(self, x):
            return self.run({"x": x})[0]

    assert Mine(two).scores(X).shape == (1, 3)


def test_what_a_session_says_of_itself(two):
    session = bb.Session(two)
    about = session.inspect()
    assert about["nodes"] == 3 and about["model"]["opsets"]["ai.onnx"] == 18
    assert [port["name"] for port in about["outputs"]] == ["y", "z"]
    assert bb.inspect(two)["operators"] == about["operators"]
    counts = session.coverage()["counts"]
    assert sum(counts.values()) == 3 and counts["unsupported"] == 0
    assert bb.coverage(two, backend="reference")["backend"] == "reference"
    profile = session.profile({"x": X}, runs=3)
    assert profile["runs"] == 3 and profile["seconds_per_run"] > 0
    assert any(row["node"] == "negate" or row["operator"] for row in profile["rows"])
    with pytest.raises(ValueError, match="at least 1"):
        session.profile({"x": X}, runs=0)


def test_operators_of_a_backend_are_listed():
    table = bb.coverage(backend="cpu")
    [relu] = [row for row in table["operators"] if (row["operator"], row["since"]) == ("Relu", 14)]
    assert relu["runs"] == "native" and "f32" in relu["types"]
    assert any(name == "nodes" for name, *_ in bb.limits())


def test_compare_says_how_far_values_are_apart(two):
    session = bb.Session(two)
    assert all(row["equal"] for row in session.compare({"x": X}, "reference"))
    rows = bb.compare(two, {"x": X}, bb.Session(two, "reference"), per_node=True)
    assert [row["operator"] for row in rows] == ["Neg", "Exp", "Abs"] and all(row["equal"] for row in rows)
    wrong = [np.exp(-X) + np.array([[0, 1, 0]], np.float32), abs(X)]
    first, second = session.compare({"x": X}, wrong)
    assert not first["equal"] and first["at"] == (0, 1) and first["different"] == 1
    assert second["equal"]
    [first, _] = session.compare({"x": X}, [np.exp(-X).astype(np.float64), abs(X)])
    assert "float64 expected, got float32" in first["reason"]


def test_the_element_of_a_difference_exceeds_its_own_tolerance():
    ty = models.tensor_type(models.FLOAT, [2])
    session = bb.Session(models.model([models.node("Identity", ["x"], ["y"])], [("x", ty)], [("y", ty)]))
    # The first element differs more, and within the tolerance of a large number.
    [row] = session.compare({"x": np.array([1000.5, 1.5], np.float32)}, [np.array([1000, 1], np.float32)])
    assert (row["equal"], row["at"], row["different"], row["greatest_error"]) == (False, (1,), 1, 0.5)


def test_compare_takes_expected_outputs_by_name_and_a_single_one(two):
    session = bb.Session(two)
    y, z = session.run({"x": X})
    assert all(row["equal"] for row in session.compare({"x": X}, {"z": z, "y": y}))
    assert [row["equal"] for row in session.compare({"x": X}, {"y": y, "z": z + 1})] == [True, False]
    one = bb.Session(models.unary("Neg", shape=[1, 3]))
    assert [row["equal"] for row in one.compare({"x": X}, -X)] == [True]
    assert [row["equal"] for row in one.compare({"x": X}, X)] == [False]
    for wrong, error, text in [
        ({"y": y, "zz": z}, ValueError, "the model has no output 'zz'; did you mean 'z'?; its outputs are ['y', 'z']"),
        ({"y": y}, ValueError, "the expected value of the output 'z' is missing"),
        ([y], ValueError, "the model has 2 outputs, got 1 expected ones"),
        (
            y,
            TypeError,
            "`other` must be the name of a backend, a session, or the expected outputs as a list, or a dict by name, got `ndarray`; the"
            " outputs are ['y', 'z']",
        ),
    ]:
        with pytest.raises(error) as raised:
            session.compare({"x": X}, wrong)
        assert str(raised.value) == text


def test_importing_needs_numpy_alone():
    code = "import sys, bb; print([m for m in ('onnx', 'ml_dtypes', 'onnxruntime') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.sep)
    assert out.stdout.strip() == "[]"


def test_limits_bound_what_comes_from_strangers(two):
    with pytest.raises(bb.LimitError, match=r"at most 2 allowed by the limit `nodes`, got 3; raise it: `bb.Session\(…, limits=\{'nodes': …\}\)`$") as raised:
        bb.Session(two, limits={"nodes": 2})
    assert raised.value.kind == "limit"
    with pytest.raises(bb.Error, match="no limit `node`"):
        bb.Session(two, limits={"node": 2})


def test_an_option_that_is_true_or_false_takes_nothing_else(two):
    session = bb.Session(two, fuse=False, strict=np.True_)
    options, run_options = bb.SessionOptions(), bb.RunOptions()
    for name, call in (
        ("fuse", lambda: bb.Session(two, fuse="off")),
        ("strict", lambda: bb.Session(two, strict=1)),
        ("refuse_host", lambda: bb.Session(two, refuse_host=None)),
        ("per_node", lambda: session.compare({"x": X}, per_node="no")),
        ("enable_profiling", lambda: setattr(options, "enable_profiling", "off")),
        ("training_mode", lambda: setattr(run_options, "training_mode", "off")),
        ("terminate", lambda: setattr(run_options, "terminate", "off")),
    ):
        with pytest.raises(TypeError, match=rf"^`{name}` must be True or False, got ('off'|'no'|1|None)$"):
            call()
    # ONNX Runtime takes numbers for its options.
    options.enable_mem_pattern = 0
    assert options.enable_mem_pattern is False and not run_options.terminate


def test_a_compiled_model_of_another_backend_says_where_it_opens(two, tmp_path):
    bb.Session(two, "cpu").save(tmp_path / "model.bb")
    with pytest.raises(bb.ModelError) as raised:
        bb.Session(tmp_path / "model.bb", "reference")
    assert str(raised.value) == (
        "the compiled model is for another backend: expected `reference`, got `cpu`; it was saved by a session on 'cpu': open it there,"
        " `bb.Session(path, 'cpu')`, or open the ONNX model on 'reference' and call `session.save(path)` again"
    )
    assert (raised.value.expected, raised.value.got) == ("reference", "cpu")


def test_the_help_of_the_package_does_not_repeat_what_is_inherited():
    text = pydoc.plain(pydoc.render_doc(bb))
    assert len(text.splitlines()) < 1500 and "class Session(" in text and "class InputError(" not in text
    for name in ("InferenceSession", "InputError", "GraphOptimizationLevel"):
        assert name not in bb.__all__ and name in bb.onnxruntime.__all__ and hasattr(bb.onnxruntime, name)
