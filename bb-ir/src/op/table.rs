//! The table of the primitives. Each row describes one primitive.
//!
//! A row contains, in this order: its documentation; the operation's name in ONNX, and the opset whose semantics it has; the Rust method;
//! the operands; after a `;` the parameters, where `= value` is ONNX's default; the result; and the facts. Every macro that reads the table
//! matches this pattern:
//!
//! ```text
//! $( $(#[$doc:meta])*
//!    $name:ident $since:literal = $method:ident
//!    ( $($input:ident : $kind:ident),* $(; $($param:ident : $param_kind:ident $(= $default:expr)?),+)? )
//!    -> $output:ident $({ $($fact:tt)* })?; )*
//! ```
//!
//! The facts describe the operation. A macro that needs a fact expands `for_each_table_of_facts!`, and matches all facts with this pattern:
//!
//! ```text
//! $class:ident $(, cost: $cost:ident)? $(, export: $operator:ident = $form:ident)?
//! $(, batch: $batch:ident $(($($at:expr),*))?)? $(, derivative: $derivative:ident)?
//! ```
//!
//! - the class ([`Class`](super::Class));
//! - `cost`: the function of `bb_core::cost` that estimates the cost. Without it, an element-wise operation costs 1 per element, and an
//!   operation that only moves elements costs 0. Operations of all other classes need it;
//! - `export`: ONNX's operator that a trace may be exported to, and the function of `bb_core::trace` that writes its attributes;
//! - `batch`: the rule that plans use to find the rows of a batch in the result, if the class does not determine the rule;
//! - `derivative`: the function of `bb_core::gradient` that computes gradients. An operation of an extension family without a derivative is
//!   differentiated through its body of primitives. Each primitive has a derivative in `bb/core/src/gradient/rules.rs`, because the
//!   compiler requires it.
//!
//! Rows of extension families (`families/`) may also have options (`bb/core/src/family/macros.rs`).
//!
//! `for_each_primitive!(path::to::callback)` expands to a call of the callback macro with all rows; `for_each_primitive!(callback, tokens)`
//! puts `[tokens]` before the rows.

