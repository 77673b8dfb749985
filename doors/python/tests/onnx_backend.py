"""Runs ONNX's `BackendTest` on `bb` or ONNX Runtime, and prints what passed, failed and was skipped, with reasons.

    python onnx_backend.py bb|onnxruntime EXCLUDE

`EXCLUDE` is the repository's list of cases that do not count. The exit status of `bb` tells whether only those failed that are named
here.
"""

from __future__ import annotations

import collections
import importlib
import sys
import unittest
import warnings
from pathlib import Path

import onnx
import onnx.backend.test

#: Cases that are not in the list, because it is of other cases, and that no backend can pass, or not everywhere; they count as failed.
KNOWN = {
    "test_bernoulli": "random: drawn where making the inputs had left NumPy's generator",
    "test_bernoulli_expanded": "random, as above",
    "test_image_decoder_decode_jpeg_bgr": "JPEG leaves the rounding of its transform open",
    "test_loop16_seq_none": "ONNX's runner asks for the length of arrays of rank 0, which have none",
}


class Result(unittest.TestResult):
    """Counts what passed, too."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.passed.append(test.id())


def main(which: str, exclude: str) -> int:
    warnings.simplefilter("ignore")
    package = importlib.import_module(which)
    backend = importlib.import_module(f"{which}.backend")
    if hasattr(package, "set_default_logger_severity"):
        package.set_default_logger_severity(4)
    reasons = {}
    for line in Path(exclude).read_text(encoding="utf-8").splitlines():
        name, _, reason = line.partition(" # ")
        if name.startswith("node/"):
            reasons[f"{name.removeprefix('node/')}_cpu"] = reason.strip()
    tests = onnx.backend.test.BackendTest(backend, __name__)
    suite = unittest.TestSuite()
    skipped: collections.Counter[str] = collections.Counter()
    for kind, case in tests.test_cases.items():
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            if name in reasons:
                skipped["in the repository's list of cases that do not count"] += 1
            elif not name.endswith("_cpu"):
                skipped["for another device than the processor"] += 1
            elif "Real" in kind:
                skipped["the model is downloaded"] += 1
            else:
                suite.addTest(case(name))
    result = Result()
    suite.run(result)
    failed = {test.id().split(".")[-1].removesuffix("_cpu"): text for test, text in result.failures + result.errors}
    for _, reason in result.skipped:
        skipped[reason] += 1
    version = getattr(package, "__version__", "?")
    print(f"{which} {version}, ONNX {onnx.__version__}: {len(result.passed)} passed, {len(failed)} failed, {sum(skipped.values())} skipped")
    for reason, count in sorted(skipped.items()):
        print(f"  skipped {count}: {reason}")
    if which != "bb":
        return 0
    for name, text in sorted(failed.items()):
        print(f"  failed {name}: {KNOWN.get(name, text.strip().splitlines()[-1])}")
    wrong = sorted(failed.keys() - KNOWN.keys())
    if wrong or not result.passed:
        print(f"  {len(wrong)} failed that should not")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
