//! `bb compile`: saves a model with its plans, so that it loads without being checked and planned again.

use crate::args;
use crate::error::{Error, Result};
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{out, render};
use std::process::ExitCode;

pub(crate) fn compile(options: &args::Compile) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let backend = session::backend(options.common.backend.as_deref())?;
    let (input, output) = (&options.model.model, &options.output);
    // `canonicalize` fails if the output does not exist yet; then it cannot be the model's file.
    let target = output.canonicalize();
    if target.is_ok_and(|target| input.canonicalize().is_ok_and(|input| input == target)) {
        return Err(Error::OverInput { path: output.clone() });
    }
    let session = Session::new(&backend, session::load(&options.model)?, &options.model, &options.rewriting)?;
    let given = inputs::given(&session, &options.inputs, Otherwise::Random)?;
    // Runs the model, because the first run creates the plan.
    session.run(&given.items).map_err(|error| session.failed(error))?;
    session.executable.save(output)?;
    let bytes =
        std::fs::metadata(output).map_err(|source| Error::Read { path: output.clone(), source })?.len();
    if options.common.json {
        let file = output.display().to_string();
        out::json(&serde_json::json!({
            "backend": backend.name(), "file": file, "bytes": bytes, "extents": given.chosen_json(),
        }))?;
    } else {
        out::line(format_args!("{} ({})", output.display(), render::bytes(bytes)))?;
    }
    Ok(ExitCode::SUCCESS)
}
