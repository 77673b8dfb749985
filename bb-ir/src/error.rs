//! The error type of this crate: the reasons why a tensor, a graph or a frame is refused.

mod kind;
pub(crate) mod limit_option;
mod message;
mod problems;

pub use kind::ErrorKind;
pub use message::ADDRESSABLE;
pub use problems::Problems;

use crate::DataType;
use crate::format::{FileKind, Format};
use crate::text::{listed, sentence, shown};
use limit_option::option;
pub(crate) use message::domain_title;
use message::{
    alternatives, axes, by_limit, declared, inside, meant_limit, missing_folder, other_case, paths, range,
    searched, too_large,
};
use std::path::PathBuf;

/// An error of any type; the source of other errors.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a tensor, a graph or a frame is refused.
///
/// The variants are in the order of a model's life cycle: it is read, checked, run, and sent or saved. Shapes are
/// boxed, so that a `Result` stays small.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Limits of readers and operations, and the options that set them.
    /// No limit has this name.
    #[error("there is no limit `{name}`{}; the limits and their default values are: {known}", meant_limit(.nearest), name = option(shown(.name)))]
    UnknownLimit {
        /// The name.
        name: String,
        /// The most similar name of a limit.
        nearest: Option<String>,
        /// The limits with their default values.
        known: String,
    },

    /// A limit bounds the loading of models, and another library loads them.
    #[error(
        "the limit `{}` bounds the loading of models, which {loader} does here; the limits on runs and their default values are: {known}",
        option(.name)
    )]
    LoadingLimit {
        /// The name of the limit.
        name: &'static str,
        /// The library that loads models.
        loader: &'static str,
        /// The limits on runs with their default values.
        known: String,
    },

    /// A value of a limit is invalid.
    #[error("the limit `{}` cannot be `{value}`; expected {expected}", option(.name), value = shown(.value))]
    LimitValue {
        /// The name of the limit.
        name: &'static str,
        /// The invalid value.
        value: String,
        /// The expected format.
        expected: &'static str,
    },

    /// A model exceeds a limit.
    #[error("{what}: at most {limit} allowed{}, got {got}", by_limit(*.name))]
    Limit {
        /// The quantity that the limit counts.
        what: &'static str,
        /// The field of [`Limits`](crate::Limits) that sets the limit; `None` if it cannot be changed.
        name: Option<&'static str>,
        /// The limit.
        limit: usize,
        /// The counted number. Counting may stop at the first number that exceeds the limit.
        got: usize,
    },

    /// A tensor would exceed a limit in bytes, or its number of elements would exceed the address space.
    #[error("a tensor of {dtype} with extents {shape:?} {}", too_large(*.limit, *.name))]
    TooLarge {
        /// The element type.
        dtype: DataType,
        /// The shape.
        shape: Box<[usize]>,
        /// The limit in bytes. It is at least `isize::MAX` if the address space is the only limit.
        limit: usize,
        /// The field of [`Limits`](crate::Limits) that sets the limit; `None` if no field does.
        name: Option<&'static str>,
    },

    /// The system does not have enough memory for an operation.
    #[error("`{op}`: no memory for {bytes} bytes")]
    Memory {
        /// The operation.
        op: &'static str,
        /// The number of bytes that were requested.
        bytes: usize,
    },

    // Files: their paths and their contents.
    /// A path leads to no file.
    #[error("there is no file `{}`{}", sentence(.path.display()), missing_folder(.path, .missing))]
    NoFile {
        /// The path.
        path: PathBuf,
        /// The first part of the path that does not exist.
        missing: PathBuf,
    },

    /// A path leads to something that is not a regular file.
    #[error("`{}` is {kind}; expected a file{}", sentence(.path.display()), inside(.candidates))]
    NotFile {
        /// The path.
        path: PathBuf,
        /// The kind of file at the path.
        kind: FileKind,
        /// Models in the folder, if the path leads to a folder.
        candidates: Box<[PathBuf]>,
    },

    /// A file cannot be opened, read or mapped.
    #[error("cannot read `{}`", sentence(.path.display()))]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },

    /// The content of a file is invalid; the source says why.
    #[error("`{}` cannot be loaded", sentence(.path.display()))]
    InFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: Box<Error>,
    },

    /// Bytes cannot be decoded as the expected protobuf message.
    #[error("the bytes are not {what}")]
    Decode {
        /// The expected message, as text.
        what: &'static str,
        /// Where decoding stopped.
        #[source]
        source: prost::DecodeError,
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

    /// The bytes are not an `.npy` file.
    #[error("not a readable .npy file: {problem}")]
    Npy {
        /// The problem.
        problem: &'static str,
    },

    /// An `.npy` file has an element type that ONNX lacks.
    #[error("ONNX has no type like the .npy type `{descr}`; expected a number, a truth value or a string", descr = shown(.descr))]
    NpyType {
        /// The type as NumPy describes it, cut to 64 characters.
        descr: String,
    },

    // Check: the graph that a model describes.
    /// Several errors, most of them invalid nodes.
    #[error("{} mistakes: {problems}", .problems.0.len())]
    Several {
        /// The errors.
        problems: Problems,
    },

    /// A node is not valid; the source says why.
    #[error("node `{node}` (`{op}`) is not valid", node = shown(.node), op = shown(.op))]
    Node {
        /// The label of the node: its name, or the name of its first result if it has no name.
        node: String,
        /// The operator.
        op: String,
        /// The reason.
        #[source]
        source: Box<Error>,
    },

    /// A value is not valid; the source says why.
    #[error("value `{value}` is not valid", value = shown(.value))]
    Value {
        /// The name of the value.
        value: String,
        /// The reason.
        #[source]
        source: Box<Error>,
    },

    /// The declared type of a value contradicts its other known types.
    #[error("value `{value}` is declared as {declared}, but is {found}", value = shown(.value), declared = sentence(.declared), found = sentence(.found))]
    Type {
        /// The name of the value.
        value: String,
        /// The declared type.
        declared: String,
        /// The other type.
        found: String,
    },

    /// A caller passes an extent for a symbolic dimension that no input has.
    #[error("no input has a symbolic dimension `{name}`; those that there are: {known}", name = shown(.name), known = listed(.known))]
    UnknownDim {
        /// The name that the caller passed.
        name: String,
        /// The names of the symbolic dimensions that the inputs have.
        known: Vec<String>,
    },

    /// A tensor has another type or shape than the constant that it replaces.
    #[error(
        "constant `{name}` is {}{dims:?}; the tensor for it is {got}{shape:?}",
        dtype.map_or("of no type", DataType::name),
        name = shown(.name)
    )]
    OtherConstant {
        /// The constant.
        name: String,
        /// Its type, if it has one.
        dtype: Option<DataType>,
        /// Its extents, as the model has them.
        dims: Vec<i64>,
        /// The type of the tensor.
        got: DataType,
        /// The extents of the tensor.
        shape: Box<[usize]>,
    },

    /// A node reads a value that no input, initializer or other node provides.
    #[error("node `{node}` reads `{value}`, which nothing provides", node = shown(.node), value = shown(.value))]
    MissingValue {
        /// The node.
        node: String,
        /// The name of the value.
        value: String,
    },

    /// Nothing provides a graph's output.
    #[error("nothing provides the graph's output `{value}`", value = shown(.value))]
    MissingOutput {
        /// The name of the value.
        value: String,
    },

    /// A value is provided twice.
    #[error("`{node}` provides `{value}`, which is already provided", node = shown(.node), value = shown(.value))]
    DuplicateValue {
        /// The second provider.
        node: String,
        /// The name of the value.
        value: String,
    },

    /// A node reads its own result, possibly through other nodes.
    #[error("node `{node}` needs its own result `{value}`", node = shown(.node), value = shown(.value))]
    Cycle {
        /// A node on the cycle.
        node: String,
        /// A value on the cycle.
        value: String,
    },

    /// A version of a domain's operators is not supported.
    #[error(
        "version {version} of the operators of domain `{}` is not supported; expected {oldest} to {newest}",
        shown(domain_title(.domain))
    )]
    Opset {
        /// The domain; empty for ONNX's own domain.
        domain: String,
        /// The imported version.
        version: i64,
        /// The oldest supported version.
        oldest: i64,
        /// The newest supported version.
        newest: i64,
    },

    /// Two versions of a domain's operators are imported.
    #[error("domain `{}` is imported in version {first} and in version {second}", shown(domain_title(.domain)))]
    OpsetTwice {
        /// The domain; empty for ONNX's own domain.
        domain: String,
        /// The first version.
        first: i64,
        /// The second version.
        second: i64,
    },

    /// A node's domain is not imported.
    #[error("no version of the operators of domain `{}` is imported", shown(domain_title(.domain)))]
    NoOpset {
        /// The domain; empty for ONNX's own domain.
        domain: String,
    },

    /// A node names an overload of an operator, and the model has no function of this name. Only functions of a model
    /// have overloads.
    #[error("the model has no function `{op}` of domain `{}` (opset {opset})", shown(domain_title(.domain)), op = shown(.op))]
    UnknownOperator {
        /// The domain; empty for ONNX's own domain.
        domain: String,
        /// The operator.
        op: String,
        /// The imported version.
        opset: i64,
    },

    /// Two functions of a model have the same identity.
    #[error("function `{function}` is defined twice", function = shown(.function))]
    DuplicateFunction {
        /// The function.
        function: String,
    },

    /// A function calls itself, possibly through other functions.
    #[error("function `{function}` calls itself", function = shown(.function))]
    Recursion {
        /// The function.
        function: String,
    },

    /// A node has another number of inputs or outputs than its operator takes.
    #[error("expected {} {what}, got {got}", range(*.least, *.most))]
    Count {
        /// The counted items: inputs or outputs.
        what: &'static str,
        /// The minimum number.
        least: usize,
        /// The maximum number.
        most: usize,
        /// The number that the node has.
        got: usize,
    },

    /// A required operand is absent.
    #[error("input {input} is required, but absent")]
    LeftOut {
        /// The index of the operand.
        input: usize,
    },

    /// The operator does not have an attribute of this name.
    #[error("attribute `{name}` is not one that the operator has in this version", name = shown(.name))]
    UnknownAttribute {
        /// The name of the attribute.
        name: String,
    },

    /// A required attribute is missing.
    #[error("attribute `{name}` is missing; expected {expected}")]
    MissingAttribute {
        /// The name of the attribute.
        name: &'static str,
        /// Its kind, as text.
        expected: &'static str,
    },

    /// A node has two attributes with the same name.
    #[error("attribute `{name}` is given twice", name = shown(.name))]
    DuplicateAttribute {
        /// The name of the attribute.
        name: String,
    },

    /// An attribute has another kind than the operator needs.
    #[error("attribute `{name}`: expected {expected}, got {got}", name = shown(.name))]
    AttributeKind {
        /// The name of the attribute.
        name: String,
        /// The expected kind, as text.
        expected: &'static str,
        /// The given kind, as text.
        got: &'static str,
    },

    /// A reference to an attribute of a function occurs outside of a function.
    #[error("an attribute outside of functions refers to the function attribute `{name}`", name = shown(.name))]
    OutsideFunction {
        /// The name of the attribute.
        name: String,
    },

    /// A subgraph has another number of inputs or outputs than its node needs.
    #[error("subgraph `{attribute}`: expected {expected} {what}, got {got}")]
    Subgraph {
        /// The attribute that contains the subgraph.
        attribute: &'static str,
        /// The counted items.
        what: &'static str,
        /// The expected number.
        expected: usize,
        /// The number that the subgraph has.
        got: usize,
    },

    // Inference and calls: operands and parameters of an operation.
    /// An axis is out of range for a tensor's rank.
    #[error("axis {axis} is out of range for rank {rank}{}", axes(*.rank))]
    Axis {
        /// The invalid axis.
        axis: i64,
        /// The tensor's rank.
        rank: usize,
    },

    /// A tensor has another element type than expected.
    #[error("expected element type {expected}, got {got}")]
    DataType {
        /// The expected element type.
        expected: DataType,
        /// The element type of the tensor.
        got: DataType,
    },

    /// An operation does not support this element type.
    #[error("`{op}` does not take element type {dtype}")]
    Unsupported {
        /// The operation.
        op: &'static str,
        /// The element type of the operand.
        dtype: DataType,
    },

    /// An operation takes elements of other types.
    #[error("`{op}` takes elements of {}, got {got}", alternatives(.expected))]
    ElementType {
        /// The operation.
        op: &'static str,
        /// The element types that it takes.
        expected: &'static [DataType],
        /// The element type of the operand.
        got: DataType,
    },

    /// An operand that takes other element types than the rest (the condition of `where`) has another type.
    #[error("`{op}`: `{operand}` has elements of {got}, expected {}", alternatives(.expected))]
    OperandType {
        /// The operation.
        op: &'static str,
        /// The name of the operand.
        operand: &'static str,
        /// The element types that the operand may have.
        expected: &'static [DataType],
        /// The element type of the operand.
        got: DataType,
    },

    /// Two operands of an operation have different element types, which must agree.
    #[error(
        "`{op}`: `{operand}` has elements of {got}, expected {expected} like `{first}`; cast one of them"
    )]
    MixedTypes {
        /// The operation.
        op: &'static str,
        /// The name of the first operand.
        first: Box<str>,
        /// The element type of the first operand.
        expected: DataType,
        /// The name of the operand with another type; in a list, with its index, as in `xs[1]`.
        operand: Box<str>,
        /// The element type of this operand.
        got: DataType,
    },

    /// Two shapes do not fit each other.
    #[error("`{op}` cannot combine shapes {left:?} and {right:?}")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// The shape of the first operand.
        left: Box<[usize]>,
        /// The shape of the second operand.
        right: Box<[usize]>,
    },

    /// Shapes do not fit each other for any value of the unknown extents (`?`).
    #[error("`{op}` cannot combine shapes {shapes}", shapes = sentence(.shapes))]
    Dims {
        /// The operation.
        op: &'static str,
        /// The shapes.
        shapes: String,
    },

    /// The inner extents of a matrix product differ.
    #[error(
        "{shapes}: the first has {columns} columns and the second has {rows} rows, expected equal numbers",
        columns = shown(.columns),
        rows = shown(.rows)
    )]
    InnerExtents {
        /// The error with the shapes: [`Shapes`](Error::Shapes) or [`Dims`](Error::Dims).
        shapes: Box<Error>,
        /// The number of columns of the first operand; the only extent of a vector.
        columns: String,
        /// The number of rows of the second operand; the only extent of a vector.
        rows: String,
    },

    /// A list of axes is not a permutation of the dimensions.
    #[error("`perm` is {perm:?}, not a permutation of {rank} dimensions")]
    Permutation {
        /// The list of axes.
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
        /// The problem of the parameter.
        problem: &'static str,
        /// The shape of the operand.
        shape: Box<[usize]>,
    },

    /// A parameter has another kind than the operation's row in the op table requires.
    #[error("`{op}` expected {expected} as a parameter, got {got}")]
    ParamKind {
        /// The operation.
        op: &'static str,
        /// The expected kind, as text.
        expected: &'static str,
        /// The given kind, as text.
        got: &'static str,
    },

    /// A parameter is not one of the words that the operation takes.
    #[error("`{op}`: expected {expected}, got `{got}`", got = shown(.got))]
    Word {
        /// The operation.
        op: &'static str,
        /// The words.
        expected: &'static str,
        /// The value of the parameter.
        got: Box<str>,
    },

    /// An operation got another number of tensors than it takes.
    #[error("`{op}` expected {expected}, got {got}")]
    Arity {
        /// The operation.
        op: &'static str,
        /// The expected number, as text.
        expected: &'static str,
        /// The given number.
        got: usize,
    },

    /// The result of an operation would have more elements than fit in memory.
    #[error("`{op}`: a result with extents {shape:?} has more elements than memory can hold")]
    Overflow {
        /// The operation.
        op: &'static str,
        /// The shape of the result.
        shape: Box<[usize]>,
    },

    /// An index is out of range for the dimension that it selects from.
    #[error("`{op}`: index {index} is out of range for extent {extent}")]
    Index {
        /// The operation.
        op: &'static str,
        /// The given index.
        index: i64,
        /// The extent of the dimension.
        extent: usize,
    },

    /// An integer was divided by zero.
    #[error("`{op}`: integer division by zero")]
    DivisionByZero {
        /// The operation.
        op: &'static str,
    },

    /// A string is not a number of the element type that it is cast to.
    #[error("cannot cast the string `{text}` to {to}", text = sentence(.text))]
    CastText {
        /// The string, cut to 64 characters.
        text: String,
        /// The element type.
        to: DataType,
    },

    // Tensors: invalid elements and layouts.
    /// The bytes of a tensor do not match its element type and shape.
    #[error("a tensor of {dtype} with extents {shape:?} needs {expected} bytes, got {got}")]
    ByteLength {
        /// The element type.
        dtype: DataType,
        /// The shape.
        shape: Box<[usize]>,
        /// The number of bytes needed.
        expected: usize,
        /// The given number of bytes.
        got: usize,
    },

    /// A boolean is neither 0 nor 1.
    #[error("element {index} of a tensor of bool is {value}; expected 0 or 1")]
    BoolByte {
        /// The index of the element, in row-major order.
        index: usize,
        /// The given byte.
        value: u8,
    },

    /// The offsets of a string tensor do not ascend from 0 to the length of the text.
    #[error("offset {index} of a tensor of string is {offset}; expected ascending offsets from 0 to {text}")]
    StringOffset {
        /// The index of the offset.
        index: usize,
        /// The offset.
        offset: u64,
        /// The length of all strings together, in bytes.
        text: usize,
    },

    /// No element type has this number.
    #[error("there is no element type {number}; ONNX numbers them from 1 to 28")]
    UnknownDataType {
        /// The number.
        number: i32,
    },

    /// A tensor has an extent that is negative or exceeds the address space.
    #[error("extent {extent} is {}", if *extent < 0 { "negative" } else { "more than an address holds" })]
    Extent {
        /// The given extent.
        extent: i64,
    },

    /// A tensor in a model cannot be read.
    #[error("cannot read tensor `{name}`", name = shown(.name))]
    InTensor {
        /// The name of the tensor; empty if it has none.
        name: String,
        /// The reason.
        #[source]
        source: Box<Error>,
    },

    /// A tensor is a segment of a larger one. Only ONNX's earliest versions had segments.
    #[error("the tensor is a segment of a larger one; expected all of it")]
    Segment,

    /// A model states an unknown location for a tensor's elements.
    #[error("unknown data location {number}; expected 0 (inside) or 1 (external)")]
    DataLocation {
        /// The number of the location.
        number: i32,
    },

    /// A tensor's elements are in two fields.
    #[error("elements are in both `{first}` and `{second}`; expected one of them")]
    TwoDataFields {
        /// The first field.
        first: &'static str,
        /// The second field.
        second: &'static str,
    },

    /// A field cannot hold elements of this type.
    #[error("elements of {dtype} cannot be in `{field}`")]
    DataField {
        /// The element type.
        dtype: DataType,
        /// The field that is not empty.
        field: &'static str,
    },

    /// The number of entries of a field does not match the shape.
    #[error("a tensor of {dtype} with extents {shape:?} needs {expected} entries in `{field}`, got {got}")]
    ElementCount {
        /// The element type.
        dtype: DataType,
        /// The shape.
        shape: Box<[usize]>,
        /// The field.
        field: &'static str,
        /// The number of entries needed.
        expected: usize,
        /// The number of entries in the field.
        got: usize,
    },

    /// An entry of a field is not an element of the tensor's type.
    #[error("entry {index} of `{field}` is {value}, which is not a value of {dtype}")]
    DataValue {
        /// The field.
        field: &'static str,
        /// The index of the entry.
        index: usize,
        /// The value of the entry.
        value: i128,
        /// The element type.
        dtype: DataType,
    },

    /// The values and the indices of a sparse tensor do not fit each other.
    #[error("sparse values with extents {values:?} do not fit indices with extents {indices:?}")]
    SparseShapes {
        /// The shape of the values.
        values: Box<[usize]>,
        /// The shape of the indices.
        indices: Box<[usize]>,
    },

    /// An index of a sparse tensor is out of range, or not greater than the previous index.
    #[error("sparse index {position} is out of range or does not ascend")]
    SparseIndex {
        /// The position of the index in the list of indices.
        position: usize,
    },

    // External data: tensor elements in separate files.
    /// The elements of a tensor are in a file, but the caller passed no folder for external data.
    #[error("elements lie in the file `{location}`, but no folder was given", location = shown(.location))]
    NoExternalFolder {
        /// The location in the model.
        location: String,
    },

    /// A location of external data leads out of the allowed folders.
    #[error(
        "external data `{location}` leads to `{}`, which is in no folder that is allowed: {}; \
         the limit `external_folders` allows others",
        sentence(.resolved.display()), paths(.allowed), location = shown(.location)
    )]
    ExternalPath {
        /// The location in the model, cut to 256 characters.
        location: String,
        /// The path that it leads to.
        resolved: PathBuf,
        /// The allowed folders, including everything below them.
        allowed: Box<[PathBuf]>,
    },

    /// A location of external data leads to something that is not a regular file.
    #[error("external data `{location}` leads to `{}`, which is {kind}; expected a file", sentence(.resolved.display()), location = shown(.location))]
    ExternalKind {
        /// The location in the model, cut to 256 characters.
        location: String,
        /// The path that it leads to.
        resolved: PathBuf,
        /// The kind of file that it leads to.
        kind: FileKind,
    },

    /// There is no file at a location of external data.
    #[error("external data `{location}` does not exist in {}{}", searched(.folders), other_case(.similar), location = shown(.location))]
    ExternalMissing {
        /// The location in the model, cut to 256 characters.
        location: String,
        /// The folders that were searched; none if the data came from memory.
        folders: Box<[PathBuf]>,
        /// A file there whose name only differs in upper and lower case.
        similar: Option<Box<str>>,
    },

    /// External data was replaced by something else while it was opened.
    #[error("external data `{location}` was replaced by something else while it was opened", location = shown(.location))]
    ExternalReplaced {
        /// The location in the model, cut to 256 characters.
        location: String,
    },

    /// A key of external data has an invalid value, or occurs twice.
    #[error("external data has `{key}` = `{value}`; expected a number of bytes, once", key = shown(.key), value = shown(.value))]
    ExternalKey {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },

    /// A tensor that the caller passed instead of external data does not have the type and shape that the graph
    /// declares.
    #[error("the tensor that was given is {got}{found:?}, expected {expected}{shape:?}")]
    ExternalTensor {
        /// The element type in the graph.
        expected: DataType,
        /// The extents in the graph.
        shape: Box<[usize]>,
        /// The element type of the tensor.
        got: DataType,
        /// The extents of the tensor.
        found: Box<[usize]>,
    },

    /// A range of external data is not in the file, or has another length than the tensor needs.
    #[error(
        "external data `{location}` has {file} bytes; cannot take {length} at {offset} where {needed} are needed", location = shown(.location)
    )]
    ExternalRange {
        /// The location.
        location: String,
        /// The offset of the first byte.
        offset: u64,
        /// The length of the range in bytes.
        length: u64,
        /// The size of the file in bytes.
        file: u64,
        /// The number of bytes that the tensor needs.
        needed: u64,
    },

    /// A file of external data has another digest than the model states.
    #[error("external data `{location}` has the SHA-1 digest {got}; expected `{expected}`", location = shown(.location), expected = sentence(.expected), got = sentence(.got))]
    ExternalChecksum {
        /// The location.
        location: String,
        /// The digest in the model.
        expected: String,
        /// The digest of the file.
        got: String,
    },

    /// A file of external data cannot be opened or read.
    #[error("cannot read external data `{location}`", location = shown(.location))]
    ExternalIo {
        /// The location.
        location: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },

    // Wire: frames that hold one tensor.
    /// The bytes do not begin with the magic number of a frame.
    #[error("not a frame: the magic number is missing")]
    FrameMagic,

    /// A frame has another version of the format.
    #[error("the frame has version {got}; expected {expected}")]
    FrameVersion {
        /// The supported version.
        expected: u16,
        /// The version of the frame.
        got: u16,
    },

    /// A frame has unknown flags.
    #[error("the frame has flags {got:#06x}; expected no flag other than bit 0")]
    FrameFlags {
        /// The flags of the frame.
        got: u16,
    },

    /// A frame's header is longer than allowed, or longer than its content.
    #[error("the frame's header has {got} bytes; expected at most {limit}")]
    FrameHeaderLength {
        /// The maximum length in bytes.
        limit: usize,
        /// The length of the header in bytes.
        got: usize,
    },

    /// A frame's header cannot be encoded or decoded.
    #[error("the frame's header is malformed")]
    FrameHeader {
        /// The problem.
        #[source]
        source: BoxError,
    },

    /// Other bytes follow the end of a frame.
    #[error("the frame has {got} bytes; expected {expected}")]
    FrameLength {
        /// The length that the frame states.
        expected: u64,
        /// The number of bytes given.
        got: u64,
    },

    /// The bytes end within a frame.
    #[error("the frame ends after {got} bytes; expected at least {expected}")]
    FrameEnd {
        /// The length of the frame; if its header is incomplete, the length up to its elements.
        expected: u64,
        /// The number of bytes given.
        got: u64,
    },

    /// A frame on a stream exceeds the limit of the reader.
    #[error("the frame of `{name}` has {got} bytes; this reader allows {limit}", name = shown(.name))]
    FrameTooLong {
        /// The declared name of its type.
        name: String,
        /// The limit in bytes.
        limit: usize,
        /// The length that the frame states.
        got: u64,
    },

    /// A stream of frames cannot be read or written.
    #[error("the stream of frames failed")]
    FrameIo {
        /// The reason.
        #[source]
        source: std::io::Error,
    },

    /// A part of a frame is damaged.
    #[error(
        "the frame is damaged: the checksum of its {part} is {got:#010x}, and it states {expected:#010x}"
    )]
    FrameChecksum {
        /// `header` or `elements`.
        part: &'static str,
        /// The checksum in the frame.
        expected: u32,
        /// The checksum of the given bytes.
        got: u32,
    },

    /// The bytes between a frame's header and its elements are not zero.
    #[error("the frame's padding is not zero")]
    FramePadding,

    /// A frame has a type other than the expected one, or its type hash contradicts its element type.
    #[error("the frame holds {}; expected {}", declared(*.got), declared(*.expected))]
    FrameType {
        /// The expected hash.
        expected: u64,
        /// The hash in the frame.
        got: u64,
    },

    /// A frame has an extent that exceeds the address space.
    #[error("the frame has extent {got}; expected at most {}", usize::MAX)]
    FrameExtent {
        /// The extent in the frame.
        got: u64,
    },

    /// Two type names have the same hash, so that their frames could not be distinguished.
    #[error("the type names `{first}` and `{second}` have the same hash {hash:#018x}", first = shown(.first), second = shown(.second))]
    HashCollision {
        /// The hash.
        hash: u64,
        /// The first name.
        first: String,
        /// The second name.
        second: String,
    },

    // Compiled models.
    /// The bytes do not begin with the magic number of a compiled model.
    #[error("not a compiled model: the magic number is missing")]
    SavedMagic,

    /// A compiled model has another version of the format.
    #[error("the compiled model has version {got} of the format; expected {expected}")]
    SavedVersion {
        /// The supported version.
        expected: u16,
        /// The version of the file.
        got: u16,
    },

    /// A compiled model is shorter or longer than it states.
    #[error("the compiled model has {got} bytes; expected {expected}")]
    SavedEnd {
        /// The length that the file states, or the minimum length of a file.
        expected: u64,
        /// The number of bytes given.
        got: u64,
    },

    /// A compiled model is damaged.
    #[error("the compiled model has checksum {got:#010x}; expected {expected:#010x}")]
    SavedChecksum {
        /// The checksum in the file.
        expected: u32,
        /// The checksum of the given bytes.
        got: u32,
    },

    /// The elements of a tensor of a compiled model are damaged.
    #[error("tensor {number} of the compiled model has checksum {got:#010x}; expected {expected:#010x}")]
    SavedTensor {
        /// The index of the tensor in the file's table.
        number: usize,
        /// The checksum in the file.
        expected: u32,
        /// The checksum of the elements.
        got: u32,
    },

    /// A compiled model, or a peer's message in the same format, contains unexpected bytes.
    #[error("the content is malformed at byte {at}; expected {expected}")]
    SavedForm {
        /// The offset of the unexpected bytes.
        at: usize,
        /// The content that the format requires at this offset.
        expected: &'static str,
    },

    /// The graph of a compiled model violates a guarantee of checked graphs.
    #[error("graph `{graph}` of the compiled model {problem}", graph = shown(.graph))]
    SavedGraph {
        /// The name of the graph.
        graph: String,
        /// The violated guarantee.
        problem: &'static str,
    },

    /// A node of a compiled model does not fit its operator.
    #[error("node `{node}` ({op}) of the compiled model is invalid", node = shown(.node), op = shown(.op))]
    SavedNode {
        /// The name of the node.
        node: String,
        /// The operator.
        op: String,
        /// The error of the node.
        #[source]
        source: Box<Error>,
    },
}

