"""Runs every model below a folder with ONNX Runtime and compares with the outputs beside it."""
import pathlib
import sys

import numpy
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(4)
wrong = 0
folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/model.onnx"))


def values(folder, name, ports):
    """Reads the files of inputs or outputs: tensors, or sequences of maps."""
    if (folder / "test_data_set_0").exists():
        folder = folder / "test_data_set_0"
    files = sorted(folder.glob(f"{name}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
    return [value(file, port.type) for file, port in zip(files, ports)]


def value(file, type):
    if type.startswith("tensor("):
        return onnx.numpy_helper.to_array(onnx.load_tensor(str(file)))
    return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes()))


def compare(mine, theirs, rtol):
    if isinstance(mine, list):
        assert len(mine) == len(theirs), (len(mine), len(theirs))
        for one, other in zip(mine, theirs):
            compare(one, other, rtol)
    elif isinstance(mine, dict):
        assert sorted(mine) == sorted(theirs), (mine, theirs)
        for key in mine:
            compare(numpy.asarray(mine[key]), numpy.float32(theirs[key]), rtol)
    else:
        assert mine.dtype == theirs.dtype, (mine.dtype, theirs.dtype)
        numpy.testing.assert_allclose(theirs, mine, rtol=rtol, atol=1e-5)


for folder in folders:
    try:
        onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        inputs = session.get_inputs()
        names = [port.name for port in inputs]
        got = session.run(None, dict(zip(names, values(folder, "input", inputs))))
        expected = values(folder, "output", session.get_outputs())
        assert len(expected) == len(got), (len(expected), len(got))
        # Both round each operation to 24 bits, in an order of their own. For whole models the tolerance is that of
        # ONNX's own cases.
        whole = (folder / "test_data_set_0").exists()
        for mine, theirs in zip(expected, got):
            compare(mine, theirs, 1e-3 if whole else 1e-4)
    except Exception as error:
        wrong += 1
        print(f"{folder.name}: {error}")
print(f"{len(folders)} models run by ONNX Runtime, {wrong} of them differ")
sys.exit(1 if wrong or not folders else 0)
