//! A model on the CPU backend.

use crate::failure::Failure;
use crate::picture::{self, domain, how};
use crate::{buffers, load};
use bb::coverage::{Coverage, How};
use bb::ir::graph::{Dim, ValueId, ValueType};
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, DataType, ErasedExecutable, Module, Port, TensorData, Value};
use bb_cpu::Cpu;
use bb_ir::Limits;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// References the module of the backend. A WebAssembly linker includes an object of a library only if something references it. Without
/// link-time optimisation, `use bb_cpu as _` leaves out the object that registers the backend.
#[used]
static LINKED: fn() -> Cpu = Cpu::new;

/// References the module that registers ONNX Runtime's operators, which language models use, for the same reason.
#[used]
static OPERATORS: fn() = bb_onnx_microsoft::linked;

/// Options that JavaScript passes when it opens a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct JsSessionOptions {
    /// The extents of symbolic dimensions.
    dims: BTreeMap<String, usize>,
    /// Resource limits of a model, by name.
    limits: BTreeMap<String, String>,
    /// The numbers of the buffers with external data, by location.
    files: BTreeMap<String, u32>,
}

/// The inputs of a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    inputs: Vec<RequestInput>,
}

/// An input. Its elements are in a buffer, or in a list if they are strings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestInput {
    name: String,
    r#type: String,
    shape: Vec<usize>,
    #[serde(default)]
    data: u32,
    #[serde(default)]
    strings: Vec<String>,
}

/// A model that was checked, and the backend that may run it.
pub(crate) struct Checked {
    backend: BackendHandle,
    module: Module,
    limits: Limits,
    coverage: OnceCell<Coverage>,
}

/// A model that is ready to run.
pub(crate) struct Session {
    checked: Checked,
    executable: Arc<dyn ErasedExecutable>,
}

/// Returns the limits for untrusted models. They are lower than elsewhere, because an instance has at most 4 GiB of memory.
fn limits() -> Limits {
    Limits {
        total_tensor_bytes: 2 << 30,
        sparse_bytes: 256 << 20,
        value_bytes: 1 << 30,
        run_bytes: 2 << 30,
        fold_bytes: 256 << 20,
        ..Limits::default()
    }
}

impl Checked {
    /// Checks a model, with options as JSON.
    ///
    /// # Errors
    ///
    /// Errors of the options, and errors of loading the model.
    pub(crate) fn open(model: Bytes, options: &[u8]) -> Result<Checked, Failure> {
        let options: JsSessionOptions = serde_json::from_slice(options)
            .map_err(|source| Failure::Json { what: "the options of a session", source })?;
        let mut limits = limits();
        for (name, value) in &options.limits {
            limits.set(name, value).map_err(Failure::Limit)?;
        }
        let files =
            options.files.into_iter().map(|(location, buffer)| (location, buffers::take(buffer))).collect();
        let module = load::load(model, files, &options.dims, &limits)?;
        Ok(Checked { backend: bb::backend("cpu")?, module, limits, coverage: OnceCell::new() })
    }

    /// Describes the inputs and outputs, false declarations of the model, how each node runs, and the graph.
    pub(crate) fn describe(&self) -> Json {
        let graph = self.module.graph();
        let ports = |values: &[ValueId]| -> Vec<Json> {
            let known = values.iter().filter_map(|value| Some((*value, graph.values.get(value.index())?)));
            known.map(|(value, info)| port(graph.name_of(value), &info.ty, false)).collect()
        };
        json!({
            "inputs": ports(&graph.inputs), "outputs": ports(&graph.outputs), "warnings": self.warnings(),
            "coverage": self.coverage(), "graph": self.graph(),
        })
    }

    fn warnings(&self) -> Vec<String> {
        self.module.warnings().iter().map(ToString::to_string).collect()
    }

    fn covered(&self) -> &Coverage {
        self.coverage.get_or_init(|| Coverage::of(&self.module, self.backend.runtime()))
    }

