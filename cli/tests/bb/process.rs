//! Runs the binary as a user does, with a time limit and, if the system has `ulimit`, with a memory limit.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The exit status and the output of a process.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Returns the exit status; fails if a signal ended the process.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by {}: {}", self.status, self.err))
    }

    /// Reads standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e} in {}{}", self.out, self.err))
    }
}

/// The default address space of a process, in KiB.
const MEMORY: usize = 8 << 20;

/// The time limit of a process.
const TIME: Duration = Duration::from_secs(120);

/// Runs `bb` with these arguments.
pub(crate) fn bb<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Ended {
    capped(MEMORY, arguments)
}

/// Runs `bb` in an address space of `memory` KiB.
pub(crate) fn capped<S: AsRef<std::ffi::OsStr>>(memory: usize, arguments: &[S]) -> Ended {
    limited('v', memory, b"", arguments)
}

/// Runs `bb` with `memory` KiB of private memory; mapped files do not count.
pub(crate) fn capped_own<S: AsRef<std::ffi::OsStr>>(memory: usize, arguments: &[S]) -> Ended {
    limited('d', memory, b"", arguments)
}

/// Runs `bb` with `input` on its standard input.
pub(crate) fn fed<S: AsRef<std::ffi::OsStr>>(input: &[u8], arguments: &[S]) -> Ended {
    limited('v', MEMORY, input, arguments)
}

/// Runs `bb` with these variables of the environment.
pub(crate) fn bb_with(arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    limited_with('v', MEMORY, b"", arguments, variables)
}

fn limited<S: AsRef<std::ffi::OsStr>>(what: char, memory: usize, input: &[u8], arguments: &[S]) -> Ended {
    limited_with(what, memory, input, arguments, &[])
}

fn limited_with<S: AsRef<std::ffi::OsStr>>(
    what: char,
    memory: usize,
    input: &[u8],
    arguments: &[S],
    variables: &[(&str, &str)],
) -> Ended {
    let mut command = if cfg!(unix) {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -{what} {memory}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_bb")]);
        shell
    } else {
        Command::new(env!("CARGO_BIN_EXE_bb"))
    };
    command.args(arguments).envs(variables.iter().copied());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = piped.spawn().unwrap();
    // The write fails if the process closes the pipe without reading, which does not matter.
    let _unread = process.stdin.take().unwrap().write_all(input);
    // Output is read while the process runs, so that the process never waits for a full pipe.
    let out = read(process.stdout.take().unwrap());
    let err = read(process.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        match process.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > TIME => {
                process.kill().unwrap();
                panic!("took longer than {TIME:?}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    Ended { status, out: out.join().unwrap(), err: err.join().unwrap() }
}

fn read(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Returns the folder of the repository's test data.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data")
}

/// Makes an empty folder for a test.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _absent = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a file into a folder and returns its path as text.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
