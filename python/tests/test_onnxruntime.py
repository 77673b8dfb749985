"""The rest of ONNX Runtime's interface: what programs of others import, set and call."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import bb
import models

X = np.array([[1, -2, 0.5]], np.float32)


@pytest.fixture
def model():
    ty = models.tensor_type(models.FLOAT, ["batch", 3])
    nodes = [models.node("Neg", ["x"], ["y"]), models.node("Abs", ["x"], ["z"])]
    return models.model(nodes, [("x", ty)], [("y", ty), ("z", ty)])


def test_what_a_process_sets():
    bb.disable_telemetry_events()
    bb.enable_telemetry_events()
    bb.set_default_logger_severity(3)
    bb.set_default_logger_verbosity(0)
    with pytest.raises(ValueError, match="got 7"):
        bb.set_default_logger_severity(7)
    assert "CPUExecutionProvider" in bb.get_available_providers()
    assert bb.get_all_providers() == bb.get_available_providers()
    assert bb.get_version_string() == bb.__version__


def test_what_is_not_there_says_what_to_use():
    with pytest.raises(AttributeError, match="pass dense arrays"):
        bb.SparseTensor
    assert not hasattr(bb, "LoraAdapter")
    with pytest.raises(AttributeError, match="no attribute 'misspelt'"):
        bb.misspelt


def test_options_of_providers_have_two_forms(model):
    pair = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
    for given in (
        {"providers": ["CPUExecutionProvider"], "provider_options": [{}]},
        {"providers": ["CPUExecutionProvider"], "provider_options": [{"use_arena": "0"}]},
        {"providers": [pair]},
    ):
        assert bb.Session(model, **given).get_providers() == ["CPUExecutionProvider"]
    for wrong, message in (
        ({"provider_options": [{}]}, "without `providers`"),
        ({"providers": ["CPUExecutionProvider"], "provider_options": [{}, {}]}, "2 entries for 1"),
        ({"providers": ["CPUExecutionProvider"], "provider_options": ["a"]}, "list of dicts"),
        ({"providers": [pair], "provider_options": [{}]}, "twice"),
        ({"providers": [("CPUExecutionProvider",)]}, "a pair of a name and a dict"),
    ):
        with pytest.raises(ValueError, match=message):
            bb.Session(model, **wrong)


def test_disabled_optimizers_are_names(model):
    bb.Session(model, disabled_optimizers={"ConstantFolding"})
    bb.Session(model, disabled_optimizers=["MatMulAddFusion"])
    with pytest.raises(TypeError, match="disabled_optimizers"):
        bb.Session(model, disabled_optimizers="ConstantFolding")


@pytest.mark.parametrize(
    ("option", "value", "instead"),
    [("enable_profiling", True, "session.profile"), ("optimized_model_filepath", "x.onnx", "bb export")],
)
def test_options_that_write_files_are_refused(model, option, value, instead):
    options = bb.SessionOptions()
    setattr(options, option, value)
    with pytest.raises(NotImplementedError, match=instead):
        bb.Session(model, options)
    setattr(options, option, type(value)())
    bb.Session(model, options)


def test_set_providers_keeps_the_backend(model):
    session = bb.Session(model)
    session.set_providers(["CPUExecutionProvider"])
    session.set_providers(["CPUExecutionProvider"], [{}])
    with pytest.raises(ValueError, match="bb.Session"):
        session.set_providers(["reference"])


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_must_be_positive(model, threads):
    with pytest.raises(ValueError, match=f"got {threads}"):
        bb.Session(model, threads=threads)


def test_a_subclass_has_a_constructor_of_its_own(model):
    class Labelled(bb.InferenceSession):
        def __init__(self, model, labels, *, scale=1.0):
            super().__init__(model, providers=["CPUExecutionProvider"])
            self.labels, self.scale = labels, scale

        def label(self, x):
            return self.labels[int(np.argmax(self.run(None, {"x": x * self.scale})[0]))]

    session = Labelled(model, ["a", "b", "c"], scale=2.0)
    assert session.label(X) == "b"
    assert repr(session).startswith("bb.Session(")
    assert [port.name for port in session.get_inputs()] == ["x"]


class Named(bb.Session):
    """A subclass that a pickle can name."""

    def __init__(self, name, model):
        super().__init__(model)
        self.name = name


def test_a_subclass_is_pickled_with_what_it_holds(model):
    again = pickle.loads(pickle.dumps(Named("one", model)))
    assert type(again) is Named and again.name == "one"
    np.testing.assert_array_equal(again.run({"x": X})[0], -X)


def test_a_session_that_is_not_open_says_so(model):
    class Forgetful(bb.Session):
        def __init__(self):
            pass

    session = Forgetful()
    for use in (lambda: session.run({"x": X}), lambda: session.backend, lambda: session.save("x"), session.inspect):
        with pytest.raises(ValueError, match="super\\(\\).__init__"):
            use()
    session = bb.Session(model)
    with pytest.raises(ValueError, match="open already"):
        session.__init__(model)


def test_values(model):
    value = bb.OrtValue.ortvalue_from_numpy(X)
    assert value.shape() == [1, 3] and value.data_type() == "tensor(float)" and value.element_type() == 1
    assert value.device_name() == "cpu" and value.is_tensor() and value.has_value()
    assert value.data_ptr() == X.ctypes.data
    # A value is an input, wherever an array is.
    np.testing.assert_array_equal(bb.Session(model).run({"x": value})[0], -X)
    [y, z] = bb.Session(model).run_with_ort_values(None, {"x": value})
    assert isinstance(y, bb.OrtValue)
    np.testing.assert_array_equal(z.numpy(), abs(X))

    zeros = bb.OrtValue.ortvalue_from_shape_and_type([2, 0], np.int64, "cpu", 0)
    assert zeros.shape() == [2, 0] and zeros.data_type() == "tensor(int64)"
    assert bb.OrtValue.ortvalue_from_shape_and_type([], 10).data_type() == "tensor(float16)"
    held = bb.OrtValue.ortvalue_from_numpy(X.copy())
    held.update_inplace(2 * X)
    np.testing.assert_array_equal(held.numpy(), 2 * X)
    with pytest.raises(ValueError, match="expected an array of float32 with extents \\[1, 3\\], got float64"):
        held.update_inplace(X.astype(np.float64))
    with pytest.raises(ValueError, match="'cuda'"):
        bb.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    with pytest.raises(ValueError, match="no element type"):
        bb.OrtValue.ortvalue_from_shape_and_type([1], 99)
    bits = bb.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3C00], np.uint16), 10)
    assert bits.numpy()[0] == np.float16(1)
    with pytest.raises(ValueError, match="have 4 bytes"):
        bb.OrtValue.ortvalue_from_numpy_with_onnx_type(X, 10)


def test_a_binding_reads_and_writes_memory_of_the_caller(model):
    session = bb.Session(model)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    binding.bind_output("z", "cpu")
    session.run_with_iobinding(binding)
    [y, z] = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(y, -X)
    np.testing.assert_array_equal(z, abs(X))

    source, target = X.copy(), np.zeros((1, 3), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, source.shape, source.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, target.shape, target.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(target, -X)
    source *= 2
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(target, -2 * X)
    assert binding.get_outputs()[0].data_ptr() == target.ctypes.data

    into = bb.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_input("x", bb.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_output("z", into)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(into.numpy(), abs(X))


def test_a_binding_refuses_what_does_not_fit(model):
    session = bb.Session(model)
    binding = session.io_binding()
    with pytest.raises(ValueError, match="no input 'w'"):
        binding.bind_cpu_input("w", X)
    with pytest.raises(ValueError, match="no output 'w'"):
        binding.bind_output("w")
    with pytest.raises(ValueError, match="'cuda'"):
        binding.bind_output("y", "cuda")
    with pytest.raises(ValueError, match="null"):
        binding.bind_input("x", "cpu", 0, np.float32, (1, 3), 0)
    with pytest.raises(ValueError, match="no output is bound"):
        session.run_with_iobinding(binding)
    small = np.full((1, 2), 7, np.float32)
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cpu", 0, np.float32, small.shape, small.ctypes.data)
    with pytest.raises(ValueError, match="extents \\[1, 3\\]; the bound memory is for float32 with extents \\[1, 2\\]"):
        session.run_with_iobinding(binding)
    assert (small == 7).all()


def test_a_run_in_the_background_calls_back(model):
    session, done, calls = bb.Session(model), threading.Event(), []

    def ended(outputs, user_data, error):
        calls.append((outputs, user_data, error))
        done.set()

    session.run_async(["z"], {"x": X}, ended, "mine")
    assert done.wait(60)
    [(outputs, data, error)] = calls
    np.testing.assert_array_equal(outputs[0], abs(X))
    assert data == "mine" and error == ""

    done.clear()
    session.run_async(None, {"w": X}, ended, None)
    assert done.wait(60)
    outputs, _, error = calls[-1]
    assert outputs == [] and "`w`" in error
    with pytest.raises(TypeError, match="callback"):
        session.run_async(None, {"x": X}, "no function", None)


def test_an_array_of_objects_is_told_what_is_wrong(model):
    with pytest.raises(bb.InputError, match="Python objects.*expected numbers: convert it by `astype`"):
        bb.Session(model).run({"x": X.astype(object)})


def test_errors_have_the_names_of_onnx_runtime(model):
    from bb.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile

    with pytest.raises(NoSuchFile):
        bb.Session("there is no such file.onnx")
    with pytest.raises(InvalidProtobuf):
        bb.Session(b"no model")
    with pytest.raises(InvalidArgument):
        bb.Session(model).run({})
    assert issubclass(InvalidArgument, Fail)


PROGRAM = """
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi._pybind_state import get_available_providers
import bb, sys
assert InferenceSession is bb.Session and ort.capi.onnxruntime_pybind11_state.Fail is bb.Error
assert tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 20)
print("ran", *sys.argv[1:], __name__)
"""


def test_programs_import_it_as_onnxruntime(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    for command in ([str(path)], ["-m", "program"]):
        ran = subprocess.run(
            [sys.executable, "-m", "bb.onnxruntime", *command, "a", "b"], capture_output=True, text=True, cwd=tmp_path
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == "ran a b __main__\n"
    ran = subprocess.run([sys.executable, "-m", "bb.onnxruntime"], capture_output=True, text=True)
    assert ran.returncode != 0 and "expected a program" in ran.stderr
