//! Classifies the errors of `bb` by how a caller can react.

use super::{Error, NarrowError};
use crate::service::{OutOfMemory, Pressure};
use bb_ir::ErrorKind;

type Source<'a> = &'a (dyn std::error::Error + 'static);

/// A function that returns the error of `bb` that a backend's own error wraps, if the backend reports it.
pub(crate) type Unwrap<'f> = &'f dyn for<'a> Fn(Source<'a>) -> Option<&'a Error>;

impl Error {
    /// Returns the kind of the error, which determines how a caller may react. An error that only adds a location has
    /// the kind of its cause.
    ///
    /// A backend's own error that wraps an error of `bb` counts as a failure of the backend here.
    /// [`BackendHandle::error_kind`](crate::BackendHandle::error_kind) also queries the backend for the inner error.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb::ErrorKind;
    /// let error = bb::backend("no such backend").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Configuration);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind_by(&|_| None)
    }

    /// Returns the kind. `unwrap` finds the errors of `bb` inside errors of backends.
    pub(crate) fn kind_by(&self, unwrap: Unwrap<'_>) -> ErrorKind {
        match self {
            Error::Ir(error) => error.kind(),
            Error::EndlessExecute | Error::EndlessNative { .. } | Error::EndlessLayer { .. } => {
                ErrorKind::Device
            }
            Error::Layer { kind, .. } | Error::Loaded { kind, .. } => *kind,
            Error::Kernel { source, .. } => caused(source.as_ref(), unwrap),
            Error::Node { source, .. }
            | Error::Operands { source, .. }
            | Error::Nodes { source, .. }
            | Error::Iteration { source, .. }
            | Error::Initializer { source, .. }
            | Error::Constant { source, .. }
            | Error::Transfer { source, .. } => caused(source.as_ref(), unwrap),
            Error::Unavailable { source, .. } | Error::LayerUnavailable { source, .. } => {
                caused(source.as_ref(), unwrap)
            }
            Error::Service { source, .. } => caused(source, unwrap),
            Error::MissingInput { .. }
            | Error::UnknownInput { .. }
            | Error::RepeatedInput { .. }
            | Error::UnknownValue { .. }
            | Error::InsideSubgraph { .. }
            | Error::Input(_)
            | Error::InputCount { .. }
            | Error::Buffer(_)
            | Error::UnknownOutput { .. }
            | Error::RepeatedOutput { .. }
            | Error::NotTensor { .. }
            | Error::Operand { .. }
            | Error::Surplus { .. }
            | Error::Number(_)
            | Error::NotScalar { .. }
            | Error::Operator { .. }
            | Error::ForeignTensor { .. }
            | Error::FixedExtent { .. }
            | Error::NoDimension { .. }
            | Error::DeclaredExtent { .. }
            | Error::NoRank { .. }
            | Error::BufferFault(_) => ErrorKind::WrongInput,
            Error::Narrow(_)
            | Error::NoBody { .. }
            | Error::NoMethod { .. }
            | Error::NotPrimitive { .. }
            | Error::Decode { .. }
            | Error::NotDifferentiable { .. }
            | Error::GradientBy { .. }
            | Error::NotConstant { .. }
            | Error::ElementTypeOfOpset { .. }
            | Error::IrVersion { .. }
            | Error::NotOneGraph { .. }
            | Error::Unsupported { .. }
            | Error::Refused { .. }
            | Error::UnsupportedOperator { .. }
            | Error::NoPrimitive { .. }
            | Error::NoService { .. }
            | Error::NotSaved { .. } => ErrorKind::Unsupported,
            Error::UnknownOperation { .. }
            | Error::VendorTwice { .. }
            | Error::VendorPattern { .. }
            | Error::NotKept { .. }
            | Error::UnknownBackend { .. }
            | Error::BackendName { .. }
            | Error::NameTaken { .. }
            | Error::UnknownLayer { .. }
            | Error::Stack { .. }
            | Error::MemberTwice { .. }
            | Error::CommonOption { .. }
            | Error::NoMembers { .. }
            | Error::NotMember { .. }
            | Error::UnusedPin { .. }
            | Error::NoOutputs
            | Error::DuplicateLayer { .. }
            | Error::LayerNamedAsBackend { .. }
            | Error::NotBound { .. }
            | Error::NoBackend { .. }
            | Error::UnknownBackendType { .. }
            | Error::OpenOption { .. }
            | Error::UnknownOption { .. }
            | Error::UnknownLayerOption { .. }
            | Error::LayerOption { .. }
            | Error::OptionValue { .. }
            | Error::OptionRefused { .. }
            | Error::OptionForm { .. }
            | Error::Parentheses { .. }
            | Error::OptionTwice { .. }
            | Error::UnknownDevice { .. }
            | Error::TwoDevices { .. }
            | Error::DeviceName { .. }
            | Error::ThreadCount { .. }
            | Error::DuplicateDevice { .. }
            | Error::UnknownModel { .. }
            | Error::NotReady { .. }
            | Error::Leaves { .. }
            | Error::DuplicateBackend { .. }
            | Error::OpenCycle { .. }
            | Error::NoCandidate { .. }
            | Error::Fingerprint { .. }
            | Error::PeerFingerprint { .. }
            | Error::SavedFor { .. }
            | Error::UnknownPass { .. } => ErrorKind::Configuration,
            Error::SavedPlan(_) => ErrorKind::InvalidModel,
            Error::Budget { .. } => ErrorKind::Limit,
            Error::Cancelled | Error::DeadlineExceeded | Error::Abandoned | Error::Gone { .. } => {
                ErrorKind::Cancelled
            }
            Error::Write { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                ErrorKind::Configuration
            }
            // A result that violates the contract is a failure of the backend.
            Error::Write { .. }
            | Error::OutputCount { .. }
            | Error::Results { .. }
            | Error::WrongResult(_)
            | Error::BrokenPromise(_)
            | Error::MissingOutput { .. }
            | Error::Panicked { .. }
            | Error::KernelPanicked { .. }
            | Error::ComponentPanicked { .. }
            | Error::ShutDown { .. }
            | Error::DeviceLost { .. } => ErrorKind::Device,
            Error::UnknownIndex { .. } | Error::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// Returns the kind of the first cause that is an error of `bb` or reports a lack of memory. Any other error is a
/// failure of the backend.
pub(super) fn caused(source: Source<'_>, unwrap: Unwrap<'_>) -> ErrorKind {
    let mut cause = Some(source);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>().or_else(|| unwrap(error)) {
            return error.kind_by(unwrap);
        }
        if let Some(error) = error.downcast_ref::<bb_ir::Error>() {
            return error.kind();
        }
        if error.is::<NarrowError>() {
            return ErrorKind::Unsupported;
        }
        if error.is::<Pressure>() || error.is::<OutOfMemory>() {
            return ErrorKind::Limit;
        }
        cause = error.source();
    }
    ErrorKind::Device
}

/// Returns whether a panic within a plan caused an error. A panic that another running backend reports does not count,
/// because that backend has already counted it.
pub(crate) fn is_panic(source: Source<'_>, unwrap: Unwrap<'_>) -> bool {
    let mut cause = Some(source);
    while let Some(error) = cause {
        cause = match error.downcast_ref::<Error>().or_else(|| unwrap(error)) {
            Some(Error::KernelPanicked { .. }) => return true,
            Some(Error::Kernel { .. }) => return false,
            Some(own) => std::error::Error::source(own),
            None => error.source(),
        };
    }
    false
}
