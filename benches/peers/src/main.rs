//! Times a model or an operator on another engine: `peer tract|rten|candle|burn SUBJECT FOLDER RUNS THREADS`.
//!
//! The subject is a model's file for tract and RTen, and the name of an operator in `catalogue.py` for candle and burn. FOLDER has
//! the inputs, `input_0.pb`, `input_1.pb`, …, with their names in them. Prints what `engines.py` says, as JSON.

mod burn;
mod candle;
mod rten;
mod tract;

use bb_ir::TensorData;
use bb_ir::proto::TensorProto;
use cpu_time::ProcessTime;
use prost::Message;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// The reason why a subject does not run, in the words of its engine.
type Failed = Box<dyn Error + Send + Sync>;

/// An input's name and elements.
type Input = (String, TensorData);

/// Runs a subject once.
type Run = Box<dyn FnMut() -> Result<(), Failed>>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [engine, subject, folder, runs, threads] => {
            measure(engine, subject, Path::new(folder), runs.parse()?, threads.parse()?)
        }
        _ => Err("expected: peer tract|rten|candle|burn SUBJECT FOLDER RUNS THREADS".into()),
    }
}

fn measure(engine: &str, subject: &str, folder: &Path, runs: usize, threads: usize) -> Result<(), Failed> {
    let inputs = inputs(folder)?;
    let base = memory("VmRSS:").unwrap_or_default();
    let begun = Instant::now();
    let mut run = match engine {
        "tract" => tract::prepare(Path::new(subject), &inputs, threads)?,
        "rten" => rten::prepare(Path::new(subject), &inputs, threads)?,
        // They compute on rayon's threads, whose number is in `RAYON_NUM_THREADS`.
        "candle" => candle::prepare(subject, &inputs)?,
        "burn" => burn::prepare(subject, &inputs)?,
        other => return Err(format!("there is no engine {other}").into()),
    };
    // The first run may prepare data for the others.
    run()?;
    let ready = begun.elapsed().as_secs_f64();
    for _ in 0..3 {
        run()?;
    }
    let (mut seconds, before) = (Vec::new(), ProcessTime::now());
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    let processors = before.elapsed().as_secs_f64() / seconds.len() as f64;
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    let added = memory("VmHWM:").map_or("null".to_owned(), |peak| peak.saturating_sub(base).to_string());
    println!(
        "{{\"seconds\": {median:e}, \"cpu_seconds\": {processors:e}, \"ready_seconds\": {ready:e}, \"peak_bytes\": {added}}}"
    );
    Ok(())
}

/// Returns the bytes of memory of this process, on Linux: `VmRSS:` those that it has now, `VmHWM:` the most that it had.
fn memory(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
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
