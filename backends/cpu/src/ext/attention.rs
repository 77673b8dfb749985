//! Attention of `f32`. It computes a block of queries at a time: their products with all keys, the softmax, and the averages of
//! the values stay in the second-level cache, so the whole score matrix never exists in memory.

use super::conv::with_buffers;
use super::floats;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::gemm::pack::panel;
use crate::gemm::{self, Around, Dims, Strided, gemm};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::{Shared, softmax};
use crate::layout::broadcast_strides;
use crate::ops::{dense, made};
use bb::ext::AttentionOptions;
use bb::{DataType, Shape, Tensor};

/// The number of scores (products of a query and a key) that are computed in one block. They and their softmax stay in the
/// second-level cache.
const PRODUCTS: usize = 1 << 15;

/// The minimum and the maximum number of queries in a block. Both are multiples of [`TILE`], the number of rows of a tile.
const QUERIES: [usize; 2] = [12, 96];
const TILE: usize = 12;

/// The minimum number of queries that makes packing the keys worthwhile.
const PACKED: usize = 9;

/// The operands. Their extents fit each other. All extents are positive.
struct Attention<'a> {
    q: &'a Array,
    k: &'a Array,
    v: &'a Array,
    /// The bias that is added to the scores, with its strides in `[b, h, s, t]`.
    bias: Option<(&'a Array, [isize; 4])>,
    /// Whether minus infinity in the bias excludes a key even if its score is NaN or infinite.
    excludes: bool,
    /// The numbers of batches, query heads and key heads.
    batches: usize,
    heads: usize,
    groups: usize,
    /// The numbers of queries and keys, and of the elements of a key and of a value.
    s: usize,
    t: usize,
    d: usize,
    e: usize,
    factor: f32,
}

/// Computes attention. Returns `None` for other types, for options that the operation's body handles, and for extents that do
/// not fit, which the body reports.
pub(super) fn attention(
    cpu: &Cpu,
    [q, k, v]: [&Array; 3],
    bias: Option<&Array>,
    AttentionOptions { scale, softcap, precision, excludes }: AttentionOptions,
) -> Result<Option<Array>> {
    let single = |x: &Array| x.dtype() == DataType::F32;
    let plain = softcap <= 0.0 && precision.is_none_or(|precision| precision == DataType::F32);
    if !plain || ![q, k, v].into_iter().chain(bias).all(single) {
        return Ok(None);
    }
    // The rows of values are read in place, so their elements must be contiguous.
    let v = if v.strides().last() == Some(&1) { v.clone() } else { dense(cpu.pool(), v)? };
    let (&[b, h, s, d], &[k_batch, g, t, k_size], &[v_batch, v_heads, v_count, e]) =
        (q.shape(), k.shape(), v.shape())
    else {
        return Ok(None);
    };
    let fits = [k_batch, v_batch] == [b, b] && v_heads == g && k_size == d && v_count == t;
    if !fits || [b, h, g, s, t, d, e].contains(&0) || !h.is_multiple_of(g) {
        return Ok(None);
    }
    let bias = match bias {
        None => None,
        Some(bias) => match spread(bias, [b, h, s, t]) {
            Some(strides) => Some((bias, strides)),
            None => return Ok(None),
        },
    };
    let factor = scale.unwrap_or_else(|| 1.0 / (d as f64).sqrt()) as f32;
    let attention =
        Attention { q, k, v: &v, bias, excludes, batches: b, heads: h, groups: g, s, t, d, e, factor };
    let mut done = Ok(());
    let y = made(cpu.pool(), DataType::F32, Shape::from_slice(&[b, h, s, e]), |out| {
        // SAFETY: the operands have these extents, and `out` has room for all results.
        done = unsafe { attention.compute(cpu, out.cast()) };
    })?;
    done?;
    Ok(Some(y))
}

/// Returns the strides that broadcast a bias to the scores. Returns `None` if the bias does not broadcast, or if the elements
/// of its last dimension are not contiguous.
fn spread(bias: &Array, products: [usize; 4]) -> Option<[isize; 4]> {
    let shape = bias.shape();
    let missing = products.len().checked_sub(shape.len())?;
    let fits = shape.iter().zip(products.iter().skip(missing)).all(|(&own, &all)| own == 1 || own == all);
    let strides = broadcast_strides(shape, &bias.strides(), &products);
    let &[b, h, s, t] = strides.as_slice() else { return None };
    (fits && matches!(t, 0 | 1)).then_some([b, h, s, t])
}

/// Returns the strides of a tensor with four dimensions.
fn strides(x: &Array) -> [isize; 4] {
    let mut own = [0; 4];
    own.iter_mut().zip(x.strides()).for_each(|(own, stride)| *own = stride);
    own
}

