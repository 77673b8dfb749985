//! Bounds what a template keeps in memory.
//!
//! The library counts steps, but a step may make a text that is as long as two others. So every text and list that grows is counted
//! while a template is rendered: the left operand of `~`, `+`, `*` and `|`, by a filter that [`counted`] writes before each; what is
//! written; and what methods and filters give that make more of less. A value is made of its left operands and one more, so
//! that the sum of what was counted bounds every value. Texts between tags are counted, too, because a loop may gather them.

use minijinja::value::{Object, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The greatest number of bytes that are counted in one rendering.
const MOST: usize = 128 << 20;
/// What an element of a list counts, in bytes.
const ELEMENT: usize = 32;
/// The bytes of a text between tags from which it is counted.
const LONG: usize = 32;
/// The name of the filter that counts, which no template has by chance.
const COUNT: &str = "bb_counted";

/// What was counted so far, kept with the rendering.
#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl Object for Counter {}

fn too_much() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the template keeps more than {MOST} bytes"))
}

fn count(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let counter = state.get_or_set_temp_object("bb_counter", Counter::default);
    let before = counter.0.fetch_add(bytes.min(MOST), Ordering::Relaxed);
    if before.saturating_add(bytes) > MOST { Err(too_much()) } else { Ok(()) }
}

/// Returns what a value counts. Lists whose length is not known are iterated, but no further than is allowed.
fn size(value: &Value) -> usize {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => text.len(),
        (None, ValueKind::Bytes) => value.len().unwrap_or(0),
        (None, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => {
            let length = value.len().unwrap_or_else(|| {
                value.try_iter().map_or(0, |items| items.take(MOST / ELEMENT + 1).count())
            });
            length.saturating_mul(ELEMENT)
        }
        _ => 0,
    }
}

/// Returns the bytes of a list's items as texts, and how many there are, as far as is allowed.
fn texts(items: &Value) -> (usize, usize) {
    let mut sum = (0usize, 0);
    for item in items.try_iter().into_iter().flatten() {
        sum = (sum.0.saturating_add(item.as_str().map_or(ELEMENT, str::len)), sum.1 + 1);
        if sum.0.saturating_add(sum.1 * ELEMENT) > MOST {
            break;
        }
    }
    sum
}

/// Counts what joining gives.
fn join(state: &State<'_, '_>, items: &Value, between: &str) -> Result<(), Error> {
    let (bytes, items) = texts(items);
    count(state, bytes.saturating_add(items.saturating_mul(between.len().saturating_add(ELEMENT))))
}

/// Counts what replacing gives.
fn replace(state: &State<'_, '_>, text: &str, from: &str, to: &str) -> Result<(), Error> {
    count(state, text.len().saturating_add(text.matches(from).count().saturating_mul(to.len())))
}

/// Refuses formats with a great width.
fn widths(text: &str) -> Result<(), Error> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
    let wide = digits.unwrap_or(0) > 4 || text.contains('*') || text.contains(":{");
    if wide { Err(too_much()) } else { Ok(()) }
}

fn text_of(values: &[Value], at: usize) -> &str {
    values.get(at).and_then(Value::as_str).unwrap_or_default()
}

/// Counts what the methods of texts give.
fn method(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        match name {
            "join" => join(state, args.first().unwrap_or(&Value::UNDEFINED), text)?,
            "replace" => replace(state, text, text_of(args, 0), text_of(args, 1))?,
            "format" => widths(text)?,
            _ => {}
        }
    }
    let made = minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)?;
    count(state, size(&made))?;
    Ok(made)
}

/// Adds to an environment what counts.
pub(super) fn bound(environment: &mut Environment<'_>) {
    environment.add_filter(COUNT, |state: &State<'_, '_>, value: Value| {
        count(state, size(&value))?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter("join", |state: &State<'_, '_>, items: Value, between: Rest<Value>| {
        let between = text_of(&between, 0);
        join(state, &items, between)?;
        let mut all = String::new();
        for (number, item) in items.try_iter()?.enumerate() {
            if number > 0 {
                all.push_str(between);
            }
            // Writing to a text does not fail.
            let _written = write!(all, "{item}");
        }
        Ok::<String, Error>(all)
    });
    environment.add_filter("replace", |state: &State<'_, '_>, text: String, from: String, to: String| {
        replace(state, &text, &from, &to)?;
        Ok::<String, Error>(text.replace(&from, &to))
    });
    environment.add_filter("indent", |state: &State<'_, '_>, text: String, args: Rest<Value>| {
        let width = args.first().and_then(Value::as_usize).unwrap_or(4);
        count(state, text.len().saturating_add((text.lines().count() + 1).saturating_mul(width)))?;
        let given = |at: usize| args.get(at).map(Value::is_true);
        Ok::<String, Error>(indented(&text, width, given(1).unwrap_or(false), given(2).unwrap_or(false)))
    });
    // What these make is bounded by nothing that a template that is no attack would miss.
    for name in ["format", "slice", "batch", "pprint"] {
        environment.remove_filter(name);
    }
    environment.remove_global("debug");
    environment.set_unknown_method_callback(method);
    environment.set_formatter(|out: &mut Output<'_>, state: &State<'_, '_>, value: &Value| {
        count(state, size(value))?;
        minijinja::escape_formatter(out, state, value)
    });
}

/// Indents lines but the first, and those without text, as Jinja does.
fn indented(text: &str, width: usize, first: bool, blank: bool) -> String {
    let margin = " ".repeat(width);
    let mut all = String::new();
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            all.push('\n');
        }
        if (number > 0 || first) && (blank || !line.trim().is_empty()) {
            all.push_str(&margin);
        }
        all.push_str(line);
    }
    all
}

