//! Tests that what cannot be computed is an error that says why.

use super::each;
use bb::ext::{
    Border, CachedAttentionOptions, ConvOptions, ConvTransposeOptions, DequantizeOptions,
    PagedAttentionOptions, QuantizeOptions, QuantizedLinearOptions, RaggedAttentionOptions,
    SampleTokenOptions, SharpenOptions, SobelOptions,
};
use bb::ir::op::Param;
use bb::{DataType, Error, Value};

/// Expects an error whose text, with its causes, has these words.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.expect_err(words);
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    assert!(text.contains(words), "`{text}` does not say `{words}`");
}

#[test]
fn tokens_are_not_drawn_of_nonsense() {
    let draw = |logits: &Value, how| logits.sample_token(None, how);
    let options = SampleTokenOptions::default();
    for on in each() {
        let logits = |x: &[f32]| on.tensor(&[x.len()], x).unwrap();
        let good = logits(&[1.0, 2.0]);
        refused(draw(&logits(&[0.0, f32::NAN]), options), "has NaN for the token 1 of row 0");
        refused(draw(&logits(&[f32::NAN]), SampleTokenOptions { temperature: 0.0, ..options }), "NaN");
        refused(draw(&logits(&[f32::NEG_INFINITY; 2]), options), "leaves no token possible in row 0");
        refused(draw(&logits(&[]), options), "has no tokens");
        refused(draw(&on.tensor(&[], &[1f32]).unwrap(), options), "has rank 0");
        refused(draw(&on.tensor(&[1], &[1i64]).unwrap(), options), "i64");
        for temperature in [-1.0, f64::NAN, f64::INFINITY] {
            refused(draw(&good, SampleTokenOptions { temperature, ..options }), ": temperature ");
        }
        refused(draw(&good, SampleTokenOptions { top_k: -1, ..options }), ": top_k ");
        for top_p in [-0.1, 1.1, f64::NAN] {
            refused(draw(&good, SampleTokenOptions { top_p, ..options }), ": top_p ");
        }
        for repetition_penalty in [0.0, -1.0, f64::NAN] {
            refused(
                draw(&good, SampleTokenOptions { repetition_penalty, ..options }),
                ": repetition_penalty ",
            );
        }
        for (repetition_penalty, token) in [(1.0, 2i64), (2.0, 2), (2.0, i64::MAX)] {
            let previous = on.tensor(&[1], &[token]).unwrap();
            let how = SampleTokenOptions { repetition_penalty, ..options };
            refused(good.sample_token(Some(&previous), how), "of 2 tokens");
        }
        let rows = on.tensor(&[1, 1], &[0i64]).unwrap();
        assert!(good.sample_token(Some(&rows), options).is_err());
        let floats = on.tensor(&[1], &[0f32]).unwrap();
        assert!(good.sample_token(Some(&floats), options).is_err());
    }
}

#[test]
fn attention_takes_operands_that_fit() {
    for on in each() {
        let zeros = |shape: &[usize]| on.zeros(shape, DataType::F32).unwrap();
        let options = CachedAttentionOptions::default();
        let (q, k) = (zeros(&[1, 4, 2, 8]), zeros(&[1, 2, 2, 8]));
        refused(q.cached_attention(&k, &k, Some(&k), None, None, options), ": past ");
        refused(
            q.cached_attention(
                &k,
                &k,
                None,
                None,
                None,
                CachedAttentionOptions { left: Some(-1), ..options },
            ),
            ": left ",
        );
        refused(zeros(&[4, 2, 8]).cached_attention(&k, &k, None, None, None, options), "rank 3");
        // Three heads do not share two; keys of another size; more keys than queries.
        for (q, k) in
            [([1, 3, 2, 8], [1, 2, 2, 8]), ([1, 4, 2, 8], [1, 2, 2, 7]), ([1, 4, 2, 8], [1, 2, 3, 8])]
        {
            let k = zeros(&k);
            assert!(zeros(&q).cached_attention(&k, &k, None, None, None, options).is_err());
        }
        let options = PagedAttentionOptions::default();
        let (q, cache) = (zeros(&[1, 4, 1, 8]), zeros(&[3, 2, 2, 8]));
        let ints = |x: &[i64]| on.tensor(&[x.len()], x).unwrap();
        let table = |x: &[i64]| on.tensor(&[1, x.len()], x).unwrap();
        // A block that does not exist, and a sequence that is longer than its table.
        assert!(q.paged_attention(&cache, &cache, &table(&[0, 3]), &ints(&[3]), options).is_err());
        assert!(q.paged_attention(&cache, &cache, &table(&[0, 1]), &ints(&[5]), options).is_err());
        assert!(q.paged_attention(&cache, &cache, &table(&[0]), &ints(&[1, 1]), options).is_err());
        assert!(
            q.paged_attention(&cache, &zeros(&[2, 2, 2, 8]), &table(&[0]), &ints(&[1]), options).is_err()
        );
        let floats = on.tensor(&[1, 1], &[0f32]).unwrap();
        assert!(q.paged_attention(&cache, &cache, &floats, &ints(&[1]), options).is_err());
    }
}

