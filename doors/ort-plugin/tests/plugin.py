"""What the programs beside this one share: registering a library, sessions on it, cases in ONNX's layout."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# ONNX's cases of today are of an opset that the library does not know as released.
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ort.set_default_logger_severity(4)


class Plugin:
    """A registered library and its device."""

    def __init__(self, library: str, name: str = "plugin") -> None:
        self.name = name
        before = {(device.ep_name, device.ep_vendor) for device in ort.get_ep_devices()}
        ort.register_execution_provider_library(name, str(Path(library).resolve()))
        self.devices = [device for device in ort.get_ep_devices() if (device.ep_name, device.ep_vendor) not in before]
        self._folder = tempfile.TemporaryDirectory()
        self._report = Path(self._folder.name) / "report"

    @property
    def provider(self) -> str:
        return self.devices[0].ep_name

    def session(self, model: Any, *, plain: bool = False, **options: str) -> ort.InferenceSession:
        """Makes a session; `plain` turns ONNX Runtime's rewriting of the graph off."""
        settings = ort.SessionOptions()
        if plain:
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._report.unlink(missing_ok=True)
        settings.add_provider_for_devices(self.devices, {"report": str(self._report)} | options)
        # By default, Python runs a model without its providers if they fail, and only prints why.
        return ort.InferenceSession(model, settings, enable_fallback=0)

    def report(self) -> list[dict[str, Any]]:
        """Returns what the last session's graphs were claimed of: a line per node."""
        if not self._report.exists():
            return []
        return [node for line in self._report.read_text().splitlines() for node in json.loads(line)["nodes"]]

    def parts(self) -> int:
        """Returns the number of claimed parts of the last session's graphs."""
        if not self._report.exists():
            return 0
        return sum(json.loads(line)["parts"] for line in self._report.read_text().splitlines())

    def unregister(self) -> None:
        ort.unregister_execution_provider_library(self.name)


def cases(folder: str) -> list[Path]:
    """Returns the cases of a folder, each a folder with `model.onnx`. Ends the program if there are none."""
    found = sorted(path.parent for path in Path(folder).glob("*/model.onnx"))
    if not found:
        sys.exit(f"no cases in {folder}: expected folders with a file `model.onnx` in it")
    return found


def arguments(text: str | None, *names: str, options: bool = False) -> argparse.ArgumentParser:
    """Returns a parser of these arguments, and of options of the provider if `options` is true; `text` is the documentation of the program."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        parser.add_argument(name)
    if options:
        parser.add_argument("options", nargs="*", default=[], type=option, metavar="OPTION=VALUE", help="an option of the provider")
    return parser


def option(text: str) -> tuple[str, str]:
    """Splits an option of the provider into its name and its value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected OPTION=VALUE, got {text!r}")
    return name, value


def value(path: Path, declared: onnx.TypeProto) -> Any:
    """Reads one input or output."""
    data = path.read_bytes()
    kind = declared.WhichOneof("value")
    if kind == "sequence_type":
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(data)
        return numpy_helper.to_list(sequence)
    if kind == "optional_type":
        optional = onnx.OptionalProto()
        optional.ParseFromString(data)
        return numpy_helper.to_optional(optional)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(data)
    return numpy_helper.to_array(tensor)


def sets(case: Path, graph: onnx.GraphProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yields the inputs and expected outputs of each data set of a case."""
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [given for given in graph.input if given.name not in initializers]
    for folder in sorted(case.glob("test_data_set_*")):
        given = sorted(folder.glob("input_*.pb"), key=number)
        expected = sorted(folder.glob("output_*.pb"), key=number)
        yield (
            [value(path, declared.type) for path, declared in zip(given, inputs)],
            [value(path, declared.type) for path, declared in zip(expected, graph.output)],
        )


def number(path: Path) -> int:
    return int(path.stem.split("_")[1])


def tolerance(case: Path) -> tuple[float, float]:
    """Returns the relative and the absolute tolerance of a case: ONNX's, or its own."""
    own = json.loads((case / "data.json").read_text()) if (case / "data.json").exists() else {}
    return own.get("rtol", 1e-3), own.get("atol", 1e-7)


def difference(got: Any, expected: Any, relative: float, absolute: float) -> str | None:
    """Says how a value differs from the expected one; `None` if it does not."""
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return "another number of elements"
        return next((text for pair in zip(got, expected) if (text := difference(*pair, relative, absolute))), None)
    if isinstance(expected, dict):
        if not isinstance(got, dict) or list(got) != list(expected):
            return "other keys"
        return difference(list(got.values()), list(expected.values()), relative, absolute)
    if expected is None or got is None:
        return None if expected is got else "one is absent"
    got, expected = np.asarray(got), np.asarray(expected)
    if expected.dtype.kind in "OUS":
        same = got.shape == expected.shape and all(str(a) == str(b) for a, b in zip(got.flat, expected.flat))
        return None if same else "other strings"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"expected {expected.dtype}{list(expected.shape)}, got {got.dtype}{list(got.shape)}"
    if expected.dtype.kind == "b":
        return None if np.array_equal(got, expected) else "other truth values"
    wide = np.complex128 if expected.dtype.kind == "c" else np.longdouble
    got, expected = got.astype(wide), expected.astype(wide)
    if np.allclose(got, expected, rtol=relative, atol=absolute, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        worst = np.nanmax(np.abs(got - expected))
    return f"differs by {worst:.3g}"


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def fail(text: str) -> None:
    print(f"WRONG: {text}")
    sys.exit(1)
