"""Asks a served language model with OpenAI's own client: whole answers and streamed ones, eight clients at once, and errors.

    python doors/serve/clients/openai_client.py --bb target/release/bb --model model.gguf [--speed] [--threads N] [--minutes M]

`--speed` measures how many tokens eight chats at once get in a second, and one alone, in turn on the same server. `--minutes` asks on for
so long, with clients that leave among them, and watches the server's memory.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import time
import urllib.request

import openai

QUESTIONS = [
    "What is the capital of Germany?",
    "Which planet is the largest?",
    "What is bread made of?",
    "Why is the sky blue?",
    "Name three animals that can fly.",
    "What does a clock show?",
    "How many days has a week?",
    "What is a library for?",
]


class Served:
    """`bb serve` with one language model, on a port of loopback."""

    def __init__(self, bb, model, *options):
        command = [bb, "serve", f"chat={model}", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.http = self.process.stdout.readline().split()[1]
        self.client = openai.OpenAI(base_url=f"{self.http}/v1", api_key="none", max_retries=0, timeout=600)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(60) == 0, "the server does not end well"

    def metric(self, name):
        text = urllib.request.urlopen(f"{self.http}/metrics").read().decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def memory(self):
        """Resident bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def ask(self, question, **how):
        how = {"temperature": 0, "max_tokens": 48} | how
        return self.client.chat.completions.create(model="chat", messages=[{"role": "user", "content": question}], **how)


