//! Prints the ONNX test cases that rten passes, by operator, in the format of the page
//! `bb/docs/engines.md`.

use bb::Runtime;
use bb_engines::report::operators;
use bb_rten::{Rten, RtenPrimitives, RtenStrict};

fn main() -> Result<(), bb_engines::EngineError> {
    // Panics of an engine are converted to errors, so suppress their messages.
    std::panic::set_hook(Box::new(|_| {}));
    let alone = Runtime::named("alone", RtenStrict::without_table());
    let lowered = Runtime::named("rten", Rten::new());
    let primitives = Runtime::named("primitives", RtenPrimitives::new());
    print!("{}", operators(alone, lowered, Some(primitives)));
    Ok(())
}
