"""ONNX's backend interface, `onnx.backend.base.Backend`. ONNX's own tests run `bb` through it.

    import onnx.backend.test
    import bb.backend

    tests = onnx.backend.test.BackendTest(bb.backend, __name__)

`device` is ONNX's name for one, `CPU` or `CUDA:1`, or the name of a backend of `bb`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _bb
from ._session import Session
from .errors import MissingPackage

try:
    import onnx
    from onnx import helper
    from onnx.backend.base import Backend, BackendRep, namedtupledict
except ModuleNotFoundError as error:
    if error.name != "onnx":
        raise
    raise MissingPackage("`bb.backend` needs the package `onnx`: pip install onnx", name="onnx") from None

__all__ = ["BbBackend", "BbRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


def _backend(device: str) -> str | None:
    """The backend for a device; `None` if there is none."""
    linked = _bb.backends()
    if device in linked:
        return device
    kind = device.split(":")[0].upper()
    return "cpu" if kind == "CPU" and "cpu" in linked else None


class BbRep(BackendRep):  # type: ignore[misc, unused-ignore]
    """A model that is ready to run."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._names = [port.name for port in session.get_outputs()]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model with inputs by position, by name, or with the only one."""
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        if isinstance(inputs, (list, tuple)):
            # ONNX gives the required inputs, or all of them.
            needed = [port.name for port in self.session.get_inputs()]
            if len(inputs) <= len(needed):
                inputs = dict(zip(needed, inputs))
            else:
                inputs = list(inputs)
        outputs = self.session.run(None, inputs)
        named: tuple[Any, ...] = namedtupledict("Outputs", self._names)(*outputs)
        return named


class BbBackend(Backend):  # type: ignore[misc, unused-ignore]
    """ONNX's interface to `bb`."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the backend runs every node of a model."""
        if _backend(device) is None:
            return False
        return not cls.prepare(model, device, **kwargs).session.coverage()["counts"]["unsupported"]

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> BbRep:
        """Opens a model: ONNX's message, bytes, a file, or a session. The keywords are the keywords of `bb.Session`."""
        if isinstance(model, BbRep):
            return model
        if isinstance(model, Session):
            return BbRep(model)
        name = _backend(device)
        if name is None:
            raise RuntimeError(f"there is no backend for the device {device!r}; there are {_bb.backends()}")
        if isinstance(model, onnx.ModelProto):
            model = model.SerializeToString()
        return BbRep(Session(model, name, **kwargs))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Opens a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node on arrays, one for each operand that is there."""
        import numpy as np

        names = [name for name in node.input if name]
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in names]
        arrays = [np.asarray(value) for value in inputs]
        if len(arrays) != len(names):
            raise ValueError(f"the node has {len(names)} operands, got {len(arrays)} arrays")

        def declared(name: str, dtype: Any, shape: Any) -> Any:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

        ins = [declared(name, array.dtype, array.shape) for name, array in dict(zip(names, arrays)).items()]
        results = [name for name in node.output if name]
        if outputs_info is None:
            outs = [helper.make_empty_tensor_value_info(name) for name in results]
        else:
            outs = [declared(name, *info) for name, info in zip(results, outputs_info)]
        graph = helper.make_graph([node], "node", ins, outs)
        version = kwargs.pop("opset_version", None) or onnx.defs.onnx_opset_version()
        opsets = [helper.make_opsetid(node.domain, version)]
        if node.domain:
            opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version()), helper.make_opsetid(node.domain, 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        return cls.run_model(model, dict(zip(names, arrays)), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is a backend for a device."""
        return _backend(device) is not None


is_compatible = BbBackend.is_compatible
prepare = BbBackend.prepare
run_model = BbBackend.run_model
run_node = BbBackend.run_node
supports_device = BbBackend.supports_device
