//! What the macros of `bb` expand to; no promise of stability.

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
pub use std::{concat, env, module_path};

use smallvec::SmallVec;

/// An operand of a forwarded method, by its kind in a row.
#[derive(Debug)]
pub enum Operand<'a, T> {
    /// One, or none.
    One(Option<&'a T>),
    /// Any number.
    Many(&'a [&'a T]),
}

/// Makes an operand of an argument, by its kind in a row.
#[allow(non_snake_case, reason = "named after the kinds in a row")]
pub mod operand {
    use super::Operand;

    /// One.
    pub fn Tensor<T>(x: &T) -> Operand<'_, T> {
        Operand::One(Some(x))
    }

    /// One, or none.
    pub fn Optional<T>(x: Option<&T>) -> Operand<'_, T> {
        Operand::One(x)
    }

    /// Any number.
    pub fn Tensors<'a, T>(xs: &'a [&'a T]) -> Operand<'a, T> {
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

/// Turns the results of a call into what a method returns, by its kind in a row.
#[allow(non_snake_case, reason = "named after the kinds in a row")]
pub mod outputs {
    use crate::{Backend, Outputs};

    /// Takes the only result.
    ///
    /// # Errors
    ///
    /// [`Error::Results`](crate::Error::Results) if there is another number.
    pub fn Tensor<B: Backend + ?Sized>(outputs: Outputs<B::Tensor>) -> Result<B::Tensor, B::Error> {
        Ok(crate::call::only("forwarded operation", outputs)?)
    }

    /// Takes all results.
    ///
    /// # Errors
    ///
    /// None.
    pub fn Tensors<B: Backend + ?Sized>(outputs: Outputs<B::Tensor>) -> Result<Vec<B::Tensor>, B::Error> {
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
