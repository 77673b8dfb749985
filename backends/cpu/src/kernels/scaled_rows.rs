//! Rows of 8-bit integers with one scale for each row.

use super::dispatch::{VectorLoop, dispatch};

/// The number of elements that are converted together.
const LANES: usize = 16;

/// A loop that multiplies rows by their scales.
struct Widen {
    extents: [usize; 2],
    to: *mut f32,
    from: (*const i8, usize),
    scales: (*const f32, usize),
}

impl VectorLoop for Widen {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Widen { extents: [count, size], to, from: (from, stride), scales: (scales, apart) } = self;
        for i in 0..count {
            // SAFETY: the function that creates this value guarantees that the rows and the scales are valid and there is enough
            // room.
            let (scale, x, to) = unsafe {
                (
                    *scales.add(i * apart),
                    std::slice::from_raw_parts(from.add(i * stride), size),
                    std::slice::from_raw_parts_mut(to.add(i * size), size),
                )
            };
            let (xs, rest) = x.as_chunks::<LANES>();
            let (all, last) = to.as_chunks_mut::<LANES>();
            // The compiler maps arrays to vectors, but would compute the rest of a long loop one by one.
            for (to, x) in all.iter_mut().zip(xs) {
                for (to, &x) in to.iter_mut().zip(x) {
                    *to = f32::from(x) * scale;
                }
            }
            for (to, &x) in last.iter_mut().zip(rest) {
                *to = f32::from(x) * scale;
            }
        }
    }
}

/// Writes `count` rows of `size` elements one after another, each the integers of a row times the scale of the row. The
/// distances between rows and between scales are in elements.
///
/// # Safety
///
/// The rows and the scales exist. There is room for the products, which overlap neither of them.
pub(crate) unsafe fn widen(
    extents: [usize; 2],
    to: *mut f32,
    from: (*const i8, usize),
    scales: (*const f32, usize),
) {
    dispatch(Widen { extents, to, from, scales });
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    /// A product of an integer of 8 bits and an `f32` is exact in `f64`, and rounded once.
    #[test]
    fn rows_of_any_length_are_multiplied_with_their_scales() {
        for size in 0..70 {
            let (count, stride, apart) = (3, size + 5, 2);
            let from: Vec<i8> = (0..count * stride).map(|i| (i * 37 % 255) as u8 as i8).collect();
            let scales: Vec<f32> = (0..count * apart).map(|i| (i as f32 + 0.3) / 127.0).collect();
            let mut to = vec![0f32; count * size];
            // SAFETY: the rows, the scales and the room have these extents.
            unsafe {
                widen([count, size], to.as_mut_ptr(), (from.as_ptr(), stride), (scales.as_ptr(), apart));
            }
            for (at, got) in to.iter().enumerate() {
                let (i, j) = (at / size, at % size);
                let expected = f64::from(from[i * stride + j]) * f64::from(scales[i * apart]);
                assert_eq!(*got, expected as f32, "{size}: {i}, {j}");
            }
        }
    }
}
