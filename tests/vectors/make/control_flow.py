"""If, Loop, Scan and SequenceMap: counts and conditions that are known, that inputs give, and that data decide."""
import numpy as np
from onnx import helper, numpy_helper, parser

from family import Family

f32 = np.float32


def body(text):
    """Parses a graph as ONNX writes it."""
    return parser.parse_graph(text)


def node(text, **graphs):
    """Parses a node; its subgraphs are given apart."""
    made = parser.parse_node(text)
    made.attribute.extend(helper.make_attribute(name, graph) for name, graph in graphs.items())
    return made


def const(name, value):
    """A node that gives a constant."""
    return helper.make_node("Constant", [], [name], value=helper.make_tensor(
        name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), np.shape(value), np.ravel(value).tolist()))


f = Family("control_flow", opset=21)
# ONNX's evaluator runs no round of a loop whose condition is left out; ONNX Runtime does.
LOOP = {"expected": "ort"}
x = np.array([[1, -2, 3], [0.5, 4, -1]], f32)

# If: what each branch gives may differ in shape; branches capture, and nest.
both = {"then_branch": body("g () => (float[N, M] y) { y = Neg(x) }"),
        "else_branch": body("g () => (float[N, M] y) { y = Transpose(x) }")}
for taken in (True, False):
    f.add(f"if_input_{taken}", [node("y = If(c)", **both)], {"x": x, "c": np.array(taken)}, outputs=["y"])
    data = [node("s = ReduceSum<keepdims = 0>(x)"), const("z", f32(0 if taken else 100)), node("c = Greater(s, z)"),
            node("y = If(c)", **both), node("w = Abs(y)")]
    f.add(f"if_data_{taken}", data, {"x": x}, outputs=["w", "y"])
inner = {"then_branch": body("g () => (float[N, M] r) { r = Exp(x) }"),
         "else_branch": body("g () => (float[N, M] r) { r = Sqrt(p) }")}
nested = body("g () => (float[N, M] y) { p = Mul(x, x) }")
nested.node.append(node("y = If(d)", **inner))
for d in (True, False):
    f.add(f"if_nested_{d}", [node("y = If(c)", then_branch=nested, else_branch=both["else_branch"])],
          {"x": x, "c": np.array(True), "d": np.array(d)}, outputs=["y"])

# Loop: carried values, collected ones, a count or a condition or both, captures.
double = body("""g (int64 i, bool c, float[N] a) => (bool k, float[N] b, float[N] s)
    { k = Identity(c)  b = Add(a, step)  s = Mul(b, step) }""")
start = np.array([1, 2, 3], f32)
for trips in (0, 1, 5):
    given = {"m": np.int64(trips), "a0": start, "step": np.array([1, 0.5, -1], f32)}
    # No parts have no extents.
    results = ["a", "s"] if trips else ["a"]
    expected = "ort" if trips else [start]
    f.add(f"loop_count_input_{trips}", [node('a, s = Loop(m, "", a0)', body=double)], given, outputs=results,
          expected=expected)
    f.add(f"loop_count_constant_{trips}", [const("m", np.int64(trips)), node('a, s = Loop(m, "", a0)', body=double)],
          {k: v for k, v in given.items() if k != "m"}, outputs=results, expected=expected)
until = body("""g (int64 i, bool c, float a) => (bool k, float b, float s)
    { b = Mul(a, two)  k = Less(b, limit)  s = Identity(b) }""")
for limit in (3, 100):
    f.add(f"loop_until_{limit}", [node('a, s = Loop("", c, a0)', body=until)],
          {"c": np.array(True), "a0": f32(1), "two": f32(2), "limit": f32(limit)}, outputs=["a", "s"],
          **LOOP)
f.add("loop_count_before_condition", [node("a, s = Loop(m, c, a0)", body=until)],
      {"m": np.int64(3), "c": np.array(True), "a0": f32(1), "two": f32(2), "limit": f32(1e9)}, outputs=["a", "s"], **LOOP)
