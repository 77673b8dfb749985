//! Kernels: what operations do to elements behind pointers, without tensors.
//!
//! An operation names its kernel by a value of [`op`] and the element type, and gives pointers, extents and strides. Kernels
//! check no shapes and allocate no results. They split long work over threads and use the widest instruction set that the
//! processor has; where it has none of those known here, the same loops run as compiled for any processor of the target.
//!
//! Outputs are written, never read, so that they may be uninitialised. They overlap no operand.

pub(crate) mod dispatch;
pub(crate) mod elementwise;
mod half;
pub(crate) mod level;
mod math;
pub(crate) mod moves;
pub(crate) mod normalize;
pub(crate) mod number;
pub(crate) mod op;
pub(crate) mod reduce;
pub(crate) mod transpose;
pub(crate) mod walk;

/// Elements from which kernels pay that are worth their set-up from a few dozen elements on.
pub(crate) const FEW: usize = 32;

/// A pointer that threads may share because each of them touches its own part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<P>(pub(crate) P);

impl<P: Copy> Shared<P> {
    /// Returns the pointer. Closures that call this method capture the wrapper and not its field.
    pub(crate) fn get(self) -> P {
        self.0
    }
}

// SAFETY: the wrapper only moves an address. The code that reads or writes there keeps to a part of its own.
unsafe impl<P> Send for Shared<P> {}
// SAFETY: the wrapper only moves an address. The code that reads or writes there keeps to a part of its own.
unsafe impl<P> Sync for Shared<P> {}

#[cfg(test)]
mod math_tests;
