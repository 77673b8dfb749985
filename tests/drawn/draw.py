"""Draws small models of all operators, and runs them on ONNX's evaluator and on ONNX Runtime.

`python tests/drawn/draw.py CASES SEED FIRST COUNT` writes records to its output, where CASES is the folder with the unpacked
cases of `tests/cases`. With `--save FOLDER` it writes each model and its tensors as a case of ONNX instead. The packages are
`onnx`, `onnxruntime`, `numpy` and `ml_dtypes`. A model depends on the seed and its number alone, and on the packages.

A record follows its length, and has blocks that follow their lengths: a description in JSON, the model, and three lists of
tensors, each with its count before it: inputs, results of the evaluator, results of ONNX Runtime. Numbers have four bytes in
little-endian order.

ONNX Runtime may end its process. So models are drawn by a child; if it ends, or is silent for too long, another one draws the
same model again without ONNX Runtime.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import resource
import select
import struct
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

import calls
import chains
import changes
import elements
import judges

SILENT = 60
"""Seconds after which a child is taken to hang."""
MEMORY = 12 << 30
LARGEST = 20000
"""Elements that a model may read or give."""
NEWEST_IR = 10


def count_of(x):
    return struct.pack("<I", x)


def block(data):
    return count_of(len(data)) + data


class Drawn:
    """A model with its tensors and what others answer."""

    def __init__(self, call, schema, number):
        self.call, self.schema, self.number = call, schema, number
        self.model, self.inputs, self.tags = None, {}, set()
        self.evaluator, self.ort = ("lacks", ""), ("lacks", "")

    def ok(self):
        return self.evaluator[0] == "ok" or self.ort[0] == "ok"


class Generator:
    """Draws models by their numbers."""

    def __init__(self, cases, seed):
        self.seed = seed
        self.schemas = calls.schemas()
        self.corpus = calls.corpus(cases, self.schemas)
        self.versions = sorted(((d, n, s.since) for (d, n), v in self.schemas.items() for s in v if (d, n, s.since) in self.corpus))
        self.by_version = {(d, n, s.since): s for (d, n), v in self.schemas.items() for s in v}
        self.words = collections.defaultdict(lambda: collections.defaultdict(set))
        for (domain, name, _), found in self.corpus.items():
            for call in found:
                for a in call.target.attribute:
                    if a.type == onnx.AttributeProto.STRING:
                        self.words[domain, name][a.name].add(a.s.decode(errors="replace"))
                    elif a.type == onnx.AttributeProto.STRINGS:
                        self.words[domain, name][a.name] |= {s.decode(errors="replace") for s in a.strings}

    def draw(self, number, with_ort, only=None):
        dice = random.Random(f"{self.seed} {number}")
        versions = [v for v in self.versions if only is None or v[1] == only]
        domain, name, since = dice.choice(versions)
        schema = self.by_version[domain, name, since]
        others = self.corpus[domain, name, since]
        best, count = None, dice.choice([0, 1, 1, 2, 2, 3, 4])
        for attempt in range(5):
            try:
                call = changes.copied(dice.choice(others))
                if dice.random() < 0.25:
                    call.opsets[domain] = dice.randint(since, max(since, schema.until))
                if dice.random() < 0.65:
                    changes.types(dice, call, schema)
                for _ in range(max(count - attempt // 2, 1 if attempt else 0)):
                    changes.change(dice, call, schema, self.words[domain, name], others)
                changes.seeded(dice, call)
                drawn = self.judged(dice, call, schema, number, with_ort)
            except (MemoryError, RecursionError):
                continue
            if drawn is None:
                continue
            best = drawn
            if drawn.ok() or dice.random() < 0.06:
                break
        if best is not None and best.ok() and dice.random() < 0.35 and name not in changes.RANDOM:
            longer = changes.copied(best.call)
            found = dict(best.ort[1]) if best.ort[0] == "ok" else {}
            found.update(best.evaluator[1] if best.evaluator[0] == "ok" else {})
            extended = chains.before(dice, longer) if dice.random() < 0.4 else False
            if dice.random() < 0.75 or not extended:
                extended = chains.behind(dice, longer, found) or extended
            if extended:
                drawn = self.judged(dice, longer, schema, number, with_ort)
                if drawn is not None and drawn.ok():
                    best = drawn
        return best

    def judged(self, dice, call, schema, number, with_ort):
        """Writes a call as a model and runs it; `None` if it is too large."""
        read = {n for node in call.nodes for n in node.input}
        read |= {n for node in call.nodes for n in calls.captured(node)}
        call.values = {n: x for n, x in call.values.items() if n in read}
        if is_large(call.values):
            return None
        drawn = Drawn(call, schema, number)
        constant_part = dice.choice([0.0, 0.0, 0.0, 0.3, 1.0])
        shapes = dice.choice(["all", "all", "named", "unknown", "none"])
        constants = {n for n, x in call.values.items() if number_of(x) in judges.FOUR_BITS or dice.random() < constant_part}
        infos = [info(n, x, shapes, dice) for n, x in call.values.items() if n not in constants]
        fixed = [numpy_helper.from_array(x, n) for n, x in call.values.items() if n in constants]
        outputs = [onnx.ValueInfoProto(name=o) for o in call.outputs]
        domains = {n.domain for n in call.nodes}
        opsets = {d: v for d, v in call.opsets.items() if d in domains or d == "" and len(call.opsets) > 1 or nested(call)}
        alias = "" in opsets and dice.random() < 0.02
        imports = [helper.make_opsetid("ai.onnx" if alias and not d else d, v) for d, v in sorted(opsets.items())]
        graph = helper.make_graph([spelled(n, alias) for n in call.nodes], "drawn", infos, outputs, fixed)
        drawn.model = helper.make_model(graph, opset_imports=imports, ir_version=max(NEWEST_IR, 11 if 23 <= opsets.get("", 0) else 10), producer_name="")
        types = judges.declared(drawn.model)
        formals = {n: f for n, f in zip(call.target.output, schema.outputs)} if call.target.op_type == schema.name else {}
        for output in drawn.model.graph.output:
            if output.name in types:
                output.type.CopyFrom(types[output.name])
                # Only the type is told: the extents that ONNX infers are at times wrong.
                if output.type.HasField("tensor_type"):
                    output.type.tensor_type.ClearField("shape")
        drawn.inputs = {n: x for n, x in call.values.items() if n not in constants}
        drawn.evaluator = judges.evaluator(drawn.model, drawn.inputs, call.outputs, types, formals)
        if drawn.evaluator[0] == "late":
            return None
        if drawn.evaluator[0] == "ok" and is_large(drawn.evaluator[1]):
            return None
        # ONNX Runtime has random numbers of its own.
        if with_ort and not any(n.op_type in changes.RANDOM for n in call.nodes):
            drawn.ort = judges.ort(drawn.model, drawn.inputs, call.outputs)
        if drawn.ort[0] == "ok" and is_large(drawn.ort[1]):
            return None
        drawn.tags = tags(drawn, shapes, constants, alias)
        return drawn


def is_large(found):
    """Returns whether tensors have too many elements, or none in extents that no tensor of `bb` has."""
    return sum(max(x.size, *x.shape, 0) if x.ndim else 1 for x in found.values()) > LARGEST


def nested(call):
    return any(a.HasField("g") for n in call.nodes for a in n.attribute)


def spelled(node, alias):
    if alias and not node.domain:
        node = onnx.NodeProto.FromString(node.SerializeToString())
        node.domain = "ai.onnx"
    return node


def number_of(x):
    return onnx.TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)


def info(name, x, shapes, dice):
    number = number_of(x)
    if shapes == "none":
        return helper.make_tensor_value_info(name, number, None)
    shape = list(x.shape)
    if shapes == "named":
        shape = [f"n{d}" if dice.random() < 0.5 else d for d in shape]
    if shapes == "unknown":
        shape = [None] * len(shape)
    return helper.make_tensor_value_info(name, number, shape)


def tags(drawn, shapes, constants, alias):
    """Returns words that say what is special about a model; the table of known disagreements is written with them."""
    call, found = drawn.call, {f"shapes:{shapes}", f"evaluator:{drawn.evaluator[0]}", f"ort:{drawn.ort[0]}"}
    target = next(n for n in call.nodes if n.op_type == drawn.schema.name and n.domain in (drawn.schema.domain, "ai.onnx"))
    if len(call.nodes) > 1:
        found.add("chain")
    if constants:
        found.add("constants")
    if alias:
        found.add("alias")
    for i, name in enumerate(target.input):
        formal = drawn.schema.input(i)
        label = formal.name if formal is not None else str(i)
        if name in call.values:
            x = call.values[name]
            found |= {f"{label}:{onnx.TensorProto.DataType.Name(number_of(x)).lower()}", f"{label}:rank{x.ndim}"}
            found |= {f"{label}:zero"} if x.size == 0 else set()
        found.add(f"{label}:{'absent' if not name else 'present'}")
    if len(set(target.input)) < len(target.input):
        found.add("aliased")
    for a in target.attribute:
        value = helper.get_attribute_value(a) if a.type in (1, 2, 3, 6, 7) else ""
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        if a.name in changes.FLAGS and a.type == 2 and a.i not in (0, 1):
            found.add("odd-flag")
        found.add(f"{a.name}={str(list(value) if a.type in (6, 7) else value)[:60]}".replace(" ", ""))
    found |= {f"{name}=absent" for name in drawn.schema.attributes if name not in {a.name for a in target.attribute}}
    for x in call.values.values():
        if x.size == 0:
            found.add("zero")
        if x.ndim == 0:
            found.add("rank0")
        if elements.is_float(x.dtype) and x.size:
            wide = np.asarray(x.astype(np.float64))
            finite = wide[np.isfinite(wide)]
            found |= {"nan"} if np.isnan(wide).any() else set()
            found |= {"inf"} if np.isinf(wide).any() else set()
            found |= {"great"} if finite.size and np.abs(finite).max() > 1e4 else set()
            found |= {"tiny"} if ((finite != 0) & (np.abs(finite) < 1e-4)).any() else set()
            found |= {"minus-zero"} if ((wide == 0) & np.signbit(wide)).any() else set()
    return found


def precisions(drawn):
    """Returns the types of floats in which a model computes."""
    found = {x.dtype for x in drawn.call.values.values()}
    found |= {x.dtype for answer in (drawn.evaluator, drawn.ort) if answer[0] == "ok" for x in answer[1].values()}
    for node in drawn.call.nodes:
        found |= {elements.numpy_type(a.i) for a in node.attribute if a.name in changes.TYPES and a.type == 2 and a.i in onnx.TensorProto.DataType.values() and a.i}
    return sorted(x.name for x in found if x != object and (elements.is_float(x) or x.kind == "c"))


def record(drawn):
    nodes = drawn.call.nodes
    description = {
        "number": drawn.number, "operator": drawn.schema.name, "domain": drawn.schema.domain, "since": drawn.schema.since,
        "nodes": [n.op_type for n in nodes], "tags": sorted(drawn.tags), "class": changes.class_of(nodes),
        "precisions": precisions(drawn),
        "random": any(n.op_type in changes.RANDOM for n in nodes),
        "evaluator": drawn.evaluator[0], "ort": drawn.ort[0],
        "messages": [x[1] if x[0] != "ok" else "" for x in (drawn.evaluator, drawn.ort)],
    }
    parts = [block(json.dumps(description).encode()), block(drawn.model.SerializeToString())]
    for found in (drawn.inputs, drawn.evaluator[1], drawn.ort[1]):
        found = found if isinstance(found, dict) else {}
        parts.append(count_of(len(found)))
        parts += [block(numpy_helper.from_array(x, n).SerializeToString()) for n, x in found.items()]
    return block(b"".join(parts))


def child(arguments):
    """Draws models and writes frames: `b` and a number before each, `r` and a record for each, `n` where there is none."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    generator = Generator(arguments.cases, arguments.seed)
    for number in range(arguments.first, arguments.first + arguments.count):
        out.write(b"b" + count_of(number))
        out.flush()
        drawn = generator.draw(number, number != arguments.without_ort, arguments.only)
        try:
            written = b"n" if drawn is None else b"r" + record(drawn)
        except Exception as error:  # noqa: BLE001: a model that NumPy cannot write is none
            print(f"model {number}: {error!r}", file=sys.stderr)
            written = b"n"
        out.write(written)
        out.flush()


