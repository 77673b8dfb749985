"""Vectors of RNN, GRU and LSTM.

ONNX Runtime computes those in f32 with the time first; where it has no kernel (other types, the batch first), the
equations of ONNX's text in NumPy do, in f64. Whether `clip` bounds the cell state that an LSTM's last activation is
given, the text leaves open; ONNX Runtime says no.
"""
import numpy as np
from family import Family, bfloat16, short

f = Family("recurrent")
rng = np.random.default_rng(7)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def random(*shape, scale=1.0):
    return rng.normal(0, scale, shape).astype(np.float32)


def operands(op, t=3, n=2, i=4, h=3, d=1, bias=True, lengths=None, h0=False, c0=False, peepholes=False):
    g = GATES[op]
    out = {"x": random(t, n, i), "w": random(d, g * h, i, scale=0.5), "r": random(d, g * h, h, scale=0.5),
           "b": random(d, 2 * g * h) if bias else None,
           "lengths": None if lengths is None else np.array(lengths, np.int32),
           "h0": random(d, n, h) if h0 else None}
    if op == "LSTM":
        out |= {"c0": random(d, n, h) if c0 else None, "p": random(d, 3 * h) if peepholes else None}
    return out


def add(name, op, attributes=None, **how):
    d = 2 if (attributes or {}).get("direction") == "bidirectional" else 1
    x = operands(op, d=d, **how)
    h = x["r"].shape[2]
    outputs = 3 if op == "LSTM" else 2
    f.add(f"{op.lower()}_{name}", op, x, attributes={"hidden_size": h, **(attributes or {})}, outputs=outputs,
          expected="ort", opset=14, relative=1e-4, absolute=1e-6)


for op in GATES:
    add("plain", op)
    add("no_bias", op, bias=False)
    add("reverse", op, {"direction": "reverse"}, h0=True)
    add("bidirectional", op, {"direction": "bidirectional"}, h0=True, c0=op == "LSTM") if op == "LSTM" else \
        add("bidirectional", op, {"direction": "bidirectional"}, h0=True)
    add("lengths", op, lengths=[1, 3], h0=True)
    add("lengths_backwards", op, {"direction": "reverse"}, lengths=[2, 3], h0=True)
    add("lengths_both_ways", op, {"direction": "bidirectional"}, lengths=[3, 1], h0=True)
    add("clip", op, {"clip": 0.5})
    add("one_step", op, t=1, n=1)
    add("one_input", op, i=1, h=1)
    add("long", op, t=17, n=1)
add("linear_before_reset", "GRU", {"linear_before_reset": 1}, h0=True)
add("linear_before_reset_both_ways", "GRU", {"linear_before_reset": 1, "direction": "bidirectional"}, lengths=[2, 3])
add("linear_before_reset_no_bias", "GRU", {"linear_before_reset": 1}, bias=False)
add("peepholes", "LSTM", peepholes=True, h0=True, c0=True)
add("peepholes_both_ways", "LSTM", {"direction": "bidirectional"}, peepholes=True, c0=True)
add("input_forget", "LSTM", {"input_forget": 1}, c0=True)
for name, extra in [("Relu", {}), ("Sigmoid", {}), ("Softsign", {}), ("Softplus", {}), ("Affine", {"a": [0.5], "b": [0.25]}),
                    ("LeakyRelu", {"a": [0.2]}), ("ThresholdedRelu", {"a": [0.3]}), ("ScaledTanh", {"a": [0.7], "b": [1.5]}),
                    ("HardSigmoid", {"a": [0.3], "b": [0.4]}), ("Elu", {"a": [0.6]})]:
    given = {"activations": [name]}
    given |= {"activation_alpha": extra["a"]} if "a" in extra else {}
    given |= {"activation_beta": extra["b"]} if "b" in extra else {}
    add(f"of_{name.lower()}", "RNN", given)
add("parameters_in_order", "LSTM", {"activations": ["HardSigmoid", "LeakyRelu", "Elu"], "activation_alpha": [0.3, 0.1, 0.8],
                                    "activation_beta": [0.4]})
add("activations_of_two_ways", "GRU", {"direction": "bidirectional", "activations": ["Sigmoid", "Tanh", "HardSigmoid", "Relu"]})


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(op, x, w, r, b, h, c=None, linear=False):
    """ONNX's equations for one direction, `x: [t, n, i]`, all in f64."""
    size, ys = r.shape[1], []
    wb, rb = np.split(b, 2)
    for xt in x:
        wx, rh = xt @ w.T + wb, h @ r.T + rb
        if op == "RNN":
            h = np.tanh(wx + rh)
        elif op == "GRU":
            z, q = sigmoid(wx + rh)[:, :size], sigmoid(wx + rh)[:, size:2 * size]
            inner = q * rh[:, 2 * size:] if linear else (q * h) @ r[2 * size:].T + rb[2 * size:]
            h = (1 - z) * np.tanh(wx[:, 2 * size:] + inner) + z * h
        else:
            i, o, g, k = np.split(wx + rh, 4, 1)
            c = sigmoid(g) * c + sigmoid(i) * np.tanh(k)
            h = sigmoid(o) * np.tanh(c)
        ys.append(h)
    return np.stack(ys), h, c


