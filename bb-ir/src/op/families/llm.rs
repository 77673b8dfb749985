//! The rows of the family `Llm`.

/// Expands a callback macro with one row per operation of the family `Llm`; see the module `bb_ir::op::table`.
#[macro_export]
macro_rules! for_each_llm {
    ($($callback:ident)::+ $(, $($extra:tt)*)?) => { $($callback)::+! { $([$($extra)*])?
        /// Divides by the root mean square over the dimensions from `axis` on, and multiplies by `scale`.
        ///
        /// Shapes: `scale` broadcasts to `x`.
        ///
        /// Source: ONNX `RMSNormalization`, opset 23.
        RmsNormalization 23 = rms_normalization(x: Tensor, scale: Tensor; axis: Int = -1, epsilon: Float = 1e-5) -> Tensor { Other, cost: rms_normalization, export: RMSNormalization = stashing, batch: Norm(0) };

        /// Rotates pairs of elements of the last dimension by angles (rotary position embedding).
        ///
        /// Shapes: `x: [.., s, d]`; `cos` and `sin` broadcast to `[.., s, r / 2]`. The first `r` elements of the last
        /// dimension are rotated.
        ///
        /// Source: ONNX `RotaryEmbedding`, opset 23.
        Rotate 23 = rotate(x: Tensor, cos: Tensor, sin: Tensor) with options: RotateOptions {
            /// The number `r` of elements that are rotated; all of the last dimension if there is none.
            dim: OptInt = None,
            /// Whether a pair is two neighbours. Otherwise it has one element from each half.
            interleaved: Bool = false,
        } -> Tensor { Other, cost: rotate, batch: Broadcast(1) };

        /// Computes attention: the averages of `v`, weighted by the softmax of the scaled products of `q` and `k`.
        ///
        /// Shapes: `q: [b, h, s, d]`, `k: [b, g, t, d]`, `v: [b, g, t, e]` with `h` a multiple of `g`, to `[b, h, s, e]`.
        /// `bias`, of the type of `q`, is added to the products `[b, h, s, t]`. A row whose bias is minus infinity
        /// everywhere yields 0. Operands of rank 3, `[b, s, d]` and so on, have one head, and those of rank 2 also one batch; so has the
        /// result, and the products to which the bias is added.
        ///
        /// Source: ONNX `Attention`, opset 24.
        Attention 24 = attention(q: Tensor, k: Tensor, v: Tensor, bias: Optional) with options: AttentionOptions {
            /// The factor of the products; `1 / sqrt(d)` if there is none.
            scale: OptFloat = None,
            /// If it is above 0, the products are bounded by `softcap * tanh(product / softcap)`.
            softcap: Float = 0.0,
            /// The element type in which the softmax is computed; that of the products if there is none. 16-bit floats are
            /// computed in `f32` in any case, and each result is rounded once.
            precision: OptType = None,
            /// If true, a key whose bias is minus infinity takes no part, even if its product with the query is infinite or NaN. If false,
            /// minus infinity is added like any number, and the row is NaN where such a product is infinity or NaN.
            excludes: Bool = false,
        } -> Tensor { Other, cost: attention, export: Attention = attention, batch: Attention };

        /// Adds `skip` and `bias` to `x`, and normalises the sum by [`rms_normalization`](Self::rms_normalization) over its
        /// last dimension. The results are what was normalised, and the sum.
        ///
        /// Shapes: `skip` and `bias` broadcast to `x`, and `scale` to its last dimension. Types: floats, all alike. 16-bit floats are
        /// computed in `f32`: what is normalised is the sum before it is rounded.
        ///
        /// Source: ONNX Runtime's `SkipSimplifiedLayerNormalization`, whose epsilon is 1e-12 by default.
        SkipRmsNorm 1 = skip_rms_norm(x: Tensor, skip: Tensor, scale: Tensor, bias: Optional; epsilon: Float = 1e-5) -> Tensors { Other, cost: skip_rms_norm };

        /// Computes `gate / (1 + exp(-gate)) * up`: the product of a SwiGLU layer.
        ///
        /// Shapes: the operands broadcast. Types: floats, both alike. 16-bit floats are computed in `f32` and rounded once;
        /// PyTorch's `silu(gate) * up` rounds them twice.
        ///
        /// Source: PyTorch's `torch.nn.functional.silu`.
        SiluMul 1 = silu_mul(gate: Tensor, up: Tensor) -> Tensor { Elementwise, cost: silu_mul };

        /// Multiplies with a matrix whose rows are the columns of the product, `x·Wᵀ`, and adds `bias`.
        ///
        /// Shapes: `x: [.., inner]`, `w: [columns, inner]` and `bias: [columns]` to `[.., columns]`; `w: [inner]` without a bias
        /// to `[..]`. Types: those of `matmul`, all alike.
        ///
        /// Source: PyTorch's `torch.nn.functional.linear`.
        Linear 1 = linear(x: Tensor, w: Tensor, bias: Optional) -> Tensor { Contracts, cost: linear };

        /// Computes [`linear`](Self::linear) with weights that are integers, with a scale and a zero point for each block of a row.
        ///
        /// Shapes: `x: [.., inner]` and `bias: [columns]` to `[.., columns]`. Weights have one of two layouts:
        ///
        /// - packed, `w: [columns, blocks, block * bits / 8]` of `u8`, as [`matmul_n_bits`](crate::ext::Quant::matmul_n_bits) has
        ///   them. Without `zeros`, the zero point is `2^(bits - 1)`.
        /// - one integer an element, `w: [columns, inner]` of `i4`, `u4`, `i8` or `u8`, as ONNX's `DequantizeLinear` has them. `zeros`
        ///   has the type of `w`. Without it, the zero point is 0.
        ///
        /// `scales` and `zeros` are `[columns, blocks]`. Types: `x`, `scales` and `bias` are floats, `bias` of the type of `x`. Products
        /// are computed in `f32`, or in `f64` if `x` is `f64`.
        ///
        /// Source: ONNX Runtime's `MatMulNBits`, and ONNX `DequantizeLinear`, opset 25, with `block_size`.
        QuantizedLinear 1 = quantized_linear(
            x: Tensor, w: Tensor, scales: Tensor, zeros: Optional, bias: Optional
        ) with options: QuantizedLinearOptions {
            /// The bits of a number of packed weights: 2, 4 or 8. For others, their element type says it.
            bits: Int = 4,
            /// How many numbers a block has; 0 for a whole row.
            block: Int = 32,
        } -> Tensor { Contracts, cost: quantized_linear };

        /// Computes [`attention`](Self::attention) of new positions to all positions so far, which a cache holds. The results are
        /// the averages of the values, and the keys and the values with the new ones behind: the cache of the next call.
        ///
        /// Shapes: `q: [b, h, s, d]`, `k: [b, g, s, d]`, `v: [b, g, s, e]`, `past_k: [b, g, p, d]`, `past_v: [b, g, p, e]` with `h` a multiple
        /// of `g`, to `[b, h, s, e]`, `[b, g, p + s, d]`, `[b, g, p + s, e]`. `bias`, of the type of `q`, is added to the products
        /// `[b, h, s, p + s]`. Query `i` has the position `p + i`. A query that may attend to nothing yields 0.
        ///
        /// Source: ONNX `Attention`, opset 24, with a past and a present; its later `left_window_size` is `left`. A sliding window of
        /// `w` in Mistral's sense, which counts the query's own position, is `left: Some(w - 1)`.
        CachedAttention 24 = cached_attention(
            q: Tensor, k: Tensor, v: Tensor, past_k: Optional, past_v: Optional, bias: Optional
        ) with options: CachedAttentionOptions {
            /// Whether a query attends to no position behind its own.
            causal: Bool = true,
            /// To how many positions before its own a query attends at most; all if there is none.
            left: OptInt = None,
            /// As [`AttentionOptions::scale`].
            scale: OptFloat = None,
            /// As [`AttentionOptions::softcap`].
            softcap: Float = 0.0,
            /// As [`AttentionOptions::precision`].
            precision: OptType = None,
        } -> Tensors { Other, cost: cached_attention };

        /// Computes [`attention`](Self::attention) to keys and values that lie in blocks, which a table finds for each sequence.
        ///
        /// Shapes: `q: [b, h, s, d]`, `k: [n, z, g, d]`, `v: [n, z, g, e]`, `table: [b, m]`, `lengths: [b]`, to `[b, h, s, e]`. Position `j` of a
        /// sequence lies in the block `table[j / z]`, at `j % z`. A sequence has `lengths` positions, of which the queries are the
        /// last `s`. What lies behind is not looked at, and neither are such entries of the table. A negative entry is a gap: nobody
        /// attends to its positions. A query that may attend to nothing yields 0. Types: `table` and `lengths` are `i32` or `i64`.
        ///
        /// Errors: a block that does not exist; a length beyond the table. A graph that was traced reports both when it runs.
        ///
        /// Source: the layout of FlashAttention's `flash_attn_with_kvcache` with a `block_table`. vLLM's own kernels split `d` for
        /// their loads instead.
        PagedAttention 1 = paged_attention(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) with options: PagedAttentionOptions {
            /// As [`CachedAttentionOptions::causal`].
            causal: Bool = true,
            /// As [`CachedAttentionOptions::left`].
            left: OptInt = None,
            /// As [`AttentionOptions::scale`].
            scale: OptFloat = None,
            /// As [`AttentionOptions::softcap`].
            softcap: Float = 0.0,
            /// As [`AttentionOptions::precision`].
            precision: OptType = None,
        } -> Tensor { Other, cost: paged_attention };

        /// Computes [`attention`](Self::attention) of new positions of several sequences, which lie one behind another in the same tensors.
        /// Each attends to the past of its own sequence, whose keys and values lie in blocks that a table finds, and to the new positions
        /// of its sequence up to its own.
        ///
        /// Shapes: `q: [n, h, d]`, `k: [n, g, d]`, `v: [n, g, e]` with `h` a multiple of `g`, `past_k: [c, z, g, d]`, `past_v: [c, z, g, e]`,
        /// `starts: [b + 1]`, `pasts: [b]`, `table: [b, m]`, `past_k_scale: [c, z, g]`, `past_v_scale: [c, z, g]`, to `[n, h, e]`. The new
        /// positions of sequence `i` are those from `starts[i]` on, before `starts[i + 1]`. Its past has `pasts[i]` positions, of which
        /// position `j` lies in the block `table[i, j / z]`, at `j % z`. What lies behind is not looked at, and neither are such entries of
        /// the table.
        ///
        /// Types: `q` is of floats, and so is the result; `k` and `v` are of floats, both alike. Without scales, `past_k` and `past_v` have
        /// the type of `k`. With scales, which are `f32`, they are `i8`: the key or value of a position stands for its integers times its
        /// scale, computed in `f32`. All are converted to the type of `q`. `starts`, `pasts` and `table` are `i32` or `i64`.
        ///
        /// Errors: one scale without the other; `starts` does not rise from 0 to `n`; a block that does not exist; a past that is negative or
        /// beyond the table. A graph that was traced reports the last three when it runs.
        ///
        /// Source: ONNX Runtime's `PagedAttention`, which has the new keys and values apart from the blocks too; vLLM's ragged paged
        /// attention, and the scales of its caches of the type `int8_per_token_head`.
        RaggedAttention 1 = ragged_attention(
            q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor, starts: Tensor, pasts: Tensor, table: Tensor,
            past_k_scale: Optional, past_v_scale: Optional
        ) with options: RaggedAttentionOptions {
            /// As [`CachedAttentionOptions::left`].
            left: OptInt = None,
            /// As [`AttentionOptions::scale`].
            scale: OptFloat = None,
            /// As [`AttentionOptions::softcap`].
            softcap: Float = 0.0,
        } -> Tensor { Other, cost: ragged_attention };

        /// Appends new keys or values to a cache: behind its positions, so that it grows, or from the positions `at` on, so that its
        /// size stays.
        ///
        /// Shapes: `cache: [b, .., t, d]`, `new: [b, .., s, d]`, and `at` has a position for each sequence, `[b]`, or one for all, `[]`.
        /// Without `at`, the result is `[b, .., t + s, d]`. Otherwise it has the shape of `cache`. Types: all of whole bytes; `at` is
        /// `i32` or `i64`. If `circular`, what would go beyond the end goes to the start.
        ///
        /// Errors: `s` exceeds `t`; what is new goes beyond the end, or `at` is negative, if it is not `circular`.
        ///
        /// Source: the present of ONNX `Attention`, opset 24; with `at`, ONNX `TensorScatter`, opset 24.
        KvAppend 24 = kv_append(cache: Tensor, new: Tensor, at: Optional; circular: Bool = false) -> Tensor { Moves };

        /// Draws a token for each row of logits, on the host.
        ///
        /// In this order: a logit of a token in `previous` is divided by `repetition_penalty` if it is positive, and else multiplied by
        /// it; `presence_penalty` is subtracted from it, and `frequency_penalty` for each time that the token is there; logits are divided by `temperature`; the `top_k` most probable tokens stay; of these, the fewest whose probabilities
        /// reach `top_p` together; and one of them is drawn by its probability. Of equal tokens the first counts as more probable.
        ///
        /// Shapes: `logits: [.., n]` and `previous: [.., p]`, where a negative token is none, to `[..]` of `i64`. Types: `logits` are
        /// floats, and are computed in `f64`; `previous` is `i32` or `i64`. Logits of infinity share all probability; those of minus
        /// infinity have none.
        ///
        /// Errors: a logit is NaN; no token is possible; a token in `previous` is not below `n`; an option is out of range.
        ///
        /// Source: Hugging Face Transformers' `RepetitionPenaltyLogitsProcessor`, `TemperatureLogitsWarper`, `TopKLogitsWarper` and
        /// `TopPLogitsWarper`, in this order; OpenAI's `frequency_penalty` and `presence_penalty`, which vLLM applies behind the first.
        /// llama.cpp applies the temperature last by default. The generator is
        /// [`Mersenne`](crate::ext::Mersenne): one number of 53 bits for each row, in the order of the rows.
        SampleToken 1 = sample_token(logits: Tensor, previous: Optional) with options: SampleTokenOptions {
            /// The divisor of the logits. 0 takes the most probable token, without drawing.
            temperature: Float = 1.0,
            /// How many of the most probable tokens may be drawn; 0 for all.
            top_k: Int = 0,
            /// The probability that the tokens which may be drawn reach together. 0 leaves the most probable one, 1 leaves all.
            top_p: Float = 1.0,
            /// How much less probable the tokens in `previous` become; 1 for not at all.
            repetition_penalty: Float = 1.0,
            /// The amount subtracted from a logit for each occurrence of its token in `previous`. A negative one makes these tokens
            /// more probable.
            frequency_penalty: Float = 0.0,
            /// The amount subtracted from a logit if its token is in `previous`, however often.
            presence_penalty: Float = 0.0,
            /// The seed. Equal seeds draw equal tokens; without one, every run draws others. Each step of a generation needs a
            /// seed of its own.
            seed: OptInt = None,
        } -> Tensor { Other, cost: uncounted };
    } };
}
