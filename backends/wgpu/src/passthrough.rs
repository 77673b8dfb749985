//! Passes SPIR-V to the driver without validation.

use std::borrow::Cow;

/// Allows experimental features of wgpu. This backend uses only one of them, shader passthrough.
pub(crate) fn experimental() -> wgpu::ExperimentalFeatures {
    // SAFETY: a program that enables the feature `passthrough` guarantees that kernels in SPIR-V are valid and stay within their
    // bindings.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// Creates a shader module from SPIR-V.
pub(crate) fn module(device: &wgpu::Device, entry: &str, words: &[u32]) -> wgpu::ShaderModule {
    let entry = wgpu::PassthroughShaderEntryPoint { name: Cow::Borrowed(entry), workgroup_size: (1, 1, 1) };
    let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
        label: None,
        entry_points: Cow::Owned(vec![entry]),
        spirv: Some(Cow::Borrowed(words)),
        ..Default::default()
    };
    // SAFETY: as above; the feature is for callers who guarantee that their kernels are valid.
    unsafe { device.create_shader_module_passthrough(descriptor) }
}
