//! Operands and results of forwarded methods, by their kinds in a row.

use smallvec::SmallVec;

/// An operand of a forwarded method.
#[derive(Debug)]
pub enum Operand<'a, T> {
    /// One operand or nothing.
    One(Option<&'a T>),
    /// A list of operands.
    Many(&'a [&'a T]),
}

/// Converts an argument to an operand, by its kind in a row.
#[allow(non_snake_case, reason = "named after the kinds in a row")]
pub mod operand {
    use super::Operand;

    /// One operand.
    pub fn Tensor<T>(x: &T) -> Operand<'_, T> {
        Operand::One(Some(x))
    }

    /// One operand or nothing.
    pub fn Optional<T>(x: Option<&T>) -> Operand<'_, T> {
        Operand::One(x)
    }

    /// A list of operands.
    pub fn Tensors<'a, T>(xs: &'a [&'a T]) -> Operand<'a, T> {
        Operand::Many(xs)
    }
}

/// Collects operands in order.
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

/// Converts the results of a call to the return type of a method, by its kind in a row.
#[allow(non_snake_case, reason = "named after the kinds in a row")]
pub mod outputs {
    use crate::{Backend, Outputs};

    /// Returns the only result.
    ///
    /// # Errors
    ///
    /// [`Error::Results`](crate::Error::Results) if the number of results is not 1.
    pub fn Tensor<B: Backend + ?Sized>(outputs: Outputs<B::Tensor>) -> Result<B::Tensor, B::Error> {
        Ok(crate::call::only("forwarded operation", outputs)?)
    }

    /// Returns all results.
    ///
    /// # Errors
    ///
    /// None.
    pub fn Tensors<B: Backend + ?Sized>(outputs: Outputs<B::Tensor>) -> Result<Vec<B::Tensor>, B::Error> {
        Ok(outputs.into_vec())
    }
}
