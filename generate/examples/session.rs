//! Runs a model as a program asks, line by line; `benches/peers/generate` measures with it.
//!
//! The arguments are the model, the number of threads and the greatest number of tokens. The lines, whose words are numbers of tokens
//! where nothing else is said:
//!
//! - `speed … | N` runs a prompt and chooses `N` tokens; the answer has the seconds of both.
//! - `tokens … | N` does the same; the answer has each token, and how much greater its logit is than the next one.
//! - `loss …` answers with the mean negative logarithm of the probability of each token but the first.
//! - `file PATH` and `message TEXT` answer with the tokens of a file and of a message.
//! - `memory` answers with the most memory that the process had, in bytes.

use bb_cpu as _;
use bb_generate::{GenerateOptions, Generator, Message, OpenOptions, Products};
use std::error::Error;
use std::io::Write;
use std::time::Instant;

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, threads, context, rest @ ..] = words.as_slice() else {
        return Err("expected: MODEL THREADS CONTEXT [floats]".into());
    };
    let on = bb::backend(&format!("cpu(threads={threads})"))?;
    let start = Instant::now();
    let products =
        if rest.iter().any(|word| word == "floats") { Products::Floats } else { Products::Integers };
    let options = OpenOptions::default().with_context(context.parse()?).with_products(products);
    let generator = Generator::open(model, &on, &options)?;
    println!("opened {:.6}", start.elapsed().as_secs_f64());
    for line in std::io::stdin().lines() {
        let line = line?;
        let (what, rest) = line.split_once(' ').unwrap_or((&line, ""));
        println!("{}", answer(&generator, what, rest)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn answer(generator: &Generator, what: &str, rest: &str) -> Fallible<String> {
    let (tokens, count) = rest.split_once('|').unwrap_or((rest, "0"));
    let numbers = || tokens.split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>();
    Ok(match what {
        "file" => listed(&generator.tokens().encode(&std::fs::read_to_string(rest)?)?),
        "message" => listed(&generator.chat(&[Message::new("user", rest)])?),
        "memory" => peak().unwrap_or_default(),
        "loss" => loss(generator, &numbers()?)?.to_string(),
        "speed" | "tokens" => generated(generator, &numbers()?, count.trim().parse()?, what == "tokens")?,
        other => return Err(format!("unknown: `{other}`").into()),
    })
}

fn listed(tokens: &[u32]) -> String {
    tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn generated(generator: &Generator, prompt: &[u32], count: usize, shows: bool) -> Fallible<String> {
    let mut options = GenerateOptions::default();
    options.tokens = count;
    options.ignore_end = true;
    options.log_probabilities = shows.then_some(2);
    let mut sequence = generator.sequence();
    let mut generation = sequence.generate(prompt, &options)?;
    let mut shown = Vec::new();
    for piece in generation.by_ref() {
        let piece = piece?;
        if let Some((_, top)) = piece.log_probabilities
            && let [first, second] = top.as_slice()
        {
            shown.push(format!("{} {:.6}", piece.token, first.log_probability - second.log_probability));
        }
    }
    if shows {
        return Ok(shown.join(" "));
    }
    let statistics = generation.statistics();
    let [prompt, answer] = [statistics.prompt_time, statistics.answer_time];
    Ok(format!("{:.6} {:.6}", prompt.as_secs_f64(), answer.as_secs_f64()))
}

fn loss(generator: &Generator, tokens: &[u32]) -> Fallible<f64> {
    let logits = generator.sequence().all_logits(tokens)?;
    let mut sum = 0.0;
    for (row, &next) in logits.chunks_exact(generator.vocabulary()).zip(tokens.iter().skip(1)) {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let all: f64 = row.iter().map(|&x| f64::from(x - most).exp()).sum();
        let own = row.get(next as usize).ok_or("a token is beyond the vocabulary")?;
        sum -= f64::from(own - most) - all.ln();
    }
    Ok(sum / (tokens.len().max(2) - 1) as f64)
}

/// Returns the most memory that the process had, in bytes; `None` where the system does not tell.
fn peak() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some((kibibytes * 1024).to_string())
}
