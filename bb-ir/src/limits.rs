//! Limits on the resources of an untrusted model.

use crate::Error;
use crate::error::limit_option::{self, option};
use crate::memory::at_most;
use std::path::PathBuf;

/// How the files of a model are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// Maps the files: a page is read when it is first used, and processes that map the same file share its
    /// memory.
    ///
    /// Nothing may shorten or rewrite the files while the model is in use. If a file is shortened, reading
    /// the missing part ends the process with a signal (SIGBUS); if it is rewritten, the model's weights
    /// change during a run. Replacing a file by another file of the same name is safe. If this build or the
    /// file system cannot map files, they are read.
    #[default]
    Map,
    /// Reads the files into memory, so that later changes to them have no effect.
    Read,
}

/// The phase of a limit. If another library loads the model, only the limits on runs apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitPhase {
    /// The limit applies while a model is loaded.
    Loading,
    /// The limit applies when a model is compiled and runs.
    Running,
}

impl LimitPhase {
    /// Returns the name of the phase for tables: `loading` or `runs`.
    pub fn name(self) -> &'static str {
        match self {
            LimitPhase::Loading => "loading",
            LimitPhase::Running => "runs",
        }
    }
}

/// A description of one of the [`Limits`], for programs that list limits or set them by name.
#[derive(Debug, Clone, Copy)]
pub struct LimitInfo {
    /// The name of the field.
    pub name: &'static str,
    /// The unit, or the format of the value.
    pub unit: &'static str,
    /// Whether the limit bounds loading or runs.
    pub phase: LimitPhase,
    doc: &'static str,
    get: fn(&Limits) -> String,
    set: fn(&mut Limits, &str) -> bool,
}

impl LimitInfo {
    /// Returns the documentation of the limit, in Markdown.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Returns the value in [`Limits::default`], in the format that [`Limits::set`] takes.
    pub fn default(&self) -> String {
        (self.get)(&Limits::default())
    }
}

/// Declares [`Limits`]. A row declares a field: `name: kind = default, phase`. The kind is the name of a module of this file.
macro_rules! limits {
    ($( $(#[doc = $doc:literal])+ $name:ident: $kind:ident = $default:expr, $phase:ident; )*) => {
        /// Limits on the contents and resources of a model, and on the location of its data.
        ///
        /// The defaults accept every reasonable model, and reject a hostile model before it uses up a machine's memory or time.
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
            phase: LimitPhase::$phase,
            doc: concat!($($doc),+),
            get: |limits| $kind::write(&limits.$name),
            set: |limits, text| $kind::read(&mut limits.$name, text).is_some(),
        }, )*];
    };
}

limits! {
    /// The size of the serialized model, without external data.
    model_bytes: bytes = at_most(16 << 30), Loading;
    /// The number of nodes, including nodes of subgraphs and of inlined functions.
    nodes: count = 1_000_000, Loading;
    /// The nesting depth of subgraphs, function calls and types; at most `Limits::MAX_NESTING`.
    nesting: count = 64, Loading;
    /// The number of elements of one constant tensor.
    tensor_elements: count = at_most(1 << 34), Loading;
    /// The size of one constant tensor.
    tensor_bytes: bytes = at_most(16 << 30), Loading;
    /// The size of all constant tensors together, including the tensors of inlined functions.
    total_tensor_bytes: bytes = at_most(64 << 30), Loading;
    /// The size of all sparse constants together, in the dense form of their elements in memory.
    sparse_bytes: bytes = at_most(1 << 30), Loading;
    /// The length of a name.
    name_bytes: bytes = 64 << 10, Loading;
    /// The size of all names and attributes other than tensors together, including the names and attributes of inlined
    /// functions.
    total_text_bytes: bytes = at_most(1 << 30), Loading;
    /// The size of a value that a run produces. A larger value is refused before anything runs.
    value_bytes: bytes = at_most(4 << 30), Running;
    /// The size of all values of a run that exist at the same time, inputs and outputs included. A view counts like a copy,
    /// and texts that the host computes count until the run ends.
    run_bytes: bytes = at_most(16 << 30), Running;
    /// The size of all constants that are computed when a plan is made, including intermediate ones; at most `run_bytes`. Values
    /// that would exceed it are computed in each run instead.
    fold_bytes: bytes = at_most(4 << 30), Running;
    /// The number of iterations of all loops of a run together.
    iterations: count = 1 << 20, Running;
    /// The size of the plans that a compiled graph keeps for different kinds of inputs, without the model's weights.
    /// The least recently used plan is dropped first, and the newest one always stays.
    plan_bytes: bytes = 256 << 20, Running;
    /// Folders besides the model's own that may contain external data. Setting this limit again adds another
    /// folder.
    external_folders: folders = Vec::new(), Loading;
    /// How the model and its external data are loaded: mapped by default, or `read`.
    file_access: access = FileAccess::Map, Loading;
}

