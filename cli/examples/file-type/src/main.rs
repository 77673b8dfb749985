//! Identifies the types of files with the Magika model, on the CPU backend or another linked backend.
//!
//! ```text
//! cargo run --release -p file-type -- [--backend NAME] FILE…
//! ```

mod magika;

use bb::{CompileOptions, Module, TensorData};
use bb::{ErasedExecutable, Runtime};
use magika::Guess;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use bb_cpu as _; // the import makes the linker include the backend

/// The model and its authors' configuration.
const MODEL: &[u8] = include_bytes!("../../../../tests/data/models/magika/model.onnx");
const CONFIG: &str = include_str!("../../../../tests/data/models/magika/config.min.json");

/// The model on a backend.
struct Identifier {
    magika: magika::Identifier,
    runtime: Arc<Runtime>,
    model: Arc<dyn ErasedExecutable>,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Identifier {
    fn new(backend: &str) -> Result<Identifier> {
        let module = Module::from_bytes(MODEL)?;
        let runtime = bb::backend(backend)?.runtime().clone();
        let model = runtime.clone().compile(module, &CompileOptions::default())?;
        Ok(Identifier { magika: magika::Identifier::new(serde_json::from_str(CONFIG)?), runtime, model })
    }

    /// Guesses the type of a file. Reads at most two blocks of it.
    fn identify(&self, file: &Path) -> Result<Guess> {
        let mut file = File::open(file)?;
        let size = file.seek(SeekFrom::End(0))?;
        let length = size.min(self.magika.block_size() as u64);
        let first = block_at(&mut file, 0, length)?;
        let last = block_at(&mut file, size - length, length)?;
        self.magika.identify(&first, &last, |tokens| {
            let input = self.runtime.constant(&TensorData::new(&[1, tokens.len()], tokens)?)?;
            let outputs = self.model.run(&[Some(&input)])?;
            let scores = self.runtime.to_host(outputs.first().ok_or("the model has no output")?)?;
            Ok(scores.as_slice::<f32>()?.to_vec())
        })
    }
}

fn block_at(file: &mut File, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut block = Vec::new();
    file.take(length).read_to_end(&mut block)?;
    Ok(block)
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
    use bb_reference as _;
    use bb_whole_graph as _;

    /// The files `tests/data/file-types/LABEL.*` have the types that Magika 1.0.3 itself identifies.
    #[test]
    fn identifies_what_the_authors_program_identifies() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/file-types");
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
