"""Runs in the background, whose results a function of the caller takes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._options import RunOptions
    from ._session import Session


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked process does not have its parent's threads."""
    return ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1), thread_name_prefix="bb-run")


def start(
    session: Session,
    output_names: Any,
    feeds: Any,
    callback: Callable[[list[Any], Any, str], Any],
    user_data: Any,
    run_options: RunOptions | None,
) -> None:
    """Begins a run; `callback(outputs, user_data, error)` is called when it ends."""
    if not callable(callback):
        raise TypeError(f"`callback` must be a function, got `{type(callback).__name__}`")

    def run() -> None:
        error, outputs = "", []
        try:
            outputs = session.run(output_names, feeds, run_options)
        except Exception as raised:
            error = str(raised) or type(raised).__name__
        try:
            callback(outputs, user_data, error)
        except Exception as raised:
            threading.excepthook(threading.ExceptHookArgs((type(raised), raised, raised.__traceback__, None)))

    _threads(os.getpid()).submit(run)
