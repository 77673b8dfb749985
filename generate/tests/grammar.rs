//! Answers that a grammar constrains: whatever the weights of a model are, the text is one of the grammar.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod definition;
mod schema;
mod tiny;

use bb_cpu as _;
use bb_generate::{
    Constraint, End, Engine, EngineOptions, Error, GenerateOptions, Generator, Grammar, Piece, Ticket,
};
use definition::File;
use serde_json::{Value as Json, json};
use tiny::{GgufWriter, Meta, Quant, Tiny, VOCABULARY};

/// The tokens of the small model: the end of a text, a space, the end of a line, and a character of ASCII.
const ENDS: u32 = 0;
const SPACE: u32 = 1;
const LINE: u32 = 2;
const fn letter(c: char) -> u32 {
    c as u32 - 33 + 3
}
/// A mark of messages, which is no text. The one behind it ends a text.
const MARK: u32 = letter('~') + 4;
/// As many tokens as the sequence has room for.
const MOST: usize = 180;

fn exact() -> Tiny {
    Tiny { quant: Quant::F32, ..Tiny::default() }
}

fn generator(name: &str) -> Generator {
    File::of(&exact(), &format!("grammar-{name}")).open("cpu")
}

fn of_schema(generator: &Generator, schema: &Json) -> Grammar {
    generator.grammar(&Constraint::JsonSchema(schema.to_string())).unwrap()
}

fn of_regex(generator: &Generator, text: &str) -> Grammar {
    generator.grammar(&Constraint::Regex(text.to_owned())).unwrap()
}

/// Options without blanks, of which a model of drawn weights would write many.
fn wanted(grammar: Grammar) -> GenerateOptions {
    let mut options = GenerateOptions::default();
    options.tokens = MOST;
    options.sampling.bias = vec![(SPACE, -1e4), (LINE, -1e4)];
    options.grammar = Some(grammar);
    options
}

fn seeded(grammar: Grammar, seed: u64) -> GenerateOptions {
    let mut options = wanted(grammar);
    (options.sampling.temperature, options.sampling.seed) = (1.5, Some(seed));
    options
}

fn pieces(generator: &Generator, options: &GenerateOptions) -> Vec<Piece> {
    let mut sequence = generator.sequence();
    let generation = sequence.generate(&[40, 41, 42], options).unwrap();
    generation.map(|piece| piece.unwrap()).collect()
}

fn answer(generator: &Generator, options: &GenerateOptions) -> (String, End) {
    let pieces = pieces(generator, options);
    (pieces.iter().map(|piece| piece.text.as_str()).collect(), pieces.last().unwrap().end.unwrap())
}

fn schemas() -> Vec<Json> {
    let name = json!({"type": "string", "maxLength": 6});
    vec![
        json!({"type": "object", "properties": {"name": name, "at": {"type": "object", "properties": {
            "x": {"type": "integer", "minimum": -20, "maximum": 300}, "deep": {"type": "object", "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"], "additionalProperties": false}}, "required": ["x", "deep"], "additionalProperties": false}},
            "required": ["name", "at"], "additionalProperties": false}),
        json!({"type": "array", "items": {"enum": ["red", "new york", 7, null, [1, {"a": "b"}]]}, "minItems": 2, "maxItems": 4}),
        json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": name, "d": {"type": "integer",
            "minimum": 5, "maximum": 9}}, "required": ["b"], "additionalProperties": false}),
        json!({"const": "é \"quoted\" \\ \n\t/é\u{0001}"}),
        json!({"type": "string", "minLength": 3, "maxLength": 5}),
        json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}]}),
        json!({"type": ["string", "null"], "maxLength": 4}),
        json!({"$defs": {"pair": {"type": "array", "items": {"enum": ["é", "ée"]}, "minItems": 2, "maxItems": 2}}, "type": "object",
            "properties": {"é": {"$ref": "#/$defs/pair"}, "z": {"$ref": "#/$defs/pair"}}, "required": ["z", "é"],
            "additionalProperties": false}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"enum": ["x"]}}, "required": ["b"]}], "type": "object",
            "properties": {"a": true, "b": true}, "additionalProperties": false}),
    ]
}

