//! The operations of extensions that this backend has kernels for.
//!
//! Each method runs its kernel if the kernel supports the operands; otherwise it calls the operation's body, which consists of
//! primitives.

mod bits;
mod create;
mod fused;
mod llm;
mod nn;
mod scalar;

use crate::elem::{Elem, Kind};
use crate::open::Wgpu;
use crate::ops::arithmetic::map_with;
use crate::wgsl::map::{Binary, Function, Unary};
use crate::{Result, Tensor};
use bb::ext::Extended;

// The operations of these families always run through their bodies.
#[bb::native]
impl bb::ext::Image for Wgpu {}

#[bb::native]
impl bb::ext::Index for Wgpu {}

#[bb::native]
impl bb::ext::Ml for Wgpu {}

#[bb::native]
impl bb::ext::Quant for Wgpu {}

#[bb::native]
impl bb::ext::Train for Wgpu {}

impl bb::ext::Ops for Wgpu {}

impl Wgpu {
    /// Returns the bodies of operations, for kernels that decline operands.
    pub(crate) const fn body(&self) -> Extended<'_, Wgpu> {
        Extended::declining(self)
    }

    /// Computes a function of a float operand. Returns `None` for other types.
    fn float(
        &self,
        op: &'static str,
        function: Unary,
        x: &Tensor,
        numbers: &[f64],
    ) -> Option<Result<Tensor>> {
        if x.elem().kind() != Kind::Float {
            return None;
        }
        let mut words = [0; 2];
        for (word, number) in words.iter_mut().zip(numbers) {
            *word = (*number as f32).to_bits();
        }
        let words = words.get(..numbers.len()).unwrap_or_default();
        Some(map_with(self.gpu(), op, Function::Unary(function), x.elem(), &[x], words))
    }

    /// Computes a function of two operands of the same type. Returns `None` unless the type is one of these kinds.
    fn both(
        &self,
        op: &'static str,
        function: Binary,
        kinds: &[Kind],
        a: &Tensor,
        b: &Tensor,
    ) -> Option<Result<Tensor>> {
        let elem = a.elem();
        if elem != b.elem() || !kinds.contains(&elem.kind()) {
            return None;
        }
        let result = if function.compares() { Elem::Bool } else { elem };
        Some(map_with(self.gpu(), op, Function::Binary(function), result, &[a, b], &[]))
    }
}

/// The kinds of numeric types.
const NUMBERS: &[Kind] = &[Kind::Float, Kind::Signed, Kind::Unsigned];
