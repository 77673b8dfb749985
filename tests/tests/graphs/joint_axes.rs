//! Tests that the softmax of opsets before 13, which normalizes several axes together, runs on the kernel of the backend.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::ModelProto;
use bb::{CompileOptions, Module};
use bb_tests::backends;
use bb_tests::model::{model, node, with_int};
use prost::Message;
use std::collections::HashMap;

fn module(op: &str, axis: i64) -> Module {
    let shape: &[i64] = &[2, 2, 2];
    let nodes = vec![with_int(node(op, &["x"], &["y"]), "axis", axis)];
    let mut model = ModelProto::decode(&*model(&[("x", shape)], nodes, &[("y", shape)])).unwrap();
    for opset in model.opset_import.iter_mut().filter(|opset| opset.domain().is_empty()) {
        opset.version = Some(11);
    }
    Module::from_bytes(model.encode_to_vec()).unwrap()
}

#[test]
fn a_softmax_of_several_axes_is_one_native_operation() {
    let x = [1f32, 2., 0., -1., 3., 0.5, -2., 1.];
    for (op, method) in [("Softmax", "softmax"), ("LogSoftmax", "log_softmax")] {
        for (axis, terms) in [(0, 8), (1, 4), (2, 2), (-1, 2)] {
            let on = bb::BackendHandle::new(backends::start("cpu").unwrap());
            let natives = on.runtime().capabilities().families;
            let text = module(op, axis).print_mir_after(&HashMap::new(), &natives, "trace").unwrap();
            assert!(text.contains(&format!(" {method}(")), "{text}");
            assert!(!text.contains("exp("), "{text}");
            let compiled = on.compile(module(op, axis), &CompileOptions::default()).unwrap();
            let y = compiled.run(&[Some(&on.tensor(&[2, 2, 2], &x).unwrap())]).unwrap();
            let y = y[0].to_host(1 << 20).unwrap();
            assert_eq!(y.shape(), [2, 2, 2]);
            for (part, got) in x.chunks(terms).zip(y.as_slice::<f32>().unwrap().chunks(terms)) {
                let sum: f64 = part.iter().map(|&x| f64::from(x).exp()).sum();
                for (x, got) in part.iter().zip(got) {
                    let share = f64::from(*x).exp() / sum;
                    let expected = if op == "Softmax" { share } else { share.ln() };
                    // Four units of the last place of the largest results, which are below 8.
                    assert!(
                        (f64::from(*got) - expected).abs() < 2e-6,
                        "{op} {axis}: {got} is not {expected}"
                    );
                }
            }
        }
    }
}
