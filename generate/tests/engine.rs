//! Many sequences at once: the same tokens as alone, whatever runs beside them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod definition;
mod tiny;

use bb_cpu as _;
use bb_generate::gguf::Gguf;
use bb_generate::{
    CacheType, End, Engine, EngineOptions, Error, Event, GenerateOptions, Generator, Listener, OpenOptions,
    Piece, Pooling, Ticket,
};
use bb_reference as _;
use definition::{Definition, File};
use std::sync::{Arc, Mutex};
use tiny::{CONTEXT, Quant, Tiny};

/// The positions of a block, and the bytes of one: keys and values of two layers, two heads of 16 floats each.
const BLOCK: usize = 32;
const BYTES: usize = BLOCK * 2 * 2 * 2 * 16 * 4;

fn exact() -> Tiny {
    Tiny { quant: Quant::F32, ..Tiny::default() }
}

fn wanted(tokens: usize) -> GenerateOptions {
    let mut options = GenerateOptions::default();
    (options.tokens, options.ignore_end) = (tokens, true);
    options
}

fn bounds(sequences: usize, tokens: usize, blocks: usize) -> EngineOptions {
    bounds_of(CacheType::F32, sequences, tokens, blocks)
}

fn bounds_of(cache: CacheType, sequences: usize, tokens: usize, blocks: usize) -> EngineOptions {
    let mut bounds = EngineOptions::default();
    (bounds.sequences, bounds.tokens, bounds.bytes) = (sequences, tokens, blocks * bytes_of(cache));
    bounds
}

/// The bytes of a block: integers of a byte have a scale of four for each head of 16.
fn bytes_of(cache: CacheType) -> usize {
    match cache {
        CacheType::F16 => BYTES / 2,
        CacheType::I8 => BYTES / 64 * (16 + 4),
        _ => BYTES,
    }
}

/// Tokens that look drawn, the same in each run.
fn prompt(seed: u32, length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| 1 + (i * i * 7 + i * (seed + 3) + seed * 13) % 127).collect()
}

fn alone(generator: &Generator, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let mut sequence = generator.sequence();
    let mut generation = sequence.generate(prompt, &wanted(tokens)).unwrap();
    assert!(generation.by_ref().all(|piece| piece.is_ok()));
    generation.tokens().to_vec()
}

fn tokens(ticket: &mut Ticket) -> Vec<u32> {
    ticket.pieces().unwrap().iter().map(|piece| piece.token).collect()
}

fn run(engine: &mut Engine) {
    let mut steps = 0;
    while engine.step() {
        steps += 1;
        assert!(steps < 10_000, "an engine does not end: {:?}", engine.statistics());
    }
}

/// Prompts of one token, of a block, of several, and such that share their beginnings.
fn prompts() -> Vec<Vec<u32>> {
    let shared = prompt(1, 70);
    let with = |more: &[u32]| [&shared[..], more].concat();
    let mut all = vec![vec![5], prompt(2, 3), prompt(3, BLOCK), prompt(4, BLOCK + 1), prompt(5, 100)];
    all.extend([with(&[9, 8, 7]), with(&[9, 8, 7, 6]), with(&[4]), shared.clone(), shared[..40].to_vec()]);
    all
}

#[test]
fn joined_sequences_have_the_tokens_that_they_have_alone() {
    for window in [None, Some(20)] {
        let architecture = if window.is_some() { "phi3" } else { "llama" };
        let tiny = Tiny { window, architecture, ..exact() };
        let file = File::of(&tiny, &format!("joined-{architecture}"));
        let generator = file.open("cpu");
        let expected: Vec<Vec<u32>> = prompts().iter().map(|prompt| alone(&generator, prompt, 40)).collect();
        let definition = Definition::new(&tiny);
        for (prompt, tokens) in prompts().iter().zip(&expected).take(3) {
            assert_eq!(definition.greedy(prompt, 6), tokens[..6]);
        }
        // Many at once or few, prompts whole and in small parts, room for all and for few.
        for (sequences, step, blocks) in
            [(16, 512, 1000), (16, 17, 1000), (3, 64, 1000), (16, 64, 12), (4, 8, 7)]
        {
            let mut engine = Engine::new(&generator, bounds(sequences, step, blocks));
            let add = |prompt: &Vec<u32>| engine.generate(prompt, &wanted(40)).unwrap();
            let mut tickets: Vec<Ticket> = prompts().iter().map(add).collect();
            run(&mut engine);
            for (ticket, expected) in tickets.iter_mut().zip(&expected) {
                assert_eq!(
                    &tokens(ticket),
                    expected,
                    "{sequences} sequences, {step} tokens, {blocks} blocks"
                );
            }
            let after = engine.statistics();
            assert_eq!((after.running, after.waiting, after.bytes), (0, 0, 0), "{after:?}");
            assert!(blocks > 20 || after.evictions > 0 || sequences < 5, "{after:?}");
        }
    }
}

