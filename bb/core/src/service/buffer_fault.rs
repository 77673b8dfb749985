//! The reasons why a buffer cannot be used by its id.

/// The reason why a buffer cannot be used by its id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferFault {
    /// The buffer was freed.
    #[error("the buffer was freed")]
    Freed,

    /// The id belongs to another table, or to no table.
    #[error("the buffer belongs to another table")]
    Foreign,

    /// The number of bytes differs from the size of the buffer.
    #[error("expected {expected} bytes, got {got}")]
    Length {
        /// The size of the buffer.
        expected: usize,
        /// The number of bytes that were passed.
        got: usize,
    },

    /// A byte range exceeds the buffer.
    #[error("the bytes {offset} to {end} are not all in a buffer of {size} bytes", end = .offset.saturating_add(*.count))]
    Range {
        /// The offset of the first byte.
        offset: usize,
        /// The number of bytes.
        count: usize,
        /// The size of the buffer.
        size: usize,
    },

    /// The result of an operation does not match the type of its buffer.
    #[error("result {index} is {got}, and its buffer holds {expected}")]
    Output {
        /// The index of the result.
        index: usize,
        /// The element type and shape of the buffer.
        expected: String,
        /// The element type and shape of the result.
        got: String,
    },

    /// An alignment is not a power of two.
    #[error("an alignment of {got} bytes; expected a power of two")]
    Alignment {
        /// The alignment.
        got: u64,
    },

    /// A function that has mapped the buffer uses the buffer by its id.
    #[error("the function that has mapped the buffer uses it")]
    Mapped,

    /// The elements are strings, whose size in bytes is not fixed.
    #[error("buffers of strings have no bytes")]
    Strings,

    /// The shape has more elements than memory can hold.
    #[error("the shape has too many elements")]
    TooLarge,
}
