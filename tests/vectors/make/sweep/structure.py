"""Rows of sequences, optionals, maps and control flow, and the values that are no tensors."""
import numpy as np
from onnx import TensorProto, helper

from .cases import Refused, array, dtype_of, element, number_of
from .rows import row


class Sequence(list):
    """Values in order."""


class Map:
    """Keys, and as many values."""

    def __init__(self, keys, values):
        self.keys, self.values = keys, values


ABSENT = None
"""An optional that holds nothing."""


def inner(ty):
    """Takes the outermost `seq` or `optional` off a type."""
    return ty[ty.index("(") + 1:-1]


def sample(ty, first=1):
    """Makes a value of a type: three elements, or two tensors; an optional holds it."""
    if ty.startswith("tensor"):
        return array([first, first + 1, 0], ty)
    if ty.startswith("optional"):
        return sample(inner(ty), first)
    return Sequence([sample(inner(ty), first), array([[first + 2]], inner(ty))])


def type_proto(ty):
    """Makes ONNX's message of a type, with tensors of unknown rank."""
    if ty.startswith("optional"):
        return helper.make_optional_type_proto(type_proto(inner(ty)))
    if ty.startswith("seq"):
        return helper.make_sequence_type_proto(type_proto(inner(ty)))
    if ty.startswith("map"):
        key, value = inner(ty).split(", ")
        value = value if "(" in value else f"tensor({value})"
        return helper.make_map_type_proto(TensorProto.DataType.Value(key.upper()), type_proto(value))
    return helper.make_tensor_type_proto(number_of(ty), None)


def port(name, ty):
    return helper.make_value_info(name, type_proto(ty))


def seq(ty):
    return f"seq({ty})"


# Sequences.

@row("SequenceConstruct")
def construct(c):
    follow(c, "T", "S")
    a, b = [array(v, c.types["T"]) for v in ([1, 2], [3])]
    c.inputs, c.expected = [a, b], [Sequence([a, b])]


def follow(c, item, sequence):
    """Makes the types of a sequence and of what it holds agree, whichever was asked for."""
    if c.asked == sequence:
        wanted = inner(c.types[sequence])
        if wanted not in c.allowed[item]:
            raise Refused(f"{item} has no {wanted}")
        c.types[item] = wanted
    else:
        c.types[sequence] = seq(c.types[item])


@row("SequenceEmpty")
def empty(c):
    c.attributes, c.expected = {"dtype": number_of(c.types["S"])}, [Sequence()]


@row("SequenceAt")
def at(c):
    follow(c, "T", "S")
    held = sample(c.types["S"])
    c.inputs, c.expected = [held, array(-1, c.types["I"]) if "uint" not in c.types["I"] else array(1, c.types["I"])], [held[1]]


@row("SequenceErase")
def erase(c):
    held = sample(c.types["S"])
    c.inputs, c.expected = [held, array(0, c.types["I"])], [Sequence(held[1:])]


@row("SequenceInsert")
def insert(c):
    follow(c, "T", "S")
    held, new = sample(c.types["S"]), array([7], c.types["T"])
    c.inputs, c.expected = [held, new, array(1, c.types["I"])], [Sequence([held[0], new, held[1]])]


@row("SequenceLength")
def length(c):
    c.inputs, c.expected = [sample(c.types["S"])], [np.array(2)]


@row("ConcatFromSequence")
def concat(c):
    follow(c, "T", "S")
    a, b = [array(v, c.types["T"]) for v in ([1, 2], [3])]
    c.inputs, c.attributes, c.expected = [Sequence([a, b])], {"axis": 0}, [np.concatenate([a, b])]


@row("SplitToSequence")
def split(c):
    follow(c, "T", "S")
    x = array([1, 2, 0, 3], c.types["T"])
    c.inputs, c.attributes = [x, array([1, 3], c.types["I"])], {"axis": 0}
    c.expected = [Sequence([x[:1], x[1:]])]


@row("SequenceMap")
def mapped(c):
    """The body gives what it is given: the element, and the further operand beside it."""
    if c.asked == "V":
        c.types["S"] = c.types["V"] if c.types["V"].startswith("seq") else seq(c.types["V"])
        if c.types["S"] not in c.allowed["S"]:
            raise Refused("S has no sequence of them")
    else:
        c.types["V"] = inner(c.types["S"])
    held, more = sample(c.types["S"]), sample(c.types["V"], 5)
    item, v, tag = inner(c.types["S"]), c.types["V"], c.tag
    given = inner(v) if v.startswith("seq") else v
    nodes = [helper.make_node("Identity", [tag + "a"], [tag + "p"]), helper.make_node("Identity", [tag + "b"], [tag + "q"])]
    body = helper.make_graph(nodes, "body", [port(tag + "a", item), port(tag + "b", given)], [port(tag + "p", item), port(tag + "q", given)])
    c.inputs, c.attributes, c.outputs = [held, more], {"body": body}, 2
    c.expected = [held, more if v.startswith("seq") else Sequence([more, more])]


