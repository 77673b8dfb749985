"""Embeds passages with ONNX Runtime and the package tokenizers, for `semantic-search speed`.

    python3 speed.py MODEL_FOLDER TEXTS.json TIMES

prints the fastest time in seconds and the vectors as JSON. Batches are made as in embedder.rs.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime
import tokenizers

TOKENS, ROWS, STEP = 2048, 32, 16


def batches(encodings):
    order = sorted(range(len(encodings)), key=lambda i: -len(encodings[i].ids))
    while order:
        length = -(-len(encodings[order[0]].ids) // STEP) * STEP
        rows = max(1, min(ROWS, TOKENS // length, len(order)))
        yield order[:rows], length
        order = order[rows:]


def embed(session, tokenizer, texts):
    encodings = tokenizer.encode_batch(texts)
    names = {port.name for port in session.get_inputs()}
    vectors = [None] * len(texts)
    for rows, length in batches(encodings):
        ids = np.zeros((len(rows), length), np.int64)
        mask = np.zeros((len(rows), length), np.int64)
        for row, i in enumerate(rows):
            ids[row, : len(encodings[i].ids)] = encodings[i].ids
            mask[row, : len(encodings[i].ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = session.run(None, {name: given[name] for name in names})[0]
        weights = mask[..., None].astype(np.float32)
        means = (states * weights).sum(1) / weights.sum(1)
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        for row, i in enumerate(rows):
            vectors[i] = means[row]
    return vectors


def main():
    folder, texts, times = sys.argv[1:]
    folder = pathlib.Path(folder)
    texts = json.loads(pathlib.Path(texts).read_text())
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    best = float("inf")
    for _ in range(int(times)):
        start = time.perf_counter()
        vectors = embed(session, tokenizer, texts)
        best = min(best, time.perf_counter() - start)
    answer = {
        "version": onnxruntime.__version__,
        "seconds": best,
        "vectors": [[float(x) for x in vector] for vector in vectors],
    }
    json.dump(answer, sys.stdout)


main()
