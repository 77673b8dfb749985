//! The filters for templates. Each filter charges its work to the account before it begins. The result records its depth and
//! weight.

use super::account;
use super::operators::Display;
use super::values::{character_steps, deep, deep_steps, kept, length, shallow_steps};
use super::{json, values};
use minijinja::value::{Kwargs, Rest, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, filters};

/// The growth of a filter's work.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Proportional to the number of characters or elements.
    Shallow,
    /// Proportional to the text of all nested parts.
    Deep,
    /// The work of sorting. The library copies texts for each comparison.
    Sort,
}

fn wrong(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

/// Adds the filters with an account, and removes filters without a limit.
pub(super) fn add(environment: &mut Environment<'_>) {
    use Work::{Deep, Shallow, Sort};
    let of = [
        ("abs", Deep, Value::from_function(filters::abs)),
        ("attr", Deep, Value::from_function(filters::attr)),
        ("bool", Shallow, Value::from_function(filters::bool)),
        ("capitalize", Deep, Value::from_function(filters::capitalize)),
        ("chain", Shallow, Value::from_function(filters::chain)),
        ("count", Shallow, Value::from_function(filters::length)),
        ("d", Shallow, Value::from_function(filters::default)),
        ("default", Shallow, Value::from_function(filters::default)),
        ("dictsort", Sort, Value::from_function(filters::dictsort)),
        ("e", Deep, Value::from_function(filters::escape)),
        ("escape", Deep, Value::from_function(filters::escape)),
        ("first", Shallow, Value::from_function(filters::first)),
        ("float", Deep, Value::from_function(filters::float)),
        ("groupby", Sort, Value::from_function(filters::groupby)),
        ("int", Deep, Value::from_function(filters::int)),
        ("items", Shallow, Value::from_function(filters::items)),
        ("last", Shallow, Value::from_function(filters::last)),
        ("length", Shallow, Value::from_function(filters::length)),
        ("lines", Deep, Value::from_function(filters::lines)),
        ("list", Shallow, Value::from_function(filters::list)),
        ("lower", Deep, Value::from_function(filters::lower)),
        ("map", Shallow, Value::from_function(filters::map)),
        ("max", Deep, Value::from_function(filters::max)),
        ("min", Deep, Value::from_function(filters::min)),
        ("reject", Shallow, Value::from_function(filters::reject)),
        ("rejectattr", Shallow, Value::from_function(filters::rejectattr)),
        ("reverse", Shallow, Value::from_function(filters::reverse)),
        ("round", Deep, Value::from_function(filters::round)),
        ("safe", Deep, Value::from_function(filters::safe)),
        ("select", Shallow, Value::from_function(filters::select)),
        ("selectattr", Shallow, Value::from_function(filters::selectattr)),
        ("sort", Sort, Value::from_function(filters::sort)),
        ("split", Deep, Value::from_function(filters::split)),
        ("sum", Shallow, Value::from_function(filters::sum)),
        ("title", Deep, Value::from_function(filters::title)),
        ("trim", Deep, Value::from_function(filters::trim)),
        ("unique", Sort, Value::from_function(filters::unique)),
        ("upper", Deep, Value::from_function(filters::upper)),
        ("zip", Shallow, Value::from_function(filters::zip)),
    ];
    for (name, work, filter) in of {
        environment.add_filter(name, move |state: &State<'_, '_>, args: Rest<Value>| {
            take(work, &args)?;
            match name {
                // The library formats each character separately.
                "title" => account::steps(args.first().map_or(0, deep))?,
                "trim" => args.first().map_or(Ok(()), |text| trimmed(text, args.get(1)))?,
                "split" => args.first().map_or(Ok(()), |text| parts(text, args.get(1)))?,
                "map" | "select" | "reject" | "selectattr" | "rejectattr" => each(&args)?,
                "list" | "sort" | "unique" | "groupby" | "max" | "min" | "sum" | "zip" | "chain" => {
                    characters(&args)?
                }
                _ => {}
            }
            if matches!(name, "attr" | "d" | "default" | "first" | "last" | "max" | "min") {
                return values::shared(filter.call(state, &args)?);
            }
            kept(filter.call(state, &args)?)
        });
    }
    environment.add_filter("join", |items: Value, between: Option<Value>| join(&items, between.as_ref()));
    environment.add_filter("string", |value: Value| text(&value));
    environment.add_filter("replace", |state: &State<'_, '_>, args: Rest<Value>| {
        let args: Vec<Value> = args.iter().map(text).collect::<Result<_, _>>()?;
        args.first().map_or(Ok(()), |text| replaced(text, args.get(1), args.get(2)))?;
        let replace = Value::from_function(filters::replace);
        kept(replace.call(state, &args)?)
    });
    environment.add_filter("indent", |state: &State<'_, '_>, args: Rest<Value>| {
        let (value, width, _, _, options): (Value, Option<usize>, Option<bool>, Option<bool>, Kwargs) =
            from_args(&args)?;
        let width = width
            .map_or_else(|| options.get::<Option<usize>>("width"), |width| Ok(Some(width)))?
            .unwrap_or(4);
        let value = text(&value)?;
        let lines = value.as_str().unwrap_or_default().split('\n').count();
        account::bytes(lines.saturating_mul(width).saturating_add(width))?;
        account::steps(deep_steps(&value))?;
        let indent = Value::from_function(filters::indent);
        kept(indent.call(state, &args)?)
    });
    environment.add_filter("tojson", json::to_json);
    for name in ["format", "slice", "batch", "pprint"] {
        environment.remove_filter(name);
    }
}

/// Charges the steps of a filter to the account.
fn take(work: Work, args: &[Value]) -> Result<(), Error> {
    let steps = match work {
        Work::Shallow => args.iter().map(shallow_steps).fold(0, u64::saturating_add),
        Work::Deep => args.iter().map(deep_steps).fold(0, u64::saturating_add),
        Work::Sort => sorting(args),
    };
    account::steps(steps)?;
    match work {
        Work::Shallow => Ok(()),
        Work::Deep | Work::Sort => account::steps(args.first().map_or(0, character_steps)),
    }
}

/// Charges the list of a text's characters.
fn characters(args: &[Value]) -> Result<(), Error> {
    let length = args.first().and_then(Value::as_str).map_or(0, str::len);
    account::steps(4 * length as u64)?;
    account::bytes(length.saturating_mul(size_of::<Value>()))
}

/// Returns the number of steps for sorting a list.
fn sorting(args: &[Value]) -> u64 {
    let Some((list, options)) = args.split_first() else { return 0 };
    let count = length(list).max(list.as_str().map_or(0, str::len)) as u64;
    let options = options.iter().map(deep).fold(1, u64::saturating_add);
    let heaviest = match list.as_object() {
        // The total weight is an upper bound for the weight of each entry.
        Some(_) if list.kind() == ValueKind::Map => deep(list),
        Some(object) => object.try_iter().into_iter().flatten().map(|item| deep(&item)).max().unwrap_or(0),
        None => 1,
    };
    let comparisons = count.saturating_mul(u64::from(u64::BITS - count.leading_zeros()) + 1);
    comparisons.saturating_mul(heaviest.saturating_add(options) / 16 + 1)
}

/// Charges the steps of looking up an attribute, or of passing arguments, for each element.
fn each(args: &[Value]) -> Result<(), Error> {
    let Some((list, options)) = args.split_first() else { return Ok(()) };
    let count = (length(list) as u64).max(list.as_str().map_or(0, str::len) as u64);
    let part = |part: Value| part.as_str().map_or(1, str::len) as u64;
    let of = |option: &Value| match option.is_kwargs() {
        true => option
            .as_object()
            .and_then(|o| o.try_iter_pairs())
            .into_iter()
            .flatten()
            .map(|(_, value)| part(value))
            .sum(),
        false => part(option.clone()),
    };
    let each = options.iter().map(of).fold(1, u64::saturating_add);
    account::bytes(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<Value>()))?;
    account::steps(count.saturating_mul(each / 16 + 4))
}

