//! Shape rules of the primitives, one function per family, and the element types of their results.
//!
//! Every backend calls the functions of its kernels' families, so that all of them accept and refuse
//! the same operands; [`primitive`] combines the rules for callers that only know types, for example the tracer.
//! Extents are concrete except in `symbolic`, which infers a whole graph's types before inputs arrive.
//! Nothing here reads a tensor's elements: the kernels report indices out of range and
//! divisions by zero.

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

/// The building blocks of operators' rules: a node as a rule sees it, and arithmetic of extents that may be unknown.
pub mod rule {
    pub use super::symbolic::{
        Contents, Entry, NodeFacts, Types, axis, divided, either, extent, known, product, scaled, shifted,
        sum, tensor, told,
    };
}

use crate::{Error, element_count};

/// The greatest number of elements of a tensor: the elements of the widest type that fit in one address space.
const MOST_ELEMENTS: usize = isize::MAX as usize / 16;

/// Returns `shape` unless its number of elements is known to exceed any memory.
#[inline]
fn countable<E: Extent>(op: &'static str, shape: Extents<E>) -> Result<Extents<E>, Error> {
    let Some(now) = current(&shape) else { return Ok(shape) };
    match element_count(&now) {
        Some(n) if n <= MOST_ELEMENTS => Ok(shape),
        _ => Err(Error::Overflow { op, shape: now.into_boxed_slice() }),
    }
}
