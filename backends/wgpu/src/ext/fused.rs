//! Programs of element-wise functions. One kernel is generated for each program.

use crate::device::Gpu;
use crate::elem::{Elem, Kind};
use crate::ops::arithmetic::{bound, map};
use crate::wgsl::map::{Function, Line, OPERANDS, known};
use crate::{Result, Tensor};
use bb::ext::scalar::lines;
use bb::ir::infer;
use std::sync::Arc;

/// The maximum number of lines of a program that becomes one kernel.
const LINES: usize = 64;
/// The maximum number of dimensions with more than three operands. Each dimension then uses two of a
/// kernel's dimension slots.
const DIMS: usize = crate::wgsl::MAX_DIMS / 2;

/// Computes a program with one kernel. Returns `None` if the operation's body must compute it.
pub(super) fn fused(gpu: &Arc<Gpu>, xs: &[&Tensor], program: &[i64]) -> Result<Option<Tensor>> {
    let lines = lines(program, xs.len())?;
    let floats = xs.iter().all(|x| x.elem().kind() == Kind::Float);
    if !floats || lines.len() > LINES || bound(xs) > OPERANDS || xs.is_empty() {
        return Ok(None);
    }
    let mut elems: Vec<Elem> = xs.iter().map(|x| x.elem()).collect();
    let mut typed = Vec::with_capacity(lines.len());
    let mut used = vec![false; xs.len() + lines.len()];
    for line in &lines {
        let of = |operand: usize| elems.get(operand).copied();
        let [Some(a), Some(b)] = line.operands.map(of) else { return Ok(None) };
        let elem = match line.function.converts_to() {
            Some(dtype) => Elem::of("fused", dtype)?,
            // The body reports the error for operands of different types.
            None if a != b => return Ok(None),
            None => a,
        };
        if !known(line.function) {
            return Ok(None);
        }
        for operand in line.operands {
            if let Some(used) = used.get_mut(operand) {
                *used = true;
            }
        }
        typed.push(Line { function: line.function, operands: line.operands, elem });
        elems.push(elem);
    }
    // The result must have the broadcast shape of all tensors, so every value before the last line must
    // be used.
    if used.iter().rev().skip(1).any(|used| !used) {
        return Ok(None);
    }
    let shapes: Vec<&[usize]> = xs.iter().map(|x| x.shape()).collect();
    let rank = infer::broadcast("fused", &shapes)?.len();
    if rank > DIMS {
        return Ok(None);
    }
    let elem = elems.last().copied().unwrap_or(Elem::F32);
    map(gpu, "fused", Function::Program(typed.into()), elem, xs).map(Some)
}
