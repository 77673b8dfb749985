//! Implements the engine interface for ONNX Runtime.

use crate::gaps::GAPS;
use crate::library::{LibraryError, environment};
use crate::plugin::Provider;
use crate::tensors::{lent, taken};
use bb::{BoxError, DataType, TensorData};
use bb_engines::{Engine, Gap, Signature};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::SessionInputValue;
use ort::session::builder::SessionBuilder;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// ONNX Runtime as an engine.
#[derive(Debug, Clone)]
pub struct OrtEngine {
    environment: &'static Environment,
    /// The execution provider that runs all nodes; `None` for ONNX Runtime's built-in CPU provider.
    provider: Option<Provider>,
}

impl OrtEngine {
    /// Loads the library, unless the process has already loaded it.
    ///
    /// # Errors
    ///
    /// [`LibraryError`].
    pub fn new() -> Result<OrtEngine, LibraryError> {
        Ok(OrtEngine { environment: environment()?, provider: None })
    }

    /// Creates an engine that runs models only on this execution provider.
    ///
    /// # Errors
    ///
    /// [`LibraryError`].
    pub fn on(provider: Provider) -> Result<OrtEngine, LibraryError> {
        Ok(OrtEngine { environment: environment()?, provider: Some(provider) })
    }

    fn builder(&self) -> Result<SessionBuilder, ort::Error> {
        let builder = ort::session::Session::builder(self.environment)?;
        let builder = builder.with_log_level(LogLevel::Fatal).map_err(ort::Error::<()>::from)?;
        builder.with_intra_op_spinning(false).map_err(ort::Error::<()>::from)
    }
}

/// A loaded model. Only one thread at a time runs it.
#[derive(Debug)]
pub struct OrtSession(Mutex<ort::session::Session>);

impl Engine for OrtEngine {
    type Session = OrtSession;

    const NAME: &'static str = "ONNX Runtime";

    fn gaps(&self) -> &'static [Gap] {
        GAPS
    }

    fn passes(&self, dtype: DataType) -> bool {
        use DataType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(dtype, BF16 | Bool | F16 | F32 | F64 | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    fn holds(&self, _: DataType) -> bool {
        // ONNX Runtime itself reports the types that an operator does not support when it loads the
        // model.
        true
    }

    fn newest_opset(&self) -> i64 {
        NEWEST_OPSET
    }

    fn load(&self, model: Vec<u8>, _: &Signature) -> Result<OrtSession, BoxError> {
        let session = match &self.provider {
            None => self.builder()?.commit_from_memory(&model)?,
            Some(provider) => {
                let mut alone = provider.alone(self.builder()?, self.environment)?;
                let plain = || self.builder()?.commit_from_memory(&model);
                alone.commit_from_memory(&model).map_err(|error| Provider::blame(error, plain))?
            }
        };
        Ok(OrtSession(Mutex::new(session)))
    }

    fn run(
        &self,
        session: &OrtSession,
        signature: &Signature,
        inputs: &[&TensorData],
    ) -> Result<Vec<TensorData>, BoxError> {
        let mut given: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::with_capacity(inputs.len());
        for ((name, _), x) in signature.inputs.iter().zip(inputs) {
            given.push((Cow::Borrowed(name.as_str()), lent(x)?));
        }
        let mut session = session.0.lock().unwrap_or_else(PoisonError::into_inner);
        let results = session.run(given)?;
        let one = |(name, dtype): &(String, DataType)| match results.get(name) {
            Some(value) => taken(value, *dtype),
            None => Err(bb::Error::MissingOutput { name: name.clone(), made: Vec::new() }.into()),
        };
        Ok(signature.outputs.iter().map(one).collect::<Result<_, _>>()?)
    }
}

/// The newest released opset of ONNX that ONNX Runtime 1.31 supports.
const NEWEST_OPSET: i64 = 26;
