//! Compares sentences with the crate `fastembed`, on the library in `ORT_DYLIB_PATH`. Usage: `fastembed-on-bb FOLDER`, with `model.onnx`
//! and `tokenizer.json` in the folder.

use fastembed::{InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel};

const SENTENCES: [&str; 6] = [
    "A cat sits on the mat.",
    "A kitten rests on a rug.",
    "The stock market fell sharply today.",
    "Shares lost value at the exchange.",
    "How do I change the oil of my car?",
    "",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: fastembed-on-bb FOLDER")?;
    let read = |name: &str| std::fs::read(std::path::Path::new(&folder).join(name));
    let tokenizer_files = TokenizerFiles {
        tokenizer_file: read("tokenizer.json")?,
        config_file: br#"{"pad_token_id": 0}"#.to_vec(),
        special_tokens_map_file: b"{}".to_vec(),
        tokenizer_config_file: br#"{"model_max_length": 256, "pad_token": "[PAD]"}"#.to_vec(),
    };
    let model =
        UserDefinedEmbeddingModel::new(read("model.onnx")?, tokenizer_files).with_pooling(Pooling::Mean);
    let mut model = TextEmbedding::try_new_from_user_defined(model, InitOptionsUserDefined::default())?;
    let vectors = model.embed(SENTENCES, Some(4))?;
    for (at, one) in vectors.iter().enumerate() {
        for (beside, other) in vectors.iter().enumerate().skip(at + 1) {
            let likeness: f32 = one.iter().zip(other).map(|(a, b)| a * b).sum();
            println!("{at} {beside}: {likeness:.4}");
        }
    }
    Ok(())
}
