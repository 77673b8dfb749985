//! Tests which extents a trace is tied to. The results of operations are tested on backends, in
//! `tests/tests/operators/families`.

use crate::Tensor;
use crate::ext::{
    CachedAttentionOptions, Image, Llm, Ops, PagedAttentionOptions, Quant, QuantizeOptions,
    QuantizedLinearOptions, RaggedAttentionOptions, SampleTokenOptions,
};
use crate::trace::{InputIndex, TableIndex, TraceStop, TracedTensor, Tracer, Varies};
use bb_ir::DataType::{self, F32, I8, I64, U8};
use bb_ir::op::Border;

/// Traces a function, and returns the axes of each input that the trace is tied to.
fn tied_extents(
    inputs: &[(DataType, &[usize])],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Vec<Vec<usize>> {
    let on = Tracer::default().symbolic(true);
    let input = |(i, (dtype, shape)): (usize, &(DataType, &[usize]))| {
        on.input(InputIndex::at(i), &format!("x{i}"), *dtype, shape, &Varies::Everything, None)
    };
    let xs: Vec<TracedTensor> = inputs.iter().enumerate().map(input).collect();
    assert!(!function(&on, &xs).unwrap().is_empty());
    assert!(on.steps() > 0);
    let fixed = |x: &TracedTensor| (0..x.rank()).filter(|&axis| on.extent(x, axis).is_fixed()).collect();
    xs.iter().map(fixed).collect()
}

#[test]
fn products_and_normalisations_hold_for_all_extents() {
    let x = (F32, &[2, 3, 8][..]);
    let none = |count| vec![Vec::<usize>::new(); count];
    let linear = [x, (F32, &[5, 8]), (F32, &[5])];
    assert_eq!(tied_extents(&linear, |on, x| Ok(vec![on.linear(&x[0], &x[1], Some(&x[2]))?])), none(3));
    let skip = [x, x, (F32, &[8])];
    assert_eq!(tied_extents(&skip, |on, x| on.skip_rms_norm(&x[0], &x[1], &x[2], None, 1e-5)), none(3));
    assert_eq!(tied_extents(&[x, x], |on, x| Ok(vec![on.silu_mul(&x[0], &x[1])?])), none(2));
}

#[test]
fn attention_holds_for_caches_of_any_length() {
    for (left, queries) in [(None, 1), (None, 3), (Some(2), 1), (Some(2), 3), (Some(50), 1)] {
        let options = CachedAttentionOptions { left, ..Default::default() };
        let (q, k) = ([2, 4, queries, 8], [2, 2, queries, 8]);
        let inputs = [(F32, &q[..]), (F32, &k), (F32, &k), (F32, &[2, 2, 5, 8]), (F32, &[2, 2, 5, 8])];
        let ties = tied_extents(&inputs, |on, x| {
            on.cached_attention(&x[0], &x[1], &x[2], Some(&x[3]), Some(&x[4]), None, options)
        });
        // The number of heads and the depth, whose square root divides the scores, are constants of the model.
        assert!(ties.iter().flatten().all(|axis| [1, 3].contains(axis)), "{left:?}, {queries}: {ties:?}");
    }
}

#[test]
fn paged_attention_and_caches_hold_for_all_blocks_and_sequences() {
    let inputs =
        [(F32, &[2, 4, 1, 8][..]), (F32, &[9, 16, 2, 8]), (F32, &[9, 16, 2, 8]), (I64, &[2, 3]), (I64, &[2])];
    let options = PagedAttentionOptions { left: Some(20), ..Default::default() };
    let ties = tied_extents(&inputs, |on, x| {
        Ok(vec![on.paged_attention(&x[0], &x[1], &x[2], &x[3], &x[4], options)?])
    });
    assert!(ties[0].iter().all(|axis| [1, 3].contains(axis)), "{ties:?}");
    assert!(ties[1].iter().all(|axis| [2, 3].contains(axis)), "{ties:?}");
    assert!(ties[3].is_empty() && ties[4].is_empty(), "{ties:?}");
    let new = (F32, &[5, 2, 8][..]);
    let inputs = [
        (F32, &[5, 4, 8][..]),
        new,
        new,
        (F32, &[9, 16, 2, 8]),
        (F32, &[9, 16, 2, 8]),
        (I64, &[4]),
        (I64, &[3]),
        (I64, &[3, 2]),
    ];
    let mut integers = inputs.to_vec();
    (integers[3].0, integers[4].0) = (I8, I8);
    integers.extend([(F32, &[9, 16, 2][..]); 2]);
    for (left, inputs) in [(None, &inputs[..]), (Some(20), &inputs), (None, &integers), (Some(20), &integers)]
    {
        let options = RaggedAttentionOptions { left, ..Default::default() };
        let ties = tied_extents(inputs, |on, x| {
            let scales = [x.get(8), x.get(9)];
            Ok(vec![on.ragged_attention(
                &x[0], &x[1], &x[2], &x[3], &x[4], &x[5], &x[6], &x[7], scales[0], scales[1], options,
            )?])
        });
        // The number of heads and the depth are constants of the model.
        assert!(ties.iter().take(3).flatten().all(|&axis| axis > 0), "{ties:?}");
        assert!(ties.iter().skip(3).take(2).flatten().all(|&axis| axis > 1), "{ties:?}");
        assert!(ties.iter().skip(5).take(3).all(Vec::is_empty), "{ties:?}");
        assert!(ties.iter().skip(8).flatten().all(|&axis| axis == 2), "{ties:?}");
    }
    for circular in [false, true] {
        let inputs = [(F32, &[2, 2, 16, 8][..]), (F32, &[2, 2, 3, 8]), (I64, &[2])];
        let ties =
            tied_extents(&inputs, |on, x| Ok(vec![on.kv_append(&x[0], &x[1], Some(&x[2]), circular)?]));
        assert!(ties.iter().all(Vec::is_empty), "{ties:?}");
    }
}

#[test]
fn weights_and_images_may_tie_a_trace_but_not_batches() {
    let inputs = [(F32, &[2, 3, 64][..]), (U8, &[5, 2, 32]), (F32, &[5, 2])];
    let options = QuantizedLinearOptions { bits: 8, block: 32 };
    let ties = tied_extents(&inputs, |on, x| {
        Ok(vec![on.quantized_linear(&x[0], &x[1], &x[2], None, None, options)?])
    });
    assert!(ties[0].iter().all(|&axis| axis == 2), "{ties:?}");
    let ties = tied_extents(&[(F32, &[2, 3, 6, 7])], |on, x| {
        Ok(vec![on.gaussian_blur(&x[0], 1.0, Border::Reflect)?])
    });
    assert!(ties[0].iter().all(|&axis| axis > 1), "{ties:?}");
    let ties = tied_extents(&[(F32, &[2, 3, 6, 7])], |on, x| {
        Ok(vec![on.gaussian_blur(&x[0], 1.0, Border::Constant)?])
    });
    assert!(ties[0].is_empty(), "{ties:?}");
    let inputs = [(F32, &[4, 6][..]), (F32, &[4, 3])];
    let ties = tied_extents(&inputs, |on, x| {
        let options = QuantizeOptions { block: 2, ..Default::default() };
        Ok(vec![on.quantize(&x[0], &x[1], None, DataType::I8, options)?])
    });
    assert!(ties[0].is_empty(), "{ties:?}");
}

/// Bodies that read no elements are graphs of primitives. Sampling is one step on the host, which needs the logits.
#[test]
fn a_draw_is_one_step() {
    let on = Tracer::default();
    let x = on.input(InputIndex::at(0), "x", F32, &[2, 5], &Varies::Nothing, None);
    for seed in [None, Some(3)] {
        let before = on.steps();
        let y = on.sample_token(&x, None, SampleTokenOptions { seed, ..Default::default() }).unwrap();
        assert_eq!((on.steps() - before, crate::Tensor::shape(&y)), (1, &[2][..]));
        assert!(crate::Backend::to_host(&on, &y).is_err());
    }
}
