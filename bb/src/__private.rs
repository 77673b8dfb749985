//! What the macros of `bb` expand to; no promise of stability.

pub use crate::call::primitive as call_primitive;
pub use crate::contract::one_node;
pub use crate::plan::compile_whole_graph;
pub use bb_ir as ir;
pub use bb_ir::for_each_primitive;
pub use inventory;

pub use crate::ext::FamilyTable;
pub use crate::runtime::{Created, Declared, Registration};
pub use crate::{Backend, BoxError};
pub use std::primitive::str;
pub use std::result::Result;
pub use std::{concat, env, module_path, stringify};

use crate::{Error, Outputs};
use smallvec::SmallVec;

/// An operand of a forwarded method, by its kind in a row.
#[derive(Debug)]
pub enum Operand<'a, T> {
    /// One, or none.
    One(Option<&'a T>),
    /// Any number.
    Many(&'a [&'a T]),
}

impl<'a, T> From<&'a T> for Operand<'a, T> {
    fn from(x: &'a T) -> Self {
        Operand::One(Some(x))
    }
}

impl<'a, T> From<Option<&'a T>> for Operand<'a, T> {
    fn from(x: Option<&'a T>) -> Self {
        Operand::One(x)
    }
}

impl<'a, T> From<&'a [&'a T]> for Operand<'a, T> {
    fn from(xs: &'a [&'a T]) -> Self {
        Operand::Many(xs)
    }
}

/// Lists operands in order.
pub fn operands<'a, T>(operands: &[Operand<'a, T>]) -> SmallVec<[Option<&'a T>; 4]> {
    let mut list = SmallVec::new();
    for operand in operands {
        match operand {
            Operand::One(x) => list.push(*x),
            Operand::Many(xs) => list.extend(xs.iter().map(|x| Some(*x))),
        }
    }
    list
}

/// Turns the results of a call into what a method returns.
pub trait IntoOutput<T, E>: Sized {
    /// Converts.
    fn into_output(outputs: Outputs<T>) -> Result<Self, E>;
}

impl<T, E: From<Error>> IntoOutput<T, E> for T {
    fn into_output(outputs: Outputs<T>) -> Result<T, E> {
        Ok(crate::call::only("forwarded operation", outputs)?)
    }
}

impl<T, E: From<Error>> IntoOutput<T, E> for Vec<T> {
    fn into_output(outputs: Outputs<T>) -> Result<Vec<T>, E> {
        Ok(outputs.into_vec())
    }
}

/// Makes a backend that has no constructor of its own.
///
/// # Errors
///
/// None.
pub fn default<B: crate::runtime::Constructed>() -> Result<B, BoxError> {
    Ok(B::construct())
}
