//! Programs of element-wise functions for float types whose values fit `f32`. Each block of elements passes through all lines
//! while it is in the first-level cache, so memory is read and written only once.

mod epilogue;
mod operands;
mod program;

pub(crate) use self::epilogue::{Results, Then, written};
use self::operands::{Operands, RowWise};
pub(crate) use self::program::Program;
use self::program::Room;
use crate::array::{Array, element_size};
use crate::error::{CpuError, Result};
use crate::kernels::element_loop::GRAIN;
use crate::kernels::{Shared, chain, walk};
use crate::layout::{Dim, Dims, broadcast_strides, collapse};
use crate::ops::made;
use crate::pool::Pool;
use bb::ext::scalar::{Line, lines};
use bb::ir::infer;
use bb::{DataType, KernelOperands, Shape, Tensor};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The maximum number of tensors of a program that this backend computes.
const TENSORS: usize = 8;
/// The maximum number of lines of a program that this backend computes. The search for the readers of a value takes quadratic
/// time.
const LINES: usize = 256;
/// The number of elements in a block, which passes through a program together. All registers take 16 KiB.
const BLOCK: usize = 512;

/// The number of elements of a row that pass through a chain of lines together.
const PART: usize = 8 * BLOCK;

/// Memory for the elements of a block.
type Block = MaybeUninit<[f32; BLOCK]>;

/// Computes a program. Returns `None` for unsupported types and for long programs, which the operation's body handles.
pub(super) fn fused(pool: &Arc<Pool>, xs: &[&Array], program: &[i64]) -> Result<Option<Array>> {
    let types: SmallVec<[DataType; TENSORS]> = xs.iter().map(|x| x.dtype()).collect();
    let Some(program) = prepared(&types, program)? else { return Ok(None) };
    let (shape, dims) = extents(xs)?;
    made(pool, program.result(), shape, |out| program.fill(&Operands::new(xs, &dims), &dims, out, None))
        .map(Some)
}

/// Prepares a program for tensors of these types. Returns `None` if this backend does not compute it.
pub(crate) fn prepared(types: &[DataType], program: &[i64]) -> Result<Option<Program>> {
    if types.is_empty() || types.len() > TENSORS {
        return Ok(None);
    }
    let lines = lines(program, types.len()).map_err(CpuError::from)?;
    if lines.len() > LINES || !all_are_read(&lines, types.len()) {
        return Ok(None);
    }
    Ok(Program::new(&lines, types))
}

impl Program {
    /// Computes the program for a step of a plan. If only this step owns an operand with the result's type and shape, the
    /// result overwrites it.
    ///
    /// # Errors
    ///
    /// Errors of the operation.
    pub(crate) fn compute(
        &self,
        pool: &Arc<Pool>,
        operands: &mut KernelOperands<'_, Array>,
    ) -> Result<Array> {
        let (shape, dims) = extents(&read(operands, None)?)?;
        let replaced = (0..operands.len()).find_map(|at| {
            let fits =
                |x: &Array| x.dtype() == self.result() && x.is_dense() && x.shape() == shape.as_slice();
            operands.get(at).filter(|x| fits(x))?;
            operands.take(at).map(|x| (at, x))
        });
        let Some((at, mut replaced)) = replaced else {
            let operands = Operands::new(&read(operands, None)?, &dims);
            return made(pool, self.result(), shape, |out| self.fill(&operands, &dims, out, None));
        };
        let room = replaced.sole();
        let operands = Operands::new(&read(operands, Some((at, &replaced)))?, &dims);
        match room {
            Some(out) => {
                if !replaced.is_empty() {
                    pool.run(|| self.fill(&operands, &dims, out, Some(at)))?;
                }
                Ok(replaced)
            }
            None => made(pool, self.result(), shape, |out| self.fill(&operands, &dims, out, None)),
        }
    }

