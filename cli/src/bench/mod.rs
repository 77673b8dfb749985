//! `bb bench`: measures how long a model takes to load, prepare and run, how much memory it uses, and where
//! the time goes.

mod peak;
mod profile;
mod report;
mod roofline;
mod times;
mod trace;

use crate::args::{self, Amount};
use crate::error::Result;
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{graph, out, render};
use bb::Value;
use bb::onnx::OnnxValue;
use bb::profile::Profile;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::text::sentence;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;
use times::Times;

/// The maximum number of timed runs, even if time is left.
const MOST: usize = 1 << 22;

/// The maximum number of profiled runs, because more runs add no information.
const PROFILED: usize = 20;

pub(crate) fn bench(options: &args::Bench) -> Result<ExitCode> {
    session::threads(&options.threads)?;
    let backend = session::backend(options.common.backend.as_deref())?;
    let base = memory("VmRSS:");
    let start = Instant::now();
    let module = session::load(&options.model)?;
    let load = start.elapsed().as_secs_f64();
    let trial = Session::new(&backend, module, &options.model, &options.rewriting)?;
    let given = inputs::given(&trial, &options.inputs, Otherwise::Random)?;
    // The model may have run already, to find inputs for it, so the measurement uses a new session.
    let start = Instant::now();
    let session = Session::new(&backend, trial.module, &options.model, &options.rewriting)?;
    let values = session.upload(&given.items).map_err(|error| session.failed(error))?;
    run(&session, &values).map_err(|error| session.failed(error))?;
    let prepare = start.elapsed().as_secs_f64();
    let warm_up = repeat(&options.warmup, || run(&session, &values))?.len();
    let amount = options.seconds.map_or(Amount::Runs(options.runs as usize), Amount::Seconds);
    let before = processor_time();
    let runs = repeat(&amount, || run(&session, &values))?;
    // Shorter times are close to the resolution of the clock, so they are not reported.
    let spent =
        before.zip(processor_time()).map(|(from, to)| to - from).filter(|spent| *spent >= 10.0 * TICK);
    let processors = spent.map(|spent| spent / runs.len() as f64);
    let runs = Times::of(runs);
    let batch = batch(&session, &values);
    let profiled = options.profile || options.trace.is_some();
    let profile = profiled.then(|| profiled_runs(&session, &values, runs.count(), options)).transpose()?;
    if let (Some(path), Some(profile)) = (&options.trace, &profile) {
        trace::write(path, profile, &session, backend.name())?;
    }
    let peak = memory("VmHWM:");
    let summary = profile.as_ref().filter(|_| options.profile).map(profile::Summary::of);
    if let (Some(path), Some(profile), Some(summary)) = (&options.html, &profile, &summary) {
        let about = report::About {
            model: &options.model.model.display().to_string(),
            facts: report::facts(backend.name(), &given.chosen_text(), &runs, load, prepare, peak),
            graph: report::graph(&session.module, &backend, &graph::Times::of(profile)),
        };
        let peaks = peak::Peaks::measure(&backend)?;
        report::write(path, &about, summary, &profile::kernels(profile, summary), &peaks)?;
    }
    let items_per_second = batch.as_ref().map(|batch| batch.items as f64 * runs.per_second());
    if options.common.json {
        let mut record = json!({
            "backend": backend.name(), "extents": given.chosen_json(), "load_seconds": load,
            "prepare_seconds": prepare, "warmup_runs": warm_up, "runs": runs.count(), "run_seconds": runs.json(),
            "run_cpu_seconds": processors, "runs_per_second": runs.per_second(), "items_per_run": batch.map(|batch| batch.items),
            "items_per_second": items_per_second, "base_bytes": base, "peak_bytes": peak,
        });
        if let (Some(summary), Some(fields)) = (summary, record.as_object_mut()) {
            fields.insert("profile".to_owned(), summary.json());
        }
        out::json(&record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = render::table(["", "MIN", "P50", "P90", "P99", "MAX", "MEAN"]);
    table.add_row(["load", &render::duration(load)]);
    table.add_row(["prepare and first run", &render::duration(prepare)]);
    let name = format!("run ({} times, after {warm_up} to warm up)", runs.count());
    let [p50, p90, p99] = [50, 90, 99].map(|percent| runs.percentile(percent));
    let times = [runs.min(), p50, p90, p99, runs.max(), runs.mean()];
    table.add_row(std::iter::once(name).chain(times.map(render::duration)));
    out::line(table)?;
    out::line(format_args!("{:.1} runs per second", runs.per_second()))?;
    if let Some(seconds) = processors {
        out::line(format_args!("{} of all processors in a run, on average", render::duration(seconds)))?;
    }
    if let (Some(batch), Some(items)) = (&batch, items_per_second) {
        out::line(format_args!(
            "{items:.1} items per second, {} a run ({})",
            batch.items,
            sentence(&batch.of)
        ))?;
    }
    if let Some(bytes) = peak {
        out::line(format_args!("{} of memory at most", render::bytes(bytes)))?;
    }
    if let Some(summary) = summary {
        out::line(format_args!("\n{}", summary.text(options.top)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Repeats runs for a number of times or seconds, and returns the seconds of each run.
fn repeat(amount: &Amount, mut run: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let begun = Instant::now();
    let mut seconds = Vec::new();
    loop {
        let more = match amount {
            Amount::Runs(runs) => seconds.len() < *runs,
            // There is at least one run, so that there is something to report.
            Amount::Seconds(most) => seconds.is_empty() || begun.elapsed().as_secs_f64() < *most,
        };
        if !more || seconds.len() == MOST {
            return Ok(seconds);
        }
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
}

/// Runs the model once and copies the first output to the host, because some backends return before they have finished.
fn run(session: &Session, inputs: &[Option<OnnxValue<Value>>]) -> Result<()> {
    let outputs = session.executable.run_items(inputs)?;
    if let Some(OnnxValue::Tensor(first)) = outputs.first() {
        session.runtime.to_host(first)?;
    }
    Ok(())
}

/// Profiles separate runs, so that profiling does not slow down the timed runs.
fn profiled_runs(
    session: &Session,
    inputs: &[Option<OnnxValue<Value>>],
    runs: usize,
    options: &args::Bench,
) -> Result<Profile> {
    let spans = if options.trace.is_some() { trace::MOST } else { 0 };
    let mut profile = Profile::with_spans(spans);
    for _ in 0..runs.min(PROFILED) {
        session.executable.run_profiled(inputs, &mut profile)?;
    }
    Ok(profile)
}

/// The number of items in a run.
struct Batch {
    items: usize,
    /// The text that describes the batch size in messages.
    of: String,
}

/// Returns the batch size: the first extent of every input, if the model leaves it open and it is the same for all inputs.
fn batch(session: &Session, values: &[Option<OnnxValue<Value>>]) -> Option<Batch> {
    let mut batch: Option<Batch> = None;
    for (port, value) in session.executable.inputs().iter().zip(values) {
        let Some(value) = value else { continue };
        let (ValueType::Tensor { shape: Some(dims), .. }, OnnxValue::Tensor(x)) = (&port.ty, value) else {
            return None;
        };
        let (Some(dim), Some(&items)) = (dims.first(), x.shape().first()) else { continue };
        let of = match dim {
            Dim::Known(_) => return None,
            Dim::Symbol(name) => format!("the extent `{name}`"),
            Dim::Computed(_) | Dim::Unknown => format!("the first extent of `{}`", port.name),
        };
        match &batch {
            None => batch = Some(Batch { items, of }),
            Some(first) if first.items == items => {}
            Some(_) => return None,
        }
    }
    batch
}

/// The resolution of Linux's processor times, in seconds.
const TICK: f64 = 0.01;

/// Returns the processor time that all threads of this process have used so far, in seconds. Returns `None` if the system does not report
/// it.
fn processor_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses. It may contain any characters, so the fields after the last parenthesis are
    // parsed.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let [user, system] = [fields.next()?, fields.next()?].map(|ticks| ticks.parse::<u64>().ok());
    Some((user? + system?) as f64 * TICK)
}

/// Returns the memory of this process in bytes: the current amount for `VmRSS:`, the peak for `VmHWM:`. Returns `None` if the system does
/// not report it.
fn memory(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
