//! Searches a user's own files by meaning, with a sentence embedding model on any backend.
//!
//! ```text
//! cargo run --release -p semantic-search -- index FOLDER
//! cargo run --release -p semantic-search -- query "words"
//! ```
//!
//! `index` splits the text files below a folder into passages, and stores a vector of each passage in an index. When it runs again, it
//! updates the index. `query` finds the passages whose vectors are nearest to the vector of a question. `speed` compares the number of
//! passages per second that this program and ONNX Runtime in Python embed. All data stays on this machine.

mod embedder;
mod error;
mod files;
mod index;
mod package;
mod passages;
mod search;
mod speed;
mod update;

use clap::{Args, Parser, Subcommand};
use embedder::Embedder;
use error::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use search::Snippet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

// These crates are imported only so that the linker includes the backends.
use bb_cpu as _;
#[cfg(feature = "wgpu")]
use bb_wgpu as _;

#[derive(Debug, Parser)]
#[command(name = "semantic-search", about = "Searches files by meaning")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Indexes the text files below a folder, or brings their index up to date
    Index {
        folder: PathBuf,
        #[command(flatten)]
        shared: CommonArgs,
        #[command(flatten)]
        files: Files,
    },
    /// Finds the passages nearest in meaning to a question
    Query {
        /// The question, in one or several words
        #[arg(required = true)]
        words: Vec<String>,
        /// How many passages are shown
        #[arg(long, default_value_t = 5)]
        count: usize,
        #[command(flatten)]
        shared: CommonArgs,
    },
    /// Measures passages per second, beside ONNX Runtime in Python
    Speed {
        folder: PathBuf,
        /// A Python interpreter with the packages onnxruntime and tokenizers
        #[arg(long, default_value = package::python())]
        python: PathBuf,
        /// How many passages are embedded
        #[arg(long, default_value_t = 512)]
        passages: usize,
        #[command(flatten)]
        shared: CommonArgs,
        #[command(flatten)]
        files: Files,
    },
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// The backend that computes
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// A folder with model.onnx and tokenizer.json; without it, all-MiniLM-L6-v2 is fetched once
    #[arg(long)]
    model: Option<PathBuf>,
    /// The file of the index; without it, one in the user's folder for caches
    #[arg(long)]
    index: Option<PathBuf>,
}

impl CommonArgs {
    fn embedder(&self) -> Result<Embedder> {
        let folder = self.model.clone().map_or_else(|| package::fetched(&package::cache()), Ok)?;
        Embedder::load(&folder, &self.backend)
    }

    fn index(&self) -> PathBuf {
        self.index.clone().unwrap_or_else(|| package::cache().join("index"))
    }
}

#[derive(Debug, Args)]
struct Files {
    /// Files of more MiB are left out
    #[arg(long, default_value_t = 4)]
    largest: u64,
    /// The name of files or folders that are left out; may be given several times
    #[arg(long)]
    exclude: Vec<String>,
}

impl Files {
    fn rules(&self) -> files::Rules {
        files::Rules { largest: self.largest.saturating_mul(1 << 20), exclude: self.exclude.clone() }
    }
}

/// Prints a line to standard error. Ignores a failure, for example if standard error is closed.
fn say(text: impl std::fmt::Display) {
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = format!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(source) = cause {
                text.push_str(&format!("\n  because {source}"));
                cause = source.source();
            }
            say(text);
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Index { folder, shared, files } => index_folder(folder, shared, files),
        Command::Query { words, count, shared } => query(&words.join(" "), *count, shared),
        Command::Speed { folder, python, passages, shared, files } => {
            let embedder = shared.embedder()?;
            let model = shared.model.clone().map_or_else(|| package::fetched(&package::cache()), Ok)?;
            let report = speed::compare(&embedder, &model, folder, &files.rules(), python, *passages)?;
            print(&format!("{report}\n"))
        }
    }
}

fn index_folder(folder: &Path, shared: &CommonArgs, files: &Files) -> Result<()> {
    let embedder = shared.embedder()?;
    let (start, path) = (Instant::now(), shared.index());
    let options = update::Options { rules: files.rules(), save_after: Duration::from_secs(60) };
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} files, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut progress = |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let done = update::update(&path, folder, &embedder, &options, &mut progress);
    bar.finish_and_clear();
    let sum = done?;
    let seconds = start.elapsed().as_secs_f64();
    for refused in sum.skipped.refused.iter().take(5) {
        say(format_args!("cannot read {refused}"));
    }
    if let Some(skipped) = sum.skipped.text() {
        say(format_args!("left out: {skipped}"));
    }
    print(&format!(
        "{} new, {} changed, {} unchanged and {} deleted files; {} passages embedded in {seconds:.1} s on {} ({:.0} a second)\n\
         the index `{}` has {} passages of {} files\n",
        sum.new,
        sum.changed,
        sum.unchanged,
        sum.deleted,
        sum.embedded,
        shared.backend,
        sum.embedded as f64 / seconds.max(1e-9),
        path.display(),
        sum.passages,
        sum.files,
    ))
}

fn query(words: &str, count: usize, shared: &CommonArgs) -> Result<()> {
    let path = shared.index();
    let index = index::Index::open(&path)?.ok_or_else(|| Error::NoIndex { path: path.clone() })?;
    let embedder = shared.embedder()?;
    update::same_model(&path, &index, &embedder)?;
    let here = std::env::current_dir().unwrap_or_default();
    for hit in search::search(&index, &embedder, words, count)? {
        let path = Path::new(&hit.path);
        let near = path.strip_prefix(&here).unwrap_or(path).display().to_string();
        let text = match hit.snippet {
            Snippet::Text(text) => text,
            Snippet::Changed => "(the file was changed; index its folder again)".to_owned(),
            Snippet::Gone(why) => format!("(the file cannot be read: {why})"),
        };
        print(&format!("{:.3}  {}:{}\n       {text}\n", hit.similarity, search::shown(&near), hit.line))?;
    }
    Ok(())
}

/// Prints to standard output. Ignores a closed pipe, because the reader may have read enough.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error::io("write", "standard output")(source))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
