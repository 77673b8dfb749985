//! Fourier transforms, window functions, and mel filter banks.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{fourier, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::{Axis, TensorData, memory};

operators! {
    "" {
        BlackmanWindow => Primitives(blackman_window), infer: By(window_types), halves: Once;
        DFT => Primitives(dft), infer: By(dft_types), halves: Once;
        HammingWindow => Primitives(hamming_window), infer: By(window_types), halves: Once;
        HannWindow => Primitives(hann_window), infer: By(window_types), halves: Once;
        MelWeightMatrix => Primitives(mel_weight_matrix), infer: By(mel_weight_matrix_types), halves: Once;
        STFT => Primitives(stft), infer: By(stft_types);
    }
}

/// The maximum number of elements of a tensor that the host computes.
const MOST: i64 = 1 << 25;

/// Reads operand `index`, which has a single integer.
fn integer(on: &Tracer, call: &Call<'_, TracedTensor>, index: usize) -> Result<i64, TraceStop> {
    match on.ints(call.input(index)?)?[..] {
        [value] => Ok(value),
        ref list => Err(call
            .wrong(NodePart::Operand(index), format!("has {} elements, expected 1", list.len()))
            .into()),
    }
}

/// Reads operand `index`, which has a single integer, if the operand is present.
fn optional_integer(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
) -> Result<Option<i64>, TraceStop> {
    if call.optional(index).is_some() { integer(on, call, index).map(Some) } else { Ok(None) }
}

/// Checks a size that the model chose against `least` and the maximum.
fn extent<T>(call: &Call<'_, T>, what: &str, value: i64, least: i64) -> Result<usize, Error> {
    if (least..=MOST).contains(&value) {
        Ok(value as usize)
    } else {
        Err(call.wrong(what, format!("is {value}, expected {least} to {MOST}")))
    }
}

/// Checks that the last extent is 1 (real numbers) or 2 (complex numbers), and fits `onesided` and `inverse`.
fn parts<T: Tensor>(call: &Call<'_, T>, x: &T, onesided: bool, inverse: bool) -> Result<(), Error> {
    let parts = x.shape().last().copied().unwrap_or(0);
    if x.rank() < 2 || !(1..=2).contains(&parts) {
        return Err(call.wrong(
            NodePart::Operand(0),
            format!("has the shape {:?}; the last extent must be 1 or 2", x.shape()),
        ));
    }
    match (onesided, inverse, parts) {
        (true, false, 2) => Err(call.wrong("onesided", "is set, but the signal is complex")),
        (true, true, 1) => Err(call.wrong("onesided", "is set, but the frequencies are real")),
        _ => Ok(()),
    }
}

/// Infers the facts about the shape that hold for every axis, if the axis is unknown.
fn of_some_axis(at: NodeFacts<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let (inverse, onesided) = (at.int("inverse", 0)? != 0, at.int("onesided", 0)? != 0);
    let keeps = !at.has(1) && !onesided;
    let mut out = if keeps { x.to_vec() } else { vec![Dim::Unknown; x.len()] };
    *out.last_mut()? = Dim::Known(if inverse && onesided { 1 } else { 2 });
    Some(out)
}

/// Infers the type of `DFT`: one frequency per element of the signal, `length / 2 + 1` frequencies if `onesided`, or the
/// signal for the inverse.
fn dft_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = if at.node.opset < 20 {
            at.int("axis", 1)?
        } else if at.has(2) {
            match at.scalar(2) {
                Some(axis) => axis,
                None => return of_some_axis(at, x),
            }
        } else {
            -2
        };
        let axis = rule::axis(axis, x.len())?;
        let (inverse, onesided) = (at.int("inverse", 0)? != 0, at.int("onesided", 0)? != 0);
        let own = x.get(axis)?;
        let length = match (at.has(1), inverse && onesided) {
            (true, _) => at.extent(1),
            (false, true) => rule::scaled(&rule::shifted(own, -1), 2),
            (false, false) => own.clone(),
        };
        let mut out = x.to_vec();
        *out.get_mut(axis)? =
            if onesided && !inverse { rule::shifted(&rule::divided(&length, 2), 1) } else { length };
        // The inverse of a one-sided spectrum is a real signal.
        *out.last_mut()? = Dim::Known(if inverse && onesided { 1 } else { 2 });
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `DFT`. The axis is an attribute before opset 20, and an operand since.
pub(super) fn dft(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    parts(call, x, onesided, inverse)?;
    let axis = if call.opset() < 20 {
        call.int_or("axis", 1)?
    } else {
        optional_integer(on, call, 2)?.unwrap_or(-2)
    };
    let at = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    if at + 1 == x.rank() {
        return Err(call
            .wrong("axis", format!("is {axis}, the dimension of real and imaginary parts"))
            .into());
    }
    let have = x.shape().get(at).copied().unwrap_or(0) as i64;
    let default = if inverse && onesided { 2 * (have - 1) } else { have };
    let length = optional_integer(on, call, 1)?.unwrap_or(default);
    let length = extent(call, "dft_length", length, 1)?;
    let mut perm: Vec<i64> = (0..x.rank() as i64).collect();
    perm.swap(at, x.rank() - 2);
    let y = on.dft(&on.transpose(x, &perm)?, length as i64, inverse, onesided)?;
    Ok(one(on.transpose(&y, &perm)?))
}

