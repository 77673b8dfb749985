"""Runs real models on a plugin of `bb` in ONNX Runtime: what is claimed, whether the answers are right, and how long a run takes.

    python models.py LIBRARY FOLDER [--own PROGRAM] [--seconds S] [OPTION=VALUE …]

Each folder in `FOLDER` has a model and its data in ONNX's layout. `PROGRAM` is the example `own` of `bb-ort-plugin`, which runs the model on
the CPU backend itself, in turns with the plugin, so that both meet the same load. Options are those of the provider. The exit status is 1 if
an answer is wrong, or if a model is not claimed whole.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from plugin import Plugin, arguments, cases, difference, sets, tolerance


def main() -> int:
    parser = arguments(__doc__, "library", "folder", options=True)
    parser.add_argument("--own", help="the program that runs models on the CPU backend itself")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each model runs for measuring")
    asked = parser.parse_intermixed_args()
    found = cases(asked.folder)
    plugin, given = Plugin(asked.library), dict(asked.options)
    print(f"ONNX Runtime {ort.__version__}, provider {plugin.provider}, options {given}")
    print(f'{"model":28} {"claimed":>11} {"parts":>5} {"plugin ms":>10} {"bb ms":>9} {"ratio":>6}  answers')
    bad, ratios = [], []
    for case in found:
        path = str(case / "model.onnx")
        session = plugin.session(path, **given)
        report, parts = plugin.report(), plugin.parts()
        claimed = sum(node["claimed"] for node in report)
        names = [port.name for port in session.get_inputs()]
        data = list(sets(case, onnx.load(path, load_external_data=False).graph))
        answer = "right"
        for inputs, expected in data:
            feeds = dict(zip(names, inputs))
            got = session.run(None, feeds)
            for at, pair in enumerate(zip(got, expected)):
                if text := difference(*pair, *tolerance(case)):
                    answer = f"output {at}: {text}"
        feeds = dict(zip(names, data[0][0]))
        plugin_ms, own_ms = in_turns(lambda: session.run(None, feeds), asked.own and Own(asked.own, case), asked.seconds)
        ratio = plugin_ms / own_ms if own_ms else float("nan")
        ratios.append(ratio)
        print(f"{case.name:28} {claimed:5}/{len(report):5} {parts:5} {plugin_ms:10.3f} {own_ms:9.3f} {ratio:6.2f}  {answer}", flush=True)
        for node in report:
            if not node["claimed"]:
                print(f'    declined {node["operator"]} `{node["node"]}`: {node["reason"]}')
        # A map that a model returns cannot come from a provider.
        crossing = sum("a sequence, a map" in node.get("reason", "") for node in report)
        if answer != "right" or claimed + crossing < len(report) or parts != 1:
            bad.append(case.name)
    print(f"{len(ratios) - len(bad)} of {len(ratios)} models claimed whole with right answers; ratio of times: median {statistics.median(ratios):.2f}, greatest {max(ratios):.2f}")
    if bad:
        print(f"not so: {', '.join(bad)}")
    return 1 if bad else 0


class Own:
    """A process that runs a model on the CPU backend itself."""

    def __init__(self, program: str, case: Path) -> None:
        self._process = subprocess.Popen([program, str(case)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def run(self) -> float:
        """Runs once and returns the milliseconds."""
        assert self._process.stdin and self._process.stdout
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def in_turns(plugin: Callable[[], Any], own: Own | None, seconds: float) -> tuple[float, float]:
    """Returns the median times of the plugin and of the backend itself in milliseconds."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        plugin()
        if own:
            own.run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        # Several runs in a row, as a program makes them: the first of them finds the other's data in the caches.
        for _ in range(10):
            begin = time.perf_counter()
            plugin()
            times[0].append(1e3 * (time.perf_counter() - begin))
        if own:
            times[1].extend(own.run() for _ in range(10))
    if own:
        own.close()
    return statistics.median(times[0]), statistics.median(times[1]) if own else 0.0


if __name__ == "__main__":
    sys.exit(main())
