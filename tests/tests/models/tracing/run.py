"""Runs every model below a folder with ONNX Runtime and compares with the outputs beside it."""
import pathlib
import sys

import numpy
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(4)
wrong = 0
folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/model.onnx"))


def tensors(folder, name):
    if (folder / "test_data_set_0").exists():
        folder = folder / "test_data_set_0"
    files = sorted(folder.glob(f"{name}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
    return [onnx.numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


for folder in folders:
    try:
        onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        got = session.run(None, dict(zip(names, tensors(folder, "input"))))
        expected = tensors(folder, "output")
        # Of a model whose last output is no tensor, the first ones are there.
        assert 0 < len(expected) <= len(got), (len(expected), len(got))
        for mine, theirs in zip(expected, got):
            assert mine.dtype == theirs.dtype, (mine.dtype, theirs.dtype)
            # Both round each operation to 24 bits, in an order of their own. For whole models the tolerance is that of
            # ONNX's own cases.
            whole = (folder / "test_data_set_0").exists()
            numpy.testing.assert_allclose(theirs, mine, rtol=1e-3 if whole else 1e-4, atol=1e-5)
    except Exception as error:
        wrong += 1
        print(f"{folder.name}: {error}")
print(f"{len(folders)} models run by ONNX Runtime, {wrong} of them differ")
sys.exit(1 if wrong or not folders else 0)
