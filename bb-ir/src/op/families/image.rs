//! The rows of the family `Image`.

/// Expands a callback macro with one row per operation of the family `Image`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_image {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Samples images at positions between their elements. Positions range from -1 to 1.
        ///
        /// Shapes: `x: [n, c, d…]`, `grid: [n, o…, r]`, to `[n, c, o…]`. The last dimension of `grid` has a coordinate for each of the
        /// `r` spatial dimensions, the innermost dimension first.
        ///
        /// Source: ONNX `GridSample`, opset 22.
        GridSample 22 = grid_sample(x: Tensor, grid: Tensor) with options: GridSampleOptions {
            /// How values between elements are interpolated.
            mode: Interpolation = Interpolation::Linear,
            /// The values of positions outside of `x`.
            padding: SamplePadding = SamplePadding::Zeros,
            /// Whether -1 and 1 are the centres of the outermost elements. Otherwise they are the outer edges of these elements.
            align_corners: Bool = false,
        } -> Tensor { Other, cost: uncounted, export: GridSample = grid_sample, batch: Sampled };

        /// Computes a deformable convolution. `offset` shifts the position that each filter element reads, and `mask` weights the value
        /// that it reads.
        ///
        /// Shapes: `x: [n, c, s…]`, `w: [m, c / group, k…]`, `offset: [n, offset_group * k * r, o…]`, `bias: [m]`,
        /// `mask: [n, offset_group * k, o…]`, to `[n, m, o…]`.
        ///
        /// Source: ONNX `DeformConv`, opset 22.
        DeformConv 22 = deform_conv(x: Tensor, w: Tensor, offset: Tensor, bias: Optional, mask: Optional) with options: DeformConvOptions<'a> {
            /// As [`ConvOptions::strides`](crate::ext::ConvOptions::strides).
            strides: Ints = &[],
            /// As [`ConvOptions::pads`](crate::ext::ConvOptions::pads).
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`](crate::ext::ConvOptions::dilations).
            dilations: Ints = &[],
            /// As [`ConvOptions::group`](crate::ext::ConvOptions::group).
            group: Int = 1,
            /// The number of groups of channels. The channels of a group share offsets and masks.
            offset_group: Int = 1,
        } -> Tensor { Contracts, cost: uncounted, export: DeformConv = window };

        /// Pools regions of images: each bin of a region is computed from samples that are interpolated between the elements.
        ///
        /// Shapes: `x: [n, c, h, w]`, `rois: [r, 4]` as `x, y, x, y`, `images: [r]`, to `[r, c, bins…]`.
        ///
        /// Source: ONNX `RoiAlign`, opset 22.
        RoiAlign 22 = roi_align(x: Tensor, rois: Tensor, images: Tensor) with options: RoiAlignOptions<'a> {
            /// The number of bins of a region along each spatial dimension.
            bins: Extents = &[1, 1],
            /// The number of samples of a bin along each dimension; if 0, one for each element that the bin covers.
            ratio: Int = 0,
            /// The factor that scales the positions in `rois`.
            scale: Float = 1.0,
            /// The offset that is subtracted from the scaled positions: 0.5 or 0.
            shift: Float = 0.5,
            /// Whether the value of a bin is its greatest sample. Otherwise it is the mean of the samples.
            max: Bool = false,
        } -> Tensor { Other, cost: uncounted, export: RoiAlign = roi_align };

        /// Computes the maximum of the elements in each bin of each region.
        ///
        /// Shapes: `x: [n, c, h, w]`, `rois: [r, 5]` as `image, x, y, x, y`, to `[r, c, bins…]`.
        ///
        /// Source: ONNX `MaxRoiPool`, opset 22.
        MaxRoiPool 22 = max_roi_pool(x: Tensor, rois: Tensor; bins: Extents, scale: Float = 1.0) -> Tensor { Other, cost: uncounted, export: MaxRoiPool = max_roi_pool };

        /// Creates a tensor of zeros of the shape `shape`, and writes the elements of `x` to the positions that `indices` contains.
        ///
        /// Source: ONNX `MaxUnpool`, opset 22.
        MaxUnpool 22 = max_unpool(x: Tensor, indices: Tensor; shape: Extents) -> Tensor { Other, cost: uncounted };

        /// Computes Fourier transforms of length `length` along the second-to-last dimension. The extent of the last dimension is 1 for
        /// real numbers, and 2 for complex numbers.
        ///
        /// The inverse transform divides by the length. If `onesided` is true, the frequencies that mirror the others are omitted: a
        /// forward transform omits them from its result; an inverse transform expects an operand without them, and its result is real.
        ///
        /// Source: ONNX `DFT`, opset 20.
        Dft 20 = dft(x: Tensor; length: Int, inverse: Bool = false, onesided: Bool = false) -> Tensor { Other, cost: uncounted, export: DFT = dft };

        /// Replaces each element by the average of its neighbourhood, weighted by a Gaussian function of the distance.
        ///
        /// Shapes: the last two dimensions of `x` are the height and the width of the image. Types: floats and `u8`. `u8` is computed in
        /// `f32` and rounded to the nearest integer, halves to even. 16-bit floats are computed in `f32`.
        ///
        /// `sigma` is the standard deviation, in elements. The weights extend `ceil(3 * sigma)` elements in each direction along each
        /// dimension, and add up to 1. `border` selects the values outside the image, as the modes of the same names of
        /// [`Nn::pad`](crate::ext::Nn::pad) do.
        ///
        /// Errors: `sigma` is negative, not finite or above 10000.
        ///
        /// Source: `scipy.ndimage.gaussian_filter`, whose default radius is `int(4 * sigma + 0.5)`, and whose mode `mirror` is called
        /// `reflect` here, as in NumPy; torchvision's `gaussian_blur`, which takes the size from the caller.
        GaussianBlur 1 = gaussian_blur(x: Tensor; sigma: Float, border: Border) -> Tensor { Other, cost: gaussian_blur };

        /// Computes the derivative of images along their width (`x`) or height (`y`), or the Euclidean norm of both derivatives
        /// (`magnitude`).
        ///
        /// The derivative is the correlation with `[-1, 0, 1]` along its dimension and with `[1, 2, 1]` along the other dimension.
        ///
        /// Shapes and types: as for [`gaussian_blur`](Self::gaussian_blur). Integers are clipped to the range of the type.
        ///
        /// Source: OpenCV's `Sobel`. `skimage.filters.sobel` divides the derivatives by 4, and the norm by the square root of 2.
        Sobel 1 = sobel(x: Tensor) with options: SobelOptions<'a> {
            /// The kind of result: `x`, `y` or `magnitude`.
            direction: Text = "magnitude",
            /// As in [`gaussian_blur`](Image::gaussian_blur).
            border: Border = Border::Reflect,
        } -> Tensor { Other, cost: sobel };

        /// Computes `x + amount * (x - blurred)`, where `blurred` is the [`gaussian_blur`](Self::gaussian_blur) of `x`.
        ///
        /// Shapes, types and errors: as for `gaussian_blur`. Floats are not clipped; integers are clipped to the range of the type.
        ///
        /// Source: `skimage.filters.unsharp_mask`, which also clips floats unless `preserve_range` is true. Pillow's `SHARPEN` is a
        /// filter of nine fixed weights instead.
        Sharpen 1 = sharpen(x: Tensor) with options: SharpenOptions {
            /// The factor of the difference that is added.
            amount: Float = 1.0,
            /// As in [`gaussian_blur`](Image::gaussian_blur).
            sigma: Float = 1.0,
            /// As in [`gaussian_blur`](Image::gaussian_blur).
            border: Border = Border::Reflect,
        } -> Tensor { Other, cost: sharpen };

        /// Computes the luminance of red, green and blue, which are the three channels along `axis`.
        ///
        /// Shapes: as `x`, but with 1 along `axis` instead of 3. Types: as for [`gaussian_blur`](Self::gaussian_blur).
        ///
        /// `standard` is `bt601`, with the weights 0.299, 0.587 and 0.114, or `bt709`, with 0.2126, 0.7152 and 0.0722.
        ///
        /// Source: ITU-R BT.601, as in Pillow, OpenCV and torchvision; ITU-R BT.709, as in `skimage.color.rgb2gray`. The weights are
        /// rounded to four decimal places.
        Grayscale 1 = grayscale(x: Tensor; axis: Int, standard: Text) -> Tensor { Other, cost: grayscale };

        /// Returns the maximum brightness where `x` exceeds `value`, and 0 elsewhere, also for NaN. The maximum brightness is 1 for
        /// floats and 255 for `u8`.
        ///
        /// Types: floats and `u8`.
        ///
        /// Source: OpenCV's `threshold` with `THRESH_BINARY`. In Pillow and scikit-image, users compare with NumPy instead.
        Threshold 1 = threshold(x: Tensor; value: Float) -> Tensor { Elementwise };

        /// Multiplies by `factor`, and clips the result to the range from 0 to 1, or to 255 for `u8`.
        ///
        /// Types: floats and `u8`, which is rounded to the nearest integer, halves to even.
        ///
        /// Source: torchvision's `adjust_brightness`, which rounds towards zero. OpenCV and GIMP add instead.
        Brightness 1 = brightness(x: Tensor; factor: Float) -> Tensor { Elementwise, cost: brightness };

        /// Multiplies the difference between each element and the mean luminance of its image by `factor`, and clips the result as
        /// [`brightness`](Self::brightness) does.
        ///
        /// Shapes: `x: [.., c, h, w]` with 1 channel, or with 3 channels for red, green and blue; or `x: [h, w]`. Types: as for
        /// `brightness`.
        ///
        /// Source: torchvision's `adjust_contrast`. OpenCV and GIMP use the difference from a fixed grey instead.
        Contrast 1 = contrast(x: Tensor; factor: Float) -> Tensor { Other, cost: contrast };

        /// Computes `1 - x`, or `255 - x` for `u8`.
        ///
        /// Source: torchvision's `invert`.
        Invert 1 = invert(x: Tensor) -> Tensor { Elementwise };
    } };
}
