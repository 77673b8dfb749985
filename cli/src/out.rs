//! Prints to standard output and standard error, which may be closed or full.
//!
//! If the reader closes the pipe, nothing more is printed, and the command ends as usual. Any other failure
//! to print is an error.

use crate::args;
use crate::error::{Error, Result};
use clap::CommandFactory;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    printed(std::io::stdout().lock().write_all(text.as_bytes()))
}

/// Prints text and a line feed to standard output.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<()> {
    printed(writeln!(std::io::stdout().lock(), "{text}"))
}

/// Prints JSON to standard output.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Prints a remark to standard error. If that is closed, nothing can report it, so the failure is ignored.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints what is still buffered.
pub(crate) fn flush() -> Result<()> {
    printed(std::io::stdout().lock().flush())
}

/// Prints a message of the argument parser: help to standard output, mistakes to standard error.
pub(crate) fn usage(error: &clap::Error) -> Result<ExitCode> {
    let print = error.print();
    if error.use_stderr() {
        return Ok(ExitCode::from(2));
    }
    printed(print)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a script for completing commands and options, for the name under which the program was called.
pub(crate) fn completions(options: &args::Completions) -> Result<ExitCode> {
    let called = std::env::args_os().next().map(PathBuf::from);
    let name = called.as_deref().and_then(Path::file_stem).and_then(|name| name.to_str()).unwrap_or("bb");
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut args::Arguments::command(), name, &mut script);
    printed(std::io::stdout().lock().write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}

fn printed(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(Error::Print(source)),
        _ => Ok(()),
    }
}
