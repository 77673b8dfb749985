//! The backend type, and opening it on an adapter that is selected by index or name.

use crate::device::pool::MemoryStats;
use crate::device::stream::StreamStats;
use crate::device::{Gpu, Opening, block_on};
use crate::later::Waiter;
use crate::ops::host;
use crate::{Result, Tensor, WgpuError};
use bb::{Device, OpenOptions, TensorData};
use std::sync::Arc;

/// The backend `wgpu`, which owns one device.
///
/// Clones share the device.
#[derive(Clone, bb::Backend)]
#[bb(
    name = "wgpu",
    open = crate::open::open,
    options(device, memory),
    devices = crate::open::devices,
    extensions(Bits, Create, Image, Index, Llm, Ml, Nn, Quant, Scalar, Train)
)]
pub struct Wgpu {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) waiter: Arc<Waiter>,
}

impl std::fmt::Debug for Wgpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wgpu({:?})", self.gpu.info.name)
    }
}

impl Wgpu {
    pub(crate) fn of(gpu: Arc<Gpu>) -> Wgpu {
        Wgpu { gpu, waiter: Arc::default() }
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Opens the system's preferred adapter.
    ///
    /// # Errors
    ///
    /// As [`WgpuBuilder::open`].
    pub fn first() -> Result<Wgpu> {
        WgpuBuilder::default().open()
    }

    /// Returns the name of the adapter, as its driver reports it.
    pub fn adapter(&self) -> &str {
        &self.gpu.info.name
    }

    /// Returns the maximum number of bytes of a buffer that a kernel can access.
    pub fn binding(&self) -> u64 {
        self.gpu.binding
    }

    /// Submits the recorded commands, without waiting for them.
    ///
    /// # Errors
    ///
    /// [`WgpuError::Lost`] and [`WgpuError::Shutdown`]; [`WgpuError::Refused`] if the device has refused a command since the
    /// last call.
    pub fn flush(&self) -> Result<()> {
        self.gpu.flush().map(drop)
    }

    /// Copies a tensor to the host asynchronously. In a browser, this is the only way to read a tensor.
    ///
    /// # Errors
    ///
    /// As `to_host`.
    pub async fn read(&self, x: &Tensor) -> Result<TensorData> {
        host::read(&self.gpu, x).await
    }

    /// Returns the statistics of the buffer pool.
    pub fn memory_stats(&self) -> MemoryStats {
        self.gpu.pool.stats()
    }

    /// Returns the numbers of recorded kernels, submissions and waits.
    pub fn stream(&self) -> StreamStats {
        self.gpu.stream.stats()
    }

    /// Returns the number of compiled kernels.
    pub fn compiled_kernels(&self) -> usize {
        self.gpu.pipelines.count()
    }

    /// Returns the wgpu device, for a program that shares it.
    pub fn device(&self) -> &wgpu::Device {
        &self.gpu.device
    }

    /// Returns the wgpu queue. Call [`flush`](Self::flush) before submitting work that reads tensors.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.gpu.queue
    }
}

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
    /// Selects an adapter by its index, or by a part of its name, ignoring case.
    #[must_use]
    pub fn device(self, name: impl Into<String>) -> WgpuBuilder {
        WgpuBuilder { device: Some(name.into()), ..self }
    }

    /// Limits the total size of the device's buffers.
    ///
    /// Units: bytes.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> WgpuBuilder {
        self.opening.memory = Some(bytes);
        self
    }

    /// Limits the number of bytes of a buffer that a kernel can bind, below the device's own limit. Larger work is computed
    /// in parts.
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
    /// [`WgpuError::NoAdapter`] if there is no adapter, [`WgpuError::UnknownAdapter`] if no adapter matches,
    /// [`WgpuError::Open`] if the driver refuses. In a browser [`WgpuError::Blocks`]: call [`open_async`](Self::open_async)
    /// there.
    pub fn open(self) -> Result<Wgpu> {
        if cfg!(target_arch = "wasm32") {
            return Err(WgpuError::Blocks { op: "open" });
        }
        block_on(self.open_async())
    }

    /// Opens the device asynchronously, as a browser requires.
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
    // The validation layers serve the development of wgpu itself. wgpu's own checks remain active.
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor)
}

/// Lists the adapters. The index of an adapter in this list is its device number.
async fn adapters() -> Vec<wgpu::Adapter> {
    instance().enumerate_adapters(wgpu::Backends::all()).await
}

/// Returns the system's preferred adapter for high performance.
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

/// Opens the backend with the options of the registry.
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

/// Lists the devices. Each has its index as a name, and also its short name if that is unique.
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
        // Two adapters with the same name can only be distinguished by index.
        let unique = found.iter().filter(|(other, _)| other == name).count() == 1;
        if unique && name.parse::<usize>().is_err() && !name.is_empty() {
            devices.push(Device::new(name.clone(), format!("the same as {i}: {about}")));
        }
    }
    devices
}

/// Returns the short name of an adapter: its name up to the first bracket, in lower case, with hyphens for spaces.
fn short(name: &str) -> String {
    let name = name.split('(').next().unwrap_or_default().trim().to_lowercase();
    name.split_whitespace().collect::<Vec<_>>().join("-")
}
