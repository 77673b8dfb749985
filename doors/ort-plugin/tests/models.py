"""Runs real models on a plugin of `bb` in ONNX Runtime: what is claimed, whether the answers are right, and how long a run takes.

    python models.py LIBRARY FOLDER [--seconds S] [OPTION=VALUE …]

Each folder in `FOLDER` has a model and its data in ONNX's layout. If the Python package `bb` is installed, each model runs on `bb` itself
in the same process, in turns with the plugin, and its answers are compared. Options are those of the provider. The exit status is 1 if an
answer is wrong, or if a model is not claimed whole.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from plugin import Plugin, difference, sets, tolerance

try:
    import bb
except ImportError:
    bb = None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("folder")
    parser.add_argument("options", nargs="*")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each model runs for measuring")
    arguments = parser.parse_args()
    plugin, folder = Plugin(arguments.library), arguments.folder
    given = dict(option.split("=", 1) for option in arguments.options)
    print(f"ONNX Runtime {ort.__version__}, provider {plugin.provider}, options {given}")
    print(f'{"model":28} {"claimed":>11} {"parts":>5} {"plugin ms":>10} {"bb ms":>9} {"ratio":>6}  answers')
    bad, ratios = [], []
    for case in sorted(path.parent for path in Path(folder).glob("*/model.onnx")):
        path = str(case / "model.onnx")
        session = plugin.session(path, **given)
        report, parts = plugin.report(), plugin.parts()
        claimed = sum(node["claimed"] for node in report)
        names = [port.name for port in session.get_inputs()]
        data = list(sets(case, onnx.load(path, load_external_data=False).graph))
        own = bb.Session(path, backend="cpu") if bb else None
        answer = "right"
        for inputs, expected in data:
            feeds = dict(zip(names, inputs))
            got = session.run(None, feeds)
            for at, pair in enumerate(zip(got, expected)):
                if text := difference(*pair, *tolerance(case)):
                    answer = f"output {at}: {text}"
            if own:
                for at, pair in enumerate(zip(got, own.run(None, feeds))):
                    # ONNX Runtime folds constants itself, which may round in another order.
                    if text := difference(*pair, 1e-4, 1e-5):
                        answer = f"output {at} is not that of bb: {text}"
        feeds = dict(zip(names, data[0][0]))
        plugin_ms, own_ms = in_turns(lambda: session.run(None, feeds), own and (lambda: own.run(None, feeds)), arguments.seconds)
        ratio = plugin_ms / own_ms if own_ms else float("nan")
        ratios.append(ratio)
        print(f"{case.name:28} {claimed:5}/{len(report):5} {parts:5} {plugin_ms:10.3f} {own_ms:9.3f} {ratio:6.2f}  {answer}", flush=True)
        for node in report:
            if not node["claimed"]:
                print(f'    declined {node["operator"]} `{node["node"]}`: {node["reason"]}')
        if answer != "right" or claimed < len(report) or parts != 1:
            bad.append(case.name)
    print(f"{len(ratios) - len(bad)} of {len(ratios)} models claimed whole with right answers; ratio of times: median {statistics.median(ratios):.2f}, greatest {max(ratios):.2f}")
    if bad:
        print(f"not so: {', '.join(bad)}")
    return 1 if bad else 0


def in_turns(plugin: Callable[[], Any], own: Callable[[], Any] | None, seconds: float) -> tuple[float, float]:
    """Returns the median times of two functions in milliseconds; they take turns, so that both meet the same load."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        plugin()
        own and own()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, list_ in zip((plugin, own), times):
            if function:
                begin = time.perf_counter()
                function()
                list_.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[0]), statistics.median(times[1]) if own else 0.0


if __name__ == "__main__":
    sys.exit(main())
