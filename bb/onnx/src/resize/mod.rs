//! Resizes each axis separately, by a gather (nearest) or by weighted sums (linear, cubic).

mod between;

use crate::attributes::Attributes;
use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::sample::blank_like;
use bb_core::ext::{Extent, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::Axis;
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::infer::{self, Aspect, at_scale, rescaled};
use between::{Shares, between};

operators! {
    "" {
        Resize => Primitives(resize), infer: By(resize_types), halves: Once;
        Upsample => Primitives(resize), infer: By(resize_types), halves: Once;
    }
}

/// A node's attributes about the resized axes.
struct Sizing<'a> {
    policy: &'a str,
    /// The axes that are resized; all if the attribute is omitted.
    axes: Option<&'a [i64]>,
}

impl<'a> Sizing<'a> {
    fn of<A: Attributes<'a>>(node: &A) -> Result<Sizing<'a>, A::Error> {
        Ok(Sizing { policy: node.text_or("keep_aspect_ratio_policy", "stretch")?, axes: node.ints("axes")? })
    }

    /// Returns how the aspect ratio is kept; `None` if the policy is unknown.
    fn aspect(&self) -> Option<Aspect> {
        Aspect::of(self.policy)
    }
}

/// How one axis is resized.
#[derive(Debug, Clone, Copy)]
struct Scaled {
    axis: usize,
    from: usize,
    to: usize,
    scale: f64,
    /// The start and end of the part of the axis that `tf_crop_and_resize` uses, as fractions of the axis.
    region: (f64, f64),
}

impl Scaled {
    /// Returns the position in the operand that corresponds to element `i` of the result.
    fn position(&self, transform: &str, i: usize) -> Option<f64> {
        let (i, from, to) = (i as f64, self.from as f64, self.to as f64);
        // The exact product of scale and extent, because ONNX's evaluator and test cases do not round it.
        let whole = self.scale * from;
        let half = (i + 0.5) / self.scale - 0.5;
        Some(match transform {
            "half_pixel" => half,
            // ONNX's evaluator uses -0.5 here. The operator's documentation, ONNX Runtime and PyTorch use 0.
            "pytorch_half_pixel" if self.to == 1 => 0.0,
            "pytorch_half_pixel" => half,
            // The rounding difference of the extent is split between both ends.
            "half_pixel_symmetric" => from / 2.0 * (1.0 - to / whole) + half,
            "tf_half_pixel_for_nn" => (i + 0.5) / self.scale,
            "asymmetric" => i / self.scale,
            "align_corners" if self.to == 1 => 0.0,
            "align_corners" => i * (from - 1.0) / (whole - 1.0),
            "tf_crop_and_resize" => {
                let (start, end) = self.region;
                if self.to == 1 {
                    (start + end) * (from - 1.0) / 2.0
                } else {
                    start * (from - 1.0) + i * (end - start) * (from - 1.0) / (whole - 1.0)
                }
            }
            _ => return None,
        })
    }
}

/// Reads a tensor of floats.
fn floats(on: &Tracer, x: &TracedTensor) -> Result<Vec<f64>, TraceStop> {
    let wide = cast(&on.to_host(x)?, DataType::F64, Rounding::default()).map_err(Error::from)?;
    Ok(wide.as_slice::<f64>().map_err(Error::from)?.to_vec())
}

/// The maximum number of elements of an axis, and of a matrix of weights.
const MOST: usize = 1 << 27;

