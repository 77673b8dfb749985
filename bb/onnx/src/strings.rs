//! Operators on strings, which run on the host.

use super::pattern::compiled;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{HostKernel, bits};
use bb_core::operator::{Call, OpOutputs, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{Strings, StringsBuilder, TensorData, memory};
use smallvec::smallvec;

operators! {
    "" {
        RegexFullMatch => HostByDefault(regex_full_match), infer: As(bb_ir::DataType::Bool), halves: Moves;
        StringConcat => HostByDefault(concat), infer: By(concat_types), halves: Moves;
        StringNormalizer => Host(normalizer), infer: By(normalizer_types), ignores: { "locale": "ONNX leaves its meaning to the implementation" };
        StringSplit => Host(split), infer: By(split_types);
    }
}

/// Returns the strings of an operand.
///
/// # Errors
///
/// [`bb_ir::Error::ElementType`] if its elements are not strings.
pub fn strings<'a>(op: &'static str, x: &'a TensorData) -> Result<Strings<'a>, Error> {
    match x.dtype() {
        DataType::String => Ok(x.iter_bytes()),
        got => Err(bb_ir::Error::ElementType { op, expected: &[DataType::String], got }.into()),
    }
}

/// Reads an attribute that is a list of strings, if it is present.
pub fn texts<'a, T>(call: &Call<'a, T>, name: &str) -> Result<Option<Vec<&'a str>>, Error> {
    let Some(list) = call.texts(name)? else { return Ok(None) };
    let text = |bytes: &'a Vec<u8>| {
        std::str::from_utf8(bytes).map_err(|_| call.wrong(name, "has a string that is no UTF-8"))
    };
    list.iter().map(text).collect::<Result<_, _>>().map(Some)
}

static CONCAT: HostKernel = HostKernel {
    name: "string_concat",
    random: false,
    run: |inputs, params| {
        let [a, b] = bb_core::ext::host::operands("string_concat", inputs)?;
        let shape = take::Extents("string_concat", params.first())?;
        const OP: &str = "StringConcat";
        let texts = [memory::collected(OP, strings(OP, a)?)?, memory::collected(OP, strings(OP, b)?)?];
        let places = [bits::positions(OP, a.shape(), shape)?, bits::positions(OP, b.shape(), shape)?];
        let [left, right] = [0, 1].map(|side: usize| {
            let texts = texts.get(side).map(Vec::as_slice).unwrap_or_default();
            let places = places.get(side).map(Vec::as_slice).unwrap_or_default();
            places.iter().filter_map(move |&at| texts.get(at).copied())
        });
        let mut joined = StringsBuilder::with_room(OP, bb_ir::element_count(shape).unwrap_or(0))?;
        let (mut text, mut pace) = (Vec::new(), Pace::new());
        for (left, right) in left.zip(right) {
            pace.step(1 + (left.len() + right.len()) / 64);
            text.clear();
            memory::append(OP, &mut text, left)?;
            memory::append(OP, &mut text, right)?;
            joined.push(&text)?;
        }
        Ok(vec![joined.finish(shape)?])
    },
};

fn concat_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::String), at.broadcast_of(&[0, 1]))
}

/// `StringConcat`: concatenates the strings of both operands element by element.
pub(super) fn concat(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let shape = bb_ir::infer::broadcast("StringConcat", &[a.shape(), b.shape()]).map_err(Error::from)?;
    let params = [Param::Extents(shape.as_slice().into())];
    let result = [(DataType::String, shape.clone())];
    Ok(on.on_host(&CONCAT, &[Some(a), Some(b)], &params, &result)?.into_iter().map(Some).collect())
}

static FULL_MATCH: HostKernel = HostKernel {
    name: "regex_full_match",
    random: false,
    run: |inputs, params| {
        let [x] = bb_core::ext::host::operands("regex_full_match", inputs)?;
        let matches = full_matches(x, take::Text("regex_full_match", params.first())?)?;
        Ok(vec![TensorData::bools(x.shape(), &matches)?])
    },
};

/// `RegexFullMatch`: whether the whole string matches a pattern in the syntax of RE2.
pub(super) fn regex_full_match(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let pattern = call.text("pattern")?.unwrap_or_default();
    let params = [Param::Text(pattern.into())];
    let result = [(DataType::Bool, x.shape().into())];
    Ok(on.on_host(&FULL_MATCH, &[Some(x)], &params, &result)?.into_iter().map(Some).collect())
}

