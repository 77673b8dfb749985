//! A backend with scripted answers, for tests of components.

use crate::host::{self, HostTensor};
use bb::ext::OpSet;
use bb::ir::op::{Family, OpSpec, Param};
use bb::{Backend, BackendHandle, Error, ErrorKind, InnerBackend, Outputs, Primitive, TensorData};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// An error of a [`Mock`]: a call that the script does not expect, or a failure that the script contains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MockError {
    /// The script expects another operation.
    #[error("expected a call of `{expected}`, got `{got}`")]
    Operation {
        /// The next operation in the script.
        expected: &'static str,
        /// The operation that was called.
        got: &'static str,
    },
    /// The operands or parameters do not match the script.
    #[error("the operands or parameters of `{op}` are not those that were expected")]
    Operands {
        /// The operation.
        op: &'static str,
    },
    /// The script has ended.
    #[error("the script has ended, and `{got}` was called")]
    Ended {
        /// The operation that was called.
        got: &'static str,
    },
    /// The script contains this failure.
    #[error("{message}")]
    Scripted {
        /// The message in the script.
        message: String,
    },
}

/// A function that returns whether operands and parameters match the script.
type Accepts = Box<dyn Fn(&[Option<&TensorData>], &[Param<'_>]) -> bool + Send + Sync>;

/// An expected call, and its answer.
struct Expected {
    spec: &'static OpSpec,
    accepts: Option<Accepts>,
    times: usize,
    answer: Result<Vec<TensorData>, String>,
}

/// The remaining expected calls.
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<VecDeque<Expected>>>);

impl Script {
    /// Returns the number of remaining expected calls.
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|expected| expected.times).sum()
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({} calls)", self.left())
    }
}

/// A backend that answers calls from a script, in order. Creating constants and reading tensors are always allowed.
///
/// # Examples
///
/// ```
/// use bb::{Primitive, TensorData};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let two = TensorData::new(&[1], &[2f32])?;
/// let mock = bb_layers::Mock::new()
///     .expect(Primitive::Exp.spec()).returns([two])
///     .expect(Primitive::Log.spec()).fails("out of memory");
/// let script = mock.script();
/// let on = mock.start("mock");
/// let x = on.tensor(&[1], &[0f32])?;
/// let y = x.exp()?;
/// assert_eq!(on.to_host(&y)?.as_slice::<f32>()?, [2.0]);
/// assert!(y.log().is_err());
/// assert_eq!(script.left(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Mock {
    script: Script,
    natives: Vec<(Family, OpSet)>,
}

impl Mock {
    /// Creates a backend that expects no call.
    pub fn new() -> Mock {
        Mock::default()
    }

    /// Adds a call of an operation to the script.
    pub fn expect(self, spec: &'static OpSpec) -> Expectation {
        Expectation { mock: self, spec, accepts: None, times: 1 }
    }

    /// Returns the script. It stays available after the backend is moved into a runtime.
    pub fn script(&self) -> Script {
        self.script.clone()
    }

    /// Starts the backend under this name.
    pub fn start(self, name: &'static str) -> BackendHandle {
        BackendHandle::start(name, self)
    }

    fn answer(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&HostTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<HostTensor>, Error> {
        if let [Param::Data(data)] = params
            && spec == Primitive::Constant.spec()
        {
            return Ok(Outputs::from_iter([HostTensor(data.as_ref().clone())]));
        }
        let failed = |kind, error: MockError| Error::layer("mock", spec.method, kind, error);
        let mut script = self.script.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = script.front_mut() else {
            return Err(failed(ErrorKind::WrongInput, MockError::Ended { got: spec.method }));
        };
        if next.spec != spec {
            let error = MockError::Operation { expected: next.spec.method, got: spec.method };
            return Err(failed(ErrorKind::WrongInput, error));
        }
        let operands: Vec<Option<&TensorData>> = inputs.iter().map(|x| x.map(|x| &x.0)).collect();
        if next.accepts.as_ref().is_some_and(|accepts| !accepts(&operands, params)) {
            return Err(failed(ErrorKind::WrongInput, MockError::Operands { op: spec.method }));
        }
        let answer = next.answer.clone();
        next.times -= 1;
        if next.times == 0 {
            script.pop_front();
        }
        match answer {
            Ok(results) => Ok(results.into_iter().map(HostTensor).collect()),
            Err(message) => Err(failed(ErrorKind::Device, MockError::Scripted { message })),
        }
    }

    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&HostTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<HostTensor>, Error> {
        self.answer(op.spec(), inputs, params)
    }
}

/// An expected call that is being added to the script of a [`Mock`].
#[must_use = "an expectation needs an answer: write `.returns(…)` or `.fails(…)`"]
pub struct Expectation {
    mock: Mock,
    spec: &'static OpSpec,
    accepts: Option<Accepts>,
    times: usize,
}

impl Expectation {
    /// Requires operands and parameters that `accepts` returns true for.
    pub fn with(
        self,
        accepts: impl Fn(&[Option<&TensorData>], &[Param<'_>]) -> bool + Send + Sync + 'static,
    ) -> Expectation {
        Expectation { accepts: Some(Box::new(accepts)), ..self }
    }

    /// Expects the call `times` times in succession; 0 means 1.
    pub fn times(self, times: usize) -> Expectation {
        Expectation { times: times.max(1), ..self }
    }

    /// Answers with these results.
    pub fn returns(self, results: impl IntoIterator<Item = TensorData>) -> Mock {
        let results = results.into_iter().collect();
        self.answered(Ok(results))
    }

    /// Answers with an error.
    pub fn fails(self, message: impl Into<String>) -> Mock {
        self.answered(Err(message.into()))
    }

    fn answered(self, answer: Result<Vec<TensorData>, String>) -> Mock {
        let Expectation { mut mock, spec, accepts, times } = self;
        if spec.family != Family::Primitive {
            host::add_native(&mut mock.natives, spec.family, spec.index);
        }
        let expected = Expected { spec, accepts, times, answer };
        mock.script.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(expected);
        mock
    }
}

impl std::fmt::Debug for Expectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expectation({})", self.spec.method)
    }
}

impl Backend for Mock {
    type Tensor = HostTensor;
    type Error = Error;

    bb::forward_to_call!(Self::primitive);

    fn wrapped(error: &Error) -> Option<&Error> {
        Some(error)
    }

    fn to_host(&self, x: &HostTensor) -> Result<TensorData, Error> {
        Ok(x.0.clone())
    }
}

impl InnerBackend for Mock {
    /// Returns the operations of extension families that the script expects.
    fn natives(&self) -> Vec<(Family, OpSet)> {
        self.natives.clone()
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&HostTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<HostTensor>, Error> {
        self.answer(spec, inputs, params)
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
