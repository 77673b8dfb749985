"""Writes the `.npy` files with NumPy."""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
a = np.arange(24).reshape(2, 3, 4)
np.save(HERE / "f32_c.npy", a.astype("<f4"))
np.save(HERE / "i64_fortran.npy", np.asfortranarray(a.astype("<i8")))
np.save(HERE / "u16_big.npy", a.astype(">u2"))
np.save(HERE / "c64_big_fortran.npy", np.asfortranarray((a[0] + 1j).astype(">c8")))
np.save(HERE / "f16_scalar.npy", np.float16(1.5))
np.save(HERE / "bool_1.npy", np.array([True, False]))
np.save(HERE / "empty.npy", np.zeros((0, 3)))
np.save(HERE / "unicode.npy", np.array([["ä", ""], ["abc", "d"]]))
np.save(HERE / "unicode_big.npy", np.array(["ä", "xy"]).astype(">U2"))
np.save(HERE / "bytes.npy", np.array([b"ab", b"c"]))
np.lib.format.write_array(open(HERE / "f64_v2.npy", "wb"), np.array([0.5]), version=(2, 0))
np.lib.format.write_array(open(HERE / "i8_v3.npy", "wb"), np.array([-1], "i1"), version=(3, 0))
np.save(HERE / "structured.npy", np.zeros(1, [("a", "<f4")]))
