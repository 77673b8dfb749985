//! Models: their inputs and outputs per row, and their compiled forms.

use crate::cache::{Cache, Weigh};
use crate::error::Error;
use crate::external;
use crate::location::{ModelHash, ModelPlace, ModelRef};
use crate::stores::{Content, Places, Version};
use bb::ir::graph::{Dim, Graph, Node, ValueType};
use bb::{
    BackendHandle, CompileOptions, DataType, ErasedExecutable, Limits, Module, OpenOption, OpenOptions,
    Registry, RowInput, RowProof,
};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of cached models, and the maximum total size of their files.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 8 << 30;

/// Operators that draw random numbers.
const RANDOM: &[&str] =
    &["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];

/// The external data files of the model at a location.
static FILES: Cache<(String, Version), Vec<String>> = Cache::new(256, 16 << 20);

/// The hash of the model at a location, by the versions of the model and of its external data files.
static HASHES: Cache<(String, Vec<Version>), ModelHash> = Cache::new(256, 16 << 20);

/// The loaded models by the hash of their content, and by folder, because models of equal content in two folders may have different
/// external data.
static MODELS: Cache<(ModelHash, Option<PathBuf>), Model> = Cache::new(KEPT, KEPT_BYTES);

/// Compiled models.
static COMPILED: Cache<CompiledKey, Compiled> = Cache::new(KEPT, KEPT_BYTES);

/// The cache key of a compiled model.
#[derive(Debug, Clone, PartialEq)]
struct CompiledKey {
    hash: ModelHash,
    folder: Option<PathBuf>,
    backend: String,
    threads: Option<NonZeroUsize>,
    memory: Option<NonZeroUsize>,
}

/// The grouping of rows into runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The first dimension is open, so a run has many rows.
    Joined,
    /// The first dimension is 1, so a run has one row.
    Single,
}

/// The result of the proof that rows are independent, for runs with these inputs.
#[derive(Debug)]
struct RowsChecked {
    inputs: Vec<RowInput>,
    most: usize,
    proof: RowProof,
}

/// The maximum number of proofs that a model keeps.
const PROOFS: usize = 64;

/// An input.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    /// The extents. The first one is the number of rows. `None` if the rank is unknown.
    pub(crate) dims: Option<Vec<Dim>>,
    pub(crate) optional: bool,
}

impl Input {
    /// Returns whether the input has no dimension for rows, so that all rows share one value.
    pub(crate) fn is_scalar(&self) -> bool {
        self.dims.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns the extents of one row.
    pub(crate) fn row(&self) -> Option<&[Dim]> {
        self.dims.as_ref().map(|dims| dims.get(1..).unwrap_or_default())
    }
}

/// An output.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) form: Form,
}

/// The structure of an output.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// A tensor.
    Tensor {
        /// The element type.
        dtype: DataType,
        /// The extents of one row.
        row: Vec<Dim>,
    },
    /// A sequence of maps, one for each row.
    Maps {
        /// The type of keys.
        key: DataType,
        /// The type of values.
        value: DataType,
    },
}

/// A model that was read and checked.
pub(crate) struct Model {
    pub(crate) location: String,
    pub(crate) hash: ModelHash,
    folder: Option<PathBuf>,
    module: Module,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) rows: Rows,
    /// An operator that draws random numbers.
    pub(crate) random: Option<String>,
    bytes: usize,
    /// The proofs that rows are independent, for the extents of the most recent runs.
    proofs: Mutex<Vec<RowsChecked>>,
}

impl Weigh for ModelHash {
    fn weight(&self) -> usize {
        size_of::<ModelHash>()
    }
}

impl Weigh for Vec<String> {
    fn weight(&self) -> usize {
        self.iter().map(String::len).sum()
    }
}

impl Weigh for Model {
    fn weight(&self) -> usize {
        self.bytes
    }
}

