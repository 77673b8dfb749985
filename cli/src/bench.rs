//! `bb bench`: how long a model takes to load, prepare and run, and how much memory.

use crate::error::Result;
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{args, out, render};
use bb::Value;
use bb::onnx::Item;
use std::process::ExitCode;
use std::time::Instant;

/// Times of one thing, in seconds.
struct Times(Vec<f64>);

impl Times {
    fn of(mut seconds: Vec<f64>) -> Times {
        seconds.sort_by(f64::total_cmp);
        Times(seconds)
    }

    fn at(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1) as f64;
        self.0.get((last * part).round() as usize).copied().unwrap_or(f64::NAN)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({ "min": self.at(0.0), "median": self.at(0.5), "max": self.at(1.0) })
    }
}

pub(crate) fn bench(options: &args::Bench) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let backend = session::backend(options.common.backend.as_deref())?;
    let start = Instant::now();
    let module = session::load(&options.model)?;
    let load = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let session = Session::new(&backend, module, &options.model)?;
    let given = inputs::given(&session, &options.inputs, Otherwise::Random)?;
    let values = session.upload(&given.items)?;
    run(&session, &values)?;
    let prepare = start.elapsed().as_secs_f64();
    let mut runs = Vec::new();
    for _ in 0..options.runs {
        let start = Instant::now();
        run(&session, &values)?;
        runs.push(start.elapsed().as_secs_f64());
    }
    let runs = Times::of(runs);
    let peak = peak_memory();
    if options.common.json {
        let record = serde_json::json!({
            "backend": backend.name(), "extents": given.chosen_json(), "load": load, "prepare": prepare, "run": runs.json(),
            "runs": runs.0.len(), "peak_bytes": peak,
        });
        out::json(&record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = render::table(["", "MIN", "MEDIAN", "MAX"]);
    table.add_row(["load", &render::duration(load)]);
    table.add_row(["prepare and first run", &render::duration(prepare)]);
    table.add_row([
        format!("run ({} times)", runs.0.len()),
        render::duration(runs.at(0.0)),
        render::duration(runs.at(0.5)),
        render::duration(runs.at(1.0)),
    ]);
    if let Some(bytes) = peak {
        table.add_row(["peak memory".to_owned(), format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)]);
    }
    out::line(table)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs once and waits for the first output, so that a backend that answers early is not timed short.
fn run(session: &Session, inputs: &[Option<Item<Value>>]) -> Result<()> {
    let outputs = session.executable.run_items(inputs)?;
    if let Some(Item::Tensor(first)) = outputs.first() {
        session.runtime.to_host(first)?;
    }
    Ok(())
}

/// Returns the most memory this process has held, in bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
