//! Lists the versions of ONNX's operators, with the element types of each.

use super::element_types::{ML, ONNX, PREVIEW, Row, SETS, TRAINING};
use crate::DataType;

/// ONNX's domains, by name.
pub(super) const DOMAINS: [(&str, &[Row]); 4] =
    [("", ONNX), ("ai.onnx.ml", ML), ("ai.onnx.preview", PREVIEW), ("ai.onnx.preview.training", TRAINING)];

/// A version of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorVersion {
    /// The domain; empty for `ai.onnx`.
    pub domain: &'static str,
    /// The operator, as in `ReduceSum`.
    pub name: &'static str,
    /// The opset that brought this version; it holds until the next version's.
    pub since: i64,
    /// The element types of the operand that has the type of the first result; where none has, of the operand that
    /// takes the most, or of the result. `None` if this version took the operator away.
    pub types: Option<Vec<DataType>>,
}

/// Lists every version of every operator of ONNX's domains, by domain, name and version.
///
/// # Examples
///
/// ```
/// let mut add = bb_ir::opset::versions().filter(|v| v.domain.is_empty() && v.name == "Add");
/// assert_eq!(add.next().map(|v| v.since), Some(1));
/// ```
pub fn versions() -> impl Iterator<Item = OperatorVersion> {
    DOMAINS.into_iter().flat_map(|(domain, rows)| {
        rows.iter().flat_map(move |&(name, versions)| of_row(domain, name, parsed(versions)))
    })
}

/// Lists the versions of one operator, the oldest first; none if ONNX has no such operator.
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
    row_of(domain, name)
        .into_iter()
        .flat_map(|(domain, (name, versions))| of_row(domain, name, parsed(versions)))
}

/// Reads the versions of a row.
fn of_row(
    domain: &'static str,
    name: &'static str,
    versions: impl Iterator<Item = (i64, Option<&'static str>)>,
) -> impl Iterator<Item = OperatorVersion> {
    versions.map(move |(since, set)| {
        let types = set.map(|set| set.split(' ').filter_map(DataType::from_name).collect());
        OperatorVersion { domain, name, since, types }
    })
}

/// Reads the versions of a row, each with its set of element types; `None` where it took the operator away.
fn parsed(versions: &'static str) -> impl Iterator<Item = (i64, Option<&'static str>)> {
    versions.split(' ').filter_map(|text| {
        let (since, set) = text.split_once(':')?;
        Some((since.parse().ok()?, set.parse::<usize>().ok().and_then(|set| SETS.get(set)).copied()))
    })
}

/// Lists the versions of one operator; none if ONNX has no such.
pub(super) fn versions_of(domain: &str, name: &str) -> impl Iterator<Item = (i64, Option<&'static str>)> {
    row_of(domain, name).into_iter().flat_map(|(_, (_, versions))| parsed(versions))
}

/// Finds the row of an operator, and its domain.
fn row_of(domain: &str, name: &str) -> Option<(&'static str, Row)> {
    let (domain, rows) = DOMAINS.into_iter().find(|(known, _)| *known == domain)?;
    let at = rows.binary_search_by(|row| row.0.cmp(name)).ok()?;
    Some((domain, *rows.get(at)?))
}

/// Returns the version of an operator that a model which imports `opset` of its domain has: the opset that brought it.
///
/// `None` if ONNX has no such operator, or none yet.
///
/// # Examples
///
/// ```
/// assert_eq!(bb_ir::opset::since("", "Add", 9), Some(7));
/// ```
pub fn since(domain: &str, name: &str, opset: i64) -> Option<i64> {
    versions_of(domain, name).map(|(since, _)| since).filter(|since| *since <= opset).max()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read() {
        let cells = [ONNX, ML, PREVIEW, TRAINING].iter().flat_map(|rows| rows.iter());
        let count: usize = cells.map(|(_, versions)| versions.split(' ').count()).sum();
        assert_eq!(versions().count(), count);
        for set in SETS {
            assert!(set.split(' ').all(|t| t.is_empty() || DataType::from_name(t).is_some()), "{set}");
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

    /// The two tables come from the same schemas.
    #[test]
    fn versions_agree_with_the_signatures() {
        for v in versions() {
            let found = super::super::lookup(v.domain, v.name, v.since) != super::super::Lookup::Missing;
            assert_eq!(found, v.types.is_some(), "{} {}", v.name, v.since);
        }
    }
}
