//! The errors of running models in queries.

use bb::DataType;
use bb::ir::graph::ValueType;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::error::DataFusionError;
use std::sync::Arc;

/// An error of running a model in a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first argument of the function is not a string literal that is known when the query is planned.
    #[error(
        "the first argument of `{function}` must be a text literal with the path or URL of a model; got {got}"
    )]
    ModelArgument {
        /// The name of the function.
        function: &'static str,
        /// The actual value.
        got: String,
    },
    /// A model has an option that does not exist, or a value that the option does not accept.
    #[error("the option `{option}` of the model `{location}` is not known; expected {expected}")]
    Option {
        /// The location of the model.
        location: String,
        /// The option as it was written.
        option: String,
        /// The accepted options or values.
        expected: &'static str,
    },
    /// The file of a model cannot be read.
    #[error("cannot read the model `{location}`")]
    ReadModel {
        /// The location of the model.
        location: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The object store of a model cannot be reached, or does not have the model.
    #[error("cannot fetch the model `{location}`")]
    FetchModel {
        /// The location of the model.
        location: String,
        /// The error of the store.
        #[source]
        source: DataFusionError,
    },
    /// A model exceeds the maximum size.
    #[error("the model `{location}` has {bytes} bytes; at most {most} are read")]
    ModelSize {
        /// The location of the model.
        location: String,
        /// The size of the model in bytes.
        bytes: u64,
        /// The maximum size in bytes.
        most: u64,
    },
    /// The model is not the one that the query was planned with.
    #[error(
        "the model `{location}` has the SHA-256 hash {got}; expected {expected}, with which the query was planned"
    )]
    Hash {
        /// The location of the model.
        location: String,
        /// The hash that the query carries.
        expected: String,
        /// The hash of the model at the location.
        got: String,
    },
    /// The bytes are not a model that can run.
    #[error("cannot load the model `{location}`")]
    Load {
        /// The location of the model.
        location: String,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },
    /// No backend has this name, or the backend cannot be opened.
    #[error("cannot open the backend `{backend}` for the model `{location}`")]
    Backend {
        /// The location of the model.
        location: String,
        /// The name.
        backend: String,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },
    /// No backend has this name.
    #[error("no backend is named `{backend}`; expected one of {known}")]
    UnknownBackend {
        /// The name.
        backend: String,
        /// The names of the known backends.
        known: String,
    },
    /// The backend cannot compile the model.
    #[error("cannot compile the model `{location}` for the backend `{backend}`")]
    Compile {
        /// The location of the model.
        location: String,
        /// The backend.
        backend: String,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },
    /// A model draws random numbers, but the function must return equal results for equal rows.
    #[error(
        "the model `{location}` draws random numbers in `{op}`; call `bb_run_volatile` in place of `bb_run`"
    )]
    Random {
        /// The location of the model.
        location: String,
        /// The operator.
        op: String,
    },
    /// A model mixes rows, or may mix them. Its results would depend on how a query divides rows into batches.
    #[error(
        "the rows of the model `{location}` are {proof}; its results would depend on which rows share a run: add `batch=1` to \
         its options to run each row alone"
    )]
    Mixes {
        /// The location of the model.
        location: String,
        /// The node, and how it handles rows.
        proof: bb::RowProof,
    },
    /// An input or output of a model has no equivalent in Arrow.
    #[error("the {side} `{port}` of the model `{location}` is {ty:?}, which has no form in a column")]
    Port {
        /// The location of the model.
        location: String,
        /// Whether the port is an input or an output.
        side: &'static str,
        /// Its name.
        port: String,
        /// Its type.
        ty: Box<ValueType>,
    },
    /// An input or output of a model has no first dimension for the rows.
    #[error(
        "the {side} `{port}` of the model `{location}` must begin with an open dimension for the rows, or all inputs and outputs with 1; got {got}"
    )]
    RowAxis {
        /// The location of the model.
        location: String,
        /// Whether the port is an input or an output.
        side: &'static str,
        /// Its name.
        port: String,
        /// Its dimensions.
        got: String,
    },
    /// A model is called with more or fewer columns than it has inputs.
    #[error("the model `{location}` takes {expected}; got {got} columns")]
    ColumnCount {
        /// The location of the model.
        location: String,
        /// The inputs of the model.
        expected: String,
        /// The number of columns.
        got: usize,
    },
    /// The type of a column differs from the type of the input.
    #[error("the input `{input}` takes {dtype} elements; got a column of {got}; convert it: {cure}")]
    Column {
        /// The input.
        input: String,
        /// Its element type.
        dtype: DataType,
        /// The type of the column.
        got: Box<ArrowType>,
        /// The expression to write instead.
        cure: String,
    },
    /// The shape of a column's lists differs from the shape of the input.
    #[error("the input `{input}` takes rows of shape {expected}; got {got:?}")]
    Shape {
        /// The input.
        input: String,
        /// The shape of one row of the input.
        expected: String,
        /// The shape of one row of the column. Open extents are `None`.
        got: Vec<Option<usize>>,
    },
    /// The metadata of a column does not match its lists.
    #[error(
        "the column for the input `{input}` has the metadata {metadata} of a tensor, which does not fit lists of {size} elements"
    )]
    TensorMetadata {
        /// The input.
        input: String,
        /// The metadata.
        metadata: String,
        /// The number of elements of one row.
        size: usize,
    },
    /// A column contains a null, which a tensor cannot represent.
    #[error(
        "the column for the input `{input}` is null in row {row} of a batch; filter nulls or write coalesce(…)"
    )]
    Null {
        /// The input.
        input: String,
        /// The index of the row in its batch.
        row: usize,
    },
    /// The lists of a column differ in length.
    #[error(
        "the column for the input `{input}` has a list of {got} elements in row {row} of a batch; the first row has {expected}, and a tensor needs lists of equal length"
    )]
    Ragged {
        /// The input.
        input: String,
        /// The index of the row in its batch.
        row: usize,
        /// The length in the first row.
        expected: usize,
        /// The length in this row.
        got: usize,
    },
    /// A column was passed for an input without a dimension for rows.
    #[error("the input `{input}` has no dimension for rows, so that it takes a literal; got a column")]
    NotLiteral {
        /// The input.
        input: String,
    },
    /// The elements of a batch cannot be converted to a tensor.
    #[error("cannot make a tensor for the input `{input}`")]
    Tensor {
        /// The input.
        input: String,
        /// The cause.
        #[source]
        source: bb::ir::Error,
    },
    /// A model failed.
    #[error("the model `{location}` failed on a batch of {rows} rows")]
    Run {
        /// The location of the model.
        location: String,
        /// The number of rows in the run.
        rows: usize,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },
    /// The number of a model's results differs from the number of its outputs.
    #[error("the model `{location}` gave {got} results; expected {expected}")]
    Results {
        /// The location of the model.
        location: String,
        /// The number of outputs.
        expected: usize,
        /// The number of results.
        got: usize,
    },
    /// A result does not have the type and shape that the model declares for the output.
    #[error("the output `{output}` must be {expected} for {rows} rows; got {got}")]
    Output {
        /// The output.
        output: String,
        /// The type and shape that the model declares.
        expected: String,
        /// The number of rows in the run.
        rows: usize,
        /// The actual value.
        got: String,
    },
    /// The results of one batch exceed the maximum size.
    #[error(
        "the output `{output}` needs more than {most} bytes for a batch of {rows} rows; set `datafusion.execution.batch_size` to fewer rows"
    )]
    ResultSize {
        /// The output.
        output: String,
        /// The number of rows in the batch.
        rows: usize,
        /// The maximum size in bytes.
        most: usize,
    },
    /// Another thread or query failed to load the same model.
    #[error(transparent)]
    Shared(#[from] Arc<Error>),
    /// Arrow refused a column built from results.
    #[error("cannot make a column of the output `{output}`")]
    Arrow {
        /// The output.
        output: String,
        /// The cause.
        #[source]
        source: datafusion::arrow::error::ArrowError,
    },
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> DataFusionError {
        DataFusionError::External(Box::new(Chain(error)))
    }
}

/// An error whose message includes its causes, because a cluster passes on only the message of an error.
pub struct Chain(pub Error);

// A cluster passes on the `Debug` output, so this writes the message, too. The quotes mark its end; see `reason`.
impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Model").field(&self.to_string()).finish()
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = std::error::Error::source(&self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Chain {}
