//! The greatest or the least elements of rows.

use super::dispatch::{VectorLoop, dispatch};
use super::elementwise::GRAIN;
use super::number::Number;
use super::{Shared, walk};
use crate::pace::Pace;

/// The most elements of a row that the kernel looks for. It keeps them ordered, which costs more the more they are.
pub(crate) const MOST: usize = 64;
/// The number of elements that are compared with the last of those kept before any is looked at.
const BLOCK: usize = 32;

/// Tells whether `a` goes before `b`. NaN is greater than all numbers.
#[inline(always)]
fn before<T: Number>(largest: bool, a: T, b: T) -> bool {
    let nan = |x: T| x.partial_cmp(&x).is_none();
    if largest { (a > b) | (nan(a) & !nan(b)) } else { (a < b) | (nan(b) & !nan(a)) }
}

/// Whether any element of a block goes before another element.
struct AnyBefore<'a, T> {
    x: &'a [T; BLOCK],
    than: T,
    largest: bool,
}

impl<T: Number> VectorLoop for AnyBefore<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        self.x.iter().fold(false, |any, &x| any | before(self.largest, x, self.than))
    }
}

/// The first elements of a row in order, with their positions. Of equal elements the earlier goes first.
struct Kept<'a, T> {
    values: &'a mut [T],
    positions: &'a mut [i64],
    count: usize,
    largest: bool,
}

impl<T: Number> Kept<'_, T> {
    /// Takes the element in if it goes before one of those that are kept.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "both have room for the same number, which is above `at`")]
    fn offer(&mut self, x: T, position: i64) {
        let room = self.values.len();
        if self.count == room && !before(self.largest, x, self.values[room - 1]) {
            return;
        }
        self.count = room.min(self.count + 1);
        let mut at = self.count - 1;
        while at > 0 && before(self.largest, x, self.values[at - 1]) {
            self.values[at] = self.values[at - 1];
            self.positions[at] = self.positions[at - 1];
            at -= 1;
        }
        self.values[at] = x;
        self.positions[at] = position;
    }

    /// Takes a whole row in.
    fn row(&mut self, x: &[T], pace: &mut Pace) {
        let first = self.values.len().min(x.len());
        let mut position = 0;
        let (head, tail) = x.split_at(first);
        for &x in head {
            self.offer(x, position);
            position += 1;
        }
        let (blocks, rest) = tail.as_chunks::<BLOCK>();
        for block in blocks {
            pace.step(BLOCK);
            let Some(&than) = self.values.last() else { return };
            if dispatch(AnyBefore { x: block, than, largest: self.largest }) {
                for (&x, position) in block.iter().zip(position..) {
                    self.offer(x, position);
                }
            }
            position += BLOCK as i64;
        }
        for (&x, position) in rest.iter().zip(position..) {
            self.offer(x, position);
        }
    }
}

/// Writes the first `k` elements of each row in order, and their positions.
///
/// # Safety
///
/// `x` holds `rows * len` elements, and `values` and `positions` have room for `rows * k`; `k` is not zero, and at most
/// `len`.
pub(crate) unsafe fn run<T: Number>(
    largest: bool,
    [rows, len, k]: [usize; 3],
    x: *const T,
    values: *mut T,
    positions: *mut i64,
) {
    let shared = Shared((x, values, positions));
    walk::split(rows, len.saturating_mul(2), GRAIN, |from, to| {
        let (x, values, positions) = shared.get();
        let mut pace = Pace::new();
        let mut kept = ([T::default(); MOST], [0i64; MOST]);
        for row in from..to {
            // SAFETY: the row is one of the operand's.
            let x = unsafe { std::slice::from_raw_parts(x.add(row * len), len) };
            let (Some(v), Some(p)) = (kept.0.get_mut(..k), kept.1.get_mut(..k)) else { return };
            Kept { values: v, positions: p, count: 0, largest }.row(x, &mut pace);
            // SAFETY: the row's results have their own places.
            unsafe {
                std::ptr::copy_nonoverlapping(v.as_ptr(), values.add(row * k), k);
                std::ptr::copy_nonoverlapping(p.as_ptr(), positions.add(row * k), k);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;
    use std::cmp::Ordering;

    #[test]
    fn the_first_elements_are_those_of_a_stable_sort() {
        for [rows, len, k] in [[1, 1, 1], [3, 7, 7], [3, 40, 1], [2, 500, 5], [2, 129, 64], [1, 64, 64]] {
            let number = |i: usize| match i * 7919 % 101 {
                n if n % 10 == 9 => f32::NAN,
                n => (n % 13) as f32,
            };
            let x: Vec<f32> = (0..rows * len).map(number).collect();
            for (level, largest) in levels().into_iter().flat_map(|level| [(level, false), (level, true)]) {
                let (mut values, mut positions) = (vec![0f32; rows * k], vec![0i64; rows * k]);
                // SAFETY: the operand and the results have these extents.
                at(level, || {
                    as_if(2, || unsafe {
                        run(largest, [rows, len, k], x.as_ptr(), values.as_mut_ptr(), positions.as_mut_ptr());
                    })
                });
                for (row, x) in x.chunks(len).enumerate() {
                    let mut order: Vec<usize> = (0..len).collect();
                    order.sort_by(|&a, &b| {
                        let by_size =
                            x[a].partial_cmp(&x[b]).unwrap_or_else(|| x[a].is_nan().cmp(&x[b].is_nan()));
                        let by_size = if largest { by_size.reverse() } else { by_size };
                        if by_size == Ordering::Equal { a.cmp(&b) } else { by_size }
                    });
                    for (i, &want) in order.iter().enumerate().take(k) {
                        assert_eq!(
                            positions[row * k + i],
                            want as i64,
                            "{level:?} {rows} {len} {k} {largest}"
                        );
                        assert_eq!(values[row * k + i].to_bits(), x[want].to_bits());
                    }
                }
            }
        }
    }
}
