"""Times runs inside of an engine in Python, and answers requests for that.

A request is a subject, the folder of its inputs, a number of runs and a number of threads: as arguments, or separated by tabs as a
line of standard input, of which there may be several.
"""

import json
import statistics
import sys
import time


def timed(run, runs):
    """The median time of a run, and the average time that it spends on processors."""
    times = []
    before = time.process_time()
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times), "cpu_seconds": (time.process_time() - before) / runs}


def serve(measured):
    """Answers requests with what `measured(subject, room, runs, threads, kept)` returns, as lines of JSON."""
    arguments = sys.argv[1:]
    if arguments:
        subject, room, runs, threads = arguments
        print(json.dumps(measured(subject, room, int(runs), int(threads), False)))
        return
    for line in sys.stdin:
        subject, room, runs, threads = line.rstrip("\n").split("\t")
        try:
            answer = measured(subject, room, int(runs), int(threads), True)
        except Exception as error:  # The caller reports it, and asks for the next subject.
            answer = {"error": (str(error).splitlines() or [repr(error)])[0]}
        print(json.dumps(answer), flush=True)
