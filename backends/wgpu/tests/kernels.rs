//! Tests user kernels: valid ones run, and invalid ones are refused before they reach the device.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::services::{KernelFormat, KernelProblem, KernelSource, OutputSpec, ServiceError, UserKernel};
use bb::{BackendHandle, DataType, Error};

const DOUBLE: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < arrayLength(&x)) { y[id.x] = 2.0 * x[id.x]; }
}
";

const SCALED: &str = "
struct Numbers { factor: f32, plus: f32 }
var<immediate> N: Numbers;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn scaled(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x] * N.factor + N.plus; }
";

fn backend() -> BackendHandle {
    use bb_wgpu as _;
    bb::backend("wgpu").unwrap()
}

fn problem(error: &Error) -> KernelProblem {
    let Error::Service { source: ServiceError::Kernel { problem, .. }, .. } = error else {
        panic!("{error:?}")
    };
    problem.clone()
}

#[test]
fn a_kernel_in_wgsl_is_loaded_run_and_unloaded() {
    let on = backend();
    let kernels = on.kernels().unwrap();
    kernels.load(UserKernel::new("double", KernelSource::Wgsl(DOUBLE.to_owned()), 1, 1)).unwrap();
    let x = on.tensor(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let turned = on.transpose(&x, &[]).unwrap();
    let spec = [OutputSpec::new(DataType::F32, &[6])];
    let y = kernels.run("double", &[&turned], &spec, &[], [1, 1, 1]).unwrap();
    assert_eq!(y[0].to_host(1024).unwrap().as_slice::<f32>().unwrap(), [2.0, 6.0, 10.0, 4.0, 8.0, 12.0]);
    // The result can be used like any other tensor. A grid without workgroups gives zeros.
    let z = on.add(&y[0], &y[0]).unwrap();
    assert_eq!(z.to_host(1024).unwrap().as_slice::<f32>().unwrap()[0], 4.0);
    let none = kernels.run("double", &[&x], &spec, &[], [0, 1, 1]).unwrap();
    assert_eq!(none[0].to_host(1024).unwrap().as_slice::<f32>().unwrap(), [0.0; 6]);
    kernels.unload("double").unwrap();
    let error = kernels.run("double", &[&x], &spec, &[], [1, 1, 1]).unwrap_err();
    assert!(matches!(problem(&error), KernelProblem::Unknown { .. }), "{error:?}");
}

#[test]
fn immediates_reach_the_kernel() {
    let on = backend();
    let kernels = on.kernels().unwrap();
    if kernels.limits().unwrap().immediates == 0 {
        println!("the device has no immediates");
        return;
    }
    let kernel = UserKernel::new("scaled", KernelSource::Wgsl(SCALED.to_owned()), 1, 1);
    kernels.load(kernel.with_entry("scaled").with_immediates(8)).unwrap();
    let x = on.tensor(&[3], &[1f32, 2.0, 3.0]).unwrap();
    let numbers: Vec<u8> = [10f32, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let spec = [OutputSpec::new(DataType::F32, &[3])];
    let y = kernels.run("scaled", &[&x], &spec, &numbers, [3, 1, 1]).unwrap();
    assert_eq!(y[0].to_host(1024).unwrap().as_slice::<f32>().unwrap(), [10.5, 20.5, 30.5]);
    let error = kernels.run("scaled", &[&x], &spec, &numbers[..4], [3, 1, 1]).unwrap_err();
    assert!(matches!(problem(&error), KernelProblem::Count { expected: 8, got: 4, .. }), "{error:?}");
    kernels.unload("scaled").unwrap();
}

#[test]
fn faulty_kernels_are_refused_and_the_device_goes_on() {
    let on = backend();
    let kernels = on.kernels().unwrap();
    let wgsl = |text: &str| KernelSource::Wgsl(text.to_owned());
    let compile = |kernel: &UserKernel| {
        let error = kernels.load(kernel.clone()).unwrap_err();
        let KernelProblem::Compile { message } = problem(&error) else { panic!("{error:?}") };
        assert!(!message.is_empty());
    };
    compile(&UserKernel::new("syntax", wgsl("fn main( {"), 1, 1));
    compile(&UserKernel::new(
        "types",
        wgsl("@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }"),
        1,
        1,
    ));
    // Undeclared bindings, a missing entry point, and more threads than a workgroup may have.
    compile(&UserKernel::new("bindings", wgsl(DOUBLE), 1, 0));
    compile(&UserKernel::new("writes", wgsl(DOUBLE), 2, 0));
    compile(&UserKernel::new("entry", wgsl(DOUBLE), 1, 1).with_entry("other"));
    compile(&UserKernel::new("threads", wgsl(&DOUBLE.replace("64", "100000")), 1, 1));
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    assert_eq!(on.add(&x, &x).unwrap().to_host(64).unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0]);
}

/// Returns the bytes of a SPIR-V module.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn spirv_is_checked_before_and_by_naga() {
    let on = backend();
    let kernels = on.kernels().unwrap();
    assert!(kernels.limits().unwrap().formats.contains(&KernelFormat::SpirV));
    let load = |module: Vec<u8>| kernels.load(UserKernel::new("spirv", KernelSource::SpirV(module), 1, 1));
    assert!(matches!(problem(&load(vec![3, 2, 0x23]).unwrap_err()), KernelProblem::SpirVLength { bytes: 3 }));
    let error = load(bytes(&[0xdead_beef, 0, 0, 0, 0])).unwrap_err();
    assert!(matches!(problem(&error), KernelProblem::SpirVMagic { got: 0xdead_beef }), "{error:?}");
    // A header, and an instruction that is longer than the module.
    let error = load(bytes(&[0x0723_0203, 0x0001_0000, 0, 8, 0, 0xffff_0011])).unwrap_err();
    assert!(matches!(problem(&error), KernelProblem::Compile { .. }), "{error:?}");
    // A module without an entry point.
    let error =
        load(bytes(&[0x0723_0203, 0x0001_0000, 0, 8, 0, 0x0002_0011, 1, 0x0003_000e, 0, 1])).unwrap_err();
    assert!(matches!(problem(&error), KernelProblem::Compile { .. }), "{error:?}");
}

