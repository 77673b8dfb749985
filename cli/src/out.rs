//! Prints to standard output and standard error, which may be closed or full.
//!
//! Text from a model or a file cannot control the terminal, because invisible characters are escaped.
//!
//! If the reader closes the pipe, nothing more is printed, and the command ends normally. Any other failure to print is an error.

use crate::args;
use crate::error::{Error, Result};
use bb_ir::text::{is_hidden, printable};
use clap::CommandFactory;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    printed(std::io::stdout().lock().write_all(printable(text).as_bytes()))
}

/// Prints text and a line feed to standard output.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<()> {
    print(&format!("{text}\n"))
}

/// Prints JSON to standard output.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<()> {
    line(escaped(&serde_json::to_string_pretty(value)?))
}

/// Escapes the invisible characters of JSON with JSON escapes. This is valid, because these characters occur only in strings.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_hidden(c) {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        }
    }
    escaped
}

/// Prints a remark to standard error. A failure is ignored, because there is no other place to report it.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _closed = writeln!(std::io::stderr().lock(), "{}", printable(&text.to_string()));
}

/// Writes buffered output.
pub(crate) fn flush() -> Result<()> {
    printed(std::io::stdout().lock().flush())
}

/// Prints a message of the argument parser: help to standard output, errors to standard error.
pub(crate) fn usage(error: &clap::Error) -> Result<ExitCode> {
    let print = error.print();
    if error.use_stderr() {
        return Ok(ExitCode::from(2));
    }
    printed(print)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a script that completes commands and options in a shell. The script is for the name of the running program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_says_the_same() {
        let value = serde_json::json!({ "a\u{1b}\u{202e}\n\u{7f}": ["\u{e0041}", "größe", 1] });
        let text = escaped(&serde_json::to_string_pretty(&value).expect("JSON"));
        assert!(text.chars().all(|c| c == '\n' || !is_hidden(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