impl Attention<'_> {
    /// Computes all results and writes them to `out`. A unit of work is one head of one batch.
    ///
    /// # Safety
    ///
    /// The operands have their extents, and `out` has room for the results.
    unsafe fn compute(&self, cpu: &Cpu, out: *mut f32) -> Result<()> {
        let &Attention { batches, heads, groups, s, t, d, e, .. } = self;
        let queries = (PRODUCTS / t / TILE * TILE).clamp(QUERIES[0], QUERIES[1]).min(s);
        let width = gemm::panel_width::<f32>();
        // Each part begins at a cache line. An operand that repeats elements can have arbitrarily large extents, so check for
        // overflow.
        let part = |rows: usize, columns: usize| rows.checked_mul(columns)?.checked_next_multiple_of(16);
        let parts = || {
            let keys = if s >= PACKED { part(t.checked_next_multiple_of(width)?, d)? } else { 0 };
            let products = part(queries, t)?;
            let room = products.checked_mul(2)?.checked_add(keys)?.checked_add(part(queries, d)?)?;
            room.checked_mul(size_of::<f32>())?;
            Some([keys, products, room])
        };
        let Some([packed, products, room]) = parts() else {
            return Err(CpuError::no_memory(usize::MAX));
        };
        let weight = s.saturating_mul(t).saturating_mul(d.saturating_add(e));
        let shared = Shared(out);
        with_buffers(cpu.pool(), room, batches * heads, weight, |buffer, from, to| {
            let mut before = None;
            for unit in from..to {
                let (batch, head) = (unit / heads, unit % heads);
                let group = head / (heads / groups);
                // SAFETY: the buffer has room for the parts, and no other call writes the results of this head.
                unsafe {
                    let keys = if packed == 0 {
                        std::ptr::null()
                    } else {
                        if before != Some((batch, group)) {
                            self.pack(batch, group, buffer);
                        }
                        buffer.cast_const()
                    };
                    before = Some((batch, group));
                    let rooms = [0, products, 2 * products].map(|at| buffer.add(packed + at));
                    self.head([batch, head, group], queries, keys, rooms, shared.get().add(unit * s * e));
                }
            }
        })
    }

    /// Packs the keys of a group as the right operand of a matrix product.
    ///
    /// # Safety
    ///
    /// `to` has room for the panels.
    unsafe fn pack(&self, batch: usize, group: usize, to: *mut f32) {
        let &Attention { t, d, .. } = self;
        let width = gemm::panel_width::<f32>();
        // SAFETY: the keys are in the operand, and each panel has its own room.
        unsafe {
            let keys = self.keys(batch, group);
            for (i, first) in (0..t).step_by(width).enumerate() {
                let x = Strided { ptr: keys.ptr.offset(first.cast_signed() * keys.col), ..keys };
                panel(d, width.min(t - first), width, x, to.add(i * d * width));
            }
        }
    }

    /// Returns the keys of a group as the columns of a matrix.
    ///
    /// # Safety
    ///
    /// The batch and the group exist.
    unsafe fn keys(&self, batch: usize, group: usize) -> Strided<f32> {
        let [b, g, t, d] = strides(self.k);
        // SAFETY: the caller guarantees that the group is valid.
        let ptr = unsafe { floats(self.k).offset(batch.cast_signed() * b + group.cast_signed() * g) };
        Strided { ptr, row: d, col: t }
    }

    /// Computes the results of a head. `keys` is null if the keys are not packed. The three buffers are for the scores, their
    /// softmax, and the scaled queries.
    ///
    /// # Safety
    ///
    /// The head exists, each buffer has room for `queries` rows, and there is room for the results.
    unsafe fn head(
        &self,
        [batch, head, group]: [usize; 3],
        queries: usize,
        keys: *const f32,
        [products, shares, scaled]: [*mut f32; 3],
        out: *mut f32,
    ) {
        let &Attention { q, v, s, t, d, e, factor, .. } = self;
        let at = |[b, h, ..]: [isize; 4], head: usize| batch.cast_signed() * b + head.cast_signed() * h;
        let [of_q, of_v] = [q, v].map(strides);
        // SAFETY: this function's contract; all rows are in the operands.
        unsafe {
            let values = floats(v).offset(at(of_v, group));
            let values = Strided { ptr: values, row: of_v[2], col: of_v[3] };
            for top in (0..s).step_by(queries) {
                let rows = queries.min(s - top);
                for i in 0..rows {
                    let from = floats(q).offset(at(of_q, head) + (top + i).cast_signed() * of_q[2]);
                    let to = std::slice::from_raw_parts_mut(scaled.add(i * d), d);
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = *from.offset(j.cast_signed() * of_q[3]) * factor;
                    }
                }
                let left = Strided::dense(scaled.cast_const(), d);
                let dims = Dims { m: rows, k: d, n: t };
                if keys.is_null() {
                    gemm(dims, products, t, left, self.keys(batch, group));
                } else {
                    gemm::packed(dims, products, t, left, keys, Around::NONE, false);
                }
                if let Some((bias, strides)) = self.bias {
                    for i in 0..rows {
                        let row = at(strides, head) + (top + i).cast_signed() * strides[2];
                        let from = floats(bias).offset(row);
                        let to = std::slice::from_raw_parts_mut(products.add(i * t), t);
                        let count = if strides[3] == 0 { 1 } else { t };
                        let from = std::slice::from_raw_parts(from, count);
                        dispatch(Plus { to, from, excludes: self.excludes });
                    }
                }
                softmax::softmax::<false>([rows, t], shares, products);
                if let Some((bias, strides)) = self.bias {
                    for i in 0..rows {
                        let row = at(strides, head) + (top + i).cast_signed() * strides[2];
                        let count = if strides[3] == 0 { 1 } else { t };
                        let from = std::slice::from_raw_parts(floats(bias).offset(row), count);
                        // If the bias masks all keys, no key has a weight, so the softmax is set to zero.
                        if from.iter().all(|&x| x == f32::NEG_INFINITY) {
                            std::slice::from_raw_parts_mut(shares.add(i * t), t).fill(0.0);
                        }
                    }
                }
                let shares = Strided::dense(shares.cast_const(), t);
                gemm(Dims { m: rows, k: t, n: e }, out.add(top * e), e, shares, values);
            }
        }
    }
}