#[test]
fn a_kernel_in_spirv_runs() {
    let on = backend();
    let kernels = on.kernels().unwrap();
    let module = include_bytes!("double.spv").to_vec();
    kernels.load(UserKernel::new("double-spirv", KernelSource::SpirV(module.clone()), 1, 1)).unwrap();
    // A module in the other byte order is the same module.
    let turned: Vec<u8> =
        module.as_chunks::<4>().0.iter().flat_map(|[a, b, c, d]| [*d, *c, *b, *a]).collect();
    kernels.load(UserKernel::new("double-big", KernelSource::SpirV(turned), 1, 1)).unwrap();
    let x = on.tensor(&[3], &[1f32, 2.0, -3.0]).unwrap();
    for name in ["double-spirv", "double-big"] {
        let spec = [OutputSpec::new(DataType::F32, &[3])];
        let y = kernels.run(name, &[&x], &spec, &[], [1, 1, 1]).unwrap();
        assert_eq!(y[0].to_host(1024).unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0, -6.0], "{name}");
        kernels.unload(name).unwrap();
    }
}

#[test]
fn calls_are_checked_against_the_limits() {
    let on = backend();
    let kernels = on.kernels().unwrap();
    kernels.load(UserKernel::new("limits", KernelSource::Wgsl(DOUBLE.to_owned()), 1, 1)).unwrap();
    let x = on.tensor(&[2], &[1f32, 2.0]).unwrap();
    let spec = [OutputSpec::new(DataType::F32, &[2])];
    let run = |inputs: &[&bb::Value], outputs: &[OutputSpec], grid| {
        problem(&kernels.run("limits", inputs, outputs, &[], grid).unwrap_err())
    };
    assert!(matches!(run(&[&x, &x], &spec, [1, 1, 1]), KernelProblem::Count { .. }));
    assert!(matches!(run(&[&x], &[], [1, 1, 1]), KernelProblem::Count { .. }));
    assert!(matches!(run(&[&x], &spec, [1 << 20, 1, 1]), KernelProblem::Limit { .. }));
    let huge = [OutputSpec::new(DataType::F32, &[1 << 30])];
    assert!(matches!(run(&[&x], &huge, [1, 1, 1]), KernelProblem::Limit { .. }));
    let many = UserKernel::new("many", KernelSource::Wgsl(DOUBLE.to_owned()), 1, 1).with_immediates(129);
    let error = kernels.load(many).unwrap_err();
    assert!(matches!(problem(&error), KernelProblem::Limit { limit: 0..=128, got: 129, .. }), "{error:?}");
    kernels.unload("limits").unwrap();
}
