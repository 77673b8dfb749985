//! The rows of the family `Ml`.

/// Expands a callback macro with one row per operation of the family `Ml`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_ml {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Walks every row of `x` down every tree of a forest, and aggregates the weights of the leaves that it reaches.
        ///
        /// Nodes are numbered: first the `n` inner nodes, then the leaves. `roots` has the number of each tree's first node.
        /// A row of `nodes` describes an inner node by four integers: the column of `x` that it tests, the test, and the
        /// nodes where the walk goes on if the test holds and if not. The test is `mode + 8 * missing + 16 * set`. The modes are
        /// 0 to 6: the element of `x` is `<=`, `<`, `>=`, `>`, `==` or `!=` the node's threshold, or it is an element of row
        /// `set` of `members`. For an element that is NaN, `missing` (0 or 1) says instead whether the test holds.
        ///
        /// Shapes: `x: [rows, columns]`, `nodes: [n, 4]`, `thresholds: [n]`, `roots: [trees]`, `weights: [leaves, targets]` and
        /// `members: [sets, width]` to `[rows, targets]`. Sets of fewer elements end with NaN, which equals nothing. Types:
        /// `nodes` and `roots` are `i32`; all else are floats of one type.
        ///
        /// Errors: a column, node or set does not exist.
        ///
        /// Source: ONNX `TreeEnsemble`, opset 5 of `ai.onnx.ml`.
        TreeEnsemble 5 = tree_ensemble(
            x: Tensor, nodes: Tensor, thresholds: Tensor, roots: Tensor, weights: Tensor, members: Optional; depth: Int
        ) with options: TreeEnsembleOptions<'a> {
            /// The modes that occur, ascending. If there is only one, all nodes have it, and the modes in their tests are ignored.
            modes: Ints = &[0],
            /// Whether the flag `missing` of the tests is used. Otherwise NaN is compared like other elements.
            missing: Bool = false,
            /// How weights of leaves become one: `sum`, `average` (the sum divided by the number of trees), `min` or `max`.
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
