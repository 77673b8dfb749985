//! Errors, and their representation for JavaScript: the kind, a message, its causes, and the node and operator that they concern.

use bb::{Error, ErrorKind};
use bb_cpu::CpuError;
use bb_ir::Error as IrError;
use serde_json::{Value as Json, json};

/// An error of a call from JavaScript.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A request from JavaScript is not JSON, or has wrong fields.
    #[error("{what} cannot be read")]
    Json {
        /// The name of the part that was parsed.
        what: &'static str,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },

    /// There is no session with this number.
    #[error("session {session} is not open")]
    NoSession {
        /// The number.
        session: u32,
    },

    /// The configuration of Magika's model was not set.
    #[error("the configuration of the model for file types was not given")]
    NoConfiguration,

    /// The scores do not belong to the configuration.
    #[error(transparent)]
    Magika(#[from] crate::magika::ScoreError),

    /// The name of a limit is unknown, or its value is malformed.
    #[error("the options set a limit wrongly")]
    Limit(#[source] IrError),

    /// No input has a dimension of the name that an option fixes.
    #[error("the options fix a dimension wrongly")]
    Dims(#[source] IrError),

    /// The model is compiled, so that its dimensions are fixed.
    #[error("the model is compiled, so that `dims` cannot fix its dimensions")]
    Compiled,

    /// There is no element type with this name.
    #[error("input `{input}` has the type `{got}`, which is no element type")]
    Type {
        /// The input.
        input: String,
        /// The name that was passed.
        got: String,
    },

    /// The elements of an input do not fit its type and shape.
    #[error("input `{input}` is not valid")]
    Input {
        /// The input.
        input: String,
        /// The reason.
        #[source]
        source: IrError,
    },

    /// The model is not valid, or cannot be compiled.
    #[error(transparent)]
    Model(Error),

    /// A run failed.
    #[error(transparent)]
    Bb(#[from] Error),

    /// There is no language model with this number.
    #[cfg(feature = "generate")]
    #[error("language model {model} is not open")]
    NoLanguageModel {
        /// The number.
        model: u32,
    },

    /// The generation ended because another generation of the same language model began.
    #[cfg(feature = "generate")]
    #[error("the generation has ended, because another one of the same language model began")]
    Ended,

    /// A request has neither messages nor a prompt, or both.
    #[cfg(feature = "generate")]
    #[error("the request has neither or both of `messages` and `prompt`, expected one of them")]
    Prompt,

    /// The language model is not valid, or cannot be compiled.
    #[cfg(feature = "generate")]
    #[error(transparent)]
    LanguageModel(bb_generate::Error),

    /// The text cannot be generated.
    #[cfg(feature = "generate")]
    #[error(transparent)]
    Generate(#[from] bb_generate::Error),
}

impl From<IrError> for Failure {
    fn from(error: IrError) -> Failure {
        Failure::Bb(error.into())
    }
}

/// The node and other details of an error.
#[derive(Default)]
struct ErrorLocation {
    node: Option<String>,
    operator: Option<String>,
    domain: Option<String>,
    input: Option<String>,
}

type Source<'a> = &'a (dyn std::error::Error + 'static);

/// Collects an error and its causes. A transparent error is followed by the error inside it.
fn chain(error: &Failure) -> Vec<Source<'_>> {
    let mut all: Vec<Source<'_>> = Vec::new();
    let mut next: Option<Source<'_>> = Some(error);
    while let Some(error) = next {
        all.push(error);
        let shown: Option<Source<'_>> = if let Some(failure) = error.downcast_ref::<Failure>() {
            failure.shown()
        } else if let Some(Error::Ir(inner)) = error.downcast_ref() {
            Some(inner)
        } else if let Some(CpuError::Bb(inner)) = error.downcast_ref() {
            Some(inner)
        } else {
            None
        };
        next = shown.or_else(|| error.source());
    }
    // Removes errors that only name the backend, because there is only one. `Failure::Bb` and `Failure::Model` around them have the same
    // text and are removed, too.
    while all.len() > 1
        && all.iter().take(2).any(|error| matches!(error.downcast_ref(), Some(Error::Kernel { .. })))
    {
        all.remove(0);
    }
    all
}

impl Failure {
    /// Marks an error as an error of the model, because it occurred before any run.
    pub(crate) fn of_model(self) -> Failure {
        match self {
            Failure::Bb(error) => Failure::Model(error),
            #[cfg(feature = "generate")]
            Failure::Generate(error) => Failure::LanguageModel(error),
            other => other,
        }
    }

    /// Returns the inner error if this error is transparent.
    fn shown(&self) -> Option<Source<'_>> {
        match self {
            Failure::Bb(inner) | Failure::Model(inner) => Some(inner),
            #[cfg(feature = "generate")]
            Failure::Generate(inner) | Failure::LanguageModel(inner) => Some(inner),
            _ => None,
        }
    }

    /// Returns the kind of the error, which determines how a caller can react.
    fn kind(&self) -> ErrorKind {
        match self {
            Failure::Json { .. } | Failure::NoSession { .. } | Failure::Type { .. } => ErrorKind::WrongInput,
            Failure::NoConfiguration | Failure::Magika(_) | Failure::Compiled => ErrorKind::Configuration,
            Failure::Limit(source) | Failure::Dims(source) | Failure::Input { source, .. } => source.kind(),
            // There are no inputs yet, so operands that do not match are a mistake of the model.
            Failure::Model(error) => kind(error).of_model(),
            Failure::Bb(error) => kind(error),
            #[cfg(feature = "generate")]
            Failure::NoLanguageModel { .. } | Failure::Ended | Failure::Prompt => ErrorKind::WrongInput,
            #[cfg(feature = "generate")]
            Failure::LanguageModel(error) => of_text(error).of_model(),
            #[cfg(feature = "generate")]
            Failure::Generate(error) => of_text(error),
        }
    }

    /// Describes the error as JSON.
    pub(crate) fn describe(&self) -> Json {
        let mut place = ErrorLocation::default();
        let chain = chain(self);
        for error in &chain {
            if let Some(Failure::Input { input, .. } | Failure::Type { input, .. }) = error.downcast_ref() {
                place.input = Some(input.clone());
            } else if let Some(error) = error.downcast_ref::<Error>() {
                place.add(error);
            } else if let Some(error) = error.downcast_ref::<IrError>() {
                place.add_ir(error);
            }
        }
        let mut texts: Vec<String> = chain.iter().map(ToString::to_string).collect();
        texts.dedup();
        json!({
            "kind": self.kind().name(), "message": texts.join(": "), "causes": texts.get(1..).unwrap_or_default(),
            "node": place.node, "operator": place.operator, "domain": place.domain, "input": place.input,
        })
    }
}

/// Returns the kind of an error. The only backend classifies it.
fn kind(error: &Error) -> ErrorKind {
    bb::backend("cpu").map_or_else(|_| error.kind(), |on| on.error_kind(error))
}

/// Returns the kind of an error of text generation.
#[cfg(feature = "generate")]
fn of_text(error: &bb_generate::Error) -> ErrorKind {
    match error {
        bb_generate::Error::Model { source } => kind(source),
        other => other.kind(),
    }
}

impl ErrorLocation {
    /// Adds the details of an error. The innermost node is the node that failed; the outer nodes contain its subgraph.
    fn add(&mut self, error: &Error) {
        match error {
            Error::Node { node, op, .. } => {
                (self.node, self.operator) = (Some(node.clone()), Some(op.clone()));
            }
            Error::Unsupported { missing } => {
                if let Some(first) = missing.0.first() {
                    (self.node, self.operator) = (Some(first.node.node.clone()), Some(first.node.op.clone()));
                    self.domain = Some(first.node.domain.clone());
                }
            }
            Error::UnsupportedOperator { op, domain, .. } => {
                (self.operator, self.domain) = (Some(op.clone()), Some(domain.clone()));
            }
            Error::MissingInput { name, .. }
            | Error::UnknownInput { name, .. }
            | Error::RepeatedInput { name } => self.input = Some(name.clone()),
            Error::Input(mismatch) => self.input = Some(mismatch.name.clone()),
            _ => {}
        }
    }

    fn add_ir(&mut self, error: &IrError) {
        match error {
            IrError::Node { node, op, .. } => {
                (self.node, self.operator) = (Some(node.clone()), Some(op.clone()));
            }
            IrError::MissingValue { node, .. } | IrError::Cycle { node, .. } => {
                self.node = Some(node.clone());
            }
            IrError::UnknownOperator { op, domain, .. } => {
                (self.operator, self.domain) = (Some(op.clone()), Some(domain.clone()));
            }
            _ => {}
        }
    }
}
