//! A library whose table was read and checked.

use super::instance::Instance;
use super::{LoadError, LoadedBackend, file};
use crate::abi::{
    self, Description, Failure, Items, Library, Named, OptionSpec, Primitives, Raw, Text, status,
};
use bb_core::layer::interned;
use bb_core::{DataType, DataTypes, Device, OpenOptions, operation};
use bb_ir::op::{OpSpec, Primitive, primitives_fingerprint};
use std::ffi::c_void;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A library with a backend, which was loaded and checked. Its backend may be opened any number of times.
///
/// Clones share the library. It is unloaded with the last of its backends, tensors and graphs, if it allows unloading.
#[derive(Clone)]
pub struct BackendLibrary(pub(super) Arc<Inner>);

/// The checked description of a library.
pub(super) struct Inner {
    pub(super) table: Library,
    pub(super) primitives: Primitives,
    pub(super) path: PathBuf,
    pub(super) name: &'static str,
    pub(super) version: String,
    /// An identifier. Together with the fingerprint it distinguishes this library from others with the same backend name.
    pub(super) identity: String,
    pub(super) types: Option<DataTypes>,
    pub(super) options: Vec<OwnedOption>,
    pub(super) natives: Vec<&'static OpSpec>,
    /// The loaded shared library; `None` for a library that is linked into the program.
    _loaded: Option<SystemLibrary>,
}

/// An option, copied to memory of the host.
#[derive(Debug, Clone)]
pub(super) struct OwnedOption {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) initial: String,
    pub(super) about: String,
}

/// A loaded shared library. It is unloaded only if its table says that this is safe.
struct SystemLibrary {
    library: ManuallyDrop<libloading::Library>,
    unloads: bool,
}

impl Drop for SystemLibrary {
    fn drop(&mut self) {
        if self.unloads {
            // SAFETY: this is the only place that drops it, and runs once.
            unsafe { ManuallyDrop::drop(&mut self.library) };
        }
    }
}

impl fmt::Debug for BackendLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendLibrary")
            .field("name", &self.0.name)
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

/// The maximum length of a string in a description, in bytes.
const LONGEST: usize = 1 << 12;
/// The maximum size of a structure in bytes, and the maximum number of items of a list in a description.
const MOST: usize = 1 << 16;

impl BackendLibrary {
    /// Loads a library, and checks its description.
    ///
    /// Loading runs code of the file, so load only files that you would also link.
    ///
    /// # Errors
    ///
    /// Any [`LoadError`] except [`Register`](LoadError::Register).
    pub fn load(path: impl AsRef<Path>) -> Result<BackendLibrary, LoadError> {
        let given = path.as_ref();
        // The path is made absolute, because the loader would search a name without a folder in other places.
        let read = |source| LoadError::Read { path: given.to_owned(), source };
        let path = given.canonicalize().map_err(read)?;
        file::check(&path)?;
        let open = |source| LoadError::Open { path: path.clone(), source };
        // SAFETY: the initialisers of the library run, which the caller requested.
        let library = unsafe { file::load(&path) }.map_err(open)?;
        // SAFETY: only the address is used here, and the type describes only the first field.
        let symbol = unsafe { library.get::<*const usize>(abi::SYMBOL) }.map_err(|source| {
            LoadError::NoBackend { path: path.clone(), kind: file::kind(&library), source }
        })?;
        // SAFETY: the library stays loaded as long as the pointer is used.
        let table = unsafe { symbol.try_as_raw_ptr() }.unwrap_or(std::ptr::null_mut()).cast::<usize>();
        // The library is not unloaded if the check of its table fails, because it may not allow unloading.
        let mut loaded = SystemLibrary { library: ManuallyDrop::new(library), unloads: false };
        // SAFETY: the symbol of this name is a constant of the library.
        let table = unsafe { read_table(table, &path) }?;
        loaded.unloads = table.flags & abi::UNLOADS != 0;
        BackendLibrary::of(table, path, Some(loaded))
    }

