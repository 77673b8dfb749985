"""Measures the time of a method call of a backend in Python, compared with plain NumPy and the backend `cpu`."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np

import bb
import models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from graph_backend import Graphs  # noqa: E402
from numpy_backend import NumPy  # noqa: E402

#: How many additions the longer model has more than the shorter one.
CALLS = 1000


class Plain(bb.Backend):
    def add(self, a, b):
        return np.add(a, b)


def chain(count: int, extent: int) -> bytes:
    """A model of `count` additions, each of the last sum and the input."""
    ty = models.tensor_type(models.FLOAT, [extent])
    nodes = [models.node("Add", [f"x{i}", "x0"], [f"x{i + 1}"]) for i in range(count)]
    return models.model(nodes, [("x0", ty)], [(f"x{count}", ty)])


def best(call) -> float:
    """The least of several times, in microseconds."""
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return min(times)


def per_call(name: str, extent: int) -> float:
    """What one addition costs within a run: the difference of two models, by the number of additions."""
    x = np.ones(extent, np.float32)
    times = []
    for count in (1, CALLS + 1):
        session = bb.Session(chain(count, extent), name, fuse=False)
        session.run([x])
        times.append(best(lambda: session.run([x])))
    return (times[1] - times[0]) / CALLS


def alone(extent: int) -> float:
    """Returns the time of one addition in plain NumPy."""
    x = np.ones(extent, np.float32)

    def call():
        y = x
        for _ in range(CALLS):
            y = np.add(y, x)

    return best(call) / CALLS


def main() -> None:
    for backend, name in ((Plain, "plain"), (NumPy, "numpy"), (Graphs, "graphs")):
        bb.register(backend, name)
    for extent in (1, 10_000):
        print(f"an addition of {extent} numbers, in microseconds:")
        print(f"  NumPy alone {alone(extent):.2f}")
        for name in ("plain", "numpy", "graphs", "cpu"):
            print(f"  {name} {per_call(name, extent):.2f}")
    session = bb.Session(chain(CALLS, 1), "plain", fuse=False)
    x = np.ones(1, np.float32)

    def on_threads(count: int) -> None:
        threads = [threading.Thread(target=session.run, args=([x],)) for _ in range(count)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    for count in (1, 4):
        print(f"{count} threads: {best(lambda: on_threads(count)) / CALLS / count:.2f} us a call")


if __name__ == "__main__":
    main()
