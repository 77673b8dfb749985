//! Errors of GGUF files.

/// The reason why a GGUF file is refused.
///
/// Units: offsets and sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file does not begin with the signature of GGUF.
    #[error("the file begins with {found:02x?}, expected `GGUF`")]
    Magic {
        /// The first bytes, at most four.
        found: Vec<u8>,
    },

    /// The version of the format is not supported.
    #[error("the file has version {found} of GGUF, expected 2 or 3 with the low byte first")]
    Version {
        /// The version.
        found: u32,
    },

    /// The file ends too early.
    #[error("the file ends within {what}: {needed} bytes were expected at offset {offset}, {left} are left")]
    Truncated {
        /// The item that was read.
        what: &'static str,
        /// The offset of the item.
        offset: usize,
        /// The number of bytes that it needs.
        needed: u64,
        /// The number of bytes that are left.
        left: usize,
    },

    /// A count or a length is greater than the file can contain.
    #[error("{what} at offset {offset} is {found}, expected at most {most}")]
    Count {
        /// The item whose count or length is wrong.
        what: &'static str,
        /// The offset of the number.
        offset: usize,
        /// The number.
        found: u64,
        /// The maximum possible number.
        most: u64,
    },

    /// A string is not UTF-8.
    #[error("{what} at offset {offset} is not UTF-8")]
    Text {
        /// The item that was read.
        what: &'static str,
        /// The offset of the string.
        offset: usize,
    },

    /// A name occurs twice.
    #[error("{what} `{name}` stands twice in the file")]
    Repeated {
        /// The kind of item with this name.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// A value of the metadata has a type that does not exist, or that this reader refuses.
    #[error("the value of `{key}` has type {found}, expected 0 to 12, and no array within an array")]
    ValueType {
        /// The key.
        key: String,
        /// The id of the type.
        found: u32,
    },

    /// A bool is neither 0 nor 1.
    #[error("a truth value of `{key}` is {found}, expected 0 or 1")]
    Truth {
        /// The key.
        key: String,
        /// The byte.
        found: u8,
    },

    /// A key of the metadata is missing.
    #[error("the file has no `{key}`")]
    MissingKey {
        /// The key.
        key: String,
    },

    /// A value of the metadata has another kind than its key requires.
    #[error("`{key}` is {found}, expected {expected}")]
    Kind {
        /// The key.
        key: String,
        /// The required kind.
        expected: &'static str,
        /// The kind that was found.
        found: String,
    },

    /// The alignment of tensors is not a power of two.
    #[error("`general.alignment` is {found}, expected a power of two from 1 to 65536")]
    Alignment {
        /// The alignment.
        found: u64,
    },

    /// A tensor has too many dimensions, or none.
    #[error("tensor `{tensor}` has {found} dimensions, expected 1 to 4")]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// The number of dimensions.
        found: u32,
    },

    /// The number of elements of a tensor is 0, or too large for the machine.
    #[error("tensor `{tensor}` has the extents {extents:?}, expected a product above 0 and below 2^63")]
    Extents {
        /// The tensor.
        tensor: String,
        /// The extents, the fastest-varying one first.
        extents: Vec<u64>,
    },

    /// A tensor has an unsupported element type.
    #[error(
        "tensor `{tensor}` has type {found}, expected F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q5_0 (6), Q5_1 (7), Q8_0 (8), \
         Q4_K (12), Q5_K (13), Q6_K (14) or BF16 (30)"
    )]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The id of the type in ggml.
        found: u32,
    },

    /// A row of a tensor is not a multiple of the block size.
    #[error("rows of tensor `{tensor}` have {row} elements, expected a multiple of {block}")]
    Row {
        /// The tensor.
        tensor: String,
        /// The number of elements of a row.
        row: u64,
        /// The number of elements of a block of its type.
        block: usize,
    },

    /// The offset of a tensor is not aligned.
    #[error("tensor `{tensor}` begins at {offset}, expected a multiple of {alignment}")]
    Offset {
        /// The tensor.
        tensor: String,
        /// Its offset in the data.
        offset: u64,
        /// The alignment of the file.
        alignment: u64,
    },

    /// The data of a tensor is outside the file.
    #[error(
        "tensor `{tensor}` has {size} bytes at {offset}, expected to end within the {data} bytes of data"
    )]
    Outside {
        /// The tensor.
        tensor: String,
        /// Its offset in the data.
        offset: u64,
        /// Its size.
        size: u64,
        /// The size of all data.
        data: usize,
    },

    /// The data of two tensors overlap.
    #[error("tensors `{first}` and `{second}` overlap, expected bytes of their own")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The other tensor.
        second: String,
    },

    /// A tensor is missing.
    #[error("the file has no tensor `{tensor}`")]
    MissingTensor {
        /// The tensor.
        tensor: String,
    },

    /// A tensor has another shape than the model requires.
    #[error("tensor `{tensor}` has the extents {found:?}, expected {expected:?}, the fastest first")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The required extents.
        expected: Vec<u64>,
        /// Its extents.
        found: Vec<u64>,
    },
}
