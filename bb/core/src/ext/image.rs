//! `Image`: operations on images and signals.

mod edges;
mod pixels;

pub use bb_ir::op::{Border, Interpolation, SamplePadding};

pub use edges::{gaussian_blur, sharpen, sobel};
pub use pixels::{brightness, contrast, grayscale, invert, threshold};

pub use super::deform::deform_conv;
pub use super::fourier::dft;
pub use super::region::{max_roi_pool, roi_align};
pub use super::sample::grid_sample;
pub use super::unpool::max_unpool;

pub use crate::family::image::*;
bb_ir::for_each_image!(crate::ext::bodies::bodies, Image, ImageOp, image);
