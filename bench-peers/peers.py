"""Times models on bb and on ONNX Runtime, and writes a table and a chart of the ratios.

Each round times one engine and then the other, so that what else the machine does falls on both. A round's time is the
median of its runs, and an engine's time is the median of its rounds.
"""

import argparse
import json
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
    def __init__(self, model, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def names(self):
        return [x.name for x in self.session.get_inputs()]

    def seconds(self, feed, runs):
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            self.session.run(None, feed)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def bb_seconds(args, model, folder, runs):
    command = [args.bb, "bench", str(model), "--inputs", str(folder), "--threads", str(args.threads)]
    ran = subprocess.run(command + ["--runs", str(runs), "--json"], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"bb: {ran.stderr.strip().splitlines()[0] if ran.stderr else ran.returncode}")
    return json.loads(ran.stdout)["run_seconds"]["p50"]


def measured(args, folder):
    """The times of bb and of ONNX Runtime for one model."""
    model = folder / "model.onnx"
    peer = OnnxRuntime(model, args.threads)
    feed = inputs(folder, peer.names(), args.batch)
    count = lambda seconds: max(3, min(5000, int(args.seconds / max(seconds, 1e-6))))
    with tempfile.TemporaryDirectory() as room:
        room = written(feed, pathlib.Path(room))
        peer.seconds(feed, 1)
        runs = count(peer.seconds(feed, 1))
        own = count(bb_seconds(args, model, room, 3))
        ours, theirs = [], []
        for _ in range(args.rounds):
            theirs.append(peer.seconds(feed, runs))
            ours.append(bb_seconds(args, model, room, own))
    return statistics.median(ours), statistics.median(theirs)


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def table(args, rows):
    about = (
        f"ONNX Runtime {onnxruntime.__version__}, {args.threads} thread(s), {args.rounds} rounds, {processor()}, "
        f"{os.cpu_count()} processors"
    )
    lines = [about, "", "| model | bb, ms | ONNX Runtime, ms | ratio |", "|---|---|---|---|"]
    for name, ours, theirs in rows:
        lines.append(f"| {name} | {1e3 * ours:.4g} | {1e3 * theirs:.4g} | {ours / theirs:.2f} |")
    ratios = [ours / theirs for _, ours, theirs in rows]
    mean = statistics.geometric_mean(ratios)
    lines += ["", f"Geometric mean {mean:.3f}, worst {max(ratios):.2f}, of {len(ratios)} models."]
    return "\n".join(lines) + "\n"


def chart(rows):
    """Bars of the ratios, on a logarithmic scale from 1/8 to 8."""
    import math

    width, step, left = 760, 22, 260
    place = lambda ratio: left + (width - left - 60) * (math.log2(min(max(ratio, 1 / 8), 8)) + 3) / 6
    height = step * len(rows) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="13">',
        "<title>Time of bb over time of ONNX Runtime</title>",
    ]
    for ratio in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
        x = place(ratio)
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="24" y2="{height - 20}" stroke="{"#444" if ratio == 1 else "#ddd"}"/>')
        parts.append(f'<text x="{x:.0f}" y="16" text-anchor="middle" fill="#444">{ratio:g}</text>')
    for position, (name, ours, theirs) in enumerate(rows):
        ratio, y = ours / theirs, 30 + step * position
        one, x = place(1), place(ratio)
        colour = "#2a7f4f" if ratio <= 1 else "#b3541e"
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
        parts.append(f'<rect x="{min(one, x):.1f}" y="{y}" width="{abs(x - one):.1f}" height="{step - 6}" fill="{colour}"/>')
        parts.append(f'<text x="{max(one, x) + 5:.1f}" y="{y + 13}">{ratio:.2f}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    args = arguments()
    rows = []
    for folder in args.folders:
        try:
            ours, theirs = measured(args, folder)
        except Exception as error:  # What one model lacks must not end the others.
            print(f"{folder.name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        rows.append((folder.name, ours, theirs))
        print(f"{folder.name:32} {1e3 * ours:10.4f} ms {1e3 * theirs:10.4f} ms {ours / theirs:7.2f}", flush=True)
    if not rows:
        sys.exit("no model was measured")
    text = table(args, rows)
    print(text.splitlines()[0])
    print(text.splitlines()[-1])
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "table.md").write_text(text)
        (args.out / "chart.svg").write_text(chart(rows))


main()