    /// Uses a library that is linked into the program or created by it. Errors show `path` as its path.
    ///
    /// # Safety
    ///
    /// The table and everything that it points to live as long as the program, and its functions uphold the contract of the interface.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub unsafe fn linked(
        table: *const Library,
        path: impl Into<PathBuf>,
    ) -> Result<BackendLibrary, LoadError> {
        let path = path.into();
        // SAFETY: the caller upholds the safety contract of this function.
        let table = unsafe { read_table(table.cast(), &path) }?;
        BackendLibrary::of(table, path, None)
    }

    fn of(table: Library, path: PathBuf, loaded: Option<SystemLibrary>) -> Result<BackendLibrary, LoadError> {
        let mismatch = |what, expected: String, got: String| {
            Err(LoadError::Mismatch { path: path.clone(), what, expected, got })
        };
        if table.magic != abi::MAGIC {
            let got = format!("{:#x}: write `.magic = BB_MAGIC`", table.magic);
            return mismatch("beginning", format!("{:#x}", abi::MAGIC), got);
        }
        if table.version != abi::VERSION {
            let got = format!(
                "{}: write `.version = BB_VERSION`, and compile the library with this version's header",
                table.version
            );
            return mismatch("version of the interface", abi::VERSION.to_string(), got);
        }
        if table.flags & !abi::UNLOADS != 0 {
            return mismatch("set of flags", "`BB_UNLOADS`, or 0".to_owned(), format!("{:#x}", table.flags));
        }
        // SAFETY: the table of the library has a pointer to a constant of it, or null.
        let primitives = unsafe { read_primitives(&table, &path) }?;
        lacks_none(&table, &primitives, &path)?;
        let mut description = Description::NONE;
        let describe = table.describe;
        called(&path, "describe", |error| {
            // SAFETY: the library takes these, by the version of its interface.
            describe.map_or(status::OK, |describe| unsafe { describe(&raw mut description, error) })
        })?;
        if description.size == 0 {
            let expected = "the number of bytes that `describe` wrote".to_owned();
            return mismatch("size of the description", expected, "0".to_owned());
        }
        let read = Reading { path: &path };
        // SAFETY: the library wrote the description. Its strings and lists live as long as the library.
        let inner = unsafe {
            let name = interned(read.name(description.name)?);
            let (version, stated) =
                (read.version(description.version)?, read.text("path", description.path)?);
            Inner {
                table,
                primitives,
                name,
                version,
                identity: format!("{stated} {:016x}", description.fingerprint),
                types: read.types(name, description.types)?,
                options: read.options(description.options)?,
                natives: read.natives(description.natives, &table)?,
                path: path.clone(),
                _loaded: loaded,
            }
        };
        if inner.table.devices.is_some() && !inner.options.iter().any(|option| option.name == "device") {
            let got =
                "no such option: write `{BB_TEXT_INIT(\"device\"), BB_TEXT_INIT(\"device\")}`".to_owned();
            let expected = "the option `device`, because the library has the function `devices`".to_owned();
            return mismatch("list of options", expected, got);
        }
        Ok(BackendLibrary(Arc::new(inner)))
    }

    /// Returns the name under which users open the backend.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Returns the version of the backend.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Opens the backend. Options that are not passed have their defaults.
    ///
    /// # Errors
    ///
    /// [`LoadError::Option`] if the backend has no option with a passed name; [`LoadError::Failed`] if it cannot be opened;
    /// [`LoadError::Mismatch`] if the library returned null instead of a backend.
    pub fn open(&self, options: &OpenOptions) -> Result<LoadedBackend, LoadError> {
        let texts = options.texts();
        if let Some((name, _)) =
            texts.iter().find(|(name, _)| !self.0.options.iter().any(|o| o.name == *name))
        {
            return Err(LoadError::Option {
                path: self.0.path.clone(),
                backend: self.0.name.to_owned(),
                option: name.clone(),
                takes: self.0.options.iter().map(|option| option.name.clone()).collect(),
            });
        }
        let unset = self.0.options.iter().filter(|option| {
            let own = !["device", "threads", "memory"].contains(&option.kind.as_str());
            own && !texts.iter().any(|(name, _)| *name == option.name)
        });
        let defaults = unset.map(|option| (&option.name, &option.initial));
        let pairs = texts.iter().map(|(name, value)| (name, value)).chain(defaults);
        let pairs: Vec<Named> =
            pairs.map(|(name, value)| Named { name: Text::new(name), value: Text::new(value) }).collect();
        let mut raw: *mut Raw = std::ptr::null_mut();
        let open = self.0.table.open;
        called(&self.0.path, "open", |error| {
            // SAFETY: the library takes these, by the version of its interface.
            open.map_or(status::OK, |open| unsafe { open(Items::of(&pairs), &raw mut raw, error) })
        })?;
        Instance::new(raw, self).map(LoadedBackend::new)
    }

    /// Lists the devices of the backend. The list is empty if the backend does not distinguish devices.
    ///
    /// # Errors
    ///
    /// [`LoadError::Failed`].
    pub fn devices(&self) -> Result<Vec<Device>, LoadError> {
        unsafe extern "C" fn device(context: *mut c_void, name: Text, description: Text) {
            // SAFETY: the context is the list below, which lives during the call, and so do the strings.
            let (list, name, description) =
                unsafe { (context.cast::<Vec<Device>>().as_mut(), name.slice(), description.slice()) };
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            if let Some(list) = list {
                list.push(Device::new(text(name), text(description)));
            }
        }
        let Some(devices) = self.0.table.devices else { return Ok(Vec::new()) };
        let mut found: Vec<Device> = Vec::new();
        called(&self.0.path, "devices", |error| {
            // SAFETY: the library takes these, by the version of its interface.
            unsafe { devices(Some(device), (&raw mut found).cast(), error) }
        })?;
        found.sort();
        Ok(found)
    }
}

