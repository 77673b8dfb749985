//! Why an operation of this backend failed.

/// Why an operation of this backend failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// The operands or parameters were refused, or `bb` reported an error of its own.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// The system gave no memory for a result.
    #[error("no memory for a buffer of {bytes} bytes")]
    Memory {
        /// The size asked for.
        bytes: usize,
    },

    /// The system started no threads.
    #[error("cannot start {threads} threads")]
    Threads {
        /// The number asked for.
        threads: usize,
        /// Why.
        #[source]
        source: rayon::ThreadPoolBuildError,
    },
}

impl From<bb::ir::Error> for CpuError {
    #[cold]
    fn from(error: bb::ir::Error) -> CpuError {
        CpuError::Bb(error.into())
    }
}

/// What an operation returns.
pub(crate) type Result<T> = std::result::Result<T, CpuError>;
