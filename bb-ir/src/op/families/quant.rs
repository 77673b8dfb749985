//! The rows of the family `Quant`.

/// Expands a callback macro with one row per operation of the family `Quant`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_quant {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Computes `round(x / scale) + zero`, clipped to the range of the type `to`. `zero`, if present, has the type `to`.
        ///
        /// Shapes: `scale` and `zero` broadcast to `x`. Halves are rounded to even. If `to` is a float type, the result is
        /// `x / scale + zero`, cast to `to`.
        ///
        /// Source: ONNX `QuantizeLinear`, opset 25.
        QuantizeLinear 25 = quantize_linear(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: QuantizeLinearOptions {
            /// The type of the quotient; if absent, `f32`.
            precision: OptType = None,
            /// Whether a float that is too large becomes the maximum of the type.
            saturate: Bool = true,
        } -> Tensor { Elementwise, cost: quantize };

        /// Computes `(x - zero) * scale` in `f32`, and casts it to the type `to`.
        ///
        /// Shapes: `scale` and `zero` broadcast to `x`.
        ///
        /// Source: ONNX `DequantizeLinear`, opset 25.
        DequantizeLinear 25 = dequantize_linear(x: Tensor, scale: Tensor, zero: Optional; to: Type) -> Tensor { Elementwise, cost: dequantize };

        /// Quantises to `u8`. The range of the elements, extended to include 0, determines the scale. The results are the integers, the
        /// scale and the zero point.
        ///
        /// Source: ONNX `DynamicQuantizeLinear`, opset 11.
        DynamicQuantizeLinear 11 = dynamic_quantize_linear(x: Tensor) -> Tensors { Other, cost: dynamic_quantize };

        /// Multiplies matrices of integers after subtracting their zero points. The result is `i32`, and wraps on overflow.
        ///
        /// Shapes: as for `matmul`. A zero point is one of: a scalar or a tensor of one element; a vector with one element for each row
        /// of `a` or each column of `b`; a tensor that broadcasts to the operand.
        ///
        /// Source: ONNX `MatMulInteger`, opset 10.
        MatMulInteger 10 = matmul_integer(a: Tensor, b: Tensor, a_zero: Optional, b_zero: Optional) -> Tensor { Contracts, cost: matmul_integer, batch: MatMulInteger };

        /// Quantises `x` according to its range, multiplies it by a matrix of integers, scales the product, and adds the bias.
        ///
        /// Shapes: as for [`matmul_integer`](Self::matmul_integer). `b_scale` and `bias` broadcast to the product.
        ///
        /// Source: ONNX Runtime's `DynamicQuantizeMatMul`.
        DynamicMatMul 1 = dynamic_matmul(x: Tensor, b: Tensor, b_scale: Tensor, b_zero: Optional, bias: Optional) -> Tensor { Contracts, cost: dynamic_matmul };

        /// Multiplies by a matrix of integers of few bits. The columns of the matrix are quantised in blocks.
        ///
        /// A row of `b` stores a column of the matrix. Its integers are packed from the low bits of each byte to the high bits. They form
        /// consecutive blocks, and the last block is padded. An integer represents its difference from the zero point of its block,
        /// multiplied by the scale of its block. `order` assigns a block to each integer of a column; the scale and the zero point of
        /// this block are then used instead.
        ///
        /// Shapes: `a: [.., inner]`, `b: [columns, blocks, block * bits / 8]` and `scales: [columns, blocks]` to `[.., columns]`. `zeros`
        /// are floats like `scales`, or `u8`, packed like `b`: `[columns, bytes]`, where each column starts with a new byte. Without
        /// `zeros`, the zero point is `2^(bits - 1)`. `order: [places]` has at least one entry for each integer of a column. Types: `a`
        /// is a float, `b` is `u8`, and `scales` are floats.
        ///
        /// Errors: `b` does not have blocks of this size.
        ///
        /// Source: ONNX Runtime's `MatMulNBits`.
        MatMulNBits 1 = matmul_n_bits(
            a: Tensor, b: Tensor, scales: Tensor, zeros: Optional, order: Optional
        ) with options: MatMulNBitsOptions {
            /// The number of integers in each column without the padding of the last block; 0 if there is no padding.
            inner: Int = 0,
            /// The number of bits of an integer: 2, 4 or 8.
            bits: Int = 4,
            /// The number of integers in a block.
            block: Int = 32,
            /// Whether `a` is rounded to 8 bits, so that sums of products within a block are sums of integers. Each block of a row of `a`
            /// is quantised as by `quantize_linear`, without a zero point and with the scale `max(abs(x)) / 127`. If the scale is below
            /// the least normal number, the block counts as zeros. If the scale is infinite or NaN, all results of the row are NaN. The
            /// blocks are as in `b`. With `order`, or if `a` has 64 bits, nothing is rounded.
            integers: Bool = false,
        } -> Tensor { Contracts, cost: quantized_product };

        /// Computes the convolution of integers after subtracting their zero points. The result is `i32`, and wraps on overflow.
        ///
        /// Shapes: as for [`Nn::conv`](crate::ext::Nn::conv). `x_zero` has one element. `w_zero` has one element, or one for each filter.
        /// Padding has the value of the zero point. `bias` is `i32`.
        ///
        /// Source: ONNX `ConvInteger`, opset 10.
        ConvInteger 10 = conv_integer(x: Tensor, w: Tensor, bias: Optional, x_zero: Optional, w_zero: Optional) with options: ConvIntegerOptions<'a> {
            /// As [`ConvOptions::strides`](crate::ext::ConvOptions::strides).
            strides: Ints = &[],
            /// As [`ConvOptions::pads`](crate::ext::ConvOptions::pads).
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`](crate::ext::ConvOptions::dilations).
            dilations: Ints = &[],
            /// As [`ConvOptions::group`](crate::ext::ConvOptions::group).
            group: Int = 1,
        } -> Tensor { Contracts, cost: conv_integer, batch: Images };

        /// Computes [`requantize`](Self::requantize) of the result of [`conv_integer`](Self::conv_integer).
        ///
        /// Source: ONNX `QLinearConv`, opset 10.
        QLinearConv 10 = qlinear_conv(x: Tensor, w: Tensor, bias: Optional, x_zero: Tensor, w_zero: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) with options: QLinearConvOptions<'a> {
            /// As [`ConvOptions::strides`](crate::ext::ConvOptions::strides).
            strides: Ints = &[],
            /// As [`ConvOptions::pads`](crate::ext::ConvOptions::pads).
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`](crate::ext::ConvOptions::dilations).
            dilations: Ints = &[],
            /// As [`ConvOptions::group`](crate::ext::ConvOptions::group).
            group: Int = 1,
        } -> Tensor { Contracts, cost: qlinear_conv, batch: Images };

        /// Computes `round(x * scale / y_scale) + y_zero` in `f32`, clipped to the range of the type of `y_zero`.
        ///
        /// Shapes: the operands except `x` broadcast to `x`. Halves are rounded to even. If `y_zero` is a float,
        /// `x * scale / y_scale + y_zero` is cast to its type.
        ///
        /// Source: ONNX `QLinearMatMul`, opset 21.
        Requantize 21 = requantize(x: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor { Elementwise, cost: requantize };

        /// Adds the numbers that two quantised tensors represent, and quantises the sums.
        ///
        /// Shapes: `a` and `b` broadcast to each other. Each scale and zero point has one element. Types: `i8`, `u8`, `i16` and `u16`.
        ///
        /// Source: ONNX Runtime's `QLinearAdd`.
        QLinearAdd 1 = qlinear_add(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor { Elementwise, cost: qlinear };

        /// Multiplies the numbers that two quantised tensors represent, and quantises the products.
        ///
        /// Shapes and types: as for [`qlinear_add`](Self::qlinear_add).
        ///
        /// Source: ONNX Runtime's `QLinearMul`.
        QLinearMul 1 = qlinear_mul(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor { Elementwise, cost: qlinear };

        /// Replaces each element by an entry of a table. The first entry is for the least value of the element type, the next entry for
        /// the next value, and so on.
        ///
        /// Shapes: `table: [256]`; the result has the shape of `x`. Types: `x` is `u8` or `i8`.
        Lookup 1 = lookup(x: Tensor, table: Tensor) -> Tensor { Moves };

        /// Quantises floats with a single scale, a scale for each index along `axis`, or a scale for each block along `axis`. Computes
        /// `round(x / scale) + zero`, clipped to the range of the type `to`, as [`quantize_linear`](Self::quantize_linear) does.
        ///
        /// Shapes: `scale` is `[]` or `[1]`; or `[n]`, where `n` is the extent along `axis`; or it has the shape of `x`, but with the
        /// extent `ceil(n / block)` along `axis`. `zero` has the shape of `scale`. Types: `to` is an integer type of up to 16 bits,
        /// `i32`, or a float type of 4 to 16 bits. `zero` has the type `to`.
        ///
        /// Errors: `scale` has another shape; `block` is negative; `block` is 0, but `scale` has a scale for each block.
        ///
        /// Source: ONNX `QuantizeLinear`, opset 25. Halves are rounded to even, as ONNX and PyTorch's `quantize_per_channel` round them.
        Quantize 25 = quantize(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: QuantizeOptions {
            /// The dimension along which scales differ. If it is negative, it counts from the end.
            axis: Int = 1,
            /// The number of elements along `axis` that share a scale, if `scale` has the rank of `x`.
            block: Int = 0,
            /// As [`QuantizeLinearOptions::precision`].
            precision: OptType = None,
            /// As [`QuantizeLinearOptions::saturate`].
            saturate: Bool = true,
        } -> Tensor { Other, cost: quantize, batch: Scaled };

        /// Computes the numbers that integers represent: `(x - zero) * scale`, with scales as for [`quantize`](Self::quantize).
        ///
        /// Shapes and errors: as for `quantize`. Types: `x` has a type that `quantize` supports as `to`, and `to` is a float.
        ///
        /// Source: ONNX `DequantizeLinear`, opset 25.
        Dequantize 25 = dequantize(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: DequantizeOptions {
            /// As [`QuantizeOptions::axis`].
            axis: Int = 1,
            /// As [`QuantizeOptions::block`].
            block: Int = 0,
        } -> Tensor { Other, cost: dequantize, batch: Scaled };

        /// Multiplies matrices of integers, or of floats of at most 8 bits, after subtracting their zero points. The product is
        /// multiplied by both scales, and `bias` is added.
        ///
        /// Shapes: as for [`matmul_integer`](Self::matmul_integer). `a_scale` is `[]`, `[1]`, or `[m]` with a scale for each row of `a`.
        /// `b_scale` is `[]`, `[1]`, or `[n]` with a scale for each column of `b`. `bias` broadcasts to the product. Types: the scales
        /// and `bias` have one float type, and the result has the same type. Products of integers are summed in `i32`, products of floats
        /// in `f32`.
        ///
        /// Source: ONNX Runtime's `MatMulIntegerToFloat`; with floats, PyTorch's `torch._scaled_mm`, which applies its scales in the same
        /// way.
        ScaledMatMul 1 = scaled_matmul(
            a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Optional, b_zero: Optional, bias: Optional
        ) -> Tensor { Contracts, cost: scaled_matmul };
    } };
}
