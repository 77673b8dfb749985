//! Looks up the operands, results and attributes of an operator.

use super::schemas::GONE;
use super::versions::table;

/// The operands, results and attributes of a version of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    inputs: &'static str,
    outputs: &'static str,
    attributes: &'static str,
}

/// The result of looking up an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// ONNX has the operator in this version.
    Found(Signature),
    /// ONNX's domain does not have the operator in this version.
    Missing,
    /// The domain is not ONNX's.
    Foreign,
}

/// The schema of an attribute in a version of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeSchema {
    /// The attribute's name.
    pub name: &'static str,
    /// The kind, as a string that [`Attribute::kind`](crate::graph::Attribute::kind) returns.
    pub kind: &'static str,
    /// Whether the attribute is required.
    pub required: bool,
    /// The default value, if the schema states one: a number, a string, or a list as `[0,2,3]`.
    pub default: Option<&'static str>,
}

/// Lists the attributes of an operator in version `opset` of its domain, sorted by name; none if ONNX does not have the operator.
///
/// # Examples
///
/// ```
/// let mut softmax = bb_ir::opset::attributes("", "Softmax", 13);
/// assert_eq!(softmax.next().map(|a| (a.name, a.default)), Some(("axis", Some("-1"))));
/// ```
pub fn attributes(domain: &str, name: &str, opset: i64) -> impl Iterator<Item = AttributeSchema> {
    let found = match lookup(domain, name, opset) {
        Lookup::Found(signature) => Some(signature),
        Lookup::Missing | Lookup::Foreign => None,
    };
    found.into_iter().flat_map(|signature| signature.attributes())
}

/// Returns the signature of the operator `name` of `domain` in version `opset`.
pub(crate) fn lookup(domain: &str, name: &str, opset: i64) -> Lookup {
    let Some(rows) = table(domain) else { return Lookup::Foreign };
    let after = rows.partition_point(|row| (row.0, row.1) <= (name, opset));
    match after.checked_sub(1).and_then(|at| rows.get(at)) {
        Some(&(found, _, inputs, outputs, attributes, types)) if found == name && types != GONE => {
            Lookup::Found(Signature { inputs, outputs, attributes })
        }
        _ => Lookup::Missing,
    }
}

impl Signature {
    /// Returns the minimum and the maximum number of operands.
    pub(crate) fn inputs(&self) -> (usize, usize) {
        range(self.inputs)
    }

    /// Returns the minimum and the maximum number of results.
    pub(crate) fn outputs(&self) -> (usize, usize) {
        range(self.outputs)
    }

    /// Returns whether the operand at index `at` is required.
    pub(crate) fn requires(&self, at: usize) -> bool {
        matches!(self.inputs.as_bytes().get(at), Some(b'1' | b'+'))
    }

    /// Lists the attributes, sorted by name.
    pub(crate) fn attributes(self) -> impl Iterator<Item = AttributeSchema> {
        self.attributes.split(' ').filter_map(|text| {
            let (name, rest) = text.split_once(':')?;
            let (kind, rest) = rest.split_at_checked(1)?;
            let kind = match kind {
                "f" => "a float",
                "i" => "an integer",
                "s" => "a string",
                "t" => "a tensor",
                "g" => "a graph",
                "y" => "a type",
                "F" => "floats",
                "I" => "integers",
                "S" => "strings",
                "T" => "tensors",
                _ => "graphs",
            };
            Some(AttributeSchema { name, kind, required: rest == "!", default: rest.strip_prefix('=') })
        })
    }
}

fn range(pattern: &str) -> (usize, usize) {
    // A required operand may follow an optional one, so the last required operand determines the minimum.
    let least = pattern.bytes().rposition(|b| matches!(b, b'1' | b'+')).map_or(0, |at| at + 1);
    let most = if pattern.ends_with(['+', '*']) { usize::MAX } else { pattern.len() };
    (least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opset::versions::DOMAINS;

    #[test]
    fn rows_are_sorted_and_well_formed() {
        for (domain, rows) in DOMAINS {
            assert!(rows.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
            for &(name, since, inputs, outputs, text, _) in rows {
                assert!(inputs.bytes().chain(outputs.bytes()).all(|b| b"1?+*".contains(&b)));
                let count = text.split(' ').filter(|a| !a.is_empty()).count();
                assert_eq!(attributes(domain, name, since).count(), count, "{name} {since}");
            }
        }
    }

    #[test]
    fn defaults_are_those_of_the_schema() {
        let default =
            |op, opset, name| attributes("", op, opset).find(|a| a.name == name).and_then(|a| a.default);
        assert_eq!(default("LeakyRelu", 16, "alpha"), Some("0.01"));
        assert_eq!(default("AveragePool", 22, "auto_pad"), Some("NOTSET"));
        assert_eq!(default("MeanVarianceNormalization", 13, "axes"), Some("[0,2,3]"));
        assert_eq!((default("Attention", 25, "scale"), default("Upsample", 10, "mode")), (None, None));
    }

    #[test]
    fn a_version_is_looked_up_from_its_row_to_the_next() {
        let Lookup::Found(slice) = lookup("", "Slice", 9) else { panic!("Slice 1 holds") };
        assert_eq!((slice.inputs(), slice.attributes().count()), ((1, 1), 3));
        let Lookup::Found(slice) = lookup("", "Slice", 28) else { panic!("Slice 10 holds") };
        assert_eq!((slice.inputs(), slice.attributes().count()), ((3, 5), 0));
        assert!(slice.requires(2) && !slice.requires(3));
        let Lookup::Found(concat) = lookup("", "Concat", 13) else { panic!("Concat 4 holds") };
        assert_eq!(concat.inputs(), (1, usize::MAX));
    }

    #[test]
    fn what_is_gone_or_not_there_yet_is_missing() {
        assert_eq!(lookup("", "Upsample", 10), Lookup::Missing);
        assert_eq!(lookup("", "LayerNormalization", 16), Lookup::Missing);
        assert_eq!(lookup("", "Nonsense", 28), Lookup::Missing);
        assert_eq!(lookup("com.example", "Nonsense", 1), Lookup::Foreign);
    }
}
