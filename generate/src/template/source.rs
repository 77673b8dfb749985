//! Checks the limits of a template's source text before it is parsed.
//!
//! The parser and the compiler of the library recurse over the tree of an expression and of nested blocks. A chain of operators without
//! brackets has a tree whose depth is the length of the chain. The depth of a chain of `elif` is its number of conditions.

use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::{Error, ErrorKind};

/// The maximum size of a template, in bytes. The library counts lines and columns in 16 bits.
pub(super) const SOURCE: usize = 60 << 10;
/// The maximum depth of an expression. The depth is the number of operators without a comma between them. Each bracket counts as several
/// operators.
const EXPRESSION: usize = 200;
/// The number of operators that a bracket counts as.
const BRACKET: usize = 5;
/// The maximum depth of blocks. Each condition of an `elif` counts as a level.
const BLOCKS: usize = 50;

/// How the parser treats white space before and after tags.
pub(super) const SPACES: WhitespaceConfig =
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };

fn too_deep(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("{what} are nested more than {most} levels deep"))
}

/// Checks the depth that the tree of a template would have.
///
/// # Errors
///
/// An error if the depth exceeds the limit, or if the template has an invalid token.
pub(super) fn check(source: &str) -> Result<(), Error> {
    let mut chain = Chain::default();
    let mut blocks = Blocks::default();
    // `statement`: whether the next word is the name of a statement. `set`: whether the tag is a `set` without a value so far.
    let (mut statement, mut set) = (false, false);
    for token in tokenize(source, false, Default::default(), SPACES) {
        let (token, _) = token?;
        match (&token, statement) {
            (Token::Ident("set"), true) => set = true,
            (Token::Ident(name), true) => blocks.enter(name)?,
            // An assignment with a value has no end tag. Without a value, `set` begins a block.
            (Token::Assign, _) if chain.open.is_empty() => set = false,
            (Token::BlockEnd, _) if std::mem::take(&mut set) => blocks.enter("set")?,
            _ => {}
        }
        chain.push(&token)?;
        statement = matches!(token, Token::BlockStart);
    }
    Ok(())
}

/// The number of operators in the current tag, for each open pair of brackets.
#[derive(Default)]
struct Chain {
    open: Vec<usize>,
    outer: usize,
    inner: usize,
}

impl Chain {
    fn push(&mut self, token: &Token<'_>) -> Result<(), Error> {
        match token {
            Token::TemplateData(_)
            | Token::VariableStart
            | Token::BlockStart
            | Token::VariableEnd
            | Token::BlockEnd => {
                *self = Chain::default();
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.outer += self.inner + BRACKET;
                self.open.push(self.inner + BRACKET);
                self.inner = 0;
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                // A pair of brackets after a value is a call or an index, which is an operator, too.
                let before = self.open.pop().unwrap_or(0);
                self.outer -= before.min(self.outer);
                self.inner = (before + 1).saturating_sub(BRACKET);
            }
            Token::Comma => self.inner = 0,
            Token::Ident(name) if !is_operator(name) => {}
            Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::Assign => {}
            _ => self.inner += 1,
        }
        if self.outer + self.inner > EXPRESSION { Err(too_deep("expressions", EXPRESSION)) } else { Ok(()) }
    }
}

fn is_operator(name: &str) -> bool {
    matches!(name, "and" | "or" | "not" | "in" | "is" | "if" | "else")
}

/// The depth of the open blocks.
#[derive(Default)]
struct Blocks {
    /// For each open block, the depth outside of it.
    open: Vec<usize>,
    depth: usize,
}

impl Blocks {
    fn enter(&mut self, name: &str) -> Result<(), Error> {
        match name {
            "elif" => self.depth += 1,
            "if" | "for" | "set" | "with" | "macro" | "call" | "filter" | "autoescape" => {
                self.open.push(self.depth);
                self.depth += 1;
            }
            "endif" | "endfor" | "endset" | "endwith" | "endmacro" | "endcall" | "endfilter"
            | "endautoescape" => {
                self.depth = self.open.pop().unwrap_or(0);
            }
            _ => {}
        }
        if self.depth > BLOCKS { Err(too_deep("blocks", BLOCKS)) } else { Ok(()) }
    }
}
