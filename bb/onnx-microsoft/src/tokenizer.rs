//! `Tokenizer`: splits strings into words or characters.

use super::only;
use bb_core::error::{Library, NodePart};
use bb_core::operator::{Call, OpOutputs, one};
use bb_core::{DataType, Error};
use bb_ir::graph::{Attribute, Dim, Node};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use bb_onnx::shared::operators;
use bb_onnx::shared::pattern::{self, Pattern};
use bb_onnx::shared::strings::{filled, strings};
use bb_onnx::shared::texts;
use std::ops::Range;

const OP: &str = "Tokenizer";

operators! {
    "com.microsoft" {
        Tokenizer => Host(tokenizer), infer: By(tokenizer_types);
    }
}

/// How a string is split into tokens.
enum Rule {
    /// Makes each character a token.
    Characters,
    /// Splits at the matches of patterns and drops the matches. Each pattern splits the parts that the previous
    /// patterns left.
    Between(Vec<Box<dyn Pattern>>),
    /// Makes each match of a pattern a token.
    Matches(Box<dyn Pattern>),
}

/// The tokens at the start and the end of a string, if these are marked.
const MARKS: [&[u8]; 2] = [b"\x02", b"\x03"];

/// Returns the regular expression engine as a missing library, if the node needs it and none is linked.
pub(super) fn unlinked(node: &Node) -> Option<Library> {
    let needs = node.domain == "com.microsoft" && node.op_type == OP && !is_by_characters(node);
    needs.then(pattern::unlinked).flatten()
}

/// Returns whether each character is a token, so that the node needs no pattern.
fn is_by_characters(node: &Node) -> bool {
    match node.attributes.get("separators") {
        Some(Attribute::Texts(list)) if !list.is_empty() => list.iter().all(Vec::is_empty) && list.len() == 1,
        _ => node.attributes.text("tokenexp").is_ok_and(|text| text == Some(".")),
    }
}

/// Infers the type of `Tokenizer`. The new dimension is the maximum number of tokens of a string; without strings there
/// is none.
fn tokenizer_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        match x {
            [Dim::Known(0)] => return Some(x.to_vec()),
            [rows, _] if x.contains(&Dim::Known(0)) => return Some(vec![rows.clone(), Dim::Known(0)]),
            _ => {}
        }
        x.iter().all(|dim| matches!(dim, Dim::Known(_))).then(|| [x, &[Dim::Unknown]].concat())
    };
    at.one(Some(DataType::String), at.dims(0).and_then(shape))
}

/// `Tokenizer`: the tokens of each string along a new dimension, padded with `pad_value`.
pub(crate) fn tokenizer(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    only(call, &["mark", "mincharnum", "pad_value", "separators", "tokenexp"])?;
    let x = call.input(0)?;
    let texts = strings(OP, x)?;
    if !matches!(x.shape().len(), 1 | 2) {
        let problem = format!("has the shape {:?}, expected [c] or [n, c]", x.shape());
        return Err(call.wrong(NodePart::Operand(0), problem));
    }
    let least = call.int("mincharnum")?;
    let least = usize::try_from(least).ok().filter(|&n| n > 0);
    let least = least.ok_or_else(|| call.wrong("mincharnum", "is not positive, expected at least 1"))?;
    let filler = call
        .text("pad_value")?
        .ok_or_else(|| call.wrong("pad_value", "is missing; the operator needs it"))?;
    let mark = call.int("mark")? != 0;
    let mut rule = rule(call, least)?;
    // Without strings, no dimension is added.
    match *x.shape() {
        [0] => return Ok(one(x.clone())),
        [rows, columns] if rows == 0 || columns == 0 => return Ok(one(x.reshaped(&[rows, 0])?)),
        _ => {}
    }
    let mut pace = Pace::new();
    let rows = texts.map(|text| {
        pace.step(text.len());
        let wrong = || call.wrong(NodePart::Operand(0), "has a string that is not UTF-8");
        let tokens = rule.tokens(std::str::from_utf8(text).map_err(|_| wrong())?, least)?;
        memory::collected(OP, tokens.into_iter().map(str::as_bytes)).map_err(Error::from)
    });
    let mut rows: Vec<Vec<&[u8]>> = memory::try_collected(OP, rows)?;
    // If no string has a token, nothing is marked.
    if mark && rows.iter().any(|row| !row.is_empty()) {
        let [start, end] = MARKS;
        for row in &mut rows {
            memory::push(OP, row, end)?;
            memory::push(OP, row, start)?;
            row.rotate_right(1);
        }
    }
    Ok(one(filled(x.shape(), &rows, filler)?))
}

