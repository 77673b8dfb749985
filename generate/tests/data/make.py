"""Makes `blocks.json`: blocks of drawn bytes in the formats of ggml, and the numbers that the package `gguf` (MIT licence) makes of them.

    python make.py, with `gguf` and NumPy installed
"""

import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, dequantize

# Where the floats of 16 bits of a block are.
FORMATS = {
    "F16": (1, [0]),
    "BF16": (30, []),
    "Q4_0": (2, [0]),
    "Q4_1": (3, [0, 2]),
    "Q5_0": (6, [0]),
    "Q5_1": (7, [0, 2]),
    "Q8_0": (8, [0]),
    "Q4_K": (12, [0, 2]),
    "Q5_K": (13, [0, 2]),
    "Q6_K": (14, [208]),
}

draw = np.random.default_rng(1)
cases = []
for name, (number, floats) in FORMATS.items():
    block, size = GGML_QUANT_SIZES[Type[name]]
    count = 8 if block == 1 else 2
    data = draw.integers(0, 256, (count, size), dtype=np.uint8)
    for at in floats:
        halves = draw.uniform(-2, 2, (count, 1)).astype(np.float16)
        data[:, at : at + 2] = halves.view(np.uint8)
    if name == "BF16":
        data[:, 1] = data[:, 1] & 0x3F
    numbers = dequantize(data.reshape(-1), Type[name]).astype(np.float32)
    cases.append({"type": number, "name": name, "bytes": data.reshape(-1).tolist(), "numbers": [float(x) for x in numbers.reshape(-1)]})

pathlib.Path(__file__).with_name("blocks.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
