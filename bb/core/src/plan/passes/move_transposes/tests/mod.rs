//! Each test compares the trace before and after the pass, and checks it. `%7 = transpose(…)` in the text before the pass is
//! value 7 of the trace. Values that the pass inserts have higher indices.

use super::*;
use crate::ext::{Ops, Scalar};
use crate::plan::passes::samples::traced;
use crate::trace::{InputIndex, OriginId, TableIndex, TraceStop, TracedTensor, Tracer, Varies};
use crate::{Backend, DataType, RoundMode, TensorData};
use bb_ir::graph::Dim;

mod operands;

/// The permutation from `[n, c, h, w]` to `[n, h, w, c]`.
const LAST: [i64; 4] = [0, 2, 3, 1];
/// The permutation from `[n, h, w, c]` to `[n, c, h, w]`.
const SECOND: [i64; 4] = [0, 3, 1, 2];

type Traced = Result<Vec<TracedTensor>, TraceStop>;

/// Runs the pass, and checks the trace. Returns the number of changed steps, and the trace as text.
fn moved(trace: &mut Trace) -> (usize, String) {
    trace.check().unwrap();
    let count = run(trace, PassOptions::INTERPRETED).unwrap();
    trace.check().unwrap();
    (count, trace.to_string())
}

/// Asserts that the pass rewrites a function to the expected steps.
fn becomes(
    inputs: &[&[usize]],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Traced,
    count: usize,
    before: &str,
    after: &str,
) {
    let mut trace = traced(inputs, function);
    assert_eq!(trace.to_string(), before);
    let (got, text) = moved(&mut trace);
    assert_eq!(text, after);
    assert_eq!(got, count);
}

/// Asserts that the pass leaves a function unchanged.
fn stays(inputs: &[&[usize]], function: impl FnOnce(&Tracer, &[TracedTensor]) -> Traced) {
    let mut trace = traced(inputs, function);
    let before = trace.to_string();
    assert_eq!(moved(&mut trace), (0, before));
}

/// Returns a constant of `f32` with consecutive elements.
fn constant(on: &Tracer, shape: &[usize]) -> TracedTensor {
    let elements: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32).collect();
    on.constant(&TensorData::new(shape, &elements).unwrap()).unwrap()
}

/// Computes a step that transposes cannot move past. Its result has the shape `[1, 3, 4, 5]`.
fn fixed(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.matmul(x, &constant(on, &[5, 5]))
}

#[test]
fn what_stands_between_transposes_that_undo_each_other_runs_without_them() {
    becomes(
        &[&[1, 3, 4, 5]],
        |on, xs| {
            let x = on.transpose(&fixed(on, &xs[0])?, &LAST)?;
            let x = on.add(&x, &constant(on, &[3]))?;
            let x = on.exp(&on.mul(&x, &constant(on, &[1]))?)?;
            Ok(vec![fixed(on, &on.transpose(&x, &SECOND)?)?])
        },
        3,
        "%2: f32[1, 3, 4, 5] = matmul(input0, constant0)\n\
         %3: f32[1, 4, 5, 3] = transpose(%2) {perm=[0, 2, 3, 1]}\n\
         %5: f32[1, 4, 5, 3] = add(%3, constant1)\n\
         %7: f32[1, 4, 5, 3] = mul(%5, constant2)\n\
         %8: f32[1, 4, 5, 3] = exp(%7)\n\
         %9: f32[1, 3, 4, 5] = transpose(%8) {perm=[0, 3, 1, 2]}\n\
         %11: f32[1, 3, 4, 5] = matmul(%9, constant3)\n\
         return %11\n",
        "%2: f32[1, 3, 4, 5] = matmul(input0, constant0)\n\
         %12: f32[1, 3, 1, 1] = unsqueeze(constant1) {axes=[0, 2, 3]}\n\
         %13: f32[1, 3, 4, 5] = add(%2, %12)\n\
         %14: f32[1, 3, 4, 5] = mul(%13, constant2)\n\
         %15: f32[1, 3, 4, 5] = exp(%14)\n\
         %11: f32[1, 3, 4, 5] = matmul(%15, constant3)\n\
         return %11\n",
    );
}

#[test]
fn a_residual_sum_joins_two_regions() {
    becomes(
        &[&[1, 3, 4, 5]],
        |on, xs| {
            let x = on.abs(&on.transpose(&xs[0], &LAST)?)?;
            let y = fixed(on, &on.transpose(&x, &SECOND)?)?;
            let y = on.neg(&on.transpose(&y, &LAST)?)?;
            Ok(vec![on.transpose(&on.add(&x, &y)?, &SECOND)?])
        },
        3,
        "%1: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %2: f32[1, 4, 5, 3] = abs(%1)\n\
         %3: f32[1, 3, 4, 5] = transpose(%2) {perm=[0, 3, 1, 2]}\n\
         %5: f32[1, 3, 4, 5] = matmul(%3, constant0)\n\
         %6: f32[1, 4, 5, 3] = transpose(%5) {perm=[0, 2, 3, 1]}\n\
         %7: f32[1, 4, 5, 3] = neg(%6)\n\
         %8: f32[1, 4, 5, 3] = add(%2, %7)\n\
         %9: f32[1, 3, 4, 5] = transpose(%8) {perm=[0, 3, 1, 2]}\n\
         return %9\n",
        "%10: f32[1, 3, 4, 5] = abs(input0)\n\
         %5: f32[1, 3, 4, 5] = matmul(%10, constant0)\n\
         %11: f32[1, 3, 4, 5] = neg(%5)\n\
         %12: f32[1, 3, 4, 5] = add(%10, %11)\n\
         return %12\n",
    );
}