/// Calls a function of a library, and converts a failure status to an error.
pub(super) fn called(
    path: &Path,
    function: &'static str,
    body: impl FnOnce(*mut Failure) -> i32,
) -> Result<(), LoadError> {
    let mut text = Said::new();
    let status = body(text.failure());
    if status == status::OK {
        return Ok(());
    }
    let (kind, message) = (status::kind(status), status::explained(status, text.message()));
    Err(LoadError::Failed { path: path.to_owned(), function, kind, message })
}

/// The maximum length of a message of a library, in bytes.
pub(super) const LONGEST_MESSAGE: usize = 1024;

/// A buffer for the message of an error, which functions of the library write.
pub(super) struct Said {
    bytes: [u8; LONGEST_MESSAGE],
    failure: Failure,
}

impl Said {
    pub(super) fn new() -> Said {
        let failure =
            Failure { size: size_of::<Failure>(), text: std::ptr::null_mut(), capacity: 0, length: 0 };
        Said { bytes: [0; LONGEST_MESSAGE], failure }
    }

    /// Returns the structure where functions write their message.
    pub(super) fn failure(&mut self) -> &mut Failure {
        self.failure.text = self.bytes.as_mut_ptr().cast();
        self.failure.capacity = self.bytes.len();
        &mut self.failure
    }

    /// Returns the message that a function wrote, truncated to the size of the buffer.
    pub(super) fn message(&self) -> String {
        message_of(self.bytes.get(..self.failure.length).unwrap_or(&self.bytes))
    }
}

/// Converts the message of an error to a string. An empty message is replaced by a text that says so.
pub(super) fn message_of(text: &[u8]) -> String {
    match String::from_utf8_lossy(text).trim_end_matches('\0') {
        "" => "it does not say why".to_owned(),
        text => text.to_owned(),
    }
}

