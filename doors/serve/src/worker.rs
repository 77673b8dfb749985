//! The threads that run models.

use crate::batch::{self, BatchKey, Batching, Joins};
use crate::model::Model;
use crate::queue::{Answer, Job, RunOf};
use crate::refusal::Refusal;
use crate::statistics::Phases;
use bb::{CancelToken, ErrorKind, RunOptions, TensorData, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Runs the jobs of a model until its queue is closed and empty. `stop` cancels running jobs.
pub(crate) fn work(model: &Model, stop: &CancelToken) {
    while let Some(jobs) = model.queue.take(model.batching.as_ref()) {
        let now = Instant::now();
        let mut live = Vec::with_capacity(jobs.len());
        for job in jobs {
            model.metrics.queued.record(now.duration_since(job.arrived));
            if now >= job.deadline {
                answer(job, Err(Refusal::Deadline));
            } else if !job.client.is_gone() {
                live.push(job);
            }
        }
        if let [_, _, ..] = live.as_slice() {
            run_joined(model, live, stop);
        } else {
            live.into_iter().for_each(|job| run_single(model, job, stop));
        }
    }
}

fn answer(job: Job, with: Answer) {
    let Job { inputs, lease, answer, .. } = job;
    // Releases the bytes of the request first, so that they are free when the client has the answer.
    drop((inputs, lease));
    // The send fails if the client has left, which is not an error.
    let _gone = answer.send(with);
}

fn run_single(model: &Model, job: Job, stop: &CancelToken) {
    let results = run(model, &[&job], &job.inputs, &job.wanted, stop);
    let results = served(model, results, &job);
    answer(job, results);
}

/// Runs jobs as one batch. Runs them one by one if their rows are not known to be independent, if the batch fails, or if its results differ
/// from single runs.
fn run_joined(model: &Model, jobs: Vec<Job>, stop: &CancelToken) {
    let kind: Option<BatchKey> = jobs.first().and_then(|job| job.kind.clone());
    let joins = kind
        .as_ref()
        .zip(model.batching.as_ref())
        .map(|(kind, batching)| (kind, batching, proven(batching, kind)));
    let joined = joins.filter(|(_, _, joins)| *joins != Joins::Never);
    let joined = joined.and_then(|joined| Some((joined, run_batch(model, &jobs, stop)?)));
    let Some(((kind, batching, joins), (parts, phases))) = joined else {
        return jobs.into_iter().for_each(|job| run_single(model, job, stop));
    };
    if joins == Joins::Always {
        jobs.iter().for_each(|job| model.statistics.served(job.arrived, job.rows(), &phases));
        return jobs.into_iter().zip(parts).for_each(|(job, results)| {
            let results = choose(results, &job.wanted);
            answer(job, Ok(results));
        });
    }
    let (mut compared, mut same) = (true, true);
    for (job, parts) in jobs.into_iter().zip(parts) {
        let results = run(model, &[&job], &job.inputs, &all(model), stop);
        let results = served(model, results, &job);
        match &results {
            Ok(results) => same &= results.iter().zip(&parts).all(|(a, b)| batch::agree(a, b)),
            Err(_) => compared = false,
        }
        let results = results.map(|results| choose(results, &job.wanted));
        answer(job, results);
    }
    if !same {
        batching.turn_off();
    } else if compared {
        batching.compared(kind);
    }
}

/// Returns whether requests of a kind are joined. If the proof panics, they are not.
fn proven(batching: &Batching, kind: &BatchKey) -> Joins {
    catch_unwind(AssertUnwindSafe(|| batching.joins(kind))).unwrap_or(Joins::Never)
}

/// Runs jobs as one batch, and returns the outputs of each job. Returns `None` if the jobs cannot be joined or the run fails.
fn run_batch(model: &Model, jobs: &[Job], stop: &CancelToken) -> Option<(Vec<Vec<TensorData>>, Phases)> {
    let rows: Vec<usize> = jobs.iter().map(Job::rows).collect();
    let mut inputs = Vec::with_capacity(model.inputs.len());
    for index in 0..model.inputs.len() {
        let parts: Vec<&TensorData> = jobs.iter().filter_map(|job| job.inputs.get(index)?.as_ref()).collect();
        inputs.push(match parts.len() {
            0 => None,
            _ => Some(batch::join(&parts).ok()?),
        });
    }
    let of: Vec<&Job> = jobs.iter().collect();
    let (results, phases) = run(model, &of, &inputs, &all(model), stop).ok()?;
    let mut parts: Vec<Vec<TensorData>> = jobs.iter().map(|_| Vec::with_capacity(results.len())).collect();
    for result in &results {
        let Some(split) = batch::split(result, &rows) else {
            // The output has another number of rows than the inputs, so its rows cannot be assigned to the jobs of any batch.
            model.batching.as_ref().inspect(|batching| batching.turn_off());
            return None;
        };
        parts.iter_mut().zip(split).for_each(|(parts, part)| parts.push(part));
    }
    Some((parts, phases))
}

/// Counts a request that a run has answered.
fn served(model: &Model, results: Result<(Vec<TensorData>, Phases), Refusal>, job: &Job) -> Answer {
    let (results, phases) = results?;
    model.statistics.served(job.arrived, job.rows(), &phases);
    Ok(results)
}

fn all(model: &Model) -> Vec<usize> {
    (0..model.outputs.len()).collect()
}

fn choose(results: Vec<TensorData>, wanted: &[usize]) -> Vec<TensorData> {
    wanted.iter().filter_map(|index| results.get(*index).cloned()).collect()
}

/// Runs a model once for several jobs, at most until the latest of their deadlines.
fn run(
    model: &Model,
    jobs: &[&Job],
    inputs: &[Option<TensorData>],
    wanted: &[usize],
    stop: &CancelToken,
) -> Result<(Vec<TensorData>, Phases), Refusal> {
    let of = RunOf::new();
    let waiting = jobs.iter().filter(|job| job.client.enter(&of)).count();
    of.release();
    let deadline = jobs.iter().map(|job| job.deadline).max();
    let (true, Some(deadline)) = (waiting > 0, deadline) else { return Err(Refusal::Cancelled) };
    let options = RunOptions::default().with_deadline(deadline).with_cancel(&of.token).with_cancel(stop);
    let start = Instant::now();
    let mut phases = Phases::new(start);
    let computed = catch_unwind(AssertUnwindSafe(|| compute(model, inputs, wanted, &options, &mut phases)));
    let computed =
        computed.unwrap_or(Err(Refusal::Internal { what: "a run panicked outside of its backend" }));
    model.metrics.runs.record(start.elapsed());
    let rows = jobs.iter().map(|job| job.rows().max(1)).sum();
    model.metrics.batches.record(rows);
    if computed.is_ok() {
        model.statistics.ran(rows, &phases);
    }
    computed.map(|results| (results, phases)).map_err(|error| match error {
        // A cancelled run fails with an arbitrary error of its backend, so the refusal is chosen by the reason for the cancellation.
        Refusal::Failed { .. } if stop.is_cancelled() => Refusal::ShuttingDown,
        Refusal::Failed { .. } if of.token.is_cancelled() => Refusal::Cancelled,
        Refusal::Failed { .. } if Instant::now() >= deadline => Refusal::Deadline,
        error => error,
    })
}

fn compute(
    model: &Model,
    inputs: &[Option<TensorData>],
    wanted: &[usize],
    options: &RunOptions,
    phases: &mut Phases,
) -> Result<Vec<TensorData>, Refusal> {
    let model_on = &model.on;
    let failed = |source: bb::Error| {
        let (model, source) = (model.name.clone(), Box::new(source));
        match model_on.error_kind(&source) {
            // The model was checked when it was loaded, so only values of the request can be wrong.
            ErrorKind::WrongInput => Refusal::Inputs { model, source },
            ErrorKind::Unsupported => {
                Refusal::Unsupported { model, backend: model_on.name().to_owned(), source }
            }
            ErrorKind::InvalidModel
            | ErrorKind::Configuration
            | ErrorKind::Limit
            | ErrorKind::Cancelled
            | ErrorKind::Device
            | ErrorKind::Internal => Refusal::Failed { model, source },
        }
    };
    let put = |x: &Option<TensorData>| x.as_ref().map(|x| model.on.runtime().constant(x)).transpose();
    let values: Vec<Option<Value>> = inputs.iter().map(put).collect::<Result<_, _>>().map_err(failed)?;
    let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
    phases.put();
    let results = model.executable.run_with(&values, options).map_err(failed)?;
    phases.ran();
    let result = |index: &usize| {
        let result =
            results.get(*index).ok_or(Refusal::Internal { what: "a model returned too few outputs" })?;
        let result = model.on.to_host(result).map_err(failed)?;
        match model.outputs.get(*index) {
            Some(port) if port.dtype != result.dtype() => Err(Refusal::Output {
                model: model.name.clone(),
                name: port.name.clone(),
                got: result.dtype(),
            }),
            _ => Ok(result),
        }
    };
    let results = wanted.iter().map(result).collect();
    phases.taken();
    results
}

/// Starts the worker threads of a model.
pub(crate) fn start(
    model: &Arc<Model>,
    threads: usize,
    stop: &CancelToken,
) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let start = |_| {
        let (model, stop) = (model.clone(), stop.clone());
        let thread = std::thread::Builder::new().name(format!("bb-{}", model.name));
        thread.spawn(move || work(&model, &stop))
    };
    (0..threads).map(start).collect()
}