for op, opset in [("RNN", 22), ("GRU", 22), ("LSTM", 22)]:
    for t in [np.float64, np.float16, bfloat16]:
        for batch_first in [0, 1]:
            x = {k: None if v is None else v.astype(t) for k, v in operands(op, h0=True).items()}
            wide = {k: None if v is None else v.astype(np.float64) for k, v in x.items()}
            c0 = np.zeros_like(wide["h0"][0])
            y, h, c = run(op, wide["x"], wide["w"][0], wide["r"][0], wide["b"][0], wide["h0"][0], c0)
            expected = [y[:, None], h[None], c[None]] if op == "LSTM" else [y[:, None], h[None]]
            if batch_first:
                x |= {"x": x["x"].swapaxes(0, 1), "h0": x["h0"].swapaxes(0, 1)}
                expected = [expected[0].transpose(2, 0, 1, 3), *(e.swapaxes(0, 1) for e in expected[1:])]
            f.add(f"{op.lower()}_{short(t)}_layout_{batch_first}", op, {k: v if v is None else v.copy() for k, v in x.items()},
                  attributes={"hidden_size": 3, "layout": batch_first}, outputs=len(expected), opset=opset,
                  expected=[e.astype(t) for e in expected],
                  relative={np.float64: 1e-12, np.float16: 2e-3, bfloat16: 1.6e-2}[t], absolute=1e-12 if t == np.float64 else 1e-3)
# Without steps the states stay; without a batch there is nothing.
x = operands("LSTM", t=0, h0=True, c0=True)
f.add("lstm_no_steps", "LSTM", x, attributes={"hidden_size": 3}, outputs=3,
      expected=[np.zeros((0, 1, 2, 3), np.float32), x["h0"], x["c0"]])
x = operands("GRU", n=0)
f.add("gru_no_batch", "GRU", x, attributes={"hidden_size": 3}, outputs=2,
      expected=[np.zeros((3, 1, 0, 3), np.float32), np.zeros((1, 0, 3), np.float32)])
x = operands("RNN", i=0)
y, h, _ = run("RNN", x["x"].astype(np.float64), x["w"][0], x["r"][0], x["b"][0], np.zeros((2, 3)))
f.add("rnn_no_inputs", "RNN", x, attributes={"hidden_size": 3}, outputs=2,
      expected=[y[:, None].astype(np.float32), h[None].astype(np.float32)])
f.add("rnn_unknown_activation", "RNN", operands("RNN"), attributes={"hidden_size": 3, "activations": ["Sine"]}, fails=True)
f.add("rnn_weights_of_another_size", "RNN", operands("RNN") | {"w": random(1, 4, 4)}, attributes={"hidden_size": 3}, fails=True)
f.add("gru_hidden_size_differs", "GRU", operands("GRU"), attributes={"hidden_size": 4}, fails=True)
# More names than the directions need; the default of RNN has two. ONNX Runtime takes the first ones of RNN.
add("two_names", "RNN", {"activations": ["Tanh", "Tanh"]})
add("two_names_that_differ", "RNN", {"activations": ["Relu", "Tanh"]})
add("two_names_backwards", "RNN", {"activations": ["Affine", "Tanh"], "activation_alpha": [0.5], "activation_beta": [0.25], "direction": "reverse"})
f.add("rnn_one_name_for_two_directions", "RNN", operands("RNN", d=2), attributes={"hidden_size": 3, "activations": ["Tanh"], "direction": "bidirectional"},
      outputs=2, opset=14, fails=True)
f.add("rnn_unknown_name_behind", "RNN", operands("RNN"), attributes={"hidden_size": 3, "activations": ["Tanh", "Sine"]}, outputs=2, opset=14, fails=True)
x = operands("GRU", bias=False)
y, h, _ = run("GRU", x["x"].astype(np.float64), x["w"][0], x["r"][0], np.zeros(18), np.zeros((2, 3)))
for version, direction in [(1, "foward"), (3, "forward")]:
    # The default of GRU 1 is spelt so; the equations of both versions are those of version 7 with `linear_before_reset` 0.
    f.add(f"gru_{version}_direction_written", "GRU", x, attributes={"hidden_size": 3, "direction": direction}, outputs=2, opset=version, relative=1e-4, absolute=1e-6,
          expected=[y[:, None].astype(np.float32), h[None].astype(np.float32)])
f.write()
