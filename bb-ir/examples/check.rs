//! Checks models and reports what is wrong with them: `cargo run --example check -- FOLDER|MODEL…`
//!
//! Folders are searched recursively for `.onnx` files. The exit status is 1 if a model was refused.

use bb_ir::Limits;
use bb_ir::check::{CheckOptions, check, load_model};
use bb_ir::proto::ExternalData;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut models = Vec::new();
    for path in std::env::args_os().skip(1) {
        find(Path::new(&path), &mut models);
    }
    models.sort();
    let mut refused = 0;
    for model in &models {
        if let Err(error) = run(model) {
            refused += 1;
            print!("{}: {error}", model.display());
            let mut source = error.source();
            while let Some(cause) = source {
                print!(": {cause}");
                source = cause.source();
            }
            println!();
        }
    }
    println!("{} models, {refused} refused", models.len());
    if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn find(path: &Path, models: &mut Vec<PathBuf>) {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|e| find(&e.path(), models)),
        Err(_) if path.extension().is_some_and(|e| e == "onnx") => models.push(path.to_owned()),
        Err(_) => {}
    }
}

fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let limits = Limits::default();
    let model = load_model(path, &limits)?;
    let data = ExternalData::of_model(path, &limits);
    check(&model, &CheckOptions { limits, external_data: Some(&data), ..Default::default() })?;
    Ok(())
}
