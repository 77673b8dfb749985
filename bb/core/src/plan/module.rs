//! A checked model before it is compiled for a backend.

use super::saved::SavedPlans;
use super::stamp::Stamp;
use super::switches::PassSwitches;
use crate::contract::{BackendPlace, Caller, reach};
use crate::ext::FamilyTable;
use crate::operator::OPERATORS;
use crate::{Backend, Error, RunOptions};
use bb_ir::Limits;
use bb_ir::check::{self, CheckOptions};
use bb_ir::compact::{self, Compact, Saved, Writer};
use bb_ir::graph::{Graph, Node, ValueId, Warning};
use bb_ir::proto::{
    AttributeProto, ExternalData, FunctionProto, GraphProto, ModelProto, OperatorSetIdProto,
    StringStringEntryProto,
};
use bytes::Bytes;
use std::any::Any;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A checked model, ready to be compiled for a backend.
#[derive(Debug, Clone)]
pub struct Module {
    graph: Arc<Graph>,
    /// The plans of a compiled model.
    saved: Option<Arc<SavedModule>>,
}

/// The plans of a compiled model.
#[derive(Debug)]
pub(crate) enum SavedModule {
    /// A file whose plans are not read yet, because its stamp has not yet been compared with the stamp of a backend.
    Sealed(Box<Sealed>),
    /// Plans that were read.
    Open(SavedPlans),
}

/// A file whose plans are not read yet.
#[derive(Debug)]
pub(crate) struct Sealed {
    stamp: Stamp,
    file: Saved,
    /// The position where the plans begin.
    plans: usize,
    limits: Limits,
}

impl Module {
    /// Wraps a checked graph.
    pub fn new(mut graph: Graph) -> Module {
        crate::operator::prepare(&mut graph);
        Module { graph: Arc::new(graph), saved: None }
    }

    /// Wraps a part of a module's graph, which [`new`](Self::new) has already prepared.
    pub fn of_part(graph: Graph) -> Module {
        Module { graph: Arc::new(graph), saved: None }
    }

