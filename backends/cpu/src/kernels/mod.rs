//! Kernels: loops over elements behind pointers. They do not depend on tensors.
//!
//! An operation selects its kernel by a value of [`op`] and the element type, and passes pointers, extents and strides to it.
//! Kernels check no shapes and allocate no results. They split long work over threads and use the widest instruction set that
//! the processor has. On a processor with none of the known instruction sets, the same loops run as compiled for any processor
//! of the target.
//!
//! Kernels write outputs and never read them, so outputs may be uninitialised. Outputs do not overlap with operands.

pub(crate) mod capped;
pub(crate) mod cast;
pub(crate) mod chain;
pub(crate) mod compare;
pub(crate) mod cumulate;
pub(crate) mod dispatch;
pub(crate) mod distance;
pub(crate) mod element_loop;
pub(crate) mod elementwise;
pub(crate) mod extremum;
pub(crate) mod forest;
mod function;
pub(crate) mod gelu;
pub(crate) mod half;
mod hyperbolic;
mod interleave;
pub(crate) mod lanes;
mod math;
pub(crate) mod moves;
pub(crate) mod normalize;
pub(crate) mod number;
pub(crate) mod op;
pub(crate) mod ordered;
pub(crate) mod places;
pub(crate) mod quantize;
mod quotient;
pub(crate) mod recurrent;
pub(crate) mod reduce;
mod remainder;
pub(crate) mod sample;
mod scalar_fallback;
pub(crate) mod scaled_rows;
pub(crate) mod scatter;
mod shift;
pub(crate) mod softmax;
pub(crate) mod top;
pub(crate) mod transpose;
mod trigonometry;
pub(crate) mod walk;

/// Arrays with fewer elements than this use simpler loops, because the setup of other loops pays off only for longer arrays.
pub(crate) const FEW: usize = 32;

/// A pointer that threads may share, because each of them accesses only its own part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<P>(pub(crate) P);

impl<P: Copy> Shared<P> {
    /// Returns the pointer. Closures that call this method capture the wrapper and not its field.
    pub(crate) fn get(self) -> P {
        self.0
    }
}

// SAFETY: the wrapper only moves an address. The code that reads or writes there accesses only its own part.
unsafe impl<P> Send for Shared<P> {}
// SAFETY: the wrapper only moves an address. The code that reads or writes there accesses only its own part.
unsafe impl<P> Sync for Shared<P> {}

#[cfg(test)]
mod math_tests;
