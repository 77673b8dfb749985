//! Runs all of ONNX's cases on one backend, for `bb::conformance!`.
//!
//! A case that panics or takes longer than [`Suite::limit`] fails without affecting the others. A case that crashes the
//! process ends the test; the command `bb conformance` avoids this with worker processes.

use super::outcome::{examined, outcome};
use super::report::{Case, Outcome, Report};
use super::{Failure, find};
use crate::Call;
use crate::exit_guard::RunningTest;
use crate::hint::{TypesDeclaration, hint};
use crate::slow::{self, SlowReport, Timed, keep_slowest, timed};
use bb_core::error::causes;
use bb_core::{Backend, DataType, Declared, Runtime};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Options for running ONNX's cases on a backend.
#[derive(Clone)]
pub struct Suite {
    on: Arc<Runtime>,
    /// Only cases whose path contains each of these strings run. By default, this is the string in the environment variable
    /// `BB_CASES`.
    pub only: Vec<String>,
    /// Only cases whose index, in the order of the paths, is a multiple of this number run. The default is 1, which means all
    /// cases.
    pub every: NonZeroUsize,
    /// The time limit of a case. The default is fifteen minutes: long enough for slow machines, short enough to detect a case that
    /// hangs.
    pub limit: Duration,
    /// The number of cases that run at the same time. The default is the number of processors.
    pub threads: usize,
}

impl Suite {
    /// Creates a suite for a running backend.
    ///
    /// If the backend declares its element types ([`Backend::types`]), the runtime stores other types in the declared ones if this
    /// is exact. If it is not, the case is skipped, and the reason names the type.
    pub fn new(on: Arc<Runtime>) -> Suite {
        Suite {
            on,
            only: std::env::var("BB_CASES").into_iter().collect(),
            every: NonZeroUsize::MIN,
            limit: Duration::from_secs(900),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Adds a filter: only cases whose path contains this string run, in addition to the filter of `BB_CASES`.
    #[must_use]
    pub fn with_filter(mut self, text: &'static str) -> Suite {
        self.only.push(text.to_owned());
        self
    }

    /// Runs only every `every`th of the selected cases, unless the environment variable `BB_CASES` is set.
    #[must_use]
    pub fn with_every(mut self, every: NonZeroUsize) -> Suite {
        if std::env::var_os("BB_CASES").is_none() {
            self.every = every;
        }
        self
    }

    /// Runs the cases and prints the report. If they take longer than ten seconds, prints a second report of the slowest cases.
    ///
    /// # Panics
    ///
    /// If a case fails, with a list of the failures; or if no case is selected.
    #[track_caller]
    pub fn check(&self) {
        let _running = RunningTest::begin(std::thread::current().name().unwrap_or("onnx"));
        let (ran, took) = timed(|| self.run_timed());
        let (report, times) = match ran {
            Ok(ran) => ran,
            Err(failure) => panic!("{}", causes(&failure)),
        };
        if took >= slow::SLOW {
            self.slow(took, times).print();
        }
        println!("ONNX's cases on `{}`:\n\n{report}", self.on.name());
        let failures = report.failures();
        assert!(
            !report.cases.is_empty(),
            "no case has {} in its path; the filters are `cases` of `bb::conformance!` and the variable BB_CASES",
            self.only.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" and ")
        );
        assert!(
            failures.is_empty(),
            "{} of {} cases failed on `{}`:\n{}{}",
            failures.len(),
            report.cases.len(),
            self.on.name(),
            failures.join("\n"),
            self.hint().map_or_else(String::new, |hint| format!("\n{hint}"))
        );
    }

    /// Returns the element types to declare, if the backend declares all but does not support some.
    pub fn hint(&self) -> Option<String> {
        if !self.on.capabilities().types.is_all() {
            return None;
        }
        hint(DataType::ALL, TypesDeclaration::RUST, |call: &Call| {
            let operands: Vec<_> = call.inputs.iter().cloned().map(Some).collect();
            self.on.try_call(call.op.spec(), &operands, &call.params).is_ok()
        })
    }

    /// Runs the cases of the crate `bb-onnx-cases`.
    ///
    /// # Errors
    ///
    /// [`Failure::Read`] if they cannot be unpacked or found.
    pub fn run(&self) -> Result<Report, Failure> {
        self.run_timed().map(|(report, _)| report)
    }

    /// Reports the slowest cases.
    fn slow(&self, took: Duration, times: CaseTimes) -> SlowReport {
        let reference = slow::reference(self.on.name());
        let row = |(took, (name, path)): (Duration, (String, PathBuf))| {
            let other = reference.as_ref().map(|on| timed(|| outcome(&path, on)).1);
            Timed { name, took, reference: other }
        };
        let slowest = times.slowest.into_iter().map(row).collect();
        let test = format!("`onnx` on `{}`", self.on.name());
        SlowReport { test, what: "cases", took, sum: times.sum, slowest }
    }

    fn run_timed(&self) -> Result<(Report, CaseTimes), Failure> {
        let root = bb_onnx_cases::folder()
            .map_err(|source| Failure::Read { path: PathBuf::from("bb-onnx-cases"), source })?;
        let mut queue = Vec::new();
        let mut excluded = 0;
        for path in find(&root)? {
            let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if bb_onnx_cases::excluded().any(|(case, _)| case == name) {
                excluded += 1;
            } else if self.only.iter().all(|text| name.contains(text)) {
                queue.push((name, path));
            }
        }
        let queue = Mutex::new(queue.into_iter().step_by(self.every.get()));
        let done = Mutex::new((Vec::new(), CaseTimes::default()));
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.take(&queue, &done));
            }
        });
        let (mut cases, times) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        cases.sort_by(|a: &Case, b| a.name.cmp(&b.name));
        Ok((Report { cases, excluded }, times))
    }

    /// Runs cases from the queue until it is empty.
    fn take(
        &self,
        queue: &Mutex<impl Iterator<Item = (String, PathBuf)>>,
        done: &Mutex<(Vec<Case>, CaseTimes)>,
    ) {
        let mut runner = None;
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((name, path)) = next else { return };
            let (case, took) = timed(|| examined(name, &path, |path| self.one(&mut runner, path.to_owned())));
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.1.sum += took;
            keep_slowest(&mut done.1.slowest, took, || (case.name.clone(), path));
            done.0.push(case);
        }
    }

    /// Runs a case on another thread. If the case does not end in time, the thread is abandoned.
    fn one(&self, runner: &mut Option<Runner>, path: PathBuf) -> Outcome {
        let running = match runner.take() {
            Some(running) => running,
            None => match Runner::start(self.on.clone()) {
                Ok(started) => started,
                Err(error) => return Outcome::Failed(format!("no thread can be started: {error}")),
            },
        };
        let answer =
            running.cases.send(path).ok().and_then(|()| running.answers.recv_timeout(self.limit).ok());
        match answer {
            Some(outcome) => {
                *runner = Some(running);
                outcome
            }
            None => Outcome::Failed(format!("expected an answer within {:?}, got none", self.limit)),
        }
    }
}