/// Infers the type of `STFT`: a transform of each frame of a signal.
fn stft_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let [batch, samples, ..] = at.dims(0)? else { return None };
        let length = if at.has(3) { at.extent(3) } else { at.dims(2).map_or(Dim::Unknown, rule::product) };
        let frames = match at.scalar(1) {
            Some(step @ 1..) => {
                let whole =
                    infer::Step { kernel: length.clone(), stride: step, dilation: 1, before: 0, after: 0 };
                rule::told(whole.count(samples, infer::Padding::Given, false))
            }
            _ => Dim::Unknown,
        };
        let bins =
            if at.int("onesided", 1)? == 0 { length } else { rule::shifted(&rule::divided(&length, 2), 1) };
        Some(vec![batch.clone(), frames, bins, Dim::Known(2)])
    };
    at.one(at.dtype(0), shape())
}

/// `STFT`: the transforms of the frames of a signal, each multiplied by a window.
pub(super) fn stft(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let onesided = call.flag("onesided", true)?;
    // PyTorch exports a real signal without the last dimension, and ONNX Runtime accepts it.
    let x = &if x.rank() == 2 { on.unsqueeze(x, &[2])? } else { x.clone() };
    parts(call, x, onesided, false)?;
    let &[_, samples, _] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 3", x.rank())).into());
    };
    let step = extent(call, "frame_step", integer(on, call, 1)?, 1)?;
    let window = call.optional(2);
    let length = match (optional_integer(on, call, 3)?, window) {
        (Some(length), _) => length,
        (None, Some(window)) => window.shape().iter().product::<usize>() as i64,
        (None, None) => samples as i64,
    };
    let length = extent(call, "frame_length", length, 1)?;
    if length > samples {
        return Err(call
            .wrong("frame_length", format!("is {length}; the signal has {samples} samples"))
            .into());
    }
    if let Some(window) = window.filter(|w| w.shape() != [length]) {
        let problem = format!("has the shape {:?}; frames have {length} samples", window.shape());
        return Err(call.wrong("window", problem).into());
    }
    let frames = (samples - length) / step + 1;
    extent(call, "frame_step", (frames as i64).saturating_mul(length as i64), 1)?;
    call.bound(DataType::I64, &[frames, length])?;
    let mut places: Vec<i64> = memory::room("STFT", frames.saturating_mul(length)).map_err(Error::from)?;
    places.extend((0..frames).flat_map(|f| (0..length).map(move |i| (f * step + i) as i64)));
    let places = on.host(&[frames, length], &places)?;
    let y = math::widened(on, x, fourier::accumulator(length), |x| {
        let mut framed = on.gather(x, &places, 1)?;
        if let Some(window) = window {
            let weights = math::to(on, window, x.dtype())?;
            framed = on.mul(&framed, &on.reshape(&weights, &[length, 1])?)?;
        }
        on.dft(&framed, length as i64, false, onesided)
    })?;
    Ok(one(y))
}

/// Creates a window. `of_cosine` computes the value from the cosine of each element's angle.
///
/// The functions must return exactly 0 and 1 at the ends and in the middle, because a cast to integers truncates.
fn window(on: &Tracer, call: &Call<'_, TracedTensor>, of_cosine: fn(f64) -> f64) -> OpResult {
    let size = extent(call, "size", integer(on, call, 0)?, 0)?;
    let dtype = call.dtype("output_datatype")?.unwrap_or(DataType::F32);
    let turn = if call.flag("periodic", true)? { size as f64 } else { size as f64 - 1.0 };
    call.bound(DataType::F64, &[size])?;
    let value = |i: usize| -> f64 {
        // A symmetric window of one element has the value of the middle.
        let angle = if turn == 0.0 { std::f64::consts::PI } else { std::f64::consts::TAU * i as f64 / turn };
        of_cosine(angle.cos())
    };
    let values = memory::collected("window", (0..size).map(value)).map_err(Error::from)?;
    made(on, &[size], &values, dtype)
}

