//! Pooling of regions of interest. It runs on the host, because the elements that a region covers depend on data.

use crate::error::NodePart;
use crate::ext::{HostKernel, RoiAlignOptions, fail, host};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::Param;
use bb_ir::pace::Pace;
use bb_ir::{Shape, TensorData, memory};

/// The maximum number of samples along one dimension of a bin that an attribute may request.
const MOST_SAMPLES: i64 = 1 << 10;

/// The maximum number of bins along a dimension.
const MOST_BINS: usize = 1 << 14;

/// The maximum number of elements of a result.
const MOST: usize = 1 << 27;

/// A feature map, with the precision of its coordinates.
struct Map {
    channels: usize,
    height: usize,
    width: usize,
    elements: Vec<f64>,
    single: bool,
}

impl Map {
    fn new(x: &TensorData) -> Result<Map, Error> {
        let &[_, channels, height, width] = x.shape() else {
            return Err(wrong("RoiAlign", 0, format!("has rank {}, expected 4", x.shape().len())));
        };
        let elements = numbers(x)?;
        Ok(Map { channels, height, width, elements, single: x.dtype() != DataType::F64 })
    }

    /// Rounds to the operator's element type. Rounding the `f64` result of one operation gives the same value as the
    /// operation in `f32`.
    fn rounded(&self, v: f64) -> f64 {
        if self.single { f64::from(v as f32) } else { v }
    }

    /// Returns the rows of one channel of one image.
    fn rows(&self, image: usize, channel: usize) -> impl Iterator<Item = &[f64]> {
        let size = self.height * self.width;
        let from = (image * self.channels + channel) * size;
        self.elements.get(from..from + size).unwrap_or_default().chunks(self.width.max(1))
    }
}

fn wrong(op: &str, operand: usize, problem: String) -> Error {
    Error::Operator { op: op.to_owned(), part: NodePart::Operand(operand), problem }
}

fn numbers(x: &TensorData) -> Result<Vec<f64>, Error> {
    let wide = cast(x, DataType::F64, Rounding::default())?;
    Ok(memory::copied("RoiAlign", wide.as_slice::<f64>()?)?)
}

/// Converts the result to the map's element type.
fn made(x: &TensorData, shape: &[usize], elements: &[f64]) -> Result<Vec<TensorData>, Error> {
    Ok(vec![cast(&TensorData::new(shape, elements)?, x.dtype(), Rounding::default())?])
}

/// The samples of one bin along a dimension. Each sample has the indices of two elements, and the weight of the second.
type Samples = Vec<(usize, usize, f64)>;

/// Returns the samples of each bin along a dimension, and the number of samples of a bin that is entirely inside the
/// map.
fn bins(
    map: &Map,
    extent: usize,
    start: f64,
    end: f64,
    count: usize,
    ratio: i64,
    least: f64,
) -> Result<(Vec<Samples>, f64), Error> {
    let r = |v: f64| map.rounded(v);
    let length = r(end - start).max(least);
    let size = r(length / count as f64);
    let samples = if ratio > 0 { ratio as f64 } else { size.ceil().max(0.0) };
    let all = (0..count).map(|bin| {
        let origin = r(start + r(bin as f64 * size));
        let place = |i: f64| r(origin + r(r((i + 0.5) * size) / samples));
        // Samples outside the map count, but contribute 0. Distant samples are skipped.
        let first = ((-2.0 - origin) * samples / size - 1.0).clamp(0.0, samples);
        let last = ((extent as f64 + 1.0 - origin) * samples / size + 1.0).clamp(0.0, samples);
        let (first, last) = if size > 0.0 { (first as i64, last as i64) } else { (0, samples as i64) };
        let places = (first..=last.min(samples as i64 - 1))
            .map(|i| place(i as f64))
            // A map without elements contains no samples.
            .filter(|&p| extent > 0 && (-1.0..=extent as f64).contains(&p))
            .map(|p| {
                let p = p.max(0.0);
                let low = p as usize;
                if low + 1 >= extent {
                    (extent - 1, extent - 1, 0.0)
                } else {
                    (low, low + 1, r(p - low as f64))
                }
            });
        memory::collected("RoiAlign", places)
    });
    Ok((memory::try_collected::<_, Error>("RoiAlign", all.map(|bin| Ok(bin?)))?, samples))
}

static ROI_ALIGN: HostKernel = HostKernel { name: "roi_align", random: false, run: run_align };

