//! The services of the backend: lifecycle, memory, and user kernels.

use crate::device::pool::{Pool, Storage};
use crate::device::{Gpu, Scope};
use crate::elem::Elem;
use crate::open::Wgpu;
use crate::ops::arithmetic::dense;
use crate::ops::{own, result};
use crate::{Result, Tensor, WgpuError};
use bb::Tensor as _;
use bb::services::{
    ForeignBuffer, IMMEDIATE_BYTES, KernelCall, KernelFormat, KernelLimits, KernelProblem, KernelSource,
    Kernels, Lifecycle, LoadedKernel, Memory, MemoryStatistics, PressureCallback, ServiceError, UserKernel,
};
use std::borrow::Cow;
use std::sync::Arc;

impl Lifecycle for Wgpu {
    fn synchronize(&self) -> std::result::Result<(), ServiceError> {
        Ok(self.gpu().synchronize()?)
    }

    fn shut_down(&self) -> std::result::Result<(), ServiceError> {
        let finished = self.gpu().synchronize();
        self.gpu().stream.discard();
        self.gpu().shut();
        Ok(finished?)
    }

    fn lost(&self) -> Option<String> {
        self.gpu().lost().map(str::to_owned)
    }

    fn is_asynchronous(&self) -> bool {
        true
    }

    fn queued(&self) -> Option<u64> {
        Some(self.gpu().stream.queued())
    }
}

/// A wgpu buffer that contains a tensor, as one 32-bit word for each element in row-major order.
///
/// The memory exists until this value is dropped. Call [`Wgpu::flush`] before submitting commands that read it to
/// [`Wgpu::queue`].
#[derive(Debug, Clone)]
pub struct SharedBuffer {
    storage: Arc<Storage>,
    elements: usize,
}

impl SharedBuffer {
    /// Returns the buffer, which begins with the elements; `None` for a tensor without elements.
    pub fn buffer(&self) -> Option<&wgpu::Buffer> {
        self.storage.buffer()
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.elements
    }
}

impl Memory<Tensor> for Wgpu {
    fn statistics(&self) -> MemoryStatistics {
        let stats = self.memory_stats();
        MemoryStatistics::new(stats.live_bytes, stats.free_bytes, stats.peak_bytes, stats.limit)
    }

    fn set_limit(&self, bytes: Option<u64>) -> std::result::Result<(), ServiceError> {
        self.gpu().pool.set_limit(bytes);
        Ok(())
    }

    fn trim(&self, keep: u64) -> std::result::Result<u64, ServiceError> {
        Ok(self.gpu().pool.trim(keep))
    }

    fn set_pressure_callback(
        &self,
        callback: Option<PressureCallback>,
    ) -> std::result::Result<(), ServiceError> {
        self.gpu().pool.set_callback(callback);
        Ok(())
    }

    fn defragment(&self) -> std::result::Result<u64, ServiceError> {
        Err(ServiceError::NotNeeded {
            what: "defragmentation",
            reason: "each buffer of the pool is an allocation of its own, kept for others of its size or given back",
        })
    }

    /// Imports a `wgpu::Buffer` of this backend's device with the usages `STORAGE` and `COPY_SRC`, or a [`SharedBuffer`].
    /// Either must contain one 32-bit word for each element. Nothing is copied.
    fn import(&self, buffer: ForeignBuffer) -> std::result::Result<Tensor, ServiceError> {
        let ForeignBuffer { dtype, shape, handle } = buffer;
        let elem = Elem::of("import", dtype)?;
        let overflow = || ServiceError::Foreign { problem: format!("{shape:?} has too many elements") };
        let elements = bb::ir::element_count(&shape).ok_or_else(overflow)?;
        let storage = match handle.downcast::<SharedBuffer>() {
            Ok(shared) => shared.storage,
            Err(handle) => match handle.downcast::<wgpu::Buffer>() {
                Ok(buffer) => Pool::foreign(*buffer),
                Err(_) => {
                    let problem = "expected a `wgpu::Buffer` or a `SharedBuffer`".to_owned();
                    return Err(ServiceError::Foreign { problem });
                }
            },
        };
        let usages = storage.buffer().map_or(wgpu::BufferUsages::empty(), wgpu::Buffer::usage);
        let needed = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let bytes = elements as u64 * 4;
        if !usages.contains(needed) || storage.size() < bytes {
            let problem = format!(
                "expected {bytes} bytes with the usages {needed:?}, got {} bytes with {usages:?}",
                storage.size()
            );
            return Err(ServiceError::Foreign { problem });
        }
        let storage = Some(storage).filter(|_| elements > 0);
        Ok(Tensor::dense(self.gpu(), elem, shape, storage))
    }