f.add("loop_condition_false_at_once", [node("a, s = Loop(m, c, a0)", body=until), node("r = Neg(a)")],
      {"m": np.int64(3), "c": np.array(False), "a0": f32(7), "two": f32(2), "limit": f32(9)}, outputs=["r"],
      expected=[f32(-7)])
f.add("loop_scalar_count_of_one_element", [node('a, s = Loop(m, "", a0)', body=double)],
      {"m": np.array([2], np.int64), "a0": start, "step": start}, outputs=["a", "s"], **LOOP)
grows = body("""g (int64 i, bool c, float[N] a) => (bool k, float[M] b)
    { k = Identity(c)  b = Concat<axis = 0>(a, tail) }""")
f.add("loop_carried_extent_grows", [node('a = Loop(m, "", a0)', body=grows)],
      {"m": np.int64(4), "a0": start, "tail": np.array([9], f32)}, outputs=["a"], **LOOP)
takes = body("g (int64 i, bool c) => (bool k, float[M] r) { k = Identity(c)  r = Gather<axis = 1>(x, i) }")
f.add("loop_reads_its_round", [node('r = Loop(m, "")', body=takes)], {"m": np.int64(3), "x": x}, outputs=["r"], **LOOP)
slices = body("""g (int64 i, bool c, float[N] a) => (bool k, float[N] b)
    { k = Identity(c)  at = Constant<value_ints = [0]>()  from = Reshape(i, one)  end = Add(from, one)
      p = Slice(x, from, end, at)  q = Reshape(p, all)  b = Add(a, q) }""")
f.add("loop_slices_by_its_round", [node('a = Loop(m, "", a0)', body=slices)],
      {"m": np.int64(2), "x": x, "a0": start}, outputs=["a"], **LOOP,
      constants={"one": np.array([1], np.int64), "all": np.array([-1], np.int64)})
branchy = body("g (int64 i, bool c, float a) => (bool k, float b) { k = Identity(c)  d = Less(a, limit) }")
branchy.node.append(node("b = If(d)", then_branch=body("t () => (float r) { r = Mul(a, two) }"),
                         else_branch=body("e () => (float r) { r = Sub(a, two) }")))
f.add("loop_branches_by_data", [node('a = Loop(m, "", a0)', body=branchy)],
      {"m": np.int64(9), "a0": f32(1), "two": f32(2), "limit": f32(20)}, outputs=["a"], **LOOP)
outer = body("g (int64 j, bool oc, float[N] oa) => (bool ok, float[N] ob, float ot) { ok = Identity(oc) }")
outer.node.append(node('ob, os = Loop(j, "", oa)', body=double))
outer.node.append(node("ot = ReduceSum<keepdims = 0>(ob)"))
f.add("loop_in_loop", [node('y, t = Loop(m, "", a0)', body=outer)],
      {"m": np.int64(4), "a0": start, "step": np.array([1, 2, 3], f32)}, outputs=["y", "t"], **LOOP)
finds = body("""g (int64 i, bool c, float[N] a) => (bool k, float[N] b)
    { k = Identity(c)  n = NonZero(a)  g = Gather(a, n)  t = ReduceSum<keepdims = 0>(g)  b = Sub(a, t) }""")
f.add("loop_body_depends_on_data", [node('a = Loop(m, "", a0)', body=finds)],
      {"m": np.int64(3), "a0": np.array([0, 2, 0, -1], f32)}, outputs=["a"], **LOOP)

# Sequences through loops.
collects = body("""g (int64 i, bool c, seq(float[N, M]) a) => (bool k, seq(float[N, M]) b)
    { k = Identity(c)  f = Cast<to = 1>(i)  p = Mul(x, f)  b = SequenceInsert(a, p) }""")
f.add("loop_collects_a_sequence",
      [node("e = SequenceEmpty()"), node('q = Loop(m, "", e)', body=collects),
       node("y = ConcatFromSequence<axis = 0, new_axis = 1>(q)"), node("n = SequenceLength(q)")],
      {"m": np.int64(3), "x": x}, outputs=["y", "n"], **LOOP)
