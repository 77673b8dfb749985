//! Loads compiled models with mended checksums, and runs their plans on the backend with unsafe kernels.
//!
//! The corpus is built from models: with `BB_FUZZ_SAVE=FOLDER`, the target compiles and runs a file in ONNX's format, and saves it in
//! the folder.
#![no_main]

use bb::ir::graph::{Dim, ValueType};
use bb::{
    BackendHandle, CompileOptions, ErasedExecutable, FileAccess, Module, RunOptions, TensorData, Value,
};
use bb_fuzz::backends::BACKENDS;
use bb_fuzz::{limits, memory, saved};
use libfuzzer_sys::{Corpus, fuzz_target};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Memory limit in bytes for loading and running a model: several times the limits, because kernels need memory of their own.
const MEMORY: usize = 48 << 20;

/// The deadline of a run.
const DEADLINE: Duration = Duration::from_secs(2);

/// The file that is loaded.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("bb-fuzz-compiled-{}", std::process::id())));

fuzz_target!(|data: &[u8]| -> Corpus {
    if let Some(folder) = std::env::var_os("BB_FUZZ_SAVE") {
        save(data, Path::new(&folder));
        return Corpus::Reject;
    }
    let limits = bb::Limits { file_access: FileAccess::Read, ..limits() };
    let Some(mended) = saved::mended(data, &limits) else { return Corpus::Reject };
    std::fs::write(&*FILE, mended).expect("the file can be written");
    let on = &BACKENDS[0];
    let (_, peak) = memory::watched(|| {
        let module = Module::load_with(&*FILE, &limits).ok()?;
        let compiled = on.compile(module, &CompileOptions::default().within(&limits)).ok()?;
        run(on, &*compiled)
    });
    assert!(peak <= MEMORY, "{peak} bytes");
    Corpus::Keep
});

/// Runs a model twice, with inputs of the declared types.
fn run(on: &BackendHandle, compiled: &dyn ErasedExecutable) -> Option<()> {
    let inputs: Vec<Value> =
        compiled.inputs().iter().map(|port| input(on, &port.ty)).collect::<Option<_>>()?;
    let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
    for _ in 0..2 {
        let options = RunOptions::default().with_deadline(Instant::now() + DEADLINE);
        for y in compiled.run_with(&given, &options).ok()? {
            let _ = y.to_host(1 << 20).map(|y| y.summary().to_string());
        }
    }
    Some(())
}

/// Makes an input of small numbers; unknown extents become 2.
fn input(on: &BackendHandle, ty: &ValueType) -> Option<Value> {
    let ValueType::Tensor { dtype, shape } = ty else { return None };
    let extent = |dim: &Dim| if let Dim::Known(extent) = dim { *extent } else { 2 };
    let shape: Vec<usize> = shape.iter().flatten().map(extent).collect();
    let elements = bb::ir::element_count(&shape).filter(|n| *n <= 1 << 15)?;
    let numbers: Vec<f32> = (0..elements).map(|i| (i % 3) as f32).collect();
    let numbers = TensorData::new(&shape, &numbers).ok()?;
    let numbers = bb::ir::convert::cast(&numbers, *dtype, Default::default()).ok()?;
    on.runtime().constant(&numbers).ok()
}

/// Compiles and runs a model, and saves it with its plan under a name derived from its bytes.
fn save(model: &[u8], folder: &Path) {
    let on = &BACKENDS[0];
    let Ok(module) = Module::from_bytes_with(model.to_vec(), &limits()) else { return };
    let Ok(compiled) = on.compile(module, &CompileOptions::default().within(&limits())) else { return };
    if run(on, &*compiled).is_some() {
        let _ = compiled.save(&folder.join(format!("{:08x}.bb", crc32fast::hash(model))));
    }
}
