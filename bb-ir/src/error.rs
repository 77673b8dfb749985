//! Why a tensor, a graph or a frame was refused.

use crate::file::{FileKind, Format};
use crate::{DataType, LimitInfo, Limits};
use std::path::{Path, PathBuf};

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

    /// Shapes do not fit each other, whatever the extents that are not known (`?`).
    #[error("`{op}` cannot combine shapes {shapes}")]
    Dims {
        /// The operation.
        op: &'static str,
        /// The shapes.
        shapes: String,
    },

    /// A list of axes is no permutation of the dimensions.
    #[error("`perm` is {perm:?}, not a permutation of {rank} dimensions")]
    Permutation {
        /// The list as it came.
        perm: Box<[i64]>,
        /// The number of dimensions.
        rank: usize,
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

    /// A tensor would have more bytes than a limit allows, or more elements than an address can count.
    #[error("a tensor of {dtype} with extents {shape:?} {}", too_large(*.limit, *.name))]
    TooLarge {
        /// The element type.
        dtype: DataType,
        /// The extents.
        shape: Box<[usize]>,
        /// The limit in bytes; at least `isize::MAX` where nothing but the address space limits.
        limit: usize,
        /// The field of [`Limits`](crate::Limits) that sets the limit, if one does.
        name: Option<&'static str>,
    },

    /// The system has no memory for what an operation needs.
    #[error("`{op}`: no memory for {bytes} bytes")]
    Memory {
        /// The operation.
        op: &'static str,
        /// The bytes asked for.
        bytes: usize,
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

    /// A number stands for no element type.
    #[error("there is no element type {number}; ONNX numbers them from 1 to 28")]
    UnknownDataType {
        /// The number.
        number: i32,
    },

    /// A tensor has a negative extent.
    #[error("extent {extent} is negative")]
    Extent {
        /// The extent as it came.
        extent: i64,
    },

    /// Bytes are not the protobuf message they should be.
    #[error("the bytes are not {what}")]
    Decode {
        /// The message expected, in words.
        what: &'static str,
        /// Where decoding stopped.
        #[source]
        source: prost::DecodeError,
    },

    /// No limit has this name.
    #[error(
        "there is no limit `{name}`; those that there are, and their values unless told: {}",
        limit_names()
    )]
    UnknownLimit {
        /// The name.
        name: String,
    },

    /// A limit cannot have this value.
    #[error("the limit `{name}` cannot be `{value}`; expected {expected}")]
    LimitValue {
        /// The limit's name.
        name: &'static str,
        /// The value as it came.
        value: String,
        /// What a value looks like.
        expected: &'static str,
    },

    /// There is no file of this path.
    #[error("there is no file `{}`{}", .path.display(), missing_folder(.path, .missing))]
    NoFile {
        /// The path asked for.
        path: PathBuf,
        /// The first part of the path that does not exist.
        missing: PathBuf,
    },

    /// A path leads to something that is no regular file.
    #[error("`{}` is {kind}; expected a file{}", .path.display(), inside(.candidates))]
    NotFile {
        /// The path asked for.
        path: PathBuf,
        /// What it leads to.
        kind: FileKind,
        /// Models inside, if it is a folder.
        candidates: Box<[PathBuf]>,
    },

    /// A file cannot be opened, read or mapped.
    #[error("cannot read `{}`", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },

    /// The content of a file is not what it should be; the source says why.
    #[error("`{}` cannot be loaded", .path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<Error>,
    },

    /// Bytes that should be an ONNX model are in another format.
    #[error("expected an ONNX model, got {format}{}", .format.advice())]
    Format {
        /// The format.
        format: Format,
    },

    /// A model has no graph.
    #[error("the model has no graph")]
    NoGraph,

    /// A model asks for more than the limits allow.
    #[error("{what}: at most {limit} allowed{}, got {got}", by_limit(*.name))]
    Limit {
        /// What is bounded.
        what: &'static str,
        /// The field of [`Limits`](crate::Limits) that sets the limit; `None` if nothing can change it.
        name: Option<&'static str>,
        /// The limit.
        limit: usize,
        /// How many came, or were about to.
        got: usize,
    },

    /// A node is not valid; the source says why.
    #[error("node `{node}` (`{op}`) is not valid")]
    Node {
        /// The node's name, or its operator and position.
        node: String,
        /// The operator.
        op: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },

    /// Several nodes are not valid, or else something beside them; all are listed.
    #[error("{} mistakes: {problems}", .problems.0.len())]
    Several {
        /// What is wrong.
        problems: Problems,
    },

    /// A value is not valid; the source says why.
    #[error("value `{value}` is not valid")]
    Value {
        /// The value's name.
        value: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },

    /// What is declared of a value contradicts what else is known of it.
    #[error("value `{value}` is declared as {declared}, but is {found}")]
    Type {
        /// The value's name.
        value: String,
        /// The declared type.
        declared: String,
        /// The other type.
        found: String,
    },

    /// A node reads a value that no input, initializer or other node provides.
    #[error("node `{node}` reads `{value}`, which nothing provides")]
    MissingValue {
        /// The node.
        node: String,
        /// The value's name.
        value: String,
    },

    /// A graph's output is a value that nothing provides.
    #[error("the graph's output `{value}` is provided by nothing")]
    MissingOutput {
        /// The value's name.
        value: String,
    },

    /// A value is provided twice.
    #[error("`{node}` provides `{value}`, which is already provided")]
    DuplicateValue {
        /// The second provider.
        node: String,
        /// The value's name.
        value: String,
    },

    /// A node reads, by way of others, what it produces.
    #[error("node `{node}` needs its own result `{value}`")]
    Cycle {
        /// A node on the cycle.
        node: String,
        /// A value on the cycle.
        value: String,
    },

    /// A version of a domain's operators is not supported.
    #[error(
        "version {version} of the operators of domain `{}` is not supported; expected {oldest} to {newest}",
        domain_title(.domain)
    )]
    Opset {
        /// The domain; empty for ONNX's own.
        domain: String,
        /// The version imported.
        version: i64,
        /// The oldest version supported.
        oldest: i64,
        /// The newest version supported.
        newest: i64,
    },

    /// Two versions of a domain's operators are imported.
    #[error("domain `{}` is imported in version {first} and in version {second}", domain_title(.domain))]
    OpsetTwice {
        /// The domain; empty for ONNX's own.
        domain: String,
        /// One version.
        first: i64,
        /// The other.
        second: i64,
    },

    /// A node's domain is not imported.
    #[error("no version of the operators of domain `{}` is imported", domain_title(.domain))]
    NoOpset {
        /// The domain; empty for ONNX's own.
        domain: String,
    },

    /// A node names an overload of an operator, which only a model's own functions have, and the model has no such.
    #[error("the model has no function `{op}` of domain `{}` (opset {opset})", domain_title(.domain))]
    UnknownOperator {
        /// The domain; empty for ONNX's own.
        domain: String,
        /// The operator.
        op: String,
        /// The version imported.
        opset: i64,
    },

    /// Two functions of a model are called by the same name.
    #[error("function `{function}` is defined twice")]
    DuplicateFunction {
        /// The function.
        function: String,
    },

    /// A function calls itself, perhaps by way of others.
    #[error("function `{function}` calls itself")]
    Recursion {
        /// The function.
        function: String,
    },

    /// A node has another number of inputs or outputs than its operator takes.
    #[error("expected {} {what}, got {got}", range(*.least, *.most))]
    Count {
        /// What is counted.
        what: &'static str,
        /// The least number.
        least: usize,
        /// The greatest number.
        most: usize,
        /// The number that came.
        got: usize,
    },

    /// An operand that must be given is left out.
    #[error("input {input} is left out, but required")]
    LeftOut {
        /// The operand's position.
        input: usize,
    },

    /// An operator has no such attribute.
    #[error("attribute `{name}` is not one that the operator has in this version")]
    UnknownAttribute {
        /// The attribute's name.
        name: String,
    },

    /// A required attribute is missing.
    #[error("attribute `{name}` is missing; expected {expected}")]
    MissingAttribute {
        /// The attribute's name.
        name: &'static str,
        /// Its kind, in words.
        expected: &'static str,
    },

    /// A node has two attributes of one name.
    #[error("attribute `{name}` is given twice")]
    DuplicateAttribute {
        /// The attribute's name.
        name: String,
    },

    /// A reference to a function's attribute stands outside a function.
    #[error("an attribute refers to the attribute `{name}` of a function, but is in none")]
    OutsideFunction {
        /// The attribute referred to.
        name: String,
    },

    /// A subgraph has another number of inputs or outputs than its node needs.
    #[error("subgraph `{attribute}`: expected {expected} {what}, got {got}")]
    Subgraph {
        /// The attribute that holds the subgraph.
        attribute: &'static str,
        /// What is counted.
        what: &'static str,
        /// The number needed.
        expected: usize,
        /// The number that came.
        got: usize,
    },

    /// A tensor in a model cannot be read.
    #[error("cannot read tensor `{name}`")]
    InTensor {
        /// The tensor's name; empty if it has none.
        name: String,
        /// Why not.
        #[source]
        source: Box<Error>,
    },

    /// A tensor is one of several segments, which only ONNX's earliest versions had.
    #[error("the tensor is a segment of a larger one; expected all of it")]
    Segment,

    /// A tensor's elements are in no place that ONNX knows.
    #[error("unknown data location {number}; expected 0 (inside) or 1 (external)")]
    DataLocation {
        /// The number that came.
        number: i32,
    },

    /// A tensor's elements are in two fields.
    #[error("elements are in both `{first}` and `{second}`; expected one of them")]
    TwoDataFields {
        /// One field.
        first: &'static str,
        /// The other.
        second: &'static str,
    },

    /// A field does not take elements of this type.
    #[error("elements of {dtype} cannot be in `{field}`")]
    DataField {
        /// The element type.
        dtype: DataType,
        /// The field that has something.
        field: &'static str,
    },

    /// A field has another number of entries than the extents ask for.
    #[error("a tensor of {dtype} with extents {shape:?} needs {expected} entries in `{field}`, got {got}")]
    ElementCount {
        /// The element type.
        dtype: DataType,
        /// The extents.
        shape: Box<[usize]>,
        /// The field.
        field: &'static str,
        /// The entries needed.
        expected: usize,
        /// The entries that came.
        got: usize,
    },

    /// An entry of a field is no element of the tensor's type.
    #[error("entry {index} of `{field}` is {value}, which is no {dtype}")]
    DataValue {
        /// The field.
        field: &'static str,
        /// The entry.
        index: usize,
        /// Its value.
        value: i128,
        /// The element type.
        dtype: DataType,
    },

    /// The values and the indices of a sparse tensor do not fit each other.
    #[error("sparse values with extents {values:?} do not fit indices with extents {indices:?}")]
    SparseShapes {
        /// The extents of the values.
        values: Box<[usize]>,
        /// The extents of the indices.
        indices: Box<[usize]>,
    },

    /// An index of a sparse tensor is out of range or not greater than the one before.
    #[error("sparse index {position} is out of range or does not ascend")]
    SparseIndex {
        /// The index's position.
        position: usize,
    },

    /// A tensor lies in a file, and no folder was given to look in.
    #[error("elements lie in the file `{location}`, but no folder was given")]
    NoExternalFolder {
        /// The location as it came.
        location: String,
    },

    /// A location of external data leads out of the folders in which it may lie.
    #[error(
        "external data `{location}` leads to `{}`, which is in no folder that is allowed: {}; \
         the limit `external_folders` allows others",
        .resolved.display(), paths(.allowed)
    )]
    ExternalPath {
        /// The location as it came, cut to 256 characters.
        location: String,
        /// What it leads to.
        resolved: PathBuf,
        /// The folders that are allowed, each with all that is below it.
        allowed: Box<[PathBuf]>,
    },

    /// A location of external data leads to something that is no regular file.
    #[error("external data `{location}` leads to `{}`, which is {kind}; expected a file", .resolved.display())]
    ExternalKind {
        /// The location as it came, cut to 256 characters.
        location: String,
        /// What it leads to.
        resolved: PathBuf,
        /// What that is.
        kind: FileKind,
    },

    /// There is no file at a location of external data.
    #[error("external data `{location}` does not exist in {}{}", paths(.folders), other_case(.similar))]
    ExternalMissing {
        /// The location as it came, cut to 256 characters.
        location: String,
        /// The folders that were looked in.
        folders: Box<[PathBuf]>,
        /// A file there whose name differs in the case of letters only.
        similar: Option<Box<str>>,
    },

    /// External data was replaced by something else while it was opened.
    #[error("external data `{location}` was replaced by something else while it was opened")]
    ExternalReplaced {
        /// The location as it came, cut to 256 characters.
        location: String,
    },

    /// A key of external data has a value that cannot be read, or comes twice.
    #[error("external data has `{key}` = `{value}`; expected a number of bytes, once")]
    ExternalKey {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },

    /// A range of external data is not in the file, or not what the tensor needs.
    #[error(
        "external data `{location}` has {file} bytes; cannot take {length} at {offset} where {needed} are needed"
    )]
    ExternalRange {
        /// The location.
        location: String,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The bytes in the file.
        file: u64,
        /// The bytes that the tensor needs.
        needed: u64,
    },

    /// A file of external data has another digest than the model says.
    #[error("external data `{location}` has the SHA-1 digest {got}; expected `{expected}`")]
    ExternalChecksum {
        /// The location.
        location: String,
        /// The digest in the model.
        expected: String,
        /// The digest of the file.
        got: String,
    },

    /// A file of external data cannot be opened or read.
    #[error("cannot read external data `{location}`")]
    ExternalIo {
        /// The location.
        location: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },

    /// The bytes do not start as a frame does.
    #[error("not a frame: the magic number is missing")]
    FrameMagic,

    /// A frame is of another version of the format.
    #[error("the frame has version {got}; expected {expected}")]
    FrameVersion {
        /// The version that can be read.
        expected: u16,
        /// The version that came.
        got: u16,
    },

    /// A frame has flags that mean nothing in its version.
    #[error("the frame has flags {got:#06x}; expected none but bit 0")]
    FrameFlags {
        /// The flags that came.
        got: u16,
    },

    /// A frame's header has more bytes than allowed, or than its content.
    #[error("the frame's header has {got} bytes; expected at most {limit}")]
    FrameHeaderLength {
        /// The most bytes possible.
        limit: usize,
        /// The bytes that came.
        got: usize,
    },

    /// A frame's header cannot be written or read.
    #[error("the frame's header is malformed")]
    FrameHeader {
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },

    /// Bytes follow a frame where it should be alone.
    #[error("the frame has {got} bytes; expected {expected}")]
    FrameLength {
        /// The bytes that it says it has.
        expected: u64,
        /// The bytes that came.
        got: u64,
    },

    /// The bytes end within a frame.
    #[error("the frame ends after {got} bytes; expected at least {expected}")]
    FrameEnd {
        /// The bytes that it has, or those up to its elements where its header did not come.
        expected: u64,
        /// The bytes that came.
        got: u64,
    },

    /// A frame on a stream is longer than its reader allows.
    #[error("the frame of `{name}` has {got} bytes; this reader allows {limit}")]
    FrameTooLong {
        /// The declared name of its type.
        name: String,
        /// The most bytes allowed.
        limit: usize,
        /// The bytes that the frame says it has.
        got: u64,
    },

    /// A stream of frames cannot be read or written.
    #[error("the stream of frames failed")]
    FrameIo {
        /// Why.
        #[source]
        source: std::io::Error,
    },

    /// A part of a frame was damaged.
    #[error("the {part} of the frame has checksum {got:#010x}; expected {expected:#010x}")]
    FrameChecksum {
        /// `header` or `elements`.
        part: &'static str,
        /// The checksum in the frame.
        expected: u32,
        /// The checksum of what came.
        got: u32,
    },

    /// The bytes between a frame's header and its elements are not zero.
    #[error("the frame's padding is not zero")]
    FramePadding,

    /// A frame holds another type than expected, or than its element type says.
    #[error("the frame holds {}; expected {}", declared(*.got), declared(*.expected))]
    FrameType {
        /// The hash expected.
        expected: u64,
        /// The hash in the frame.
        got: u64,
    },

    /// A frame has an extent that an address cannot count.
    #[error("the frame has extent {got}; expected at most {}", usize::MAX)]
    FrameExtent {
        /// The extent that came.
        got: u64,
    },

    /// Two names of types have the same hash, so frames could not be told apart.
    #[error("the type names `{first}` and `{second}` have the same hash {hash:#018x}")]
    HashCollision {
        /// The hash.
        hash: u64,
        /// One name.
        first: String,
        /// The other.
        second: String,
    },

    /// Bytes are no `.npy` file.
    #[error("not a readable .npy file: {problem}")]
    Npy {
        /// What is wrong.
        problem: &'static str,
    },

    /// An `.npy` file has elements of a type without counterpart.
    #[error("the .npy type `{descr}` has no counterpart; expected a number, a truth value or a string")]
    NpyType {
        /// The type as NumPy describes it, cut to 64 characters.
        descr: String,
    },
}