f.add("sequence_map",
      [node("q = SplitToSequence<axis = 1>(x)"),
       node("r = SequenceMap(q, w)", body=body("g (float[N, M] p, float[N, K] v) => (float[N, M] o) { o = Add(p, v) }")),
       node("y = ConcatFromSequence<axis = 1>(r)")],
      {"x": x, "w": np.array([[10], [20]], f32)}, outputs=["y"])

# Scan: states, axes and directions of what goes in and what comes out.
running = body("g (float[N] a, float[N] p) => (float[N] b, float[N] s) { b = Add(a, p)  s = Mul(b, p) }")
for axis in (0, 1, -1):
    zero = np.zeros(x.shape[1 - axis % 2], f32)
    f.add(f"scan_axis_{axis}",
          [node(f"a, s = Scan<num_scan_inputs = 1, scan_input_axes = [{axis}]>(a0, x)", body=running)],
          {"a0": zero, "x": x}, outputs=["a", "s"], expected=[
              np.sum(x, axis), np.stack([c * p for c, p in zip(np.cumsum(np.moveaxis(x, axis, 0), 0), np.moveaxis(x, axis, 0))])])
for back_in in (0, 1):
    for back_out in (0, 1):
        parts = x[::-1] if back_in else x
        sums = np.cumsum(parts, 0)
        scanned = sums * parts
        f.add(f"scan_directions_{back_in}{back_out}",
              [node(f"a, s = Scan<num_scan_inputs = 1, scan_input_directions = [{back_in}], "
                    f"scan_output_directions = [{back_out}]>(a0, x)", body=running)],
              {"a0": np.zeros(3, f32), "x": x}, outputs=["a", "s"],
              expected=[sums[-1], scanned[::-1] if back_out else scanned])
f.add("scan_output_axis",
      [node("a, s = Scan<num_scan_inputs = 1, scan_output_axes = [-1]>(a0, x)", body=running)],
      {"a0": np.zeros(3, f32), "x": x}, outputs=["a", "s"],
      expected=[np.sum(x, 0), (np.cumsum(x, 0) * x).T])
f.add("scan_of_two",
      [node("s = Scan<num_scan_inputs = 2>(x, y)",
            body=body("g (float[N] p, float[N] q) => (float[N] s) { s = Mul(p, q) }"))],
      {"x": x, "y": x + 1}, outputs=["s"], expected=[x * (x + 1)])
batch = np.arange(24, dtype=f32).reshape(2, 4, 3)
f.add("scan_with_batch",
      [node('a, s = Scan<num_scan_inputs = 1>("", a0, x)', body=running)],
      {"a0": np.zeros((2, 3), f32), "x": batch}, outputs=["a", "s"], opset=8,
      expected=[batch.sum(1), np.cumsum(batch, 1) * batch])
lengths = np.array([2, 4], np.int64)
kept = (np.arange(4)[None, :] < lengths[:, None])[..., None].astype(f32)
f.add("scan_with_lengths",
      [node("a, s = Scan<num_scan_inputs = 1>(n, a0, x)", body=running)],
      {"n": lengths, "a0": np.zeros((2, 3), f32), "x": batch}, outputs=["a", "s"], opset=8,
      expected=[(batch * kept).sum(1), np.cumsum(batch, 1) * batch * kept])

# Bodies that list their initializers as inputs, as IR version 3 demands of every graph. ONNX Runtime's own SequenceMap fails there.
def with_defaults(text, **initializers):
    made = body(text)
    made.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in initializers.items())
    return made


