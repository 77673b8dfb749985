//! Attention for new positions of several sequences whose past keys and values are stored in blocks.
//!
//! A unit of work is a run of queries of one sequence that share keys, from neighbouring heads and positions. The result of a query
//! depends only on its sequence, bit for bit. It does not depend on the other queries in its unit, on whether keys are new or
//! cached, or on the blocks that store cached keys. To ensure this, every dot product adds the elements of a key in their order,
//! and averages add values in their order, in parts that begin at multiples of [`VALUES`].

mod kept;
mod table;

use super::conv::with_buffers;
use super::{computed, dense_f32, floats, rounded};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::gemm::{Dims, Strided, ordered};
use crate::kernels::{Shared, capped, softmax, transpose};
use crate::ops::{dense, made};
use bb::ext::RaggedAttentionOptions;
use bb::ir::memory;
use bb::{DataType, Shape, Tensor};
use kept::{CacheRows, PagedCache};
use std::ops::Range;
use table::{Sequence, Sequences, Table, numbers};

const OP: &str = "ragged_attention";

/// The number of scores (products of a query and a key) that are computed in one unit. They and their softmax stay in the
/// second-level cache.
const PRODUCTS: usize = 1 << 15;

/// The minimum and the maximum number of queries in a unit.
const QUERIES: [usize; 2] = [12, 96];

/// The number of keys in one matrix product.
const KEYS: usize = 128;

/// The number of values that one matrix product adds. Each part begins at a position that is a multiple of this number.
const VALUES: usize = 32;

/// Queries of one sequence that share keys.
#[derive(Debug, Clone, Copy)]
struct Unit {
    sequence: usize,
    group: usize,
    /// The first new position in the sequence, and the number of positions.
    first: usize,
    count: usize,
}

/// The operands. Their extents fit each other. All extents are positive.
struct Ragged<'a> {
    q: &'a Array,
    keys: PagedCache<'a>,
    values: PagedCache<'a>,
    sequences: Sequences,
    heads: usize,
    groups: usize,
    d: usize,
    e: usize,
    factor: f32,
    softcap: f32,
    left: Option<usize>,
}