/// A past of integers has a scale for each position and head, of keys and of values.
#[test]
fn attention_of_many_sequences_takes_scales_that_fit() {
    for on in each() {
        let zeros = |shape: &[usize], dtype| on.zeros(shape, dtype).unwrap();
        let floats = |shape: &[usize]| zeros(shape, DataType::F32);
        // One of the backends has no integers of 8 bits.
        let Ok(integers) = on.zeros(&[3, 2, 2, 8], DataType::I8) else { continue };
        let (q, k) = (floats(&[3, 4, 8]), floats(&[3, 2, 8]));
        let (cache, scale) = (floats(&[3, 2, 2, 8]), floats(&[3, 2, 2]));
        let ints = |shape: &[usize], x: &[i64]| on.tensor(shape, x).unwrap();
        let call = |[past_k, past_v]: [&Value; 2], [k_scale, v_scale]: [Option<&Value>; 2]| {
            let (starts, pasts, table) =
                (ints(&[3], &[0, 1, 3]), ints(&[2], &[2, 3]), ints(&[2, 2], &[0, 0, 1, 2]));
            let options = RaggedAttentionOptions::default();
            q.ragged_attention(&k, &k, past_k, past_v, &starts, &pasts, &table, k_scale, v_scale, options)
        };
        let (both, one) = ([&integers, &integers], Some(&scale));
        call(both, [one, one]).unwrap();
        for scales in [[one, None], [None, one]] {
            refused(call(both, scales), "expected both");
        }
        refused(call(both, [None, None]), "i8");
        // Scales of floats, and of a past with integers only in its keys or only in its values.
        for past in [[&cache, &cache], [&integers, &cache], [&cache, &integers]] {
            refused(call(past, [one, one]), "f32");
        }
        for shape in [&[3, 2, 1][..], &[3, 1, 2], &[2, 2, 2], &[3, 2, 2, 1], &[3, 2], &[]] {
            let wrong = floats(shape);
            assert!(call(both, [Some(&wrong), one]).is_err(), "{shape:?}");
            assert!(call(both, [one, Some(&wrong)]).is_err(), "{shape:?}");
        }
        let wide = zeros(&[3, 2, 2], DataType::I64);
        refused(call(both, [Some(&wide), one]), "i64");
    }
}

#[test]
fn attention_of_many_sequences_takes_numbers_that_fit() {
    for on in each() {
        let zeros = |shape: &[usize]| on.zeros(shape, DataType::F32).unwrap();
        let (q, k, cache) = (zeros(&[3, 4, 8]), zeros(&[3, 2, 8]), zeros(&[3, 2, 2, 8]));
        let ints = |x: &[i64]| on.tensor(&[x.len()], x).unwrap();
        let call = |past_v: &Value, starts: &[i64], pasts: &[i64], table: &[i64]| {
            let options = RaggedAttentionOptions::default();
            let width = table.len() / pasts.len();
            let table = on.tensor(&[pasts.len(), width], table).unwrap();
            let (starts, pasts) = (ints(starts), ints(pasts));
            q.ragged_attention(&k, &k, &cache, past_v, &starts, &pasts, &table, None, None, options)
        };
        call(&cache, &[0, 1, 3], &[2, 3], &[0, 0, 1, 2]).unwrap();
        // Blocks that do not exist, pasts that do not fit, and starts that are none.
        for (starts, pasts, table) in [
            ([0, 1, 3], [2, 3], [0, 0, 1, 3]),
            ([0, 1, 3], [2, 3], [0, 0, 1, -1]),
            ([0, 1, 3], [5, 3], [0, 0, 1, 2]),
            ([0, 1, 3], [-1, 3], [0, 0, 1, 2]),
            ([1, 1, 3], [2, 3], [0, 0, 1, 2]),
            ([0, 1, 2], [2, 3], [0, 0, 1, 2]),
            ([0, 4, 3], [2, 3], [0, 0, 1, 2]),
        ] {
            assert!(call(&cache, &starts, &pasts, &table).is_err(), "{starts:?}, {pasts:?}, {table:?}");
        }
        assert!(call(&cache, &[0, 3], &[2, 3], &[0, 0, 1, 2]).is_err());
        assert!(call(&zeros(&[2, 2, 2, 8]), &[0, 1, 3], &[2, 3], &[0, 0, 1, 2]).is_err());
    }
}

