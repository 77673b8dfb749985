//! Checks of a JSON schema before the library compiles it.

use super::expansion::Expansion;
use super::refusal::Refusal;
use super::{numbers, rules};
use bb::Budget;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// The maximum number of definitions that a schema refers to. The library recurses for each definition.
const REFERENCES: usize = 1000;
/// The maximum number of patterns for property names. The library compares each pattern with all others.
const PATTERNS: usize = 32;
/// The maximum size of all patterns together, in bytes.
const PATTERN: usize = 16 << 10;
/// The maximum number of parts of a pattern that may match the empty string.
pub(super) const SKIPPED: usize = 256;
/// The maximum value of a length of a string, and of a number of items or properties.
const LENGTH: u64 = 1 << 31;
/// The maximum number of schemas that the library may create or copy while it combines the parts of a schema. Each takes about 200
/// bytes.
const STEPS: u64 = 200_000;

/// The keywords that limit a length or a number of parts.
const LENGTHS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

/// Returns the budget of one schema, with the deadline of this thread.
pub(super) fn budget() -> Budget {
    Budget::new("the JSON schema", 0, STEPS)
}

/// Checks each part of a schema. The schema is the JSON that was parsed from `text`; the parser has limited its depth.
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

/// Counts the parts of a pattern that may match the empty string. For each letter, the library creates all ends of a sequence of these
/// parts, so that its work is quadratic.
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
    // If names are free, the same name may occur twice, and the library counts it twice. So only one more property than the required
    // ones is allowed.
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

/// Checks the size of a schema after its parts are combined. Returns whether an object may have property names that the schema does
/// not list.
pub(super) fn check_expanded(schema: &Json, budget: &Budget) -> Result<bool, Refusal> {
    let (root, definitions) = Expansion::run(schema, budget)?;
    rules::check(&root, &definitions, budget)
}
