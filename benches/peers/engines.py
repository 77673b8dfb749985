"""The engines that are compared, each a command that times a model or an operator in a process of its own.

A measurement is a dictionary: `seconds` (the median time of a run), `cpu_seconds` (the time that all threads together spend on
processors in a run, on average), `ready_seconds` (loading, preparing and the first run) and `peak_bytes` (the greatest memory, less
what the process had before it loaded the model).
"""

import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
from importlib import metadata

import hold

HERE = pathlib.Path(__file__).parent


class Failed(Exception):
    """The reason for which an engine does not run a subject, in its words."""


class Engine:
    """An engine that is started anew for each measurement."""

    def __init__(self, name, colour, command, variables=None):
        self.name, self.colour, self.command = name, colour, [str(part) for part in command]
        self.variables = variables or {}

    def measure(self, subject, room, runs, threads):
        """Times runs of a subject, whose inputs are in the folder `room`."""
        command = self.command + [str(argument) for argument in (subject, room, runs, threads)]
        return run(command, environment(threads) | self.variables)


class Bb(Engine):
    """bb, with all that the processor has, or held to a level of its instructions."""

    def __init__(self, command, level=None, name=None):
        super().__init__(name or (f"bb at {level}" if level else "bb"), "#222222", [command])
        self.backend = ["--backend", f"cpu(level={level})"] if level else []

    def measure(self, subject, room, runs, threads):
        options = ["--inputs", room, "--runs", runs, "--threads", threads, "--json"]
        command = self.command + [str(argument) for argument in ["bench", subject] + self.backend + options]
        got = run(command, environment(threads))
        return {
            "seconds": got["run_seconds"]["p50"],
            "cpu_seconds": got.get("run_cpu_seconds"),
            "ready_seconds": got["load_seconds"] + got["prepare_seconds"],
            "peak_bytes": got["peak_bytes"] and got["peak_bytes"] - got["base_bytes"],
        }


class Kept(Engine):
    """An engine in Python, which is kept between measurements because it takes long to start."""

    def __init__(self, name, colour, script, variables=None):
        super().__init__(name, colour, [sys.executable, HERE / script], variables)
        self.processes = {}

    def measure(self, subject, room, runs, threads):
        process = self.processes.get(threads)
        if process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment(threads) | self.variables}
            process = self.processes[threads] = subprocess.Popen(self.command, **pipes)
        process.stdin.write("\t".join(str(argument) for argument in (subject, room, runs, threads)) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise Failed(answer["error"])
        return answer


def environment(threads):
    """The variables that tell libraries how many threads to use."""
    names = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return os.environ | {name: str(threads) for name in names}


def run(command, variables):
    """The JSON that a command prints; if it fails, its first words about that are the error."""
    ran = subprocess.run(command, capture_output=True, text=True, env=variables)
    if ran.returncode:
        lines = [line for line in ran.stderr.splitlines() if line.strip()]
        raise Failed(lines[0] if lines else f"exit status {ran.returncode}")
    return json.loads(ran.stdout[ran.stdout.index("{") :])


def onnx_runtime(kept=False, level=None, name="ONNX Runtime"):
    """ONNX Runtime, with all that the processor has, or held to a level of its instructions.

    If it is kept, its inputs and outputs are bound before it is timed, as a call of an operator needs it.
    """
    colour, script, variables = "#2a7f4f", "session.py", hold.held() if level in hold.LEVELS else None
    if kept:
        return Kept(name, colour, script, variables)
    return Engine(name, colour, [sys.executable, HERE / script], variables)


def models(args):
    """The engines that run models, `bb` first, and after the others the engines that are held to each level that was asked for."""
    engines = [Bb(args.bb), onnx_runtime()]
    if args.peer:
        engines += [Engine("tract", "#3a6ea5", [args.peer, "tract"]), Engine("RTen", "#b3541e", [args.peer, "rten"])]
    for level in args.levels:
        engines.append(Bb(args.bb, level))
        if level in hold.LEVELS:
            engines.append(onnx_runtime(level=level, name=f"ONNX Runtime at {level}"))
    return engines


def hold_numpy(level):
    """Holds OpenBLAS, with which NumPy computes products, to a level of instructions."""
    core = {"portable": "Prescott", "avx2": "Haswell", "avx2-vnni": "Haswell", "avx512": "SkylakeX"}.get(level)
    if core:
        os.environ["OPENBLAS_CORETYPE"] = core


def operators(args):
    """The engines that run single operators, `bb` first."""
    engines = [Bb(args.bb, args.level, "bb"), onnx_runtime(kept=True, level=args.level), Kept("NumPy", "#8a6d1f", "arrays.py")]
    if args.peer:
        engines += [Engine("candle", "#7a4a99", [args.peer, "candle"]), Engine("burn", "#b3541e", [args.peer, "burn"])]
    return engines


def alternating(subjects, threads, rounds, seconds, skipped):
    """Measures each engine once in each round, so that what else the machine does falls on all.

    `subjects` are engines, what each is told to run, and the folder of the inputs. Returns the medians of the rounds by the
    engine's name. `skipped` is called with an engine that fails, and why; what one engine lacks does not end the others.
    """
    entries = []
    for engine, subject, room in subjects:
        try:
            once = engine.measure(subject, room, 3, threads)["seconds"]
        except Failed as error:
            skipped(engine, error)
            continue
        entries.append((engine, subject, room, max(3, min(5000, int(seconds / max(once, 1e-7)))), []))
    for _ in range(rounds):
        for engine, subject, room, runs, got in entries:
            got.append(engine.measure(subject, room, runs, threads))
    return {engine.name: medians(got) for engine, _, _, _, got in entries}


def medians(measurements):
    # A short run may have no figure of some kind, such as processor time below the clock's steps.
    keys = [key for key in measurements[0] if all(each[key] is not None for each in measurements)]
    return {key: statistics.median(each[key] for each in measurements) for key in keys}


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def about(threads, rounds):
    """What a table says of its circumstances."""
    versions = f"ONNX Runtime {metadata.version('onnxruntime')}, NumPy {metadata.version('numpy')}"
    return f"{versions}, {threads} thread(s), {rounds} rounds, {processor()}, {os.cpu_count()} processors"
