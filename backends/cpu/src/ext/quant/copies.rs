//! Copies rows of bytes that are short or strided.

/// Copies a small number of bytes inline, because a call of `memcpy` would take longer than the
/// copy itself.
///
/// # Safety
///
/// `from` has `n` bytes, and `to` has room for them. They do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_few(from: *const u8, to: *mut u8, n: usize) {
    /// Copies parts of equal length. The last part may overlap the previous one.
    macro_rules! parts {
        ($length:literal) => {{
            for at in (0..n - $length).step_by($length) {
                to.add(at).copy_from_nonoverlapping(from.add(at), $length);
            }
            to.add(n - $length).copy_from_nonoverlapping(from.add(n - $length), $length);
        }};
    }
    // SAFETY: this function has the same contract.
    unsafe {
        match n {
            16.. => parts!(16),
            4.. => parts!(4),
            _ => (0..n).for_each(|i| to.add(i).write(*from.add(i))),
        }
    }
}

/// Fills `n` bytes. The common case is a single byte.
///
/// # Safety
///
/// `to` has room for `n` bytes.
#[inline(always)]
pub(super) unsafe fn fill_few(to: *mut u8, byte: u8, n: usize) {
    // SAFETY: this function has the same contract.
    unsafe {
        match n {
            0 => {}
            1 => to.write(byte),
            _ => to.write_bytes(byte, n),
        }
    }
}

/// Copies `n` bytes from a source with this stride.
///
/// # Safety
///
/// `from` has the bytes, and `to` has room for them.
#[inline(always)]
pub(super) unsafe fn every(from: *const u8, stride: usize, to: *mut u8, n: usize) {
    /// The number of bytes that are copied together, with instructions for pairs of bytes.
    const TOGETHER: usize = 8;
    // SAFETY: this function has the same contract. The last pair may be incomplete, so it is not read as a pair.
    unsafe {
        let mut done = 0;
        if stride == 2 && n > 0 {
            let (pairs, _) = std::slice::from_raw_parts(from, 2 * n - 1).as_chunks::<2>();
            let (to, _) = std::slice::from_raw_parts_mut(to, n).as_chunks_mut::<TOGETHER>();
            for (to, pairs) in to.iter_mut().zip(pairs.as_chunks::<TOGETHER>().0) {
                *to = pairs.map(|[byte, _]| byte);
                done += TOGETHER;
            }
        }
        for i in done..n {
            to.add(i).write(*from.add(i * stride));
        }
    }
}
