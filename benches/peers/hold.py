"""Holds ONNX Runtime to AVX2: a copy of it whose CPUID instructions are answered by `hold.c`.

The copy lies in the environment of Python, in `held-VERSION`. `cc` and `objdump` make it, on x86-64 Linux.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import onnxruntime

HERE = pathlib.Path(__file__).parent
# The levels of instructions to which ONNX Runtime can be held.
LEVELS = ("avx2",)

CPUID, UNDEFINED = b"\x0f\xa2", b"\x0f\x0b"


def replaced(library):
    """Makes the CPUID instructions of a library undefined ones."""
    sections = subprocess.run(["objdump", "-h", library], capture_output=True, text=True, check=True).stdout
    text = next(line.split() for line in sections.splitlines() if line.split()[1:2] == [".text"])
    offset = int(text[5], 16) - int(text[3], 16)
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    bytes_ = bytearray(library.read_bytes())
    for address in re.findall(r"^ *([0-9a-f]+):\tcpuid", code, re.MULTILINE):
        at = int(address, 16) + offset
        assert bytes_[at : at + 2] == CPUID, f"{library}: no CPUID at {at:#x}"
        bytes_[at : at + 2] = UNDEFINED
    library.write_bytes(bytes_)


def held():
    """The variables of a process in which ONNX Runtime uses no instructions beyond AVX2."""
    folder = pathlib.Path(sys.prefix) / f"held-{onnxruntime.__version__}"
    if not folder.exists():
        made = folder.with_name("held-part")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(pathlib.Path(onnxruntime.__file__).parent, made / "onnxruntime")
        replaced(next((made / "onnxruntime" / "capi").glob(f"onnxruntime_pybind11_state*{sysconfig.get_config_var('EXT_SUFFIX')}")))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made / "hold.so", HERE / "hold.c"], check=True)
        made.rename(folder)
    # Without VNNI, products of bytes saturate unless exact ones are asked for; those of bb are exact.
    return {"PYTHONPATH": str(folder), "LD_PRELOAD": str(folder / "hold.so"), "BB_EXACT_BYTES": "1"}
