"""Times models on bb, ONNX Runtime, tract and RTen, and writes a table and a chart of the ratios.

Each round times one engine after the other, each in a process of its own, so that what else the machine does falls on all. A round's
time is the median of its runs, and an engine's time is the median of its rounds. Beside the time of a run, the table has the time of
all processors in it, the time until the first run has ended, and the greatest memory, less what the process had before it loaded
the model.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy

import engines
import figures
import tensors


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--bb", required=True, help="the command bb")
    parser.add_argument("--peer", help="the command peer of this folder, which runs tract and RTen")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="the numbers of threads, one after another; by default 1,2")
    parser.add_argument(
        "--levels",
        type=lambda text: text.split(","),
        default=[],
        help="levels of instructions to which bb is held besides, such as avx2,portable; at avx2 ONNX Runtime is held to it too",
    )
    parser.add_argument("--seconds", type=float, default=0.3, help="the time of an engine in a round, about")
    parser.add_argument("--batch", type=int, default=0, help="repeat the rows of all inputs up to this number")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for table.md, chart.svg and summary.svg, of N threads table-N.md, …")
    return parser.parse_args()


def inputs(folder, batch):
    """The inputs of a model by name, each of `batch` rows unless that is 0."""
    feed = tensors.read_for(folder / "model.onnx", folder / "test_data_set_0")
    if batch:
        for name, x in feed.items():
            times = -(-batch // max(x.shape[0], 1))
            feed[name] = numpy.concatenate([x] * times)[:batch]
    return feed


def numbers(text):
    return [int(number) for number in text.split(",")]


def measured(args, contenders, threads, folder):
    """The measurements of the engines that run a model, by name."""

    def skipped(engine, error):
        print(f"{folder.name}: {engine.name}: {str(error)[:200]}", file=sys.stderr)

    with tempfile.TemporaryDirectory() as room:
        tensors.write(room, inputs(folder, args.batch))
        subjects = [(engine, folder / "model.onnx", room) for engine in contenders]
        return engines.alternating(subjects, threads, args.rounds, args.seconds, skipped)


def models(args, contenders, threads):
    """The measurements of each model that bb runs."""
    rows = []
    for folder in args.folders:
        try:
            got = measured(args, contenders, threads, folder)
        except Exception as error:  # What one model lacks must not end the others.
            print(f"{folder.name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if "bb" not in got:
            continue
        rows.append((folder.name, got))
        own = got["bb"]["seconds"]
        each = "".join(f" {name} {1e3 * one['seconds']:.4g} ms ({own / one['seconds']:.2f})" for name, one in got.items())
        print(f"{folder.name:32}{each}", flush=True)
    return rows


def main():
    args = arguments()
    contenders = engines.models(args)
    peers = [engine for engine in contenders if not isinstance(engine, engines.Bb) and " at " not in engine.name]
    for threads in args.threads:
        rows = models(args, contenders, threads)
        if not rows:
            sys.exit("no model was measured")
        about = engines.about(threads, args.rounds)
        print(about, *figures.models_summary(peers, rows), sep="\n")
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            end = f"-{threads}" if len(args.threads) > 1 else ""
            (args.out / f"table{end}.md").write_text(figures.models_table(about, peers, rows))
            (args.out / f"chart{end}.svg").write_text(figures.models_chart(peers, rows))
            (args.out / f"summary{end}.svg").write_text(figures.summary_chart(peers, rows))


main()
