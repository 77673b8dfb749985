//! Loads models and their metadata.

use bb::ir::proto::{GraphProto, ModelProto};
use bb::{ErrorKind, Limits, Module};
use bb_c::abi::{Items, Named, Status, Text, status};
use bb_ir::check::{self, CheckOptions};
use bb_ir::proto::ExternalData;
use std::path::Path;

/// The metadata of a model. Empty for a compiled model.
#[derive(Debug, Default)]
pub(crate) struct ModelMetadata {
    producer: String,
    graph: String,
    domain: String,
    description: String,
    graph_description: String,
    version: i64,
    entries: Vec<(String, String)>,
}

/// `bb_model`.
#[repr(C)]
#[derive(Debug)]
pub struct ModelFacts {
    size: usize,
    producer: Text,
    graph: Text,
    domain: Text,
    description: Text,
    graph_description: Text,
    version: i64,
    entries: Items<Named>,
}

/// The memory that a `bb_model` points to. It lives as long as the session.
#[derive(Debug)]
pub(crate) struct Told {
    facts: ModelMetadata,
    /// The entries, which point into `facts`.
    entries: Vec<Named>,
}

// SAFETY: the strings belong to `facts`, which never changes.
unsafe impl Send for Told {}
// SAFETY: as above.
unsafe impl Sync for Told {}

impl Told {
    pub(crate) fn new(facts: ModelMetadata) -> Told {
        // The pointers stay valid when the strings are moved, because their bytes are on the heap.
        let entry =
            |(name, value): &(String, String)| Named { name: Text::new(name), value: Text::new(value) };
        let entries = facts.entries.iter().map(entry).collect();
        Told { facts, entries }
    }
}

impl ModelMetadata {
    fn of(model: &ModelProto) -> ModelMetadata {
        let graph = model.graph.as_ref();
        let entries = model.metadata_props.iter();
        ModelMetadata {
            producer: model.producer_name().to_owned(),
            graph: graph.map_or("", GraphProto::name).to_owned(),
            domain: model.domain().to_owned(),
            description: model.doc_string().to_owned(),
            graph_description: graph.map_or("", GraphProto::doc_string).to_owned(),
            version: model.model_version(),
            entries: entries.map(|entry| (entry.key().to_owned(), entry.value().to_owned())).collect(),
        }
    }
}

/// The source of a model.
pub(crate) enum ModelSource<'a> {
    /// A file.
    File(&'a Path),
    /// Bytes in memory.
    Bytes(&'a [u8]),
}

impl ModelSource<'_> {
    /// Loads the model.
    ///
    /// # Errors
    ///
    /// The errors of [`Module::load_with`].
    pub(crate) fn load(&self, limits: &Limits) -> Result<(Module, ModelMetadata), bb::Error> {
        let inside = |source: bb_ir::Error| match self {
            ModelSource::File(path) => {
                bb_ir::Error::InFile { path: (*path).to_owned(), source: Box::new(source) }
            }
            ModelSource::Bytes(_) => source,
        };
        let bytes = match self {
            ModelSource::File(path) => bb_ir::file::load(path, limits)?,
            ModelSource::Bytes(bytes) => bytes.to_vec().into(),
        };
        if bb_ir::compact::is_saved(&bytes) {
            let module = match self {
                ModelSource::File(path) => Module::load_with(path, limits)?,
                ModelSource::Bytes(_) => Module::from_bytes_with(bytes, limits)?,
            };
            return Ok((module, ModelMetadata::default()));
        }
        let model = check::parse_model(bytes, limits).map_err(inside)?;
        let facts = ModelMetadata::of(&model);
        let external = match self {
            ModelSource::File(path) => Some(ExternalData::of_model(path, limits)),
            ModelSource::Bytes(_) => None,
        };
        let options = CheckOptions {
            limits: limits.clone(),
            external_data: external.as_ref(),
            operators: bb::onnx::OPERATORS,
        };
        Ok((Module::new(check::check(&model, &options).map_err(inside)?.graph), facts))
    }
}

impl Told {
    /// Writes the metadata into the caller's structure, which may be shorter.
    ///
    /// # Safety
    ///
    /// The pointer is null, or points to a structure that begins with its size in bytes.
    pub(crate) unsafe fn write(&self, model: *mut ModelFacts) -> Status {
        if model.is_null() {
            return status::of(ErrorKind::WrongInput);
        }
        let Told { facts, entries } = self;
        // SAFETY: the structure begins with its size.
        let size = unsafe { model.cast::<usize>().read() };
        if size < size_of::<usize>() {
            return status::of(ErrorKind::WrongInput);
        }
        let all = ModelFacts {
            size,
            producer: Text::new(&facts.producer),
            graph: Text::new(&facts.graph),
            domain: Text::new(&facts.domain),
            description: Text::new(&facts.description),
            graph_description: Text::new(&facts.graph_description),
            version: facts.version,
            entries: Items::of(entries),
        };
        let length = size.min(size_of::<ModelFacts>());
        // SAFETY: the caller's structure has `size` bytes, and is no memory of ours.
        unsafe { std::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), model.cast::<u8>(), length) };
        status::OK
    }
}
