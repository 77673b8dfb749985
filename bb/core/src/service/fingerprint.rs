//! Fingerprints of backends: the versions, the signatures of the operations, and which operations are native.

use bb_ir::Limits;
use bb_ir::compact::{Compact, Reader, Writer};
use bb_ir::op::AtomicOpsetDecl;
use bb_ir::text::{sentence, shown};
use std::collections::BTreeMap;

/// The properties of a backend that must match for a compiled model or a peer: versions, the signature of each
/// operation, and which operations are native.
///
/// It is computed from the op tables, so no version number has to be maintained by hand.
/// [`BackendHandle::fingerprint`](crate::BackendHandle::fingerprint) returns the fingerprint of a running backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// The version of `bb`.
    bb: String,
    /// The version of the backend.
    version: String,
    /// The path of the backend's type.
    path: String,
    families: Vec<FamilyPart>,
}

/// The operations of a family, in the order of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FamilyPart {
    name: String,
    operations: Vec<OperationPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OperationPart {
    name: String,
    /// A hash of the operation's index, opset, operands, parameters and result.
    signature: u64,
    native: bool,
}

bb_ir::__compact!(struct Fingerprint { bb, version, path, families });
bb_ir::__compact!(struct FamilyPart { name, operations });
bb_ir::__compact!(struct OperationPart { name, signature, native });

/// A difference between two fingerprints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// A version or the type of the backend differs.
    #[error("{what}: expected `{expected}`, got `{got}`", expected = sentence(.expected), got = sentence(.got))]
    Text {
        /// The name of the differing part.
        what: &'static str,
        /// The value of this backend.
        expected: String,
        /// The value of the other side.
        got: String,
    },

    /// Only one side has a family.
    #[error("only {} the family `{family}`", sides(*.here), family = shown(.family))]
    Family {
        /// The family.
        family: String,
        /// Whether this backend has the family.
        here: bool,
    },

    /// Only one side has an operation.
    #[error("only {} the operation `{family}::{operation}`", sides(*.here), family = shown(.family), operation = shown(.operation))]
    Operation {
        /// The family.
        family: String,
        /// The operation.
        operation: String,
        /// Whether this backend has the operation.
        here: bool,
    },

    /// An operation has another signature.
    #[error("`{family}::{operation}` has another number, opset, operand, parameter or result", family = shown(.family), operation = shown(.operation))]
    Signature {
        /// The family.
        family: String,
        /// The operation.
        operation: String,
    },

    /// An operation is native only on one side.
    #[error("`{family}::{operation}` is native {}", if *.here { "here alone" } else { "there alone" }, family = shown(.family), operation = shown(.operation))]
    Native {
        /// The family.
        family: String,
        /// The operation.
        operation: String,
        /// Whether the operation is native on this backend.
        here: bool,
    },
}

fn sides(here: bool) -> &'static str {
    if here { "this side has" } else { "the other side has" }
}

/// The differences between two fingerprints. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceList(pub Vec<Difference>);

impl std::fmt::Display for DifferenceList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// The maximum number of differences that are written out.
        const SHOWN: usize = 5;
        for (i, difference) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{difference}", if i == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// The first bytes of an encoded fingerprint. The last of them is the version of the encoding.
const MAGIC: [u8; 4] = *b"bbf\x01";

impl Fingerprint {
    /// Computes the fingerprint of a backend from its opsets.
    pub(crate) fn new(
        version: &str,
        path: &str,
        opsets: impl IntoIterator<Item = AtomicOpsetDecl>,
    ) -> Fingerprint {
        let part = |opset: AtomicOpsetDecl| FamilyPart {
            name: opset.family.name().to_owned(),
            operations: opset
                .ops
                .iter()
                .map(|op| OperationPart {
                    name: op.spec.method.to_owned(),
                    signature: op.spec.signature(),
                    native: op.native,
                })
                .collect(),
        };
        Fingerprint {
            bb: env!("CARGO_PKG_VERSION").to_owned(),
            version: version.to_owned(),
            path: path.to_owned(),
            families: opsets.into_iter().map(part).collect(),
        }
    }

