//! Runs ONNX's own test cases of `Cast`, from `data/cast/onnx`.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::convert::{Rounding, cast, decode_table};
use bb_ir::op::RoundMode;
use bb_ir::proto::{ModelProto, TensorProto};
use bb_ir::{DataType, TensorData};
use prost::Message;
use std::path::Path;

/// Runs the case in `folder` and compares bits; all NaNs are equal.
fn run(folder: &Path) {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let tensor = |name| TensorData::from_proto(&TensorProto::decode(&*read(name)).unwrap()).unwrap();
    let model = ModelProto::decode(&*read("model.onnx")).unwrap();
    let node = model.graph.unwrap().node.into_iter().next().unwrap();
    let attribute = |name: &str| node.attribute.iter().find(|a| a.name() == name);
    let to = DataType::from_onnx(attribute("to").unwrap().i() as i32).unwrap();
    let saturate = attribute("saturate").is_none_or(|a| a.i() != 0);
    let mode = attribute("round_mode").map_or("up", |a| std::str::from_utf8(a.s()).unwrap());
    let rounding = Rounding { saturate, mode: RoundMode::from_name(mode).unwrap() };
    let (got, want) = (cast(&tensor("input_0.pb"), to, rounding).unwrap(), tensor("output_0.pb"));
    assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{}", folder.display());
    if to.is_float() || decode_table(to).is_some() {
        let wide = |x| cast(&x, DataType::F64, Rounding::default()).unwrap();
        let (got, want) = (wide(got), wide(want));
        for (g, w) in got.as_slice::<f64>().unwrap().iter().zip(want.as_slice::<f64>().unwrap()) {
            assert!(
                g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan(),
                "{g} for {w}: {}",
                folder.display()
            );
        }
    } else {
        assert_eq!(got, want, "{}", folder.display());
    }
}

#[test]
fn cases_of_onnx_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cast/onnx");
    let mut cases = 0;
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        if folder.is_dir() {
            run(&folder);
            cases += 1;
        }
    }
    assert_eq!(cases, 10);
}
