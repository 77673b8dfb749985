//! Checks of a JSON schema before the library compiles it.

use super::expansion::Expansion;
use super::refusal::Refusal;
use super::{numbers, rules};
use bb::Budget;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// The greatest number of definitions that a schema refers to. The library calls itself for each.
const REFERENCES: usize = 1000;
/// The greatest number of patterns of names of properties. The library compares each with all others.
const PATTERNS: usize = 32;
/// The greatest number of bytes of all patterns together.
const PATTERN: usize = 16 << 10;
/// The greatest number of parts of a pattern that may match nothing.
pub(super) const SKIPPED: usize = 256;
/// The greatest least or greatest length of a text, or number of items or properties.
const LENGTH: u64 = 1 << 31;
/// The schemas that the library may make or copy while it combines the parts of one. Each takes about 200 bytes.
const STEPS: u64 = 200_000;

/// The keywords with a length or a number of parts.
const LENGTHS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

/// Returns the budget of one schema, with the deadline of this thread.
pub(super) fn budget() -> Budget {
    Budget::new("the JSON schema", 0, STEPS)
}

/// Checks the parts of a schema one by one. It is JSON that was read from `text`, whose parser bounds how deep it is.
pub(super) fn check(text: &str, schema: &Json) -> Result<(), Refusal> {
    numbers::check(text)?;
    let (mut references, mut patterns, mut pattern_bytes, mut all_skipped) = (BTreeSet::new(), 0, 0, 0);
    let mut left = vec![schema];
    while let Some(next) = left.pop() {
        match next {
            Json::Object(map) => {
                references.extend(map.get("$ref").and_then(Json::as_str));
                let named = map.get("patternProperties").and_then(Json::as_object);
                patterns += named.map_or(0, Map::len);
                pattern_bytes += named.into_iter().flat_map(Map::keys).map(String::len).sum::<usize>();
                let own = map.get("pattern").and_then(Json::as_str);
                pattern_bytes += own.map_or(0, str::len);
                for pattern in named.into_iter().flat_map(Map::keys).map(String::as_str).chain(own) {
                    let found = skipped(pattern);
                    all_skipped += found;
                    at_most("operators in a pattern that may match nothing", found, SKIPPED)?;
                }
                lengths(map)?;
                left.extend(map.values());
            }
            Json::Array(list) => left.extend(list),
            _ => {}
        }
    }
    at_most("definitions", references.len(), REFERENCES)?;
    at_most("patterns of names of properties", patterns, PATTERNS)?;
    at_most("operators in patterns that may match nothing", all_skipped, 4 * SKIPPED)?;
    at_most("bytes of patterns", pattern_bytes, PATTERN)
}

/// Counts the parts of a pattern that may match nothing. The library makes all ends of a sequence of them for each letter, so that the
/// work grows with the square.
pub(super) fn skipped(pattern: &str) -> usize {
    ["*", "?", "{0", "{,", "|)", "(|", "||"].iter().map(|operator| pattern.matches(operator).count()).sum()
}

fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), Refusal> {
    let (found, most) = (found as u64, most as u64);
    if found > most { Err(Refusal::Count { what, found, most }) } else { Ok(()) }
}

fn lengths(map: &Map<String, Json>) -> Result<(), Refusal> {
    for keyword in LENGTHS {
        if let Some(found) = map.get(keyword).and_then(Json::as_u64).filter(|found| *found > LENGTH) {
            return Err(Refusal::Count { what: keyword, found, most: LENGTH });
        }
    }
    // A name may come twice where names are free, so that the library counts more properties than there are.
    if let Some(least) = map.get("minProperties").and_then(Json::as_u64) {
        let required = map.get("required").and_then(Json::as_array).into_iter().flatten();
        let named = required.filter_map(Json::as_str).collect::<BTreeSet<_>>().len() as u64;
        if least > named + 1 {
            let what = "properties at least, of which only the required ones and one more are told apart";
            return Err(Refusal::Count { what, found: least, most: named + 1 });
        }
    }
    Ok(())
}

/// Checks the size of a schema after its parts are combined. It calls itself for parts within parts. Returns whether an object may
/// have other names than those that the schema names.
pub(super) fn check_expanded(schema: &Json, budget: &Budget) -> Result<bool, Refusal> {
    let (root, definitions) = Expansion::run(schema, budget)?;
    rules::check(&root, &definitions, budget)
}
