//! The error type of this backend.

/// An error of an operation of this backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// The operands or parameters were invalid, or `bb` reported an error of its own.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// The system could not allocate memory for a result.
    #[error("the system has no memory for a buffer")]
    Memory(#[source] bb::services::OutOfMemory),

    /// The memory limit is reached.
    #[error("the memory limit is reached")]
    Limit(#[source] bb::services::Pressure),

    /// Kernels cannot use the requested level of instructions.
    #[error("kernels use the instructions `{found}`, {why}")]
    Level {
        /// The level that is used.
        found: &'static str,
        /// The reason.
        why: &'static str,
    },

    /// The system could not start the threads.
    #[error("cannot start {threads} threads")]
    Threads {
        /// The requested number.
        threads: usize,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl CpuError {
    /// Creates the error for a buffer that the system could not allocate.
    ///
    /// Units: bytes.
    #[cold]
    pub(crate) fn no_memory(bytes: usize) -> CpuError {
        CpuError::Memory(bb::services::OutOfMemory::new(bytes as u64))
    }
}

impl From<bb::ir::Error> for CpuError {
    #[cold]
    fn from(error: bb::ir::Error) -> CpuError {
        CpuError::Bb(error.into())
    }
}

/// The result of an operation.
pub(crate) type Result<T> = std::result::Result<T, CpuError>;
