//! `Image`: operations on images and signals.

pub use super::deform::deform_conv;
pub use super::fourier::dft;
pub use super::region::{max_roi_pool, roi_align};
pub use super::sample::grid_sample;
pub use super::unpool::max_unpool;

crate::ext::family::family! { [
    /// Operations on images and signals.
    Image, ImageOp, image]

    /// Samples images between their elements, at positions from -1 to 1.
    ///
    /// Shapes: `x: [n, c, d…]`, `grid: [n, o…, r]`, to `[n, c, o…]`. The last dimension of `grid` has one number for
    /// each of the `r` spatial dimensions, the innermost dimension first.
    ///
    /// Source: ONNX `GridSample`, opset 22.
    GridSample 22 = grid_sample(x: Tensor, grid: Tensor) with options: GridSampleOptions<'a> {
        /// How values between elements are interpolated: `nearest`, `linear` or `cubic`.
        mode: Text = "linear",
        /// The values outside `x`: `zeros`, `border` or `reflection`.
        padding: Text = "zeros",
        /// Whether -1 and 1 are the centres of the outermost elements. Otherwise they are the outer edges.
        align_corners: Bool = false,
    } -> Tensor;

    /// Correlates with filters. `offset` shifts the position at which each filter element reads, and `mask` weights the
    /// value that it reads.
    ///
    /// Shapes: `x: [n, c, s…]`, `w: [m, c / group, k…]`, `offset: [n, offset_group * k * r, o…]`, `bias: [m]`,
    /// `mask: [n, offset_group * k, o…]`, to `[n, m, o…]`.
    ///
    /// Source: ONNX `DeformConv`, opset 22.
    DeformConv 22 = deform_conv(x: Tensor, w: Tensor, offset: Tensor, bias: Optional, mask: Optional) with options: DeformConvOptions<'a> {
        /// As [`ConvOptions::strides`](super::ConvOptions::strides).
        strides: Ints = &[],
        /// As [`ConvOptions::pads`](super::ConvOptions::pads).
        pads: Ints = &[],
        /// As [`ConvOptions::dilations`](super::ConvOptions::dilations).
        dilations: Ints = &[],
        /// As [`ConvOptions::group`](super::ConvOptions::group).
        group: Int = 1,
        /// The number of groups of channels that share offsets and masks.
        offset_group: Int = 1,
    } -> Tensor;

    /// Pools regions from samples that are interpolated between the elements.
    ///
    /// Shapes: `x: [n, c, h, w]`, `rois: [r, 4]` as `x, y, x, y`, `images: [r]`, to `[r, c, bins…]`.
    ///
    /// Source: ONNX `RoiAlign`, opset 22.
    RoiAlign 22 = roi_align(x: Tensor, rois: Tensor, images: Tensor) with options: RoiAlignOptions<'a> {
        /// The number of bins of a region along each spatial dimension.
        bins: Extents = &[1, 1],
        /// The number of samples of a bin along each dimension; if it is 0, one for each element that the bin spans.
        ratio: Int = 0,
        /// The factor of the positions in `rois`.
        scale: Float = 1.0,
        /// What is then subtracted from the positions: 0.5 or 0.
        shift: Float = 0.5,
        /// Whether a bin gives its greatest sample. Otherwise it gives the mean.
        max: Bool = false,
    } -> Tensor;

    /// Computes the greatest element of each bin of regions.
    ///
    /// Shapes: `x: [n, c, h, w]`, `rois: [r, 5]` as `image, x, y, x, y`, to `[r, c, bins…]`.
    ///
    /// Source: ONNX `MaxRoiPool`, opset 22.
    MaxRoiPool 22 = max_roi_pool(x: Tensor, rois: Tensor; bins: Extents, scale: Float = 1.0) -> Tensor;

    /// Writes elements to the positions that `indices` gives, in a tensor of zeros of the shape `shape`.
    ///
    /// Source: ONNX `MaxUnpool`, opset 22.
    MaxUnpool 22 = max_unpool(x: Tensor, indices: Tensor; shape: Extents) -> Tensor;

    /// Computes Fourier transforms of `length` numbers along the last dimension but one. The last extent tells whether
    /// the numbers are real (1) or complex (2).
    ///
    /// The inverse divides by the length. `onesided` leaves out the frequencies that mirror the others: in the result,
    /// or in the operand of an inverse, whose result is then real.
    ///
    /// Source: ONNX `DFT`, opset 20.
    Dft 20 = dft(x: Tensor; length: Int, inverse: Bool = false, onesided: Bool = false) -> Tensor;
}
