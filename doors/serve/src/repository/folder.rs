//! Finds the files of a model: a single file, or a folder with versions.

use super::is_name;
use crate::error::Error;
use crate::model::Found;
use std::path::{Path, PathBuf};

/// The possible names of a model's file in a folder.
const FILES: [&str; 2] = ["model.onnx", "model.bb"];

/// The name of the file with a model's class labels, one on each line. It is in the folder of the model or of a version.
const LABELS: &str = "labels.txt";

/// The maximum number of folder entries that are read.
const ENTRIES: usize = 4096;

/// Finds the newest versions of a model. If `within` is set, refuses files that are outside of it, for example through links.
pub(crate) fn find(name: &str, path: &Path, within: Option<&Path>, most: usize) -> Result<Vec<Found>, Error> {
    let real = |path: PathBuf| real(name, path, within);
    let labels = |folders: &[Option<&Path>]| -> Result<Option<PathBuf>, Error> {
        let mut paths = folders.iter().flatten().map(|folder| folder.join(LABELS));
        paths.find(|path| path.is_file()).map(&real).transpose()
    };
    if !path.is_dir() {
        let named = path.with_file_name(format!("{name}.onnx"));
        let file = if within.is_none() { path.to_owned() } else { named };
        if within.is_some() && !file.is_file() {
            return Err(Error::NoSuchModel { name: name.to_owned() });
        }
        // In a folder with several models, it is unknown which of them a file of labels belongs to.
        let own = if within.is_none() { path.parent().filter(|_| is_model(path)) } else { None };
        let (file, labels) = (real(file)?, labels(&[own])?);
        return Ok(vec![Found { version: 1, versioned: false, file, labels }]);
    }
    let file_in = |folder: &Path| FILES.map(|file| folder.join(file)).into_iter().find(|file| file.is_file());
    let read = |source| Error::Folder { model: name.to_owned(), path: path.to_owned(), source };
    let mut versions: Vec<u64> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read)?.take(ENTRIES) {
        let entry = entry.map_err(read)?.file_name();
        versions.extend(entry.to_str().and_then(version));
    }
    versions.sort_unstable();
    let mut found = Vec::new();
    for version in versions.into_iter().rev() {
        let folder = path.join(version.to_string());
        if let Some(file) = file_in(&folder) {
            let (file, labels) = (real(file)?, labels(&[Some(&folder), Some(path)])?);
            found.push(Found { version, versioned: true, file, labels });
        }
        if found.len() == most {
            break;
        }
    }
    found.reverse();
    if found.is_empty() {
        let file = file_in(path);
        let file = file.ok_or_else(|| Error::NoVersion { model: name.to_owned(), path: path.to_owned() })?;
        let (file, labels) = (real(file)?, labels(&[Some(path)])?);
        found.push(Found { version: 1, versioned: false, file, labels });
    }
    Ok(found)
}

fn is_model(path: &Path) -> bool {
    path.file_name().is_some_and(|name| FILES.iter().any(|file| name == *file))
}

/// Parses the folder name of a version: a number that does not begin with 0.
fn version(name: &str) -> Option<u64> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit()) && !name.starts_with('0');
    name.parse().ok().filter(|_| digits)
}

/// Resolves links, and refuses a path that is outside of `within`.
fn real(name: &str, path: PathBuf, within: Option<&Path>) -> Result<PathBuf, Error> {
    let Some(within) = within else { return Ok(path) };
    let real = path.canonicalize().map_err(|source| Error::Folder {
        model: name.to_owned(),
        path: path.clone(),
        source,
    })?;
    match real.starts_with(within) {
        true => Ok(real),
        false => Err(Error::Outside { model: name.to_owned(), path }),
    }
}

/// Lists the names of the models in a folder. Returns none if the folder cannot be read.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(ENTRIES).flatten();
    let name = |entry: std::fs::DirEntry| {
        let (name, path) = (entry.file_name().into_string().ok()?, entry.path());
        let name = match path.is_dir() {
            true => name,
            false => name.strip_suffix(".onnx")?.to_owned(),
        };
        is_name(&name).then_some(name)
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}