/// Copies a structure that begins with its size in bytes. Fields beyond that size are set to zero.
///
/// # Safety
///
/// `from` is null, or points to a constant whose size in bytes is its first field, and `T` is valid if it is all zeros.
unsafe fn copied<T>(
    from: *const usize,
    least: usize,
    path: &Path,
    structure: &'static str,
) -> Result<T, LoadError> {
    let mismatch = |got: String| {
        let expected = format!("a `{structure}` of at least {least} bytes, at most {MOST}, in units of 8");
        LoadError::Mismatch { path: path.to_owned(), what: "table", expected, got }
    };
    if from.is_null() || !from.is_aligned() {
        return Err(mismatch(
            if from.is_null() { "null" } else { "an address that is not aligned" }.to_owned(),
        ));
    }
    // SAFETY: the caller upholds the safety contract of this function.
    let size = unsafe { from.read() };
    if size < least || size > MOST || !size.is_multiple_of(8) {
        return Err(mismatch(format!("{size} bytes: write `.size = sizeof({structure})`")));
    }
    let mut whole = MaybeUninit::<T>::zeroed();
    // SAFETY: the constant has `size` bytes, and the destination has the size of its type.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), whole.as_mut_ptr().cast(), size.min(size_of::<T>()));
        Ok(whole.assume_init())
    }
}

/// Reads the table of a library.
///
/// # Safety
///
/// As [`copied`].
unsafe fn read_table(from: *const usize, path: &Path) -> Result<Library, LoadError> {
    // SAFETY: the caller upholds the safety contract of this function; all fields are numbers, pointers or functions that may be null.
    unsafe { copied(from, offset_of!(Library, types), path, "bb_library") }
}

/// Reads the table of primitives, after its fingerprint was compared with the primitives of this version.
///
/// # Safety
///
/// As [`copied`], for the pointer to the primitives in the table.
unsafe fn read_primitives(table: &Library, path: &Path) -> Result<Primitives, LoadError> {
    if table.primitives.is_null() {
        return Ok(Primitives::NONE);
    }
    // SAFETY: the caller upholds the safety contract of this function; all fields are numbers or functions that may be null.
    let primitives: Primitives = unsafe { copied(table.primitives.cast(), 8, path, "bb_primitives") }?;
    let count = primitives.size / 8 - 1;
    // A fingerprint of another number of primitives means that the size is wrong.
    let stated = (0..=Primitive::ALL.len()).find(|n| primitives_fingerprint(*n) == table.fingerprint);
    if let Some(stated) = stated.filter(|stated| *stated != count) {
        return Err(LoadError::Mismatch {
            path: path.to_owned(),
            what: "size of the table of primitives",
            expected: format!("{} bytes by its fingerprint", (stated + 1) * 8),
            got: format!("{} bytes: write `.size = sizeof(bb_primitives)`", primitives.size),
        });
    }
    let expected = primitives_fingerprint(count);
    if count > Primitive::ALL.len() || expected != table.fingerprint {
        return Err(LoadError::Mismatch {
            path: path.to_owned(),
            what: "table of primitives",
            expected: format!(
                "up to {} primitives with the fingerprint {expected:#018x}",
                Primitive::ALL.len()
            ),
            got: format!(
                "{count} with {:#018x}: write `.fingerprint = BB_PRIMITIVES`, and compile the library with this version's header",
                table.fingerprint
            ),
        });
    }
    Ok(primitives)
}

/// Refuses a library that lacks required functions.
fn lacks_none(table: &Library, primitives: &Primitives, path: &Path) -> Result<(), LoadError> {
    let required = [
        ("describe", table.describe.is_some()),
        ("open", table.open.is_some()),
        ("close", table.close.is_some()),
        ("to_host", table.to_host.is_some()),
        ("release", table.release.is_some()),
        ("primitives", !table.primitives.is_null()),
    ];
    let mut missing: Vec<String> =
        required.iter().filter(|(_, has)| !has).map(|(name, _)| format!("`{name}`")).collect();
    let graphs = [
        ("compile", table.compile.is_some()),
        ("run", table.run.is_some()),
        ("release_program", table.release_program.is_some()),
    ];
    let takes_graphs = graphs.iter().any(|(_, has)| *has);
    if takes_graphs {
        missing.extend(graphs.iter().filter(|(_, has)| !has).map(|(name, _)| format!("`{name}`")));
    }
    let has = |op: &Primitive| super::calls::has(primitives, *op);
    // If the pointer to the primitives is null, that is reported as one mistake instead of listing every primitive.
    let listed = Primitive::ALL.iter().filter(|_| !table.primitives.is_null());
    // Other primitives may be null: the backend then does not run them. A table without any function is a mistake, except for graphs.
    let empty = !takes_graphs && !Primitive::ALL.iter().any(has);
    let needed = listed.filter(|op| empty || **op == Primitive::Constant);
    missing.extend(needed.filter(|op| !has(op)).map(|op| format!("the primitive `{}`", op.spec().method)));
    match missing.is_empty() {
        true => Ok(()),
        false => Err(LoadError::Lacks { path: path.to_owned(), missing }),
    }
}

