//! A trace of the operations that a function or a model calls. It can be written as a graph, a model or a file.

use super::replay::{Replayed, replay};
use super::save::{encode, save};
use super::{ExportOptions, Keep};
use crate::plan::{Complete, complete};
use crate::trace::{
    InputIndex, Policy, TableIndex, Target, Trace, TraceStop, TracedTensor, Tracer, ValueSource, Varies,
    Weight, WeightId, known, to_graph, value_info, write,
};
use crate::{Error, Module};
use bb_ir::check::{CheckOptions, check};
use bb_ir::graph::{Dim, ValueType};
use bb_ir::opset::NEWEST;
use bb_ir::proto::{GraphProto, ModelProto, OperatorSetIdProto, ValueInfoProto, type_proto};
use bb_ir::{DataType, TensorData};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Runs a function on graph values and returns the ONNX graph of the primitives that it called.
///
/// The graph uses the newest opset and is intended for backends. [`ModelTrace`] writes models for other programs.
///
/// Shapes: tracing is concrete; the graph is valid only for the extents that are passed.
///
/// # Errors
///
/// The function's own errors; [`Error::NotConstant`] if it reads an element that is not constant.
///
/// # Examples
///
/// ```
/// use bb::{Backend, DataType};
/// # fn main() -> Result<(), bb::Error> {
/// let graph = bb::trace(&[("x", DataType::F32, &[2, 3])], |on, inputs| match inputs {
///     [x] => Ok(vec![on.exp(&on.neg(x)?)?]),
///     _ => Ok(vec![]),
/// })?;
/// let ops: Vec<&str> = graph.node.iter().map(|n| n.op_type()).collect();
/// assert_eq!(ops, ["Neg", "Exp"]);
/// # Ok(())
/// # }
/// ```
pub fn trace(
    inputs: &[(&str, DataType, &[usize])],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Result<GraphProto, Error> {
    let (recorded, _) = run(Tracer::default(), inputs, function)?;
    let names: Vec<String> = inputs.iter().map(|(name, ..)| (*name).to_owned()).collect();
    to_graph(&recorded, &names, &numbered(recorded.outputs.len()), &|_| None)
}

/// Runs a function on graph values.
fn run(
    tracer: Tracer,
    inputs: &[(&str, DataType, &[usize])],
    function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
) -> Result<(Trace, u64), Error> {
    let mut names = std::collections::HashSet::new();
    if let Some((name, ..)) = inputs.iter().find(|(name, ..)| !names.insert(name)) {
        return Err(Error::RepeatedInput { name: (*name).to_owned() });
    }
    let traced: Vec<TracedTensor> = inputs
        .iter()
        .enumerate()
        .map(|(i, (name, dtype, shape))| {
            tracer.input(InputIndex::at(i), name, *dtype, shape, &Varies::Everything, None)
        })
        .collect();
    let outputs: Vec<_> = function(&tracer, &traced)?.iter().map(TracedTensor::read).collect();
    if outputs.is_empty() {
        return Err(Error::NoOutputs);
    }
    let consulted = tracer.consulted();
    Ok((tracer.finish(outputs), consulted))
}

/// Returns numbered names for outputs without names.
fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("output_{i}")).collect()
}

/// A trace of a function or of a model, for export. It contains the operations of all families unchanged. When the model is
/// written, they are kept or lowered to primitives.
///
/// # Examples
///
/// Saves a function that is generic over the backend for other programs; `Softmax` stays one operator:
///
/// ```
/// use bb::ext::Ops;
/// use bb::export::{ExportOptions, Keep, ModelTrace};
/// use bb::DataType;
///
/// /// `softmax(x w)`.
/// fn classify<B: Ops + ?Sized>(on: &B, x: &B::Tensor, w: &B::Tensor) -> Result<B::Tensor, B::Error> {
///     on.softmax(&on.matmul(x, w)?, -1)
/// }
///
/// # fn main() -> Result<(), bb::Error> {
/// let trace = ModelTrace::new(&[("x", DataType::F32, &[1, 4]), ("w", DataType::F32, &[4, 3])], |on, inputs| {
///     match inputs {
///         [x, w] => Ok(vec![classify(on, x, w)?]),
///         _ => Ok(vec![]),
///     }
/// })?;
/// let options = ExportOptions::default()
///     .opset(17)
///     .keep(Keep::operators(["Softmax"]))
///     .outputs(["probabilities"])
///     .symbol("x", 0, "batch");
/// # let folder = std::env::temp_dir().join(format!("bb-export-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let path = folder.join("classify.onnx");
/// trace.save(&path, &options)?;
///
/// let module = bb::Module::load(&path)?;
/// let operators: Vec<&str> = module.graph().nodes.iter().map(|n| n.op_type.as_str()).collect();
/// assert_eq!(operators, ["MatMul", "Softmax"]);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ModelTrace {
    pub(super) recorded: Trace,
    /// The inputs with their declared shapes. Extents that are not fixed are symbolic.
    pub(super) inputs: Vec<(String, Vec<Dim>)>,
    /// The names of the outputs.
    pub(super) outputs: Vec<String>,
    /// The weights, by their ids.
    pub(super) weights: BTreeMap<WeightId, (String, TensorData)>,
    /// The inputs on whose extents the trace depends, as a bit mask. All inputs from index 63 on share the last bit.
    pub(super) consulted: u64,
}

