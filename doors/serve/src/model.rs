//! A served model: its ports, and the checks of its requests.

use crate::batch::Batching;
use crate::config::{Config, ModelConfig};
use crate::error::Error;
use crate::labels::Labels;
use crate::metrics::ModelMetrics;
use crate::port::TensorPort;
use crate::queue::Queue;
use crate::refusal::{Refusal, shown};
use crate::statistics::Statistics;
use bb::{BackendHandle, DataType, ErasedExecutable, InputSpec, Module, Port, TensorData};
use bb_ir::element_count;
use bb_ir::graph::Dim;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The file of one version of a model.
#[derive(Debug)]
pub(crate) struct Found {
    /// The version number, or 1 if the model has no versions.
    pub(crate) version: u64,
    /// Whether the file is in a folder that is named by the version number.
    pub(crate) versioned: bool,
    pub(crate) file: PathBuf,
    pub(crate) labels: Option<PathBuf>,
}

/// A model that is served.
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether the model was found in a folder of versions.
    pub(crate) versioned: bool,
    pub(crate) backend: String,
    pub(crate) platform: String,
    /// The name of the model's file.
    pub(crate) file: String,
    pub(crate) inputs: Vec<TensorPort>,
    pub(crate) outputs: Vec<TensorPort>,
    pub(crate) labels: Option<Labels>,
    /// The maximum number of concurrent runs.
    pub(crate) workers: usize,
    /// The number of versions that are served, the newest first.
    pub(crate) versions: usize,
    /// Whether all extents that the model declares with the same symbolic dimension must be equal.
    pub(crate) strict: bool,
    /// The inputs as the model declares them.
    pub(crate) spec: InputSpec,
    pub(crate) on: BackendHandle,
    pub(crate) executable: Arc<dyn ErasedExecutable>,
    pub(crate) batching: Option<Batching>,
    pub(crate) queue: Queue,
    pub(crate) metrics: ModelMetrics,
    pub(crate) statistics: Statistics,
}

impl Model {
    /// Loads and compiles a model.
    pub(crate) fn load(of: &ModelConfig, found: &Found, config: &Config) -> Result<Model, Error> {
        let model = || of.name.clone();
        let on = bb::backend(&of.backend)
            .map_err(|source| Error::Backend { model: model(), source: Box::new(source) })?;
        let module = Module::load_with(&found.file, &config.limits).map_err(|source| Error::Load {
            model: model(),
            path: found.file.clone(),
            source: Box::new(source),
        })?;
        let options = config.compile.clone().within(&config.limits);
        let executable = on.compile(module.clone(), &options).map_err(|source| Error::Compile {
            model: model(),
            backend: of.backend.clone(),
            source: Box::new(source),
        })?;
        let ports = |ports: &[Port], side| {
            ports.iter().map(|port| TensorPort::new(&of.name, side, port)).collect::<Result<Vec<_>, _>>()
        };
        let spec = InputSpec::new(module.graph());
        let inputs = ports(executable.inputs(), "input")?;
        let outputs = ports(executable.outputs(), "output")?;
        let batching = match config.max_batch {
            0 | 1 => None,
            rows => {
                Batching::check(&of.name, &inputs, &outputs)?;
                Some(Batching::new(rows, config.batch_delay, module))
            }
        };
        let labels = found.labels.as_ref().map(|path| Labels::read(&of.name, path)).transpose()?;
        Ok(Model {
            name: model(),
            version: found.version.to_string(),
            versioned: found.versioned,
            backend: of.backend.clone(),
            file: found.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            labels,
            workers: config.workers,
            versions: config.versions,
            strict: config.compile.strict,
            spec,
            platform: format!("bb_{}", of.backend),
            inputs,
            outputs,
            on,
            executable,
            batching,
            queue: Queue::new(config.queue),
            metrics: ModelMetrics::default(),
            statistics: Statistics::default(),
        })
    }

    /// Returns the labels of the model's metrics. Only models in folders of versions have a version label, because several of their
    /// versions may be served.
    pub(crate) fn metric_labels(&self) -> String {
        match self.versioned {
            true => format!("model=\"{}\",version=\"{}\"", self.name, self.version),
            false => format!("model=\"{}\"", self.name),
        }
    }

