//! Errors of graphs, calls and backends.

mod advice;
mod backend_id;
mod backend_origin;
mod broken_promise;
mod buffer;
mod door;
mod input;
mod kind;
mod missing;
mod narrow;
mod node_part;
mod number;
mod open_option;
mod phrases;
mod problem;
mod trace_fault;
mod wrong_result;

pub use advice::Advice;
pub use backend_id::BackendId;
pub use backend_origin::BackendOrigin;
pub use broken_promise::BrokenPromise;
pub use buffer::{BufferMismatch, BufferProblem};
pub use door::DoorAdvice;
pub use input::{InputMismatch, InputProblem};
pub(crate) use kind::is_panic;
pub use missing::name;
pub use missing::{How, Library, Missing, MissingList, NodeInfo, Refusal, RefusedList, RefusedNode, Why};
pub use narrow::NarrowError;
pub use node_part::NodePart;
pub use open_option::{OpenOption, OptionDefault, OwnOption};
pub use problem::{Problem, ProblemList, Uncovered};
pub use trace_fault::TraceFault;
pub use wrong_result::{ResultMaker, WrongResult};
pub(crate) use wrong_result::{type_name, type_path};

pub use phrases::option_list;
use phrases::{
    are, declared, declares, did_you_mean, for_other_values, kernel_of, layer_or_backend, linked_backends,
    linked_layers, nearest_of, no_backend, no_folder, of_backend, one_backend, one_layer, options, partner,
    perhaps, quoted, returned, taken, through, unavailable,
};

use crate::number::NumberError;
use crate::service::{BufferFault, CandidateList, DifferenceList, Pressure, Service, ServiceError};
pub use bb_ir::BoxError;
use bb_ir::ErrorKind;
use bb_ir::text::{listed, sentence, shown};