/// Reads the attributes that define tokens. If both are present, `separators` takes precedence.
fn rule(call: &Call<'_, TensorData>, least: usize) -> Result<Rule, Error> {
    let compiled =
        |name: &str, text: &str| pattern::compiled(text).map_err(|problem| call.wrong(name, problem));
    let (separators, tokens) = (texts(call, "separators")?, call.text("tokenexp")?);
    let rule = match (&separators, tokens) {
        (Some(list), _) if list.as_slice() == [""] => Rule::Characters,
        (Some(list), _) if !list.is_empty() => {
            Rule::Between(list.iter().map(|text| compiled("separators", text)).collect::<Result<_, _>>()?)
        }
        (_, Some("")) => return Err(call.wrong("tokenexp", "is empty")),
        (_, Some(".")) => Rule::Characters,
        (_, Some(text)) => Rule::Matches(compiled("tokenexp", text)?),
        _ => return Err(call.wrong("separators", "is missing or empty, and there is no `tokenexp`")),
    };
    if matches!(rule, Rule::Characters) && least > 1 {
        return Err(call.wrong("mincharnum", format!("is {least}; tokens are single characters")));
    }
    Ok(rule)
}

impl Rule {
    /// Splits a string into tokens. Tokens of fewer than `least` characters are dropped.
    fn tokens<'t>(&mut self, text: &'t str, least: usize) -> Result<Vec<&'t str>, Error> {
        match self {
            Rule::Characters => {
                let ends = text.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
                Ok(memory::collected(OP, ends.filter_map(|(start, end)| text.get(start..end)))?)
            }
            Rule::Between(patterns) => {
                let mut tokens = vec![text];
                for pattern in patterns {
                    let mut parts = Vec::new();
                    for token in tokens {
                        memory::append(OP, &mut parts, &between(token, pattern.as_mut(), least)?)?;
                    }
                    tokens = parts;
                }
                Ok(tokens)
            }
            Rule::Matches(pattern) => matches(text, pattern.as_mut(), least),
        }
    }
}

/// Returns the end of the character at `at`.
fn next(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

fn is_long(token: &str, least: usize) -> bool {
    token.chars().take(least).count() == least
}

/// Returns the parts of a string between matches. After an empty match, the search continues after the next character.
fn between<'t>(text: &'t str, pattern: &mut dyn Pattern, least: usize) -> Result<Vec<&'t str>, Error> {
    let (mut tokens, mut from) = (Vec::new(), 0);
    while let Some(found) = found(text, pattern, from)? {
        memory::push(OP, &mut tokens, part(text, from..found.start)?)?;
        from = if found.is_empty() { next(text, found.start) } else { found.end };
    }
    memory::push(OP, &mut tokens, part(text, from..text.len())?)?;
    tokens.retain(|token| is_long(token, least));
    Ok(tokens)
}

/// Returns the matches. If a match is too short, the next search starts one character later.
fn matches<'t>(text: &'t str, pattern: &mut dyn Pattern, least: usize) -> Result<Vec<&'t str>, Error> {
    let (mut tokens, mut from) = (Vec::new(), 0);
    while let Some(found) = found(text, pattern, from)? {
        let token = part(text, found.clone())?;
        if is_long(token, least) {
            memory::push(OP, &mut tokens, token)?;
            from = found.end;
        } else {
            from = next(text, found.start);
        }
    }
    Ok(tokens)
}

fn found(text: &str, pattern: &mut dyn Pattern, from: usize) -> Result<Option<Range<usize>>, Error> {
    if from >= text.len() {
        return Ok(None);
    }
    pattern.find(text.as_bytes(), from).map_err(|problem| wrong("a pattern", problem))
}

/// Returns a part of a string. A pattern with `\C` may cut a multi-byte character, which is an error.
fn part(text: &str, range: Range<usize>) -> Result<&str, Error> {
    text.get(range).ok_or_else(|| wrong("a pattern", "cuts a character of a text"))
}

fn wrong(part: &'static str, problem: impl Into<String>) -> Error {
    Error::Operator { op: OP.to_owned(), part: part.into(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bb_ir::graph::Attributes;

    /// The test binary links no regular expression engine.
    #[test]
    fn an_engine_that_is_not_linked_is_named_unless_tokens_are_characters() {
        let separators = |list: &[&str]| {
            let list = list.iter().map(|text| text.as_bytes().to_vec()).collect();
            ("separators".to_owned(), Attribute::Texts(list))
        };
        let expression = |text: &str| ("tokenexp".to_owned(), Attribute::Text(text.into()));
        let named = |attribute| {
            let node = Node {
                domain: "com.microsoft".to_owned(),
                op_type: OP.to_owned(),
                attributes: Attributes::new(vec![attribute]),
                ..Node::default()
            };
            bb_core::operator::unlinked(&node).map(|library| (library.feature, library.package))
        };
        let engine = Some(("regex", "bb_patterns"));
        assert_eq!(named(separators(&[""])), None);
        assert_eq!(named(separators(&[" ", ","])), engine);
        assert_eq!(named(expression(".")), None);
        assert_eq!(named(expression("[a-z]+")), engine);
    }
}
