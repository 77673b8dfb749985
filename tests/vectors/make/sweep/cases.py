"""A case of the sweep: one operator, in one version, with types for its parameters.

Expected values are one of these, and are rounded once to the type of the result:

- arrays, computed by NumPy in the operator's own integers or in f64 (`Case.wide`);
- `REFERENCE`: ONNX's evaluator on the same numbers, with every float widened to f64;
- `MOVES`: ONNX's evaluator on the positions of the elements instead of the elements, for operators that only move
  them; so any element type goes, strings and 2-bit integers included.
"""
import re
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

REFERENCE, MOVES = "reference", "moves"
nan, inf = np.nan, np.inf


class Limit:
    """The greatest or the least value of a type."""

    def __init__(self, least):
        self.least = least


MAX, MIN = Limit(False), Limit(True)

NAMES = {"float": "float32", "double": "float64", "string": "object", "bool": "bool", "bfloat16": "bfloat16"}
SMALL = {
    "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu, "float4e2m1": ml_dtypes.float4_e2m1fn,
    "float6e2m3": ml_dtypes.float6_e2m3fn, "float6e3m2": ml_dtypes.float6_e3m2fn,
    "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2,
}
SHORT = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "string": "string",
    "complex64": "c64", "complex128": "c128",
}


def element(ty):
    """Returns the innermost element type's name, as in `float` of `seq(tensor(float))`."""
    return re.findall(r"\w+", ty)[-1]


def dtype_of(ty):
    """Returns NumPy's type for a tensor type, as in `tensor(float)`."""
    name = element(ty)
    if name in SMALL:
        return np.dtype(SMALL[name])
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(NAMES.get(name, name))


def number_of(ty):
    """Returns ONNX's number of a tensor type's elements."""
    return TensorProto.DataType.Value(element(ty).upper())


def brief(ty):
    """Names a type as vectors do: `f32`, `seq-i64`, `map-i64-f32`."""
    words = [w for w in re.findall(r"\w+", ty) if w != "tensor"]
    return "-".join(SHORT.get(w, re.sub(r"^(u?)int(\d+)$", lambda m: f"{m[1] or 'i'}{m[2]}", w)) for w in words)


def is_small(dtype):
    return dtype.type in SMALL.values()


def is_float(dtype):
    """Tells whether a type is one of the floats that backends compute in."""
    return dtype.name == "bfloat16" or dtype.kind == "f" and not is_small(dtype)


def whole(dtype):
    """Tells whether a type has integers alone, and gives their limits."""
    if dtype.kind in "iu":
        return np.iinfo(dtype)
    return ml_dtypes.iinfo(dtype) if dtype.name in ("int4", "uint4", "int2", "uint2") else None


def as_type(v, dtype):
    """Makes one number one of a type: integers wrap where they are too great, texts and parts are made up."""
    info = whole(dtype)
    if dtype == object:
        return "" if v == 0 else "ß%s" % ("max" if v is MAX else "min" if v is MIN else v)
    if dtype.kind == "b":
        return v is MAX or (not isinstance(v, Limit) and (v != v or abs(v) % 2 == 1))
    if info:
        if isinstance(v, Limit):
            return int(info.min if v.least else info.max)
        if v != v or abs(v) == inf:
            return int(info.max if v == inf else info.min)
        return (int(v) - int(info.min)) % (int(info.max) - int(info.min) + 1) + int(info.min)
    if dtype.kind == "c":
        part = as_type(v, np.dtype(f"f{dtype.itemsize // 2}"))
        return complex(part, 1 - float(part) / 2 if np.isfinite(part) else 1)
    if isinstance(v, Limit):
        most = float(ml_dtypes.finfo(dtype).max)
        return -most if v.least and dtype.name != "float8_e8m0fnu" else most
    if is_small(dtype):
        most = float(ml_dtypes.finfo(dtype).max)
        bounded = min(max(0 if v != v else v, -most), most)
        return float(abs(bounded) or 1) if dtype.name == "float8_e8m0fnu" else float(bounded)
    return float(v)


def array(values, ty):
    """Makes an array of a tensor type of numbers and limits."""
    dtype = dtype_of(ty)
    values = np.asarray(values, object)
    made = [as_type(v, dtype) for v in values.reshape(-1)]
    out = np.empty(len(made), dtype)
    with np.errstate(all="ignore"):
        for i, v in enumerate(made):
            out[i] = np.float64(v).astype(dtype) if is_float(dtype) or is_small(dtype) and not whole(dtype) else v
    return out.reshape(values.shape)


def draw(*shape, seed=0, low=-16, high=16, by=8):
    """Draws multiples of an eighth, which every float of 8 bits of precision or more has."""
    return np.random.default_rng([seed, *shape]).integers(low, high + 1, shape) / by


