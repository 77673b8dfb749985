//! Finds the passages whose meaning is nearest to a query.

use crate::embedder::Embedder;
use crate::error::{Error, Result};
use crate::files;
use crate::index::{Entry, Index, PassagePlace};
use crate::passages::LENGTH;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// The number of vectors that are compared in one matrix product. It limits the memory that a backend needs.
const BLOCK: usize = 1 << 16;
/// The maximum number of characters in the excerpt of a passage.
const SHOWN: usize = 320;

/// A passage that was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hit {
    pub(crate) path: String,
    pub(crate) line: u32,
    /// The cosine similarity of the vectors of the passage and the query.
    pub(crate) similarity: f32,
    pub(crate) snippet: Snippet,
}

/// The text of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Snippet {
    Text(String),
    /// The file has changed since it was indexed, so the passage may be elsewhere.
    Changed,
    /// The file cannot be read.
    Gone(String),
}

/// Finds the `count` passages nearest to a query, the best first. Of overlapping passages, only the best one is returned.
///
/// # Errors
///
/// [`Error::EmptyQuery`] if the query has no words; an error of the backend.
pub(crate) fn search(index: &Index, embedder: &Embedder, query: &str, count: usize) -> Result<Vec<Hit>> {
    let encoding = embedder.tokenizer().encode(query, false).map_err(Error::Tokens)?;
    let tokens = encoding.get_ids();
    let tokens = tokens.get(..tokens.len().min(LENGTH)).unwrap_or_default();
    if tokens.is_empty() {
        return Err(Error::EmptyQuery);
    }
    let query = embedder.embed(&[tokens], |_| ())?;
    let mut hits: Vec<Hit> = Vec::new();
    let mut taken: Vec<(usize, PassagePlace)> = Vec::new();
    for (passage, similarity) in ranked(index, embedder, &query, count)? {
        let (Some(entry), Some(&place)) = (index.entry_of(passage), index.places.get(passage)) else {
            continue;
        };
        let overlaps = |(first, other): &(usize, PassagePlace)| {
            *first == entry.passages.start && other.start < place.end && place.start < other.end
        };
        if taken.iter().any(overlaps) {
            continue;
        }
        taken.push((entry.passages.start, place));
        let snippet = snippet(entry, place);
        hits.push(Hit { path: entry.path.clone(), line: place.line, similarity, snippet });
        if hits.len() == count {
            break;
        }
    }
    Ok(hits)
}

/// Returns the passages nearest to the query. Returns enough of them that `count` remain even if both neighbours of each are removed.
fn ranked(index: &Index, embedder: &Embedder, query: &[f32], count: usize) -> Result<Vec<(usize, f32)>> {
    let on = embedder.backend();
    let query = on.tensor(&[embedder.dimensions(), 1], query)?;
    let wanted = count.saturating_mul(3);
    let mut best: Vec<(usize, f32)> = Vec::new();
    for range in blocks(index.places.len()) {
        let vectors = on.runtime().constant(&index.tensor(range.clone())?)?;
        let similarities = vectors.matmul(&query)?.to_host(usize::MAX)?;
        best.extend(range.zip(similarities.as_slice::<f32>()?.iter().copied()));
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        best.truncate(wanted);
    }
    Ok(best)
}

fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(BLOCK).map(move |first| first..(first + BLOCK).min(count))
}

/// Reads a passage from its file, if the file has not changed since it was indexed.
fn snippet(entry: &Entry, place: PassagePlace) -> Snippet {
    let read = || -> std::io::Result<Option<Vec<u8>>> {
        let mut file = File::open(&entry.path)?;
        let metadata = file.metadata()?;
        let same = metadata.is_file() && metadata.len() == entry.size;
        if !same || entry.modified.is_some_and(|time| Some(time) != files::modified(&metadata)) {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(place.start))?;
        let mut bytes = Vec::new();
        // Limits the number of bytes: a character has at most 4 bytes, and a run of spaces counts as one character.
        let most = (place.end - place.start).min(SHOWN as u64 * 64);
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    match read() {
        Ok(Some(bytes)) => Snippet::Text(shown(&String::from_utf8_lossy(&bytes))),
        Ok(None) => Snippet::Changed,
        Err(error) => Snippet::Gone(error.to_string()),
    }
}

/// Shortens a text for a terminal. White space becomes a single space. Control characters are replaced, because they could change the
/// display of the terminal.
pub(crate) fn shown(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String =
        words.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if words.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}
