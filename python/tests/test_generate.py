"""Language models. Builds without the feature `generate`, or without a model in BB_LANGUAGE_MODEL, skip what needs them."""

import os
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
    with pytest.raises(bb.MissingPackage, match="generate"):
        bb.Generator("model.gguf")


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