    /// Computes all results. They may overwrite the operand `replaced`.
    fn fill(&self, operands: &Operands, dims: &[Dim<TENSORS>], out: *mut u8, replaced: Option<usize>) {
        if let Some(lines) = self.chain()
            && let Some(rows) = operands.rows(dims)
        {
            return self.fill_rows(lines, &rows, out.cast());
        }
        let total = total(dims);
        let size = element_size(self.result());
        let shared = Shared((out, operands));
        walk::split(total.div_ceil(BLOCK), BLOCK.min(total) * self.len(), GRAIN, |from, to| {
            let (out, operands) = shared.get();
            let mut room = Room::new();
            // SAFETY: the tensors have elements at every index of their dimensions, and `out` has room for a result at each; no
            // other thread writes the results of these blocks, or reads them if they replace an operand.
            unsafe {
                let mut cursors = operands.begin(&mut room.tensors, from * BLOCK);
                for first in (from * BLOCK..to * BLOCK).step_by(BLOCK) {
                    let n = BLOCK.min(total - first);
                    let out = out.add(first * size);
                    self.run(&mut room, operands, &mut cursors, [first, n], out, replaced);
                }
            }
        });
    }

    /// Computes all results of a program that is a single chain, row by row.
    fn fill_rows(&self, lines: &[chain::Line], rows: &RowWise<'_>, out: *mut f32) {
        let parts = rows.length.div_ceil(PART);
        let shared = Shared((out, rows));
        walk::split(rows.count * parts, rows.length.min(PART) * self.len(), GRAIN, |from, to| {
            let (out, rows) = shared.get();
            for unit in from..to {
                let (row, first) = (unit / parts, unit % parts * PART);
                let n = PART.min(rows.length - first);
                // SAFETY: the tensors have elements at every index of their dimensions, and `out` has room for a result at
                // each; no other thread writes the results of this part, or reads them if they replace an operand.
                unsafe {
                    let places = rows.places(row, first);
                    chain::run(lines, &places, out.add(row * rows.length + first), n);
                }
            }
        });
    }
}

/// Returns the number of results.
fn total(dims: &[Dim<TENSORS>]) -> usize {
    dims.iter().map(|dim| dim.extent).product()
}

/// Returns the operands of a step. `taken` is an index and the array that replaces that operand.
fn read<'a>(
    operands: &'a KernelOperands<'_, Array>,
    taken: Option<(usize, &'a Array)>,
) -> Result<SmallVec<[&'a Array; TENSORS]>> {
    let one = |at| match taken {
        Some((own, x)) if own == at => Ok(x),
        _ => operands.required("fused", at),
    };
    Ok((0..operands.len()).map(one).collect::<std::result::Result<_, bb::Error>>()?)
}

/// Returns the shape of the result, and the merged dimensions of a loop over all tensors.
fn extents(xs: &[&Array]) -> Result<(Shape, Dims<TENSORS>)> {
    if let Some(extents) = alike(xs) {
        return Ok(extents);
    }
    let shapes: SmallVec<[&[usize]; TENSORS]> = xs.iter().map(|x| x.shape()).collect();
    let shape = infer::broadcast("fused", &shapes)?;
    let dims = joint(xs, &shape);
    Ok((shape, dims))
}

/// Returns whether the result depends on every tensor and every line. If not, the shape of the result may differ from the
/// broadcast shape of all tensors.
fn all_are_read(lines: &[Line], tensors: usize) -> bool {
    let results = tensors + lines.len() - 1;
    (0..results).all(|value| lines.iter().any(|line| line.operands.contains(&value)))
}

/// Returns the shape of the result and a single loop dimension, if each tensor is dense with this shape or has one element.
fn alike(xs: &[&Array]) -> Option<(Shape, Dims<TENSORS>)> {
    let most = xs.iter().max_by_key(|x| (x.len(), x.shape().len()))?;
    let mut strides = [0; TENSORS];
    for (x, stride) in xs.iter().zip(&mut strides) {
        let whole = x.shape() == most.shape() && x.is_dense();
        let single = x.len() == 1 && x.shape().len() <= most.shape().len();
        if !whole && !single {
            return None;
        }
        *stride = isize::from(whole);
    }
    Some((Shape::from_slice(most.shape()), std::iter::once(Dim { extent: most.len(), strides }).collect()))
}

/// Returns the merged dimensions of a loop over all tensors.
fn joint(xs: &[&Array], shape: &[usize]) -> Dims<TENSORS> {
    let strides: SmallVec<[_; TENSORS]> =
        xs.iter().map(|x| broadcast_strides(x.shape(), &x.strides(), shape)).collect();
    collapse(shape.iter().enumerate().map(|(i, &extent)| Dim {
        extent,
        strides: std::array::from_fn(|k| strides.get(k).and_then(|s| s.get(i)).copied().unwrap_or(0)),
    }))
}