impl Model {
    /// Returns the model that a query names. Returns an error if the query has a hash that differs from the model's.
    pub(crate) fn find(of: &ModelRef, places: Places<'_>) -> Result<Arc<Model>, Error> {
        let folder = match ModelPlace::of(&of.location) {
            ModelPlace::File(path) => path.parent().map(Path::to_path_buf),
            ModelPlace::Object(_) => None,
        };
        let beside = folder.as_deref();
        let hash_of = |content: &Content, files: &[String]| match beside {
            Some(folder) => external::hash(&content.bytes, folder, files, places.limits),
            None => Ok(ModelHash::of(&content.bytes)),
        };
        let files_of = |content: &Content| beside.map_or_else(Vec::new, |_| external::files(&content.bytes));
        // Keeps content that is read to compute the hash, so that it need not be read again.
        let mut at_hand = None;
        let hash = match of.sha256 {
            Some(hash) => hash,
            None => {
                let version = places.version(&of.location)?;
                let key = (of.location.clone(), version.clone());
                let files = FILES.get(key, || {
                    let content = at_hand.insert(places.read(&of.location)?);
                    Ok(files_of(content))
                })?;
                let mut versions = vec![version];
                for (folder, file) in
                    beside.iter().flat_map(|folder| files.iter().map(move |file| (folder, file)))
                {
                    versions.push(places.version(&folder.join(file).to_string_lossy())?);
                }
                *HASHES.get((of.location.clone(), versions), || {
                    let content = at_hand.take().map_or_else(|| places.read(&of.location), Ok)?;
                    let hash = hash_of(&content, &files)?;
                    at_hand = Some(content);
                    Ok(hash)
                })?
            }
        };
        MODELS.get((hash, folder.clone()), || {
            let content = at_hand.take().map_or_else(|| places.read(&of.location), Ok)?;
            let got = hash_of(&content, &files_of(&content))?;
            if got != hash {
                return Err(Error::Hash {
                    location: of.location.clone(),
                    expected: hash.to_string(),
                    got: got.to_string(),
                });
            }
            Model::load(&of.location, hash, content, places.limits)
        })
    }

