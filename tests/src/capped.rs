//! Tests that run again in a process of their own, whose address space is bounded.

use std::process::Command;

/// The address space of a capped process, in bytes.
pub const SPACE: usize = 2 << 30;

/// Runs this test program again within [`SPACE`], and returns its output.
///
/// # Errors
///
/// The program's output if it fails, or the reason why it cannot be started.
pub fn run(args: &[&str], settings: &[(&str, &str)]) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", SPACE >> 10);
    let mut child = Command::new("sh");
    child.args(["-c", &script]).arg(program).args(args);
    // Each thread would have a heap of its own otherwise, which takes addresses without using them.
    child.env("MALLOC_ARENA_MAX", "1").envs(settings.iter().copied());
    let ended = child.output().map_err(|error| error.to_string())?;
    let [out, err] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if ended.status.success() { Ok(out) } else { Err(format!("{}\n{out}\n{err}", ended.status)) }
}
