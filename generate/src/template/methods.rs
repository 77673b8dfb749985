//! Python's methods of texts, lists and dictionaries, which templates call.

use super::account;
use super::filters::{join, parts, replaced, trimmed};
use super::values::{deep, deep_steps, kept, length, shared};
use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

/// The filter that calls a method. Its operands are the value, the name of the method, and the arguments.
pub(super) const METHOD: &str = "bb_method";

/// Adds the methods to an environment.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter(METHOD, |state: &State<'_, '_>, args: Rest<Value>| match args.0.as_slice() {
        [value, name, args @ ..] => called(state, value, name.as_str().unwrap_or_default(), args),
        _ => Err(Error::from(ErrorKind::MissingArgument)),
    });
    environment.set_unknown_method_callback(|state, value, name, args| {
        if name == "join" && value.kind() == ValueKind::String {
            return match args {
                [items] => join(items, Some(value)),
                [] => Err(Error::from(ErrorKind::MissingArgument)),
                _ => Err(Error::from(ErrorKind::TooManyArguments)),
            };
        }
        before(value, name, args)?;
        let made = minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)?;
        if name == "get" { shared(made) } else { kept(made) }
    });
}

fn called(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    // The library divides by the number of arguments, so there must be at least one.
    if name == "cycle" && args.is_empty() {
        return Err(Error::new(ErrorKind::MissingArgument, "`cycle` needs one value at least"));
    }
    if name == "changed" {
        account::steps(args.iter().map(deep_steps).fold(0, u64::saturating_add))?;
    }
    value.call_method(state, name, args)
}

/// Charges the work of a method before it is called.
fn before(value: &Value, name: &str, args: &[Value]) -> Result<(), Error> {
    let arguments = args.iter().map(deep_steps).fold(0, u64::saturating_add);
    let Some(text) = value.as_str() else {
        // The library copies dictionaries, and compares lists element by element.
        let entries = length(value);
        return match name {
            "keys" | "values" | "items" => account::steps(entries as u64),
            "count" => account::steps(deep_steps(value).saturating_add(arguments)),
            _ => account::steps(arguments),
        };
    };
    account::steps((text.len() as u64 / 2 + 1).saturating_add(arguments))?;
    let argument = |at: usize| args.get(at);
    match name {
        "strip" | "lstrip" | "rstrip" if !args.is_empty() => trimmed(value, argument(0)),
        // The library formats each character separately.
        "title" => account::steps(text.len() as u64),
        "split" => parts(value, argument(0)),
        "splitlines" => {
            account::bytes((text.matches('\n').count() + 1).saturating_mul(2 * size_of::<Value>()))
        }
        "replace" => replaced(value, argument(0), argument(1)),
        // The library would search for an empty text endlessly.
        "count" if args.first().and_then(Value::as_str) == Some("") => {
            Err(Error::new(ErrorKind::InvalidOperation, "`count` needs a text that is not empty"))
        }
        "format" => formatted(text, args),
        _ => Ok(()),
    }
}

/// Charges the maximum possible result of formatting, and refuses large widths.
fn formatted(text: &str, args: &[Value]) -> Result<(), Error> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if digits > 4 || text.contains('*') || text.contains(":{") {
        return Err(Error::new(ErrorKind::InvalidOperation, "a width of the format is too great"));
    }
    let width = 10u64.saturating_pow(digits as u32);
    let longest = args.iter().map(|arg| deep(arg).saturating_mul(6)).max().unwrap_or(0);
    let most = (text.matches('{').count() as u64).saturating_mul(width.saturating_add(longest));
    account::steps(most / 16)?;
    account::bytes(usize::try_from(most).unwrap_or(usize::MAX).saturating_add(text.len()))
}