    /// Describes extents that differ although the model declares them with the same symbolic dimension. Returns `None` if there are none.
    pub(crate) fn contradicted(&self, inputs: &[Option<TensorData>]) -> Option<String> {
        let given = |index: usize| inputs.get(index)?.as_ref().map(|x| (x.dtype(), x.shape()));
        let found = self.spec.contradictions(&given);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    /// Returns the indices of the outputs that a request names, or of all outputs if it names none.
    pub(crate) fn wanted<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<Vec<usize>, Refusal> {
        let mut wanted = Vec::new();
        for name in names {
            let index = self.outputs.iter().position(|port| port.name == name);
            let index = index.ok_or_else(|| Refusal::UnknownOutput {
                model: self.name.clone(),
                name: shown(name),
                known: names_of(&self.outputs),
            })?;
            if wanted.contains(&index) {
                return Err(Refusal::RepeatedOutput { name: shown(name) });
            }
            wanted.push(index);
        }
        if wanted.is_empty() {
            wanted.extend(0..self.outputs.len());
        }
        Ok(wanted)
    }
}

fn names_of(ports: &[TensorPort]) -> String {
    ports.iter().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", ")
}

/// The name, type and shape of an input in a request, before its elements are read.
#[derive(Debug)]
pub(crate) struct Announced {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    pub(crate) datatype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: usize,
}

/// Collects the inputs of a request, in the order of the model's ports.
pub(crate) struct Inputs<'a> {
    model: &'a Model,
    values: Vec<Option<TensorData>>,
    announced: Vec<bool>,
    /// The extent of each symbolic dimension in this request, and the first input that has it. Empty if extents need not agree.
    symbols: HashMap<&'a str, (usize, &'a str)>,
}

impl<'a> Inputs<'a> {
    pub(crate) fn of(model: &'a Model) -> Inputs<'a> {
        let ports = model.inputs.len();
        Inputs { model, values: vec![None; ports], announced: vec![false; ports], symbols: HashMap::new() }
    }

    /// Checks an announced input against its port, before any element is read.
    pub(crate) fn announce(
        &mut self,
        name: &str,
        datatype: &str,
        shape: &[i64],
    ) -> Result<Announced, Refusal> {
        let model = self.model;
        let known = model.inputs.iter().enumerate().find(|(_, port)| port.name == name);
        let (index, port) = known.ok_or_else(|| Refusal::UnknownInput {
            model: model.name.clone(),
            name: shown(name),
            known: names_of(&model.inputs),
        })?;
        match self.announced.get_mut(index) {
            Some(given) if !*given => *given = true,
            _ => return Err(Refusal::RepeatedInput { name: shown(name) }),
        }
        if datatype != port.datatype {
            let got = shown(datatype);
            return Err(Refusal::DataType { name: shown(name), expected: port.datatype, got });
        }
        let wrong = || Refusal::Shape { name: shown(name), expected: port.shape_text(), got: shape.to_vec() };
        let extents: Option<Vec<usize>> = shape.iter().map(|n| usize::try_from(*n).ok()).collect();
        let extents = extents.ok_or_else(wrong)?;
        let dims = port.shape.as_deref().unwrap_or_default();
        if dims.len() != extents.len() {
            return Err(wrong());
        }
        for (dim, &got) in dims.iter().zip(&extents) {
            match dim {
                Dim::Known(expected) if *expected != got => return Err(wrong()),
                Dim::Symbol(symbol) if model.strict => {
                    let (first, other) = *self.symbols.entry(symbol).or_insert((got, &port.name));
                    if first != got {
                        let (name, symbol, other) = (shown(name), symbol.clone(), other.to_owned());
                        return Err(Refusal::Symbol { name, symbol, other, first, got });
                    }
                }
                // The model declares that extents of the same symbolic dimension are equal. A false declaration is only reported in the
                // log.
                Dim::Known(_) | Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => {}
            }
        }
        let elements = element_count(&extents).ok_or_else(wrong)?;
        let (dtype, datatype, name) = (port.dtype, port.datatype, name.to_owned());
        Ok(Announced { index, name, dtype, datatype, shape: extents, elements })
    }

    /// Adds the elements of an announced input.
    pub(crate) fn put(&mut self, announced: &Announced, tensor: TensorData) {
        if let Some(value) = self.values.get_mut(announced.index) {
            *value = Some(tensor);
        }
    }

    /// Returns the inputs in the order of the ports, or a refusal if a required input is missing.
    pub(crate) fn finish(self) -> Result<Vec<Option<TensorData>>, Refusal> {
        for (port, value) in self.model.inputs.iter().zip(&self.values) {
            if value.is_none() && !port.optional {
                return Err(Refusal::MissingInput {
                    model: self.model.name.clone(),
                    name: port.name.clone(),
                    datatype: port.datatype,
                    shape: port.shape_text(),
                });
            }
        }
        Ok(self.values)
    }
}
