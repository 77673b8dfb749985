//! How many rules a schema becomes, and how many of them may begin at one place.
//!
//! The library's parser compares each rule that it adds at a place of the text with all others of this place. It has a bound of them,
//! but compares the number with it when the place is done.

use super::expansion::{Kind, MULTIPLE, ObjectShape, Shape};
use super::refusal::Refusal;
use bb::Budget;
use std::collections::{BTreeMap, BTreeSet};

/// The greatest number of rules of a schema.
pub(super) const RULES: u64 = 20_000;
/// The greatest number of rules that may begin at one place.
pub(super) const PLACE: u64 = 2000;
/// The greatest number of properties of an object. The work of the library grows with the square.
const PROPERTIES: u64 = 1000;
/// The rules of a property that may be absent: with and without those before it.
const OPTIONAL: u64 = 4;

/// Compares the numbers of rules of a schema, and of what its references lead to, with their bounds. Returns whether an object may have
/// other names than those that the schema names.
pub(super) fn check(
    root: &Shape,
    definitions: &BTreeMap<String, Shape>,
    budget: &Budget,
) -> Result<bool, Refusal> {
    let take = |steps: u64| budget.take_steps(steps).map_err(|source| Refusal::Work { source });
    let (mut rules, mut other_names) = (0u64, false);
    let mut left: Vec<&Shape> = definitions.values().chain([root]).collect();
    while let Some(shape) = left.pop() {
        take(1)?;
        let begun = begun(shape, definitions, &take)?;
        within("rules that may begin at one place of an answer", begun, PLACE)?;
        if let Kind::Object(object) = &*shape.kind {
            within("properties of one object", object.properties.len() as u64, PROPERTIES)?;
        }
        rules = rules.saturating_add(match &*shape.kind {
            Kind::Any
            | Kind::Never
            | Kind::Plain(_)
            | Kind::Text(_)
            | Kind::Number(_)
            | Kind::Reference(_) => 1,
            Kind::List { first, .. } => 4 + 3 * first.len() as u64,
            Kind::Object(object) => of_object(object),
            Kind::Choice { of, .. } => 1 + of.len() as u64,
        });
        within("rules", rules, RULES)?;
        match &*shape.kind {
            Kind::List { first, items } => left.extend(first.iter().chain([items])),
            Kind::Object(object) => {
                left.extend(object.properties.values().chain(object.patterns.values()));
                left.push(&object.additional);
                let names = object.properties.len() + object.required.len() + object.patterns.len();
                other_names |= names > 0 && !matches!(*object.additional.kind, Kind::Never);
            }
            // The values of alternatives without structure become one expression.
            Kind::Choice { of, .. } => {
                left.extend(
                    of.iter()
                        .filter(|one| !matches!(*one.kind, Kind::Plain(_) | Kind::Text(_) | Kind::Number(_))),
                );
            }
            _ => {}
        }
    }
    Ok(other_names)
}

fn within(what: &'static str, found: u64, most: u64) -> Result<(), Refusal> {
    if found > most { Err(Refusal::Count { what, found, most }) } else { Ok(()) }
}

/// Counts the properties that may be absent.
fn optional(object: &ObjectShape) -> u64 {
    object.properties.keys().filter(|name| !object.required.contains(*name)).count() as u64
}

fn of_object(object: &ObjectShape) -> u64 {
    let (all, optional) = (object.properties.len() as u64, optional(object));
    let all = all + object.required.len() as u64;
    let rules = 4 + 4 * all + OPTIONAL * optional + 4 * object.patterns.len() as u64;
    // With a number of properties, the library writes all of them once for each that may be absent.
    let counted = object.least > 0 || object.most;
    rules + if counted { optional.saturating_mul(all).saturating_mul(3) } else { 0 }
}

/// Counts the rules that may begin where one of the alternatives of a schema has begun.
fn begun(
    shape: &Shape,
    definitions: &BTreeMap<String, Shape>,
    take: &impl Fn(u64) -> Result<(), Refusal>,
) -> Result<u64, Refusal> {
    if !matches!(&*shape.kind, Kind::Choice { .. } | Kind::Object(_)) {
        return Ok(0);
    }
    let (mut count, mut seen, mut left) = (0u64, BTreeSet::new(), vec![shape]);
    // Alternative numbers are read at once: the states of their remainders multiply.
    let mut multiples = 1u64;
    while let Some(next) = left.pop() {
        take(1)?;
        count += match &*next.kind {
            Kind::Choice { of, .. } => {
                left.extend(of);
                0
            }
            Kind::Reference(name) => {
                if seen.insert(name) {
                    left.extend(definitions.get(name));
                }
                1
            }
            Kind::Object(object) => 1 + OPTIONAL * optional(object),
            Kind::List { first, .. } => 2 + first.len() as u64,
            Kind::Any => 6,
            Kind::Number(Some((digits, _))) => {
                multiples = multiples.saturating_mul((*digits).max(1));
                0
            }
            Kind::Never | Kind::Plain(_) | Kind::Text(_) | Kind::Number(None) => 0,
        };
        within("remainders of alternative values of `multipleOf`", multiples, MULTIPLE)?;
    }
    Ok(count)
}