class Refused(Exception):
    """Why a choice of types has no vector."""


class Case:
    """One operator, in one version, with a type for each of its parameters.

    A row sets `inputs` (arrays by position, `None` where one is left out), `attributes`, `outputs` (how many) and
    `expected`. It may set further types that follow from those chosen. Where ONNX's evaluator has no old version, it
    evaluates the version `read_as` with the attributes `read_with` besides.
    """

    def __init__(self, schema, types):
        self.schema, self.op, self.version, self.types = schema, schema.name, schema.since_version, dict(types)
        self.inputs, self.attributes, self.outputs, self.expected = [], {}, 1, REFERENCE
        self.read_as, self.read_with = self.version, {}

    def formal(self, side, i):
        ports = list(side)
        return ports[min(i, len(ports) - 1)].type_str

    def type_of(self, name):
        """Resolves a parameter's name or a type."""
        return self.types.get(name, name)

    def input_type(self, i):
        return self.type_of(self.formal(self.schema.inputs, i))

    def output_type(self, i):
        return self.type_of(self.formal(self.schema.outputs, i))

    def dtype(self, i=0):
        return dtype_of(self.input_type(i))

    def x(self, i, values):
        """Makes values of the type of the operand `i`."""
        return array(values, self.input_type(i))

    def take(self, *values, **attributes):
        """Sets the operands, each of its type, and attributes."""
        self.inputs = [None if v is None else self.x(i, v) for i, v in enumerate(values)]
        self.attributes = attributes
        return self

    def wide(self):
        """Returns the operands with floats widened to f64, or complex numbers to two of them."""
        return [widened(x) for x in self.inputs]

    def model(self, inputs):
        """Makes a model of the operator alone."""
        names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
        while names and not names[-1]:
            names.pop()
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, domain=self.schema.domain, **self.attributes, **self.read_with)
        ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                 for n, x in zip(names, inputs) if n]
        graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=o) for o in outputs])
        versions = [helper.make_opsetid(self.schema.domain, self.read_as)]
        versions += [helper.make_opsetid("", 28)] if self.schema.domain else []
        return helper.make_model(graph, opset_imports=versions, ir_version=10), outputs

    def evaluate(self, inputs):
        """Runs ONNX's evaluator."""
        from onnx.reference import ReferenceEvaluator

        model, outputs = self.model(inputs)
        feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return ReferenceEvaluator(model).run(outputs, feeds)

    def results(self):
        """Computes the expected values, each of the type that the schema says."""
        if isinstance(self.expected, str) and self.expected == REFERENCE:
            values = self.evaluate(self.wide())
        elif isinstance(self.expected, str):
            values = self.moved()
        else:
            values = self.expected if isinstance(self.expected, (list, tuple)) else [self.expected]
        assert len(values) == self.outputs, f"{len(values)} results of {self.outputs}"
        return [rounded(v, self.output_type(i)) for i, v in enumerate(values)]

    def moved(self):
        """Computes where elements go: operands of the first one's type become positions in all of them."""
        parameter = self.formal(self.schema.inputs, 0)
        moving = [i for i, x in enumerate(self.inputs)
                  if x is not None and self.formal(self.schema.inputs, i) == parameter]
        # Position 0 is the zero that some operators put in.
        pool, positions, start = [array([0], self.types[parameter])], list(self.inputs), 1
        if pool[0].dtype.kind == "c":
            pool[0] = np.zeros(1, pool[0].dtype)
        for i in moving:
            x = self.inputs[i]
            pool.append(x.reshape(-1))
            positions[i] = np.arange(start, start + x.size).reshape(x.shape)
            start += x.size
        pool = np.concatenate(pool)
        results = self.evaluate(positions)
        return [pool[np.asarray(r).astype(np.int64)] if self.formal(self.schema.outputs, i) == parameter else r
                for i, r in enumerate(results)]


def widened(x):
    if x is None or not isinstance(x, np.ndarray):
        return x
    if is_float(x.dtype) or is_small(x.dtype) and not whole(x.dtype):
        return x.astype(np.float64)
    if is_small(x.dtype):
        return x.astype(np.int64)
    return x.astype(np.complex128) if x.dtype.kind == "c" else x


def rounded(value, ty):
    """Rounds to a type once; integers keep the low bits."""
    if not ty.startswith("tensor"):
        return value
    value, dtype = np.asarray(value), dtype_of(ty)
    if value.dtype == dtype:
        return value
    with np.errstate(all="ignore"):
        if whole(dtype) and dtype.kind in "iu" and value.dtype.kind in "iu":
            return value.astype(f"i{value.dtype.itemsize}" if value.dtype.kind == "i" else value.dtype).astype(dtype)
        if value.dtype.kind in "US":
            return value.astype(object)
        return value.astype(dtype)
