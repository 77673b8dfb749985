//! Whisper tiny.en, a model that reads sounds, beside ONNX Runtime. `whisper/make.py` writes the folder that `BB_WHISPER` names.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::TensorData;
use bb_cpu as _;
use bb_generate::{EncoderInput, GenerateOptions, Generator, OpenOptions};
use serde_json::Value as Json;
use std::path::PathBuf;

fn numbers(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap().try_into().unwrap()).collect()
}

/// Both exports, with a merged decoder and with two decoders, produce the tokens of ONNX Runtime and the spoken text.
#[test]
fn a_sound_becomes_the_tokens_of_onnx_runtime() {
    let Some(folder) = std::env::var_os("BB_WHISPER").map(PathBuf::from) else {
        println!("skipped: BB_WHISPER names no folder that generate/tests/whisper/make.py wrote");
        return;
    };
    let read = |name| std::fs::read(folder.join(name)).unwrap();
    let expected: Json = serde_json::from_slice(&read("expected.json")).unwrap();
    let features = TensorData::from_npy(read("features.npy").into()).unwrap();
    let (prompt, tokens) = (numbers(&expected["prompt"]), numbers(&expected["tokens"]));
    for form in ["merged", "two"] {
        let on = bb::backend("cpu").unwrap();
        let generator = Generator::open(folder.join(form), &on, &OpenOptions::default()).unwrap();
        assert_eq!(generator.start(), Some(prompt[0]));
        let mut sequence = generator.sequence_of(EncoderInput::Features(&features)).unwrap();
        let mut options = GenerateOptions::default();
        options.tokens = tokens.len();
        let pieces: Vec<_> = sequence.generate(&prompt, &options).unwrap().map(Result::unwrap).collect();
        let said: Vec<u32> = pieces.iter().map(|piece| piece.token).collect();
        assert_eq!(said, tokens, "{form}");
        let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(
            text, " Ever tried, ever failed. No matter, try again. Fail again. Fail better.",
            "{form}"
        );
    }
}
