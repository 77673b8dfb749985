//! The reasons why a constraint is refused before the library compiles it.

/// The reason why a constraint is refused before the library compiles it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// A number that a double cannot represent, or that is too large.
    #[error(
        "the number {number} at `{path}` cannot be compared exactly, expected at most 2^53 and the digits of a double"
    )]
    Number { path: String, number: String },

    /// A part of a schema has more elements than is allowed.
    #[error("it has {found} {what}, expected at most {most}")]
    Count { what: &'static str, found: u64, most: u64 },

    /// A reference to something outside the schema, or to a part by another name than its path.
    #[error("the reference `{reference}` is not a path within the schema, expected one as `#/$defs/name`")]
    Reference { reference: String },

    /// A reference to a part that does not exist.
    #[error("the reference `{reference}` leads to nothing in the schema")]
    Absent { reference: String },

    /// A nested schema with an identifier, which would change the targets of references.
    #[error("a part of the schema has the keyword `{keyword}`, expected it at the top only")]
    Identifier { keyword: &'static str },

    /// A grammar with a directive that is not available.
    #[error("it has `{directive}`, which is not available in grammars")]
    Directive { directive: &'static str },

    /// Compiling would require too much work.
    #[error("combining its parts takes too much work")]
    Work {
        #[source]
        source: bb::Error,
    },

    /// Compiling takes too long.
    #[error("it takes more than {most:?} to compile")]
    Time { most: std::time::Duration },

    /// The tokens of an answer take too long.
    #[error("its tokens take too long, expected {most:?} each on average")]
    Token { most: std::time::Duration },

    /// The library panicked.
    #[error("it makes the library `llguidance` panic")]
    Panic,
}