/// Reads scales or sizes, and determines the extents of the result.
fn scaled(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<Vec<Scaled>, TraceStop> {
    let x = call.input(0)?;
    let sizing = Sizing::of(call)?;
    let axes: Vec<usize> = match sizing.axes {
        Some(axes) => {
            axes.iter().map(|&a| Ok(Axis::new(a, x.rank())?.get())).collect::<Result<_, Error>>()?
        }
        None => (0..x.rank()).collect(),
    };
    let from: Vec<usize> = axes.iter().filter_map(|&a| x.shape().get(a).copied()).collect();
    let given = |index| call.optional(index).filter(|t| t.shape().iter().all(|&d| d != 0));
    let (scales_at, region) = if call.opset() < 11 { (1, None) } else { (2, given(1)) };
    let region = match region {
        Some(region)
            if call.text_or("coordinate_transformation_mode", "half_pixel")? == "tf_crop_and_resize" =>
        {
            floats(on, region)?
        }
        _ => Vec::new(),
    };
    let wrong = |what: &str, n: usize| call.wrong(what, format!("has {n} numbers for {} axes", axes.len()));
    let scales_attribute = if call.has("height_scale") {
        // `Upsample` of opset 1 has images as operands, and scales only height and width.
        Some(vec![1.0, 1.0, call.float("height_scale")?, call.float("width_scale")?])
    } else {
        call.floats("scales")?.map(|s| s.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())
    };
    let pairs: Vec<(usize, f64)> = if let Some(sizes) = given(3).filter(|_| call.opset() >= 11) {
        let sizes = on.ints(sizes)?;
        if sizes.len() != axes.len() {
            return Err(wrong("sizes", sizes.len()).into());
        }
        let aspect = sizing.aspect().ok_or_else(|| {
            let policy = sizing.policy;
            let problem = format!("is `{policy}`, expected `stretch`, `not_larger` or `not_smaller`");
            call.wrong("keep_aspect_ratio_policy", problem)
        })?;
        if sizes.iter().any(|&s| s < 0) {
            return Err(call.wrong("sizes", format!("is {sizes:?}; extents are not negative")).into());
        }
        let numbers = |list: &[i64]| list.iter().map(|&n| n as f64).collect::<Vec<_>>();
        let extents: Vec<i64> = from.iter().map(|&n| n as i64).collect();
        match aspect.scale(&numbers(&extents), &numbers(&sizes)) {
            // A size that cannot be represented becomes `usize::MAX`, which is refused below.
            Some(scale) => {
                let size = |&from: &usize| at_scale(from as f64, scale).map_or(usize::MAX, extent);
                from.iter().map(|from| (size(from), scale)).collect()
            }
            // An extent of 0 has no scale. The scale 1 is a placeholder that is never used.
            None => {
                let scale = |(&size, &from): (&i64, &usize)| {
                    let scale = size as f64 / from as f64;
                    (extent(size), if scale > 0.0 { scale } else { 1.0 })
                };
                sizes.iter().zip(&from).map(scale).collect()
            }
        }
    } else {
        let scales = match (scales_attribute, call.optional(scales_at)) {
            (Some(scales), _) => scales,
            (None, Some(scales)) => floats(on, scales)?,
            (None, None) => return Err(call.wrong("scales", "is missing, and so is `sizes`").into()),
        };
        if scales.len() != axes.len() {
            return Err(wrong("scales", scales.len()).into());
        }
        // A scale that gives no valid extent is refused below.
        let size = |(from, scale): (&usize, f64)| (rescaled(from, scale).unwrap_or(usize::MAX), scale);
        from.iter().zip(scales).map(size).collect()
    };
    let mut all = Vec::with_capacity(axes.len());
    for (i, ((&axis, &from), (to, scale))) in axes.iter().zip(&from).zip(pairs).enumerate() {
        if !(scale > 0.0 && scale.is_finite()) || to > MOST || (from == 0 && to > 0) {
            return Err(call.wrong("scales", format!("has {scale} for an extent of {from}")).into());
        }
        let share = |at: usize, default| region.get(at).copied().unwrap_or(default);
        all.push(Scaled { axis, from, to, scale, region: (share(i, 0.0), share(axes.len() + i, 1.0)) });
    }
    Ok(all)
}

fn resized_shape(at: NodeFacts<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let all: Vec<i64> = (0..x.len() as i64).collect();
    let sizing = Sizing::of(&at).ok()?;
    let axes = sizing.axes.unwrap_or(&all);
    let from: Vec<Dim> =
        axes.iter().map(|&a| x.get(rule::axis(a, x.len())?).cloned()).collect::<Option<_>>()?;
    let newer = at.node.op_type == "Resize" && at.node.opset >= 11;
    // ONNX treats an empty list like an absent one here.
    if newer && at.has(3) && at.dims(3) != Some(&[Dim::Known(0)]) {
        let aspect = sizing.aspect()?;
        let sizes = at.extents(3).and_then(|sizes| infer::resized(&from, &sizes, aspect));
        let sizes = sizes.map_or_else(|| vec![Dim::Unknown; axes.len()], infer::Extents::into_vec);
        return at.with_axes(x, axes, &sizes);
    }
    let scales: Vec<f64> = if let (Ok(Some(height)), Ok(Some(width))) =
        (at.node.attributes.float("height_scale"), at.node.attributes.float("width_scale"))
    {
        vec![1.0, 1.0, height.into(), width.into()]
    } else if let Ok(Some(scales)) = at.node.attributes.floats("scales") {
        scales.iter().map(|&s| s.into()).collect()
    } else {
        let real = |e: &rule::Entry| if let rule::Entry::Real(v) = e { Some(*v) } else { None };
        match at.contents(if newer { 2 } else { 1 }) {
            Some(scales) => scales.entries.iter().map(real).collect::<Option<_>>()?,
            None => return at.with_axes(x, axes, &vec![Dim::Unknown; axes.len()]),
        }
    };
    let sizes: Vec<Dim> =
        from.iter().zip(&scales).map(|(dim, scale)| rule::told(infer::rescaled(dim, *scale))).collect();
    at.with_axes(x, axes, &sizes)
}

/// Infers the type of `Resize` and `Upsample`, from sizes or from scales.
fn resize_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| resized_shape(at, x).unwrap_or_else(|| vec![Dim::Unknown; x.len()]);
    at.one(at.dtype(0), at.dims(0).map(shape))
}

