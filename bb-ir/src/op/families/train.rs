//! The rows of the family `Train`.

/// Expands a callback macro with one row per operation of the family `Train`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_train {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Computes the cross entropy of scores and labels: the negative logarithm of the label's probability, where the softmax of the
        /// scores gives the probabilities.
        ///
        /// Shapes: `x: [n, c, …]` has a score for each of `c` classes, `labels: [n, …]` are integers from 0 to `c - 1`, and
        /// `weights: [c]` has a factor for the losses of each class. The result has rank 0, or the shape of `labels` for the reduction
        /// `none`. Types: floats.
        ///
        /// The reduction `mean` divides by the sum of the weights of the labels, as in ONNX and in PyTorch; if all labels are ignored, it
        /// is NaN.
        ///
        /// Errors: a label is out of range and not ignored; the shapes do not fit.
        ///
        /// Source: ONNX `SoftmaxCrossEntropyLoss`, opset 13; PyTorch `cross_entropy`, whose `ignore_index` is -100 by default.
        CrossEntropy 13 = cross_entropy(x: Tensor, labels: Tensor, weights: Optional) with options: CrossEntropyOptions {
            /// How the losses are combined into the result.
            reduction: Reduction = Reduction::Mean,
            /// The label whose elements are ignored: they have the loss 0 and do not count in the mean.
            ignored: OptInt = None,
        } -> Tensor { Other, cost: cross_entropy };

        /// Computes [`cross_entropy`](Self::cross_entropy), and the probabilities that the softmax gives the classes. The results are the
        /// loss, and the probabilities in the shape and type of `x`.
        ///
        /// Shapes, types, reductions and errors: as for `cross_entropy`.
        ///
        /// Source: ONNX `SoftmaxCrossEntropyLoss`, opset 13, whose second output is the logarithm of the probabilities.
        CrossEntropyWithProbabilities 13 = cross_entropy_with_probabilities(x: Tensor, labels: Tensor, weights: Optional) with options: CrossEntropyWithProbabilitiesOptions {
            /// How the losses are combined into the result.
            reduction: Reduction = Reduction::Mean,
            /// The label whose elements are ignored: they have the loss 0 and do not count in the mean.
            ignored: OptInt = None,
        } -> Tensors { Other, cost: cross_entropy_with_probabilities };

        /// Computes the loss from logarithms of probabilities: the negative logarithm at the label.
        ///
        /// Shapes, types, reductions and errors: as for [`cross_entropy`](Self::cross_entropy).
        ///
        /// Source: ONNX `NegativeLogLikelihoodLoss`, opset 22.
        NegativeLogLikelihood 22 = negative_log_likelihood(x: Tensor, labels: Tensor, weights: Optional) with options: NegativeLogLikelihoodOptions {
            /// How the losses are combined into the result.
            reduction: Reduction = Reduction::Mean,
            /// The label whose elements are ignored: they have the loss 0 and do not count in the mean.
            ignored: OptInt = None,
        } -> Tensor { Other, cost: moved };

        /// Computes the cross entropy of scores and target probabilities. For each class, the negative logarithm of the softmax of the
        /// scores is multiplied by the target probability and the weight of the class. The loss is the sum over the classes.
        ///
        /// Shapes: `x` and `targets` are `[n, c, …]`, `weights: [c]`. The result has rank 0, or the shape `[n, …]` for the reduction
        /// `none`. Types: floats. The reduction `mean` divides by the number of losses, independent of the weights.
        ///
        /// Source: PyTorch `cross_entropy` with probabilities as targets; ONNX has no operator for it.
        CrossEntropyOfProbabilities 1 = cross_entropy_of_probabilities(x: Tensor, targets: Tensor, weights: Optional) with options: CrossEntropyOfProbabilitiesOptions {
            /// How the losses are combined into the result.
            reduction: Reduction = Reduction::Mean,
            /// The fraction of each target that is distributed equally over all classes (label smoothing).
            smoothing: Float = 0.0,
        } -> Tensor { Other, cost: cross_entropy_of_probabilities };

        /// Updates `x` by Adam: subtracts a moving average of the gradients, divided by the root of a moving average of their squares.
        ///
        /// Shapes: `x`, `gradient`, `mean` and `squares` have one shape; `rate` and `count` have one element. Types: floats; `count` has
        /// any number type. `count` is the number of updates, including this one; if it is 0, the averages are not corrected, as in ONNX.
        /// The results are the updated `x`, `mean` and `squares`.
        ///
        /// `epsilon_at` selects where ε is added ([`AdamEpsilon`](crate::ext::AdamEpsilon)). PyTorch corresponds to [`AdamEpsilon::PyTorch`](crate::ext::AdamEpsilon::PyTorch), an `epsilon` of
        /// 1e-8, and the defaults of the other options.
        ///
        /// Source: ONNX `Adam`, opset 1 of `ai.onnx.preview.training`; PyTorch `Adam`.
        Adam 1 = adam(x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor, rate: Tensor, count: Tensor) with options: AdamOptions {
            /// The factor of the previous average of gradients: ONNX's `alpha`, PyTorch's β₁.
            decay: Float = 0.9,
            /// The factor of the previous average of squares: ONNX's `beta`, PyTorch's β₂.
            decay_squares: Float = 0.999,
            /// The number ε that is added to the root. PyTorch's default is 1e-8.
            epsilon: Float = 1e-6,
            /// Where ε is added.
            epsilon_at: AdamEpsilon = AdamEpsilon::Onnx,
            /// The fraction of `x` that is added to the gradient: ONNX's `norm_coefficient`, PyTorch's `weight_decay`.
            penalty: Float = 0.0,
            /// The fraction of the updated `x` that is subtracted from it: ONNX's `norm_coefficient_post`.
            shrink: Float = 0.0,
        } -> Tensors { Other, cost: adam };

        /// Updates `x` by Adagrad: subtracts the gradient, divided by the root of the sum of all squared gradients.
        ///
        /// Shapes and types: as for [`adam`](Self::adam). `count` is the number of updates before this one. The results are the updated
        /// `x` and `squares`. ONNX and PyTorch compute the same; PyTorch's default for `epsilon` is 1e-10.
        ///
        /// Source: ONNX `Adagrad`, opset 1 of `ai.onnx.preview.training`; PyTorch `Adagrad`.
        Adagrad 1 = adagrad(x: Tensor, gradient: Tensor, squares: Tensor, rate: Tensor, count: Tensor) with options: AdagradOptions {
            /// The decay of the learning rate, which is divided by `1 + decay * count`. PyTorch's `lr_decay`.
            decay: Float = 0.0,
            /// The number ε that is added to the root.
            epsilon: Float = 1e-6,
            /// The fraction of `x` that is added to the gradient: ONNX's `norm_coefficient`, PyTorch's `weight_decay`.
            penalty: Float = 0.0,
        } -> Tensors { Other, cost: adagrad };

        /// Updates `x` with momentum: subtracts a decaying sum of the gradients.
        ///
        /// Shapes and types: as for [`adam`](Self::adam). `count` is the number of updates before this one; if it is 0, the gradient is
        /// added with the factor 1 instead of `share`. The results are the updated `x` and `speed`.
        ///
        /// Source: ONNX `Momentum`, opset 1 of `ai.onnx.preview.training`; PyTorch `SGD` with `momentum`.
        Momentum 1 = momentum(x: Tensor, gradient: Tensor, speed: Tensor, rate: Tensor, count: Tensor) with options: MomentumOptions {
            /// The factor of the previous `speed`: ONNX's `alpha`, PyTorch's `momentum`.
            decay: Float = 0.9,
            /// The factor of the gradient that is added to `speed`: ONNX's `beta`; PyTorch calls `1 - share` `dampening`.
            share: Float = 1.0,
            /// Whether to subtract the sum of the gradient and the decayed speed instead of the speed (Nesterov momentum).
            nesterov: Bool = false,
            /// The fraction of `x` that is added to the gradient: ONNX's `norm_coefficient`, PyTorch's `weight_decay`.
            penalty: Float = 0.0,
        } -> Tensors { Other, cost: momentum };

        /// Updates `x` by gradient descent: `x - rate * (gradient + penalty * x)`.
        ///
        /// Shapes: `x` and `gradient` have one shape; `rate` has one element. Types: floats.
        ///
        /// Source: PyTorch `SGD` without momentum; ONNX has no operator for it.
        Sgd 1 = sgd(x: Tensor, gradient: Tensor, rate: Tensor; penalty: Float = 0.0) -> Tensor { Other, cost: sgd };
    } };
}