    /// Reports how each node runs.
    pub(crate) fn coverage(&self) -> Json {
        let coverage = self.covered();
        let nodes: Vec<Json> = coverage
            .nodes
            .iter()
            .map(|node| {
                json!({
                    "node": node.node, "operator": node.op, "domain": domain(&node.domain),
                    "opset": node.opset, "runs": how(node.how), "operations": operations(node.how),
                    "missing": node.missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
                })
            })
            .collect();
        let [native, lowered, host, unsupported] = coverage.counts();
        json!({
            "nodes": nodes,
            "counts": { "native": native, "lowered": lowered, "host": host, "unsupported": unsupported },
        })
    }

    /// Describes the graph, with a position for each node.
    pub(crate) fn graph(&self) -> Json {
        picture::describe(self.module.graph(), self.covered())
    }
}

impl Session {
    /// Opens a model, with options as JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`Checked::open`], and errors of compiling the model.
    pub(crate) fn open(model: Bytes, options: &[u8]) -> Result<Session, Failure> {
        let checked = Checked::open(model, options)?;
        let options = CompileOptions::default().within(&checked.limits);
        let executable = checked.backend.compile(checked.module.clone(), &options)?;
        Ok(Session { checked, executable })
    }

    /// Returns the model that was checked.
    pub(crate) fn checked(&self) -> &Checked {
        &self.checked
    }

    /// Describes the inputs and outputs, and false declarations of the model.
    pub(crate) fn describe(&self) -> Json {
        let ports = |ports: &[Port]| -> Vec<Json> {
            ports.iter().map(|of| port(&of.name, &of.ty, of.optional)).collect()
        };
        json!({
            "inputs": ports(self.executable.inputs()), "outputs": ports(self.executable.outputs()),
            "warnings": self.checked.warnings(),
        })
    }

    /// Runs the model. Request and answer are JSON; the elements are in buffers.
    ///
    /// # Errors
    ///
    /// Errors of reading the inputs, and of the run.
    pub(crate) fn run(&self, request: &[u8]) -> Result<Json, Failure> {
        let request: Request = serde_json::from_slice(request)
            .map_err(|source| Failure::Json { what: "the inputs of a run", source })?;
        let ports = self.executable.inputs();
        let mut inputs: Vec<Option<OnnxValue<Value>>> = ports.iter().map(|_| None).collect();
        for given in &request.inputs {
            let at = ports.iter().position(|port| port.name == given.name);
            let place = at.and_then(|at| inputs.get_mut(at)).ok_or_else(|| bb::Error::UnknownInput {
                name: given.name.clone(),
                expected: ports.iter().map(|port| port.name.clone()).collect(),
            })?;
            if place.is_some() {
                return Err(bb::Error::RepeatedInput { name: given.name.clone() }.into());
            }
            *place = Some(OnnxValue::Tensor(self.checked.backend.runtime().constant(&given.tensor()?)?));
        }
        let results = self.executable.run_items(&inputs)?;
        let mut outputs = Vec::new();
        for (port, result) in self.executable.outputs().iter().zip(results) {
            let mut described = self.output(result)?;
            if let Some(fields) = described.as_object_mut() {
                fields.insert("name".to_owned(), json!(port.name));
            }
            outputs.push(described);
        }
        Ok(json!({ "outputs": outputs }))
    }

    /// Describes a result as JSON.
    fn output(&self, value: OnnxValue<Value>) -> Result<Json, Failure> {
        Ok(match value {
            OnnxValue::Tensor(x) => tensor(&self.checked.backend.to_host(&x)?)?,
            OnnxValue::Sequence(items) => {
                let items = items.into_iter().map(|item| self.output(item));
                json!({ "type": "sequence", "items": items.collect::<Result<Vec<_>, _>>()? })
            }
            OnnxValue::Map { keys, values } => {
                let values = tensor(&self.checked.backend.to_host(&values)?)?;
                json!({ "type": "map", "keys": tensor(&keys)?, "values": values })
            }
            OnnxValue::Absent => json!({ "type": "absent" }),
        })
    }

