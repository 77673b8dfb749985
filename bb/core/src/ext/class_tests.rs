//! Compares the classes in the table rows with the shapes that operations compute.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::every_operation;
use crate::trace::{InputIndex, TableIndex, TracedTensor, Tracer, Varies};
use crate::{DataType, Tensor};
use bb_ir::op::{Arity, Class, Family, OpSpec, Param, ParamKind};

/// Returns a parameter of this kind that any operation accepts.
fn param(kind: ParamKind) -> Param<'static> {
    match kind {
        ParamKind::Type => Param::Type(DataType::F32),
        // The program of `fused` that adds two tensors.
        ParamKind::Ints => Param::Ints(vec![0, 0, 1].into()),
        ParamKind::Float => Param::Float(0.5),
        ParamKind::Bool => Param::Bool(true),
        other => panic!("no element-wise operation has required parameters of the kind {other:?}"),
    }
}

/// Adds inputs of these shapes for an operation to a trace.
fn operands(on: &Tracer, spec: &'static OpSpec, extents: &[&[usize]], dtype: DataType) -> Vec<TracedTensor> {
    let own = |at: usize| match (spec.name, at) {
        ("Where", 0) => DataType::Bool,
        ("QLinearAdd" | "QLinearMul", 1 | 4 | 6) => DataType::F32,
        ("QLinearAdd" | "QLinearMul", _) => DataType::U8,
        _ => dtype,
    };
    let input = |(at, shape): (usize, &&[usize])| {
        on.input(InputIndex::at(at), "x", own(at), shape, &Varies::Everything, None)
    };
    extents.iter().enumerate().map(input).collect()
}

fn params(spec: &'static OpSpec) -> Vec<Param<'static>> {
    spec.params.iter().map(|p| p.default.map_or_else(|| param(p.kind), |default| default())).collect()
}

/// Traces an operation on operands of these shapes; returns `None` if it does not support the element type.
fn shape(spec: &'static OpSpec, extents: &[&[usize]], dtype: DataType) -> Option<Vec<usize>> {
    let on = Tracer::default();
    let operands = operands(&on, spec, extents, dtype);
    let operands: Vec<Option<&TracedTensor>> = operands.iter().map(Some).collect();
    let results = crate::ext::call(&on, spec, &operands, &params(spec)).ok()?;
    Some(results.iter().map(|x| x.shape().to_vec()).next().unwrap())
}

/// Returns all element-wise operations, with their numbers of operands.
fn elementwise() -> impl Iterator<Item = (&'static OpSpec, usize)> {
    let families = every_operation().into_iter().map(|(family, _)| family).chain([Family::Primitive]);
    families.flat_map(crate::ext::rows).filter(|spec| spec.class == Class::Elementwise).map(|spec| {
        let counts = spec.inputs.iter().map(|(_, arity)| if *arity == Arity::Tensors { 2 } else { 1 });
        (spec, counts.sum())
    })
}

#[test]
fn the_type_of_a_result_is_known_after_a_call_with_the_same_types() {
    let mut seen = 0;
    for (spec, count) in elementwise().filter(|(spec, _)| !["QLinearAdd", "QLinearMul"].contains(&spec.name))
    {
        for dtype in [DataType::F32, DataType::U8, DataType::Bool] {
            let (on, params) = (Tracer::default(), params(spec));
            let shapes = |first: &'static [usize]| {
                let others = std::iter::repeat_n(&[1, 3, 1][..], count - 1);
                std::iter::once(first).chain(others).collect::<Vec<_>>()
            };
            let [small, large, other] = [&[1, 3, 1][..], &[2, 3, 4], &[2, 1, 4]]
                .map(|first| operands(&on, spec, &shapes(first), dtype));
            let [small, large, other] = [&small, &large, &other]
                .map(|operands| operands.iter().map(Some).collect::<Vec<Option<&TracedTensor>>>());
            let _mark = on.enter_native();
            let Ok(results) = crate::ext::call(&on, spec, &small, &params) else { continue };
            assert!(on.elementwise_result(spec, &large, &params).is_none(), "{}", spec.name);
            on.note_elementwise(spec, &small, &params, &results);
            let known = on.elementwise_result(spec, &large, &params).unwrap();
            let dtype = results.first().unwrap().dtype();
            assert_eq!((known.dtype(), known.shape()), (dtype, &[2, 3, 4][..]), "{}", spec.name);
            // No operand has the shape of this result.
            let unknown = on.elementwise_result(spec, &other, &params);
            assert!(unknown.is_none() || count == 1, "{}", spec.name);
            seen += 1;
        }
    }
    assert!(seen > crate::ext::ScalarOp::ALL.len(), "{seen}");
}

#[test]
fn an_element_wise_operation_broadcasts_its_operands_and_keeps_their_dimensions() {
    let mut seen = 0;
    for (spec, count) in elementwise() {
        // These operations require scales and zero points of one element.
        let single = ["QLinearAdd", "QLinearMul"].contains(&spec.name);
        let full: &[usize] = if count == 1 || single { &[2, 3, 4] } else { &[2, 1, 4] };
        let mut extents = vec![full];
        for at in 1..count {
            let one: &[usize] = if single && at != 3 { &[1, 1, 1] } else { &[1, 3, 1] };
            extents.push(one);
        }
        let dtypes = [DataType::F32, DataType::U8, DataType::Bool];
        let shapes: Vec<_> = dtypes.iter().filter_map(|&dtype| shape(spec, &extents, dtype)).collect();
        assert!(!shapes.is_empty(), "{} takes no type", spec.name);
        assert!(shapes.iter().all(|shape| shape[..] == [2, 3, 4]), "{}: {shapes:?}", spec.name);
        seen += 1;
    }
    assert!(seen > crate::ext::ScalarOp::ALL.len(), "{seen}");
}
