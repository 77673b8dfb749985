//! Identifies the options for opening a backend, in errors and lists.

use bb_ir::text::{BOOL_FORM, parse_bool};

/// One of the [`OpenOptions`](crate::OpenOptions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OpenOption {
    /// [`OpenOptions::device`](crate::OpenOptions::device).
    Device,
    /// [`OpenOptions::threads`](crate::OpenOptions::threads).
    Threads,
    /// [`OpenOptions::memory`](crate::OpenOptions::memory).
    Memory,
    /// [`OpenOptions::narrow_floats`](crate::OpenOptions::narrow_floats).
    NarrowFloats,
    /// An option that the backend declares itself.
    Own(OwnOption),
}

/// An option that a backend declares in its derive, for example `options(tile: u64 = 128 => "rows of a
/// tile")`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct OwnOption {
    /// The name.
    pub name: &'static str,
    /// The value if the option is not set. It also determines the type.
    pub default: OptionDefault,
    /// A description in one line.
    pub about: &'static str,
}

/// The default of an option that a backend declares. It also determines the option's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OptionDefault {
    /// A `bool`. As a text, it is `true`, `false`, `1` or `0`.
    Bool(bool),
    /// An `i64`.
    Int(i64),
    /// A `u64`.
    Count(u64),
    /// The bits of a finite `f64`.
    Float(u64),
    /// A string.
    Text(&'static str),
}

impl OptionDefault {
    /// Returns the default of an option of type `f64`.
    pub const fn float(value: f64) -> OptionDefault {
        OptionDefault::Float(value.to_bits())
    }

    /// Returns the name of the type as written in the derive.
    pub fn type_name(self) -> &'static str {
        match self {
            OptionDefault::Bool(_) => "bool",
            OptionDefault::Int(_) => "i64",
            OptionDefault::Count(_) => "u64",
            OptionDefault::Float(_) => "f64",
            OptionDefault::Text(_) => "str",
        }
    }

    /// Returns a description of the allowed values, for errors.
    pub(crate) fn values(self) -> &'static str {
        match self {
            OptionDefault::Bool(_) => BOOL_FORM,
            OptionDefault::Int(_) => "a whole number",
            OptionDefault::Count(_) => "a whole number, at least 0",
            OptionDefault::Float(_) => "a number",
            OptionDefault::Text(_) => "a text",
        }
    }

    /// Returns the normal form of a value of this type; `None` if the string is not a value of the type.
    pub(crate) fn normal(self, text: &str) -> Option<String> {
        Some(match self {
            OptionDefault::Bool(_) => parse_bool(text)?.to_string(),
            OptionDefault::Int(_) => text.parse::<i64>().ok()?.to_string(),
            OptionDefault::Count(_) => text.parse::<u64>().ok()?.to_string(),
            OptionDefault::Float(_) => {
                text.parse::<f64>().ok().filter(|value| value.is_finite())?.to_string()
            }
            OptionDefault::Text(_) => text.to_owned(),
        })
    }
}

impl std::fmt::Display for OptionDefault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionDefault::Bool(value) => value.fmt(f),
            OptionDefault::Int(value) => value.fmt(f),
            OptionDefault::Count(value) => value.fmt(f),
            OptionDefault::Float(bits) => f64::from_bits(*bits).fmt(f),
            OptionDefault::Text(value) => f.write_str(value),
        }
    }
}

impl OwnOption {
    /// Returns the declaration of an option. The derive calls this.
    #[doc(hidden)]
    pub const fn new(name: &'static str, default: OptionDefault, about: &'static str) -> OwnOption {
        OwnOption { name, default, about }
    }
}

impl OpenOption {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            OpenOption::Device => "device",
            OpenOption::Threads => "threads",
            OpenOption::Memory => "memory",
            OpenOption::NarrowFloats => "narrow_floats",
            OpenOption::Own(own) => own.name,
        }
    }

    /// Returns the declaration, if the backend declares the option itself.
    pub fn own(self) -> Option<OwnOption> {
        if let OpenOption::Own(own) = self { Some(own) } else { None }
    }
}

impl std::fmt::Display for OpenOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