impl ModelTrace {
    /// Runs a function on graph values.
    ///
    /// Shapes: tracing is concrete. The trace is valid only for the extents that are passed. It is valid for all extents of an
    /// input if neither the function nor its lowered operations query them; see [`ExportOptions::symbol`].
    ///
    /// # Errors
    ///
    /// The function's own errors; [`Error::NotConstant`] if it reads an element that is not constant.
    pub fn new(
        inputs: &[(&str, DataType, &[usize])],
        function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
    ) -> Result<ModelTrace, Error> {
        let tracer = Tracer::new(crate::ext::every_operation(), bb_ir::Limits::default().value_bytes);
        let (recorded, consulted) = run(tracer, inputs, function)?;
        Ok(ModelTrace {
            inputs: inputs.iter().map(|(name, _, shape)| ((*name).to_owned(), known(shape))).collect(),
            outputs: numbered(recorded.outputs.len()),
            recorded,
            weights: BTreeMap::new(),
            consulted,
        })
    }

    /// Traces a model as it would be lowered for a backend. Branches with a known condition are selected, and loops are
    /// unrolled.
    ///
    /// Shapes: `shapes` maps names of inputs to their extents. Extents that are fixed neither there nor in the model stay
    /// symbolic: written models declare them as the model does, under the condition of [`ExportOptions::symbol`].
    ///
    /// An input with a default becomes a constant with this default.
    ///
    /// # Errors
    ///
    /// [`Error::NotOneGraph`] if a node's results have extents that depend on data, or if a loop cannot be unrolled; [`Error::NotConstant`]
    /// if the trace depends on the value of an input; [`Error::NotTensor`] for inputs and outputs that are no tensors;
    /// [`Error::UnknownInput`], [`Error::NoDimension`], [`Error::DeclaredExtent`] and [`Error::NoRank`] for extents that do not fit the
    /// model; [`Error::Unsupported`] and [`Error::Node`] for nodes that cannot be lowered.
    pub fn of_module(module: &Module, shapes: &HashMap<String, Vec<Dim>>) -> Result<ModelTrace, Error> {
        let Complete { traced, inputs, outputs } = complete(module, shapes)?;
        let constants = &traced.resolved.graph.constants;
        let mut weights = BTreeMap::new();
        for value in traced.recorded.values.entries() {
            let ValueSource::Weight(id) = value.source else { continue };
            let named = match id {
                WeightId::Graph(position) => constants.get(position),
                WeightId::Body(_) => None,
            };
            let name = named.map(|(value, _)| traced.resolved.graph.name_of(*value).to_owned());
            let name = name.unwrap_or_else(|| format!("weight_{id}"));
            weights.insert(id, (name, traced.weights().get(id)?.clone()));
        }
        Ok(ModelTrace { weights, consulted: traced.consulted, recorded: traced.recorded, inputs, outputs })
    }