/// What is wrong with a model, in the order in which it was found.
#[derive(Debug)]
pub struct Problems(pub Vec<Error>);

/// How many problems a message lists; more are counted.
const LISTED: usize = 50;

impl std::fmt::Display for Problems {
    /// Each with its causes, which the error as a whole cannot have as its one source.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for problem in self.0.iter().take(LISTED) {
            write!(f, "\n  {problem}")?;
            let mut cause = std::error::Error::source(problem);
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        match self.0.len().checked_sub(LISTED) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\n  and {more} more"),
        }
    }
}

impl Error {
    /// Makes one error of several; a single one stays as it is.
    pub(crate) fn all(mut problems: Vec<Error>) -> Error {
        match (problems.len(), problems.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                problems.extend(last);
                Error::Several { problems: Problems(problems) }
            }
        }
    }

    /// Tells whether the error is about one node, so that others can still be looked at.
    pub(crate) fn is_of_one_node(&self) -> bool {
        match self {
            Error::MissingValue { .. } => true,
            Error::Node { source, .. } => matches!(
                **source,
                Error::UnknownOperator { .. }
                    | Error::NoOpset { .. }
                    | Error::Count { .. }
                    | Error::LeftOut { .. }
                    | Error::UnknownAttribute { .. }
                    | Error::AttributeKind { .. }
                    | Error::MissingAttribute { .. }
                    | Error::DuplicateAttribute { .. }
                    | Error::OutsideFunction { .. }
                    | Error::Subgraph { .. }
            ),
            _ => false,
        }
    }
}