impl Description {
    /// A description without any content.
    const NONE: Description = Description {
        size: size_of::<Description>(),
        name: Text::new(""),
        version: Text::new(""),
        path: Text::new(""),
        types: 0,
        fingerprint: 0,
        options: Items { items: std::ptr::null(), count: 0 },
        natives: Items { items: std::ptr::null(), count: 0 },
    };
}

/// A reader of a description, which reports errors with the path of the library.
struct Reading<'a> {
    path: &'a Path,
}

impl Reading<'_> {
    fn mismatch<T>(
        &self,
        what: &'static str,
        expected: &str,
        got: impl Into<String>,
    ) -> Result<T, LoadError> {
        Err(LoadError::Mismatch {
            path: self.path.to_owned(),
            what,
            expected: expected.to_owned(),
            got: got.into(),
        })
    }

    /// Refuses a list with items whose pointer is null.
    fn not_null<T>(&self, what: &'static str, list: Items<T>) -> Result<(), LoadError> {
        match list.items.is_null() && list.count > 0 {
            true => self.mismatch(what, &format!("a pointer to {} items", list.count), "null"),
            false => Ok(()),
        }
    }

    /// Reads a string.
    ///
    /// # Safety
    ///
    /// As [`Items::slice`], for this function and the next ones.
    unsafe fn text(&self, what: &'static str, text: Text) -> Result<String, LoadError> {
        if text.count > LONGEST {
            return self.mismatch(what, "a text of at most 4096 bytes", format!("{} bytes", text.count));
        }
        if text.items.is_null() && text.count > 0 {
            return self.mismatch(what, &format!("a pointer to {} bytes", text.count), "null");
        }
        // SAFETY: the caller upholds the safety contract of this function.
        let bytes = unsafe { text.slice() };
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => self.mismatch(what, "UTF-8", String::from_utf8_lossy(bytes)),
        }
    }

    /// Reads the name of the backend. Only some characters are allowed, because other names are built from it.
    unsafe fn name(&self, text: Text) -> Result<String, LoadError> {
        // SAFETY: the caller upholds the safety contract of this function.
        let name = unsafe { self.text("name", text) }?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match !name.is_empty() && name.chars().all(fits) {
            true => Ok(name),
            false => {
                let advice = if name.is_empty() { ": write `.name = BB_TEXT(\"mine\")`" } else { "" };
                self.mismatch("name", "letters, digits, `-` and `_`", format!("`{name}`{advice}"))
            }
        }
    }

    /// Reads the version of the backend. An empty text is refused, as in the derive.
    unsafe fn version(&self, text: Text) -> Result<String, LoadError> {
        // SAFETY: the caller upholds the safety contract of this function.
        let version = unsafe { self.text("version", text) }?;
        match version.is_empty() {
            true => {
                let got = "an empty text: write `.version = BB_TEXT(\"1.0.0\")`";
                self.mismatch("version", "a text such as `1.0.0`", got)
            }
            false => Ok(version),
        }
    }

    /// Reads a set of element types. Returns `None` if only an open backend can report them.
    fn types(&self, name: &'static str, bits: u64) -> Result<Option<DataTypes>, LoadError> {
        match bits {
            0 => Ok(None),
            _ => checked_types(self.path, name, bits).map(Some),
        }
    }

    /// Reads the options.
    unsafe fn options(&self, list: Items<OptionSpec>) -> Result<Vec<OwnedOption>, LoadError> {
        if list.count > MOST {
            return self.mismatch("number of options", "at most 65536", list.count.to_string());
        }
        self.not_null("list of options", list)?;
        // SAFETY: the caller upholds the safety contract of this function.
        let list = unsafe { list.slice() };
        let read = |option: &OptionSpec| {
            // SAFETY: the caller upholds the safety contract of this function.
            let (name, kind, initial, about) = unsafe {
                (
                    self.text("name of an option", option.name)?,
                    self.text("kind of an option", option.kind)?,
                    self.text("default of an option", option.initial)?,
                    self.text("description of an option", option.about)?,
                )
            };
            let option = OwnedOption { name, kind, initial, about };
            match super::register::open_option(&option) {
                Ok(_) => Ok(option),
                Err((what, expected, got)) => {
                    self.mismatch(what, expected, format!("`{got}` of the option `{}`", option.name))
                }
            }
        };
        let options: Vec<OwnedOption> = list.iter().map(read).collect::<Result<_, _>>()?;
        for (at, option) in options.iter().enumerate() {
            if options.iter().take(at).any(|before| before.name == option.name) {
                return self.mismatch(
                    "list of options",
                    "each name once",
                    format!("`{}` twice", option.name),
                );
            }
        }
        Ok(options)
    }

    /// Reads the names of native operations.
    unsafe fn natives(&self, list: Items<Text>, table: &Library) -> Result<Vec<&'static OpSpec>, LoadError> {
        if list.count > MOST {
            return self.mismatch("number of native operations", "at most 65536", list.count.to_string());
        }
        self.not_null("list of native operations", list)?;
        if list.count > 0 && table.native.is_none() {
            return self.mismatch(
                "function `native`",
                "one that computes the operations of `natives`",
                format!("null, and {} operations: write `.native = native` in the table", list.count),
            );
        }
        // SAFETY: the caller upholds the safety contract of this function.
        let list = unsafe { list.slice() };
        let find = |text: &Text| {
            // SAFETY: the caller upholds the safety contract of this function.
            let name = unsafe { self.text("name of a native operation", *text) }?;
            match operation(&name) {
                Ok(row) if row.family != bb_ir::op::Family::Primitive => Ok(row),
                Ok(_) => self.mismatch(
                    "native operation",
                    "an operation of a family",
                    format!("the primitive `{name}`"),
                ),
                Err(error) => {
                    let got = format!("`{name}`: {error}");
                    self.mismatch("native operation", "an operation of a family", got)
                }
            }
        };
        list.iter().map(find).collect()
    }
}