/// Adds a row, or one number for the whole row.
struct Plus<'a> {
    to: &'a mut [f32],
    from: &'a [f32],
    /// Whether adding minus infinity always gives minus infinity.
    excludes: bool,
}

impl VectorLoop for Plus<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Plus { to, from, excludes } = self;
        match *from {
            [f32::NEG_INFINITY] if excludes => to.fill(f32::NEG_INFINITY),
            [one] => to.iter_mut().for_each(|to| *to += one),
            _ if excludes => to.iter_mut().zip(from).for_each(|(to, &from)| {
                *to = if from == f32::NEG_INFINITY { from } else { *to + from };
            }),
            _ => to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};
    use bb::ext::Llm;
    use bb::{Backend, TensorData};

    /// The mask excludes two keys from all queries except the last query.
    #[test]
    fn what_a_mask_excludes_takes_no_part_whatever_its_product_is() {
        let cpu = Cpu::builder().threads(1).build().unwrap();
        let array = |shape: &[usize], x: &[f32]| cpu.constant(&TensorData::new(shape, x).unwrap()).unwrap();
        let numbers =
            |len: usize| (0..len).map(|i| (i * 7919 % 2003) as f32 / 1001.5 - 1.0).collect::<Vec<_>>();
        for [s, t, d, e] in [[1, 40, 8, 8], [8, 40, 8, 24], [9, 77, 16, 8], [130, 300, 8, 8]] {
            let (q, k, v) = (numbers(s * d), numbers(t * d), numbers(t * e));
            let hidden = [3, t - 2];
            let run = |other: f32, rows: usize, excludes: bool| {
                let mut k = k.clone();
                hidden.iter().for_each(|key| k[key * d..][..d].fill(other));
                let out = |i: usize| hidden.contains(&(i % t)) && (rows == 1 || i / t < s - 1);
                let bias: Vec<f32> =
                    (0..rows * t).map(|i| if out(i) { f32::NEG_INFINITY } else { 0.25 }).collect();
                let [q, k] = [(&q, s), (&k, t)].map(|(x, n)| array(&[1, 1, n, d], x));
                let v = array(&[1, 1, t, e], &v);
                let options = AttentionOptions { excludes, ..Default::default() };
                let y = cpu.attention(&q, &k, &v, Some(&array(&[rows, t], &bias)), options).unwrap();
                cpu.to_host(&y).unwrap().as_slice::<f32>().unwrap().to_vec()
            };
            for (level, other, rows) in levels().into_iter().flat_map(|level| {
                [f32::INFINITY, f32::NAN, 1e38].into_iter().flat_map(move |x| [(level, x, 1), (level, x, s)])
            }) {
                at(level, || {
                    let (want, got, added) =
                        (run(0.5, rows, true), run(other, rows, true), run(other, rows, false));
                    let all_hidden = if rows == 1 { s } else { s - 1 };
                    assert_eq!(got[..all_hidden * e], want[..all_hidden * e], "{level:?} {other} {s} {rows}");
                    // A sum with NaN is NaN.
                    assert!(!other.is_nan() || added.iter().all(|y| y.is_nan()), "{level:?} {s} {rows}");
                    assert!(!other.is_nan() || got[all_hidden * e..].iter().all(|y| y.is_nan()));
                });
            }
        }
    }
}