    /// Loads and checks the model in a file, within the default limits; see [`load_with`](Self::load_with).
    ///
    /// # Errors
    ///
    /// As [`load_with`](Self::load_with).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// let module = bb::Module::load("model.onnx")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Module, Error> {
        Module::load_with(path, &Limits::default())
    }

    /// Loads and checks the model in a file, within these limits. A compiled model is loaded with its plans
    /// ([`ErasedExecutable::save`](crate::ErasedExecutable::save)).
    ///
    /// The external data of the model is in the folder of the file, or, if the path is a link, in the folder of the file that the
    /// link points to.
    ///
    /// The file and its external data are mapped: weights are read when they are used, and the CPU backend uses them in the
    /// mapping. The files must not be shortened or rewritten while the module, or anything compiled from it, is in use.
    /// [`FileAccess`](crate::FileAccess) explains the consequences, and how to read the files instead.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the file cannot be read or the model is not valid.
    pub fn load_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Module, Error> {
        let path = path.as_ref();
        let bytes = bb_ir::file::load(path, limits)?;
        let inside = |source| bb_ir::Error::InFile { path: path.to_owned(), source: Box::new(source) };
        if compact::is_saved(&bytes) {
            return Ok(Module::compiled(&bytes, limits).map_err(inside)?);
        }
        let model = check::parse_model(bytes, limits).map_err(inside)?;
        Module::checked(&model, limits, Some(&ExternalData::of_model(path, limits)))
    }

    /// Checks a serialized model without external data, within the default limits.
    ///
    /// # Errors
    ///
    /// As [`from_bytes_with`](Self::from_bytes_with).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Module, Error> {
        Module::from_bytes_with(bytes, &Limits::default())
    }

    /// Checks a serialized model without external data, within these limits.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the model is not valid or has external data.
    pub fn from_bytes_with(bytes: impl Into<Bytes>, limits: &Limits) -> Result<Module, Error> {
        Module::checked(&check::parse_model(bytes.into(), limits)?, limits, None)
    }

    /// Checks a serialized model with external data in a folder, within these limits.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the model is not valid or its external data cannot be read.
    pub fn from_bytes_in(
        bytes: impl Into<Bytes>,
        folder: impl AsRef<Path>,
        limits: &Limits,
    ) -> Result<Module, Error> {
        let model = check::parse_model(bytes.into(), limits)?;
        Module::checked(&model, limits, Some(&ExternalData::in_folder(folder.as_ref(), limits)))
    }

    /// Checks a serialized model with this external data, within these limits.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the model is not valid or its external data cannot be read.
    pub fn from_bytes_beside(
        bytes: impl Into<Bytes>,
        external_data: &ExternalData,
        limits: &Limits,
    ) -> Result<Module, Error> {
        Module::checked(&check::parse_model(bytes.into(), limits)?, limits, Some(external_data))
    }

    /// Reads the part of a compiled model that is the same for all backends.
    fn compiled(bytes: &Bytes, limits: &Limits) -> Result<Module, bb_ir::Error> {
        let file = Saved::open(bytes, limits)?;
        let mut reader = file.reader(0, limits);
        let stamp = Stamp::read(&mut reader)?;
        let graph = Graph::read(&mut reader)?;
        let plans = reader.position();
        check::loaded(&graph, OPERATORS)?;
        let saved = SavedModule::Sealed(Box::new(Sealed { stamp, file, plans, limits: limits.clone() }));
        Ok(Module { graph: Arc::new(graph), saved: Some(Arc::new(saved)) })
    }

    /// Builds a compiled module from a graph and plans.
    pub(crate) fn with_plans(graph: Arc<Graph>, plans: SavedPlans) -> Module {
        Module { graph, saved: Some(Arc::new(SavedModule::Open(plans))) }
    }

    /// Reads the plans of a compiled model, and returns the module with them. Any other module is returned unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::SavedFor`] and [`Error::Fingerprint`] if the stamp of the file is not this stamp; [`Error::Ir`] if the plans are
    /// malformed.
    pub(crate) fn opened(self, own: impl FnOnce() -> Stamp) -> Result<Module, Error> {
        let Some(SavedModule::Sealed(sealed)) = self.saved.as_deref() else { return Ok(self) };
        let Sealed { stamp, file, plans, limits } = sealed.as_ref();
        stamp.check(&own())?;
        let mut reader = file.reader(*plans, limits);
        let plans = SavedPlans::read(&mut reader)?;
        reader.finish()?;
        Ok(Module::with_plans(self.graph, plans))
    }

    /// Returns the plans. Returns `None` if there are none, or if the stamp of their file has not yet been compared with the
    /// stamp of a backend.
    pub(crate) fn saved_plans(&self) -> Option<&SavedPlans> {
        match self.saved.as_deref() {
            Some(SavedModule::Open(plans)) => Some(plans),
            Some(SavedModule::Sealed(_)) | None => None,
        }
    }

    /// Writes the module as a compiled model for a backend with this stamp.
    pub(crate) fn write(&self, stamp: &Stamp, to: &mut Writer) {
        stamp.write(to);
        self.graph.as_ref().write(to);
        if let Some(plans) = self.saved_plans() {
            plans.write(to);
        }
    }

    fn checked(
        model: &ModelProto,
        limits: &Limits,
        external_data: Option<&ExternalData>,
    ) -> Result<Module, Error> {
        let options = CheckOptions { limits: limits.clone(), external_data, operators: OPERATORS };
        let checked = RunOptions::paced(|| check::check(model, &options))??;
        Ok(Module::new(checked.graph))
    }

    /// Checks a standalone graph. Without opsets, the newest opset is used.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the graph is not valid.
    pub fn from_graph(
        graph: &GraphProto,
        opsets: &[OperatorSetIdProto],
        functions: &[FunctionProto],
    ) -> Result<Module, Error> {
        Module::from_graph_with(graph, opsets, functions, None)
    }

    /// Checks a standalone graph with this external data; see [`ExternalData::of_tensors`].
    ///
    /// # Errors
    ///
    /// As [`from_graph`](Self::from_graph).
    pub fn from_graph_with(
        graph: &GraphProto,
        opsets: &[OperatorSetIdProto],
        functions: &[FunctionProto],
        external_data: Option<&ExternalData>,
    ) -> Result<Module, Error> {
        let newest = [OperatorSetIdProto { version: Some(bb_ir::opset::NEWEST), ..Default::default() }];
        let opsets = if opsets.is_empty() { &newest } else { opsets };
        let options = CheckOptions { operators: OPERATORS, external_data, ..CheckOptions::default() };
        let checked = RunOptions::paced(|| check::check_graph(graph, opsets, functions, &options))??;
        Ok(Module::new(checked))
    }

    /// Returns the module with these values as outputs, in this order. They may be any values of the graph, for example
    /// intermediate results to inspect.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownValue`] for a name that no value of the graph has, with the most similar name; [`Error::InsideSubgraph`] for
    /// a value of a loop or a branch, which is computed zero, one or many times in a run.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), bb::Error> {
    /// use bb::ir::proto::{GraphProto, NodeProto, ValueInfoProto};
    /// let text = |text: &str| Some(text.to_owned());
    /// let value = |name| ValueInfoProto { name: text(name), ..Default::default() };
    /// let node = |op, from: &str, to: &str| NodeProto {
    ///     op_type: text(op), input: vec![from.to_owned()], output: vec![to.to_owned()], ..Default::default()
    /// };
    /// let graph = GraphProto {
    ///     input: vec![value("x")], output: vec![value("y")],
    ///     node: vec![node("Neg", "x", "minus"), node("Exp", "minus", "y")], ..Default::default()
    /// };
    /// let module = bb::Module::from_graph(&graph, &[], &[])?.with_outputs(&["minus"])?;
    /// assert_eq!(module.graph().outputs.len(), 1);
    /// let error = module.with_outputs(&["mimus"]).unwrap_err();
    /// let outputs = "its outputs are [\"minus\"], and its other values can be requested too";
    /// assert_eq!(error.to_string(), format!("the graph has no value `mimus`; {outputs}; did you mean `minus`?"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_outputs(&self, names: &[&str]) -> Result<Module, Error> {
        let graph = self.graph();
        let numbers: HashMap<&str, ValueId> = graph
            .values
            .iter()
            .zip(0u32..)
            .filter(|(value, _)| !value.name.is_empty())
            .map(|(value, number)| (value.name.as_str(), ValueId(number)))
            .collect();
        let find = |name: &&str| match numbers.get(name) {
            Some(value) => Ok(*value),
            None => Err(missing(graph, name)),
        };
        let outputs = names.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Module { graph: Arc::new(Graph { outputs, ..graph.clone() }), saved: None })
    }

    /// Returns the checked graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Lists the faults of the model that do not prevent compiling: declared shapes that contradict inference, which are
    /// ignored, and domains that are imported twice or not at all.
    pub fn warnings(&self) -> Vec<Warning> {
        self.graph.warnings()
    }

    pub fn shared(&self) -> Arc<Graph> {
        self.graph.clone()
    }

    /// Returns the graph for planning, with carriers replaced by their bodies.
    ///
    /// # Errors
    ///
    /// [`Error::Node`] for a carrier whose operands do not fit its body.
    pub(crate) fn planned(&self) -> Result<Arc<Graph>, Error> {
        super::carriers::inlined(self.graph.clone())
    }
}

