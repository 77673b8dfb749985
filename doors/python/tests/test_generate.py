"""Language models. Builds without the feature `generate`, or without a model in BB_LANGUAGE_MODEL, skip what needs them."""

import json
import os
import re
import signal
import threading

import pytest

import bb
from bb import _bb

MODEL = os.environ.get("BB_LANGUAGE_MODEL")
built = hasattr(_bb, "_Generator")
needs_model = pytest.mark.skipif(not built or not MODEL, reason="no language model")


@pytest.mark.skipif(built, reason="this build has language models")
def test_builds_without_language_models_say_so():
    with pytest.raises(bb.MissingPackage, match="generate") as raised:
        bb.Generator("model.gguf")
    assert raised.value.kind == "configuration"


@pytest.mark.skipif(not built, reason="this build has no language models")
def test_files_that_are_no_models_are_errors(tmp_path):
    with pytest.raises(bb.FileError):
        bb.Generator(tmp_path / "absent.gguf")
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(bb.ModelError):
        bb.Generator(wrong)
    with pytest.raises(ValueError):
        bb.Generator(wrong, threads=0)
    with pytest.raises(ValueError, match="`f32`, `f16`, `i8`"):
        bb.Generator(wrong, cache="i4")


@pytest.fixture(scope="module")
def generator():
    return bb.Generator(MODEL, threads=1, context=512)


@needs_model
def test_texts_come_one_by_one(generator):
    generation = generator.generate("What is the capital of Germany?", max_tokens=6)
    texts = list(generation)
    assert "Berlin" in "".join(texts) and len(texts) > 1
    assert generation.end == "length" and len(generation.tokens) == 6
    assert generation.statistics["answer_tokens"] == 6
    messages = [{"role": "user", "content": "What is the capital of Germany?"}]
    assert list(generator.generate(messages, max_tokens=6)) == texts
    tokens = generator.encode("One, two, three,")
    raw = generator.generate("One, two, three,", raw=True, max_tokens=4)
    assert list(raw) == list(generator.generate(tokens, max_tokens=4))
    assert generator.decode(tokens) == "One, two, three,"


@needs_model
def test_options_that_are_out_of_range_are_errors(generator):
    with pytest.raises(bb.InputError):
        generator.generate("x", temperature=-1.0)
    with pytest.raises(bb.InputError):
        generator.generate([1 << 30])
    with pytest.raises(bb.InputError):
        generator.generate([])
    with pytest.raises(TypeError):
        generator.generate(7)
    with pytest.raises(TypeError):
        generator.generate([{"role": "user"}])


@needs_model
def test_other_threads_run_while_tokens_are_computed(generator):
    count = 0
    done = threading.Event()

    def work():
        nonlocal count
        while not done.is_set():
            count += 1

    thread = threading.Thread(target=work)
    thread.start()
    list(generator.generate("Tell me a story.", max_tokens=16))
    done.set()
    thread.join()
    assert count > 0


@needs_model
def test_ctrl_c_ends_a_generation(generator):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            list(generator.generate("Tell me a story.", max_tokens=64, ignore_end=True))
    timer.join()
    assert "".join(generator.generate("What is the capital of Germany?", max_tokens=8))


@needs_model
def test_answers_are_as_their_grammar_has_them(generator):
    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string", "maxLength": 20}, "population": {"type": "integer", "minimum": 0, "maximum": 99999999}},
        "required": ["capital", "population"],
        "additionalProperties": False,
    }
    generation = generator.generate("What is the capital of Germany?", json_schema=schema)
    answer = json.loads("".join(generation))
    assert list(answer) == ["capital", "population"] and isinstance(answer["population"], int)
    assert generation.end in ("stop", "end")
    assert "".join(generator.generate("Yes?", json_schema=json.dumps({"enum": ["yes"]}))) == '"yes"'
    date = "".join(generator.generate("When did the wall fall?", regex=r"\d{4}-\d{2}-\d{2}"))
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date)
    assert "".join(generator.generate("Count.", lark='start: "one" (", two")~2')) == "one, two, two"
    text = "".join(generator.generate("A cat?", json_object=True, max_tokens=200))
    assert text.startswith("{")


@needs_model
def test_wrong_grammars_are_errors(generator):
    with pytest.raises(bb.InputError, match="uniqueItems"):
        generator.generate("x", json_schema={"type": "array", "uniqueItems": True})
    with pytest.raises(bb.InputError, match="unclosed group"):
        generator.generate("x", regex="(")
    with pytest.raises(bb.LimitError):
        generator.generate("x", regex="a" * 20000)
    with pytest.raises(TypeError, match="one of"):
        generator.generate("x", regex="a", json_object=True)