/// The error of a graph, a call or a backend.
///
/// `Debug` writes the message and its causes, because Rust prints it if `main` returns an error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor, a graph or a frame is invalid.
    #[error(transparent)]
    Ir(#[from] bb_ir::Error),

    /// The backend lacks an element type, and emulating it failed.
    #[error(transparent)]
    Narrow(#[from] NarrowError),

    /// A file could not be written.
    #[error("cannot write `{}`{}", sentence(.path.display()), no_folder(.path, .source))]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A kernel failed.
    #[error("backend `{backend}` failed in `{op}`")]
    Kernel {
        /// The backend's name.
        backend: &'static str,
        /// The operation.
        op: &'static str,
        /// The backend's own error.
        #[source]
        source: BoxError,
    },

    /// A node failed while a graph ran or was lowered.
    #[error("node `{node}` ({op}) failed", node = shown(.node), op = shown(.op))]
    Node {
        /// The node's name; the name of its first output if it has none.
        node: String,
        /// The operator.
        op: String,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// An operation that implements an operator refused its operands.
    #[error("`{op}` cannot run on {operands}", op = shown(.op), operands = sentence(.operands))]
    Operands {
        /// The operator.
        op: String,
        /// The types of its operands.
        operands: String,
        /// The operation's error.
        #[source]
        source: BoxError,
    },

    /// Nodes that a backend runs as one graph failed.
    #[error("the {count} nodes from `{first}` to `{last}`, which run as one graph, failed", first = shown(.first), last = shown(.last))]
    Nodes {
        /// The first node's name; the name of its first output if it has none.
        first: String,
        /// The last node's name; the name of its first output if it has none.
        last: String,
        /// The number of nodes.
        count: usize,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// An iteration of a loop failed.
    #[error("iteration {index} failed")]
    Iteration {
        /// The index of the iteration, from 0.
        index: usize,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// An initializer could not be copied to the backend.
    #[error("initializer `{name}` of {dtype} cannot be put on the backend", name = shown(.name))]
    Initializer {
        /// The initializer's name.
        name: String,
        /// Its element type.
        dtype: crate::DataType,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// A constant that lowering a node created could not be copied to the backend.
    #[error("a constant of {dtype} cannot be put on the backend")]
    Constant {
        /// Its element type.
        dtype: crate::DataType,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// A value could not be copied to the host.
    #[error("`{value}` of {dtype} cannot be copied to the host", value = shown(.value))]
    Transfer {
        /// The value's name.
        value: String,
        /// Its element type.
        dtype: crate::DataType,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// A required input of the graph was not passed.
    #[error("input `{name}` is missing; the graph needs {expected}", name = shown(.name), expected = listed(.expected))]
    MissingInput {
        /// The input's name.
        name: String,
        /// All required inputs of the graph.
        expected: Vec<String>,
    },

    /// An input was passed that the graph does not have.
    #[error("`{name}` is no input of the graph{}; its inputs are {expected}", nearest_of(.name, .expected), name = shown(.name), expected = listed(.expected))]
    UnknownInput {
        /// The name that was passed.
        name: String,
        /// The graph's inputs.
        expected: Vec<String>,
    },

    /// An input was passed twice.
    #[error("input `{name}` is given twice", name = shown(.name))]
    RepeatedInput {
        /// The name that was passed.
        name: String,
    },

    /// A requested value does not exist in the graph.
    #[error("the graph has no value `{name}`; its outputs are {}, and its other values can be requested too{}", listed(.outputs), did_you_mean(.nearest), name = shown(.name))]
    UnknownValue {
        /// The requested name.
        name: String,
        /// The most similar name of a value, if one is similar.
        nearest: Option<String>,
        /// The names of the graph's outputs.
        outputs: Vec<String>,
    },

    /// A requested value is computed inside a loop or a branch, so a run may compute it never, once or several times.
    #[error("`{name}` is computed inside the subgraph of node `{node}`, from which values cannot be fetched", name = shown(.name), node = shown(.node))]
    InsideSubgraph {
        /// The requested name.
        name: String,
        /// The node of the outermost graph whose subgraph contains the value.
        node: String,
    },

    /// An input does not match the declaration in the graph.
    #[error(transparent)]
    Input(Box<InputMismatch>),

    /// More inputs were passed than the graph has.
    #[error("the graph takes {expected} inputs, got {got}")]
    InputCount {
        /// The number of inputs of the graph.
        expected: usize,
        /// The number of inputs that were passed.
        got: usize,
    },

    /// A result does not fit the buffer that the caller passed for it.
    #[error(transparent)]
    Buffer(Box<BufferMismatch>),

    /// A buffer was passed for an output that the graph does not have.
    #[error("`{name}` is no output of the graph; its outputs are {expected}", name = shown(.name), expected = listed(.expected))]
    UnknownOutput {
        /// The name that was passed.
        name: String,
        /// The graph's outputs.
        expected: Vec<String>,
    },

    /// Two buffers were passed for one output.
    #[error("two buffers are given for output `{name}`", name = shown(.name))]
    RepeatedOutput {
        /// The name that was passed.
        name: String,
    },

    /// More buffers were passed than the graph has outputs.
    #[error("the graph has {expected} outputs, got buffers for {got}")]
    OutputCount {
        /// The number of outputs.
        expected: usize,
        /// The number of buffers.
        got: usize,
    },

    /// A sequence, an optional or a map was passed where only tensors are supported.
    #[error("`{name}` is {got}, expected a tensor{}", for_other_values(), name = shown(.name))]
    NotTensor {
        /// The input or output.
        name: String,
        /// Its kind.
        got: &'static str,
    },

    /// An operand of the operation is missing.
    #[error("`{op}` is missing operand {index}: it takes {expected}")]
    Operand {
        /// The operation.
        op: &'static str,
        /// The index of the operand.
        index: usize,
        /// The expected operand.
        expected: &'static str,
    },

    /// No operation of any family has this name.
    #[error("no operation is called `{name}`{}", did_you_mean(.nearest))]
    UnknownOperation {
        /// The requested name.
        name: String,
        /// The most similar method name, if one is similar.
        nearest: Option<String>,
    },

    /// A call has more operands or parameters than the operation takes.
    #[error("`{op}` takes {takes} {what}, got {got}")]
    Surplus {
        /// The operation.
        op: &'static str,
        /// The surplus items: `operands` or `parameters`.
        what: &'static str,
        /// The number of operands or parameters that the operation takes.
        takes: usize,
        /// The number that was passed.
        got: usize,
    },

    /// An operation returned the wrong number of results.
    #[error("`{op}` returned {got} results, expected {expected}", op = shown(.op))]
    Results {
        /// The operation.
        op: String,
        /// The expected number.
        expected: usize,
        /// The number that the operation returned.
        got: usize,
    },

    /// A result has another element type or shape than its operation defines.
    #[error(transparent)]
    WrongResult(#[from] Box<WrongResult>),

    /// A backend violated the interface through which it is called.
    #[error(transparent)]
    BrokenPromise(#[from] Box<BrokenPromise>),

    /// A family has no operation with this index.
    #[error("family `{family}` has no operation {index}")]
    UnknownIndex {
        /// The family's name.
        family: &'static str,
        /// The index that was passed.
        index: u16,
    },

    /// A vendor's operation has no body, and the backend has no kernel for it.
    #[error(
        "`{name}` of `{domain}` has no body, and the backend has no kernel for it; its author writes `{method}` under \
         `#[bb::native]` and names the family in `#[bb(vendors(…))]`"
    )]
    NoBody {
        /// The domain.
        domain: &'static str,
        /// The operation's name in models, as in `GatedUnit`.
        name: &'static str,
        /// The method, as in `gated_unit`.
        method: &'static str,
    },

    /// Two linked crates define operations of the same domain, and the choice must not depend on the order of linking.
    #[error("`{}` and `{}` both define operations of `{domain}`; link only one of their crates", paths[0], paths[1])]
    VendorTwice {
        /// The domain.
        domain: &'static str,
        /// The paths of the traits.
        paths: [&'static str; 2],
    },

    /// A pattern of a vendor's operation ignores a `Bool` parameter that the body uses, and records the steps of the body for
    /// no value of the parameter. The kernel would compute something else than the steps that it replaces.
    #[error(
        "the pattern `{pattern}` of `{name}` in `{domain}` ignores a parameter of the type Bool, and records other steps \
         than the body, expected the steps of the body for one of its values; use the parameter in the pattern, or return an \
         error for its other value"
    )]
    VendorPattern {
        /// The domain.
        domain: &'static str,
        /// The operation's name in models, as in `GatedUnit`.
        name: &'static str,
        /// The pattern's function.
        pattern: &'static str,
    },

    /// A backend that is defined while the program runs lacks a primitive.
    #[error("`{backend}` has no method `{method}`; write {write}", backend = shown(.backend), write = sentence(.write))]
    NoMethod {
        /// The backend's name in the author's code, as in `MyBackend`.
        backend: String,
        /// The method, as in `matmul`.
        method: &'static str,
        /// The code to write, as in `` `def matmul(self, a, b)` ``.
        write: String,
    },

    /// A traced function returned nothing, so that its graph would compute nothing.
    #[error("the traced function returned no outputs; a graph has at least one")]
    NoOutputs,

    /// A backend ran a graph and did not return one of its outputs.
    #[error("the backend returned no output `{name}`{}", returned(.made), name = shown(.name))]
    MissingOutput {
        /// The output's name.
        name: String,
        /// The names of outputs that were returned and not expected, if they are known.
        made: Vec<String>,
    },

    /// A graph for every backend may contain only primitives.
    #[error("`{op}` is no primitive, so that a graph for any backend cannot hold it")]
    NotPrimitive {
        /// The operation.
        op: &'static str,
    },

    /// A node is not a primitive in the form that `bb` writes.
    #[error("cannot decode `{op}`: expected {expected} as its {part}", op = shown(.op), part = shown(.part))]
    Decode {
        /// The operator of the node.
        op: String,
        /// The part: `operator`, `inputs`, or the name of a parameter or an attribute.
        part: String,
        /// A description of the expected value.
        expected: &'static str,
    },

    /// A scalar on the host could not be computed or converted.
    #[error(transparent)]
    Number(Box<NumberError>),

    /// The path from an input to a function's result contains an operation without a derivative.
    #[error("`{op}` has no derivative: {reason}")]
    NotDifferentiable {
        /// The operation.
        op: &'static str,
        /// The reason.
        reason: &'static str,
    },

    /// A function whose gradient is requested does not return one float.
    #[error("a function with a gradient returns one float, got {dtype} of the shape {shape:?}")]
    NotScalar {
        /// The element type of its result.
        dtype: crate::DataType,
        /// The shape of its result.
        shape: Box<[usize]>,
    },

    /// A gradient is requested with respect to an input that does not exist or is not a float.
    #[error(
        "input {index} of {count} has no gradient: {}",
        .dtype.map_or_else(|| "it does not exist".to_owned(), |dtype| format!("it is {dtype}, expected a float"))
    )]
    GradientBy {
        /// The index of the input that was requested.
        index: usize,
        /// The number of inputs.
        count: usize,
        /// The input's element type, if there is one.
        dtype: Option<crate::DataType>,
    },

    /// Lowering needs a value that is known only when the graph runs.
    #[error("`{op}` needs the value of `{value}`, which is not constant", op = shown(.op), value = shown(.value))]
    NotConstant {
        /// The operation that needs the value.
        op: String,
        /// The value's name.
        value: String,
    },

    /// An operator of this opset does not support an element type.
    #[error(
        "node `{node}`: `{op}` of opset {opset} does not take {dtype}; {}",
        .since.map_or_else(|| "no opset does".to_owned(), |since| format!("opset {since} does")), node = shown(.node)
    )]
    ElementTypeOfOpset {
        /// The node.
        node: String,
        /// The operator.
        op: &'static str,
        /// The element type.
        dtype: crate::DataType,
        /// The opset of the written model.
        opset: i64,
        /// The first opset whose operator takes the element type, if any does.
        since: Option<i64>,
    },

    /// A version of the file format does not support everything in a model.
    #[error("version {version} of the file format cannot hold the model; expected {least} to {newest}")]
    IrVersion {
        /// The requested version.
        version: i64,
        /// The oldest version that supports everything in the model.
        least: i64,
        /// The newest version.
        newest: i64,
    },

    /// An operator was requested to be kept, but no operation corresponds to it.
    #[error(
        "no operation can be kept as `{name}`{}; those that can are {}",
        .nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?")),
        .known.join(", "), name = shown(.name)
    )]
    NotKept {
        /// The name.
        name: String,
        /// The most similar operator, if one is similar.
        nearest: Option<&'static str>,
        /// The operators that can be kept.
        known: Vec<&'static str>,
    },

    /// The trace is valid only for some extents of an input, so the extent cannot be symbolic.
    #[error(
        "what is computed depends on the extents of `{input}`, so that its dimension {dimension} (`{symbol}`) must be \
         a number", input = shown(.input), symbol = shown(.symbol)
    )]
    FixedExtent {
        /// The input.
        input: String,
        /// The index of the dimension.
        dimension: usize,
        /// The requested symbol.
        symbol: String,
    },

    /// An input has fewer dimensions than requested.
    #[error("`{input}` has {rank} dimensions, so that there is no dimension {dimension}", input = shown(.input))]
    NoDimension {
        /// The input.
        input: String,
        /// The requested dimension.
        dimension: usize,
        /// The number of dimensions.
        rank: usize,
    },

    /// An input is to be traced with an extent that differs from the model's declaration.
    #[error("dimension {dimension} of `{input}` is declared as {declared}, got {got}", input = shown(.input))]
    DeclaredExtent {
        /// The input.
        input: String,
        /// The index of the dimension.
        dimension: usize,
        /// The extent that the model declares.
        declared: usize,
        /// The extent that was passed.
        got: usize,
    },

    /// The number of dimensions of an input is not known.
    #[error("the model does not say how many dimensions `{input}` has; its extents must be given", input = shown(.input))]
    NoRank {
        /// The input.
        input: String,
    },

    /// A model cannot be written as one graph without control flow.
    #[error(
        "node `{node}` ({op}) cannot be part of one lowered graph: what it makes depends on values that only a run \
         gives, or it is computed on the host", node = shown(.node), op = shown(.op)
    )]
    NotOneGraph {
        /// The node's name, or its first output's where it has none.
        node: String,
        /// The operator.
        op: String,
    },

    /// No backend or component runs some of a graph's nodes; all of these nodes are listed.
    #[error("{} of the graph's nodes cannot run: {missing}", .missing.nodes())]
    Unsupported {
        /// The nodes.
        missing: MissingList,
    },

    /// The options refuse the way some nodes would run; all of these nodes are listed.
    #[error("the options refuse how {} of the graph's nodes would run: {nodes}", .nodes.0.len())]
    Refused {
        /// The nodes, and how they would run.
        nodes: RefusedList,
    },

    /// No function lowers this operator, and the backend does not run it itself.
    #[error("operator `{op}` of domain `{domain}`, opset {opset}, is not supported", op = shown(.op), domain = shown(.domain))]
    UnsupportedOperator {
        /// The operator.
        op: String,
        /// Its domain.
        domain: String,
        /// The opset that the model imports.
        opset: i64,
    },

    /// An operator cannot work with the value of an attribute or operand.
    #[error("`{op}`: {part} {problem}", op = shown(.op), problem = sentence(.problem))]
    Operator {
        /// The operator.
        op: String,
        /// The attribute or operand.
        part: NodePart,
        /// A description of the problem: the expected and the actual value.
        problem: String,
    },

    /// An operation got a tensor of another backend, or of another instance of the same backend.
    #[error(
        "`{op}` runs on `{expected}` but was given a tensor of `{got}`; \
             move it first, by `adopt` of the handle of `{expected}`"
    )]
    ForeignTensor {
        /// The operation.
        op: &'static str,
        /// The backend that runs the operation: the owner of its first operand, or the backend that the caller named.
        expected: BackendId,
        /// The owner of the tensor.
        got: BackendId,
    },

    /// A kernel panicked; the backend stays usable.
    #[error("backend `{backend}` panicked in `{op}`: {message}", message = sentence(.message))]
    Panicked {
        /// The backend's name.
        backend: &'static str,
        /// The operation.
        op: &'static str,
        /// The panic message.
        message: String,
    },

    /// A function that a plan called panicked; the backend stays usable. The errors around this one name the node and
    /// the backend.
    #[error("{} panicked: {message}", kernel_of(.op), message = sentence(.message))]
    KernelPanicked {
        /// The operation, as in `reduce_sum`; `None` if the function is not the kernel of one operation.
        op: Option<&'static str>,
        /// The panic message.
        message: String,
    },

    /// No backend of this name is linked into the program.
    #[error("{}{}; {}", no_backend(.name), perhaps(.nearest), linked_backends(.linked))]
    UnknownBackend {
        /// The requested name.
        name: String,
        /// The most similar name of a linked backend, if one is similar.
        nearest: Option<String>,
        /// The names of the linked backends.
        linked: Vec<String>,
    },

    /// No layer of this name is linked into the program.
    #[error("no layer is called `{name}`{}; {}", perhaps(.nearest), linked_layers(.name, .linked), name = shown(.name))]
    UnknownLayer {
        /// The requested name.
        name: String,
        /// The most similar name of a linked layer, if one is similar.
        nearest: Option<String>,
        /// The names of the linked layers.
        linked: Vec<String>,
    },

    /// The name of layers on a backend is not in the right order, or a part of it is missing.
    #[error("`{name}`: {problem}", name = shown(.name), problem = sentence(.problem))]
    Stack {
        /// The requested name.
        name: String,
        /// The problem.
        problem: String,
    },

    /// A backend that combines several backends got two with the same name.
    #[error("two of the backends are called `{name}`: list it once, or start one of them under another name", name = shown(.name))]
    MemberTwice {
        /// The name.
        name: String,
    },

    /// Two linked layers have the same name.
    #[error(
        "two layers are called `{name}`: `{first}` and `{second}`; {}", one_layer(.first, .second), first = shown(.first), second = shown(.second)
    )]
    DuplicateLayer {
        /// The name.
        name: &'static str,
        /// The path of one layer.
        first: &'static str,
        /// The path of the other layer.
        second: &'static str,
    },

    /// A linked layer and a linked backend have the same name.
    #[error(
        "a layer and a backend are called `{name}`: `{layer}` and `{backend}`; {}", layer_or_backend(.layer, .backend), layer = shown(.layer), backend = shown(.backend)
    )]
    LayerNamedAsBackend {
        /// The name.
        name: &'static str,
        /// The path of the layer.
        layer: &'static str,
        /// The path of the backend.
        backend: &'static str,
    },

    /// A backend that combines several backends got none.
    #[error("`{name}` names no backends; write them in the parentheses, as in `{name}(gpu, cpu)`", name = shown(.name))]
    NoMembers {
        /// The name before the parentheses.
        name: String,
    },

    /// A backend that combines several backends has none with this name.
    #[error("`{name}` is not a backend of `{of}`{}; they are: {}", perhaps(.nearest), listed(.members), name = shown(.name))]
    NotMember {
        /// The requested name.
        name: String,
        /// The combining backend.
        of: &'static str,
        /// The most similar name of a member, if one is similar.
        nearest: Option<String>,
        /// The names of the combined backends.
        members: Vec<String>,
    },

    /// A pin assigns a node to one of several backends, but the model has no node of this name.
    #[error("`{name}={backend}` has no effect: the model has no node `{name}`, and there is no operator of this name{}", did_you_mean(.nearest), name = shown(.name))]
    UnusedPin {
        /// The name of the node or operator.
        name: String,
        /// The backend that would run it.
        backend: String,
        /// The most similar name of a node or operator of the model, if one is similar.
        nearest: Option<String>,
    },

    /// A layer refused a call, or found that its result is wrong.
    #[error("layer `{layer}` failed in `{op}`")]
    Layer {
        /// The layer's name.
        layer: &'static str,
        /// The operation.
        op: &'static str,
        /// The kind of the error.
        kind: ErrorKind,
        /// The layer's own error.
        source: BoxError,
    },

    /// A backend that was loaded from a library refused a call, or failed in it.
    #[error("backend `{backend}` failed in `{op}`: {message}", message = sentence(.message))]
    Loaded {
        /// The backend's name.
        backend: &'static str,
        /// The operation.
        op: &'static str,
        /// The kind of the error.
        kind: ErrorKind,
        /// The backend's message.
        message: String,
    },

    /// A backend of the program was named where it is not bound.
    #[error(
        "backend `{name}` is not bound here, where {} bound: write `.backend(bb::backend(\"{name}\")?)` \
         before `.ready()`",
        are(.bound), name = shown(.name)
    )]
    NotBound {
        /// The requested name.
        name: String,
        /// The names of the backends that are bound.
        bound: Vec<String>,
    },

    /// A backend is needed, and none is bound.
    #[error("no backend is bound here: write `.backend(bb::backend(\"…\")?)` before `.ready()`; {}", linked_backends(.linked))]
    NoBackend {
        /// The names of the linked backends.
        linked: Vec<String>,
    },

    /// A backend was requested by type, and no backend of that type is bound.
    #[error(
        "no backend of type `{ty}` is bound here, where {} bound: bind one with `.backend(…)` before `.ready()`",
        are(.bound)
    )]
    UnknownBackendType {
        /// The type.
        ty: &'static str,
        /// The names of the backends that are bound.
        bound: Vec<String>,
    },

    /// A backend was opened with an option that it does not take.
    #[error("backend `{backend}` does not take the option `{option}`; it takes {}", options(.takes))]
    OpenOption {
        /// The backend's name.
        backend: &'static str,
        /// The option.
        option: OpenOption,
        /// The options that the backend takes.
        takes: Vec<OpenOption>,
    },

    /// A backend was opened with an option of its own that it does not declare.
    #[error("{} no option `{option}`{}; {}", declares(.backend), perhaps(.nearest), declared(.takes), option = shown(.option))]
    UnknownOption {
        /// The backend's name; `None` while a backend or a layer reads its own options.
        backend: Option<&'static str>,
        /// The option.
        option: String,
        /// The most similar option, if one is similar.
        nearest: Option<String>,
        /// The options that the backend declares.
        takes: Vec<String>,
    },

    /// A layer was opened with an option that it does not have.
    #[error("layer `{layer}` has no option `{option}`{}; {}", perhaps(.nearest), declared(.takes), option = shown(.option))]
    UnknownLayerOption {
        /// The layer's name.
        layer: &'static str,
        /// The option.
        option: String,
        /// The most similar option, if one is similar.
        nearest: Option<String>,
        /// The options that the layer has.
        takes: Vec<String>,
    },

    /// A stack was opened with an option that its backend does not have, but one of its layers has.
    #[error(
        "backend `{backend}` has no option `{option}`, but layer `{layer}` has: write it into the name, as in \
         `{layer}({option}=VALUE)+{backend}`",
        option = shown(.option)
    )]
    LayerOption {
        /// The name of the backend below the layers.
        backend: &'static str,
        /// The layer that has the option.
        layer: &'static str,
        /// The option.
        option: String,
    },

    /// An option that every backend has a method for was passed as a backend's own option.
    #[error("`{option}` is not an option of the backend's own: write `.with_{option}(…)`", option = shown(.option))]
    CommonOption {
        /// The option.
        option: String,
    },

    /// The value of an option does not have the option's type.
    #[error("the option `{option}` is `{got}`; expected {expected}", option = shown(.option), got = shown(.got))]
    OptionValue {
        /// The option.
        option: String,
        /// The type or the allowed values.
        expected: &'static str,
        /// The value that was passed.
        got: String,
    },

    /// A value of an option has the right type, but cannot be used here, for the reason in the source.
    #[error("the option `{option}` cannot be `{got}`", option = shown(.option), got = shown(.got))]
    OptionRefused {
        /// The option.
        option: String,
        /// The value that was passed.
        got: String,
        /// The reason.
        source: BoxError,
    },

    /// An entry in the parentheses of a backend's name is not an option.
    #[error("`{entry}` in `{name}` is no option{}; write `NAME=VALUE`, as in `chip(tile=64)`", perhaps(.nearest), entry = shown(.entry), name = shown(.name))]
    OptionForm {
        /// The requested name.
        name: String,
        /// The entry.
        entry: String,
        /// The most similar option without a value, if one is similar.
        nearest: Option<String>,
    },

    /// The name of a backend has an unmatched parenthesis.
    #[error("{}; write the options or backends between `(` and `)`, as in `chip(tile=64)` and `first_of(gpu, cpu)`", partner(.name, *.at))]
    Parentheses {
        /// The requested name.
        name: String,
        /// The position of the parenthesis, in characters, counted from 1.
        at: usize,
    },

    /// An option was passed twice: twice in the name of a backend, or in the name and in the options.
    #[error("the option `{option}` is given twice{}: leave out one", of_backend(.name), option = shown(.option))]
    OptionTwice {
        /// The requested name of the backend; empty if it is not known.
        name: String,
        /// The option.
        option: String,
    },

    /// A backend has no device of this name.
    #[error("backend `{backend}` has no device `{device}`; its devices are {found}", device = shown(.device), found = listed(.found))]
    UnknownDevice {
        /// The backend's name.
        backend: &'static str,
        /// The requested device.
        device: String,
        /// The names of the devices that the backend lists.
        found: Vec<String>,
    },

    /// A device was named both in a backend's name and in its options.
    #[error("`{name}` names a device, and the options name `{other}`: leave out one", name = shown(.name), other = shown(.other))]
    TwoDevices {
        /// The requested name.
        name: String,
        /// The device in the options.
        other: String,
    },

    /// A name is not valid for a device.
    #[error("backend `{backend}`: `{device}` is no name of a device: expected text without spaces", device = shown(.device))]
    DeviceName {
        /// The backend's name.
        backend: &'static str,
        /// The device's name.
        device: String,
    },

    /// The requested number of threads exceeds the supported maximum.
    #[error(
        "the option `threads` is {got}; expected 1 to {most}, which is 16 for each processor and at least 256"
    )]
    ThreadCount {
        /// The requested number.
        got: usize,
        /// The maximum, [`most_threads`](crate::most_threads).
        most: usize,
    },

    /// A backend lists two devices with the same name.
    #[error("backend `{backend}` lists two devices called `{device}`", device = shown(.device))]
    DuplicateDevice {
        /// The backend's name.
        backend: &'static str,
        /// The device's name.
        device: String,
    },

    /// No model of this name is bound.
    #[error("no model is called `{name}`; those bound are {bound}", name = shown(.name), bound = listed(.bound))]
    UnknownModel {
        /// The requested name; empty if the first model was requested.
        name: String,
        /// The names of the bound models.
        bound: Vec<String>,
    },

    /// The models, backends, components or rules of a node have problems. Each problem would make a call fail, or is a
    /// setting without effect.
    #[error("the node is not ready, for {} reason{}: {problems}", .problems.0.len(), if .problems.0.len() == 1 { "" } else { "s" })]
    NotReady {
        /// The problems.
        problems: ProblemList,
    },

    /// A sequence, an optional or a map would leave the part of a node's model that computes it.
    #[error(
        "`{value}` of the model `{model}` is {kind} and would go from {from} to {to}; only tensors do: bind the nodes \
         that make and read it to one backend", model = shown(.model), value = shown(.value), from = shown(.from), to = shown(.to)
    )]
    Leaves {
        /// The name under which the model is bound.
        model: String,
        /// The name of the value.
        value: String,
        /// Its kind.
        kind: &'static str,
        /// The producer: a backend, a component or the caller.
        from: String,
        /// The consumer: a backend, a component or the caller.
        to: String,
    },

    /// A component panicked.
    #[error("the component panicked: {message}", message = sentence(.message))]
    ComponentPanicked {
        /// The panic message.
        message: String,
    },

    /// Two linked backends have the same name.
    #[error(
        "two backends are called `{name}`: `{first}` and `{second}`; {}", one_backend(.first, .second), name = shown(.name), first = shown(.first), second = shown(.second)
    )]
    DuplicateBackend {
        /// The name.
        name: String,
        /// The path of one backend.
        first: String,
        /// The path of the other backend.
        second: String,
    },

    /// The name of an added backend would be ambiguous: it reads like a name of layers, a device or options.
    #[error("`{name}` cannot be the name of a backend: expected text without spaces and without any of `:+(),=`", name = shown(.name))]
    BackendName {
        /// The name.
        name: String,
    },

    /// An added backend has the name of another backend.
    #[error("the name `{name}` is taken{}", taken(.name, .by, *.added), name = shown(.name))]
    NameTaken {
        /// The name.
        name: String,
        /// The path of the backend that has the name, or a description of another owner.
        by: String,
        /// Whether the program added that backend, so that it can be removed.
        added: bool,
    },

    /// The program has a backend, but its constructor failed.
    #[error("{}", unavailable(.backend, .origin, .source))]
    Unavailable {
        /// The backend's name.
        backend: &'static str,
        /// How the program got the backend.
        origin: BackendOrigin,
        /// The cause.
        #[source]
        source: BoxError,
    },

    /// A layer is linked, but cannot be opened on the backend.
    #[error("layer `{layer}` cannot be opened")]
    LayerUnavailable {
        /// The layer's name.
        layer: &'static str,
        /// The cause.
        source: BoxError,
    },

    /// The constructor of a backend opened the backend that it constructs, itself or through other backends.
    #[error("backend `{backend}` is opened by its own constructor{}", through(.path))]
    OpenCycle {
        /// The backend's name.
        backend: &'static str,
        /// The backends that open each other, each with its device. The last entry repeats the first.
        path: Vec<String>,
    },

    /// A backend was called after it was shut down.
    #[error("backend `{backend}` was shut down")]
    ShutDown {
        /// The backend.
        backend: BackendId,
    },

    /// The device of a backend is lost, so all further calls fail. Opening the backend again may help.
    #[error("the device of backend `{backend}` is lost: {reason}", reason = sentence(.reason))]
    DeviceLost {
        /// The backend.
        backend: BackendId,
        /// The reason that the backend reports.
        reason: String,
        /// The error of the call that detected the loss.
        #[source]
        source: Option<BoxError>,
    },

    /// A backend does not run a primitive ([`Backend::runs_primitive`](crate::Backend::runs_primitive)).
    #[error("the backend does not run `{op}`")]
    NoPrimitive {
        /// The method of the primitive.
        op: &'static str,
    },

    /// The function that a backend passes to `forward_to_execute!` calls `execute` of the same backend in an endless
    /// recursion.
    #[error("the function of `forward_to_execute!` calls `execute` of its own backend again and again")]
    EndlessExecute,

    /// A native operation of a backend calls itself in an endless recursion, through a body, another native operation
    /// or a running backend.
    #[error(
        "the native `{op}` calls itself again and again: within it, `bb::ext::Extended::new(self, &[]).{op}(…)` runs the body of the \
         operation"
    )]
    EndlessNative {
        /// The operation.
        op: &'static str,
    },

    /// A method of a layer, for example `operation`, calls an operation of the layer itself in an endless recursion.
    #[error(
        "the layer `{layer}` calls itself again and again, last for `{op}`: call the inner backend instead, as in \
         `self.inner.{op}(…)`, `self.inner.native(…)` for an operation of a family, or `call.run()` in `operation`"
    )]
    EndlessLayer {
        /// The registered name of the layer, or its type if it has no name.
        layer: &'static str,
        /// The operation.
        op: &'static str,
    },

    /// A backend does not have a service.
    #[error("backend `{backend}` does not offer the service `{service}`")]
    NoService {
        /// The backend's name.
        backend: &'static str,
        /// The service.
        service: Service,
    },

    /// No linked backend meets the requirements.
    #[error("no backend meets the requirements: {candidates}")]
    NoCandidate {
        /// The backends, each with the requirements that it does not meet.
        candidates: CandidateList,
    },

    /// A compiled model or a peer uses other operations or versions.
    #[error("the fingerprint of {of} differs: {differences}")]
    Fingerprint {
        /// A description of the fingerprint's owner.
        of: &'static str,
        /// The differences.
        differences: DifferenceList,
    },

    /// The bytes that a peer sent are not a fingerprint.
    #[error("the bytes of a peer are no fingerprint")]
    PeerFingerprint {
        /// The cause.
        #[source]
        source: bb_ir::Error,
    },

    /// A service of a backend failed.
    #[error("the service `{service}` of backend `{backend}` failed")]
    Service {
        /// The backend's name.
        backend: &'static str,
        /// The service.
        service: Service,
        /// The cause.
        #[source]
        source: ServiceError,
    },

    /// A buffer could not be used by its id.
    #[error(transparent)]
    BufferFault(#[from] BufferFault),

    /// The backend that owns a tensor was dropped.
    #[error("backend `{owner}`, to which the tensor belongs, is gone")]
    Gone {
        /// The backend.
        owner: BackendId,
    },

    /// The backend dropped the handle that completes a call, so there is no result.
    #[error("the backend dropped its completion handle without a result")]
    Abandoned,

    /// An untrusted input takes more memory or work than its budget allows.
    #[error("{what} takes more than {most} {unit}")]
    Budget {
        /// The input.
        what: &'static str,
        /// The bound.
        most: u64,
        /// The unit of the bound.
        unit: &'static str,
    },

    /// The deadline of a run passed before the run ended.
    #[error("the deadline of the run has passed")]
    DeadlineExceeded,

    /// A run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,

    /// A compiled model was built for another backend, another version of the backend, or another processor.
    #[error("the compiled model is for another {what}: expected `{expected}`, got `{got}`", expected = sentence(.expected), got = sentence(.got))]
    SavedFor {
        /// The differing part.
        what: &'static str,
        /// The value of the backend, or of the processor.
        expected: String,
        /// The value in the file.
        got: String,
    },

    /// A plan of a compiled model is not valid, or its results differ from its declaration.
    #[error("a plan of the compiled model is faulty: {0}")]
    SavedPlan(Box<Internal>),

    /// The backend compiles graphs itself, and its compiled form cannot be saved.
    #[error("backend `{backend}` compiles graphs itself, and cannot save what it makes of them")]
    NotSaved {
        /// The backend.
        backend: &'static str,
    },

    /// There is no pass with this name.
    #[error("there is no pass `{name}`; there are {}", quoted(.expected), name = shown(.name))]
    UnknownPass {
        /// The name.
        name: String,
        /// The names of all passes.
        expected: Vec<&'static str>,
    },

    /// `bb` violated one of its own invariants. No input can cause this: it is a bug in `bb`.
    #[error("internal error: {0}; this is a mistake in bb")]
    Internal(Internal),
}