/// Products of integers, and attention, depend on nothing that runs beside a sequence, so that logits are the same to the last bit.
#[test]
fn products_of_integers_give_joined_sequences_the_logits_that_they_have_alone() {
    let wanted = {
        let mut options = wanted(40);
        options.log_probabilities = Some(3);
        options
    };
    let bits = |piece: &Piece| {
        let (own, most) = piece.log_probabilities.as_ref().unwrap();
        let all = most.iter().chain([own]);
        (piece.token, all.map(|of| of.log_probability.to_bits()).collect::<Vec<u64>>())
    };
    let windows = [None, Some(20)];
    for (cache, window) in CacheType::ALL.into_iter().flat_map(|cache| windows.map(|window| (cache, window)))
    {
        let architecture = if window.is_some() { "phi3" } else { "llama" };
        let tiny = Tiny { window, architecture, ..Tiny::default() };
        let file = File::of(&tiny, &format!("integers-{architecture}-{cache:?}"));
        let generator = file.open_with("cpu", &OpenOptions::default().with_cache(cache));
        let alone = |prompt: &Vec<u32>, chunk: usize| {
            let mut options = wanted.clone();
            options.chunk = chunk;
            let mut sequence = generator.sequence();
            let generation = sequence.generate(prompt, &options).unwrap();
            generation.map(|piece| bits(&piece.unwrap())).collect::<Vec<_>>()
        };
        let expected: Vec<_> = prompts().iter().map(|prompt| alone(prompt, 0)).collect();
        for (prompt, expected) in prompts().iter().zip(&expected) {
            assert_eq!(&alone(prompt, 7), expected);
        }
        for (sequences, step, blocks) in [(16, 512, 1000), (16, 17, 1000), (16, 64, 12)] {
            let mut engine = Engine::new(&generator, bounds_of(cache, sequences, step, blocks));
            let add = |prompt: &Vec<u32>| engine.generate(prompt, &wanted).unwrap();
            let mut tickets: Vec<Ticket> = prompts().iter().map(add).collect();
            run(&mut engine);
            for (ticket, expected) in tickets.iter_mut().zip(&expected) {
                let got: Vec<_> = ticket.pieces().unwrap().iter().map(bits).collect();
                assert_eq!(&got, expected, "{cache:?}, {step} tokens, {blocks} blocks");
            }
            assert!(blocks > 20 || engine.statistics().evictions > 0, "{cache:?}, {blocks} blocks");
        }
    }
}

/// Caches of halves take half of the memory, and what rounding them changes is small.
#[test]
fn caches_may_be_of_halves() {
    let file = File::of(&exact(), "halves");
    let prompt = prompt(1, 70);
    let run = |cache: CacheType| {
        let options = OpenOptions::default().with_cache(cache);
        let generator = file.open_with("cpu", &options);
        let mut sequence = generator.sequence();
        let (logits, _) = sequence.prompt(&prompt, 0).unwrap();
        (logits, sequence.cache_bytes())
    };
    let ((floats, bytes), (halves, fewer)) = (run(CacheType::F32), run(CacheType::F16));
    assert_eq!(bytes, 2 * fewer);
    let most = floats.iter().fold(0f32, |most, x| most.max(x.abs()));
    let off = floats.iter().zip(&halves).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(off > 0.0 && off < 2e-3 * most, "{off} of {most}");
}

