//! The rows of the family `Scalar`.

/// Expands a callback macro with one row per operation of the family `Scalar`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_scalar {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Returns the maximum of two elements, or NaN if one is NaN. Source: ONNX `Max`, opset 13.
        Maximum 13 = maximum(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: Max = same, derivative: extremum };

        /// Returns the minimum of two elements, or NaN if one is NaN. Source: ONNX `Min`, opset 13.
        Minimum 13 = minimum(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: Min = same, derivative: extremum };

        /// Returns whether both elements are true. Source: ONNX `And`, opset 7.
        And 7 = and(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: And = same };

        /// Returns whether at least one of two elements is true. Source: ONNX `Or`, opset 7.
        Or 7 = or(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: Or = same };

        /// Returns whether exactly one of two elements is true. Source: ONNX `Xor`, opset 7.
        Xor 7 = xor(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: Xor = same };

        /// Negates booleans. Source: ONNX `Not`, opset 1.
        Not 1 = not(x: Tensor) -> Tensor { Elementwise, export: Not = same };

        /// Returns whether `a >= b`; false if one is NaN. Source: ONNX `GreaterOrEqual`, opset 16.
        GreaterOrEqual 16 = greater_or_equal(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: GreaterOrEqual = same };

        /// Returns whether `a <= b`; false if one is NaN. Source: ONNX `LessOrEqual`, opset 16.
        LessOrEqual 16 = less_or_equal(a: Tensor, b: Tensor) -> Tensor { Elementwise, export: LessOrEqual = same };

        /// Returns whether an element is NaN. Source: ONNX `IsNaN`, opset 20.
        IsNaN 20 = is_nan(x: Tensor) -> Tensor { Elementwise, export: IsNaN = same };

        /// Returns whether an element is minus infinity (if `negative`) or plus infinity (if `positive`). Source: ONNX
        /// `IsInf`, opset 20.
        IsInf 20 = is_inf(x: Tensor; negative: Bool = true, positive: Bool = true) -> Tensor { Elementwise, export: IsInf = is_inf };

        /// Computes `1 / x`. Source: ONNX `Reciprocal`, opset 13.
        Reciprocal 13 = reciprocal(x: Tensor) -> Tensor { Elementwise, export: Reciprocal = same };

        /// Returns the sign: -1, 0 or 1. NaN stays NaN. Source: ONNX `Sign`, opset 13.
        Sign 13 = sign(x: Tensor) -> Tensor { Elementwise, export: Sign = same, derivative: zero };

        /// Rounds each element down to an integer. Source: ONNX `Floor`, opset 13.
        Floor 13 = floor(x: Tensor) -> Tensor { Elementwise, export: Floor = same, derivative: zero };

        /// Rounds each element up to an integer. Source: ONNX `Ceil`, opset 13.
        Ceil 13 = ceil(x: Tensor) -> Tensor { Elementwise, export: Ceil = same, derivative: zero };

        /// Rounds each element to the nearest integer; ties round to even. Source: ONNX `Round`, opset 22.
        Round 22 = round(x: Tensor) -> Tensor { Elementwise, export: Round = same, derivative: zero };

        /// Rounds each element towards zero to an integer.
        Trunc 1 = trunc(x: Tensor) -> Tensor { Elementwise, derivative: zero };

        /// Computes the remainder of `a / b`. The remainder has the sign of `b`, or of `a` if `fmod` is true. Source: ONNX `Mod`, opset
        /// 13.
        Modulo 13 = modulo(a: Tensor, b: Tensor; fmod: Bool = false) -> Tensor { Elementwise, export: Mod = modulo, derivative: modulo };

        /// Computes `exp(x) - 1`; also accurate near 0.
        Expm1 1 = expm1(x: Tensor) -> Tensor { Elementwise, derivative: expm1 };

        /// Computes `log(1 + x)`; also accurate near 0.
        Log1p 1 = log1p(x: Tensor) -> Tensor { Elementwise, derivative: log1p };

        /// Computes the logistic function, `1 / (1 + exp(-x))`. Source: ONNX `Sigmoid`, opset 13.
        Sigmoid 13 = sigmoid(x: Tensor) -> Tensor { Elementwise, export: Sigmoid = same, derivative: sigmoid };

        /// Computes `log(1 + exp(x))`. Source: ONNX `Softplus`, opset 22.
        Softplus 22 = softplus(x: Tensor) -> Tensor { Elementwise, export: Softplus = same, derivative: softplus };

        /// Computes the error function. Source: ONNX `Erf`, opset 13.
        Erf 13 = erf(x: Tensor) -> Tensor { Elementwise, export: Erf = of_floats, derivative: erf };

        /// Computes the sine of an angle in radians. Source: ONNX `Sin`, opset 22.
        Sin 22 = sin(x: Tensor) -> Tensor { Elementwise, export: Sin = same, derivative: sin };

        /// Computes the cosine of an angle in radians. Source: ONNX `Cos`, opset 22.
        Cos 22 = cos(x: Tensor) -> Tensor { Elementwise, export: Cos = same, derivative: cos };

        /// Computes the tangent of an angle in radians. Source: ONNX `Tan`, opset 22.
        Tan 22 = tan(x: Tensor) -> Tensor { Elementwise, export: Tan = same, derivative: tan };

        /// Computes the inverse sine, in radians. Source: ONNX `Asin`, opset 22.
        Asin 22 = asin(x: Tensor) -> Tensor { Elementwise, export: Asin = same, derivative: asin };

        /// Computes the inverse cosine, in radians. Source: ONNX `Acos`, opset 22.
        Acos 22 = acos(x: Tensor) -> Tensor { Elementwise, export: Acos = same, derivative: acos };

        /// Computes the inverse tangent, in radians. Source: ONNX `Atan`, opset 22.
        Atan 22 = atan(x: Tensor) -> Tensor { Elementwise, export: Atan = same, derivative: atan };

        /// Computes the hyperbolic sine. Source: ONNX `Sinh`, opset 22.
        Sinh 22 = sinh(x: Tensor) -> Tensor { Elementwise, export: Sinh = same, derivative: sinh };

        /// Computes the hyperbolic cosine. Source: ONNX `Cosh`, opset 22.
        Cosh 22 = cosh(x: Tensor) -> Tensor { Elementwise, export: Cosh = same, derivative: cosh };

        /// Computes the hyperbolic tangent. Source: ONNX `Tanh`, opset 13.
        Tanh 13 = tanh(x: Tensor) -> Tensor { Elementwise, export: Tanh = same, derivative: tanh };

        /// Computes the inverse hyperbolic sine. Source: ONNX `Asinh`, opset 22.
        Asinh 22 = asinh(x: Tensor) -> Tensor { Elementwise, export: Asinh = same, derivative: asinh };

        /// Computes the inverse hyperbolic cosine. Source: ONNX `Acosh`, opset 22.
        Acosh 22 = acosh(x: Tensor) -> Tensor { Elementwise, export: Acosh = same, derivative: acosh };

        /// Computes the inverse hyperbolic tangent. Source: ONNX `Atanh`, opset 22.
        Atanh 22 = atanh(x: Tensor) -> Tensor { Elementwise, export: Atanh = same, derivative: atanh };

        /// Computes a program of element-wise functions. The result of the program's last line is the result of the operation.
        ///
        /// Each line of `program` is the index of a [`Function`](crate::ext::scalar::Function), followed by its operands;
        /// [`lines`](crate::ext::scalar::lines) parses the program. Shapes: NumPy
        /// broadcasting of the operands of each line. Types: floats. The operands of a line have the same type. The result of a line has
        /// this type too, unless the function converts. Each line rounds to its type. If the backend implements this operation natively,
        /// a plan contains it instead of a chain of element-wise operations.
        ///
        /// Errors: a function or an operand does not exist; the types of a line's operands differ.
        Fused 1 = fused(xs: Tensors; program: Ints) -> Tensor { Elementwise, cost: fused };
    } };
}
