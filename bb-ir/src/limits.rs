//! How much an untrusted model may ask for.

use crate::Error;
use std::path::PathBuf;

/// How the files of a model are brought into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// Maps them: nothing is read before it is used, and memory is shared with every process that maps the same file.
    ///
    /// Nothing may shorten or rewrite the files while the model is in use. A shortened file ends the process with a
    /// signal (SIGBUS) when it reads what is gone; a rewritten one changes weights under way. Replacing a file by
    /// another of its name does no harm. Where this build or the file system cannot map, files are read.
    #[default]
    Map,
    /// Reads them: what happens to the files afterwards does not matter.
    Read,
}

/// One of the [`Limits`], for programs that show limits or set them by name.
#[derive(Debug, Clone, Copy)]
pub struct LimitInfo {
    /// The name of the field.
    pub name: &'static str,
    /// The unit, or the form of the value.
    pub unit: &'static str,
    doc: &'static str,
    get: fn(&Limits) -> String,
    set: fn(&mut Limits, &str) -> bool,
}

impl LimitInfo {
    /// Returns what is limited, in Markdown.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Returns the value that [`Limits::default`] has, in the form that [`Limits::set`] takes.
    pub fn default(&self) -> String {
        (self.get)(&Limits::default())
    }
}

/// Declares [`Limits`]: a row per field, `name: kind = default`, where the kind is a module of this file.
macro_rules! limits {
    ($( $(#[doc = $doc:literal])+ $name:ident: $kind:ident = $default:expr; )*) => {
        /// Bounds on what a model may contain and what running it may take, and where its data may lie.
        ///
        /// The defaults let every honest model pass and keep a hostile one from taking a machine's memory
        /// or time before it is refused.
        ///
        /// # Examples
        ///
        /// ```
        /// use bb_ir::Limits;
        /// let small = Limits { nodes: 1000, ..Limits::default() };
        /// assert!(small.nodes < Limits::default().nodes);
        ///
        /// let mut limits = Limits::default();
        /// limits.set("tensor_bytes", "4GiB")?;
        /// assert_eq!(limits.tensor_bytes, 4 << 30);
        /// # Ok::<(), bb_ir::Error>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $( $(#[doc = $doc])+ pub $name: $kind::Value, )*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $( $name: $default, )* }
            }
        }

        /// Every limit, in the order of the fields.
        static ALL: &[LimitInfo] = &[$( LimitInfo {
            name: stringify!($name),
            unit: $kind::UNIT,
            doc: concat!($($doc),+),
            get: |limits| $kind::write(&limits.$name),
            set: |limits, text| $kind::read(&mut limits.$name, text).is_some(),
        }, )*];
    };
}

limits! {
    /// The longest serialized model, without external data.
    model_bytes: bytes = 16 << 30;
    /// The most nodes, in all subgraphs together, functions inlined.
    nodes: count = 1_000_000;
    /// How deep subgraphs, function calls and types may nest; never more than `Limits::MAX_NESTING`.
    nesting: count = 64;
    /// The most elements of one constant tensor.
    tensor_elements: count = 1 << 34;
    /// The largest constant tensor.
    tensor_bytes: bytes = 16 << 30;
    /// The most bytes of all constant tensors together, functions inlined.
    total_tensor_bytes: bytes = 64 << 30;
    /// The most bytes of all sparse constants together, which are held dense.
    sparse_bytes: bytes = 1 << 30;
    /// The longest name.
    name_bytes: bytes = 64 << 10;
    /// The most bytes of names and attributes other than tensors, functions inlined.
    total_text_bytes: bytes = 1 << 30;
    /// The largest value that running the model makes; what would be larger is an error before anything runs.
    value_bytes: bytes = 4 << 30;
    /// The most iterations that all loops of a run may take together.
    iterations: count = 1 << 20;
    /// Folders in which external data may lie beside the model's own; each may be set once more to add another.
    external_folders: folders = Vec::new();
    /// How the model and its external data are brought into memory: mapped, unless `read` is asked for.
    file_access: access = FileAccess::Map;
}

impl Limits {
    /// The deepest nesting that any limit allows, so that no traversal exhausts the stack.
    pub const MAX_NESTING: usize = 128;

