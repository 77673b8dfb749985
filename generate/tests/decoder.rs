//! Decoders of small GGUF files, beside the same computed in `f64` by plain loops.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod tiny;

use bb_cpu as _;
use bb_generate::gguf::Gguf;
use bb_generate::{End, GenerateOptions, Generator, Message, OpenOptions, Products, Sampling};
use bb_reference as _;
use std::path::PathBuf;
use tiny::{BASE, CONTEXT, EPSILON, Quant, Tiny, VOCABULARY};

/// A file that is removed with the value.
struct File(PathBuf);

impl File {
    fn of(tiny: &Tiny, name: &str) -> File {
        let path = std::env::temp_dir().join(format!("bb-generate-{}-{name}.gguf", std::process::id()));
        std::fs::write(&path, tiny.writer().bytes()).unwrap();
        File(path)
    }

    fn open(&self, backend: &str) -> Generator {
        let options = OpenOptions::default().with_products(Products::Floats);
        Generator::open(&self.0, &bb::backend(backend).unwrap(), &options).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A matrix in `f64`, row by row.
struct Rows {
    inner: usize,
    numbers: Vec<f64>,
}

impl Rows {
    fn row(&self, i: usize) -> &[f64] {
        &self.numbers[i * self.inner..(i + 1) * self.inner]
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(x).map(|(a, b)| a * b).sum();
        self.numbers.chunks(self.inner).map(dot).collect()
    }
}

/// The model of the definition.
struct Definition {
    tiny: Tiny,
    file: Gguf,
}

impl Definition {
    fn new(tiny: &Tiny) -> Definition {
        Definition { tiny: tiny.clone(), file: Gguf::read(tiny.writer().bytes().into()).unwrap() }
    }

    fn rows(&self, name: &str) -> Rows {
        let tensor = self.file.tensor(name).unwrap();
        let numbers = tensor.dequantize().unwrap().into_iter().map(f64::from).collect();
        Rows { inner: tensor.extents()[0] as usize, numbers }
    }

    fn norm(&self, x: &[f64], name: &str) -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let factor = 1.0 / (mean + f64::from(EPSILON)).sqrt();
        x.iter().zip(self.rows(name).numbers).map(|(x, w)| x * factor * w).collect()
    }

    /// Whether a layer turns heads: of SmolLM3's, each fourth does not.
    fn turns(&self, layer: usize) -> bool {
        self.tiny.architecture != "smollm3" || layer % 4 != 3
    }

    /// Turns a head in place. Neighbours are a pair for llama and SmolLM3; for others an element of each half.
    fn turn(&self, x: &mut [f64], position: usize) {
        let half = x.len() / 2;
        for i in 0..half {
            let angle = position as f64 * f64::from(BASE).powf(-2.0 * i as f64 / x.len() as f64);
            let (sin, cos) = angle.sin_cos();
            let neighbours = matches!(self.tiny.architecture, "llama" | "smollm3");
            let (a, b) = if neighbours { (2 * i, 2 * i + 1) } else { (i, i + half) };
            (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin);
        }
    }

    fn heads(&self, x: &[f64], layer: usize, what: &str, rotated: bool, position: usize) -> Vec<Vec<f64>> {
        let name = |rest: &str| format!("blk.{layer}.{what}{rest}");
        let mut y = self.rows(&name(".weight")).times(x);
        if self.tiny.biases {
            y.iter_mut().zip(self.rows(&name(".bias")).numbers).for_each(|(y, b)| *y += b);
        }
        let mut heads: Vec<Vec<f64>> = y.chunks(self.tiny.size()).map(<[f64]>::to_vec).collect();
        for head in &mut heads {
            if rotated && self.tiny.head_norms {
                *head = self.norm(head, &name("_norm.weight"));
            }
            if rotated && self.turns(layer) {
                self.turn(head, position);
            }
        }
        heads
    }

    /// The logits behind each token.
    fn logits(&self, tokens: &[u32]) -> Vec<Vec<f64>> {
        let tiny = &self.tiny;
        let embedding = self.rows("token_embd.weight");
        let mut xs: Vec<Vec<f64>> = tokens.iter().map(|&t| embedding.row(t as usize).to_vec()).collect();
        if tiny.architecture == "gemma" {
            xs.iter_mut().flatten().for_each(|x| *x *= (tiny.width as f64).sqrt());
        }
        for layer in 0..tiny.layers {
            let name = |what: &str| format!("blk.{layer}.{what}.weight");
            let normal: Vec<Vec<f64>> = xs.iter().map(|x| self.norm(x, &name("attn_norm"))).collect();
            let all = |what: &str, rotated: bool| -> Vec<Vec<Vec<f64>>> {
                normal.iter().enumerate().map(|(p, x)| self.heads(x, layer, what, rotated, p)).collect()
            };
            let (q, k, v) = (all("attn_q", true), all("attn_k", true), all("attn_v", false));
            let output = self.rows(&name("attn_output"));
            let (gate, up, down) =
                (self.rows(&name("ffn_gate")), self.rows(&name("ffn_up")), self.rows(&name("ffn_down")));
            for p in 0..xs.len() {
                let mut attended = Vec::new();
                for (head, q) in q[p].iter().enumerate() {
                    let group = head / (tiny.heads / tiny.groups);
                    let from = tiny.window.map_or(0, |window| (p + 1).saturating_sub(window as usize));
                    let weights: Vec<f64> = (from..=p)
                        .map(|t| {
                            let dot: f64 = q.iter().zip(&k[t][group]).map(|(a, b)| a * b).sum();
                            (dot / (tiny.size() as f64).sqrt()).exp()
                        })
                        .collect();
                    let sum: f64 = weights.iter().sum();
                    let average =
                        |i: usize| (from..=p).map(|t| weights[t - from] / sum * v[t][group][i]).sum::<f64>();
                    attended.extend((0..tiny.size()).map(average));
                }
                for (x, y) in xs[p].iter_mut().zip(output.times(&attended)) {
                    *x += y;
                }
                let normal = self.norm(&xs[p], &name("ffn_norm"));
                let gated = gate.times(&normal).into_iter().zip(up.times(&normal)).map(|(g, u)| {
                    if tiny.architecture == "gemma" {
                        let inner = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044_715 * g.powi(3));
                        0.5 * g * (1.0 + inner.tanh()) * u
                    } else {
                        g / (1.0 + (-g).exp()) * u
                    }
                });
                for (x, y) in xs[p].iter_mut().zip(down.times(&gated.collect::<Vec<_>>())) {
                    *x += y;
                }
            }
        }
        let head = if tiny.tied { embedding } else { self.rows("output.weight") };
        xs.iter().map(|x| head.times(&self.norm(x, "output_norm.weight"))).collect()
    }
}

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

/// The cache doubles on the way: a sequence is longer than the room that it begins with.
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
    // One by one, from the definition's largest logit.
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
