//! Finds an operation by its name, among the primitives and all families.

use super::{every_operation, rows, vendor};
use crate::Error;
use bb_ir::op::{Family, OpSpec};

/// Returns all operations of the program: primitives, families and the linked vendors' operations.
fn all() -> impl Iterator<Item = &'static OpSpec> {
    let families = every_operation().into_iter().map(|(family, _)| family);
    let vendors = vendor::vendor_families().map(|family| Family::Vendor(family.domain()));
    std::iter::once(Family::Primitive).chain(families).chain(vendors).flat_map(rows)
}

/// Returns the operation with a name, among the primitives, all families and the linked vendors' operations.
///
/// The name is the method's name (`reduce_sum`) or the operation's name in its table (`ReduceSum`). A vendor's
/// operation is also found as `domain:name`. That is the only way if an operation of `bb` has the same name.
///
/// # Errors
///
/// [`Error::UnknownOperation`] with the most similar name if no operation has the name.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb::Error> {
/// assert_eq!(bb::operation("softmax")?.name, "Softmax");
/// assert_eq!(bb::operation("Softmax")?.method, "softmax");
/// let error = bb::operation("sofmax").unwrap_err();
/// assert_eq!(error.to_string(), "no operation is called `sofmax`; did you mean `softmax`?");
/// # Ok(())
/// # }
/// ```
pub fn operation(name: &str) -> Result<&'static OpSpec, Error> {
    if let Some((domain, name)) = name.split_once(':')
        && let Some(found) = vendor::find(domain, name)
    {
        return Ok(found.spec());
    }
    if let Some(found) = all().find(|op| op.method == name || op.name == name) {
        return Ok(found);
    }
    let nearest = bb_ir::nearest(name, all().map(|op| op.method)).map(str::to_owned);
    Err(Error::UnknownOperation { name: name.to_owned(), nearest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_is_found_by_both_names() {
        for op in all().filter(|op| !matches!(op.family, Family::Vendor(_))) {
            for name in [op.method, op.name] {
                let found = operation(name).unwrap_or_else(|error| panic!("{error}"));
                assert!(
                    std::ptr::eq(found, op) || (found.family, found.index) == (op.family, op.index),
                    "{name}"
                );
            }
        }
    }

    /// If two operations had the same name, only one of them would be found.
    #[test]
    fn no_two_operations_share_a_name() {
        let mut methods = BTreeSet::new();
        for op in all().filter(|op| !matches!(op.family, Family::Vendor(_))) {
            assert!(methods.insert(op.method), "{}", op.method);
        }
    }

    #[test]
    fn a_name_that_is_like_none_is_an_error_without_a_suggestion() {
        let found = operation("qqqqqqqqqqqqqq").map(|op| op.name);
        assert_eq!(
            found.map_err(|error| error.to_string()),
            Err("no operation is called `qqqqqqqqqqqqqq`".to_owned())
        );
    }
}
