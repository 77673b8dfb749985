//! Computes the size of a JSON schema after its parts are combined. It may be much greater than the text of the schema.
//!
//! The library `llguidance` intersects the parts of `allOf`, and the keywords next to `anyOf`, `oneOf`, `enum` and `$ref`: each alternative
//! of one part with each alternative of the other. The numbers of alternatives multiply, so that ten lines may become millions of rules.
//! The library cannot be interrupted. So this module first intersects shapes in the same way, within a [`Budget`]. A shape has only the
//! properties of a schema that determine the size of the result.
//!
//! Source: `json/schema.rs` of `llguidance` 1.9.

use super::refusal::Refusal;
use crate::gguf::shortened;
use bb::Budget;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The maximum nesting depth of schemas, including references. The library recurses for each level.
const DEPTH: usize = 2500;
/// The number of steps of the library's comparison of two patterns of names. The comparison is repeated for each intersection.
const COMPARISON: u64 = 390;
/// The maximum coefficient of `multipleOf`, which consists of its digits without the decimal point. The library has a state for each
/// remainder.
pub(super) const MULTIPLE: u64 = 4096;

/// The maximum number of patterns that one string must match simultaneously. Their numbers of states multiply.
const TOGETHER: u64 = 3;

/// The types that a schema without `type` may have.
const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
/// The keywords that describe a value of a type. Other keywords, except the combinations, do not increase the size.
const OF_TYPES: [&str; 21] = [
    "type",
    "items",
    "additionalItems",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "additionalProperties",
    "patternProperties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// The kind of a schema, reduced to the properties that determine the size of a grammar.
#[derive(Debug)]
pub(super) enum Kind {
    Any,
    Never,
    /// A null or a boolean, distinguished by its type.
    Plain(&'static str),
    /// A string, with the number of patterns that it must match simultaneously.
    Text(u64),
    /// A number, with the coefficient and the negative power of ten of its `multipleOf`.
    Number(Option<(u64, u32)>),
    List {
        first: Vec<Shape>,
        items: Shape,
    },
    Object(ObjectShape),
    /// Alternatives, and whether they are mutually exclusive.
    Choice {
        of: Vec<Shape>,
        exclusive: bool,
    },
    Reference(String),
}

/// The shape of an object.
#[derive(Debug, Clone)]
pub(super) struct ObjectShape {
    pub(super) properties: BTreeMap<String, Shape>,
    pub(super) patterns: BTreeMap<String, Shape>,
    pub(super) additional: Shape,
    pub(super) required: BTreeSet<String>,
    /// The minimum number of properties, and whether there is a maximum.
    pub(super) least: u64,
    pub(super) most: bool,
}

/// The shape of a schema, with the number of schemas that a copy of it has.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) kind: Rc<Kind>,
    size: u64,
}

impl Shape {
    fn of(kind: Kind) -> Shape {
        let sum = |shapes: &mut dyn Iterator<Item = &Shape>| {
            shapes.fold(1u64, |sum, shape| sum.saturating_add(shape.size))
        };
        let size = match &kind {
            Kind::Any
            | Kind::Never
            | Kind::Plain(_)
            | Kind::Text(_)
            | Kind::Number(_)
            | Kind::Reference(_) => 1,
            Kind::List { first, items } => sum(&mut first.iter().chain([items])),
            Kind::Object(object) => {
                let all = object.properties.values().chain(object.patterns.values());
                sum(&mut all.chain([&object.additional])).saturating_add(object.required.len() as u64)
            }
            Kind::Choice { of, .. } => sum(&mut of.iter()),
        };
        Shape { kind: Rc::new(kind), size }
    }

    fn any() -> Shape {
        Shape::of(Kind::Any)
    }
}

/// Combines the parts of one schema.
pub(super) struct Expansion<'a> {
    root: &'a Json,
    budget: &'a Budget,
    /// The targets of references; `None` while a target is being expanded.
    definitions: BTreeMap<String, Option<Shape>>,
    depth: usize,
}

type Result<T> = std::result::Result<T, Refusal>;

