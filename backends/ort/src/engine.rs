//! Implements the engine interface for ONNX Runtime.

use crate::calls;
use crate::empty;
use crate::gaps::GAPS;
use crate::library::{LibraryError, environment};
use crate::plugin::Provider;
use crate::tensors::{TensorError, input, output};
use bb::onnx::OnnxValue;
use bb::{BoxError, DataType, TensorData};
use bb_engines::{Engine, Gap, PortType, Signature};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::builder::SessionBuilder;
use ort::value::DynValue;
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

    /// Creates an empty sequence of tensors. ONNX Runtime's C interface has no function for it, so a model creates it.
    fn empty(&self, dtype: DataType) -> Result<DynValue, TensorError> {
        let mut session = self.builder()?.commit_from_memory(&empty::model(dtype))?;
        let mut results = calls::run(&mut session, &[], &[empty::RESULT])?;
        let missing = || ort::Error::new("ONNX Runtime created no empty sequence");
        Ok(results.pop().flatten().ok_or_else(missing)?)
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

    fn passes(&self, ty: &PortType) -> bool {
        use DataType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, String, U8, U16, U32, U64};
        // `bb` computes strings and sequences itself, except where the caller tests a provider.
        let all = self.provider.is_some();
        let dtype = match ty.dtype() {
            BF16 | Bool | F16 | F32 | F64 | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => true,
            String => all,
            _ => false,
        };
        dtype && (all && is_passed(ty) || matches!(ty, PortType::Tensor(_)))
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
                let plain = |beside: Option<&Provider>| {
                    let mut builder = match beside {
                        Some(provider) => provider.beside_cpu(self.builder()?, self.environment)?,
                        None => self.builder()?,
                    };
                    builder.commit_from_memory(&model)
                };
                alone.commit_from_memory(&model).map_err(|error| provider.blame(error, plain))?
            }
        };
        Ok(OrtSession(Mutex::new(session)))
    }

    fn run(
        &self,
        session: &OrtSession,
        signature: &Signature,
        inputs: &[OnnxValue<&TensorData>],
    ) -> Result<Vec<OnnxValue<TensorData>>, BoxError> {
        let empty = |dtype| self.empty(dtype);
        let mut given = Vec::with_capacity(inputs.len());
        for ((name, ty), x) in signature.inputs.iter().zip(inputs) {
            given.extend(input(x, ty, &empty)?.map(|x| (name.as_str(), x)));
        }
        let names: Vec<&str> = signature.outputs.iter().map(|(name, _)| name.as_str()).collect();
        let mut session = session.0.lock().unwrap_or_else(PoisonError::into_inner);
        let results = calls::run(&mut session, &given, &names)?;
        let result = |(x, (_, ty)): (&Option<DynValue>, &(_, PortType))| output(x.as_ref(), ty);
        Ok(results.iter().zip(&signature.outputs).map(result).collect::<Result<_, _>>()?)
    }
}

/// Returns whether ONNX Runtime has values of this structure: tensors, sequences of tensors, and optionals of both.
fn is_passed(ty: &PortType) -> bool {
    match ty {
        PortType::Tensor(_) => true,
        PortType::Sequence(of) => matches!(**of, PortType::Tensor(_)),
        PortType::Optional(of) => !matches!(**of, PortType::Optional(_)) && is_passed(of),
    }
}

/// The newest released opset of ONNX that ONNX Runtime 1.31 supports.
const NEWEST_OPSET: i64 = 26;
