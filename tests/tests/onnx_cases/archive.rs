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

/// Returns the cases that do not count, by their path in the archive: those of ONNX whose outputs are random, and those
/// that `undefined.txt` gives a reason for.
pub(crate) fn excluded() -> Vec<&'static str> {
    let lists = [include_str!("../../data/onnx/exclude.txt"), include_str!("../../data/onnx/undefined.txt")];
    let lines = lists.into_iter().flat_map(str::lines);
    lines.map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|l| !l.is_empty()).collect()
}