    fn load(location: &str, hash: ModelHash, content: Content, limits: &Limits) -> Result<Model, Error> {
        let bytes = content.bytes.len();
        let module = match &content.folder {
            Some(folder) => Module::from_bytes_in(content.bytes, folder, limits),
            None => Module::from_bytes_with(content.bytes, limits),
        };
        let module = module
            .map_err(|source| Error::Load { location: location.to_owned(), source: Box::new(source) })?;
        let graph = module.graph();
        let ports = |ids: &[bb::ir::graph::ValueId]| {
            let info =
                |id: &bb::ir::graph::ValueId| graph.values.get(id.0 as usize).cloned().unwrap_or_default();
            ids.iter().map(|id| (*id, info(id))).collect::<Vec<_>>()
        };
        let mut inputs = Vec::new();
        for (id, info) in ports(&graph.inputs) {
            let optional = graph.constants.iter().any(|(constant, _)| *constant == id);
            match info.claimed() {
                ValueType::Tensor { dtype, shape } if crate::element_types::arrow(dtype).is_some() => {
                    inputs.push(Input { name: info.name, dtype, dims: shape, optional });
                }
                ty => return Err(port(location, "input", info.name, ty)),
            }
        }
        let (mut outputs, mut firsts) = (Vec::new(), Vec::new());
        for (_, info) in ports(&graph.outputs) {
            let ty = info.claimed();
            let known = |dtype: DataType| crate::element_types::arrow(dtype).is_some();
            let form = match &ty {
                ValueType::Tensor { dtype, shape: Some(shape) } if known(*dtype) => {
                    firsts.push((info.name.clone(), shape.clone()));
                    Some(Form::Tensor { dtype: *dtype, row: shape.get(1..).unwrap_or_default().to_vec() })
                }
                ValueType::Sequence(inner) => match &**inner {
                    ValueType::Map(key, value) => match &**value {
                        ValueType::Tensor { dtype, .. } if known(*key) && known(*dtype) => {
                            Some(Form::Maps { key: *key, value: *dtype })
                        }
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            };
            let Some(form) = form else { return Err(port(location, "output", info.name, ty)) };
            outputs.push(Output { name: info.name, form });
        }
        let rows = row_axis(location, &inputs, &firsts)?;
        let random = random(graph);
        Ok(Model {
            location: location.to_owned(),
            hash,
            folder: content.folder,
            inputs,
            outputs,
            rows,
            random,
            bytes,
            module,
            proofs: Mutex::default(),
        })
    }

    /// Returns an error unless the rows are known to be independent in runs of up to `most` rows.
    pub(crate) fn check_rows(&self, inputs: Vec<RowInput>, most: usize) -> Result<(), Error> {
        let known = |proofs: &Vec<RowsChecked>| {
            proofs
                .iter()
                .find(|known| known.inputs == inputs && known.most == most)
                .map(|known| known.proof.clone())
        };
        let lock = || self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known(&lock());
        let proof = match found {
            Some(proof) => proof,
            None => {
                let proof = self.module.prove_rows(&inputs, most).map_err(|source| Error::Run {
                    location: self.location.clone(),
                    rows: most,
                    source: Box::new(source),
                })?;
                let mut proofs = lock();
                if proofs.len() == PROOFS {
                    proofs.remove(0);
                }
                proofs.push(RowsChecked { inputs, most, proof: proof.clone() });
                proof
            }
        };
        match proof {
            RowProof::Independent => Ok(()),
            proof => Err(Error::Mixes { location: self.location.clone(), proof }),
        }
    }

    /// Formats the inputs for messages.
    pub(crate) fn signature(&self) -> String {
        let inputs = self.inputs.iter().map(|input| {
            let optional = if input.optional { ", optional" } else { "" };
            format!("`{}` ({}{}{optional})", input.name, input.dtype, shape_text(input.dims.as_deref()))
        });
        format!("{} columns: {}", self.inputs.len(), inputs.collect::<Vec<_>>().join(", "))
    }

    /// Returns the model compiled for the backend that the query names.
    pub(crate) fn compiled(
        self: &Arc<Model>,
        of: &ModelRef,
        threads: Option<NonZeroUsize>,
        limits: &Limits,
    ) -> Result<Arc<Compiled>, Error> {
        let key = CompiledKey {
            hash: self.hash,
            folder: self.folder.clone(),
            backend: of.backend.clone(),
            threads,
            memory: of.memory,
        };
        COMPILED.get(key, || {
            let (location, backend) = (|| self.location.clone(), || of.backend.clone());
            let open = match threads {
                Some(n) if takes_threads(&of.backend) => OpenOptions::default().with_threads(n),
                _ => OpenOptions::default(),
            };
            let on = bb::backend_with(&of.backend, &open).map_err(|source| Error::Backend {
                location: location(),
                backend: backend(),
                source: Box::new(source),
            })?;
            let mut options = CompileOptions::default().within(limits);
            if let Some(memory) = of.memory {
                options.value_bytes = options.value_bytes.min(memory.get());
                options.run_bytes = options.run_bytes.min(memory.get());
            }
            let executable = on.compile(self.module.clone(), &options).map_err(|source| Error::Compile {
                location: location(),
                backend: backend(),
                source: Box::new(source),
            })?;
            Ok(Compiled { model: self.clone(), on, executable })
        })
    }
}

/// A compiled model.
pub(crate) struct Compiled {
    pub(crate) model: Arc<Model>,
    pub(crate) on: BackendHandle,
    pub(crate) executable: Arc<dyn ErasedExecutable>,
}

impl Weigh for Compiled {
    fn weight(&self) -> usize {
        self.model.bytes
    }
}

/// Returns an error if no backend has this name. Whether the backend can be opened is checked only in the process that runs the model.
pub(crate) fn check_backend(name: &str) -> Result<(), Error> {
    let known: Vec<&str> = Registry::global().entries().map(|entry| entry.name).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let known = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
    Err(Error::UnknownBackend { backend: name.to_owned(), known })
}

/// Returns whether a backend has the option for the number of threads.
fn takes_threads(name: &str) -> bool {
    let mut known = Registry::global().entries();
    known.any(|entry| entry.name == name && entry.options.contains(&OpenOption::Threads))
}

fn port(location: &str, side: &'static str, port: String, ty: ValueType) -> Error {
    Error::Port { location: location.to_owned(), side, port, ty: Box::new(ty) }
}

/// Returns how rows are grouped into runs, if the first dimensions of inputs and outputs allow it.
fn row_axis(location: &str, inputs: &[Input], outputs: &[(String, Vec<Dim>)]) -> Result<Rows, Error> {
    let inputs = inputs.iter().filter(|input| !input.is_scalar());
    let inputs = inputs.map(|input| ("input", &input.name, input.dims.as_deref()));
    let outputs = outputs.iter().map(|(name, dims)| ("output", name, Some(dims.as_slice())));
    let all: Vec<_> = inputs.chain(outputs).collect();
    let one = |dims: Option<&[Dim]>| matches!(dims.and_then(<[Dim]>::first), Some(Dim::Known(1)));
    let open = |dims: Option<&[Dim]>| {
        dims.is_none_or(|dims| matches!(dims.first(), Some(Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown)))
    };
    let single = all.iter().any(|(side, _, dims)| *side == "input" && one(*dims));
    let fits = |dims| if single { one(dims) || open(dims) } else { open(dims) };
    match all.iter().find(|(_, _, dims)| !fits(*dims)) {
        None if single => Ok(Rows::Single),
        None => Ok(Rows::Joined),
        Some((side, name, dims)) => Err(Error::RowAxis {
            location: location.to_owned(),
            side,
            port: (*name).clone(),
            got: shape_text(*dims),
        }),
    }
}

/// Returns the first operator of a graph that draws random numbers, including subgraphs.
fn random(graph: &Graph) -> Option<String> {
    let mut pending = vec![graph];
    while let Some(graph) = pending.pop() {
        let is_random = |node: &&Node| node.domain.is_empty() && RANDOM.contains(&node.op_type.as_str());
        if let Some(node) = graph.nodes.iter().find(is_random) {
            return Some(node.op_type.clone());
        }
        pending.extend(graph.nodes.iter().flat_map(Node::subgraphs));
    }
    None
}

/// Formats extents.
pub(crate) fn shape_text(dims: Option<&[Dim]>) -> String {
    match dims {
        Some(dims) => format!("[{}]", dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")),
        None => "of any rank".to_owned(),
    }
}
