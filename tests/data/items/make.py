"""Writes cases whose inputs and results are sequences, maps and optionals, with ONNX's own writers.

`python tests/data/items/make.py` needs `onnx` of `tests/vectors/make/requirements.txt`. Expected values are what the
schemas' texts say.
"""
import pathlib
import shutil

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).parent
tensor, sequence, optional = helper.make_tensor_type_proto, helper.make_sequence_type_proto, helper.make_optional_type_proto


def mapped(key, value):
    return helper.make_map_type_proto(key, tensor(value, []))


def proto(value, ty):
    """Turns a value into the message that its type wants."""
    if ty.HasField("optional_type"):
        message = onnx.OptionalProto()
        if value is not None:
            held = proto(value, ty.optional_type.elem_type)
            message.elem_type = onnx.OptionalProto.SEQUENCE if isinstance(value, list) else onnx.OptionalProto.TENSOR
            (message.sequence_value if isinstance(value, list) else message.tensor_value).CopyFrom(held)
        return message
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=[dictionary(v) for v in value])
    if isinstance(value, list):
        return numpy_helper.from_list(value)
    return dictionary(value) if isinstance(value, dict) else numpy_helper.from_array(value)


def dictionary(value):
    """Makes a map; ONNX's own writer takes no texts for keys."""
    texts = isinstance(next(iter(value)), str)
    message = onnx.MapProto(key_type=T.STRING if texts else T.INT64)
    if texts:
        message.string_keys.extend(key.encode() for key in value)
    else:
        message.keys.extend(value)
    # A sequence of the same length as the keys.
    message.values.CopyFrom(numpy_helper.from_list([np.asarray(v) for v in value.values()]))
    return message


def case(name, op, domain, attributes, inputs, outputs):
    """Writes a folder; `inputs` and `outputs` have a type and a value by name."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "test_data_set_0").mkdir(parents=True)
    node = helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)
    ports = [[helper.make_value_info(k, ty) for k, (ty, _) in side.items()] for side in (inputs, outputs)]
    versions = [helper.make_opsetid("", 25)] + ([helper.make_opsetid(domain, 5)] if domain else [])
    model = helper.make_model(helper.make_graph([node], name, *ports), opset_imports=versions, ir_version=10)
    onnx.checker.check_model(model)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for prefix, side in (("input", inputs), ("output", outputs)):
        for i, (ty, value) in enumerate(side.values()):
            (folder / "test_data_set_0" / f"{prefix}_{i}.pb").write_bytes(proto(value, ty).SerializeToString(deterministic=True))


ML = "ai.onnx.ml"
f32 = np.float32
case("dict_vectorizer_of_texts", "DictVectorizer", ML, {"string_vocabulary": ["b", "z", "a"]},
     {"x": (mapped(T.STRING, T.FLOAT), {"a": f32(1.5), "b": f32(-2)})}, {"y": (tensor(T.FLOAT, [3]), np.array([-2, 0, 1.5], f32))})
case("dict_vectorizer_of_integers", "DictVectorizer", ML, {"int64_vocabulary": [5, 7, -1]},
     {"x": (mapped(T.INT64, T.STRING), {-1: np.array("minus", object), 5: np.array("five", object)})},
     {"y": (tensor(T.STRING, [3]), np.array(["five", "", "minus"], object))})
case("cast_map_dense", "CastMap", ML, {"cast_to": "TO_INT64"},
     {"x": (mapped(T.INT64, T.FLOAT), {9: f32(3), -4: f32(2)})}, {"y": (tensor(T.INT64, [1, 2]), np.array([[2, 3]]))})
case("zip_map_to_texts", "ZipMap", ML, {"classlabels_strings": ["no", "yes"]}, {"x": (tensor(T.FLOAT, [2, 2]), np.array([[0.25, 0.75], [1, 0]], f32))},
     {"y": (sequence(mapped(T.STRING, T.FLOAT)), [{"no": f32(0.25), "yes": f32(0.75)}, {"no": f32(1), "yes": f32(0)}])})
case("zip_map_to_integers", "ZipMap", ML, {"classlabels_int64s": [3, 5]}, {"x": (tensor(T.FLOAT, [1, 2]), np.array([[0.5, 0.125]], f32))},
     {"y": (sequence(mapped(T.INT64, T.FLOAT)), [{3: f32(0.5), 5: f32(0.125)}])})
case("sequence_insert", "SequenceInsert", "", {}, {"s": (sequence(tensor(T.INT32, None)), [np.array([1, 2], np.int32), np.array([[3]], np.int32)]),
     "x": (tensor(T.INT32, [1]), np.array([7], np.int32)), "p": (tensor(T.INT64, []), np.array(-1))},
     {"y": (sequence(tensor(T.INT32, None)), [np.array([1, 2], np.int32), np.array([7], np.int32), np.array([[3]], np.int32)])})
case("sequence_of_texts_goes_through", "Identity", "", {}, {"s": (sequence(tensor(T.STRING, None)), [np.array(["a", "ß"], object), np.zeros(0, object)])},
     {"y": (sequence(tensor(T.STRING, None)), [np.array(["a", "ß"], object), np.zeros(0, object)])})
case("optional_sequence_goes_through", "Identity", "", {}, {"o": (optional(sequence(tensor(T.FLOAT, None))), [np.array([1.5], f32)])},
     {"y": (optional(sequence(tensor(T.FLOAT, None))), [np.array([1.5], f32)])})
case("optional_that_is_absent", "OptionalHasElement", "", {}, {"o": (optional(tensor(T.FLOAT, None)), None)}, {"y": (tensor(T.BOOL, []), np.array(False))})
case("optional_that_holds_a_tensor", "OptionalGetElement", "", {}, {"o": (optional(tensor(T.FLOAT, None)), np.array([2.5], f32))},
     {"y": (tensor(T.FLOAT, [1]), np.array([2.5], f32))})
