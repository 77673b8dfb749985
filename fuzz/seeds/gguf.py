"""Writes the seeds of the targets `gguf`, `tokenizer` and `template`: python fuzz/seeds/gguf.py

Each file is a small model with drawn weights, in one format of matrices.
"""

import json
import random
import struct
from pathlib import Path

out = Path(__file__).parent
WIDTH, HEADS, GROUPS, HIDDEN, LAYERS = 32, 2, 1, 32, 1
WORDS = ["<|endoftext|>", "Ġ", "Ċ", *map(chr, range(33, 127)), "Ã", "©", "th", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def u32(value):
    return struct.pack("<II", 4, value)


def f32(value):
    return struct.pack("<If", 6, value)


def string(value):
    return struct.pack("<I", 8) + text(value)


def strings(values):
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def ints(values):
    return struct.pack(f"<IIQ{len(values)}i", 9, 5, len(values), *values)


def blocks(ty, count, drawn):
    """The bytes of so many numbers: floats, or blocks of 32."""
    if ty == 0:
        return struct.pack(f"<{count}f", *(drawn.uniform(-0.2, 0.2) for _ in range(count)))
    bytes_of = {2: 16, 3: 16, 8: 32}[ty]
    halves = [0.01] if ty != 3 else [0.01, -0.1]
    one = lambda: struct.pack(f"<{len(halves)}e", *halves) + drawn.randbytes(bytes_of)
    return b"".join(one() for _ in range(count // 32))


def model(kind, ty, drawn):
    size = WIDTH // HEADS
    keys = {
        "general.architecture": string(kind),
        f"{kind}.block_count": u32(LAYERS),
        f"{kind}.context_length": u32(64),
        f"{kind}.embedding_length": u32(WIDTH),
        f"{kind}.feed_forward_length": u32(HIDDEN),
        f"{kind}.attention.head_count": u32(HEADS),
        f"{kind}.attention.head_count_kv": u32(GROUPS),
        f"{kind}.rope.dimension_count": u32(size),
        f"{kind}.rope.freq_base": f32(10000.0),
        f"{kind}.attention.layer_norm_rms_epsilon": f32(1e-5),
        "tokenizer.ggml.model": string("gpt2"),
        "tokenizer.ggml.pre": string("smollm"),
        "tokenizer.ggml.tokens": strings(WORDS),
        "tokenizer.ggml.token_type": ints([3 if word.startswith("<|") else 1 for word in WORDS]),
        "tokenizer.ggml.merges": strings(["t h"]),
        "tokenizer.ggml.eos_token_id": u32(0),
        "tokenizer.chat_template": string(TEMPLATE),
    }
    tensors = [("token_embd.weight", [WIDTH, len(WORDS)], ty), ("output_norm.weight", [WIDTH], 0)]
    for layer in range(LAYERS):
        for name, extents in [
            ("attn_q", [WIDTH, HEADS * size]),
            ("attn_k", [WIDTH, GROUPS * size]),
            ("attn_v", [WIDTH, GROUPS * size]),
            ("attn_output", [HEADS * size, WIDTH]),
            ("ffn_gate", [WIDTH, HIDDEN]),
            ("ffn_up", [WIDTH, HIDDEN]),
            ("ffn_down", [HIDDEN, WIDTH]),
        ]:
            tensors.append((f"blk.{layer}.{name}.weight", extents, ty))
        tensors += [(f"blk.{layer}.{name}.weight", [WIDTH], 0) for name in ("attn_norm", "ffn_norm")]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(key) + value for key, value in keys.items())
    data = b""
    for name, extents, ty in tensors:
        head += text(name) + struct.pack("<I", len(extents)) + struct.pack(f"<{len(extents)}Q", *extents)
        head += struct.pack("<IQ", ty, len(data))
        count = 1
        for extent in extents:
            count *= extent
        data += blocks(ty, count, drawn)
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


for name in ("gguf", "tokenizer", "template"):
    (out / name).mkdir(exist_ok=True)
for kind, ty in [("llama", 0), ("llama", 3), ("qwen2", 8), ("gemma", 2)]:
    (out / "gguf" / f"{kind}-{ty}.gguf").write_bytes(model(kind, ty, random.Random(7)))
vocabulary = {word: number for number, word in enumerate(WORDS)}
added = [
    {"id": vocabulary[word], "content": word, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for word in WORDS
    if word.startswith("<|")
]
bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
pairs = {"version": "1.0", "added_tokens": added, "pre_tokenizer": bytes_of, "decoder": bytes_of}
pairs["model"] = {"type": "BPE", "vocab": vocabulary, "merges": [["t", "h"]]}
(out / "tokenizer" / "bpe.json").write_text(json.dumps(pairs))
unigram = {"version": "1.0", "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}}
unigram["model"] = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁a", -1.0], ["b", -2.0]], "byte_fallback": False}
(out / "tokenizer" / "unigram.json").write_text(json.dumps(unigram))
(out / "template" / "messages.jinja").write_text(TEMPLATE)
(out / "template" / "growth.jinja").write_text(
    "{% set ns = namespace(x='ab') %}{% for i in range(9) %}{% set ns.x = ns.x ~ ns.x + 'c' %}{% endfor %}{{ ns.x | replace('a', 'bb') }}"
    "{{ [1, 2] | join(', ') }}{{ messages | tojson }}{% macro m(a, b=2) %}{{ a * b }}{% endmacro %}{{ m('x') }}{{ strftime_now('%Y') }}"
)
