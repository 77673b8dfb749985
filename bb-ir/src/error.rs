//! Why a tensor, a graph or a frame was refused.

use crate::DataType;

/// An error of any type, as the source of another.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a tensor, a graph or a frame was refused.
///
/// Extents are boxed so that a `Result` stays small where nothing fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An axis lies outside a tensor's rank.
    #[error("axis {axis} is out of range for rank {rank}; expected {}..{rank}", -(*.rank as i64))]
    Axis {
        /// The axis as it came.
        axis: i64,
        /// The tensor's rank.
        rank: usize,
    },

    /// A tensor has another element type than asked for.
    #[error("expected element type {expected}, got {got}")]
    DataType {
        /// The element type asked for.
        expected: DataType,
        /// The element type of the tensor.
        got: DataType,
    },

    /// An operation does not take this element type.
    #[error("`{op}` does not take element type {dtype}")]
    Unsupported {
        /// The operation.
        op: &'static str,
        /// The element type that came.
        dtype: DataType,
    },

    /// Two shapes do not fit each other.
    #[error("`{op}` cannot combine shapes {left:?} and {right:?}")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// The first operand's extents.
        left: Box<[usize]>,
        /// The second operand's extents.
        right: Box<[usize]>,
    },

    /// A parameter does not fit the operands.
    #[error("`{op}`: `{param}` {problem}; the operand has shape {shape:?}")]
    Param {
        /// The operation.
        op: &'static str,
        /// The parameter.
        param: &'static str,
        /// What is wrong with it.
        problem: &'static str,
        /// The operand's extents.
        shape: Box<[usize]>,
    },

    /// A parameter is of another kind than the operation's row says.
    #[error("`{op}` expected {expected} as a parameter, got {got}")]
    ParamKind {
        /// The operation.
        op: &'static str,
        /// The kind expected, in words.
        expected: &'static str,
        /// The kind that came, in words.
        got: &'static str,
    },

    /// An attribute is of another kind than the operator takes.
    #[error("attribute `{name}`: expected {expected}, got {got}")]
    AttributeKind {
        /// The attribute's name.
        name: String,
        /// The kind expected, in words.
        expected: &'static str,
        /// The kind that came, in words.
        got: &'static str,
    },

    /// An operation was given another number of tensors than it takes.
    #[error("`{op}` expected {expected}, got {got}")]
    Arity {
        /// The operation.
        op: &'static str,
        /// The number expected, in words.
        expected: &'static str,
        /// The number that came.
        got: usize,
    },

    /// The result of an operation would have more elements than memory can hold.
    #[error("`{op}`: a result with extents {shape:?} has more elements than memory can hold")]
    Overflow {
        /// The operation.
        op: &'static str,
        /// The extents.
        shape: Box<[usize]>,
    },

    /// An index lies outside the dimension it selects from.
    #[error("`{op}`: index {index} is out of range for extent {extent}")]
    Index {
        /// The operation.
        op: &'static str,
        /// The index as it came.
        index: i64,
        /// The extent it selects from.
        extent: usize,
    },

    /// An integer was divided by zero.
    #[error("`{op}`: integer division by zero")]
    DivisionByZero {
        /// The operation.
        op: &'static str,
    },

    /// A tensor would have more elements or bytes than the limit, or than an address can count.
    #[error("a tensor of {dtype} with extents {shape:?} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The element type.
        dtype: DataType,
        /// The extents.
        shape: Box<[usize]>,
        /// The limit in bytes.
        limit: usize,
    },

    /// A tensor's bytes do not match its element type and extents.
    #[error("a tensor of {dtype} with extents {shape:?} needs {expected} bytes, got {got}")]
    ByteLength {
        /// The element type.
        dtype: DataType,
        /// The extents.
        shape: Box<[usize]>,
        /// The bytes needed.
        expected: usize,
        /// The bytes that came.
        got: usize,
    },

    /// A string is no number of the element type it is cast to.
    #[error("cannot cast the string `{text}` to {to}")]
    CastText {
        /// The string, cut to 64 characters.
        text: String,
        /// The element type.
        to: DataType,
    },

    /// A truth value is neither 0 nor 1.
    #[error("element {index} of a tensor of bool is {value}; expected 0 or 1")]
    BoolByte {
        /// The element, in row-major order.
        index: usize,
        /// The byte that came.
        value: u8,
    },

    /// The offsets that divide the text of a string tensor do not rise from 0 to its end.
    #[error("offset {index} of a tensor of string is {offset}; expected a rise from 0 to {text}")]
    StringOffset {
        /// The offset's position.
        index: usize,
        /// The offset.
        offset: u64,
        /// The bytes of text.
        text: usize,
    },

    /// A string is not UTF-8.
    #[error("string {index} of a tensor is not UTF-8")]
    Utf8 {
        /// The element, in row-major order.
        index: usize,
        /// What is wrong with it.
        #[source]
        source: std::str::Utf8Error,
    },
}
