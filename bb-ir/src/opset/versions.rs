//! Lists the versions of ONNX's operators, with the element types of each.

use super::schemas::{GONE, ML, ONNX, PREVIEW, Row, SETS, TRAINING};
use crate::DataType;

/// ONNX's domains and their rows, sorted by domain.
pub(super) const DOMAINS: [(&str, &[Row]); 4] =
    [("", ONNX), ("ai.onnx.ml", ML), ("ai.onnx.preview", PREVIEW), ("ai.onnx.preview.training", TRAINING)];

/// A version of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorVersion {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that introduced this version, which is valid until the next version.
    pub since: i64,
    /// The element types of the operand that has the type of the first result. If no operand has this type, the element
    /// types of the operand that supports the most types, or of the result. `None` if this version removed the operator.
    pub types: Option<Vec<DataType>>,
}

/// Lists every version of every operator of ONNX's domains, sorted by domain, name and version.
///
/// # Examples
///
/// ```
/// let mut add = bb_ir::opset::versions().filter(|v| v.domain.is_empty() && v.name == "Add");
/// assert_eq!(add.next().map(|v| v.since), Some(1));
/// ```
pub fn versions() -> impl Iterator<Item = OperatorVersion> {
    DOMAINS.into_iter().flat_map(|(domain, rows)| rows.iter().map(move |row| of_row(domain, row)))
}

/// Lists the versions of one operator, oldest first; none if ONNX does not have the operator.
///
/// # Examples
///
/// ```
/// use bb_ir::DataType;
/// let mut relu = bb_ir::opset::history("", "Relu").filter(|v| {
///     v.types.as_ref().is_some_and(|types| types.contains(&DataType::I32))
/// });
/// assert_eq!(relu.next().map(|v| v.since), Some(14));
/// ```
pub fn history(domain: &str, name: &str) -> impl Iterator<Item = OperatorVersion> {
    let known = DOMAINS.into_iter().map(|(known, _)| known).find(|known| *known == domain);
    let rows = rows_of(domain, name).iter();
    known.into_iter().flat_map(move |domain| rows.clone().map(move |row| of_row(domain, row)))
}

fn of_row(domain: &'static str, &(name, since, .., set): &Row) -> OperatorVersion {
    let types = |set: &'static str| set.split(' ').filter_map(DataType::from_name).collect();
    let set = SETS.get(usize::from(set)).filter(|_| set != GONE);
    OperatorVersion { domain, name, since, types: set.map(|set| types(set)) }
}

/// Returns the rows of a domain; `None` if it is not one of ONNX's domains.
pub(super) fn table(domain: &str) -> Option<&'static [Row]> {
    DOMAINS.into_iter().find(|(known, _)| *known == domain).map(|(_, rows)| rows)
}

/// Returns the rows of one operator, oldest first; none if ONNX does not have the operator.
pub(super) fn rows_of(domain: &str, name: &str) -> &'static [Row] {
    let rows = table(domain).unwrap_or_default();
    let start = rows.partition_point(|row| row.0 < name);
    let rows = rows.get(start..).unwrap_or_default();
    rows.get(..rows.partition_point(|row| row.0 == name)).unwrap_or_default()
}

/// Returns the opset that introduced the version of an operator that a model uses if it imports `opset` of the domain.
///
/// Returns `None` if ONNX does not have the operator, or only introduces it in a later opset.
///
/// # Examples
///
/// ```
/// assert_eq!(bb_ir::opset::since("", "Add", 9), Some(7));
/// ```
pub fn since(domain: &str, name: &str, opset: i64) -> Option<i64> {
    rows_of(domain, name).iter().map(|row| row.1).rfind(|since| *since <= opset)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read() {
        assert!(versions().all(|v| v.types.is_none_or(|types| !types.is_empty())));
        for set in SETS {
            assert!(set.split(' ').all(|t| DataType::from_name(t).is_some()), "{set}");
        }
    }

    #[test]
    fn types_are_those_of_the_schema() {
        let find = |name: &str, since| {
            versions().find(|v| v.domain.is_empty() && v.name == name && v.since == since).unwrap().types
        };
        use DataType::{BF16, F16, F32, F64};
        assert_eq!(find("Sqrt", 6), Some(vec![F32, F64, F16]));
        assert_eq!(find("Sqrt", 13), Some(vec![F32, F64, F16, BF16]));
        assert_eq!(find("Upsample", 10), None);
    }
}
