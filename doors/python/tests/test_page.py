"""The examples of the page about this package run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bb
import models

PAGE = (Path(__file__).resolve().parents[3] / "bb/docs/python.md").read_text(encoding="utf-8")


@pytest.fixture
def example(tmp_path, monkeypatch):
    """A folder with the file `model.onnx`, whose names are those of the page."""
    ty = models.tensor_type(models.FLOAT, [2, 3])
    nodes = [
        models.node("Add", ["x", "x"], ["hidden"]),
        models.node("Exp", ["hidden"], ["label"]),
        models.node("Abs", ["hidden"], ["scores"]),
    ]
    model = models.model(nodes, [("x", ty)], [("label", ty), ("scores", ty)])
    (tmp_path / "model.onnx").write_bytes(model)
    monkeypatch.chdir(tmp_path)
    return model


def test_the_programs_run_one_after_another(example):
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) > 2
    names = {"x": np.array([[1, -2, 0.5], [0, 1, 2]], np.float32)}
    try:
        for number, program in enumerate(programs):
            exec(compile(program, f"python.md, program {number}", "exec"), names)
    finally:
        bb.unregister("mine")


def keys_of(report):
    """Returns the keys of a report, except the names that a model has for its metadata and its sets of operators."""
    if isinstance(report, list):
        return {key for entry in report for key in keys_of(entry)}
    if not isinstance(report, dict):
        return set()
    return {*report} | {key for name, value in report.items() if name not in ("metadata", "opsets") for key in keys_of(value)}


def test_the_keys_of_reports_are_explained(example):
    session = bb.Session("model.onnx")
    feeds = {"x": np.ones((2, 3), np.float32)}
    wrong = [output + 1 for output in session.run(feeds)]
    for name, report in {
        "inspect()": session.inspect(),
        "coverage()": session.coverage(),
        'bb.coverage(backend="cpu")': bb.coverage(backend="cpu"),
        "profile(feeds)": session.profile(feeds),
        "compare(feeds, other)": session.compare(feeds, wrong),
    }.items():
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
        explained = set(re.findall(r"`(\w+)`", row))
        assert keys_of(report) <= explained, f"{name}: {keys_of(report) - explained}"


def test_the_options_of_backends_can_be_given(example):
    options = re.findall(r"`(backend_options=\{.*?\}|backend=\"cpu\(.*?\)\")`", PAGE)
    assert len(options) == 2
    for option in options:
        session = eval(f"bb.Session('model.onnx', {option})", {"bb": bb})
        assert session.backend == "cpu"
