"""Runs a model on llama.cpp as `measure.py` asks, like `peer.cpp`, but builds nothing: the package `xllamacpp` has the library, and
`llama-cpp-py-sync` its declarations.

The library is built for AVX2: compare with `BB_CPU_LEVEL=avx2`. The arguments are the model, the number of threads and the greatest
number of tokens.
"""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
from llama_cpp_py_sync._cffi_bindings import get_ffi

ffi = get_ffi()
# The declarations are of a newer version, whose parameters of contexts differ behind those that are set here alone.
[library] = Path(importlib.util.find_spec("xllamacpp").origin).parent.glob("xllamacpp.abi3.so")
lib = ffi.dlopen(str(library))


@ffi.callback("void(enum ggml_log_level, const char *, void *)")
def silent(_level, _text, _data):
    """Prints nothing."""


class Runner:
    def __init__(self, model, threads, context):
        lib.llama_log_set(silent, ffi.NULL)
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(model.encode(), lib.llama_model_default_params())
        if self.model == ffi.NULL:
            raise SystemExit("llama.cpp: the model cannot be opened")
        params = lib.llama_context_default_params()
        params.n_threads = params.n_threads_batch = threads
        params.n_ctx = params.n_batch = context
        self.context = lib.llama_init_from_model(self.model, params)
        if self.context == ffi.NULL:
            raise SystemExit("llama.cpp: no context")
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(context, 0, 1)

    def run(self, tokens, past, every=False):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = past + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = every or i + 1 == len(tokens)
        if lib.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama.cpp: a run failed")

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def logits(self, row=-1):
        start = lib.llama_get_logits_ith(self.context, row)
        return np.frombuffer(ffi.buffer(start, 4 * self.vocabulary), np.float32)

    def generate(self, prompt, count, shows):
        self.clear()
        start = time.perf_counter()
        self.run(prompt, 0)
        lib.llama_synchronize(self.context)
        reading = time.perf_counter() - start
        start, shown = time.perf_counter(), []
        for i in range(count):
            logits = self.logits()
            token = int(logits.argmax())
            if shows:
                second, first = np.partition(logits, -2)[-2:]
                shown.append(f"{token} {first - second:.6f}")
            if i + 1 < count:
                self.run([token], len(prompt) + i)
        if shows:
            return " ".join(shown)
        return f"{reading:.6f} {time.perf_counter() - start:.6f}"

    def loss(self, tokens):
        self.clear()
        self.run(tokens, 0, True)
        total = 0.0
        for i, token in enumerate(tokens[1:]):
            logits = self.logits(i).astype(np.float64)
            most = logits.max()
            total -= logits[token] - most - np.log(np.exp(logits - most).sum())
        return f"{total / (len(tokens) - 1):.8f}"


def main():
    start = time.perf_counter()
    runner = Runner(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(f"opened {time.perf_counter() - start:.6f}", flush=True)
    for line in sys.stdin:
        words, _, count = line.partition("|")
        what, *tokens = words.split()
        tokens = [int(token) for token in tokens]
        if what == "loss":
            print(runner.loss(tokens), flush=True)
        else:
            print(runner.generate(tokens, int(count), what == "tokens"), flush=True)


main()
