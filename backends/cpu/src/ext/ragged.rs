//! Attention of new positions of several sequences, whose pasts lie in blocks. Halves are widened.
//!
//! A unit of work is a run of queries of one sequence that share keys: those of neighbouring heads and positions. Blocks that lie one
//! behind another in memory are multiplied at once, so that a sequence whose blocks do costs as much as one without blocks.

use super::conv::with_buffers;
use super::{floats, rounded};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::{CpuError, Result};
use crate::gemm::{Dims, Strided, gemm};
use crate::kernels::{Shared, capped, softmax};
use crate::ops::{dense, made};
use bb::ext::RaggedAttentionOptions;
use bb::{DataType, Shape, Tensor};

/// The number of products that are computed at once. They and their shares stay in the second-level cache.
const PRODUCTS: usize = 1 << 15;

/// The least and the greatest number of queries that are computed at once.
const QUERIES: [usize; 2] = [12, 96];

/// Keys and values that lie one behind another.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The first position in the sequence, and how many there are.
    first: usize,
    count: usize,
    /// The position in all blocks, one behind another; `None` for new positions.
    place: Option<usize>,
}

/// One of the sequences.
#[derive(Debug)]
struct Sequence {
    /// Its first new position among all, and how many it has.
    start: usize,
    new: usize,
    past: usize,
    runs: Vec<Run>,
}

/// Queries of a sequence that share keys.
#[derive(Debug, Clone, Copy)]
struct Unit {
    sequence: usize,
    group: usize,
    /// The first new position in the sequence, and how many there are.
    first: usize,
    count: usize,
}

/// The operands, whose extents fit each other and are not 0.
struct Ragged<'a> {
    q: &'a Array,
    k: &'a Array,
    v: &'a Array,
    past_k: &'a Array,
    past_v: &'a Array,
    sequences: Vec<Sequence>,
    heads: usize,
    groups: usize,
    d: usize,
    e: usize,
    factor: f32,
    softcap: f32,
    left: Option<usize>,
}