#[test]
fn a_value_that_is_returned_as_well_has_a_transpose_of_its_own() {
    becomes(
        &[&[1, 3, 4, 5]],
        |on, xs| {
            let x = on.abs(&on.transpose(&xs[0], &LAST)?)?;
            let y = on.neg(&x)?;
            Ok(vec![x, on.transpose(&y, &SECOND)?])
        },
        2,
        "%1: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %2: f32[1, 4, 5, 3] = abs(%1)\n\
         %3: f32[1, 4, 5, 3] = neg(%2)\n\
         %4: f32[1, 3, 4, 5] = transpose(%3) {perm=[0, 3, 1, 2]}\n\
         return %2, %4\n",
        "%5: f32[1, 3, 4, 5] = abs(input0)\n\
         %6: f32[1, 4, 5, 3] = transpose(%5) {perm=[0, 2, 3, 1]}\n\
         %7: f32[1, 3, 4, 5] = neg(%5)\n\
         return %6, %7\n",
    );
}

#[test]
fn a_product_with_its_own_sigmoid_is_moved() {
    let on = Tracer::new(crate::ext::every_operation(), usize::MAX);
    let x = on.input(InputIndex::at(0), "x", DataType::F32, &[1, 3, 4, 5], &Varies::Everything, None);
    let turned = on.transpose(&x, &LAST).unwrap();
    let silu = on.mul(&turned, &on.sigmoid(&turned).unwrap()).unwrap();
    let back = on.transpose(&silu, &SECOND).unwrap();
    let mut trace = on.finish(vec![back.read()]);
    let (count, text) = moved(&mut trace);
    assert_eq!((count, text.as_str()), (2, "%5: f32[1, 3, 4, 5] = sigmoid(input0)\n\
         %6: f32[1, 3, 4, 5] = mul(input0, %5)\n\
         return %6\n"));
}

#[test]
fn what_would_move_as_much_stays() {
    // The query of an attention: its transpose moves equally many elements before and after the product.
    stays(&[&[1, 6, 2, 4], &[1, 2, 4, 6]], |on, xs| {
        let query = on.mul(&on.transpose(&xs[0], &[0, 2, 1, 3])?, &constant(on, &[1]))?;
        Ok(vec![on.matmul(&query, &xs[1])?])
    });
    // Sums depend on the order of their terms.
    stays(&[&[1, 3, 4, 5]], |on, xs| {
        let x = on.reduce_sum(&on.transpose(&xs[0], &LAST)?, &[3], true)?;
        Ok(vec![on.transpose(&x, &SECOND)?])
    });
    // Another step reads the transposed value.
    stays(&[&[1, 3, 4, 5]], |on, xs| {
        let x = on.transpose(&xs[0], &LAST)?;
        Ok(vec![on.reduce_max(&x, &[3], true)?, on.neg(&x)?])
    });
}

#[test]
fn element_types_do_not_matter() {
    let on = Tracer::default();
    let x = on.input(InputIndex::at(0), "x", DataType::F16, &[2, 3], &Varies::Everything, None);
    let turned = on.transpose(&x, &[1, 0]).unwrap();
    let whole = on.cast(&turned, DataType::I64, true, RoundMode::Up).unwrap();
    let back = on.transpose(&on.add(&whole, &whole).unwrap(), &[]).unwrap();
    let mut trace = on.finish(vec![back.read()]);
    let (count, text) = moved(&mut trace);
    assert_eq!((count, text.as_str()), (2, "%5: i64[2, 3] = cast(input0) {to=i64, saturate=true, round_mode=up}\n\
         %6: i64[2, 3] = add(%5, %5)\n\
         return %6\n"));
}

#[test]
fn regions_that_share_a_transpose_become_one() {
    // The regions are rewritten in different rounds, because the transposes between them can cancel only once.
    becomes(
        &[&[1, 3, 4, 5]],
        |on, xs| {
            let x = on.neg(&on.transpose(&xs[0], &LAST)?)?;
            let y = on.exp(&on.transpose(&x, &SECOND)?)?;
            let z = on.neg(&on.transpose(&y, &LAST)?)?;
            Ok(vec![on.transpose(&z, &SECOND)?])
        },
        2,
        "%1: f32[1, 4, 5, 3] = transpose(input0) {perm=[0, 2, 3, 1]}\n\
         %2: f32[1, 4, 5, 3] = neg(%1)\n\
         %3: f32[1, 3, 4, 5] = transpose(%2) {perm=[0, 3, 1, 2]}\n\
         %4: f32[1, 3, 4, 5] = exp(%3)\n\
         %5: f32[1, 4, 5, 3] = transpose(%4) {perm=[0, 2, 3, 1]}\n\
         %6: f32[1, 4, 5, 3] = neg(%5)\n\
         %7: f32[1, 3, 4, 5] = transpose(%6) {perm=[0, 3, 1, 2]}\n\
         return %7\n",
        "%8: f32[1, 3, 4, 5] = neg(input0)\n\
         %4: f32[1, 3, 4, 5] = exp(%8)\n\
         %9: f32[1, 3, 4, 5] = neg(%4)\n\
         return %9\n",
    );
}