/// A violated invariant of `bb`. No input can cause it, except a forged compiled model ([`Error::SavedPlan`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Internal {
    /// A table does not have an entry.
    #[error("there is no {what} {index} among {len}")]
    NoEntry {
        /// The kind of entries in the table.
        what: &'static str,
        /// The index that was looked up.
        index: usize,
        /// The number of entries in the table.
        len: usize,
    },

    /// An entry of a table is empty: it was not set yet, or was already taken.
    #[error("{what} {index} holds nothing")]
    Empty {
        /// The kind of entries in the table.
        what: &'static str,
        /// The index of the entry.
        index: usize,
    },

    /// A list does not have the length that the code that built it guarantees.
    #[error("{what}: expected {expected}, got {got}")]
    Count {
        /// The kind of items in the list.
        what: &'static str,
        /// The guaranteed length.
        expected: usize,
        /// The actual length.
        got: usize,
    },

    /// A trace violates an invariant that passes and plans rely on.
    #[error("the trace is faulty: {0}")]
    Trace(TraceFault),

    /// A pass produced a trace that violates an invariant that other passes and plans rely on.
    #[error("after `{pass}`: {fault}")]
    AfterPass {
        /// The pass; `trace` if it is the tracer.
        pass: &'static str,
        /// The fault of the trace.
        fault: Box<Internal>,
    },

    /// A part of `bb` is in a state that its constructor excludes.
    #[error("expected {expected}")]
    State {
        /// The expected state.
        expected: &'static str,
    },
}

