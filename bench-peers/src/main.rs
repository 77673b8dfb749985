//! Times a model on another engine: `peer tract|rten MODEL FOLDER RUNS THREADS`.
//!
//! FOLDER has the inputs, `input_0.pb`, `input_1.pb`, …, with their names in them. Prints the median of the runs in seconds.

mod rten;
mod tract;

use bb_ir::TensorData;
use bb_ir::proto::TensorProto;
use prost::Message;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// A reason for which a model does not run, in the words of its engine.
type Failed = Box<dyn Error + Send + Sync>;

/// An input's name and elements.
type Input = (String, TensorData);

/// Runs a model once.
type Run = Box<dyn FnMut() -> Result<(), Failed>>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, model, folder, runs, threads] = arguments.as_slice() else {
        return Err("expected: peer tract|rten MODEL FOLDER RUNS THREADS".into());
    };
    let (model, inputs, threads) = (Path::new(model), inputs(Path::new(folder))?, threads.parse()?);
    let mut run = match engine.as_str() {
        "tract" => tract::prepare(model, &inputs, threads)?,
        "rten" => rten::prepare(model, &inputs, threads)?,
        other => return Err(format!("there is no engine {other}, expected tract or rten").into()),
    };
    // The first run may prepare what the others use.
    run()?;
    let mut seconds = Vec::new();
    for _ in 0..runs.parse::<usize>()?.max(1) {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!("{:e}", seconds.get(seconds.len() / 2).copied().unwrap_or_default());
    Ok(())
}

/// Reads the inputs of a folder.
fn inputs(folder: &Path) -> Result<Vec<Input>, Failed> {
    let mut inputs = Vec::new();
    loop {
        let path = folder.join(format!("input_{}.pb", inputs.len()));
        if !path.exists() {
            return Ok(inputs);
        }
        let proto = TensorProto::decode(&*std::fs::read(path)?)?;
        inputs.push((proto.name.clone().unwrap_or_default(), TensorData::from_proto(&proto)?));
    }
}
