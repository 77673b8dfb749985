"""Changes a call: its element types, extents, elements, attributes, operands and results.

Each change returns whether it changed something. The result need not be valid.
"""
import copy
import math

import numpy as np
import onnx
from onnx import AttributeProto as A
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import elements

# Operands with extents, axes and counts, whose number of elements says something about the rank of others.
PARAMETERS = set("""shape axes axis starts ends steps repeats pads k split sizes scales roi depth size image_shape block_shape dft_length frame_step
frame_length num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz max_output_boxes_per_class sections position new_axes start
limit delta M n condition_shape max_length min_length num_beams num_return_sequences length_penalty repetition_penalty tiles target_shape
output_shape training_mode ratio""".split())
INDICES = {"indices", "sequence_lens", "I", "target", "positions", "position_ids", "input_ids", "index", "write_indices"}
POSITIVE = {"scale", "data_scale", "reduced_scale", "S", "scale_A", "scale_B", "x_scale", "y_scale", "a_scale", "b_scale", "w_scale", "input_var", "var", "A_scale", "B_scale", "C_scale", "X_scale", "Y_scale",
            "W_scale", "scales"}
TYPES = {"to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision"}
FLAGS = set("""keepdims transA transB transBatchA transBatchB exclusive reverse ceil_mode count_include_pad broadcast largest sorted training_mode align_corners
onesided inclusive noop_with_empty_axes select_last_index saturate exclude_outside antialias fmod allowzero center_point_box periodic
linear_before_reset input_forget is_test spatial unidirectional interleaved qk_norm do_rotary channels_last upper is_causal rotary_interleaved
use_sparse_mixer normalize_routing_weights positive smooth_softmax no_past_kv past_present_share_buffer zeros""".split())
# Operators whose results are elements of operands, numbers that are exact, or truth values.
MOVES = set("""Identity Reshape Flatten Squeeze Unsqueeze Transpose Concat Split Slice Gather GatherElements GatherND ScatterElements ScatterND Scatter
Pad Expand Tile Where TopK Unique Compress ReverseSequence DepthToSpace SpaceToDepth SequenceAt SequenceConstruct SequenceInsert SequenceErase
SequenceEmpty SequenceLength SplitToSequence ConcatFromSequence Optional OptionalGetElement OptionalHasElement Trilu EyeLike OneHot NonZero Shape Size
ConstantOfShape Constant BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitCast MaxUnpool CenterCropPad Hardmax TensorScatter And Or Xor Not
IsNaN IsInf StringConcat StringSplit StringNormalizer RegexFullMatch LabelEncoder CategoryMapper ArrayFeatureExtractor DictVectorizer ExpandDims
ReorderInput ReorderOutput MemcpyFromHost MemcpyToHost Range""".split())
CHOICES = set("""Max Min Abs Neg Sign Ceil Floor Round ReduceMax ReduceMin ArgMax ArgMin MaxPool GlobalMaxPool Relu Equal Greater Less
GreaterOrEqual LessOrEqual Cast CastLike Clip If Loop Scan SequenceMap MaxRoiPool NonMaxSuppression""".split())
ELEMENTWISE = set("""Add Sub Mul Div Pow Mod Exp Log Sqrt Reciprocal Sinh Cosh Tanh Sigmoid Softplus Softsign LeakyRelu PRelu ThresholdedRelu
QuantizeLinear DequantizeLinear ScaledTanh Scale ImageScaler Binarizer Imputer""".split())
# Functions whose usual formulas subtract numbers of the size of the operands.
CANCELLING = set("""Sin Cos Tan Asin Acos Atan Asinh Acosh Atanh Erf Elu Selu Celu HardSigmoid HardSwish Mish Gelu Swish Shrink Sum Mean Affine
ParametricSoftplus FastGelu QuickGelu BiasGelu Scaler""".split())
# Operators of bytes for which no text says where a quotient between two bytes is rounded to.
NEIGHBOURS = set("""QLinearAdd QLinearMul QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QLinearConcat
QLinearReduceMean QLinearWhere QGemm""".split())
RANDOM = set("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli Dropout Sampling".split())


