//! Compares traces of attention before and after the pass.

use super::*;
use crate::ext::{Create, Nn, OpSet, Ops};
use crate::plan::passes::samples::on_tracer;
use crate::plan::passes::{NativeOps, dead_steps};
use crate::contract::PassSwitches;
use crate::trace::{TraceStop, TracedTensor, Tracer, Varies};
use crate::{Backend, TensorData};
use bb_ir::op::Family;

type Made = Result<TracedTensor, TraceStop>;

const SOFTMAX: (Family, OpSet) = (Family::Nn, OpSet::NONE.with(NnOp::Softmax as u16));
const Q: &[usize] = &[2, 3, 5, 4];
const K: &[usize] = &[2, 3, 6, 4];
const V: &[usize] = &[2, 3, 6, 7];

fn options() -> PassOptions<'static> {
    let natives = NativeOps::of(&[(Family::Llm, OpSet::NONE.with(LlmOp::Attention as u16))]);
    PassOptions { natives, ..PassOptions::INTERPRETED }
}

fn on(symbolic: bool) -> Tracer {
    Tracer::new(vec![SOFTMAX], usize::MAX).symbolic(symbolic)
}

/// Rewrites a trace with fixed extents.
fn recognized(
    inputs: &[&[usize]],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> (usize, String) {
    rewritten(on_tracer(on(false), &Varies::Nothing, inputs, function))
}

fn rewritten(mut trace: Trace) -> (usize, String) {
    let count = run(&mut trace, options()).unwrap();
    trace.check().unwrap();
    (dead_steps::PASS.run)(&mut trace, options()).unwrap();
    (count, trace.to_string())
}

fn times(on: &Tracer, x: &TracedTensor, number: f64) -> Made {
    on.mul(x, &on.scalar_like(x, number)?)
}

fn scores(on: &Tracer, q: &TracedTensor, k: &TracedTensor) -> Made {
    on.matmul(q, &on.transpose(k, &[0, 1, 3, 2])?)
}

fn attended(on: &Tracer, scores: &TracedTensor, v: &TracedTensor) -> Made {
    on.matmul(&on.softmax(scores, -1)?, v)
}

const PARAMS: &str = "softcap=0, precision=OptType(None), excludes=false";

#[test]
fn the_scale_may_be_at_any_place() {
    type Scaled = fn(&Tracer, &[TracedTensor]) -> Made;
    let cases: [(Scaled, usize, f32); 6] = [
        (|on, xs| scores(on, &xs[0], &xs[1]), 4, 1.0),
        (|on, xs| times(on, &scores(on, &xs[0], &xs[1])?, 0.5), 5, 0.5),
        (
            |on, xs| {
                let scores = scores(on, &xs[0], &xs[1])?;
                on.div(&scores, &on.scalar_like(&scores, 4.0)?)
            },
            5,
            0.25,
        ),
        (|on, xs| scores(on, &times(on, &xs[0], 0.5)?, &times(on, &xs[1], 0.5)?), 6, 0.25),
        (
            |on, xs| on.matmul(&xs[0], &times(on, &on.transpose(&xs[1], &[0, 1, 3, 2])?, 0.125)?),
            5,
            0.125,
        ),
        (|on, xs| times(on, &scores(on, &times(on, &xs[0], 0.5)?, &xs[1])?, 0.5), 6, 0.25),
    ];
    for (scaled, steps, scale) in cases {
        let (count, text) =
            recognized(&[Q, K, V], |on, xs| Ok(vec![attended(on, &scaled(on, xs)?, &xs[2])?]));
        assert_eq!(count, steps, "{text}");
        let (made, call) = text.split_once(": ").unwrap();
        let call_of = format!("attention(input0, input1, input2, -) {{scale=OptFloat(Some({scale:?})), {PARAMS}}}");
        assert_eq!(call, format!("f32[2, 3, 5, 7] = {call_of}\nreturn {made}\n"));
    }
}

#[test]
fn keys_whose_transposes_became_one_are_transposed() {
    let (count, text) = recognized(&[Q, &[2, 6, 3, 4], V], |on, xs| {
        let scores = on.matmul(&xs[0], &on.transpose(&xs[1], &[0, 2, 3, 1])?)?;
        Ok(vec![attended(on, &scores, &xs[2])?])
    });
    assert_eq!(count, 4);
    assert_eq!(
        text,
        format!(
            "%7: f32[2, 3, 6, 4] = transpose(input1) {{perm=[0, 2, 1, 3]}}\n\
             %8: f32[2, 3, 5, 7] = attention(input0, %7, input2, -) {{scale=OptFloat(Some(1.0)), {PARAMS}}}\n\
             return %8\n"
        )
    );
}

#[test]
fn transposed_keys_that_another_step_reads_stay() {
    let (count, text) = recognized(&[Q, K, V], |on, xs| {
        let transposed = on.transpose(&xs[1], &[0, 1, 3, 2])?;
        let scores = on.matmul(&xs[0], &times(on, &transposed, 0.5)?)?;
        Ok(vec![attended(on, &scores, &xs[2])?, transposed])
    });
    assert_eq!(count, 4, "{text}");
    let (keys, attention) = text.split_once('\n').unwrap();
    let (keys, transpose) = keys.split_once(": ").unwrap();
    assert_eq!(transpose, "f32[2, 3, 4, 6] = transpose(input1) {perm=[0, 1, 3, 2]}");
    let (made, call) = attention.split_once(": ").unwrap();
    let call_of = format!("attention(input0, input1, input2, -) {{scale=OptFloat(Some(0.5)), {PARAMS}}}");
    assert_eq!(call, format!("f32[2, 3, 5, 7] = {call_of}\nreturn {made}, {keys}\n"));
}

#[test]
fn a_row_of_a_mask_that_hides_everything_stays_nan() {
    let masked = |on: &Tracer, xs: &[TracedTensor]| {
        let attend = |q| attended(on, &on.add(&scores(on, q, &xs[1])?, &xs[3])?, &xs[2]);
        Ok(vec![attend(&xs[0])?, attend(&on.neg(&xs[0])?)?])
    };
    let (count, text) = recognized(&[Q, K, V, &[2, 1, 1, 6]], masked);
    assert_eq!(count, 10);
    let attention = |made, q| {
        let operands = format!("{q}, input1, input2, %17");
        format!("{made}: f32[2, 3, 5, 7] = attention({operands}) {{scale=OptFloat(Some(1.0)), {PARAMS}}}\n")
    };
    assert_eq!(
        text,
        [
            "%15: f32[2, 1, 1, 1] = reduce_max(input3) {axes=[3], keepdims=true}\n",
            "%16: f32[2, 1, 1, 1] = sub(%15, %15)\n%17: f32[2, 1, 1, 6] = add(input3, %16)\n",
            &attention("%18", "input0"),
            "%9: f32[2, 3, 5, 4] = neg(input0)\n",
            &attention("%19", "%9"),
            "return %18, %19\n",
        ]
        .concat()
    );
}

#[test]
fn a_constant_mask_is_taken_as_it_is_unless_it_hides_a_row() {
    for (hidden, steps) in [(5, 1), (6, 4)] {
        let (count, text) = recognized(&[Q, K, V], |on, xs| {
            let row: Vec<f32> = (0..6).map(|i| if i < hidden { f32::NEG_INFINITY } else { 0.0 }).collect();
            let mask = on.constant(&TensorData::new(&[6], &row)?)?;
            Ok(vec![attended(on, &on.add(&mask, &scores(on, &xs[0], &xs[1])?)?, &xs[2])?])
        });
        assert_eq!(count, 5, "{text}");
        assert_eq!(text.lines().count(), steps + 1, "{text}");
    }
}

#[test]
fn what_others_read_or_the_trace_returns_stays() {
    let (count, _) = recognized(&[Q, K, V], |on, xs| {
        let shares = on.softmax(&scores(on, &xs[0], &xs[1])?, -1)?;
        Ok(vec![on.matmul(&shares, &xs[2])?, shares])
    });
    assert_eq!(count, 0);
    let (count, _) = recognized(&[Q, K, V], |on, xs| {
        let scores = scores(on, &xs[0], &xs[1])?;
        Ok(vec![attended(on, &scores, &xs[2])?, on.neg(&scores)?])
    });
    assert_eq!(count, 0);
}

#[test]
fn what_is_no_attention_stays() {
    type Other = fn(&Tracer, &[TracedTensor]) -> Made;
    let others: [(&[&[usize]], Other); 6] = [
        // In order: another axis, no transpose, a scale for each head, a negative scale, a mask that stretches the scores, keys
        // of one head.
        (&[&[2, 3, 6, 4], K, V], |on, xs| {
            on.matmul(&on.softmax(&scores(on, &xs[0], &xs[1])?, 2)?, &xs[2])
        }),
        (&[Q, &[2, 3, 4, 6], V], |on, xs| attended(on, &on.matmul(&xs[0], &xs[1])?, &xs[2])),
        (&[Q, K, V, &[3, 1, 1]], |on, xs| {
            attended(on, &on.mul(&scores(on, &xs[0], &xs[1])?, &xs[3])?, &xs[2])
        }),
        (&[Q, K, V], |on, xs| attended(on, &times(on, &scores(on, &xs[0], &xs[1])?, -1.0)?, &xs[2])),
        (&[&[1, 3, 5, 4], &[1, 3, 6, 4], &[1, 3, 6, 7], &[2, 1, 1, 6]], |on, xs| {
            attended(on, &on.add(&scores(on, &xs[0], &xs[1])?, &xs[3])?, &xs[2])
        }),
        (&[Q, &[2, 1, 6, 4], V], |on, xs| attended(on, &scores(on, &xs[0], &xs[1])?, &xs[2])),
    ];
    for (case, (inputs, other)) in others.into_iter().enumerate() {
        let (count, text) = recognized(inputs, |on, xs| Ok(vec![other(on, xs)?]));
        assert_eq!(count, 0, "{case}: {text}");
    }
}

/// Splits `[b, s, 12]` into three heads of four elements.
fn heads(on: &Tracer, x: &TracedTensor) -> Made {
    let of = on.extents(x);
    let fixed = |n: i64| crate::ext::Extent::from(n);
    let split = on.reshape_to(x, &[of[0].clone(), of[1].clone(), fixed(3), fixed(4)])?;
    on.transpose(&split, &[0, 2, 1, 3])
}

#[test]
fn extents_of_other_runs_must_be_equal_too() {
    // If the queries, keys and values come from one input, their batches are equal in all runs. With two inputs, one may have a
    // single batch and the other several.
    for (other, count) in [(0, 4), (1, 0)] {
        let trace = on_tracer(on(true), &Varies::Everything, &[&[2, 5, 12], &[2, 5, 12]], |on, xs| {
            let (q, k) = (heads(on, &xs[0])?, heads(on, &xs[other])?);
            Ok(vec![attended(on, &scores(on, &q, &k)?, &k)?])
        });
        assert!(!trace.symbols.is_empty());
        let (found, text) = rewritten(trace);
        assert_eq!(found, count, "{text}");
    }
}

#[test]
fn a_mask_that_may_stretch_in_another_run_is_none() {
    for shape in [&[1, 1, 5, 5][..], &[1, 1, 1, 5]] {
        let trace = on_tracer(on(true), &Varies::Everything, &[&[1, 5, 12], shape], |on, xs| {
            let q = heads(on, &xs[0])?;
            let scores = scores(on, &q, &q)?;
            Ok(vec![attended(on, &on.add(&scores, &xs[1])?, &q)?])
        });
        assert_eq!(rewritten(trace).0, 0);
    }
    // A mask that is computed from the operand has the operand's extents.
    let trace = on_tracer(on(true), &Varies::Everything, &[&[2, 5, 12]], |on, xs| {
        let q = heads(on, &xs[0])?;
        let mask = on.reshape_to(
            &on.reduce_sum(&xs[0], &[2], false)?,
            &[on.extent(&xs[0], 0), 1i64.into(), 1i64.into(), on.extent(&xs[0], 1)],
        )?;
        Ok(vec![attended(on, &on.add(&scores(on, &q, &q)?, &mask)?, &q)?])
    });
    assert_eq!(rewritten(trace).0, 5);
}

#[test]
fn without_the_option_or_the_operation_nothing_changes() {
    for options in [PassOptions { switches: PassSwitches { recognize: false, ..options().switches }, ..options() }, PassOptions::INTERPRETED] {
        let mut trace = on_tracer(on(false), &Varies::Nothing, &[Q, K, V], |on, xs| {
            Ok(vec![attended(on, &scores(on, &xs[0], &xs[1])?, &xs[2])?])
        });
        assert_eq!(run(&mut trace, options).unwrap(), 0);
    }
}
