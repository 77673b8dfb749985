"""Times models on bb, ONNX Runtime, tract and RTen, and writes a table and a chart of the ratios.

Each round times one engine after the other, so that what else the machine does falls on all. A round's time is the median of
its runs, and an engine's time is the median of its rounds.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--bb", required=True, help="the command bb")
    parser.add_argument("--peer", help="the command peer of this folder, which runs tract and RTen")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="the time of an engine in a round, about")
    parser.add_argument("--batch", type=int, default=0, help="repeat the rows of all inputs up to this number")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for table.md and chart.svg")
    return parser.parse_args()


def tensor(path):
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


def inputs(folder, names, batch):
    """The inputs of a model by name, each of `batch` rows unless that is 0."""
    number = lambda path: int(path.stem.removeprefix("input_"))
    files = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=number)
    feed = {name: tensor(path) for name, path in zip(names, files)}
    if batch:
        for name, x in feed.items():
            times = -(-batch // max(x.shape[0], 1))
            feed[name] = numpy.concatenate([x] * times)[:batch]
    return feed


def written(feed, folder):
    """Writes inputs as files that bb reads, and returns the folder."""
    for position, (name, x) in enumerate(feed.items()):
        proto = numpy_helper.from_array(x, name)
        (folder / f"input_{position}.pb").write_bytes(proto.SerializeToString())
    return folder


class OnnxRuntime:
    name = "ONNX Runtime"
    colour = "#2a7f4f"

    def __init__(self, args, model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def names(self):
        return [x.name for x in self.session.get_inputs()]

    def seconds(self, feed, room, runs):
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            self.session.run(None, feed)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def output_of(command):
    """What a command prints; if it fails, its first words about that are the error."""
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode:
        lines = [line for line in ran.stderr.splitlines() if line.strip()]
        raise RuntimeError(lines[0] if lines else f"exit status {ran.returncode}")
    return ran.stdout


class Bb:
    name = "bb"

    def __init__(self, args, model):
        self.command = [args.bb, "bench", model, "--threads", args.threads, "--json"]

    def seconds(self, feed, room, runs):
        printed = output_of(self.command + ["--inputs", room, "--runs", runs])
        return json.loads(printed)["run_seconds"]["p50"]


class Tract:
    name = "tract"
    colour = "#3a6ea5"

    def __init__(self, args, model):
        self.command, self.threads = [args.peer, self.name.lower(), model], args.threads

    def seconds(self, feed, room, runs):
        return float(output_of(self.command + [room, runs, self.threads]))


class Rten(Tract):
    name = "RTen"
    colour = "#b3541e"


def peers(args):
    return [OnnxRuntime] + ([Tract, Rten] if args.peer else [])


def measured(args, folder):
    """The times of the engines that run a model, by name."""
    model = folder / "model.onnx"
    first = OnnxRuntime(args, model)
    feed = inputs(folder, first.names(), args.batch)
    count = lambda seconds: max(3, min(5000, int(args.seconds / max(seconds, 1e-6))))
    with tempfile.TemporaryDirectory() as room:
        room = written(feed, pathlib.Path(room))
        first.seconds(feed, room, 1)
        engines = []
        for engine in [first, Bb(args, model)] + [peer(args, model) for peer in peers(args)[1:]]:
            try:
                engines.append((engine, count(engine.seconds(feed, room, 3)), []))
            except Exception as error:  # What one engine lacks must not end the others.
                print(f"{folder.name}: {engine.name}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
        for _ in range(args.rounds):
            for engine, runs, times in engines:
                times.append(engine.seconds(feed, room, runs))
    return {engine.name: statistics.median(times) for engine, _, times in engines}


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def ratios(rows, name):
    """The times of bb over those of an engine, of the models that both run."""
    return [times["bb"] / times[name] for _, times in rows if name in times]


def summary(args, rows):
    lines = []
    for peer in peers(args):
        found = ratios(rows, peer.name)
        if found:
            mean, worst = statistics.geometric_mean(found), max(found)
            lines.append(f"{peer.name}: geometric mean {mean:.3f}, worst {worst:.2f}, of {len(found)} models.")
    return lines


def table(args, rows):
    about = (
        f"ONNX Runtime {onnxruntime.__version__}, {args.threads} thread(s), {args.rounds} rounds, {processor()}, "
        f"{os.cpu_count()} processors"
    )
    heads = "".join(f" {peer.name}, ms | ratio |" for peer in peers(args))
    lines = [about, "", "| model | bb, ms |" + heads, "|---|---|" + "---|---|" * len(peers(args))]
    for name, times in rows:
        line = f"| {name} | {1e3 * times['bb']:.4g} |"
        for peer in peers(args):
            other = times.get(peer.name)
            line += f" {1e3 * other:.4g} | {times['bb'] / other:.2f} |" if other else " | |"
        lines.append(line)
    return "\n".join(lines + [""] + summary(args, rows)) + "\n"


def chart(args, rows):
    """Bars of the ratios, on a logarithmic scale from 1/16 to 4."""
    width, bar, left, top = 760, 9, 260, 50
    place = lambda ratio: left + (width - left - 60) * (math.log2(min(max(ratio, 1 / 16), 4)) + 4) / 6
    step = bar * len(peers(args)) + 8
    height = step * len(rows) + top + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        "<title>Time of bb over the time of other engines</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for position, peer in enumerate(peers(args)):
        x = left + 130 * position
        parts.append(f'<rect x="{x}" y="6" width="10" height="10" fill="{peer.colour}"/>')
        parts.append(f'<text x="{x + 15}" y="15">over {peer.name}</text>')
    for ratio in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4):
        x, stroke = place(ratio), "#444" if ratio == 1 else "#ddd"
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="40" y2="{height - 16}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x:.0f}" y="34" text-anchor="middle" fill="#444">{ratio:g}</text>')
    for position, (name, times) in enumerate(rows):
        y = top + step * position
        parts.append(f'<text x="{left - 8}" y="{y + step / 2}" text-anchor="end">{name}</text>')
        for at, peer in enumerate(peers(args)):
            if peer.name not in times:
                continue
            ratio = times["bb"] / times[peer.name]
            one, x, y_bar = place(1), place(ratio), y + at * bar
            parts.append(
                f'<rect x="{min(one, x):.1f}" y="{y_bar}" width="{max(abs(x - one), 1):.1f}" height="{bar - 2}" '
                f'fill="{peer.colour}"/>'
            )
            parts.append(f'<text x="{max(one, x) + 4:.1f}" y="{y_bar + 8}" font-size="9">{ratio:.2f}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    args = arguments()
    rows = []
    for folder in args.folders:
        try:
            times = measured(args, folder)
        except Exception as error:  # What one model lacks must not end the others.
            print(f"{folder.name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if "bb" not in times:
            continue
        rows.append((folder.name, times))
        each = "".join(f" {name} {1e3 * t:.4g} ms ({times['bb'] / t:.2f})" for name, t in times.items())
        print(f"{folder.name:32}{each}", flush=True)
    if not rows:
        sys.exit("no model was measured")
    text = table(args, rows)
    print(text.splitlines()[0], *summary(args, rows), sep="\n")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "table.md").write_text(text)
        (args.out / "chart.svg").write_text(chart(args, rows))


main()