    /// Exports a tensor as a [`SharedBuffer`]. A view is first copied to a new buffer.
    fn export(&self, tensor: &Tensor) -> std::result::Result<ForeignBuffer, ServiceError> {
        let gpu = self.gpu();
        own(gpu, "export", &[tensor])?;
        let x =
            if tensor.0.offset == 0 { dense(gpu, "export", tensor)? } else { copied(gpu, "export", tensor)? };
        let storage = match &x.0.storage {
            Some(storage) => storage.clone(),
            None => gpu.pool.storage(4, None)?,
        };
        let shared = SharedBuffer { storage, elements: x.len() };
        Ok(ForeignBuffer::new(tensor.dtype(), tensor.shape(), shared))
    }
}

/// Copies a tensor to a new buffer.
fn copied(gpu: &Arc<Gpu>, op: &'static str, x: &Tensor) -> Result<Tensor> {
    let y = result(gpu, op, x.elem(), x.shape().into())?;
    crate::ops::arithmetic::place(gpu, op, &y, 0, x)?;
    Ok(y)
}

impl Kernels<Tensor> for Wgpu {
    /// Returns the limits of user kernels. Every element of a binding is one 32-bit word, whatever its type.
    fn limits(&self) -> KernelLimits {
        let limits = &self.gpu().limits;
        let mut formats = vec![KernelFormat::Wgsl];
        if cfg!(not(target_arch = "wasm32")) {
            formats.push(KernelFormat::SpirV);
        }
        let has = self.gpu().features.contains(wgpu::Features::IMMEDIATES);
        let immediates = if has { limits.max_immediate_size as usize } else { 0 };
        KernelLimits::webgpu(formats)
            .with_bindings(limits.max_storage_buffers_per_shader_stage as usize)
            .with_binding_bytes(self.gpu().binding)
            .with_immediates(immediates.min(IMMEDIATE_BYTES))
            .with_grid([limits.max_compute_workgroups_per_dimension; 3])
    }

    fn load(&self, kernel: &UserKernel) -> std::result::Result<Box<dyn LoadedKernel<Tensor>>, ServiceError> {
        let gpu = self.gpu();
        gpu.check()?;
        let refused = |problem| ServiceError::Kernel { name: kernel.name.clone(), problem };
        let scope = Scope::new(&gpu.device);
        let module = match &kernel.source {
            KernelSource::Wgsl(text) => gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(&kernel.name),
                source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(text)),
            }),
            #[cfg(not(target_arch = "wasm32"))]
            KernelSource::SpirV(bytes) => spirv(gpu, kernel, bytes),
            other => {
                drop(scope.end());
                let problem = KernelProblem::Format { got: other.format(), expected: self.limits().formats };
                return Err(refused(problem));
            }
        };
        // End the scope here, because otherwise each object created from an invalid module would report the error again.
        if let Some(error) = scope.end() {
            gpu.check()?;
            return Err(refused(KernelProblem::Compile { message: error.to_string() }));
        }
        let scope = Scope::new(&gpu.device);
        let entries: Vec<wgpu::BindGroupLayoutEntry> = (0..kernel.inputs + kernel.outputs)
            .map(|i| wgpu::BindGroupLayoutEntry {
                binding: i as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: i < kernel.inputs },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let layout = gpu
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: kernel.immediates.next_multiple_of(4) as u32,
        });
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&kernel.name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(&kernel.entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        if let Some(error) = scope.end() {
            gpu.check()?;
            return Err(refused(KernelProblem::Compile { message: error.to_string() }));
        }
        Ok(Box::new(CompiledKernel { gpu: gpu.clone(), name: kernel.name.clone(), layout, pipeline }))
    }
}

