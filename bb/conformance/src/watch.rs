//! The running calls, which another thread reads to detect calls that hang.

use super::Call;
use super::show::shown;
use super::shown_call::ShownCall;
use bb_core::{DataType, TensorData};
use bb_ir::op::{OpSpec, Param, Primitive};
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable that changes the time limit, for debuggers and simulators. Its value is a number of seconds.
pub(super) const LIMIT_VARIABLE: &str = "BB_CALL_SECONDS";

/// An operand of a running call. It is displayed without calling the backend, because the backend may hold
/// a lock.
#[derive(Debug, Clone)]
pub(super) enum CurrentOperand {
    /// The operand's host data.
    Data(TensorData),
    /// The element type and the shape of an operand that the backend computed.
    Computed(DataType, Vec<usize>),
}

/// A running call.
#[derive(Debug, Clone)]
pub(super) struct CurrentCall {
    /// A description of the call if it is not the operation itself, as in `` `to_host` of a result of ``.
    pub(super) prefix: &'static str,
    pub(super) op: &'static OpSpec,
    pub(super) operands: Vec<CurrentOperand>,
    pub(super) params: Vec<Param<'static>>,
}

impl CurrentCall {
    /// Creates the record of a call.
    pub(super) fn of(call: &Call) -> CurrentCall {
        CurrentCall {
            prefix: "",
            op: call.op.spec(),
            operands: call.inputs.iter().cloned().map(CurrentOperand::Data).collect(),
            params: call.params.clone(),
        }
    }

    /// Creates the record of a call of `constant`.
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

/// The running calls, oldest first. Several threads may run calls.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Vec<(Instant, Arc<CurrentCall>)>>);

impl Watch {
    /// Runs a call, and records it while it runs.
    pub(super) fn run<T>(&self, call: &Arc<CurrentCall>, body: impl FnOnce() -> T) -> T {
        let all = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all().push((Instant::now(), call.clone()));
        let returned = body();
        all().retain(|(_, other)| !Arc::ptr_eq(other, call));
        returned
    }

    /// Returns a call that has run for longer than the limit.
    pub(super) fn overdue(&self, limit: Duration) -> Option<Arc<CurrentCall>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(since, _)| since.elapsed() >= limit).map(|(_, call)| call.clone())
    }
}

/// The running calls of a [`Subject`](super::Subject), for a thread that detects calls that hang.
#[derive(Debug, Clone)]
pub struct RunningCalls(pub(super) Arc<Watch>);

impl RunningCalls {
    /// Returns a message about a call that has run for longer than the limit, if there is one.
    pub fn overdue(&self, limit: Duration) -> Option<String> {
        let call = self.0.overdue(limit)?;
        Some(format!(
            "{call} has not returned within {} seconds; the environment variable {LIMIT_VARIABLE} sets another limit",
            limit.as_secs()
        ))
    }
}