/// The operands of a call, in their order.
pub(super) struct Operands<'a> {
    pub(super) new: [&'a Array; 3],
    pub(super) past: [&'a Array; 2],
    pub(super) numbers: [&'a Array; 3],
}

/// Computes attention; returns `None` for other types, for extents and numbers that do not fit, which the operation's body refuses,
/// and where there is nothing to compute.
pub(super) fn attention(
    cpu: &Cpu,
    Operands { new: [q, k, v], past: [past_k, past_v], numbers: [starts, pasts, table] }: &Operands<'_>,
    RaggedAttentionOptions { left, scale, softcap }: RaggedAttentionOptions,
) -> Result<Option<Array>> {
    let dtype = q.dtype();
    if ![k, v, past_k, past_v].into_iter().all(|x| x.dtype() == dtype) {
        return Ok(None);
    }
    if matches!(dtype, DataType::F16 | DataType::BF16) {
        // All blocks are widened, also those of no sequence: it costs as much as the body, which gathers the pasts.
        let wide = |x: &Array| rounded(cpu.pool(), x.clone(), DataType::F32);
        let (new, past) = ([&wide(q)?, &wide(k)?, &wide(v)?], [&wide(past_k)?, &wide(past_v)?]);
        let operands = Operands { new, past, numbers: [*starts, *pasts, *table] };
        let options = RaggedAttentionOptions { left, scale, softcap };
        return attention(cpu, &operands, options)?.map(|y| rounded(cpu.pool(), y, dtype)).transpose();
    }
    if dtype != DataType::F32 {
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
        && [v_blocks, vb_rows] == [blocks, size];
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
    let Some(sequences) = table.sequences(&starts, &pasts, n) else { return Ok(None) };
    let near = |x: &Array| if x.strides().last() == Some(&1) { Ok(x.clone()) } else { dense(cpu.pool(), x) };
    let (q, k, v) = (near(q)?, near(k)?, near(v)?);
    let (past_k, past_v) = (dense(cpu.pool(), past_k)?, dense(cpu.pool(), past_v)?);
    let factor = scale.unwrap_or_else(|| 1.0 / (d as f64).sqrt()) as f32;
    let (past_k, past_v) = (&past_k, &past_v);
    let ragged = Ragged {
        q: &q,
        k: &k,
        v: &v,
        past_k,
        past_v,
        sequences,
        heads,
        groups,
        d,
        e,
        factor,
        softcap: softcap as f32,
        left,
    };
    let mut done = Ok(());
    let y = made(cpu.pool(), DataType::F32, Shape::from_slice(&[n, heads, e]), |out| {
        // SAFETY: the operands have these extents, and `out` has room for all results.
        done = unsafe { ragged.compute(cpu, out.cast()) };
    })?;
    done?;
    Ok(Some(y))
}

/// Reads integers; `None` for other types. A negative one becomes the greatest number, which fits nowhere.
fn numbers(cpu: &Cpu, x: &Array) -> Result<Option<Vec<usize>>> {
    let x = dense(cpu.pool(), x)?;
    if x.is_empty() {
        return Ok(Some(Vec::new()));
    }
    // Entries of a table behind the length of a sequence may be negative: they are not looked at.
    let read = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    // SAFETY: the elements are contiguous, have this type, and are not written while the array exists.
    Ok(unsafe {
        match x.dtype() {
            DataType::I32 => Some(
                std::slice::from_raw_parts(x.ptr().cast::<i32>(), x.len())
                    .iter()
                    .map(|&i| read(i.into()))
                    .collect(),
            ),
            DataType::I64 => Some(
                std::slice::from_raw_parts(x.ptr().cast::<i64>(), x.len()).iter().map(|&i| read(i)).collect(),
            ),
            _ => None,
        }
    })
}

/// Where the pasts of sequences lie.
struct Table {
    rows: usize,
    width: usize,
    entries: Vec<usize>,
    blocks: usize,
    size: usize,
}

impl Table {
    /// Returns the sequences; `None` if the numbers do not fit.
    fn sequences(&self, starts: &[usize], pasts: &[usize], new: usize) -> Option<Vec<Sequence>> {
        if starts.len() != pasts.len() + 1 || pasts.len() != self.rows {
            return None;
        }
        if starts.first() != Some(&0) || starts.last() != Some(&new) {
            return None;
        }
        let mut sequences = Vec::with_capacity(pasts.len());
        for (i, (pair, &past)) in starts.windows(2).zip(pasts).enumerate() {
            let &[start, end] = pair else { return None };
            let new = end.checked_sub(start)?;
            if past > self.width.checked_mul(self.size)? {
                return None;
            }
            let entries = self.entries.get(i * self.width..(i + 1) * self.width)?;
            let mut runs: Vec<Run> = Vec::new();
            for (j, &block) in entries.iter().enumerate() {
                let first = j * self.size;
                if first >= past {
                    break;
                }
                if block >= self.blocks {
                    return None;
                }
                let (count, place) = (self.size.min(past - first), block * self.size);
                match runs.last_mut() {
                    Some(run) if run.place == Some(place.wrapping_sub(run.count)) => run.count += count,
                    _ => runs.push(Run { first, count, place: Some(place) }),
                }
            }
            runs.push(Run { first: past, count: new, place: None });
            sequences.push(Sequence { start, new, past, runs });
        }
        Some(sequences)
    }
}

impl Ragged<'_> {
    /// The number of heads that share keys.
    fn shared(&self) -> usize {
        self.heads / self.groups
    }

    /// Divides the work.
    fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for (sequence, of) in self.sequences.iter().enumerate() {
            let t = of.past + of.new;
            let queries = (PRODUCTS / t.max(1)).clamp(QUERIES[0], QUERIES[1]);
            let most = (queries / self.shared()).max(1);
            for first in (0..of.new).step_by(most) {
                let count = most.min(of.new - first);
                units.extend((0..self.groups).map(|group| Unit { sequence, group, first, count }));
            }
        }
        units
    }

    /// Writes all results.
    ///
    /// # Safety
    ///
    /// The operands have their extents, and `out` has room for the results.
    unsafe fn compute(&self, cpu: &Cpu, out: *mut f32) -> Result<()> {
        let units = self.units();
        let shared = self.shared();
        let of = |unit: &Unit| self.sequences.get(unit.sequence).map_or(0, |of| of.past + of.new);
        let rows = units.iter().map(|unit| unit.count * shared).max().unwrap_or(0);
        // Each part begins at a cache line.
        let part = |rows: usize, columns: usize| rows.checked_mul(columns)?.checked_next_multiple_of(16);
        let parts = || {
            let products = units.iter().map(|unit| part(unit.count * shared, of(unit))).max()??;
            let (queries, results) = (part(rows, self.d)?, part(rows, self.e)?);
            let room = products.checked_mul(2)?.checked_add(queries)?.checked_add(results.checked_mul(2)?)?;
            room.checked_mul(size_of::<f32>())?;
            Some(([products, queries, results], room))
        };
        let Some((sizes, room)) = parts() else { return Err(CpuError::no_memory(usize::MAX)) };
        let weight: usize = units.iter().fold(0, |sum, unit| {
            sum.saturating_add((unit.count * shared).saturating_mul(of(unit)).saturating_mul(self.d + self.e))
        });
        let to = Shared(out);
        with_buffers(cpu.pool(), room, units.len(), weight / units.len().max(1), |buffer, from, end| {
            let [products, queries, results] = sizes;
            // SAFETY: the buffer has room for the parts.
            let rooms = unsafe {
                let scaled = buffer.add(2 * products);
                let sums = scaled.add(queries);
                Rooms {
                    products: buffer,
                    shares: buffer.add(products),
                    scaled,
                    sums,
                    added: sums.add(results),
                }
            };
            for unit in units.get(from..end).unwrap_or_default() {
                if let Some(of) = self.sequences.get(unit.sequence) {
                    // SAFETY: there is such a sequence, and no other call writes the results of this unit.
                    unsafe { self.unit(of, unit, &rooms, to.get()) };
                }
            }
        })
    }

    /// Returns the keys or the values of a run and a group: a row for each position.
    ///
    /// # Safety
    ///
    /// There are such positions and such a group.
    unsafe fn rows(&self, of: &Sequence, run: &Run, from: usize, group: usize, values: bool) -> Strided<f32> {
        let (new, past) = if values { (self.v, self.past_v) } else { (self.k, self.past_k) };
        let at = |i: usize, stride: isize| i.cast_signed() * stride;
        // SAFETY: this function's contract.
        unsafe {
            match (run.place, &*past.strides(), &*new.strides()) {
                (Some(place), &[_, row, by_group, col], _) => {
                    let first = place + (from - run.first);
                    Strided { ptr: floats(past).offset(at(first, row) + at(group, by_group)), row, col }
                }
                (_, _, &[row, by_group, col]) => {
                    let first = of.start + (from - run.first);
                    Strided { ptr: floats(new).offset(at(first, row) + at(group, by_group)), row, col }
                }
                _ => Strided { ptr: floats(new), row: 0, col: 0 },
            }
        }
    }

    /// Writes the results of a unit.
    ///
    /// # Safety
    ///
    /// The unit is of this sequence, and there is room for its parts and its results.
    unsafe fn unit(&self, of: &Sequence, unit: &Unit, rooms: &Rooms, out: *mut f32) {
        let &Ragged { heads, d, e, factor, .. } = self;
        let &Rooms { products, shares, scaled, sums, added } = rooms;
        let shared = self.shared();
        let rows = unit.count * shared;
        let (head, position) = (unit.group * shared, of.past + unit.first);
        // The keys that any of the queries reaches: `from..to`.
        let least = |position: usize| self.left.map_or(0, |left| position.saturating_sub(left));
        let (from, to) = (least(position), position + unit.count);
        let t = to - from;
        let runs = of.runs.iter().filter_map(|run| {
            let (first, end) = (run.first.max(from), (run.first + run.count).min(to));
            (first < end).then(|| (run, first, end - first))
        });
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
            let left = Strided::dense(scaled.cast_const(), d);
            for (run, first, count) in runs.clone() {
                let keys = self.rows(of, run, first, unit.group, false).transposed();
                gemm(Dims { m: rows, k: d, n: count }, products.add(first - from), t, left, keys);
            }
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
            softmax::softmax::<false>([rows, t], shares, products.cast_const());
            for (i, (run, first, count)) in runs.enumerate() {
                let values = self.rows(of, run, first, unit.group, true);
                let weights =
                    Strided { ptr: shares.add(first - from).cast_const(), row: t.cast_signed(), col: 1 };
                let to = if i == 0 { sums } else { added };
                gemm(Dims { m: rows, k: count, n: e }, to, e, weights, values);
                if i > 0 {
                    let (sums, added) = (
                        std::slice::from_raw_parts_mut(sums, rows * e),
                        std::slice::from_raw_parts(added.cast_const(), rows * e),
                    );
                    sums.iter_mut().zip(added).for_each(|(sum, x)| *sum += x);
                }
            }
            for i in 0..unit.count {
                let to = out.add(((of.start + unit.first + i) * heads + head) * e);
                std::ptr::copy_nonoverlapping(sums.add(i * shared * e), to, shared * e);
            }
        }
    }
}

/// Where a unit keeps its parts.
struct Rooms {
    products: *mut f32,
    shares: *mut f32,
    scaled: *mut f32,
    sums: *mut f32,
    added: *mut f32,
}
