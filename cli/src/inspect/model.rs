//! The metadata of a model file, and its parameters.

use crate::error::Result;
use crate::render;
use bb::{DataType, Module};
use bb_ir::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// The contents of a model file, except its graph.
#[derive(Default)]
pub(super) struct Facts {
    ir_version: i64,
    producer: String,
    producer_version: String,
    domain: String,
    version: i64,
    opsets: Vec<(String, i64)>,
    /// The names of the functions that the model defines, with their domains.
    functions: Vec<String>,
    metadata: Vec<(String, String)>,
    parameters: Parameters,
}

/// The sizes of initializers and constants, including those in subgraphs and functions.
#[derive(Default)]
struct Parameters {
    by_type: BTreeMap<&'static str, Amount>,
    /// The sizes of the files with external data, by the names that the model uses.
    external: BTreeMap<String, Amount>,
}

/// The number of elements, and their size in bytes.
#[derive(Default, Clone, Copy)]
struct Amount {
    elements: u64,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.elements = self.elements.saturating_add(other.elements);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn json(self) -> serde_json::Value {
        json!({ "elements": self.elements, "bytes": self.bytes })
    }
}

impl Facts {
    /// Reads a model file without its external data. For a compiled model, only the parameters are known.
    pub(super) fn read(path: &Path, limits: &bb_ir::Limits, module: &Module) -> Result<Facts> {
        let bytes = bb_ir::file::load(path, limits)?;
        if bb_ir::compact::is_saved(&bytes) {
            let mut facts = Facts::default();
            for (_, data) in &module.graph().constants {
                let amount = Amount { elements: data.len() as u64, bytes: data.byte_len() as u64 };
                facts.parameters.by_type.entry(data.dtype().name()).or_default().add(amount);
            }
            return Ok(facts);
        }
        Ok(Facts::of(&bb_ir::check::parse_model(bytes, limits)?))
    }

    fn of(model: &ModelProto) -> Facts {
        let mut parameters = Parameters::default();
        let mut nodes: Vec<&[NodeProto]> = model.functions.iter().map(|f| &*f.node).collect();
        let mut graphs: Vec<&GraphProto> = model.graph.iter().collect();
        // Uses a list of pending graphs instead of recursion, so that deep nesting does not overflow the stack.
        loop {
            if let Some(graph) = graphs.pop() {
                graph.initializer.iter().for_each(|tensor| parameters.add(tensor));
                let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
                sparse.for_each(|values| parameters.add(values));
                nodes.push(&graph.node);
            } else if let Some(list) = nodes.pop() {
                for attribute in list.iter().flat_map(|node| &node.attribute) {
                    attribute.t.iter().chain(&attribute.tensors).for_each(|tensor| parameters.add(tensor));
                    graphs.extend(attribute.g.iter().chain(&attribute.graphs));
                }
            } else {
                break;
            }
        }
        let named = |domain: &str| if domain.is_empty() { "ai.onnx".to_owned() } else { domain.to_owned() };
        let entries = model.metadata_props.iter();
        Facts {
            ir_version: model.ir_version(),
            producer: model.producer_name().to_owned(),
            producer_version: model.producer_version().to_owned(),
            domain: model.domain().to_owned(),
            version: model.model_version(),
            opsets: model.opset_import.iter().map(|o| (named(o.domain()), o.version())).collect(),
            functions: model
                .functions
                .iter()
                .map(|f| format!("{}.{}", named(f.domain()), f.name()))
                .collect(),
            metadata: entries.map(|e| (e.key().to_owned(), e.value().to_owned())).collect(),
            parameters,
        }
    }

    /// Returns rows with a name and a text. Metadata that the model does not have is omitted.
    pub(super) fn rows(&self) -> Vec<[String; 2]> {
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| {
            if !text.is_empty() {
                rows.push([name.to_owned(), text]);
            }
        };
        row("producer", render::plain(format!("{} {}", self.producer, self.producer_version).trim()));
        row("domain", render::plain(&self.domain));
        if self.version != 0 {
            row("version", self.version.to_string());
        }
        if self.ir_version != 0 {
            row("IR version", self.ir_version.to_string());
        }
        let opsets: Vec<String> =
            self.opsets.iter().map(|(domain, version)| format!("{domain} {version}")).collect();
        row("opsets", render::plain(&opsets.join(", ")));
        row("functions", render::plain(&self.functions.join(", ")));
        for (key, value) in &self.metadata {
            row(&format!("metadata {}", render::plain(key)), render::plain(value));
        }
        row("parameters", self.parameters.text());
        for (file, amount) in &self.parameters.external {
            row("external data", format!("{}: {}", render::plain(file), render::bytes(amount.bytes)));
        }
        rows
    }

    /// Returns all contents as JSON. The names of the fields include the units.
    pub(super) fn json(&self) -> serde_json::Value {
        let object = |entries: &[(String, String)]| -> serde_json::Map<_, _> {
            entries.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect()
        };
        let opsets: serde_json::Map<_, _> =
            self.opsets.iter().map(|(d, v)| (d.clone(), (*v).into())).collect();
        let by_type = self.parameters.by_type.iter().map(|(ty, amount)| ((*ty).to_owned(), amount.json()));
        let all = self.parameters.all();
        let external = self.parameters.external.iter();
        let external = external.map(|(file, amount)| json!({ "file": file, "bytes": amount.bytes }));
        json!({
            "ir_version": self.ir_version, "producer": self.producer, "producer_version": self.producer_version,
            "domain": self.domain, "version": self.version, "opsets": opsets, "functions": self.functions,
            "metadata": object(&self.metadata),
            "parameters": {
                "elements": all.elements, "bytes": all.bytes,
                "by_type": by_type.collect::<serde_json::Map<_, _>>(),
            },
            "external_data": external.collect::<Vec<_>>(),
        })
    }
}

impl Parameters {
    fn add(&mut self, tensor: &TensorProto) {
        let mut extents = tensor.dims.iter().map(|&extent| u64::try_from(extent).ok());
        let elements = extents.try_fold(1u64, |all, extent| all.checked_mul(extent?)).unwrap_or(0);
        let Some(dtype) = DataType::from_onnx(tensor.data_type()) else { return };
        let bytes = match dtype {
            DataType::String => tensor.string_data.iter().map(|text| text.len() as u64).sum(),
            _ => usize::try_from(elements).ok().and_then(|n| dtype.bytes_for(n)).map_or(0, |n| n as u64),
        };
        let amount = Amount { elements, bytes };
        self.by_type.entry(dtype.name()).or_default().add(amount);
        if let Some(location) = tensor.external_data.iter().find(|entry| entry.key() == "location") {
            self.external.entry(location.value().to_owned()).or_default().add(amount);
        }
    }

    fn all(&self) -> Amount {
        let mut all = Amount::default();
        self.by_type.values().for_each(|amount| all.add(*amount));
        all
    }

    fn text(&self) -> String {
        let all = self.all();
        let parts: Vec<String> =
            self.by_type.iter().map(|(ty, amount)| format!("{} {ty}", grouped(amount.elements))).collect();
        if parts.is_empty() {
            "none".to_owned()
        } else {
            format!("{}, {}", parts.join(", "), render::bytes(all.bytes))
        }
    }
}

/// Formats a number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
