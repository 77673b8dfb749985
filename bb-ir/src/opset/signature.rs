//! Looks up what an operator takes.

use super::operators::{ML, ONNX, PREVIEW, Row, TRAINING};

/// What a version of an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    inputs: &'static str,
    outputs: &'static str,
    attributes: &'static str,
}

/// What is known of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// ONNX has it.
    Found(Signature),
    /// ONNX's domain does not have it in this version.
    Missing,
    /// The domain is not ONNX's.
    Foreign,
}

/// An attribute that an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttributeRow {
    /// The attribute's name.
    pub(crate) name: &'static str,
    /// The kind, in the words of [`Attribute::kind`](crate::graph::Attribute::kind).
    pub(crate) kind: &'static str,
    /// Whether it must be given.
    pub(crate) required: bool,
}

/// Returns what operator `name` of `domain` takes in version `opset`.
pub(crate) fn lookup(domain: &str, name: &str, opset: i64) -> Lookup {
    let rows: &[Row] = match domain {
        "" => ONNX,
        "ai.onnx.ml" => ML,
        "ai.onnx.preview.training" => TRAINING,
        "ai.onnx.preview" => PREVIEW,
        _ => return Lookup::Foreign,
    };
    let after = rows.partition_point(|row| (row.0, row.1) <= (name, opset));
    match after.checked_sub(1).and_then(|at| rows.get(at)) {
        Some(&(found, _, inputs, outputs, attributes)) if found == name && attributes != "-" => {
            Lookup::Found(Signature { inputs, outputs, attributes })
        }
        _ => Lookup::Missing,
    }
}

impl Signature {
    /// The least and the greatest number of operands.
    pub(crate) fn inputs(&self) -> (usize, usize) {
        range(self.inputs)
    }

    /// The least and the greatest number of results.
    pub(crate) fn outputs(&self) -> (usize, usize) {
        range(self.outputs)
    }

    /// Tells whether operand number `at` must be given.
    pub(crate) fn requires(&self, at: usize) -> bool {
        matches!(self.inputs.as_bytes().get(at), Some(b'1' | b'+'))
    }

    /// The attributes, by name.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = AttributeRow> {
        self.attributes.split(' ').filter_map(|text| {
            let (name, kind) = text.split_once(':')?;
            let required = kind.ends_with('!');
            let kind = match kind.trim_end_matches('!') {
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
            Some(AttributeRow { name, kind, required })
        })
    }
}

fn range(pattern: &str) -> (usize, usize) {
    // What may be left out may still be followed by something required.
    let least = pattern.bytes().rposition(|b| matches!(b, b'1' | b'+')).map_or(0, |at| at + 1);
    let most = if pattern.ends_with(['+', '*']) { usize::MAX } else { pattern.len() };
    (least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_well_formed() {
        for rows in [ONNX, ML, TRAINING, PREVIEW] {
            assert!(rows.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
            for &(name, since, inputs, outputs, attributes) in rows {
                assert!(inputs.bytes().chain(outputs.bytes()).all(|b| b"1?+*".contains(&b)));
                let Lookup::Found(found) = lookup_in(rows, name, since) else {
                    continue;
                };
                let count = attributes.split(' ').filter(|a| !a.is_empty()).count();
                assert_eq!(found.attributes().count(), count, "{name} {since}");
            }
        }
    }

    fn lookup_in(rows: &[Row], name: &str, since: i64) -> Lookup {
        let domain = if std::ptr::eq(rows, ONNX) { "" } else { "ai.onnx.ml" };
        lookup(domain, name, since)
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
