"""Threads, signals, deadlines and cancellation."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import bb
import models

FOREVER = {"n": np.int64(1 << 40), "x": np.ones((64, 64), np.float32)}


@pytest.fixture(scope="module")
def endless():
    return bb.Session(models.long_running(), limits={"iterations": 1 << 60})


def test_threads_share_a_session():
    session = bb.Session(models.product())
    wrong = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(200):
            n = int(random.integers(1, 40))
            a, b = random.random((n, 8), np.float32), random.random((8, n), np.float32)
            [y] = session.run({"a": a, "b": b})
            [z] = session.run({"a": a, "b": b}, fetch=["y"])
            if not (np.allclose(y, a @ b, rtol=1e-5) and np.array_equal(y, z)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_other_threads_go_on_during_a_run(endless):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(bb.DeadlineExceeded):
        endless.run(FOREVER, timeout=0.5)
    stop.set()
    thread.join()
    assert len(ticks) > 10


def test_a_deadline_ends_a_run(endless):
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as raised:
        endless.run(FOREVER, timeout=0.2)
    assert isinstance(raised.value, bb.DeadlineExceeded)
    assert 0.1 < time.monotonic() - begin < 5
    with pytest.raises(bb.DeadlineExceeded):
        endless.run(FOREVER, timeout=0)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            endless.run(FOREVER, timeout=wrong)
    x = FOREVER["x"]
    np.testing.assert_allclose(endless.run({"n": 1, "x": x}, timeout=1e300)[0], np.tanh(x @ x))


def test_a_token_stops_runs_from_another_thread(endless):
    token = bb.CancelToken()
    timer = threading.Timer(0.2, token.cancel)
    timer.start()
    with pytest.raises(bb.Cancelled):
        endless.run(FOREVER, cancel=token, timeout=60)
    assert token.cancelled
    with pytest.raises(bb.Cancelled):
        endless.run(FOREVER, cancel=token, timeout=60)
    token.reset()
    endless.run({**FOREVER, "n": 1}, cancel=token)


def test_run_options_terminate_runs_as_in_onnx_runtime(endless):
    options = bb.RunOptions()
    threading.Timer(0.2, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(bb.Cancelled):
        endless.run(None, FOREVER, options)
    options.terminate = False
    endless.run(None, {**FOREVER, "n": 1}, options)
    with pytest.raises(TypeError, match="bb.RunOptions"):
        endless.run(None, FOREVER, 3)


def test_ctrl_c_interrupts_a_run(endless):
    for _ in range(2):
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            endless.run(FOREVER, timeout=60)
        assert time.monotonic() - begin < 5
        assert endless.run({**FOREVER, "n": 1})[0].shape == (64, 64)


def test_ctrl_c_interrupts_one_long_operation():
    session = bb.Session(models.product(), threads=2)
    a = np.ones((6000, 6000), np.float32)
    session.run({"a": a[:2], "b": a})
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            session.run({"a": a, "b": a})


def test_a_handler_that_does_not_raise_lets_the_run_go_on(endless):
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(pytest.raises(RuntimeError, endless.run, [1, FOREVER["x"]])))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(bb.DeadlineExceeded):
            endless.run(FOREVER, timeout=0.5)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 1 and "signal" in str(seen[0].value)


def test_a_handler_may_raise_what_it_likes(endless):
    class Alarm(Exception):
        pass

    def handler(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            endless.run(FOREVER, timeout=60)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_program_ends(tmp_path):
    """A program that is in a run gets Ctrl-C, as in a terminal."""
    path = tmp_path / "model.onnx"
    path.write_bytes(models.long_running())
    code = (
        "import bb, numpy as np, sys\n"
        "s = bb.Session(sys.argv[1], limits={'iterations': 1 << 60})\n"
        "print('ready', flush=True)\n"
        "s.run({'n': np.int64(1 << 40), 'x': np.ones((64, 64), np.float32)})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


def _child(session, x, queue):
    queue.put(session.run({"a": x, "b": x})[0].sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_use_a_session(method):
    session = bb.Session(models.product(), threads=2)
    x = np.ones((300, 300), np.float32)
    expected = session.run({"a": x, "b": x})[0].sum()
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=_child, args=(session, x, queue))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert queue.get() == expected