#[test]
fn caches_are_not_written_beyond_their_end() {
    for on in each() {
        let zeros = |shape: &[usize]| on.zeros(shape, DataType::F32).unwrap();
        let (cache, new) = (zeros(&[2, 1, 4, 3]), zeros(&[2, 1, 2, 3]));
        let at = |x: &[i64]| on.tensor(&[x.len()], x).unwrap();
        for places in [[3, 0], [0, -1], [i64::MAX, 0], [i64::MIN, 0]] {
            assert!(cache.kv_append(&new, Some(&at(&places)), false).is_err(), "{places:?}");
        }
        refused(cache.kv_append(&new, Some(&at(&[0])), false), ": at ");
        refused(cache.kv_append(&zeros(&[2, 1, 5, 3]), Some(&at(&[0, 0])), true), ": new ");
        assert!(cache.kv_append(&zeros(&[2, 1, 2, 4]), None, false).is_err());
        assert!(cache.kv_append(&zeros(&[1, 1, 2, 3]), None, false).is_err());
        assert!(cache.kv_append(&on.zeros(&[2, 1, 2, 3], DataType::F16).unwrap(), None, false).is_err());
        assert!(zeros(&[3]).kv_append(&zeros(&[3]), None, false).is_err());
    }
}

#[test]
fn products_take_weights_that_fit() {
    for on in each() {
        let zeros = |shape: &[usize], dtype| on.zeros(shape, dtype).unwrap();
        let f32s = |shape: &[usize]| zeros(shape, DataType::F32);
        let x = f32s(&[2, 6]);
        refused(x.linear(&f32s(&[1, 4, 6]), None), ": w ");
        refused(x.linear(&f32s(&[6]), Some(&f32s(&[1]))), ": w ");
        assert!(x.linear(&f32s(&[4, 5]), None).is_err());
        assert!(x.linear(&f32s(&[4, 6]), Some(&f32s(&[5]))).is_err());
        assert!(x.linear(&f32s(&[4, 6]), Some(&zeros(&[4], DataType::F16))).is_err());
        assert!(x.silu_mul(&zeros(&[2, 6], DataType::F16)).is_err());
        assert!(x.skip_rms_norm(&x, &f32s(&[5]), None, 1e-5).is_err());
        assert!(x.skip_rms_norm(&x, &zeros(&[6], DataType::F64), None, 1e-5).is_err());
        let options = QuantizedLinearOptions { block: 4, ..Default::default() };
        let w = zeros(&[3, 6], DataType::U8);
        refused(x.quantized_linear(&w, &f32s(&[3, 3]), None, None, options), ": scales ");
        let zero = zeros(&[3, 1], DataType::U8);
        refused(x.quantized_linear(&w, &f32s(&[3, 2]), Some(&zero), None, options), ": zeros ");
        let negative = QuantizedLinearOptions { block: -4, ..options };
        refused(x.quantized_linear(&w, &f32s(&[3, 2]), None, None, negative), ": block ");
        let other = zeros(&[3, 2], DataType::I8);
        assert!(x.quantized_linear(&w, &f32s(&[3, 2]), Some(&other), None, options).is_err());
        let short = zeros(&[3, 5], DataType::U8);
        assert!(x.quantized_linear(&short, &f32s(&[3, 2]), None, None, options).is_err());
        let five = QuantizedLinearOptions { bits: 5, block: 8 };
        let packed = zeros(&[3, 1, 5], DataType::U8);
        refused(x.quantized_linear(&packed, &f32s(&[3, 1]), None, None, five), ": bits ");
        for bits in [0, -8, i64::MAX] {
            let how = QuantizedLinearOptions { bits, block: 0 };
            assert!(x.quantized_linear(&packed, &f32s(&[3, 1]), None, None, how).is_err());
        }
    }
}

