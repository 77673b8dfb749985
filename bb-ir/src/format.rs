//! Recognizes files that are not ONNX models, so that error messages can name the format of the file.

use std::fmt;
use std::fs::FileType;

/// The format of data that is not an ONNX model.
///
/// The format is recognized by the first bytes of the data, which no serialized ONNX model begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// An empty file.
    Empty,
    /// The pointer text that Git LFS stores instead of a file.
    GitLfs,
    /// The path that a symbolic link contained before it was copied as a regular file.
    Link(
        /// The target of the link.
        String,
    ),
    /// An ONNX model as JSON.
    OnnxJson,
    /// An ONNX model as text.
    OnnxText,
    /// A model in ONNX Runtime's own format.
    Ort,
    /// A model of TensorFlow Lite.
    TfLite,
    /// A `SavedModel` of TensorFlow.
    SavedModel,
    /// Data in HDF5, the format of Keras models.
    Hdf5,
    /// A checkpoint or a TorchScript module of PyTorch.
    PyTorch,
    /// A pickled Python object.
    Pickle,
    /// Tensors in the safetensors format.
    SafeTensors,
    /// A model in the GGUF format.
    Gguf,
    /// A Core ML model package.
    CoreMl,
    /// A TensorRT engine.
    TensorRt,
    /// A NumPy array.
    Npy,
    /// A picture.
    Picture(
        /// The name of the format.
        &'static str,
    ),
    /// An archive or a compressed file.
    Archive(
        /// The name of the format.
        &'static str,
    ),
    /// A web page.
    Html,
    /// An XML document, the format of OpenVINO models.
    Xml,
    /// Other JSON data.
    Json,
    /// An executable or a library.
    Executable,
    /// A PDF document.
    Pdf,
    /// Other text.
    Text,
}

/// The kind of a file that is not a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A folder.
    Folder,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// Another kind.
    Other,
}

impl FileKind {
    /// Returns the kind of a file; `None` for a regular file.
    pub(crate) fn of(file: FileType) -> Option<FileKind> {
        if file.is_file() {
            return None;
        }
        if file.is_dir() {
            return Some(FileKind::Folder);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if file.is_fifo() {
                return Some(FileKind::Pipe);
            }
            if file.is_socket() {
                return Some(FileKind::Socket);
            }
            if file.is_char_device() || file.is_block_device() {
                return Some(FileKind::Device);
            }
        }
        Some(FileKind::Other)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Folder => "a folder",
            FileKind::Pipe => "a pipe",
            FileKind::Socket => "a socket",
            FileKind::Device => "a device",
            FileKind::Other => "no regular file",
        })
    }
}

/// The signatures of formats: the bytes that files of the format begin with.
const MAGIC: &[(&[u8], Format)] = &[
    (b"version https://git-lfs", Format::GitLfs),
    (b"GGUF", Format::Gguf),
    (b"\x89HDF\r\n\x1a\n", Format::Hdf5),
    (b"\x93NUMPY", Format::Npy),
    (b"\x89PNG\r\n\x1a\n", Format::Picture("PNG")),
    (b"\xff\xd8\xff", Format::Picture("JPEG")),
    (b"GIF8", Format::Picture("GIF")),
    (b"RIFF", Format::Picture("WebP")),
    (b"II*\0", Format::Picture("TIFF")),
    (b"MM\0*", Format::Picture("TIFF")),
    (b"\x1f\x8b", Format::Archive("gzip")),
    (b"\x28\xb5\x2f\xfd", Format::Archive("Zstandard")),
    (b"\xfd7zXZ\0", Format::Archive("xz")),
    (b"BZh", Format::Archive("bzip2")),
    (b"7z\xbc\xaf\x27\x1c", Format::Archive("7z")),
    (b"\x04\x22\x4d\x18", Format::Archive("LZ4")),
    (b"Rar!\x1a\x07", Format::Archive("RAR")),
    (b"ptrt", Format::TensorRt),
    (b"ftrt", Format::TensorRt),
    (b"%PDF-", Format::Pdf),
    (b"\x7fELF", Format::Executable),
    (b"MZ", Format::Executable),
];

impl Format {
    /// Recognizes the format of bytes that are not a model; returns `None` if they may be a model.
    pub(crate) fn of(bytes: &[u8]) -> Option<Format> {
        if bytes.is_empty() {
            return Some(Format::Empty);
        }
        // A flat buffer begins with the 4-byte offset of its root, which is small.
        let flat = |name: &[u8]| bytes.get(4..8) == Some(name) && bytes.get(2..4) == Some(&[0, 0]);
        if flat(b"TFL3") {
            return Some(Format::TfLite);
        }
        if flat(b"ORTM") {
            return Some(Format::Ort);
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return Some(zip(bytes));
        }
        if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
            return Some(format.clone());
        }
        if bytes.starts_with(b"BM") && bytes.get(6..10) == Some(&[0; 4]) {
            return Some(Format::Picture("BMP"));
        }
        if bytes.get(257..262) == Some(b"ustar") {
            return Some(Format::Archive("tar"));
        }
        if let Some([length @ .., b'{']) = bytes.get(..9)
            && length.get(4..) == Some(&[0; 4])
        {
            return Some(Format::SafeTensors);
        }
        // A pickle begins with the opcode of its protocol version, followed by an opcode that begins an
        // object or a number.
        if let [0x80, 2..=5, b'}' | b']' | b'(' | b'c' | b'K' | 0x8a | 0x95, ..] = bytes {
            let torch = bytes.starts_with(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19");
            return Some(if torch { Format::PyTorch } else { Format::Pickle });
        }
        text(bytes)
    }

