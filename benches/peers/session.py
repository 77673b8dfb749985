"""Times a model on ONNX Runtime, as `timing.py` says. Its memory is what the session adds to that of Python."""

import functools
import os
import pathlib
import time

import onnxruntime

import tensors
import timing


def memory(field):
    """A number of bytes that Linux knows of this process; `None` elsewhere."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)


def forgotten():
    """Forgets the greatest memory so far, where the system can."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def opened(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if os.environ.get("BB_EXACT_BYTES"):
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@functools.lru_cache(maxsize=1)
def bound(model, room, threads):
    """A run whose inputs and outputs are bound, so that little but the operator is timed."""
    session = opened(model, threads)
    binding = session.io_binding()
    for name, x in tensors.read(room).items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(x))
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def measured(model, room, runs, threads, kept):
    if kept:
        run = bound(model, room, threads)
        timing.timed(run, 3)
        return timing.timed(run, runs)
    feed = tensors.read(room)
    forgotten()
    before, start = memory("VmRSS:"), time.perf_counter()
    session = opened(model, threads)
    run = lambda: session.run(None, feed)
    run()
    ready = time.perf_counter() - start
    timing.timed(run, 3)
    answer = timing.timed(run, runs) | {"ready_seconds": ready}
    peak = memory("VmHWM:")
    return answer | {"peak_bytes": peak - before if peak and before else None}


timing.serve(measured)