    /// Converts the trace to a model, and checks it like a model from outside.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] for an opset that cannot be written, and for names that are empty or repeated; [`Error::IrVersion`];
    /// [`Error::NotKept`] for an operator to keep that no operation is written as; [`Error::Results`] if the number of names
    /// differs from the number of outputs; [`Error::ElementTypeOfOpset`] if an operator of the opset does not support an
    /// element type; [`Error::NotPrimitive`] for a computation that ONNX has no operator for; [`Error::UnknownInput`],
    /// [`Error::NoDimension`] and [`Error::FixedExtent`] for a symbol that cannot be declared.
    pub fn model(&self, options: &ExportOptions) -> Result<ModelProto, Error> {
        // Checks the options first, so that invalid options are refused before the trace is replayed.
        options.check(std::iter::empty())?;
        let outputs = options.outputs.as_ref().unwrap_or(&self.outputs);
        if outputs.len() != self.recorded.outputs.len() {
            let (expected, got) = (outputs.len(), self.recorded.outputs.len());
            return Err(Error::Results { op: "trace".to_owned(), expected, got });
        }
        let weight = |i| -> Option<Weight> {
            self.weights.get(&i).map(|(name, data)| (Some(name.clone()), data.clone()))
        };
        let on = Tracer::of_export(Policy { opset: options.opset, keep: options.keep.clone() });
        let Replayed { recorded, consulted } =
            replay(&self.recorded, &weight, on, &mut |_, _, _, _| Ok(None))?;
        let names: Vec<String> = self.inputs.iter().map(|(name, _)| name.clone()).collect();
        let mut graph = write(&recorded, &names, outputs, &weight, Target::Opset(options.opset))?;
        graph.name = Some(options.graph_name.clone());
        let open = self.declare(&mut graph, options, self.consulted | consulted)?;
        let (name, version) = &options.producer;
        let mut model = ModelProto {
            ir_version: Some(options.check(recorded.values.entries().map(|v| v.dtype))?),
            opset_import: vec![OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(options.opset),
            }],
            producer_name: Some(name.clone()),
            producer_version: Some(version.clone()),
            graph: Some(graph),
            ..ModelProto::default()
        };
        let checked = check(
            &model,
            &CheckOptions { operators: crate::operator::OPERATORS, ..CheckOptions::default() },
        )?;
        if let (true, Some(graph)) = (open, &mut model.graph) {
            // The traced extents of outputs may differ between runs. The extents that the check inferred replace them.
            for (info, value) in graph.output.iter_mut().zip(&checked.graph.outputs) {
                let ty = checked.graph.values.get(value.index()).map(|v| &v.ty);
                if let Some(ValueType::Tensor { shape, .. }) = ty {
                    set_shape(info, shape.clone());
                }
            }
        }
        Ok(model)
    }

    /// Converts the trace to a checked module, so that a backend can compile it.
    ///
    /// # Errors
    ///
    /// Those of [`model`](Self::model).
    pub fn module(&self, options: &ExportOptions) -> Result<Module, Error> {
        let options_of_check =
            CheckOptions { operators: crate::operator::OPERATORS, ..CheckOptions::default() };
        Ok(Module::new(check(&self.model(options)?, &options_of_check)?.graph))
    }

    /// Declares the symbolic extents of inputs. If there are any, removes the shapes of outputs, and returns `true`.
    fn declare(
        &self,
        graph: &mut GraphProto,
        options: &ExportOptions,
        consulted: u64,
    ) -> Result<bool, Error> {
        let mut declared: Vec<Vec<Dim>> = self.inputs.iter().map(|(_, dims)| dims.clone()).collect();
        for (input, dimension, symbol) in &options.symbols {
            let position = self.inputs.iter().position(|(name, _)| name == input);
            let dims = position.and_then(|at| declared.get_mut(at)).ok_or_else(|| Error::UnknownInput {
                name: input.clone(),
                expected: self.inputs.iter().map(|(name, _)| name.clone()).collect(),
            })?;
            let rank = dims.len();
            let dim = dims.get_mut(*dimension).ok_or_else(|| Error::NoDimension {
                input: input.clone(),
                dimension: *dimension,
                rank,
            })?;
            *dim = Dim::Symbol(symbol.clone());
        }
        let open = |dim: &Dim| !matches!(dim, Dim::Known(_));
        for (at, (dims, (input, _))) in declared.iter().zip(&self.inputs).enumerate() {
            let Some(dimension) = dims.iter().position(open) else { continue };
            if consulted & (1 << at.min(63)) != 0 {
                let symbol = dims.get(dimension).map(Dim::to_string).unwrap_or_default();
                return Err(Error::FixedExtent { input: input.clone(), dimension, symbol });
            }
        }
        let any = declared.iter().flatten().any(open);
        if any {
            graph
                .input
                .iter_mut()
                .zip(&declared)
                .for_each(|(info, dims)| set_shape(info, Some(dims.clone())));
            graph.output.iter_mut().for_each(|info| set_shape(info, None));
        }
        Ok(any)
    }

    /// Writes the trace as a serialized model that contains the elements of all initializers.
    ///
    /// # Errors
    ///
    /// Those of [`model`](Self::model); [`Error::Ir`] if the model exceeds 2 GiB, the limit of protobuf readers.
    pub fn bytes(&self, options: &ExportOptions) -> Result<Vec<u8>, Error> {
        encode(&self.model(options)?)
    }

    /// Writes the trace as a model to a file, and large initializers to a second file next to it if necessary. Returns the
    /// paths of the files.
    ///
    /// # Errors
    ///
    /// Those of [`model`](Self::model) and of [`save`].
    pub fn save(&self, path: &Path, options: &ExportOptions) -> Result<Vec<PathBuf>, Error> {
        save(self.model(options)?, path, options.external_above)
    }

    /// Converts the trace to the graph of primitives that a whole-graph backend receives, with the newest opset.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimitive`] if some step is computed on the host.
    pub fn graph(&self) -> Result<GraphProto, Error> {
        let weight = |i| self.weights.get(&i).map(|(name, data)| (Some(name.clone()), data.clone()));
        let on = Tracer::of_export(Policy { opset: NEWEST, keep: Keep::Nothing });
        let Replayed { recorded, .. } = replay(&self.recorded, &weight, on, &mut |_, _, _, _| Ok(None))?;
        let names: Vec<String> = self.inputs.iter().map(|(name, _)| name.clone()).collect();
        let weight = |i| self.weights.get(&i).map(|(_, data)| data.clone());
        to_graph(&recorded, &names, &self.outputs, &weight)
    }
}

/// Sets the declared shape of a tensor.
fn set_shape(info: &mut ValueInfoProto, shape: Option<Vec<Dim>>) {
    let ty = info.r#type.as_ref().and_then(|t| t.value.as_ref());
    if let Some(type_proto::Value::TensorType(ty)) = ty
        && let Some(dtype) = DataType::from_onnx(ty.elem_type())
    {
        *info = value_info(info.name(), dtype, shape);
    }
}