/// Decodes the set of element types of the backend `name`.
///
/// # Errors
///
/// [`LoadError::Mismatch`] if a bit does not belong to a type, or the set lacks a type that each backend must have.
pub(super) fn checked_types(path: &Path, name: &'static str, bits: u64) -> Result<DataTypes, LoadError> {
    let mismatch = |expected: &str, got: String| LoadError::Mismatch {
        path: path.to_owned(),
        what: "set of element types",
        expected: expected.to_owned(),
        got: format!("{got}: write `1ull << BB_F32 | 1ull << BB_I32 | 1ull << BB_BOOL`"),
    };
    let types = types_of(bits)
        .ok_or_else(|| mismatch("bits of ONNX's element types, at least one", format!("{bits:#x}")))?;
    match bb_core::runtime::check_types(name, types) {
        Ok(()) => Ok(types),
        Err(_) => Err(mismatch("float32, bool, and int32 or int64 among them", types.to_string())),
    }
}

/// Decodes a set of element types from bits. Returns `None` if there is no bit, or a bit does not belong to a type.
fn types_of(bits: u64) -> Option<DataTypes> {
    let known = DataType::ALL.iter().fold(0u64, |all, dtype| all | 1 << dtype.to_onnx());
    let has = |dtype: &&DataType| bits >> dtype.to_onnx() & 1 == 1;
    (bits & !known == 0 && bits != 0).then(|| DataType::ALL.iter().filter(has).copied().collect())
}

/// Returns the error for a function that returned null instead of a backend, or for an open backend without element types.
pub(super) fn wrong_instance(
    library: &BackendLibrary,
    what: &'static str,
    expected: &str,
    got: &str,
) -> LoadError {
    let (expected, got) = (expected.to_owned(), got.to_owned());
    LoadError::Mismatch { path: library.0.path.clone(), what, expected, got }
}
