//! Times NumPy in a separate process, `numpy/kernels.py`.
//!
//! This needs the environment variable `BB_PYTHON`, which names a Python that has NumPy.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A Python process that runs NumPy's operations on request.
#[derive(Debug)]
pub struct NumPy {
    child: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    version: String,
}

impl NumPy {
    /// Starts the Python that `BB_PYTHON` names; returns `None` if there is none or it lacks NumPy.
    pub fn start() -> Option<NumPy> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("numpy/kernels.py");
        let mut child = Command::new(std::env::var_os("BB_PYTHON")?)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (input, mut output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut version = String::new();
        output.read_line(&mut version).ok().filter(|&read| read > 0)?;
        Some(NumPy { child, pipes: Mutex::new((input, output)), version: version.trim().to_owned() })
    }

    /// Returns NumPy's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs an operation of the script `runs` times on squares of side `side`; returns the seconds.
    ///
    /// # Panics
    ///
    /// If the script does not have the operation or has ended, because then there is nothing to compare with.
    pub fn time(&self, operation: &str, side: usize, runs: usize) -> f64 {
        let (input, output) = &mut *self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = String::new();
        writeln!(input, "{operation} {side} {runs}")
            .and_then(|()| output.read_line(&mut line))
            .ok()
            .and_then(|_| line.trim().parse().ok())
            .unwrap_or_else(|| panic!("NumPy measured no `{operation}`: `{line}`"))
    }
}

impl Drop for NumPy {
    fn drop(&mut self) {
        // The process also ends when its input is closed, so a failure does not matter.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
