//! Writes a model to files atomically: a file is complete or does not exist.

use crate::Error;
use bb_ir::graph::entry;
use bb_ir::proto::{AttributeProto, GraphProto, ModelProto, TensorProto, tensor_proto::DataLocation};
use bytes::Bytes;
use prost::Message;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The maximum size of a file that protobuf readers accept.
const PROTOBUF: usize = i32::MAX as usize;

/// Initializers above this size go to the second file if the model is too large for one file.
const WORTHWHILE: usize = 1024;

/// The alignment of large tensors in the second file, so that they can be mapped.
const PAGE: u64 = 4096;

/// Writes a model to `path`; returns the paths of the files that were written.
///
/// The elements of initializers larger than `external_above` go to a second file, whose name is the model's with `.data`
/// appended. By default, this happens only if one file cannot store the model. Existing files with these names are replaced
/// after everything is written.
///
/// Units: `external_above` counts the bytes of one initializer.
///
/// # Errors
///
/// [`Error::Write`] if a file cannot be written; [`Error::Ir`] if the model is too large for one file although the second file
/// has all large initializers.
pub fn save(model: ModelProto, path: &Path, external_above: Option<usize>) -> Result<Vec<PathBuf>, Error> {
    save_within(PROTOBUF, model, path, external_above)
}

/// Writes a file atomically: it is complete or does not exist.
///
/// # Errors
///
/// [`Error::Write`].
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut io::BufWriter<&mut File>) -> io::Result<()>,
) -> Result<(), Error> {
    let written = Temporary::write(path, |file| {
        let mut buffered = io::BufWriter::new(file);
        write(&mut buffered)?;
        buffered.flush()
    });
    written?.rename().map(drop)
}

/// Writes a model to files. The model's own file has at most `most` bytes.
fn save_within(
    most: usize,
    mut model: ModelProto,
    path: &Path,
    external_above: Option<usize>,
) -> Result<Vec<PathBuf>, Error> {
    let above = external_above.or_else(|| (model.encoded_len() > most).then_some(WORTHWHILE));
    let mut files = Vec::new();
    if let Some(above) = above {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".data");
        let beside = PathBuf::from(beside);
        let name = beside.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            // The model stores the name of the second file in UTF-8.
            Error::Write { path: beside.clone(), source: io::ErrorKind::InvalidFilename.into() }
        })?;
        let location = name.to_owned();
        let mut external = External { above, location, end: 0, elements: Vec::new() };
        if let Some(graph) = &mut model.graph {
            external.graph(graph);
        }
        if !external.elements.is_empty() {
            files.push(Temporary::write(&beside, |file| external.write(file))?);
        }
    }
    let bytes = encode_within(most, &model)?;
    files.push(Temporary::write(path, |file| file.write_all(&bytes))?);
    files.into_iter().map(Temporary::rename).collect()
}

/// Serializes a model.
///
/// # Errors
///
/// [`Error::Ir`] if the model exceeds the size that protobuf readers accept.
pub(super) fn encode(model: &ModelProto) -> Result<Vec<u8>, Error> {
    encode_within(PROTOBUF, model)
}

fn encode_within(most: usize, model: &ModelProto) -> Result<Vec<u8>, Error> {
    let got = model.encoded_len();
    if got > most {
        return Err(
            bb_ir::Error::Limit { what: "bytes of a model file", name: None, got, limit: most }.into()
        );
    }
    Ok(model.encode_to_vec())
}

/// The elements that move to the second file, the external data of the model.
struct External {
    above: usize,
    location: String,
    /// The size of the second file so far, in bytes.
    end: u64,
    /// The elements and their offsets in the file.
    elements: Vec<(u64, Bytes)>,
}

impl External {
    fn graph(&mut self, graph: &mut GraphProto) {
        graph.initializer.iter_mut().for_each(|tensor| self.tensor(tensor));
        for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
            self.attribute(attribute);
        }
    }

    /// Visits the subgraphs of an attribute. The recursion is bounded, because the model was checked.
    fn attribute(&mut self, attribute: &mut AttributeProto) {
        attribute.g.iter_mut().chain(&mut attribute.graphs).for_each(|graph| self.graph(graph));
    }

    fn tensor(&mut self, tensor: &mut TensorProto) {
        // Strings and elements in typed fields are not moved.
        let Some(bytes) = tensor.raw_data.take_if(|bytes| bytes.len() > self.above) else { return };
        let offset = if bytes.len() as u64 >= PAGE { self.end.next_multiple_of(PAGE) } else { self.end };
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", &self.location),
            entry("offset", &offset.to_string()),
            entry("length", &bytes.len().to_string()),
        ];
        self.end = offset + bytes.len() as u64;
        self.elements.push((offset, bytes));
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let mut at = 0;
        for (offset, bytes) in &self.elements {
            let gap = usize::try_from(offset - at).unwrap_or_default();
            file.write_all(&vec![0; gap])?;
            file.write_all(bytes)?;
            at = offset + bytes.len() as u64;
        }
        Ok(())
    }
}

/// A temporary file, which is renamed after it is complete.
struct Temporary {
    path: PathBuf,
    /// The final name of the file.
    to: PathBuf,
}

impl Temporary {
    fn write(to: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<Temporary, Error> {
        let mut path = to.as_os_str().to_owned();
        path.push(format!(".{}.partial", std::process::id()));
        let temporary = Temporary { path: PathBuf::from(path), to: to.to_owned() };
        let written = File::create(&temporary.path).and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()
        });
        written.map_err(|source| Error::Write { path: to.to_owned(), source })?;
        Ok(temporary)
    }

    fn rename(self) -> Result<PathBuf, Error> {
        fs::rename(&self.path, &self.to).map_err(|source| Error::Write { path: self.to.clone(), source })?;
        Ok(self.to.clone())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename the temporary file no longer exists, so this error is ignored.
        let _absent = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::TensorData;

    fn model(extents: &[usize]) -> ModelProto {
        let tensor = |(i, extent): (usize, &usize)| {
            TensorData::new(&[*extent], &vec![1f32; *extent]).unwrap().to_proto(&format!("w{i}"))
        };
        let initializer = extents.iter().enumerate().map(tensor).collect();
        ModelProto { graph: Some(GraphProto { initializer, ..Default::default() }), ..Default::default() }
    }

    #[test]
    fn what_one_file_cannot_hold_goes_to_two_or_is_refused() {
        let folder = std::env::temp_dir().join(format!("bb-save-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, beside) = (folder.join("m.onnx"), folder.join("m.onnx.data"));
        let small = save_within(4000, model(&[100]), &path, None).unwrap();
        assert_eq!(small, [path.as_path()]);
        // The elements of the second initializer begin at a page boundary. The third initializer is too small to move.
        let large = save_within(4000, model(&[1000, 2000, 2]), &path, None).unwrap();
        assert_eq!(large, [beside.as_path(), path.as_path()]);
        assert_eq!(fs::metadata(&beside).unwrap().len(), 4096 + 8000);
        let read = ModelProto::decode(&*fs::read(&path).unwrap()).unwrap();
        let within = |tensor: &TensorProto| tensor.raw_data.is_some();
        let places: Vec<bool> = read.graph.unwrap().initializer.iter().map(within).collect();
        assert_eq!(places, [false, false, true]);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let refused = save_within(4000, model(&[200; 6]), &path, None);
        assert!(matches!(refused, Err(Error::Ir(bb_ir::Error::Limit { limit: 4000, .. }))));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
