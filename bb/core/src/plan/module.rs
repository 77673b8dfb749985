//! A checked model before it is compiled for a backend.

use super::saved::SavedPlans;
use super::stamp::Stamp;
use crate::contract::Module;
use crate::operator::OPERATORS;
use crate::{BackendAttrs, Error, RunOptions};
use bb_ir::Limits;
use bb_ir::check::{self, CheckOptions};
use bb_ir::compact::{self, Compact, Saved, Writer};
use bb_ir::graph::Graph;
use bb_ir::proto::{ExternalData, FunctionProto, GraphProto, ModelProto, OperatorSetIdProto};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

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
    /// The position in the file where the plans begin.
    plans: usize,
    limits: Limits,
}

impl Module {
    /// Wraps a checked graph.
    pub fn new(mut graph: Graph) -> Module {
        crate::operator::prepare(&mut graph);
        Module::of_part(graph)
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
        Ok(Module::with_saved(Arc::new(graph), Arc::new(saved)))
    }

    /// Wraps a checked graph and its plans.
    pub(crate) fn with_plans(graph: Arc<Graph>, plans: SavedPlans) -> Module {
        Module::with_saved(graph, Arc::new(SavedModule::Open(plans)))
    }

    /// Reads the plans that the module's file contains, and returns the module with them. A module without unread plans is returned
    /// unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::SavedFor`] and [`Error::Fingerprint`] if the stamp of the file differs from the stamp that `own` returns; [`Error::Ir`] if
    /// the plans are malformed.
    pub(crate) fn opened(self, own: impl FnOnce() -> Stamp) -> Result<Module, Error> {
        let Some(SavedModule::Sealed(sealed)) = self.saved() else { return Ok(self) };
        let Sealed { stamp, file, plans, limits } = sealed.as_ref();
        stamp.check(&own())?;
        let mut reader = file.reader(*plans, limits);
        let plans = SavedPlans::read(&mut reader)?;
        reader.finish()?;
        Ok(Module::with_plans(self.shared(), plans))
    }

    /// Returns the plans. Returns `None` if there are none, or if the stamp of their file has not yet been compared with the
    /// stamp of a backend.
    pub(crate) fn saved_plans(&self) -> Option<&SavedPlans> {
        match self.saved() {
            Some(SavedModule::Open(plans)) => Some(plans),
            Some(SavedModule::Sealed(_)) | None => None,
        }
    }

    /// Writes the module as a compiled model for a backend with this stamp.
    pub(crate) fn write(&self, stamp: &Stamp, to: &mut Writer) {
        stamp.write(to);
        self.graph().write(to);
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

    /// Returns the graph for planning, with carriers replaced by their bodies.
    ///
    /// # Errors
    ///
    /// [`Error::Node`] for a carrier whose operands do not fit its body.
    pub(crate) fn planned(&self) -> Result<Arc<Graph>, Error> {
        super::carriers::inlined(self.shared())
    }
}

impl BackendAttrs<'_> {
    /// Checks a graph, and returns it as a module to compile.
    ///
    /// Pass the graph that came with the attributes. If the caller has already checked it, the caller's module is returned without another
    /// check. Any other graph is checked with the opsets and functions of the attributes.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if the graph is not valid.
    pub fn module(&self, graph: &GraphProto) -> Result<Module, Error> {
        match self.checked(graph) {
            Some(module) => Ok(module.clone()),
            None => Module::from_graph(graph, self.opsets, self.functions),
        }
    }
}
