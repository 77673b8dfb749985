//! Updates an index from a folder: embeds new and changed files, and keeps the vectors of the others.

use crate::embedder::Embedder;
use crate::error::{Error, Result, io};
use crate::files::{self, FileContents, FolderFile, Rules, Skipped, Walked};
use crate::index::{Entry, Index, PassagePlace, Writer};
use crate::package::hex;
use crate::passages::{self, Passage};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of tokens that are collected before they are embedded, so that batches can combine passages of similar lengths.
const WINDOW: usize = 1 << 16;

/// The result of an update.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) new: usize,
    pub(crate) changed: usize,
    pub(crate) unchanged: usize,
    pub(crate) deleted: usize,
    /// The number of passages that were embedded.
    pub(crate) embedded: usize,
    /// The numbers of files and passages in the index, including files of other folders.
    pub(crate) files: usize,
    pub(crate) passages: usize,
    pub(crate) skipped: Skipped,
}

/// The options of an update.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) rules: Rules,
    /// The time after which the results so far are saved.
    pub(crate) save_after: Duration,
}

/// A callback for the progress of an update: the number of completed files, and the number of all files.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Updates the index at `path` from the files below `folder`. Creates the index if it does not exist.
///
/// # Errors
///
/// [`Error::OtherModel`] if the index was created with another model; [`Error::Locked`] if another process is updating it; errors of the
/// index, of the system and of the backend.
pub(crate) fn update(
    path: &Path,
    folder: &Path,
    embedder: &Embedder,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Summary> {
    let folder = folder.canonicalize().map_err(io("find", folder))?;
    let root = folder.to_str().ok_or_else(|| Error::Path { path: folder.clone() })?;
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).map_err(io("make the folder", above))?;
    }
    let _lock = lock(path)?;
    let mut sum = Summary::default();
    loop {
        let old = open(path, embedder)?;
        let mut skipped = Skipped::default();
        let found = files::walk(&folder, &options.rules, &mut skipped)?;
        let writer = Writer::new(path, embedder.dimensions(), embedder.identity())?;
        let mut pass = Pass {
            old: &old,
            embedder,
            options,
            writer,
            window: Window::default(),
            sum: Summary { skipped, ..Default::default() },
        };
        let whole = pass.all(root, found, progress)?;
        let (writer, one) = (pass.writer, pass.sum);
        writer.finish()?;
        // A later pass counts files that an earlier pass embedded as unchanged, so their number is subtracted.
        let before = sum.new + sum.changed;
        sum = Summary {
            new: sum.new + one.new,
            changed: sum.changed + one.changed,
            deleted: sum.deleted + one.deleted,
            embedded: sum.embedded + one.embedded,
            unchanged: one.unchanged.saturating_sub(before),
            files: one.files,
            passages: one.passages,
            skipped: one.skipped,
        };
        if whole {
            return Ok(sum);
        }
    }
}

/// Opens the index, and checks that it has the same model. Returns an empty index if the file does not exist.
fn open(path: &Path, embedder: &Embedder) -> Result<Index> {
    let Some(index) = Index::open(path)? else { return Ok(Index::default()) };
    same_model(path, &index, embedder)?;
    Ok(index)
}

/// Checks that an index and an embedder have the same model.
///
/// # Errors
///
/// [`Error::OtherModel`] if they differ.
pub(crate) fn same_model(path: &Path, index: &Index, embedder: &Embedder) -> Result<()> {
    if index.model == embedder.identity() && index.dimensions == embedder.dimensions() {
        return Ok(());
    }
    let (made, got) = (hex(&index.model), hex(&embedder.identity()));
    Err(Error::OtherModel { path: path.to_owned(), made, got })
}

/// Locks the index against updates by other processes, until the returned file is dropped.
fn lock(path: &Path) -> Result<File> {
    let own = path.with_added_extension("lock");
    let file = File::create(&own).map_err(io("write", &own))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(io("lock", &own)(source)),
    }
}

/// One pass over the files.
struct Pass<'a> {
    old: &'a Index,
    embedder: &'a Embedder,
    options: &'a Options,
    writer: Writer,
    window: Window,
    sum: Summary,
}

/// The files whose vectors are not written yet.
#[derive(Default)]
struct Window {
    files: Vec<(Entry, VectorSource)>,
    tokens: usize,
}

/// The source of the vectors of a file.
enum VectorSource {
    /// The old index, where the file is the entry with this number.
    Old(usize),
    New(Vec<Passage>),
}

/// The action of an update for one path.
enum UpdateAction {
    /// Keeps the entry, because the path is not below the folder, or could not be read.
    Keep(usize),
    Look(FolderFile, Option<usize>),
}

