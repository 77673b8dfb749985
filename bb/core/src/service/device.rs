//! A backend's description of its device.

/// The kind of device that a backend computes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The backend does not report the kind.
    #[default]
    Unknown,
    /// The processor that runs the program.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// A processor designed for tensors.
    Accelerator,
    /// Another machine.
    Remote,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceKind::Unknown => "unknown",
            DeviceKind::Cpu => "CPU",
            DeviceKind::Gpu => "GPU",
            DeviceKind::Accelerator => "accelerator",
            DeviceKind::Remote => "remote",
        })
    }
}

/// A backend's description of its device: [`Backend::device_info`](crate::Backend::device_info). The default is empty.
///
/// # Examples
///
/// ```
/// use bb::services::{DeviceInfo, DeviceKind};
/// let chip = DeviceInfo::new(DeviceKind::Accelerator).with_greatest_rank(5).with_alignment(256).with("tiles", "128");
/// assert_eq!(chip.greatest_rank, Some(5));
/// assert_eq!(chip.get("tiles"), Some("128"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The kind of device.
    pub kind: DeviceKind,
    /// The maximum rank of a tensor; `None` if the backend has no limit or does not report it.
    pub greatest_rank: Option<usize>,
    /// The alignment of tensor memory: the address or offset of a tensor is a multiple of this number.
    ///
    /// Units: bytes.
    pub alignment: Option<u64>,
    /// Further entries of the backend's author, by name.
    pub more: Vec<(&'static str, String)>,
}

impl DeviceInfo {
    /// Describes a device of a kind.
    pub fn new(kind: DeviceKind) -> DeviceInfo {
        DeviceInfo { kind, ..DeviceInfo::default() }
    }

    /// Returns the description with the maximum rank of a tensor.
    #[must_use]
    pub fn with_greatest_rank(self, rank: usize) -> DeviceInfo {
        DeviceInfo { greatest_rank: Some(rank), ..self }
    }

    /// Returns the description with the alignment of memory.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn with_alignment(self, bytes: u64) -> DeviceInfo {
        DeviceInfo { alignment: Some(bytes), ..self }
    }

    /// Returns the description with an additional entry. An entry with the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> DeviceInfo {
        self.more.retain(|(known, _)| *known != name);
        self.more.push((name, value.into()));
        self
    }

    /// Returns the additional entry with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.more.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}
