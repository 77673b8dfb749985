//! `Image`: images and signals.

pub use super::deform::deform_conv;
pub use super::fourier::dft;
pub use super::region::{max_roi_pool, roi_align};
pub use super::sample::grid_sample;
pub use super::unpool::max_unpool;

crate::ext::family::family! { [
    /// Images and signals.
    Image, ImageOp, image]

    /// Reads images between their elements, at positions from -1 to 1.
    ///
    /// `mode` is `nearest`, `linear` or `cubic`; `padding` is `zeros`, `border` or `reflection`. -1 and 1 are the
    /// outermost centres if `align_corners`, the outermost edges otherwise.
    ///
    /// Shapes: `x: [n, c, d…]`, `grid: [n, o…, r]` with the innermost of the `r` dimensions first, to `[n, c, o…]`.
    ///
    /// Source: ONNX `GridSample`, opset 22.
    GridSample 22 = grid_sample(x: Tensor, grid: Tensor; mode: Text, padding: Text, align_corners: Bool = false) -> Tensor;

    /// Correlates with filters, each place of which is read where `offset` moves it, and weighted by `mask`.
    ///
    /// Shapes: `x: [n, c, s…]`, `w: [m, c / group, k…]`, `offset: [n, offset_group * k * r, o…]`, `bias: [m]`,
    /// `mask: [n, offset_group * k, o…]`, to `[n, m, o…]`.
    ///
    /// Source: ONNX `DeformConv`, opset 22.
    DeformConv 22 = deform_conv(x: Tensor, w: Tensor, offset: Tensor, bias: Optional, mask: Optional; strides: Ints, pads: Ints, dilations: Ints, group: Int = 1, offset_group: Int = 1) -> Tensor;

    /// Pools regions from samples between the elements.
    ///
    /// Each bin has `ratio` samples along each dimension, or one for each element if it is 0. Positions are multiplied
    /// by `scale` and reduced by `shift`, 0.5 or 0. The greatest sample is taken if `max`, the mean otherwise.
    ///
    /// Shapes: `x: [n, c, h, w]`, `rois: [r, 4]` as `x, y, x, y`, `images: [r]`, to `[r, c, bins…]`.
    ///
    /// Source: ONNX `RoiAlign`, opset 22.
    RoiAlign 22 = roi_align(x: Tensor, rois: Tensor, images: Tensor; bins: Extents, ratio: Int, scale: Float, shift: Float, max: Bool = false) -> Tensor;

    /// The greatest element of each bin of regions.
    ///
    /// Shapes: `x: [n, c, h, w]`, `rois: [r, 5]` as `image, x, y, x, y`, to `[r, c, bins…]`.
    ///
    /// Source: ONNX `MaxRoiPool`, opset 22.
    MaxRoiPool 22 = max_roi_pool(x: Tensor, rois: Tensor; bins: Extents, scale: Float = 1.0) -> Tensor;

    /// Puts elements where `indices` say, among the zeros of a tensor of `shape`.
    ///
    /// Source: ONNX `MaxUnpool`, opset 22.
    MaxUnpool 22 = max_unpool(x: Tensor, indices: Tensor; shape: Extents) -> Tensor;

    /// Fourier transforms along the last dimension but one, of `length` numbers, real or complex by the last extent.
    ///
    /// The inverse is divided by the length. `onesided` leaves out the frequencies that mirror the others: of the
    /// result, or of the operand of an inverse, whose result then is real.
    ///
    /// Source: ONNX `DFT`, opset 20.
    Dft 20 = dft(x: Tensor; length: Int, inverse: Bool = false, onesided: Bool = false) -> Tensor;
}
