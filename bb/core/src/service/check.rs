//! Validates kernels and their calls, in the same way for all backends.

use super::{
    IMMEDIATE_BYTES, KernelFormat, KernelLimits, KernelProblem, KernelSource, OutputSpec, UserKernel,
};
use bb_ir::DataType;

/// The first word of a SPIR-V module, in the byte order of the module (SPIR-V specification, section 2.3).
pub(super) const SPIRV_MAGIC: u32 = 0x0723_0203;

/// The size of the header of a SPIR-V module: five words, in bytes.
const SPIRV_HEADER: usize = 20;

fn over(what: &'static str, got: u64, limit: u64) -> Result<(), KernelProblem> {
    if got > limit { Err(KernelProblem::Limit { what, limit, got }) } else { Ok(()) }
}

fn count(what: &'static str, got: usize, expected: usize) -> Result<(), KernelProblem> {
    if got == expected { Ok(()) } else { Err(KernelProblem::Count { what, expected, got }) }
}

/// Checks the length and the magic number of a SPIR-V module.
///
/// # Errors
///
/// [`KernelProblem::SpirVLength`] and [`KernelProblem::SpirVMagic`].
pub fn check_spirv(module: &[u8]) -> Result<(), KernelProblem> {
    let bytes = module.len();
    let first = module.first_chunk::<4>().filter(|_| bytes >= SPIRV_HEADER && bytes.is_multiple_of(4));
    let Some(first) = first else { return Err(KernelProblem::SpirVLength { bytes }) };
    let got = u32::from_le_bytes(*first);
    match got == SPIRV_MAGIC || got.swap_bytes() == SPIRV_MAGIC {
        true => Ok(()),
        false => Err(KernelProblem::SpirVMagic { got }),
    }
}

/// Checks a kernel before it is compiled. The runtime calls this.
///
/// # Errors
///
/// The first problem that is found.
pub fn check_kernel(kernel: &UserKernel, limits: &KernelLimits) -> Result<(), KernelProblem> {
    if kernel.name.is_empty() {
        return Err(KernelProblem::Empty { what: "name" });
    }
    let got = kernel.source.format();
    if !limits.formats.contains(&got) {
        return Err(KernelProblem::Format { got, expected: limits.formats.clone() });
    }
    if got != KernelFormat::Host && kernel.entry.is_empty() {
        return Err(KernelProblem::Empty { what: "entry point" });
    }
    match &kernel.source {
        KernelSource::SpirV(module) => check_spirv(module)?,
        KernelSource::Wgsl(text) if text.trim().is_empty() => {
            return Err(KernelProblem::Empty { what: "source" });
        }
        KernelSource::Wgsl(_) | KernelSource::Host(_) => {}
    }
    over(
        "the number of bindings",
        kernel.inputs.saturating_add(kernel.outputs) as u64,
        limits.bindings as u64,
    )?;
    over(
        "the number of bytes of immediates",
        kernel.immediates as u64,
        limits.immediates.min(IMMEDIATE_BYTES) as u64,
    )
}

/// Checks a call of a kernel before it is submitted: the declared counts, the sizes of the bindings, and the grid. The
/// runtime calls this.
///
/// `inputs` are the element types and shapes of the inputs.
///
/// # Errors
///
/// The first problem that is found.
pub fn check_call(
    kernel: &UserKernel,
    limits: &KernelLimits,
    inputs: &[(DataType, &[usize])],
    outputs: &[OutputSpec],
    immediates: &[u8],
    grid: [u32; 3],
) -> Result<(), KernelProblem> {
    count("the number of inputs", inputs.len(), kernel.inputs)?;
    count("the number of outputs", outputs.len(), kernel.outputs)?;
    count("the number of bytes of immediates", immediates.len(), kernel.immediates)?;
    let outputs = outputs.iter().map(|output| (output.dtype, &*output.shape));
    for (index, (dtype, shape)) in inputs.iter().copied().chain(outputs).enumerate() {
        if dtype == DataType::String {
            return Err(KernelProblem::Strings { index });
        }
        let bytes = bb_ir::element_count(shape).and_then(|elements| dtype.bytes_for(elements));
        over(
            "the number of bytes of a binding",
            bytes.map_or(u64::MAX, |bytes| bytes as u64),
            limits.binding_bytes,
        )?;
    }
    let names = ["workgroups in direction x", "workgroups in direction y", "workgroups in direction z"];
    for ((what, got), limit) in names.into_iter().zip(grid).zip(limits.grid) {
        over(what, u64::from(got), u64::from(limit))?;
    }
    Ok(())
}
