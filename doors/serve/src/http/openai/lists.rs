//! Reads JSON lists, objects and strings item by item. Parsing stops at the first item that is refused, so a list of millions of items
//! takes no memory beyond its limit.

use crate::refusal::Refusal;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Returns whether a value is a list.
pub(super) fn is_list(json: &RawValue) -> bool {
    json.get().starts_with('[')
}

/// Returns whether a value is a string.
pub(super) fn is_text(json: &RawValue) -> bool {
    json.get().starts_with('"')
}

/// Returns whether a value is `null` or an empty list or object.
pub(super) fn is_empty(json: &RawValue) -> bool {
    let json = json.get();
    let within = |open, close| json.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    json == "null" || within('[', ']').or(within('{', '}')).is_some_and(|rest| rest.trim().is_empty())
}

/// Parses a value of a small type, for example a number.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, Refusal> {
    serde_json::from_str(json.get()).map_err(Refusal::Json)
}

/// Calls `read` with each item of a list, and stops at the first error.
pub(super) fn each<'a>(
    json: &'a RawValue,
    read: impl FnMut(&'a RawValue) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut items = Items { read, refused: None };
    let result = serde_json::Deserializer::from_str(json.get()).deserialize_seq(&mut items);
    ended(result, items.refused)
}

/// Calls `read` with each name and value of an object, and stops at the first error.
pub(super) fn each_entry<'a>(
    json: &'a RawValue,
    read: impl FnMut(&str, &'a RawValue) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut entries = Entries { read, refused: None };
    let result = serde_json::Deserializer::from_str(json.get()).deserialize_map(&mut entries);
    ended(result, entries.refused)
}

fn ended(result: Result<(), serde_json::Error>, refused: Option<Refusal>) -> Result<(), Refusal> {
    match refused {
        Some(refused) => Err(refused),
        None => result.map_err(Refusal::Json),
    }
}

struct Items<F> {
    read: F,
    refused: Option<Refusal>,
}

impl<'de, F: FnMut(&'de RawValue) -> Result<(), Refusal>> Visitor<'de> for &mut Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while let Some(item) = from.next_element::<&RawValue>()? {
            if let Err(refused) = (self.read)(item) {
                self.refused = Some(refused);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

struct Entries<F> {
    read: F,
    refused: Option<Refusal>,
}

impl<'de, F: FnMut(&str, &'de RawValue) -> Result<(), Refusal>> Visitor<'de> for &mut Entries<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while let Some((name, value)) = from.next_entry::<Cow<'de, str>, &RawValue>()? {
            if let Err(refused) = (self.read)(&name, value) {
                self.refused = Some(refused);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_list_ends_at_the_item_that_is_refused() {
        let json = format!("[{}0]", "0,".repeat(1 << 20));
        let mut count = 0;
        let refused = each(raw(&json), |_| {
            count += 1;
            if count < 10 { Ok(()) } else { Err(Refusal::Cancelled) }
        });
        assert!(matches!(refused, Err(Refusal::Cancelled)));
        assert_eq!(count, 10);
        each(raw("[]"), |_| Err(Refusal::Cancelled)).unwrap();
        assert!(matches!(each(raw("3"), |_| Ok(())), Err(Refusal::Json(_))));
        let mut names = Vec::new();
        each_entry(raw(r#"{"a": 1, "\u0062": [2]}"#), |name, value| {
            names.push((name.to_owned(), value.get()));
            Ok(())
        })
        .unwrap();
        assert_eq!(names, [("a".to_owned(), "1"), ("b".to_owned(), "[2]")]);
    }

    #[test]
    fn empty_is_null_or_has_no_items() {
        for (json, empty) in
            [("null", true), ("[ \n]", true), ("{}", true), ("[[]]", false), ("0", false), ("\"\"", false)]
        {
            assert_eq!(is_empty(raw(json)), empty, "{json}");
        }
    }
}
