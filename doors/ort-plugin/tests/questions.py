"""Asks a plugin of `bb` in ONNX Runtime what other programs do not: parts around nodes that stay with ONNX Runtime, a graph that changes
between two questions, wrong inputs, runs that are ended, compiled models.

    python questions.py LIBRARY
"""

from __future__ import annotations

import collections
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from plugin import Plugin, arguments, fail, first_line

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, dtype: int, extents: list[int | str] | None = None) -> Any:
    return helper.make_tensor_value_info(name, dtype, extents)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> bytes:
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def around() -> bytes:
    """`if` has claimed parts in its graphs, and `elu` there is not native, so that the node stays with ONNX Runtime: a path leads from
    `before` through it to `after`, beside the one that leads there at once."""

    def branch(name: str) -> Any:
        nodes = [helper.make_node("Relu", ["a"], [f"{name}r"], name=f"{name}-relu"), helper.make_node("Elu", [f"{name}r"], [f"{name}y"], name=f"{name}-elu")]
        return helper.make_graph(nodes, name, [], [info(f"{name}y", FLOAT, ["n"])])

    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"], name="before"),
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch("then"), else_branch=branch("else")),
        helper.make_node("Add", ["a", "y"], ["z"], name="after"),
    ]
    return model(nodes, [info("x", FLOAT, ["n"]), info("c", BOOL, [])], [info("z", FLOAT, ["n"])])


def inlined(count: int = 2) -> bytes:
    """HardSwish is a function, which is not native: ONNX Runtime replaces it by the nodes of its body after the first question, and asks
    again."""
    nodes, x = [], "x"
    for at in range(count):
        nodes.append(helper.make_node("Relu", [x], [f"r{at}"], name=f"relu{at}"))
        nodes.append(helper.make_node("HardSwish", [f"r{at}"], [f"h{at}"], name=f"swish{at}"))
        x = f"h{at}"
    nodes.append(helper.make_node("Relu", [x], ["y"], name="last"))
    return model(nodes, [info("x", FLOAT, ["n"])], [info("y", FLOAT, ["n"])])


def counted(session: ort.InferenceSession, feeds: dict[str, Any]) -> tuple[list[Any], collections.Counter[str]]:
    """Runs a session that measures, and returns its results and how many nodes of each provider ran."""
    results = session.run(None, feeds)
    file = session.end_profiling()
    events = json.loads(Path(file).read_text())
    os.remove(file)
    ran = [event["args"]["provider"] for event in events if event.get("cat") == "Node" and "provider" in event.get("args", {})]
    return results, collections.Counter(ran)


def measured(plugin: Plugin, data: bytes, folder: str, **options: str) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(Path(folder) / "profile")
    # A claim that ONNX Runtime drops is a warning.
    report = Path(folder) / "report"
    report.unlink(missing_ok=True)
    settings.add_provider_for_devices(plugin.devices, {"report": str(report)} | options)
    return ort.InferenceSession(data, settings, enable_fallback=0)


def parts_hold(plugin: Plugin) -> None:
    """What is claimed in parts is what runs in parts, whatever stays with ONNX Runtime, and the results are ONNX Runtime's."""
    cases = [
        ("around", around(), {"x": np.float32([-1, 2, 3]), "c": np.array(True)}),
        ("around, the other graph", around(), {"x": np.float32([-1, 2, 3]), "c": np.array(False)}),
        ("inlined", inlined(), {"x": np.float32([-1, 2, 3])}),
        ("inlined five times", inlined(5), {"x": np.float32([-1, 2, 3])}),
    ]
    for name, data, feeds in cases:
        for options in ({}, {"native_only": "1"}, {"host": "1"}):
            with tempfile.TemporaryDirectory() as folder:
                session = measured(plugin, data, folder, **options)
                lines = [json.loads(line) for line in (Path(folder) / "report").read_text().splitlines()]
                results, ran = counted(session, feeds)
            expected = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
            for got, wanted in zip(results, expected):
                if not np.allclose(got, wanted, rtol=1e-6):
                    fail(f"{name}, {options}: {got} in place of {wanted}")
            # Of an `If`, one graph runs.
            other = "else-" if feeds.get("c", True) else "then-"
            parts = sum(line["parts"] for line in lines)
            skipped = sum(line["parts"] for line in lines if any(node["node"].startswith(other) for node in line["nodes"]))
            if ran[plugin.provider] != parts - skipped:
                fail(f"{name}, {options}: {parts} parts are claimed, {ran} ran: {lines}")
            nodes = [node for line in lines for node in line["nodes"]]
            if any(node["domain"] == plugin.provider for node in nodes):
                fail(f"{name}, {options}: a part is listed as a node: {nodes}")
            print(f"  {name}, {options}: {parts} parts, {sum(node['claimed'] for node in nodes)} nodes; ran {dict(ran)}")


