"""Vectors of DFT, STFT, windows and MelWeightMatrix.

NumPy's transforms in double precision decide, also where ONNX's evaluator computes in single precision. A window
whose period is 0 has one element, its middle, as NumPy's windows have.
"""
import ml_dtypes
import numpy as np
from family import FLOATS, INTS, Family, short
from onnx import helper

f = Family("signals")
random = np.random.default_rng(1)


def parts(z, t):
    return np.stack([z.real, z.imag], -1).astype(t)


def complex_of(x):
    return x[..., 0].astype(np.float64) if x.shape[-1] == 1 else x[..., 0].astype(np.float64) + 1j * x[..., 1].astype(np.float64)


def dft(name, shape, axis, t=np.float32, length=None, inverse=False, onesided=False, opset=20, given=True):
    x = random.uniform(0.5, 2, shape).astype(t)
    z, at = complex_of(x), axis % len(shape)
    if inverse and onesided:
        y = np.fft.irfft(z, length, axis=at)[..., None].astype(t)
    else:
        y = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis=at)
        if onesided:
            y = np.take(y, range(y.shape[at] // 2 + 1), at)
        y = parts(y, t)
    attributes = {"inverse": int(inverse), "onesided": int(onesided)}
    inputs = {"x": x, "length": None if length is None else np.int64(length)}
    if opset < 20:
        attributes["axis"] = axis
    elif given:
        inputs["axis"] = np.int64(axis)
    # Halves round each of many operands; what cancels leaves the rounding of as many terms.
    absolute = {2: 1e-2, 4: max(1e-5, 2e-6 * y.shape[at])}.get(np.dtype(t).itemsize, 1e-9)
    f.add(name, "DFT", inputs, attributes=attributes, opset=opset, expected=y, absolute=absolute)


for t in FLOATS:
    dft(f"dft_{short(t)}", (2, 7, 1), 1, t)
    dft(f"inverse_{short(t)}", (2, 6, 2), -2, t, inverse=True)
dft("last_signal_axis_by_default", (2, 3, 5, 2), -2, given=False)
dft("first_axis", (6, 3, 1), 0)
dft("negative_axis", (2, 5, 4, 2), -3)
dft("complex", (2, 8, 3, 2), 1)
dft("onesided_even", (2, 8, 1), 1, onesided=True)
dft("onesided_odd", (2, 9, 1), 1, onesided=True)
dft("padded", (1, 5, 1), 1, length=8)
dft("padded_complex", (1, 5, 2), 1, length=12)
dft("cut", (1, 9, 1), 1, length=4)
dft("cut_onesided", (1, 9, 1), 1, length=5, onesided=True)
dft("one", (3, 1, 2), 1)
dft("nothing_in_the_batch", (0, 4, 2), 1)
dft("signal_of_a_batch_alone", (4, 1), 0)
dft("prime", (1, 127, 1), 1)
dft("composite", (1, 1080, 2), 1, t=np.float64)
dft("composite_onesided", (1, 2048, 1), 1, onesided=True)
dft("long_prime", (1, 1009, 2), 1)
dft("long_with_a_prime_factor", (1, 1538, 2), 1, inverse=True)
dft("inverse_of_half", (2, 5, 2), 1, inverse=True, onesided=True)
dft("inverse_of_half_odd", (2, 5, 2), 1, inverse=True, onesided=True, length=9)
dft("inverse_of_half_padded", (2, 3, 2), 1, inverse=True, onesided=True, length=10)
dft("inverse_of_half_cut", (2, 9, 2), 1, inverse=True, onesided=True, length=6)
dft("inverse_of_half_long", (1, 1031, 2), 1, inverse=True, onesided=True)
dft("inverse_real", (1, 6, 1), 1, inverse=True)
dft("axis_of_opset_17", (2, 3, 4, 1), 2, opset=17)
dft("default_axis_of_opset_17", (2, 5, 2), 1, opset=17, inverse=True)
x = np.ones((2, 4, 2), np.float32)
f.add("onesided_of_complex", "DFT", {"x": x}, attributes={"onesided": 1}, fails=True)
f.add("axis_of_parts", "DFT", {"x": x, "n": None, "axis": np.int64(-1)}, fails=True)
f.add("of_no_length", "DFT", {"x": x, "n": np.int64(0)}, fails=True)
f.add("of_triples", "DFT", {"x": np.ones((2, 4, 3), np.float32)}, fails=True)


def stft(name, samples, step, length=None, window=None, channels=1, onesided=1, t=np.float32):
    x = random.uniform(0.5, 2, (2, samples, channels)).astype(t)
    z = complex_of(x)
    size = length or (len(window) if window is not None else samples)
    w = np.ones(size) if window is None else np.asarray(window, t).astype(np.float64)
    frames = 1 + (samples - size) // step
    y = np.stack([np.fft.fft(z[:, i * step:i * step + size] * w) for i in range(frames)], 1)
    if onesided:
        y = y[..., : size // 2 + 1]
    inputs = {"x": x, "step": np.int64(step), "window": None if window is None else np.asarray(window, t),
              "length": None if length is None else np.int64(length)}
    f.add(name, "STFT", inputs, attributes={"onesided": onesided}, expected=parts(y, t),
          absolute={2: 2e-2}.get(np.dtype(t).itemsize, 1e-5))


for t in FLOATS:
    stft(f"stft_{short(t)}", 20, 4, 8, np.hanning(8) + 0.25, t=t)
stft("stft_without_window", 17, 3, 5)
stft("stft_length_of_window", 16, 8, window=np.hamming(6))
stft("stft_of_one_frame", 9, 4)
stft("stft_complex", 12, 5, 4, channels=2, onesided=0)
stft("stft_two_sided", 12, 1, 6, onesided=0)
f.add("stft_onesided_of_complex", "STFT", {"x": x, "step": np.int64(1), "window": None, "length": np.int64(2)}, fails=True)
f.add("stft_longer_than_the_signal", "STFT", {"x": x[..., :1], "step": np.int64(1), "window": None, "length": np.int64(9)},
      fails=True)


def cosines(size, coefficients, periodic):
    n = size if periodic else size - 1
    angle = np.full(size, np.pi) if n == 0 else 2 * np.pi * np.arange(size) / n
    return sum(c * np.cos(k * angle) for k, c in enumerate(coefficients))


WINDOWS = {"Hann": [0.5, -0.5], "Hamming": [25 / 46, -21 / 46], "Blackman": [0.42, -0.5, 0.08]}
TYPES = {t: helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in FLOATS + INTS}
for name, c in WINDOWS.items():
    for size, periodic, t in [(10, 1, np.float32), (10, 0, np.float64), (1, 0, np.float32), (1, 1, np.float32),
                              (0, 1, np.float32), (7, 0, np.float16), (8, 1, ml_dtypes.bfloat16), (2, 1, np.float32)]:
        y = cosines(size, c, periodic).astype(t)
        f.add(f"{name.lower()}_of_{size}_{'periodic' if periodic else 'symmetric'}_{short(t)}", f"{name}Window",
              {"n": np.int32(size)}, attributes={"periodic": periodic, "output_datatype": TYPES[t]}, expected=y, absolute=1e-6)
for t in INTS:
    # Rounded towards zero; the middle is exactly 1, and no other element comes near an integer but 0.
    f.add(f"hann_{short(t)}", "HannWindow", {"n": np.int64(8)}, attributes={"output_datatype": TYPES[t]},
          expected=np.array([0, 0, 0, 0, 1, 0, 0, 0], t))
f.add("hann_of_less_than_nothing", "HannWindow", {"n": np.int64(-1)}, fails=True)

MEL = {"bands": np.int64(8), "length": np.int64(32), "rate": np.int64(8000), "low": np.float32(0), "high": np.float32(4000)}
for name, change in {"mel": {}, "mel_i32": {"bands": np.int32(4), "length": np.int32(16), "rate": np.int32(8000)},
                     "mel_of_many_bands": {"bands": np.int64(20)}, "mel_high": {"low": np.float32(500), "length": np.int64(64)},
                     "mel_narrow": {"low": np.float32(1000), "high": np.float32(1200)}}.items():
    f.add(name, "MelWeightMatrix", MEL | change)
f.add("mel_f64", "MelWeightMatrix", MEL, attributes={"output_datatype": TYPES[np.float64]})
f.add("mel_i8", "MelWeightMatrix", MEL, attributes={"output_datatype": TYPES[np.int8]})
f.add("mel_beyond_the_spectrum", "MelWeightMatrix", MEL | {"high": np.float32(9000)}, fails=True)
f.write()