def check(served):
    names = [model.id for model in served.client.models.list()]
    assert names == ["chat"], names
    whole = served.ask(QUESTIONS[0])
    text = whole.choices[0].message.content
    print("answer:", text)
    assert whole.choices[0].finish_reason in ("stop", "length") and text
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    parts, usage, reason = [], None, None
    for chunk in served.ask(QUESTIONS[0], stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            parts.append(choice.delta.content or "")
            reason = choice.finish_reason or reason
    assert "".join(parts) == text and reason == whole.choices[0].finish_reason, parts
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens > 0, "the prompt was there already"

    # The tokens are those of the command line, whatever runs beside them.
    alone = [served.ask(question).choices[0].message.content for question in QUESTIONS]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        joined = list(pool.map(lambda question: served.ask(question).choices[0].message.content, QUESTIONS))
    same = sum(a == b for a, b in zip(alone, joined))
    print(f"eight at once: {same} of 8 answers are those of one at a time")
    assert same == 8, [pair for pair in zip(alone, joined) if pair[0] != pair[1]]

    completion = served.client.completions.create(model="chat", prompt="The sun is", max_tokens=8, temperature=0, logprobs=2, stop=["\n\n"])
    assert len(completion.choices[0].logprobs.tokens) == completion.usage.completion_tokens
    several = served.ask(QUESTIONS[1], n=3, temperature=1.2, seed=7, max_tokens=16)
    again = served.ask(QUESTIONS[1], n=3, temperature=1.2, seed=7, max_tokens=16)
    assert [c.message.content for c in several.choices] == [c.message.content for c in again.choices]
    probable = served.ask(QUESTIONS[1], logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
    assert len(probable) == 4 and len(probable[0].top_logprobs) == 3
    vectors = served.client.embeddings.create(model="chat", input=["a cat", "a kitten", "the price of oil"]).data
    dot = lambda a, b: sum(x * y for x, y in zip(vectors[a].embedding, vectors[b].embedding))
    assert abs(dot(0, 0) - 1) < 1e-4 and dot(0, 1) > dot(0, 2), (dot(0, 1), dot(0, 2))

    for wrong, error in [
        (dict(model="other"), openai.NotFoundError),
        (dict(response_format={"type": "xml"}), openai.BadRequestError),
        (dict(response_format=of_schema({"type": "array", "uniqueItems": True})), openai.BadRequestError),
        (dict(temperature=-1), openai.BadRequestError),
    ]:
        try:
            served.client.chat.completions.create(**({"model": "chat", "messages": [{"role": "user", "content": "x"}]} | wrong))
            raise AssertionError(f"{wrong} is answered")
        except error as refused:
            assert refused.body["message"], refused
    constrained(served)
    leaves(served)
    print("OpenAI's client: all is well")


def of_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def constrained(served):
    """Answers are JSON of the schema, also when eight are generated at once with a schema each."""
    schema = {
        "type": "object",
        "properties": {
            "capital": {"type": "string", "maxLength": 20},
            "continent": {"enum": ["Europe", "Asia", "Africa"]},
            "rivers": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
        },
        "required": ["capital", "continent", "rivers"],
        "additionalProperties": False,
    }
    answer = served.ask(QUESTIONS[0], response_format=of_schema(schema), max_tokens=120).choices[0]
    parsed = json.loads(answer.message.content)
    print("by a schema:", answer.message.content)
    assert list(parsed) == ["capital", "continent", "rivers"] and answer.finish_reason == "stop", answer
    assert parsed["continent"] in schema["properties"]["continent"]["enum"] and len(parsed["rivers"]) <= 3
    stream = served.ask(QUESTIONS[0], response_format=of_schema(schema), max_tokens=120, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == answer.message.content
    thing = served.ask("Describe a cat as JSON.", response_format={"type": "json_object"}, max_tokens=200).choices[0]
    assert thing.finish_reason == "length" or isinstance(json.loads(thing.message.content), dict), thing
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        words = ["red", "green", "blue", "grey", "black", "white", "pink", "brown"]
        ask = lambda word: served.ask("A colour?", response_format=of_schema({"enum": [word, word + "ish"]})).choices[0].message.content
        for word, text in zip(words, pool.map(ask, words)):
            assert json.loads(text) in (word, word + "ish"), (word, text)


def leaves(served):
    """A client that leaves frees its part."""
    stream = served.ask(QUESTIONS[4], stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert served.metric('bb_generation_sequences{model="chat",state="running"}') == 1
    stream.close()
    until = time.monotonic() + 10
    while served.metric('bb_generation_sequences{model="chat",state="running"}') > 0:
        assert time.monotonic() < until, "a client that left is served for ten seconds"
        time.sleep(0.05)
    assert served.metric('bb_generation_cache_bytes{model="chat"}') == 0


def rate(served, clients, tokens):
    """Tokens of answers in a second, of so many chats at once."""
    def one(question):
        return served.ask(question, max_tokens=tokens, extra_body={"ignore_eos": True}).usage.completion_tokens

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        total = sum(pool.map(one, QUESTIONS[:clients]))
    return total / (time.monotonic() - start)


def speed(served):
    rate(served, 1, 8)
    ratios = []
    for _ in range(3):
        one, eight = rate(served, 1, 128), rate(served, 8, 128)
        ratios.append(eight / one)
        print(f"one chat: {one:.1f} tokens a second; eight at once: {eight:.1f}; {eight / one:.2f} times as many")
    print(f"the middle of three: {sorted(ratios)[1]:.2f} times")


def endures(served, minutes):
    """Asks on, with clients that leave among those that stay; the server's memory does not grow."""
    end, early, answered, left = time.monotonic() + 60 * minutes, None, 0, 0
    begin = time.monotonic()

    def client(number):
        nonlocal answered, left
        own = random.Random(number)
        while time.monotonic() < end:
            question = f"{own.choice(QUESTIONS)} Take {own.randrange(1000)} words."
            stream = served.ask(question, stream=True, max_tokens=own.randrange(4, 96), temperature=0.8)
            if own.random() < 0.3:
                next(iter(stream))
                stream.close()
                left += 1
            else:
                assert sum(1 for _ in stream) > 0
                answered += 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [pool.submit(client, number) for number in range(8)]
        while time.monotonic() < end:
            time.sleep(5)
            if early is None and time.monotonic() - begin > 60 * minutes / 3:
                early = served.memory()
        for one in running:
            one.result()
    late = served.memory()
    print(f"{minutes} minutes: {answered} answers, {left} clients left; {early / 1e6:.0f} MB after a third, {late / 1e6:.0f} MB at the end")
    assert late < early * 1.1, "the server's memory grows"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bb", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--minutes", type=float, default=0)
    given = parser.parse_args()
    with Served(given.bb, given.model, "--threads", given.threads, "--cache-bytes", "256MiB") as served:
        if given.speed:
            speed(served)
        elif given.minutes:
            endures(served, given.minutes)
        else:
            check(served)


main()
