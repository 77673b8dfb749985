//! The memory and the time of a stranger's JSON schema against its size: each family doubles, until it is refused or as long as a schema
//! may be.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod definition;
mod growth;
mod tiny;

use bb_cpu as _;
use bb_generate::{Constraint, Error, GenerateOptions, Generator};
use definition::File;
use growth::{Bounds, bounds, measured};
use serde_json::{Map, Value as Json, json};
use std::cell::Cell;
use std::time::{Duration, Instant};
use tiny::{Quant, Tiny};

/// The most that a token of an answer takes in a build for tests on a busy machine. A call of the library is cancelled after 0.2 s.
const TOKEN: Duration = Duration::from_secs(2);
const COMPILE: Duration = Duration::from_secs(8);

fn named(count: usize, of: impl Fn(usize) -> Json) -> Map<String, Json> {
    (0..count).map(|i| (format!("p{i}"), of(i))).collect()
}

/// A schema with more and more of one thing.
type Family = (&'static str, fn(usize) -> Json);

const FAMILIES: [Family; 30] = [
    ("alternatives of all", |n| {
        let part =
            |i: usize, j: usize| json!({"type": "object", "properties": {format!("p{i}"): {"const": j}}});
        json!({"allOf": (0..n).map(|i| json!({"anyOf": [part(i, 0), part(i, 1)]})).collect::<Vec<_>>()})
    }),
    ("alternatives of a property", |n| {
        let part = |i: usize| {
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "object", "properties": {format!("p{i}"): true}},
            {"type": "array", "items": {"const": i}}]}}})
        };
        json!({"allOf": (0..n).map(part).collect::<Vec<_>>()})
    }),
    ("alternatives of items", |n| {
        let part = |i: usize| json!({"type": "array", "items": {"oneOf": [{"type": "object", "required": [format!("p{i}")]}, {"type": "array"}]}});
        json!({"allOf": (0..n).map(part).collect::<Vec<_>>()})
    }),
    ("references with parts beside them", |n| {
        let mut all = named(n, |i| {
            json!({"allOf": [{"$ref": format!("#/$defs/p{}", i + 1)}, {"$ref": format!("#/$defs/p{}", i + 1)}],
            "type": "object", "properties": {format!("q{i}"): true}})
        });
        all.insert(format!("p{n}"), json!({"type": "object", "properties": {"z": true}}));
        json!({"$ref": "#/$defs/p0", "$defs": all})
    }),
    ("alternatives of references", |n| {
        let next = |i: usize| json!({"$ref": format!("#/$defs/p{}", i + 1)});
        let mut all = named(
            n,
            |i| json!({"anyOf": [{"type": "array", "items": next(i)}, {"type": "array", "items": next(i), "maxItems": 3}]}),
        );
        all.insert(format!("p{n}"), json!({"type": "null"}));
        json!({"$ref": "#/$defs/p0", "$defs": all})
    }),
    ("doubled references", |n| {
        let mut all = named(
            n,
            |i| json!({"type": "object", "properties": {"a": {"$ref": format!("#/$defs/p{}", i + 1)}, "b": {"$ref": format!("#/$defs/p{}", i + 1)}}}),
        );
        all.insert(format!("p{n}"), json!({"type": "null"}));
        json!({"$ref": "#/$defs/p0", "$defs": all})
    }),
    ("two trees at once", |n| {
        let tree = |name: &str| json!({"type": "object", "properties": named(n, |_| json!({"$ref": format!("#/$defs/{name}")}))});
        json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {"a": tree("a"), "b": tree("b")}})
    }),
    (
        "optional properties",
        |n| json!({"type": "object", "properties": named(n, |_| json!({"type": "integer"}))}),
    ),
    ("required properties", |n| {
        let required: Vec<String> = (0..n).map(|i| format!("p{i}")).collect();
        json!({"type": "object", "properties": named(n, |_| json!({"type": "integer"})), "required": required})
    }),
    (
        "at least one property",
        |n| json!({"type": "object", "properties": named(n, |_| json!(true)), "minProperties": 1, "additionalProperties": false}),
    ),
    (
        "at most one property",
        |n| json!({"type": "object", "properties": named(n, |_| json!(true)), "maxProperties": 1, "additionalProperties": false}),
    ),
    ("properties without types", |n| json!({"properties": named(n, |_| json!({"minimum": 0}))})),
    (
        "types again and again",
        |n| json!({"type": vec!["object"; n], "properties": named(n, |_| json!(true))}),
    ),
    (
        "texts of an enumeration",
        |n| json!({"type": "string", "enum": (0..n).map(|i| format!("{i:x}")).collect::<Vec<_>>()}),
    ),
    ("numbers of an enumeration", |n| json!({"enum": (0..n).collect::<Vec<_>>()})),
    (
        "objects of an enumeration",
        |n| json!({"enum": (0..n).map(|i| json!({"a": i, "b": [i]})).collect::<Vec<_>>()}),
    ),
    ("alternative objects", |n| {
        let part = |i: usize| json!({"type": "object", "properties": {"k": {"const": i}}, "required": ["k"], "additionalProperties": false});
        json!({"anyOf": (0..n).map(part).collect::<Vec<_>>()})
    }),
    ("exclusive objects", |n| {
        let part = |i: usize| json!({"type": "object", "properties": {"k": {"const": i.to_string()}}, "required": ["k"]});
        json!({"oneOf": (0..n).map(part).collect::<Vec<_>>()})
    }),
    (
        "alternatives beside many properties",
        |n| json!({"type": "object", "properties": named(n, |_| json!({"type": "null"})), "anyOf": vec![json!({"type": "null"}); n]}),
    ),
    ("ranges", |n| {
        let range = |i: usize| json!({"type": "number", "minimum": i as f64 + 0.123456, "maximum": i as f64 * 1000.0 + 2.987654});
        let required: Vec<String> = (0..n).map(|i| format!("p{i}")).collect();
        json!({"type": "object", "properties": named(n, range), "required": required})
    }),
    ("one multiple", |n| json!({"type": "number", "multipleOf": n, "maximum": 1e15})),
    (
        "multiples at once",
        |n| json!({"allOf": (1..=n).map(|i| json!({"type": "integer", "multipleOf": 2 * i + 1})).collect::<Vec<_>>()}),
    ),
    (
        "alternative multiples",
        |n| json!({"anyOf": (1..=n).map(|i| json!({"type": "integer", "multipleOf": 89 + 2 * i})).collect::<Vec<_>>()}),
    ),
    ("a least length", |n| json!({"type": "string", "minLength": n * n, "maxLength": n * n + 7})),
    ("a least number of items", |n| json!({"type": "array", "minItems": n * n, "items": {"type": "null"}})),
    ("prefix items", |n| json!({"type": "array", "prefixItems": vec![json!({"type": "integer"}); n]})),
    ("a repeated pattern", |n| json!({"type": "string", "pattern": format!("^(a|b)*a(a|b){{{n}}}$")})),
    ("patterns at once", |n| {
        let part = |i: usize| json!({"type": "string", "pattern": format!("^(a|b)*a(a|b){{{i}}}$")});
        json!({"allOf": (0..n).map(part).collect::<Vec<_>>()})
    }),
    ("patterns of names", |n| {
        let patterns: Map<String, Json> = (0..n).map(|i| (format!("^a{{{i}}}b+c*$"), json!(true))).collect();
        json!({"allOf": vec![json!({"type": "object", "patternProperties": patterns}); 4]})
    }),
    ("levels", |n| {
        let mut schema = json!({"type": "null"});
        for _ in 0..n.min(120) {
            schema = json!({"items": schema});
        }
        schema
    }),
];

