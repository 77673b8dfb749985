//! Bounds the time of a single call in the tests of primitives.
//!
//! A test makes, uses and drops its backend on a new thread. The thread of the test program waits for it, and fails if a call does not
//! return. The other thread is then abandoned.

use super::Call;
use super::Subject;
use super::show::shown;
use super::shown_call::ShownCall;
use bb_core::{Backend, DataType, TensorData};
use bb_ir::op::{OpSpec, Param, Primitive};
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time limit of a call in seconds, unless [`VARIABLE`] is set.
const SECONDS: u64 = 60;

/// The environment variable with another time limit in seconds, for debuggers and simulators.
const VARIABLE: &str = "BB_CALL_SECONDS";

/// How often the running calls are compared with the limit.
const TICK: Duration = Duration::from_millis(250);

/// An operand of a running call. To show it, the backend is not called, because it may hold a lock.
#[derive(Debug, Clone)]
pub(super) enum CurrentOperand {
    /// The operand's host data.
    Data(TensorData),
    /// The element type and the shape of an operand that the backend computed.
    Computed(DataType, Vec<usize>),
}

/// A call that is running.
#[derive(Debug, Clone)]
pub(super) struct CurrentCall {
    /// What is called if it is not the operation, as in `` `to_host` of a result of ``.
    pub(super) prefix: &'static str,
    pub(super) op: &'static OpSpec,
    pub(super) operands: Vec<CurrentOperand>,
    pub(super) params: Vec<Param<'static>>,
}

impl CurrentCall {
    /// A call that is given as data.
    pub(super) fn of(call: &Call) -> CurrentCall {
        CurrentCall {
            prefix: "",
            op: call.op.spec(),
            operands: call.inputs.iter().cloned().map(CurrentOperand::Data).collect(),
            params: call.params.clone(),
        }
    }

    /// A call of `constant`.
    pub(super) fn constant(x: &TensorData) -> CurrentCall {
        let params = vec![Param::Data(Cow::Owned(x.clone()))];
        CurrentCall { prefix: "", op: Primitive::Constant.spec(), operands: Vec::new(), params }
    }

    /// Returns whether the elements of all operands are known.
    pub(super) fn is_complete(&self) -> bool {
        self.operands.iter().all(|operand| matches!(operand, CurrentOperand::Data(_)))
    }
}

impl Display for CurrentCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operand = |operand: &CurrentOperand| match operand {
            CurrentOperand::Data(x) => shown(x),
            CurrentOperand::Computed(dtype, shape) => format!("{dtype}{shape:?}"),
        };
        let operands = self.operands.iter().map(operand).collect();
        write!(f, "{}{}", self.prefix, ShownCall { op: self.op, operands, params: &self.params })
    }
}

/// The calls that are running, oldest first. Several threads may make calls.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Vec<(Instant, Arc<CurrentCall>)>>);

impl Watch {
    /// Runs a call.
    pub(super) fn run<T>(&self, call: &Arc<CurrentCall>, body: impl FnOnce() -> T) -> T {
        let all = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all().push((Instant::now(), call.clone()));
        let returned = body();
        all().retain(|(_, other)| !Arc::ptr_eq(other, call));
        returned
    }

    /// Returns a call that has run for longer than the limit.
    fn overdue(&self, limit: Duration) -> Option<Arc<CurrentCall>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(since, _)| since.elapsed() >= limit).map(|(_, call)| call.clone())
    }
}

/// Runs the test of a primitive or a topic on a backend that it makes. `bb::conformance!` expands to calls of it.
///
/// # Panics
///
/// If the test fails, or a call takes longer than a minute or the seconds in the environment variable `BB_CALL_SECONDS`.
#[doc(hidden)]
#[track_caller]
pub fn check_case<B: Backend + 'static>(name: &'static str, make: fn() -> B, test: fn(&Subject<'_>)) {
    let set = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    check_within(Duration::from_secs(set.unwrap_or(SECONDS)), name, make, test);
}

/// Runs the test with another time limit for each call.
#[doc(hidden)]
#[track_caller]
pub fn check_within<B: Backend + 'static>(
    limit: Duration,
    name: &'static str,
    make: fn() -> B,
    test: fn(&Subject<'_>),
) {
    let watch = Arc::new(Watch::default());
    let (end, ended) = channel::<()>();
    let shared = watch.clone();
    // The name is in the messages of panics.
    let title = std::thread::current().name().unwrap_or(name).to_owned();
    let worker = std::thread::Builder::new().name(title).spawn(move || {
        // It is dropped last, because locals are dropped in the reverse order.
        let _end = end;
        let backend = make();
        Subject::watched(&backend, shared).case(name, test);
    });
    let Ok(worker) = worker else {
        return Subject::new(&make()).case(name, test);
    };
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
        if let Some(call) = watch.overdue(limit) {
            panic!(
                "{call} has not returned within {} seconds; the environment variable {VARIABLE} sets another limit",
                limit.as_secs()
            );
        }
    }
    if let Err(panic) = worker.join() {
        resume_unwind(panic);
    }
}
