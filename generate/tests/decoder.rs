//! Decoders of small GGUF files, beside the same computed in `f64` by plain loops.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod definition;
mod tiny;

use bb_cpu as _;
use bb_generate::{End, GenerateOptions, Generator, Message, Sampling};
use bb_reference as _;
use definition::{Definition, File};
use tiny::{CONTEXT, Quant, Tiny, VOCABULARY};

const PROMPT: [u32; 11] = [5, 90, 17, 3, 3, 64, 127, 1, 42, 8, 99];

/// Compares with the definition: sums of a few hundred terms in `f32`, through the layers.
fn check(tiny: &Tiny, backend: &str, name: &str) {
    let generator = File::of(tiny, name).open(backend);
    assert_eq!((generator.vocabulary(), generator.context()), (VOCABULARY, CONTEXT));
    let expected = Definition::new(tiny).logits(&PROMPT);
    let scale = expected.iter().flatten().fold(0f64, |most, x| most.max(x.abs()));
    let near = |got: &[f32], expected: &[f64], what: &str| {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!(
                (f64::from(*got) - expected).abs() < 1e-4 * scale,
                "{name} {what}: {got}, expected {expected}"
            );
        }
    };
    let mut session = generator.sequence();
    let all = session.all_logits(&PROMPT).unwrap();
    near(&all, &expected.concat(), "at once");
    for chunk in [1, 2, 4, 0] {
        let (logits, reused) = generator.sequence().prompt(&PROMPT, chunk).unwrap();
        assert_eq!(reused, 0);
        near(&logits, &expected[PROMPT.len() - 1], &format!("in chunks of {chunk}"));
    }
    // What is there already is kept, and what differs is replaced.
    session.prompt(&[5, 90, 17, 3, 4, 4], 0).unwrap();
    let (logits, reused) = session.prompt(&PROMPT, 0).unwrap();
    assert_eq!(reused, 4);
    near(&logits, &expected[PROMPT.len() - 1], "after another prompt");
}

#[test]
fn logits_are_the_definition_for_every_format() {
    for quant in Quant::ALL {
        check(&Tiny::of(quant), "cpu", &format!("{quant:?}"));
    }
}

#[test]
fn logits_are_the_definition_for_every_kind() {
    let tiny = Tiny { layers: 3, ..Tiny::default() };
    check(&Tiny { tied: false, ..tiny.clone() }, "cpu", "head");
    check(&Tiny { architecture: "qwen2", biases: true, ..tiny.clone() }, "cpu", "qwen2");
    check(&Tiny { architecture: "qwen3", head_norms: true, ..tiny.clone() }, "cpu", "qwen3");
    check(&Tiny { architecture: "gemma", quant: Quant::Q8_0, ..tiny.clone() }, "cpu", "gemma");
    check(&Tiny { architecture: "smollm3", layers: 5, ..tiny.clone() }, "cpu", "smollm3");
    check(&Tiny { architecture: "llama", biases: true, groups: 4, ..tiny.clone() }, "cpu", "biases");
    check(&Tiny { architecture: "phi3", window: Some(3), ..tiny }, "cpu", "window");
}

#[test]
fn the_reference_backend_computes_the_same() {
    check(&Tiny { layers: 1, ..Tiny::default() }, "reference", "reference");
}

fn options(tokens: usize) -> GenerateOptions {
    let mut options = GenerateOptions::default();
    (options.tokens, options.ignore_end) = (tokens, true);
    options
}

/// Generates more tokens than the initial capacity of the cache, so the cache grows during the run.
#[test]
fn tokens_are_the_same_however_a_prompt_is_run() {
    let file = File::of(&Tiny::default(), "chunks");
    let generator = file.open("cpu");
    let run = |chunk: usize| -> Vec<u32> {
        let mut session = generator.sequence();
        let mut options = options(60);
        options.chunk = chunk;
        let mut generation = session.generate(&PROMPT, &options).unwrap();
        assert!(generation.by_ref().all(|piece| piece.is_ok()));
        assert_eq!(generation.statistics().answer_tokens, 60);
        generation.tokens().to_vec()
    };
    let whole = run(0);
    assert_eq!(whole.len(), 60);
    assert!([1, 3, 8].into_iter().all(|chunk| run(chunk) == whole));
    // Compares the first tokens with the largest logit of the reference implementation, one token at a time.
    let definition = Definition::new(&Tiny::default());
    let mut tokens = PROMPT.to_vec();
    for token in &whole[..8] {
        let logits = definition.logits(&tokens).pop().unwrap();
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        assert_eq!(best as u32, *token);
        tokens.push(*token);
    }
}

