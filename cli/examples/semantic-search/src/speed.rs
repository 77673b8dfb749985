//! Compares this program with the same pipeline in Python: ONNX Runtime and the package `tokenizers`.

use crate::embedder::Embedder;
use crate::error::{Error, Result, io};
use crate::files::{self, FileContents, Rules, Skipped};
use crate::passages;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The Python script of the pipeline.
const SCRIPT: &str = include_str!("../speed.py");
/// The number of times that each side embeds all passages. The fastest time counts.
const TIMES: usize = 3;

/// The output of the Python script.
#[derive(Debug, serde::Deserialize)]
struct Answer {
    version: String,
    seconds: f64,
    vectors: Vec<Vec<f32>>,
}

/// Measures both pipelines, and returns the result as text.
///
/// # Errors
///
/// [`Error::Python`] if the script fails; errors of the system and of the backend.
pub(crate) fn compare(
    embedder: &Embedder,
    model: &Path,
    folder: &Path,
    rules: &Rules,
    python: &Path,
    count: usize,
) -> Result<String> {
    let texts = texts(embedder, folder, rules, count)?;
    let input = std::env::temp_dir().join(format!("semantic-search-{}.json", std::process::id()));
    std::fs::write(&input, serde_json::json!(texts).to_string()).map_err(io("write", &input))?;
    let mut own = f64::INFINITY;
    let mut vectors = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        vectors = embed(embedder, &texts)?;
        own = own.min(start.elapsed().as_secs_f64());
    }
    let answer = ask(python, model, &input);
    std::fs::remove_file(&input).unwrap_or_default();
    let answer = answer?;
    let width = embedder.dimensions().max(1);
    let cosines = vectors
        .chunks_exact(width)
        .zip(&answer.vectors)
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>());
    let least = cosines.fold(f32::INFINITY, f32::min);
    let rate = |seconds: f64| texts.len() as f64 / seconds.max(1e-9);
    Ok(format!(
        "{} passages: {:.1} a second by bb on {}, {:.1} by ONNX Runtime {} in Python; ratio {:.2}\n\
         least cosine between the vectors of both: {least:.4}",
        texts.len(),
        rate(own),
        embedder.backend().name(),
        rate(answer.seconds),
        answer.version,
        answer.seconds / own,
    ))
}

/// Returns the texts of the first `count` passages of a folder.
fn texts(embedder: &Embedder, folder: &Path, rules: &Rules, count: usize) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for file in files::walk(folder, rules, &mut Skipped::default())?.files {
        let read = files::read(&file.path, rules.largest).map_err(io("read", &file.path))?;
        let Some(FileContents::Text(text)) = read.map(|read| files::text(read.bytes)) else { continue };
        let passages = passages::cut(embedder.tokenizer(), &text)?;
        texts.extend(passages.iter().filter_map(|p| text.get(p.start..p.end)).map(str::to_owned));
        if texts.len() >= count {
            break;
        }
    }
    texts.truncate(count);
    Ok(texts)
}

/// Tokenizes and embeds texts.
fn embed(embedder: &Embedder, texts: &[String]) -> Result<Vec<f32>> {
    let inputs: Vec<&str> = texts.iter().map(String::as_str).collect();
    let encodings = embedder.tokenizer().encode_batch(inputs, false).map_err(Error::Tokens)?;
    let tokens: Vec<&[u32]> = encodings.iter().map(tokenizers::Encoding::get_ids).collect();
    embedder.embed(&tokens, |_| ())
}

fn ask(python: &Path, model: &Path, input: &Path) -> Result<Answer> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).arg(model).arg(input).arg(TIMES.to_string());
    let failed = |why| Error::Python { command: format!("{} speed.py", python.display()), why };
    let done = command.output().map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(failed(format!("{last}; it needs `pip install onnxruntime tokenizers`")));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| failed(error.to_string()))
}
