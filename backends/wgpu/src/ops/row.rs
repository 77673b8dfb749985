//! Functions of `f32` rows.

use super::launch::{bind, grid, params, write_dims};
use super::{own, result};
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::device::stream::{Binding, KernelCall};
use crate::elem::Elem;
use crate::layout::{Dim, Strides, collapsed, reach};
use crate::wgsl::row::{Row, RowKey};
use crate::{Result, Tensor, WgpuError};
use bb::Shape;
use smallvec::SmallVec;
use std::sync::Arc;

type Walked = SmallVec<[Dim<2>; 6]>;

struct RowCall<'a> {
    gpu: &'a Arc<Gpu>,
    op: &'static str,
    row: Row,
    x: &'a Tensor,
    y: &'a Tensor,
    /// Vectors with the length of a row, contiguous.
    others: &'a [&'a Tensor],
    /// The length of a row, with the strides of its elements in the operand and in the result.
    length: Dim<2>,
    epsilon: f32,
}

/// Computes a function of each row along an axis.
pub(crate) fn rows(
    gpu: &Arc<Gpu>,
    op: &'static str,
    row: Row,
    x: &Tensor,
    axis: usize,
    others: &[&Tensor],
    epsilon: f32,
) -> Result<Tensor> {
    own(gpu, op, &[x])?;
    own(gpu, op, others)?;
    let y = result(gpu, op, Elem::F32, x.shape().into())?;
    if y.len() == 0 {
        return Ok(y);
    }
    let without = |strides: &[isize]| -> Strides {
        strides.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, &stride)| stride).collect()
    };
    let shape: Shape =
        x.shape().iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, &extent)| extent).collect();
    let dims: Walked = collapsed(&shape, [&without(&x.0.strides), &without(&y.0.strides)]);
    let at = |strides: &[isize]| strides.get(axis).copied().unwrap_or(0);
    let extent = x.shape().get(axis).copied().unwrap_or(1);
    let length = Dim { extent, strides: [at(&x.0.strides), at(&y.0.strides)] };
    let job = RowCall { gpu, op, row, x, y: &y, others, length, epsilon };
    job.part(&dims, [x.0.offset as isize, 0])?;
    Ok(y)
}

impl RowCall<'_> {
    fn part(&self, dims: &Walked, [start, at]: [isize; 2]) -> Result<()> {
        let RowCall { gpu, op, x, y, length, .. } = *self;
        let (Some(from), Some(to)) = (&x.0.storage, &y.0.storage) else { return Ok(()) };
        let span = |operand: usize, start: isize| {
            let (outer, inner) = (reach(dims, operand), reach(&[length], operand));
            (start + outer.0 + inner.0, start + outer.1 + inner.1)
        };
        let (read, written) = (span(0, start), span(1, at));
        let bound = (bind(gpu, from, read.0, read.1), bind(gpu, to, written.0, written.1));
        let (Some((input, base)), Some((output, out))) = bound else {
            let Some(dim) = dims.first().copied() else {
                let bytes = (read.1 - read.0).max(written.1 - written.0).unsigned_abs() as u64 * 4 + 4;
                return Err(WgpuError::Binding { op, bytes, limit: gpu.binding });
            };
            let half = dim.extent / 2;
            for (from, extent) in [(0, half), (half, dim.extent - half)] {
                let mut part = dims.clone();
                match part.first_mut() {
                    Some(own) if extent > 1 => own.extent = extent,
                    _ => drop(part.remove(0)),
                }
                let [a, b] = dim.strides;
                self.part(&part, [start + a * from as isize, at + b * from as isize])?;
            }
            return Ok(());
        };
        let mut bindings: SmallVec<[Binding; 4]> = SmallVec::new();
        bindings.push(output);
        bindings.push(input);
        let mut params = params();
        for (i, other) in self.others.iter().enumerate() {
            let Some(storage) = &other.0.storage else { return Ok(()) };
            let first = other.0.offset as isize;
            let Some((binding, base)) = bind(gpu, storage, first, first + other.len() as isize - 1) else {
                let bytes = other.len() as u64 * 4;
                return Err(WgpuError::Binding { op, bytes, limit: gpu.binding });
            };
            bindings.push(binding);
            if let Some(to) = params.get_mut(5 + i) {
                *to = (first - base) as u32;
            }
        }
        let rows: usize = dims.iter().map(|dim| dim.extent).product();
        let (groups, row) = grid(gpu, rows as u64, 1);
        params[0] = rows as u32;
        params[1] = row;
        params[2] = dims.len() as u32;
        params[3] = length.extent as u32;
        params[4] = (start - base) as u32;
        params[7] = (at - out) as u32;
        params[8] = length.strides[0] as u32;
        params[9] = length.strides[1] as u32;
        params[10] = self.epsilon.to_bits();
        let of = |dim: &Dim<2>| [dim.extent as u32, dim.strides[0] as u32, dim.strides[1] as u32, 0];
        write_dims(&mut params, 0, dims.iter().rev().map(of));
        let key = Key::Row(RowKey(self.row));
        gpu.record(&KernelCall { op, key, params: &params, bindings: &bindings, groups })
    }
}
