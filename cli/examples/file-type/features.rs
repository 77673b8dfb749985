//! The input of the model: bytes from the beginning and the end of a file.
//!
//! Source: Magika 1.0.3, "features extraction v2".

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How many bytes of a file the model reads.
#[derive(serde::Deserialize)]
pub(crate) struct Config {
    beg_size: usize,
    end_size: usize,
    block_size: usize,
    padding_token: i32,
    min_file_size_for_dl: usize,
}

/// The result of reading a file, before the model runs.
pub(crate) enum Features {
    /// The file has no bytes.
    Empty,
    /// The file is too short for the model; `text` tells whether it is UTF-8.
    TooShort { text: bool },
    /// The input of the model: one token per byte, padded. `text` tells whether the bytes read are UTF-8.
    Tokens { tokens: Vec<i32>, text: bool },
}

/// Reads the features of a file; it reads at most two blocks.
pub(crate) fn read(path: &Path, config: &Config) -> std::io::Result<Features> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(Features::Empty);
    }
    let block = size.min(config.block_size as u64);
    let first = block_at(&mut file, 0, block)?;
    let last = block_at(&mut file, size - block, block)?;
    // The end of the block may cut a character.
    let text = std::str::from_utf8(&first).map_or_else(|e| e.error_len().is_none(), |_| true);
    let first =
        first.get(first.iter().position(|b| !is_space(*b)).unwrap_or(first.len())..).unwrap_or_default();
    let last = last.get(..last.iter().rposition(|b| !is_space(*b)).map_or(0, |i| i + 1)).unwrap_or_default();
    if first.len() < config.min_file_size_for_dl {
        return Ok(Features::TooShort { text });
    }
    let padding = |n: usize| std::iter::repeat_n(config.padding_token, n);
    let tokens = |bytes: &[u8]| bytes.iter().map(|b| i32::from(*b)).collect::<Vec<_>>();
    let beginning = tokens(first.get(..config.beg_size).unwrap_or(first));
    let end = tokens(last.get(last.len().saturating_sub(config.end_size)..).unwrap_or_default());
    let mut all = beginning;
    all.extend(padding(config.beg_size - all.len()));
    all.extend(padding(config.end_size - end.len()));
    all.extend(end);
    Ok(Features::Tokens { tokens: all, text })
}

fn block_at(file: &mut File, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut block = Vec::new();
    file.take(length).read_to_end(&mut block)?;
    Ok(block)
}

/// Tells whether Python's `bytes.strip` strips the byte.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}
