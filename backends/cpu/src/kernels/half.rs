//! Conversions between 16-bit floats and `f32`, in which kernels compute with them.

use super::elementwise::{Run, map, slices};
use super::number::Number;
use bb::DataType;
use half::{bf16, f16};

/// The conversions of one type of 16-bit floats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half {
    /// Converts elements to `f32`.
    pub(crate) widen: Run<1>,
    /// Rounds `f32` to elements.
    pub(crate) narrow: Run<1>,
}

impl Half {
    /// Returns the conversions of a type, if it is one of 16-bit floats.
    pub(crate) fn of(dtype: DataType) -> Option<&'static Half> {
        match dtype {
            DataType::F16 => Some(&Half { widen: widen::<f16>, narrow: narrow::<f16> }),
            DataType::BF16 => Some(&Half { widen: widen::<bf16>, narrow: narrow::<bf16> }),
            _ => None,
        }
    }
}

/// # Safety
///
/// As for [`Run`], of operands `T` and their type of sums.
unsafe fn widen<T: Number>(out: *mut u8, x: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices(out, x, n) };
    map(out, x, T::widen);
}

/// # Safety
///
/// As for [`Run`], of sums and results `T`.
unsafe fn narrow<T: Number>(out: *mut u8, x: [*const u8; 1], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices(out, x, n) };
    map(out, x, T::narrow);
}
