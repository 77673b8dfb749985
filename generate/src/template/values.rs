//! The lists and dictionaries of templates, which record their depth and their weight.
//!
//! The *weight* of a value is approximately the size of its displayed text. A part that is referenced several times counts each time: a
//! list of two references to one list has more than twice the weight of that list. So an existing value can be written, compared and
//! dropped in time proportional to its weight. The depth of values is limited, too, because of the stack.

use super::account;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::sync::Arc;

/// The maximum nesting depth of lists and dictionaries.
const DEPTH: u8 = 64;
/// The weight of a value without its contents. Comparing it takes as long as comparing 64 bytes.
const NODE: u64 = 64;
/// The size of an element of a list, in bytes.
const ELEMENT: usize = size_of::<Value>();
/// The size of a list or dictionary without its elements, in bytes.
const HEADER: usize = 96;
/// The minimum number of entries of a dictionary whose keys are sorted for look-ups.
const MANY: usize = 8;

/// The depth and weight of a list or dictionary.
#[derive(Debug, Clone, Copy)]
struct Extent {
    depth: u8,
    weight: u64,
}

impl Extent {
    const EMPTY: Extent = Extent { depth: 1, weight: NODE };

    fn add(&mut self, part: &Value) -> Result<(), Error> {
        let (depth, weight) = match extent(part) {
            Some(extent) => (extent.depth, extent.weight),
            None => (0, deep(part)),
        };
        self.depth = self.depth.max(depth.saturating_add(1));
        self.weight = self.weight.saturating_add(weight);
        if self.depth > DEPTH {
            let text = format!("lists and dictionaries are nested more than {DEPTH} levels deep");
            return Err(Error::new(ErrorKind::InvalidOperation, text));
        }
        account::weight(self.weight)
    }
}

/// A list.
#[derive(Debug)]
pub(super) struct List {
    items: Vec<Value>,
    extent: Extent,
    /// Whether the list is an item of the filter `groupby`, whose two elements also have names.
    group: bool,
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_usize(), key.as_str()) {
            (Some(index), _) => self.items.get(index).cloned(),
            (None, Some("grouper")) if self.group => self.items.first().cloned(),
            (None, Some("list")) if self.group => self.items.get(1).cloned(),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

/// A dictionary that keeps the order of its entries.
#[derive(Debug)]
pub(super) struct Dict {
    entries: Vec<(Value, Value)>,
    /// The indices of the entries in the order of their keys, if there are many entries.
    sorted: Vec<u32>,
    extent: Extent,
}

impl Dict {
    fn find(&self, key: &Value) -> Option<&Value> {
        if self.entries.len() < MANY {
            return self.entries.iter().find(|(other, _)| other == key).map(|(_, value)| value);
        }
        let entry = |number: &u32| self.entries.get(*number as usize);
        let found = self.sorted.binary_search_by(|number| {
            entry(number).map_or(std::cmp::Ordering::Less, |(other, _)| other.cmp(key))
        });
        found.ok().and_then(|at| self.sorted.get(at)).and_then(entry).map(|(_, value)| value)
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.find(key).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if self.entries.len() < MANY {
            let entry = self.entries.iter().find(|(other, _)| other.as_str() == Some(key));
            return entry.map(|(_, value)| value.clone());
        }
        self.find(&Value::from(key)).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|dict| Box::new(dict.entries.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }
}

fn extent(value: &Value) -> Option<Extent> {
    let object = value.as_object()?;
    let list = object.downcast_ref::<List>().map(|list| list.extent);
    list.or_else(|| object.downcast_ref::<Dict>().map(|dict| dict.extent))
}

/// Returns the weight of a value with its contents: the number of bytes whose comparison takes as long as a comparison of the value.
pub(super) fn deep(value: &Value) -> u64 {
    if let Some(text) = value.as_str() {
        return NODE.saturating_add(text.len() as u64);
    }
    if let Some(extent) = extent(value) {
        return extent.weight;
    }
    // Keyword arguments, namespaces and loops can change, so they are weighed each time. Only keyword arguments can contain namespaces and
    // loops.
    let Some(object) = value.as_object() else {
        return NODE.saturating_add(value.as_bytes().map_or(0, <[u8]>::len) as u64);
    };
    let weigh = |part: &Value| match extent(part) {
        Some(extent) => extent.weight,
        None => NODE.saturating_add(part.as_str().map_or(0, str::len) as u64),
    };
    let parts = object.try_iter_pairs().into_iter().flatten();
    parts.fold(NODE, |sum, (key, part)| sum.saturating_add(weigh(&key)).saturating_add(weigh(&part)))
}

/// Returns the number of steps for processing all nested parts of a value.
pub(super) fn deep_steps(value: &Value) -> u64 {
    deep(value) / 16
}

/// Returns the number of steps for processing the characters of a text, or the elements of a list without their parts.
pub(super) fn shallow_steps(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => text.len() as u64 / 8 + 1,
        None => length(value) as u64 + 1,
    }
}

/// Returns the number of steps for examining each character of a value's text.
pub(super) fn character_steps(value: &Value) -> u64 {
    deep(value) / 2
}

/// Returns the number of steps for searching a text, a list, or the keys of a dictionary.
pub(super) fn search_steps(value: &Value) -> u64 {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(1, |text| text.len() as u64 / 4),
        ValueKind::Map => length(value) as u64,
        _ => deep_steps(value),
    }
}