impl Pass<'_> {
    /// Processes all files. Returns whether it reached the last one.
    fn all(&mut self, root: &str, found: Walked, progress: Progress<'_>) -> Result<bool> {
        let started = Instant::now();
        let mut plans: BTreeMap<String, UpdateAction> = BTreeMap::new();
        let total = found.files.len();
        // Files in a folder that could not be read may still exist, so their entries are kept.
        let gone = |path: &Path| {
            path.starts_with(root) && !found.closed.iter().any(|closed| path.starts_with(closed))
        };
        for file in found.files {
            plans.insert(file.path.clone(), UpdateAction::Look(file, None));
        }
        for (i, entry) in self.old.entries.iter().enumerate() {
            match plans.get_mut(&entry.path) {
                Some(UpdateAction::Look(_, old)) => *old = Some(i),
                _ if gone(Path::new(&entry.path)) => self.sum.deleted += 1,
                _ => {
                    plans.insert(entry.path.clone(), UpdateAction::Keep(i));
                }
            }
        }
        let (mut done, mut whole) = (0, true);
        for plan in plans.into_values() {
            match plan {
                UpdateAction::Keep(old) => self.keep(old, None)?,
                UpdateAction::Look(_, old) if !whole => {
                    old.map_or(Ok(()), |old| self.keep(old, None))?;
                }
                UpdateAction::Look(file, old) => {
                    self.look(&file, old)?;
                    done += 1;
                    progress(done, total);
                    if self.window.tokens >= WINDOW {
                        self.flush()?;
                        whole = started.elapsed() < self.options.save_after;
                    }
                }
            }
        }
        self.flush()?;
        Ok(whole)
    }

    /// Keeps the vectors of a file. `touched` is the file's new time, if it changed.
    fn keep(&mut self, old: usize, touched: Option<Option<i128>>) -> Result<()> {
        let Some(entry) = self.old.entries.get(old) else { return Ok(()) };
        let entry = Entry { modified: touched.unwrap_or(entry.modified), ..entry.clone() };
        // Paths must be written in order, so the entry waits for the new files before it.
        self.window.files.push((entry, VectorSource::Old(old)));
        if self.window.tokens == 0 { self.flush() } else { Ok(()) }
    }

    /// Determines whether a file is new, changed or unchanged.
    fn look(&mut self, file: &FolderFile, old: Option<usize>) -> Result<()> {
        let known = old.and_then(|old| self.old.entries.get(old));
        if let (Some(old), Some(known)) = (old, known)
            && known.size == file.size
            && known.modified.is_some()
            && known.modified == file.modified
        {
            self.sum.unchanged += 1;
            return self.keep(old, None);
        }
        let read = match files::read(&file.path, self.options.rules.largest) {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.sum.skipped.large += 1;
                return Ok(());
            }
            Err(source) => {
                self.sum.skipped.refused.push(format!("{}: {source}", file.path));
                return old.map_or(Ok(()), |old| self.keep(old, None));
            }
        };
        let (size, modified) = (read.bytes.len() as u64, read.modified);
        let digest: [u8; 32] = Sha256::digest(&read.bytes).into();
        if let (Some(old), Some(known)) = (old, known)
            && known.digest == digest
        {
            self.sum.unchanged += 1;
            return self.keep(old, Some(modified));
        }
        let text = match files::text(read.bytes) {
            FileContents::Text(text) => text,
            FileContents::Binary => {
                self.sum.skipped.binary += 1;
                return Ok(());
            }
            FileContents::OtherEncoding => {
                self.sum.skipped.other_encoding += 1;
                return Ok(());
            }
        };
        let passages = passages::cut(self.embedder.tokenizer(), &text)?;
        *if known.is_some() { &mut self.sum.changed } else { &mut self.sum.new } += 1;
        self.window.tokens += passages.iter().map(|passage| passage.tokens.len()).sum::<usize>();
        let entry = Entry { path: file.path.clone(), size, modified, digest, passages: 0..passages.len() };
        self.window.files.push((entry, VectorSource::New(passages)));
        Ok(())
    }

    /// Embeds and writes the files of the window.
    fn flush(&mut self) -> Result<()> {
        let window = std::mem::take(&mut self.window);
        let new = window.files.iter().filter_map(|(_, source)| match source {
            VectorSource::New(passages) => Some(passages),
            VectorSource::Old(_) => None,
        });
        let tokens: Vec<&[u32]> = new.flatten().map(|passage| passage.tokens.as_slice()).collect();
        let vectors = self.embedder.embed(&tokens, |_| ())?;
        let mut rest = vectors.as_slice();
        for (entry, source) in &window.files {
            match source {
                VectorSource::Old(old) => {
                    let range = self.old.entries.get(*old).map_or(0..0, |entry| entry.passages.clone());
                    let places = self.old.places.get(range.clone()).unwrap_or_default();
                    self.writer.add(entry, places, &self.old.vectors(range).unwrap_or_default())?;
                    self.sum.passages += places.len();
                }
                VectorSource::New(passages) => {
                    let length = passages.len() * self.embedder.dimensions();
                    let (own, others) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                    rest = others;
                    let places: Vec<PassagePlace> = passages.iter().map(PassagePlace::of).collect();
                    let bytes: Vec<u8> = own.iter().flat_map(|number| number.to_le_bytes()).collect();
                    self.writer.add(entry, &places, &bytes)?;
                    self.sum.passages += places.len();
                    self.sum.embedded += places.len();
                }
            }
            self.sum.files += 1;
        }
        Ok(())
    }
}