/// Charges the work of trimming a text. Each character is compared with all characters to be removed.
pub(super) fn trimmed(text: &Value, characters: Option<&Value>) -> Result<(), Error> {
    match characters.filter(|characters| !characters.is_none() && !characters.is_undefined()) {
        Some(characters) => account::steps(deep(text).saturating_mul(deep(characters)) / 16),
        None => Ok(()),
    }
}

/// Charges the bytes for the parts of a split text.
pub(super) fn parts(text: &Value, between: Option<&Value>) -> Result<(), Error> {
    let Some(text) = text.as_str() else { return Ok(()) };
    let count = match between.and_then(Value::as_str) {
        Some("") => text.chars().count() + 2,
        Some(between) => text.matches(between).count() + 1,
        None => text.split_whitespace().count(),
    };
    account::bytes(count.saturating_mul(2 * size_of::<Value>()).saturating_add(text.len()))
}

/// Converts a value to text.
pub(super) fn text(value: &Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::String || value.is_kwargs() {
        return Ok(value.clone());
    }
    let mut text = Display::default();
    text.push(value)?;
    Ok(Value::from(text.text))
}

/// Joins the texts of items with a separator.
pub(super) fn join(items: &Value, between: Option<&Value>) -> Result<Value, Error> {
    let items = items
        .try_iter()
        .map_err(|source| wrong(format!("cannot join value of type {}", items.kind())).with_source(source))?;
    let mut all = Display::default();
    for (number, item) in items.enumerate() {
        account::steps(1)?;
        if number > 0
            && let Some(between) = between
        {
            all.push(between)?;
        }
        all.push(&item)?;
    }
    Ok(Value::from(all.text))
}

