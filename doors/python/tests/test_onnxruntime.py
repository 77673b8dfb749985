"""The rest of ONNX Runtime's interface: what programs of others import, set and call."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import bb
import bb.onnxruntime
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


#: The public names of ONNX Runtime 1.32.
NAMES = """
    AdapterFormat ExecutionMode ExecutionOrder GraphOptimizationLevel IOBinding InferenceSession LoraAdapter ModelCompiler ModelMetadata
    NodeArg OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice OrtDeviceMemoryType OrtDeviceVendorId OrtEpAssignedNode
    OrtEpAssignedSubgraph OrtEpContextData OrtEpContextDataBuffer OrtEpDevice OrtExecutionProviderDevicePolicy OrtExternalInitializerInfo
    OrtHardwareDevice OrtHardwareDeviceType OrtMemType OrtMemoryInfo OrtMemoryInfoDeviceType OrtSparseFormat OrtSyncStream OrtValue
    RunOptions SessionIOBinding SessionOptions SparseTensor capi copy_tensors create_and_register_allocator
    create_and_register_allocator_v2 cuda_version disable_telemetry_events enable_telemetry_events get_all_providers
    get_available_providers get_build_info get_device get_ep_devices get_version_string has_collective_ops import_capi_exception
    onnxruntime_validation package_name preload_dlls print_debug_info register_execution_provider_library set_default_logger_callback
    set_default_logger_severity set_default_logger_verbosity set_global_thread_pool_sizes set_seed unregister_execution_provider_library
    version
""".split()


def installed():
    """The public names of an installed ONNX Runtime, and of its classes; none if there is none."""
    program = """
import json
try:
    import onnxruntime as o
    of = lambda x: [name for name in dir(x) if not name.startswith("_")]
    kinds = [o.InferenceSession, o.IOBinding, o.OrtDevice, o.OrtValue, o.RunOptions, o.SessionOptions]
    print(json.dumps([[name for name in of(o) if name != "contextlib"], {kind.__name__: of(kind) for kind in kinds}]))
except ImportError:
    print("[[], {}]")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def says(read):
    """What an `AttributeError` says; an empty text if there is none."""
    try:
        read()
        return ""
    except AttributeError as error:
        return str(error)


def test_what_is_not_there_says_what_to_use():
    with pytest.raises(AttributeError, match="pass dense arrays"):
        bb.SparseTensor
    assert not hasattr(bb, "LoraAdapter")
    with pytest.raises(AttributeError, match="no attribute 'misspelt'"):
        bb.misspelt
    with pytest.raises(AttributeError, match="'OrtValue' object has no attribute 'misspelt'"):
        bb.OrtValue(X).misspelt


def test_every_name_of_onnx_runtime_is_there_or_says_what_to_use(model):
    names, members = installed()
    for name in {*NAMES, *names}:
        said = says(lambda: getattr(bb.onnxruntime, name))
        assert said == "" or said.startswith(f"bb has no `{name}`: "), (name, said)
    session = bb.Session(model)
    objects = [session, session.io_binding(), bb.OrtDevice(), bb.OrtValue(X), bb.RunOptions(), bb.SessionOptions()]
    for held, (kind, known) in zip(objects, members.items()):
        for name in known:
            said = says(lambda: getattr(held, name))
            assert said == "" or said.startswith("bb has no `") and f".{name}`: " in said, (kind, name, said)


def test_the_page_and_both_libraries_name_one_version():
    version = bb.onnxruntime.__version__
    root = Path(__file__).resolve().parents[3]
    assert f"`onnxruntime.__version__` | {version}," in (root / "bb/docs/python.md").read_text(encoding="utf-8")
    assert f'c"{version}"' in (root / "doors/onnxruntime/src/lib.rs").read_text(encoding="utf-8")
    assert bb.onnxruntime.get_version_string() == version == bb.onnxruntime.version


def test_the_page_names_what_is_not_there():
    page = (Path(__file__).resolve().parents[3] / "bb/docs/python.md").read_text(encoding="utf-8")
    [sentence] = [line for line in page.splitlines() if line.startswith("What is not there (")]
    for name in ("SparseTensor", "LoraAdapter", "ModelCompiler"):
        assert f"`{name}`" in sentence and says(lambda: getattr(bb, name)).startswith(f"bb has no `{name}`: ")


def test_values_are_copied_into_others():
    source, target = bb.OrtValue(X), bb.OrtValue(np.zeros_like(X))
    bb.copy_tensors([source], [target])
    np.testing.assert_array_equal(target.numpy(), X)
    with pytest.raises(ValueError, match="for each of 1, got 0"):
        bb.copy_tensors([source], [])
    again = bb.OrtValue.from_dlpack(X.copy())
    np.testing.assert_array_equal(again.numpy(), X)
    truths = np.array([True, False])
    assert bb.OrtValue.from_dlpack(truths).data_type() == "tensor(bool)"
    bb.print_debug_info()