    /// Recognizes the format of bytes that do not decode as a model, or that decode to a model without a
    /// graph.
    pub(crate) fn of_no_model(bytes: &[u8]) -> Option<Format> {
        // A `SavedModel` begins with a version and a list of graphs, in the fields that hold version and
        // producer in a model.
        let saved = bytes.starts_with(&[0x08, 0x01, 0x12])
            && bytes.get(..4096).unwrap_or(bytes).windows(5).any(|w| w == b"serve" || w == b"train");
        if saved {
            return Some(Format::SavedModel);
        }
        let start = bytes.get(..4096).unwrap_or(bytes);
        printable(start).then_some(Format::Text)
    }

    /// Returns advice for the user that begins with a semicolon; empty if there is none.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Format::GitLfs => "; `git lfs pull` fetches the file itself",
            Format::Link(_) => "; copy the file that the link leads to",
            Format::OnnxJson => "; parse it with `google.protobuf.json_format` and save it with `onnx.save`",
            Format::OnnxText => {
                "; load it with `onnx.load(…, format=\"textproto\")` or `onnx.parser`, and save it"
            }
            Format::Ort => "; the ONNX model that it was made from is needed",
            Format::TfLite | Format::SavedModel | Format::Hdf5 => "; `tf2onnx` converts it",
            Format::PyTorch => "; `torch.onnx.export` converts it",
            Format::Pickle => {
                "; `skl2onnx` converts models of scikit-learn, `torch.onnx.export` those of PyTorch"
            }
            Format::SafeTensors | Format::Gguf => {
                "; it holds weights without a graph, `optimum` exports such models"
            }
            Format::Archive(_) => "; unpack it first",
            Format::Html => "; the download gave an error or a log-in page in place of the file",
            Format::Npy => "; give it as an input",
            _ => "",
        }
    }
}

/// Distinguishes PyTorch and Core ML archives from other archives by the names of the files in the first 4 KiB.
fn zip(bytes: &[u8]) -> Format {
    let start = bytes.get(..4096).unwrap_or(bytes);
    let names = |part: &[u8]| start.windows(part.len()).any(|w| w == part);
    if names(b"/data.pkl") || names(b"/version") || names(b"/byteorder") || names(b"constants.pkl") {
        Format::PyTorch
    } else if names(b".mlmodel") {
        Format::CoreMl
    } else {
        Format::Archive("zip")
    }
}

/// Recognizes text formats. A model never begins with text.
fn text(bytes: &[u8]) -> Option<Format> {
    let start = bytes.get(..4096).unwrap_or(bytes);
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let lower = start.get(..512).unwrap_or(start).to_ascii_lowercase();
    let has = |part: &[u8]| start.windows(part.len()).any(|w| w == part);
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") || lower.starts_with(b"<head") {
        return Some(Format::Html);
    }
    if lower.starts_with(b"<?xml") || lower.starts_with(b"<net ") {
        return Some(Format::Xml);
    }
    // A protobuf message that began with `{` or `[` would begin with the start or the end of a group, and `<`
    // would end a group. ONNX models have no groups.
    match start.first()? {
        b'{' if has(b"\"irVersion\"") || has(b"\"opsetImport\"") || has(b"\"ir_version\"") => {
            return Some(Format::OnnxJson);
        }
        b'{' | b'[' if printable(start) => return Some(Format::Json),
        b'<' if has(b"ir_version") => return Some(Format::OnnxText),
        _ => {}
    }
    let fields: [&[u8]; 4] = [b"ir_version:", b"producer_name:", b"graph {", b"opset_import {"];
    if printable(start) && fields.iter().any(|field| start.starts_with(field)) {
        return Some(Format::OnnxText);
    }
    link(bytes).map(Format::Link)
}

/// Returns the path if a short file contains only a path: systems without symbolic links store a link as a file
/// that contains its target.
fn link(bytes: &[u8]) -> Option<String> {
    const LONGEST: usize = 1024;
    let path = std::str::from_utf8(bytes.get(..LONGEST.min(bytes.len()))?).ok()?.trim_end();
    let plain = bytes.len() < LONGEST && !path.contains(|c: char| c.is_control() || c.is_whitespace());
    (plain && (path.starts_with("../") || path.starts_with("./") || path.starts_with('/')))
        .then(|| path.to_owned())
}

/// Returns whether bytes are printable text. The last character may be cut.
fn printable(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..e.valid_up_to()).unwrap_or_default()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty() && text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Empty => "an empty file",
            Format::GitLfs => "a pointer of Git LFS",
            Format::Link(to) => return write!(f, "the text of a symbolic link to `{to}`"),
            Format::OnnxJson => "an ONNX model as JSON",
            Format::OnnxText => "an ONNX model as text",
            Format::Ort => "a model in the format of ONNX Runtime (.ort)",
            Format::TfLite => "a model of TensorFlow Lite",
            Format::SavedModel => "a `SavedModel` of TensorFlow",
            Format::Hdf5 => "HDF5 data, as Keras writes models",
            Format::PyTorch => "a file of PyTorch",
            Format::Pickle => "a pickled Python object",
            Format::SafeTensors => "tensors in the format safetensors",
            Format::Gguf => "a model in the format GGUF",
            Format::CoreMl => "a model of Core ML",
            Format::TensorRt => "an engine of TensorRT",
            Format::Npy => "an array of NumPy",
            Format::Picture(name) => return write!(f, "a {name} picture"),
            Format::Archive(name) => return write!(f, "a {name} archive"),
            Format::Html => "a web page",
            Format::Xml => "XML, as OpenVINO writes models",
            Format::Json => "JSON",
            Format::Executable => "an executable",
            Format::Pdf => "a PDF document",
            Format::Text => "text",
        })
    }
}
