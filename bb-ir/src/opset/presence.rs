//! Whether ONNX has an operator in a version of a domain.

use super::schemas::GONE;
use super::signature::{Lookup, lookup};
use super::versions::{rows_of, table};

/// Whether ONNX has an operator in a version of its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// The version has the operator.
    There,
    /// A later opset introduces the operator.
    NotYet {
        /// The opset that introduces the operator.
        since: i64,
    },
    /// An earlier opset removed the operator.
    Gone {
        /// The opset that removed the operator.
        since: i64,
    },
    /// No opset has the operator.
    Never,
    /// The domain is not ONNX's.
    Foreign,
}

/// Returns whether ONNX has an operator in a version of its domain.
///
/// # Examples
///
/// ```
/// use bb_ir::opset::{Presence, presence};
/// assert_eq!(presence("", "Gelu", 17), Presence::NotYet { since: 20 });
/// assert_eq!(presence("", "Upsample", 13), Presence::Gone { since: 10 });
/// assert_eq!(presence("", "Rellu", 13), Presence::Never);
/// ```
pub fn presence(domain: &str, name: &str, opset: i64) -> Presence {
    match lookup(domain, name, opset) {
        Lookup::Foreign => return Presence::Foreign,
        Lookup::Found(_) => return Presence::There,
        Lookup::Missing => {}
    }
    let mut gone = None;
    for &(_, since, .., types) in rows_of(domain, name) {
        match types {
            GONE if since <= opset => gone = Some(Presence::Gone { since }),
            GONE => {}
            _ if since > opset => return gone.unwrap_or(Presence::NotYet { since }),
            _ => {}
        }
    }
    gone.unwrap_or(Presence::Never)
}

/// Lists the names of the operators of one of ONNX's domains, in all versions; none for other domains.
pub fn names(domain: &str) -> impl Iterator<Item = &'static str> {
    table(domain).unwrap_or_default().chunk_by(|a, b| a.0 == b.0).filter_map(|rows| Some(rows.first()?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_follows_the_schemas() {
        // Source: ONNX's changelog: opset 20 introduced Gelu; opset 10 removed Upsample.
        for (name, opset, want) in [
            ("Gelu", 19, Presence::NotYet { since: 20 }),
            ("Gelu", 20, Presence::There),
            ("Upsample", 9, Presence::There),
            ("Upsample", 10, Presence::Gone { since: 10 }),
            ("Nonsense", 13, Presence::Never),
        ] {
            assert_eq!(presence("", name, opset), want, "{name} {opset}");
        }
        assert_eq!(presence("com.example", "Gelu", 1), Presence::Foreign);
        assert_eq!(presence("ai.onnx.ml", "TreeEnsemble", 3), Presence::NotYet { since: 5 });
    }

    #[test]
    fn names_are_those_of_the_domain() {
        assert!(names("").any(|name| name == "Add") && names("ai.onnx.ml").any(|name| name == "Scaler"));
        assert_eq!(names("com.example").count(), 0);
    }
}
