//! Checks the file of a library, and loads it.
//!
//! The loader of Linux maps the segments that the headers declare without checking the length of the file. If the file is too short, the
//! program ends with a bus error at the first missing byte. Loaders of other systems check the length themselves.

use super::{LibraryKind, LoadError};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The sizes in bytes of the header of a 64-bit ELF file, and of one of its program headers.
const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// Processors by Rust's names, with their machine numbers in ELF files.
static PROCESSORS: [(&str, u64); 3] = [("aarch64", 183), ("riscv64", 243), ("x86_64", 62)];

/// Refuses a file that is shorter than its headers say, or is for another processor. Files of other formats are left to the loader.
///
/// # Errors
///
/// [`LoadError::Read`]; [`LoadError::Mismatch`].
pub(super) fn check(path: &Path) -> Result<(), LoadError> {
    let read = |source| LoadError::Read { path: path.to_owned(), source };
    // Checks the kind of file before opening it, because opening a pipe would block until another process writes.
    let length = std::fs::metadata(path).map_err(read)?;
    if !length.is_file() {
        return Err(read(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    let mut file = File::open(path).map_err(read)?;
    let mut header = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut header).map_err(read)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return not_elf(path, &header);
    }
    is_shared(path, &header)?;
    runs_here(path, &header)?;
    let needs = needed(&mut file, &header).map_err(read)?;
    match needs {
        Some(needs) if needs <= length.len() => Ok(()),
        needs => Err(LoadError::Mismatch {
            path: path.to_owned(),
            what: "length",
            expected: needs.map_or("whole headers".to_owned(), |needs| format!("at least {needs} bytes")),
            got: format!("{} bytes: the file is truncated", length.len()),
        }),
    }
}

/// Loads a shared library and resolves all functions that it calls now, because a later call of a missing function would end the program.
///
/// # Safety
///
/// The initialisers of the library run.
pub(super) unsafe fn load(path: &Path) -> Result<libloading::Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: the caller allows that the initialisers run.
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(libloading::Library::from)
    }
    #[cfg(not(unix))]
    {
        // SAFETY: the caller allows that the initialisers run.
        unsafe { libloading::Library::new(path) }
    }
}

/// Refuses an object file, which is not linked yet.
fn is_shared(path: &Path, header: &[u8]) -> Result<(), LoadError> {
    /// The number of an object file among the types of ELF files.
    const OBJECT: u64 = 1;
    match number(header, 16, 2) {
        Some(OBJECT) => Err(LoadError::Mismatch {
            path: path.to_owned(),
            what: "format",
            expected: "a shared library".to_owned(),
            got: "an object file: link it with `cc -shared`".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses a library for another processor, because the loader of Linux would only report that the file does not exist.
fn runs_here(path: &Path, header: &[u8]) -> Result<(), LoadError> {
    let here = PROCESSORS.iter().find(|(name, _)| *name == std::env::consts::ARCH);
    let (Some((here, expected)), Some(got)) = (here, number(header, 18, 2)) else { return Ok(()) };
    if got == *expected {
        return Ok(());
    }
    let name = PROCESSORS.iter().find(|(_, number)| *number == got);
    let name = name.map_or_else(|| format!("number {got} of ELF"), |(name, _)| (*name).to_owned());
    Err(LoadError::Mismatch {
        path: path.to_owned(),
        what: "processor",
        expected: (*here).to_owned(),
        got: format!("{name}: compile it for {here}"),
    })
}

/// Recognizes a library that has no backend by a function that it exports.
pub(super) fn kind(library: &libloading::Library) -> Option<LibraryKind> {
    let exports = |symbol: &[u8]| {
        // SAFETY: the symbol is only searched for; its value is not used.
        unsafe { library.get::<*const u8>(symbol) }.is_ok()
    };
    [
        (&b"bb_load_backend\0"[..], LibraryKind::Host),
        (b"CreateEpFactories\0", LibraryKind::Provider),
        (b"OrtGetApiBase\0", LibraryKind::OnnxRuntime),
    ]
    .into_iter()
    .find_map(|(symbol, kind)| exports(symbol).then_some(kind))
}

/// Refuses a file that is not a shared library of the system.
fn not_elf(path: &Path, header: &[u8]) -> Result<(), LoadError> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    Err(LoadError::Mismatch {
        path: path.to_owned(),
        what: "format",
        expected: "a library of ELF with 64 bits".to_owned(),
        got: format!(
            "{}: compile it as a shared library for this system (`cc -shared -fPIC`)",
            format_of(header)
        ),
    })
}

/// Describes the format of a file by its first bytes.
fn format_of(header: &[u8]) -> String {
    let start = header.get(..8).unwrap_or(header);
    match start {
        [] => "an empty file".to_owned(),
        [b'!', b'<', ..] if start == b"!<arch>\n" || start == b"!<thin>\n" => {
            "a static library, which is an archive of object files".to_owned()
        }
        [0x7f, b'E', b'L', b'F', 1, ..] => "a library of ELF with 32 bits".to_owned(),
        [b'M', b'Z', ..] => "a file of Windows".to_owned(),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => "a file of macOS".to_owned(),
        _ if start.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')) => {
            format!("a text that begins with `{}`", start.escape_ascii())
        }
        _ => {
            let start: Vec<String> = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("a file that begins with [{}]", start.join(" "))
        }
    }
}

/// Reads a little-endian number at an offset.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + width)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Returns the length that a file needs to contain its segments, or `None` if its headers are truncated or wrong.
fn needed(file: &mut File, header: &[u8]) -> std::io::Result<Option<u64>> {
    let of = |at, width| number(header, at, width);
    let (Some(at), Some(size), Some(count)) = (of(32, 8), of(54, 2), of(56, 2)) else { return Ok(None) };
    if size != SEGMENT as u64 {
        return Ok(None);
    }
    let mut table = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(size * count).read_to_end(&mut table)?;
    let mut needs = Some(at.saturating_add(size * count));
    for segment in 0..usize::from(u16::try_from(count).unwrap_or(u16::MAX)) {
        let (offset, bytes) =
            (number(&table, segment * SEGMENT + 8, 8), number(&table, segment * SEGMENT + 32, 8));
        let end = offset.zip(bytes).and_then(|(offset, bytes)| offset.checked_add(bytes));
        needs = needs.zip(end).map(|(needs, end)| needs.max(end));
    }
    Ok(needs)
}