@pytest.fixture
def weighted():
    """A model that adds a constant `w` of 1 and 2."""
    ty = models.tensor_type(models.FLOAT, [2])
    constants = [models.tensor(models.FLOAT, [2], np.array([1, 2], np.float32).tobytes(), "w")]
    return models.model([models.node("Add", ["x", "w"], ["y"])], [("x", ty)], [("y", ty)], constants)


def test_tensors_take_the_place_of_constants(weighted):
    x, w = np.zeros(2, np.float32), bb.OrtValue.ortvalue_from_numpy(np.array([5, 6], np.float32))
    for method, arguments in (("add_initializer", ("w", w)), ("add_external_initializers", (["w"], [w]))):
        options = bb.SessionOptions()
        getattr(options, method)(*arguments)
        session = bb.InferenceSession(weighted, options)
        for opened in (session, pickle.loads(pickle.dumps(session))):
            np.testing.assert_array_equal(opened.run(None, {"x": x})[0], [5, 6])
        assert session.compare({"x": x})[0]["equal"]

    options = bb.SessionOptions()
    options.add_initializer("unknown", w)
    np.testing.assert_array_equal(bb.Session(weighted, options).run({"x": x})[0], [1, 2])
    with pytest.raises(ValueError, match="'unknown' is there already"):
        options.add_initializer("unknown", w)
    with pytest.raises(TypeError, match="`OrtValue`, got `str` and `ndarray`"):
        options.add_initializer("w", x)
    with pytest.raises(ValueError, match="for each of 2 names, got 1"):
        options.add_external_initializers(["w", "v"], [w])

    for wrong in (np.zeros(3, np.float32), np.zeros(2, np.float64)):
        options = bb.SessionOptions()
        options.add_initializer("w", bb.OrtValue(wrong))
        with pytest.raises(bb.InputError, match="constant `w` is f32\\[2\\]; the tensor for it is"):
            bb.Session(weighted, options)
    options = bb.SessionOptions()
    options.add_external_initializers(["v"], [w])
    with pytest.raises(bb.InputError, match="no constant `v`"):
        bb.Session(weighted, options)


def test_files_of_constants_may_be_in_memory():
    ty = models.tensor_type(models.FLOAT, [2])
    constant = models.external("w", models.FLOAT, [2], location="w.bin", offset=4, length=8)
    model = models.model([models.node("Add", ["x", "w"], ["y"])], [("x", ty)], [("y", ty)], [constant])
    x, content = np.zeros(2, np.float32), np.array([9, 1, 2, 9], np.float32).tobytes()
    options = bb.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [memoryview(content)], [12])
    session = bb.Session(model, options)
    np.testing.assert_array_equal(session.run({"x": x})[0], [1, 2])
    with pytest.raises(ValueError, match="has 16 bytes, got 17"):
        options.add_external_initializers_from_files_in_memory(["w.bin"], [content], [17])
    options = bb.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["other.bin"], [content], [16])
    with pytest.raises(bb.ModelError, match="`w.bin` does not exist"):
        bb.Session(model, options)
    # A tensor that replaces the constant needs no file.
    options = bb.SessionOptions()
    options.add_external_initializers(["w"], [bb.OrtValue(np.array([3, 4], np.float32))])
    np.testing.assert_array_equal(bb.Session(model, options).run({"x": x})[0], [3, 4])


def test_the_number_of_threads_of_the_options_is_a_wish(model, tmp_path):
    options = bb.SessionOptions()
    options.intra_op_num_threads = 2
    # The reference backend has no threads to choose.
    assert bb.Session(model, "reference", sess_options=options).backend == "reference"
    with pytest.raises(bb.BackendError, match="threads"):
        bb.Session(model, "reference", threads=2)
    options.intra_op_num_threads = -1
    with pytest.raises(ValueError, match="got -1"):
        bb.Session(model, options)


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


def onnxruntime(*arguments, folder, **variables):
    """Runs `python -m bb.onnxruntime` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "bb.onnxruntime", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **variables},
    )


def test_programs_run_on_the_backend_of_the_variable(model, tmp_path):
    (tmp_path / "model.onnx").write_bytes(model)
    (tmp_path / "program.py").write_text(
        """
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
for more in ({}, {"providers": ["CPUExecutionProvider"]}, {"providers": ort.get_available_providers(), "sess_options": options}):
    session = ort.InferenceSession("model.onnx", **more)
    session.set_providers(["CPUExecutionProvider"])
    print(session.get_providers()[0], ort.coverage()["backend"])
