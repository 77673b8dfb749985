"""Puts load on a server: first as many requests as it answers, to know its capacity, then twice as many, at times that do not wait
for answers. Each answer is compared, each request is accounted for, and the server's memory is watched."""

import argparse
import asyncio
import collections
import json
import time

import numpy as np
import onnxruntime
from served import Case, serving

# As many as a queue holds and more, so that refusals come from the queue and not from the sockets.
CONNECTIONS = 200


class Request:
    """One request in the form for binary tensors, and the answer that is expected."""

    def __init__(self, case, row):
        ((name, array),) = case.inputs.items()
        (output,) = case.outputs
        self.expected = None
        self.input = name
        # Requests differ, so that an answer to another would be noticed.
        self.array = np.ascontiguousarray(np.roll(array, row, axis=-1))
        kinds = {"int32": "INT32", "int64": "INT64", "float32": "FP32"}
        datatype = kinds[self.array.dtype.name]
        head = {
            "inputs": [
                {
                    "name": name,
                    "shape": list(self.array.shape),
                    "datatype": datatype,
                    "parameters": {"binary_data_size": self.array.nbytes},
                }
            ],
            "outputs": [{"name": output, "parameters": {"binary_data": True}}],
        }
        text = json.dumps(head).encode()
        self.bytes = (
            f"POST /v2/models/{case.name}/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: {len(text)}\r\n"
            f"Content-Length: {len(text) + self.array.nbytes}\r\n\r\n"
        ).encode() + text + self.array.tobytes()


class Connection:
    def __init__(self, host, port):
        self.host, self.port = host, port
        self.reader = self.writer = None

    async def ask(self, request):
        """Returns the status and the body of an answer."""
        # A server may close a connection that was idle for long, as this one does; a client then asks on another.
        for reused in (self.writer is not None, False):
            if not reused:
                self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
            try:
                self.writer.write(request.bytes)
                head = await self.reader.readuntil(b"\r\n\r\n")
                break
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if not reused or getattr(error, "partial", b""):
                    raise
                self.close()
        status = int(head[9:12])
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
        body = await self.reader.readexactly(int(fields[b"content-length"]))
        if fields.get(b"connection") == b"close":
            self.close()
        text = int(fields.get(b"inference-header-content-length", len(body)))
        return status, body[text:]

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None


class Load:
    def __init__(self, server, requests):
        host, port = server.http.rsplit(":", 1)
        self.idle = [Connection(host, int(port)) for _ in range(CONNECTIONS)]
        self.requests = requests
        self.counts = collections.Counter()
        self.latencies = []

    async def one(self, number):
        request = self.requests[number % len(self.requests)]
        connection = self.idle.pop()
        begun = time.perf_counter()
        status, body = await connection.ask(request)
        took = time.perf_counter() - begun
        self.idle.append(connection)
        self.counts[status] += 1
        if status == 200:
            self.latencies.append(took)
            got = np.frombuffer(body, request.expected.dtype).reshape(request.expected.shape)
            if not np.allclose(got, request.expected, rtol=1e-3, atol=1e-5):
                self.counts["wrong"] += 1

    async def closed(self, clients, seconds):
        """Each client asks again as soon as it has an answer. Returns the answers per second."""
        end = time.monotonic() + seconds
        number = 0

        async def client():
            nonlocal number
            while time.monotonic() < end:
                number += 1
                await self.one(number)

        begun, before = time.monotonic(), self.counts[200]
        await asyncio.gather(*(client() for _ in range(clients)))
        return (self.counts[200] - before) / (time.monotonic() - begun)

    async def open(self, rate, seconds, watch):
        """Asks at a rate, whether answers come or not."""
        begun = last = time.monotonic()
        sent, tasks = 0, set()
        while (now := time.monotonic()) < begun + seconds:
            due = int((now - begun) * rate)
            while sent < due:
                if self.idle:
                    task = asyncio.create_task(self.one(sent))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    self.counts["sent"] += 1
                else:
                    # Every connection waits for an answer already.
                    self.counts["held back"] += 1
                sent += 1
            if now - last >= seconds / 20:
                last = now
                watch(now - begun)
            await asyncio.sleep(0.002)
        await asyncio.gather(*tasks)


