//! Measures the overhead of calls of a loaded backend, compared with the same backend linked into the program:
//!
//! ```text
//! cargo build --release -p bb-c-host --examples && cargo run --release -p bb-c-host --example cost
//! ```

use bb::{Backend, BackendHandle, CompileOptions, Module, TensorData};
use bb_cpu::Cpu;
use std::path::Path;
use std::time::Instant;

/// Returns the minimum time of a call over several rounds, in nanoseconds.
fn time(calls: usize, mut call: impl FnMut()) -> f64 {
    let round = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / calls as f64
    };
    (0..15).map(|_| round(&mut call)).fold(f64::INFINITY, f64::min)
}

fn row(what: &str, linked: f64, loaded: f64) {
    println!("| {what} | {linked:.0} ns | {loaded:.0} ns | {:.2} |", loaded / linked);
}

/// Measures calls of primitives.
fn calls<A: Backend, B: Backend>(linked: &A, loaded: &B) -> Result<(), Box<dyn std::error::Error>> {
    for n in [1, 1 << 10, 1 << 16] {
        let data = TensorData::new(&[n], &vec![1f32; n])?;
        let (a, b) = (linked.constant(&data)?, loaded.constant(&data)?);
        let calls = if n > 1 << 12 { 500 } else { 20_000 };
        row(
            &format!("`add` of {n} elements"),
            time(calls, || drop(linked.add(&a, &a))),
            time(calls, || drop(loaded.add(&b, &b))),
        );
        row(
            &format!("`constant` of {n} elements"),
            time(calls, || drop(linked.constant(&data))),
            time(calls, || drop(loaded.constant(&data))),
        );
        row(
            &format!("`to_host` of {n} elements"),
            time(calls, || drop(linked.to_host(&a))),
            time(calls, || drop(loaded.to_host(&b))),
        );
    }
    for n in [8, 64, 256] {
        let data = TensorData::new(&[n, n], &vec![1f32; n * n])?;
        let (a, b) = (linked.constant(&data)?, loaded.constant(&data)?);
        let calls = if n > 64 { 20 } else { 2_000 };
        row(
            &format!("`matmul` of {n} × {n}"),
            time(calls, || drop(linked.matmul(&a, &a))),
            time(calls, || drop(loaded.matmul(&b, &b))),
        );
    }
    Ok(())
}

/// Measures a run of a model.
fn model(
    name: &str,
    linked: &BackendHandle,
    loaded: &BackendHandle,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/models");
    let ready = |on: &BackendHandle| -> Result<_, Box<dyn std::error::Error>> {
        let module = Module::load(root.join(name).join("model.onnx"))?;
        let ready = on.compile(module, &CompileOptions::default())?;
        let input = on.tensor(&[1, 4], &[1f32; 4])?;
        Ok(move || drop(ready.run(&[Some(&input)])))
    };
    let (a, b) = (ready(linked)?, ready(loaded)?);
    row(&format!("a run of `{name}`"), time(200, a), time(200, b));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?;
    let file = format!("{}cpu{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let loaded = bb::load_backend(program.with_file_name(file))?;
    println!("| call | linked | loaded | ratio |\n|---|---|---|---|");
    let linked = Cpu::new();
    calls(&linked, &loaded)?;
    let linked = BackendHandle::start("linked", linked);
    model("surfaces_gbr", &linked, &BackendHandle::start("loaded", loaded))
}