#[test]
fn filters_know_their_words_and_bounds() {
    for on in each() {
        let x = on.zeros(&[3, 4, 4], DataType::F32).unwrap();
        // By its row, an option that is an enum is text.
        let by_row = |border: &str| {
            let params = [Param::Float(1.0), Param::Text(border.to_owned().into())];
            on.call(bb::ext::ImageOp::GaussianBlur.spec(), &[Some(&x)], &params).map(|mut y| y.remove(0))
        };
        refused(by_row("mirror"), "expected `constant`, `edge`, `reflect` or `wrap`, got `mirror`");
        assert!(by_row("wrap").is_ok());
        let params = [Param::Text("average".into()), Param::OptInt(None)];
        let loss = on.call(bb::ext::TrainOp::CrossEntropy.spec(), &[Some(&x), Some(&x), None], &params);
        refused(loss.map(|mut y| y.remove(0)), "expected `mean`, `sum` or `none`, got `average`");
        for sigma in [-0.5, f64::NAN, f64::INFINITY, 1e300] {
            refused(x.gaussian_blur(sigma, Border::Edge), ": sigma ");
            refused(x.sharpen(SharpenOptions { sigma, ..Default::default() }), ": sigma ");
        }
        refused(
            x.sobel(SobelOptions { direction: "z", ..Default::default() }),
            "expected `x`, `y` or `magnitude`",
        );
        refused(x.grayscale(0, "srgb"), "expected `bt601` or `bt709`");
        refused(x.grayscale(1, "bt601"), "has 4 channels, expected 3");
        assert!(x.grayscale(3, "bt601").is_err());
        refused(
            on.zeros(&[4, 2, 2], DataType::F32).unwrap().contrast(1.0),
            "has 4 channels, expected 1 or 3",
        );
        let row = on.zeros(&[4], DataType::F32).unwrap();
        for result in
            [row.gaussian_blur(1.0, Border::Edge), row.sobel(SobelOptions::default()), row.contrast(2.0)]
        {
            refused(result, "has rank 1");
        }
        let ints = on.zeros(&[3, 3], DataType::I32).unwrap();
        let all =
            [ints.gaussian_blur(1.0, Border::Edge), ints.invert(), ints.threshold(1.0), ints.brightness(1.0)];
        assert!(all.into_iter().all(|result| result.is_err()));
    }
}

#[test]
fn scales_say_which_elements_they_are_for() {
    for on in each() {
        let ones = |shape: &[usize]| on.ones(shape, DataType::F32).unwrap();
        let x = ones(&[4, 6]);
        let quantize = |scale: &Value, axis, block| {
            x.quantize(scale, None, DataType::I8, QuantizeOptions { axis, block, ..Default::default() })
        };
        for (shape, axis, block) in [
            (&[5][..], 1, 0),
            (&[6], 0, 0),
            (&[4, 2], 1, 2),
            (&[4, 3], 1, 0),
            (&[3, 3], 1, 2),
            (&[4, 6, 1], 1, 1),
        ] {
            refused(quantize(&ones(shape), axis, block), ": scale ");
        }
        refused(quantize(&ones(&[4, 3]), 1, -2), ": block ");
        assert!(quantize(&ones(&[6]), 2, 0).is_err());
        let bytes = on.zeros(&[4, 6], DataType::U8).unwrap();
        let dequantize = |to| bytes.dequantize(&ones(&[]), None, to, DequantizeOptions::default());
        assert!(dequantize(DataType::I32).is_err());
        assert!(bytes.dequantize(&ones(&[5]), None, DataType::F32, DequantizeOptions::default()).is_err());
        let options = QuantizeOptions::default();
        assert!(x.quantize(&ones(&[]), None, DataType::I64, options).is_err());
        let zero = on.zeros(&[], DataType::U8).unwrap();
        assert!(x.quantize(&ones(&[]), Some(&zero), DataType::I8, options).is_err());
        let b = on.zeros(&[6, 2], DataType::I8).unwrap();
        assert!(bytes.scaled_matmul(&b, &ones(&[3]), &ones(&[]), None, None, None).is_err());
        assert!(bytes.scaled_matmul(&b, &ones(&[4]), &ones(&[3]), None, None, None).is_err());
        assert!(bytes.scaled_matmul(&b, &ones(&[]), &ones(&[]), None, None, Some(&ones(&[5]))).is_err());
        assert!(x.scaled_matmul(&b, &ones(&[]), &ones(&[]), None, None, None).is_err());
    }
}