fn run_align(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let [x, rois, images] = host::operands(ROI_ALIGN.name, inputs)?;
    let [Param::Extents(out), Param::Int(ratio), Param::Float(scale), Param::Float(shift), Param::Bool(max)] =
        params
    else {
        return Err(Error::excluded("the parameters of roi_align to be those that its body gives"));
    };
    let map = Map::new(x)?;
    let (rois, scale) = (numbers(rois)?, map.rounded(*scale));
    let (&[count, channels, rows, columns], Some(&batch)) = (&out[..], x.shape().first()) else {
        return Err(Error::excluded("a result of roi_align to have rank 4"));
    };
    let mut pace = Pace::new();
    let mut y = memory::room("RoiAlign", count * channels * rows * columns)?;
    for (&roi, &image) in rois.as_chunks::<4>().0.iter().zip(images.as_slice::<i64>()?) {
        let image = usize::try_from(image).ok().filter(|&i| i < batch);
        let image =
            image.ok_or_else(|| wrong("RoiAlign", 2, format!("does not name one of {batch} images")))?;
        let [left, top, right, bottom] = roi.map(|v| map.rounded(map.rounded(v * scale) - shift));
        // Without the half-pixel shift, regions are at least one element wide.
        let least = if *shift == 0.0 { 1.0 } else { f64::NEG_INFINITY };
        let (down, tall) = bins(&map, map.height, top, bottom, rows, *ratio, least)?;
        let (across, wide) = bins(&map, map.width, left, right, columns, *ratio, least)?;
        for channel in 0..channels {
            let rows: Vec<&[f64]> = memory::collected("RoiAlign", map.rows(image, channel))?;
            for down in &down {
                for across in &across {
                    // The number of samples per bin varies widely, so the pace counts samples.
                    pace.step(1 + down.len().saturating_mul(across.len()));
                    y.push(if *max {
                        let off = (down.len() as f64) < tall || (across.len() as f64) < wide;
                        greatest(&rows, down, across, off && tall * wide > 0.0)
                    } else {
                        sum(&rows, down, across) / (tall * wide).max(1.0)
                    });
                }
            }
        }
    }
    made(x, out, &y)
}

/// Returns the four elements around each sample of a bin, each multiplied by its weight.
fn corners<'a>(
    rows: &'a [&'a [f64]],
    down: &'a Samples,
    across: &'a Samples,
) -> impl Iterator<Item = [f64; 4]> + 'a {
    let at = |y: usize, x: usize| rows.get(y).and_then(|row| row.get(x)).copied().unwrap_or(0.0);
    down.iter().flat_map(move |&(y0, y1, ty)| {
        across.iter().map(move |&(x0, x1, tx)| {
            [
                (1.0 - ty) * (1.0 - tx) * at(y0, x0),
                (1.0 - ty) * tx * at(y0, x1),
                ty * (1.0 - tx) * at(y1, x0),
                ty * tx * at(y1, x1),
            ]
        })
    })
}

fn sum(rows: &[&[f64]], down: &Samples, across: &Samples) -> f64 {
    corners(rows, down, across).map(|c| c.iter().sum::<f64>()).sum()
}

/// Returns the maximum of the weighted elements. ONNX's reference implementation does this, instead of taking the
/// maximum of the interpolated values.
fn greatest(rows: &[&[f64]], down: &Samples, across: &Samples, off_the_map: bool) -> f64 {
    let greatest = corners(rows, down, across).flatten().reduce(f64::max);
    match greatest {
        Some(greatest) if off_the_map => greatest.max(0.0),
        Some(greatest) => greatest,
        None => 0.0,
    }
}

/// Checks the operands of a pooling, and returns the shape of its result.
fn pooled<T: Tensor>(
    op: &'static str,
    x: &T,
    rois: &T,
    columns: usize,
    bins: &[usize],
) -> Result<Shape, Error> {
    let (&[_, channels, _, _], &[count, each], &[rows, across]) = (x.shape(), rois.shape(), bins) else {
        return Err(bb_ir::Error::Shapes { op, left: x.shape().into(), right: rois.shape().into() }.into());
    };
    if each != columns || !x.dtype().is_float() || rois.dtype() != x.dtype() {
        return Err(bb_ir::Error::Shapes { op, left: x.shape().into(), right: rois.shape().into() }.into());
    }
    let shape = Shape::from_slice(&[count, channels, rows, across]);
    let fits = bins.iter().all(|bins| (0..=MOST_BINS).contains(bins));
    match bb_ir::element_count(&shape) {
        Some(n) if fits && n <= MOST => Ok(shape),
        _ => {
            let (dtype, limit) = (x.dtype(), MOST * x.dtype().bits() / 8);
            Err(bb_ir::Error::TooLarge { dtype, shape: shape.as_slice().into(), limit, name: None }.into())
        }
    }
}

