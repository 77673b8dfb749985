//! All of `bb`'s commands for a backend of one's own.

use bb_own as _;

fn main() -> std::process::ExitCode {
    bb_cli::main()
}