impl Error {
    /// Returns the allocation that exceeded a memory limit, if it caused the error.
    pub fn memory_pressure(&self) -> Option<&Pressure> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(pressure) = error.downcast_ref() {
                return Some(pressure);
            }
            cause = error.source();
        }
        None
    }

    /// Returns the error for a backend that did not return an output of a graph. `rest` has the other outputs that it
    /// returned.
    #[doc(hidden)]
    #[cold]
    pub fn missing_output<T>(name: &str, rest: &std::collections::HashMap<String, T>) -> Error {
        let mut made: Vec<String> = rest.keys().cloned().collect();
        made.sort_unstable();
        Error::MissingOutput { name: name.to_owned(), made }
    }

    /// Returns the operation that refused its operands, if the error names one.
    pub fn operation(&self) -> Option<&str> {
        match self {
            Error::Ir(error) => error.operation(),
            Error::Operator { op, .. }
            | Error::Results { op, .. }
            | Error::NotConstant { op, .. }
            | Error::UnsupportedOperator { op, .. } => Some(op),
            Error::Operand { op, .. }
            | Error::Surplus { op, .. }
            | Error::NotPrimitive { op, .. }
            | Error::NotDifferentiable { op, .. } => Some(op),
            Error::WrongResult(wrong) => Some(&wrong.op),
            Error::BrokenPromise(broken) => Some(broken.op),
            _ => None,
        }
    }

    /// Returns the method that a backend's author has to write, if the cause is an operation without a body.
    pub fn no_body(&self) -> Option<&'static str> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(Error::NoBody { method, .. }) = error.downcast_ref() {
                return Some(method);
            }
            cause = error.source();
        }
        None
    }

    /// Builds the error of a layer from its name, the operation, the kind and the cause.
    pub fn layer(
        layer: &'static str,
        op: &'static str,
        kind: ErrorKind,
        source: impl Into<BoxError>,
    ) -> Error {
        Error::Layer { layer, op, kind, source: source.into() }
    }

    /// Returns the error for an operation that its family has no table row for.
    pub(crate) fn unknown_row(op: &bb_ir::op::OpSpec) -> Error {
        Error::UnknownIndex { family: op.family.name(), index: op.index }
    }

    /// Returns the error for a state that the constructor of a value excludes.
    #[cold]
    pub fn excluded(expected: &'static str) -> Error {
        Error::Internal(Internal::State { expected })
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&causes(self))
    }
}

/// Formats an error and its causes on one line.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |e| (*e).source());
    let mut text = error.to_string();
    let mut last = text.clone();
    for cause in causes.map(|cause| cause.to_string()) {
        // A transparent error has the same message as its cause. A loaded backend repeats the message of its kernel.
        match cause.strip_prefix(&last) {
            Some("") => {}
            Some(rest) if rest.starts_with(": ") => text.push_str(rest),
            _ => text = format!("{text}: {cause}"),
        }
        last = cause;
    }
    text
}
