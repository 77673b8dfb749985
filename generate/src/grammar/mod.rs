//! Answers constrained by a grammar. A token is chosen only if the text can still be completed to a text of the grammar.
//!
//! A grammar is untrusted: its size is limited, and so is the work of compiling it and of each token. Exceeding a limit is an error, and so
//! is a keyword of JSON Schema that the library `llguidance` does not enforce.
//!
//! The library catches its own panics. For this, it once installs a panic hook, which calls the hook of the process for all other panics.

mod compile;
mod constraint;
mod expansion;
mod matcher;
mod numbers;
mod refusal;
mod rules;
mod schema;
mod vocabulary;
mod watch;

pub use constraint::Constraint;

pub(crate) use matcher::Matcher;
pub(crate) use vocabulary::Vocabulary;

use crate::Error;
use llguidance::TokenParser;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A [`Constraint`] that [`Generator::grammar`](crate::Generator::grammar) compiled for the tokens of one model. Clones share the compiled
/// grammar, and any number of answers may use it at the same time.
///
/// # Examples
///
/// ```no_run
/// use bb_generate::{Constraint, GenerateOptions, Generator, Message, OpenOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let generator = Generator::open("model.gguf", &bb::backend("cpu")?, &OpenOptions::default())?;
/// let schema = r#"{"type": "object", "properties": {"planet": {"type": "string"}}, "required": ["planet"]}"#;
/// let mut options = GenerateOptions::default();
/// options.grammar = Some(generator.grammar(&Constraint::JsonSchema(schema.to_owned()))?);
/// let prompt = generator.chat(&[Message::new("user", "Which planet is the largest?")])?;
/// for piece in generator.sequence().generate(&prompt, &options)? {
///     print!("{}", piece?.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Grammar {
    compiled: Arc<CompiledGrammar>,
}

struct CompiledGrammar {
    /// The parser before the first token. Each answer gets a copy.
    parser: Mutex<TokenParser>,
    vocabulary: Arc<Vocabulary>,
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}

impl Grammar {
    /// Compiles a constraint for the tokens of a model.
    pub(crate) fn compile(constraint: &Constraint, vocabulary: &Arc<Vocabulary>) -> Result<Grammar, Error> {
        let (parser, vocabulary) = (compile::compile(constraint, vocabulary)?, vocabulary.clone());
        Ok(Grammar { compiled: Arc::new(CompiledGrammar { parser: Mutex::new(parser), vocabulary }) })
    }

    /// Creates the matcher for one answer of a model with this vocabulary.
    pub(crate) fn matcher(&self, vocabulary: Option<&Arc<Vocabulary>>) -> Result<Matcher, Error> {
        let CompiledGrammar { parser, vocabulary: own } = &*self.compiled;
        if !vocabulary.is_some_and(|vocabulary| Arc::ptr_eq(own, vocabulary)) {
            return Err(Error::GrammarModel);
        }
        // Only a copy is made while the lock is held, so the parser is intact even if another thread has panicked.
        let parser = parser.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        Ok(Matcher::new(parser, own.clone()))
    }
}