/// Caches of 8 bits take a byte for each element and four for each head's scale. Their logits have the error that rounding keys and
/// values has by its definition in `f64`, on a backend with a kernel and on one without.
#[test]
fn caches_may_be_of_bytes() {
    let tiny = Tiny { window: Some(50), architecture: "phi3", ..exact() };
    let file = File::of(&tiny, "bytes");
    let prompt = prompt(1, 70);
    let [exact, rounded] = [Definition::new(&tiny), Definition::rounded(&tiny)]
        .map(|definition| definition.logits(&prompt).pop().unwrap());
    let most = |of: &dyn Fn(usize) -> f64| (0..exact.len()).map(of).fold(0f64, f64::max);
    let error = most(&|i| (rounded[i] - exact[i]).abs());
    assert!(error > 0.0);
    for backend in ["cpu", "reference"] {
        let run = |cache: CacheType, chunk: usize| {
            let generator = file.open_with(backend, &OpenOptions::default().with_cache(cache));
            let mut sequence = generator.sequence();
            let (logits, _) = sequence.prompt(&prompt, chunk).unwrap();
            (logits, sequence.cache_bytes())
        };
        for chunk in [0, 9] {
            let ((_, bytes), (logits, fewer)) = (run(CacheType::F32, chunk), run(CacheType::I8, chunk));
            assert_eq!(fewer * BYTES, bytes * bytes_of(CacheType::I8));
            // An `f32` may be rounded to another integer where the `f64` is nearly between two. This happens to few of the thousands
            // of elements, each of which has a small part in the error.
            let off = most(&|i| (f64::from(logits[i]) - rounded[i]).abs());
            assert!(off < error / 4.0, "{backend}: {off}, and rounding has {error}");
        }
    }
}

