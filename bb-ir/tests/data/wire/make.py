"""Writes the golden frames from the format's description, without `bb`."""
import pathlib
import struct
import zlib

HERE = pathlib.Path(__file__).parent


def fnv(name):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 % 2**64
    return h


def frame(file, name, layout, number, shape, elements, checksum=True):
    header = struct.pack("<QIQ", fnv(f"bb.tensor/1;{name};{layout}"), number, len(shape))
    header += struct.pack(f"<{len(shape)}QQ", *shape, len(elements))
    front = b"\x93bbwire\n" + struct.pack("<HHI", 1, int(checksum), len(header))
    tail = struct.pack("<I", zlib.crc32(elements) if checksum else 0)
    out = front + struct.pack("<I", zlib.crc32(front + tail + header)) + tail + header
    out += bytes(-len(out) % 64)
    (HERE / file).write_bytes(out + elements)


frame("f32_2x2.frame", "f32", "dense-le", 1, [2, 2], struct.pack("<4f", 1, -2.5, float("inf"), 0))
frame("i64_scalar.frame", "i64", "dense-le", 7, [], struct.pack("<q", -1), checksum=False)
frame("i4_3.frame", "i4", "packed-le", 22, [3], bytes([0x7F, 0x08]))
frame("bool_0x2.frame", "bool", "dense-le", 9, [0, 2], b"")
frame("string_2.frame", "string", "offsets-le", 8, [2], struct.pack("<3Q", 0, 3, 5) + "aäbc".encode())
