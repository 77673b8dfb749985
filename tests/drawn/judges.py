"""Runs a model on ONNX's evaluator and on ONNX Runtime, and turns what they answer into tensors.

An answer is a pair: `ok` and a dictionary of arrays by name, or `refused` or `lacks` and a message. A sequence has names
`NAME/0`, `NAME/1` and so on, a map `NAME/keys` and `NAME/values`.
"""
import ctypes
import os
import signal
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

import elements

os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
import onnxruntime  # noqa: E402: it reads the variable

onnxruntime.set_default_logger_severity(4)
FOUR_BITS = {T.INT4, T.UINT4, T.FLOAT4E2M1, T.INT2, T.UINT2}
SECONDS = 3


class Late(Exception):
    """The evaluator takes too long."""


def late(*_):
    raise Late("takes too long")


def leaves(name, value):
    """Yields the tensors of a value by their paths."""
    if isinstance(value, dict):
        keys = sorted(value)
        kind = object if keys and isinstance(keys[0], str) else np.int64
        yield f"{name}/keys", np.array(keys, kind)
        values = np.array([value[k] for k in keys])
        yield f"{name}/values", values.astype(np.float32) if values.dtype == np.float64 else values
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from leaves(f"{name}/{i}", item)
    elif value is not None:
        yield name, np.asarray(value)


def declared(model):
    """Returns the types of outputs that ONNX infers, by name."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False)
    except Exception:  # noqa: BLE001: whatever its inference makes of a drawn model
        return {}
    return {o.name: o.type for o in inferred.graph.output if o.type.WhichOneof("value")}


def evaluator(model, values, outputs, types, formals):
    """Runs ONNX's evaluator; `types` are the types that ONNX infers, and `formals` what schemas say of outputs, by their names."""
    from onnx.reference import ReferenceEvaluator

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # Some operators write into their operands.
            results = ReferenceEvaluator(model).run(outputs, {name: x.copy() for name, x in values.items()})
    except NotImplementedError as error:
        return "lacks", brief(error)
    except Late as error:
        return "late", brief(error)
    except BaseException as error:  # noqa: BLE001: whatever it raises
        text = brief(error)
        return ("lacks" if "No registered implementation" in text or "No implementation for operator" in text else "refused"), text
    finally:
        signal.alarm(0)
    found = {}
    for name, value in zip(outputs, results):
        ty = types.get(name)
        # The evaluator writes an optional as a list with its element, also where the element is read again.
        while isinstance(value, list) and len(value) == 1 and ty is not None and (
                ty.HasField("optional_type") or ty.HasField("tensor_type") or isinstance(value[0], list)):
            value = value[0]
        for path, array in leaves(name, value):
            if array.dtype.kind in "US":
                array = array.astype(object)
            if array.dtype == object and not all(isinstance(item, str) for item in array.reshape(-1)) or array.dtype.kind in "mM":
                return "lacks", "gives elements of no type of ONNX"
            if ty is not None and ty.HasField("tensor_type") and ty.tensor_type.elem_type:
                dtype = elements.numpy_type(ty.tensor_type.elem_type)
                if array.dtype != dtype:
                    return "lacks", f"gives {array.dtype} where its own inference says {dtype}"
            allowed = formals[name].types if name in formals else []
            if path == name and allowed and array.dtype not in [elements.numpy_type(n) for n in allowed]:
                return "lacks", f"gives {array.dtype}, which its schema does not allow"
            found[path] = array
    return "ok", found


def brief(error):
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text}"[:400]


def raw(value):
    """Copies a tensor of ONNX Runtime whose elements it does not show to NumPy."""
    number, shape = value.element_type(), value.shape()
    dtype = elements.numpy_type(number)
    inner = value._ortvalue
    data = ctypes.string_at(inner.data_ptr(), inner.tensor_size_in_bytes())
    count = int(np.prod(shape, dtype=np.int64))
    if number in FOUR_BITS:
        bits = 2 if number in (T.INT2, T.UINT2) else 4
        packed = np.frombuffer(data, np.uint8)
        parts = np.stack([(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)], -1).reshape(-1)[:count]
        return parts.astype(np.uint8).view(dtype).reshape(shape) if number == T.FLOAT4E2M1 else signed(parts, bits, number).astype(dtype).reshape(shape)
    return np.frombuffer(data, dtype)[:count].reshape(shape).copy()


def signed(parts, bits, number):
    wide = parts.astype(np.int64)
    return np.where(wide >= 2**(bits - 1), wide - 2**bits, wide) if number in (T.INT4, T.INT2) else wide


def given(x):
    """Turns an array into what ONNX Runtime takes."""
    number = helper.np_dtype_to_tensor_dtype(x.dtype) if x.dtype != object else T.STRING
    if x.dtype.kind in "fiub" and number not in (T.BFLOAT16,) and number not in FOUR_BITS and x.dtype.name in np.sctypeDict:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x).reshape(x.shape).copy())
    bits = np.ascontiguousarray(x).reshape(x.shape).view(np.dtype(f"u{x.dtype.itemsize}"))
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, number)


LACKS = ("NOT_IMPLEMENTED", "NotImplemented", "Could not find an implementation", "is not a registered function/op", "No opset import for domain",
         "not implemented", "InsertedPrecisionFreeCast", "is not supported", "not supported yet", "No Op registered for", "Unsupported")


def ort(model, values, outputs):
    """Runs ONNX Runtime without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        tensors = all(o.type.startswith("tensor(") for o in session.get_outputs()) and all(x.dtype != object for x in values.values())
        if not tensors:
            results = session.run(outputs, {name: x for name, x in values.items()})
            return "ok", {path: array for name, value in zip(outputs, results) for path, array in leaves(name, value)}
        found = {}
        feeds = {name: given(x) for name, x in values.items()}
        for name, value in zip(outputs, session.run_with_ort_values(outputs, feeds)):
            if value.element_type() == T.STRING or value.data_type()[7:-1] in PLAIN:
                found[name] = np.array(value.numpy())
            else:
                found[name] = raw(value)
        return "ok", found
    except MemoryError as error:
        return "lacks", brief(error)
    except BaseException as error:  # noqa: BLE001: whatever it raises
        text = brief(error)
        return ("lacks" if any(word in text for word in LACKS) else "refused"), text


PLAIN = {"float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}
assert ml_dtypes.bfloat16
