//! `Create`: tensors that are created from a shape, a range or a seed.

pub use super::batch::{pad_batch, stack, unstack};

use crate::ext::{Extent, HostKernel, math};
pub use crate::family::create::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Backend, Error, Shape};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Param, take};
use bb_ir::{DataType, TensorData, memory};

bb_ir::for_each_create!(crate::ext::bodies::bodies, Create, CreateOp, create);

/// The maximum number of elements that are created on the host. Larger tensors are created by repetition on the
/// backend.
const SMALL: usize = 4096;

/// The maximum number of indices in one gather of [`expand`]. A larger extent is built from several gathers.
const INDICES: usize = 1 << 16;

/// Converts a scalar to an element type.
fn number(value: f64, dtype: DataType) -> Result<TensorData, Error> {
    Ok(cast(&TensorData::scalar(value), dtype, Rounding::default())?)
}

/// The body of [`Create::scalar_like`].
pub fn scalar_like(on: &Tracer, x: &TracedTensor, value: f64) -> Result<TracedTensor, TraceStop> {
    on.constant(&number(value, crate::Tensor::dtype(x))?)
}

/// The body of [`Create::full`].
pub fn full(on: &Tracer, shape: &[usize], value: f64, dtype: DataType) -> Result<TracedTensor, TraceStop> {
    representable(on, shape, dtype)?;
    let one = number(value, dtype)?;
    match bb_ir::element_count(shape) {
        Some(n) if n <= SMALL && dtype.bits().is_multiple_of(8) && dtype != DataType::String => {
            let bytes = one.bytes().map_err(Error::from)?.repeat(n);
            on.constant(&TensorData::adopt(dtype, shape, bytes.into()).map_err(Error::from)?)
        }
        _ => expand(on, &on.constant(&one)?, shape),
    }
}

/// The body of [`Create::zeros`].
pub fn zeros(on: &Tracer, shape: &[usize], dtype: DataType) -> Result<TracedTensor, TraceStop> {
    full(on, shape, 0.0, dtype)
}

/// The body of [`Create::ones`].
pub fn ones(on: &Tracer, shape: &[usize], dtype: DataType) -> Result<TracedTensor, TraceStop> {
    full(on, shape, 1.0, dtype)
}

/// The body of [`Create::empty`].
pub fn empty(on: &Tracer, shape: &[usize], dtype: DataType) -> Result<TracedTensor, TraceStop> {
    if dtype != DataType::String {
        return full(on, shape, 0.0, dtype);
    }
    let count = limited(shape, dtype)?;
    let texts = TensorData::strings(shape, &vec![""; count]).map_err(Error::from)?;
    on.constant(&texts)
}

/// The body of [`Create::zeros_like`].
pub fn zeros_like(on: &Tracer, x: &TracedTensor, dtype: Option<DataType>) -> Result<TracedTensor, TraceStop> {
    on.full_like(x, 0.0, dtype)
}

/// The body of [`Create::ones_like`].
pub fn ones_like(on: &Tracer, x: &TracedTensor, dtype: Option<DataType>) -> Result<TracedTensor, TraceStop> {
    on.full_like(x, 1.0, dtype)
}

/// The body of [`Create::full_like`].
pub fn full_like(
    on: &Tracer,
    x: &TracedTensor,
    value: f64,
    dtype: Option<DataType>,
) -> Result<TracedTensor, TraceStop> {
    on.full_to(&on.extents(x), value, dtype.unwrap_or(crate::Tensor::dtype(x)))
}

/// The body of [`Create::eye`].
pub fn eye(
    on: &Tracer,
    rows: i64,
    columns: i64,
    offset: i64,
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    let extent = |part: &'static str, extent: i64| {
        usize::try_from(extent).map_err(|_| Error::Operator {
            op: "eye".to_owned(),
            part: part.into(),
            problem: format!("is {extent}, expected 0 or more"),
        })
    };
    let shape = [extent("rows", rows)?, extent("columns", columns)?];
    representable(on, &shape, dtype)?;
    let [rows, columns] = shape.map(Extent::from);
    let mask = diagonal(on, [&rows, &columns], offset, |column, row| on.equal(column, row))?;
    math::to(on, &mask, dtype)
}

