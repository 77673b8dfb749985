//! Tests that models from strangers run or end with an error that says what is wrong.

use crate::process::{Ended, capped, data, folder, write};

const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// The address space of a process with a hostile model, in KiB.
const MEMORY: usize = 1 << 20;

/// Runs a model on random inputs.
fn run(model: &str, backend: &str) -> Ended {
    capped(MEMORY, &["run", model, "--random", "1", "--backend", backend])
}

#[test]
fn every_file_ends_as_its_list_expects() {
    let list = std::fs::read_to_string(data().join("hostile/list.tsv")).unwrap();
    let mut seen = 0;
    for line in list.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, expected, description] = *fields else { panic!("{line}") };
        let path = data().join("hostile").join(file);
        for backend in BACKENDS {
            let ended = run(path.to_str().unwrap(), backend);
            let code = ended.code();
            match expected {
                "reject" => assert_eq!(code, 1, "{file} on {backend}: {description}\n{}", ended.err),
                "ok-or-reject" => assert!(code <= 1, "{file} on {backend}: {description}\n{}", ended.err),
                other => panic!("the list expects `{other}`"),
            }
            if code == 1 {
                assert!(ended.err.starts_with("error: "), "{file} on {backend}: {}", ended.err);
                assert!(!ended.err.contains("panicked"), "{file} on {backend}: {}", ended.err);
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 30);
}

#[test]
fn models_found_by_fuzzing_are_refused() {
    for file in [
        "extents_beside_zero.onnx",
        "conv_transpose_stride.onnx",
        "conv_transpose_backwards.onnx",
        "pad_least.onnx",
        "roi_align_of_nothing.onnx",
        "qlinear_conv_of_rank_zero.onnx",
        "scan_of_many_nothings.onnx",
        "sequence_of_many_nothings.onnx",
        "lrn_of_many_channels.onnx",
    ] {
        let path = data().join("fuzzed").join(file);
        assert!(path.is_file(), "{file}");
        for backend in BACKENDS {
            let ended = run(path.to_str().unwrap(), backend);
            assert!(matches!(ended.code(), 0 | 1), "{file} on {backend}: {}", ended.err);
            assert!(!ended.err.contains("panicked"), "{file} on {backend}: {}", ended.err);
        }
    }
}

#[test]
fn truncated_and_bit_flipped_models_run_or_are_refused() {
    let whole = std::fs::read(data().join("models/surfaces_gbr/model.onnx")).unwrap();
    let folder = folder("damaged");
    let mut damaged: Vec<Vec<u8>> = (0..40).map(|i| whole[..whole.len() * i / 40].to_vec()).collect();
    // Names and extents are near the beginning and the end of the file, weights between them.
    let places = (0..60).chain(whole.len() - 60..whole.len()).chain((60..whole.len()).step_by(997));
    damaged.extend(places.enumerate().map(|(i, at)| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (i % 8);
        bytes
    }));
    for (i, bytes) in damaged.iter().enumerate() {
        let path = write(&folder, "model.onnx", bytes);
        let ended = run(&path, "cpu");
        assert!(matches!(ended.code(), 0 | 1), "damage {i}: {}{}", ended.status, ended.err);
        assert!(!ended.err.contains("panicked"), "damage {i}: {}", ended.err);
    }
}
