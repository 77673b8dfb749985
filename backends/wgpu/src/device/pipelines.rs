//! A cache of compiled kernels, by typed keys.

use crate::Result;
use crate::device::stream::PARAM_BYTES;
use crate::device::{Gpu, Scope, refused};
use crate::wgsl::{conv, gather, map, matmul, reduce, row, scan, window};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The maximum number of cached kernels. A model uses some dozens, but a program that loads new models forever would
/// otherwise accumulate their kernels.
const KEPT: usize = 4096;

/// The key of a kernel, which contains all parameters that its source depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Map(map::MapKey),
    Reduce(reduce::ReduceKey),
    MatMul(matmul::MatMulKey),
    Gather(gather::GatherKey),
    Scan(scan::ScanKey),
    Row(row::RowKey),
    Window(window::WindowKey),
    Conv(conv::ConvKey),
}

impl Key {
    /// Returns the kernel's WGSL source.
    fn source(&self) -> String {
        match self {
            Key::Map(key) => key.source(),
            Key::Reduce(key) => key.source(),
            Key::MatMul(key) => key.source(),
            Key::Gather(key) => key.source(),
            Key::Scan(key) => key.source(),
            Key::Row(key) => key.source(),
            Key::Window(key) => key.source(),
            Key::Conv(key) => key.source(),
        }
    }
}

/// A compiled kernel.
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// The layouts for a fixed number of bindings.
#[derive(Clone)]
struct BindingLayout {
    group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

/// The compiled kernels of one device.
#[derive(Default)]
pub(crate) struct Pipelines {
    compiled: RwLock<HashMap<Key, Arc<Pipeline>>>,
    layouts: RwLock<HashMap<usize, BindingLayout>>,
}

impl Pipelines {
    /// Returns a kernel. Its first use compiles it.
    pub(crate) fn get(&self, gpu: &Gpu, key: &Key, bindings: usize) -> Result<Arc<Pipeline>> {
        if let Some(pipeline) = self.compiled.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Ok(pipeline.clone());
        }
        let pipeline = Arc::new(self.compile(gpu, &key.source(), bindings)?);
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= KEPT {
            // A running call owns a handle to its pipeline, so all can be dropped. Their next use compiles them again.
            compiled.clear();
        }
        Ok(compiled.entry(key.clone()).or_insert(pipeline).clone())
    }

    /// Returns the number of compiled kernels.
    pub(crate) fn count(&self) -> usize {
        self.compiled.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn compile(&self, gpu: &Gpu, source: &str, bindings: usize) -> Result<Pipeline> {
        let scope = Scope::new(&gpu.device);
        let layout = self.layout(gpu, bindings);
        let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(source)),
        });
        let options = wgpu::PipelineCompilationOptions {
            // The generated kernels always write workgroup memory before they read it.
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        };
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&layout.pipeline),
            module: &module,
            entry_point: Some("main"),
            compilation_options: options,
            cache: None,
        });
        match scope.end() {
            None => Ok(Pipeline { pipeline, layout: layout.group }),
            Some(error) => {
                gpu.check()?;
                Err(refused("a kernel", error))
            }
        }
    }

    /// Returns the layout for the parameters, one result and the operands.
    fn layout(&self, gpu: &Gpu, bindings: usize) -> BindingLayout {
        if let Some(layout) = self.layouts.read().unwrap_or_else(PoisonError::into_inner).get(&bindings) {
            return layout.clone();
        }
        let entry = |binding, ty, dynamic, least| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: dynamic, min_binding_size: least },
            count: None,
        };
        let params = wgpu::BufferSize::new(PARAM_BYTES);
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true, params)];
        for i in 0..bindings as u32 {
            let storage = wgpu::BufferBindingType::Storage { read_only: i > 0 };
            entries.push(entry(1 + i, storage, false, wgpu::BufferSize::new(4)));
        }
        let group = gpu
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        let layout = BindingLayout { group, pipeline };
        let mut layouts = self.layouts.write().unwrap_or_else(PoisonError::into_inner);
        layouts.entry(bindings).or_insert(layout).clone()
    }
}
