"""Models for tests, written as protobuf without the package `onnx`, so that the tests run where only NumPy is."""

from __future__ import annotations

import struct

#: ONNX's numbers for element types.
FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64 = range(1, 14)
COMPLEX64, COMPLEX128, BFLOAT16 = 14, 15, 16


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value) -> bytes:
    """One field: a number, a float, text, or a message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _fields(number: int, values) -> bytes:
    return b"".join(_field(number, value) for value in values)


def tensor_type(element: int, shape=None) -> bytes:
    """The type of a tensor; extents are numbers, names, or `None`."""
    out = _field(1, element)
    if shape is not None:
        dims = [b"" if d is None else _field(1 if isinstance(d, int) else 2, d) for d in shape]
        out += _field(2, _fields(1, dims))
    return _field(1, out)


def sequence_type(of: bytes) -> bytes:
    return _field(4, _field(1, of))


def map_type(key: int, of: bytes) -> bytes:
    return _field(5, _field(1, key) + _field(2, of))


def optional_type(of: bytes) -> bytes:
    return _field(9, _field(1, of))


def value(name: str, ty: bytes) -> bytes:
    return _field(1, name) + _field(2, ty)


def tensor(element: int, shape, raw: bytes, name: str = "") -> bytes:
    return _fields(1, shape) + _field(2, element) + _field(8, name) + _field(9, raw)


def external(name: str, element: int, shape, **entries) -> bytes:
    """A tensor whose data are in a file."""
    pairs = [_field(1, key) + _field(2, str(item)) for key, item in entries.items()]
    return _fields(1, shape) + _field(2, element) + _field(8, name) + _fields(13, pairs) + _field(14, 1)


def _attribute(name: str, value) -> bytes:
    out = _field(1, name)
    if isinstance(value, float):
        return out + _field(2, value) + _field(20, 1)
    if isinstance(value, int):
        return out + _field(3, value) + _field(20, 2)
    if isinstance(value, str):
        return out + _field(4, value) + _field(20, 3)
    if isinstance(value, tuple):
        kind, data = value
        return out + _field({"t": 5, "g": 6}[kind], data) + _field(20, {"t": 4, "g": 5}[kind])
    if all(isinstance(item, int) for item in value):
        return out + _fields(8, value) + _field(20, 7)
    if all(isinstance(item, float) for item in value):
        return out + _fields(7, value) + _field(20, 6)
    return out + _fields(9, value) + _field(20, 8)


def node(op: str, inputs, outputs, name: str = "", domain: str = "", **attributes) -> bytes:
    out = _fields(1, inputs) + _fields(2, outputs) + _field(3, name) + _field(4, op)
    out += _fields(5, [_attribute(key, item) for key, item in attributes.items()])
    return out + (_field(7, domain) if domain else b"")


def graph(nodes, inputs, outputs, initializers=(), name: str = "graph") -> bytes:
    """Inputs and outputs are pairs of a name and a type."""
    ports = [[value(*port) for port in ports] for ports in (inputs, outputs)]
    return (
        _fields(1, nodes) + _field(2, name) + _fields(5, initializers) + _fields(11, ports[0]) + _fields(12, ports[1])
    )


def model(nodes, inputs, outputs, initializers=(), opset: int = 18, metadata=None) -> bytes:
    out = _field(1, 10) + _field(2, "tests") + _field(7, graph(nodes, inputs, outputs, initializers))
    out += _field(8, _field(1, "") + _field(2, opset)) + _field(8, _field(1, "ai.onnx.ml") + _field(2, 3))
    for key, text in (metadata or {}).items():
        out += _field(14, _field(1, key) + _field(2, text))
    return out


def identity(element: int, shape=None, opset: int = 28) -> bytes:
    """A model that gives back its input."""
    ty = tensor_type(element, shape)
    return model([node("Identity", ["x"], ["y"])], [("x", ty)], [("y", ty)], opset=opset)


def unary(op: str, element: int = FLOAT, shape=None, **attributes) -> bytes:
    """A model of one operator with one operand."""
    ty = tensor_type(element, shape)
    return model([node(op, ["x"], ["y"], name="only", **attributes)], [("x", ty)], [("y", ty)])


def product(n=None) -> bytes:
    """The product of two matrices."""
    ins = [("a", tensor_type(FLOAT, ["rows", "inner"])), ("b", tensor_type(FLOAT, ["other", "columns"]))]
    outs = [("y", tensor_type(FLOAT, ["rows", "columns"]))]
    return model([node("MatMul", ["a", "b"], ["y"], name="product")], ins, outs)


def long_running(steps: int = 1 << 30) -> bytes:
    """A model whose loop runs for a long time: it squares a matrix again and again."""
    matrix = tensor_type(FLOAT, [None, None])
    body = graph(
        [
            node("Identity", ["go"], ["on"]),
            node("MatMul", ["m", "m"], ["mm"]),
            node("Tanh", ["mm"], ["next"]),
        ],
        [("i", tensor_type(INT64, [])), ("go", tensor_type(BOOL, [])), ("m", matrix)],
        [("on", tensor_type(BOOL, [])), ("next", matrix)],
    )
    return model(
        [node("Loop", ["n", "", "x"], ["y"], name="loop", body=("g", body))],
        [("n", tensor_type(INT64, [])), ("x", matrix)],
        [("y", matrix)],
    )
