"""Tries what a program may do wrong with a plugin of `bb` in ONNX Runtime, and much of it: threads, sessions that outlive a registration,
options that do not exist, registering again and again.

    python abuse.py LIBRARY
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from plugin import Plugin, arguments, fail, first_line


def model(extents: list[int | str], dtype: int = TensorProto.FLOAT) -> bytes:
    """`y = relu(x) + x`, and a second result of a large constant."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [256, 256], np.eye(256, dtype=np.float32).tobytes(), raw=True)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", dtype, extents)],
        [helper.make_tensor_value_info("y", dtype, extents)],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def refused(what: str, call: Callable[[], object], *words: str) -> None:
    """Expects an error whose message has these words."""
    try:
        call()
    except Exception as error:
        lacking = [word for word in words if word not in str(error)]
        if lacking:
            fail(f"{what}: the message `{first_line(error)}` does not say {lacking}")
        print(f"  {what}: {first_line(error)[:120]}")
        return
    fail(f"{what} is no error")


def right(session: ort.InferenceSession, rows: int) -> None:
    x = np.linspace(-1, 1, rows * 256, dtype=np.float32).reshape(rows, 256)
    (y,) = session.run(None, {"x": x})
    if not np.allclose(y, np.maximum(x, 0) + x, atol=1e-6):
        fail(f"another result for {rows} rows")


def threads(session: ort.InferenceSession) -> None:
    errors: list[BaseException] = []

    def one(seed: int) -> None:
        try:
            for turn in range(50):
                right(session, 1 + (seed + turn) % 7)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=one, args=(seed,)) for seed in range(16)]
    [thread.start() for thread in running]
    [thread.join() for thread in running]
    if errors:
        fail(f"with 16 threads: {errors[0]}")


def in_use() -> tuple[int, int, int]:
    """Returns the memory of the process in pages, its threads and its open files."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def main() -> int:
    library = arguments(__doc__, "library").parse_args().library
    print(f"ONNX Runtime {ort.__version__}")
    dynamic = model(["n", 256])
    for turn in range(3):
        plugin = Plugin(library, f"any name {turn}")
        if plugin.provider.startswith("any"):
            fail("the device has the name of the registration")
        session = plugin.session(dynamic)
        if not all(node["claimed"] for node in plugin.report()):
            fail(f"not all nodes are claimed: {plugin.report()}")
        for rows in (1, 3, 0, 1000):
            right(session, rows)
        del session
        gc.collect()
        plugin.unregister()

    print("registered, run and unregistered 25 times")
    before = in_use()
    for turn in range(25):
        plugin = Plugin(library, f"again {turn}")
        session = plugin.session(dynamic)
        right(session, 64)
        del session
        gc.collect()
        plugin.unregister()
    after = in_use()
    print(f"  pages, threads and files before {before}, after {after}")
    if after[1] > before[1] or after[2] > before[2] or after[0] - before[0] > 25 * 40:
        fail("something stays behind")

    plugin = Plugin(library)
    print("a library that is registered twice")
    refused("a second registration", lambda: Plugin(library, "second"), "this library is already registered as `plugin`")
    right(plugin.session(dynamic), 3)
    print("sessions with different numbers of threads")
    before = in_use()[1]
    for count in range(20, 30):
        session = plugin.session(dynamic, threads=str(count))
        right(session, 64)
        del session
        gc.collect()
    # Threads end soon after their session.
    deadline = time.monotonic() + 10
    while in_use()[1] > before and time.monotonic() < deadline:
        time.sleep(0.1)
    if in_use()[1] > before:
        fail(f"{in_use()[1] - before} threads outlive their sessions")

    print("wrong options")
    refused("an unknown option", lambda: plugin.session(dynamic, colour="red"), "colour")
    refused("an option of the plugin with a typo", lambda: plugin.session(dynamic, hosts="1"), "did you mean `host`?", "`native_only`", "`report`", "`threads`")
    refused("an option that the backend does not take", lambda: plugin.session(dynamic, device="1"), "no option `device`", "`native_only`", "`threads`", "`narrow_floats`")
    refused("a limit that does not exist", lambda: plugin.session(dynamic, **{"limits.value_byte": "1"}), "limits.value_byte`", "value_bytes")
    refused("a limit on loading", lambda: plugin.session(dynamic, **{"limits.nodes": "1"}), "limits.nodes`", "ONNX Runtime", "value_bytes")
    refused("an option of the backend's name that does not exist", lambda: plugin.session(dynamic, backend=f"{plugin.provider[3:]}(xyz=1)"), "has no option `xyz`")
    refused("too many threads", lambda: plugin.session(dynamic, threads="1000000"), "the option `threads` is 1000000; expected 1 to ")
    refused("a number that is none", lambda: plugin.session(dynamic, threads="many"), "threads", "many")
    refused("a backend that is not linked", lambda: plugin.session(dynamic, backend="nothing"), "nothing", "the library of the provider has no others")
    refused("a name that is none", lambda: plugin.session(dynamic, backend="("), "(")
    refused("a report that cannot be written", lambda: plugin.session(dynamic, report="/no/such/folder/report"), "/no/such/folder/report")
    print("wrong inputs")
    session = plugin.session(dynamic)
    refused("an input of another type", lambda: session.run(None, {"x": np.zeros((2, 256), np.float64)}))
    refused("no value for an input", lambda: session.run(None, {"x": None}), "input `x` is missing")
    refused("an input of another rank", lambda: session.run(None, {"x": np.zeros((2, 3, 256), np.float32)}))
    right(session, 2)
    print("16 threads")
    threads(session)
    one_thread = plugin.session(dynamic, threads="1")
    threads(one_thread)
    print("a registration that ends before its sessions, and another one")
    again = plugin
    try:
        plugin.unregister()
    except Exception as error:
        print(f"  refused: {first_line(error)}")
    else:
        again = Plugin(library, "again")
    right(session, 5)
    del session, one_thread
    gc.collect()
    right(again.session(dynamic), 5)
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
