"""How far the values of two runs are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._author import is_backend
from ._hints import meant

if TYPE_CHECKING:
    from ._session import Session


def compare(
    session: Session, feeds: Any, other: Any, rtol: float, atol: float, per_node: bool
) -> list[dict[str, Any]]:
    from . import Session

    expected: Any
    values: list[tuple[str | None, str | None, str]]
    if isinstance(other, str) or is_backend(other):
        model, folder, _, _, memory, dims, limits, flags = session._arguments
        other = Session(model, other, None, dims, sess_options=session._options, folder=folder, limits=limits, **flags)
    if per_node:
        if not isinstance(other, Session):
            raise TypeError("`per_node` compares with a backend or a session")
        values = [*session._values()]
        names = [name for _, _, name in values]
        got, expected = session.run(names, feeds), other.run(names, feeds)
    else:
        values = [(None, None, port.name) for port in session.get_outputs()]
        got = session.run(None, feeds)
        names = [name for _, _, name in values]
        expected = other.run(None, feeds) if isinstance(other, Session) else _expected(names, other)
    rows = []
    for (node, operator, name), here, there in zip(values, got, expected):
        row: dict[str, Any] = {"value": name, "node": node, "operator": operator}
        row.update(_difference(here, there, rtol, atol))
        rows.append(row)
    return rows


def _expected(names: list[str], given: Any) -> list[Any]:
    """The expected outputs in the order of the model's.

    Raises:
        TypeError: they are neither a list nor a dict, nor the only output.
        ValueError: there are too few or too many of them, or one has a name that no output has.
    """
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in names]:
            raise ValueError(f"the model has no output {unknown[0]!r}{meant(str(unknown[0]), names)}; its outputs are {names}")
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"the expected value of the output {missing[0]!r} is missing")
        return [given[name] for name in names]
    if not isinstance(given, (list, tuple)):
        if hasattr(given, "shape") and len(names) == 1:
            return [given]
        raise TypeError(
            f"`other` must be the name of a backend, a session, or the expected outputs as a list, or a dict by name,"
            f" got `{type(given).__name__}`; the outputs are {names}"
        )
    if len(given) != len(names):
        raise ValueError(f"the model has {len(names)} outputs, got {len(given)} expected ones")
    return list(given)


def _difference(got: Any, expected: Any, rtol: float, atol: float) -> dict[str, Any]:
    """Says whether two values are alike, and why not."""
    if isinstance(expected, (list, tuple)) and isinstance(got, list):
        if len(got) != len(expected):
            return {"equal": False, "reason": f"{len(expected)} items expected, got {len(got)}"}
        for index, pair in enumerate(zip(got, expected)):
            found = _difference(*pair, rtol, atol)
            if not found["equal"]:
                return {**found, "reason": f"item {index}: {found['reason']}"}
        return {"equal": True}
    if isinstance(expected, dict) and isinstance(got, dict):
        if list(got) != list(expected):
            return {"equal": False, "reason": f"keys {list(expected)} expected, got {list(got)}"}
        return _difference(np.array(list(got.values())), np.array(list(expected.values())), rtol, atol)
    if expected is None or got is None:
        return {"equal": expected is got, "reason": f"{expected!r} expected, got {got!r}"}
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype:
        return {"equal": False, "reason": f"elements of {expected.dtype} expected, got {got.dtype}"}
    if got.shape != expected.shape:
        return {"equal": False, "reason": f"shape {expected.shape} expected, got {got.shape}"}
    if got.dtype.kind in "OUS":
        same = bool((got == expected).all())
        return {"equal": same, **({} if same else {"reason": "other strings"})}
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    here, there = got.astype(wide), expected.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        alike = (here == there) | (np.isnan(here) & np.isnan(there))
        error = np.where(alike, 0.0, np.abs(here - there))
        error = np.where(np.isnan(error), np.inf, error)
        allowed = atol + rtol * np.abs(np.where(np.isfinite(there), there, 0.0))
        far = error > allowed
    row: dict[str, Any] = {"equal": not bool(far.any()), "greatest_error": float(error.max(initial=0.0))}
    if far.any():
        # The element that exceeds its own tolerance most. The greatest error may be within the tolerance of a large number.
        excess = np.where(far, error - allowed, -np.inf)
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), error.shape))
        row["at"] = at
        row["reason"] = f"at {at}: {expected[at]!r} expected, got {got[at]!r}"
        row["different"] = int(far.sum())
    return row
