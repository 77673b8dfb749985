//! The options with which a backend may be opened, as errors name them.

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
}

impl OpenOption {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            OpenOption::Device => "device",
            OpenOption::Threads => "threads",
            OpenOption::Memory => "memory",
            OpenOption::NarrowFloats => "narrow_floats",
        }
    }
}

impl std::fmt::Display for OpenOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
