//! Refusing what a function does not serve, of operators whose attributes and operands no schema tells.

use bb_core::operator::Call;
use bb_core::{Error, NodePart, Tensor};

/// Refuses attributes that are not among `known`; names with two underscores belong to the program that wrote the model.
pub fn only<T>(call: &Call<'_, T>, known: &[&str]) -> Result<(), Error> {
    match call.attribute_names().find(|name| !name.starts_with("__") && !known.contains(name)) {
        Some(name) => Err(call.wrong(name, "is no attribute that the operator is served with")),
        None => Ok(()),
    }
}

/// Refuses operands from `from` on that are given.
pub fn none_from<T>(call: &Call<'_, T>, from: usize) -> Result<(), Error> {
    match (from..call.len()).find(|&index| call.optional(index).is_some()) {
        Some(index) => Err(call.wrong(NodePart::Operand(index), "is not served")),
        None => Ok(()),
    }
}

/// Refuses results from `from` on that are wanted.
pub fn no_results_from<T>(call: &Call<'_, T>, from: usize) -> Result<(), Error> {
    match (from..call.results()).find(|&index| call.wants(index)) {
        Some(index) => Err(call.wrong(NodePart::Output(index), "is not served")),
        None => Ok(()),
    }
}

/// Refuses an operand whose elements are of another type than those of the first.
pub fn alike<T: Tensor>(call: &Call<'_, T>, index: usize) -> Result<(), Error> {
    let expected = call.input(0)?.dtype();
    match call.optional(index).map(Tensor::dtype).filter(|&got| got != expected) {
        Some(got) => {
            Err(call.wrong(NodePart::Operand(index), format!("has elements of {got}, expected {expected}")))
        }
        None => Ok(()),
    }
}