impl<'a> Expansion<'a> {
    /// Combines all parts of a schema. Returns its shape, and the shapes of all targets of references.
    ///
    /// Units: a step of the budget is a schema that the library creates or copies.
    pub(super) fn run(root: &'a Json, budget: &'a Budget) -> Result<(Shape, BTreeMap<String, Shape>)> {
        let mut expansion = Expansion { root, budget, definitions: BTreeMap::new(), depth: 0 };
        let shape = expansion.schema(root)?;
        let definitions = expansion.definitions.into_iter();
        Ok((shape, definitions.filter_map(|(name, shape)| Some((name, shape?))).collect()))
    }

    fn take(&self, steps: u64) -> Result<()> {
        self.budget.take_steps(steps).map_err(|source| Refusal::Work { source })
    }

    /// Calls `call` one level deeper.
    fn deeper<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH {
            let (what, most) = ("schemas within each other", DEPTH as u64);
            return Err(Refusal::Count { what, found: self.depth as u64, most });
        }
        let result = call(self);
        self.depth -= 1;
        result
    }

    fn schema(&mut self, of: &Json) -> Result<Shape> {
        self.take(1)?;
        let Json::Object(map) = of else {
            return Ok(Shape::of(if of.as_bool() == Some(false) { Kind::Never } else { Kind::Any }));
        };
        if !std::ptr::eq(of, self.root) {
            for keyword in ["$id", "id", "$schema"] {
                if map.get(keyword).is_some_and(Json::is_string) {
                    return Err(Refusal::Identifier { keyword });
                }
            }
        }
        let mut result = Shape::any();
        // The library processes the type keywords between two combinations in one step.
        let mut plain: BTreeMap<&str, &Json> = BTreeMap::new();
        for (keyword, of) in map {
            let applied = match keyword.as_str() {
                "const" => Some(self.constant(of)?),
                "enum" => Some(self.choice(of, false, Self::constant)?),
                "anyOf" => Some(self.choice(of, false, Self::inner)?),
                "oneOf" => Some(self.choice(of, true, Self::inner)?),
                "allOf" | "$ref" => None,
                keyword if OF_TYPES.contains(&keyword) => {
                    plain.insert(keyword, of);
                    continue;
                }
                _ => continue,
            };
            result = self.with_types(result, &mut plain, map)?;
            result = match (applied, of) {
                (Some(applied), _) => self.intersect(&result, &applied)?,
                (None, Json::Array(all)) => {
                    for one in all {
                        let one = self.inner(one)?;
                        result = self.intersect(&result, &one)?;
                    }
                    result
                }
                (None, Json::String(reference)) => {
                    self.define(reference)?;
                    match *result.kind {
                        Kind::Any => Shape::of(Kind::Reference(reference.clone())),
                        _ => self.with_reference(reference, &result)?,
                    }
                }
                // The library refuses this keyword.
                (None, _) => result,
            };
        }
        self.with_types(result, &mut plain, map)
    }

    fn inner(&mut self, of: &Json) -> Result<Shape> {
        self.deeper(|this| this.schema(of))
    }

    fn choice(
        &mut self,
        of: &Json,
        exclusive: bool,
        each: fn(&mut Self, &Json) -> Result<Shape>,
    ) -> Result<Shape> {
        let all = of.as_array().map(Vec::as_slice).unwrap_or_default();
        let of = all.iter().map(|one| each(self, one)).collect::<Result<_>>()?;
        self.joined(of, exclusive)
    }

    fn constant(&mut self, of: &Json) -> Result<Shape> {
        self.take(1)?;
        Ok(Shape::of(match of {
            Json::Null => Kind::Plain("null"),
            Json::Bool(_) => Kind::Plain("boolean"),
            Json::Number(_) => Kind::Number(None),
            Json::String(_) => Kind::Text(0),
            Json::Array(list) => Kind::List {
                first: list.iter().map(|item| self.constant(item)).collect::<Result<_>>()?,
                items: Shape::of(Kind::Never),
            },
            Json::Object(map) => Kind::Object(ObjectShape {
                properties: map
                    .iter()
                    .map(|(name, of)| Ok((name.clone(), self.constant(of)?)))
                    .collect::<Result<_>>()?,
                patterns: BTreeMap::new(),
                additional: Shape::of(Kind::Never),
                required: map.keys().cloned().collect(),
                least: 0,
                most: false,
            }),
        }))
    }

    /// Intersects `so_far` with the type keywords since the last combination.
    fn with_types(
        &mut self,
        so_far: Shape,
        plain: &mut BTreeMap<&str, &Json>,
        map: &serde_json::Map<String, Json>,
    ) -> Result<Shape> {
        if plain.is_empty() {
            return Ok(so_far);
        }
        let plain = std::mem::take(plain);
        let mut all = Vec::new();
        match map.get("type") {
            Some(Json::String(name)) => all.push(self.of_type(name, &plain)?),
            Some(Json::Array(names)) => {
                for name in names {
                    all.push(self.of_type(name.as_str().unwrap_or_default(), &plain)?);
                }
            }
            _ => {
                for name in TYPES {
                    all.push(self.of_type(name, &plain)?);
                }
            }
        }
        let types = self.joined(all, false)?;
        self.intersect(&so_far, &types)
    }

    fn of_type(&mut self, name: &str, plain: &BTreeMap<&str, &Json>) -> Result<Shape> {
        self.take(1)?;
        let optional = |this: &mut Self, keyword: &str| match plain.get(keyword) {
            Some(of) => this.inner(of),
            None => Ok(Shape::any()),
        };
        Ok(Shape::of(match name {
            "number" | "integer" => Kind::Number(match plain.get("multipleOf") {
                Some(of) => Some(checked(multiple(of))?),
                None => None,
            }),
            "array" => {
                let list =
                    ["prefixItems", "items"].into_iter().find_map(|keyword| plain.get(keyword)?.as_array());
                let first = list.map(Vec::as_slice).unwrap_or_default();
                let first = first.iter().map(|item| self.inner(item)).collect::<Result<_>>()?;
                let items = match plain.get("items") {
                    Some(Json::Array(_)) => optional(self, "additionalItems")?,
                    _ => optional(self, "items")?,
                };
                Kind::List { first, items }
            }
            "object" => {
                let mut named = |keyword: &str| -> Result<BTreeMap<String, Shape>> {
                    let Some(Json::Object(map)) = plain.get(keyword) else { return Ok(BTreeMap::new()) };
                    map.iter().map(|(name, of)| Ok((name.clone(), self.inner(of)?))).collect()
                };
                let (mut properties, patterns) = (named("properties")?, named("patternProperties")?);
                self.comparisons(patterns.len())?;
                // If a property name matches a pattern, the library intersects both. Assume the largest pattern.
                if let Some(largest) = patterns.values().max_by_key(|shape| shape.size) {
                    for shape in properties.values_mut() {
                        *shape = self.intersect(shape, largest)?;
                    }
                }
                let required = plain.get("required").and_then(|of| of.as_array());
                let required = required.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned);
                Kind::Object(ObjectShape {
                    properties,
                    patterns,
                    additional: optional(self, "additionalProperties")?,
                    required: required.collect(),
                    least: plain.get("minProperties").and_then(|of| of.as_u64()).unwrap_or(0),
                    most: plain.contains_key("maxProperties"),
                })
            }
            "string" => {
                let patterns = ["pattern", "format"].iter().filter(|keyword| plain.contains_key(*keyword));
                Kind::Text(patterns.count() as u64)
            }
            "boolean" => Kind::Plain("boolean"),
            _ => Kind::Plain("null"),
        }))
    }

    /// Charges the steps of comparing each pattern with all others.
    fn comparisons(&self, patterns: usize) -> Result<()> {
        self.take((patterns as u64 * patterns.saturating_sub(1) as u64 / 2).saturating_mul(COMPARISON))
    }

    /// Expands the target of a reference, unless it is already expanded or being expanded.
    fn define(&mut self, reference: &str) -> Result<()> {
        if self.definitions.contains_key(reference) {
            return Ok(());
        }
        let wrong = || Refusal::Reference { reference: shortened(reference) };
        let pointer = reference.strip_prefix('#').ok_or_else(wrong)?;
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(wrong());
        }
        let absent = || Refusal::Absent { reference: shortened(reference) };
        let found = self.root.pointer(&decoded(pointer)).ok_or_else(absent)?;
        self.definitions.insert(reference.to_owned(), None);
        let shape = self.inner(found)?;
        self.definitions.insert(reference.to_owned(), Some(shape));
        Ok(())
    }

    fn with_reference(&mut self, reference: &str, other: &Shape) -> Result<Shape> {
        self.define(reference)?;
        // The library refuses a definition that refers to itself without end.
        let Some(Some(found)) = self.definitions.get(reference) else { return Ok(Shape::of(Kind::Never)) };
        let found = found.clone();
        self.take(found.size)?;
        self.deeper(|this| this.intersect(&found, other))
    }

    /// Joins alternatives. Nested alternatives are flattened.
    fn joined(&mut self, of: Vec<Shape>, exclusive: bool) -> Result<Shape> {
        self.take(of.len() as u64)?;
        let mut all: Vec<Shape> = Vec::with_capacity(of.len());
        for one in of {
            match &*one.kind {
                Kind::Never => {}
                Kind::Any if !exclusive => return Ok(Shape::any()),
                Kind::Choice { of, exclusive: inner } if *inner == exclusive => all.extend_from_slice(of),
                _ => all.push(one),
            }
        }
        if exclusive {
            self.exclusions(&all)?;
        }
        Ok(match all.len() {
            0 => Shape::of(Kind::Never),
            1 => all.swap_remove(0),
            _ => Shape::of(Kind::Choice { of: all, exclusive }),
        })
    }

    /// Charges the steps of comparing each of these alternatives with all others.
    fn exclusions(&self, all: &[Shape]) -> Result<()> {
        let (mut sum, mut names) = (0u64, 1u64);
        for one in all {
            sum += match &*one.kind {
                Kind::Choice { of, .. } => of.len() as u64,
                _ => 1,
            };
            if let Kind::Object(object) = &*one.kind {
                names = names.max(object.required.len() as u64);
            }
        }
        self.take((sum.saturating_mul(sum) / 2).saturating_mul(names) / 10)
    }

    fn intersect(&mut self, a: &Shape, b: &Shape) -> Result<Shape> {
        self.take(1)?;
        self.deeper(|this| this.intersected(a, b))
    }

    fn intersected(&mut self, a: &Shape, b: &Shape) -> Result<Shape> {
        Ok(match (&*a.kind, &*b.kind) {
            (Kind::Any, _) => b.clone(),
            (_, Kind::Any) => a.clone(),
            (Kind::Never, _) | (_, Kind::Never) => Shape::of(Kind::Never),
            (Kind::Reference(reference), _) => self.with_reference(reference, b)?,
            (_, Kind::Reference(reference)) => self.with_reference(reference, a)?,
            (Kind::Choice { of, exclusive }, _) | (_, Kind::Choice { of, exclusive }) => {
                let other = if matches!(&*a.kind, Kind::Choice { .. }) { b } else { a };
                // Each alternative gets a copy of the other schema.
                self.take((of.len() as u64).saturating_mul(other.size))?;
                let all = of.iter().map(|one| self.intersect(one, other)).collect::<Result<Vec<Shape>>>()?;
                self.joined(all, *exclusive)?
            }
            (Kind::Plain(one), Kind::Plain(other)) if one == other => a.clone(),
            (Kind::Text(one), Kind::Text(other)) => {
                let found = one + other;
                if found > TOGETHER {
                    let (what, most) = ("patterns of one text", TOGETHER);
                    return Err(Refusal::Count { what, found, most });
                }
                Shape::of(Kind::Text(found))
            }
            (Kind::Number(one), Kind::Number(other)) => Shape::of(Kind::Number(common(*one, *other)?)),
            (Kind::List { first, items }, Kind::List { first: other_first, items: other_items }) => {
                let count = first.len().max(other_first.len());
                let missing = count.saturating_sub(first.len().min(other_first.len())) as u64;
                self.take(missing.saturating_mul(items.size.max(other_items.size)))?;
                let pairs = (0..count)
                    .map(|at| (first.get(at).unwrap_or(items), other_first.get(at).unwrap_or(other_items)));
                let first = pairs.map(|(one, other)| self.intersect(one, other)).collect::<Result<_>>()?;
                Shape::of(Kind::List { first, items: self.intersect(items, other_items)? })
            }
            (Kind::Object(one), Kind::Object(other)) => self.object(one, other)?,
            _ => Shape::of(Kind::Never),
        })
    }

    fn object(&mut self, one: &ObjectShape, other: &ObjectShape) -> Result<Shape> {
        let mut properties = BTreeMap::new();
        for (own, with) in [(one, other), (other, one)] {
            for (name, shape) in &own.properties {
                if properties.contains_key(name) {
                    continue;
                }
                // A name may match any of the patterns, so assume the largest one.
                let largest =
                    || with.patterns.values().chain([&with.additional]).max_by_key(|shape| shape.size);
                let found = with.properties.get(name).or_else(largest).unwrap_or(&with.additional);
                self.take(found.size.saturating_add(with.patterns.len() as u64))?;
                properties.insert(name.clone(), self.intersect(shape, found)?);
            }
        }
        let mut patterns = BTreeMap::new();
        for (own, with) in [(one, other), (other, one)] {
            for (pattern, shape) in &own.patterns {
                if !patterns.contains_key(pattern) {
                    let found = with.patterns.get(pattern).unwrap_or(&with.additional);
                    self.take(found.size)?;
                    patterns.insert(pattern.clone(), self.intersect(shape, found)?);
                }
            }
        }
        self.comparisons(patterns.len())?;
        self.take((one.required.len() + other.required.len()) as u64)?;
        Ok(Shape::of(Kind::Object(ObjectShape {
            properties,
            patterns,
            additional: self.intersect(&one.additional, &other.additional)?,
            required: one.required.union(&other.required).cloned().collect(),
            least: one.least.max(other.least),
            most: one.most || other.most,
        })))
    }
}

