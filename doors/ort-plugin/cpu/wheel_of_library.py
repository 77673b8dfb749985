"""Builds a wheel of this folder's package and its Rust library, as PEP 517 asks a backend to.

`cargo` builds the library; `BB_ORT_CPU_LIBRARY` names one that was built already.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "bb_ort_cpu"


def build_wheel(folder: str, config_settings: object = None, metadata_directory: object = None) -> str:
    library, version = built()
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"{PACKAGE}-{version}.dist-info"
    files = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in (HERE / PACKAGE).glob("*") if path.is_file()}
    files[f"{PACKAGE}/{library.name}"] = library.read_bytes()
    files[f"{info}/METADATA"] = metadata(version).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: bb\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{name}"] = (HERE / "../../.." / name).read_bytes()
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{PACKAGE}-{version}-{tag}.whl"
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def build_sdist(folder: str, config_settings: object = None) -> str:
    raise NotImplementedError("the library is part of a workspace: build a wheel in its repository")


def built() -> tuple[Path, str]:
    """Returns the library and its version."""
    manifest = str(HERE / "Cargo.toml")
    described = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps", "--manifest-path", manifest],
        check=True,
        capture_output=True,
    )
    packages = json.loads(described.stdout)["packages"]
    version = next(package["version"] for package in packages if package["name"] == "bb-ort-cpu")
    if given := os.environ.get("BB_ORT_CPU_LIBRARY"):
        return Path(given), version
    command = ["cargo", "build", "--release", "--message-format=json", "--manifest-path", manifest]
    messages = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    targets = [message for message in map(json.loads, messages) if message.get("target", {}).get("name") == PACKAGE]
    files = [Path(file) for message in targets for file in message["filenames"]]
    return next(file for file in files if file.suffix in (".so", ".dylib", ".dll")), version


def metadata(version: str) -> str:
    return (
        f"Metadata-Version: 2.1\nName: bb-ort-cpu\nVersion: {version}\n"
        "Summary: The CPU backend of bb as a plugin of ONNX Runtime\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.9\n"
        "Requires-Dist: numpy\nRequires-Dist: onnxruntime>=1.23\n"
    )


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