# Optionals.

@row("Optional")
def optional(c):
    if c.asked == "O":
        c.types["V"] = inner(c.types["O"])
    else:
        c.types["O"] = f"optional({c.types['V']})"
    value = sample(c.types["V"])
    c.inputs, c.expected = [value], [value]


@row("OptionalGetElement", "OptionalHasElement")
def optional_element(c):
    if c.op == "OptionalHasElement":
        c.inputs, c.expected = [sample(c.types["O"])], [np.array(True)]
        return
    if c.asked == "V":
        c.types["O"] = f"optional({c.types['V']})"
    else:
        c.types["V"] = inner(c.types["O"]) if c.types["O"].startswith("optional") else c.types["O"]
    value = sample(c.types["V"])
    c.inputs, c.expected = [value], [value]


# Control flow.

def graph(tag, name, nodes, inputs, outputs):
    return helper.make_graph(nodes, name, [port(tag + n, t) for n, t in inputs], [port(tag + n, t) for n, t in outputs])


@row("If")
def branch(c):
    """The branches give one of two values from outside."""
    ty = c.types["V"]
    a, b = sample(ty), sample(ty, 4)
    c.inputs, c.expected = [np.array(False), a, b], [b]

    def around(inputs, outputs, tag):
        branches = {f"{which}_branch": graph(tag, which, [helper.make_node("Identity", [name], [tag + which])], [], [(which, ty)])
                    for which, name in (("then", inputs[1]), ("else", inputs[2]))}
        if c.version < 14 and not ty.startswith("tensor"):
            raise Refused("nothing before Identity 14 gives a sequence from outside")
        return [helper.make_node("If", inputs[:1], outputs, **branches)]

    if c.version < 14 and not ty.startswith("tensor"):
        # Branches that make a sequence.
        item = inner(ty)
        a, b = array([1, 2], item), array([3], item)
        c.inputs, c.expected = [np.array(False), a, b], [Sequence([b, a])]

        def around(inputs, outputs, tag):
            branches = {f"{which}_branch": graph(tag, which, [helper.make_node("SequenceConstruct", names, [tag + which])], [], [(which, ty)])
                        for which, names in (("then", inputs[1:]), ("else", inputs[:0:-1]))}
            return [helper.make_node("If", inputs[:1], outputs, **branches)]

    c.types_of_inputs = ["tensor(bool)", None, None]
    if not ty.startswith("tensor") and c.version < 14:
        c.types_of_inputs = ["tensor(bool)", inner(ty), inner(ty)]
    else:
        c.types_of_inputs = ["tensor(bool)", ty, ty]
    c.around = around


@row("Loop")
def loop(c):
    """Two rounds; the body hands its value on, and tensors are stacked."""
    ty, tag = c.types["V"], c.tag
    value = sample(ty)
    tensors = ty.startswith("tensor")
    nodes = [helper.make_node("Identity", [tag + "c"], [tag + "d"])]
    outputs = [("d", "tensor(bool)"), ("w", ty)]
    if tensors or c.version >= 16:
        nodes.append(helper.make_node("Identity", [tag + "v"], [tag + "w"]))
    else:
        item = inner(ty)
        nodes += [helper.make_node("SequenceLength", [tag + "v"], [tag + "n"]),
                  helper.make_node("SequenceAt", [tag + "v", tag + "i"], [tag + "e"]),
                  helper.make_node("SequenceInsert", [tag + "v", tag + "e", tag + "n"], [tag + "w"])]
        del item
    if tensors:
        nodes.append(helper.make_node("Identity", [tag + "v"], [tag + "s"]))
        outputs.append(("s", ty))
    body = graph(tag, "body", nodes, [("i", "tensor(int64)"), ("c", "tensor(bool)"), ("v", ty)], outputs)
    c.inputs, c.attributes, c.outputs = [np.array(2), np.array(True), value], {"body": body}, 2 if tensors else 1
    final = value if tensors or c.version >= 16 else Sequence([*value, value[0], value[1]])
    c.expected = [final, np.stack([value, value])] if tensors else [final]


@row("Scan")
def scan(c):
    """Carries a state on, and stacks the rows it reads."""
    ty, tag = c.types["V"], c.tag
    state, rows = sample(ty), array([[1, 2], [3, 0]], ty)
    nodes = [helper.make_node("Identity", [tag + "a"], [tag + "p"]), helper.make_node("Identity", [tag + "b"], [tag + "q"])]
    body = graph(tag, "body", nodes, [("a", ty), ("b", ty)], [("p", ty), ("q", ty)])
    c.attributes, c.outputs = {"body": body, "num_scan_inputs": 1}, 2
    if c.version == 8:
        state, rows = state[None], rows[None]
        c.inputs, c.expected = [np.array([2]), state, rows], [state, rows]
    else:
        c.inputs, c.expected = [state, rows], [state, rows]
