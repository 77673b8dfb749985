//! Constraints of strangers: each is an error or a grammar, soon, and nothing panics.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod definition;
mod tiny;

use bb_cpu as _;
use bb_generate::{Constraint, Error, GenerateOptions, Generator, Grammar};
use definition::File;
use serde_json::{Map, Value as Json, json};
use std::error::Error as _;
use std::time::{Duration, Instant};
use tiny::{Quant, Tiny};

/// Longer than anything may take, in a build for tests on a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn generator(name: &str) -> Generator {
    let tiny = Tiny { quant: Quant::F32, layers: 1, ..Tiny::default() };
    File::of(&tiny, &format!("hostile-grammar-{name}")).open("cpu")
}

fn compiled(generator: &Generator, constraint: Constraint) -> Result<Grammar, Error> {
    let shown: String = format!("{constraint:?}").chars().take(100).collect();
    let start = Instant::now();
    let result = generator.grammar(&constraint);
    assert!(start.elapsed() < LONG, "{:?} for {shown}", start.elapsed());
    result
}

fn schema(generator: &Generator, text: impl ToString) -> Result<Grammar, Error> {
    compiled(generator, Constraint::JsonSchema(text.to_string()))
}

/// The message of an error with its cause.
fn said(error: &Error) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}

fn refused(result: Result<Grammar, Error>, words: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Grammar { .. }) && said(&error).contains(words), "{}", said(&error));
    assert!(said(&error).len() < 2000, "{}", said(&error));
}

