//! Runs exported models on ONNX Runtime, if Python has it: whole models, each kept operator, and its
//! lowering.

use super::files::{export_models, folder};
use super::kept::samples;
use super::run;
use bb::export::{ExportOptions, Keep};
use prost::Message;
use std::path::Path;
use std::process::Command;

fn write(folder: &Path, name: &str, tensors: &[bb::TensorData]) {
    for (i, tensor) in tensors.iter().enumerate() {
        std::fs::write(folder.join(format!("{name}_{i}.pb")), tensor.to_proto("").encode_to_vec()).unwrap();
    }
}

#[test]
fn onnx_runtime_agrees_with_exported_models() {
    let python = std::env::var("BB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import onnx, onnxruntime"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        println!(
            "skipped: {python} has no packages `onnx` and `onnxruntime`, which would run the exported models"
        );
        return;
    }
    let folder = folder("runtime");
    export_models(&folder);
    for sample in samples().into_iter().filter(|sample| !sample.random()) {
        let trace = sample.trace();
        for (keep, how) in [(Keep::All, "kept"), (Keep::Nothing, "lowered")] {
            let case = folder.join(format!("{}.{how}", sample.op));
            std::fs::create_dir_all(&case).unwrap();
            let model = trace.model(&ExportOptions::default().opset(sample.opset()).keep(keep)).unwrap();
            std::fs::write(case.join("model.onnx"), model.encode_to_vec()).unwrap();
            write(&case, "input", &sample.inputs);
            write(&case, "output", &run(&model, &sample.inputs, "reference"));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/tracing/run.py");
    let output = Command::new(&python).arg(script).arg(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}
