//! Matrix products: `matmul`.

use super::arithmetic::filled;
use super::launch::{bind, params, write_dims};
use super::{own, result};
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::device::stream::KernelCall;
use crate::layout::{Dim, Strides, broadcast, collapsed, reach, row_major};
use crate::wgsl::matmul::{MatMulKey, SIDE};
use crate::{Result, Tensor, WgpuError};
use bb::ir::infer;
use bb::{Primitive, Tensor as _};
use smallvec::SmallVec;
use std::sync::Arc;

pub(crate) fn matmul(gpu: &Arc<Gpu>, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    own(gpu, "matmul", &[a, b])?;
    infer::dtype(Primitive::MatMul, &[a.dtype(), b.dtype()], &[])?;
    let extents = infer::matmul(a.shape(), b.shape())?;
    if extents.k == 0 {
        return filled(gpu, "matmul", a.elem(), extents.shape, 0);
    }
    let (m, n, k) = (extents.m, extents.n, extents.k);
    let y = result(gpu, "matmul", a.elem(), extents.shape.clone())?;
    let (a_lead, a_row, a_col) = match &a.0.strides[..] {
        [lead @ .., row, col] => (lead, *row, *col),
        [col] => (&[][..], 0, *col),
        [] => (&[][..], 0, 0),
    };
    let (b_lead, b_row, b_col) = match &b.0.strides[..] {
        [lead @ .., row, col] => (lead, *row, *col),
        [row] => (&[][..], *row, 0),
        [] => (&[][..], 0, 0),
    };
    let batch = &extents.batch[..];
    let leading = |x: &Tensor, strides: &[isize]| -> Strides {
        let shape = x.shape().get(..strides.len()).unwrap_or_default();
        broadcast(shape, strides, batch)
    };
    let out: Strides = row_major(batch).iter().map(|&stride| stride * (m * n) as isize).collect();
    let dims = collapsed(batch, [&leading(a, a_lead), &leading(b, b_lead), &out]);
    let part = ProductPart {
        dims,
        starts: [a.0.offset as isize, b.0.offset as isize, 0],
        extents: [m, n, k],
        more: false,
    };
    Product { gpu, a, b, y: &y, strides: [a_row, a_col, b_row, b_col], row: n }.part(&part)?;
    Ok(y)
}

/// A matrix product that may be computed in parts.
struct Product<'a> {
    gpu: &'a Arc<Gpu>,
    a: &'a Tensor,
    b: &'a Tensor,
    y: &'a Tensor,
    /// The row and column strides of both operands.
    strides: [isize; 4],
    /// The row stride of the result.
    row: usize,
}

/// A part of a matrix product: a range of the batch dimensions and a block of the matrices.
#[derive(Clone)]
struct ProductPart {
    dims: SmallVec<[Dim<3>; 6]>,
    starts: [isize; 3],
    /// The numbers of rows and columns of the result, and the length of each sum.
    extents: [usize; 3],
    /// Whether the sums are added to the results of a previous part.
    more: bool,
}