    /// Lists every limit: names, units, documentation and defaults.
    pub fn all() -> &'static [LimitInfo] {
        ALL
    }

    /// Returns the limit called `name`, in the form that [`set`](Self::set) takes; `None` if there is none.
    pub fn get(&self, name: &str) -> Option<String> {
        ALL.iter().find(|limit| limit.name == name).map(|limit| (limit.get)(self))
    }

    /// Sets the limit called `name`.
    ///
    /// A number of bytes may end in `KiB`, `MiB`, `GiB` or `TiB`, or `K`, `M`, `G` or `T` for short. A folder is added to those that are allowed.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownLimit`], which lists the names, or [`Error::LimitValue`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let limit = ALL.iter().find(|limit| limit.name == name);
        let limit = limit.ok_or_else(|| Error::UnknownLimit { name: name.to_owned() })?;
        if (limit.set)(self, value) {
            return Ok(());
        }
        Err(Error::LimitValue { name: limit.name, value: value.to_owned(), expected: limit.unit })
    }
}

/// Numbers of things.
mod count {
    pub(super) type Value = usize;
    pub(super) const UNIT: &str = "a number";

    pub(super) fn read(limit: &mut usize, text: &str) -> Option<()> {
        *limit = text.trim().parse().ok()?;
        Some(())
    }

    pub(super) fn write(limit: &usize) -> String {
        limit.to_string()
    }
}

pub use bytes::parse as parse_bytes;

/// Numbers of bytes.
mod bytes {
    pub(super) type Value = usize;
    pub(super) const UNIT: &str = "bytes, as in 4GiB";

    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

    pub(super) fn read(limit: &mut usize, text: &str) -> Option<()> {
        *limit = parse(text)?;
        Some(())
    }

    /// Reads a number of bytes that may end in K, M, G or T, or in KiB, MiB, GiB or TiB: powers of 1024. `None` if it is none.
    pub fn parse(text: &str) -> Option<usize> {
        let text = text.trim().to_ascii_uppercase();
        let text = text.strip_suffix("IB").unwrap_or(&text);
        let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit.get(..1)?)?, *shift)));
        let (digits, shift) = unit.unwrap_or((text, 0));
        let number: usize = digits.trim_end().parse().ok()?;
        number.checked_mul(1usize.checked_shl(shift)?)
    }

    pub(super) fn write(limit: &usize) -> String {
        let whole = |shift: u32| *limit != 0 && limit.trailing_zeros() >= shift;
        match UNITS.iter().find(|(_, shift)| *shift < usize::BITS && whole(*shift)) {
            Some((unit, shift)) => format!("{}{unit}", limit >> shift),
            None => limit.to_string(),
        }
    }
}

/// Lists of folders.
mod folders {
    use super::PathBuf;

    pub(super) type Value = Vec<PathBuf>;
    pub(super) const UNIT: &str = "a folder";

    pub(super) fn read(limit: &mut Vec<PathBuf>, text: &str) -> Option<()> {
        if text.is_empty() {
            return None;
        }
        limit.push(PathBuf::from(text));
        Some(())
    }

    pub(super) fn write(limit: &[PathBuf]) -> String {
        let folders: Vec<_> = limit.iter().map(|folder| folder.to_string_lossy()).collect();
        folders.join(", ")
    }
}

/// How files are brought into memory.
mod access {
    use super::FileAccess;

    pub(super) type Value = FileAccess;
    pub(super) const UNIT: &str = "map or read";

    pub(super) fn read(limit: &mut FileAccess, text: &str) -> Option<()> {
        *limit = match text.trim() {
            "map" => FileAccess::Map,
            "read" => FileAccess::Read,
            _ => return None,
        };
        Some(())
    }

    pub(super) fn write(limit: &FileAccess) -> String {
        match limit {
            FileAccess::Map => "map".to_owned(),
            FileAccess::Read => "read".to_owned(),
        }
    }
}

/// What of the limits a model has used.
#[derive(Debug)]
pub(crate) struct Meter<'l> {
    pub(crate) limits: &'l Limits,
    nodes: usize,
    tensor_bytes: usize,
    sparse_bytes: usize,
    text_bytes: usize,
}

