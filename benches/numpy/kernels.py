"""Times NumPy's operations for `cargo bench -p bb-benches --bench kernels`, which runs this as a subprocess.

Each line of input is `OPERATION SIDE RUNS`: the operation is called RUNS times on arrays of SIDE by SIDE `float32`, each
call with a result of its own, and the seconds of all calls together are the line of output. The first line of output
names NumPy's version.
"""

import sys
import time

import numpy as np

OPERATIONS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "exp": lambda x, y: np.exp(x),
    "sum of all": lambda x, y: x.sum(),
    "sum of rows": lambda x, y: x.sum(axis=1),
    "sum of columns": lambda x, y: x.sum(axis=0),
    # `x.T` alone is a view.
    "transpose": lambda x, y: x.T.copy(),
}


def square(side):
    """Returns the numbers of the benchmark's other arrays."""
    i = np.arange(side * side, dtype=np.int64)
    return (((i * 7919) % 2003).astype(np.float32) / np.float32(1001.5) - np.float32(1)).reshape(side, side)


def main():
    operands = {}
    print(np.__version__, flush=True)
    for line in sys.stdin:
        *name, side, runs = line.split()
        operation = OPERATIONS[" ".join(name)]
        if side not in operands:
            operands[side] = square(int(side)), square(int(side))
        x, y = operands[side]
        runs = range(int(runs))
        start = time.perf_counter()
        for _ in runs:
            operation(x, y)
        print(time.perf_counter() - start, flush=True)


main()
