//! The origin of a program's backend, for error messages.

use bb_ir::text::sentence;

/// How a program got a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BackendOrigin {
    /// Its crate is linked into the program.
    #[default]
    Linked,
    /// It was loaded from the library at this path.
    Loaded(&'static str),
    /// The program registered it at run time.
    Registered,
}

impl std::fmt::Display for BackendOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BackendOrigin::Linked => f.write_str("linked"),
            BackendOrigin::Loaded(path) => write!(f, "loaded from `{}`", sentence(path)),
            BackendOrigin::Registered => f.write_str("registered"),
        }
    }
}
