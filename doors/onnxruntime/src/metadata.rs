//! The metadata of a model.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::allocator::{Allocator, OrtAllocator};
use crate::arguments::{OutPlace, bytes, object};
use crate::release::releases;
use crate::status::{Result, functions};
use bb::ir::proto::{GraphProto, ModelProto};
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

/// The metadata of a model. It is empty for a compiled model.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    producer: String,
    graph: String,
    domain: String,
    description: String,
    graph_description: String,
    version: i64,
    entries: Vec<(String, String)>,
}

impl Facts {
    /// Reads the metadata of a model.
    pub(crate) fn of(model: &ModelProto) -> Facts {
        let graph = model.graph.as_ref();
        let entries = model.metadata_props.iter();
        Facts {
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

/// `OrtModelMetadata`.
#[derive(Debug)]
pub(crate) struct OrtModelMetadata(pub(crate) Arc<Facts>);

/// Copies a string of the metadata into a block.
///
/// # Safety
///
/// As the functions of the table.
unsafe fn give(
    metadata: *const OrtModelMetadata,
    allocator: *mut OrtAllocator,
    out: *mut *mut c_char,
    text: fn(&Facts) -> &str,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    let (metadata, allocator, out) = unsafe {
        (object(metadata, "metadata")?, Allocator::of(allocator)?, OutPlace::at(out, "a place for a text")?)
    };
    out.put(allocator.text(text(&metadata.0))?);
    Ok(())
}

functions! {
    /// Returns the name of the program that wrote the model.
    ModelMetadataGetProducerName(metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, out: *mut *mut c_char) {
        give(metadata, allocator, out, |facts| &facts.producer)
    }

    /// Returns the name of the graph.
    ModelMetadataGetGraphName(metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, out: *mut *mut c_char) {
        give(metadata, allocator, out, |facts| &facts.graph)
    }

    /// Returns the domain of the model.
    ModelMetadataGetDomain(metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, out: *mut *mut c_char) {
        give(metadata, allocator, out, |facts| &facts.domain)
    }

    /// Returns the description of the model.
    ModelMetadataGetDescription(metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, out: *mut *mut c_char) {
        give(metadata, allocator, out, |facts| &facts.description)
    }

    /// Returns the description of the graph.
    ModelMetadataGetGraphDescription(
        metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, out: *mut *mut c_char,
    ) {
        give(metadata, allocator, out, |facts| &facts.graph_description)
    }

    /// Returns the value of an entry, or null if the key does not exist.
    ModelMetadataLookupCustomMetadataMap(
        metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, key: *const c_char, out: *mut *mut c_char,
    ) {
        let (metadata, allocator) = (object(metadata, "metadata")?, Allocator::of(allocator)?);
        let (key, out) = (bytes(key, "a key")?, OutPlace::at(out, "a place for a text")?);
        let found = metadata.0.entries.iter().find(|(known, _)| known.as_bytes() == key.to_bytes());
        out.put(match found {
            Some((_, value)) => allocator.text(value)?,
            None => null_mut(),
        });
        Ok(())
    }

    /// Returns the keys of the entries, or null if there are none.
    ModelMetadataGetCustomMetadataMapKeys(
        metadata: *const OrtModelMetadata, allocator: *mut OrtAllocator, out: *mut *mut *mut c_char, count: *mut i64,
    ) {
        let (metadata, allocator) = (object(metadata, "metadata")?, Allocator::of(allocator)?);
        let (out, count) = (OutPlace::at(out, "a place for keys")?, OutPlace::at(count, "a place for a count")?);
        let keys = metadata.0.entries.iter().map(|(key, _)| allocator.text(key)).collect::<Result<Vec<_>>>()?;
        out.put(if keys.is_empty() { null_mut() } else { allocator.list(&keys)? });
        count.put(i64::try_from(keys.len()).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Returns the version of the model.
    ModelMetadataGetVersion(metadata: *const OrtModelMetadata, out: *mut i64) {
        let version = object(metadata, "metadata")?.0.version;
        OutPlace::at(out, "a place for a version")?.put(version);
        Ok(())
    }
}

releases! {
    ReleaseModelMetadata(OrtModelMetadata);
}
