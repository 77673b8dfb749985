//! The bounds of a template's source text, checked before it is parsed.
//!
//! The parser and the compiler of the library recurse over the tree of an expression and of nested blocks. The tree of a chain of operators
//! without brackets has the depth of the chain's length, and a chain of `elif` the depth of its number of conditions.

use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::{Error, ErrorKind};

/// The greatest size of a template, in bytes. The library counts lines and columns in 16 bits.
pub(super) const SOURCE: usize = 60 << 10;
/// The greatest depth of an expression. The depth counts operators that no comma separates, and each bracket as several operators.
const EXPRESSION: usize = 200;
/// The number of operators that a bracket counts as.
const BRACKET: usize = 5;
/// The greatest depth of blocks, including the conditions of `elif`.
const BLOCKS: usize = 50;

/// How the parser treats spaces before and after tags.
pub(super) const SPACES: WhitespaceConfig =
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };

fn too_deep(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("{what} are nested more than {most} levels deep"))
}

/// Checks how deep the tree of a template would be.
///
/// # Errors
///
/// An error if it is too deep, or has an invalid token.
pub(super) fn check(source: &str) -> Result<(), Error> {
    let mut chain = Chain::default();
    let mut blocks = Blocks::default();
    // Whether the next word is the name of a statement, and whether the tag is a `set` without a value so far.
    let (mut statement, mut set) = (false, false);
    for token in tokenize(source, false, Default::default(), SPACES) {
        let (token, _) = token?;
        match (&token, statement) {
            (Token::Ident("set"), true) => set = true,
            (Token::Ident(name), true) => blocks.enter(name)?,
            // An assignment ends with its tag. Without a value, it is a block.
            (Token::Assign, _) if chain.open.is_empty() => set = false,
            (Token::BlockEnd, _) if std::mem::take(&mut set) => blocks.enter("set")?,
            _ => {}
        }
        chain.push(&token)?;
        statement = matches!(token, Token::BlockStart);
    }
    Ok(())
}

/// The operators of the tag that is read, in each pair of brackets that is open.
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
                // A pair of brackets behind a value is an operator, too.
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

/// The depth of the blocks that are open.
#[derive(Default)]
struct Blocks {
    /// The depth outside each open block.
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
