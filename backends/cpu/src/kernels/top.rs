//! The largest or the smallest elements of rows.
//!
//! Elements are compared by their [keys](super::ordered), which are reversed if the largest elements are requested, so
//! that the smallest key always goes first. Most elements of a row are only compared with a limit. Elements within the
//! limit are collected. From time to time, all collected elements except the first `k` are dropped, which lowers the
//! limit.

use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::GRAIN;
use super::number::Number;
use super::ordered::{Key, Ordered};
use super::{Shared, walk};
use crate::pace::Pace;
use std::sync::atomic::{AtomicBool, Ordering};

/// If `k` is at most this number, the collected elements are stored on the stack.
const FEW: usize = 64;
/// The number of elements that are compared with the limit together.
const BLOCK: usize = 64;
/// The number of elements at the beginning of a row that determine its first limit.
const HEAD: usize = 4096;
/// The minimum number of elements that can be collected before most of them are dropped.
const ROOM: usize = 512;
/// The maximum number of steps of the search for the first limit. A limit above the lowest one only lets more elements
/// pass.
const STEPS: usize = 16;

/// The number of elements that are sorted without a check whether the run must end. Sorting them takes a few
/// milliseconds.
const UNWATCHED: usize = 1 << 17;
/// The cost of a comparison, in elements of a cheap operation.
const COMPARISON: usize = 4;

/// The key of an element, and its index in the row. For equal keys, the lower index goes first.
type Place<T> = (<T as Ordered>::Key, u32);

/// Returns a limit that at least `k` elements are within, and only few more if the elements are in random order.
///
/// The elements are distributed over `BLOCK` lanes. The smallest keys of `k` lanes are within the limit.
#[inline(always)]
fn first_limit<T: Ordered>(x: &[T], k: usize, largest: bool) -> T::Key {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    if k > BLOCK || blocks.len() < 2 {
        return T::Key::GREATEST;
    }
    let mut lanes = [T::Key::GREATEST; BLOCK];
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = Number::min(*lane, x.key().turned(largest));
        }
    }
    let (mut low, mut high) = (T::Key::GREATEST, T::Key::LEAST);
    for &lane in &lanes {
        (low, high) = (Number::min(low, lane), Number::max(high, lane));
    }
    // At least `k` lanes are within `high`, and fewer than `k` lanes are below `low`.
    for _ in 0..STEPS {
        if low >= high {
            break;
        }
        let middle = low.halfway(high);
        let within = lanes.iter().fold(0, |within, &lane| within + u8::from(lane <= middle));
        match usize::from(within).checked_sub(k) {
            None => low = middle.add(T::Key::ONE),
            Some(more) => {
                high = middle;
                if more <= k / 8 {
                    break;
                }
            }
        }
    }
    high
}

/// Returns the set of elements that are within the limit, one bit for each element.
#[inline(always)]
fn within<T: Ordered>(x: &[T; BLOCK], largest: bool, limit: T::Key) -> u64 {
    let mut bits = 0;
    for (at, &x) in x.iter().enumerate() {
        bits |= u64::from(x.key().turned(largest) <= limit) << at;
    }
    bits
}

/// The elements of a row that were within the limit.
struct Collected<'a, T: Ordered> {
    places: &'a mut [Place<T>],
    count: usize,
    k: usize,
    largest: bool,
    /// The limit for further elements, or `None` if no further element can be among the first `k`.
    limit: Option<T::Key>,
}