/// Creates a tensor from numbers that the host computed.
fn made(on: &Tracer, shape: &[usize], values: &[f64], dtype: DataType) -> OpResult {
    let wide = TensorData::new(shape, values).map_err(Error::from)?;
    Ok(one(on.constant(&cast(&wide, dtype, Rounding::default()).map_err(Error::from)?)?))
}

fn window_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.type_attribute("output_datatype", Some(DataType::F32)), Some(vec![at.extent(0)]))
}

/// `HannWindow`.
pub(super) fn hann_window(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    window(on, call, |c| (1.0 - c) / 2.0)
}

/// `HammingWindow`.
pub(super) fn hamming_window(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    window(on, call, |c| (25.0 - 21.0 * c) / 46.0)
}

/// `BlackmanWindow`: `0.42 - 0.5 cos(a) + 0.08 cos(2 a)`, factored by `cos(2 a) = 2 cos(a)^2 - 1`.
pub(super) fn blackman_window(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    window(on, call, |c| (1.0 - c) * (0.34 - 0.16 * c))
}

fn mel_weight_matrix_types(at: NodeFacts<'_>) -> Option<Types> {
    let bins = rule::shifted(&rule::divided(&at.extent(1), 2), 1);
    at.one(at.type_attribute("output_datatype", Some(DataType::F32)), Some(vec![bins, at.extent(0)]))
}

/// `MelWeightMatrix`: overlapping triangular filters, evenly spaced on the mel scale.
pub(super) fn mel_weight_matrix(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let bands = extent(call, "num_mel_bins", integer(on, call, 0)?, 0)?;
    let length = extent(call, "dft_length", integer(on, call, 1)?, 0)?;
    let rate = integer(on, call, 2)?;
    if rate < 1 {
        return Err(call.wrong("sample_rate", format!("is {rate}, expected a positive number")).into());
    }
    let edge = |index: usize| -> Result<f64, TraceStop> {
        Ok(2595.0 * (1.0 + super::shape::number(on, call.input(index)?)? / 700.0).log10())
    };
    let (lower, upper) = (edge(3)?, edge(4)?);
    let bins = length / 2 + 1;
    let step = (upper - lower) / (bands + 2) as f64;
    let corner = |i: usize| -> Result<usize, Error> {
        let hertz = 700.0 * (10f64.powf((i as f64 * step + lower) / 2595.0) - 1.0);
        let bin = ((length + 1) as f64 * hertz / rate as f64).floor();
        // The last triangle may end one bin after the last one, where its weight is 0.
        if (0.0..=bins as f64).contains(&bin) {
            Ok(bin as usize)
        } else {
            Err(call.wrong("upper_edge_hertz", format!("makes a band end at bin {bin} of {bins}")))
        }
    };
    let count = bins.checked_mul(bands).filter(|&n| n <= MOST as usize);
    let count =
        count.ok_or_else(|| call.wrong("num_mel_bins", format!("makes {bins} times {bands} weights")))?;
    call.bound(DataType::F64, &[bins, bands])?;
    let corners: Vec<usize> = (0..bands + 2).map(corner).collect::<Result<_, _>>()?;
    let mut weights = memory::filled("MelWeightMatrix", 0.0, count).map_err(Error::from)?;
    for (band, triangle) in corners.windows(3).enumerate() {
        let &[left, centre, right] = triangle else { continue };
        let mut set = |bin: usize, weight: f64| {
            if let Some(slot) = weights.get_mut(bin * bands + band) {
                *slot = weight;
            }
        };
        for bin in left..centre {
            set(bin, (bin - left) as f64 / (centre - left) as f64);
        }
        if left <= centre {
            set(centre, 1.0);
        }
        for bin in centre..right {
            set(bin, (right - bin) as f64 / (right - centre) as f64);
        }
    }
    let dtype = call.dtype("output_datatype")?.unwrap_or(DataType::F32);
    made(on, &[bins, bands], &weights, dtype)
}
