//! Computing on the reference backend, for backends of tests that differ from it elsewhere.

use bb::ir::op::Param;
use bb::{Outputs, Primitive};
use bb_reference::{Error, Reference, Tensor};

/// Computes an operation: what `bb::forward_to_call!` calls, whatever the backend is.
///
/// # Errors
///
/// Those of the reference.
pub fn by_reference<B: ?Sized>(
    _backend: &B,
    op: Primitive,
    inputs: &[Option<&Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<Tensor>, Error> {
    bb::call_primitive(&Reference, op, inputs, params)
}