/// Compiles a schema and takes some tokens of answers. Returns whether it was accepted.
fn takes(generator: &Generator, shape: &str, text: &str, slowest: &Cell<[Duration; 2]>) -> bool {
    let start = Instant::now();
    let grammar = generator.grammar(&Constraint::JsonSchema(text.to_owned()));
    let compiled = start.elapsed();
    assert!(compiled < COMPILE, "{shape}: {compiled:?} for {} bytes", text.len());
    let grammar = match grammar {
        Ok(grammar) => grammar,
        Err(Error::Grammar { .. } | Error::GrammarSize { .. }) => return false,
        Err(error) => panic!("{shape}: {error}"),
    };
    let mut options = GenerateOptions::default();
    (options.tokens, options.grammar) = (12, Some(grammar));
    (options.sampling.temperature, options.sampling.seed) = (1.0, Some(1));
    options.sampling.bias = vec![(0, -1e4), (1, -1e4), (2, -1e4)];
    let mut sequence = generator.sequence();
    let mut generation = sequence.generate(&[40], &options).unwrap();
    loop {
        let start = Instant::now();
        let Some(piece) = generation.next() else { break };
        let took = start.elapsed();
        let [most_compiled, most] = slowest.get();
        slowest.set([most_compiled.max(compiled), most.max(took)]);
        assert!(took < TOKEN, "{shape}: {took:?} for a token, {} bytes", text.len());
        match piece {
            Ok(_) => {}
            Err(Error::NoneLeft | Error::GrammarFailed { .. }) => break,
            Err(error) => panic!("{shape}: {error}"),
        }
    }
    true
}

#[test]
fn schemas_take_bounded_memory_and_time() {
    let tiny = Tiny { quant: Quant::F32, layers: 1, ..Tiny::default() };
    let generator = File::of(&tiny, "growing-schemas").open("cpu");
    // The tokens are sorted for grammars once.
    generator.grammar(&Constraint::JsonObject).unwrap();
    let Bounds { factor, base } = bounds("a JSON schema");
    for (shape, make) in FAMILIES {
        let slowest = Cell::new([Duration::ZERO; 2]);
        for n in (1..15).map(|doublings| 1usize << doublings) {
            let text = make(n).to_string();
            let (accepted, peak, time) = measured(|| takes(&generator, shape, &text, &slowest));
            let (bytes, end) = (text.len(), if accepted { "" } else { " refused" });
            println!("{shape}: {bytes} bytes, {peak} bytes of memory, {:.3} s{end}", time.as_secs_f64());
            assert!(peak <= base + factor * bytes, "{shape}: {peak} bytes of memory for {bytes}");
            if !accepted {
                break;
            }
        }
        let [compiled, token] = slowest.get();
        println!("{shape}: at most {compiled:.1?} to compile an accepted one, {token:.1?} for a token");
    }
    // The family of the first finding, around the bound.
    for n in 5..=11 {
        let slowest = Cell::new([Duration::ZERO; 2]);
        let accepted = takes(&generator, "alternatives of all", &FAMILIES[0].1(n).to_string(), &slowest);
        println!("{n} times 2 alternatives: {accepted}, {:.1?}", slowest.get());
        assert!(accepted == (n <= 6), "{n}");
    }
}