    /// Runs a model whose only input is a row of tokens, and returns its first output.
    ///
    /// # Errors
    ///
    /// Errors of the run.
    pub(crate) fn scores(&self, tokens: &[i32]) -> Result<Vec<f32>, Failure> {
        let input = TensorData::new(&[1, tokens.len()], tokens)?;
        let input = self.checked.backend.runtime().constant(&input)?;
        let outputs = self.executable.run(&[Some(&input)])?;
        let first = outputs.first().ok_or(bb::Error::InputCount { expected: 1, got: 0 })?;
        Ok(self.checked.backend.to_host(first)?.as_slice::<f32>()?.to_vec())
    }
}

fn operations(how: How) -> Option<usize> {
    match how {
        How::Native => Some(1),
        How::Lowered(steps) => steps,
        How::Host | How::Unsupported => None,
    }
}

/// Describes an input or an output. An extent is a number, a string if it is symbolic, or null if it is unknown.
fn port(name: &str, ty: &ValueType, optional: bool) -> Json {
    let (dtype, shape) = match ty {
        ValueType::Tensor { dtype, shape } => {
            (Some(type_name(*dtype)), shape.as_ref().map(|dims| dims.iter().map(extent).collect::<Vec<_>>()))
        }
        _ => (None, None),
    };
    json!({ "name": name, "type": dtype, "shape": shape, "optional": optional, "text": ty.to_string() })
}

fn extent(dim: &Dim) -> Json {
    match dim {
        Dim::Known(extent) => json!(extent),
        Dim::Unknown => Json::Null,
        Dim::Symbol(_) | Dim::Computed(_) => json!(dim.to_string()),
    }
}

/// The names of element types in JavaScript, where ONNX Runtime Web has one. Other types keep bb's names.
const NAMES: [(DataType, &str); 12] = [
    (DataType::F32, "float32"),
    (DataType::F64, "float64"),
    (DataType::F16, "float16"),
    (DataType::BF16, "bfloat16"),
    (DataType::I8, "int8"),
    (DataType::I16, "int16"),
    (DataType::I32, "int32"),
    (DataType::I64, "int64"),
    (DataType::U8, "uint8"),
    (DataType::U16, "uint16"),
    (DataType::U32, "uint32"),
    (DataType::U64, "uint64"),
];

fn type_name(dtype: DataType) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == dtype).map_or_else(|| dtype.name(), |(_, name)| name)
}

impl RequestInput {
    /// Creates the tensor of the input, and removes its buffer.
    fn tensor(&self) -> Result<TensorData, Failure> {
        let data = buffers::take(self.data);
        let named = NAMES.iter().find(|(_, name)| *name == self.r#type).map(|(dtype, _)| *dtype);
        let dtype = named
            .or_else(|| DataType::from_name(&self.r#type))
            .ok_or_else(|| Failure::Type { input: self.name.clone(), got: self.r#type.clone() })?;
        let made = if dtype == DataType::String {
            TensorData::strings(&self.shape, &self.strings)
        } else {
            TensorData::adopt(dtype, &self.shape, data)
        };
        made.map_err(|source| Failure::Input { input: self.name.clone(), source })
    }
}

/// Describes a tensor, and stores its elements in a buffer for JavaScript.
fn tensor(data: &TensorData) -> Result<Json, Failure> {
    let (ty, shape) = (type_name(data.dtype()), data.shape());
    if data.dtype() == DataType::String {
        let strings: Vec<_> = data.iter_str().collect();
        return Ok(json!({ "type": ty, "shape": shape, "strings": strings }));
    }
    let elements = data.bytes().map_err(bb::Error::from)?;
    Ok(json!({ "type": ty, "shape": shape, "data": buffers::keep(elements.clone()) }))
}
