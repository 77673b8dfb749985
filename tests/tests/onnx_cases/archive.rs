//! Unpacks ONNX's cases.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns the folder with the unpacked cases; the first caller unpacks them.
pub(crate) fn cases() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let archive = concat!(env!("CARGO_MANIFEST_DIR"), "/data/onnx/onnx-dev.tar.zst");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("onnx-cases");
        // What an earlier run unpacked holds for the archive whose length it noted.
        let length = std::fs::metadata(archive).unwrap().len().to_string();
        let note = folder.join("unpacked");
        if std::fs::read_to_string(&note).is_ok_and(|noted| noted == length) {
            return folder;
        }
        let mut packed = BufReader::new(File::open(archive).unwrap());
        let mut plain = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(&mut packed).unwrap().read_to_end(&mut plain).unwrap();
        tar::Archive::new(&*plain).unpack(&folder).unwrap();
        std::fs::write(note, length).unwrap();
        folder
    })
}

/// Returns the cases that do not count, by their path in the archive; `exclude.txt` gives a reason for each.
pub(crate) fn excluded() -> Vec<&'static str> {
    let lines = include_str!("../../data/onnx/exclude.txt").lines();
    let cases = lines.filter_map(|line| line.split_once('#')).map(|(case, reason)| {
        assert!(!reason.trim().is_empty(), "`{case}` has no reason");
        case.trim()
    });
    cases.filter(|case| !case.is_empty()).collect()
}
