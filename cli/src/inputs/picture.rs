//! Reads image files as inputs: decodes and resizes them, and arranges the pixels as the model declares.

use super::extents::Extents;
use crate::args::{self, Channels, Layout};
use crate::error::{Error, Result};
use crate::number;
use bb::{DataType, Port, TensorData};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::{Dim, ValueType};
use image::imageops::{FilterType, resize};
use std::cmp::Ordering;
use std::path::Path;

/// The maximum number of elements of an image.
const MOST_ELEMENTS: usize = 1 << 28;

/// The layout of an image in an input.
struct PictureLayout {
    layout: Layout,
    channels: usize,
    /// The numbers of rows and columns. 0 means the size of the image file.
    size: [usize; 2],
    /// Whether the input has a batch axis.
    batch: bool,
    /// Whether the input has a channel axis.
    has_channels: bool,
}

/// Reads an image file for an input.
pub(super) fn read(
    path: &Path,
    port: &Port,
    extents: &Extents,
    options: &args::Picture,
) -> Result<TensorData> {
    let (dtype, plan) = plan(port, extents, options.layout)?;
    let wrong = |source: image::ImageError| Error::Picture { path: path.to_owned(), source };
    let reader =
        image::ImageReader::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let reader = reader.with_guessed_format();
    let reader = reader.map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let picture = reader.decode().map_err(wrong)?;
    let [rows, columns] = plan.size;
    let extent = |wanted: usize, own: u32| match wanted {
        0 => Ok(own),
        wanted => u32::try_from(wanted).map_err(|_| too_large(port, &plan)),
    };
    let (height, width) = (extent(rows, picture.height())?, extent(columns, picture.width())?);
    let area = usize::try_from(u64::from(height) * u64::from(width)).unwrap_or(usize::MAX);
    if area.saturating_mul(plan.channels) > MOST_ELEMENTS {
        return Err(too_large(port, &plan));
    }
    // The pixel values are from 0 to 1, with the channels as the innermost axis.
    let pixels: Vec<f32> = match plan.channels {
        1 => resize(&picture.to_luma32f(), width, height, FilterType::Triangle).into_raw(),
        3 => resize(&picture.to_rgb32f(), width, height, FilterType::Triangle).into_raw(),
        _ => resize(&picture.to_rgba32f(), width, height, FilterType::Triangle).into_raw(),
    };
    let scale = options.scale.unwrap_or(if number::is_float(dtype) { 1.0 / 255.0 } else { 1.0 });
    let mean = per_channel(&options.mean, 0.0, plan.channels, "--mean")?;
    let deviation = per_channel(&options.std, 1.0, plan.channels, "--std")?;
    let mut elements = vec![0f64; pixels.len()];
    for (i, pixel) in pixels.chunks(plan.channels).enumerate() {
        for (channel, value) in pixel.iter().enumerate() {
            // Swaps blue and red. Alpha stays the last channel.
            let channel = match (options.channels, channel) {
                (Channels::Bgr, 0..=2) if plan.channels >= 3 => 2 - channel,
                _ => channel,
            };
            let (Some(mean), Some(deviation)) = (mean.get(channel), deviation.get(channel)) else { continue };
            let to = match plan.layout {
                Layout::Nchw => channel * area + i,
                Layout::Nhwc => i * plan.channels + channel,
            };
            if let Some(element) = elements.get_mut(to) {
                *element = (f64::from(*value) * 255.0 * scale - mean) / deviation;
            }
        }
    }
    if !number::is_float(dtype) {
        elements.iter_mut().for_each(|element| *element = element.round());
    }
    let (height, width) = (height as usize, width as usize);
    let mut shape = match (plan.has_channels, plan.layout) {
        (false, _) => vec![height, width],
        (true, Layout::Nchw) => vec![plan.channels, height, width],
        (true, Layout::Nhwc) => vec![height, width, plan.channels],
    };
    if plan.batch {
        shape.insert(0, 1);
    }
    Ok(cast(&TensorData::new(&shape, &elements)?, dtype, Rounding::default())?)
}

fn too_large(port: &Port, plan: &PictureLayout) -> Error {
    Error::TooLarge { name: port.name.clone(), shape: plan.size.to_vec() }
}

/// Determines the axes of channels, rows and columns from the declared shape.
fn plan(port: &Port, extents: &Extents, told: Option<Layout>) -> Result<(DataType, PictureLayout)> {
    let refused =
        |problem| Error::NoPicture { name: port.name.clone(), ty: crate::render::ty(&port.ty), problem };
    let ValueType::Tensor { dtype, shape: Some(dims) } = &port.ty else {
        return Err(refused("expected a tensor of known rank"));
    };
    if number::of(*dtype).is_none() {
        return Err(refused("expected a tensor of numbers"));
    }
    // The extents from the options, with 0 for open ones.
    let known = extents.shape(&port.name, &|_| 0);
    let batch = known.len() == 4;
    if batch && !matches!(dims.first(), Some(Dim::Known(1))) && known.first().is_some_and(|n| *n > 1) {
        return Err(refused("one picture is a batch of 1"));
    }
    let inner = known.get(usize::from(batch)..).unwrap_or_default();
    // If two axes could be the channels, 3 is more likely than 1, and 1 is more likely than 4.
    let likely = |extent: usize| [4, 1, 3].iter().position(|n| *n == extent).map_or(0, |at| at + 1);
    match *inner {
        [height, width] => {
            let plan = PictureLayout {
                layout: Layout::Nhwc,
                channels: 1,
                size: [height, width],
                batch,
                has_channels: false,
            };
            Ok((*dtype, plan))
        }
        [a, b, c] => {
            let layout = told.or(match likely(a).cmp(&likely(c)) {
                Ordering::Greater => Some(Layout::Nchw),
                Ordering::Less => Some(Layout::Nhwc),
                Ordering::Equal => None,
            });
            let layout = layout.ok_or(refused("give the layout with --layout nchw or --layout nhwc"))?;
            let (channels, size) = if layout == Layout::Nchw { (a, [b, c]) } else { (c, [a, b]) };
            if channels != 0 && likely(channels) == 0 {
                return Err(refused("expected 1, 3 or 4 channels"));
            }
            let channels = if channels == 0 { 3 } else { channels };
            Ok((*dtype, PictureLayout { layout, channels, size, batch, has_channels: true }))
        }
        _ => Err(refused("expected rank 2, 3 or 4")),
    }
}

/// Returns a number for each channel. The options contain one number for all channels, or one per channel.
fn per_channel(given: &[f64], usual: f64, channels: usize, option: &'static str) -> Result<Vec<f64>> {
    match given {
        [] => Ok(vec![usual; channels]),
        [one] => Ok(vec![*one; channels]),
        all if all.len() == channels => Ok(all.to_vec()),
        all => Err(Error::PerChannel { option, channels, got: all.len() }),
    }
}
