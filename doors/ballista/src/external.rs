//! The external data files of a model, which the hash of the model must cover.

use crate::error::Error;
use crate::location::ModelHash;
use bb::Limits;
use bb::ir::proto::{GraphProto, ModelProto, SparseTensorProto, TensorProto};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

/// Returns the hash of a model. Without external data, this is the hash of its bytes. With external data, it is a hash of the hash of its
/// bytes and of the names and hashes of the files.
pub(crate) fn hash(
    bytes: &[u8],
    folder: &Path,
    files: &[String],
    limits: &Limits,
) -> Result<ModelHash, Error> {
    let own = ModelHash::of(bytes);
    if files.is_empty() {
        return Ok(own);
    }
    let mut all = Sha256::new();
    all.update(own.bytes());
    for name in files {
        let path = folder.join(name);
        let failed = |source| Error::ReadModel { location: path.display().to_string(), source };
        let mut file = File::open(&path).map_err(failed)?.take(limits.total_tensor_bytes as u64);
        let (mut part, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            let n = file.read(&mut buffer).map_err(failed)?;
            match buffer.get(..n) {
                Some(read) if n > 0 => part.update(read),
                _ => break,
            }
        }
        all.update((name.len() as u64).to_le_bytes());
        all.update(name.as_bytes());
        all.update(part.finalize());
    }
    Ok(ModelHash::finished(all))
}

/// Returns the sorted names of the external data files of a model.
pub(crate) fn files(bytes: &[u8]) -> Vec<String> {
    // Invalid models and files outside of the folder are skipped, because loading refuses them.
    let Ok(model) = ModelProto::decode(bytes) else { return Vec::new() };
    let inside = |name: &String| {
        Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    names(&model).into_iter().filter(inside).collect()
}

/// Returns the names of all files with external data.
fn names(model: &ModelProto) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut graphs: Vec<&GraphProto> = model.graph.iter().collect();
    let training = model.training_info.iter();
    graphs.extend(training.flat_map(|info| info.initialization.iter().chain(&info.algorithm)));
    let mut attributes = Vec::new();
    attributes
        .extend(model.functions.iter().flat_map(|function| &function.node).flat_map(|node| &node.attribute));
    let sparse = |sparse: &SparseTensorProto, found: &mut BTreeSet<String>| {
        sparse.values.iter().chain(&sparse.indices).for_each(|tensor| add(tensor, found));
    };
    loop {
        while let Some(attribute) = attributes.pop() {
            attribute.t.iter().chain(&attribute.tensors).for_each(|tensor| add(tensor, &mut found));
            let of = attribute.sparse_tensor.iter().chain(&attribute.sparse_tensors);
            of.for_each(|tensor| sparse(tensor, &mut found));
            graphs.extend(attribute.g.iter().chain(&attribute.graphs));
        }
        let Some(graph) = graphs.pop() else { return found };
        graph.initializer.iter().for_each(|tensor| add(tensor, &mut found));
        graph.sparse_initializer.iter().for_each(|tensor| sparse(tensor, &mut found));
        attributes.extend(graph.node.iter().flat_map(|node| &node.attribute));
    }
}

/// Adds the file of a tensor.
fn add(tensor: &TensorProto, found: &mut BTreeSet<String>) {
    let of = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some("location"));
    found.extend(of.and_then(|entry| entry.value.clone()));
}
