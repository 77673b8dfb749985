//! The rows of the family `Nn`.

/// Expands a callback macro with one row per operation of the family `Nn`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_nn {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Computes `max(x, 0)`; NaN stays NaN.
        ///
        /// Source: ONNX `Relu`, opset 14.
        Relu 14 = relu(x: Tensor) -> Tensor { Elementwise, export: Relu = same, derivative: relu };

        /// Computes `x` where `x` is positive, and `alpha * x` elsewhere.
        ///
        /// Source: ONNX `LeakyRelu`, opset 16.
        LeakyRelu 16 = leaky_relu(x: Tensor; alpha: Float = 0.01) -> Tensor { Elementwise, export: LeakyRelu = same };

        /// Computes `x` where `x` is positive, and `alpha * (exp(x) - 1)` elsewhere.
        ///
        /// Source: ONNX `Elu`, opset 22.
        Elu 22 = elu(x: Tensor; alpha: Float = 1.0) -> Tensor { Elementwise, export: Elu = same, derivative: elu };

        /// Multiplies `x` by the cumulative distribution function of the standard normal distribution at `x` (GELU). If `tanh` is true,
        /// the function is approximated with the hyperbolic tangent.
        ///
        /// Source: ONNX `Gelu`, opset 20.
        Gelu 20 = gelu(x: Tensor; tanh: Bool = false) -> Tensor { Elementwise, export: Gelu = gelu };

        /// Computes `x / (1 + exp(-alpha * x))`.
        ///
        /// Source: ONNX `Swish`, opset 24.
        Swish 24 = swish(x: Tensor; alpha: Float = 1.0) -> Tensor { Elementwise, export: Swish = same };

        /// Computes `alpha * x + beta`, limited to the range from 0 to 1.
        ///
        /// Source: ONNX `HardSigmoid`, opset 22.
        HardSigmoid 22 = hard_sigmoid(x: Tensor; alpha: Float = 0.2, beta: Float = 0.5) -> Tensor { Elementwise, export: HardSigmoid = same };

        /// Returns `x` where it is greater than `alpha`, and 0 elsewhere.
        ///
        /// Source: ONNX `ThresholdedRelu`, opset 22.
        ThresholdedRelu 22 = thresholded_relu(x: Tensor; alpha: Float = 1.0) -> Tensor { Elementwise, export: ThresholdedRelu = same };

        /// Limits `x` to the range from `min` to `max`. Each bound is optional. If `min` exceeds `max`, the result is `max`.
        ///
        /// Source: ONNX `Clip`, opset 13.
        Clip 13 = clip(x: Tensor, min: Optional, max: Optional) -> Tensor { Elementwise, cost: clip, export: Clip = clip };

        /// Multiplies the elements along `axes`, or all elements if `axes` is empty. An empty product is 1. Integers wrap on overflow.
        ///
        /// Shapes: as for `reduce_sum`.
        ///
        /// Source: ONNX `ReduceProd`, opset 18.
        ReduceProd 18 = reduce_prod(x: Tensor; axes: Ints, keepdims: Bool) -> Tensor { Reduces, cost: reduction, batch: Reduce };

        /// Computes the cumulative sum along `axis`: each element becomes the sum of the elements up to it, or from it on if `reverse` is
        /// true. If `exclusive` is true, the sum excludes the element itself. An empty sum is 0. Integers wrap on overflow.
        ///
        /// Source: ONNX `CumSum`, opset 14.
        CumSum 14 = cum_sum(x: Tensor; axis: Int, exclusive: Bool = false, reverse: Bool = false) -> Tensor { Other, cost: one, batch: Over(0) };

        /// Computes `exp(x)`, scaled so that the sum along `axis` is 1.
        ///
        /// Source: ONNX `Softmax`, opset 13.
        Softmax 13 = softmax(x: Tensor; axis: Int = -1) -> Tensor { Other, cost: softmax, export: Softmax = same, batch: Over(0), derivative: softmax };

        /// Computes the logarithm of [`softmax`](Self::softmax).
        ///
        /// Source: ONNX `LogSoftmax`, opset 13.
        LogSoftmax 13 = log_softmax(x: Tensor; axis: Int = -1) -> Tensor { Other, cost: log_softmax, export: LogSoftmax = same, batch: Over(0), derivative: log_softmax };

        /// Normalises to mean 0 and variance 1 over the dimensions from `axis` on, multiplies by `scale` and adds `bias`.
        ///
        /// Shapes: `scale` and `bias` broadcast to `x`.
        ///
        /// Source: ONNX `LayerNormalization`, opset 17.
        LayerNormalization 17 = layer_normalization(x: Tensor, scale: Tensor, bias: Optional) with options: LayerNormalizationOptions {
            /// The first dimension that is normalised. If it is negative, it counts from the end.
            axis: Int = -1,
            /// A small number that is added to the variance, so that its root is not zero.
            epsilon: Float = 1e-5,
        } -> Tensor { Other, cost: layer_normalization, export: LayerNormalization = layer_normalization, batch: Norm(0) };

        /// Normalises each channel by the operands `mean` and `variance`, multiplies by `scale` and adds `bias`.
        ///
        /// Shapes: `x: [n, c, …]`, the other operands `[c]`.
        ///
        /// Source: ONNX `BatchNormalization`, opset 15.
        BatchNormalization 15 = batch_normalization(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor; epsilon: Float = 1e-5) -> Tensor { Other, cost: batch_normalization, export: BatchNormalization = batch_normalization, batch: Images };

        /// Computes the convolution as in neural networks: the cross-correlation with filters.
        ///
        /// Shapes: `x: [n, c, s…]`, `w: [m, c / group, k…]`, `bias: [m]`, to `[n, m, o…]`.
        ///
        /// Source: ONNX `Conv`, opset 22.
        Conv 22 = conv(x: Tensor, w: Tensor, bias: Optional) with options: ConvOptions<'a> {
            /// The distance between windows along each spatial dimension; if empty, 1 along each.
            strides: Ints = &[],
            /// The padding: first at the starts of all spatial dimensions, then at their ends; if empty, there is no padding. Negative
            /// padding removes elements.
            pads: Ints = &[],
            /// The distance between the elements of a window along each spatial dimension; if empty, 1 along each.
            dilations: Ints = &[],
            /// The number of groups. The filters of a group only read the input channels of that group.
            group: Int = 1,
        } -> Tensor { Contracts, cost: conv, export: Conv = window, batch: Images };

        /// Computes [`conv`](Self::conv), followed by a program of element-wise functions as in [`Scalar::fused`](crate::ext::Scalar::fused).
        /// The program's first tensor is the result of the convolution; the tensors `xs` follow.
        ///
        /// If only the program reads the convolution's result and the backend implements this operation natively, a plan contains this
        /// operation instead of a convolution and a program.
        ///
        /// Shapes: as for `conv`; `xs` broadcast with its result.
        ///
        /// Errors: as for `conv` and `Scalar::fused`.
        FusedConv 1 = fused_conv(x: Tensor, w: Tensor, bias: Optional, xs: Tensors; program: Ints) with options: FusedConvOptions<'a> {
            /// As [`ConvOptions::strides`].
            strides: Ints = &[],
            /// As [`ConvOptions::pads`].
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`].
            dilations: Ints = &[],
            /// As [`ConvOptions::group`].
            group: Int = 1,
        } -> Tensor { Contracts, cost: fused_conv };

        /// Computes the transposed convolution: the transpose of the linear map [`conv`](Self::conv).
        ///
        /// Shapes: `x: [n, c, s…]`, `w: [c, m / group, k…]`, `bias: [m]`, to `[n, m, o…]`.
        ///
        /// Source: ONNX `ConvTranspose`, opset 22.
        ConvTranspose 22 = conv_transpose(x: Tensor, w: Tensor, bias: Optional) with options: ConvTransposeOptions<'a> {
            /// The distance in the result between the windows of adjacent elements of `x`, along each spatial dimension; if empty, 1
            /// along each.
            strides: Ints = &[],
            /// The number of elements that are removed from the result: first at the starts of all spatial dimensions, then at their
            /// ends; if empty, none. A negative number enlarges the result.
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`].
            dilations: Ints = &[],
            /// The number of elements that are added at the end of each spatial dimension of the result; if empty, none.
            output_padding: Ints = &[],
            /// As [`ConvOptions::group`].
            group: Int = 1,
        } -> Tensor { Contracts, cost: conv_transpose, export: ConvTranspose = window, batch: Images };

        /// Runs a recurrent layer over time, in one direction. Each state is `f(x + h w)`, where `x` is the projected input of the time
        /// step and `h` is the previous state.
        ///
        /// Shapes: `x: [s, n, h]`, `weights: [h, h]`, `hidden: [n, h]`, `lengths: [n]`, to the states of all steps, `[s, n, h]`, and the
        /// last state, `[n, h]`. A step beyond the length of its sequence keeps the state, and its result is 0. The projected input
        /// includes all biases. Types: floats, all of the same type; the lengths are integers.
        ///
        /// Source: ONNX `RNN`, opset 22.
        Rnn 22 = rnn(x: Tensor, weights: Tensor, hidden: Tensor, lengths: Optional) with options: RnnOptions<'a> {
            /// Whether the steps are computed in reverse order.
            backwards: Bool = false,
            /// The activation function, as [`Activation::decode`](crate::ext::Activation::decode) parses it; if empty, `tanh`.
            functions: Ints = &[],
            /// The parameters of the activation functions: two for each.
            parameters: Floats = &[],
            /// The bound for the arguments of the activation functions: arguments are clipped to `-clip..=clip`.
            clip: OptFloat = None,
        } -> Tensors { Other, cost: rnn, batch: Recurrent(&[2, 3]) };

        /// Runs gated recurrent units over time, in one direction. The gates are update, reset and candidate, in this order.
        ///
        /// Shapes, types and lengths: as for [`rnn`](Self::rnn), with three gates: `x: [s, n, 3 h]`, `weights: [h, 3 h]`. If `linear`,
        /// `bias: [h]` is the recurrence bias of the candidate; `x` includes all other biases.
        ///
        /// Source: ONNX `GRU`, opset 22.
        Gru 22 = gru(x: Tensor, weights: Tensor, hidden: Tensor, bias: Optional, lengths: Optional) with options: GruOptions<'a> {
            /// Whether the reset gate scales the product of the state with the weights. Otherwise it scales the state itself.
            linear: Bool = false,
            /// As [`RnnOptions::backwards`].
            backwards: Bool = false,
            /// As [`RnnOptions::functions`], for the gates and the candidate; if empty, the sigmoid and `tanh`.
            functions: Ints = &[],
            /// As [`RnnOptions::parameters`].
            parameters: Floats = &[],
            /// As [`RnnOptions::clip`].
            clip: OptFloat = None,
        } -> Tensors { Other, cost: gru, batch: Recurrent(&[2, 4]) };

        /// Runs long short-term memory over time, in one direction. The gates are input, output, forget and candidate, in this
        /// order.
        ///
        /// Shapes, types and lengths: as for [`rnn`](Self::rnn), with four gates: `x: [s, n, 4 h]`, `weights: [h, 4 h]`, `cell: [n, h]`.
        /// The last cell state is the third result. If there is a `scale`, the weights are quantised integers with the zero point `zero`,
        /// and [`dynamic_matmul`](crate::ext::Quant::dynamic_matmul) multiplies the state by them. `peepholes: [3 h]` are weights of the
        /// cell state that are used by the input, output and forget gates, in this order; the output gate uses the new cell state.
        ///
        /// Source: ONNX `LSTM`, opset 22.
        Lstm 22 = lstm(x: Tensor, weights: Tensor, hidden: Tensor, cell: Tensor, scale: Optional, zero: Optional, lengths: Optional, peepholes: Optional) with options: LstmOptions<'a> {
            /// Whether the forget gate is 1 minus the input gate.
            coupled: Bool = false,
            /// As [`RnnOptions::backwards`].
            backwards: Bool = false,
            /// As [`RnnOptions::functions`], for the gates, the candidate and the new cell state; if empty, the sigmoid, `tanh` and
            /// `tanh`.
            functions: Ints = &[],
            /// As [`RnnOptions::parameters`].
            parameters: Floats = &[],
            /// As [`RnnOptions::clip`].
            clip: OptFloat = None,
        } -> Tensors { Other, cost: lstm, batch: Recurrent(&[2, 3, 6]) };

        /// Computes the maximum of each window. Padding is never the maximum.
        ///
        /// Shapes: as for [`conv`](Self::conv), with windows of the shape `kernel`.
        ///
        /// Source: ONNX `MaxPool`, opset 22.
        MaxPool 22 = max_pool(x: Tensor; kernel: Ints) with options: MaxPoolOptions<'a> {
            /// As [`ConvOptions::strides`].
            strides: Ints = &[],
            /// As [`ConvOptions::pads`].
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`].
            dilations: Ints = &[],
            /// Whether a window may extend beyond the padding if it begins within `x`.
            ceil: Bool = false,
        } -> Tensor { Other, cost: max_pool, export: MaxPool = pool, batch: Pool };

        /// Computes the mean of each window.
        ///
        /// Shapes: as for [`max_pool`](Self::max_pool).
        ///
        /// Source: ONNX `AveragePool`, opset 22.
        AveragePool 22 = average_pool(x: Tensor; kernel: Ints) with options: AveragePoolOptions<'a> {
            /// As [`ConvOptions::strides`].
            strides: Ints = &[],
            /// As [`ConvOptions::pads`].
            pads: Ints = &[],
            /// As [`ConvOptions::dilations`].
            dilations: Ints = &[],
            /// As [`MaxPoolOptions::ceil`].
            ceil: Bool = false,
            /// Whether the mean includes the elements of the padding, as zeros.
            count_pad: Bool = false,
        } -> Tensor { Other, cost: average_pool, export: AveragePool = pool, batch: Pool };

        /// Adds padding. `pads` first lists the padding at the starts of all dimensions, then at their ends. Negative padding removes
        /// elements.
        ///
        /// `mode` selects the values of the padding. Constant padding has the scalar `value`, or 0 if `value` is absent. Types: all.
        ///
        /// Source: ONNX `Pad`, opset 25.
        Pad 25 = pad(x: Tensor, value: Optional; pads: Ints, mode: Border) -> Tensor { Moves, export: Pad = pad, batch: Pad };

        /// Selects one element of `data` for each index. The element is at the same indices as the index itself, except along `axis`,
        /// where the value of the index is used.
        ///
        /// Source: ONNX `GatherElements`, opset 13.
        GatherElements 13 = gather_elements(data: Tensor, indices: Tensor; axis: Int = 0) -> Tensor { Moves, cost: selected, export: GatherElements = same, batch: GatherElements };

        /// Selects the slice of `data` for each tuple of indices. The last dimension of `indices` contains the tuples.
        ///
        /// Source: ONNX `GatherND`, opset 13.
        GatherNd 13 = gather_nd(data: Tensor, indices: Tensor; batch_dims: Int = 0) -> Tensor { Moves, cost: selected, export: GatherND = with_long_indices, batch: GatherNd };
    } };
}