impl Error {
    /// Returns the error for two operands of an operation, each with its element type, whose types must agree.
    pub fn mixed(
        op: &'static str,
        (first, expected): (impl Into<Box<str>>, DataType),
        (operand, got): (impl Into<Box<str>>, DataType),
    ) -> Error {
        Error::MixedTypes { op, first: first.into(), expected, operand: operand.into(), got }
    }

    /// Returns the operation that refused its operands, if the error names one.
    pub fn operation(&self) -> Option<&str> {
        match self {
            Error::Unsupported { op, .. }
            | Error::ElementType { op, .. }
            | Error::OperandType { op, .. }
            | Error::MixedTypes { op, .. }
            | Error::Shapes { op, .. }
            | Error::Dims { op, .. }
            | Error::Param { op, .. }
            | Error::ParamKind { op, .. }
            | Error::Arity { op, .. }
            | Error::Overflow { op, .. }
            | Error::Index { op, .. }
            | Error::DivisionByZero { op, .. }
            | Error::Memory { op, .. } => Some(op),
            Error::InnerExtents { shapes, .. } => shapes.operation(),
            _ => None,
        }
    }

    /// Combines several errors into one; a single error is returned unchanged.
    pub(crate) fn all(mut problems: Vec<Error>) -> Error {
        match (problems.len(), problems.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                problems.extend(last);
                Error::Several { problems: Problems(problems) }
            }
        }
    }

    /// Returns whether the error concerns a single node, so that the other nodes can still be checked.
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