#[test]
fn every_answer_is_one_of_its_schema() {
    let generator = generator("schemas");
    for schema in schemas() {
        let grammar = of_schema(&generator, &schema);
        let mut all: Vec<GenerateOptions> = (0..6).map(|seed| seeded(grammar.clone(), seed)).collect();
        all.push(wanted(grammar.clone()));
        let mut narrow = seeded(grammar.clone(), 3);
        (narrow.sampling.top_k, narrow.sampling.top_p, narrow.sampling.min_p) = (5, 0.8, 0.05);
        let mut usual = seeded(grammar, 4);
        (usual.sampling.typical, usual.sampling.repetition_penalty) = (0.7, 1.3);
        all.extend([narrow, usual]);
        for options in all {
            let (text, end) = answer(&generator, &options);
            assert!(matches!(end, End::Stop | End::Token), "{end:?}: {text:?} of {schema}");
            let value: Json =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?} of {schema}"));
            assert!(schema::fits(&value, &schema, &schema), "{text:?} of {schema}");
        }
    }
}

/// Without a grammar, the same model writes no JSON: the answers above are not valid by chance.
#[test]
fn the_model_writes_no_json_of_its_own() {
    let generator = generator("free");
    let schema = &schemas()[0];
    for seed in 0..6 {
        let mut options = seeded(of_schema(&generator, schema), seed);
        options.grammar = None;
        assert!(serde_json::from_str::<Json>(&answer(&generator, &options).0).is_err());
    }
}

#[test]
fn properties_come_in_the_order_of_the_schema() {
    let generator = generator("order");
    let schema = r#"{"type": "object", "properties": {"z": {"type": "null"}, "a": {"type": "null"}, "m": {"type": "null"}},
        "required": ["a", "m", "z"], "additionalProperties": false}"#;
    let grammar = generator.grammar(&Constraint::JsonSchema(schema.to_owned())).unwrap();
    assert_eq!(answer(&generator, &wanted(grammar)).0, r#"{"z":null,"a":null,"m":null}"#);
}

#[test]
fn objects_and_numbers_of_any_length_are_json_when_they_end() {
    let generator = generator("objects");
    let object = generator.grammar(&Constraint::JsonObject).unwrap();
    let number = of_schema(&generator, &json!({"type": "number", "minimum": -2.5, "maximum": 1000}));
    let mut ended = 0;
    for seed in 0..30 {
        let mut options = seeded(if seed % 2 == 0 { object.clone() } else { number.clone() }, seed);
        for c in ['}', ']', '"', '0'] {
            options.sampling.bias.push((letter(c), 3.0));
        }
        let (text, end) = answer(&generator, &options);
        if matches!(end, End::Stop | End::Token) {
            let value: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
            let fits = if seed % 2 == 0 {
                value.is_object()
            } else {
                (-2.5..=1000.0).contains(&value.as_f64().unwrap())
            };
            assert!(fits, "{text:?}");
            ended += 1;
        }
    }
    assert!(ended > 15, "{ended} of 30 answers ended");
}

/// Blanks between the parts are bounded, so that a model that prefers them comes to an end.
#[test]
fn blanks_are_not_endless() {
    let generator = generator("blanks");
    let schema = json!({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 1});
    let mut options = wanted(of_schema(&generator, &schema));
    options.sampling.bias = vec![(SPACE, 1e4), (LINE, 2e4)];
    let (text, end) = answer(&generator, &options);
    assert_eq!((serde_json::from_str::<Json>(&text).unwrap(), end), (json!([null]), End::Stop));
    assert!(text.contains("\n\n  ") && text.len() < 100, "{text:?}");
}

#[test]
fn a_text_matches_its_expression() {
    let generator = generator("expressions");
    let grammar = of_regex(&generator, r"[a-c]{3}-é{2,4}(/|\\)?\d");
    for seed in 0..10 {
        let (text, end) = answer(&generator, &seeded(grammar.clone(), seed));
        let (letters, rest) = text.split_once('-').unwrap();
        assert!(letters.len() == 3 && letters.chars().all(|c| "abc".contains(c)), "{text:?}");
        let rest = rest.trim_start_matches('é').trim_start_matches(['/', '\\']);
        assert!(rest.len() == 1 && rest.chars().all(|c| c.is_ascii_digit()), "{text:?}");
        assert!((2..=4).contains(&text.matches('é').count()) && end == End::Stop, "{text:?}, {end:?}");
    }
    let mut options = wanted(of_regex(&generator, "(yes|yes please)"));
    assert_eq!(answer(&generator, &options), ("yes".to_owned(), End::Token));
    options.sampling.bias.extend([(ENDS, -1e6), (MARK + 1, -1e6)]);
    assert_eq!(answer(&generator, &options), ("yes please".to_owned(), End::Stop));
}