impl<T: Ordered> Collected<'_, T> {
    /// Adds the elements of a block that are within the limit. Blocks are added in the order of their indices.
    #[inline(always)]
    fn add(&mut self, x: &[T; BLOCK], mut bits: u64, start: u32, pace: &mut Pace) {
        if self.count + BLOCK > self.places.len() {
            self.drop_rest(pace);
        }
        let room = self.places.get_mut(self.count..).unwrap_or_default();
        self.count += bits.count_ones() as usize;
        for place in room {
            if bits == 0 {
                break;
            }
            let at = bits.trailing_zeros();
            bits &= bits - 1;
            let key = x.get(at as usize).map_or(T::Key::GREATEST, |x| x.key());
            *place = (key.turned(self.largest), start + at);
        }
    }

    /// Drops all collected elements except the first `k`, which stay in any order.
    #[cold]
    fn drop_rest(&mut self, pace: &mut Pace) {
        let collected = self.places.get_mut(..self.count).unwrap_or_default();
        if collected.len() <= self.k {
            return;
        }
        let (_, &mut (last, _), _) = match collected.len() {
            ..=UNWATCHED => collected.select_nth_unstable(self.k - 1),
            _ => collected.select_nth_unstable_by(self.k - 1, watched(pace)),
        };
        self.count = self.k;
        // Of equal elements, the element with the lower index goes first. So later elements that equal the last kept
        // element are not needed, and the limit excludes them.
        self.limit = (last > T::Key::LEAST).then(|| last.sub(T::Key::ONE));
    }

    /// Collects the elements of a row.
    #[inline(always)]
    fn row(&mut self, x: &[T], pace: &mut Pace) {
        let head = x.get(..HEAD).unwrap_or(x);
        (self.count, self.limit) = (0, Some(first_limit(head, self.k, self.largest)));
        let (blocks, rest) = x.as_chunks::<BLOCK>();
        let mut start = 0;
        for block in blocks {
            pace.step(BLOCK);
            let Some(limit) = self.limit else { return };
            let bits = within(block, self.largest, limit);
            if bits != 0 {
                self.add(block, bits, start, pace);
            }
            start += BLOCK as u32;
        }
        if let (Some(limit), false) = (self.limit, rest.is_empty()) {
            let mut block = [T::default(); BLOCK];
            block.split_at_mut(rest.len()).0.copy_from_slice(rest);
            let bits = within(&block, self.largest, limit) & ((1 << rest.len()) - 1);
            self.add(&block, bits, start, pace);
        }
    }

    /// Returns the first `k` collected elements in order.
    fn sorted(&mut self, pace: &mut Pace) -> &[Place<T>] {
        if self.count > 2 * self.k {
            self.drop_rest(pace);
        }
        let collected = self.places.get_mut(..self.count).unwrap_or_default();
        match collected.len() {
            ..=UNWATCHED => collected.sort_unstable(),
            _ => collected.sort_unstable_by(watched(pace)),
        }
        collected.get(..self.k).unwrap_or_default()
    }
}

/// Returns a comparison that also checks from time to time whether the run must end.
fn watched<P: Ord>(pace: &mut Pace) -> impl FnMut(&P, &P) -> std::cmp::Ordering {
    |a, b| {
        pace.step(COMPARISON);
        a.cmp(b)
    }
}

/// A loop that writes the first elements of each row and their indices.
struct RankedRows<'a, T: Ordered> {
    x: &'a [T],
    len: usize,
    collected: Collected<'a, T>,
    values: *mut T,
    positions: *mut i64,
}

impl<T: Ordered> VectorLoop for RankedRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let mut pace = Pace::new();
        let mut written = 0;
        for x in self.x.chunks_exact(self.len) {
            self.collected.row(x, &mut pace);
            for &(_, position) in self.collected.sorted(&mut pace) {
                let value = x.get(position as usize).copied().unwrap_or_default();
                // SAFETY: the creator of this value guarantees room for the first `k` elements of each row.
                unsafe {
                    self.values.add(written).write(value);
                    self.positions.add(written).write(i64::from(position));
                }
                written += 1;
            }
        }
    }
}

