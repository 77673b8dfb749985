//! Runs a model on the CPU backend without the plugin, for comparison. Runs it once per line of standard input, and prints the milliseconds
//! of each run.
//!
//!     cargo run --release -p bb-ort-plugin --example own -- FOLDER
//!
//! `FOLDER` has a model and its data in ONNX's layout.

use bb::conformance::onnx;
use bb::onnx::OnnxValue;
use bb::{BackendHandle, CompileOptions, Module, TensorData, Value};
use bb_cpu::Cpu;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("expected a folder")?);
    let cpu = BackendHandle::start("cpu", Cpu::new());
    let model = cpu.compile(Module::load(folder.join("model.onnx"))?, &CompileOptions::default())?;
    let items = onnx::read_inputs(&folder.join("test_data_set_0"), model.inputs())?;
    let tensor = |item: Option<OnnxValue<TensorData>>| match item {
        Some(OnnxValue::Tensor(x)) => Ok(Some(x)),
        None => Ok(None),
        Some(_) => Err("expected tensors"),
    };
    let inputs = items.into_iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
    for line in std::io::stdin().lines() {
        line?;
        let begin = Instant::now();
        let given = inputs.iter().map(|x| x.as_ref().map(|x| cpu.runtime().constant(x)).transpose());
        let given: Vec<Option<Value>> = given.collect::<Result<_, _>>()?;
        let operands: Vec<Option<&Value>> = given.iter().map(Option::as_ref).collect();
        for result in model.run(&operands)? {
            cpu.to_host(&result)?;
        }
        println!("{}", 1e3 * begin.elapsed().as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(())
}
