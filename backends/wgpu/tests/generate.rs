//! Tests language models on the device: logits against the same decoders computed in `f64` by plain loops, and tokens against the CPU
//! backend's.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../../../generate/tests/definition/mod.rs"]
mod definition;
#[path = "../../../generate/tests/tiny/mod.rs"]
mod tiny;

use bb_cpu as _;
use bb_generate::{GenerateOptions, Generator};
use bb_wgpu as _;
use definition::{Definition, File};
use tiny::{Quant, Tiny};

const PROMPT: [u32; 11] = [5, 90, 17, 3, 3, 64, 127, 1, 42, 8, 99];

/// The tolerance allows for sums of a few hundred terms in `f32`, in each layer.
fn check(tiny: &Tiny, name: &str) {
    let file = File::of(tiny, &format!("wgpu-{name}"));
    let expected = Definition::new(tiny).logits(&PROMPT);
    let scale = expected.iter().flatten().fold(0f64, |most, x| most.max(x.abs()));
    let on_device = file.open("wgpu");
    for chunk in [0, 4] {
        let (logits, _) = on_device.sequence().prompt(&PROMPT, chunk).unwrap();
        let expected = &expected[PROMPT.len() - 1];
        assert_eq!(logits.len(), expected.len(), "{name}, chunks of {chunk}");
        for (got, expected) in logits.iter().zip(expected) {
            let error = (f64::from(*got) - expected).abs();
            assert!(error < 1e-4 * scale, "{name}, chunks of {chunk}: {got}, expected {expected}");
        }
    }
    assert_eq!(answer(&on_device), answer(&file.open("cpu")), "{name}");
}

fn answer(generator: &Generator) -> Vec<u32> {
    let mut options = GenerateOptions::default();
    (options.tokens, options.ignore_end) = (24, true);
    let mut sequence = generator.sequence();
    let tokens: Vec<u32> =
        sequence.generate(&PROMPT, &options).unwrap().map(|piece| piece.unwrap().token).collect();
    assert_eq!(tokens.len(), options.tokens);
    tokens
}

#[test]
fn tokens_of_every_format_are_those_of_the_processor() {
    for quant in Quant::ALL {
        check(&Tiny::of(quant), &format!("{quant:?}"));
    }
}

#[test]
fn tokens_of_every_kind_are_those_of_the_processor() {
    let tiny = Tiny { layers: 3, ..Tiny::default() };
    check(&Tiny { tied: false, ..tiny.clone() }, "head");
    check(&Tiny { architecture: "qwen2", biases: true, ..tiny.clone() }, "qwen2");
    check(&Tiny { architecture: "qwen3", head_norms: true, ..tiny.clone() }, "qwen3");
    check(&Tiny { architecture: "gemma", quant: Quant::Q8_0, ..tiny.clone() }, "gemma");
    check(&Tiny { architecture: "smollm3", layers: 5, ..tiny }, "smollm3");
}