#[test]
fn a_grammar_of_rules_is_followed() {
    let generator = generator("rules");
    let rules = "start: sum\nsum: term (\"+\" term)~2\nterm: DIGIT | \"(\" DIGIT \")\"\nDIGIT: /[0-9]/\n";
    let grammar = generator.grammar(&Constraint::Lark(rules.to_owned())).unwrap();
    for seed in 0..10 {
        let (text, end) = answer(&generator, &seeded(grammar.clone(), seed));
        let terms: Vec<&str> = text.split('+').collect();
        let term = |term: &&str| {
            let digit = term.strip_prefix('(').and_then(|term| term.strip_suffix(')')).unwrap_or(term);
            digit.len() == 1 && digit.as_bytes()[0].is_ascii_digit()
        };
        assert!(terms.len() == 3 && terms.iter().all(term) && end == End::Stop, "{text:?}, {end:?}");
    }
}

/// The end of a text is possible exactly where the grammar may end, however much the model prefers it.
#[test]
fn a_text_ends_where_its_grammar_may() {
    let generator = generator("ends");
    let grammar = of_regex(&generator, "abb*");
    let mut eager = wanted(grammar.clone());
    eager.sampling.bias = vec![(ENDS, 1e6), (MARK, 2e6)];
    assert_eq!(answer(&generator, &eager), ("ab".to_owned(), End::Token));
    eager.sampling.bias = vec![(ENDS, f64::INFINITY), (MARK, f64::INFINITY)];
    assert_eq!(answer(&generator, &eager), ("ab".to_owned(), End::Token));
    eager.sampling.bias = vec![(ENDS, 1e6), (MARK, f64::INFINITY)];
    (eager.sampling.temperature, eager.sampling.seed) = (0.5, Some(1));
    assert_eq!(answer(&generator, &eager), ("ab".to_owned(), End::Token));
    let mut passing = wanted(grammar.clone());
    (passing.tokens, passing.ignore_end) = (7, true);
    passing.sampling.bias = vec![(ENDS, 1e6)];
    assert_eq!(answer(&generator, &passing), ("abbbbbb".to_owned(), End::Length));
    let mut stopped = passing.clone();
    stopped.stop = vec!["bbb".to_owned()];
    assert_eq!(answer(&generator, &stopped), ("a".to_owned(), End::Stop));
    // Where nothing can follow, the text ends without such a token, be it the last one that was wanted or not.
    let mut whole = wanted(of_regex(&generator, "abc"));
    for (tokens, text, end) in [(9, "abc", End::Stop), (3, "abc", End::Stop), (2, "ab", End::Length)] {
        whole.tokens = tokens;
        assert_eq!(answer(&generator, &whole), (text.to_owned(), end));
        whole.ignore_end = true;
    }
}

#[test]
fn characters_of_several_tokens_come_whole() {
    let generator = generator("characters");
    let mut options = wanted(of_schema(&generator, &json!({"const": "éé"})));
    let texts: Vec<String> = pieces(&generator, &options).into_iter().map(|piece| piece.text).collect();
    assert_eq!(texts, ["\"", "", "é", "", "é", "\""]);
    // Half a character is what a text has that is cut within one.
    options.tokens = 2;
    assert_eq!(answer(&generator, &options), ("\"\u{fffd}".to_owned(), End::Length));
}

#[test]
fn the_probabilities_are_those_of_all_tokens() {
    let generator = generator("probabilities");
    let mut options = wanted(of_regex(&generator, "[ab]{4}"));
    options.log_probabilities = Some(VOCABULARY);
    for piece in pieces(&generator, &options) {
        let (chosen, all) = piece.log_probabilities.unwrap();
        let sum: f64 = all.iter().map(|one| one.log_probability.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6 && chosen.log_probability.is_finite(), "{sum}");
        let of = |token: u32| all.iter().find(|one| one.token == token).unwrap().log_probability;
        assert_eq!(chosen.log_probability, of(letter('a')).max(of(letter('b'))));
    }
}

#[test]
fn seeds_choose_within_the_grammar() {
    let generator = generator("seeds");
    let grammar = of_regex(&generator, "[a-z]{12}");
    let of = |seed: u64| answer(&generator, &seeded(grammar.clone(), seed)).0;
    let all: Vec<String> = (0..8).map(of).collect();
    assert!(
        all.iter().all(|text| text.len() == 12 && text.bytes().all(|c| c.is_ascii_lowercase())),
        "{all:?}"
    );
    assert_eq!(of(5), all[5]);
    let mut others = all.clone();
    others.sort();
    others.dedup();
    assert!(others.len() > 5, "{all:?}");
}