/// Keys and values of another type count as the numbers that they are.
#[test]
fn attention_of_many_sequences_takes_keys_of_another_float() {
    for on in each() {
        let numbers = |shape: &[usize], seed: usize| {
            let count = shape.iter().product();
            let x: Vec<f32> = (0..count).map(|i| ((i * 37 + seed * 11) % 19) as f32 / 8.0 - 1.0).collect();
            on.tensor(shape, &x).unwrap()
        };
        let ints = |shape: &[usize], x: &[i64]| on.tensor(shape, x).unwrap();
        let q = numbers(&[3, 4, 8], 1);
        let kept = [
            numbers(&[3, 2, 8], 2),
            numbers(&[3, 2, 5], 3),
            numbers(&[3, 2, 2, 8], 4),
            numbers(&[3, 2, 2, 5], 5),
        ];
        // One of the backends has no halves.
        if kept[0].cast(DataType::F16, true, bb::RoundMode::default()).is_err() {
            continue;
        }
        let call = |dtype: DataType| {
            let cast = |x: &Value| x.cast(dtype, true, bb::RoundMode::default()).unwrap();
            let [k, v, past_k, past_v] = kept.each_ref().map(cast);
            let (starts, pasts) = (ints(&[3], &[0, 1, 3]), ints(&[2], &[2, 3]));
            let table = ints(&[2, 2], &[0, -1, 1, 2]);
            let options = RaggedAttentionOptions::default();
            let y =
                q.ragged_attention(&k, &v, &past_k, &past_v, &starts, &pasts, &table, None, None, options);
            let y = y.unwrap();
            assert_eq!(y.dtype(), DataType::F32);
            y.to_host(1 << 10).unwrap().as_slice::<f32>().unwrap().to_vec()
        };
        // Eighths from -1 to 1.25 are halves.
        let (halves, singles) = (call(DataType::F16), call(DataType::F32));
        assert!(halves.iter().zip(&singles).all(|(a, b)| (a - b).abs() < 1e-6), "{halves:?}, {singles:?}");
    }
}

#[test]
fn vectors_that_do_not_fit_the_channels_are_refused() {
    for on in each() {
        let ones = |shape: &[usize]| on.tensor(shape, &vec![1f32; shape.iter().product()]).unwrap();
        let (x, w) = (ones(&[1, 1, 4, 4]), ones(&[3, 1, 3, 3]));
        let conv = |w: &Value, bias: &Value| x.conv(w, Some(bias), ConvOptions::default());
        assert_eq!(conv(&w, &ones(&[3])).unwrap().shape(), [1, 3, 2, 2]);
        refused(conv(&w, &ones(&[1])), "has the extents [1], expected [3]");
        refused(conv(&w, &ones(&[1, 3])), "has the extents [1, 3], expected [3]");
        refused(conv(&ones(&[1, 1, 3, 3]), &ones(&[4])), "has the extents [4], expected [1]");
        let transposed =
            |w: &Value, bias: &Value| x.conv_transpose(w, Some(bias), ConvTransposeOptions::default());
        assert_eq!(transposed(&ones(&[1, 3, 3, 3]), &ones(&[3])).unwrap().shape(), [1, 3, 6, 6]);
        refused(transposed(&ones(&[1, 3, 3, 3]), &ones(&[1])), "has the extents [1], expected [3]");
        refused(transposed(&ones(&[1, 1, 3, 3]), &ones(&[4])), "has the extents [4], expected [1]");
        let x = ones(&[2, 3]);
        let (three, one) = (ones(&[3]), ones(&[1]));
        assert!(x.batch_normalization(&three, &three, &three, &three, 1e-5).is_ok());
        for wrong in 0..4 {
            let vectors = [0, 1, 2, 3].map(|at| if at == wrong { &one } else { &three });
            let [scale, bias, mean, variance] = vectors;
            let result = x.batch_normalization(scale, bias, mean, variance, 1e-5);
            refused(result, &format!("operand {}", wrong + 1));
        }
    }
}