LISTED = {"i": "int64 i", "c": "bool c", "a": "float[N] a", "w": "float[1] w", "p": "float[N] p"}
two, three, half = np.array([2], f32), np.array([3], f32), np.array([0.5], f32)
for ir in (3, 10):
    for order in ("icaw", "wica", "iwca", "icwa"):
        scaled = with_defaults(f"g ({', '.join(LISTED[name] for name in order)}) => (bool k, float[N] b)"
                               "{ k = Identity(c)  b = Mul(a, w) }", w=two)
        f.add(f"loop_default_input_{order}_ir{ir}", [node('y = Loop(m, "", x)', body=scaled)], {"m": np.array(3), "x": start},
              outputs=["y"], opset=11, ir=ir, **LOOP)
    branches = {"then_branch": with_defaults("g (float[1] w) => (float[N] y) { y = Mul(x, w) }", w=two),
                "else_branch": with_defaults("g (float[1] v, float[1] w) => (float[N] y) { q = Mul(x, w)  y = Add(q, v) }",
                                             w=three, v=half)}
    for taken in (True, False):
        f.add(f"if_default_inputs_{taken}_ir{ir}", [node("y = If(c)", **branches)], {"c": np.array(taken), "x": start},
              outputs=["y"], opset=11, ir=ir, expected="ort")
    for outer in ({"w": np.array([100], f32)}, {}):
        f.add(f"if_default_input_hides_{'an_input' if outer else 'a_constant'}_ir{ir}",
              [node("y = If(c)", **branches), node("z = Add(y, w)")], {"c": np.array(True), "x": start, **outer},
              constants={} if outer else {"w": np.array([100], f32)}, outputs=["z"], opset=11, ir=ir,
              expected=[start * 2 + f32(100)])
inner = {"then_branch": with_defaults("g (float[1] w) => (float[N] z) { z = Add(q, w) }", w=np.array([10], f32)),
         "else_branch": body("g () => (float[N] z) { z = Neg(q) }")}
nested = with_defaults("g (float[1] w) => (float[N] z) { q = Mul(x, w) }", w=two)
nested.node.append(node("z = If(d)", **inner))
for d in (True, False):
    f.add(f"if_default_input_nested_{d}", [node("y = If(c)", then_branch=nested, else_branch=body("g () => (float[N] z) { z = Neg(x) }"))],
          {"c": np.array(True), "d": np.array(d), "x": start}, outputs=["y"], opset=11, expected="ort")
f.add("if_default_input_is_the_output",
      [node("y = If(c)", then_branch=with_defaults("g (string[1] w) => (string[1] w) { }", w=np.array(["yes"], object)),
            else_branch=with_defaults("g (string[1] w) => (string[1] v) { v = Identity(w) }", w=np.array(["no"], object)))],
      {"c": np.array(False)}, outputs=["y"], opset=13, expected="ort")
# The type of a result follows from that of a default.
f.add("if_default_input_gives_a_type",
      [node("y = If(c)", then_branch=with_defaults("g (w) => (y) { y = Add(w, w) }", w=np.array([2, 3], np.int64)),
            else_branch=with_defaults("g (v) => (y) { y = Identity(v) }", v=np.array([5], np.int64))), node("z = Cast<to = 1>(y)")],
      {"c": np.array(True)}, outputs=["z"], opset=13, expected=[np.array([4, 6], f32)])
for opset in (8, 9, 21):
    for order in ("apw", "wap", "awp"):
        scaled = with_defaults(f"g ({', '.join(LISTED[name] for name in order)}) => (float[N] b, float[N] s)"
                               "{ q = Mul(p, w)  b = Add(a, q)  s = Identity(b) }", w=two)
        parts, zero = (batch, np.zeros((2, 3), f32)) if opset == 8 else (x, np.zeros(3, f32))
        sums = np.cumsum(2 * parts, 1 if opset == 8 else 0)
        lengths = '"", ' if opset == 8 else ""
        f.add(f"scan_default_input_{order}_opset_{opset}", [node(f"a, s = Scan<num_scan_inputs = 1>({lengths}a0, x)", body=scaled)],
              {"a0": zero, "x": parts}, outputs=["a", "s"], opset=opset, expected=[sums[:, -1] if opset == 8 else sums[-1], sums])
for order in ("pw", "wp"):
    f.add(f"sequence_map_default_input_{order}",
          [node("q = SplitToSequence<axis = 0, keepdims = 0>(x)"),
           node("r = SequenceMap(q)", body=with_defaults(f"g ({', '.join(LISTED[name] for name in order)}) => (float[N] o) {{ o = Mul(p, w) }}",
                                                         w=two)),
           node("y = ConcatFromSequence<axis = 0, new_axis = 1>(r)")], {"x": x}, outputs=["y"], expected=[2 * x])
f.write()
