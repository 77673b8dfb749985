//! ONNX's own test cases, packed into this crate: folders with a `model.onnx` and its data, in ONNX's layout.
//!
//! This crate does not know `bb` and runs no case. `NOTICE` states the origin of the cases.
#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static ARCHIVE: &[u8] = include_bytes!("../onnx-dev.tar.zst");

/// Returns the folder with the unpacked cases, which has the subfolders `node`, `history`, `simple`, `light`
/// and others.
///
/// The first call unpacks the cases next to the running program (for a test, into the build folder), where later programs find them. If the
/// folder of the program is unknown, they are unpacked into the temporary folder.
///
/// Units: the cases take about 100 MB on disk.
///
/// # Errors
///
/// If the folder cannot be written.
pub fn folder() -> io::Result<PathBuf> {
    static UNPACKED: Mutex<Option<PathBuf>> = Mutex::new(None);
    // A second caller waits until the first one has finished.
    let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = &*unpacked {
        return Ok(folder.clone());
    }
    let folder = unpack(&beside())?;
    *unpacked = Some(folder.clone());
    Ok(folder)
}

/// Lists the excluded cases by their paths below the folder, with the reason: their expected outputs are
/// wrong, or are not right everywhere.
pub fn excluded() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../exclude.txt").lines().filter_map(|line| line.split_once('#'));
    lines.map(|(case, reason)| (case.trim(), reason.trim())).filter(|(case, _)| !case.is_empty())
}

/// Returns the folder of the running program; for a test, the folder above `deps`.
fn beside() -> PathBuf {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    let folder = folder.map(|f| if f.ends_with("deps") { f.parent().unwrap_or(f) } else { f });
    folder.map_or_else(std::env::temp_dir, Path::to_owned)
}

/// Unpacks the cases into a subfolder, unless another program has done so.
fn unpack(below: &Path) -> io::Result<PathBuf> {
    let folder = below.join(format!("bb-onnx-cases-{}", ARCHIVE.len()));
    if folder.is_dir() {
        return Ok(folder);
    }
    // The cases are unpacked under a temporary name first, so that another program never finds incomplete cases.
    let partial = below.join(format!("bb-onnx-cases-{}-{}", ARCHIVE.len(), std::process::id()));
    let mut plain = Vec::new();
    let mut packed = ARCHIVE;
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut packed)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    decoder.read_to_end(&mut plain)?;
    tar::Archive::new(&*plain).unpack(&partial)?;
    match std::fs::rename(&partial, &folder) {
        Ok(()) => Ok(folder),
        // Another program has finished first.
        Err(_) if folder.is_dir() => std::fs::remove_dir_all(&partial).map(|()| folder),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_excluded_case_is_there_and_has_a_reason() {
        let folder = folder().unwrap();
        for (case, reason) in excluded() {
            assert!(folder.join(case).join("model.onnx").is_file(), "{case}");
            assert!(!reason.is_empty(), "{case}");
        }
        assert!(excluded().count() > 0);
    }
}
