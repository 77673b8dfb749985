//! The command `bb`, with the backends of this workspace.

fn main() -> std::process::ExitCode {
    bb_cli::main()
}