/// The body of [`Image::roi_align`](super::Image::roi_align).
pub fn roi_align(
    on: &Tracer,
    x: &TracedTensor,
    rois: &TracedTensor,
    images: &TracedTensor,
    RoiAlignOptions { bins, ratio, scale, shift, max }: RoiAlignOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let shape = pooled(ROI_ALIGN.name, x, rois, 4, bins)?;
    if images.shape() != rois.shape().get(..1).unwrap_or_default() || images.dtype() != DataType::I64 {
        let (left, right) = (rois.shape().into(), images.shape().into());
        return fail(bb_ir::Error::Shapes { op: ROI_ALIGN.name, left, right });
    }
    let most = bins.iter().max().copied().unwrap_or(0) as i64;
    if !(0..=MOST_SAMPLES).contains(&ratio) || ratio * most > MOST_SAMPLES << 10 {
        let problem = format!("is {ratio} for {most} bins, expected 0 to {MOST_SAMPLES}");
        let (op, part) = ("RoiAlign".to_owned(), "sampling_ratio".into());
        return fail(Error::Operator { op, part, problem });
    }
    if shape.contains(&0) {
        return on.zeros(&shape, x.dtype());
    }
    let params = [
        Param::Extents(shape.to_vec().into()),
        Param::Int(ratio),
        Param::Float(scale),
        Param::Float(shift),
        Param::Bool(max),
    ];
    let y = on.on_host(&ROI_ALIGN, &[Some(x), Some(rois), Some(images)], &params, &[(x.dtype(), shape)])?;
    Ok(crate::call::only(ROI_ALIGN.name, y)?)
}

static MAX_ROI_POOL: HostKernel = HostKernel { name: "max_roi_pool", random: false, run: run_max };

fn run_max(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let [x, rois] = host::operands(MAX_ROI_POOL.name, inputs)?;
    let [Param::Extents(out), Param::Float(scale)] = params else {
        return Err(Error::excluded("the parameters of max_roi_pool to be those that its body gives"));
    };
    let map = Map::new(x)?;
    let rois = numbers(rois)?;
    let (&[count, channels, rows, columns], Some(&batch)) = (&out[..], x.shape().first()) else {
        return Err(Error::excluded("a result of max_roi_pool to have rank 4"));
    };
    let mut pace = Pace::new();
    let mut y = memory::room("MaxRoiPool", count * channels * rows * columns)?;
    for &[image, left, top, right, bottom] in rois.as_chunks::<5>().0 {
        if !(0.0..batch as f64).contains(&image) {
            return Err(wrong("MaxRoiPool", 1, format!("names image {image} of {batch}")));
        }
        let down = spans(&map, map.height, [top, bottom].map(|v| map.rounded(v * scale).round()), rows)?;
        let across = spans(&map, map.width, [left, right].map(|v| map.rounded(v * scale).round()), columns)?;
        for channel in 0..channels {
            let rows: Vec<&[f64]> = memory::collected("MaxRoiPool", map.rows(image as usize, channel))?;
            for &(y0, y1) in &down {
                let inside = rows.get(y0..y1).unwrap_or_default();
                for &(x0, x1) in &across {
                    pace.step(1 + inside.len().saturating_mul(x1.saturating_sub(x0)));
                    let elements = inside.iter().flat_map(|row| row.get(x0..x1).unwrap_or_default());
                    y.push(elements.copied().reduce(f64::max).unwrap_or(0.0));
                }
            }
        }
    }
    made(x, out, &y)
}

/// Returns the range of elements of each bin along a dimension. The ranges may overlap, and a region includes both
/// ends.
fn spans(
    map: &Map,
    extent: usize,
    [start, end]: [f64; 2],
    count: usize,
) -> Result<Vec<(usize, usize)>, Error> {
    let size = map.rounded((end - start + 1.0).max(1.0) / count as f64);
    let inside = |v: f64| (v + start).clamp(0.0, extent as f64) as usize;
    let span = |bin: usize| {
        let (from, to) = (bin as f64 * size, (bin as f64 + 1.0) * size);
        (inside(map.rounded(from).floor()), inside(map.rounded(to).ceil()))
    };
    Ok(memory::collected("MaxRoiPool", (0..count).map(span))?)
}

/// The body of [`Image::max_roi_pool`](super::Image::max_roi_pool).
pub fn max_roi_pool(
    on: &Tracer,
    x: &TracedTensor,
    rois: &TracedTensor,
    bins: &[usize],
    scale: f64,
) -> Result<TracedTensor, TraceStop> {
    let shape = pooled(MAX_ROI_POOL.name, x, rois, 5, bins)?;
    if shape.contains(&0) {
        return on.zeros(&shape, x.dtype());
    }
    let params = [Param::Extents(shape.to_vec().into()), Param::Float(scale)];
    let y = on.on_host(&MAX_ROI_POOL, &[Some(x), Some(rois)], &params, &[(x.dtype(), shape)])?;
    Ok(crate::call::only(MAX_ROI_POOL.name, y)?)
}
