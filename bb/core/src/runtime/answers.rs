//! Caches, for a backend, which element types its operations support.
//!
//! Coverage ([`crate::coverage`]) queries these answers. They are kept for as long as the [`Runtime`](crate::Runtime)
//! lives.

use bb_ir::op::OpSpec;
use bb_ir::{DataType, ErrorKind};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The results of the calls that were tried on a backend.
#[derive(Debug, Default)]
pub struct Answers(Mutex<HashMap<Question, Option<TrialError>>>);

/// The error of a call that was tried on a backend.
#[derive(Debug, Clone)]
pub struct TrialError {
    /// The message with its causes.
    pub reason: Arc<str>,
    /// The kind.
    pub kind: ErrorKind,
}

/// A call that can be tried on a backend: an operation and the element types of the call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    pub op: &'static OpSpec,
    /// The element types of the operands. Operands of a list that have the same type are stored once.
    pub operands: SmallVec<[Option<DataType>; 3]>,
    /// The element types of the parameters.
    pub params: SmallVec<[DataType; 1]>,
}

impl Answers {
    /// Returns the cached answer of a question: the error if the call is not supported, or `None` if it is supported.
    pub fn get(&self, question: &Question) -> Option<Option<TrialError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(question).cloned()
    }

    /// Stores an answer.
    pub fn insert(&self, question: Question, answer: Option<TrialError>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(question, answer);
    }
}
