"""A backend that runs graphs: one method, where a compiler would take the graph. This one calls NumPy's kernels node by node.

    python graph_backend.py                  tests it
"""

from __future__ import annotations

from typing import Any

import bb
from numpy_backend import NumPy


class Graphs(bb.Backend):
    types = NumPy.types
    kernels = NumPy()

    def execute(self, graph: bb.Graph, inputs: dict[str, Any]) -> dict[str, Any]:
        values = {**graph.constants, **inputs}
        for node in graph.nodes:
            operands = [values[name] for name in node.inputs]
            if node.method == "concat":
                operands = [operands]
            results = getattr(self.kernels, node.method)(*operands, **node.params)
            values.update(zip(node.outputs, results if node.method == "split" else [results]))
        return {name: values[name] for name in graph.outputs}


if __name__ == "__main__":
    print(bb.conformance(Graphs))
