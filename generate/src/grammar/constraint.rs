//! Constraints of a generated text, as the caller passes them.

use super::refusal::Refusal;
use super::schema::{SKIPPED, skipped};
use crate::Error;
use bb_ir::BoxError;

/// The maximum size of a schema, in bytes.
const SCHEMA: usize = 128 << 10;
/// The maximum size of a regular expression, and of a Lark grammar, in bytes.
const EXPRESSION: usize = 16 << 10;
/// The maximum nesting depth of parentheses in a grammar, and the maximum number of `~`. The library recurses for each.
const PARENTHESES: usize = 100;
const TILDES: usize = 256;
/// The maximum number of `&` in a grammar. The numbers of states of both sides multiply.
const TOGETHER: usize = 2;

/// A constraint of a generated text.
///
/// Source: `llguidance`, which has the same kinds of constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Constraint {
    /// JSON that conforms to a schema, which is passed as text. Properties are generated in the order of the schema.
    ///
    /// Keywords that JSON Schema does not define are ignored, as the standard requires. A keyword that is defined but not enforced, for
    /// example `uniqueItems`, is an error. References must be within the schema.
    JsonSchema(String),
    /// Any JSON object.
    JsonObject,
    /// The whole text matches a regular expression, in the syntax of the crate `regex`, without look-around.
    Regex(String),
    /// A grammar in the syntax of Lark, a parser library for Python, as `llguidance` reads it.
    Lark(String),
}

impl Constraint {
    /// Returns the kind of the constraint, for messages.
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

    /// Checks the limits that apply before the constraint is parsed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (size, most) = match self {
            Constraint::JsonSchema(text) => (text.len(), SCHEMA),
            Constraint::JsonObject => (0, SCHEMA),
            Constraint::Regex(text) | Constraint::Lark(text) => (text.len(), EXPRESSION),
        };
        if size > most {
            return Err(Error::GrammarSize { constraint: self.kind(), found: size, most });
        }
        let checked = match self {
            Constraint::Lark(text) => grammar(text),
            Constraint::Regex(text) => expression(text),
            Constraint::JsonSchema(_) | Constraint::JsonObject => Ok(()),
        };
        checked.map_err(|refusal| self.refused(refusal))
    }
}

fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), Refusal> {
    let (found, most) = (found as u64, most as u64);
    if found > most { Err(Refusal::Count { what, found, most }) } else { Ok(()) }
}

/// Checks a regular expression before the library reads it.
fn expression(text: &str) -> Result<(), Refusal> {
    at_most("operators that may match nothing", skipped(text), 2 * SKIPPED)
}

/// Checks a grammar in Lark's form before the library reads it.
fn grammar(text: &str) -> Result<(), Refusal> {
    expression(text)?;
    at_most("`&`", text.matches('&').count(), TOGETHER)?;
    at_most("parentheses within each other", parentheses(text), PARENTHESES)?;
    at_most("`~`", text.matches('~').count(), TILDES)?;
    // A JSON schema in a grammar is refused, because it would not be checked.
    match text.contains("%json") {
        true => Err(Refusal::Directive { directive: "%json" }),
        false => Ok(()),
    }
}

/// Returns the maximum depth of open parentheses. Parentheses in strings and expressions count, too.
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
