//! The rows of the family `Index`.

/// Expands a callback macro with one row per operation of the family `Index`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_index {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Returns the `k` greatest (or least) elements along `axis`, and their indices.
        ///
        /// Shapes: both results have the shape of `x`, with `k` along `axis`; the indices are `i64`. Types: all numbers. The results are
        /// ordered by value. NaN counts as greater than all numbers. Of equal elements, the one with the lowest index comes first.
        ///
        /// Errors: `k` is negative or exceeds the extent.
        ///
        /// Source: ONNX `TopK`, opset 24.
        TopK 24 = top_k(x: Tensor; k: Int) with options: TopKOptions {
            /// The dimension whose elements are compared. If it is negative, it counts from the end.
            axis: Int = -1,
            /// Whether to return the greatest elements. Otherwise the least elements are returned.
            largest: Bool = true,
            /// Whether the results are ordered. Otherwise the order is implementation-defined.
            sorted: Bool = true,
        } -> Tensors { Other, cost: uncounted, export: TopK = top_k, batch: Over(1), derivative: top_k };

        /// Writes `updates` into a copy of `data`, at the positions that `indices` selects along `axis`.
        ///
        /// Shapes: `indices` and `updates` have the same shape, and the rank of `data`. Types: all types of whole bytes, and strings;
        /// with a reduction, the compute types. If several updates are for the same element, the last one wins; with a reduction, they
        /// are applied in order.
        ///
        /// Errors: an index is out of range.
        ///
        /// Source: ONNX `ScatterElements`, opset 18.
        ScatterElements 18 = scatter_elements(data: Tensor, indices: Tensor, updates: Tensor) with options: ScatterElementsOptions {
            /// The dimension that `indices` indexes. If it is negative, it counts from the end.
            axis: Int = 0,
            /// How an update is combined with the element that it is for.
            reduction: ScatterReduction = ScatterReduction::None,
        } -> Tensor { Other, cost: scatter_elements, export: ScatterElements = scatter, batch: ScatterElements, derivative: scatter_elements };

        /// Writes slices into a copy of `data`, at the positions that tuples of indices select.
        ///
        /// Shapes: each tuple of `indices: [.., n]` indexes the first `n` dimensions of `data`. `updates` has the shape of `indices`
        /// without the last extent, followed by the extents of `data` after the first `n`. Types, reductions and errors: as for
        /// [`scatter_elements`](Self::scatter_elements).
        ///
        /// Source: ONNX `ScatterND`, opset 18.
        ScatterNd 18 = scatter_nd(data: Tensor, indices: Tensor, updates: Tensor; reduction: ScatterReduction) -> Tensor { Other, cost: scatter_nd, export: ScatterND = scatter_nd, batch: ScatterNd, derivative: scatter_nd };

        /// Returns the index of the greatest element along `axis`.
        ///
        /// Shapes: as `x`, but with 1 along `axis`; the indices are `i64`. Types: all numbers. NaN counts as greater than all numbers.
        /// Among equal elements, the first index is returned, or the last index if `select_last_index` is true.
        ///
        /// Source: ONNX `ArgMax`, opset 13.
        ArgMax 13 = arg_max(x: Tensor; axis: Int, select_last_index: Bool) -> Tensor { Reduces, cost: reduction, export: ArgMax = same, batch: Over(0) };

        /// Returns the index of the least element along `axis`.
        ///
        /// Shapes: as `x`, but with 1 along `axis`; the indices are `i64`. Types: all numbers. NaN counts as less than all numbers.
        /// Among equal elements, the first index is returned, or the last index if `select_last_index` is true.
        ///
        /// Source: ONNX `ArgMin`, opset 13.
        ArgMin 13 = arg_min(x: Tensor; axis: Int, select_last_index: Bool) -> Tensor { Reduces, cost: reduction, export: ArgMin = same, batch: Over(0) };
    } };
}