/// Sequences that run together have a grammar each, or none, and the answers that they have alone, also where memory is short and some begin
/// again.
#[test]
fn joined_sequences_have_a_grammar_each() {
    let generator = generator("joined");
    let mut all: Vec<GenerateOptions> = Vec::new();
    for (seed, schema) in (0..).zip(schemas()) {
        let grammar = of_schema(&generator, &schema);
        all.extend([seeded(grammar.clone(), seed), wanted(grammar)]);
    }
    let shared = of_regex(&generator, "(ab|ba){5,20}c");
    all.extend((0..4).map(|seed| seeded(shared.clone(), seed)));
    let mut free = wanted(shared);
    (free.grammar, free.tokens, free.ignore_end) = (None, 40, true);
    all.push(free);
    let expected: Vec<(String, End)> = all.iter().map(|options| answer(&generator, options)).collect();
    const BLOCK: usize = 32 * 2 * 2 * 2 * 16 * 4;
    for blocks in [1000, 9] {
        let mut bounds = EngineOptions::default();
        (bounds.sequences, bounds.bytes) = (32, blocks * BLOCK);
        let mut engine = Engine::new(&generator, bounds);
        let mut tickets: Vec<Ticket> =
            all.iter().map(|options| engine.generate(&[40, 41, 42], options).unwrap()).collect();
        while engine.step() {}
        let found: Vec<(String, End)> = tickets
            .iter_mut()
            .map(|ticket| {
                let pieces = ticket.pieces().unwrap();
                let text = pieces.iter().map(|piece| piece.text.as_str()).collect();
                (text, pieces.last().unwrap().end.unwrap())
            })
            .collect();
        assert_eq!(found, expected, "{blocks} blocks");
        assert!(blocks > 100 || engine.statistics().evictions > 0);
    }
}

/// Tokens with scores: `▁` for a space, and a token for each byte that lacks one of its own.
fn scored() -> GgufWriter {
    let mut words: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    words.extend((0x20..0x7f).chain([0x0a, 0xc3, 0xa9]).map(|byte: u8| format!("<0x{byte:02X}>")));
    words.extend(["▁", "▁\"a", "null", "\":", "é▁é"].map(str::to_owned));
    words.extend((words.len()..VOCABULARY).map(|i| format!("word{i}")));
    let types = words.iter().enumerate().map(|(i, word)| match word.as_bytes() {
        [b'<', b'0', ..] => 6,
        _ if i == 0 => 2,
        _ if i < 3 => 3,
        _ => 1,
    });
    let mut writer = exact().writer();
    writer.replace("tokenizer.ggml.model", Meta::Text("llama".to_owned()));
    writer.replace("tokenizer.ggml.token_type", Meta::I32s(types.collect()));
    writer.replace("tokenizer.ggml.scores", Meta::F32s((0..VOCABULARY).map(|i| -(i as f32)).collect()));
    writer.replace("tokenizer.ggml.tokens", Meta::Texts(words));
    writer.replace("tokenizer.ggml.eos_token_id", Meta::U32(2));
    writer
}

#[test]
fn tokens_of_bytes_make_json() {
    let file = File::of(&exact(), "grammar-scored");
    std::fs::write(&file.0, scored().bytes()).unwrap();
    let generator = file.open("cpu");
    let all = [
        json!({"type": "object", "properties": {"a": {"type": "null"}, "b": {"enum": ["é é", "é", "null a"]}}, "required": ["a", "b"],
            "additionalProperties": false}),
        json!({"type": "string", "maxLength": 5}),
    ];
    for schema in all {
        for seed in 0..12 {
            let mut options = seeded(of_schema(&generator, &schema), seed);
            options.sampling.bias.clear();
            let (text, end) = answer(&generator, &options);
            let value: Json =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}, {end:?}"));
            assert!(schema::fits(&value, &schema, &schema), "{text:?} of {schema}");
        }
    }
    let texts: Vec<String> =
        pieces(&generator, &wanted(of_regex(&generator, "éa"))).into_iter().map(|piece| piece.text).collect();
    assert_eq!(texts, ["", "é", "a"]);
}

#[test]
fn a_grammar_of_another_model_is_refused() {
    let (one, other) = (generator("one"), generator("other"));
    let options = wanted(of_regex(&one, "a"));
    let mut sequence = other.sequence();
    assert!(matches!(sequence.generate(&[40], &options), Err(Error::GrammarModel)));
    let mut engine = Engine::new(&other, EngineOptions::default());
    assert!(matches!(engine.generate(&[40], &options), Err(Error::GrammarModel)));
    let _of_other = of_regex(&other, "a");
    assert!(matches!(engine.generate(&[40], &options), Err(Error::GrammarModel)));
    assert!(Engine::new(&one.clone(), EngineOptions::default()).generate(&[40], &options).is_ok());
}
