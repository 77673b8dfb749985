//! The rows of the family `Quant`.

/// Expands a callback macro with one row per operation of the family `Quant`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_quant {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Computes `round(x / scale) + zero` within the range of the type `to`, that of `zero` if it is given.
        ///
        /// Shapes: `scale` and `zero` broadcast to `x`. Halves are rounded to even. To a float type, `x / scale + zero` is
        /// cast.
        ///
        /// Source: ONNX `QuantizeLinear`, opset 25.
        QuantizeLinear 25 = quantize_linear(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: QuantizeLinearOptions {
            /// The type in which the quotient is computed; `f32` if there is none.
            precision: OptType = None,
            /// Whether a float that is too large becomes the greatest of the type.
            saturate: Bool = true,
        } -> Tensor { Elementwise, cost: quantize };

        /// Computes `(x - zero) * scale` in `f32`, and casts it to the type `to`.
        ///
        /// Shapes: `scale` and `zero` broadcast to `x`.
        ///
        /// Source: ONNX `DequantizeLinear`, opset 25.
        DequantizeLinear 25 = dequantize_linear(x: Tensor, scale: Tensor, zero: Optional; to: Type) -> Tensor { Elementwise, cost: dequantize };

        /// Quantises to `u8` by the range of the elements, which is extended to include 0. The results are the integers,
        /// the scale and the zero point.
        ///
        /// Source: ONNX `DynamicQuantizeLinear`, opset 11.
        DynamicQuantizeLinear 11 = dynamic_quantize_linear(x: Tensor) -> Tensors { Other, cost: dynamic_quantize };

        /// Multiplies matrices of integers, from which their zero points are subtracted. The result is `i32`, and wraps.
        ///
        /// Shapes: those of `matmul`. A zero point is a scalar or one element; a vector with one element for each row of `a`
        /// or each column of `b`; or a tensor that broadcasts to the operand.
        ///
        /// Source: ONNX `MatMulInteger`, opset 10.
        MatMulInteger 10 = matmul_integer(a: Tensor, b: Tensor, a_zero: Optional, b_zero: Optional) -> Tensor { Contracts, cost: matmul_integer, batch: MatMulInteger };

        /// Quantises `x` by its range, multiplies it with a matrix of integers, scales the product, and adds the bias.
        ///
        /// Shapes: those of [`matmul_integer`](Self::matmul_integer). `b_scale` and `bias` broadcast to the product.
        ///
        /// Source: ONNX Runtime's `DynamicQuantizeMatMul`.
        DynamicMatMul 1 = dynamic_matmul(x: Tensor, b: Tensor, b_scale: Tensor, b_zero: Optional, bias: Optional) -> Tensor { Contracts, cost: dynamic_matmul };

        /// Multiplies with a matrix of integers of few bits, whose columns are quantised by blocks.
        ///
        /// A column of the matrix is a row of `b`. Its numbers follow each other in blocks, from the low bits of each byte to the
        /// high ones, and the last block is filled up. A block stands for its integers, less its zero point, times its scale.
        /// `order` says for each number of a column the block whose scale and zero point it has, in place of its own.
        ///
        /// Shapes: `a: [.., inner]`, `b: [columns, blocks, block * bits / 8]` and `scales: [columns, blocks]` to
        /// `[.., columns]`. `zeros` are floats like `scales`, or `u8`, as packed as `b`: `[columns, bytes]`, where the blocks of
        /// each column start with a byte of their own. Without them the zero point is `2^(bits - 1)`. `order: [places]` has an
        /// integer for each place at least. Types: `a` is a float, `b` is `u8`, and `scales` are floats.
        ///
        /// Errors: `b` does not have blocks of this size.
        ///
        /// Source: ONNX Runtime's `MatMulNBits`.
        MatMulNBits 1 = matmul_n_bits(
            a: Tensor, b: Tensor, scales: Tensor, zeros: Optional, order: Optional
        ) with options: MatMulNBitsOptions {
            /// How many numbers each column has; 0 if the blocks have no others.
            inner: Int = 0,
            /// The bits of a number: 2, 4 or 8.
            bits: Int = 4,
            /// How many numbers a block has.
            block: Int = 32,
            /// Whether `a` is rounded to 8 bits, so that sums of products within a block are sums of integers. Each block of a row of `a`
            /// becomes integers as by `quantize_linear`, without a zero point and with the scale
            /// `max(abs(x)) / 127`; with a scale below the least normal number, the block counts as zeros, and with one that is infinite or
            /// NaN, all results of the row are NaN. Blocks are those of `b`. With `order`, and for an `a` of 64 bits, nothing is
            /// rounded.
            integers: Bool = false,
        } -> Tensor { Contracts, cost: quantized_product };

        /// Correlates integers with filters, after their zero points are subtracted. The result is `i32`, and wraps.
        ///
        /// Shapes: those of [`Nn::conv`](crate::ext::Nn::conv). `x_zero` has one element, `w_zero` has one or one for each filter. Padding
        /// is the zero point. `bias` is `i32`.
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

        /// Computes `round(x * scale / y_scale) + y_zero` in `f32`, within the range of the type of `y_zero`.
        ///
        /// Shapes: the last three operands broadcast to `x`. Halves are rounded to even. If `y_zero` is a float,
        /// `x * scale / y_scale + y_zero` is cast to its type.
        ///
        /// Source: ONNX `QLinearMatMul`, opset 21.
        Requantize 21 = requantize(x: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor { Elementwise, cost: requantize };

        /// Adds the numbers that two tensors stand for, and quantises the sums.
        ///
        /// Shapes: `a` and `b` broadcast to each other. Each scale and zero point has one element. Types: `i8`, `u8`, `i16` and `u16`.
        ///
        /// Source: ONNX Runtime's `QLinearAdd`.
        QLinearAdd 1 = qlinear_add(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor { Elementwise, cost: qlinear };

        /// Multiplies the numbers that two tensors stand for, and quantises the products.
        ///
        /// Shapes and types: those of [`qlinear_add`](Self::qlinear_add).
        ///
        /// Source: ONNX Runtime's `QLinearMul`.
        QLinearMul 1 = qlinear_mul(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor { Elementwise, cost: qlinear };

        /// Replaces each element by the entry of a table that it counts to, from the least element of its type on.
        ///
        /// Shapes: `table: [256]`; the result has those of `x`. Types: `x` is `u8` or `i8`.
        Lookup 1 = lookup(x: Tensor, table: Tensor) -> Tensor { Moves };

        /// Quantises floats by one scale for all, one for each entry along `axis`, or one for each block along `axis`:
        /// `round(x / scale) + zero` within the range of the type `to`, as [`quantize_linear`](Self::quantize_linear).
        ///
        /// Shapes: `scale` is `[]` or `[1]`; or `[n]` for the extent `n` along `axis`; or it has the extents of `x`, but
        /// `ceil(n / block)` along `axis`. `zero` has those of `scale`. Types: `to` is any integer of up to 16 bits, `i32`, or a float of
        /// 4 to 16 bits, and the type of `zero`.
        ///
        /// Errors: `scale` has other extents; `block` is negative, or 0 where `scale` has the rank of `x`.
        ///
        /// Source: ONNX `QuantizeLinear`, opset 25. Halves are rounded to even, as ONNX and PyTorch's `quantize_per_channel` round them.
        Quantize 25 = quantize(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: QuantizeOptions {
            /// The dimension along which scales differ. If it is negative, it counts from the end.
            axis: Int = 1,
            /// How many elements along `axis` share a scale that has the rank of `x`.
            block: Int = 0,
            /// As [`QuantizeLinearOptions::precision`].
            precision: OptType = None,
            /// As [`QuantizeLinearOptions::saturate`].
            saturate: Bool = true,
        } -> Tensor { Other, cost: quantize, batch: Scaled };

        /// Computes what integers stand for: `(x - zero) * scale`, with scales as [`quantize`](Self::quantize) has them.
        ///
        /// Shapes and errors: those of `quantize`. Types: `x` has those that `quantize` makes, and `to` is a float.
        ///
        /// Source: ONNX `DequantizeLinear`, opset 25.
        Dequantize 25 = dequantize(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: DequantizeOptions {
            /// As [`QuantizeOptions::axis`].
            axis: Int = 1,
            /// As [`QuantizeOptions::block`].
            block: Int = 0,
        } -> Tensor { Other, cost: dequantize, batch: Scaled };

        /// Multiplies matrices of integers, or of floats of 8 bits and fewer, from which their zero points are subtracted; multiplies the
        /// product by both scales, and adds `bias`.
        ///
        /// Shapes: those of [`matmul_integer`](Self::matmul_integer). `a_scale` is `[]`, `[1]`, or has one for each row of `a`, `[m]`;
        /// `b_scale` likewise one for each column of `b`, `[n]`. `bias` broadcasts to the product. Types: the scales and `bias` are one
        /// float type, which is that of the result. Integers are added up in `i32`, floats in `f32`.
        ///
        /// Source: ONNX Runtime's `MatMulIntegerToFloat`; with floats, PyTorch's `torch._scaled_mm`, whose scales multiply alike.
        ScaledMatMul 1 = scaled_matmul(
            a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Optional, b_zero: Optional, bias: Optional
        ) -> Tensor { Contracts, cost: scaled_matmul };
    } };
}