/// Compares the differences `j - i` of column and row indices with `k`, for all elements of a matrix.
pub fn diagonal(
    on: &Tracer,
    [rows, columns]: [&Extent; 2],
    k: i64,
    compare: impl Fn(&TracedTensor, &TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let (zero, one) = (Extent::from(0i64), Extent::from(1i64));
    let across = on.unsqueeze(&on.iota(&zero, &one, columns)?, &[0])?;
    let shifted = on.unsqueeze(&on.iota(&Extent::from(k), &one, rows)?, &[1])?;
    compare(&across, &shifted)
}

/// The body of [`Create::linspace`].
pub fn linspace(
    on: &Tracer,
    start: f64,
    end: f64,
    count: i64,
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    let count = usize::try_from(count).map_err(|_| Error::Operator {
        op: "linspace".to_owned(),
        part: "count".into(),
        problem: format!("is {count}, expected 0 or more"),
    })?;
    let count = limited(&[count], dtype)?;
    let gaps = count.saturating_sub(1);
    let at = |i: usize| match i {
        0 => start,
        _ if i == gaps => end,
        _ => start + i as f64 * ((end - start) / gaps as f64),
    };
    let elements = memory::collected("linspace", (0..count).map(at)).map_err(Error::from)?;
    from_f64(on, &[count], &elements, dtype)
}

/// The body of [`Create::range`].
pub fn range(
    on: &Tracer,
    start: f64,
    step: f64,
    count: i64,
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    let count = limited(&[usize::try_from(count).unwrap_or(0)], dtype)?;
    let elements =
        memory::collected("range", (0..count).map(|i| start + i as f64 * step)).map_err(Error::from)?;
    from_f64(on, &[count], &elements, dtype)
}

/// The body of [`Create::expand`]. For each dimension that grows, it gathers the only entry along that dimension.
///
/// The number of indices is the sum of the extents, not their product, and is further reduced for large extents.
pub fn expand(on: &Tracer, x: &TracedTensor, shape: &[usize]) -> Result<TracedTensor, TraceStop> {
    representable(on, shape, crate::Tensor::dtype(x))?;
    let from = crate::Tensor::shape(x);
    let wrong = || bb_ir::Error::Shapes { op: "expand", left: from.into(), right: shape.into() };
    let new = shape.len().checked_sub(from.len()).ok_or_else(wrong).map_err(Error::from)?;
    let leading: Vec<i64> = (0..new as i64).collect();
    let mut y = if new == 0 { on.identity(x)? } else { on.unsqueeze(x, &leading)? };
    let extents = std::iter::repeat_n(&1, new).chain(from);
    // Small extents are expanded first, so that the intermediate tensors stay small.
    let mut grows: Vec<(usize, usize)> = Vec::new();
    for (axis, (&have, &want)) in extents.zip(shape).enumerate() {
        match have {
            _ if have == want => {}
            1 => grows.push((want, axis)),
            _ => return crate::ext::fail(wrong()),
        }
    }
    grows.sort_unstable();
    for (extent, axis) in grows {
        y = repeated(on, &y, axis, extent)?;
    }
    Ok(y)
}

/// Returns an error if a tensor exceeds the limit on the bytes of one value, or if no machine has enough memory for it. This
/// is checked before parts of the tensor are created, so that the error names the requested extents.
///
/// # Errors
///
/// [`bb_ir::Error::TooLarge`].
fn representable(on: &Tracer, shape: &[usize], dtype: DataType) -> Result<(), Error> {
    const MOST: usize = bb_ir::memory::ADDRESSABLE;
    on.bound(&[(dtype, Shape::from_slice(shape))])?;
    let least = |count| if dtype == DataType::String { Some(count) } else { dtype.bytes_for(count) };
    let bytes = bb_ir::element_count(shape).and_then(least);
    match bytes.is_some_and(|bytes| bytes <= MOST) {
        true => Ok(()),
        false => Err(bb_ir::Error::TooLarge { dtype, shape: shape.into(), limit: MOST, name: None }.into()),
    }
}

/// Repeats the only entry along a dimension `extent` times.
fn repeated(on: &Tracer, x: &TracedTensor, axis: usize, extent: usize) -> Result<TracedTensor, TraceStop> {
    let from = axis as i64;
    let first = |x: &TracedTensor, axis: i64, count: usize| {
        let zeros = TensorData::zeros(DataType::I32, &[count], usize::MAX).map_err(Error::from)?;
        on.gather(x, &on.constant(&zeros)?, axis)
    };
    if extent <= INDICES {
        return first(x, from, extent);
    }
    let mut counts = Vec::new();
    factors(extent, &mut counts);
    let axes: Vec<i64> = (from..).take(counts.len()).collect();
    let mut y = on.unsqueeze(x, axes.get(1..).unwrap_or_default())?;
    for (&axis, &count) in axes.iter().zip(&counts) {
        y = first(&y, axis, count)?;
    }
    let mut shape = Shape::from_slice(crate::Tensor::shape(x));
    if let Some(slot) = shape.get_mut(axis) {
        *slot = counts.iter().fold(1, |product, &count| product.saturating_mul(count));
    }
    let more = on.reshape(&y, &shape)?;
    on.slice(&more, &[0], &[i64::try_from(extent).unwrap_or(i64::MAX)], &[from], &[])
}

/// Finds small factors whose product is at least `extent`, and at most slightly more.
fn factors(extent: usize, into: &mut Vec<usize>) {
    if extent <= INDICES {
        into.push(extent);
    } else {
        let factor = extent.isqrt();
        factors(factor, into);
        factors(extent.div_ceil(factor), into);
    }
}

/// The body of [`Create::random_uniform`].
pub fn random_uniform(
    on: &Tracer,
    shape: &[usize],
    RandomUniformOptions { low, high, seed, dtype }: RandomUniformOptions,
) -> Result<TracedTensor, TraceStop> {
    drawn(on, [&UNIFORM, &UNIFORM_OF_SEED], shape, [low, high - low], seed, dtype)
}

/// The body of [`Create::random_normal`].
pub fn random_normal(
    on: &Tracer,
    shape: &[usize],
    RandomNormalOptions { mean, scale, seed, dtype }: RandomNormalOptions,
) -> Result<TracedTensor, TraceStop> {
    drawn(on, [&NORMAL, &NORMAL_OF_SEED], shape, [mean, scale], seed, dtype)
}

/// Declares two host kernels for each distribution. The first one draws different numbers in each run, the second
/// uses a seed.
macro_rules! draws {
    ($($name:ident, $of_seed:ident = $text:literal, $method:ident;)*) => {$(
        static $name: HostKernel = HostKernel {
            name: concat!("draw_", $text),
            random: true,
            run: |_, params| draw(params, crate::ext::Mersenne::$method),
        };
        static $of_seed: HostKernel = HostKernel {
            name: concat!("draw_seeded_", $text),
            random: false,
            run: |_, params| draw(params, crate::ext::Mersenne::$method),
        };
    )*};
}

draws! {
    UNIFORM, UNIFORM_OF_SEED = "uniform", unit;
    NORMAL, NORMAL_OF_SEED = "normal", normal;
}

/// Draws random numbers with the first kernel if there is no seed, otherwise with the second.
fn drawn(
    on: &Tracer,
    bodies: [&'static HostKernel; 2],
    shape: &[usize],
    [offset, scale]: [f64; 2],
    seed: Option<i64>,
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    limited(shape, dtype)?;
    let line = vec![offset, scale];
    let params =
        [Param::Extents(shape.into()), Param::Floats(line.into()), Param::OptInt(seed), Param::Type(dtype)];
    let [fresh, seeded] = bodies;
    let body = if seed.is_some() { seeded } else { fresh };
    let drawn = on.on_host(body, &[], &params, &[(dtype, shape.into())])?;
    let missing = || Error::Results { op: body.name.to_owned(), expected: 1, got: 0 };
    Ok(drawn.into_iter().next().ok_or_else(missing)?)
}

/// Draws random numbers on the host.
fn draw(params: &[Param<'_>], next: fn(&mut crate::ext::Mersenne) -> f64) -> Result<Vec<TensorData>, Error> {
    let shape = take::Extents("draw", params.first())?;
    let &[offset, scale] = take::Floats("draw", params.get(1))? else {
        return Err(Error::excluded("an offset and a scale as a parameter of a draw"));
    };
    let mut random = crate::ext::Mersenne::of(take::OptInt("draw", params.get(2))?);
    let dtype = take::Type("draw", params.get(3))?;
    let count = limited(shape, dtype)?;
    let elements = memory::collected("draw", (0..count).map(|_| offset + scale * next(&mut random)))?;
    Ok(vec![cast(&TensorData::new(shape, &elements)?, dtype, Rounding::default())?])
}

/// Creates a tensor from numbers that are rounded to an element type.
fn from_f64(
    on: &Tracer,
    shape: &[usize],
    elements: &[f64],
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    let wide = TensorData::new(shape, elements).map_err(Error::from)?;
    on.constant(&cast(&wide, dtype, Rounding::default()).map_err(Error::from)?)
}

/// Returns the number of elements of a tensor that is created on the host; returns an error if it exceeds the
/// limit.
fn limited(shape: &[usize], dtype: DataType) -> Result<usize, Error> {
    const MOST: usize = 1 << 28;
    bb_ir::element_count(shape).filter(|&n| n <= MOST).ok_or_else(|| {
        let limit = MOST * dtype.bits().div_ceil(8);
        bb_ir::Error::TooLarge { dtype, shape: shape.into(), limit, name: None }.into()
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_large_extent_is_made_by_few_indices() {
        let mut counts = Vec::new();
        for extent in [INDICES + 1, 1 << 31, (1 << 31) + 7, 1 << 40, i64::MAX as usize] {
            counts.clear();
            factors(extent, &mut counts);
            let product: u128 = counts.iter().map(|&count| count as u128).product();
            assert!(product >= extent as u128 && product < extent as u128 + extent as u128 / 128);
            assert!(counts.iter().all(|&count| count <= INDICES));
        }
        let on = Tracer::default();
        let none = on.zeros(&[0, 1], DataType::F32).unwrap();
        assert_eq!(crate::Tensor::shape(&expand(&on, &none, &[0, 1 << 26]).unwrap()), [0, 1 << 26]);
        assert!(expand(&on, &none, &[0, 1 << 40]).is_err());
    }

    #[test]
    fn draws_without_a_seed_are_steps_of_a_plan_and_those_with_one_are_constants() {
        let on = Tracer::default();
        let seeded = on
            .random_uniform(
                &[3],
                RandomUniformOptions { seed: Some(0), dtype: DataType::F64, ..Default::default() },
            )
            .unwrap();
        // The expected values are `numpy.random.RandomState(0).rand(3)`.
        let expected = [0.548_813_503_927_324_8, 0.715_189_366_372_419_5, 0.602_763_376_071_643_9];
        assert_eq!(on.to_host(&seeded).unwrap(), TensorData::new(&[3], &expected).unwrap());
        let fresh = on.random_uniform(&[3], RandomUniformOptions::default()).unwrap();
        assert!(matches!(on.to_host(&fresh), Err(crate::trace::TraceStop::Needs(_))));
        assert_eq!(on.steps(), 1);
    }
}
