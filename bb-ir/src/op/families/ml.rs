//! The rows of the family `Ml`.

/// Expands a callback macro with one row per operation of the family `Ml`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_ml {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Evaluates a forest of decision trees: each row of `x` reaches one leaf of each tree, and the weights of these leaves
        /// are aggregated.
        ///
        /// Nodes are identified by indices: first the `n` inner nodes, then the leaves. `roots` has the index of each tree's root.
        /// A row of `nodes` describes an inner node by four integers: the column of `x` that is tested, the test, the next node if
        /// the test is true, and the next node if it is false. The test is `mode + 8 * missing + 16 * set`. The modes 0 to 5 mean
        /// that the element of `x` is `<=`, `<`, `>=`, `>`, `==` or `!=` the node's threshold; the mode 6 means that the element
        /// is in row `set` of `members`. If the element is NaN, the result of the test is `missing` (0 or 1) instead.
        ///
        /// Shapes: `x: [rows, columns]`, `nodes: [n, 4]`, `thresholds: [n]`, `roots: [trees]`, `weights: [leaves, targets]` and
        /// `members: [sets, width]` to `[rows, targets]`. Sets with fewer than `width` elements are padded with NaN, which equals
        /// nothing. Types: `nodes` and `roots` are `i32`; the other operands are floats of one type.
        ///
        /// Errors: a column, node or set does not exist.
        ///
        /// Source: ONNX `TreeEnsemble`, opset 5 of `ai.onnx.ml`.
        TreeEnsemble 5 = tree_ensemble(
            x: Tensor, nodes: Tensor, thresholds: Tensor, roots: Tensor, weights: Tensor, members: Optional; depth: Int
        ) with options: TreeEnsembleOptions<'a> {
            /// The modes that occur, ascending. If there is only one mode, all nodes have it, and the modes in their tests are
            /// ignored.
            modes: Ints = &[0],
            /// Whether tests use the flag `missing`. Otherwise NaN is compared like other elements.
            missing: Bool = false,
            /// How the weights of the leaves are aggregated: `sum`, `average` (the sum divided by the number of trees), `min` or
            /// `max`.
            aggregate: Text = "sum",
        } -> Tensor { Other, cost: uncounted, batch: Images };

        /// Computes the sum of the squared differences between each row of `a` and each row of `b`.
        ///
        /// Shapes: `a: [n, columns]` and `b: [m, columns]` to `[n, m]`. Types: floats.
        ///
        /// Source: SciPy's `cdist` with the metric `sqeuclidean`.
        SquaredDistances 1 = squared_distances(a: Tensor, b: Tensor) -> Tensor { Other, cost: squared_distances, batch: Pairs };
    } };
}
