"""Real models: the outputs that ONNX Runtime gave, and exactly the outputs of the command `bb`."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import bb

ROOT = Path(__file__).resolve().parents[3]
#: The folders with models: the repository's, and others by `BB_MODELS`.
FOLDERS = [ROOT / "tests/data/models", *(Path(p) for p in os.environ.get("BB_MODELS", "").split(os.pathsep) if p)]
MODELS = sorted({case.name: case for folder in FOLDERS for case in folder.glob("*") if (case / "model.onnx").exists()}.items())


def _tensors(folder, kind, most=None):
    """Reads the files of a data set, `most` of them at most."""
    onnx = pytest.importorskip("onnx")
    from onnx import numpy_helper

    values = []
    for index in range(len(list(folder.glob(f"{kind}_*.pb"))[:most])):
        tensor = onnx.TensorProto.FromString((folder / f"{kind}_{index}.pb").read_bytes())
        values.append(numpy_helper.to_array(tensor))
    return values


@pytest.mark.parametrize(("name", "case"), MODELS, ids=[name for name, _ in MODELS])
def test_outputs_are_those_of_onnx_runtime(name, case):
    about = json.loads((case / "data.json").read_text()) if (case / "data.json").exists() else {}
    session = bb.Session(case / "model.onnx")
    for data in sorted(case.glob("test_data_set_*")):
        outputs = session.run(_tensors(data, "input"))
        # In some sets, the outputs after the first ones are no tensors.
        tensors = [x for x in outputs if type(x) is np.ndarray]
        expected_ones = _tensors(data, "output", len(tensors))
        assert tensors and all(type(x) is np.ndarray for x in outputs[: len(tensors)])
        for got, expected in zip(tensors, expected_ones, strict=True):
            assert got.dtype == expected.dtype and got.shape == expected.shape
            if expected.dtype == object:
                assert got.tolist() == [x.decode() if isinstance(x, bytes) else x for x in expected.tolist()]
            else:
                np.testing.assert_allclose(got, expected, about.get("rtol", 1e-3), about.get("atol", 1e-7))


@pytest.mark.parametrize(("name", "case"), MODELS, ids=[name for name, _ in MODELS])
def test_outputs_are_exactly_those_of_the_command(name, case, tmp_path):
    command = os.environ.get("BB_COMMAND")
    if not command:
        pytest.skip("BB_COMMAND does not name the command `bb`")
    data = case / "test_data_set_0"
    arguments = [command, "run", case / "model.onnx", "--inputs", data, "--output", tmp_path]
    subprocess.run(arguments, check=True, capture_output=True)
    session = bb.Session(case / "model.onnx")
    outputs = [x for x in session.run(_tensors(data, "input")) if type(x) is np.ndarray]
    files = sorted(tmp_path.glob("*.npy"))
    assert len(files) == len(outputs)
    written = [np.load(file) for file in files]
    for got in outputs:
        same = [x for x in written if x.dtype == got.dtype and x.shape == got.shape]
        assert any(np.array_equal(got, x, equal_nan=got.dtype.kind == "f") for x in same)
