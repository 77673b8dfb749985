//! Runs four models on eight threads for a long time, on many shapes, and fails if something is left over.
//!
//! `cargo run --release -p bb-tests --example soak -- [RUNS] [BACKEND] [unmeasured]`: 100,000 runs on the CPU backend by default;
//! `faulty` is the CPU backend under layers that inject errors, panics, wrong extents and delays at a rate, with a seed: each failure
//! must arrive as an error with its node.
//! `unmeasured` runs without the check for leaks, for example under a sanitizer, which keeps freed memory. Among the
//! runs are some that fail, some that another thread stops, and some with a deadline that is too short. A run that ends well
//! must give the same bits as every other run on the same inputs.
//!
//! After the first tenth of the runs, resident memory may grow by 5 % at most, in the mean of each tenth. When the backend is
//! gone, the process has the same number of threads and open files as before the backend was opened.
//!
//! The CPU backend takes large buffers from the system. The others allocate them with glibc, which keeps free memory for each
//! thread; `MALLOC_ARENA_MAX=1` shows the memory that the backends themselves hold.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that is a program")]

mod faults;
mod inputs;

use bb::conformance::Random;
use bb::{
    BackendHandle, CancelToken, CompileOptions, DataType, ErasedExecutable, Error, Limits, OpenOptions,
    RunOptions, TensorData, Value,
};
use faults::Faults;
use inputs::{MODELS, SHAPES, Soaked};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

/// The number of threads that run models.
const THREADS: usize = 8;

/// How often memory is measured.
const ROUNDS: usize = 100;

/// By what part resident memory may grow after the first tenth of the runs.
const GROWTH: f64 = 0.05;

/// How a run is meant to end.
#[derive(Clone, Copy)]
enum Wanted {
    Result,
    Failure,
    /// Another thread may stop the run.
    Stoppable,
    Deadline,
}

/// How runs ended.
#[derive(Default)]
struct Ends {
    well: AtomicUsize,
    failed: AtomicUsize,
    stopped: AtomicUsize,
}

/// State that all threads share.
struct Soak {
    on: BackendHandle,
    models: Vec<(Soaked, Arc<dyn ErasedExecutable>)>,
    /// For each model and shape, a hash of the results; 0 before the first run.
    known: Vec<AtomicU64>,
    /// Tokens that cancel the current run of each thread.
    tokens: [Mutex<CancelToken>; THREADS],
    ends: Ends,
    next: AtomicUsize,
    /// Injected faults, on the backend that fails on purpose.
    faults: Option<Faults>,
}

impl Soak {
    fn new(on: BackendHandle, faults: Option<Faults>) -> Soak {
        let limits = Limits { value_bytes: inputs::VALUE_BYTES, plan_bytes: 2 << 20, ..Limits::default() };
        let options = CompileOptions::default().within(&limits);
        let models = MODELS.map(|make| {
            let (model, module) = make();
            let compiled = on.compile(module, &options).unwrap();
            (model, compiled)
        });
        let known = (0..MODELS.len() * SHAPES).map(|_| AtomicU64::new(0)).collect();
        Soak {
            on,
            models: models.into(),
            known,
            tokens: Default::default(),
            ends: Ends::default(),
            next: AtomicUsize::new(0),
            faults,
        }
    }

    /// Runs until `end` runs have begun on all threads together.
    fn run_until(&self, end: usize, thread: usize) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= end {
                return;
            }
            self.run(at, thread);
        }
    }

    /// Does the run of this number.
    fn run(&self, at: usize, thread: usize) {
        let mut random = Random::new(at as u64);
        // Each pass meets every shape of every model, in an order that has no pattern.
        let case = (at % self.known.len()) * 1009 % self.known.len();
        let (model, compiled) = &self.models[case % self.models.len()];
        let shape = case / self.models.len();
        let wanted = match random.below(20) {
            0 => Wanted::Failure,
            1 => Wanted::Stoppable,
            2 => Wanted::Deadline,
            _ => Wanted::Result,
        };
        let data = (model.inputs)(shape);
        let data = if matches!(wanted, Wanted::Failure) { (model.spoil)(data, &mut random) } else { data };
        let token = CancelToken::new();
        *self.tokens[thread].lock().unwrap() = token.clone();
        let mut options = RunOptions::default();
        match wanted {
            Wanted::Stoppable => options = options.with_cancel(&token),
            Wanted::Deadline => {
                let within = Duration::from_micros(random.below(2000) as u64);
                options = options.with_deadline(Instant::now() + within);
            }
            Wanted::Result | Wanted::Failure => {
                let other = random.below(THREADS);
                self.tokens[other].lock().unwrap().cancel();
            }
        }
        let values = options
            .within(|| data.iter().map(|x| self.on.runtime().constant(x)).collect::<Result<Vec<Value>, _>>());
        let running = values.is_ok();
        let result = values.and_then(|values| options.within(|| results(compiled, &values)));
        let (name, known) = (model.name, &self.known[case]);
        if let (Err(error), Some(faults)) = (&result, &self.faults)
            && faults.arrives(&chain(error), running)
        {
            return;
        }
        match (wanted, result) {
            (Wanted::Failure, Ok(_)) => panic!("{name}, shape {shape}, run {at}: spoilt inputs are accepted"),
            (Wanted::Failure, Err(error)) if !is_stop(&error) => {
                _ = self.ends.failed.fetch_add(1, Ordering::Relaxed)
            }
            (Wanted::Stoppable | Wanted::Deadline, Err(error)) if is_stop(&error) => {
                self.ends.stopped.fetch_add(1, Ordering::Relaxed);
            }
            (_, Err(error)) => panic!("{name}, shape {shape}, run {at}: {}", chain(&error)),
            (_, Ok(results)) => {
                self.ends.well.fetch_add(1, Ordering::Relaxed);
                let hash = hash(&results);
                let first = known.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
                assert!(
                    first.is_ok() || first == Err(hash),
                    "{name}, shape {shape}, run {at}: other results"
                );
            }
        }
    }
}

