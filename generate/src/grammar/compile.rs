//! Compiles constraints to parsers.

use super::refusal::Refusal;
use super::{Constraint, Vocabulary, schema};
use crate::Error;
use bb::RunOptions;
use bb_ir::BoxError;
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use llguidance::derivre::RegexBuilder;
use llguidance::{JsonCompileOptions, TokenParser};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The size of the stack for the library's recursive calls, in bytes. Only the used pages take memory.
const STACK: usize = 64 << 20;

/// The white space that is allowed between the parts of JSON: a space, or a line break with the indentation of the next line. If more were
/// allowed, a model could write blanks endlessly.
///
/// Source: `json.gbnf` of llama.cpp, MIT licence.
const BLANKS: &str = r"\x20|\n{1,2}[\x20\t]{0,20}";

/// The letters that may follow a backslash in a string, if an object may have property names that the schema does not list. `u` is
/// excluded, because the library would accept `"\u0061"` as a different name than `"a"`.
const ESCAPES: &str = "nrbtf\\\"";

/// The time limit for compiling a constraint on a busy machine. The work is already limited to some tenths of a second.
const LONGEST: Duration = Duration::from_secs(10);
/// The interval at which the deadline of the thread is checked during compilation.
const TICK: Duration = Duration::from_millis(10);

/// The maximum number of constraints that are compiled at the same time, including those that exceeded their time and are still running.
const COMPILING: usize = 16;

/// A guard that counts a running compilation.
struct Compiling;

impl Compiling {
    fn begin() -> Result<Compiling, Error> {
        let began = COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < COMPILING).then_some(count + 1)
        });
        began.map(|_| Compiling).map_err(|_| Error::Busy { most: COMPILING })
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Calls the library on a thread with its own stack. A panic of the library is returned as an error. If a call exceeds its time limit, the
/// thread continues, but its result is dropped.
///
/// # Errors
///
/// [`Error::Model`] if the deadline of this thread passes, or its run is cancelled.
pub(super) fn apart<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, BoxError> + Send + 'static,
) -> Result<Result<T, BoxError>, Error> {
    let (to, from) = sync_channel(1);
    let thread = Builder::new().name("bb-grammar".to_owned()).stack_size(STACK);
    let spawned = thread.spawn(move || {
        let _late = to.send(call());
    });
    if let Err(error) = spawned {
        return Ok(Err(error.into()));
    }
    let start = Instant::now();
    loop {
        let result = from.recv_timeout(TICK);
        RunOptions::check_current()?;
        return Ok(match result {
            Ok(result) => result.map_err(shown),
            Err(RecvTimeoutError::Timeout) if start.elapsed() < LONGEST => continue,
            Err(RecvTimeoutError::Timeout) => Err(Refusal::Time { most: LONGEST }.into()),
            Err(RecvTimeoutError::Disconnected) => Err(Refusal::Panic.into()),
        });
    }
}

/// Removes the dump of the library's internal state from its message.
pub(super) fn shown(error: BoxError) -> BoxError {
    let text = error.to_string();
    match text.split_once("\n<") {
        Some((first, _)) => first.trim().into(),
        None => error,
    }
}

pub(super) fn compile(constraint: &Constraint, vocabulary: &Arc<Vocabulary>) -> Result<TokenParser, Error> {
    let schema = match constraint {
        Constraint::JsonSchema(text) => {
            let read: Json = serde_json::from_str(text).map_err(|source| constraint.refused(source))?;
            schema::check(text, &read).map_err(|refusal| constraint.refused(refusal))?;
            read
        }
        Constraint::JsonObject => json!({ "type": "object" }),
        Constraint::Regex(_) | Constraint::Lark(_) => Json::Null,
    };
    let (of, vocabulary, compiling) = (constraint.clone(), vocabulary.clone(), Compiling::begin()?);
    let budget = schema::budget();
    let compiled = apart(move || {
        let _compiling = compiling;
        let grammar = match of {
            Constraint::JsonSchema(_) | Constraint::JsonObject => {
                let other_names = schema::check_expanded(&schema, &budget)?;
                of_schema(schema, other_names)
            }
            Constraint::Regex(text) => of_regex(&text)?,
            Constraint::Lark(text) => GrammarWithLexer::from_lark(text),
        };
        let mut parser = vocabulary.factory().create_parser(TopLevelGrammar::from_grammar(grammar))?;
        parser.start_without_prompt();
        Ok(parser)
    });
    compiled?.map_err(|source| constraint.refused(source))
}

fn of_schema(mut schema: Json, other_names: bool) -> GrammarWithLexer {
    // Overwrite options within the schema, because they could make the library ignore keywords. A schema that is not an object has no
    // options.
    if schema.is_object() {
        let options = JsonCompileOptions {
            whitespace_pattern: Some(BLANKS.to_owned()),
            json_allowed_escapes: other_names.then(|| ESCAPES.to_owned()),
            ..JsonCompileOptions::default()
        };
        options.apply_to(&mut schema);
    }
    GrammarWithLexer::from_json_schema(schema)
}

fn of_regex(text: &str) -> Result<GrammarWithLexer, BoxError> {
    // The library embeds the expression into a Lark grammar. Compile the expression separately first, because an error in the grammar would
    // be reported at another position. A comment, which ends at a line break, would not end in the grammar.
    RegexBuilder::new().mk_regex(text)?;
    if comments(text) && text.contains(['\n', '\r']) {
        return Err("it has several lines with the flag `x`, expected one line".into());
    }
    Ok(GrammarWithLexer::from_regex(text))
}

/// Returns whether the expression may contain comments, which the flag `x` allows.
fn comments(text: &str) -> bool {
    let flags = text.split("(?").skip(1);
    let mut flags = flags.map(|rest| rest.split([')', ':']).next().unwrap_or_default());
    flags.any(|flags| flags.contains('x'))
}
