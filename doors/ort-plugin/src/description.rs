//! The texts and numbers that ONNX Runtime shows of a provider and its device.

use std::ffi::CStr;

/// The texts and numbers that ONNX Runtime shows of a provider and its device, as in `onnxruntime.get_ep_devices()`.
///
/// The name of the provider is `bb-` and the name of the backend, and its version is the version of the backend. The type, vendor and
/// number of the hardware are ONNX Runtime's: the device is the machine's processor, because tensors are in its memory.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// The vendor of the provider.
    pub vendor: &'static CStr,
    /// The vendor's number on the PCI bus; 0 if it has none.
    pub vendor_id: u32,
    /// The metadata of the device, as keys and values.
    pub metadata: &'static [(&'static CStr, &'static CStr)],
}

impl Description {
    /// The description of a provider whose author sets no field.
    pub const DEFAULT: Description = Description { vendor: c"bb", vendor_id: 0, metadata: &[] };
}
