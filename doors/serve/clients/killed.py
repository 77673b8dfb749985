"""Kills a server among requests and starts it again on the same ports: no answer is wrong, and the new one answers all."""

import argparse
import collections
import threading
import time

import tritonclient.http
from served import Case, Server
from triton import answers, inputs

CLIENTS = 4


def ask(address, case, stop, counts, lock):
    client = tritonclient.http.InferenceServerClient(address)
    while not stop.is_set():
        try:
            result = client.infer(case.name, inputs(tritonclient.http, case))
        except Exception:  # What a client sees of a dead server depends on where the request was: each is an error, none an answer.
            with lock:
                counts["errors"] += 1
            client.close()
            time.sleep(0.02)
            client = tritonclient.http.InferenceServerClient(address)
            continue
        case.check(answers(case, result))
        with lock:
            counts["answers"] += 1
    client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bb", required=True)
    options = parser.parse_args()
    case = Case("magika")
    server = Server(options.bb, [case], "--max-batch", "8")
    http, grpc = server.http, server.grpc
    stop, lock, counts = threading.Event(), threading.Lock(), collections.Counter()
    failed = []

    def client():
        try:
            ask(http, case, stop, counts, lock)
        except BaseException as error:
            failed.append(error)

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    try:
        for thread in clients:
            thread.start()
        for _ in range(3):
            time.sleep(1.5)
            before = counts["answers"]
            assert before > 0, "no answer before the server is killed"
            server.kill()
            time.sleep(0.3)
            errors = counts["errors"]
            assert errors > 0, "no client saw that the server is dead"
            begun = time.monotonic()
            server = Server(options.bb, [case], "--max-batch", "8", http=http, grpc=grpc)
            back = time.monotonic() - begun
            time.sleep(1.0)
            assert counts["answers"] > before, "no answer after the server was started again"
            print(f"killed and restarted: ready after {back:.2f} s; {before} answers before, {counts['answers']} by now")
    finally:
        stop.set()
        for thread in clients:
            thread.join(30)
        if server.process.poll() is None:
            server.end()
    assert not failed, failed
    print(f"{counts['answers']} answers, none wrong; {counts['errors']} requests ended with an error while no server ran")


if __name__ == "__main__":
    main()