fn full_matches(x: &TensorData, pattern: &str) -> Result<Vec<bool>, Error> {
    const OP: &str = "RegexFullMatch";
    let wrong = |problem| Error::Operator { op: OP.to_owned(), part: "pattern".into(), problem };
    let mut pattern = compiled(pattern).map_err(wrong)?;
    let matches = strings(OP, x)?.map(|text| pattern.matches_all(text).map_err(wrong));
    memory::try_collected(OP, matches)
}

/// Infers the type of `StringNormalizer`. The number of words is unknown if stop words are removed.
fn normalizer_types(at: NodeFacts<'_>) -> Option<Types> {
    let kept = at.node.attributes.texts("stopwords").ok()?.is_none_or(<[_]>::is_empty);
    let shape = |x: &[Dim]| {
        let mut out = x.to_vec();
        // If no words remain, the result has one empty string.
        if !kept || out.last() == Some(&Dim::Known(0)) {
            *out.last_mut()? = Dim::Unknown;
        }
        Some(out)
    };
    at.one(Some(DataType::String), at.dims(0).and_then(shape))
}

/// `StringNormalizer`: removes stop words, and changes the case of the remaining words.
///
/// Case changes follow Unicode, whatever the locale.
pub(super) fn normalizer(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    const OP: &str = "StringNormalizer";
    let x = call.input(0)?;
    let own = strings(OP, x)?;
    let row = match x.shape() {
        [_] => false,
        [1, _] => true,
        shape => {
            return Err(
                call.wrong(NodePart::Operand(0), format!("has the shape {shape:?}, expected [c] or [1, c]"))
            );
        }
    };
    let exact = call.flag("is_case_sensitive", false)?;
    let case = match call.text_or("case_change_action", "NONE")? {
        "LOWER" => Case::Lower,
        "UPPER" => Case::Upper,
        "NONE" => Case::Same,
        other => {
            let problem = format!("is `{other}`, expected `LOWER`, `UPPER` or `NONE`");
            return Err(call.wrong("case_change_action", problem));
        }
    };
    let stops = call.texts("stopwords")?.unwrap_or_default();
    let same = if exact { Case::Same } else { Case::Lower };
    let (mut key, mut changed) = (Vec::new(), Vec::new());
    let mut stopping = std::collections::HashSet::new();
    for stop in stops {
        same.change(OP, stop, &mut key)?;
        stopping.insert(key.clone());
    }
    let mut kept = StringsBuilder::with_room(OP, x.len())?;
    let mut count = 0;
    let mut pace = Pace::new();
    for text in own {
        pace.step(1 + text.len());
        if !stopping.is_empty() {
            same.change(OP, text, &mut key)?;
            if stopping.contains(&key) {
                continue;
            }
        }
        case.change(OP, text, &mut changed)?;
        kept.push(&changed)?;
        count += 1;
    }
    if count == 0 {
        kept.push("")?;
        count = 1;
    }
    let shape: &[usize] = if row { &[1, count] } else { &[count] };
    Ok(one(kept.finish(shape)?))
}

/// A conversion to lower or upper case.
#[derive(Debug, Clone, Copy)]
enum Case {
    Lower,
    Upper,
    Same,
}

impl Case {
    /// Converts a string to this case and writes it to `out`, replacing its content. Bytes that are not UTF-8 stay
    /// unchanged.
    fn change(self, op: &'static str, text: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        if !text.is_ascii() && !matches!(self, Case::Same) {
            // Check the memory beforehand, because the standard library aborts if there is none. A string may need
            // up to three times its bytes in another case.
            memory::probe_strings(op, 1, text.len().saturating_mul(6))?;
            for chunk in text.utf8_chunks() {
                let text = chunk.valid();
                let changed =
                    if matches!(self, Case::Lower) { text.to_lowercase() } else { text.to_uppercase() };
                out.extend_from_slice(changed.as_bytes());
                out.extend_from_slice(chunk.invalid());
            }
            return Ok(());
        }
        memory::append(op, out, text)?;
        match self {
            Case::Lower => out.make_ascii_lowercase(),
            Case::Upper => out.make_ascii_uppercase(),
            Case::Same => {}
        }
        Ok(())
    }
}

