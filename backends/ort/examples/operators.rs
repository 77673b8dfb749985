//! Prints the ONNX test cases that ONNX Runtime passes, by operator, in the format of the page
//! `bb/docs/engines.md`.

use bb::Runtime;
use bb_engines::report::operators;
use bb_ort::{Ort, OrtStrict};

fn main() -> Result<(), bb_engines::EngineError> {
    // Panics of an engine are converted to errors, so suppress their messages.
    std::panic::set_hook(Box::new(|_| {}));
    let alone = Runtime::named("alone", OrtStrict::without_table()?);
    let lowered = Runtime::named("ort", Ort::new()?);
    print!("{}", operators(alone, lowered, None));
    Ok(())
}