/// The run times of the cases.
#[derive(Default)]
struct CaseTimes {
    sum: Duration,
    /// The slowest cases, each with its name and folder.
    slowest: Vec<(Duration, (String, PathBuf))>,
}

/// A thread that runs cases.
struct Runner {
    cases: Sender<PathBuf>,
    answers: Receiver<Outcome>,
}

impl Runner {
    fn start(on: Arc<Runtime>) -> std::io::Result<Runner> {
        let (cases, taken) = channel::<PathBuf>();
        let (answer, answers) = channel();
        std::thread::Builder::new().name("onnx case".to_owned()).spawn(move || {
            for case in taken {
                if answer.send(outcome(&case, &on)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Runner { cases, answers })
    }
}

/// Values that `bb::conformance!` accepts as `cases`: a string that paths must contain, or a number `n` to run every `n`th case.
#[doc(hidden)]
pub trait Chosen {
    /// Restricts the suite to these cases.
    fn of(self, suite: Suite) -> Suite;
}

impl Chosen for &'static str {
    fn of(self, suite: Suite) -> Suite {
        suite.with_filter(self)
    }
}

impl Chosen for usize {
    fn of(self, suite: Suite) -> Suite {
        match NonZeroUsize::new(self) {
            Some(every) => suite.with_every(every),
            None => panic!("`cases = 0` chooses no case: write `cases = none` to leave out the test `onnx`"),
        }
    }
}

/// A value that was passed to `bb::conformance!`.
#[doc(hidden)]
pub struct Made<B>(pub B);

/// Starts a backend with `#[derive(Backend)]`, with the families that it implements.
impl<B: Declared> Made<B> {
    /// Starts the backend.
    pub fn start(self) -> Arc<Runtime> {
        self.0.start(bb_core::runtime::Start::named(B::NAME))
    }
}

/// Starts a backend without a derive. Method resolution chooses this trait only if the inherent method of [`Made`] does not apply.
#[doc(hidden)]
pub trait Start {
    /// Starts the backend.
    fn start(self) -> Arc<Runtime>;
}

/// Accepts values that are no backend, so that the compiler only reports the missing trait bound.
#[doc(hidden)]
pub trait NotBackend {
    /// Never runs, because the program does not compile.
    fn start(&self) -> Arc<Runtime>;
}

impl<T> NotBackend for Made<T> {
    fn start(&self) -> Arc<Runtime> {
        panic!("the value is no backend")
    }
}

impl<B: Backend + 'static> Start for Made<B> {
    fn start(self) -> Arc<Runtime> {
        Runtime::erased("backend", self.0, &[])
    }
}
