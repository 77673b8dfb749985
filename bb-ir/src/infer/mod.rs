//! Shape rules of the primitives, with a function for each group of primitives, and rules for the element types of
//! results.
//!
//! Every backend calls these functions in its kernels, so that all backends accept and refuse the same operands.
//! [`primitive`] combines the rules for callers that only know types, for example the tracer. Extents are numbers
//! except in `symbolic`, which infers the types of a whole graph before inputs arrive. The rules do not read the
//! elements of tensors: kernels report indices out of range and divisions by zero.

mod axes;
mod broadcast;
mod dtypes;
mod einsum;
pub mod eval;
mod extent;
mod given;
mod join;
mod matmul;
mod movement;
mod operators;
mod primitive;
mod range;
mod resize;
mod slice;
mod symbolic;
mod windows;

pub use axes::{Reduction, reduce, squeeze, squeezes, unsqueeze};
pub use broadcast::broadcast;
pub use dtypes::{accepts, check_operand, dtype};
pub use einsum::{Equation, EquationError, Label};
pub use extent::{Extent, Extents, current, product, quotient};
pub use given::{with_dims, with_shapes};
pub use join::{Joined, concat, gather, split, split_evenly};
pub use matmul::{MatMul, matmul};
pub use movement::{Target, Transposed, reshape, reshape_to, resolve_reshape, transpose};
pub use operators::{ControlFlow, Operators, Rule, SubgraphRule};
pub use primitive::{Outputs, RuleParam, primitive, primitive_extents};
pub use range::range_count;
pub use resize::{Aspect, at_scale, rescaled, resized};
pub use slice::{Bound, SliceDim, Sliced, slice, slice_by, slice_count};
pub(crate) use symbolic::graph;
pub use windows::{Padding, Step, windows};

/// Building blocks for the rules of operators: the node that a rule is applied to, and arithmetic of extents that
/// may be unknown.
pub mod rule {
    pub use super::symbolic::{
        Contents, Entry, NodeFacts, Types, axis, divided, either, extent, known, product, scaled, shifted,
        sum, tensor, told,
    };
}

use crate::{Error, element_count};

/// The maximum number of elements of a tensor, so that elements of the widest type (16 bytes) fit in the address space.
const MOST_ELEMENTS: usize = isize::MAX as usize / 16;

/// Returns `shape`, or an error if its number of elements is known to exceed the maximum.
#[inline]
fn countable<E: Extent>(op: &'static str, shape: Extents<E>) -> Result<Extents<E>, Error> {
    let Some(now) = current(&shape) else { return Ok(shape) };
    match element_count(&now) {
        Some(n) if n <= MOST_ELEMENTS => Ok(shape),
        _ => Err(Error::Overflow { op, shape: now.into_boxed_slice() }),
    }
}
