"""Writes small archives of NumPy's arrays, of all types, orders and forms: python npz.py npz (with NumPy)."""
import io, struct, sys, zipfile
import numpy as np
from pathlib import Path

out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
x = np.arange(6).reshape(2, 3)

for name in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8", "c16", "U3", "S3"]:
    for order in "<>":
        a = x.astype(np.dtype(name).newbyteorder(order))
        np.savez(out / f"{name}-{'little' if order == '<' else 'big'}", x=a)
np.savez_compressed(out / "packed", x=x, y=x.astype("f4") / 2)
np.savez(out / "columns", x=np.asfortranarray(x.astype("f4")))
np.savez(out / "columns-text", x=np.asfortranarray(np.array([["a", "bc"], ["", "é"]])))
np.savez(out / "positional", x[0], x[1])
np.savez(out / "scalar", x=np.float32(3))
np.savez(out / "empty", x=np.zeros((0, 3), "f4"))
np.savez_compressed(out / "zeros", x=np.zeros(1 << 14, "f4"))


def npy(version):
    file = io.BytesIO()
    np.lib.format.write_array(file, x.astype("f4"), version=version)
    return file.getvalue()


def archive(name, members, **options):
    with zipfile.ZipFile(out / f"{name}.npz", "w", **options) as file:
        for member, content in members:
            file.writestr(member, content)
    return out / f"{name}.npz"


archive("version-2", [("x.npy", npy((2, 0)))])
archive("version-3", [("x.npy", npy((3, 0)))])
archive("twice", [("x.npy", npy((1, 0))), ("x.npy", npy((1, 0)))])
archive("bzip2", [("x.npy", npy((1, 0)))], compression=zipfile.ZIP_BZIP2)
with zipfile.ZipFile(out / "comment.npz", "w") as file:
    file.writestr("x.npy", npy((1, 0)))
    file.comment = b"PK\x05\x06 a comment"
with zipfile.ZipFile(out / "wide.npz", "w") as file, file.open("x.npy", "w", force_zip64=True) as member:
    member.write(npy((1, 0)))

# The record and the locator of 64 bits before the end, and an entry whose sizes are in its extra field.
content, name = npy((1, 0)), b"x.npy"
crc, size = __import__("zlib").crc32(content), len(content)
local = b"PK\x03\x04" + struct.pack("<HHHHHIIIHH", 45, 0, 0, 0, 0, crc, size, size, len(name), 0) + name + content
extra = struct.pack("<HHQQQ", 1, 24, size, size, 0)
entry = b"PK\x01\x02" + struct.pack("<HHHHHHIIIHHHHHII", 45, 45, 0, 0, 0, 0, crc, 2**32 - 1, 2**32 - 1, len(name), len(extra), 0, 0, 0, 0, 2**32 - 1) + name + extra
record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, len(entry), len(local))
locator = b"PK\x06\x07" + struct.pack("<IQI", 0, len(local) + len(entry), 1)
end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), 2**32 - 1, 0)
(out / "zip64.npz").write_bytes(local + entry + record + locator + end)
