//! The rows of the family `Bits`.

/// Expands a callback macro with one row per operation of the family `Bits`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_bits {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Computes the bitwise AND.
        ///
        /// Shapes: NumPy broadcasting. Types: integers.
        ///
        /// Source: ONNX `BitwiseAnd`, opset 18.
        BitwiseAnd 18 = bitwise_and(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: BitwiseAnd = same };

        /// Computes the bitwise OR. Shapes and types: as for [`bitwise_and`](Self::bitwise_and). Source: ONNX `BitwiseOr`, opset 18.
        BitwiseOr 18 = bitwise_or(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: BitwiseOr = same };

        /// Computes the bitwise exclusive OR. Shapes and types: as for [`bitwise_and`](Self::bitwise_and). Source: ONNX `BitwiseXor`,
        /// opset 18.
        BitwiseXor 18 = bitwise_xor(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: BitwiseXor = same };

        /// Inverts every bit. Types: integers. Source: ONNX `BitwiseNot`, opset 18.
        BitwiseNot 18 = bitwise_not(x: Tensor) -> Tensor { Elementwise, export: BitwiseNot = same };

        /// Shifts the bits of `x` by `y` positions: to the left if `left` is true, otherwise to the right. A right shift of a signed
        /// number fills the free bits with the sign bit. A shift count that is negative, or at least the width of the type, shifts out
        /// all bits: the result is 0, or -1 for a right shift of a negative number.
        ///
        /// Shapes and types: as for [`bitwise_and`](Self::bitwise_and).
        ///
        /// Source: ONNX `BitShift`, opset 11.
        BitShift 11 = bit_shift(x: Tensor, y: Tensor; left: Bool) -> Tensor { Elementwise, export: BitShift = bit_shift };

        /// Reinterprets the bits of each element as the element type `to`, which has the same number of bits. Types: all except strings.
        ///
        /// Source: ONNX `BitCast`, opset 26.
        BitCast 26 = bit_cast(x: Tensor; to: Type) -> Tensor { Elementwise, cost: view, export: BitCast = bit_cast };
    } };
}
