//! A template as instructions, together with the source text that they borrow.

use super::source::{self, SPACES};
use super::{account::Account, rewrite};
use minijinja::machinery::{CodeGenerator, Instructions, Vm, make_string_output, parse};
use minijinja::{AutoEscape, Environment, Error, Value};
use self_cell::self_cell;
use std::collections::BTreeMap;
use std::fmt;

const NAME: &str = "chat";

self_cell! {
    struct ParsedTemplate {
        owner: Box<str>,
        #[covariant]
        dependent: Instructions,
    }
}

/// A compiled template.
pub(super) struct Compiled(ParsedTemplate);

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compiled").field(self.0.borrow_owner()).finish()
    }
}

impl Compiled {
    /// Parses a template, and compiles it.
    pub(super) fn new(text: &str) -> Result<Compiled, Error> {
        source::check(text)?;
        let account = Account::new(text.len());
        account.within(|| ParsedTemplate::try_new(Box::from(text), |text| instructions(text))).map(Compiled)
    }

    /// Returns the source text.
    pub(super) fn source(&self) -> &str {
        self.0.borrow_owner()
    }

    /// Renders the template.
    pub(super) fn render(&self, environment: &Environment<'static>, context: Value) -> Result<String, Error> {
        let mut text = String::new();
        self.0.with_dependent(|_, instructions| {
            let mut output = make_string_output(&mut text);
            Vm::new(environment)
                .eval(instructions, context, &BTreeMap::new(), &mut output, AutoEscape::None)
                .map(|_| ())
        })?;
        Ok(text)
    }
}

fn instructions(text: &str) -> Result<Instructions<'_>, Error> {
    let parsed = parse(text, NAME, Default::default(), SPACES)?;
    let rewritten = rewrite::template(&parsed)?;
    drop(parsed);
    let mut generator = CodeGenerator::new(NAME, text);
    generator.compile_stmt(&rewritten);
    Ok(generator.finish().0)
}