def percentiles(seconds):
    return " ".join(f"p{p} {1e3 * np.percentile(seconds, p):.1f}" for p in (50, 90, 99)) + f" max {1e3 * max(seconds):.1f} ms"


async def compare(bb, case, requests, seconds):
    """Throughput and latency with and without joined requests, in alternating rounds."""
    rows = collections.defaultdict(list)
    for _ in range(3):
        for rows_at_most in (1, 8, 32):
            with serving(bb, [case], "--threads", "1", "--max-batch", str(rows_at_most), "--queue", "256") as server:
                for clients in (1, 16, 64):
                    load = Load(server, requests)
                    await load.closed(clients, seconds / 5)
                    load.latencies.clear()
                    rate = await load.closed(clients, seconds)
                    assert load.counts["wrong"] == 0 and set(load.counts) <= {200, "wrong"}, load.counts
                    rows[(clients, rows_at_most)].append((rate, load.latencies))
                    for connection in load.idle:
                        connection.close()
    print("| clients | rows at most | answers/s | p50 | p90 | p99 |\n|---|---|---|---|---|---|")
    for (clients, rows_at_most), rounds in sorted(rows.items()):
        rate = float(np.median([rate for rate, _ in rounds]))
        seconds = np.concatenate([latencies for _, latencies in rounds])
        p50, p90, p99 = (f"{1e3 * np.percentile(seconds, p):.2f} ms" for p in (50, 90, 99))
        print(f"| {clients} | {rows_at_most} | {rate:.0f} | {p50} | {p90} | {p99} |")


async def twice(bb, case, requests, seconds):
    with serving(bb, [case], "--threads", "1", "--max-batch", "8", "--queue", "64") as server:
        load = Load(server, requests)
        await load.closed(32, min(2.0, seconds / 2))
        capacity = await load.closed(32, min(10.0, seconds))
        assert load.counts["wrong"] == 0, load.counts
        print(f"capacity: {capacity:.0f} answers/s, {percentiles(load.latencies)}")
        load.counts.clear()
        load.latencies.clear()
        memory = []

        def watch(at):
            memory.append(server.resident())
            print(f"{at:6.0f} s {memory[-1] / 1e6:7.1f} MB  {dict(load.counts)}", flush=True)

        await load.open(2 * capacity, seconds, watch)
        counts = load.counts
        answered = counts[200] + counts[429]
        print(f"sent {counts['sent']}, answered {counts[200]}, refused (429) {counts[429]}, held back by the client {counts['held back']}")
        print(f"answers at {counts[200] / seconds:.0f}/s, {percentiles(load.latencies)}")
        assert counts["wrong"] == 0, counts
        assert answered == counts["sent"], f"{counts['sent'] - answered} requests have another answer or none: {counts}"
        assert counts[429] > 0, "twice the capacity, and nothing was refused"
        # The first tenth fills the allocator's pools.
        early, late = memory[len(memory) // 10], max(memory[-len(memory) // 4 :])
        print(f"memory: {early / 1e6:.1f} MB after a tenth, at most {late / 1e6:.1f} MB in the last quarter")
        assert late < early * 1.1 + 8e6, f"memory grew from {early} to {late} bytes: {memory}"
        for connection in load.idle:
            connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bb", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    case = Case("magika")
    requests = [Request(case, row) for row in range(32)]
    session = onnxruntime.InferenceSession(case.path, providers=["CPUExecutionProvider"])
    for request in requests:
        (request.expected,) = session.run(None, {request.input: request.array})
    case.check({next(iter(case.outputs)): requests[0].expected})
    if options.seconds >= 60:
        asyncio.run(compare(options.bb, case, requests, 2.0))
    asyncio.run(twice(options.bb, case, requests, options.seconds))


if __name__ == "__main__":
    main()
