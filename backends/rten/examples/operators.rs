//! Prints what rten passes of ONNX's cases, by operator, as the page `bb/docs/engines.md` has it.

use bb::Runtime;
use bb_engines::report::operators;
use bb_rten::{Rten, RtenPrimitives, RtenStrict};

fn main() -> Result<(), bb_engines::EngineError> {
    // The panics of an engine become errors; what they print would only be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    let alone = Runtime::named("alone", RtenStrict::without_table());
    let lowered = Runtime::named("rten", Rten::new());
    let primitives = Runtime::named("primitives", RtenPrimitives::new());
    print!("{}", operators(alone, lowered, Some(primitives)));
    Ok(())
}
