//! Counts the rules that a schema expands to, and how many of them may begin at one position of the text.
//!
//! The library's parser compares each rule that it adds at a position of the text with all other rules at this position. It limits
//! their number, but checks the limit only after all rules of the position are added.

use super::expansion::{Kind, MULTIPLE, ObjectShape, Shape};
use super::refusal::Refusal;
use bb::Budget;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of rules of a schema.
pub(super) const RULES: u64 = 20_000;
/// The maximum number of rules that may begin at one position.
pub(super) const PLACE: u64 = 2000;
/// The maximum number of properties of an object. The library's work is quadratic in this number.
const PROPERTIES: u64 = 1000;
/// The number of rules of an optional property: with and without the properties before it.
const OPTIONAL: u64 = 4;

/// Checks the number of rules of a schema, and of the targets of its references, against the limits. Returns whether an object may have
/// property names that the schema does not list.
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
            // Alternatives without structure become a single expression, so they are not counted.
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

/// Counts the optional properties.
fn optional(object: &ObjectShape) -> u64 {
    object.properties.keys().filter(|name| !object.required.contains(*name)).count() as u64
}

fn of_object(object: &ObjectShape) -> u64 {
    let (all, optional) = (object.properties.len() as u64, optional(object));
    let all = all + object.required.len() as u64;
    let rules = 4 + 4 * all + OPTIONAL * optional + 4 * object.patterns.len() as u64;
    // If the number of properties is limited, the library writes all properties once for each optional property.
    let counted = object.least > 0 || object.most;
    rules + if counted { optional.saturating_mul(all).saturating_mul(3) } else { 0 }
}

/// Counts the rules that may begin at the start of the alternatives of a schema.
fn begun(
    shape: &Shape,
    definitions: &BTreeMap<String, Shape>,
    take: &impl Fn(u64) -> Result<(), Refusal>,
) -> Result<u64, Refusal> {
    if !matches!(&*shape.kind, Kind::Choice { .. } | Kind::Object(_)) {
        return Ok(0);
    }
    let (mut count, mut seen, mut left) = (0u64, BTreeSet::new(), vec![shape]);
    // Alternative numbers are parsed simultaneously, so the numbers of their remainders multiply.
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