impl Limits {
    /// The maximum nesting depth that the limit `nesting` can allow, so that recursive traversals do not exhaust the stack.
    pub const MAX_NESTING: usize = 128;

    /// Lists all limits with their names, units, documentation and defaults.
    pub fn all() -> &'static [LimitInfo] {
        ALL
    }

    /// Sets the prefix of the options that set limits in this program, for messages: for example `limits.`. Only the first call has an effect.
    pub fn set_option_prefix(prefix: &'static str) {
        limit_option::set_prefix(prefix);
    }

    /// Returns the value of the limit called `name`, in the format that [`set`](Self::set) takes; `None` if
    /// no limit has this name.
    pub fn get(&self, name: &str) -> Option<String> {
        ALL.iter().find(|limit| limit.name == name).map(|limit| (limit.get)(self))
    }

    /// Sets the limit called `name`.
    ///
    /// A number of bytes may end in `KiB`, `MiB`, `GiB` or `TiB`, or in `K`, `M`, `G` or `T`. For the limit `external_folders`,
    /// `value` is a folder that is added to the allowed folders.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownLimit`], which lists all names, if no limit is called `name`; [`Error::LimitValue`] if the value is
    /// invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        self.set_among(ALL.iter(), name, value)
    }

    /// Sets the limit on runs called `name`, as [`set`](Self::set) does, in a program where `loader` loads the models.
    ///
    /// # Errors
    ///
    /// [`Error::LoadingLimit`] if the limit bounds loading; [`Error::UnknownLimit`] and [`Error::LimitValue`] as for
    /// [`set`](Self::set), with a list of the limits on runs.
    pub fn set_for_runs(&mut self, loader: &'static str, name: &str, value: &str) -> Result<(), Error> {
        let running = ALL.iter().filter(|limit| limit.phase == LimitPhase::Running);
        match ALL.iter().find(|limit| limit.name == name) {
            Some(LimitInfo { name, phase: LimitPhase::Loading, .. }) => {
                Err(Error::LoadingLimit { name, loader, known: listed(running) })
            }
            Some(LimitInfo { phase: LimitPhase::Running, .. }) | None => self.set_among(running, name, value),
        }
    }

    /// Sets one of `limits` by its name.
    fn set_among(
        &mut self,
        limits: impl Iterator<Item = &'static LimitInfo> + Clone,
        name: &str,
        value: &str,
    ) -> Result<(), Error> {
        let Some(limit) = limits.clone().find(|limit| limit.name == name) else {
            let nearest = crate::nearest(name, limits.clone().map(|limit| limit.name)).map(str::to_owned);
            return Err(Error::UnknownLimit { name: name.to_owned(), nearest, known: listed(limits) });
        };
        if (limit.set)(self, value) {
            return Ok(());
        }
        let expected = if limit.unit == bytes::UNIT { bytes::FORM } else { limit.unit };
        Err(Error::LimitValue { name: limit.name, value: value.to_owned(), expected })
    }
}

/// Limits on a count.
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

pub use bytes::{FORM as BYTES_FORM, parse as parse_bytes};

/// Limits in bytes.
mod bytes {
    pub(super) type Value = usize;
    pub(super) const UNIT: &str = "bytes, as in 4GiB";

    /// The form that [`parse`] expects, for error messages.
    pub const FORM: &str =
        "a number of bytes, or one with the unit K, M, G, T, KiB, MiB, GiB or TiB, as in 4GiB";

    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

    pub(super) fn read(limit: &mut usize, text: &str) -> Option<()> {
        *limit = parse(text)?;
        Some(())
    }