/// The operands of a call, in the operation's order.
pub(super) struct PagedOperands<'a> {
    pub(super) new: [&'a Array; 3],
    pub(super) past: [&'a Array; 2],
    pub(super) numbers: [&'a Array; 3],
    pub(super) scales: [Option<&'a Array>; 2],
}

/// Computes attention. Returns `None` for unsupported types, for extents and numbers that do not fit (the operation's body reports
/// them), and for empty operands.
pub(super) fn attention(
    cpu: &Cpu,
    PagedOperands { new: [q, k, v], past: [past_k, past_v], numbers: [starts, pasts, table], scales }: &PagedOperands<
        '_,
    >,
    RaggedAttentionOptions { left, scale, softcap }: RaggedAttentionOptions,
) -> Result<Option<Array>> {
    let dtype = q.dtype();
    let kept = if scales.iter().any(Option::is_some) { DataType::I8 } else { k.dtype() };
    if !computed(q) || v.dtype() != k.dtype() || past_k.dtype() != kept || past_v.dtype() != kept {
        return Ok(None);
    }
    let (&[n, heads, d], &[k_count, groups, k_size], &[v_count, v_groups, e]) =
        (q.shape(), k.shape(), v.shape())
    else {
        return Ok(None);
    };
    let (&[blocks, size, kb_groups, kb_size], &[v_blocks, vb_rows, vb_groups, vb_size]) =
        (past_k.shape(), past_v.shape())
    else {
        return Ok(None);
    };
    let fits = [k_count, v_count] == [n, n]
        && [v_groups, kb_groups, vb_groups] == [groups; 3]
        && [k_size, kb_size, vb_size] == [d, d, e]
        && [v_blocks, vb_rows] == [blocks, size]
        && scales.iter().flatten().all(|scale| scale.shape() == [blocks, size, groups]);
    if !fits || [n, heads, groups, d, e].contains(&0) || !heads.is_multiple_of(groups) {
        return Ok(None);
    }
    let left = match left.map(usize::try_from) {
        None => None,
        Some(Ok(left)) => Some(left),
        Some(Err(_)) => return Ok(None),
    };
    let (Some(starts), Some(pasts)) = (numbers(cpu, starts)?, numbers(cpu, pasts)?) else { return Ok(None) };
    let (&[rows, width], Some(entries)) = (table.shape(), numbers(cpu, table)?) else { return Ok(None) };
    let table = Table { rows, width, entries, blocks, size };
    let Some(sequences) = table.sequences(&starts, &pasts, n)? else { return Ok(None) };
    let near = |x: &Array| {
        let strides = x.strides();
        let is_near = strides.last() == Some(&1) && strides.iter().all(|&stride| stride >= 0);
        if is_near { Ok(x.clone()) } else { dense(cpu.pool(), x) }
    };
    let (q, k, v) = (near(&rounded(cpu.pool(), (*q).clone(), DataType::F32)?)?, near(k)?, near(v)?);
    let (past_k, past_v) = (dense(cpu.pool(), past_k)?, dense(cpu.pool(), past_v)?);
    let [mut k_scale, mut v_scale] = [None, None];
    for (to, from) in [&mut k_scale, &mut v_scale].into_iter().zip(scales) {
        if let Some(scale) = from {
            let Some(scale) = dense_f32(cpu.pool(), scale)? else { return Ok(None) };
            *to = Some(scale);
        }
    }
    let factor = scale.unwrap_or_else(|| 1.0 / (d as f64).sqrt()) as f32;
    let keys = PagedCache::new(&k, &past_k, k_scale.as_ref());
    let (Some(keys), Some(values)) = (keys, PagedCache::new(&v, &past_v, v_scale.as_ref())) else {
        return Ok(None);
    };
    let softcap = softcap as f32;
    let ragged = Ragged { q: &q, keys, values, sequences, heads, groups, d, e, factor, softcap, left };
    let mut done = Ok(());
    let y = made(cpu.pool(), DataType::F32, Shape::from_slice(&[n, heads, e]), |out| {
        // SAFETY: the operands have these extents, and `out` has room for all results.
        done = unsafe { ragged.compute(cpu, out.cast()) };
    })?;
    done?;
    rounded(cpu.pool(), y, dtype).map(Some)
}

impl Ragged<'_> {
    /// Returns the number of query heads that share one key head.
    fn shared(&self) -> usize {
        self.heads / self.groups
    }

    /// Divides the work into units.
    fn units(&self) -> Result<Vec<Unit>> {
        let mut units = Vec::new();
        for (sequence, of) in self.sequences.list.iter().enumerate() {
            let t = of.past + of.new;
            let queries = (PRODUCTS / t.max(1)).clamp(QUERIES[0], QUERIES[1]);
            let most = (queries / self.shared()).max(1);
            for first in (0..of.new).step_by(most) {
                let count = most.min(of.new - first);
                for group in 0..self.groups {
                    memory::push(OP, &mut units, Unit { sequence, group, first, count })?;
                }
            }
        }
        Ok(units)
    }

    /// Computes all results and writes them to `out`.
    ///
    /// # Safety
    ///
    /// The operands have their extents, and `out` has room for the results.
    unsafe fn compute(&self, cpu: &Cpu, out: *mut f32) -> Result<()> {
        let &Ragged { d, e, .. } = self;
        let units = self.units()?;
        let shared = self.shared();
        let of = |unit: &Unit| self.sequences.list.get(unit.sequence).map_or(0, |of| of.past + of.new);
        let rows = units.iter().map(|unit| unit.count * shared).max().unwrap_or(0);
        // Each part begins at a cache line.
        let part = |rows: usize, columns: usize| rows.checked_mul(columns)?.checked_next_multiple_of(16);
        let parts = || {
            let products = units
                .iter()
                .try_fold(0, |most: usize, unit| Some(most.max(part(unit.count * shared, of(unit))?)))?;
            let wide = if self.keys.converts() { part(KEYS, d)? } else { 0 };
            let sizes =
                [products, products, part(rows, d)?, part(rows, e)?, part(d, KEYS)?, part(VALUES, e)?, wide];
            let room = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size))?;
            room.checked_mul(size_of::<f32>())?;
            Some((sizes, room))
        };
        let Some((sizes, room)) = parts() else { return Err(CpuError::no_memory(usize::MAX)) };
        let weight: usize = units.iter().fold(0, |sum, unit| {
            sum.saturating_add((unit.count * shared).saturating_mul(of(unit)).saturating_mul(d + e))
        });
        let to = Shared(out);
        with_buffers(cpu.pool(), room, units.len(), weight / units.len().max(1), |buffer, from, end| {
            let mut next = buffer;
            let [products, shares, scaled, sums, keys, values, wide] = sizes.map(|size| {
                let own = next;
                next = next.wrapping_add(size);
                own
            });
            let rooms = Rooms { products, shares, scaled, sums, keys, values, wide };
            for unit in units.get(from..end).unwrap_or_default() {
                if let Some(of) = self.sequences.list.get(unit.sequence) {
                    // SAFETY: the sequence exists, the buffer has room for the parts, and no other call writes the results of
                    // this unit.
                    unsafe { self.unit(of, unit, &rooms, to.get()) };
                }
            }
        })
    }

    /// Calls `f` for each run of keys or values that are consecutive in memory, over some positions of a sequence.
    ///
    /// # Safety
    ///
    /// The positions and the group exist.
    unsafe fn each(
        &self,
        kept: &PagedCache<'_>,
        (of, group): (&Sequence, usize),
        positions: Range<usize>,
        mut f: impl FnMut(Range<usize>, CacheRows<'_>),
    ) {
        let runs = self.sequences.runs.get(of.runs.clone()).unwrap_or_default();
        let reached = runs.partition_point(|run| run.first + run.count <= positions.start);
        for run in runs.iter().skip(reached).take_while(|run| run.first < positions.end) {
            let own = run.first.max(positions.start)..(run.first + run.count).min(positions.end);
            if own.is_empty() {
                continue;
            }
            let position = run.place.unwrap_or(of.start) + (own.start - run.first);
            // SAFETY: this function's contract.
            let rows = unsafe { kept.rows(run.place.is_some(), position, group) };
            f(own, rows);
        }
    }

    /// Computes the scores of scaled queries with the keys of some positions.
    ///
    /// # Safety
    ///
    /// The positions exist, and `rooms` has the queries and room for the scores.
    unsafe fn products(&self, of: (&Sequence, usize), rows: usize, positions: Range<usize>, rooms: &Rooms) {
        let &Ragged { d, .. } = self;
        let &Rooms { products, scaled, keys, wide, .. } = rooms;
        let t = positions.len();
        for first in positions.clone().step_by(KEYS) {
            let some = first..positions.end.min(first + KEYS);
            // SAFETY: this function's contract; each key has a column of its own.
            unsafe {
                self.each(&self.keys, of, some.clone(), |own, rows| {
                    let (from, row) = rows.single().unwrap_or_else(|| {
                        rows.copy(own.len(), d, wide);
                        (wide.cast_const(), d)
                    });
                    let to = keys.add(own.start - first).cast();
                    transpose::block::<true>(size_of::<f32>(), own.len(), d, to, KEYS, from.cast(), row);
                });
                let dims = Dims { m: rows, k: d, n: some.len() };
                let (left, right) =
                    (Strided::dense(scaled.cast_const(), d), Strided::dense(keys.cast_const(), KEYS));
                ordered(dims, products.add(first - positions.start), t, left, right, false);
            }
        }
    }

    /// Computes the averages of the values of some positions, weighted by their softmax. The first position is a multiple of
    /// [`VALUES`].
    ///
    /// # Safety
    ///
    /// The positions exist, and `rooms` has the softmax and room for the averages.
    unsafe fn averages(&self, of: (&Sequence, usize), rows: usize, positions: Range<usize>, rooms: &Rooms) {
        let &Ragged { e, .. } = self;
        let &Rooms { shares, sums, values, .. } = rooms;
        let t = positions.len().cast_signed();
        for first in positions.clone().step_by(VALUES) {
            let some = first..positions.end.min(first + VALUES);
            let mut right = Strided::dense(values.cast_const(), e);
            // SAFETY: this function's contract; each value has a row of its own.
            unsafe {
                self.each(&self.values, of, some.clone(), |own, rows| match rows.single() {
                    Some((from, row)) if own == some => right = Strided::dense(from, row),
                    _ => rows.copy(own.len(), e, values.add((own.start - first) * e)),
                });
                let left = Strided { ptr: shares.add(first - positions.start).cast_const(), row: t, col: 1 };
                ordered(Dims { m: rows, k: some.len(), n: e }, sums, e, left, right, first > positions.start);
            }
        }
    }

    /// Computes the results of a unit.
    ///
    /// # Safety
    ///
    /// The unit is of this sequence, and there is room for its parts and its results.
    unsafe fn unit(&self, of: &Sequence, unit: &Unit, rooms: &Rooms, out: *mut f32) {
        let &Ragged { heads, d, e, factor, .. } = self;
        let &Rooms { products, shares, scaled, sums, .. } = rooms;
        let shared = self.shared();
        let rows = unit.count * shared;
        let (head, position) = (unit.group * shared, of.past + unit.first);
        // All keys that any of the queries can attend to. Softmax adds in groups of fixed positions, so also include the keys from
        // the start of the first group.
        let least = |position: usize| self.left.map_or(0, |left| position.saturating_sub(left));
        let (from, to) = (softmax::start(least(position)), position + unit.count);
        let t = to - from;
        // SAFETY: this function's contract; all rows are in the operands.
        unsafe {
            let strides = self.q.strides();
            let &[by_position, by_head, 1] = &*strides else { return };
            for i in 0..unit.count {
                let row = (of.start + unit.first + i).cast_signed() * by_position;
                for j in 0..shared {
                    let x = floats(self.q).offset(row + (head + j).cast_signed() * by_head);
                    let x = std::slice::from_raw_parts(x, d);
                    let to = std::slice::from_raw_parts_mut(scaled.add((i * shared + j) * d), d);
                    to.iter_mut().zip(x).for_each(|(to, x)| *to = x * factor);
                }
            }
            self.products((of, unit.group), rows, from..to, rooms);
            if self.softcap > 0.0 {
                capped::capped(std::slice::from_raw_parts_mut(products, rows * t), self.softcap);
            }
            for i in 0..unit.count {
                let (first, end) = (least(position + i) - from, position + i + 1 - from);
                for row in i * shared..(i + 1) * shared {
                    let row = std::slice::from_raw_parts_mut(products.add(row * t), t);
                    row.iter_mut().take(first).for_each(|x| *x = f32::NEG_INFINITY);
                    row.iter_mut().skip(end).for_each(|x| *x = f32::NEG_INFINITY);
                }
            }
            softmax::of_any_rest([rows, t], shares, products.cast_const());
            self.averages((of, unit.group), rows, from..to, rooms);
            for i in 0..unit.count {
                let to = out.add(((of.start + unit.first + i) * heads + head) * e);
                std::ptr::copy_nonoverlapping(sums.add(i * shared * e), to, shared * e);
            }
        }
    }
}

/// The buffers for one unit.
struct Rooms {
    products: *mut f32,
    shares: *mut f32,
    scaled: *mut f32,
    sums: *mut f32,
    /// A block of keys, as the columns of a matrix.
    keys: *mut f32,
    /// A block of values, as contiguous rows.
    values: *mut f32,
    /// A block of keys, converted to `f32`.
    wide: *mut f32,
}