/// Decodes percent-encoded bytes.
fn decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the digits and the negative power of ten of a value of `multipleOf`, as the library computes them.
fn multiple(of: &Json) -> (u64, u32) {
    let (mut value, mut exponent) = (of.as_f64().unwrap_or(0.0).abs(), 0);
    while value.fract() != 0.0 && exponent < 400 {
        value *= 10.0;
        exponent += 1;
    }
    let mut digits = if value < 1e18 { value as u64 } else { u64::MAX };
    while exponent > 0 && digits.is_multiple_of(10) && digits > 0 {
        digits /= 10;
        exponent -= 1;
    }
    (digits, exponent)
}

/// Checks the digits and the exponent against their limits.
fn checked((digits, exponent): (u64, u32)) -> Result<(u64, u32)> {
    match digits <= MULTIPLE && exponent <= 9 {
        true => Ok((digits, exponent)),
        false => Err(Refusal::Count { what: "remainders of a `multipleOf`", found: digits, most: MULTIPLE }),
    }
}

/// Returns the least common multiple, which the library computes in 32 bits.
fn common(one: Option<(u64, u32)>, other: Option<(u64, u32)>) -> Result<Option<(u64, u32)>> {
    let (Some((a, a_exponent)), Some((b, b_exponent))) = (one, other) else { return Ok(one.or(other)) };
    let exponent = a_exponent.max(b_exponent);
    let scaled = |x: u64, of: u32| x.saturating_mul(10u64.saturating_pow(exponent - of));
    let (a, b) = (scaled(a, a_exponent), scaled(b, b_exponent));
    let product = a.saturating_mul(b);
    if product >= 1 << 32 {
        let (what, most) = ("digits of the product of values of `multipleOf`", u64::from(u32::MAX));
        return Err(Refusal::Count { what, found: product, most });
    }
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let least = product.checked_div(x).unwrap_or(0);
    checked((least, exponent)).map(Some)
}
