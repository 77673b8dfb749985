//! Why a GGUF file is refused.

/// Why a GGUF file is refused.
///
/// Units: offsets and sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file does not begin as GGUF files do.
    #[error("the file begins with {found:02x?}, expected `GGUF`")]
    Magic {
        /// The first bytes, at most four.
        found: Vec<u8>,
    },

    /// The version of the format is not read.
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
        /// Where it begins.
        offset: usize,
        /// How many bytes it needs.
        needed: u64,
        /// How many there are.
        left: usize,
    },

    /// A count or a length is greater than the file can hold.
    #[error("{what} at offset {offset} is {found}, expected at most {most}")]
    Count {
        /// The item whose count or length is wrong.
        what: &'static str,
        /// Where the number stands.
        offset: usize,
        /// The number.
        found: u64,
        /// The greatest number that is possible.
        most: u64,
    },

    /// A text is not UTF-8.
    #[error("{what} at offset {offset} is not UTF-8")]
    Text {
        /// The item that was read.
        what: &'static str,
        /// Where the text begins.
        offset: usize,
    },

    /// A name stands twice.
    #[error("{what} `{name}` stands twice in the file")]
    Repeated {
        /// The kind of thing with this name.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// A value of the metadata has a type that does not exist, or that this reader refuses.
    #[error("the value of `{key}` has type {found}, expected 0 to 12, and no array within an array")]
    ValueType {
        /// The key.
        key: String,
        /// The number of the type.
        found: u32,
    },

    /// A truth value is neither 0 nor 1.
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

    /// A value of the metadata has another kind than its key needs.
    #[error("`{key}` is {found}, expected {expected}")]
    Kind {
        /// The key.
        key: String,
        /// The kind that is needed.
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

    /// The number of elements of a tensor is 0, or no number of the machine.
    #[error("tensor `{tensor}` has the extents {extents:?}, expected a product above 0 and below 2^63")]
    Extents {
        /// The tensor.
        tensor: String,
        /// The extents, the fastest first.
        extents: Vec<u64>,
    },

    /// A tensor has an element type that is not read.
    #[error(
        "tensor `{tensor}` has type {found}, expected F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q5_0 (6), Q5_1 (7), Q8_0 (8), \
         Q4_K (12), Q5_K (13), Q6_K (14) or BF16 (30)"
    )]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The number of the type, as ggml has it.
        found: u32,
    },

    /// A row of a tensor is not a multiple of the block size.
    #[error("rows of tensor `{tensor}` have {row} elements, expected a multiple of {block}")]
    Row {
        /// The tensor.
        tensor: String,
        /// The elements of a row.
        row: u64,
        /// The elements of a block of its type.
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

    /// Two tensors share bytes.
    #[error("tensors `{first}` and `{second}` overlap, expected bytes of their own")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The other one.
        second: String,
    },

    /// A tensor is missing.
    #[error("the file has no tensor `{tensor}`")]
    MissingTensor {
        /// The tensor.
        tensor: String,
    },

    /// A tensor has other extents than the model needs.
    #[error("tensor `{tensor}` has the extents {found:?}, expected {expected:?}, the fastest first")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The extents that are needed.
        expected: Vec<u64>,
        /// Its extents.
        found: Vec<u64>,
    },
}
