//! Reductions: `reduce_sum reduce_mean reduce_max reduce_min`.

use super::arithmetic::filled;
use super::launch::{bind, grid, params, write_dims};
use super::{own, result};
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::device::stream::{Binding, KernelCall};
use crate::elem::Kind;
use crate::layout::{Dim, Strides, collapsed, parted, reach};
use crate::wgsl::GROUP;
use crate::wgsl::reduce::{Join, ReduceKey};
use crate::{Result, Tensor, WgpuError};
use bb::ir::infer;
use bb::{Primitive, Tensor as _};
use smallvec::SmallVec;
use std::sync::Arc;

/// If each result has at least this number of elements, a workgroup computes it instead of a single thread.
const SHARED: usize = 64;

pub(crate) fn reduce(
    gpu: &Arc<Gpu>,
    op: Primitive,
    join: Join,
    x: &Tensor,
    axes: &[i64],
    keepdims: bool,
) -> Result<Tensor> {
    let name = op.spec().method;
    own(gpu, name, &[x])?;
    infer::dtype(op, &[x.dtype()], &[])?;
    let reduction = infer::reduce(name, x.shape(), axes, keepdims)?;
    let elem = x.elem();
    let count = reduction.count(x.shape());
    let results: usize = reduction.shape.iter().product();
    if results == 0 {
        return result(gpu, name, elem, reduction.shape);
    }
    if count == 0 {
        let word = match (join, elem.kind()) {
            (Join::Mean, Kind::Float) => nan(elem),
            (Join::Mean, _) => return Err(bb::ir::Error::DivisionByZero { op: name }.into()),
            _ => empty(join, elem),
        };
        return filled(gpu, name, elem, reduction.shape, word);
    }
    let y = result(gpu, name, elem, reduction.shape)?;
    let mask = &reduction.reduced;
    let (kept, gone) = parted(x.shape(), mask);
    let pick = |which: bool| -> Strides {
        x.0.strides.iter().zip(mask).filter(|(_, gone)| **gone == which).map(|(&stride, _)| stride).collect()
    };
    let kept = collapsed(&kept, [&pick(false)]);
    let gone = collapsed(&gone, [&pick(true)]);
    let job = ReductionCall { gpu, op: name, join, x, y: &y, count, gone: &gone };
    job.part(&kept, x.0.offset as isize, 0)?;
    Ok(y)
}

type Walked = SmallVec<[Dim<1>; 6]>;

struct ReductionCall<'a> {
    gpu: &'a Arc<Gpu>,
    op: &'static str,
    join: Join,
    x: &'a Tensor,
    y: &'a Tensor,
    count: usize,
    gone: &'a Walked,
}

impl ReductionCall<'_> {
    /// Computes the results for a range of the kept dimensions, which begins at `start` in the operand and at `at` in the
    /// result.
    fn part(&self, kept: &Walked, start: isize, at: usize) -> Result<()> {
        let ReductionCall { gpu, op, join, x, y, count, gone } = *self;
        let (Some(from), Some(to)) = (&x.0.storage, &y.0.storage) else { return Ok(()) };
        let (a, b) = (reach(kept, 0), reach(gone, 0));
        let (first, last) = (start + a.0 + b.0, start + a.1 + b.1);
        let results: usize = kept.iter().map(|dim| dim.extent).product();
        let input = bind(gpu, from, first, last);
        let output = bind(gpu, to, at as isize, (at + results - 1) as isize);
        let (Some((input, base)), Some((output, out))) = (input, output) else {
            // Halve the outermost dimension, because the results must stay contiguous.
            let Some((dim, rest)) = kept.split_first() else {
                let bytes = (last - first + 1).unsigned_abs() as u64 * 4;
                return Err(WgpuError::Binding { op, bytes, limit: gpu.binding });
            };
            let inner: usize = rest.iter().map(|dim| dim.extent).product();
            let half = dim.extent / 2;
            for (from, extent) in [(0, half), (half, dim.extent - half)] {
                let mut part: Walked = rest.into();
                if extent != 1 {
                    part.insert(0, Dim { extent, strides: dim.strides });
                }
                self.part(&part, start + dim.strides[0] * from as isize, at + from * inner)?;
            }
            return Ok(());
        };
        let shared = count >= SHARED;
        let (groups, row) =
            if shared { grid(gpu, results as u64, 1) } else { grid(gpu, results as u64, GROUP) };
        let mut params = params();
        params[0] = results as u32;
        params[1] = row;
        params[2] = kept.len() as u32;
        params[3] = count as u32;
        params[4] = (start - base) as u32;
        params[7] = (at as isize - out) as u32;
        params[8] = gone.len() as u32;
        let one = gone.len() <= 1;
        params[9] = gone.first().map_or(0, |dim| dim.strides[0]) as u32;
        let of = |dim: &Dim<1>| [dim.extent as u32, dim.strides[0] as u32, 0, 0];
        write_dims(&mut params, 0, kept.iter().rev().map(of));
        write_dims(&mut params, kept.len(), gone.iter().rev().map(of));
        let key = Key::Reduce(ReduceKey { join, elem: x.elem(), shared, one });
        let bindings: [Binding; 2] = [output, input];
        gpu.record(&KernelCall { op, key, params: &params, bindings: &bindings, groups })
    }
}

/// Returns the word that represents NaN.
fn nan(elem: crate::elem::Elem) -> u32 {
    match elem {
        crate::elem::Elem::F16 => 0x7e00,
        crate::elem::Elem::BF16 => 0x7fc0,
        _ => 0x7fc0_0000,
    }
}

/// Returns the word that a reduction of no elements gives.
fn empty(join: Join, elem: crate::elem::Elem) -> u32 {
    use crate::elem::Elem;
    let greatest = join == Join::Min;
    let infinity = |bits: u32, sign: u32| if greatest { bits } else { bits | sign };
    let signed = |least: i32, most: i32| if greatest { most.cast_unsigned() } else { least.cast_unsigned() };
    let unsigned = |most: u32| if greatest { most } else { 0 };
    match (join, elem) {
        (Join::Sum | Join::Mean, _) => 0,
        (_, Elem::F32) => infinity(0x7f80_0000, 0x8000_0000),
        (_, Elem::F16) => infinity(0x7c00, 0x8000),
        (_, Elem::BF16) => infinity(0x7f80, 0x8000),
        (_, Elem::I32) => signed(i32::MIN, i32::MAX),
        (_, Elem::I16) => signed(i16::MIN.into(), i16::MAX.into()),
        (_, Elem::I8) => signed(i8::MIN.into(), i8::MAX.into()),
        (_, Elem::U32) => unsigned(u32::MAX),
        (_, Elem::U16) => unsigned(u16::MAX.into()),
        (_, Elem::U8) => unsigned(u8::MAX.into()),
        (_, Elem::Bool) => unsigned(1),
    }
}
