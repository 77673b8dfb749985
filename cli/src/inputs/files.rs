//! Reads inputs from files.

use super::extents::Extents;
use super::picture;
use crate::args;
use crate::error::{Error, Result};
use crate::npz;
use bb::onnx::OnnxValue;
use bb::{Port, TensorData};
use bb_conformance::onnx;
use bb_ir::text::shown;
use bytes::Bytes;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Reads the inputs that the options name, in the order of the ports. Records their shapes in `extents`.
pub(super) fn read(
    ports: &[Port],
    options: &args::Inputs,
    extents: &mut Extents,
    most: usize,
) -> Result<Vec<Option<OnnxValue<TensorData>>>> {
    let mut items = match &options.folder {
        Some(folder) => onnx::read_inputs(folder, ports)?,
        None => vec![None; ports.len()],
    };
    let mut from_stdin = false;
    for text in &options.inputs {
        let (port, place, file) = named("--input", text, ports, &mut items)?;
        let stdin = file == "-";
        if stdin && std::mem::replace(&mut from_stdin, true) {
            return Err(Error::Twice { option: "--input", name: "-".to_owned() });
        }
        *place = Some(file_of(&file, port, most)?);
    }
    note(ports, &items, extents)?;
    for text in &options.picture.images {
        let (port, place, file) = named("--image", text, ports, &mut items)?;
        *place = Some(OnnxValue::Tensor(picture::read(Path::new(&file), port, extents, &options.picture)?));
    }
    note(ports, &items, extents)?;
    Ok(items)
}

/// Records the shapes of inputs that come from files.
fn note(ports: &[Port], items: &[Option<OnnxValue<TensorData>>], extents: &mut Extents) -> Result<()> {
    for (port, item) in ports.iter().zip(items) {
        if let Some(OnnxValue::Tensor(x)) = item {
            extents.bind(&port.name, x.shape(), &format!("the file of `{}`", shown(&port.name)))?;
        }
    }
    Ok(())
}

/// Finds the input in `NAME=FILE`. Returns an error if it was set before.
fn named<'a>(
    option: &'static str,
    text: &OsStr,
    ports: &'a [Port],
    items: &'a mut [Option<OnnxValue<TensorData>>],
) -> Result<(&'a Port, &'a mut Option<OnnxValue<TensorData>>, OsString)> {
    let (name, file) = split(text, ports)?;
    let place = ports.iter().zip(items).find(|(port, _)| port.name == name);
    let (port, place) =
        place.ok_or_else(|| super::unknown(&name, ports.iter().map(|port| port.name.as_str())))?;
    if place.is_some() {
        return Err(Error::Twice { option, name });
    }
    Ok((port, place, file))
}

/// Splits `NAME=FILE` after the longest prefix that is the name of an input. If there is none, splits at the first `=`. Both parts may
/// contain `=`.
fn split(text: &OsStr, ports: &[Port]) -> Result<(String, OsString)> {
    let bytes = text.as_encoded_bytes();
    let signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'=').map(|(at, _)| at);
    let front = |at: usize| bytes.get(..at).and_then(|name| std::str::from_utf8(name).ok());
    let is_input = |at: &usize| front(*at).is_some_and(|name| ports.iter().any(|port| port.name == name));
    let at = signs.clone().rfind(is_input).or_else(|| signs.clone().next());
    let form = || Error::Form { text: text.to_string_lossy().into_owned(), expected: "NAME=FILE" };
    let at = at.ok_or_else(form)?;
    let name = front(at).ok_or_else(form)?;
    Ok((name.to_owned(), after(text, at + 1).ok_or_else(form)?))
}

/// Returns the text after an ASCII character. The text need not be valid Unicode.
#[cfg(unix)]
fn after(text: &OsStr, at: usize) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    text.as_bytes().get(at..).map(|rest| OsStr::from_bytes(rest).to_owned())
}

#[cfg(not(unix))]
fn after(text: &OsStr, at: usize) -> Option<OsString> {
    text.to_str()?.get(at..).map(OsString::from)
}

/// The maximum size of an input file, in bytes. It limits reading from a pipe or device that never ends.
const FILE_BYTES: u64 = 16 << 30;

/// Reads all bytes. Returns an error if there are more than [`FILE_BYTES`].
fn whole(from: impl Read) -> std::io::Result<Bytes> {
    let mut bytes = Vec::new();
    if from.take(FILE_BYTES + 1).read_to_end(&mut bytes)? as u64 > FILE_BYTES {
        return Err(std::io::Error::other(format!("there are more than {FILE_BYTES} bytes")));
    }
    Ok(bytes.into())
}

/// Reads a file for an input: a NumPy array, a member of an `.npz`, or a serialized message of the kind that the input's type requires.
/// Compressed data may take at most `most` bytes when it is decompressed.
fn file_of(file: &OsStr, port: &Port, most: usize) -> Result<OnnxValue<TensorData>> {
    // `ARCHIVE.npz:MEMBER` names a member of an archive, unless there is a file with that whole name.
    let parts =
        file.to_str().and_then(|text| text.rsplit_once(".npz:")).filter(|_| !Path::new(file).exists());
    let path =
        parts.map_or_else(|| PathBuf::from(file), |(archive, _)| PathBuf::from(format!("{archive}.npz")));
    let member = parts.map(|(_, member)| member);
    let (bytes, shown) = if file == "-" {
        (whole(std::io::stdin().lock()), Path::new("standard input").to_owned())
    } else {
        (std::fs::File::open(&path).and_then(whole), path)
    };
    let bytes = bytes.map_err(|source| Error::Read { path: shown.clone(), source })?;
    let refused = |source: bb_ir::BoxError| Error::Tensor { path: shown.clone(), source };
    let extension = shown.extension().unwrap_or_default();
    if member.is_some() || extension == "npz" || (extension != "pb" && bytes.starts_with(b"PK\x03\x04")) {
        let (name, asked) = member.map_or((port.name.as_str(), false), |member| (member, true));
        let bytes = npz::member(&bytes, name, asked, most)
            .map_err(|e| Error::Npz { path: shown.clone(), source: e })?;
        return TensorData::from_npy(bytes).map(OnnxValue::Tensor).map_err(|e| refused(e.into()));
    }
    if extension == "npy" || (extension != "pb" && bytes.starts_with(b"\x93NUMPY")) {
        return TensorData::from_npy(bytes).map(OnnxValue::Tensor).map_err(|e| refused(e.into()));
    }
    let picture = [b"\x89PNG".as_slice(), b"\xFF\xD8\xFF", b"GIF8", b"RIFF"];
    if extension != "pb" && picture.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(Error::IsPicture { path: shown, name: port.name.clone() });
    }
    Ok(onnx::decode_item(bytes, &shown, &port.ty)?)
}
