"""Language models: texts that follow prompts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict

from . import _bb
from ._options import backend_name, truth, whole, with_options
from .errors import MissingPackage


class Statistics(TypedDict):
    """How many tokens there were so far, and how long they took."""

    prompt_tokens: int
    prompt_seconds: float
    prompt_tokens_per_second: float
    answer_tokens: int
    answer_seconds: float
    answer_tokens_per_second: float


class Generation(Iterator[str]):
    """An iterator over the text that a model generates for a prompt. Each piece is computed when it is requested."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        text: str = next(self._native)
        return text

    @property
    def tokens(self) -> list[int]:
        """The tokens that were generated."""
        tokens: list[int] = self._native.tokens
        return tokens

    @property
    def end(self) -> str | None:
        """Why the generation ended: `end`, `stop`, `length` or `context`; `None` before."""
        end: str | None = self._native.end
        return end

    @property
    def statistics(self) -> Statistics:
        """How many tokens there were so far, and how long they took."""
        statistics: Statistics = self._native.statistics
        return statistics


class Generator:
    """A language model on a backend. Threads may share it: each generation has a sequence of its own.

    Args:
        path: a GGUF file, or a folder with a model in ONNX's format.
        backend: the name of the backend; with options in parentheses, as for `Session`; by default as there.
        backend_options: options of the backend by name.
        threads: the number of threads that compute; by default the number of processors.
        memory: the greatest number of bytes that the backend uses.
        context: the greatest number of tokens of a sequence, at most the model's context length; by default 8192.
        floats: whether weights of few bits are multiplied as floats, which is slower and rounds less.
        cache: how keys and values are kept: `f32`, `f16` in half of the memory, or `i8` in little more than a quarter of it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        backend: str | None = None,
        *,
        backend_options: Mapping[str, Any] | None = None,
        threads: int | None = None,
        memory: int | None = None,
        context: int | None = None,
        floats: bool = False,
        cache: Literal["f32", "f16", "i8"] = "f32",
    ) -> None:
        native = getattr(_bb, "_Generator", None)
        if native is None:
            raise MissingPackage("this build of `bb` has no language models; build it with the feature `generate`")
        name = with_options(backend_name(backend), backend_options or {})
        self._native = native(
            os.fspath(path),
            name,
            threads=whole("threads", threads),
            memory=whole("memory", memory),
            context=whole("context", context),
            floats=truth("floats", floats),
            cache=cache,
        )

    def generate(
        self,
        prompt: str | Sequence[int] | Sequence[Mapping[str, str]],
        *,
        raw: bool = False,
        max_tokens: int = 256,
        stop: str | Sequence[str] = (),
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_last: int = 0,
        bias: Mapping[int, float] | None = None,
        seed: int | None = None,
        json_schema: Mapping[str, Any] | str | None = None,
        json_object: bool = False,
        regex: str | None = None,
        lark: str | None = None,
        ignore_end: bool = False,
        chunk: int = 512,
    ) -> Generation:
        """Runs a prompt, and returns an iterator over the generated text.

        The interpreter's lock is released while tokens are computed. Ctrl-C raises `KeyboardInterrupt`.

        Args:
            prompt: a message of a user, a list of messages with `role` and `content`, or tokens as they are.
            raw: whether a text is continued as it is, rather than answered as a message.
            max_tokens: the greatest number of tokens that are generated.
            stop: texts that end the generation. They are not part of it.
            temperature: the divisor of logits; 0 takes the most probable token.
            top_k: how many of the most probable tokens may be drawn; 0 for all.
            top_p: the probability that the most probable tokens reach together; 1 for all.
            min_p: the least probability of a token, as a share of the greatest probability.
            typical: the probability that the tokens reach together whose surprise is nearest to the mean.
            repetition_penalty: the divisor of the logits of tokens that have occurred.
            presence_penalty: the number to subtract from a logit if the token was generated.
            frequency_penalty: the number to subtract from a logit for each time that the token was generated.
            penalty_last: how many of the last tokens the repetition penalty counts; 0 for all.
            bias: the numbers to add to the logits of tokens.
            seed: equal seeds draw equal tokens.
            json_schema: the text is JSON as this schema has it, a dict or its text in JSON.
            json_object: whether the text is an object of JSON.
            regex: the whole text matches this regular expression, in the syntax of Rust's crate `regex`.
            lark: the text is one of this grammar, in the form of Lark.
            ignore_end: whether tokens that end a text are passed over.
            chunk: how many tokens of the prompt are run at once.
        """
        if json_schema is not None and not isinstance(json_schema, str):
            json_schema = json.dumps(json_schema)
        native = self._native.generate(
            list(prompt) if not isinstance(prompt, str) else prompt,
            raw=truth("raw", raw),
            max_tokens=max_tokens,
            stop=[stop] if isinstance(stop, str) else list(stop),
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical=typical,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            penalty_last=penalty_last,
            bias=dict(bias or {}),
            seed=seed,
            json_schema=json_schema,
            json_object=truth("json_object", json_object),
            regex=regex,
            lark=lark,
            ignore_end=truth("ignore_end", ignore_end),
            chunk=chunk,
        )
        return Generation(native)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        tokens: list[int] = self._native.encode(text)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        text: str = self._native.decode(list(tokens))
        return text

    @property
    def context(self) -> int:
        """The greatest number of tokens of a sequence."""
        context: int = self._native.context
        return context

    @property
    def vocabulary(self) -> int:
        """The number of tokens that the model knows."""
        vocabulary: int = self._native.vocabulary
        return vocabulary

    @property
    def chats(self) -> bool:
        """Whether the model has a template for messages."""
        chats: bool = self._native.chats
        return chats