/// A key or a value that is no finite number is an error, however caches keep it.
#[test]
fn infinite_keys_and_values_are_errors() {
    let tiny = Tiny { biases: true, architecture: "qwen2", ..exact() };
    for name in ["blk.0.attn_k.bias", "blk.1.attn_v.bias"] {
        let mut bytes = tiny.writer().bytes();
        let bias = Gguf::read(bytes.clone().into()).unwrap().tensor(name).unwrap().bytes().to_vec();
        let at = bytes.windows(bias.len()).position(|part| part == bias).unwrap();
        bytes[at..at + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        let file = File::of(&tiny, &format!("infinite-{name}"));
        std::fs::write(&file.0, bytes).unwrap();
        for cache in CacheType::ALL {
            let generator = file.open_with("cpu", &OpenOptions::default().with_cache(cache));
            let mut sequence = generator.sequence();
            let first = sequence.generate(&prompt(1, 40), &wanted(3)).unwrap().next().unwrap();
            assert!(first.is_err(), "{name}, {cache:?}: {first:?}");
        }
    }
}

#[test]
fn joined_sequences_are_the_same_on_another_backend() {
    let tiny = Tiny { layers: 1, ..exact() };
    let generator = File::of(&tiny, "joined-reference").open("reference");
    let definition = Definition::new(&tiny);
    let mut engine = Engine::new(&generator, bounds(8, 16, 100));
    let all = [prompt(1, 5), prompt(2, 37), vec![3]];
    let mut tickets: Vec<Ticket> =
        all.iter().map(|prompt| engine.generate(prompt, &wanted(4)).unwrap()).collect();
    run(&mut engine);
    for (ticket, prompt) in tickets.iter_mut().zip(&all) {
        assert_eq!(tokens(ticket), definition.greedy(prompt, 4));
    }
}

#[test]
fn those_that_come_later_join_those_that_run() {
    let generator = File::of(&exact(), "later").open("cpu");
    let mut engine = Engine::new(&generator, bounds(8, 64, 100));
    let all = prompts();
    let mut tickets = Vec::new();
    for prompt in &all {
        tickets.push(engine.generate(prompt, &wanted(25)).unwrap());
        engine.step();
        engine.step();
    }
    run(&mut engine);
    for (ticket, prompt) in tickets.iter_mut().zip(&all) {
        assert_eq!(tokens(ticket), alone(&generator, prompt, 25));
    }
}

#[test]
fn common_beginnings_are_computed_once() {
    let generator = File::of(&exact(), "common").open("cpu");
    let mut engine = Engine::new(&generator, bounds(8, 512, 100));
    let long = prompt(1, 100);
    let other = [&long[..70], &[1, 2, 3][..]].concat();
    let mut first = engine.generate(&long, &wanted(3)).unwrap();
    run(&mut engine);
    assert_eq!(engine.statistics().prompt_tokens, 100);
    // Three whole blocks of the same prompt; two of one that begins alike; none of one that differs in the first token.
    for (prompt, reused) in [(&long, 96), (&other, 64), (&[&[7], &long[1..]].concat(), 0)] {
        let before = engine.statistics();
        let mut ticket = engine.generate(prompt, &wanted(3)).unwrap();
        run(&mut engine);
        let after = engine.statistics();
        assert_eq!(after.reused_tokens - before.reused_tokens, reused);
        assert_eq!(after.prompt_tokens - before.prompt_tokens, prompt.len() as u64 - reused);
        assert_eq!(tokens(&mut ticket), alone(&generator, prompt, 3));
    }
    assert_eq!(tokens(&mut first), alone(&generator, &long, 3));
    // Of eight at once, one computes what all have in common.
    let before = engine.statistics();
    let common = prompt(9, 90);
    let mut tickets: Vec<Ticket> = (0..8).map(|_| engine.generate(&common, &wanted(3)).unwrap()).collect();
    run(&mut engine);
    let computed = engine.statistics().prompt_tokens - before.prompt_tokens;
    assert_eq!(computed, 90 + 7 * (90 - 64));
    let expected = alone(&generator, &common, 3);
    assert!(tickets.iter_mut().all(|ticket| tokens(ticket) == expected));
}

#[test]
fn answers_of_earlier_turns_are_kept_until_memory_is_needed() {
    let generator = File::of(&exact(), "kept").open("cpu");
    let mut engine = Engine::new(&generator, bounds(8, 512, 6));
    let mut chat = prompt(1, 40);
    let mut ticket = engine.generate(&chat, &wanted(30)).unwrap();
    run(&mut engine);
    chat.extend(tokens(&mut ticket));
    let mut again = engine.generate(&chat, &wanted(2)).unwrap();
    run(&mut engine);
    assert_eq!(engine.statistics().reused_tokens, 64);
    assert_eq!(tokens(&mut again), alone(&generator, &chat, 2));
    // Another chat needs all memory.
    let mut other = engine.generate(&prompt(6, 180), &wanted(2)).unwrap();
    run(&mut engine);
    assert_eq!(tokens(&mut other).len(), 2);
    let before = engine.statistics().reused_tokens;
    let mut again = engine.generate(&chat, &wanted(2)).unwrap();
    run(&mut engine);
    assert_eq!(engine.statistics().reused_tokens, before);
    assert_eq!(tokens(&mut again), alone(&generator, &chat, 2));
}

#[test]
fn a_request_that_nobody_waits_for_gives_its_part_back_at_once() {
    let generator = File::of(&exact(), "dropped").open("cpu");
    let mut engine = Engine::new(&generator, bounds(2, 64, 100));
    let first = engine.generate(&prompt(1, 70), &wanted(100)).unwrap();
    let mut second = engine.generate(&prompt(2, 10), &wanted(5)).unwrap();
    let waits = engine.generate(&prompt(3, 10), &wanted(5)).unwrap();
    engine.step();
    assert_eq!((engine.statistics().running, engine.statistics().waiting), (2, 1));
    let used = engine.statistics().bytes;
    drop((first, waits));
    engine.step();
    let after = engine.statistics();
    assert_eq!((after.running, after.waiting), (1, 0));
    assert!(after.bytes < used, "{after:?}, {used} before");
    run(&mut engine);
    assert_eq!(tokens(&mut second), alone(&generator, &prompt(2, 10), 5));
}

/// A long prompt takes turns with those that generate: each of them gets a token in each step.
#[test]
fn nobody_waits_for_a_long_prompt() {
    let generator = File::of(&exact(), "fair").open("cpu");
    let mut engine = Engine::new(&generator, bounds(8, 16, 100));
    let mut running: Vec<Ticket> =
        (0..4).map(|i| engine.generate(&prompt(i, 2), &wanted(60)).unwrap()).collect();
    engine.step();
    running.iter_mut().for_each(|ticket| assert_eq!(tokens(ticket).len(), 1));
    let mut long = engine.generate(&prompt(7, 150), &wanted(2)).unwrap();
    let mut short = engine.generate(&prompt(8, 5), &wanted(2)).unwrap();
    let mut short_began = None;
    for step in 0.. {
        engine.step();
        running.iter_mut().for_each(|ticket| assert_eq!(tokens(ticket).len(), 1));
        if short_began.is_none() && !tokens(&mut short).is_empty() {
            short_began = Some(step);
        }
        if !tokens(&mut long).is_empty() {
            assert!(step > 5 && short_began.is_some_and(|began| began < 2), "{step}, {short_began:?}");
            break;
        }
    }
}

#[test]
fn what_is_too_much_is_refused() {
    let generator = File::of(&exact(), "refused").open("cpu");
    let mut given = bounds(1, 64, 3);
    given.waiting = 2;
    let mut engine = Engine::new(&generator, given);
    assert_eq!(engine.context(), 3 * BLOCK);
    let long = engine.generate(&prompt(1, 97), &wanted(1));
    assert!(matches!(long, Err(Error::Context { needed: 97, most: 96 })));
    assert!(matches!(engine.generate(&[], &wanted(1)), Err(Error::NoTokens)));
    assert!(matches!(engine.generate(&[128], &wanted(1)), Err(Error::Token { token: 128, most: 127 })));
    assert!(matches!(engine.generate(&[1], &wanted(0)), Err(Error::Option { option: "tokens", .. })));
    let mut wrong = wanted(1);
    wrong.sampling.top_p = 2.0;
    assert!(matches!(engine.generate(&[1], &wrong), Err(Error::Option { option: "top_p", .. })));
    let _waits = [engine.generate(&[1], &wanted(1)).unwrap(), engine.generate(&[1], &wanted(1)).unwrap()];
    assert!(matches!(engine.generate(&[1], &wanted(1)), Err(Error::Busy { most: 2 })));
    run(&mut engine);
    // A sequence ends where its memory does.
    let mut ticket = engine.generate(&prompt(1, 94), &wanted(50)).unwrap();
    run(&mut engine);
    let pieces: Vec<Piece> = ticket.pieces().unwrap();
    assert_eq!((pieces.len(), pieces[pieces.len() - 1].end), (3, Some(End::Context)));
    let mut engine = Engine::new(&generator, EngineOptions::default());
    assert_eq!(engine.context(), CONTEXT);
    let mut ticket = engine.generate(&prompt(1, CONTEXT - 1), &wanted(50)).unwrap();
    run(&mut engine);
    assert_eq!(ticket.pieces().unwrap().last().unwrap().end, Some(End::Context));
}

/// Keeps the last state.
struct States(Arc<Mutex<Vec<Vec<f32>>>>);

impl Listener for States {
    fn receive(&mut self, event: Event) {
        match event {
            Event::Embedding(state) => self.0.lock().unwrap().push(state),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }

    fn is_gone(&self) -> bool {
        false
    }
}

#[test]
fn embeddings_are_the_states_of_the_definition() {
    let tiny = exact();
    let generator = File::of(&tiny, "states").open("cpu");
    let text = prompt(3, 50);
    let states = Definition::new(&tiny).states(&text);
    let mean = |i: usize| states.iter().map(|state| state[i]).sum::<f64>() / states.len() as f64;
    let expected: [Vec<f64>; 2] = [(0..64).map(mean).collect(), states[49].clone()];
    for step in [8, 512] {
        let mut engine = Engine::new(&generator, bounds(8, step, 100));
        // Beside an answer, whose blocks they do not share: all states are needed.
        let _answer = engine.generate(&text, &wanted(20)).unwrap();
        let found = Arc::new(Mutex::new(Vec::new()));
        for pooling in [Pooling::Mean, Pooling::Last] {
            engine.embed(&text, pooling, Box::new(States(found.clone()))).unwrap();
        }
        run(&mut engine);
        let found = found.lock().unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-4, "{found}, expected {expected}");
            }
        }
        assert_eq!(found.len(), 2);
    }
}

#[test]
fn seeds_and_stops_are_those_of_each_request() {
    let generator = File::of(&exact(), "seeds").open("cpu");
    let mut engine = Engine::new(&generator, EngineOptions::default());
    let given = |seed: u64| {
        let mut options = wanted(20);
        (options.sampling.temperature, options.sampling.seed) = (1.5, Some(seed));
        options
    };
    let mut tickets: Vec<Ticket> =
        [3, 4, 3].iter().map(|&seed| engine.generate(&prompt(1, 9), &given(seed)).unwrap()).collect();
    run(&mut engine);
    let found: Vec<Vec<u32>> = tickets.iter_mut().map(tokens).collect();
    assert_eq!(found[0], found[2]);
    assert_ne!(found[0], found[1]);
    let mut sequence = generator.sequence();
    let mut generation = sequence.generate(&prompt(1, 9), &given(4)).unwrap();
    assert!(generation.by_ref().all(|piece| piece.is_ok()));
    assert_eq!(generation.tokens(), found[1]);
}
