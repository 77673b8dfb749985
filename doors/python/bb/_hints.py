"""Errors about names that do not exist, with the most similar name that does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that does not exist: the most similar one, if one is similar."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def no_attribute(text: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for an attribute that does not exist."""
    # Programs test for attributes with underscores, and discard the error.
    hint = "" if name.startswith("_") else meant(name, (other for other in known if not other.startswith("_")))
    # With `name` and without `obj`, the interpreter does not add a suggestion of its own.
    return AttributeError(text + hint, name=name)


def _keywords(function: Callable[..., Any]) -> list[str]:
    """The keywords in a function's signature."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, of in inspect.signature(function).parameters.items() if of.kind in named]


def check_keywords(function: Callable[..., Any], given: Iterable[str], known: Sequence[str] | None = None) -> None:
    """Refuses keyword arguments that a function does not have.

    Args:
        function: the function.
        given: the keywords of a call.
        known: the keywords that there are; by default those in the function's signature.
    """
    known = _keywords(function) if known is None else known
    for name in given:
        if name not in known:
            where = function.__qualname__.removesuffix(".__init__")
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}{meant(name, known)}")


def hinted(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Lets a function's error about an unexpected keyword suggest a similar one, as Python does from version 3.13 on."""
    known = _keywords(function)

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        check_keywords(function, kwargs, known)
        return function(*args, **kwargs)

    return call