impl Product<'_> {
    fn part(&self, part: &ProductPart) -> Result<()> {
        let Product { gpu, a, b, y, strides: [a_row, a_col, b_row, b_col], row } = *self;
        let (Some(left), Some(right), Some(to)) = (&a.0.storage, &b.0.storage, &y.0.storage) else {
            return Ok(());
        };
        let [m, n, k] = part.extents;
        let span = |operand: usize, start: isize, rows: (usize, isize), columns: (usize, isize)| {
            let inner =
                [Dim { extent: rows.0, strides: [rows.1] }, Dim { extent: columns.0, strides: [columns.1] }];
            let (outer, inner) = (reach(&part.dims, operand), reach(&inner, 0));
            (start + outer.0 + inner.0, start + outer.1 + inner.1)
        };
        let [a_start, b_start, y_start] = part.starts;
        let a_span = span(0, a_start, (m, a_row), (k, a_col));
        let b_span = span(1, b_start, (k, b_row), (n, b_col));
        let y_span = span(2, y_start, (m, row as isize), (n, 1));
        let bound = [(left, a_span), (right, b_span), (to, y_span)]
            .map(|(storage, (first, last))| bind(gpu, storage, first, last));
        let [Some((left, a_base)), Some((right, b_base)), Some((to, y_base))] = bound else {
            return self.halves(part, [a_span, b_span, y_span]);
        };
        let batches: usize = part.dims.iter().map(|dim| dim.extent).product();
        let each = if m >= 32 && n >= 32 { 4 } else { 1 };
        let tile = (SIDE * each) as usize;
        let key = MatMulKey { elem: a.elem(), each };
        let most = gpu.limits.max_compute_workgroups_per_dimension as usize;
        let mut first = 0;
        while first < batches {
            let count = most.min(batches - first);
            let mut params = params();
            params[1] = first as u32;
            params[2] = part.dims.len() as u32;
            params[3] = u32::from(part.more);
            params[4] = (a_start - a_base) as u32;
            params[5] = (b_start - b_base) as u32;
            params[7] = (y_start - y_base) as u32;
            let given = [m as u32, n as u32, k as u32, row as u32];
            let strides = [a_row, a_col, b_row, b_col].map(|stride| stride as u32);
            for (to, word) in params.iter_mut().skip(8).zip(given.into_iter().chain(strides)) {
                *to = word;
            }
            let of = |dim: &Dim<3>| {
                let [a, b, y] = dim.strides;
                [dim.extent as u32, a as u32, b as u32, y as u32]
            };
            write_dims(&mut params, 0, part.dims.iter().rev().map(of));
            let groups = [n.div_ceil(tile) as u32, m.div_ceil(tile) as u32, count as u32];
            let bindings = [to.clone(), left.clone(), right.clone()];
            let key = Key::MatMul(key.clone());
            gpu.record(&KernelCall { op: "matmul", key, params: &params, bindings: &bindings, groups })?;
            first += count;
        }
        Ok(())
    }

    /// Halves a part whose operands or results need too large bindings.
    fn halves(&self, part: &ProductPart, spans: [(isize, isize); 3]) -> Result<()> {
        let [a_row, a_col, b_row, b_col] = self.strides;
        if let Some(dim) = part.dims.first().copied() {
            let half = dim.extent / 2;
            for (from, extent) in [(0, half), (half, dim.extent - half)] {
                let mut less = part.clone();
                match less.dims.first_mut() {
                    Some(own) if extent > 1 => own.extent = extent,
                    _ => drop(less.dims.remove(0)),
                }
                for (start, stride) in less.starts.iter_mut().zip(dim.strides) {
                    *start += stride * from as isize;
                }
                self.part(&less)?;
            }
            return Ok(());
        }
        let [m, n, k] = part.extents;
        let bytes = |(first, last): (isize, isize)| (last - first + 1).unsigned_abs() as u64 * 4;
        let limit = self.gpu.binding - u64::from(self.gpu.limits.min_storage_buffer_offset_alignment);
        let [a, b, y] = spans.map(bytes);
        // Halve the dimension along which the too large tensor spans the largest distance.
        let far = |extent: usize, stride: isize| (extent - 1) * stride.unsigned_abs();
        let along = match (a > limit, y > limit) {
            (true, _) if far(m, a_row) >= far(k, a_col) => Along::Rows,
            (true, _) => Along::Sums,
            (_, true) if m > 1 => Along::Rows,
            (_, true) => Along::Columns,
            _ if far(n, b_col) > far(k, b_row) => Along::Columns,
            _ => Along::Sums,
        };
        let whole = match along {
            Along::Rows => m,
            Along::Columns => n,
            // Dividing the sums of 16-bit floats would round them between the parts, so do not
            // divide those.
            Along::Sums if self.a.elem().host_size() == 4 => k,
            Along::Sums => 1,
        };
        if whole <= 1 {
            let bytes = a.max(b).max(y);
            return Err(WgpuError::Binding { op: "matmul", bytes, limit: self.gpu.binding });
        }
        let half = whole / 2;
        for (from, extent) in [(0, half), (half, whole - half)] {
            let mut less = part.clone();
            let [a_start, b_start, y_start] = &mut less.starts;
            let step = from as isize;
            match along {
                Along::Rows => {
                    *a_start += a_row * step;
                    *y_start += (self.row * from) as isize;
                    less.extents = [extent, n, k];
                }
                Along::Columns => {
                    *b_start += b_col * step;
                    *y_start += step;
                    less.extents = [m, extent, k];
                }
                Along::Sums => {
                    *a_start += a_col * step;
                    *b_start += b_row * step;
                    less.extents = [m, n, extent];
                    less.more |= from > 0;
                }
            }
            self.part(&less)?;
        }
        Ok(())
    }
}

/// The dimension of a matrix product that is halved.
#[derive(Clone, Copy)]
enum Along {
    Rows,
    Columns,
    Sums,
}
