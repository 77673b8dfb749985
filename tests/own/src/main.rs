//! All commands of `bb` for an author's own backend.

use bb_own as _;

fn main() -> std::process::ExitCode {
    bb_cli::main()
}
