//! Kinds of errors. Each kind requires another reaction.

use super::Error;

/// A classification of errors by the reaction that they require.
///
/// Programs that serve others (a service, a language binding) match on the kind, and show the error's message and its causes to
/// people. Adding a kind is a breaking change, so a `match` can be exhaustive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The model, compiled model or frame is damaged, or contradicts itself or its format, so it cannot run anywhere.
    InvalidModel,
    /// The caller passed operands, parameters or names that do not match the model or the operation.
    WrongInput,
    /// The caller requested a file, a backend, a device or an option that does not exist, or a contradictory combination.
    Configuration,
    /// The backend, or `bb`, does not support the request; another backend or version may support it.
    Unsupported,
    /// A limit was exceeded, or memory was exhausted.
    Limit,
    /// The caller cancelled the run, its deadline passed, or the result that it was waiting for no longer exists.
    Cancelled,
    /// A backend, its device or the system failed.
    Device,
    /// An internal error: a bug in `bb`.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [ErrorKind; 8] = [
        ErrorKind::InvalidModel,
        ErrorKind::WrongInput,
        ErrorKind::Configuration,
        ErrorKind::Unsupported,
        ErrorKind::Limit,
        ErrorKind::Cancelled,
        ErrorKind::Device,
        ErrorKind::Internal,
    ];

    /// Returns the name, in lower case with `-` between words.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidModel => "invalid-model",
            ErrorKind::WrongInput => "wrong-input",
            ErrorKind::Configuration => "configuration",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Limit => "limit",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Device => "device",
            ErrorKind::Internal => "internal",
        }
    }
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Error {
    /// Returns the kind of the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_ir::{ErrorKind, TensorData};
    /// let error = TensorData::new(&[2], &[1f32]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::WrongInput);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Axis { .. }
            | Error::DataType { .. }
            | Error::ElementType { .. }
            | Error::OperandType { .. }
            | Error::MixedTypes { .. }
            | Error::Shapes { .. }
            | Error::Dims { .. }
            | Error::InnerExtents { .. }
            | Error::Permutation { .. }
            | Error::Param { .. }
            | Error::ParamKind { .. }
            | Error::Word { .. }
            | Error::AttributeKind { .. }
            | Error::Arity { .. }
            | Error::Overflow { .. }
            | Error::Index { .. }
            | Error::DivisionByZero { .. }
            | Error::ByteLength { .. }
            | Error::CastText { .. }
            | Error::BoolByte { .. }
            | Error::StringOffset { .. }
            | Error::UnknownDataType { .. }
            | Error::Extent { .. }
            | Error::UnknownDim { .. }
            | Error::OtherConstant { .. }
            | Error::Npy { .. }
            | Error::NpyType { .. } => ErrorKind::WrongInput,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
            Error::TooLarge { .. }
            | Error::Memory { .. }
            | Error::Limit { .. }
            | Error::FrameTooLong { .. }
            | Error::FrameHeaderLength { .. } => ErrorKind::Limit,
            Error::UnknownLimit { .. }
            | Error::LoadingLimit { .. }
            | Error::LimitValue { .. }
            | Error::NoFile { .. }
            | Error::NotFile { .. }
            | Error::NoExternalFolder { .. }
            | Error::ExternalMissing { .. }
            | Error::HashCollision { .. } => ErrorKind::Configuration,
            Error::File { .. } | Error::ExternalIo { .. } | Error::FrameIo { .. } => ErrorKind::Device,
            // A node with invalid operands is a mistake in the model, not of the caller.
            Error::Node { source, .. } | Error::InFile { source, .. } | Error::SavedNode { source, .. } => {
                source.kind().of_model()
            }
            Error::Several { .. }
            | Error::Value { .. }
            | Error::InTensor { .. }
            | Error::Decode { .. }
            | Error::Format { .. }
            | Error::NoGraph
            | Error::Type { .. }
            | Error::MissingValue { .. }
            | Error::MissingOutput { .. }
            | Error::DuplicateValue { .. }
            | Error::Cycle { .. }
            | Error::Opset { .. }
            | Error::OpsetTwice { .. }
            | Error::NoOpset { .. }
            | Error::DuplicateFunction { .. }
            | Error::Recursion { .. }
            | Error::Count { .. }
            | Error::LeftOut { .. }
            | Error::UnknownAttribute { .. }
            | Error::MissingAttribute { .. }
            | Error::DuplicateAttribute { .. }
            | Error::OutsideFunction { .. }
            | Error::Subgraph { .. }
            | Error::Segment
            | Error::DataLocation { .. }
            | Error::TwoDataFields { .. }
            | Error::DataField { .. }
            | Error::ElementCount { .. }
            | Error::DataValue { .. }
            | Error::SparseShapes { .. }
            | Error::SparseIndex { .. }
            | Error::ExternalPath { .. }
            | Error::ExternalKind { .. }
            | Error::ExternalReplaced { .. }
            | Error::ExternalKey { .. }
            | Error::ExternalRange { .. }
            | Error::ExternalChecksum { .. }
            | Error::ExternalTensor { .. }
            | Error::FrameMagic
            | Error::FrameVersion { .. }
            | Error::FrameFlags { .. }
            | Error::FrameHeader { .. }
            | Error::FrameLength { .. }
            | Error::FrameEnd { .. }
            | Error::FrameChecksum { .. }
            | Error::FramePadding
            | Error::FrameType { .. }
            | Error::FrameExtent { .. }
            | Error::SavedMagic
            | Error::SavedVersion { .. }
            | Error::SavedEnd { .. }
            | Error::SavedChecksum { .. }
            | Error::SavedTensor { .. }
            | Error::SavedForm { .. }
            | Error::SavedGraph { .. } => ErrorKind::InvalidModel,
            Error::UnknownOperator { .. } => ErrorKind::Unsupported,
        }
    }
}

impl ErrorKind {
    /// Returns the kind of an error in a model, if its cause has this kind: operands of a node that do not match make the model
    /// invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_ir::ErrorKind;
    /// assert_eq!(ErrorKind::WrongInput.of_model(), ErrorKind::InvalidModel);
    /// assert_eq!(ErrorKind::Limit.of_model(), ErrorKind::Limit);
    /// ```
    #[must_use]
    pub fn of_model(self) -> ErrorKind {
        if self == ErrorKind::WrongInput { ErrorKind::InvalidModel } else { self }
    }
}
