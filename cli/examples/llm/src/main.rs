//! Generates text with a small language model that was trained on this repository's documentation, on any backend.
//!
//! ```text
//! cargo run --release -p llm -- [--backend NAME] [--prompt TEXT] [--tokens N] [--temperature T] [--seed N]
//! ```
//!
//! `train.py` in this folder created the model, a GGUF file, which other programs can read, too. A token is a character.

use bb_generate::{GenerateOptions, Generator, OpenOptions, Products, Sampling};
use std::io::Write;
use std::time::Instant;

// These crates are imported only so that the linker includes the backends.
use bb_cpu as _;
#[cfg(feature = "wgpu")]
use bb_wgpu as _;

const MODEL: &[u8] = include_bytes!("../model.gguf");

/// The prompt, and the options of the generation.
#[derive(Debug, Clone)]
struct Task {
    prompt: String,
    /// The number of tokens to generate.
    tokens: usize,
    /// The divisor of the logits. 0 selects the most probable token.
    temperature: f64,
    seed: u64,
}

impl Default for Task {
    fn default() -> Task {
        Task { prompt: "The backend ".to_owned(), tokens: 400, temperature: 0.5, seed: 1 }
    }
}

impl Task {
    fn options(&self) -> GenerateOptions {
        let mut sampling = Sampling::default();
        (sampling.temperature, sampling.top_k, sampling.top_p) = (self.temperature, 40, 0.95);
        sampling.seed = Some(self.seed);
        let mut options = GenerateOptions::default();
        (options.sampling, options.tokens) = (sampling, self.tokens);
        options
    }
}

/// Loads the model on the backend called `name`.
fn load(name: &str) -> Result<Generator, Box<dyn std::error::Error>> {
    // Matrix products use floats, so that all backends generate the same text.
    let options = OpenOptions::default().with_products(Products::Floats);
    Ok(Generator::from_bytes(MODEL, &bb::backend(name)?, &options)?)
}

/// Prints the continuation of a prompt character by character. Returns the number of generated tokens.
fn generate(
    model: &Generator,
    task: &Task,
    to: &mut impl Write,
) -> Result<usize, Box<dyn std::error::Error>> {
    let prompt = model.tokens().encode(&task.prompt)?;
    if model.tokens().decode(&prompt)? != task.prompt {
        return Err("the model knows only printable ASCII and ends of lines".into());
    }
    let mut sequence = model.sequence();
    let mut generation = sequence.generate(&prompt, &task.options())?;
    write!(to, "{}", task.prompt)?;
    for piece in generation.by_ref() {
        write!(to, "{}", piece?.text)?;
        to.flush()?;
    }
    Ok(generation.statistics().answer_tokens)
}

/// Parses the arguments. Returns the name of the backend and the task.
fn arguments(mut given: impl Iterator<Item = String>) -> Result<(String, Task), Box<dyn std::error::Error>> {
    let (mut backend, mut task) = ("cpu".to_owned(), Task::default());
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("`{name}` needs a value"))?;
        match name.as_str() {
            "--backend" => backend = value,
            "--prompt" => task.prompt = value,
            "--tokens" => task.tokens = value.parse()?,
            "--temperature" => task.temperature = value.parse()?,
            "--seed" => task.seed = value.parse()?,
            _ => {
                let known = "`--backend`, `--prompt`, `--tokens`, `--temperature` or `--seed`";
                return Err(format!("unknown option `{name}`; expected {known}").into());
            }
        }
    }
    Ok((backend, task))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (backend, task) = arguments(std::env::args().skip(1))?;
    let model = load(&backend)?;
    let start = Instant::now();
    let count = generate(&model, &task, &mut std::io::stdout().lock())?;
    let seconds = start.elapsed().as_secs_f64();
    println!("\n\n{count} tokens on {backend}, {:.0} tokens per second", count as f64 / seconds.max(1e-9));
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_reference as _;
    use bb_whole_graph as _;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn text(backend: &str, task: &Task) -> String {
        let mut out = Vec::new();
        generate(&load(backend).unwrap(), task, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_backend_writes_the_same_text() {
        for temperature in [0.0, 0.8] {
            let task = Task { tokens: 60, temperature, ..Task::default() };
            let texts = ["cpu", "reference", "whole-graph"].map(|name| text(name, &task));
            assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        }
    }

    /// The model rarely generates words that its training text does not contain.
    #[test]
    fn the_text_is_made_of_the_words_of_the_documentation() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
        files.extend(std::fs::read_dir(root.join("bb/docs")).unwrap().map(|entry| entry.unwrap().path()));
        let words = |text: &str| -> Vec<String> {
            text.split(|c: char| !c.is_ascii_alphabetic())
                .filter(|word| word.len() > 2)
                .map(str::to_owned)
                .collect()
        };
        let known: BTreeSet<String> =
            files.iter().flat_map(|file| words(&std::fs::read_to_string(file).unwrap())).collect();
        let written = text("cpu", &Task { tokens: 1500, ..Task::default() });
        let (all, different) = (words(&written), words(&written).into_iter().collect::<BTreeSet<_>>());
        let found = all.iter().filter(|word| known.contains(*word)).count();
        assert!(all.len() > 100 && different.len() > 50, "{written}");
        assert!(found * 10 >= all.len() * 8, "{found} of {} words are known:\n{written}", all.len());
    }

    #[test]
    fn mistakes_in_arguments_are_errors() {
        let read = |words: &[&str]| arguments(words.iter().map(|word| (*word).to_owned()));
        assert!(read(&["--tokens", "many"]).is_err());
        assert!(read(&["--backend"]).is_err());
        assert!(read(&["--top"]).is_err() && read(&["--top", "1"]).is_err());
        assert_eq!(read(&["--backend", "reference"]).unwrap().0, "reference");
        let model = load("cpu").unwrap();
        for prompt in ["ü", ""] {
            let task = Task { prompt: prompt.to_owned(), ..Task::default() };
            assert!(generate(&model, &task, &mut Vec::new()).is_err(), "`{prompt}`");
        }
    }
}