/// Generates with a grammar, if there is one: each token comes soon, or is an error.
fn runs(generator: &Generator, grammar: Result<Grammar, Error>) {
    let grammar = match grammar {
        Ok(grammar) => grammar,
        Err(error) => {
            assert!(matches!(error, Error::Grammar { .. }), "{}", said(&error));
            return;
        }
    };
    for seed in 0..2 {
        let mut options = GenerateOptions::default();
        (options.tokens, options.grammar) = (60, Some(grammar.clone()));
        (options.sampling.temperature, options.sampling.seed) = (1.0, Some(seed));
        let mut sequence = generator.sequence();
        for piece in sequence.generate(&[40], &options).unwrap() {
            match piece {
                Ok(_) => {}
                // No text is of the grammar, or none that has tokens.
                Err(Error::NoneLeft | Error::GrammarFailed { .. }) => break,
                Err(error) => panic!("{}", said(&error)),
            }
        }
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let generator = generator("errors");
    refused(schema(&generator, r#"{"type": "object",}"#), "line 1 column 19");
    refused(schema(&generator, r#"{"type": "objekt"}"#), "objekt");
    refused(schema(&generator, r#"{"type": "array", "uniqueItems": true}"#), "uniqueItems");
    refused(schema(&generator, r#"{"type": 7}"#), "type must be a string");
    refused(schema(&generator, "7"), "schema must be an object or boolean");
    refused(schema(&generator, "false"), "nsatisfiable");
    refused(schema(&generator, r#"{"enum": []}"#), "empty");
    refused(schema(&generator, r#"{"type": "integer", "minimum": 3, "maximum": 2}"#), "minimum");
    refused(schema(&generator, r##"{"$ref": "#/absent"}"##), "absent");
    refused(
        schema(&generator, r#"{"$ref": "http://127.0.0.1:1/schema.json"}"#),
        "http://127.0.0.1:1/schema.json",
    );
    refused(schema(&generator, r#"{"type": "string", "pattern": "("}"#), "unclosed group");
    let expression = |text: &str| compiled(&generator, Constraint::Regex(text.to_owned()));
    refused(expression("a(b"), "unclosed group");
    refused(expression("a\\"), "escape");
    refused(expression(r"(a)\1"), "backreferences");
    refused(expression("(?=a)b"), "look-around");
    refused(expression("(?x)a # letter\nb"), "several lines");
    let rules = |text: &str| compiled(&generator, Constraint::Lark(text.to_owned()));
    refused(rules("start: absent"), "absent");
    refused(rules("begin: \"a\""), "start");
    refused(rules(""), "");
}

/// Options that the library takes out of schemas are none here: they could make it pass over keywords.
#[test]
fn schemas_have_no_options() {
    let generator = generator("options");
    let mut given = json!({"type": "array", "uniqueItems": true});
    given["x-guidance"] = json!({"lenient": true});
    refused(schema(&generator, &given), "uniqueItems");
    given["x-guidance"] = json!(7);
    refused(schema(&generator, &given), "uniqueItems");
}

#[test]
fn what_is_too_long_is_refused_at_once() {
    let generator = generator("long");
    let long = format!(r#"{{"const": "{}"}}"#, "a".repeat(128 << 10));
    let found = schema(&generator, &long).unwrap_err();
    assert!(matches!(found, Error::GrammarSize { constraint: "JSON schema", most: 131_072, .. }), "{found}");
    for constraint in [Constraint::Regex("a".repeat(16_385)), Constraint::Lark("a".repeat(16_385))] {
        let found = compiled(&generator, constraint).unwrap_err();
        assert!(matches!(found, Error::GrammarSize { found: 16_385, most: 16_384, .. }), "{found}");
    }
}

#[test]
fn deep_and_cyclic_schemas_are_errors_or_grammars() {
    let generator = generator("deep");
    let deep = |before: &str, inner: &str, after: &str, depth: usize| {
        format!("{}{inner}{}", before.repeat(depth), after.repeat(depth))
    };
    refused(schema(&generator, deep(r#"{"items":"#, "true", "}", 10_000)), "recursion limit");
    refused(schema(&generator, deep("[", "", "]", 60_000)), "recursion limit");
    for (before, after) in [
        (r#"{"type":"array","items":"#, "}"),
        (r#"{"anyOf":["#, "]}"),
        (r#"{"allOf":["#, "]}"),
        (r#"{"type":"object","properties":{"a":"#, "}}"),
    ] {
        runs(&generator, schema(&generator, deep(before, r#"{"type":"null"}"#, after, 60)));
    }
    for cyclic in [
        r##"{"$ref": "#"}"##,
        r##"{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}"##,
        r##"{"allOf": [{"$ref": "#"}]}"##,
        r##"{"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}"##,
        r##"{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}"##,
        r##"{"type": "array", "items": {"allOf": [{"$ref": "#"}, {"minItems": 1, "type": "array"}]}}"##,
        r##"{"$ref": "#/properties/a", "properties": {"a": {"$ref": "#/properties/a", "type": "object"}}}"##,
    ] {
        runs(&generator, schema(&generator, cyclic));
    }
    // A tree refers to itself, too, and is served.
    let tree = r##"{"type": "array", "items": {"$ref": "#"}, "maxItems": 2}"##;
    runs(&generator, Ok(schema(&generator, tree).unwrap()));
    let chain = |count: usize, link: fn(Json) -> Json| {
        let each = |i: usize| (format!("d{i}"), link(json!({"$ref": format!("#/$defs/d{}", i + 1)})));
        let mut all: Map<String, Json> = (0..count).map(each).collect();
        all.insert(format!("d{count}"), json!({"type": "null"}));
        json!({"$ref": "#/$defs/d0", "$defs": all})
    };
    runs(&generator, Ok(schema(&generator, chain(998, |next| next)).unwrap()));
    let links: [fn(Json) -> Json; 4] = [
        |next| json!({"allOf": [next, {"type": ["null", "object"]}]}),
        |next| json!({"anyOf": [next, {"type": "boolean"}]}),
        |next| json!({"type": "object", "properties": {"a": next}, "required": ["a"]}),
        |next| json!({"type": ["null", "array"], "items": next, "$ref": next["$ref"]}),
    ];
    for link in links {
        runs(&generator, schema(&generator, chain(998, link)));
    }
    refused(schema(&generator, chain(2000, |next| next)), "2001 definitions, expected at most 1000");
    let patterns: Map<String, Json> = (0..33).map(|i| (format!("^{i}$"), json!(true))).collect();
    refused(schema(&generator, json!({"patternProperties": patterns})), "33 patterns");
}

#[test]
fn large_schemas_take_bounded_work() {
    let generator = generator("large");
    let choice = |i: usize| json!({"anyOf": (0..10).map(|j| json!({"type": "object", "properties": {format!("p{i}x{j}"): {"type": "integer"}}})).collect::<Vec<_>>()});
    let large = [
        json!({"allOf": (0..40).map(choice).collect::<Vec<_>>()}),
        json!({"enum": (0..12_000).map(|i| format!("{i:x}")).collect::<Vec<_>>()}),
        json!({"type": "string", "minLength": 1_000_000_000u64}),
        json!({"type": "string", "maxLength": 4_000_000_000u64}),
        json!({"type": "string", "minLength": u64::MAX}),
        json!({"type": "array", "minItems": 1_000_000_000u64, "items": {"type": "null"}}),
        json!({"type": "array", "maxItems": u64::MAX, "items": {"type": "null"}}),
        json!({"type": "integer", "minimum": -1e300, "maximum": 1e300}),
        json!({"type": "integer", "multipleOf": 982_451_653}),
        json!({"type": "number", "multipleOf": 1e-300}),
        json!({"type": "object", "properties": (0..3000).map(|i| (format!("p{i}"), json!({"type": "integer"}))).collect::<Map<_, _>>()}),
        json!({"type": "object", "patternProperties": (0..32).map(|i| (format!("^a{{{i}}}b+c*$"), json!(true))).collect::<Map<_, _>>()}),
        json!({"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"}),
        json!({"type": "string", "pattern": "^(a|b)*a(a|b){300}$"}),
        json!({"allOf": (0..60).map(|i| json!({"type": "string", "pattern": format!("^(a|b)*a(a|b){{{i}}}$")})).collect::<Vec<_>>()}),
    ];
    for schema_of in large {
        runs(&generator, schema(&generator, schema_of));
    }
}

#[test]
fn expressions_take_bounded_work() {
    let generator = generator("expressions");
    let nested = format!("{}a{}", "(".repeat(8000), ")".repeat(8000));
    for text in [
        "(a+a+)+b",
        "(((a{1000}){1000}){1000}){1000}",
        "(a|b)*a(a|b){2000}",
        "(.*a){200}",
        r"(\p{L}\p{N}*){500}",
        "(?i)(straße|ſ|K){1,900}",
        "((a?){50}){50}b",
        r"(?-u:\xff)+",
        "[^a]{4000}",
        "(a*)*",
        "",
        &nested,
    ] {
        runs(&generator, compiled(&generator, Constraint::Regex(text.to_owned())));
    }
}

#[test]
fn rules_take_bounded_work() {
    let generator = generator("rules");
    let rules = |text: &str| compiled(&generator, Constraint::Lark(text.to_owned()));
    refused(rules(&format!("start: {}\"a\"{}", "(".repeat(4000), ")".repeat(4000))), "4000 parentheses");
    // As many rules that refer to each other as there is room for.
    let name = |of: char, mut i: usize| {
        let mut name = String::from(of);
        while i > 0 {
            name.push(char::from(b'0' + (i % 10) as u8));
            i /= 10;
        }
        name
    };
    for of in ['r', 'T'] {
        let chain: String = (1..1500).map(|i| format!("{}:{}\n", name(of, i), name(of, i + 1))).collect();
        runs(&generator, rules(&format!("start:{}\n{chain}{}:\"a\"", name(of, 1), name(of, 1500))));
        let groups: String =
            (1..700).map(|i| format!("{}:((({}|\"b\")))\n", name(of, i), name(of, i + 1))).collect();
        runs(&generator, rules(&format!("start:{}\n{groups}{}:\"a\"", name(of, 1), name(of, 700))));
    }
    let doubling: String = (0..60).map(|i| format!("r{i}: r{0} r{0}\n", i + 1)).collect();
    for text in [
        "start: start",
        "start: start start | \"a\"",
        "start: a b\na: b*\nb: a*",
        "start: (\"a\"*)*",
        "start: \"a\"~1000000000",
        "start: (\"a\"~1000 \"b\"~1000)~1000",
        "A: A\nstart: A",
        "start: /(/",
        "start: <absent>",
        "start: <|im_start|> \"a\"",
        "start: <[3-4]> \"a\"",
        "start: <[9999999]>",
        "%llguidance {\"allow_invalid_utf8\": true}\nstart: /a/",
        "%import common.INT\nstart: INT",
        "%ignore /.*/\nstart: \"a\"",
        "start: %json {\"type\": \"array\", \"items\": {\"x-guidance\": 3}}",
        "start: %lark {\nstart: %lark {\nstart: \"a\"\n}\n}",
        "start: @other",
        "start[max_tokens=0]: /a*/",
        "start[lazy]: /a*?b/",
        "start: &A\nA: /a/",
        "\u{0}\u{ff}:",
        &format!("start: r0\n{doubling}r60: \"a\""),
    ] {
        runs(&generator, rules(text));
    }
}