/// Words behind which an operator has no left operand.
const WORDS: [&str; 12] =
    ["and", "elif", "else", "for", "if", "in", "is", "not", "or", "recursive", "set", "with"];

/// Writes the filter that counts before each operator that makes more of its operands, and behind long texts.
///
/// # Errors
///
/// An error for a long text of spaces, which cannot be divided without changing what tags take away of it.
pub(super) fn counted(source: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source;
    while let Some(at) = ["{{", "{%", "{#"].iter().filter_map(|mark| rest.find(mark)).min() {
        let (text, tag) = rest.split_at(at);
        plain(text, &mut out)?;
        if tag.starts_with("{#") {
            let end = tag.find("#}").map_or(tag.len(), |end| end + 2);
            // A comment is nothing but the spaces that it takes away.
            out.push_str(tag.get(..end).unwrap_or_default());
            rest = tag.get(end..).unwrap_or_default();
            continue;
        }
        let end = tagged(tag, &mut out);
        let inside = tag.get(2..end).unwrap_or_default().trim_start_matches(['-', '+']).trim_start();
        rest = tag.get(end..).unwrap_or_default();
        if tag.starts_with("{%") && inside.starts_with("raw") {
            // What follows up to the end of the block has no tags. It is not divided, so it must not be long.
            let until = rest.find("endraw").unwrap_or(rest.len());
            if until > 1 << 12 {
                return Err(too_much());
            }
            out.push_str(rest.get(..until).unwrap_or_default());
            rest = rest.get(until..).unwrap_or_default();
        }
    }
    plain(rest, &mut out)?;
    Ok(out)
}

/// Copies a text between tags; a long one gets a tag that counts it where no space is beside it.
fn plain(text: &str, out: &mut String) -> Result<(), Error> {
    if text.len() < LONG {
        out.push_str(text);
        return Ok(());
    }
    let mut before = None;
    let place = text.char_indices().find(|&(_, c)| {
        let divides = before.is_some_and(|b: char| !b.is_whitespace() && b != '{') && !c.is_whitespace();
        before = Some(c);
        divides
    });
    let Some((at, _)) = place else {
        out.push_str(text);
        return if text.len() > 4 * LONG { Err(too_much()) } else { Ok(()) };
    };
    let (first, second) = text.split_at(at);
    out.push_str(first);
    out.push_str(&format!("{{{{ bb_text({}) }}}}", text.len()));
    out.push_str(second);
    Ok(())
}

/// Copies a tag with the filter before its operators; returns where the tag ends.
fn tagged(tag: &str, out: &mut String) -> usize {
    let close = if tag.starts_with("{{") { "}}" } else { "%}" };
    let mut chars = tag.char_indices().skip(2).peekable();
    out.push_str(tag.get(..2).unwrap_or_default());
    let (mut depth, mut operand, mut word) = (0usize, false, 2..2);
    while let Some((at, c)) = chars.next() {
        let rest = tag.get(at..).unwrap_or_default();
        if depth == 0 && rest.starts_with(close) {
            out.push_str(close);
            return at + 2;
        }
        if c.is_alphanumeric() || c == '_' {
            if word.end != at {
                word = at..at;
            }
            word.end = at + c.len_utf8();
            operand = !WORDS.contains(&tag.get(word.clone()).unwrap_or_default());
            out.push(c);
            continue;
        }
        match c {
            '"' | '\'' => {
                out.push(c);
                let mut escaped = false;
                for (_, next) in chars.by_ref() {
                    out.push(next);
                    if next == c && !escaped {
                        break;
                    }
                    escaped = next == '\\' && !escaped;
                }
                operand = true;
                continue;
            }
            '(' | '[' | '{' => (depth, operand) = (depth + 1, false),
            ')' | ']' | '}' => (depth, operand) = (depth.saturating_sub(1), true),
            '*' if chars.peek().is_some_and(|(_, next)| *next == '*') => {
                out.push(c);
                chars.next();
                operand = false;
            }
            '~' | '+' | '*' | '|' => {
                let ends = c == '+' && rest.get(1..).is_some_and(|rest| rest.starts_with(close));
                if operand && !ends {
                    out.push('|');
                    out.push_str(COUNT);
                    out.push(' ');
                }
                operand = false;
            }
            _ if c.is_whitespace() => {}
            _ => operand = false,
        }
        out.push(c);
    }
    tag.len()
}

/// Counts a text between tags, and gives nothing.
pub(super) fn text(state: &State<'_, '_>, bytes: usize) -> Result<Value, Error> {
    count(state, bytes)?;
    Ok(Value::from(""))
}
