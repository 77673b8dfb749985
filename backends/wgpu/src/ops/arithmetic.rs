//! Element-wise operations.

use super::launch::{Dims, Side, Walk, fits, params};
use super::{own, result, scan};
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::elem::{Elem, Kind};
use crate::layout::{Strides, broadcast, collapsed};
use crate::wgsl::map::{Access, Binary, Function, GIVEN, MapKey, Unary};
use crate::wgsl::scan::ScanKey;
use crate::{Result, Tensor};
use bb::ir::infer;
use bb::{Primitive, Shape, Tensor as _};
use smallvec::SmallVec;
use std::sync::Arc;

/// Computes an element-wise function of tensors, with broadcasting.
pub(crate) fn map(
    gpu: &Arc<Gpu>,
    op: &'static str,
    function: Function,
    elem: Elem,
    operands: &[&Tensor],
) -> Result<Tensor> {
    map_with(gpu, op, function, elem, operands, &[])
}

/// Computes a function as [`map`] does, with numeric parameters.
pub(crate) fn map_with(
    gpu: &Arc<Gpu>,
    op: &'static str,
    function: Function,
    elem: Elem,
    operands: &[&Tensor],
    numbers: &[u32],
) -> Result<Tensor> {
    own(gpu, op, operands)?;
    let shapes: SmallVec<[&[usize]; 4]> = operands.iter().map(|x| x.shape()).collect();
    let shape: Shape = infer::broadcast(op, &shapes)?;
    let y = result(gpu, op, elem, shape)?;
    write(gpu, op, function, &y, operands, numbers)?;
    Ok(y)
}

/// Returns the element of a one-element tensor as a word, if the host knows it.
fn given(x: &Tensor) -> Option<u32> {
    let host = x.host().filter(|host| host.len() == 1)?;
    x.elem().words(host).ok()?.first().copied()
}

/// Returns the number of operands that a kernel binds as buffers. One-element operands that the host knows
/// are passed as parameters.
pub(crate) fn bound(operands: &[&Tensor]) -> usize {
    let known = operands.iter().filter(|x| given(x).is_some()).count();
    operands.len() - known.min(GIVEN)
}

/// Writes the results of an element-wise function to `y`, which no other code may use yet.
pub(crate) fn write(
    gpu: &Arc<Gpu>,
    op: &'static str,
    function: Function,
    y: &Tensor,
    operands: &[&Tensor],
    numbers: &[u32],
) -> Result<()> {
    let Some(first) = Side::of(y) else { return Ok(()) };
    let mut params = params();
    for (to, word) in params.iter_mut().skip(8).zip(numbers) {
        *to = *word;
    }
    let mut sides: SmallVec<[Side; 4]> = SmallVec::new();
    sides.push(first);
    let mut strides: SmallVec<[Strides; 4]> = SmallVec::new();
    // For each operand, the index among the bound operands, or the index of the parameter word that
    // contains its element.
    let mut places: SmallVec<[std::result::Result<usize, u8>; 4]> = SmallVec::new();
    let mut held = numbers.len();
    for x in operands {
        match given(x).filter(|_| held < GIVEN) {
            Some(word) => {
                if let Some(to) = params.get_mut(8 + held) {
                    *to = word;
                }
                places.push(Err(held as u8));
                held += 1;
            }
            None => {
                places.push(Ok(strides.len()));
                strides.push(broadcast(x.shape(), &x.0.strides, y.shape()));
                // If an operand has no elements, the result has none either, which was handled above.
                sides.extend(Side::of(x));
            }
        }
    }
    let of = |i: usize| strides.get(i).map_or(&[][..], |strides| &strides[..]);
    let dims: Dims = collapsed(y.shape(), [&y.0.strides, of(0), of(1), of(2), of(3), of(4), of(5)]);
    let linear = dims.len() <= 1;
    let access = |i: usize| match dims.first().map_or(0, |dim| dim.strides.get(i + 1).copied().unwrap_or(0)) {
        _ if !linear => Access::Strided,
        0 => Access::Single,
        1 => Access::Dense,
        _ => Access::Strided,
    };
    let dense = dims
        .iter()
        .rev()
        .fold((true, 1), |(dense, step), dim| (dense && dim.strides[0] == step, step * dim.extent as isize));
    // A copy in parts writes by strides, so that it can be divided along any dimension.
    let whole = dense.0 && (linear || fits(gpu, &sides, &dims));
    let strided_result = matches!(function, Function::Copy) && !whole;
    let moves = matches!(function, Function::Copy | Function::Select);
    let operands = operands.iter().zip(&places).map(|(x, place)| {
        let access = match place {
            Ok(at) => access(*at),
            Err(word) => Access::Given(*word),
        };
        // Functions that only move elements are the same for all types, so use one type to share kernels.
        (if moves { Elem::U32 } else { x.elem() }, access)
    });
    let operands: SmallVec<[(Elem, Access); 4]> = operands.collect();
    let strided = strided_result || operands.iter().any(|(_, access)| *access == Access::Strided);
    let result = if moves { Elem::U32 } else { y.elem() };
    let key = Key::Map(MapKey { function, operands, result, strided_result });
    Walk { op, key, sides: &sides, params, strided, anywhere: strided_result }.run(gpu, &dims)
}