class Children:
    """A child that is started again whenever it ends too early."""

    def __init__(self, arguments):
        self.arguments, self.process = arguments, None

    def start(self, first, count, without_ort):
        a = self.arguments
        command = [sys.executable, __file__, a.cases, str(a.seed), str(first), str(count), "--child", "--without-ort", str(without_ort)]
        command += ["--only", a.only] if a.only else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if not a.verbose else None, bufsize=0)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def read(self, count):
        """Reads bytes; `None` if the child ended or is silent."""
        data = b""
        while len(data) < count:
            ready, _, _ = select.select([self.process.stdout], [], [], SILENT)
            part = self.process.stdout.read(count - len(data)) if ready else b""
            if not part:
                return None
            data += part
        return data

    def frame(self):
        kind = self.read(1)
        if kind in (b"b", b"r"):
            size = self.read(4)
            if size is None:
                return None
            if kind == b"b":
                return "begun", struct.unpack("<I", size)[0]
            data = self.read(struct.unpack("<I", size)[0])
            return data and ("record", size + data)
        return ("none", None) if kind == b"n" else None


def parent(arguments):
    out = sys.stdout.buffer
    children, end = Children(arguments), arguments.first + arguments.count
    at, without = arguments.first, -1
    lost = 0
    while at < end:
        children.start(at, end - at, without)
        while at < end:
            frame = children.frame()
            if frame is None:
                break
            if frame[0] == "record":
                out.write(frame[1])
                out.flush()
            if frame[0] != "begun":
                at += 1
        children.stop()
        if at < end:
            # What ends a child twice is left out.
            if without == at:
                at, lost = at + 1, lost + 1
            else:
                without = at
                print(f"model {at}: ONNX Runtime or the evaluator ended the process", file=sys.stderr)
    print(f"{lost} models could not be drawn", file=sys.stderr)


def save(arguments):
    generator = Generator(arguments.cases, arguments.seed)
    for number in range(arguments.first, arguments.first + arguments.count):
        drawn = generator.draw(number, number != arguments.without_ort, arguments.only)
        if drawn is None:
            continue
        folder = pathlib.Path(arguments.save) / str(number)
        data = folder / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        onnx.save(drawn.model, folder / "model.onnx")
        for name, answer in (("evaluator", drawn.evaluator), ("ort", drawn.ort)):
            print(number, name, answer[0], answer[1])
        for prefix, found in (("input", drawn.inputs), ("output", (drawn.evaluator if drawn.evaluator[0] == "ok" else drawn.ort)[1])):
            for i, (name, x) in enumerate(found.items() if isinstance(found, dict) else []):
                (data / f"{prefix}_{i}.pb").write_bytes(numpy_helper.from_array(x, name).SerializeToString())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    for name in ("seed", "first", "count"):
        parser.add_argument(name, type=int)
    parser.add_argument("--save")
    parser.add_argument("--only", help="draws calls of one operator")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--without-ort", type=int, default=-1)
    arguments = parser.parse_args()
    (child if arguments.child else save if arguments.save else parent)(arguments)


if __name__ == "__main__":
    main()
