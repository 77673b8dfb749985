//! Element-wise operations.

use super::launch::{Dims, Side, Walk, params};
use super::{own, result, scan};
use crate::device::Gpu;
use crate::elem::{Elem, Kind};
use crate::layout::{Strides, broadcast, collapsed};
use crate::pipelines::Key;
use crate::wgsl::map::{Access, Binary, Function, MapKey, Unary};
use crate::wgsl::scan::ScanKey;
use crate::{Result, Tensor};
use bb::ir::infer;
use bb::{Primitive, Shape, Tensor as _};
use smallvec::SmallVec;
use std::sync::Arc;

/// Computes a function of the elements of tensors, which are broadcast.
pub(crate) fn map(
    gpu: &Arc<Gpu>,
    op: &'static str,
    function: Function,
    elem: Elem,
    operands: &[&Tensor],
) -> Result<Tensor> {
    own(gpu, op, operands)?;
    let shapes: SmallVec<[&[usize]; 4]> = operands.iter().map(|x| x.shape()).collect();
    let shape: Shape = infer::broadcast(op, &shapes)?;
    let y = result(gpu, op, elem, shape)?;
    write(gpu, op, function, &y, operands)?;
    Ok(y)
}

/// Writes a function of the elements of tensors into a tensor that nobody else has yet.
pub(crate) fn write(
    gpu: &Arc<Gpu>,
    op: &'static str,
    function: Function,
    y: &Tensor,
    operands: &[&Tensor],
) -> Result<()> {
    let Some(first) = Side::of(y) else { return Ok(()) };
    let mut sides: SmallVec<[Side; 4]> = SmallVec::new();
    sides.push(first);
    // An operand without elements has a result without elements, which was handled above.
    sides.extend(operands.iter().filter_map(|x| Side::of(x)));
    let strides: SmallVec<[Strides; 3]> =
        operands.iter().map(|x| broadcast(x.shape(), &x.0.strides, y.shape())).collect();
    let of = |i: usize| strides.get(i).map_or(&[][..], |strides| &strides[..]);
    let dims: Dims = collapsed(y.shape(), [&y.0.strides, of(0), of(1), of(2)]);
    let linear = dims.len() <= 1;
    let access = |i: usize| match dims.first().map_or(0, |dim| dim.strides.get(i + 1).copied().unwrap_or(0)) {
        _ if !linear => Access::Strided,
        0 => Access::Single,
        1 => Access::Dense,
        _ => Access::Strided,
    };
    let accesses = operands.iter().enumerate().map(|(i, x)| (x.elem(), access(i)));
    let strided_result = matches!(function, Function::Copy)
        && dims.iter().rev().fold((true, 1), |(dense, step), dim| {
            (dense && dim.strides[0] == step, step * dim.extent as isize)
        }) != (true, y.len() as isize);
    let operands: SmallVec<[(Elem, Access); 4]> = accesses.collect();
    let strided = strided_result || operands.iter().any(|(_, access)| *access == Access::Strided);
    let key = match function {
        // The element type does not matter to what only moves elements.
        Function::Copy | Function::Select => MapKey {
            function,
            operands: operands.into_iter().map(|(_, access)| (Elem::U32, access)).collect(),
            result: Elem::U32,
            strided_result,
        },
        function => MapKey { function, operands, result: y.elem(), strided_result },
    };
    Walk { op, key: Key::Map(key), sides: &sides, params: params(), strided }.run(gpu, &dims)
}

/// Returns a tensor whose elements are in row-major order: the tensor itself, or a copy.
pub(crate) fn dense(gpu: &Arc<Gpu>, op: &'static str, x: &Tensor) -> Result<Tensor> {
    own(gpu, op, &[x])?;
    if x.is_dense() {
        return Ok(x.clone());
    }
    let y = result(gpu, op, x.elem(), x.shape().into())?;
    write(gpu, op, Function::Copy, &y, &[x])?;
    Ok(y)
}

/// Copies a tensor to a part of another, which begins at `offset` and has its strides.
pub(crate) fn place(
    gpu: &Arc<Gpu>,
    op: &'static str,
    into: &Tensor,
    offset: usize,
    x: &Tensor,
) -> Result<()> {
    let part = into.view(x.shape().into(), into.0.strides.clone(), offset);
    write(gpu, op, Function::Copy, &part, &[x])
}

/// A primitive of one operand.
pub(crate) fn unary(gpu: &Arc<Gpu>, op: Primitive, function: Unary, x: &Tensor) -> Result<Tensor> {
    infer::dtype(op, &[x.dtype()], &[])?;
    map(gpu, op.spec().method, Function::Unary(function), x.elem(), &[x])
}

/// A primitive of two operands.
pub(crate) fn binary(
    gpu: &Arc<Gpu>,
    op: Primitive,
    function: Binary,
    a: &Tensor,
    b: &Tensor,
) -> Result<Tensor> {
    infer::dtype(op, &[a.dtype(), b.dtype()], &[])?;
    let name = op.spec().method;
    if function == Binary::Div && a.elem().kind() != Kind::Float {
        infer::broadcast(name, &[a.shape(), b.shape()])?;
        if scan::any(gpu, name, ScanKey::Zero, 0, &[b])? && a.len() > 0 {
            return Err(bb::ir::Error::DivisionByZero { op: name }.into());
        }
    }
    let elem = if function.compares() { Elem::Bool } else { a.elem() };
    map(gpu, name, Function::Binary(function), elem, &[a, b])
}

/// `pow`, whose operands may have different types.
pub(crate) fn pow(gpu: &Arc<Gpu>, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    infer::dtype(Primitive::Pow, &[a.dtype(), b.dtype()], &[])?;
    match (a.elem().kind(), b.elem().kind()) {
        (Kind::Float, _) => {}
        // A float has too few digits for the powers of an integer, which are computed in 64 bits.
        (_, Kind::Float) => return super::host::pow(gpu, a, b),
        (_, Kind::Signed) => {
            infer::broadcast("pow", &[a.shape(), b.shape()])?;
            if scan::any(gpu, "pow", ScanKey::ZeroToNegative, 0, &[a, b])? {
                return Err(bb::ir::Error::DivisionByZero { op: "pow" }.into());
            }
        }
        _ => {}
    }
    map(gpu, "pow", Function::Binary(Binary::Pow), a.elem(), &[a, b])
}

/// `where`.
pub(crate) fn select(gpu: &Arc<Gpu>, condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    infer::dtype(Primitive::Where, &[condition.dtype(), x.dtype(), y.dtype()], &[])?;
    map(gpu, "where", Function::Select, x.elem(), &[condition, x, y])
}

/// Makes a tensor whose elements are in row-major order of one word.
pub(crate) fn filled(
    gpu: &Arc<Gpu>,
    op: &'static str,
    elem: Elem,
    shape: Shape,
    word: u32,
) -> Result<Tensor> {
    let one = super::host::words(gpu, op, Elem::U32, SmallVec::new(), &[word])?;
    let y = result(gpu, op, elem, shape)?;
    write(gpu, op, Function::Copy, &y, &[&one])?;
    Ok(y)
}
