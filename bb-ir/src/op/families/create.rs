//! The rows of the family `Create`.

/// Expands a callback macro with one row per operation of the family `Create`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_create {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Creates a tensor of rank 0 with the value `value` and the element type of `x`.
        ScalarLike 1 = scalar_like(x: Tensor; value: Float) -> Tensor { Creates, cost: created, batch: Made };

        /// Creates a tensor whose elements are all `value`.
        ///
        /// Source: ONNX `ConstantOfShape`, opset 25.
        Full 1 = full(; shape: Extents, value: Float, dtype: Type) -> Tensor { Creates, cost: created, export: ConstantOfShape = full, batch: Filled };

        /// Creates a tensor of zeros.
        Zeros 1 = zeros(; shape: Extents, dtype: Type) -> Tensor { Creates, cost: created, export: ConstantOfShape = zeros, batch: Filled };

        /// Creates a tensor of ones.
        Ones 1 = ones(; shape: Extents, dtype: Type) -> Tensor { Creates, cost: created, export: ConstantOfShape = ones, batch: Filled };

        /// Creates a tensor whose elements the caller will overwrite. Until then they are zeros, or empty strings.
        ///
        /// The elements are specified, because a backend must not expose uninitialised memory, and all runs must give the same results.
        Empty 1 = empty(; shape: Extents, dtype: Type) -> Tensor { Creates, cost: created };

        /// Creates a tensor of zeros with the shape of `x`, and its element type or `dtype`.
        ZerosLike 1 = zeros_like(x: Tensor; dtype: OptType = None) -> Tensor { Creates, cost: created, batch: Filled };

        /// Creates a tensor of ones with the shape of `x`, and its element type or `dtype`.
        OnesLike 1 = ones_like(x: Tensor; dtype: OptType = None) -> Tensor { Creates, cost: created, batch: Filled };

        /// Creates a tensor whose elements are all `value`, with the shape of `x`, and its element type or `dtype`.
        FullLike 1 = full_like(x: Tensor; value: Float, dtype: OptType = None) -> Tensor { Creates, cost: created, batch: Filled };

        /// Creates a matrix with ones on a diagonal, and zeros elsewhere.
        ///
        /// Shapes: `[rows, columns]`. The diagonal `offset` begins at column `offset` of the first row, or at row `-offset`
        /// of the first column.
        ///
        /// Source: ONNX `EyeLike`, opset 22; NumPy `eye`.
        Eye 22 = eye(; rows: Int, columns: Int, offset: Int, dtype: Type) -> Tensor { Creates, cost: one };

        /// Creates a vector of `count` evenly spaced elements from `start` to `end`, both included.
        ///
        /// A single element is `start`. Element `i` is `start + i * (end - start) / (count - 1)`, computed in `f64`, and the last element
        /// is `end`, as in NumPy. PyTorch computes the second half from `end`, which differs in the last digits. For an integer type,
        /// elements are rounded towards zero, as by a cast.
        ///
        /// Source: NumPy `linspace`.
        Linspace 1 = linspace(; start: Float, end: Float, count: Int, dtype: Type) -> Tensor { Creates, cost: steps };

        /// Creates a vector of `count` elements: `start`, `start + step`, ….
        ///
        /// Source: ONNX `Range`, opset 11.
        Range 11 = range(; start: Float, step: Float, count: Int, dtype: Type) -> Tensor { Creates, cost: steps };

        /// Repeats a tensor along dimensions of extent 1 and along new leading dimensions.
        ///
        /// Shapes: `shape` is the result's shape; `x` broadcasts to it. Types: all, storage types included.
        ///
        /// Source: ONNX `Expand`, opset 13.
        Expand 13 = expand(x: Tensor; shape: Extents) -> Tensor { Moves, export: Expand = expand, batch: Expand };

        /// Stacks tensors of one shape and type along a new dimension.
        ///
        /// Shapes: `n` tensors of rank `r` to rank `r + 1`, with the extent `n` at `axis`, which is from `-(r + 1)` to `r`. Types: all,
        /// storage types included.
        ///
        /// Errors: there is no tensor; shapes or types differ.
        ///
        /// Source: NumPy `stack`; ONNX `ConcatFromSequence`, opset 11, with `new_axis`.
        Stack 1 = stack(xs: Tensors; axis: Int) -> Tensor { Moves };

        /// Splits a tensor along a dimension, and removes this dimension from the results. This is the inverse of [`stack`](Self::stack).
        ///
        /// Shapes: the extent along `axis` is the number of results, and may be 0. Types: all, storage types included.
        ///
        /// Source: ONNX `SplitToSequence`, opset 24, without `keepdims`; PyTorch `unbind`.
        Unstack 1 = unstack(x: Tensor; axis: Int) -> Tensors { Moves };

        /// Pads tensors with `value` at the ends of their dimensions, up to the maximum extent of each dimension, and stacks them. The
        /// results are the batch, and the extent of each tensor along `axis` before padding, as `i64`.
        ///
        /// Shapes: `n` tensors of rank `r`, to `[n, …]` of rank `r + 1`, and `[n]`. `axis` is from `-r` to `r - 1`. Types: all except
        /// strings.
        ///
        /// Errors: there is no tensor; the ranks or types differ; the rank is 0.
        ///
        /// Source: PyTorch `pad_sequence` with `batch_first`, for tensors that differ along the first dimension.
        PadBatch 1 = pad_batch(xs: Tensors; axis: Int, value: Float) -> Tensors { Moves };

        /// Draws elements from the uniform distribution over `low..high`. Equal seeds give equal tensors.
        ///
        /// The generator is [`Mersenne`](crate::ext::Mersenne).
        ///
        /// Source: ONNX `RandomUniform`, opset 22.
        RandomUniform 22 = random_uniform(; shape: Extents) with options: RandomUniformOptions {
            /// The lower bound, which is included.
            low: Float = 0.0,
            /// The upper bound, which is excluded.
            high: Float = 1.0,
            /// The seed. Without a seed, every run draws different numbers.
            seed: OptInt = None,
            /// The element type of the result.
            dtype: Type = DataType::F32,
        } -> Tensor { Creates, cost: uncounted, export: RandomUniform = random };

        /// Draws elements from the normal distribution. Equal seeds give equal tensors.
        ///
        /// The generator is [`Mersenne`](crate::ext::Mersenne).
        ///
        /// Source: ONNX `RandomNormal`, opset 22.
        RandomNormal 22 = random_normal(; shape: Extents) with options: RandomNormalOptions {
            /// The mean of the distribution.
            mean: Float = 0.0,
            /// The standard deviation of the distribution.
            scale: Float = 1.0,
            /// The seed. Without a seed, every run draws different numbers.
            seed: OptInt = None,
            /// The element type of the result.
            dtype: Type = DataType::F32,
        } -> Tensor { Creates, cost: uncounted, export: RandomNormal = random };
    } };
}
