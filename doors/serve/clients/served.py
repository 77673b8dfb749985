"""A server in a process of its own, and the cases of the repository's models."""

import contextlib
import pathlib
import signal
import subprocess

import numpy as np
import onnx

MODELS = pathlib.Path(__file__).parents[3] / "tests/data/models"


class Case:
    """A model with inputs, and the outputs that ONNX Runtime gave for them."""

    @classmethod
    def made(cls, folder, name, node, inputs, outputs):
        """A model of one node, whose outputs follow from what the operator means."""
        case = cls.__new__(cls)
        case.name, case.inputs, case.outputs = name, inputs, outputs
        case.path = pathlib.Path(folder) / f"{name}.onnx"

        def port(name, array):
            kind = onnx.TensorProto.STRING if array.dtype.kind in "OUS" else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            return onnx.helper.make_tensor_value_info(name, kind, ["n", *array.shape[1:]])

        ports = [[port(name, array) for name, array in arrays.items()] for arrays in (inputs, outputs)]
        graph = onnx.helper.make_graph([node], name, *ports)
        opset = [onnx.helper.make_opsetid("", 21)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), case.path)
        return case

    def __init__(self, name):
        self.name = name
        self.path = MODELS / name / "model.onnx"
        graph = onnx.load(self.path).graph
        made = {tensor.name for tensor in graph.initializer}
        self.inputs = self.read("input", [value.name for value in graph.input if value.name not in made])
        self.outputs = self.read("output", [value.name for value in graph.output])

    def read(self, kind, names):
        arrays = {}
        for place, name in enumerate(names):
            tensor = onnx.TensorProto()
            tensor.ParseFromString((MODELS / self.name / f"test_data_set_0/{kind}_{place}.pb").read_bytes())
            arrays[name] = onnx.numpy_helper.to_array(tensor)
        return arrays

    def check(self, outputs):
        """Fails unless outputs are those of ONNX Runtime, by ONNX's tolerances."""
        assert outputs.keys() == self.outputs.keys(), (outputs.keys(), self.outputs.keys())
        for name, got in outputs.items():
            self.check_one(name, got)

    def check_one(self, name, got):
        """Fails unless one output is as expected."""
        expected = self.outputs[name]
        assert got.shape == expected.shape, (self.name, name, got.shape, expected.shape)
        if expected.dtype.kind in "OUS":
            text = [value.decode() if isinstance(value, bytes) else value for value in got.flat]
            assert text == list(expected.flat), (self.name, name, text)
        else:
            assert got.dtype == expected.dtype, (self.name, name, got.dtype, expected.dtype)
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5, err_msg=f"{self.name} {name}")


class Server:
    """`bb serve` on ports of loopback."""

    def __init__(self, bb, cases, *options, http="127.0.0.1:0", grpc="127.0.0.1:0"):
        models = [f"{case.name}={case.path}" for case in cases]
        command = [bb, "serve", *models, "--http", http, "--grpc", grpc, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.http = self.line("HTTP http").removeprefix("s").removeprefix("://")
        self.grpc = self.line("gRPC ")

    def line(self, start):
        line = self.process.stdout.readline().strip()
        assert line.startswith(start), f"expected a line that begins with {start!r}, got {line!r}"
        return line[len(start) :]

    def resident(self):
        """The bytes of memory that the process holds."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return 1024 * int(line.split()[1])
        raise AssertionError("the server has ended")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        """Asks the server to end, and fails if it left something unanswered."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"the server ended with {code}"


@contextlib.contextmanager
def serving(*arguments, **options):
    server = Server(*arguments, **options)
    try:
        yield server
        server.end()
    finally:
        if server.process.poll() is None:
            server.kill()
