//! The operators of templates, as filters that [`rewrite`](super::rewrite) inserts.

use super::account;
use super::values::{self, deep, deep_steps, kept, length, shallow_steps};
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};
use std::fmt::{self, Write};

/// The name of the filter that charges the account for a computed value.
pub(super) const KEPT: &str = "bb_kept";
/// The name of the filter that charges the account for comparing with a value.
pub(super) const WEIGHED: &str = "bb_weighed";
/// The name of the filter that charges the account for searching a value.
pub(super) const SEARCHED: &str = "bb_searched";
/// The name of the filter that charges the account for iterating over a value.
pub(super) const ITERATED: &str = "bb_iterated";
/// The name of the filter that charges the bytes and steps of passing the elements of a list as arguments.
pub(super) const SPREAD: &str = "bb_spread";
/// The name of the filter that refuses namespaces, loops and macros.
pub(super) const PLAIN: &str = "bb_plain";
/// The name of the filter that charges the steps of one iteration or call, and returns false.
pub(super) const TURN: &str = "bb_turn";
/// The name of the filter that charges the bytes and steps of building a macro, and returns false.
pub(super) const MACRO: &str = "bb_macro";
/// The name of the filter that computes `a * b`.
pub(super) const MUL: &str = "bb_mul";
/// The name of the filter that computes `a ~ b`.
pub(super) const CONCAT: &str = "bb_concat";
/// The name of the filter that computes `a[b]`.
pub(super) const ITEM: &str = "bb_item";
/// The name of the filter that computes `a[b:c:d]`.
pub(super) const SLICE: &str = "bb_slice";

/// The number of steps for one iteration or call.
const TURN_STEPS: u64 = 16;
/// The size of a macro and of the variables that it captures, in bytes.
const MACRO_BYTES: usize = 1024;

/// Adds the operators to an environment.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter(KEPT, kept);
    environment.add_filter(WEIGHED, |value: Value| {
        account::steps(deep_steps(&value))?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter(SEARCHED, |value: Value| {
        account::steps(values::search_steps(&value))?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter(ITERATED, |value: Value| {
        account::steps(match values::is_special(&value) {
            true => deep_steps(&value),
            false => value.as_str().map_or(1, |text| text.len() as u64),
        })?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter(SPREAD, |value: Value| {
        account::steps(shallow_steps(&value))?;
        let items = value.as_str().map_or_else(|| length(&value), str::len);
        account::bytes(items.saturating_mul(4 * size_of::<Value>()))?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter(PLAIN, |value: Value| {
        values::plain(&value)?;
        values::shared(value)
    });
    environment.add_filter(TURN, |_: Value| {
        account::steps(TURN_STEPS)?;
        Ok::<bool, Error>(false)
    });
    environment.add_filter(MACRO, |_: Value| {
        // The library copies its list of macros if one is built while another one is running.
        account::steps(TURN_STEPS.saturating_add(account::next_macro()?))?;
        account::bytes(MACRO_BYTES)?;
        Ok::<bool, Error>(false)
    });
    environment.add_filter(MUL, mul);
    environment.add_filter(CONCAT, concat);
    environment.add_filter(ITEM, |value: Value, key: Value| {
        account::steps(value.as_str().map_or(0, |text| text.len() as u64 / 4) + deep_steps(&key))?;
        value.get_item(&key)
    });
    environment.add_filter(SLICE, slice);
    environment.set_formatter(written);
}

/// Writes a value to the output of the template, or of a block that captures text.
fn written(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let plain = state.auto_escape() == AutoEscape::None;
    if let Some(text) = value.as_str()
        && (plain || value.is_safe())
    {
        account::bytes(text.len())?;
        account::steps(text.len() as u64 / 16)?;
        return out.write_str(text).map_err(Error::from);
    }
    if plain && value.as_object().is_some() {
        let mut text = Display::default();
        text.push(value)?;
        return out.write_str(&text.text).map_err(Error::from);
    }
    // A character is escaped by at most six characters in HTML and in JSON.
    let most = deep(value).saturating_mul(8);
    account::bytes(usize::try_from(most).unwrap_or(usize::MAX))?;
    account::steps(most / 16)?;
    minijinja::escape_formatter(out, state, value)
}

/// A text buffer that charges its bytes to the account while it grows.
#[derive(Default)]
pub(super) struct Display {
    pub(super) text: String,
    refused: Option<Error>,
}

impl Display {
    /// Appends the displayed form of a value.
    pub(super) fn push(&mut self, value: &Value) -> Result<(), Error> {
        let written = match value.as_str() {
            Some(text) => self.write_str(text),
            None => write!(self, "{value}"),
        };
        match (self.refused.take(), written) {
            (Some(refused), _) => Err(refused),
            (None, written) => written.map_err(Error::from),
        }
    }
}

impl Write for Display {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match account::bytes(text.len()).and_then(|()| account::steps(text.len() as u64 / 16 + 1)) {
            Ok(()) => {
                self.text.push_str(text);
                Ok(())
            }
            Err(refused) => {
                self.refused = Some(refused);
                Err(fmt::Error)
            }
        }
    }
}

fn concat(left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        let length = left.len().saturating_add(right.len());
        account::bytes(length)?;
        account::steps(length as u64 / 16)?;
        return Ok(Value::from([left, right].concat()));
    }
    let mut text = Display::default();
    text.push(left)?;
    text.push(right)?;
    Ok(Value::from(text.text))
}

fn unsupported(left: &Value, right: &Value) -> Error {
    let text = format!("tried to use * operator on unsupported types {} and {}", left.kind(), right.kind());
    Error::new(ErrorKind::InvalidOperation, text)
}

fn mul(left: &Value, right: &Value) -> Result<Value, Error> {
    let repeats =
        |value: &Value| matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable);
    let (value, times) = if repeats(left) { (left, right) } else { (right, left) };
    if repeats(value) {
        let wrong = "texts and lists can only be multiplied with integers";
        let times = times.as_usize().ok_or_else(|| Error::new(ErrorKind::InvalidOperation, wrong))?;
        return repeated(value, times);
    }
    let float = |value: &Value| value.is_number() && !value.is_integer();
    let unsupported = |_| unsupported(left, right);
    if float(left) || float(right) {
        let product = f64::try_from(left.clone()).map_err(unsupported)?
            * f64::try_from(right.clone()).map_err(unsupported)?;
        return Ok(Value::from(product));
    }
    let integer = |value: &Value| i128::try_from(value.clone()).map_err(unsupported);
    let product = integer(left)?.checked_mul(integer(right)?).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, format!("unable to calculate {left} * {right}"))
    })?;
    Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from))
}