def kind_of(op):
    """Returns how exactly results of an operator are determined, one of `CLASSES`."""
    sets = [("moves", MOVES), ("choices", CHOICES), ("elementwise", ELEMENTWISE), ("cancelling", CANCELLING), ("neighbours", NEIGHBOURS)]
    return next((name for name, ops in sets if op in ops), "sums")


CLASSES = ["moves", "choices", "elementwise", "cancelling", "sums", "neighbours"]


def all_nodes(nodes):
    """Yields nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for a in node.attribute:
            if a.HasField("g"):
                yield from all_nodes(a.g.node)


def class_of(nodes):
    """Returns how exactly the results of nodes are determined."""
    worst = max((kind_of(n.op_type) for n in all_nodes(nodes)), key=CLASSES.index)
    # A result of one function may cancel in the next one.
    return "cancelling" if worst == "elementwise" and len(nodes) > 1 else worst


def operands(call, schema, data=True):
    """Returns index, name and formal of the operands that hold data, or of those that are parameters."""
    found = []
    for i, name in enumerate(call.target.input):
        formal = schema.input(i)
        if name in call.values and formal is not None and (formal.name in PARAMETERS and not is_variable(schema, formal)) != data:
            found.append((i, name, formal))
    return found


def is_variable(schema, formal):
    """Returns whether a parameter's name belongs to data: some operators call their data by such a name."""
    return formal.name in ("scales", "roi") and schema.name not in ("Resize", "Upsample") or formal is schema.inputs[0] and schema.name not in (
        "ConstantOfShape", "Range", "MelWeightMatrix", "HannWindow", "HammingWindow", "BlackmanWindow")


def own(call, name, i):
    """Gives an operand a name of its own if another operand has the same."""
    node = call.target
    if sum(list(n.input).count(name) for n in call.nodes) > 1:
        fresh = f"{name}_{i}"
        while fresh in call.values:
            fresh += "_"
        call.values[fresh] = call.values[name]
        node.input[i] = fresh
        return fresh
    return name


def types(dice, call, schema):
    """Chooses another element type for a type variable."""
    several = {f.type: f.types for f in schema.inputs + schema.outputs if len(f.types) > 1}
    if not several:
        return False
    variable = dice.choice(sorted(several))
    number = dice.choice(several[variable])
    if number == T.UNDEFINED:
        return False
    dtype, changed = elements.numpy_type(number), False
    for i, name in enumerate(list(call.target.input)):
        formal = schema.input(i)
        if formal is not None and formal.type == variable and name in call.values:
            name = own(call, name, i)
            call.values[name] = elements.cast(call.values[name], dtype)
            changed = True
    if not changed and len(call.nodes) > 1:
        for name, x in call.values.items():
            if x.dtype == next(iter(call.values.values())).dtype:
                call.values[name], changed = elements.cast(x, dtype), True
    for a in call.target.attribute:
        if a.name in TYPES and any(o.type == variable for o in schema.outputs) and a.type == A.INT and not changed:
            a.i, changed = number, True
        if a.type == A.TENSOR and (not changed or schema.name == "TreeEnsemble" and a.name != "nodes_modes"):
            a.t.CopyFrom(numpy_helper.from_array(elements.cast(numpy_helper.to_array(a.t), dtype), a.t.name))
            changed = True
    return changed


EXTENTS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8]


def resized(x, shape):
    """Repeats or drops elements until they have a shape."""
    count = int(np.prod(shape, dtype=np.int64))
    if x.size == 0:
        return np.zeros(shape, x.dtype) if x.dtype != object else np.full(shape, "a", object)
    flat = x.reshape(-1)
    return np.concatenate([flat] * math.ceil(count / x.size) or [flat])[:count].reshape(shape)


def extents(dice, call, schema):
    """Gives all dimensions of one extent another one."""
    data = operands(call, schema)
    found = sorted({d for _, name, _ in data for d in call.values[name].shape})
    if not found:
        return False
    old, new = dice.choice(found), dice.choice(EXTENTS)
    if old == new:
        return False
    if old <= 1 or dice.random() < 0.2:
        # Dimensions of 1 seldom belong together: one of them changes, or one of each operand.
        axis = None
        for _, name, _ in data if dice.random() < 0.5 else [dice.choice(data)]:
            x = call.values[name]
            axes = [i for i, d in enumerate(x.shape) if d == old]
            if axes:
                axis = axis if axis in axes else dice.choice(axes)
                shape = list(x.shape)
                shape[axis] = new
                call.values[name] = resized(x, shape)
        return True
    for name in {name for _, name, _ in data}:
        x = call.values[name]
        if old in x.shape:
            call.values[name] = resized(x, [new if d == old else d for d in x.shape])
    return True


