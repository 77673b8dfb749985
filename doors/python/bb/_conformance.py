"""The tests of a backend."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from . import _bb
from ._author import Backend, author_of, checked, primitives, register, unregister
from ._hints import hinted, no_attribute

#: The part of a failure that names a method: the method of a class that failed, or the call at the beginning.
_METHOD = re.compile(r"`[\w.]+\.(\w+)` (?:raised|returned|wrote)|^(?:the error of )?`?(\w+)[`(]")

#: The reason why a case does not run whose model needs a method that is missing.
_LACKS = re.compile(r"`(\w+)`(?: is not written|, which the backend does not run)")

#: How many names of tests the text of a report lists for one method.
_LISTED = 8


@dataclass(frozen=True)
class Conformance:
    """What the tests of a backend found: the names of those that passed, and why the others failed or were skipped.

    `missing` lists the primitives that the backend does not run. Tests of them are skipped.
    """

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __getattr__(self, name: str) -> Any:
        raise no_attribute(f"'Conformance' object has no attribute {name!r}", name, dir(self))

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} were skipped"]
        if self.missing:
            lines.append(f"  missing: {', '.join(self.missing)}")
        groups: dict[str, list[str]] = {}
        for name, why in self.failed.items():
            groups.setdefault(_blamed(name, why), []).append(name)
        said = {""}
        # One mistake fails several tests, so the method with the most failures comes first.
        for method, names in sorted(groups.items(), key=lambda group: -len(group[1])):
            why = self.failed[names[0]]
            # The lines after the first are advice, which several failures may share.
            difference, _, advice = why.partition("\n")
            tests = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
            label = names[0] if len(names) == 1 else f"{method}, in {len(names)} tests ({tests})"
            text = difference if advice in said else why
            lines.append(f"  {label}: {text}".replace("\n", "\n  "))
            said.add(advice)
        return "\n".join(lines)

    def _add(self, name: str, outcome: str, why: str) -> None:
        if outcome == "passed":
            self.passed.append(name)
        else:
            (self.failed if outcome == "failed" else self.skipped)[name] = why

    def _lacks(self, method: str) -> None:
        if method not in self.missing:
            self.missing.append(method)


def _blamed(test: str, why: str) -> str:
    """The method that a failure is about, or the test if the failure names none."""
    for found in _METHOD.finditer(why):
        method = found[1] or found[2]
        if method in primitives():
            return method
    return test


@hinted
def conformance(
    backend: type[Backend] | Backend | str,
    cases: str | os.PathLike[str] | None = None,
    *,
    exclude: Iterable[str] = (),
    progress: Callable[[str], Any] | None = None,
) -> Conformance:
    """Tests a backend: what each primitive computes on each element type, views, zero extents, wrong arguments, threads.

    Tests of methods that a class does not have are skipped. NumPy's warnings about overflows, divisions by zero and invalid values are not
    shown, because the tests cause them on purpose.

    Args:
        backend: a class that inherits from `Backend`, an object of one, or the name of any backend.
        cases: a folder with cases in ONNX's layout (`model.onnx` and `test_data_set_0` in each). They replace the tests of primitives.
        exclude: the names of cases that do not run: their paths below the folder.
        progress: is called with the name of each case before it runs.
    """
    if not isinstance(backend, str):
        checked(backend)
    with _without_warnings():
        if cases is None:
            return _run_tests(backend)
        left_out = set(exclude)
        found = [case for case in _bb.case_folders(os.fspath(cases)) if case[0] not in left_out]
        if isinstance(backend, str):
            # A name keeps the object that it opened. A class may have changed since then, so that a new object is tested.
            author = None if set(backend) & set("+(:") else author_of(backend)
            if author is None:
                return _run_cases(backend, found, progress)
            backend = author
        name = f"conformance-{id(found):x}"
        register(backend, name)
        try:
            return _run_cases(name, found, progress)
        finally:
            unregister(name)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hides NumPy's warnings about numbers. Threads of the tests have NumPy's settings of a new thread, so the warnings are filtered, too."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        numbers = "(divide by zero|overflow|underflow|invalid value) encountered"
        warnings.filterwarnings("ignore", numbers, RuntimeWarning)
        yield


def _run_tests(backend: type[Backend] | Backend | str) -> Conformance:
    report = Conformance()
    name = backend if isinstance(backend, str) else None
    author = author_of(backend) if isinstance(backend, str) else backend
    declared = None if isinstance(backend, str) else backend.primitives
    if not isinstance(backend, str) and backend.types is None and find_spec("ml_dtypes") is None:
        report._add("element types of ml_dtypes", "skipped", "NumPy has no bfloat16, float8, int4 and the like: pip install ml_dtypes")
    for test, outcome, why in _bb.conformance_tests(name, author, Backend):
        if outcome == "skipped":
            report._lacks(test)
            why = why if declared is None else f"`primitives` does not have `{test}`"
        report._add(test, outcome, why)
    return report


def _run_cases(name: str, cases: list[tuple[str, str]], progress: Callable[[str], Any] | None) -> Conformance:
    report = Conformance()
    for case in cases:
        if progress is not None:
            progress(case[0])
        _, outcome, why = _bb.conformance_case(name, *case)
        if outcome == "skipped" and (lacks := _LACKS.fullmatch(why)):
            report._lacks(lacks[1])
        report._add(case[0], outcome, why)
    return report
