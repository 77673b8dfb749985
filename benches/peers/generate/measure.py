"""Runs a GGUF model on bb and on llama.cpp in alternating rounds of one process each, and compares speed, losses and tokens.

`bash benches/peers/generate/run MODEL` builds both and calls this.
"""

import argparse
import math
import shlex
import statistics
import subprocess
from pathlib import Path

PROMPTS = [
    "What is the capital of Germany?",
    "Write a short story about a robot.",
    "Explain photosynthesis to a child.",
    "List three uses of copper.",
    "How do I boil an egg?",
    "Who wrote Romeo and Juliet?",
    "Translate 'good morning' to French.",
    "Why is the sky blue?",
    "Give me a recipe for pancakes.",
    "What is 12 times 12?",
]


class Program:
    """A program that answers lines."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.opened = float(self.answer().split()[1])

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[0]} ended")
        return line.strip()

    def ask(self, what, tokens=(), count=None):
        line = " ".join([what, *map(str, tokens)])
        if count is not None:
            line += f" | {count}"
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def programs(options, threads):
    bb = Program(options.session, options.model, threads, options.context, *options.floats)
    peer = Program(*options.peer, options.model, threads, options.context)
    return {"bb": bb, "llama.cpp": peer}


def speed(options, threads):
    """Prints the tokens in a second: the medians of rounds in which both programs take turns."""
    both = programs(options, threads)
    text = [int(word) for word in both["bb"].ask(f"file {options.text}").split()]
    prompt = (text * (1 + options.prompt // len(text)))[: options.prompt]
    times = {name: [] for name in both}
    for round in range(options.rounds + 1):
        order = list(both.items())
        for name, program in order if round % 2 else order[::-1]:
            seconds = [float(word) for word in program.ask("speed", prompt, options.answer).split()]
            if round:
                times[name].append(seconds)
    rates = {}
    for name, rounds in times.items():
        reading, writing = (statistics.median(column) for column in zip(*rounds))
        rates[name] = (options.prompt / reading, options.answer / writing)
        print(
            f"{threads} threads, {name}: prompt {rates[name][0]:.1f} tokens/s, answer {rates[name][1]:.1f} tokens/s, "
            f"opened in {both[name].opened:.2f} s"
        )
    ratios = [ours / theirs for ours, theirs in zip(rates["bb"], rates["llama.cpp"])]
    print(f"{threads} threads, bb over llama.cpp: prompt {ratios[0]:.2f}, answer {ratios[1]:.2f}")
    print(f"{threads} threads, bb's memory at most: {int(both['bb'].ask('memory')) / 2**20:.1f} MiB")
    for program in both.values():
        program.close()


def losses(options):
    """Prints the perplexity of a text on both."""
    both = programs(options, options.threads[-1])
    text = both["bb"].ask(f"file {options.text}").split()[: options.context - 8]
    loss = {name: float(program.ask("loss", text)) for name, program in both.items()}
    perplexity = {name: math.exp(x) for name, x in loss.items()}
    ratio = perplexity["bb"] / perplexity["llama.cpp"]
    print(f"perplexity of {len(text)} tokens: {perplexity}; ratio {ratio:.5f}")
    for program in both.values():
        program.close()


def answers(options):
    """Prints where the most probable tokens part, and how near the logits are there."""
    both = programs(options, options.threads[-1])
    for prompt in PROMPTS:
        tokens = both["bb"].ask(f"message {prompt}").split()
        given = {}
        for name, program in both.items():
            words = program.ask("tokens", tokens, options.tokens).split()
            given[name] = [(int(a), float(b)) for a, b in zip(words[::2], words[1::2])]
        ours, theirs = given["bb"], given["llama.cpp"]
        part = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a[0] != b[0]), None)
        if part is None:
            print(f"{prompt!r}: all {len(ours)} tokens are the same")
        else:
            margins = sorted(margin for _, margin in theirs)
            rank = sum(margin < theirs[part][1] for margin in margins)
            print(
                f"{prompt!r}: the first {part} tokens are the same; there the two most probable logits differ by {ours[part][1]:.3f} on bb, "
                f"{theirs[part][1]:.3f} on llama.cpp ({rank} of its {len(margins)} differences are less)"
            )
    for program in both.values():
        program.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--session", required=True, type=Path, help="bb's program")
    parser.add_argument("--peer", required=True, type=shlex.split, help="llama.cpp's program")
    parser.add_argument("--text", type=Path, default=Path(__file__).parents[3] / "README.md")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--only", choices=["speed", "losses", "answers"])
    parser.add_argument("--floats", action="store_const", const=["floats"], default=[])
    options = parser.parse_args()
    if options.only in (None, "speed"):
        for threads in options.threads:
            speed(options, threads)
    if options.only in (None, "losses"):
        losses(options)
    if options.only in (None, "answers"):
        answers(options)


main()