#[test]
fn a_value_beside_its_own_transpose_is_right() {
    becomes(
        &[&[3, 3]],
        |on, xs| {
            let x = on.neg(&on.transpose(&xs[0], &[1, 0])?)?;
            let y = on.add(&x, &on.transpose(&x, &[1, 0])?)?;
            Ok(vec![on.transpose(&y, &[1, 0])?])
        },
        2,
        "%1: f32[3, 3] = transpose(input0) {perm=[1, 0]}\n\
         %2: f32[3, 3] = neg(%1)\n\
         %3: f32[3, 3] = transpose(%2) {perm=[1, 0]}\n\
         %4: f32[3, 3] = add(%2, %3)\n\
         %5: f32[3, 3] = transpose(%4) {perm=[1, 0]}\n\
         return %5\n",
        "%6: f32[3, 3] = neg(input0)\n\
         %7: f32[3, 3] = transpose(%6) {perm=[1, 0]}\n\
         %8: f32[3, 3] = add(%6, %7)\n\
         return %8\n",
    );
}

#[test]
fn values_keep_their_numbers_of_elements_and_steps_their_nodes() {
    let on = Tracer::default().symbolic(true);
    let [c, h, w] = [3, 4, 5].map(Dim::Known);
    let batches = Varies::Declared(vec![Dim::Symbol("n".to_owned()), c, h, w]);
    let x = on.input(InputIndex::at(0), "x", DataType::F32, &[2, 3, 4, 5], &batches, None);
    let gate = on.input(InputIndex::at(1), "gate", DataType::F32, &[3], &Varies::Nothing, None);
    let y = on.mul(&on.transpose(&x, &LAST).unwrap(), &gate).unwrap();
    let back = on.transpose(&y, &SECOND).unwrap();
    let elements = on.extents(&back);
    let flat = on.reshape_to(&back, &[crate::ext::product(&elements)]).unwrap();
    let mut trace = on.finish(vec![flat.read(), y.read()]);
    for (at, step) in trace.steps.iter_mut() {
        step.origins.push(OriginId::at(at.position()));
    }
    let product = |trace: &Trace| {
        let product = trace.steps.entries().find(|step| step.operation.name() == "mul").unwrap();
        (trace.values.get(product.outputs[0]).unwrap().clone(), product.origins.clone())
    };
    let (before, origins) = product(&trace);
    let (count, text) = moved(&mut trace);
    assert_eq!((count, text.as_str()), (1, "%6: f32[1, 3, 1, 1] = unsqueeze(input1) {axes=[0, 2, 3]}\n\
         %7: f32[2, 3, 4, 5] = mul(input0, %6)\n\
         %8: f32[2, 4, 5, 3] = transpose(%7) {perm=[0, 2, 3, 1]}\n\
         %5: f32[120] = reshape(%7) {shape=[120]}\n\
         return %5, %8\n"));
    let (after, same) = product(&trace);
    assert!(before.elements.is_some());
    assert_eq!((after.elements, same), (before.elements, origins));
    let origins: Vec<_> = trace.steps.entries().map(|step| step.origins.as_slice().to_vec()).collect();
    assert_eq!(origins, [1, 1, 1, 3].map(|origin| vec![OriginId::at(origin)]));
}

#[test]
fn an_empty_tensor_is_left_alone() {
    stays(&[&[0, 3, 4, 5]], |on, xs| {
        let x = on.neg(&on.transpose(&xs[0], &LAST)?)?;
        Ok(vec![on.transpose(&x, &SECOND)?])
    });
}

#[test]
fn many_steps_are_gone_through_a_few_times() {
    let mut trace = traced(&[&[1, 3, 4, 5]], |on, xs| {
        let mut x = on.transpose(&xs[0], &LAST)?;
        for _ in 0..20_000 {
            x = on.neg(&x)?;
        }
        // Steps that are far apart read the same value.
        for _ in 0..20_000 {
            let turned = on.transpose(&on.abs(&x)?, &SECOND)?;
            x = on.transpose(&turned, &LAST)?;
        }
        Ok(vec![on.transpose(&x, &SECOND)?])
    });
    let merged = super::super::merge_transposes::PASS;
    (merged.run)(&mut trace, PassOptions::INTERPRETED).unwrap();
    (super::super::dead_steps::PASS.run)(&mut trace, PassOptions::INTERPRETED).unwrap();
    assert_eq!(run(&mut trace, PassOptions::INTERPRETED).unwrap(), 40_000);
    trace.check().unwrap();
    assert!(trace.steps.entries().all(|step| step.operation.name() != "transpose"));
}