"""
    )
    for name, expected in (("reference", "reference"), ("first_of(reference, cpu)", "first_of(reference, cpu)")):
        ran = onnxruntime("program.py", folder=tmp_path, BB_BACKEND=name)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == [f"{expected} {expected}"] * 3
    ran = onnxruntime("program.py", folder=tmp_path, BB_BACKEND="")
    assert ran.stdout.splitlines() == ["CPUExecutionProvider cpu"] * 3
    ran = onnxruntime("program.py", folder=tmp_path, BB_BACKEND="no-such")
    assert ran.returncode != 0
    told = "BackendError: the variable BB_BACKEND names `no-such`: no backend is called `no-such`"
    assert told in ran.stderr and "BB_BACKEND_PATH" in ran.stderr, ran.stderr
    assert "derive" not in ran.stderr and "as _;" not in ran.stderr
    ran = onnxruntime("program.py", folder=tmp_path, BB_BACKEND_PATH="absent.so")
    assert ran.returncode != 0
    assert "ImportError: the variable `BB_BACKEND_PATH`: cannot read the library `absent.so`" in ran.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler for C")
def test_programs_run_on_a_library_with_few_types(model, tmp_path):
    door = Path(__file__).resolve().parents[3] / "doors/c"
    source = (door / "examples/plain.c").read_text().replace('"plain"', '"mini"')
    few = source.replace(".types = TYPES", ".types = 1u << BB_F32 | 1u << BB_I32 | 1u << BB_BOOL")
    assert few != source
    (tmp_path / "mini.c").write_text(few)
    library = str(tmp_path / "libmini.so")
    command = ["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-I", str(door / "include"), "mini.c", "-o", library, "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / "model.onnx").write_bytes(model)
    (tmp_path / "program.py").write_text(
        """
import onnxruntime as ort
print(ort.InferenceSession("model.onnx").get_providers(), ort.conformance("mini"))
"""
    )
    ran = onnxruntime("program.py", folder=tmp_path, BB_BACKEND="mini", BB_BACKEND_PATH=library)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("['mini'] ") and " 0 failed, 0 were skipped" in ran.stdout, ran.stdout


def test_a_backend_that_is_named_is_not_that_of_the_variable(model, monkeypatch):
    monkeypatch.setenv("BB_BACKEND", "reference")
    assert bb.Session(model).backend == "reference"
    assert bb.Session(model, "cpu").backend == "cpu"
    assert bb.Session(model, providers=["cpu"]).backend == "cpu"
    assert bb.Session(model, providers=["CPUExecutionProvider"]).backend == "reference"


def test_parts_of_onnx_runtime_pass_through_or_say_what_to_install(tmp_path):
    program = "import importlib, sys; print(importlib.import_module('onnxruntime.' + sys.argv[1]).__name__)"
    (tmp_path / "part.py").write_text(program)
    names, _ = installed()
    for part in ("quantization", "tools", "transformers", "datasets"):
        ran = onnxruntime("part.py", part, folder=tmp_path)
        if names:
            assert ran.returncode == 0 and ran.stdout.strip() == f"onnxruntime.{part}", ran.stderr
        else:
            told = f"ModuleNotFoundError: bb has no `onnxruntime.{part}`, which is a part of ONNX Runtime's own package"
            assert ran.returncode != 0 and told in ran.stderr and "pip install onnxruntime" in ran.stderr, ran.stderr
        with pytest.raises(AttributeError, match=f"bb has no `{part}`: call `bb.onnxruntime.install"):
            getattr(bb, part)
    ran = onnxruntime("part.py", "training", folder=tmp_path)
    assert ran.returncode != 0 and "bb has no `onnxruntime.training`: programs in Rust" in ran.stderr, ran.stderr
    ran = onnxruntime("part.py", "misspelt", folder=tmp_path)
    assert ran.returncode != 0 and "No module named 'onnxruntime.misspelt'" in ran.stderr, ran.stderr


QUANTISES = """
import numpy as np, onnx, onnxruntime as ort, sys
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
try:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
except ModuleNotFoundError as error:
    assert error.name == "onnx_ir", error  # The tool for few bits needs one more package.
    MatMulNBitsQuantizer = None
assert ort.InferenceSession.__module__.startswith("bb")
generator = np.random.default_rng(0)
w = generator.standard_normal((32, 16)).astype(np.float32)
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 32), ("y", 16)))
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [numpy_helper.from_array(w, "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "plain.onnx")
feeds = {"x": generator.standard_normal((4, 32)).astype(np.float32)}

class Reader(CalibrationDataReader):
    def __init__(self):
        self.left = iter([feeds])
    def get_next(self):
        return next(self.left, None)

quantize_dynamic("plain.onnx", "dynamic.onnx", weight_type=QuantType.QInt8)
quantize_static("plain.onnx", "static.onnx", Reader())
errors = {"plain": 1e-4, "dynamic": 0.3, "static": 0.3}
if MatMulNBitsQuantizer is not None:
    bits = MatMulNBitsQuantizer(onnx.load("plain.onnx"), block_size=16, is_symmetric=True)
    bits.process()
    bits.model.save_model_to_file("bits.onnx")
    errors["bits"] = 3.0
expected = feeds["x"] @ w
for name, error in errors.items():
    [got] = ort.InferenceSession(name + ".onnx").run(None, feeds)
    assert abs(got - expected).max() < error, (name, abs(got - expected).max())
    print(name)
"""


def test_models_are_quantised_by_onnx_runtimes_tools(tmp_path):
    pytest.importorskip("onnx")
    if not installed()[0]:
        pytest.skip("ONNX Runtime is not installed")
    (tmp_path / "quantises.py").write_text(QUANTISES)
    ran = onnxruntime("quantises.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[:3] == ["plain", "dynamic", "static"]


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