/// Splits a string at the delimiter, or at runs of white space if the delimiter is empty.
fn parts<'a>(text: &'a [u8], delimiter: &str, most: usize, pace: &mut Pace) -> Result<Vec<&'a [u8]>, Error> {
    let mut parts = Vec::new();
    let mut push = |from: usize, to: usize| {
        let part = text.get(from..to).unwrap_or_default();
        pace.step(1 + part.len());
        memory::push("StringSplit", &mut parts, part)
    };
    // The delimiter is UTF-8, so it can only occur in the parts of the string that are valid UTF-8.
    let mut chunks = text.utf8_chunks().scan(0, |end, chunk| {
        let start = *end;
        *end += chunk.valid().len() + chunk.invalid().len();
        Some((start, chunk))
    });
    if !delimiter.is_empty() {
        let mut from = 0;
        let places = chunks
            .flat_map(|(start, chunk)| chunk.valid().match_indices(delimiter).map(move |(at, _)| start + at));
        for at in places.take(most) {
            push(from, at)?;
            from = at + delimiter.len();
        }
        push(from, text.len())?;
        return Ok(parts);
    }
    // Like Python, count the ASCII separators 0x1c to 0x1f as white space; Unicode does not.
    let space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    // The start of the current part, and the end of its last character that is not white space.
    let (mut from, mut end, mut count) = (None, 0, 0);
    let mut take = |at: usize, after: usize, is_space: bool| {
        match from {
            Some(begin) if is_space && count < most => {
                push(begin, at)?;
                (from, count) = (None, count + 1);
            }
            None if !is_space => from = Some(at),
            _ => {}
        }
        if !is_space {
            end = after;
        }
        Ok::<_, Error>(())
    };
    for (start, chunk) in &mut chunks {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            take(start + at, start + at + c.len_utf8(), space(c))?;
        }
        if !chunk.invalid().is_empty() {
            let at = start + valid.len();
            take(at, at + chunk.invalid().len(), false)?;
        }
    }
    if let Some(begin) = from {
        push(begin, end)?;
    }
    Ok(parts)
}

/// Infers the types of `StringSplit`: the parts along a new dimension, and the number of parts of each string.
fn split_types(at: NodeFacts<'_>) -> Option<Types> {
    let parts = at.dims(0).map(|x| [x, &[Dim::Unknown]].concat());
    Some(vec![rule::tensor(Some(DataType::String), parts), rule::tensor(Some(DataType::I64), at.same())])
}

/// `StringSplit`: the parts along a new dimension, padded with empty strings, and the number of parts of each
/// string.
pub(super) fn split(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    let x = call.input(0)?;
    let delimiter = call.text_or("delimiter", "")?;
    // A negative number means no limit.
    let most = call.int_if_given("maxsplit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let mut pace = Pace::new();
    let rows = strings("StringSplit", x)?.map(|text| parts(text, delimiter, most, &mut pace));
    let rows: Vec<Vec<&[u8]>> = memory::try_collected("StringSplit", rows)?;
    let filled = filled(x.shape(), &rows, "")?;
    let counts: Vec<i64> = memory::collected("StringSplit", rows.iter().map(|row| row.len() as i64))?;
    Ok(smallvec![Some(filled), Some(TensorData::new(x.shape(), &counts)?)])
}

/// Creates a tensor from rows, one for each element of `outer`. Shorter rows are padded to the longest one with
/// `filler`.
pub fn filled(outer: &[usize], rows: &[Vec<&[u8]>], filler: &str) -> Result<TensorData, Error> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let shape: Vec<usize> = outer.iter().copied().chain([width]).collect();
    // Limit the size, because one long row makes all other rows equally long.
    const MOST: usize = 1 << 28;
    if bb_ir::element_count(&shape).is_none_or(|n| n > MOST) {
        let (dtype, limit) = (DataType::String, MOST * size_of::<&[u8]>());
        let error = bb_ir::Error::TooLarge { dtype, shape: shape.into(), limit, name: None };
        return Err(error.into());
    }
    let mut all = StringsBuilder::with_room("filling rows", bb_ir::element_count(&shape).unwrap_or(0))?;
    let mut pace = Pace::new();
    for row in rows {
        for text in row.iter().copied().chain(std::iter::repeat_n(filler.as_bytes(), width - row.len())) {
            pace.step(1);
            all.push(text)?;
        }
    }
    Ok(all.finish(&shape)?)
}