def ranks(dice, call, schema):
    """Adds a dimension to the operands of the first one's rank, or takes one away."""
    data = operands(call, schema)
    if not data:
        return False
    rank = call.values[data[0][1]].ndim
    same = {name for _, name, _ in data if call.values[name].ndim == rank}
    if rank and dice.random() < 0.4:
        axis = dice.randrange(rank)
        for name in same:
            call.values[name] = np.take(call.values[name], 0, axis) if call.values[name].shape[axis] else np.sum(call.values[name], axis, dtype=None) if (
                call.values[name].dtype.kind in "iuf") else call.values[name]
    elif rank < 6:
        axis, extent = dice.randint(0, rank), dice.choice([1, 1, 2, 3])
        for name in same:
            x = call.values[name]
            call.values[name] = resized(x, x.shape[:axis] + (extent,) + x.shape[axis:])
    return True


def broadcast(dice, call, schema):
    """Makes an operand smaller in a way that may broadcast."""
    data = [d for d in operands(call, schema) if call.values[d[1]].ndim]
    if not data:
        return False
    i, name, _ = dice.choice(data)
    name = own(call, name, i)
    x = call.values[name]
    if dice.random() < 0.4:
        call.values[name] = x[(0,) * dice.randint(1, x.ndim)] if x.size else x
        call.values[name] = np.asarray(call.values[name], x.dtype)
    else:
        shape = [1 if dice.random() < 0.5 else d for d in x.shape]
        call.values[name] = resized(x, shape)
    return True


def values(dice, call, schema):
    """Draws the elements of an operand that holds data."""
    data = operands(call, schema)
    if not data:
        return False
    wild = kind_of(schema.name) not in ("sums", "neighbours")
    for i, name, formal in data if dice.random() < 0.6 else [dice.choice(data)]:
        name = own(call, name, i)
        x = call.values[name]
        if formal.name in INDICES and elements.is_int(x.dtype):
            most = max([d for _, n, _ in data for d in call.values[n].shape] + [1])
            low = -most if dice.random() < 0.4 else 0
            if dice.random() < 0.1:
                most += 1
            call.values[name] = np.array([dice.randint(low, max(low, most - 1)) for _ in range(x.size)]).astype(x.dtype).reshape(x.shape)
            continue
        kind = dice.choice(elements.WILD if wild else elements.KINDS)
        if formal.name in POSITIVE and (dice.random() < 0.9 or kind_of(schema.name) == "neighbours"):
            kind = "positive"
        elif formal.name.startswith("router"):
            # Which of equal experts is chosen, nothing says.
            kind = "normal"
        elif schema.name in ("Div", "Mod") and i == 1 and dice.random() < 0.8 and elements.is_int(x.dtype):
            kind = "positive"
        call.values[name] = elements.draw(dice, x.dtype, x.shape, kind)
    return True


def parameters(dice, call, schema):
    """Changes an extent, an axis or a count."""
    found = operands(call, schema, data=False)
    if not found:
        return False
    i, name, formal = dice.choice(found)
    name = own(call, name, i)
    x = call.values[name].copy()
    kind = dice.random()
    if x.dtype == bool:
        call.values[name] = ~x
        return True
    if x.ndim == 1 and kind < 0.15:
        call.values[name] = x[:-1] if dice.random() < 0.5 else np.concatenate([x, x[:1]])
        return True
    if x.size == 0:
        return False
    at = dice.randrange(x.size)
    if elements.is_int(x.dtype):
        low, high = elements.limits(x.dtype)
        new = dice.choice([0, 1, 2, 3, -1, -2, int(x.reshape(-1)[at]) + 1, int(x.reshape(-1)[at]) - 1, -int(x.reshape(-1)[at]) - 1])
        if dice.random() < 0.12:
            new = dice.choice([low, high, 2**31 - 1, -2**31, 2**31])
        new = min(max(new, low), high)
    elif x.dtype == object:
        new = dice.choice(elements.TEXTS)
    else:
        new = dice.choice([0.5, 1.0, 1.5, 2.0, 0.3, 3.0, 0.0, -1.0, float(np.asarray(x.reshape(-1)[at], np.float64)) * 2])
    flat = x.reshape(-1)
    flat[at] = new
    call.values[name] = flat.reshape(x.shape)
    return True


