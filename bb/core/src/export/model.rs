//! A trace as a value: the operations that a function or a model calls. It is written as a graph, a model or a file.

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
/// The graph is of the newest opset and for backends. [`ModelTrace`] writes models that other programs read.
///
/// Shapes: tracing is concrete; the graph holds for the extents given.
///
/// # Errors
///
/// The function's own; [`Error::NotConstant`] if it reads an element that is not constant.
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

/// The names of outputs that have none.
fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("output_{i}")).collect()
}

/// A trace of a function or of a model, for export. It holds operations of families unchanged; writing the model keeps or lowers
/// them.
///
/// # Examples
///
/// A function over any backend, saved for other programs; `Softmax` stays `Softmax`:
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
    /// The inputs with their declared extents, as far as they are fixed.
    pub(super) inputs: Vec<(String, Vec<Dim>)>,
    /// The names of the outputs.
    pub(super) outputs: Vec<String>,
    /// The weights, by number.
    pub(super) weights: BTreeMap<WeightId, (String, TensorData)>,
    /// The inputs, as bits, on whose extents the trace depends; those from 63 on share a bit.
    pub(super) consulted: u64,
}

impl ModelTrace {
    /// Runs a function on graph values.
    ///
    /// Shapes: tracing is concrete. The trace holds for the given extents. It holds for all extents of an input if neither the function nor
    /// its lowered operations query them; see [`ExportOptions::symbol`].
    ///
    /// # Errors
    ///
    /// The function's own; [`Error::NotConstant`] if it reads an element that is not constant.
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

    /// Traces a model as it would be lowered for a backend, branches that are known and loops that unroll included.
    ///
    /// Shapes: `shapes` has the extents of inputs by name. Extents that neither it nor the model gives as numbers stay
    /// open: the models written declare them as the model does, which holds as for [`ExportOptions::symbol`].
    ///
    /// An input with a default becomes the constant that the default is.
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

    /// Writes the trace as a model, which is checked as one that comes from outside.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] for an opset that is not written, and for names that are empty or given twice;
    /// [`Error::IrVersion`]; [`Error::NotKept`] for an operator to keep that nothing is written as;
    /// [`Error::Results`] for another number of names than outputs;
    /// [`Error::ElementTypeOfOpset`] if an operator of the opset does not take an element type;
    /// [`Error::NotPrimitive`] for a computation that ONNX has no operator for; [`Error::UnknownInput`],
    /// [`Error::NoDimension`] and [`Error::FixedExtent`] for a symbol that cannot be.
    pub fn model(&self, options: &ExportOptions) -> Result<ModelProto, Error> {
        // Options that cannot be met are refused before anything is traced again.
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
            // The traced extents do not hold for every run.
            for (info, value) in graph.output.iter_mut().zip(&checked.graph.outputs) {
                let ty = checked.graph.values.get(value.index()).map(|v| &v.ty);
                if let Some(ValueType::Tensor { shape, .. }) = ty {
                    set_shape(info, shape.clone());
                }
            }
        }
        Ok(model)
    }

    /// Writes the trace as a model and checks it, so that a backend can compile it.
    ///
    /// # Errors
    ///
    /// Those of [`model`](Self::model).
    pub fn module(&self, options: &ExportOptions) -> Result<Module, Error> {
        let options_of_check =
            CheckOptions { operators: crate::operator::OPERATORS, ..CheckOptions::default() };
        Ok(Module::new(check(&self.model(options)?, &options_of_check)?.graph))
    }

    /// Declares the symbols among the extents of inputs; if there are any, takes the extents of outputs away.
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

    /// Writes the trace as a serialized model, with all elements in it.
    ///
    /// # Errors
    ///
    /// Those of [`model`](Self::model); [`Error::Ir`] if there are more bytes than the format's readers take, 2 GiB.
    pub fn bytes(&self, options: &ExportOptions) -> Result<Vec<u8>, Error> {
        encode(&self.model(options)?)
    }

    /// Writes the trace as a model to a file, and to a second file next to it if one is too small; returns the paths.
    ///
    /// # Errors
    ///
    /// Those of [`model`](Self::model) and of [`save`].
    pub fn save(&self, path: &Path, options: &ExportOptions) -> Result<Vec<PathBuf>, Error> {
        save(self.model(options)?, path, options.external_above)
    }

    /// Writes the trace as the graph of primitives that a backend for whole graphs is given, of the newest opset.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimitive`] if something that was called is computed on the host.
    pub fn graph(&self) -> Result<GraphProto, Error> {
        let weight = |i| self.weights.get(&i).map(|(name, data)| (Some(name.clone()), data.clone()));
        let on = Tracer::of_export(Policy { opset: NEWEST, keep: Keep::Nothing });
        let Replayed { recorded, .. } = replay(&self.recorded, &weight, on, &mut |_, _, _, _| Ok(None))?;
        let names: Vec<String> = self.inputs.iter().map(|(name, _)| name.clone()).collect();
        let weight = |i| self.weights.get(&i).map(|(_, data)| data.clone());
        to_graph(&recorded, &names, &self.outputs, &weight)
    }
}

/// Declares the extents of a tensor.
fn set_shape(info: &mut ValueInfoProto, shape: Option<Vec<Dim>>) {
    let ty = info.r#type.as_ref().and_then(|t| t.value.as_ref());
    if let Some(type_proto::Value::TensorType(ty)) = ty
        && let Some(dtype) = DataType::from_onnx(ty.elem_type())
    {
        *info = value_info(info.name(), dtype, shape);
    }
}