/// Returns the error for a name that no value of the outermost graph has.
fn missing(graph: &Graph, name: &str) -> Error {
    let name = name.to_owned();
    for node in &graph.nodes {
        let mut pending: Vec<&Graph> = node.subgraphs().collect();
        while let Some(inner) = pending.pop() {
            if inner.values.iter().any(|value| value.name == name) {
                return Error::InsideSubgraph { name, node: crate::error::name(graph, node) };
            }
            pending.extend(inner.nodes.iter().flat_map(Node::subgraphs));
        }
    }
    let known = graph.values.iter().map(|value| value.name.as_str()).filter(|known| !known.is_empty());
    let nearest = bb_ir::nearest(&name, known).map(str::to_owned);
    let outputs = graph.outputs.iter().map(|output| graph.name_of(*output).to_owned()).collect();
    Error::UnknownValue { name, nearest, outputs }
}

/// Options of compilation.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompileOptions {
    /// [`Limits::value_bytes`](bb_ir::Limits::value_bytes).
    pub value_bytes: usize,
    /// [`Limits::iterations`](bb_ir::Limits::iterations).
    pub iterations: usize,
    /// [`Limits::run_bytes`](bb_ir::Limits::run_bytes).
    pub run_bytes: usize,
    /// [`Limits::fold_bytes`](bb_ir::Limits::fold_bytes).
    pub fold_bytes: usize,
    /// [`Limits::plan_bytes`](bb_ir::Limits::plan_bytes).
    pub plan_bytes: usize,
    /// Whether to refuse a graph with nodes that run on the host, as counted by `bb::coverage::Coverage`.
    pub refuse_host: bool,
    /// Whether to refuse a graph with nodes that are lowered to several operations because the backend has no native one.
    pub refuse_lowered: bool,
    /// Whether to check each trace after each pass that rewrites it; on by default in builds with debug assertions. A failed
    /// check is a bug in `bb` and is reported as [`Error::Internal`](crate::Error::Internal).
    pub check_passes: bool,
    /// The enabled passes.
    pub passes: PassSwitches,
    /// Whether to refuse inputs that have different extents where the model uses one symbolic name. Exporters often get these
    /// names wrong, and results do not depend on them, so the option is off by default;
    /// [`InputSpec::contradictions`](crate::InputSpec::contradictions) lists these extents.
    pub strict: bool,
    /// The identity of the graph. A runtime uses it to find an earlier compilation. With `None` the graph is always compiled
    /// anew.
    pub identity: Option<crate::GraphIdentity>,
    /// The attributes and metadata of the caller; see [`with_node`](Self::with_node).
    caller: Option<Arc<Caller>>,
    /// The families of the compiling backend `B`, as a `Families<B>`.
    families: Option<Arc<dyn Any + Send + Sync>>,
    /// A flag and a backend. The default `compile` of this backend sets the flag instead of compiling.
    asking: Option<(Arc<AtomicBool>, BackendPlace)>,
}

