//! Why a buffer could not be used by its number.

/// The reason that a buffer could not be used by its number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferFault {
    /// The buffer was freed.
    #[error("the buffer was freed")]
    Freed,

    /// The number is of another table, or of none.
    #[error("the buffer belongs to another table")]
    Foreign,

    /// The number of bytes differs from the size of the buffer.
    #[error("expected {expected} bytes, got {got}")]
    Length {
        /// The size of the buffer.
        expected: usize,
        /// The number of bytes given.
        got: usize,
    },

    /// The bytes are not all in the buffer.
    #[error("the bytes {offset} to {end} are not all in a buffer of {size} bytes", end = .offset.saturating_add(*.count))]
    Range {
        /// The first of the bytes.
        offset: usize,
        /// How many they are.
        count: usize,
        /// The size of the buffer.
        size: usize,
    },

    /// The result of an operation is not what its buffer holds.
    #[error("result {index} is {got}, and its buffer holds {expected}")]
    Output {
        /// The number of the result.
        index: usize,
        /// The element type and shape of the buffer.
        expected: String,
        /// The element type and shape of the result.
        got: String,
    },

    /// An alignment is no power of two.
    #[error("an alignment of {got} bytes; expected a power of two")]
    Alignment {
        /// The alignment.
        got: u64,
    },

    /// A function that has mapped the buffer uses it by its number.
    #[error("the function that has mapped the buffer uses it")]
    Mapped,

    /// The elements are strings, which have no bytes of a fixed number.
    #[error("buffers of strings have no bytes")]
    Strings,

    /// The shape has more elements than memory can hold.
    #[error("the shape has too many elements")]
    TooLarge,
}
