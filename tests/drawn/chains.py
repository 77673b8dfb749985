"""Adds nodes before and behind a call, so that what planners fuse, fold and move is drawn, too."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper

import elements

FLOATS = {np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)}


def before(dice, call):
    """Writes an operand as the result of a node that moves or negates elements."""
    names = [n for n in call.target.input if n in call.values]
    if not names or call.opsets.get("", 0) < 13:
        return False
    name = dice.choice(names)
    x = call.values[name]
    fresh, kind = name + "_before", dice.random()
    nodes = []
    if kind < 0.35 and x.ndim >= 2:
        order = list(range(x.ndim))
        dice.shuffle(order)
        nodes.append(helper.make_node("Transpose", [fresh], [name], perm=[int(i) for i in np.argsort(order)]))
        value = np.ascontiguousarray(np.transpose(x, order))
    elif kind < 0.5 and x.ndim and x.size:
        call.values[name + "_shape"] = np.array(x.shape, np.int64)
        nodes.append(helper.make_node("Reshape", [fresh, name + "_shape"], [name]))
        value = x.reshape(-1)
    elif kind < 0.6 and x.dtype == np.float32:
        nodes.append(helper.make_node("Cast", [fresh], [name], to=T.FLOAT))
        value = x.astype(np.float64)
    elif kind < 0.7 and x.ndim and x.shape[0] > 1:
        call.values[name + "_rest"] = x[1:]
        nodes.append(helper.make_node("Concat", [fresh, name + "_rest"], [name], axis=0))
        value = x[:1]
    elif kind < 0.8 and x.dtype in FLOATS:
        nodes.append(helper.make_node("Neg", [fresh], [name]))
        value = -x
    elif kind < 0.9:
        nodes.append(helper.make_node("Identity", [fresh], [name]))
        value = x
    else:
        call.values[name + "_axes"] = np.array([0], np.int64)
        nodes.append(helper.make_node("Squeeze", [fresh, name + "_axes"], [name]))
        value = x[np.newaxis]
    del call.values[name]
    call.values[fresh] = value
    call.nodes[0:0] = nodes
    return True


def behind(dice, call, found):
    """Adds nodes that read a result; `found` are the results by name."""
    names = [n for n in call.outputs if n in found and found[n].dtype in FLOATS | {np.dtype(np.int32), np.dtype(np.int64)}]
    if not names or call.opsets.get("", 0) < 13:
        return False
    name = dice.choice(names)
    shape, dtype = list(found[name].shape), found[name].dtype
    opset = call.opsets[""]
    for step in range(dice.choice([1, 1, 2, 3])):
        made = follower(dice, name, shape, dtype, f"{step}", opset)
        if made is None:
            continue
        nodes, values, kept, shape, dtype = made
        call.nodes += nodes
        call.values.update(values)
        if dice.random() < 0.8 and name in call.outputs:
            call.outputs.remove(name)
        name = kept
        call.outputs.append(name)
        if dtype not in FLOATS:
            break
    return True


ACTIVATIONS = ["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Sqrt", "Erf", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Identity", "Floor", "Round",
               "Reciprocal", "Sign", "Selu", "Softsign"]


def follower(dice, name, shape, dtype, step, opset):
    """Returns nodes, constants, the last result, and its shape and type."""
    out, rank = f"{name}_{step}", len(shape)
    kind = dice.random()
    is_float = dtype in FLOATS

    def constant(of):
        return elements.draw(dice, dtype, of, "normal" if is_float else "small")

    if kind < 0.25:
        ops = ACTIVATIONS if is_float else ["Neg", "Abs", "Identity", "Relu"]
        op = dice.choice([o for o in ops if o != "Relu" or is_float or opset >= 14])
        return [helper.make_node(op, [name], [out])], {}, out, shape, dtype
    if kind < 0.5:
        op = dice.choice(["Add", "Mul", "Sub", "Add", "Mul", "Max", "Min"] + (["Div", "PRelu"] if is_float else []))
        of = [1 if dice.random() < 0.5 else d for d in shape]
        of = of[dice.randint(0, rank):] if dice.random() < 0.4 else of
        operands = [name, out + "_c"] if dice.random() < 0.7 or op == "PRelu" else [out + "_c", name]
        return [helper.make_node(op, operands, [out])], {out + "_c": constant(of)}, out, shape, dtype
    if kind < 0.6 and rank:
        order = list(range(rank))
        dice.shuffle(order)
        return [helper.make_node("Transpose", [name], [out], perm=order)], {}, out, [shape[i] for i in order], dtype
    if kind < 0.66:
        to = dice.choice([T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT32, T.INT64])
        return [helper.make_node("Cast", [name], [out], to=to)], {}, out, shape, elements.numpy_type(to)
    if kind < 0.72 and rank and is_float:
        axis = dice.randrange(rank)
        return [helper.make_node(dice.choice(["Softmax", "LogSoftmax"]), [name], [out], axis=axis)], {}, out, shape, dtype
    if kind < 0.82 and rank:
        axis, keep = dice.randrange(rank), dice.randint(0, 1)
        op = dice.choice(["ReduceSum", "ReduceSum"] + (["ReduceMean", "ReduceMax"] if opset >= 18 else []))
        of = shape[:axis] + ([1] if keep else []) + shape[axis + 1:]
        return [helper.make_node(op, [name, out + "_a"], [out], keepdims=keep)], {out + "_a": np.array([axis], np.int64)}, out, of, dtype
    if kind < 0.88:
        return [helper.make_node("Reshape", [name, out + "_s"], [out])], {out + "_s": np.array([-1], np.int64)}, out, [
            int(np.prod(shape, dtype=np.int64))], dtype
    if kind < 0.94 and rank and shape[-1]:
        columns = dice.choice([1, 2, 3])
        right = constant([shape[-1], columns])
        nodes = [helper.make_node("MatMul", [name, out + "_w"], [out])]
        if dice.random() < 0.5:
            nodes = [helper.make_node("MatMul", [name, out + "_w"], [out + "_m"]), helper.make_node("Add", [out + "_m", out + "_b"], [out])]
            return nodes, {out + "_w": right, out + "_b": constant([columns])}, out, shape[:-1] + [columns], dtype
        return nodes, {out + "_w": right}, out, shape[:-1] + [columns], dtype
    if kind < 0.97 and is_float:
        low, high = sorted(float(x) for x in constant([2]))
        return [helper.make_node("Clip", [name, out + "_l", out + "_h"], [out])], {
            out + "_l": np.array(low, dtype), out + "_h": np.array(high, dtype)}, out, shape, dtype
    if rank:
        axis = dice.randrange(rank)
        of = list(shape)
        of[axis] *= 2
        return [helper.make_node("Concat", [name, name], [out], axis=axis)], {}, out, of, dtype
    return None
