//! Renders messages to the text format that a model was trained on, by the template of the model.
//!
//! Templates are untrusted programs. Their source is limited before it is parsed ([`source`]). The parsed tree is rewritten ([`rewrite`]),
//! so that every operator, filter, test, method and function charges its bytes and steps to an account ([`account`]), which also has the
//! deadline of the caller. Lists record their depth and the size of their text ([`values`]).

mod account;
mod compiled;
mod filters;
mod json;
mod methods;
mod operators;
mod rewrite;
mod source;
mod time;
mod values;

use crate::{Error, clock};
use account::Account;
use compiled::Compiled;
use minijinja::Environment;
use minijinja::value::Value;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The maximum number of instructions of a rendering.
const FUEL: u64 = 4_000_000;
/// The maximum depth of nested calls and blocks. A call of a macro counts as four.
const CALLS: usize = 100;
/// The maximum size of a rendered text, in bytes.
const TEXT: usize = 64 << 20;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The speaker: `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// Creates a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// The template of a model.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    compiled: Compiled,
    size: usize,
    begin: String,
    end: String,
}

impl ChatTemplate {
    /// Compiles a Jinja template. `begin` and `end` are the texts of the tokens at the beginning and at the end of a text.
    ///
    /// # Errors
    ///
    /// [`Error::Template`] if it is not a template; [`Error::LongTemplate`].
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_generate::{ChatTemplate, Message};
    /// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content.strip() }}{% endfor %}";
    /// let template = ChatTemplate::new(source, "", "")?;
    /// assert_eq!(template.render(&[Message::new("user", " Hello ")], true)?, "<user>Hello");
    /// # Ok::<(), bb_generate::Error>(())
    /// ```
    pub fn new(source: &str, begin: &str, end: &str) -> Result<ChatTemplate, Error> {
        ChatTemplate::with_clock(source, begin, end, None)
    }

    /// Compiles a template like [`new`](Self::new). `clock` returns the seconds since 1970; `None` means the system's clock.
    pub(crate) fn with_clock(
        source: &str,
        begin: &str,
        end: &str,
        clock: Option<fn() -> u64>,
    ) -> Result<ChatTemplate, Error> {
        if source.len() > source::SOURCE {
            return Err(Error::LongTemplate { most: source::SOURCE });
        }
        // Transformers marks the part of the model with a block that the template library does not know.
        let source = without_generation(source);
        let compiled = guarded(|| Compiled::new(&source))?;
        let environment = environment(clock.or(clock::SYSTEM));
        let size = source.len();
        Ok(ChatTemplate { environment, compiled, size, begin: begin.to_owned(), end: end.to_owned() })
    }

    /// Returns the texts in the template that a rendering may copy.
    pub(crate) fn texts(&self) -> [&str; 3] {
        [self.compiled.source(), &self.begin, &self.end]
    }

    /// Renders messages. If `answer`, the beginning of an answer is appended.
    ///
    /// The deadline and the cancel tokens of [`bb::RunOptions::current`] end a rendering.
    ///
    /// # Errors
    ///
    /// [`Error::Template`] if the template fails, refuses the messages, or exceeds a limit; [`Error::LongTemplate`]; [`Error::Model`] with
    /// [`bb::Error::DeadlineExceeded`] or [`bb::Error::Cancelled`].
    pub fn render(&self, messages: &[Message], answer: bool) -> Result<String, Error> {
        let said: usize =
            messages.iter().map(|m| m.role.len() + m.content.len() + size_of::<Message>()).sum();
        let account = Account::new(self.size.saturating_add(said));
        let text = account.within(|| {
            guarded(|| {
                let given = self.context(messages, answer)?;
                self.compiled.render(&self.environment, given)
            })
        })?;
        if text.len() > TEXT { Err(Error::LongTemplate { most: TEXT }) } else { Ok(text) }
    }

    /// Returns the variables that are passed to the template.
    fn context(&self, messages: &[Message], answer: bool) -> Result<Value, minijinja::Error> {
        let message = |Message { role, content }: &Message| {
            values::dict(vec![variable("role", role.as_str()), variable("content", content.as_str())])
        };
        let messages = values::list(messages.iter().map(message).collect::<Result<_, _>>()?)?;
        values::dict(vec![
            variable("messages", messages),
            variable("add_generation_prompt", answer),
            variable("bos_token", self.begin.as_str()),
            variable("eos_token", self.end.as_str()),
        ])
    }
}

/// Returns a variable's name and its value.
fn variable(name: &'static str, value: impl Into<Value>) -> (Value, Value) {
    (Value::from(name), value.into())
}

/// Returns the environment with the filters, tests and functions for templates.
fn environment(clock: Option<fn() -> u64>) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(CALLS);
    operators::add(&mut environment);
    filters::add(&mut environment);
    filters::add_tests(&mut environment);
    filters::add_functions(&mut environment);
    methods::add(&mut environment);
    if let Some(now) = clock {
        environment.add_function("strftime_now", move |form: Value| {
            account::steps(values::deep(&form))?;
            let form = filters::text(&form)?;
            time::formatted(form.as_str().unwrap_or_default(), now()).map(Value::from).and_then(values::kept)
        });
    }
    environment
}

/// Calls the template library. A panic of the library is returned as an error.
fn guarded<T>(call: impl FnOnce() -> Result<T, minijinja::Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(failed),
        Err(_) => {
            let text = "the template makes the library `minijinja` panic";
            Err(failed(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, text)))
        }
    }
}

fn failed(source: minijinja::Error) -> Error {
    use bb::Error::{Cancelled, DeadlineExceeded};
    match account::cause(&source) {
        Some(DeadlineExceeded) => Error::Model { source: DeadlineExceeded },
        Some(Cancelled) => Error::Model { source: Cancelled },
        _ => Error::Template { source },
    }
}

/// Replaces `{% generation %}` and `{% endgeneration %}` by a condition that is always true, which has the same effect on white space.
fn without_generation(source: &str) -> String {
    let mut text = source.to_owned();
    for (name, instead) in [("generation", "if true"), ("endgeneration", "endif")] {
        for left in ["{% ", "{%- "] {
            for right in [" %}", " -%}"] {
                text = text.replace(&format!("{left}{name}{right}"), &format!("{left}{instead}{right}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
