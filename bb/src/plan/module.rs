//! A model on its way to a backend.

use crate::contract::Caller;
use crate::ext::FamilyTable;
use crate::{Backend, Error};
use bb_ir::check::{self, CheckOptions};
use bb_ir::graph::Graph;
use bb_ir::proto::{AttributeProto, FunctionProto, GraphProto, OperatorSetIdProto, StringStringEntryProto};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A checked model, ready to be compiled for a backend.
#[derive(Debug, Clone)]
pub struct Module {
    graph: Arc<Graph>,
}

impl Module {
    /// Wraps a checked graph.
    pub fn new(mut graph: Graph) -> Module {
        crate::onnx::prepare_gradients(&mut graph);
        Module { graph: Arc::new(graph) }
    }

    /// Reads and checks a model file; its external data lies in its folder.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the file cannot be read, [`Error::Ir`] if the model is not valid.
    pub fn load(path: &Path, limits: &bb_ir::Limits) -> Result<Module, Error> {
        let file = |source| Error::File { path: path.to_owned(), source };
        let size = std::fs::metadata(path).map_err(file)?.len();
        if size > limits.model_bytes as u64 {
            let limit = limits.model_bytes;
            let got = usize::try_from(size).unwrap_or(usize::MAX);
            return Err(bb_ir::Error::Limit { what: "bytes of a model", got, limit }.into());
        }
        let bytes = std::fs::read(path).map_err(file)?;
        Module::from_bytes(bytes.into(), limits, path.parent())
    }

    /// Checks a serialized model; `folder` is where its external data may lie.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the model is not valid.
    pub fn from_bytes(
        bytes: bytes::Bytes,
        limits: &bb_ir::Limits,
        folder: Option<&Path>,
    ) -> Result<Module, Error> {
        let model = check::parse_model(bytes, limits)?;
        let options = CheckOptions { limits: limits.clone(), external_data: folder };
        Ok(Module::new(check::check(&model, &options)?.graph))
    }

    /// Checks a graph on its own. Without opsets it is taken to be of the newest.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the graph is not valid.
    pub fn from_graph(
        graph: &GraphProto,
        opsets: &[OperatorSetIdProto],
        functions: &[FunctionProto],
    ) -> Result<Module, Error> {
        let mut versions: BTreeMap<String, i64> =
            opsets.iter().map(|o| (o.domain().to_owned(), o.version())).collect();
        if versions.is_empty() {
            versions.insert(String::new(), bb_ir::opset::NEWEST);
        }
        Ok(Module::new(check::check_graph(graph, &versions, functions, &CheckOptions::default())?))
    }

    /// Returns the checked graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn shared(&self) -> Arc<Graph> {
        self.graph.clone()
    }
}

/// How to compile.
#[derive(Clone)]
#[non_exhaustive]
pub struct CompileOptions {
    /// The most bytes that one value of the graph may have, 4 GiB unless told; what would be larger is an error before
    /// anything runs.
    pub value_bytes: usize,
    /// The most rounds that all loops of a run may take together, so that a loop which does not end is an error.
    pub rounds: usize,
    /// Which graph it is, for a runtime to keep what it compiled; `None` compiles anew.
    pub identity: Option<crate::GraphIdentity>,
    /// What the caller gives along; see [`with_node`](Self::with_node).
    caller: Option<Arc<Caller>>,
    /// A `Families<B>` for the backend that compiles.
    families: Option<Arc<dyn Any + Send + Sync>>,
}

/// The families that a backend adopted, inside [`CompileOptions`], which do not name its type.
struct Families<B: Backend + ?Sized + 'static>(&'static [FamilyTable<B>]);

impl CompileOptions {
    /// Returns the same with the families that the backend `B` adopted, whose natives plans will call.
    #[must_use]
    pub fn with_families<B: Backend + ?Sized + 'static>(
        self,
        tables: &'static [FamilyTable<B>],
    ) -> CompileOptions {
        CompileOptions { families: Some(Arc::new(Families(tables))), ..self }
    }

    /// Returns the same with the attributes and metadata of the node that carries the graph, or of any other caller.
    ///
    /// What was compiled hands them to the backend with every graph, of one node or of many.
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

    /// Tells whether one backend makes the same of a graph with these options as with others.
    pub(crate) fn are_like(&self, other: &CompileOptions) -> bool {
        // Every field is named, so that a new one is thought of. The families are the backend's, not the caller's.
        let CompileOptions { value_bytes, rounds, identity, caller, families: _ } = self;
        *identity == other.identity
            && *value_bytes == other.value_bytes
            && *rounds == other.rounds
            && *caller == other.caller
    }

    /// Returns the families of `B`; none if the options were made for another backend.
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
        CompileOptions {
            value_bytes: crate::trace::DEFAULT_LIMIT,
            rounds: 1 << 20,
            identity: None,
            caller: None,
            families: None,
        }
    }
}
