//! Rejects attributes and operands that a function does not support, for operators without a schema.

use bb_core::operator::Call;
use bb_core::{Error, NodePart, Tensor};

/// Refuses attributes that are not among `known`. Names that begin with two underscores are allowed, because the program
/// that wrote the model uses them for itself.
pub fn only<T>(call: &Call<'_, T>, known: &[&str]) -> Result<(), Error> {
    match call.attribute_names().find(|name| !name.starts_with("__") && !known.contains(name)) {
        Some(name) => Err(call.wrong(name, "is no attribute that the operator is served with")),
        None => Ok(()),
    }
}

/// Refuses an integer attribute that differs from the default, because no other value is supported.
pub fn only_int<T>(call: &Call<'_, T>, name: &str, default: i64) -> Result<(), Error> {
    match call.int_or(name, default)? {
        value if value == default => Ok(()),
        value => Err(call.wrong(name, format!("is {value}, which is not served; expected {default}"))),
    }
}

/// Refuses a string attribute that differs from the default, because no other value is supported.
pub fn only_text<T>(call: &Call<'_, T>, name: &str, default: &'static str) -> Result<(), Error> {
    match call.text_or(name, default)? {
        text if text == default => Ok(()),
        text => Err(call.wrong(name, format!("is `{text}`, which is not served; expected `{default}`"))),
    }
}

/// Refuses operands with an index of `from` or more, if they are present.
pub fn none_from<T>(call: &Call<'_, T>, from: usize) -> Result<(), Error> {
    (from..call.len()).try_for_each(|index| no_operand(call, index))
}

/// Refuses an operand if it is present.
pub fn no_operand<T>(call: &Call<'_, T>, index: usize) -> Result<(), Error> {
    match call.optional(index) {
        Some(_) => Err(call.wrong(NodePart::Operand(index), "is not served")),
        None => Ok(()),
    }
}

/// Refuses results with an index of `from` or more, if something reads them.
pub fn no_results_from<T>(call: &Call<'_, T>, from: usize) -> Result<(), Error> {
    (from..call.results()).try_for_each(|index| no_result(call, index))
}

/// Refuses a result if something reads it. A named result that nothing reads is allowed, because some programs name all
/// results.
fn no_result<T>(call: &Call<'_, T>, index: usize) -> Result<(), Error> {
    if call.is_read(index) { Err(call.wrong(NodePart::Output(index), "is not served")) } else { Ok(()) }
}

/// Refuses an operand whose element type differs from the element type of the first operand.
pub fn alike<T: Tensor>(call: &Call<'_, T>, index: usize) -> Result<(), Error> {
    let expected = call.input(0)?.dtype();
    match call.optional(index).map(Tensor::dtype).filter(|&got| got != expected) {
        Some(got) => {
            Err(call.wrong(NodePart::Operand(index), format!("has elements of {got}, expected {expected}")))
        }
        None => Ok(()),
    }
}
