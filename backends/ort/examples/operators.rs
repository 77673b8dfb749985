//! Prints what ONNX Runtime passes of ONNX's cases, by operator, as the page `bb/docs/engines.md` has it.

use bb::Runtime;
use bb_engines::report::operators;
use bb_ort::{Ort, OrtStrict};

fn main() -> Result<(), bb_engines::EngineError> {
    // The panics of an engine become errors; what they print would only be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    let alone = Runtime::named("alone", OrtStrict::without_table()?);
    let lowered = Runtime::named("ort", Ort::new()?);
    print!("{}", operators(alone, lowered, None));
    Ok(())
}
