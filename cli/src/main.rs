//! The command `bb`, with the backends of this workspace.

fn main() -> std::process::ExitCode {
    // Sets the advice in error messages for this command. Backend authors' programs call the same `main`, and keep the advice for Rust
    // programs.
    bb::DoorAdvice {
        backend: if cfg!(feature = "loaded") {
            "`bb backends` lists them; the variable `BB_BACKEND_PATH` names libraries of others"
        } else {
            "`bb backends` lists them; this program is built with more by features, as in `--features wgpu`, and with `loaded` the \
             variable `BB_BACKEND_PATH` names libraries of others"
        },
        left_out: "this program was built without it",
        remove: None,
        limits: "",
    }
    .give();
    bb_cli::main()
}
