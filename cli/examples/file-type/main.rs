//! Identifies the types of files with the Magika model, on any backend.
//!
//! ```text
//! cargo run --release --example file-type -- [--backend NAME] FILE…
//! ```

mod features;

use bb::{BackendRuntime, ErasedExecutable};
use bb::{CompileOptions, Module, TensorData};
use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use bb_cli as _; // it links the backends of its features

/// The model and its authors' configuration.
const MODEL: &[u8] = include_bytes!("../../../tests/data/models/magika/model.onnx");
const CONFIG: &str = include_str!("../../../tests/data/models/magika/config.min.json");

/// The authors' configuration; its other fields are about training.
#[derive(serde::Deserialize)]
struct Config {
    target_labels_space: Vec<String>,
    thresholds: HashMap<String, f32>,
    overwrite_map: HashMap<String, String>,
    medium_confidence_threshold: f32,
    #[serde(flatten)]
    features: features::Config,
}

/// A file type and the model's confidence in it, from 0 to 1.
#[derive(Debug, PartialEq)]
struct Guess {
    label: String,
    score: f32,
}

/// The model on a backend.
struct Identifier {
    config: Config,
    runtime: Arc<dyn BackendRuntime>,
    model: Arc<dyn ErasedExecutable>,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Identifier {
    fn new(backend: &str) -> Result<Identifier> {
        let module = Module::from_bytes(MODEL)?;
        let runtime = bb::backend(backend)?.runtime().clone();
        let model = runtime.clone().compile(module, &CompileOptions::default())?;
        Ok(Identifier { config: serde_json::from_str(CONFIG)?, runtime, model })
    }

    /// Guesses the type of a file.
    fn identify(&self, file: &Path) -> Result<Guess> {
        let read = features::read(file, &self.config.features)?;
        let sure = |label: &str| Guess { label: label.to_owned(), score: 1.0 };
        let tokens = match read {
            features::Features::Empty => return Ok(sure("empty")),
            features::Features::TooShort { text } => return Ok(sure(if text { "txt" } else { "unknown" })),
            features::Features::Tokens { tokens, text } => (tokens, text),
        };
        let (tokens, text) = tokens;
        let input = self.runtime.constant(&TensorData::new(&[1, tokens.len()], &tokens)?)?;
        let outputs = self.model.run(&[Some(&input)])?;
        let scores = self.runtime.to_host(outputs.first().ok_or("the model has no output")?)?;
        let best = scores.as_slice::<f32>()?.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let (index, score) = best.ok_or("the model returned no scores")?;
        let label = self.config.target_labels_space.get(index).ok_or("a score without a label")?;
        let needed =
            self.config.thresholds.get(label).copied().unwrap_or(self.config.medium_confidence_threshold);
        let label = if score < needed {
            if text { "txt" } else { "unknown" }
        } else {
            self.config.overwrite_map.get(label).unwrap_or(label)
        };
        Ok(Guess { label: label.to_owned(), score })
    }
}

fn main() -> Result<ExitCode> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let mut backend = "cpu".to_owned();
    if files.first().is_some_and(|f| f == "--backend") && files.len() > 1 {
        backend = files.remove(1);
        files.remove(0);
    }
    if files.is_empty() {
        eprintln!("usage: file-type [--backend NAME] FILE…");
        return Ok(ExitCode::FAILURE);
    }
    let identifier = Identifier::new(&backend)?;
    let width = files.iter().map(String::len).max().unwrap_or(0);
    let mut code = ExitCode::SUCCESS;
    for file in &files {
        match identifier.identify(Path::new(file)) {
            Ok(Guess { label, score }) => println!("{file:width$}  {label} ({:.1} %)", score * 100.0),
            Err(error) => {
                eprintln!("{file}: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// `tests/data/file-types/LABEL.*` are files of these types, as Magika 1.0.3 itself identifies them.
    #[test]
    fn identifies_what_the_authors_program_identifies() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/file-types");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 10);
        for backend in ["cpu", "reference", "whole-graph"] {
            let identifier = Identifier::new(backend).unwrap();
            for file in &files {
                let expected = file.file_stem().unwrap().to_str().unwrap();
                let guess = identifier.identify(file).unwrap();
                assert_eq!(guess.label, expected, "{} on {backend}: {guess:?}", file.display());
            }
        }
    }
}
