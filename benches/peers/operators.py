"""Times single operators and products on bb and its peers, and writes a table and a chart of the ratios to the fastest.

bb and ONNX Runtime run a model of one node, whose plan takes some tenths of a microsecond; the others call a function. Each round
times one engine after the other. A round's time is the median of its runs, and an engine's time is the median of its rounds.
Products are also shown as a share of the most that a processor's units can do, which is measured in the same run.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

import catalogue
import engines
import figures
import grid
import tensors
import wide

WITH_MODELS = ("bb", "ONNX Runtime")

# The rows of `rates` that have the peaks of a level, of products of f32 and of bytes.
PEAKS = {
    "portable": {"f32": "portable", "i8": "portable"},
    "avx2": {"f32": "avx2", "i8": "avx2"},
    "avx2-vnni": {"f32": "avx2", "i8": "avx2, VNNI"},
    "avx512": {"f32": "avx512", "i8": "avx2"},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", metavar="TEXT", help="measure the operators whose name begins with one of these texts")
    parser.add_argument("--bb", required=True, help="the command bb")
    parser.add_argument("--wide", action="store_true", help="measure one case of nearly every operator, beside ONNX Runtime")
    parser.add_argument("--grid", action="store_true", help="measure the most frequent kinds at many extents, beside ONNX Runtime")
    parser.add_argument("--rates", required=True, help="the command rates of the package bb-benches")
    parser.add_argument("--peer", help="the command peer of this folder, which runs candle and burn")
    parser.add_argument("--level", choices=list(PEAKS), help="hold bb, NumPy's products and, at avx2, ONNX Runtime to a level of instructions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05, help="the time of an engine in a round, about")
    parser.add_argument("--least", type=int, default=0, help="leave out operands with fewer elements")
    parser.add_argument("--most", type=int, default=1 << 24, help="leave out operands with more elements")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for operators.md and operators.svg")
    return parser.parse_args()


def measured(args, contenders, operator, size):
    """The measurements of the engines that have an operator, by their names."""
    feed = operator.feed(size)
    model, given = operator.model(feed)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path, all_, some = folder / "model.onnx", folder / "all", folder / "some"
        onnx.save(model, path)
        all_.mkdir()
        some.mkdir()
        tensors.write(all_, feed)
        tensors.write(some, given)
        subjects = []
        for engine in contenders:
            if engine.name in WITH_MODELS:
                subjects.append((engine, path, some))
            elif engine.name != "NumPy" or operator.numpy:
                subjects.append((engine, operator.name, all_))

        def skipped(engine, error):
            if engine.name in WITH_MODELS:
                print(f"{operator.name}: {engine.name}: {str(error)[:200]}", file=sys.stderr)

        return engines.alternating(subjects, args.threads, args.rounds, args.seconds, skipped)


def levels(args):
    """The rates of each level of instructions: products a second, of `f32` and of bytes, and bytes read a second."""
    ran = subprocess.run([args.rates, "--json", "--threads", str(args.threads)], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["levels"]


def described(level):
    """The rates of a level in words."""
    products = [f"{level[kind] / 1e9:.0f} G products/s of {kind}" for kind in ("f32", "i8") if level[kind]]
    reads = [f"{rate / 1e9:.0f} GB/s from {place}" for place, rate in level["read"].items()]
    return f"{level['level']}: " + ", ".join(products + reads)


def elements(size):
    """What `--least` and `--most` bound; the extents of products count as none."""
    return size if isinstance(size, int) else 0


def main():
    args = arguments()
    engines.hold_numpy(args.level)
    contenders = engines.operators(args)
    rates = levels(args)
    of = lambda kind: PEAKS[args.level][kind] if args.level else None
    peak = {kind: max(rate[kind] or 0 for rate in rates if of(kind) in (None, rate["level"])) for kind in ("f32", "i8")}
    rows = []
    for operator in (grid if args.grid else wide if args.wide else catalogue).operators():
        if args.only and not any(operator.name.startswith(text) for text in args.only):
            continue
        for size in operator.sizes:
            if not args.least <= elements(size) <= args.most:
                continue
            times = {name: got["seconds"] for name, got in measured(args, contenders, operator, size).items()}
            if "bb" not in times or len(times) < 2:
                continue
            most = peak.get("i8" if "i8" in operator.name else "f32")
            share = operator.products(size) / times["bb"] / most if operator.products and most else None
            row = figures.Row(operator.name, catalogue.size_name(size), times, share)
            rows.append(row)
            each = "".join(f" {name} {1e6 * t:.4g} µs" for name, t in times.items())
            print(f"{row.ratio():5.2f} {row.name} {row.size}:{each}", flush=True)
    if not rows:
        sys.exit("no operator was measured")
    about = engines.about(args.threads, args.rounds) + (f", held to {args.level}" if args.level else "")
    about += ", peaks of " + "; ".join(map(described, rates))
    text = figures.operators_table(about, [engine.name for engine in contenders], rows)
    print("", figures.slower(rows), sep="\n")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "operators.md").write_text(text)
        (args.out / "operators.svg").write_text(figures.operators_chart(rows))


main()