    /// Returns the differences between this fingerprint, which belongs to this side, and another one. If the list is
    /// empty, they are equal.
    pub fn differences(&self, other: &Fingerprint) -> Vec<Difference> {
        let texts = [
            ("the version of bb", &self.bb, &other.bb),
            ("the version of the backend", &self.version, &other.version),
            ("the type of the backend", &self.path, &other.path),
        ];
        let text = |(what, own, their): (&'static str, &String, &String)| {
            (own != their).then(|| Difference::Text { what, expected: own.clone(), got: their.clone() })
        };
        let mut found: Vec<Difference> = texts.into_iter().filter_map(text).collect();
        let by_name = |parts: &'_ [FamilyPart]| -> BTreeMap<String, BTreeMap<String, (u64, bool)>> {
            let operations = |part: &FamilyPart| {
                part.operations.iter().map(|o| (o.name.clone(), (o.signature, o.native))).collect()
            };
            parts.iter().map(|part| (part.name.clone(), operations(part))).collect()
        };
        let (own, their) = (by_name(&self.families), by_name(&other.families));
        let only = |family: &String, here| Difference::Family { family: family.clone(), here };
        found.extend(own.keys().filter(|name| !their.contains_key(*name)).map(|name| only(name, true)));
        found.extend(their.keys().filter(|name| !own.contains_key(*name)).map(|name| only(name, false)));
        for (family, own) in &own {
            let Some(their) = their.get(family) else { continue };
            let only = |operation: &String, here| Difference::Operation {
                family: family.clone(),
                operation: operation.clone(),
                here,
            };
            found.extend(their.keys().filter(|name| !own.contains_key(*name)).map(|name| only(name, false)));
            for (operation, &(signature, native)) in own {
                let (family, operation) = (family.clone(), operation.clone());
                match their.get(&operation) {
                    None => found.push(only(&operation, true)),
                    Some(&(other, _)) if other != signature => {
                        found.push(Difference::Signature { family, operation });
                    }
                    Some(&(_, other)) if other != native => {
                        found.push(Difference::Native { family, operation, here: native });
                    }
                    Some(_) => {}
                }
            }
        }
        // The signatures contain the operations' indices, so the order inside a family is compared above. The order of
        // the families is compared only here.
        if found.is_empty() && self != other {
            let order = |of: &Fingerprint| {
                of.families.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(" ")
            };
            let (expected, got) = (order(self), order(other));
            found.push(Difference::Text { what: "the order of families", expected, got });
        }
        found
    }

    /// Encodes the fingerprint for a peer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.write(&mut to);
        [&MAGIC, to.as_bytes()].concat()
    }

    /// Decodes the result of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::SavedForm`] and other errors if the bytes are not a fingerprint.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Fingerprint, bb_ir::Error> {
        let limits = Limits::default();
        let mut from = Reader::new(bytes, &[], &limits);
        if from.take(MAGIC.len())? != MAGIC {
            return Err(bb_ir::Error::SavedForm { at: 0, expected: "a fingerprint" });
        }
        let read = Fingerprint::read(&mut from)?;
        from.finish()?;
        Ok(read)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn one() -> Fingerprint {
        let operation =
            |name: &str, signature, native| OperationPart { name: name.to_owned(), signature, native };
        let family = |name: &str, operations| FamilyPart { name: name.to_owned(), operations };
        Fingerprint {
            bb: "1".to_owned(),
            version: "2".to_owned(),
            path: "a::B".to_owned(),
            families: vec![
                family("Nn", vec![operation("conv", 1, true), operation("relu", 2, false)]),
                family("Bits", vec![operation("and", 3, true)]),
            ],
        }
    }

    #[test]
    fn each_difference_is_named() {
        let own = one();
        assert_eq!(own.differences(&own), []);
        let changed = |change: fn(&mut Fingerprint)| {
            let mut other = one();
            change(&mut other);
            own.check(&other, "the peer").unwrap_err().to_string()
        };
        type Case = (fn(&mut Fingerprint), &'static str);
        let cases: [Case; 8] = [
            (|f| f.version = "3".to_owned(), "the version of the backend: expected `2`, got `3`"),
            (|f| f.path.push('C'), "the type of the backend: expected `a::B`, got `a::BC`"),
            (|f| drop(f.families.pop()), "only this side has the family `Bits`"),
            (|f| f.families[0].name.push('2'), "only the other side has the family `Nn2`"),
            (|f| drop(f.families[0].operations.pop()), "only this side has the operation `Nn::relu`"),
            (
                |f| f.families[0].operations[0].signature = 9,
                "`Nn::conv` has another number, opset, operand, parameter or result",
            ),
            (|f| f.families[0].operations[0].native = false, "`Nn::conv` is native here alone"),
            (|f| f.families.reverse(), "the order of families: expected `Nn Bits`, got `Bits Nn`"),
        ];
        for (change, expected) in cases {
            let text = changed(change);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn bytes_come_back_and_damaged_bytes_are_errors() {
        let own = one();
        let bytes = own.to_bytes();
        assert_eq!(Fingerprint::from_bytes(&bytes).unwrap(), own);
        for length in 0..bytes.len() {
            assert!(Fingerprint::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Fingerprint::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let error = Fingerprint::from_bytes(b"not one").unwrap_err();
        assert_eq!(error.to_string(), "the bytes of a peer are no fingerprint");
    }
}