/// The families that a backend adopted, stored in [`CompileOptions`], which are not generic over the backend.
struct Families<B: Backend + ?Sized + 'static>(&'static [FamilyTable<B>]);

impl CompileOptions {
    /// Returns these options with the limits of runs from `limits`.
    #[must_use]
    pub fn within(self, limits: &Limits) -> CompileOptions {
        let Limits { value_bytes, run_bytes, fold_bytes, iterations, plan_bytes, .. } = *limits;
        CompileOptions { value_bytes, run_bytes, fold_bytes, iterations, plan_bytes, ..self }
    }

    /// Returns these options with the families that the backend `B` adopted; plans call the native operations of these
    /// families.
    #[must_use]
    pub fn with_families<B: Backend + ?Sized + 'static>(
        self,
        tables: &'static [FamilyTable<B>],
    ) -> CompileOptions {
        CompileOptions { families: Some(Arc::new(Families(tables))), ..self }
    }

    /// Returns these options with the attributes and metadata of the node that contains the graph, or of any other caller.
    ///
    /// The compiled graph passes them to the backend with every graph that it runs, whether this has one node or many.
    #[must_use]
    pub fn with_node(
        self,
        attributes: &[AttributeProto],
        metadata: &[StringStringEntryProto],
    ) -> CompileOptions {
        let caller = Caller { attributes: attributes.to_vec(), metadata: metadata.to_vec() };
        let given = !attributes.is_empty() || !metadata.is_empty();
        CompileOptions { caller: given.then(|| Arc::new(caller)), ..self }
    }

    /// Returns the options for a call that only an overridden `compile` of this backend may serve. The default `compile` sets
    /// `reached` and fails.
    pub(crate) fn asking<B: ?Sized>(self, on: &B, reached: &Arc<AtomicBool>) -> CompileOptions {
        CompileOptions { asking: Some((reached.clone(), BackendPlace::of(on))), ..self }
    }

    /// Redirects the check of [`asking`](Self::asking) to this backend, because the original backend passes its graphs on to
    /// it.
    pub(crate) fn asked_of<B: ?Sized>(self, on: &B) -> CompileOptions {
        CompileOptions { asking: self.asking.map(|(reached, _)| (reached, BackendPlace::of(on))), ..self }
    }

    /// Fails if only an overridden `compile` may serve the call. The default `compile` methods call this first.
    pub(crate) fn reach_default<B: ?Sized>(&self, on: &B) -> Result<(), Error> {
        match &self.asking {
            Some((reached, place)) if *place == BackendPlace::of(on) => reach(reached),
            _ => Ok(()),
        }
    }

    /// Returns the caller's attributes.
    pub fn attributes(&self) -> &[AttributeProto] {
        self.caller.as_ref().map_or(&[], |caller| &caller.attributes)
    }

    /// Returns the caller's metadata.
    pub fn metadata(&self) -> &[StringStringEntryProto] {
        self.caller.as_ref().map_or(&[], |caller| &caller.metadata)
    }

    pub(crate) fn caller(&self) -> Option<Arc<Caller>> {
        self.caller.clone()
    }

    /// Returns whether a backend compiles a graph in the same way with both options.
    pub(crate) fn are_like(&self, other: &CompileOptions) -> bool {
        // The pattern names every field, so that a new field cannot be forgotten. The families belong to the backend, not to
        // the caller.
        let CompileOptions {
            value_bytes,
            iterations,
            run_bytes,
            fold_bytes,
            plan_bytes,
            refuse_host,
            refuse_lowered,
            check_passes,
            passes,
            strict,
            identity,
            caller,
            families: _,
            asking: _,
        } = self;
        *identity == other.identity
            && *value_bytes == other.value_bytes
            && *iterations == other.iterations
            && *run_bytes == other.run_bytes
            && *fold_bytes == other.fold_bytes
            && *plan_bytes == other.plan_bytes
            && *refuse_host == other.refuse_host
            && *refuse_lowered == other.refuse_lowered
            && *check_passes == other.check_passes
            && *passes == other.passes
            && *strict == other.strict
            && *caller == other.caller
    }

    /// Returns the families of `B`; none if the options were created for another backend.
    pub(crate) fn families<B: Backend + ?Sized + 'static>(&self) -> &'static [FamilyTable<B>] {
        self.families
            .as_ref()
            .and_then(|any| any.downcast_ref::<Families<B>>())
            .map_or(&[], |families| families.0)
    }
}

impl std::fmt::Debug for CompileOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompileOptions").field("value_bytes", &self.value_bytes).finish_non_exhaustive()
    }
}

impl Default for CompileOptions {
    fn default() -> Self {
        let Limits { value_bytes, run_bytes, fold_bytes, iterations, plan_bytes, .. } = Limits::default();
        CompileOptions {
            value_bytes,
            iterations,
            run_bytes,
            fold_bytes,
            plan_bytes,
            refuse_host: false,
            refuse_lowered: false,
            check_passes: cfg!(debug_assertions),
            passes: PassSwitches::default(),
            strict: false,
            identity: None,
            caller: None,
            families: None,
            asking: None,
        }
    }
}