/// Returns a contiguous row-major tensor: the tensor itself, or a copy.
pub(crate) fn dense(gpu: &Arc<Gpu>, op: &'static str, x: &Tensor) -> Result<Tensor> {
    own(gpu, op, &[x])?;
    if x.is_dense() {
        return Ok(x.clone());
    }
    let y = result(gpu, op, x.elem(), x.shape().into())?;
    write(gpu, op, Function::Copy, &y, &[x], &[])?;
    Ok(y)
}

/// Copies a tensor to a part of `into` that begins at `offset` and has the strides of `into`.
pub(crate) fn place(
    gpu: &Arc<Gpu>,
    op: &'static str,
    into: &Tensor,
    offset: usize,
    x: &Tensor,
) -> Result<()> {
    let part = into.view(x.shape().into(), into.0.strides.clone(), offset);
    write(gpu, op, Function::Copy, &part, &[x], &[])
}

/// Computes a primitive with one operand.
pub(crate) fn unary(gpu: &Arc<Gpu>, op: Primitive, function: Unary, x: &Tensor) -> Result<Tensor> {
    infer::dtype(op, &[x.dtype()], &[])?;
    map(gpu, op.spec().method, Function::Unary(function), x.elem(), &[x])
}

/// Computes a primitive with two operands.
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

/// Computes `pow`. The operands may have different types.
pub(crate) fn pow(gpu: &Arc<Gpu>, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    infer::dtype(Primitive::Pow, &[a.dtype(), b.dtype()], &[])?;
    match (a.elem().kind(), b.elem().kind()) {
        (Kind::Float, _) => {}
        // An `f32` has too few digits for an integer to a float power, so compute it on the host in `f64`.
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

/// Computes `where`.
pub(crate) fn select(gpu: &Arc<Gpu>, condition: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    infer::dtype(Primitive::Where, &[condition.dtype(), x.dtype(), y.dtype()], &[])?;
    map(gpu, "where", Function::Select, x.elem(), &[condition, x, y])
}

/// Creates a contiguous tensor whose elements all equal `word`.
pub(crate) fn filled(
    gpu: &Arc<Gpu>,
    op: &'static str,
    elem: Elem,
    shape: Shape,
    word: u32,
) -> Result<Tensor> {
    let y = result(gpu, op, elem, shape)?;
    let Some(side) = Side::of(&y) else { return Ok(y) };
    let dims: Dims = collapsed(y.shape(), [&y.0.strides, &[], &[], &[], &[], &[], &[]]);
    let operands = SmallVec::from_slice(&[(Elem::U32, Access::Given(0))]);
    let key = MapKey { function: Function::Copy, operands, result: Elem::U32, strided_result: false };
    let mut params = params();
    params[8] = word;
    Walk { op, key: Key::Map(key), sides: &[side], params, strided: false, anywhere: false }
        .run(gpu, &dims)?;
    Ok(y)
}

/// Creates a vector of `start`, `start + step`, …. `start` and `step` are words of the element type.
pub(crate) fn counted(gpu: &Arc<Gpu>, elem: Elem, count: usize, start: u32, step: u32) -> Result<Tensor> {
    let y = result(gpu, "range", elem, Shape::from_slice(&[count]))?;
    let Some(side) = Side::of(&y) else { return Ok(y) };
    if count as u64 * 4 > gpu.binding {
        let (bytes, limit) = (count as u64 * 4, gpu.binding);
        return Err(crate::WgpuError::Binding { op: "range", bytes, limit });
    }
    let dims: Dims = collapsed(y.shape(), [&y.0.strides, &[], &[], &[], &[], &[], &[]]);
    let key =
        MapKey { function: Function::Count, operands: SmallVec::new(), result: elem, strided_result: false };
    let mut params = params();
    params[8] = start;
    params[9] = step;
    Walk { op: "range", key: Key::Map(key), sides: &[side], params, strided: false, anywhere: false }
        .run(gpu, &dims)?;
    Ok(y)
}