/// Returns the number of elements of a list or dictionary; 0 for other values.
pub(super) fn length(value: &Value) -> usize {
    value.as_object().and_then(|object| object.enumerator_len()).unwrap_or(0)
}

/// Returns whether a value is a namespace, loop, macro or function. These objects are not data: they may change or refer to each other.
///
/// The library's types are private, so they are recognised by their names. A type that is not recognised is copied like data, which is
/// safe, too.
pub(super) fn is_special(value: &Value) -> bool {
    const TYPES: [&str; 4] = [
        "::namespace_object::Namespace",
        "::loop_object::Loop",
        "::macro_object::Macro",
        "::closure_object::Closure",
    ];
    value.as_object().is_some_and(|object| {
        object.repr() == ObjectRepr::Plain
            || (extent(value).is_none() && TYPES.iter().any(|name| object.type_name().ends_with(name)))
    })
}

/// Converts a new value to one that records its depth and weight, and charges its bytes to the account.
pub(super) fn kept(value: Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        account::bytes(text.len().saturating_add(ELEMENT))?;
        return Ok(value);
    }
    shared(value)
}

/// Converts a value like [`kept`], but without charging its text, which is shared with another value.
///
/// Lazy lists of the library are evaluated here, unless they are longer than the account allows.
pub(super) fn shared(value: Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::Invalid {
        return Err(Error::new(ErrorKind::InvalidOperation, value.to_string()));
    }
    match value.as_object() {
        Some(_) if extent(&value).is_none() && !is_special(&value) => copied(&value, 0),
        _ => Ok(value),
    }
}

/// Copies an object of the library. Each element is either already converted, or also an object of the library.
fn copied(value: &Value, depth: u8) -> Result<Value, Error> {
    if depth > DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deep"));
    }
    let part = |part: Value| -> Result<Value, Error> {
        match part.as_object() {
            Some(_) if extent(&part).is_none() && !is_special(&part) => copied(&part, depth + 1),
            Some(_) => Ok(part),
            None => kept(part),
        }
    };
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    let known = object.enumerator_len().unwrap_or(0);
    if value.kind() == ValueKind::Map {
        account::bytes(known.saturating_mul(2 * ELEMENT))?;
        let mut entries = Vec::new();
        for (key, value) in object.try_iter_pairs().into_iter().flatten() {
            account::steps(1)?;
            entries.push((part(key)?, part(value)?));
        }
        return dict(entries);
    }
    account::bytes(known.saturating_mul(ELEMENT))?;
    let group = object.type_name().ends_with("::GroupTuple");
    let mut items = Vec::new();
    for item in object.try_iter().into_iter().flatten() {
        if items.len() >= known {
            account::bytes(ELEMENT)?;
        }
        account::steps(1)?;
        items.push(part(item)?);
    }
    grouped(items, group)
}

/// Creates a list of items whose bytes have already been charged.
pub(super) fn list(items: Vec<Value>) -> Result<Value, Error> {
    grouped(items, false)
}

fn grouped(items: Vec<Value>, group: bool) -> Result<Value, Error> {
    account::bytes(HEADER)?;
    let mut extent = Extent::EMPTY;
    for item in &items {
        plain(item)?;
        extent.add(item)?;
    }
    Ok(Value::from_object(List { items, extent, group }))
}

/// Creates a dictionary of entries with distinct keys, whose bytes have already been charged.
pub(super) fn dict(entries: Vec<(Value, Value)>) -> Result<Value, Error> {
    account::bytes(HEADER)?;
    let mut extent = Extent::EMPTY;
    for (key, value) in &entries {
        for part in [key, value] {
            plain(part)?;
            extent.add(part)?;
        }
    }
    let mut sorted = Vec::new();
    if entries.len() >= MANY {
        account::bytes(entries.len().saturating_mul(4))?;
        account::steps(u64::from(usize::BITS).saturating_mul(extent.weight / 16))?;
        sorted = (0..entries.len() as u32).collect();
        sorted.sort_by(|a, b| {
            let key = |number: u32| entries.get(number as usize).map(|(key, _)| key);
            key(*a).cmp(&key(*b))
        });
    }
    Ok(Value::from_object(Dict { entries, sorted, extent }))
}

/// Refuses a namespace, loop, macro or function as a part of another value, so that no value contains itself.
pub(super) fn plain(value: &Value) -> Result<(), Error> {
    match is_special(value) {
        true => Err(Error::new(
            ErrorKind::InvalidOperation,
            "a namespace, loop, macro or function cannot be part of another value",
        )),
        false => Ok(()),
    }
}