/// `Resize`, and its predecessor `Upsample`.
pub(super) fn resize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let old = call.opset() < 11;
    let transform =
        if old { "asymmetric" } else { call.text_or("coordinate_transformation_mode", "half_pixel")? };
    let nearest = call.text_or("nearest_mode", "round_prefer_floor")?;
    let mode = call.text_or("mode", "nearest")?;
    let repeats = matches!(
        (old, transform, nearest),
        (true, ..)
            | (_, "asymmetric", "floor")
            | (_, "half_pixel" | "pytorch_half_pixel", "round_prefer_floor" | "round_prefer_ceil")
    );
    if mode == "nearest"
        && repeats
        && !on.extents(x).iter().all(Extent::is_fixed)
        && let Some(times) = whole_scales(on, call, old)?
    {
        return Ok(one(repeated(on, x, &times)?));
    }
    let all = scaled(on, call)?;
    let cubic = match mode {
        "nearest" | "linear" | "bilinear" => None,
        "cubic" => Some(call.float_or("cubic_coeff_a", -0.75)?),
        other => {
            return Err(call
                .wrong("mode", format!("is `{other}`, expected `nearest`, `linear` or `cubic`"))
                .into());
        }
    };
    let extrapolation = call.float_or("extrapolation_value", 0.0)?;
    let (antialias, exclude) = (call.flag("antialias", false)?, call.flag("exclude_outside", false)?);
    if mode != "nearest" && !x.dtype().is_compute() {
        let problem = format!("holds {}, which has no values in between", x.dtype());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let mut y = if mode == "nearest" { x.clone() } else { math::to(on, x, wide(x.dtype()))? };
    let mut outside: Option<TracedTensor> = None;
    for s in all {
        let positions: Option<Vec<f64>> = (0..s.to).map(|i| s.position(transform, i)).collect();
        let Some(positions) = positions else {
            return Err(call
                .wrong("coordinate_transformation_mode", format!("is `{transform}`, which is none"))
                .into());
        };
        if transform == "tf_crop_and_resize" {
            let beyond: Vec<bool> = positions.iter().map(|&p| p < 0.0 || p > s.from as f64 - 1.0).collect();
            if beyond.contains(&true) {
                let mut shape = vec![1; x.rank()];
                if let Some(slot) = shape.get_mut(s.axis) {
                    *slot = s.to;
                }
                let beyond = on.constant(&bb_ir::TensorData::bools(&shape, &beyond).map_err(Error::from)?)?;
                outside = Some(match outside {
                    Some(other) => on.or(&other, &beyond)?,
                    None => beyond,
                });
            }
        }
        if s.from == s.to && positions.iter().enumerate().all(|(i, &p)| p == i as f64) {
            continue;
        }
        y = if mode == "nearest" {
            let last = s.from as i64 - 1;
            // Opset 10 lacks the attribute; its tests round up when shrinking, and down otherwise.
            let nearest = match (old, s.scale < 1.0) {
                (false, _) => nearest,
                (true, true) => "ceil",
                (true, false) => "floor",
            };
            let chosen = |p: f64| match nearest {
                "floor" => Some(p.floor()),
                "ceil" => Some(p.ceil()),
                "round_prefer_floor" => Some((p - 0.5).ceil()),
                "round_prefer_ceil" => Some((p + 0.5).floor()),
                _ => None,
            };
            let indices: Option<Vec<i64>> =
                positions.iter().map(|&p| Some((chosen(p)? as i64).clamp(0, last))).collect();
            let indices = indices
                .ok_or_else(|| call.wrong("nearest_mode", format!("is `{nearest}`, which is none")))?;
            on.gather(&y, &on.host(&[indices.len()], &indices)?, s.axis as i64)?
        } else {
            let stretch = if antialias { s.scale.min(1.0) } else { 1.0 };
            let shares = Shares { from: s.from, cubic, stretch, exclude };
            between(on, call, &y, s.axis, &shares, &positions)?
        };
    }
    if let Some(outside) = outside {
        let value = match y.dtype() {
            DataType::String => blank_like(on, &y)?,
            _ => on.scalar_like(&y, extrapolation)?,
        };
        y = on.r#where(&outside, &value, &y)?;
    }
    Ok(one(narrowed(on, &y, x.dtype())?))
}