impl<'l> Meter<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Meter<'l> {
        Meter { limits, nodes: 0, tensor_bytes: 0, sparse_bytes: 0, text_bytes: 0 }
    }

    /// Counts one node.
    pub(crate) fn node(&mut self) -> Result<(), Error> {
        self.nodes += 1;
        within("nodes", "nodes", self.nodes, self.limits.nodes)
    }

    /// Counts the bytes of a constant.
    pub(crate) fn tensor(&mut self, bytes: usize) -> Result<(), Error> {
        within("tensor_bytes", "bytes of a constant", bytes, self.limits.tensor_bytes)?;
        self.tensor_bytes = self.tensor_bytes.saturating_add(bytes);
        let limit = self.limits.total_tensor_bytes;
        within("total_tensor_bytes", "bytes of all constants", self.tensor_bytes, limit)
    }

    /// The bytes that the next sparse constant may have, and the limit that says so.
    pub(crate) fn sparse_left(&self) -> (usize, &'static str) {
        let left = self.limits.sparse_bytes.saturating_sub(self.sparse_bytes);
        if left <= self.limits.tensor_bytes {
            (left, "sparse_bytes")
        } else {
            (self.limits.tensor_bytes, "tensor_bytes")
        }
    }

    /// Counts the bytes of a sparse constant.
    pub(crate) fn sparse(&mut self, bytes: usize) -> Result<(), Error> {
        self.sparse_bytes = self.sparse_bytes.saturating_add(bytes);
        self.tensor(bytes)
    }

    /// Counts the bytes of a name.
    pub(crate) fn name(&mut self, name: &str) -> Result<(), Error> {
        within("name_bytes", "bytes of a name", name.len(), self.limits.name_bytes)?;
        // A name's owner takes memory beside the text itself.
        self.text(name.len() + 32)
    }

    /// Counts bytes that are neither constants nor names.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Error> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        let limit = self.limits.total_text_bytes;
        within("total_text_bytes", "bytes of names and attributes", self.text_bytes, limit)
    }

    /// How deep types and subgraphs may nest.
    pub(crate) fn deepest(&self) -> usize {
        self.limits.nesting.min(Limits::MAX_NESTING)
    }

    /// Refuses nesting of `depth`.
    pub(crate) fn nesting(&self, depth: usize) -> Result<(), Error> {
        within("nesting", "levels of nesting", depth, self.deepest())
    }
}

/// Compares `got` with `limit`, which the field `name` of [`Limits`] sets.
pub(crate) fn within(name: &'static str, what: &'static str, got: usize, limit: usize) -> Result<(), Error> {
    if got > limit { Err(Error::Limit { what, name: Some(name), limit, got }) } else { Ok(()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_and_saturate() {
        let limits = Limits { total_tensor_bytes: 10, tensor_bytes: usize::MAX, ..Limits::default() };
        let mut meter = Meter::new(&limits);
        assert!(meter.tensor(6).is_ok());
        assert!(meter.tensor(usize::MAX).is_err());
        assert!(meter.tensor(0).is_err());
    }

    #[test]
    fn no_limit_allows_nesting_beyond_the_stack() {
        let limits = Limits { nesting: usize::MAX, ..Limits::default() };
        assert!(Meter::new(&limits).nesting(Limits::MAX_NESTING).is_ok());
        assert!(Meter::new(&limits).nesting(Limits::MAX_NESTING + 1).is_err());
    }

    #[test]
    fn a_limit_is_set_and_shown_by_its_name() {
        let mut limits = Limits::default();
        limits.set("tensor_bytes", "7g").unwrap();
        assert_eq!(limits.tensor_bytes, 7 << 30);
        limits.set("value_bytes", "3 MiB").unwrap();
        limits.set("iterations", "12").unwrap();
        limits.set("file_access", "read").unwrap();
        limits.set("external_folders", "/a").unwrap();
        limits.set("external_folders", "/b").unwrap();
        assert_eq!((limits.value_bytes, limits.iterations), (3 << 20, 12));
        assert_eq!(limits.file_access, FileAccess::Read);
        assert_eq!(limits.external_folders, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(limits.get("value_bytes").unwrap(), "3MiB");
        assert_eq!(limits.get("nothing"), None);
        assert!(matches!(limits.set("nothing", "1"), Err(Error::UnknownLimit { .. })));
        for (name, value) in
            [("nodes", "-1"), ("nodes", "1GiB"), ("value_bytes", "99999999TiB"), ("file_access", "")]
        {
            assert!(matches!(limits.set(name, value), Err(Error::LimitValue { .. })), "{name} {value}");
        }
    }

    #[test]
    fn what_get_returns_set_takes() {
        for limit in Limits::all().iter().filter(|limit| limit.unit != folders::UNIT) {
            let mut limits = Limits::default();
            limits.set(limit.name, &limit.default()).unwrap();
            assert_eq!(limits, Limits::default(), "{}", limit.name);
            assert!(!limit.doc().is_empty(), "{}", limit.name);
        }
    }
}