/// Writes the first `k` elements of each row of `len` elements in order, and their indices. Returns `false` if there is
/// no memory for the elements that it collects; the results are then incomplete.
///
/// # Safety
///
/// `x` points to `rows * len` elements, and `values` and `positions` to room for `rows * k`; `k` is not zero, and at
/// most `len`.
pub(crate) unsafe fn run<T: Ordered>(
    largest: bool,
    [rows, k]: [usize; 2],
    len: u32,
    x: *const T,
    values: *mut T,
    positions: *mut i64,
) -> bool {
    let (shared, len) = (Shared((x, values, positions)), len as usize);
    let lacking = AtomicBool::new(false);
    walk::split(rows, len.saturating_mul(2), GRAIN, |from, to| {
        let (x, values, positions) = shared.get();
        let mut few = [Place::<T>::default(); ROOM];
        let mut many = Vec::new();
        let places = if k <= FEW {
            few.as_mut_slice()
        } else {
            let room = ROOM.max(k.saturating_mul(4)).min(len.saturating_add(2 * BLOCK));
            if many.try_reserve_exact(room).is_err() {
                return lacking.store(true, Ordering::Relaxed);
            }
            many.resize(room, Place::<T>::default());
            many.as_mut_slice()
        };
        let collected = Collected { places, count: 0, k, largest, limit: None };
        // SAFETY: the rows are in the operand, and no other call writes their results.
        unsafe {
            let x = std::slice::from_raw_parts(x.add(from * len), (to - from) * len);
            let (values, positions) = (values.add(from * k), positions.add(from * k));
            dispatch(RankedRows { x, len, collected, values, positions });
        }
    });
    !lacking.into_inner()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;
    use bb::ir::convert::{bf16_from_f64, f16_from_f64};

    /// Checks that [`run`] selects the same elements as the start of a stable sort. `element` converts test numbers to
    /// the element type.
    fn first_of<T: Ordered + PartialOrd + std::fmt::Debug>(name: &str, element: impl Fn(f64) -> T) {
        let few = [[1, 1, 1], [3, 7, 7], [3, 40, 1], [2, 64, 64], [2, 127, 3], [2, 128, 5], [2, 129, 64]];
        let many = [[2, 500, 5], [2, 1000, 16], [1, 5000, 64], [1, 5000, 65], [2, 700, 700], [1, 9000, 300]];
        let kinds = ["mixed", "equal", "rising", "falling", "two"];
        for ([rows, len, k], kind) in few.into_iter().chain(many).flat_map(|e| kinds.map(|kind| (e, kind))) {
            let number = |i: usize| match (kind, i * 7919 % 2003) {
                ("equal", _) => 3.0,
                ("rising", _) => (i % len) as f64,
                ("falling", _) => (len - i % len) as f64,
                ("two", n) => f64::from(n > 1000),
                (_, n) if n % 10 == 9 => f64::NAN,
                (_, n) if n % 97 == 96 => f64::INFINITY,
                (_, n) if n % 97 == 95 => f64::NEG_INFINITY,
                (_, n) if n % 13 == 12 => -0.0,
                (_, n) => (n % 113) as f64 - 12.0,
            };
            let x: Vec<T> = (0..rows * len).map(|i| element(number(i))).collect();
            for largest in [false, true] {
                let is_nan = |x: T| x.partial_cmp(&x).is_none();
                let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or_else(|| is_nan(*a).cmp(&is_nan(*b)));
                let mut want = Vec::new();
                for x in x.chunks(len) {
                    let mut places: Vec<usize> = (0..len).collect();
                    // The operands of the comparison are swapped instead of reversing the sorted list, so that equal
                    // elements keep their order.
                    places.sort_by(|&a, &b| if largest { order(&x[b], &x[a]) } else { order(&x[a], &x[b]) });
                    want.extend(places[..k].iter().map(|&place| place as i64));
                }
                for level in levels() {
                    let (mut values, mut positions) = (vec![T::default(); rows * k], vec![0i64; rows * k]);
                    // SAFETY: the operand and the results have these extents.
                    let done = at(level, || {
                        as_if(2, || unsafe {
                            let out = (values.as_mut_ptr(), positions.as_mut_ptr());
                            run(largest, [rows, k], len as u32, x.as_ptr(), out.0, out.1)
                        })
                    });
                    assert!(done);
                    assert_eq!(positions, want, "{name} {kind} {level:?} {rows} {len} {k} {largest}");
                    for (i, (value, position)) in values.iter().zip(positions).enumerate() {
                        let source = &x[i / k * len + position as usize];
                        // The text distinguishes zeros of different signs.
                        assert_eq!(format!("{value:?}"), format!("{source:?}"));
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_elements_are_those_of_a_stable_sort() {
        first_of("f32", |x| x as f32);
        first_of("f64", |x| x);
        first_of("f16", f16_from_f64);
        first_of("bf16", bf16_from_f64);
        first_of("i8", |x| x as i8);
        first_of("u8", |x| x as u8);
        first_of("i64", |x| x as i64);
        first_of("u64", |x| (x as i64).cast_unsigned());
    }
}