def attributes(dice, call, schema, words):
    """Changes, adds or removes an attribute; `words` are texts by the name of an attribute."""
    if not schema.attributes:
        return False
    node = call.target
    name = dice.choice(sorted(schema.attributes))
    if schema.name == "Constant" and name not in {a.name for a in node.attribute}:
        # A constant has one form.
        return False
    kind, required, default = schema.attributes[name]
    present = next((a for a in node.attribute if a.name == name), None)
    if present is not None and kind in ("GRAPH", "GRAPHS"):
        return False
    if present is not None and dice.random() < 0.3 and not required:
        node.attribute.remove(present)
        return True
    if present is None and default is not None and dice.random() < 0.3:
        node.attribute.add().CopyFrom(default)
        node.attribute[-1].name = name
        return True
    rank = max([call.values[n].ndim for n in node.input if n in call.values] + [1])
    usual = sorted(words.get(name, set()))
    texts = usual if usual and dice.random() < 0.9 else sorted(schema.words)
    new = attribute(dice, name, kind, present if present is not None else default, rank, texts,
                    schema.outputs[0].types if schema.outputs else [])
    if new is None:
        return False
    made = helper.make_attribute(name, new, attr_type=getattr(A, kind))
    if present is not None:
        node.attribute.remove(present)
    node.attribute.append(made)
    return True


def integer(dice, old, rank):
    if dice.random() < 0.04:
        return dice.choice([2**63 - 1, -2**63, 2**31, -2**31, 2**31 - 1])
    return dice.choice([0, 1, 0, 1, 2, 3, -1, -2, rank - 1, -rank, old + 1, old - 1, 4, 7])


def number(dice, old):
    if dice.random() < 0.05:
        return dice.choice([float("nan"), float("inf"), -float("inf"), 1e-45, 3e38, -0.0])
    return dice.choice([0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 0.1, 1e-5, old * 2, old + 1, 3.0])


def attribute(dice, name, kind, old, rank, words, types):
    """Returns a new value of an attribute; `types` are the element types of the result."""
    if kind == "INT":
        if name in TYPES:
            return dice.choice(types if types and dice.random() < 0.95 else [n for n in T.DataType.values() if n])
        if name in FLAGS and dice.random() < 0.98:
            return dice.randint(0, 1)
        return integer(dice, old.i if old is not None else 0, rank)
    if kind == "FLOAT":
        return number(dice, old.f if old is not None else 0.0)
    if kind == "STRING":
        return dice.choice(words) if words and dice.random() < 0.95 else dice.choice(elements.TEXTS)
    if kind in ("INTS", "FLOATS", "STRINGS"):
        if old is None and kind == "INTS":
            return [dice.choice([0, 1, 1, 2]) for _ in range(dice.choice([1, 2, 2, rank, rank - 2 if rank > 2 else 1, 2 * rank, 2 * max(rank - 2, 1)]))]
        if old is None:
            return None
        values = list({"INTS": old.ints, "FLOATS": old.floats, "STRINGS": old.strings}[kind])
        change = dice.random()
        if change < 0.1 and values:
            return values[:-1]
        if change < 0.2 and values:
            return values + [values[-1]]
        if not values:
            return None
        at = dice.randrange(len(values))
        if kind == "INTS":
            values[at] = integer(dice, values[at], rank) if dice.random() < 0.4 else abs(integer(dice, values[at], rank))
        elif kind == "FLOATS":
            values[at] = number(dice, values[at])
        elif name.startswith(("activations", "nodes_modes")) and words:
            values[at] = dice.choice(words)
        else:
            values[at] = dice.choice(elements.TEXTS)
        return values
    if kind == "TENSOR" and old is not None and old.t.data_type:
        x = numpy_helper.to_array(old.t)
        return numpy_helper.from_array(elements.draw(dice, x.dtype, x.shape, dice.choice(elements.WILD)), old.t.name)
    return None


