"""Runs ONNX's node tests on a plugin of `bb` in ONNX Runtime, and prints what was claimed, passed, failed and declined, with reasons.

    python onnx_cases.py LIBRARY EXCLUDE FOLDER [OPTION=VALUE …]

`EXCLUDE` is the repository's list of cases that do not count, `FOLDER` has cases in ONNX's layout, and options are those of the provider.
The exit status is 1 if a result is wrong, or if an error of the plugin reaches the program where ONNX Runtime alone has none.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from plugin import Plugin, arguments, cases, difference, first_line, sets, tolerance

#: Element types that arrays of NumPy do not have, so that Python's ONNX Runtime takes no such inputs.
FOREIGN = "tensor of a type that NumPy does not have"


def main() -> int:
    given_arguments = arguments(__doc__, "library", "exclude", "folder", options=True).parse_args()
    exclude, found = given_arguments.exclude, cases(given_arguments.folder)
    plugin, given = Plugin(given_arguments.library), dict(given_arguments.options)
    print(f"ONNX Runtime {ort.__version__}, ONNX {onnx.__version__}, provider {plugin.provider}, options {given}")
    lines = [line.partition(" # ") for line in Path(exclude).read_text(encoding="utf-8").splitlines()]
    excluded = {name.strip().removeprefix("node/") for name, _, _ in lines if name.startswith("node/")}
    counts: collections.Counter[str] = collections.Counter()
    nodes: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    by_operator: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    wrong: list[str] = []
    for case in found:
        if case.name in excluded:
            counts["in the repository's list of cases that do not count"] += 1
            continue
        outcome, text = run(plugin, case, given)
        report = plugin.report()
        claimed = [node for node in report if node["claimed"]]
        for node in report:
            word = "claimed" if node["claimed"] else "declined"
            nodes[word] += 1
            by_operator[f'{node["domain"] or "ai.onnx"} {node["operator"]}'][word] += 1
            if not node["claimed"]:
                reasons[general(node["reason"], node)] += 1
        if outcome == "passed":
            outcome = "passed, " + ("all claimed" if len(claimed) == len(report) and claimed else "some claimed" if claimed else "none claimed")
        elif outcome != FOREIGN:
            alone, said = run(None, case, {})
            apart = alone
            if outcome == "wrong" and claimed and len(claimed) < len(report):
                # Values between parts are rounded to their types, where ONNX Runtime alone keeps those of halves as floats.
                apart, _ = run(None, case, {}, apart=True)
            # What ONNX Runtime does before it asks the plugin, or with nodes that are declined, is not the plugin's.
            if outcome == apart and not (len(claimed) == len(report) and claimed and outcome == "wrong"):
                refused[text.split(" : ", 3)[-1][:110]] += 1
                outcome = f"{outcome}, nor by ONNX Runtime alone"
            else:
                wrong.append(f"{case.name}: {outcome}: {text}; ONNX Runtime alone: {alone} {said}")
        counts[outcome] += 1
    for title, counter in (("cases", counts), ("nodes", nodes), ("nodes declined, by reason", reasons), ("cases that ONNX Runtime alone does not run either", refused)):
        print(f"\n{title}")
        for name, count in counter.most_common():
            print(f"  {count:5}  {name}")
    print("\noperators of which nodes were declined (claimed, declined)")
    for name, counter in sorted(by_operator.items()):
        if counter["declined"]:
            print(f'  {name:48} {counter["claimed"]:4} {counter["declined"]:4}')
    for text in wrong:
        print(f"WRONG {text}")
    return 1 if wrong or not nodes["claimed"] else 0


def run(plugin: Plugin | None, case: Path, options: dict[str, str], *, apart: bool = False) -> tuple[str, str]:
    """Runs a case and returns `passed`, `wrong`, `refused` or why it cannot be tried, and a text.

    If `apart`, each value is an output, so that ONNX Runtime rounds it to its type.
    """
    model = onnx.load(case / "model.onnx")
    path: str | bytes = str(case / "model.onnx")
    if apart:
        every = onnx.load(path)
        there = {output.name for output in every.graph.output}
        made = [name for node in every.graph.node for name in node.output if name and name not in there]
        every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
        path = every.SerializeToString()
    try:
        if plugin:
            session = plugin.session(path, plain=True, **options)
        else:
            settings = ort.SessionOptions()
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = ort.InferenceSession(path, settings)
    except Exception as error:
        return "no session", first_line(error)
    relative, absolute = tolerance(case)
    names = [given.name for given in session.get_inputs()]
    for inputs, expected in sets(case, model.graph):
        if any(is_foreign(x) for x in inputs) or any(is_foreign(x) for x in expected):
            return FOREIGN, ""
        feeds: dict[str, Any] = {name: x for name, x in zip(names, inputs) if x is not None}
        try:
            results = session.run(None, feeds)
        except Exception as error:
            return "run fails", first_line(error)
        for at, (got, right) in enumerate(zip(results, expected)):
            if text := difference(got, right, relative, absolute):
                return "wrong", f"output {at}: {text}"
    return "passed", ""


def is_foreign(x: Any) -> bool:
    return hasattr(x, "dtype") and (x.dtype.kind == "V" or x.dtype.isbuiltin != 1) or isinstance(x, list) and any(map(is_foreign, x))


def general(reason: str, node: dict[str, Any]) -> str:
    """Leaves the names of nodes and values out of a reason."""
    for name in (node["node"], node["operator"]):
        if name:
            reason = reason.replace(f"`{name}`", "`…`")
    return reason[:150]


if __name__ == "__main__":
    sys.exit(main())
