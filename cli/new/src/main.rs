//! `bb new` as a program that builds in seconds: `cargo run -p bb-new -- NAME --bb .`.

use clap::Parser;
use std::process::ExitCode;

/// Writes a crate for a backend of `bb`
#[derive(Debug, Parser)]
#[command(name = "bb-new")]
struct Arguments {
    #[command(flatten)]
    new: bb_new::New,
}

fn main() -> ExitCode {
    match Arguments::parse().new.write() {
        Ok(folder) => {
            println!("{}", bb_new::written(&folder));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            eprintln!("error: {error}{cause}");
            ExitCode::FAILURE
        }
    }
}