fn repeated(value: &Value, times: usize) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        account::bytes(text.len().saturating_mul(times))?;
        account::steps((text.len().saturating_mul(times) / 16) as u64)?;
        return Ok(Value::from(text.repeat(times)));
    }
    let count = length(value).saturating_mul(times);
    account::bytes(count.saturating_mul(size_of::<Value>()))?;
    account::steps(count as u64)?;
    let items: Vec<Value> = value.try_iter()?.collect();
    values::list((0..times).flat_map(|_| items.iter().cloned()).collect())
}

/// Returns the start and the end of a Python slice.
///
/// Source: `PySlice_AdjustIndices` of CPython.
fn bounds(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> (i64, i64) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let (lowest, highest) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let within =
        |index: i64| if index < 0 { index.saturating_add(length).max(lowest) } else { index.min(highest) };
    match step < 0 {
        true => (start.map_or(highest, within), stop.map_or(lowest, within)),
        false => (start.map_or(lowest, within), stop.map_or(highest, within)),
    }
}

/// Returns the indices of a Python slice.
fn indices(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let (first, end) = bounds(length, start, stop, step);
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let index = next.filter(|index| if step < 0 { *index > end } else { *index < end })?;
        next = index.checked_add(step);
        usize::try_from(index).ok()
    })
}

fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |bound: &Value| match bound.is_none() {
        true => Ok(None),
        false => i64::try_from(bound.clone()).map(Some),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "cannot slice by step size of 0"));
    }
    if let Some(text) = value.as_str() {
        account::steps(text.len() as u64)?;
        if step == 1 {
            let (first, end) = bounds(text.chars().count(), start, stop, step);
            let (first, count) =
                (first.unsigned_abs() as usize, (end - first).max(0).unsigned_abs() as usize);
            return kept(Value::from(text.chars().skip(first).take(count).collect::<String>()));
        }
        account::bytes(text.len().saturating_mul(4))?;
        let chars: Vec<char> = text.chars().collect();
        let part = indices(chars.len(), start, stop, step).filter_map(|index| chars.get(index));
        return kept(Value::from(part.collect::<String>()));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => values::list(Vec::new()),
        ValueKind::Seq | ValueKind::Iterable => {
            let length = length(value);
            let count = indices(length, start, stop, step).count();
            account::steps(length as u64)?;
            account::bytes(count.saturating_mul(size_of::<Value>()))?;
            let items = indices(length, start, stop, step).map(|index| value.get_item_by_index(index));
            values::list(items.collect::<Result<_, _>>()?)
        }
        kind => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("value of type {kind} cannot be sliced")))
        }
    }
}
