//! Adapters, by number and by name, and the devices that they give.

use crate::backend::Wgpu;
use crate::device::{Gpu, Opening, block_on};
use crate::{Result, WgpuError};
use bb::{Device, OpenOptions};
use std::sync::Arc;

/// Options for a device.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb_wgpu::WgpuError> {
/// let gpu = bb_wgpu::WgpuBuilder::default().device("0").memory(1 << 30).open()?;
/// assert_eq!(gpu.memory_stats().limit, Some(1 << 30));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct WgpuBuilder {
    device: Option<String>,
    opening: Opening,
}

impl WgpuBuilder {
    /// Chooses an adapter by its number, or by a part of its name, whose case does not matter.
    #[must_use]
    pub fn device(self, name: impl Into<String>) -> WgpuBuilder {
        WgpuBuilder { device: Some(name.into()), ..self }
    }

    /// Limits the memory of the device's buffers.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> WgpuBuilder {
        self.opening.memory = Some(bytes);
        self
    }

    /// Limits the bytes of a buffer that a kernel may bind, below the limit of the device. Larger work is done in parts.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn binding(mut self, bytes: u64) -> WgpuBuilder {
        self.opening.binding = Some(bytes);
        self
    }

    /// Opens the device.
    ///
    /// # Errors
    ///
    /// [`WgpuError::NoAdapter`] if there is none, [`WgpuError::UnknownAdapter`] if none has the name, [`WgpuError::Open`] if
    /// the driver refused. In a browser [`WgpuError::Blocks`]: call [`open_async`](Self::open_async) there.
    pub fn open(self) -> Result<Wgpu> {
        if cfg!(target_arch = "wasm32") {
            return Err(WgpuError::Blocks { op: "open" });
        }
        block_on(self.open_async())
    }

    /// Opens the device as a future, as a browser needs it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_async(self) -> Result<Wgpu> {
        let adapter = match &self.device {
            None => first().await?,
            Some(name) => named(name).await?,
        };
        Ok(Wgpu::of(Arc::new(Gpu::open(&adapter, &self.opening).await?)))
    }
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // Validation layers are for the development of wgpu itself; its own checks remain.
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor)
}

/// Lists the adapters. Their numbers are their positions.
async fn adapters() -> Vec<wgpu::Adapter> {
    instance().enumerate_adapters(wgpu::Backends::all()).await
}

/// Returns the adapter that the system prefers for work.
async fn first() -> Result<wgpu::Adapter> {
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    };
    instance().request_adapter(&options).await.map_err(|_| WgpuError::NoAdapter)
}

async fn named(name: &str) -> Result<wgpu::Adapter> {
    let mut adapters = adapters().await;
    let known: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    if known.is_empty() {
        return Err(WgpuError::NoAdapter);
    }
    let wanted = name.to_lowercase();
    let at = match name.parse::<usize>() {
        Ok(number) => Some(number).filter(|&number| number < known.len()),
        Err(_) => known.iter().position(|own| {
            own.to_lowercase().replace(' ', "-").contains(&wanted) || own.to_lowercase().contains(&wanted)
        }),
    };
    match at {
        Some(at) => Ok(adapters.swap_remove(at)),
        None => Err(WgpuError::UnknownAdapter { name: name.to_owned(), known }),
    }
}

/// The constructor that the registry calls.
pub(crate) fn open(options: &OpenOptions) -> Result<Wgpu> {
    let mut builder = WgpuBuilder::default();
    if let Some(device) = &options.device {
        builder = builder.device(device);
    }
    if let Some(bytes) = options.memory {
        builder = builder.memory(bytes);
    }
    builder.open()
}

/// Lists the devices: each by its number, and by its name with hyphens for spaces.
pub(crate) fn devices() -> Vec<Device> {
    if cfg!(target_arch = "wasm32") {
        return Vec::new();
    }
    let found: Vec<(String, String)> = block_on(adapters())
        .iter()
        .map(|adapter| {
            let info = adapter.get_info();
            let about =
                format!("{} ({:?}, {:?}, {})", info.name, info.device_type, info.backend, info.driver_info);
            (short(&info.name), about)
        })
        .collect();
    let mut devices: Vec<Device> =
        found.iter().enumerate().map(|(i, (_, about))| Device::new(i.to_string(), about.clone())).collect();
    for (i, (name, about)) in found.iter().enumerate() {
        // Only the number distinguishes two adapters with the same name.
        let unique = found.iter().filter(|(other, _)| other == name).count() == 1;
        if unique && name.parse::<usize>().is_err() && !name.is_empty() {
            devices.push(Device::new(name.clone(), format!("the same as {i}: {about}")));
        }
    }
    devices
}

/// Returns a name without spaces: the adapter's name up to the first bracket, in lower case.
fn short(name: &str) -> String {
    let name = name.split('(').next().unwrap_or_default().trim().to_lowercase();
    name.split_whitespace().collect::<Vec<_>>().join("-")
}
