"""Measures the time of a call from Python, compared with ONNX Runtime's on the same model in the same run, both with one thread."""

from __future__ import annotations

import sys
import time

import numpy as np
import onnxruntime

import bb
import models


def best(call, runs: int) -> float:
    """The least mean of several rounds, in microseconds: what else the machine does only adds to it."""
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(runs):
            call()
        times.append((time.perf_counter() - begin) / runs * 1e6)
    return min(times)


def main(paths: list[str]) -> None:
    cases = [("one Relu of 4 numbers", models.unary("Relu", shape=[4]), {"x": np.ones(4, np.float32)})]
    many = [(f"x{i}", models.tensor_type(models.FLOAT, [4])) for i in range(8)]
    total = [models.node("Sum", [name for name, _ in many], ["y"])]
    summed = models.model(total, many, [("y", many[0][1])])
    cases.append(("8 inputs", summed, {name: np.ones(4, np.float32) for name, _ in many}))
    for path in paths:
        session = bb.Session(path)
        shapes = {port.name: [d if isinstance(d, int) else 1 for d in port.shape or []] for port in session.get_inputs()}
        cases.append((path, path, {name: np.ones(shape, np.float32) for name, shape in shapes.items()}))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for name, model, feeds in cases:
        theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        ours = bb.Session(model, threads=1)
        there, here = best(lambda: theirs.run(None, feeds), 3000), best(lambda: ours.run(None, feeds), 3000)
        print(f"{name}: ONNX Runtime {there:.2f} us, bb {here:.2f} us, ratio {here / there:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