def wrong_inputs(plugin: Plugin) -> None:
    """A mistake of the caller is that of an argument, so that the session stays where it is."""
    data = model(
        [helper.make_node("Gather", ["x", "i"], ["y"])], [info("x", FLOAT, ["n"]), info("i", INT64, ["k"])], [info("y", FLOAT, ["k"])]
    )
    settings = ort.SessionOptions()
    settings.add_provider_for_devices(plugin.devices, {})
    session = ort.InferenceSession(data, settings)
    before = session.get_providers()
    try:
        session.run(None, {"x": np.ones(3, np.float32), "i": np.array([7])})
    except ort.capi.onnxruntime_pybind11_state.InvalidArgument as error:
        print(f"  {first_line(error)[-90:]}")
    except Exception as error:
        fail(f"an index out of range is {type(error).__name__}: {error}")
    else:
        fail("an index out of range is no error")
    if session.get_providers() != before or plugin.provider not in before:
        fail(f"the session moved from {before} to {session.get_providers()}")
    (y,) = session.run(None, {"x": np.ones(3, np.float32), "i": np.array([2])})
    if y.tolist() != [1]:
        fail(f"after the mistake: {y}")


def ended(plugin: Plugin) -> None:
    """`terminate` ends a run that is in a part."""
    matrix = [200, 200]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("MatMul", ["m", "m"], ["mm"])],
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("m", FLOAT, matrix)],
        [info("on", BOOL, []), info("mm", FLOAT, matrix)],
    )
    data = model(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [info("n", INT64, []), info("x", FLOAT, matrix)], [info("y", FLOAT, matrix)]
    )
    try:
        session = plugin.session(data, threads="1")
    except (ort.capi.onnxruntime_pybind11_state.InvalidArgument, RuntimeError):
        # A backend without threads of its own does not take the option. ONNX Runtime 1.31 raises `RuntimeError`, 1.32 `InvalidArgument`.
        session = plugin.session(data)
    if not all(node["claimed"] for node in plugin.report()):
        print("  the loop is not claimed by this version")
        return
    x = np.zeros(matrix, np.float32)
    run_options = ort.RunOptions()
    timer = threading.Timer(0.3, lambda: setattr(run_options, "terminate", True))
    # Another run goes on.
    other: list[Any] = []
    beside = threading.Thread(target=lambda: other.append(session.run(None, {"n": np.array(300), "x": x}, ort.RunOptions())))
    beside.start()
    timer.start()
    begun = time.monotonic()
    try:
        session.run(None, {"n": np.array(10**6), "x": x}, run_options)
    except Exception as error:
        took = time.monotonic() - begun
        print(f"  ended after {took:.2f} s: {type(error).__name__}")
        if "cancelled" not in str(error) or took > 30 or isinstance(error, ort.capi.onnxruntime_pybind11_state.EPFail):
            fail(f"after {took:.1f} s: {type(error).__name__}: {error}")
    else:
        fail("the run went on to its end")
    beside.join()
    if len(other) != 1:
        fail("the other run ended, too")
    session.run(None, {"n": np.array(2), "x": x})


def compiled_models(plugin: Plugin) -> None:
    settings = ort.SessionOptions()
    settings.add_session_config_entry("ep.context_enable", "1")
    settings.add_provider_for_devices(plugin.devices, {})
    try:
        ort.InferenceSession(inlined(), settings, enable_fallback=0)
    except Exception as error:
        if "ep.context_enable" not in str(error) or "no compiled models" not in str(error):
            fail(f"compiled models: {error}")
        print(f"  {first_line(error)[-90:]}")
    else:
        fail("compiled models are no error")


def main() -> int:
    library = arguments(__doc__, "library").parse_args().library
    print(f"ONNX Runtime {ort.__version__}")
    plugin = Plugin(library)
    for test in (parts_hold, wrong_inputs, ended, compiled_models):
        print(test.__name__.replace("_", " "))
        test(plugin)
    return 0


if __name__ == "__main__":
    sys.exit(main())
