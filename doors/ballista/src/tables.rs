//! Checks the files of tables before a query reads them.
//!
//! The library that reads Parquet skips empty files, and panics on some files of other formats. So files that cannot be tables are refused
//! here, with their names.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The magic number at the start and the end of a Parquet file.
///
/// Source: Apache Parquet: "File format".
const MAGIC: [u8; 4] = *b"PAR1";

/// The size of the footer in bytes: the length of the metadata before it, and the magic number.
const END: u64 = 8;

/// An error of reading a file as a table.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// The file is empty.
    #[error("`{}` is empty; expected a Parquet file", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has another format, or a part of it is missing.
    #[error("`{}` is no whole Parquet file: {problem}", .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: &'static str,
    },
    /// A folder contains no file that can be read.
    #[error("`{}` has no file that ends in .parquet", .path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// Checks the start and the end of a file, or of each file in a folder.
pub(crate) fn check(path: &Path) -> Result<(), TableError> {
    let read = |source| TableError::Read { path: path.to_owned(), source };
    if !path.metadata().map_err(read)?.is_dir() {
        return check_file(path);
    }
    let mut files = 0;
    for entry in path.read_dir().map_err(read)? {
        let file = entry.map_err(read)?.path();
        if file.is_file() && file.extension().is_some_and(|extension| extension == "parquet") {
            check_file(&file)?;
            files += 1;
        }
    }
    if files == 0 && path.read_dir().map_err(read)?.flatten().all(|entry| !entry.path().is_dir()) {
        return Err(TableError::NoFiles { path: path.to_owned() });
    }
    Ok(())
}

fn check_file(path: &Path) -> Result<(), TableError> {
    let read = |source| TableError::Read { path: path.to_owned(), source };
    let form = |problem| Err(TableError::Form { path: path.to_owned(), problem });
    let mut file = File::open(path).map_err(read)?;
    let size = file.metadata().map_err(read)?.len();
    if size == 0 {
        return Err(TableError::Empty { path: path.to_owned() });
    }
    let (mut begin, mut end) = ([0; 4], [0; END as usize]);
    if size < begin.len() as u64 + END {
        return form("it is too short");
    }
    file.read_exact(&mut begin).map_err(read)?;
    file.seek(SeekFrom::End(-(END as i64))).map_err(read)?;
    file.read_exact(&mut end).map_err(read)?;
    let [a, b, c, d, magic @ ..] = end;
    if begin != MAGIC || magic != MAGIC {
        return form("it does not begin and end with `PAR1`");
    }
    if u64::from(u32::from_le_bytes([a, b, c, d])) > size - begin.len() as u64 - END {
        return form("its metadata is longer than the file");
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_table_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let check_of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path).map_err(|error| error.to_string())
        };
        let whole = |length: u32| [&MAGIC[..], &[7; 20], &length.to_le_bytes(), &MAGIC].concat();
        assert_eq!(check_of(&whole(20)), Ok(()));
        assert_eq!(check(folder.path()).map_err(|error| error.to_string()), Ok(()));
        for (bytes, words) in [
            (vec![], "is empty"),
            (b"PAR1".to_vec(), "too short"),
            (vec![0; 100], "does not begin and end"),
            (whole(20).into_iter().take(31).collect(), "does not begin and end"),
            (whole(21), "longer than the file"),
            (whole(u32::MAX), "longer than the file"),
        ] {
            let error = check_of(&bytes).unwrap_err();
            assert!(error.contains(words) && error.contains("t.parquet"), "{error}");
            assert!(check(folder.path()).is_err(), "{words}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(check(folder.path()), Err(TableError::NoFiles { .. })));
        assert!(matches!(check(&path), Err(TableError::Read { .. })));
    }
}