def leave_out(dice, call, schema):
    """Leaves out an optional operand."""
    node = call.target
    found = [i for i, name in enumerate(node.input) if name and schema.input(i) is not None and (schema.input(i).optional or schema.input(i).variadic)]
    if not found:
        return False
    i = dice.choice(found)
    if schema.input(i).variadic:
        del node.input[i]
    else:
        node.input[i] = ""
    if dice.random() < 0.8:
        while node.input and not node.input[-1]:
            del node.input[-1]
    return True


def add_operand(dice, call, schema, others):
    """Adds an operand that another call of the operator has."""
    node = call.target
    other = dice.choice(others)
    missing = [i for i, name in enumerate(other.target.input) if name in other.values and (i >= len(node.input) or not node.input[i])]
    if not missing:
        return False
    i = dice.choice(missing)
    x = other.values[other.target.input[i]]
    formal = schema.input(i)
    same = [call.values[name] for j, name in enumerate(node.input) if name in call.values and schema.input(j).type == formal.type]
    if same:
        x = elements.cast(x, same[0].dtype)
    while len(node.input) <= i:
        node.input.append("")
    name = f"operand_{i}"
    node.input[i], call.values[name] = name, x
    return True


def alias(dice, call, schema):
    """Gives two operands of one type the same name."""
    del schema
    node = call.target
    pairs = [(i, j) for i, a in enumerate(node.input) for j, b in enumerate(node.input)
             if a != b and a in call.values and b in call.values and call.values[a].dtype == call.values[b].dtype]
    same = [p for p in pairs if call.values[node.input[p[0]]].shape == call.values[node.input[p[1]]].shape]
    if not pairs:
        return False
    i, j = dice.choice(same or pairs)
    node.input[i] = node.input[j]
    return True


def results(dice, call, schema):
    """Takes other results."""
    node = call.target
    count = len(schema.outputs)
    if count < 2 and not (schema.outputs and schema.outputs[0].variadic):
        return False
    if len(node.output) < count and dice.random() < 0.6:
        node.output.append(f"result_{len(node.output)}")
    elif len(node.output) > 1:
        i = dice.randrange(len(node.output))
        if i == len(node.output) - 1:
            del node.output[i]
        else:
            node.output[i] = ""
    else:
        return False
    call.outputs = [name for name in node.output if name]
    return bool(call.outputs)


def seeded(dice, call):
    """Gives operators that draw a seed."""
    for node in all_nodes(call.nodes):
        if node.op_type in RANDOM and node.domain == "":
            kept = [a for a in node.attribute if a.name != "seed"]
            del node.attribute[:]
            node.attribute.extend(kept)
            seed = dice.randint(0, 5)
            node.attribute.append(helper.make_attribute("seed", seed if node.op_type == "Dropout" else float(seed)))


def change(dice, call, schema, words, others):
    """Makes one change, of a kind that is drawn."""
    for _ in range(8):
        kind = dice.random()
        if kind < 0.24:
            done = values(dice, call, schema)
        elif kind < 0.42:
            done = extents(dice, call, schema)
        elif kind < 0.50:
            done = ranks(dice, call, schema)
        elif kind < 0.56:
            done = broadcast(dice, call, schema)
        elif kind < 0.64:
            done = parameters(dice, call, schema)
        elif kind < 0.86:
            done = attributes(dice, call, schema, words)
        elif kind < 0.90:
            done = leave_out(dice, call, schema)
        elif kind < 0.94:
            done = add_operand(dice, call, schema, others)
        elif kind < 0.96:
            done = alias(dice, call, schema)
        elif kind < 0.985:
            done = results(dice, call, schema)
        else:
            done = types(dice, call, schema)
        if done:
            return True
    return False


def copied(call):
    made = copy.copy(call)
    made.nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in call.nodes]
    made.values, made.opsets, made.outputs = dict(call.values), dict(call.opsets), list(call.outputs)
    return made