/// Enlarges each axis by its factor in `times`, by linear interpolation.
pub fn stretched(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    times: &[i64],
    transform: &str,
) -> Result<TracedTensor, TraceStop> {
    let mut y = x.clone();
    for (axis, &times) in times.iter().enumerate().filter(|(_, times)| **times != 1) {
        let from = x.shape().get(axis).copied().unwrap_or(0);
        let to = usize::try_from(times).ok().and_then(|times| from.checked_mul(times)).unwrap_or(usize::MAX);
        if to > MOST {
            return Err(call.wrong("scales", format!("has {times} for an extent of {from}")).into());
        }
        let scaled = Scaled { axis, from, to, scale: times as f64, region: (0.0, 1.0) };
        let positions: Option<Vec<f64>> = (0..to).map(|i| scaled.position(transform, i)).collect();
        let Some(positions) = positions else {
            let problem = format!("is `{transform}`, which is none");
            return Err(call.wrong("coordinate_transformation_mode", problem).into());
        };
        let shares = Shares { from, cubic: None, stretch: 1.0, exclude: false };
        y = between(on, call, &y, axis, &shares, &positions)?;
    }
    Ok(y)
}

/// Reads the factors of a resize that repeats each element; `None` if a factor is not a positive integer for every extent.
fn whole_scales(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    old: bool,
) -> Result<Option<Vec<i64>>, TraceStop> {
    let x = call.input(0)?;
    let given = |index| call.optional(index).filter(|t| !on.extents(t).iter().any(|d| d.is(0)));
    if call.has("axes") || call.has("height_scale") || call.has("keep_aspect_ratio_policy") {
        return Ok(None);
    }
    let whole =
        |scale: f64| ((1.0..65536.0).contains(&scale) && scale.fract() == 0.0).then_some(scale as i64);
    let times: Option<Vec<i64>> =
        match (given(3).filter(|_| !old), call.floats("scales")?, given(if old { 1 } else { 2 })) {
            (Some(sizes), _, _) => {
                let (from, to) = (on.extents(x), on.extents_of(sizes)?);
                let ratio = |(to, from): (&Extent, &Extent)| {
                    if from.present() == 0 {
                        return None;
                    }
                    let times = to.present() / from.present();
                    (times > 0 && from.times(&Extent::from(times)).equals(to)).then_some(times)
                };
                to.iter().zip(&from).map(ratio).collect()
            }
            (None, Some(scales), _) => scales.iter().map(|&scale| whole(scale.into())).collect(),
            (None, None, Some(scales)) => floats(on, scales)?.into_iter().map(whole).collect(),
            (None, None, None) => None,
        };
    Ok(times.filter(|times| times.len() == x.rank()))
}

/// Repeats each element along each dimension.
pub fn repeated(on: &Tracer, x: &TracedTensor, times: &[i64]) -> Result<TracedTensor, TraceStop> {
    let mut y = x.clone();
    for (axis, times) in times.iter().enumerate().filter(|(_, times)| **times > 1) {
        let times = Extent::from(*times);
        let mut shape = on.extents(&y).into_vec();
        let beside = on.unsqueeze(&y, &[axis as i64 + 1])?;
        shape.insert(axis + 1, times.clone());
        y = on.expand_to(&beside, &shape)?;
        shape.remove(axis + 1);
        if let Some(extent) = shape.get_mut(axis) {
            *extent = extent.times(&times);
        }
        y = on.reshape_to(&y, &shape)?;
    }
    Ok(y)
}

/// Returns the type for weighted sums of elements of `dtype`.
fn wide(dtype: DataType) -> DataType {
    match dtype {
        DataType::F64 | DataType::I32 | DataType::U32 | DataType::I64 | DataType::U64 => DataType::F64,
        _ => DataType::F32,
    }
}

/// Casts to the operand's type. Integers are rounded and saturated, as in ONNX's reference.
fn narrowed(on: &Tracer, y: &TracedTensor, dtype: DataType) -> Result<TracedTensor, TraceStop> {
    let bits = dtype.bits() as i32;
    let (low, high) = match dtype {
        _ if y.dtype() == dtype => return Ok(y.clone()),
        _ if dtype.is_signed_integer() => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
        _ if dtype.is_unsigned_integer() => (0.0, 2f64.powi(bits)),
        _ => return math::to(on, y, dtype),
    };
    // The maximum 64-bit integer is not a float, so the next lower float is the bound.
    let high = if bits < 64 { high - 1.0 } else { high.next_down() };
    let within = on.clip(&on.round(y)?, Some(&on.scalar_like(y, low)?), Some(&on.scalar_like(y, high)?))?;
    math::to(on, &within, dtype)
}

/// Converts an extent to `usize`. An extent that the platform cannot represent becomes `usize::MAX`, so that its tensor is refused for
/// its size.
fn extent(size: i64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