#[test]
fn a_generation_ends_where_it_must() {
    let generator = File::of(&Tiny::default(), "ends").open("cpu");
    let last = |prompt: &[u32], options: &GenerateOptions| {
        let mut session = generator.sequence();
        let pieces: Vec<_> = session.generate(prompt, options).unwrap().map(Result::unwrap).collect();
        (pieces.len(), pieces.last().and_then(|piece| piece.end))
    };
    assert_eq!(last(&PROMPT, &options(5)), (5, Some(End::Length)));
    assert_eq!(last(&PROMPT, &options(0)), (0, None));
    let long = vec![9; CONTEXT - 3];
    assert_eq!(last(&long, &options(50)), (4, Some(End::Context)));
    // Token 0 ends a text; a bias makes it the most probable.
    let mut ends = options(50);
    ends.ignore_end = false;
    ends.sampling = Sampling::default();
    ends.sampling.bias = vec![(0, 1e6)];
    assert_eq!(last(&PROMPT, &ends), (1, Some(End::Token)));
    let mut session = generator.sequence();
    assert!(matches!(session.generate(&[], &options(1)), Err(bb_generate::Error::NoTokens)));
    assert!(matches!(
        session.generate(&[128], &options(1)),
        Err(bb_generate::Error::Token { token: 128, most: 127 })
    ));
    let beyond = vec![9; CONTEXT + 1];
    assert!(matches!(session.generate(&beyond, &options(1)), Err(bb_generate::Error::Context { .. })));
}

/// A bias makes the model say what the test wants.
fn said(generator: &Generator, tokens: &[u32], stop: &[&str]) -> (Vec<String>, Option<End>) {
    let mut session = generator.sequence();
    let mut prompt = PROMPT.to_vec();
    let mut pieces = Vec::new();
    let mut given = options(tokens.len());
    given.stop = stop.iter().map(|&x| x.to_owned()).collect();
    // One generation: the bias of each token is stronger than that of those behind it, and a penalty ends it once it was said.
    given.sampling.bias =
        tokens.iter().enumerate().map(|(i, &token)| (token, 1e6 * (tokens.len() - i) as f64)).collect();
    given.sampling.presence_penalty = 1e9;
    prompt.truncate(4);
    let mut end = None;
    for piece in session.generate(&prompt, &given).unwrap() {
        let piece = piece.unwrap();
        pieces.push(piece.text);
        end = piece.end;
    }
    (pieces, end)
}

#[test]
fn characters_and_stops_may_straddle_tokens() {
    let generator = File::of(&Tiny::default(), "straddle").open("cpu");
    let id = |text: &str| generator.tokens().encode(text).unwrap();
    let (first, second) = (97, 98);
    assert_eq!(id("é"), [first, second]);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|text| id(text)[0]);
    assert_eq!(said(&generator, &[a, first, second, b], &[]).0, ["a", "", "é", "b"]);
    // Half a character at the end is shown as what it is.
    assert_eq!(said(&generator, &[a, first], &[]).0.concat(), "a\u{fffd}");
    assert_eq!(
        said(&generator, &[a, b, c, d], &["bc"]),
        (vec!["a".into(), String::new(), String::new()], Some(End::Stop))
    );
    assert_eq!(said(&generator, &[a, b, d, c], &["bc"]).0, ["a", "", "bd", "c"]);
    assert_eq!(said(&generator, &[a, b], &["bc"]), (vec!["a".into(), "b".into()], Some(End::Length)));
    assert_eq!(said(&generator, &[a, b, c], &["bcd", "c"]).0, ["a", "", "b"]);
}

#[test]
fn messages_are_the_tokens_of_the_template() {
    let generator = File::of(&Tiny::default(), "chat").open("cpu");
    let tokens = generator.chat(&[Message::new("user", "the 42")]).unwrap();
    let names: Vec<String> = tokens.iter().map(|&token| generator.tokens().name(token).unwrap()).collect();
    let expected = "<|im_start|> u s e r Ċ th e Ġ 4 2 <|im_end|> Ċ <|im_start|> a s s i s t a n t Ċ";
    assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
    assert_eq!(generator.tokens().decode(&tokens).unwrap(), "user\nthe 42\nassistant\n");
}

#[test]
fn log_probabilities_come_with_each_token() {
    let generator = File::of(&Tiny::default(), "logprobs").open("cpu");
    let mut session = generator.sequence();
    let mut given = options(4);
    given.log_probabilities = Some(3);
    let logits = Definition::new(&Tiny::default()).logits(&PROMPT).pop().unwrap();
    let sum: f64 = logits.iter().map(|x| x.exp()).sum();
    let piece = session.generate(&PROMPT, &given).unwrap().next().unwrap().unwrap();
    let (chosen, top) = piece.log_probabilities.unwrap();
    assert_eq!((top.len(), chosen), (3, top[0]));
    assert!((chosen.log_probability - (logits[chosen.token as usize] - sum.ln())).abs() < 1e-3);
}
