"""Values in ONNX Runtime's wrapper."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._process import Advised

#: NumPy's name of an element type, and the number and the name that ONNX has for it.
_TYPES: dict[str, tuple[int, str]] = {
    "float32": (1, "float"),
    "uint8": (2, "uint8"),
    "int8": (3, "int8"),
    "uint16": (4, "uint16"),
    "int16": (5, "int16"),
    "int32": (6, "int32"),
    "int64": (7, "int64"),
    "object": (8, "string"),
    "bool": (9, "bool"),
    "float16": (10, "float16"),
    "float64": (11, "double"),
    "uint32": (12, "uint32"),
    "uint64": (13, "uint64"),
    "complex64": (14, "complex64"),
    "complex128": (15, "complex128"),
    "bfloat16": (16, "bfloat16"),
    "float8_e4m3fn": (17, "float8e4m3fn"),
    "float8_e4m3fnuz": (18, "float8e4m3fnuz"),
    "float8_e5m2": (19, "float8e5m2"),
    "float8_e5m2fnuz": (20, "float8e5m2fnuz"),
    "uint4": (21, "uint4"),
    "int4": (22, "int4"),
    "float4_e2m1fn": (23, "float4e2m1"),
}


def dtype_of(given: Any) -> np.dtype[Any]:
    """Returns NumPy's element type for a caller's argument: NumPy's own type, its name, or ONNX's number."""
    if isinstance(given, int) and not isinstance(given, bool):
        for name, (number, _) in _TYPES.items():
            if number == given:
                return _named(name)
        raise ValueError(f"{given} is the number of no element type of ONNX")
    dtype: np.dtype[Any] = np.dtype(given)
    return dtype


def _named(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            from .errors import MissingPackage

            raise MissingPackage(f"NumPy has no elements of {name}; the package `ml_dtypes` has: pip install ml_dtypes") from None
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def on_host(device_type: Any) -> None:
    """Refuses a device that is not the host."""
    name = device_type if isinstance(device_type, str) else str(getattr(device_type, "device_type", lambda: "cpu")())
    if name.lower() != "cpu":
        raise ValueError(f"values lie in the host's memory, `cpu`; got the device {name!r}")


def memory_at(address: int, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An array over memory of the caller, who keeps it alive."""
    if dtype.hasobject:
        raise ValueError("strings are not bound by their address")
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if address == 0 and size > 0:
        raise ValueError("the address of the bound memory is null")
    if size == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype).reshape(shape)


class OrtValue(Advised):
    """A value of a run: an array, or a list or dict of values."""

    _absent = {"as_sparse_tensor": "pass dense arrays", "ort_value_from_sparse_tensor": "pass dense arrays"}

    def __init__(self, value: Any) -> None:
        self._held: Any = value._held if isinstance(value, OrtValue) else value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        """A value that shares an array's memory."""
        on_host(device_type)
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, onnx_element_type: int) -> OrtValue:
        """A value whose elements have ONNX's type of this number, and the bytes of an array."""
        dtype, data = dtype_of(onnx_element_type), np.asarray(data)
        if dtype.itemsize != data.dtype.itemsize:
            raise ValueError(
                f"elements of {data.dtype} have {data.dtype.itemsize} bytes, those of {dtype} have {dtype.itemsize}"
            )
        return cls(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type_: Any = np.float32,
        device_type: Any = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        **given: Any,
    ) -> OrtValue:
        """A value of these extents, whose elements are 0."""
        on_host(device_type)
        wanted = given.pop("element_type", element_type_)
        if given:
            raise TypeError(f"unexpected arguments: {sorted(given)}")
        return cls(np.zeros(tuple(shape), dtype_of(wanted)))

    @classmethod
    def from_dlpack(cls, data: Any) -> OrtValue:
        """A value that shares the memory of anything with DLPack."""
        array = np.from_dlpack(data)
        # Some libraries hand truth values over as bytes.
        name = str(getattr(getattr(data, "dtype", None), "name", getattr(data, "dtype", "")))
        return cls(array.view(np.bool_) if name.rsplit(".")[-1] == "bool" and array.dtype == np.uint8 else array)

    def numpy(self) -> Any:
        """The array; a list for a sequence, a dict for a map."""
        return self._held

    def shape(self) -> list[int]:
        """The extents."""
        return list(self._array().shape)

    def data_type(self) -> str:
        """The type, as in `tensor(float)`."""
        return f"tensor({self._type()[1]})"

    def element_type(self) -> int:
        """The number that ONNX has for the element type."""
        return self._type()[0]

    def device_name(self) -> str:
        """Where the elements are."""
        return "cpu"

    def has_value(self) -> bool:
        """Whether there is a value; an optional one may be absent."""
        return self._held is not None

    def is_tensor(self) -> bool:
        """Whether the value is a tensor."""
        return isinstance(self._held, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Whether the value is a sparse tensor: never."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether the value is a list of tensors."""
        return isinstance(self._held, list)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._array().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """How many bytes the elements have."""
        return int(self._array().nbytes)

    def update_inplace(self, np_arr: Any) -> None:
        """Copies an array of the same type and extents into this value."""
        held, new = self._array(), np.asarray(np_arr)
        if new.dtype != held.dtype or new.shape != held.shape:
            raise ValueError(
                f"expected an array of {held.dtype} with extents {list(held.shape)}, got {new.dtype} with {list(new.shape)}"
            )
        if not held.flags.writeable:
            self._held = new.copy()
        else:
            held[...] = new

    def _array(self) -> np.ndarray[Any, Any]:
        if not isinstance(self._held, np.ndarray):
            raise ValueError(f"the value is no tensor, but of type `{type(self._held).__name__}`")
        return self._held

    def _type(self) -> tuple[int, str]:
        dtype = self._array().dtype
        name = "object" if dtype.kind in "OUST" else dtype.name
        if name not in _TYPES:
            raise ValueError(f"elements of {dtype} have no type of ONNX")
        return _TYPES[name]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        held = self._array()
        if dtype is not None and dtype != held.dtype:
            return held.astype(dtype)
        return held.copy() if copy else held

    def __dlpack__(self, **given: Any) -> Any:
        return self._array().__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self._array().__dlpack_device__()

    def __repr__(self) -> str:
        return f"bb.OrtValue({self._held!r})"


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies arrays into values of the same types and extents."""
    if len(src) != len(dst):
        raise ValueError(f"expected a value to copy into for each of {len(src)}, got {len(dst)}")
    for source, target in zip(src, dst):
        target.update_inplace(source._array())


class OrtDevice(Advised):
    """A device in ONNX Runtime's wrapper: the host."""

    _absent = {
        "device_mem_type": "values lie in the host's memory, `cpu`",
        "device_vendor_id": "values lie in the host's memory, `cpu`",
    }

    def __init__(self, *_: Any) -> None: ...

    @staticmethod
    def make(ort_device_name: str, device_id: int = 0, vendor_id: int = -1) -> OrtDevice:
        """The device of a name."""
        on_host(ort_device_name)
        return OrtDevice()

    @staticmethod
    def cpu() -> int:
        """The number of the host."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The number of plain memory."""
        return 0

    def device_id(self) -> int:
        """Which of the devices: the first."""
        return 0

    def device_type(self) -> str:
        """The kind of device."""
        return "cpu"