/// Charges the bytes and steps of a replacement.
pub(super) fn replaced(whole: &Value, from: Option<&Value>, to: Option<&Value>) -> Result<(), Error> {
    let whole = whole.as_str().unwrap_or_default();
    let argument = |value: Option<&Value>| value.and_then(Value::as_str).map_or(0, str::len);
    let count = from.and_then(Value::as_str).map_or(0, |from| whole.matches(from).count());
    account::steps(whole.len().saturating_add(argument(from)) as u64 / 8)?;
    account::bytes(whole.len().saturating_add(count.saturating_mul(argument(to))))
}

/// Adds the tests that compare texts or lists, with an account.
pub(super) fn add_tests(environment: &mut Environment<'_>) {
    use minijinja::tests;
    let of: [(&[&'static str], Value); 13] = [
        (&["eq", "equalto", "=="], Value::from_function(tests::is_eq)),
        (&["ne", "!="], Value::from_function(tests::is_ne)),
        (&["lt", "lessthan", "<"], Value::from_function(tests::is_lt)),
        (&["le", "<="], Value::from_function(tests::is_le)),
        (&["gt", "greaterthan", ">"], Value::from_function(tests::is_gt)),
        (&["ge", ">="], Value::from_function(tests::is_ge)),
        (&["sameas"], Value::from_function(tests::is_sameas)),
        (&["startingwith"], Value::from_function(tests::is_startingwith)),
        (&["endingwith"], Value::from_function(tests::is_endingwith)),
        (&["lower"], Value::from_function(tests::is_lower)),
        (&["upper"], Value::from_function(tests::is_upper)),
        (&["in"], Value::from_function(tests::is_in)),
        (&["divisibleby"], Value::from_function(tests::is_divisibleby)),
    ];
    for (names, test) in of {
        for name in names {
            let test = test.clone();
            environment.add_test(*name, move |state: &State<'_, '_>, args: Rest<Value>| {
                let of = |value| deep_steps(value).saturating_add(values::search_steps(value));
                account::steps(args.iter().map(of).fold(0, u64::saturating_add))?;
                Ok::<bool, Error>(test.call(state, &args)?.is_true())
            });
        }
    }
}

/// Adds the functions of templates.
pub(super) fn add_functions(environment: &mut Environment<'_>) {
    environment.remove_global("debug");
    environment.add_function("range", range);
    environment.add_function("raise_exception", |value: Value| -> Result<Value, Error> {
        let text = text(&value)?;
        Err(wrong(text.as_str().unwrap_or_default().chars().take(MESSAGE).collect::<String>()))
    });
    let dict = Value::from_function(minijinja::functions::dict);
    environment.add_function("dict", move |state: &State<'_, '_>, args: Rest<Value>| {
        let entries: usize = args.iter().map(length).sum();
        account::bytes(entries.saturating_mul(2 * size_of::<Value>()))?;
        take(Work::Shallow, &args)?;
        kept(dict.call(state, &args)?)
    });
    let namespace = Value::from_function(minijinja::functions::namespace);
    environment.add_function("namespace", move |state: &State<'_, '_>, args: Rest<Value>| {
        let entries: usize = args.iter().map(length).sum();
        account::bytes(entries.saturating_mul(4 * size_of::<Value>()).saturating_add(256))?;
        take(Work::Shallow, &args)?;
        for values in args.iter().filter_map(Value::as_object) {
            values.try_iter_pairs().into_iter().flatten().try_for_each(|(_, value)| values::plain(&value))?;
        }
        namespace.call(state, &args)
    });
}

/// The maximum number of characters of an error message that a template raises.
const MESSAGE: usize = 4096;
/// The maximum number of elements of a range.
const RANGE: i128 = 100_000;

fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (first, end) = end.map_or((0, first), |end| (first, end));
    let (first, end, step) = (i128::from(first), i128::from(end), i128::from(step.unwrap_or(1)));
    if step == 0 {
        return Err(wrong("cannot create range with step of 0"));
    }
    let distance = if step > 0 { end - first } else { first - end };
    let count = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    if count > RANGE {
        return Err(wrong("range has too many elements"));
    }
    account::bytes((count as usize).saturating_mul(size_of::<Value>()))?;
    account::steps(count.unsigned_abs() as u64)?;
    let number = |index: i128| i64::try_from(first + index * step).map(Value::from);
    let items = (0..count).map(number).collect::<Result<_, _>>();
    values::list(items.map_err(|_| wrong("range has too great elements"))?)
}
