//! The command `bb`, with the backends of this workspace.

fn main() -> std::process::ExitCode {
    // Programs of authors, which call the same function, keep the advice for Rust.
    bb::DoorAdvice {
        backend: "`bb backends` lists them; more are features of this program (`cargo run -p bb-cli --features wgpu`), and with the feature \
                  `loaded` the variable `BB_BACKEND_PATH` names libraries of others",
        left_out: "this program was built without it",
    }
    .give();
    bb_cli::main()
}