/// Expands a callback macro with one row per primitive; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_primitive {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Adds element by element.
        ///
        /// Shapes: NumPy broadcasting. Integers wrap on overflow.
        ///
        /// Source: ONNX `Add`, opset 14.
        Add 14 = add(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Subtracts element by element.
        ///
        /// Shapes: NumPy broadcasting. Integers wrap on overflow.
        ///
        /// Source: ONNX `Sub`, opset 14.
        Sub 14 = sub(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Multiplies element by element.
        ///
        /// Shapes: NumPy broadcasting. Integers wrap on overflow.
        ///
        /// Source: ONNX `Mul`, opset 14.
        Mul 14 = mul(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Divides element by element; integer quotients are truncated towards zero.
        ///
        /// Shapes: NumPy broadcasting. The least integer divided by -1 wraps to itself.
        ///
        /// Errors: an integer divided by zero.
        ///
        /// Source: ONNX `Div`, opset 14.
        Div 14 = div(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Negates each element; the least integer stays unchanged.
        ///
        /// Shapes: any, kept. Types: signed integers and floats.
        ///
        /// Source: ONNX `Neg`, opset 13.
        Neg 13 = neg(x: Tensor) -> Tensor { Elementwise };

        /// Takes the absolute value of each element; the least integer stays unchanged.
        ///
        /// Shapes: any, kept. Types: all numbers.
        ///
        /// Source: ONNX `Abs`, opset 13.
        Abs 13 = abs(x: Tensor) -> Tensor { Elementwise };

        /// Takes the square root of each element; the root of a negative number is NaN.
        ///
        /// Shapes: any, kept. Types: floats.
        ///
        /// Source: ONNX `Sqrt`, opset 13.
        Sqrt 13 = sqrt(x: Tensor) -> Tensor { Elementwise };

        /// Raises each element of `a` to the power in `b`; the result has the type of `a`.
        ///
        /// Shapes: NumPy broadcasting. Types: `a` and `b` may differ. Integers wrap on overflow; an integer
        /// to a negative power is the truncated quotient (0, or ±1 for a base of ±1).
        ///
        /// Errors: the integer 0 to a negative power is a division by zero.
        ///
        /// Source: ONNX `Pow`, opset 15.
        Pow 15 = pow(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Takes the exponential of each element.
        ///
        /// Shapes: any, kept. Types: floats.
        ///
        /// Source: ONNX `Exp`, opset 13.
        Exp 13 = exp(x: Tensor) -> Tensor { Elementwise };

        /// Takes the natural logarithm of each element; the logarithm of a negative number is NaN.
        ///
        /// Shapes: any, kept. Types: floats.
        ///
        /// Source: ONNX `Log`, opset 13.
        Log 13 = log(x: Tensor) -> Tensor { Elementwise };

        /// Multiplies matrices, batched over the leading dimensions.
        ///
        /// Shapes: `a: [.., m, k]`, `b: [.., k, n]` to `[.., m, n]`; the leading extents broadcast. An
        /// operand of rank 1 is treated as a row (`a`) or a column (`b`), whose extent of 1 is removed from
        /// the result. If `k` is 0, the result is 0. Integers wrap on overflow.
        ///
        /// Source: ONNX `MatMul`, opset 13.
        MatMul 13 = matmul(a: Tensor, b: Tensor) -> Tensor { Contracts, cost: product, batch: MatMul };

        /// Sums over `axes`, or over every axis when `axes` is empty.
        ///
        /// Shapes: `x: [d0, …, dn]` to the same rank with each reduced extent 1; if `keepdims` is false, to
        /// the shape without the reduced axes. An empty sum is 0. Integers wrap on overflow.
        ///
        /// Source: ONNX `ReduceSum`, opset 13.
        ReduceSum 13 = reduce_sum(x: Tensor; axes: Ints = &[], keepdims: Bool = true) -> Tensor { Reduces, cost: reduction, batch: Reduce };

        /// Averages over `axes`, or over every axis when `axes` is empty.
        ///
        /// Shapes: as [`reduce_sum`](Self::reduce_sum). An integer mean is truncated. An empty mean is NaN
        /// for floats and an error for integers.
        ///
        /// Source: ONNX `ReduceMean`, opset 18.
        ReduceMean 18 = reduce_mean(x: Tensor; axes: Ints = &[], keepdims: Bool = true) -> Tensor { Reduces, cost: mean, batch: Reduce };

        /// Takes the maximum over `axes`, or over every axis when `axes` is empty; a NaN makes the result
        /// NaN.
        ///
        /// Shapes: as [`reduce_sum`](Self::reduce_sum). An empty maximum is the least value of the type
        /// (minus infinity, false).
        ///
        /// Source: ONNX `ReduceMax`, opset 20.
        ReduceMax 20 = reduce_max(x: Tensor; axes: Ints = &[], keepdims: Bool = true) -> Tensor { Reduces, cost: reduction, batch: Reduce };

        /// Takes the minimum over `axes`, or over every axis when `axes` is empty; a NaN makes the result
        /// NaN.
        ///
        /// Shapes: as [`reduce_sum`](Self::reduce_sum). An empty minimum is the greatest value of the type
        /// (infinity, true).
        ///
        /// Source: ONNX `ReduceMin`, opset 20.
        ReduceMin 20 = reduce_min(x: Tensor; axes: Ints = &[], keepdims: Bool = true) -> Tensor { Reduces, cost: reduction, batch: Reduce };

        /// Changes the shape; the elements keep their row-major order.
        ///
        /// Shapes: the result has the shape `shape`, where 0 means 0; the number of elements must not
        /// change. Types: all, including storage types.
        ///
        /// Source: ONNX `Reshape`, opset 25.
        Reshape 25 = reshape(x: Tensor; shape: Extents) -> Tensor { Moves, cost: view, batch: Reshape };

        /// Permutes the dimensions; dimension `i` of the result is dimension `perm[i]` of `x`.
        ///
        /// Shapes: an empty `perm` reverses the dimensions. Types: all, including storage types.
        ///
        /// Source: ONNX `Transpose`, opset 25.
        Transpose 25 = transpose(x: Tensor; perm: Ints = &[]) -> Tensor { Moves, batch: Transpose };

        /// Joins tensors along `axis`.
        ///
        /// Shapes: the operands only differ in the extent of `axis`, and the result has the sum of these
        /// extents. There must be at least one operand. Types: all, including storage types; the same for
        /// every operand.
        ///
        /// Source: ONNX `Concat`, opset 13.
        Concat 13 = concat(xs: Tensors; axis: Int) -> Tensor { Moves, batch: Concat };

        /// Takes every `steps[i]`-th element from `starts[i]` to before `ends[i]` along `axes[i]`.
        ///
        /// Shapes: empty `axes` mean the first dimensions, one for each start, and empty `steps` mean 1. Negative
        /// starts and ends count from the end; both are clamped to the extent. A negative step goes
        /// backwards. Types: all, including storage types.
        ///
        /// Errors: a step of 0, a repeated axis.
        ///
        /// Source: ONNX `Slice`, opset 13.
        Slice 13 = slice(x: Tensor; starts: Ints, ends: Ints, axes: Ints = &[], steps: Ints = &[]) -> Tensor { Moves, cost: selected, batch: Slice };

        /// Splits a tensor along `axis` into parts with the extents `sizes`, in order.
        ///
        /// Shapes: the sum of `sizes` is the extent of `axis`. Types: all, including storage types.
        ///
        /// Source: ONNX `Split`, opset 18.
        Split 18 = split(x: Tensor; axis: Int, sizes: Extents) -> Tensors { Moves, cost: selected, batch: Split };

        /// Removes the dimensions `axes`, or every dimension of extent 1 when `axes` is empty.
        ///
        /// Shapes: the extents of `axes` must be 1. Types: all, including storage types.
        ///
        /// Source: ONNX `Squeeze`, opset 25.
        Squeeze 25 = squeeze(x: Tensor; axes: Ints = &[]) -> Tensor { Moves, cost: view, batch: Squeeze };

        /// Inserts dimensions of extent 1, which become the dimensions `axes` of the result.
        ///
        /// Shapes: `axes` count in the rank of the result and must differ. Types: all, including storage
        /// types.
        ///
        /// Source: ONNX `Unsqueeze`, opset 25.
        Unsqueeze 25 = unsqueeze(x: Tensor; axes: Ints) -> Tensor { Moves, cost: view, batch: Unsqueeze };

        /// Returns the tensor itself. Types: all, including storage types.
        ///
        /// Source: ONNX `Identity`, opset 25.
        Identity 25 = identity(x: Tensor) -> Tensor { Elementwise, cost: view };

        /// Converts each element to the type `to`.
        ///
        /// Shapes: any, kept. Types: from every type to every type. Floats become integers by truncation;
        /// floats that are out of range are converted as NumPy does. Integers wrap. Every value except zero
        /// becomes true. Values out of the range of an 8-bit float become the greatest finite value if
        /// `saturate` is true, else NaN or infinity. `round_mode` only applies to `f8e8m0`. Strings are
        /// parsed and printed as NumPy does.
        ///
        /// Source: ONNX `Cast`, opset 25.
        Cast 25 = cast(x: Tensor; to: Type, saturate: Bool = true, round_mode: Round = $crate::op::RoundMode::Up) -> Tensor { Elementwise, cost: moved };

        /// Compares for equality; NaN equals nothing. The result is bool.
        ///
        /// Shapes: NumPy broadcasting. Types: the compute types and strings.
        ///
        /// Source: ONNX `Equal`, opset 19.
        Equal 19 = equal(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Returns true where `a > b`. The result is bool.
        ///
        /// Shapes: NumPy broadcasting. Types: all numbers.
        ///
        /// Source: ONNX `Greater`, opset 13.
        Greater 13 = greater(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Returns true where `a < b`. The result is bool.
        ///
        /// Shapes: NumPy broadcasting. Types: all numbers.
        ///
        /// Source: ONNX `Less`, opset 13.
        Less 13 = less(a: Tensor, b: Tensor) -> Tensor { Elementwise };

        /// Takes `x` where `condition` is true and `y` elsewhere.
        ///
        /// Shapes: NumPy broadcasting of all three. Types: `condition` is bool; `x` and `y` have the same
        /// type, including storage types.
        ///
        /// Source: ONNX `Where`, opset 16.
        Where 16 = r#where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor { Elementwise, cost: moved };

        /// Makes a tensor of this backend from a host tensor. Types: all, including storage types.
        ///
        /// Source: ONNX `Constant`, opset 25.
        Constant 25 = constant(; value: Data) -> Tensor { Creates, cost: created, batch: Made };

        /// Selects entries of `data` along `axis` by `indices`.
        ///
        /// Shapes: in the shape of `data`, the shape of `indices` replaces the dimension `axis`. Types:
        /// `data` all, including storage types; `indices` `i32` or `i64`. Negative indices count from the
        /// end.
        ///
        /// Errors: an index out of range.
        ///
        /// Source: ONNX `Gather`, opset 13.
        Gather 13 = gather(data: Tensor, indices: Tensor; axis: Int = 0) -> Tensor { Moves, cost: selected, batch: Gather };
    }};
}
