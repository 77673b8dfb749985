//! ONNX's own test cases, packed into this crate: folders with a `model.onnx` and its data, as ONNX lays them out.
//!
//! Nothing here knows `bb`, or runs a case. `NOTICE` says whose the cases are.
#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static ARCHIVE: &[u8] = include_bytes!("../onnx-dev.tar.zst");

/// Returns the folder with the unpacked cases: below it `node`, `history`, `simple`, `light` and others.
///
/// The first call unpacks them, beside the program that runs (a test, in the build folder), where later programs find
/// them; where that folder is not known, among the temporary files.
///
/// Units: about 100 MB on the disk.
///
/// # Errors
///
/// If the folder cannot be written.
pub fn folder() -> io::Result<PathBuf> {
    static UNPACKED: Mutex<Option<PathBuf>> = Mutex::new(None);
    // Whoever comes second waits for the first.
    let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = &*unpacked {
        return Ok(folder.clone());
    }
    let folder = unpack(&beside())?;
    *unpacked = Some(folder.clone());
    Ok(folder)
}

/// Lists the cases that do not count, by their path below the folder, each with the reason why its expected output
/// cannot be right, or not everywhere.
pub fn excluded() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../exclude.txt").lines().filter_map(|line| line.split_once('#'));
    lines.map(|(case, reason)| (case.trim(), reason.trim())).filter(|(case, _)| !case.is_empty())
}

/// The folder of the program that runs; where tests are, the one above `deps`.
fn beside() -> PathBuf {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    let folder = folder.map(|f| if f.ends_with("deps") { f.parent().unwrap_or(f) } else { f });
    folder.map_or_else(std::env::temp_dir, Path::to_owned)
}

/// Unpacks below a folder, unless another program has.
fn unpack(below: &Path) -> io::Result<PathBuf> {
    let folder = below.join(format!("bb-onnx-cases-{}", ARCHIVE.len()));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Under a name of its own first, so that nobody finds half of the cases.
    let partial = below.join(format!("bb-onnx-cases-{}-{}", ARCHIVE.len(), std::process::id()));
    let mut plain = Vec::new();
    let mut packed = ARCHIVE;
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut packed)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    decoder.read_to_end(&mut plain)?;
    tar::Archive::new(&*plain).unpack(&partial)?;
    match std::fs::rename(&partial, &folder) {
        Ok(()) => Ok(folder),
        // Another program was faster.
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