    /// Parses a number of bytes that may end in K, M, G, T, KiB, MiB, GiB or TiB, all powers of 1024. Returns `None` for any
    /// other string.
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

/// Limits that are lists of folders.
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

/// Limits whose value is a [`FileAccess`].
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

/// Counts how much of its limits a model has used.
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

    /// Returns the maximum size of the next sparse constant in bytes, and the name of the limit that determines it.
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
        // A `String` takes memory in addition to its characters.
        self.text(name.len() + 32)
    }

    /// Counts the bytes of data other than constants and names.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Error> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        let limit = self.limits.total_text_bytes;
        within("total_text_bytes", "bytes of names and attributes", self.text_bytes, limit)
    }

    /// Returns the maximum nesting depth of types and subgraphs.
    pub(crate) fn deepest(&self) -> usize {
        self.limits.nesting.min(Limits::MAX_NESTING)
    }

    /// Returns an error if the nesting depth `depth` exceeds the limit.
    pub(crate) fn nesting(&self, depth: usize) -> Result<(), Error> {
        within("nesting", "levels of nesting", depth, self.deepest())
    }
}

/// Returns an error if `got` exceeds `limit`, which is the field `name` of [`Limits`].
pub(crate) fn within(name: &'static str, what: &'static str, got: usize, limit: usize) -> Result<(), Error> {
    if got > limit { Err(Error::Limit { what, name: Some(name), limit, got }) } else { Ok(()) }
}

/// Lists the names of limits with their default values.
fn listed(limits: impl Iterator<Item = &'static LimitInfo>) -> String {
    let text = |limit: &LimitInfo| match limit.default() {
        default if default.is_empty() => format!("`{}`", option(limit.name)),
        default => format!("`{}` ({default})", option(limit.name)),
    };
    limits.map(text).collect::<Vec<_>>().join(", ")
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
        assert!(matches!(limits.set("nothing", "1"), Err(Error::UnknownLimit { nearest: None, .. })));
        let misspelt = limits.set("iteration", "1").unwrap_err().to_string();
        assert!(
            misspelt.starts_with("there is no limit `iteration` (did you mean `iterations`?); the limits"),
            "{misspelt}"
        );
        for (name, value) in
            [("nodes", "-1"), ("nodes", "1GiB"), ("value_bytes", "99999999TiB"), ("file_access", "")]
        {
            assert!(matches!(limits.set(name, value), Err(Error::LimitValue { .. })), "{name} {value}");
        }
        let decimal = limits.set("value_bytes", "1KB").unwrap_err().to_string();
        let units =
            "expected a number of bytes, or one with the unit K, M, G, T, KiB, MiB, GiB or TiB, as in 4GiB";
        assert!(decimal.ends_with(units), "{decimal}");
    }

    #[test]
    fn a_program_that_loads_no_models_has_only_the_limits_of_runs() {
        let mut limits = Limits::default();
        for limit in Limits::all() {
            let set = limits.set_for_runs("Loader", limit.name, &limit.default());
            match limit.phase {
                LimitPhase::Running => assert!(set.is_ok(), "{}", limit.name),
                LimitPhase::Loading => {
                    assert!(matches!(set, Err(Error::LoadingLimit { .. })), "{}", limit.name)
                }
            }
        }
        let refused = limits.set_for_runs("Loader", "nodes", "1").unwrap_err().to_string();
        let known = "`value_bytes` (4GiB), `run_bytes` (16GiB), `fold_bytes` (4GiB), `iterations` (1048576), `plan_bytes` (256MiB)";
        let bounds = "the limit `nodes` bounds the loading of models, which Loader does here";
        assert_eq!(refused, format!("{bounds}; the limits on runs and their default values are: {known}"));
        let unknown = limits.set_for_runs("Loader", "value_byte", "1").unwrap_err().to_string();
        assert!(unknown.contains("did you mean `value_bytes`?") && unknown.ends_with(known), "{unknown}");
    }

    #[test]
    fn set_accepts_what_get_returns() {
        for limit in Limits::all().iter().filter(|limit| limit.unit != folders::UNIT) {
            let mut limits = Limits::default();
            limits.set(limit.name, &limit.default()).unwrap();
            assert_eq!(limits, Limits::default(), "{}", limit.name);
            assert!(!limit.doc().is_empty(), "{}", limit.name);
        }
    }
}