fn results(compiled: &Arc<dyn ErasedExecutable>, values: &[Value]) -> Result<Vec<TensorData>, Error> {
    let given: Vec<Option<&Value>> = values.iter().map(Some).collect();
    compiled.run(&given)?.iter().map(|value| value.to_host(inputs::VALUE_BYTES)).collect()
}

/// Returns a hash of tensors that is not 0.
fn hash(results: &[TensorData]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for x in results {
        (x.dtype().name(), x.shape()).hash(&mut hasher);
        match x.dtype() {
            DataType::String => x.iter_bytes().for_each(|text| text.hash(&mut hasher)),
            _ => x.bytes().expect("ready elements").hash(&mut hasher),
        }
    }
    hasher.finish().max(1)
}

/// Joins the messages of an error and its causes.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn is_stop(error: &Error) -> bool {
    let text = chain(error);
    [Error::Cancelled, Error::DeadlineExceeded].iter().any(|stop| text.ends_with(&stop.to_string()))
}

/// Returns the bytes of resident memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Returns the number of threads and of open files.
fn held() -> (usize, usize) {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Returns whether all bounds held.
fn soak(runs: usize, backend: &str) -> bool {
    let before = held();
    let options = match backend {
        // The backend's own threads end with it; the process's threads never end.
        "cpu" | "faulty" => OpenOptions::default().with_threads(NonZeroUsize::new(2).unwrap()),
        _ => OpenOptions::default(),
    };
    let soak = match backend {
        "faulty" => {
            let (on, faults) = Faults::start(&options);
            Soak::new(on, Some(faults))
        }
        _ => Soak::new(BackendHandle::new(inputs::open(backend, &options)), None),
    };
    let (begin, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let mut measured = Vec::new();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (soak, begin, end) = (&soak, &begin, &end);
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    begin.wait();
                    soak.run_until(runs * round / ROUNDS, thread);
                    end.wait();
                }
            });
        }
        for round in 1..=ROUNDS {
            soak.next.store(runs * (round - 1) / ROUNDS, Ordering::Relaxed);
            begin.wait();
            end.wait();
            measured.push(resident());
            if round % 10 == 0 {
                println!(
                    "{round:>3} %: {:.1} MB, {:.0} s",
                    measured[round - 1] as f64 / 1e6,
                    started.elapsed().as_secs_f64()
                );
            }
        }
    });
    let shapes = soak.known.iter().filter(|hash| hash.load(Ordering::Relaxed) != 0).count();
    let ends = [&soak.ends.well, &soak.ends.failed, &soak.ends.stopped].map(|n| n.load(Ordering::Relaxed));
    println!(
        "{} runs on {shapes} shapes: {} ended well, {} failed, {} were stopped",
        ends.iter().sum::<usize>(),
        ends[0],
        ends[1],
        ends[2]
    );
    let arrived = soak.faults.as_ref().is_none_or(Faults::all_arrived);
    drop(soak);
    let tenths =
        measured.chunks(ROUNDS / 10).map(|tenth| tenth.iter().sum::<usize>() as f64 / tenth.len() as f64);
    let tenths: Vec<f64> = tenths.collect();
    let most = tenths[2..].iter().copied().fold(0.0, f64::max);
    let growth = most / tenths[1] - 1.0;
    println!(
        "memory after the first tenth: {:.1} MB, in later tenths at most {:+.1} %",
        tenths[1] / 1e6,
        100.0 * growth
    );
    let left = settled(before);
    println!(
        "threads: {} before, {} after; open files: {} before, {} after",
        before.0, left.0, before.1, left.1
    );
    growth <= GROWTH && left == before && arrived
}

/// Waits until the held resources are the same as before, for at most ten seconds, and returns them: threads end a little after the
/// request to end.
fn settled(before: (usize, usize)) -> (usize, usize) {
    for _ in 0..100 {
        if held() == before {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    held()
}

fn main() -> ExitCode {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|text| text.starts_with(faults::PANIC)) {
            return;
        }
        report(panic);
        // The other threads wait for the one that panicked.
        std::process::exit(101);
    }));
    let mut args = std::env::args().skip(1);
    let runs = args.next().map_or(100_000, |runs| runs.parse().expect("a number of runs"));
    let backend = args.next().unwrap_or_else(|| "cpu".to_owned());
    let holds = soak(runs, &backend);
    if holds || args.next().is_some_and(|arg| arg == "unmeasured") {
        return ExitCode::SUCCESS;
    }
    println!("a bound does not hold");
    ExitCode::FAILURE
}