/// A domain as users write it: ONNX's own is `ai.onnx`.
fn domain_title(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// A range of counts in words.
fn range(least: usize, most: usize) -> String {
    match (least, most) {
        (_, usize::MAX) => format!("at least {least}"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// Names a type by its hash, if its name is known.
fn declared(hash: u64) -> String {
    match crate::wire::element_type(hash) {
        Some(dtype) => format!("`{}`", crate::wire::type_name(dtype)),
        None => format!("a type that is not declared here (hash {hash:#018x})"),
    }
}

/// What is wrong with a tensor's size in words.
fn too_large(limit: usize, name: Option<&str>) -> String {
    if limit >= isize::MAX as usize {
        return "has more elements than an address can count".to_owned();
    }
    format!("is larger than {limit} bytes, the limit{}", name.map(|n| format!(" `{n}`")).unwrap_or_default())
}

/// The limit's name in words, if it has one.
fn by_limit(name: Option<&str>) -> String {
    name.map(|name| format!(" by the limit `{name}`")).unwrap_or_default()
}

fn limit_names() -> String {
    let text = |limit: &LimitInfo| match limit.default() {
        default if default.is_empty() => format!("`{}`", limit.name),
        default => format!("`{}` ({default})", limit.name),
    };
    Limits::all().iter().map(text).collect::<Vec<_>>().join(", ")
}

fn paths(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    names.join(", ")
}

/// Says which folder on the way to a file is missing, if one is.
fn missing_folder(path: &Path, missing: &Path) -> String {
    if path == missing { String::new() } else { format!(": there is no folder `{}`", missing.display()) }
}

fn inside(models: &[PathBuf]) -> String {
    if models.is_empty() { String::new() } else { format!(", such as {} inside", paths(models)) }
}

fn other_case(similar: &Option<Box<str>>) -> String {
    similar.as_ref().map(|name| format!("; there is `{name}`, in other letters")).unwrap_or_default()
}
