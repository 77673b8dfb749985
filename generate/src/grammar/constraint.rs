//! What a text may be, as a caller says it.

use crate::Error;
use bb_ir::BoxError;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// The greatest size of a schema, in bytes.
const SCHEMA: usize = 128 << 10;
/// The greatest size of a regular expression, and of a grammar in Lark's form, in bytes.
const EXPRESSION: usize = 16 << 10;
/// The greatest number of definitions that a schema refers to, and of parentheses within each other in a grammar. The library calls itself
/// for each.
const REFERENCES: usize = 1000;
const PARENTHESES: usize = 100;
/// The greatest number of patterns of names of properties. The library compares each with all others.
const PATTERNS: usize = 32;

/// What a text may be.
///
/// Source: the forms are those of `llguidance`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Constraint {
    /// JSON as a schema has it, given as the text of the schema. Properties come in the order of the schema.
    ///
    /// A keyword that is not known to JSON Schema is passed over, as the standard says; one that is known but not enforced, such as
    /// `uniqueItems`, is an error. References are within the schema.
    JsonSchema(String),
    /// Any object of JSON.
    JsonObject,
    /// The whole text matches a regular expression, in the syntax of the crate `regex`, without look-around.
    Regex(String),
    /// A grammar in the form of Lark, a parser for Python, as `llguidance` reads it.
    Lark(String),
}

impl Constraint {
    /// Returns what it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Constraint::JsonSchema(_) => "JSON schema",
            Constraint::JsonObject => "JSON object",
            Constraint::Regex(_) => "regular expression",
            Constraint::Lark(_) => "grammar",
        }
    }

    pub(super) fn refused(&self, source: impl Into<BoxError>) -> Error {
        Error::Grammar { constraint: self.kind(), source: source.into() }
    }

    /// Compares it with the bounds that hold before anything is read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (size, most) = match self {
            Constraint::JsonSchema(text) => (text.len(), SCHEMA),
            Constraint::JsonObject => (0, SCHEMA),
            Constraint::Regex(text) | Constraint::Lark(text) => (text.len(), EXPRESSION),
        };
        if size > most {
            return Err(Error::GrammarSize { constraint: self.kind(), found: size, most });
        }
        if let Constraint::Lark(text) = self {
            let depth = parentheses(text);
            if depth > PARENTHESES {
                return Err(self.refused(format!(
                    "it has {depth} parentheses within each other, expected at most {PARENTHESES}"
                )));
            }
        }
        Ok(())
    }

    /// Reads a schema. The parser bounds how deep it is.
    pub(super) fn schema(&self, text: &str) -> Result<Json, Error> {
        let schema: Json = serde_json::from_str(text).map_err(|source| self.refused(source))?;
        let (mut references, mut patterns) = (BTreeSet::new(), 0);
        let mut left = vec![&schema];
        while let Some(next) = left.pop() {
            match next {
                Json::Object(map) => {
                    references.extend(map.get("$ref").and_then(Json::as_str));
                    patterns +=
                        map.get("patternProperties").and_then(Json::as_object).map_or(0, |map| map.len());
                    left.extend(map.values());
                }
                Json::Array(list) => left.extend(list),
                _ => {}
            }
        }
        let count = references.len();
        if count > REFERENCES {
            return Err(
                self.refused(format!("it refers to {count} definitions, expected at most {REFERENCES}"))
            );
        }
        if patterns > PATTERNS {
            return Err(self.refused(format!(
                "it has {patterns} patterns of names of properties, expected at most {PATTERNS}"
            )));
        }
        Ok(schema)
    }
}

/// Counts how many parentheses are open at most, those of strings and expressions included.
fn parentheses(text: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}
