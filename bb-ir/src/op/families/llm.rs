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
            /// The number `r` of elements that are rotated; if absent, all elements of the last dimension.
            dim: OptInt = None,
            /// Whether a pair consists of two adjacent elements. Otherwise it consists of one element from each half.
            interleaved: Bool = false,
        } -> Tensor { Other, cost: rotate, batch: Broadcast(1) };

        /// Computes attention: averages of `v`, weighted by the softmax of the scaled dot products of `q` and `k`.
        ///
        /// Shapes: `q: [b, h, s, d]`, `k: [b, g, t, d]`, `v: [b, g, t, e]` with `h` a multiple of `g`, to `[b, h, s, e]`. `bias`, of the
        /// type of `q`, is added to the dot products, `[b, h, s, t]`. If the bias of a query is minus infinity for all keys, the result
        /// is 0. Operands of rank 3, `[b, s, d]` and so on, have one head. Operands of rank 2 have one head and one batch entry. The
        /// result and the dot products have the rank of the operands.
        ///
        /// Source: ONNX `Attention`, opset 24.
        Attention 24 = attention(q: Tensor, k: Tensor, v: Tensor, bias: Optional) with options: AttentionOptions {
            /// The factor of the dot products; `1 / sqrt(d)` if absent.
            scale: OptFloat = None,
            /// If positive, the dot products are bounded: each becomes `softcap * tanh(product / softcap)`.
            softcap: Float = 0.0,
            /// The element type that the softmax is computed in; if absent, the type of the dot products. 16-bit floats are always
            /// computed in `f32`, and each result is rounded once.
            precision: OptType = None,
            /// If true, a key whose bias is minus infinity is ignored, even if its dot product with the query is infinite or NaN. If
            /// false, minus infinity is added like any other number, so that the result of the query is NaN if the dot product is
            /// infinity or NaN.
            excludes: Bool = false,
        } -> Tensor { Other, cost: attention, export: Attention = attention, batch: Attention };

        /// Adds `skip` and `bias` to `x`, and normalises the sum by [`rms_normalization`](Self::rms_normalization) over its last
        /// dimension. The results are the normalised sum and the sum itself.
        ///
        /// Shapes: `skip` and `bias` broadcast to `x`, and `scale` to its last dimension. Types: floats; all operands have the same type.
        /// 16-bit floats are computed in `f32`, and the sum is normalised before it is rounded.
        ///
        /// Source: ONNX Runtime's `SkipSimplifiedLayerNormalization`, whose epsilon is 1e-12 by default.
        SkipRmsNorm 1 = skip_rms_norm(x: Tensor, skip: Tensor, scale: Tensor, bias: Optional; epsilon: Float = 1e-5) -> Tensors { Other, cost: skip_rms_norm };

        /// Computes `gate / (1 + exp(-gate)) * up`, the element-wise product in a SwiGLU layer.
        ///
        /// Shapes: the operands broadcast. Types: floats; both operands have the same type. 16-bit floats are computed in `f32` and
        /// rounded once; PyTorch's `silu(gate) * up` rounds them twice.
        ///
        /// Source: PyTorch's `torch.nn.functional.silu`.
        SiluMul 1 = silu_mul(gate: Tensor, up: Tensor) -> Tensor { Elementwise, cost: silu_mul };

        /// Multiplies by the transpose of a matrix, `x·Wᵀ`, and adds `bias`.
        ///
        /// Shapes: `x: [.., inner]`, `w: [columns, inner]` and `bias: [columns]` to `[.., columns]`; `w: [inner]` without a bias to
        /// `[..]`. Types: as for `matmul`; all operands have the same type.
        ///
        /// Source: PyTorch's `torch.nn.functional.linear`.
        Linear 1 = linear(x: Tensor, w: Tensor, bias: Optional) -> Tensor { Contracts, cost: linear };

        /// Computes [`linear`](Self::linear) with integer weights. Each block of a row of weights has a scale and a zero point.
        ///
        /// Shapes: `x: [.., inner]` and `bias: [columns]` to `[.., columns]`. Weights have one of two layouts:
        ///
        /// - packed, `w: [columns, blocks, block * bits / 8]` of `u8`, as for [`matmul_n_bits`](crate::ext::Quant::matmul_n_bits).
        ///   Without `zeros`, the zero point is `2^(bits - 1)`.
        /// - one integer per element, `w: [columns, inner]` of `i4`, `u4`, `i8` or `u8`, as for ONNX's `DequantizeLinear`. `zeros` has
        ///   the type of `w`. Without `zeros`, the zero point is 0.
        ///
        /// `scales` and `zeros` are `[columns, blocks]`. Types: `x`, `scales` and `bias` are floats, and `bias` has the type of `x`.
        /// Products are computed in `f32`, or in `f64` if `x` is `f64`.
        ///
        /// Source: ONNX Runtime's `MatMulNBits`, and ONNX `DequantizeLinear`, opset 25, with `block_size`.
        QuantizedLinear 1 = quantized_linear(
            x: Tensor, w: Tensor, scales: Tensor, zeros: Optional, bias: Optional
        ) with options: QuantizedLinearOptions {
            /// The number of bits of a packed weight: 2, 4 or 8. Ignored if the weights are not packed.
            bits: Int = 4,
            /// The number of weights in a block; 0 for a whole row.
            block: Int = 32,
        } -> Tensor { Contracts, cost: quantized_linear };

        /// Computes [`attention`](Self::attention) of new positions to themselves and to the earlier positions, whose keys and values are
        /// stored in a cache. The results are the averages of the values, and the updated cache for the next call: the cached keys and
        /// values, followed by the new ones.
        ///
        /// Shapes: `q: [b, h, s, d]`, `k: [b, g, s, d]`, `v: [b, g, s, e]`, `past_k: [b, g, p, d]`, `past_v: [b, g, p, e]` with `h` a
        /// multiple of `g`, to `[b, h, s, e]`, `[b, g, p + s, d]`, `[b, g, p + s, e]`. `bias`, of the type of `q`, is added to the
        /// products `[b, h, s, p + s]`. Query `i` has the position `p + i`. A query that cannot attend to any position yields 0.
        ///
        /// Source: ONNX `Attention`, opset 24, with a past and a present; its later `left_window_size` is `left`. A sliding window of
        /// `w` in Mistral's sense, which counts the query's own position, is `left: Some(w - 1)`.
        CachedAttention 24 = cached_attention(
            q: Tensor, k: Tensor, v: Tensor, past_k: Optional, past_v: Optional, bias: Optional
        ) with options: CachedAttentionOptions {
            /// Whether a query attends only to positions up to its own.
            causal: Bool = true,
            /// The maximum number of positions before its own that a query attends to; all if absent.
            left: OptInt = None,
            /// As [`AttentionOptions::scale`].
            scale: OptFloat = None,
            /// As [`AttentionOptions::softcap`].
            softcap: Float = 0.0,
            /// As [`AttentionOptions::precision`].
            precision: OptType = None,
        } -> Tensors { Other, cost: cached_attention };

        /// Computes [`attention`](Self::attention) to keys and values that are stored in blocks. `table` lists the blocks of each
        /// sequence.
        ///
        /// Shapes: `q: [b, h, s, d]`, `k: [n, z, g, d]`, `v: [n, z, g, e]`, `table: [b, m]`, `lengths: [b]`, to `[b, h, s, e]`. Position
        /// `j` of sequence `i` is stored in block `table[i, j / z]`, at `j % z`. Sequence `i` has `lengths[i]` positions; the queries are
        /// the last `s` of them. Keys, values and table entries after the last position are ignored. A negative table entry is a gap: no
        /// query attends to its positions. A query that cannot attend to any position yields 0. Types: `table` and `lengths` are `i32`
        /// or `i64`.
        ///
        /// Errors: a block does not exist; a length exceeds the table. A traced graph reports both errors when it runs.
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

        /// Computes [`attention`](Self::attention) of new positions of several sequences, which are stored one after another in the same
        /// tensors. Each new position attends to the past of its sequence, and to the new positions of its sequence up to itself. The
        /// keys and values of the past are stored in blocks. A table lists the blocks of each sequence.
        ///
        /// Shapes: `q: [n, h, d]`, `k: [n, g, d]`, `v: [n, g, e]` with `h` a multiple of `g`, `past_k: [c, z, g, d]`,
        /// `past_v: [c, z, g, e]`, `starts: [b + 1]`, `pasts: [b]`, `table: [b, m]`, `past_k_scale: [c, z, g]`,
        /// `past_v_scale: [c, z, g]`, to `[n, h, e]`. The new positions of sequence `i` are `starts[i]..starts[i + 1]`. Its past has
        /// `pasts[i]` positions. Position `j` of the past is stored in block `table[i, j / z]`, at `j % z`. Keys, values and table
        /// entries after the last position of a past are ignored.
        ///
        /// Types: `q` and the result are floats of the same type; `k` and `v` are floats of the same type. Without scales, `past_k` and
        /// `past_v` have the type of `k`. With scales, which are `f32`, they are `i8`: the key or value of a position is its integers
        /// times its scale, computed in `f32`. All keys and values are converted to the type of `q`. `starts`, `pasts` and `table` are
        /// `i32` or `i64`.
        ///
        /// Errors: there is one scale without the other; `starts` does not rise from 0 to `n`; a block does not exist; a past is negative
        /// or exceeds the table. A traced graph reports the last three when it runs.
        ///
        /// Source: ONNX Runtime's `PagedAttention`, which also takes the new keys and values separately from the blocks; vLLM's ragged
        /// paged attention, and the scales of its caches of the type `int8_per_token_head`.
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

        /// Appends new keys or values to a cache. Without `at`, the cache grows. With `at`, the new positions are written from position
        /// `at` on, and the cache keeps its size.
        ///
        /// Shapes: `cache: [b, .., t, d]`, `new: [b, .., s, d]`; `at` is a position for each sequence, `[b]`, or one position for all
        /// sequences, `[]`. Without `at`, the result is `[b, .., t + s, d]`. Otherwise it has the shape of `cache`. Types: all types of
        /// whole bytes; `at` is `i32` or `i64`. If `circular` is true, positions beyond the end continue at the start.
        ///
        /// Errors: with `at`, `s` exceeds `t`; if `circular` is false, `at` is negative or a new position is beyond the end.
        ///
        /// Source: the present of ONNX `Attention`, opset 24; with `at`, ONNX `TensorScatter`, opset 24.
        KvAppend 24 = kv_append(cache: Tensor, new: Tensor, at: Optional; circular: Bool = false) -> Tensor { Moves };

        /// Draws a token for each row of logits, on the host.
        ///
        /// The steps are, in this order:
        ///
        /// 1. The logit of each token that occurs in `previous` is divided by `repetition_penalty` if it is positive, and multiplied by
        ///    it otherwise.
        /// 2. `presence_penalty` is subtracted from this logit once, and `frequency_penalty` for each occurrence of the token.
        /// 3. The logits are divided by `temperature`.
        /// 4. The `top_k` most probable tokens are kept.
        /// 5. Of these, the smallest set of most probable tokens is kept whose probabilities add up to at least `top_p`.
        /// 6. One of the remaining tokens is drawn at random, according to the probabilities.
        ///
        /// If tokens have equal probabilities, the one with the lowest index counts as more probable.
        ///
        /// Shapes: `logits: [.., n]` and `previous: [.., p]` to `[..]` of `i64`. Negative numbers in `previous` are ignored. Types:
        /// `logits` are floats, and are computed in `f64`; `previous` is `i32` or `i64`. Logits of infinity share the whole probability;
        /// logits of minus infinity have none.
        ///
        /// Errors: a logit is NaN; no token is possible; a token in `previous` is `n` or greater; an option is out of range.
        ///
        /// Source: Hugging Face Transformers' `RepetitionPenaltyLogitsProcessor`, `TemperatureLogitsWarper`, `TopKLogitsWarper` and
        /// `TopPLogitsWarper`, in this order; OpenAI's `frequency_penalty` and `presence_penalty`, which vLLM applies after the
        /// repetition penalty. llama.cpp applies the temperature last by default. The generator is [`Mersenne`](crate::ext::Mersenne):
        /// one number of 53 bits for each row, in the order of the rows.
        SampleToken 1 = sample_token(logits: Tensor, previous: Optional) with options: SampleTokenOptions {
            /// The divisor of the logits. With 0, the most probable token is returned, and nothing is drawn.
            temperature: Float = 1.0,
            /// How many of the most probable tokens may be drawn; 0 for all.
            top_k: Int = 0,
            /// The minimum total probability of the tokens that may be drawn. 0 keeps only the most probable token, 1 keeps all tokens.
            top_p: Float = 1.0,
            /// A factor that makes tokens in `previous` less probable; 1 has no effect.
            repetition_penalty: Float = 1.0,
            /// The amount subtracted from a logit for each occurrence of its token in `previous`. A negative one makes these tokens
            /// more probable.
            frequency_penalty: Float = 0.0,
            /// The amount subtracted once from a logit if its token occurs in `previous`.
            presence_penalty: Float = 0.0,
            /// The seed. Equal seeds draw equal tokens. Without a seed, every run draws different tokens. Each step of a generation needs
            /// another seed.
            seed: OptInt = None,
        } -> Tensor { Other, cost: uncounted };
    } };
}