/// Creates a shader module from SPIR-V. The runtime has already checked the length and the magic number.
#[cfg(not(target_arch = "wasm32"))]
fn spirv(gpu: &Gpu, kernel: &UserKernel, bytes: &[u8]) -> wgpu::ShaderModule {
    let words = bytes.as_chunks::<4>().0.iter();
    let little = words.clone().next().is_none_or(|first| u32::from_le_bytes(*first) == 0x0723_0203);
    let words: Vec<u32> = words
        .map(|word| if little { u32::from_le_bytes(*word) } else { u32::from_be_bytes(*word) })
        .collect();
    #[cfg(feature = "passthrough")]
    if gpu.features.contains(wgpu::Features::PASSTHROUGH_SHADERS) {
        return crate::passthrough::module(&gpu.device, &kernel.entry, &words);
    }
    gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(&kernel.name),
        source: wgpu::ShaderSource::SpirV(Cow::Owned(words)),
    })
}

/// A compiled user kernel.
struct CompiledKernel {
    gpu: Arc<Gpu>,
    name: String,
    layout: wgpu::BindGroupLayout,
    pipeline: wgpu::ComputePipeline,
}

impl LoadedKernel<Tensor> for CompiledKernel {
    fn run(&self, call: &KernelCall<'_, Tensor>) -> std::result::Result<Vec<Tensor>, ServiceError> {
        Ok(self.call(call)?)
    }
}

impl CompiledKernel {
    fn call(&self, call: &KernelCall<'_, Tensor>) -> Result<Vec<Tensor>> {
        let (gpu, op) = (&self.gpu, "kernel");
        own(gpu, op, call.inputs)?;
        let align = u64::from(gpu.limits.min_storage_buffer_offset_alignment).max(4);
        let mut inputs = Vec::with_capacity(call.inputs.len());
        for x in call.inputs {
            let aligned = (x.0.offset as u64 * 4).is_multiple_of(align);
            inputs.push(if aligned { dense(gpu, op, x)? } else { copied(gpu, op, x)? });
        }
        let outputs = call.outputs.iter().map(|output| {
            let elem = Elem::of(op, output.dtype)?;
            result(gpu, op, elem, output.shape.clone())
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let mut storages: Vec<(Arc<Storage>, u64, u64)> = Vec::new();
        for x in inputs.iter().chain(&outputs) {
            // A binding cannot be empty, so a tensor without elements is bound as one word.
            let storage = match &x.0.storage {
                Some(storage) => storage.clone(),
                None => gpu.pool.storage(4, None)?,
            };
            let bytes = (x.len() as u64 * 4).max(4);
            if bytes > gpu.binding {
                return Err(WgpuError::Binding { op, bytes, limit: gpu.binding });
            }
            storages.push((storage, x.0.offset as u64 * 4, bytes));
        }
        let mut entries = Vec::with_capacity(storages.len());
        for (i, (storage, offset, bytes)) in storages.iter().enumerate() {
            let Some(buffer) = storage.buffer() else { continue };
            let size = wgpu::BufferSize::new(*bytes);
            let binding = wgpu::BufferBinding { buffer, offset: *offset, size };
            entries.push(wgpu::BindGroupEntry {
                binding: i as u32,
                resource: wgpu::BindingResource::Buffer(binding),
            });
        }
        let scope = Scope::new(&gpu.device);
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(&self.name),
            layout: &self.layout,
            entries: &entries,
        });
        let error = scope.end();
        if let Some(error) = error {
            gpu.check()?;
            return Err(crate::device::refused("the bindings of a kernel", error));
        }
        let mut immediates = call.immediates.to_vec();
        immediates.resize(immediates.len().next_multiple_of(4), 0);
        let written: Vec<&Arc<Storage>> = storages.iter().map(|(storage, ..)| storage).collect();
        gpu.record_with(&written, |encoder| {
            for (storage, ..) in storages.iter().skip(inputs.len()) {
                if let Some(buffer) = storage.buffer() {
                    encoder.clear_buffer(buffer, 0, None);
                }
            }
            let [x, y, z] = call.grid;
            if call.grid.contains(&0) {
                return;
            }
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &group, &[]);
            if !immediates.is_empty() {
                pass.set_immediates(0, &immediates);
            }
            pass.dispatch_workgroups(x, y, z);
        })?;
        // Submit immediately, so that this call reports errors of the kernel.
        gpu.submitted()?;
        Ok(outputs)
    }
}
